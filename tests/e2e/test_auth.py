# SPDX-License-Identifier: Apache-2.0
"""API keys."""

import httpx
import openai
import pytest


@pytest.fixture(scope="module")
def locked():
    from conftest import Server
    s = Server("--api-key", "alpha", "--api-key", "beta-long-key", "--admin-key", "root", key="alpha")
    yield s
    s.stop()


def test_without_a_key(locked):
    for path in ("/v1/models", "/metrics", "/nope", "/v1/models/test"):
        r = locked.get(path)
        assert r.status_code == 401 and r.headers["www-authenticate"] == "Bearer"
        e = r.json()["error"]
        assert e["type"] == "authentication_error" and e["code"] == "invalid_api_key" and set(e) == {"message", "type", "param", "code"}
    for path in ("/health", "/ready", "/"):
        assert locked.get(path).status_code == 200
    assert httpx.options(locked.url + "/v1/models").status_code == 204


@pytest.mark.parametrize("headers", [
    {"Authorization": "Bearer alpha"}, {"Authorization": "bearer beta-long-key"}, {"X-Api-Key": "alpha"},
    {"x-api-key": "beta-long-key"}, {"Authorization": "Bearer wrong", "x-api-key": "alpha"}, {"Authorization": "Bearer root"},
])
def test_right_keys(locked, headers):
    assert locked.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [
    {"Authorization": "Bearer alph"}, {"Authorization": "Bearer alphaa"}, {"Authorization": "alpha"},
    {"Authorization": "Basic alpha"}, {"Authorization": "Bearer"}, {"X-Api-Key": ""},
    {"Authorization": "Bearer alphaalpha"}, {"X-Api-Key": "ALPHA"},
])
def test_wrong_keys(locked, headers):
    assert locked.get("/v1/models", headers=headers).status_code == 401


def test_official_client(locked):
    assert locked.client().completions.create(model="test", prompt="a", max_tokens=1).choices
    with pytest.raises(openai.AuthenticationError):
        locked.client(api_key="nope").models.list()


def test_the_body_is_not_kept_for_strangers(locked):
    r = httpx.post(locked.url + "/v1/completions", content=b"x" * 5_000_000)
    assert r.status_code == 401


def test_without_keys_any_is_fine(server):
    for value in ("Bearer undefined", "Bearer null", "Bearer", "Basic x", ""):
        assert server.get("/v1/models", headers={"Authorization": value}).status_code == 200


def test_open_metrics(start_server):
    s = start_server("--api-key", "k", "--open-metrics", key="k")
    assert s.get("/metrics").status_code == 200 and s.get("/v1/models").status_code == 401
