# SPDX-License-Identifier: Apache-2.0
"""Numbers in requests allocate nothing, the queue is bounded, big bodies let small ones pass."""

import threading
import time

import httpx
import pytest

from conftest import LONG


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def test_numbers_that_are_too_large(server):
    before = resident(server)
    for body in ({"max_tokens": 10**18, "ignore_eos": False}, {"n": 10**6}, {"stop": ["x"] * 10**5}, {"logprobs": 10**9},
                 {"top_k": 10**15, "max_tokens": 1}, {"prompt_logprobs": -1}, {"min_tokens": 10**15, "max_tokens": 1},
                 {"prompt": ["a"] * 5000}):
        r = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, **body})
        assert r.status_code in (200, 400), r.text
    assert resident(server) - before < 64 << 20


def test_many_messages(server):
    r = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": ""}] * 5000, "max_tokens": 1})
    assert r.status_code == 400 and r.json()["error"]["param"] == "messages"


def test_queue_full(start_server):
    s = start_server("--max-num-seqs", "1", "--queue-limit", "2")
    held = threading.Event()
    replies = []

    def run():
        try:
            with httpx.stream("POST", s.url + "/v1/completions", json={**LONG, "n": 1, "stream": True, "prompt": "VERYSLOW QUEUED a"},
                              timeout=30) as r:
                replies.append((r.status_code, dict(r.headers)))
                held.wait(10)
        except httpx.HTTPError:
            pass

    threads = [threading.Thread(target=run, daemon=True) for _ in range(24)]
    for t in threads:
        t.start()
    end = time.monotonic() + 10
    while time.monotonic() < end and not any(code == 429 for code, _ in replies):
        time.sleep(0.02)
    full = [h for code, h in replies if code == 429]
    assert full and 1 <= int(full[0]["retry-after"]) <= 60
    assert s.get("/health").status_code == 200 and s.get("/v1/models").status_code == 200
    assert s.metric("quire:requests_rejected_total") >= len(full)
    s.process.kill()
    s.process.wait()
    held.set()


def test_small_requests_pass_big_bodies(server):
    body = b'{"content":"' + b"word " * 400_000 + b'"}'
    stop = threading.Event()

    def upload():
        while not stop.is_set():
            httpx.post(server.url + "/tokenize", content=body, timeout=60)

    threads = [threading.Thread(target=upload, daemon=True) for _ in range(6)]
    for t in threads:
        t.start()
    time.sleep(0.3)
    try:
        for _ in range(10):
            start = time.monotonic()
            assert server.post("/tokenize", {"content": "small"}).status_code == 200
            assert time.monotonic() - start < 2
    finally:
        stop.set()
        for t in threads:
            t.join(30)


def test_json_depth_inside_skipped_fields(server):
    deep = "[" * 5000 + "]" * 5000
    r = httpx.post(server.url + "/v1/completions", content='{"prompt":"a","unknown":' + deep + "}")
    assert r.status_code == 400
    tools = {"type": "object"}
    for _ in range(40):
        tools = {"properties": {"a": tools}}
    r = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": [tools]})
    assert r.status_code == 400
    arguments = "[" * 100000
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    r = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"},
                                                          {"role": "assistant", "content": None, "tool_calls": [call]}]})
    assert r.status_code in (200, 400) and server.alive()
