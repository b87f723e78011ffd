// SPDX-License-Identifier: Apache-2.0
#include "server/listen.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	BACKLOG = 4096, // the kernel cuts it to somaxconn
	SEND_BUFFER =
		65536, // inherited by every connection: a client that does not read holds this much of the kernel, not 4 MB
	FILE_LIMIT = 1 << 20,
};

// A socket file that nobody listens to is left over from a crash and may go.
static bool is_stale(const struct sockaddr_un *a)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	bool refused = connect(fd, (const struct sockaddr *)a, sizeof *a) < 0 && errno == ECONNREFUSED;
	close(fd);
	return refused;
}

static int open_unix(const char *path, int *fd, char **unix_path, char *err, size_t len)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (!*path || strlen(path) >= sizeof a.sun_path)
		return err_set(err, len, ERR_INVALID, "--host unix:%s: the path must have 1 to %zu bytes", path,
					   sizeof a.sun_path - 1);
	strcpy(a.sun_path, path);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s >= 0 && access(path, F_OK) == 0 && is_stale(&a))
		unlink(path);
	if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, BACKLOG)) {
		int why = errno;
		if (s >= 0)
			close(s);
		return err_set(err, len, ERR_IO, "--host unix:%s: %s%s", path, strerror(why),
					   why == EADDRINUSE ? "; is another server running? Choose another path" : "");
	}
	*fd = s;
	*unix_path = mem_strdup(path);
	return 0;
}

static int bind_one(const struct addrinfo *a)
{
	int on = 1, size = SEND_BUFFER;
	int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	if (s < 0)
		return -1;
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, BACKLOG) == 0)
		return s;
	int why = errno;
	close(s);
	errno = why;
	return -1;
}

static int port_of(int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof a;
	if (getsockname(fd, (struct sockaddr *)&a, &n))
		return 0;
	if (a.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
	return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

int listen_open(const char *host, int port, int *fd, int *bound, char **unix_path, char *err, size_t len)
{
	*unix_path = NULL;
	*bound = 0;
	if (strncmp(host, "unix:", 5) == 0)
		return open_unix(host + 5, fd, unix_path, err, len);
	if (port < 0 || port > 65535)
		return err_set(err, len, ERR_INVALID, "--port %d: a port is a number from 0 to 65535", port);
	char service[8];
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list;
	snprintf(service, sizeof service, "%d", port);
	int rc = getaddrinfo(host, service, &hints, &list);
	if (rc)
		return err_set(err, len, ERR_INVALID, "--host %s: %s; 127.0.0.1, 0.0.0.0 or :: would work", host,
					   gai_strerror(rc));
	*fd = -1;
	for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next)
		*fd = bind_one(a);
	int why = errno;
	freeaddrinfo(list);
	if (*fd < 0 && why == EADDRINUSE)
		return err_set(err, len, ERR_IO, "%s port %d is in use by another process; choose another one with --port",
					   host, port);
	if (*fd < 0)
		return err_set(err, len, ERR_IO, "cannot listen on %s port %d (--host, --port): %s", host, port, strerror(why));
	*bound = port_of(*fd);
	return 0;
}

char *listen_read_file(const char *path, const char *option, char *err, size_t len)
{
	FILE *f = fopen(path, "rb");
	if (!f) {
		err_set(err, len, ERR_IO, "%s %s: %s", option, path, strerror(errno));
		return NULL;
	}
	char *data = mem_alloc(FILE_LIMIT + 1);
	size_t n = fread(data, 1, FILE_LIMIT + 1, f);
	fclose(f);
	if (!n || n > FILE_LIMIT) {
		err_set(err, len, ERR_INVALID, "%s %s: a PEM file of 1 byte to %d bytes is wanted", option, path, FILE_LIMIT);
		free(data);
		return NULL;
	}
	data[n] = 0;
	return data;
}
