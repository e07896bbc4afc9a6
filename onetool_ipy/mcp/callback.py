"""Where a browser brings the answer of a sign-in: to Jupyter Server, to a port of this machine, or
by hand.

Jupyter Server and the kernel are two processes, so the route of the server extension drops the
answer into a `Mailbox`, a folder of the user's state directory. An answer is accepted once, and
only for a `state` that a kernel waits for. A port answers only on its own path, and closes with the
first answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import make_folder, read_own, write_whole
from onetool_ipy.mcp.definition import SIGN_IN_S
from onetool_ipy.render.html import answer_page

CALLBACK_ENV = "ONETOOL_CALLBACK"
"""Set by our Jupyter Server extension for its kernels: the address to which a browser may bring
answers."""

_PATH = "/callback"
_MAX_REQUEST = 16_384
_REQUEST_S = 10.0
_POLL_S = 0.25
_MAX_FIELDS = 20


class CallbackAnswer(NamedTuple):
    """What an authorization server sent by way of the browser; `error` instead of `code` if the
    user said no."""

    code: str = ""
    state: str = ""
    iss: str | None = None
    error: str = ""

    def is_for(self, state: str) -> bool:
        """Whether it answers the sign-in that has this `state`."""
        return bool(state) and hmac.compare_digest(self.state.encode(), state.encode())

    def __repr__(self) -> str:
        return f"CallbackAnswer(error={self.error!r})"


def read_answer(query: str) -> CallbackAnswer | None:
    """Read the query of a call-back. None if it is not one: a field is missing or given twice."""
    try:
        pairs = parse_qsl(query, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return None
    fields = dict(pairs)
    if (
        len(fields) != len(pairs)
        or not fields.get("state")
        or not (fields.get("code") or fields.get("error"))
    ):
        return None
    return CallbackAnswer(
        fields.get("code", ""), fields["state"], fields.get("iss"), fields.get("error", "")
    )


def read_pasted_answer(text: str, redirect_uri: str, state: str) -> CallbackAnswer:
    """Read what a person pasted: the address at which the browser ended, or the code alone."""
    text = text.strip()
    if "://" not in text and "=" not in text and text:
        return CallbackAnswer(text, state)
    query = urlsplit(text).query if "://" in text else text.lstrip("?")
    answer = read_answer(query)
    if answer is None or (
        "://" in text and text.partition("?")[0] != redirect_uri.partition("?")[0]
    ):
        raise UsageProblem(
            "This is not the answer of a sign-in.",
            hint=f"Paste the whole address, which begins with {redirect_uri}",
        )
    if not answer.is_for(state):
        raise UsageProblem(
            "This address belongs to another sign-in.", hint="Paste the address of the last one."
        )
    return answer


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host in ("localhost", "::1") or (
        host.startswith("127.") and host.replace(".", "").isdecimal()
    )


class Mailbox:
    """Answers on their way from Jupyter Server to the kernel that waits for them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def deliver(self, answer: CallbackAnswer) -> bool:
        """Leave an answer for the kernel that waits for it. False if none does, or it has one
        already."""
        waiting, dropped = self._paths(answer.state)
        deadline = read_own(waiting, _MAX_REQUEST)
        try:
            if deadline is None or float(deadline) < time.time():
                return False
            descriptor = os.open(dropped, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except (OSError, ValueError):
            return False
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(answer, file)
        return True

    async def wait(self, state: str) -> CallbackAnswer:
        """Wait for the answer with this `state`."""
        waiting, dropped = self._paths(state)
        make_folder(self._folder)
        self._sweep()
        write_whole(waiting, repr(time.time() + SIGN_IN_S).encode())
        try:
            while True:
                # Another kernel may be writing the file.
                with suppress(ValueError, TypeError):
                    if (data := read_own(dropped, _MAX_REQUEST)) is not None:
                        return CallbackAnswer(*json.loads(data))
                await asyncio.sleep(_POLL_S)
        finally:
            for path in (waiting, dropped):
                with suppress(OSError):
                    os.unlink(path)

    def _sweep(self) -> None:
        """Remove what killed kernels left behind."""
        for path in (*self._folder.glob("*.waiting"), *self._folder.glob("*.answer")):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > SIGN_IN_S:
                    os.unlink(path)

    def _paths(self, state: str) -> tuple[Path, Path]:
        name = hashlib.sha256(state.encode("utf-8", "replace")).hexdigest()[:40]
        return self._folder / f"{name}.waiting", self._folder / f"{name}.answer"


class LoopbackPort:
    """A port of this machine that waits for one answer."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self._state = ""
        self._answer: asyncio.Future[CallbackAnswer] = asyncio.get_running_loop().create_future()

    async def wait(self, state: str) -> CallbackAnswer:
        """Wait for the answer with this `state`."""
        self._state = state
        return await self._answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser."""
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._take(head.decode("latin-1"))
                body = answer_page(text).encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html;"
                    f" charset=utf-8\r\nContent-Length: {len(body)}\r\nCache-Control:"
                    " no-store\r\nReferrer-Policy: no-referrer\r\nConnection:"
                    " close\r\nContent-Security-Policy: default-src 'none'; style-src"
                    " 'unsafe-inline'\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser that brings an answer
        finally:
            writer.close()

    def _take(self, head: str) -> tuple[str, str]:
        words = head.split("\r\n", 1)[0].split(" ")
        target = urlsplit(words[1]) if len(words) == 3 else urlsplit("")
        if words[0] != "GET" or target.path != (urlsplit(self.redirect_uri).path or "/"):
            return "404 Not Found", "There is nothing here."
        answer = read_answer(target.query)
        if answer is None or not answer.is_for(self._state) or self._answer.done():
            return "400 Bad Request", "This sign-in is not known here, or is over."
        self._answer.set_result(answer)
        return "200 OK", "You may close this page and go back to your notebook."


@asynccontextmanager
async def listening_port(fixed: str = "", preferred: str = "") -> AsyncIterator[LoopbackPort]:
    """Listen at a fixed address, else at the preferred one if it is free, else on any port. Raises
    OSError if not."""
    port = LoopbackPort(fixed or preferred)
    try:
        server = await _listen(port, urlsplit(port.redirect_uri).port or 0)
    except OSError:
        if fixed:
            raise
        server = await _listen(port, 0)
    number = server.sockets[0].getsockname()[1]
    if not fixed and urlsplit(preferred).port != number:
        port.redirect_uri = f"http://127.0.0.1:{number}{_PATH}"
    try:
        yield port
    finally:
        server.close()


async def _listen(port: LoopbackPort, number: int) -> asyncio.Server:
    return await asyncio.start_server(port.serve, "127.0.0.1", number, limit=_MAX_REQUEST)
