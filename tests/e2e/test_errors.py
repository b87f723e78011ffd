# SPDX-License-Identifier: Apache-2.0
"""Refusals: status, the four members of the error object, and a message that names the field."""

import httpx
import openai
import pytest

HELLO = [{"role": "user", "content": "hi"}]


def refused(r, status, param=None, code=None):
    assert r.status_code == status, r.text
    assert r.headers["content-type"] == "application/json" and r.headers["x-request-id"] == r.headers["request-id"]
    e = r.json()["error"]
    assert set(e) == {"message", "type", "param", "code"}
    assert e["param"] == param and e["code"] == code and e["message"]
    return e


CHAT_FIELDS = [
    ("temperature", [-0.1, 2.1, "1", True, [1], 1e6]),
    ("top_p", [-1, 1.5, "x"]),
    ("min_p", [-1, 2]),
    ("top_k", [-2, 1.5, "x"]),
    ("n", [0, -1, 129, 1000000, 1.5, "2"]),
    ("max_tokens", [0, -1, 1.5, "5"]),
    ("max_completion_tokens", [0, -7]),
    ("frequency_penalty", [-2.5, 3]),
    ("presence_penalty", [-2.5, 3, "0"]),
    ("repetition_penalty", [0, -1, 11]),
    ("seed", ["x", 1.5, {}]),
    ("stop", [5, [1], {"a": 1}, ["x"] * 65, "y" * 5000]),
    ("stop_token_ids", ["x", [-1], [10**7], [1.5]]),
    ("logit_bias", [[], "1:2", {"AI": 1}, {"-1": 1}, {"1e3": 1}, {"0x10": 1}, {"1099511627776": 1}, {"191222000": -100},
                    {"5": 101}, {"5": -101}, {"5": "1"}, {"": 1}, {" 5": 1}]),
    ("logprobs", [1, "true"]),
    ("stream", [1, "yes"]),
    ("stream_options", [1, "x"]),
    ("response_format", [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "a"}}, {"type": "x"}, "text"]),
    ("tools", [[{"type": "function", "function": {"name": "f"}}]]),
    ("tool_choice", ["required", "x", {"type": "function", "function": {"name": "f"}}]),
    ("functions", [[{"name": "f"}]]),
    ("modalities", [["audio"], ["text", "audio"], "text"]),
    ("audio", [{"voice": "a"}]),
    ("web_search_options", [{"a": 1}]),
    ("grammar", ["root ::= x"]),
    ("guided_json", [{"type": "object"}]),
    ("structured_outputs", [{"regex": "a"}]),
    ("json_schema", [{"type": "object"}]),
    ("chat_template", ["{{ messages }}"]),
    ("chat_template_kwargs", [5, {"chat_template": "x"}]),
    ("messages", [[], None, "hi", {}]),
    ("model", [5]),
    ("priority", ["x", 10**9]),
    ("cache_salt", [5, ""]),
]


@pytest.mark.parametrize("field,values", CHAT_FIELDS, ids=[f for f, _ in CHAT_FIELDS])
def test_chat_field(server, field, values):
    for value in values:
        e = refused(server.post("/v1/chat/completions", {"model": "test", "messages": HELLO, field: value}), 400, field)
        assert field in e["message"] and e["type"] == "invalid_request_error"


def test_top_logprobs_need_logprobs(server):
    for more in ({"top_logprobs": 2}, {"top_logprobs": 2, "logprobs": False}, {"top_logprobs": 21, "logprobs": True}):
        refused(server.post("/v1/chat/completions", {"messages": HELLO, **more}), 400, "top_logprobs")


COMPLETION_FIELDS = [
    ("prompt", [[], [[]], 5, {"a": 1}, [1.5], [-1], [10**7], [[1], [10**7]], ["a", 5], [True]]),
    ("max_tokens", [-1, "x"]),
    ("logprobs", [-1, 21, True, "1"]),
    ("best_of", [2, -1, "x"]),
    ("suffix", [" and so on"]),
    ("echo", [1, "true"]),
    ("prompt_logprobs", [-1, 21]),
    ("use_beam_search", [True]),
]


@pytest.mark.parametrize("field,values", COMPLETION_FIELDS, ids=[f for f, _ in COMPLETION_FIELDS])
def test_completion_field(server, field, values):
    for value in values:
        refused(server.post("/v1/completions", {"model": "test", "prompt": "a", "max_tokens": 1, field: value}), 400, field)


