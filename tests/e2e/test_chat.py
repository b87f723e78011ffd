# SPDX-License-Identifier: Apache-2.0
"""POST /v1/chat/completions, not streamed, through the official client."""

import math
import time

import pytest

HELLO = [{"role": "user", "content": "Once upon a time"}]


def ask(client, **more):
    options = {"model": "test", "messages": HELLO, "max_tokens": 8, "temperature": 0}
    return client.chat.completions.create(**{**options, **more})


def test_shape(client):
    r = ask(client)
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-") and r.model == "test"
    assert abs(r.created - time.time()) < 60 and isinstance(r.created, int)
    c = r.choices[0]
    assert c.index == 0 and c.message.role == "assistant" and isinstance(c.message.content, str)
    assert c.finish_reason in ("stop", "length") and c.logprobs is None
    assert "tool_calls" not in c.message.model_dump(exclude_unset=True)
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    assert r.usage.prompt_tokens_details.cached_tokens >= 0
    assert r.usage.prompt_tokens_details.cached_tokens < r.usage.prompt_tokens


def test_length(client):
    r = ask(client, max_tokens=3, extra_body={"ignore_eos": True})
    assert r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 3


def test_max_completion_tokens_wins(client):
    r = ask(client, max_tokens=7, max_completion_tokens=2, extra_body={"ignore_eos": True})
    assert r.usage.completion_tokens == 2


def test_huge_max_tokens_is_clamped(client):
    r = ask(client, max_tokens=2147483647)
    assert r.choices[0].finish_reason in ("stop", "length")
    assert ask(client, max_tokens=None, extra_body={"max_tokens": 10**18}).choices[0].finish_reason in ("stop", "length")


def test_greedy_repeats(client):
    assert ask(client, max_tokens=20).choices[0].message.content == ask(client, max_tokens=20).choices[0].message.content


def test_seed_repeats_and_without_differs(client):
    def text(**more):
        return ask(client, temperature=1.0, max_tokens=24, **more).choices[0].message.content

    assert text(seed=7) == text(seed=7)


def test_n(client):
    r = ask(client, n=3, temperature=1.0, max_tokens=4, extra_body={"ignore_eos": True})
    assert [c.index for c in r.choices] == [0, 1, 2]
    assert r.usage.completion_tokens == 12


def test_choice_zero_of_n_is_the_single_choice(client):
    one = ask(client, temperature=1.0, seed=11, max_tokens=16)
    four = ask(client, temperature=1.0, seed=11, max_tokens=16, n=4)
    assert four.choices[0].message.content == one.choices[0].message.content
    assert four.usage.prompt_tokens == one.usage.prompt_tokens


def test_stop_is_left_out(client):
    whole = ask(client, max_tokens=30).choices[0].message.content
    stop = whole[4:7]
    r = ask(client, max_tokens=30, stop=stop)
    assert r.choices[0].message.content == whole[: whole.index(stop)]
    assert r.choices[0].finish_reason == "stop"
    kept = ask(client, max_tokens=30, stop=[stop], extra_body={"include_stop_str_in_output": True})
    assert kept.choices[0].message.content == whole[: whole.index(stop)] + stop


@pytest.mark.parametrize("stop", [None, [], "", ["", ""]])
def test_empty_stops(client, stop):
    assert ask(client, stop=stop).choices[0].message.content == ask(client).choices[0].message.content


def test_logprobs(client):
    r = ask(client, logprobs=True, top_logprobs=3, max_tokens=6)
    entries = r.choices[0].logprobs.content
    assert len(entries) == r.usage.completion_tokens
    assert r.choices[0].logprobs.refusal is None
    for e in entries:
        assert e.logprob <= 0 and len(e.top_logprobs) == 3
        assert sum(math.exp(t.logprob) for t in e.top_logprobs) <= 1.0001
        ordered = [t.logprob for t in e.top_logprobs]
        assert ordered == sorted(ordered, reverse=True)
        assert e.top_logprobs[0].token == e.token
    joined = b"".join(bytes(e.bytes) for e in entries if e.bytes is not None)
    assert joined.decode(errors="replace").strip() == r.choices[0].message.content.strip()


