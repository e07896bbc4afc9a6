"""A real HTTP server on a loopback socket that behaves as badly as it is told to, and counts who
knocks.

`Loopback` listens on a free port; every path is a behaviour (`_ROUTES`). What waits, waits on
`ended`, so that closing the server lets go of it. `accepts` counts connections at the socket,
`seen` the requests that came over them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

__all__ = ["Loopback", "Seen", "bomb"]

_TICK_S = 0.02


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}


@dataclass
class Loopback:
    """The server; `with Loopback() as server: server.url("/json")`."""

    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    accepts: int = 0
    seen: list[Seen] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    hung_up: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listening = socket.create_server((self.host, 0), family=family, backlog=256)
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # closing alone does not wake who accepts
        self._listening.close()

    def url(self, target: str = "/", *, host: str = "", scheme: str = "") -> str:
        shown = host or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"{scheme or ('https' if self.tls else 'http')}://{shown}:{self.port}{target}"

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            self.accepts += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as stack:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            stack.enter_context(sock)
            reader = stack.enter_context(sock.makefile("rb"))
            while (request := _read(reader)) is not None:
                self.seen.append(request)
                if not _route(request)(_Conn(self, sock), request):
                    return


@dataclass
class _Conn:
    """The open socket of one connection."""

    server: Loopback
    sock: socket.socket

    def reply(
        self, status: int, body: bytes = b"", kind: str = "text/plain", **headers: str
    ) -> bool:
        lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {kind}"] if kind else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return True

    def start(self, **headers: str) -> None:
        """The head of a body that ends when the connection does."""
        lines = ["HTTP/1.1 200 x", "Content-Type: text/plain", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def drip(self, pieces: Iterator[bytes]) -> bool:
        """Send a piece now and then, until the other side is gone."""
        try:
            for piece in pieces:
                self.sock.sendall(piece)
                self.server.begun.set()
                if self.server.ended.wait(_TICK_S):
                    break
        except OSError:
            self.server.hung_up.set()
            raise
        return False


def bomb(size: int) -> bytes:
    """So many zeros, packed."""
    packer = zlib.compressobj(9, wbits=31)
    out = [packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*out, packer.flush()])


def _read(reader: object) -> Seen | None:
    readline, read = reader.readline, reader.read  # type: ignore[attr-defined]
    first = readline().decode("latin-1").split()
    if len(first) != 3:
        return None
    headers: dict[str, str] = {}
    while line := readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Seen(first[0], first[1], headers, read(int(headers.get("content-length", 0))))


_Route = Callable[[_Conn, Seen], bool]


def _route(request: Seen) -> _Route:
    head = "/" + request.path.split("/")[1]
    return _ROUTES.get(head, lambda conn, _: conn.reply(404, b"no such page"))


def _json(conn: _Conn, request: Seen) -> bool:
    return conn.reply(
        200, json.dumps({"path": request.path, "n": [1, 2]}).encode(), "application/json"
    )


def _echo(conn: _Conn, request: Seen) -> bool:
    """Gives back what was sent, as JSON."""
    shown = {
        "method": request.method,
        "headers": request.headers,
        "body": request.body.decode("latin-1"),
    }
    return conn.reply(
        200, json.dumps({**shown, "query": request.query}).encode(), "application/json"
    )


def _status(conn: _Conn, request: Seen) -> bool:
    """`/status/404?body=...&size=...&kind=...`"""
    query = request.query
    body = query.get("body", "x" * int(query.get("size", 0))).encode()
    extra = {"Retry_After": query["after"]} if "after" in query else {}
    return conn.reply(
        int(request.path.rpartition("/")[2]), body, query.get("kind", "text/plain"), **extra
    )


def _flaky(conn: _Conn, request: Seen) -> bool:
    """`/flaky/name?times=2&status=503&after=1`: fails so often, then answers; status 0 hangs up."""
    before = sum(one.path == request.path for one in conn.server.seen) - 1
    if before >= int(request.query.get("times", 1)):
        return conn.reply(200, b"at last")
    status = int(request.query.get("status", 503))
    if status == 0:
        return False
    extra = {"Retry_After": request.query["after"]} if "after" in request.query else {}
    return conn.reply(status, b"not yet", **extra)


def _typed(conn: _Conn, request: Seen) -> bool:
    """`/typed?kind=application/json&body=...`"""
    return conn.reply(200, request.query.get("body", "").encode(), request.query["kind"])


def _redirect(conn: _Conn, request: Seen) -> bool:
    """`/redirect?to=URL&status=302`"""
    return conn.reply(int(request.query.get("status", 302)), b"moved", Location=request.query["to"])


def _loop(conn: _Conn, request: Seen) -> bool:
    return conn.reply(302, Location="/loop")


def _hang(conn: _Conn, request: Seen) -> bool:
    conn.server.begun.set()
    conn.server.ended.wait()
    return False


def _bye(conn: _Conn, request: Seen) -> bool:
    """Answers, and hangs up without having said so; `begun` is set when it has."""
    conn.reply(200, b"bye")
    conn.sock.shutdown(socket.SHUT_RDWR)
    conn.server.begun.set()
    return False


def _drip(conn: _Conn, request: Seen) -> bool:
    conn.start()
    return conn.drip(iter(lambda: b".", None))


def _drip_headers(conn: _Conn, request: Seen) -> bool:
    conn.sock.sendall(b"HTTP/1.1 200 x\r\nX-Slow: ")
    return conn.drip(iter(lambda: b".", None))


def _lines(conn: _Conn, request: Seen) -> bool:
    """`/lines?count=3`: numbered lines, some of them in two pieces, one after another."""
    count = int(request.query.get("count", 3))
    conn.start()
    return conn.drip(piece.encode() for i in range(count) for piece in (f"line {i}: gr", "ü\r\n"))


def _cut(conn: _Conn, request: Seen) -> bool:
    conn.sock.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\nonly this much")
    return False


def _cut_gzip(conn: _Conn, request: Seen) -> bool:
    conn.reply(200, bomb(1 << 20)[:-20], Content_Encoding="gzip")
    return False


def _huge(conn: _Conn, request: Seen) -> bool:
    """Ten gigabytes, as fast as they are taken."""
    conn.start()
    piece = b"x" * 65536
    for _ in range(10 * 1024**3 // len(piece)):
        conn.sock.sendall(piece)
    return False


def _empty_fast(conn: _Conn, request: Seen) -> bool:
    """`/fast/KIND`: sends all the time, and says nothing."""
    kind = request.path.rpartition("/")[2]
    heads = {
        "headers": b"HTTP/1.1 200 x\r\n",
        "interim": b"",
        "extensions": b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n",
        "members": b"HTTP/1.1 200 x\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n",
        "blanks": b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n",
    }
    pieces = {
        "headers": b"X-A: b\r\n",
        "interim": b"HTTP/1.1 103 x\r\nLink: </a>\r\n\r\n",
        "extensions": b"1;x=" + b"y" * 1000 + b"\r\n \r\n",
        "members": _with(31, b""),
        "blanks": b"1\r\n \r\n",
    }
    conn.sock.sendall(heads[kind])
    many = pieces[kind] * max(1, 32768 // len(pieces[kind]))
    while not conn.server.ended.is_set():
        conn.sock.sendall(many)
    return False


def _claims(conn: _Conn, request: Seen) -> bool:
    """Says that ten gigabytes will come."""
    conn.sock.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 10737418240\r\n\r\n")
    conn.server.ended.wait()
    return False


def _bomb(conn: _Conn, request: Seen) -> bool:
    """`/bomb?mb=64&status=200`"""
    packed = bomb(int(request.query.get("mb", 64)) << 20)
    return conn.reply(int(request.query.get("status", 200)), packed, Content_Encoding="gzip")


def _packed(conn: _Conn, request: Seen) -> bool:
    """`/packed/gzip`, `/packed/deflate`, `/packed/raw`, `/packed/two`, `/packed/br`,
    `/packed/damaged`"""
    kind = request.path.rpartition("/")[2]
    text = b"packed text " * 1000
    whole = {"gzip": _with(31, text), "deflate": _with(15, text), "raw": _with(-15, text)}
    body = {
        **whole,
        "two": _with(31, text[:6000]) + _with(31, text[6000:]),
        "damaged": b"\x1f\x8b" + text,
    }
    encoding = {"raw": "deflate", "two": "gzip", "damaged": "gzip"}.get(kind, kind)
    return conn.reply(200, body.get(kind, text), Content_Encoding=encoding)


def _with(bits: int, text: bytes) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(text) + packer.flush()


_ROUTES: dict[str, _Route] = {
    "/json": _json,
    "/echo": _echo,
    "/status": _status,
    "/flaky": _flaky,
    "/typed": _typed,
    "/redirect": _redirect,
    "/loop": _loop,
    "/hang": _hang,
    "/bye": _bye,
    "/drip": _drip,
    "/drip-headers": _drip_headers,
    "/lines": _lines,
    "/cut": _cut,
    "/cut-gzip": _cut_gzip,
    "/huge": _huge,
    "/fast": _empty_fast,
    "/claims": _claims,
    "/bomb": _bomb,
    "/packed": _packed,
}
