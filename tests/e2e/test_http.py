# SPDX-License-Identifier: Apache-2.0
"""The HTTP layer by raw sockets: framing, limits, keep-alive, and clients that are broken or mean."""

import json
import socket
import threading
import time

import pytest

from conftest import raw, read_response, receive

BODY = b'{"prompt":"a","max_tokens":1}'


def head(*lines, path=b"/v1/completions", method=b"POST", version=b"HTTP/1.1"):
    return b"\r\n".join([method + b" " + path + b" " + version, *lines, b"", b""])


def post(*more, body=BODY):
    return head(b"Host: x", b"Content-Length: %d" % len(body), *more) + body


def status(reply):
    return int(reply.split()[1])


# --- framing: whatever two readers might understand differently

@pytest.mark.parametrize("lines,code", [
    ([b"Content-Length: 29", b"Content-Length: 30"], 400),
    ([b"Content-Length: 29", b"Transfer-Encoding: chunked"], 400),
    ([b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], 400),
    ([b"Transfer-Encoding: xchunked"], 501),
    ([b"Transfer-Encoding: gzip, chunked"], 501),
    ([b"Transfer-Encoding: identity"], 501),
    ([b"Host: y", b"Content-Length: 29"], 400),
    ([b"Authorization: Bearer a", b"Authorization: Bearer b", b"Content-Length: 29"], 400),
    ([b"Content-Length: -5"], 400),
    ([b"Content-Length: 5x"], 400),
    ([b"Content-Length: 99999999999999999999999"], 400),
])
def test_smuggling(server, lines, code):
    with server.connect(3) as s:
        s.sendall(head(b"Host: x", *lines) + BODY)
        reply = receive(s)  # to the end: the connection must close
    assert status(reply) in (code, 413), reply
    assert server.alive()


def test_host_is_needed_in_1_1_only(server):
    assert status(raw(server, head(method=b"GET", path=b"/health"), timeout=2)) == 400
    assert status(raw(server, head(method=b"GET", path=b"/health", version=b"HTTP/1.0"), timeout=2)) == 200


@pytest.mark.parametrize("path", [b"/health%00x", b"/%00", b"/v1/models/a%00b"])
def test_nul_in_the_path(server, path):
    assert status(raw(server, head(b"Host: x", method=b"GET", path=path), timeout=2)) == 400


@pytest.mark.parametrize("data", [
    b"\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 100, b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\nHost: x\n\n", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    b"\xff\xfe\xfd" * 50 + b"\r\n\r\n", b"GET /" + b"a" * 60000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: \x00\x01\x02\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
])
def test_garbage(server, data):
    raw(server, data, timeout=0.3)
    assert server.alive()


# --- forms that are right

def test_keep_alive_and_pipelining(server):
    with server.connect() as s:
        s.sendall(head(b"Host: x", method=b"GET", path=b"/health") * 3 + post())
        reply = b""
        s.settimeout(5)
        while reply.count(b"HTTP/1.1 200") < 4 or not reply.rstrip().endswith(b"}"):
            chunk = s.recv(65536)
            assert chunk
            reply += chunk
        s.sendall(head(b"Host: x", method=b"GET", path=b"/health"))
        assert read_response(s)[0] == 200


def test_request_after_a_stream(server):
    with server.connect() as s:
        s.sendall(post(body=b'{"prompt":"a","max_tokens":3,"stream":true}'))
        code, headers, body = read_response(s)
        assert code == 200 and body.endswith(b"data: [DONE]\n\n")
        s.sendall(head(b"Host: x", method=b"GET", path=b"/health"))
        assert read_response(s)[0] == 200


def test_connection_survives_an_error(server):
    with server.connect() as s:
        for _ in range(3):
            s.sendall(post(body=b'{"prompt":[]}'))
            assert read_response(s)[0] == 400
            s.sendall(head(b"Host: x", b"Content-Length: 5", path=b"/nope") + b"abcde")
            assert read_response(s)[0] == 404
        s.sendall(post())
        assert read_response(s)[0] == 200


