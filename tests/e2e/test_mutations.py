# SPDX-License-Identifier: Apache-2.0
"""Requests broken at random, the same way every time: the server answers or closes, and lives."""

import random
import socket

BODY = b'{"model":"test","messages":[{"role":"user","content":"hi"}],"max_tokens":2,"temperature":0,"stream":true}'
SEEDS = [
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n"
    b'{"prompt":"a","max_tokens":1}\r\n0\r\n\r\n',
    b"GET /v1/models/test HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost\r\nConnection: close\r\n\r\n",
    b"OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost:1\r\nAccess-Control-Request-Headers: a,b\r\n\r\n",
    b"POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n" b'{"content":"a"}',
]
PIECES = [b"\r\n", b"\n", b"\r", b"\x00", b"%00", b":", b" ", b"\t", b"/", b"//", b"?", b"#", b"\xff", b"-1", b"99999999999999999999",
          b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.0", b"{", b"}", b"[", b'"', b"\\ud800", b"null", b"1e400"]


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[at:at] = rng.choice(PIECES)
        elif kind == 1:
            del data[at:at + rng.randint(1, 20)]
        elif kind == 2 and at < len(data):
            data[at] = rng.randrange(256)
        else:
            end = min(len(data), at + rng.randint(1, 60))
            data[at:at] = data[at:end]
        if not data:
            data = bytearray(b"G")
    return bytes(data)


def test_broken_requests(server):
    rng = random.Random(5)
    open_sockets = []
    for i in range(1500):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=2)
        try:
            data = mutate(rng, rng.choice(SEEDS))
            cut = rng.randrange(len(data) + 1)
            s.sendall(data[:cut])
            if rng.random() < 0.7:
                s.sendall(data[cut:])
            if rng.random() < 0.2:
                s.setblocking(False)
                s.recv(4096)
        except OSError:
            pass
        open_sockets.append(s)
        if len(open_sockets) > 50:
            open_sockets.pop(rng.randrange(50)).close()
    for s in open_sockets:
        s.close()
    assert server.wait_idle() < 2
    assert server.alive()