def test_logprobs_without_alternatives(client):
    r = ask(client, logprobs=True, max_tokens=2)
    assert all(e.top_logprobs == [] for e in r.choices[0].logprobs.content)


def test_logit_bias_rules_the_choice(client):
    r = ask(client, logit_bias={"72": 100}, max_tokens=3, extra_body={"return_token_ids": True, "ignore_eos": True})
    ids = r.choices[0].model_extra["token_ids"]
    assert len(ids) == 3
    assert len(r.model_extra["prompt_token_ids"]) == r.usage.prompt_tokens


def test_everything_that_clients_send_at_once(server):
    """Unknown keys, nulls and neutral values, in the body and inside of messages."""
    body = {
        "model": "test",
        "messages": [{"role": "user", "content": "hi", "id": 7, "opts": {"visible": True}, "name": None}],
        "stop": None, "logit_bias": {}, "user": "", "max_tokens": 4, "n": None, "seed": None, "stream": None,
        "temperature": None, "top_p": None, "functions": None, "function_call": None, "tools": [], "tool_choice": "none",
        "response_format": {"type": "text"}, "stream_options": None, "logprobs": None, "top_logprobs": None,
        "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "prompt_cache_key": "k", "safety_identifier": "s",
        "parallel_tool_calls": True, "modalities": ["text"], "prediction": None, "verbosity": "low", "audio": None,
        "typical_p": 1, "tfs_z": 1, "mirostat": 0, "dry_multiplier": 0, "xtc_threshold": 0.1, "cache_prompt": True,
        "id_slot": -1, "unknown": {"deep": [1, {"er": None}]}, "reasoning_effort": "low", "min_p": 0, "top_k": -1,
    }
    r = server.post("/v1/chat/completions", body)
    assert r.status_code == 200, r.text


def test_whole_numbers_may_have_a_point(server):
    r = server.post("/v1/chat/completions", {"model": "test", "messages": HELLO, "max_tokens": 2.0, "n": 1.0})
    assert r.status_code == 200


@pytest.mark.parametrize("messages", [
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}],
    [{"role": "user", "content": ""}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}, {"role": "user", "content": "b"}],
    [{"role": "user", "content": "a"},
     {"role": "assistant", "content": None,
      "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]},
     {"role": "tool", "tool_call_id": "call_1", "content": "42"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
     {"role": "user", "content": "b"}],
])
def test_messages_in_all_their_forms(server, messages):
    r = server.post("/v1/chat/completions", {"model": "test", "messages": messages, "max_tokens": 2})
    assert r.status_code == 200, r.text


def test_parts_equal_their_joined_text(server):
    def tokens(content):
        body = {"messages": [{"role": "user", "content": content}]}
        return server.post("/tokenize", body).json()["tokens"]

    assert tokens([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]) == tokens("one\ntwo")


def test_without_the_prefix(server):
    r = server.post("/chat/completions", {"model": "test", "messages": HELLO, "max_tokens": 1})
    assert r.status_code == 200
    assert server.post("//v1//chat/completions/?beta=true", {"messages": HELLO, "max_tokens": 1}).status_code == 200


def test_continue_final_message(server):
    messages = HELLO + [{"role": "assistant", "content": "The"}]
    r = server.post("/apply-template", {"messages": messages, "continue_final_message": True})
    assert r.status_code == 200 and r.json()["prompt"].rstrip().endswith("The")


def test_second_time_is_cached(server, client):
    text = [{"role": "user", "content": "The cache remembers this sentence, to the last token but one."}]
    first = ask(client, messages=text)
    second = ask(client, messages=text)
    cached = second.usage.prompt_tokens_details.cached_tokens
    if server.metric("vllm:cache_config_info") and server.get("/v1/models").json()["data"][0]["root"] != "fake":
        assert cached == second.usage.prompt_tokens - 1
    assert first.choices[0].message.content == second.choices[0].message.content