def test_chunked_body(server):
    data = head(b"Host: x", b"Transfer-Encoding: chunked")
    data += b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (BODY[:3], BODY[3:4], BODY[4:])) + b"0\r\n\r\n"
    with server.connect() as s:
        s.sendall(data)
        assert read_response(s)[0] == 200


def test_a_byte_at_a_time(server):
    with server.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for b in post():
            s.sendall(bytes([b]))
        assert read_response(s)[0] == 200


def test_expect_continue(server):
    with server.connect() as s:
        s.sendall(head(b"Host: x", b"Expect: 100-continue", b"Content-Length: %d" % len(BODY)))
        assert s.recv(1000).startswith(b"HTTP/1.1 100")
        s.sendall(BODY)
        assert read_response(s)[0] == 200
    with server.connect() as s:  # refused before the body is asked for
        s.sendall(head(b"Host: x", b"Expect: 100-continue", b"Content-Length: 99999999"))
        assert status(receive(s)) == 413
    with server.connect() as s:
        s.sendall(head(b"Host: x", b"Expect: 100-continue", b"Content-Length: 5", path=b"/nope"))
        assert status(receive(s)) == 404


def test_http_1_0_stream_ends_by_closing(server):
    body = b'{"prompt":"a","max_tokens":2,"stream":true}'
    reply = raw(server, head(b"Content-Length: %d" % len(body), version=b"HTTP/1.0") + body)
    assert b"Transfer-Encoding" not in reply and reply.endswith(b"data: [DONE]\n\n")


def test_head(server):
    with server.connect() as s:
        for path in (b"/", b"/health", b"/v1/models", b"/metrics", b"/ready"):
            s.sendall(head(b"Host: x", method=b"HEAD", path=path))
            s.settimeout(2)
            reply = s.recv(65536)
            assert reply.startswith(b"HTTP/1.1 200") and reply.endswith(b"\r\n\r\n") and b"Content-Length: " in reply
        s.sendall(head(b"Host: x", method=b"HEAD", path=b"/v1/completions"))
        assert b" 405 " in s.recv(65536)
        s.sendall(head(b"Host: x", method=b"GET", path=b"/health"))
        assert read_response(s)[0] == 200


def test_absolute_form_and_star(server):
    assert status(raw(server, head(b"Host: x", b"Connection: close", method=b"GET", path=b"http://x/health"))) == 200
    assert status(raw(server, head(b"Host: x", b"Connection: close", method=b"OPTIONS", path=b"*"))) == 204


def test_missing_or_odd_content_type(server):
    for kind in (b"Content-Type: application/x-www-form-urlencoded", b"Content-Type: application/json; charset=utf-8", b"X: y"):
        with server.connect() as s:
            s.sendall(post(kind))
            assert read_response(s)[0] == 200


def test_body_with_get_and_options(server):
    with server.connect() as s:
        for method, code in ((b"GET", 200), (b"OPTIONS", 204)):
            s.sendall(head(b"Host: x", b"Content-Length: 5", method=method, path=b"/health") + b"abcde")
            assert read_response(s)[0] == code


# --- limits

def test_many_headers(server):
    lines = [b"X-%d: y" % i for i in range(150)]
    assert status(raw(server, head(b"Host: x", *lines, method=b"GET", path=b"/health"), timeout=2)) == 431
    lines = [b"X-%d: y" % i for i in range(90)]
    assert status(raw(server, head(b"Host: x", b"Connection: close", *lines, method=b"GET", path=b"/health"))) == 200


def test_large_headers(server):
    for n in (17000, 40000, 300000):
        assert status(raw(server, head(b"Host: x", b"X: " + b"y" * n, method=b"GET", path=b"/health"), timeout=2)) == 431
    assert server.alive()


