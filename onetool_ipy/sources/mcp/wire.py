"""A server's process as a transport of the official SDK, and the sieve that every message of every transport passes.

The sieve takes the tools out of `tools/list` before the SDK sees them: there one tool that is not as it should be would
cost all, and a schema from outside would be run by a checker that a pattern can hang. They are judged in `listing`, and
the SDK gets the names. Imports mcp: it is itself imported in the loop's thread, when a server starts.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from onetool_ipy.sources.mcp.child import Child

__all__ = ["Sieve", "over_pipes"]

_MARKS_HEADERS = "x-mcp-header"


class Sieve:
    """Notes what is asked for and takes out what the SDK need not see.

    `refused` counts the requests that certainly did not reach the server; `status` is its last HTTP status of an error.
    """

    def __init__(self) -> None:
        self.refused = 0
        self.status = 0
        self.tools: list[Any] = []
        self._asked: set[Any] = set()

    def sent(self, message: Any) -> None:
        """Look at a message on its way out."""
        if getattr(message, "method", None) == "tools/list":
            self._asked.add(message.id)

    def received(self, message: Any) -> None:
        """Look at a message on its way in; the list of tools is kept here, and made harmless there."""
        if not self._asked or getattr(message, "id", None) not in self._asked:
            return
        self._asked.discard(message.id)
        result = getattr(message, "result", None)
        if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return
        found = result["tools"]
        self.tools += found
        result["tools"] = [_harmless(tool) for tool in found if _has_name(tool)]


def _has_name(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _harmless(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    if isinstance(schema, dict) and schema.get("type") == "object" and _MARKS_HEADERS in json.dumps(schema):
        return {"name": tool["name"], "inputSchema": schema}
    return {"name": tool["name"], "inputSchema": {"type": "object"}}


class _Reading:
    """What a server writes, message by message. What is no message is noted and left out."""

    def __init__(self, child: Child, sieve: Sieve) -> None:
        self._child, self._sieve = child, sieve

    async def receive(self) -> Any:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def __anext__(self) -> Any:
        while True:
            line = await self._child.line()
            if line is None:
                raise StopAsyncIteration
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if line.strip() and not self._child.junk:
                    shown = line[:120].decode("utf-8", "replace").strip()
                    self._child.junk = f"It wrote to stdout what is no message: {shown!r}"
                continue
            self._sieve.received(message)
            return SessionMessage(message)

    def __aiter__(self) -> _Reading:
        return self

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> _Reading:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        return None


class _Writing:
    """A server's stdin, message by message."""

    def __init__(self, child: Child, sieve: Sieve) -> None:
        self._child, self._sieve = child, sieve

    async def send(self, item: Any, /) -> None:
        message = item.message
        self._sieve.sent(message)
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
        if not self._child.is_alive():
            self._sieve.refused += 1
            raise anyio.BrokenResourceError
        try:
            await self._child.send(data)
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> _Writing:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        return None


@asynccontextmanager
async def over_pipes(child: Child, sieve: Sieve) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server's process; leaving ends it."""
    try:
        yield _Reading(child, sieve), _Writing(child, sieve)
    finally:
        child.end()
