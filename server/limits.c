// SPDX-License-Identifier: Apache-2.0
#include "server/limits.h"

#include "engine/sampling.h"

void limits_default(struct limits *l)
{
	const uint64_t second = 1000000000u;
	*l = (struct limits){
		.max_body_bytes = 32u << 20,
		.max_bodies_bytes = 256u << 20,
		.max_header_bytes = 16u << 10,
		.max_headers = 100,
		.header_timeout_ns = 10 * second,
		.body_timeout_ns = 60 * second,
		.idle_timeout_ns = 60 * second,
		.max_connections = 0,
		.json_depth = 64,
		.json_values = 1u << 20,
		.big_body_bytes = 256u << 10,
		.max_n = 128,
		.max_prompts = 2048,
		.max_messages = 4096,
		.max_stops = 64,
		.max_stop_bytes = 4096,
		.max_stop_ids = 256,
		.max_logprobs = SAMPLING_MAX_LOGPROBS,
		.stream_soft_bytes = 256u << 10,
		.stream_hard_bytes = 4u << 20,
		.stream_stall_ns = 30 * second,
		.heartbeat_ns = 15 * second,
	};
}
