// SPDX-License-Identifier: Apache-2.0
//
// The whole server over real sockets with an engine that can be told to fail, to wait and to flood (fake_engine.c).
#include "server/server.h"

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server_options options;
static struct server *server;
static struct engine *engine;
static struct bridge *bridge;
static pthread_t thread;
static bool running;

static void *run(void *arg)
{
	server_run(server);
	return NULL;
}

static void set_up(void)
{
	static const char *const NAMES[] = {"m"};
	log_init(LOG_ERROR, false);
	options = (struct server_options){.served_names = NAMES, .n_served_names = 1, .drain_timeout_ns = 300000000};
	limits_default(&options.limits);
}

static void start(void)
{
	char err[256];
	struct engine_options eo = {.queue_limit = 3};
	bridge = bridge_create();
	ck_assert_int_eq(engine_open(&eo, bridge_on_events, bridge, &engine, err, sizeof err), 0);
	int rc = server_create(&options, engine, bridge, &server, err, sizeof err);
	ck_assert_msg(rc == 0, "%s", err);
	pthread_create(&thread, NULL, run, NULL);
	running = true;
}

// Ends the loop as an operator does.
static void stop(void)
{
	if (!running)
		return;
	running = false;
	kill(getpid(), SIGTERM);
	pthread_join(thread, NULL);
	server_destroy(server);
	engine_close(engine);
	bridge_destroy(bridge);
}

static int dial(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server_port(server))};
	struct timeval timeout = {.tv_sec = 3};
	inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	return fd;
}

static int ask(const char *path, const char *body)
{
	char request[2048];
	int fd = dial(), n = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
								  *body ? "POST" : "GET", path, strlen(body), body);
	ck_assert_int_eq(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
	return fd;
}

// Reads until the text shows up (NULL: until the end); false if it ends, or 3 s pass, before.
static bool read_until(int fd, char *out, size_t len, const char *text)
{
	size_t n = strlen(out);
	while (!text || !strstr(out, text)) {
		ssize_t got = n + 1 < len ? recv(fd, out + n, len - n - 1, 0) : 0;
		if (got <= 0)
			return false;
		n += (size_t)got;
		out[n] = 0;
	}
	return true;
}

static char reply[1 << 16];

static void get(int fd, const char *text)
{
	reply[0] = 0;
	ck_assert_msg(read_until(fd, reply, sizeof reply, text), "no '%s' in: %s", text, reply);
}

static double metric(const char *line)
{
	int fd = ask("/metrics", "");
	get(fd, "process_start_time_seconds 1");
	close(fd);
	char *at = strstr(reply, line);
	ck_assert_msg(at != NULL, "%s", line);
	return strtod(at + strlen(line), NULL);
}

static void wait_idle(double seconds)
{
	uint64_t end = clock_now_ns() + (uint64_t)(seconds * 1e9);
	while (metric("\nvllm:num_requests_running{model_name=\"m\",engine=\"0\"} ") +
			   metric("\nvllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} ") >
		   0)
		ck_assert_msg(clock_now_ns() < end, "still busy");
}

START_TEST(test_failures)
{
	start();
	int fd = ask("/v1/completions", "{\"prompt\":\"FAILNOW\"}");
	get(fd, "server_error");
	ck_assert_ptr_nonnull(strstr(reply, "HTTP/1.1 500"));
	close(fd);
	fd = ask("/v1/completions", "{\"prompt\":\"FAILNOW\",\"stream\":true}");
	get(fd, "server_error");
	ck_assert_ptr_nonnull(strstr(reply, "HTTP/1.1 500")); // before the first chunk an error has its status
	ck_assert_ptr_nonnull(strstr(reply, "application/json"));
	close(fd);
	fd = ask("/v1/completions", "{\"prompt\":\"FAILLATER\"}");
	get(fd, "server_error");
	close(fd);
	fd = ask("/v1/completions", "{\"prompt\":[\"a\",\"FAILLATER\",\"LONG\"],\"max_tokens\":2000}");
	get(fd, "server_error");
	close(fd);
	wait_idle(1);
	stop();
}
END_TEST

