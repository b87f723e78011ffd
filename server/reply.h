// SPDX-License-Identifier: Apache-2.0
//
// Turns the engine's events into a reply, in both dialects of OpenAI's API: one JSON object, or the chunks of a
// stream. Knows no sockets: what it writes goes into a buffer. Loop thread.
//
// Of a stream: choices of a chat open with their roles in ascending order, every choice gets exactly one finish_reason,
// usage comes last and only when asked for, no chunk has a member "error", an error ends the stream with one event of
// its own.
#ifndef QUIRE_SERVER_REPLY_H
#define QUIRE_SERVER_REPLY_H

#include "server/job.h"

// Gives the job its id and makes its choices. Before the first event.
void reply_begin(struct job *j, int64_t created);

// Takes one event of prompt number `prompt`. Chunks of a stream are appended to out. Sets j->ended when nothing more
// will come: then j->error says whether it failed. A stream that fails before it is committed has written nothing.
void reply_event(struct job *j, int prompt, const struct engine_event *ev, struct buf *out);

// Fails the job from outside, as an event would.
void reply_fail(struct job *j, const struct api_error *e, struct buf *out);

// The whole answer of a job that is not a stream and ended without error.
void reply_write(const struct job *j, struct buf *out);

#endif
