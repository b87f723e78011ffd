# SPDX-License-Identifier: Apache-2.0
"""The real binary, started on free ports. QUIRE names the binary, QUIRE_TEST_MODEL the model."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import httpx
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("QUIRE") or str(ROOT / "build/quire")
MODEL = os.environ.get("QUIRE_TEST_MODEL") or str(ROOT / "tests/golden/stories260K/stories260K-f16.gguf")


class Server:
    """One running quire. Its standard error is kept for the failure report."""

    def __init__(self, *args, key="unused", scheme="http"):
        self.log = tempfile.TemporaryFile(mode="w+")
        command = [BINARY, "serve", MODEL, "--port", "0", "--served-model-name", "test", *args]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        self.url = None
        self.key = key
        ready = threading.Event()
        threading.Thread(target=self._read, args=(ready, scheme), daemon=True).start()
        if not ready.wait(60) or not self.url:
            self.stop()
            raise RuntimeError("the server did not come up:\n" + self.output())
        self.port = int(self.url.rsplit(":", 1)[1])
        if scheme == "http":
            self._wait_ready()

    def _read(self, ready, scheme):
        for line in self.process.stderr:
            self.log.write(line)
            self.log.flush()
            found = re.search(scheme + r"://\S+:\d+", line)
            if found and not self.url:
                self.url = found.group(0)
                ready.set()
        ready.set()

    def _wait_ready(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                if httpx.get(self.url + "/ready", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.02)
        raise RuntimeError("never ready:\n" + self.output())

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def client(self, **more):
        options = {"base_url": self.url + "/v1", "api_key": self.key, "max_retries": 0, "timeout": 60}
        return openai.OpenAI(**{**options, **more})

    def get(self, path, **more):
        return httpx.get(self.url + path, timeout=30, **more)

    def post(self, path, body, **more):
        return httpx.post(self.url + path, json=body, timeout=60, **more)

    def metric(self, name, **labels):
        """The value of one sample; labels that are not named do not matter."""
        for line in self.get("/metrics").text.splitlines():
            found = re.fullmatch(re.escape(name) + r"(?:\{(.*)\})? (\S+)", line)
            if found and all(f'{k}="{v}"' in (found.group(1) or "") for k, v in labels.items()):
                return float(found.group(2))
        raise KeyError(name)

    def wait_idle(self, seconds=5.0):
        """Until nothing runs or waits; returns how long it took."""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            if self.metric("vllm:num_requests_running") == 0 and self.metric("vllm:num_requests_waiting") == 0:
                return time.monotonic() - start
            time.sleep(0.01)
        raise AssertionError("requests still run")

    def connect(self, timeout=10.0):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def alive(self):
        return self.process.poll() is None and self.get("/health").status_code == 200

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


@pytest.fixture(scope="session")
def server():
    s = Server()
    yield s
    assert s.process.poll() is None, "the server died:\n" + s.output()
    assert s.stop() == 0, s.output()


@pytest.fixture
def start_server():
    started = []

    def start(*args, **more):
        s = Server(*args, **more)
        started.append(s)
        return s

    yield start
    for s in started:
        assert s.stop() in (0, -signal.SIGKILL), s.output()


@pytest.fixture
def client(server):
    return server.client()


# A request that runs for seconds on any model: many choices that do not end by themselves.
LONG = {"model": "test", "prompt": "LONG SLOW Once upon a time", "n": 128, "max_tokens": 400, "ignore_eos": True, "temperature": 1}


def raw(server, data, read=True, timeout=5.0):
    """Sends bytes on a connection of its own and returns everything that comes until it closes or falls silent."""
    with server.connect(timeout) as s:
        s.sendall(data)
        return receive(s) if read else b""


def receive(s):
    out = b""
    try:
        while chunk := s.recv(65536):
            out += chunk
    except (TimeoutError, ConnectionResetError):
        pass
    return out


def read_response(s):
    """One response with a Content-Length, or chunked, from a keep-alive connection: status, headers, body."""
    f = s.makefile("rb")
    status = int(f.readline().split()[1])
    headers = {}
    while line := f.readline().strip():
        k, v = line.decode().split(":", 1)
        headers[k.lower()] = v.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while n := int(f.readline(), 16):
            body += f.read(n)
            f.readline()
        f.readline()
        return status, headers, body
    return status, headers, f.read(int(headers.get("content-length", 0)))


def events(text):
    """The data of a stream's events."""
    return [e[6:] for e in text.split("\n\n") if e.startswith("data: ")]