def test_body_over_the_limit(start_server):
    s = start_server("--max-body", "64KiB")
    big = b'{"prompt":"' + b"a" * 70000 + b'"}'
    with s.connect() as c:
        c.sendall(post(body=big))
        code, headers, body = read_response(c)
        assert code == 413 and json.loads(body)["error"]["type"] == "invalid_request_error"
    with s.connect() as c:
        c.sendall(head(b"Host: x", b"Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big))
        assert read_response(c)[0] == 413
    with s.connect(3) as c:  # endless: cut
        c.sendall(head(b"Host: x", b"Transfer-Encoding: chunked"))
        with pytest.raises(OSError):
            for _ in range(2000):
                c.sendall(b"1000\r\n" + b"a" * 4096 + b"\r\n")
    assert s.alive()


# --- time

@pytest.fixture(scope="module")
def hasty():
    from conftest import Server
    s = Server("--header-timeout", "1s", "--body-timeout", "1s", "--idle-timeout", "1s")
    yield s
    assert s.stop() == 0


def closes_within(s, seconds):
    s.settimeout(seconds)
    start = time.monotonic()
    try:
        while s.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - start


def test_silence(hasty):
    with hasty.connect() as s:
        assert 0.5 < closes_within(s, 4) < 3


def drip(s, data, stop):
    try:
        for b in data:
            if stop.is_set():
                return
            s.sendall(bytes([b]))
            time.sleep(0.05)
    except OSError:
        pass


@pytest.mark.parametrize("start,rest", [
    (b"", head(b"Host: x", b"X: " + b"y" * 500, method=b"GET", path=b"/health")),
    (head(b"Host: x", b"Content-Length: 500"), b"a" * 500),
    (b"POST /v1/completions HTTP/1.1\r\n", b"X-A: b\r\n" * 100),
])
def test_slowloris(hasty, start, rest):
    """A byte now and then does not keep a request alive past its deadline."""
    with hasty.connect() as s:
        s.sendall(start)
        stop = threading.Event()
        t = threading.Thread(target=drip, args=(s, rest, stop))
        t.start()
        took = closes_within(s, 6)
        stop.set()
        t.join()
    assert took < 4


def test_late_body_is_told(hasty):
    reply = raw(hasty, head(b"Host: x", b"Content-Length: 500") + b"abc", timeout=5)
    assert status(reply) == 408 and json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["message"]


def test_idle_keep_alive_closes(hasty):
    with hasty.connect() as s:
        s.sendall(head(b"Host: x", method=b"GET", path=b"/health"))
        assert read_response(s)[0] == 200
        assert closes_within(s, 6) < 5


def test_health_among_half_open_connections(server):
    sockets = [server.connect() for _ in range(400)]
    try:
        for s in sockets[::2]:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHo")
        for _ in range(5):
            start = time.monotonic()
            assert server.get("/health").status_code == 200
            assert time.monotonic() - start < 0.5
    finally:
        for s in sockets:
            s.close()


def test_connection_limit_recovers(start_server):
    """More connections than allowed wait; when one closes the next is served."""
    s = start_server("--max-connections", "8")
    held = [s.connect() for _ in range(8)]
    time.sleep(0.2)
    with s.connect(5) as late:
        late.sendall(head(b"Host: x", b"Connection: close", method=b"GET", path=b"/health"))
        late.settimeout(0.3)
        with pytest.raises(TimeoutError):
            late.recv(100)
        for c in held[:4]:
            c.close()
        late.settimeout(5)
        assert late.recv(100).startswith(b"HTTP/1.1 200")
    for c in held[4:]:
        c.close()
    assert s.alive()


def test_unix_socket(start_server, tmp_path):
    import subprocess

    import httpx

    from conftest import BINARY, MODEL, ROOT
    path = tmp_path / "q.sock"
    p = subprocess.Popen([BINARY, "serve", MODEL, "--host", f"unix:{path}"], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        client = httpx.Client(transport=httpx.HTTPTransport(uds=str(path), retries=5), base_url="http://x")
        for _ in range(200):
            if path.exists():
                break
            time.sleep(0.05)
        assert client.get("/health").status_code == 200
        client.close()
    finally:
        p.terminate()
        assert p.wait(20) == 0
    assert not path.exists()


def test_port_in_use(server):
    import subprocess

    from conftest import BINARY, MODEL, ROOT
    r = subprocess.run([BINARY, "serve", MODEL, "--port", str(server.port)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1
    assert str(server.port) in r.stderr and "--port" in r.stderr and "127.0.0.1" in r.stderr