@pytest.mark.parametrize("message,param", [
    ({"content": "a"}, "messages[0].role"),
    ({"role": "robot", "content": "a"}, "messages[0].role"),
    ({"role": "user"}, "messages[0].content"),
    ({"role": "user", "content": None}, "messages[0].content"),
    ({"role": "user", "content": 5}, "messages[0].content"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}, "messages[0].content"),
    ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[0].content"),
    ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content"),
    ({"role": "user", "content": ["a"]}, "messages[0].content"),
    ({"role": "assistant", "content": "a", "tool_calls": "x"}, "messages[0].tool_calls"),
    ({"role": "assistant", "content": "a", "tool_calls": [{"function": {}}]}, "messages[0].tool_calls"),
    ("hello", "messages[0].role"),
])
def test_message(server, message, param):
    e = refused(server.post("/v1/chat/completions", {"messages": [message]}), 400, param)
    if isinstance(message, dict) and isinstance(message.get("content"), list) and "type" in str(message["content"][0]):
        if message["content"][0]["type"] != "text":
            assert message["content"][0]["type"] in e["message"]


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b'"x"', b"null", b'{"messages": [}', b'{"a": NaN}', b'{"a": 1e400}', b'{"a": Infinity}',
    b'{"prompt": "\xff\xfe"}', b'{"prompt": "\xc0\x80"}', b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\\ud800"}',
    b'{"prompt": "a\\u0000b"}', b'{"prompt": "a\x00b"}', b'{"prompt": "a"} trailing', b"{'prompt': 'a'}",
    b'{"a":' * 65 + b"1" + b"}" * 65, b'{"x": ' + b"[" * 100000 + b"]" * 100000 + b"}",
    b'{"x": [' + b"1," * 1100000 + b"1]}", "你好".encode("gbk"),
])
def test_malformed_json(server, data):
    r = httpx.post(server.url + "/v1/completions", content=data, headers={"content-type": "application/json"}, timeout=30)
    e = refused(r, 400)
    assert "\ufffd" not in e["message"]
    assert server.alive()


def test_last_of_equal_keys_wins(server):
    r = httpx.post(server.url + "/v1/completions", content=b'{"prompt":"a","max_tokens":9,"max_tokens":1,"ignore_eos":true}')
    assert r.status_code == 200 and r.json()["usage"]["completion_tokens"] == 1


def test_unknown_model(server, client):
    refused(server.post("/v1/chat/completions", {"model": "gpt-9", "messages": HELLO}), 404, "model", "model_not_found")
    refused(server.get("/v1/models/gpt-9"), 404, "model", "model_not_found")
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-9", messages=HELLO)


def test_too_long_a_prompt(server, client):
    limit = server.get("/v1/models").json()["data"][0]["max_model_len"]
    for stream in (False, True):
        body = {"prompt": [5] * (limit + 1), "stream": stream}
        e = refused(server.post("/v1/completions", body), 400, "prompt", "context_length_exceeded")
        assert str(limit + 1) in e["message"] and str(limit) in e["message"]
    with pytest.raises(openai.BadRequestError) as info:
        client.completions.create(model="test", prompt=[5] * limit)
    assert info.value.code == "context_length_exceeded" and info.value.param == "prompt"
    assert server.post("/v1/completions", {"prompt": [5] * (limit - 1), "max_tokens": 100}).status_code == 200


def test_routes(server):
    refused(server.get("/nope"), 404)
    refused(server.get("/v1/chat/"), 404)
    refused(server.get("/v1/v1/models"), 404)
    r = server.get("/v1/chat/completions")
    refused(r, 405)
    assert "POST" in r.headers["allow"]
    r = server.post("/health", {})
    refused(r, 405)
    assert "GET" in r.headers["allow"]
    assert server.get("/").status_code == 200 and server.get("/health").json() == {"status": "ok"}


def test_models(server, client):
    ids = [m.id for m in client.models.list()]
    assert ids == ["test"]
    entry = server.get("/models").json()["data"][0]
    assert set(entry) >= {"id", "object", "created", "owned_by", "root", "parent", "max_model_len"}
    assert client.models.retrieve("test").id == "test"
    a = server.get("/v1/models?user=x", headers={"anthropic-version": "2023-06-01"}).json()
    assert a["data"][0]["type"] == "model" and a["has_more"] is False and a["first_id"] == "test"


def test_detokenize_refuses(server):
    refused(server.post("/detokenize", {"tokens": [10**7]}), 400, "tokens")
    refused(server.post("/detokenize", {}), 400, "tokens")
    refused(server.post("/tokenize", {}), 400, "prompt")


def test_served_names_with_slashes(start_server):
    s = start_server("--served-model-name", "org/model")
    assert [m["id"] for m in s.get("/v1/models").json()["data"]] == ["test", "org/model"]
    for path in ("/v1/models/org/model", "/v1/models/org%2Fmodel", "/models/org/model"):
        assert s.get(path).json()["id"] == "org/model"
    r = s.post("/v1/completions", {"model": "org/model", "prompt": "a", "max_tokens": 1})
    assert r.status_code == 200


def test_template_of_the_request(start_server):
    s = start_server("--trust-request-chat-template")
    r = s.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 1, "chat_template": "{{ messages[0].content }}"})
    assert r.status_code == 200, r.text
