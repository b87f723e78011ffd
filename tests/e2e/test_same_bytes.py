# SPDX-License-Identifier: Apache-2.0
"""The same request gives the same bytes: ids, text and log probabilities, whatever else the server does."""

import concurrent.futures
import json

import pytest

PROMPT = "Once upon a time there was a little girl who lived near the sea. Every morning she walked along the beach and " * 3
BODY = {"model": "test", "prompt": PROMPT, "max_tokens": 24, "temperature": 0.8, "seed": 11, "logprobs": 3, "return_token_ids": True}


def answer(server, **more):
    """What must not change of an answer: text, ids, log probabilities, reason."""
    r = server.post("/v1/completions", {**BODY, **more})
    assert r.status_code == 200, r.text
    c = r.json()["choices"][0]
    return json.dumps([c["text"], c["token_ids"], c["logprobs"], c["finish_reason"]])


def streamed(server):
    r = server.post("/v1/completions", {**BODY, "stream": True})
    out = {"text": "", "ids": [], "logprobs": {}, "reason": None}
    for line in r.text.splitlines():
        if not line.startswith("data: {"):
            continue
        for c in json.loads(line[6:])["choices"]:
            out["text"] += c["text"]
            out["ids"] += c.get("token_ids") or []
            out["reason"] = c["finish_reason"] or out["reason"]
            for k, v in (c["logprobs"] or {}).items():
                out["logprobs"].setdefault(k, []).extend(v)
    return json.dumps([out["text"], out["ids"], out["logprobs"], out["reason"]])


@pytest.fixture(scope="module")
def expected(server):
    """Alone, on an empty namespace: cold."""
    return answer(server, cache_salt="cold")


def test_cold_and_warm(server, expected):
    assert answer(server) == expected
    warm = server.post("/v1/completions", BODY).json()
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == warm["usage"]["prompt_tokens"] - 1
    assert answer(server) == expected
    assert answer(server, cache_prompt=False) == expected


def test_streamed(server, expected):
    assert streamed(server) == expected


def test_among_others(server, expected):
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        others = [pool.submit(server.post, "/v1/completions", {"model": "test", "prompt": PROMPT[: 20 * i + 1] + str(i), "max_tokens": 40,
                                                               "temperature": 1}) for i in range(31)]
        mine = [pool.submit(answer, server, cache_salt=f"s{i}") for i in range(3)]
        assert [m.result() for m in mine] == [expected] * 3
        assert all(o.result().status_code == 200 for o in others)


def test_choice_of_many(server, expected):
    c = server.post("/v1/completions", {**BODY, "n": 4}).json()["choices"]
    assert json.dumps([c[0]["text"], c[0]["token_ids"], c[0]["logprobs"], c[0]["finish_reason"]]) == expected
    assert len({x["text"] for x in c}) > 1


@pytest.mark.parametrize("options", [("--max-num-batched-tokens", "17", "--max-num-seqs", "1"), ("--max-num-batched-tokens", "33", "--max-num-seqs", "1"),
                                     ("--max-num-batched-tokens", "64", "--max-num-seqs", "1"), ("--threads", "1"), ("--threads", "3"),
                                     ("--no-enable-prefix-caching",), ("--block-size", "32")])
def test_chunks_threads_and_blocks(start_server, expected, options):
    assert answer(start_server(*options)) == expected


def test_preempted(start_server):
    # Short prompts with long answers: three are let in, each grows to more than a third of the pool.
    long = {"prompt": "Once upon a time", "max_tokens": 280, "ignore_eos": True}
    alone = answer(start_server(), **long)
    s = start_server("--kv-cache-tokens", "512", "--max-model-len", "512")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda i: answer(s, cache_salt=f"p{i}", **long), range(8)))
    assert got == [alone] * 8
    assert s.metric("vllm:num_preemptions_total") > 0
