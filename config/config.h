// SPDX-License-Identifier: Apache-2.0
//
// One table of options. The command line, the environment (QUIRE_MAX_MODEL_LEN), a JSON file (--config), --help and
// its defaults all come from it; the command line wins over the environment, that over the file, that over the default. Start-up only.
#ifndef QUIRE_CONFIG_CONFIG_H
#define QUIRE_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strings { // a list of strings, owned
	char **v;
	size_t n;
};

struct config {
	char *model;
	// Network.
	char *host;
	int64_t port;
	struct strings served_names, api_keys, cors_origins;
	char *api_key_file, *admin_key, *tls_cert, *tls_key;
	bool open_metrics, trust_request_chat_template;
	int64_t drain_timeout_ns, header_timeout_ns, body_timeout_ns, idle_timeout_ns;
	int64_t max_body_bytes, max_connections;
	// Engine.
	char *backend, *isa, *kv_dtype, *chat_template;
	int64_t threads, max_model_len, max_seqs, max_batched_tokens, block_tokens;
	int64_t kv_cache_bytes, kv_cache_tokens;
	double memory_utilization;
	bool prefix_caching;
	int64_t queue_limit, queue_timeout_ns, request_timeout_ns, target_itl_ns;
	// Logging.
	char *log_level, *log_format;
};

// Reads argv[0 … argc) (without the program's and the command's name), the environment and the file that --config names.
// ERR_INVALID names the option and the value that would work.
int config_read(struct config *c, int argc, char *const *argv, char *err, size_t len);
void config_deinit(struct config *c);

// The help text of `quire serve`: one line an option, with its default, to standard output.
void config_print_help(void);

#endif
