"""Hand what a running notebook serves to a client on stdio: `onetool-ipy mcp --attach [FOLDER]`.

A notebook that serves nothing yet is asked to, by `kernels`.
`%tool serve` and `onetool-ipy mcp --http` leave a note in the project's state folder, readable by the user alone: the
configuration for a client, with address and token. A note whose server is gone is removed. Messages are passed on as
they are, of either era of the protocol; only the HTTP headers are added that they need.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.shared import inbound
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import read_own

__all__ = ["LOOPBACK", "NOTES", "ServingNote", "attach", "choose_note", "read_note"]

NOTES = "serving"
"""The folder of the notes, in a project's state folder."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The names of this machine that count."""

_MAX_NOTE = 100_000
_DIAL_S = 3.0
_OPEN_S = 30.0


class ServingNote(NamedTuple):
    """Where something serves the tools of a project, and the headers that it wants."""

    url: str
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


def choose_note(state: Path, project: Path, port: int) -> ServingNote | None:
    """Return the note of what serves the project, on `port` if that is not 0; None if nothing does.

    Raises UsageProblem if several do.
    """
    found = [note for file in sorted((state / NOTES).glob("*.json")) if (note := _read(file)) is not None]
    chosen = [note for note in found if port in (0, note.port)]
    if len(chosen) == 1:
        return chosen[0]
    if not found and not port:
        return None
    ports = ", ".join(str(note.port) for note in found)
    said = f"Several serve the tools of '{project}'" if not port else f"Nothing serves '{project}' on port {port}"
    raise UsageProblem(f"{said}; ports: {ports or 'none'}.", hint="Choose one with --port.")


def attach(note: ServingNote) -> None:
    """Pass messages between standard input and output and the server, until either ends."""
    anyio.run(_attach, note)


def read_note(text: str | bytes) -> ServingNote | None:
    """Return the note in a client's configuration; None if it is not one of a server on this machine."""
    try:
        entry = json.loads(text)["mcpServers"]["onetool"]
        note = ServingNote(str(entry["url"]), {str(k): str(v) for k, v in entry.get("headers", {}).items()})
        return note if note.host in LOOPBACK and note.port else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _read(file: Path) -> ServingNote | None:
    """Return a note; None for one that is not the user's own or whose server is gone, which is removed."""
    note = read_note(read_own(file, _MAX_NOTE) or b"")
    if note is None:
        return None
    try:
        socket.create_connection((note.host, note.port), timeout=_DIAL_S).close()
    except OSError:
        with suppress(OSError):
            file.unlink()
        return None
    return note


async def _attach(note: ServingNote) -> None:
    stamps = _HeaderStamps()
    timeout = httpx2.Timeout(_OPEN_S, read=None)
    async with (
        httpx2.AsyncClient(headers=dict(note.headers), timeout=timeout, trust_env=False) as http,
        streamable_http_client(note.url, http_client=http, max_sse_event_size=None) as (from_server, to_server),
        stdio_server() as (from_client, to_client),
        anyio.create_task_group() as tasks,
    ):

        async def send() -> None:
            async for incoming in from_client:
                if isinstance(incoming, SessionMessage):
                    headers = ClientMessageMetadata(headers=stamps.headers(incoming.message))
                    await to_server.send(SessionMessage(incoming.message, headers))
            tasks.cancel_scope.cancel()

        async def receive() -> None:
            async for incoming in from_server:
                if isinstance(incoming, SessionMessage):
                    stamps.learn(incoming.message)
                    await to_client.send(incoming)
            tasks.cancel_scope.cancel()

        tasks.start_soon(send)
        tasks.start_soon(receive)


class _HeaderStamps:
    """The HTTP headers that messages need: what a client on stdio says in the message alone."""

    def __init__(self) -> None:
        self._version = ""
        self._arguments: dict[str, Any] = {}

    def headers(self, message: types.JSONRPCMessage) -> dict[str, str] | None:
        """Return the headers of a message to the server."""
        params: Any = getattr(message, "params", None) or {}
        version = (params.get("_meta") or {}).get(types.PROTOCOL_VERSION_META_KEY)
        method = getattr(message, "method", None)
        if version is None or method is None:
            return {inbound.MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else None
        found = {inbound.MCP_PROTOCOL_VERSION_HEADER: str(version), inbound.MCP_METHOD_HEADER: method}
        name = params.get(inbound.NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            found[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
            if method == "tools/call" and name in self._arguments:
                found |= inbound.mcp_param_headers(self._arguments[name], params.get("arguments") or {})
        return found

    def learn(self, message: types.JSONRPCMessage) -> None:
        """Note the revision that a session agrees on, and which arguments of tools go as headers, too."""
        if not isinstance(message, types.JSONRPCResponse):
            return
        self._version = str(message.result.get("protocolVersion", self._version))
        for tool in message.result.get("tools") or ():
            self._arguments[tool["name"]] = inbound.x_mcp_header_map(tool["inputSchema"])
