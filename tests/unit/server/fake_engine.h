// SPDX-License-Identifier: Apache-2.0
//
// An engine for tests of the server: engine.h's functions over a thread that makes up tokens. Bytes are tokens
// (fake_text.c). The prompt's text steers it: words in capitals below.
//   SLOW      20 ms a token          VERYSLOW  200 ms a token        QUEUED   never admitted: waits until cancelled
//   FAILNOW   FINISH_ERROR at once   FAILLATER FINISH_ERROR after 3 tokens
//   LONG      no end token of its own   HUGE   tokens as fast as they go, with 1 KiB of text each
//   UTF8      an answer of multi-byte characters cut into bytes
//   PREFILL   admitted, then 3 s without a token
// Otherwise the answer is "The answer is 42, of course." followed by the end token.
#ifndef QUIRE_TESTS_FAKE_ENGINE_H
#define QUIRE_TESTS_FAKE_ENGINE_H

enum { FAKE_BOS = 256, FAKE_EOS, FAKE_IM_START, FAKE_IM_END, FAKE_VOCAB = 300 };

#endif
