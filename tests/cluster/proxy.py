"""A proxy before a real API server that answers wrongly on demand.

It speaks plain HTTP to the client and goes to the server as the owner of a kubeconfig. Faults are rules: the first
that matches a request and is not used up is applied to it.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

_END_TO_END = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
REASONS = {
    403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable",
}  # fmt: skip


@dataclass
class Fault:
    """What happens to requests of a kind."""

    method: str
    path: str
    """Regular expression, looked for in path and query."""
    times: int | None = None
    """To so many requests; None: to all, until it is taken away."""
    status: int = 0
    """Answer this; 0: the server's own answer."""
    message: str = "made up by the test"
    retry_after: int | None = None
    cut: bool = False
    """End the connection: before any answer, or with ``applied`` in the middle of it."""
    applied: bool = False
    """The server does what it was asked for; the client does not hear of it."""
    act: Callable[[], Any] | None = None
    """Called before the request goes on."""
    hits: int = 0


@dataclass(frozen=True)
class Request:
    """A request that came, when (monotonic seconds), and what the client was told (0: nothing)."""

    time: float
    method: str
    path: str
    status: int


@dataclass
class Proxy:
    """The proxy; ``url`` is what clients are given."""

    server: str
    tls: ssl.SSLContext
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, path: str, **more: Any) -> Fault:
        """Add a rule, see :class:`Fault`; it stands behind those that are there."""
        made = Fault(method, path, **more)
        with self._lock:
            self.faults.append(made)
        return made

    def heal(self) -> None:
        """Take all rules away."""
        with self._lock:
            self.faults.clear()

    def seen(self, method: str, path: str) -> list[Request]:
        """Return the requests of a kind, in the order in which they were answered."""
        with self._lock:
            return [each for each in self.requests if each.method == method and re.search(path, each.path)]

    def match(self, method: str, path: str) -> Fault | None:
        """Return the rule for a request, and count it as used."""
        with self._lock:
            for each in self.faults:
                if each.method in (method, "*") and re.search(each.path, path) and each.times != each.hits:
                    each.hits += 1
                    return each
        return None

    def note(self, method: str, path: str, status: int) -> None:
        """Keep what came and what was answered."""
        with self._lock:
            self.requests.append(Request(time.monotonic(), method, path, status))

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        """Return status, content type and body of the server's answer."""
        address = urlsplit(self.server)
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=self.tls, timeout=60)
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type") or "application/json", answer.read()
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True  # a client that was killed

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.proxy.match(self.command, self.path)
        if fault is not None and fault.act is not None:
            fault.act()
        broken = fault is not None and (fault.status or fault.cut)
        answer = None if broken and not fault.applied else self._forward(body)
        if answer is None and not broken:
            return self._cut()  # the server itself is not there
        if broken and fault.cut:
            return self._cut(answer)
        if broken:
            answer = fault.status, "application/json", _status(fault)
        self._write(*answer, retry_after=fault.retry_after if broken else None)
        return None

    def _forward(self, body: bytes) -> tuple[int, str, bytes] | None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _END_TO_END}
        try:
            return self.proxy.forward(self.command, self.path, headers, body)
        except (OSError, http.client.HTTPException):
            return None

    def _write(self, status: int, kind: str, body: bytes, retry_after: int | None) -> None:
        self.proxy.note(self.command, self.path, status)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(body)

    def _cut(self, answer: tuple[int, str, bytes] | None = None) -> None:
        self.proxy.note(self.command, self.path, 0)
        if answer is not None:
            status, kind, body = answer
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _answer  # noqa: N815 - the base class's names

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _status(fault: Fault) -> bytes:
    reason = REASONS.get(fault.status, "Unknown")
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": fault.message}
    return json.dumps(told | {"reason": reason, "code": fault.status}).encode()


@contextmanager
def before(kubeconfig: Path) -> Iterator[Proxy]:
    """Run a proxy before the API server that a kubeconfig of the test cluster names."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    proxy = Proxy(cluster["server"], _tls(cluster, user))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _tls(cluster: dict[str, str], user: dict[str, str]) -> ssl.SSLContext:
    import base64
    import tempfile

    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as pair:  # Python reads certificate and key from files only
        pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
        pair.write(base64.b64decode(user["client-key-data"]))
        pair.flush()
        tls.load_cert_chain(pair.name)
    return tls
