"""A real HTTP server on this machine that answers with what a function says, and keeps what it was
asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, urlsplit

__all__ = ["Asked", "Stub"]


Answer = tuple[int, Any] | tuple[int, Any, Mapping[str, str]]


@dataclass(frozen=True)
class Asked:
    """One request; header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """As it was sent, still percent-encoded."""
        return urlsplit(self.target).path

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.body.decode(), keep_blank_values=True)


@dataclass
class Stub:
    """`with Stub(lambda asked: (200, {"a": 1})) as stub: stub.url("/x")`; a value that is no bytes
    goes as JSON. Headers may come third: `(200, b"hello", {"Content-Type": "text/plain"})`."""

    answer: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, target: str = "/") -> str:
        return f"http://{self.host}{target}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            asked = Asked(self.command, self.path, headers, body)
            stub.asked.append(asked)
            status, value, *more = stub.answer(asked)
            written = (
                value
                if isinstance(value, bytes)
                else b""
                if value is None
                else json.dumps(value).encode()
            )
            self.send_response(status)
            sent = {"Content-Type": "application/json", "Content-Length": str(len(written))}
            for name, text in {**sent, **(more[0] if more else {})}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(b"" if asked.method == "HEAD" else written)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    return Handler
