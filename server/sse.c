// SPDX-License-Identifier: Apache-2.0
#include "server/sse.h"

#include <string.h>

enum { KEEP_BYTES = 16 << 10 }; // memory that an emptied buffer keeps

void sse_begin(struct buf *out)
{
	buf_append(out, "data: ", 6);
}

void sse_end(struct buf *out)
{
	buf_append(out, "\n\n", 2);
}

void sse_init(struct sse *s, uint64_t now_ns)
{
	*s = (struct sse){.progress_ns = now_ns, .written_ns = now_ns};
}

void sse_deinit(struct sse *s)
{
	buf_deinit(&s->out);
	s->sent = 0;
}

size_t sse_pending(const struct sse *s)
{
	return s->out.len - s->sent;
}

void sse_wrote(struct sse *s, size_t pending, uint64_t now_ns)
{
	if (sse_pending(s) == pending)
		return;
	s->written_ns = now_ns;
	if (!pending)
		s->progress_ns = now_ns;
}

size_t sse_take(struct sse *s, char *to, size_t max, uint64_t now_ns)
{
	size_t n = sse_pending(s) < max ? sse_pending(s) : max;
	if (!n)
		return 0;
	memcpy(to, s->out.data + s->sent, n);
	s->sent += n;
	s->progress_ns = now_ns;
	if (s->sent == s->out.len) {
		s->sent = 0;
		if (s->out.cap > KEEP_BYTES)
			buf_deinit(&s->out);
		else
			buf_clear(&s->out);
	} else if (s->sent > s->out.len / 2) { // each byte is moved at most once on average
		buf_consume(&s->out, s->sent);
		s->sent = 0;
	}
	return n;
}

bool sse_heartbeat(struct sse *s, const struct limits *l, uint64_t now_ns)
{
	if (sse_pending(s) || now_ns - s->written_ns < l->heartbeat_ns)
		return false;
	buf_puts(&s->out, ": keep-alive\n\n");
	sse_wrote(s, 0, now_ns);
	return true;
}

enum sse_pressure sse_pressure(const struct sse *s, const struct limits *l, uint64_t now_ns)
{
	size_t n = sse_pending(s);
	if (n > l->stream_hard_bytes || (n && now_ns - s->progress_ns > l->stream_stall_ns))
		return SSE_DROP;
	if (!s->paused && n > l->stream_soft_bytes)
		return SSE_PAUSE;
	if (s->paused && n <= l->stream_soft_bytes / 2)
		return SSE_RESUME;
	return SSE_FLOWS;
}