// An error in the middle of a stream is its last event; then the stream ends properly and the connection closes.
START_TEST(test_failure_in_a_stream)
{
	start();
	int fd =
		ask("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"FAILLATER\"}],\"stream\":true}");
	uint64_t from = clock_now_ns();
	reply[0] = 0;
	read_until(fd, reply, sizeof reply, NULL);
	ck_assert(clock_now_ns() - from < 1000000000);
	char *error = strstr(reply, "data: {\"error\":{");
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_null(strstr(error + 1, "data: "));
	ck_assert_str_eq(reply + strlen(reply) - 5, "0\r\n\r\n");
	close(fd);
	stop();
}
END_TEST

START_TEST(test_template_error_is_the_clients)
{
	start();
	int fd = ask("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"RAISE\"}]}");
	get(fd, "must alternate");
	ck_assert_ptr_nonnull(strstr(reply, "HTTP/1.1 400"));
	close(fd);
	stop();
}
END_TEST

START_TEST(test_queue_full_and_gone_while_queued)
{
	int fd[3];
	start();
	for (int i = 0; i < 3; i++)
		fd[i] = ask("/v1/completions", i ? "{\"prompt\":\"QUEUED\"}" : "{\"prompt\":\"QUEUED\",\"stream\":true}");
	while (metric("\nvllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} ") < 3)
		;
	int late = ask("/v1/completions", "{\"prompt\":\"a\"}");
	get(late, "rate_limit_error");
	ck_assert_ptr_nonnull(strstr(reply, "HTTP/1.1 429"));
	ck_assert_ptr_nonnull(strstr(reply, "Retry-After: 1"));
	close(late);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	wait_idle(1);
	ck_assert(metric("finished_reason=\"abort\"} ") == 3);
	stop();
}
END_TEST

START_TEST(test_gone_in_prefill)
{
	start();
	for (int stream = 0; stream < 2; stream++) {
		int fd =
			ask("/v1/completions", stream ? "{\"prompt\":\"PREFILL\",\"stream\":true}" : "{\"prompt\":\"PREFILL\"}");
		while (metric("\nvllm:num_requests_running{model_name=\"m\",engine=\"0\"} ") < 1)
			;
		close(fd);
		wait_idle(1);
	}
	stop();
}
END_TEST

