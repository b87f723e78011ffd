# SPDX-License-Identifier: Apache-2.0
"""Clients that leave: everything they asked for stops within a second, wherever it is. And the server's own leaving."""

import json
import signal
import socket
import struct
import threading
import time

import httpx
import pytest

from conftest import LONG, receive


def send(server, body, path="/v1/completions"):
    s = server.connect()
    data = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    return s


def wait_running(server, n=1):
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") >= n:
            return
        time.sleep(0.005)
    raise AssertionError("it never started")


def leave(s, how):
    if how == "rst":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half":
        s.shutdown(socket.SHUT_WR)
    else:
        s.close()


@pytest.mark.parametrize("how", ["fin", "rst", "half"])
@pytest.mark.parametrize("stream", [False, True])
def test_gone_while_it_decodes(server, stream, how):
    server.wait_idle()
    aborted = server.metric("vllm:request_success_total", finished_reason="abort")
    s = send(server, {**LONG, "stream": stream})
    if stream:
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    wait_running(server)
    leave(s, how)
    assert server.wait_idle() < 1.0
    assert server.metric("vllm:request_success_total", finished_reason="abort") == aborted + 1
    s.close()


def test_gone_while_it_waits(start_server):
    server = start_server("--max-num-seqs", "1")
    first = send(server, {**LONG, "stream": True})
    assert first.recv(100)
    waiting = [send(server, {**LONG, "stream": i % 2 == 0}) for i in range(4)]
    wait_running(server, 5)
    for s in waiting:
        s.close()
    end = time.monotonic() + 1
    while server.metric("vllm:num_requests_waiting") + server.metric("vllm:num_requests_running") > 1 and time.monotonic() < end:
        time.sleep(0.01)
    left = server.metric("vllm:num_requests_waiting") + server.metric("vllm:num_requests_running")
    assert left <= 1
    first.close()
    assert server.wait_idle() < 1


def test_gone_while_many_prompts_run(server):
    s = send(server, {**LONG, "prompt": ["LONG SLOW a", "LONG SLOW b", "LONG SLOW c"], "n": 40})
    wait_running(server, 3)
    s.close()
    assert server.wait_idle() < 1.5


def test_gone_while_the_body_is_parsed(server):
    for _ in range(5):
        s = server.connect()
        body = b'{"content":"' + b"word " * 200_000 + b'"}'
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        s.close()
    assert server.alive()


def test_slow_reader_does_not_hurt_others(server):
    slow = send(server, {**LONG, "stream": True, "logprobs": 5})
    time.sleep(0.2)
    r = server.post("/v1/completions", {"prompt": "a", "max_tokens": 8})
    assert r.status_code == 200
    slow.close()
    assert server.wait_idle() < 1.5


def test_a_quarter_leaves(server):
    """64 streams, every fourth client leaves early; the others get all their tokens and nothing is left behind."""
    results = {}

    def one(i):
        body = {"prompt": f"Once upon a time number {i}", "max_tokens": 40, "temperature": 0, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=60) as r:
            n = 0
            for line in r.iter_lines():
                if line.startswith("data: {"):
                    n += 1
                    if i % 4 == 0 and n == 3:
                        return
                if line == "data: [DONE]":
                    results[i] = n

    threads = [threading.Thread(target=one, args=(i,)) for i in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert sorted(results) == [i for i in range(64) if i % 4]
    assert server.wait_idle() < 1.5
    counted = [server.metric("vllm:request_success_total", finished_reason=r) for r in ("stop", "length", "abort", "error")]
    assert server.metric("quire:requests_started_total") == sum(counted)


def test_drain(start_server):
    server = start_server()
    s = send(server, {**LONG, "n": 4, "max_tokens": 40, "stream": True})
    first = s.recv(100)
    assert first.startswith(b"HTTP/1.1 200")
    with httpx.Client(base_url=server.url) as kept:
        assert kept.get("/ready").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.15)
        if server.process.poll() is None:
            assert kept.get("/ready").status_code == 503
            assert kept.get("/health").status_code == 200
            refused = kept.post("/v1/completions", json={"prompt": "a"})
            assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
    assert receive(s).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert server.process.wait(10) == 0


def test_drain_has_an_end(start_server):
    server = start_server("--drain-timeout", "500ms")
    s = send(server, {**LONG, "stream": True})
    s.settimeout(10)
    assert s.recv(100)
    server.process.send_signal(signal.SIGTERM)
    rest = receive(s)
    assert b'"error":{' in rest and b"[DONE]" not in rest
    assert server.process.wait(5) == 0


def test_second_signal_ends_at_once(start_server):
    server = start_server()
    s = send(server, {**LONG, "stream": True})
    assert s.recv(100)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(5) == 0
    s.close()
