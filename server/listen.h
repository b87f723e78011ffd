// SPDX-License-Identifier: Apache-2.0
//
// The listening socket. Start-up only.
#ifndef QUIRE_SERVER_LISTEN_H
#define QUIRE_SERVER_LISTEN_H

#include <stddef.h>

// Binds host:port, or "unix:/path" (then *unix_path is the path, to be freed, and *port 0). *fd listens and does not
// block; *port is the real port. A port in use is ERR_IO naming host, port and option.
int listen_open(const char *host, int port, int *fd, int *bound, char **unix_path, char *err, size_t len);

// Reads a small file whole (PEM). NULL with err filled.
char *listen_read_file(const char *path, const char *option, char *err, size_t len);

#endif
