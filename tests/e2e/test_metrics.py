# SPDX-License-Identifier: Apache-2.0
"""/metrics: names and buckets, and counters that equal what clients were told."""

import re

import pytest

NAMES = """num_requests_running num_requests_waiting kv_cache_usage_perc cache_config_info prefix_cache_queries_total
prefix_cache_hits_total num_preemptions_total prompt_tokens_total prompt_tokens_by_source_total prompt_tokens_cached_total
prompt_tokens_recomputed_total generation_tokens_total request_success_total time_to_first_token_seconds
inter_token_latency_seconds request_time_per_output_token_seconds e2e_request_latency_seconds request_queue_time_seconds
request_inference_time_seconds request_prefill_time_seconds request_decode_time_seconds request_prefill_kv_computed_tokens
request_prompt_tokens request_generation_tokens iteration_tokens_total request_max_num_generation_tokens request_params_n
request_params_max_tokens""".split()
TTFT = ".001 .005 .01 .02 .04 .06 .08 .1 .25 .5 .75 1 2.5 5 7.5 10 20 40 80 160 640 2560"


def test_names_and_form(server):
    r = server.get("/metrics")
    assert r.headers["content-type"].startswith("text/plain")
    families = re.findall(r"^# TYPE (\S+) (\S+)$", r.text, re.M)
    assert len(families) == len(dict(families))
    assert {"vllm:" + n for n in NAMES} <= set(dict(families))
    for line in r.text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'[a-z_:0-9A-Z]+(\{([a-z_]+="[^"]*",?)*\})? [-+0-9.eE]+(inf|nan)?', line), line
    assert 'model_name="test"' in r.text
    bounds = re.findall(r'^vllm:time_to_first_token_seconds_bucket\{.*le="([^"]+)"\}', r.text, re.M)
    assert [float(b) for b in bounds] == [float(b) for b in TTFT.split()] + [float("inf")]


def values(server):
    names = ("prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total", "prefix_cache_hits_total",
             "time_to_first_token_seconds_count", "e2e_request_latency_seconds_count", "inter_token_latency_seconds_count")
    out = {n: server.metric("vllm:" + n) for n in names}
    for reason in ("stop", "length", "abort", "error"):
        out[reason] = server.metric("vllm:request_success_total", finished_reason=reason)
    return out


def test_counters_equal_the_usage(server):
    server.wait_idle()
    before = values(server)
    usages = []
    for body in ({"prompt": "Once upon", "max_tokens": 5, "ignore_eos": True}, {"prompt": ["a", "b"], "n": 2, "max_tokens": 3, "ignore_eos": True},
                 {"prompt": "Once upon", "max_tokens": 0}):
        usages.append(server.post("/v1/completions", body).json()["usage"])
    server.wait_idle()
    after = values(server)
    grown = {k: after[k] - before[k] for k in after}
    prompt = sum(u["prompt_tokens"] for u in usages)
    cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
    assert grown["prompt_tokens_total"] == grown["prefix_cache_queries_total"] == prompt
    assert grown["prefix_cache_hits_total"] == cached
    assert grown["generation_tokens_total"] == sum(u["completion_tokens"] for u in usages) == 17
    assert grown["time_to_first_token_seconds_count"] == 3 and grown["e2e_request_latency_seconds_count"] == 4
    assert grown["length"] == 4 and grown["stop"] == grown["abort"] == grown["error"] == 0
    assert grown["inter_token_latency_seconds_count"] == 4 + 4 * 2


def test_refused_requests_count_nothing(server):
    before = server.metric("quire:requests_started_total")
    assert server.post("/v1/completions", {"prompt": []}).status_code == 400
    assert server.metric("quire:requests_started_total") == before


def test_histograms_add_up(server):
    text = server.get("/metrics").text
    counts = {}
    for name, le, v in re.findall(r'^(\S+)_bucket\{.*le="([^"]+)"\} (\d+)$', text, re.M):
        counts.setdefault(name, []).append(int(v))
    for name, c in counts.items():
        assert c == sorted(c)
        assert float(re.search(rf"^{re.escape(name)}_count\{{.*\}} (\S+)$", text, re.M).group(1)) == c[-1]
