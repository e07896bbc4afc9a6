"""A loopback server that answers each request with the next thing it was told, however bad.

An answer is bytes to send and what to do then: close the connection, or keep it open and say
nothing more. `seen` holds the requests; `hung_up` is set when the other side goes away while the
server keeps the connection open.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

__all__ = ["Answer", "Misbehaving", "Request", "answered", "streamed"]


class Answer(NamedTuple):
    """What is sent, and whether the connection stays open after it."""

    data: bytes
    stays: bool = False


class Request(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: Any


def answered(status: int, body: Any, *, kind: str = "application/json", **headers: str) -> Answer:
    """A whole answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status} x",
        f"Content-Type: {kind}",
        f"Content-Length: {len(data)}",
        "Connection: close",
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Answer("\r\n".join([*lines, "", ""]).encode() + data)


def streamed(
    *pieces: Any, kind: str = "text/event-stream", stays: bool = False, is_cut: bool = False
) -> Answer:
    """A streamed answer: events where `kind` says so, else one line for each piece. A cut one has
    no end."""
    is_sse = kind == "text/event-stream"
    out = (
        b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\nContent-Type: "
        + kind.encode()
        + b"\r\n\r\n"
    )
    for piece in pieces:
        text = piece if isinstance(piece, str) else json.dumps(piece)
        data = (f"data: {text}\n\n" if is_sse else f"{text}\n").encode()
        out += f"{len(data):x}\r\n".encode() + data + b"\r\n"
    return Answer(out if stays or is_cut else out + b"0\r\n\r\n", stays)


class Misbehaving:
    """`with Misbehaving(answer, answer) as server: server.url`; the last answer is given to every
    later request."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers
        self.seen: list[Request] = []
        self.began = threading.Event()
        self.hung_up = threading.Event()

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError, ValueError), sock, sock.makefile("rb") as reader:
            request = _read(reader)
            answer = self.answers[min(len(self.seen), len(self.answers) - 1)]
            self.seen.append(request)
            sock.sendall(answer.data)
            self.began.set()
            if answer.stays:
                with suppress(OSError):
                    sock.recv(1)
                self.hung_up.set()


def _read(reader: Any) -> Request:
    _, path, _ = reader.readline().decode().split()
    headers: dict[str, str] = {}
    while line := reader.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return Request(path, headers, json.loads(body) if body else None)
