# SPDX-License-Identifier: Apache-2.0
"""Streams: the order and shape of chunks, equality with the answer that is not streamed."""

import asyncio
import json

import httpx
import openai
import pytest

from conftest import events

HELLO = [{"role": "user", "content": "Once upon a time"}]


def stream(server, path, body):
    """All chunks of a stream, after a look at its frame."""
    r = server.post(path, {"model": "test", "stream": True, **body})
    assert r.status_code == 200, r.text
    assert r.headers["content-type"].startswith("text/event-stream")
    assert r.headers["cache-control"] == "no-cache" and r.headers["x-accel-buffering"] == "no"
    assert r.text.endswith("data: [DONE]\n\n")
    assert all(e.startswith(("data: ", ": ")) and "\n" not in e for e in r.text.split("\n\n") if e)
    chunks = [json.loads(e) for e in events(r.text)[:-1]]
    assert all("error" not in c for c in chunks)
    for key in ("id", "created", "model", "object", "system_fingerprint"):
        assert len({c[key] for c in chunks}) == 1
    return chunks


def test_chat_order(server):
    chunks = stream(server, "/v1/chat/completions", {"messages": HELLO, "max_tokens": 6, "temperature": 0})
    assert chunks[0]["object"] == "chat.completion.chunk"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all("role" not in c["choices"][0]["delta"] for c in chunks[1:])
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")
    assert all(c["choices"][0]["finish_reason"] is None for c in chunks[:-1])
    assert all("usage" not in c for c in chunks)


@pytest.mark.parametrize("n", [1, 3])
def test_chat_equals_the_whole_answer(server, n):
    body = {"model": "test", "messages": HELLO, "max_tokens": 40, "temperature": 1, "seed": 5, "n": n, "logprobs": True,
            "top_logprobs": 2}
    whole = server.post("/v1/chat/completions", body).json()
    chunks = stream(server, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
    assert chunks[-1]["choices"] == []
    usage, again = whole["usage"], chunks[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (again["prompt_tokens"], again["completion_tokens"])
    assert all(c["usage"] is None for c in chunks[:-1])
    assert [c["choices"][0]["index"] for c in chunks[:n]] == list(range(n))
    for choice in whole["choices"]:
        own = [c["choices"][0] for c in chunks[:-1] if c["choices"][0]["index"] == choice["index"]]
        assert "".join(c["delta"].get("content", "") for c in own) == choice["message"]["content"]
        entries = [e for c in own if c["logprobs"] for e in c["logprobs"]["content"]]
        assert entries == choice["logprobs"]["content"]
        assert [c["finish_reason"] for c in own if c["finish_reason"]] == [choice["finish_reason"]]


def test_stop_string_never_shows(server):
    body = {"messages": HELLO, "max_tokens": 40, "temperature": 0}
    whole = server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"]
    stop = whole[5:9]
    chunks = stream(server, "/v1/chat/completions", {**body, "stop": [stop]})
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
    assert text == whole[: whole.index(stop)]


@pytest.mark.parametrize("echo", [False, True])
def test_completions_equal_the_whole_answer(server, echo):
    body = {"model": "test", "prompt": ["Once upon", "The dog"], "n": 2, "max_tokens": 12, "temperature": 1, "seed": 3,
            "logprobs": 2, "echo": echo}
    whole = server.post("/v1/completions", body).json()
    chunks = stream(server, "/v1/completions", body)
    assert all(c["object"] == "text_completion" for c in chunks)
    for choice in whole["choices"]:
        own = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == choice["index"]]
        assert "".join(c["text"] for c in own) == choice["text"]
        for part in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            joined = [v for c in own if c["logprobs"] for v in c["logprobs"][part]]
            assert joined == choice["logprobs"][part]
        assert [c["finish_reason"] for c in own if c["finish_reason"]] == [choice["finish_reason"]]


def test_token_ids(server):
    body = {"model": "test", "messages": HELLO, "max_tokens": 6, "temperature": 0, "return_token_ids": True}
    whole = server.post("/v1/chat/completions", body).json()
    chunks = stream(server, "/v1/chat/completions", body)
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert [i for c in chunks for i in c["choices"][0].get("token_ids", [])] == whole["choices"][0]["token_ids"]


def test_stream_options_without_stream(server):
    r = server.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 1, "stream_options": {"include_usage": True}})
    assert r.status_code == 200 and r.headers["content-type"] == "application/json"


def test_openai_stream_helper(client):
    with client.chat.completions.stream(model="test", messages=HELLO, max_tokens=12, n=3, seed=1, logprobs=True,
                                        stream_options={"include_usage": True}) as s:
        for _ in s:
            pass
        done = s.current_completion_snapshot
    assert len(done.choices) == 3 and done.usage.completion_tokens > 0
    assert all(c.message.role == "assistant" and c.finish_reason for c in done.choices)


def test_openai_completion_stream(client):
    parts = list(client.completions.create(model="test", prompt="Once", max_tokens=8, stream=True))
    assert parts[-1].choices[0].finish_reason in ("stop", "length")


def test_64_at_once(server):
    """The async client, 64 streams of differing prompts: each equals its own answer alone."""
    prompts = [f"Once upon a time there were {i} friends" for i in range(64)]

    async def one(client, prompt):
        text = ""
        async for part in await client.completions.create(model="test", prompt=prompt, max_tokens=24, temperature=0,
                                                          stream=True):
            text += part.choices[0].text
        return text

    async def everything():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="k", max_retries=0, timeout=120) as client:
            return await asyncio.gather(*(one(client, p) for p in prompts))

    together = asyncio.run(everything())
    for i in range(0, 64, 9):
        alone = server.post("/v1/completions", {"prompt": prompts[i], "max_tokens": 24, "temperature": 0}).json()
        assert alone["choices"][0]["text"] == together[i]
    assert server.wait_idle() < 5


def test_accept_header_is_not_looked_at(server):
    with httpx.stream("POST", server.url + "/v1/completions", headers={"Accept": "application/json"},
                      json={"prompt": "a", "max_tokens": 2, "stream": True}) as r:
        assert r.headers["content-type"].startswith("text/event-stream")
        r.read()
