# SPDX-License-Identifier: Apache-2.0
"""TLS by --tls-cert and --tls-key, with a certificate made here."""

import socket
import ssl
import subprocess
import time

import httpx
import openai
import pytest

from conftest import BINARY, MODEL, ROOT, LONG, Server


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    d = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", d / "key.pem",
                    "-out", d / "cert.pem"], check=True, capture_output=True)
    s = Server("--tls-cert", str(d / "cert.pem"), "--tls-key", str(d / "key.pem"), scheme="https")
    s.cert = str(d / "cert.pem")
    yield s
    assert s.stop() == 0


def context(tls):
    return ssl.create_default_context(cafile=tls.cert)


def test_client(tls):
    with httpx.Client(verify=context(tls)) as h:
        client = openai.OpenAI(base_url=tls.url + "/v1", api_key="k", http_client=h, max_retries=0)
        assert client.completions.create(model="test", prompt="a", max_tokens=2).choices
        parts = list(client.completions.create(model="test", prompt="a", max_tokens=4, stream=True))
        assert parts[-1].choices[0].finish_reason


def test_curl(tls):
    r = subprocess.run(["curl", "-sSN", "--cacert", tls.cert, tls.url + "/v1/completions", "-d",
                        '{"prompt":"a","max_tokens":2,"stream":true}'], capture_output=True, text=True, timeout=20)
    assert r.returncode == 0 and r.stdout.endswith("data: [DONE]\n\n"), r.stderr


def test_plain_http_on_the_tls_port(tls):
    with tls.connect(3) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            s.recv(1000)
        except OSError:
            pass
    assert httpx.get(tls.url + "/health", verify=context(tls)).status_code == 200


def test_disconnect(tls):
    with httpx.Client(verify=context(tls)) as h:
        with h.stream("POST", tls.url + "/v1/completions", json={**LONG, "stream": True}) as r:
            next(r.iter_lines())
        end = time.monotonic() + 2
        while time.monotonic() < end and 'vllm:num_requests_running{model_name="test",engine="0"} 0' not in h.get(tls.url + "/metrics").text:
            time.sleep(0.02)
        assert 'vllm:num_requests_running{model_name="test",engine="0"} 0' in h.get(tls.url + "/metrics").text


def test_half_a_handshake_does_not_spin(tls):
    """A client that stops in the middle of its first message must not keep a core busy."""
    sockets = []
    for _ in range(5):
        s = socket.create_connection(("127.0.0.1", tls.port))
        s.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 20)
        sockets.append(s)

    def cpu():
        with open(f"/proc/{tls.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    time.sleep(0.2)
    before = cpu()
    time.sleep(1)
    assert cpu() - before < 0.5
    for s in sockets:
        s.close()


def test_bad_files(tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("not a certificate")
    for args in (["--tls-cert", str(bad)], ["--tls-cert", str(bad), "--tls-key", str(bad)],
                 ["--tls-cert", str(tmp_path / "none"), "--tls-key", str(bad)]):
        r = subprocess.run([BINARY, "serve", MODEL, "--port", "0", *args], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert r.returncode != 0 and "--tls-" in r.stderr