// Silence during a long prompt is filled with comments; in the queue it is not, a status may still come.
START_TEST(test_heartbeat)
{
	options.limits.heartbeat_ns = 200000000;
	start();
	int fd = ask("/v1/completions", "{\"prompt\":\"PREFILL\",\"stream\":true}");
	get(fd, ": keep-alive\n\n");
	ck_assert_ptr_nonnull(strstr(reply, "HTTP/1.1 200"));
	ck_assert_ptr_null(strstr(reply, "data:"));
	int queued = ask("/v1/completions", "{\"prompt\":\"QUEUED\",\"stream\":true}");
	get(fd, "[DONE]");
	struct timeval soon = {.tv_usec = 100000};
	setsockopt(queued, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
	reply[0] = 0;
	ck_assert(!read_until(queued, reply, sizeof reply, "HTTP"));
	close(fd);
	close(queued);
	stop();
}
END_TEST

// A client that reads nothing: its sequences pause at the soft limit, so the buffer stays bounded; at the stall limit
// it is dropped.
START_TEST(test_reader_that_stops)
{
	options.limits.stream_stall_ns = 500000000;
	start();
	int fd = ask("/v1/completions", "{\"prompt\":\"HUGE\",\"stream\":true,\"n\":4,\"max_tokens\":4000}");
	int other = ask("/v1/completions", "{\"prompt\":\"a\"}");
	get(other, "The answer");
	close(other);
	wait_idle(3);
	ck_assert(metric("finished_reason=\"abort\"} ") == 1);
	ck_assert(metric("\nvllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} ") < 10000); // of 16,000
	close(fd);
	stop();
}
END_TEST

// One that comes back in time gets every byte.
START_TEST(test_reader_that_is_slow)
{
	static char big[24 << 20];
	start();
	int fd = ask("/v1/completions", "{\"prompt\":\"HUGE\",\"stream\":true,\"n\":2,\"max_tokens\":3000}");
	usleep(500000);
	big[0] = 0;
	size_t n = 0;
	ssize_t got;
	while ((got = recv(fd, big + n, sizeof big - n - 1, 0)) > 0) {
		n += (size_t)got;
		big[n] = 0;
		if (n > 20 && strstr(big + n - 20, "[DONE]"))
			break;
	}
	int chunks = 0;
	for (size_t i = 0; i + 7 < n; i++)
		chunks += big[i] == 'd' && memcmp(big + i, "data: {", 7) == 0;
	ck_assert_int_eq(chunks, 2 * 3000 + 2);
	close(fd);
	wait_idle(1);
	stop();
}
END_TEST

START_TEST(test_utf8_over_pieces)
{
	start();
	int fd = ask("/v1/completions", "{\"prompt\":\"UTF8\",\"max_tokens\":100}");
	get(fd, "finish_reason");
	ck_assert_ptr_nonnull(strstr(reply, "\"text\":\"ďábelské 🌶 客单价\""));
	close(fd);
	for (int n = 1; n < 24; n++) { // cut anywhere, it stays a reply
		char body[96];
		snprintf(body, sizeof body, "{\"prompt\":\"UTF8\",\"max_tokens\":%d}", n);
		fd = ask("/v1/completions", body);
		get(fd, "\"finish_reason\":\"length\"");
		close(fd);
	}
	stop();
}
END_TEST

START_TEST(test_drain_cuts_what_does_not_end)
{
	start();
	int fd = ask("/v1/completions", "{\"prompt\":\"LONG VERYSLOW\",\"stream\":true,\"max_tokens\":1000}");
	int whole = ask("/v1/completions", "{\"prompt\":\"LONG VERYSLOW\",\"max_tokens\":1000}");
	get(fd, "data: {");
	stop();
	reply[0] = 0;
	read_until(fd, reply, sizeof reply, NULL);
	ck_assert_ptr_nonnull(strstr(reply, "data: {\"error\":{\"message\":\"the server is shutting down\""));
	get(whole, "shutting down");
	ck_assert_ptr_nonnull(strstr(reply, "HTTP/1.1 503"));
	close(fd);
	close(whole);
}
END_TEST

START_TEST(test_errors_at_start)
{
	char err[256];
	struct server *second = NULL;
	struct bridge *b = bridge_create();
	start();
	options.port = server_port(server);
	ck_assert_int_eq(server_create(&options, engine, b, &second, err, sizeof err), ERR_IO);
	ck_assert_ptr_nonnull(strstr(err, "--port"));
	options.host = "999.1.1.1";
	ck_assert_int_lt(server_create(&options, engine, b, &second, err, sizeof err), 0);
	ck_assert_ptr_nonnull(strstr(err, "--host"));
	options.host = "127.0.0.1";
	options.tls_cert = "/nonexistent";
	ck_assert_int_lt(server_create(&options, engine, b, &second, err, sizeof err), 0);
	ck_assert_ptr_nonnull(strstr(err, "--tls-key"));
	bridge_destroy(b);
	stop();
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("server");
	TCase *t = tcase_create("server");
	tcase_set_timeout(t, 20);
	tcase_add_checked_fixture(t, set_up, stop);
	tcase_add_test(t, test_failures);
	tcase_add_test(t, test_failure_in_a_stream);
	tcase_add_test(t, test_template_error_is_the_clients);
	tcase_add_test(t, test_queue_full_and_gone_while_queued);
	tcase_add_test(t, test_gone_in_prefill);
	tcase_add_test(t, test_heartbeat);
	tcase_add_test(t, test_reader_that_stops);
	tcase_add_test(t, test_reader_that_is_slow);
	tcase_add_test(t, test_utf8_over_pieces);
	tcase_add_test(t, test_drain_cuts_what_does_not_end);
	tcase_add_test(t, test_errors_at_start);
	suite_add_tcase(s, t);
	return s;
}
