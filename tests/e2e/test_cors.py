# SPDX-License-Identifier: Apache-2.0
"""Cross-origin requests: preflights, replies, streams and errors."""

import httpx
import pytest

GOOD = ["http://localhost", "http://localhost:3000", "https://localhost:8443", "http://127.0.0.1:5173", "http://[::1]:80"]
BAD = ["http://localhost.evil.com", "http://evil.com", "http://localhost:", "http://localhost:80x", "http://127.0.0.1.evil.com",
       "null", "http://user@localhost", "ftp://localhost", "http://localhost/", "http://127.0.0.11", "http://localhost:123456"]
WANTED = "authorization,content-type,x-stainless-os,x-stainless-helper-method,x-made-up-tomorrow"


def preflight(server, origin, path="/v1/chat/completions"):
    return httpx.options(server.url + path, headers={"Origin": origin, "Access-Control-Request-Method": "POST",
                                                     "Access-Control-Request-Headers": WANTED})


@pytest.mark.parametrize("origin", GOOD)
def test_loopback_may(server, origin):
    r = preflight(server, origin)
    assert r.status_code == 204 and r.content == b""
    assert r.headers["access-control-allow-origin"] == origin
    assert r.headers["access-control-allow-headers"] == WANTED
    assert "POST" in r.headers["access-control-allow-methods"] and int(r.headers["access-control-max-age"]) > 0
    assert server.get("/v1/models", headers={"Origin": origin}).headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize("origin", BAD)
def test_others_may_not(server, origin):
    assert "access-control-allow-origin" not in preflight(server, origin).headers
    assert "access-control-allow-origin" not in server.get("/v1/models", headers={"Origin": origin}).headers


def test_every_kind_of_reply_has_it(server):
    origin = {"Origin": "http://localhost:3000"}
    stream = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "stream": True}, headers=origin)
    replies = [stream, server.post("/v1/completions", {"prompt": []}, headers=origin), server.get("/nope", headers=origin),
               server.get("/v1/completions", headers=origin), server.post("/v1/completions", {"prompt": "a"}, headers=origin)]
    assert [r.status_code for r in replies] == [200, 400, 404, 405, 200]
    assert all(r.headers["access-control-allow-origin"] == origin["Origin"] for r in replies)


def test_options_everywhere(server):
    for path in ("/", "/health", "/metrics", "/v1/models", "/v1/models/x", "/tokenize", "/nope"):
        assert preflight(server, "http://localhost", path).status_code == 204


def test_listed_origins_and_keys(start_server):
    s = start_server("--cors-origin", "https://chat.example.com", "--api-key", "k", key="k")
    r = preflight(s, "https://chat.example.com")
    assert r.status_code == 204 and r.headers["access-control-allow-origin"] == "https://chat.example.com"
    refused = s.get("/v1/models", headers={"Origin": "https://chat.example.com"})
    assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == "https://chat.example.com"
    assert "access-control-allow-origin" not in preflight(s, "https://chat.example.com.evil.org").headers


def test_star(start_server):
    s = start_server("--cors-origin", "*")
    assert preflight(s, "https://anywhere.example").headers["access-control-allow-origin"] == "*"
