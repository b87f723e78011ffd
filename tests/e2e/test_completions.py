# SPDX-License-Identifier: Apache-2.0
"""POST /v1/completions through the official client."""

import pytest

PROMPT = "Once upon a time"


def ask(client, **more):
    return client.completions.create(**{"model": "test", "prompt": PROMPT, "max_tokens": 8, "temperature": 0, **more})


def test_shape(client):
    r = ask(client)
    assert r.object == "text_completion" and r.id.startswith("cmpl-") and r.model == "test"
    assert r.choices[0].logprobs is None and r.choices[0].finish_reason in ("stop", "length")


def test_default_is_16_tokens(server):
    r = server.post("/v1/completions", {"model": "test", "prompt": PROMPT, "ignore_eos": True}).json()
    assert r["usage"]["completion_tokens"] == 16


def test_ids_are_taken_as_they_are(server, client):
    ids = server.post("/tokenize", {"prompt": PROMPT}).json()["tokens"]
    assert ask(client, prompt=ids).choices[0].text == ask(client).choices[0].text
    assert ask(client, prompt=ids).usage.prompt_tokens == len(ids)


def test_many_prompts_and_choices(server, client):
    a, b = ask(client, prompt="The dog").choices[0].text, ask(client, prompt="The cat").choices[0].text
    r = ask(client, prompt=["The dog", "The cat"], n=2)
    assert [c.index for c in r.choices] == [0, 1, 2, 3]
    assert [c.text for c in r.choices] == [a, a, b, b]
    ids = [server.post("/tokenize", {"prompt": p}).json()["tokens"] for p in ("The dog", "The cat")]
    assert [c.text for c in ask(client, prompt=ids).choices] == [a, b]
    assert r.usage.prompt_tokens == sum(len(i) for i in ids)


def test_echo(client):
    r = ask(client, echo=True)
    assert r.choices[0].text == PROMPT + ask(client).choices[0].text


def test_score_a_prompt(server, client):
    """echo with max_tokens 0: one logprob for each prompt token, nothing generated."""
    n = server.post("/tokenize", {"prompt": PROMPT}).json()["count"]
    r = ask(client, echo=True, max_tokens=0, logprobs=1)
    c = r.choices[0]
    assert c.text == PROMPT and c.finish_reason == "length" and r.usage.completion_tokens == 0
    lp = c.logprobs
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset) == n
    assert lp.token_logprobs[0] is None and lp.top_logprobs[0] is None
    assert all(v <= 0 for v in lp.token_logprobs[1:])
    assert lp.text_offset == sorted(lp.text_offset) and lp.text_offset[-1] < len(PROMPT)


def test_max_tokens_zero_without_echo(client):
    r = ask(client, max_tokens=0)
    assert r.choices[0].text == "" and r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 0


def test_logprobs(client):
    r = ask(client, logprobs=2, max_tokens=5, extra_body={"ignore_eos": True})
    lp = r.choices[0].logprobs
    assert len(lp.tokens) == 5 and "".join(lp.tokens) == r.choices[0].text
    for token, value, top in zip(lp.tokens, lp.token_logprobs, lp.top_logprobs):
        assert top[token] == value and 2 <= len(top) <= 3
    offsets, at = [], 0
    for token in lp.tokens:
        offsets.append(at)
        at += len(token)
    assert lp.text_offset == offsets


def test_logprobs_zero_is_the_chosen_one(client):
    lp = ask(client, logprobs=0, max_tokens=2).choices[0].logprobs
    assert all(list(top) == [token] for token, top in zip(lp.tokens, lp.top_logprobs))


def test_echo_offsets_go_on_after_the_prompt(server, client):
    n = server.post("/tokenize", {"prompt": PROMPT}).json()["count"]
    r = ask(client, echo=True, logprobs=1, max_tokens=4, extra_body={"ignore_eos": True})
    lp = r.choices[0].logprobs
    assert len(lp.tokens) == n + 4
    assert lp.text_offset[n] == len(PROMPT)
    assert "".join(lp.tokens[n:]) == r.choices[0].text[len(PROMPT):]


@pytest.mark.parametrize("prompt", ["", None])
def test_empty_prompt(server, prompt):
    r = server.post("/v1/completions", {"model": "test", "prompt": prompt, "max_tokens": 2})
    assert r.status_code == 200 and r.json()["usage"]["prompt_tokens"] == 1


def test_prompt_logprobs(server):
    r = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 1, "prompt_logprobs": 1}).json()
    entries = r["choices"][0]["prompt_logprobs"]
    assert entries[0] is None and len(entries) == r["usage"]["prompt_tokens"]
    assert all(any(v["rank"] == 1 for v in e.values()) for e in entries[1:])


def test_best_of_that_changes_nothing(server):
    for best_of, n in ((None, 1), (0, 1), (1, 1), (2, 2), (1, 2)):
        body = {"model": "test", "prompt": "a", "max_tokens": 1, "n": n, "best_of": best_of}
        assert server.post("/v1/completions", body).status_code == 200


def test_suffix_that_asks_for_nothing(server):
    for suffix in (None, ""):
        assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "suffix": suffix}).status_code == 200


def test_tokenize_and_back(server):
    ids = server.post("/tokenize", {"content": "Hello there"}).json()["tokens"]
    back = server.post("/detokenize", {"tokens": ids}).json()
    assert back["prompt"].strip() == "Hello there" and back["content"] == back["prompt"]
    pieces = server.post("/tokenize", {"content": "Hello", "with_pieces": True}).json()["tokens"]
    assert all(set(p) == {"id", "piece"} for p in pieces)
    strings = server.post("/tokenize", {"prompt": "Hello", "return_token_strs": True}).json()
    assert len(strings["token_strs"]) == strings["count"] and strings["max_model_len"] > 0
