"""The pipes of a server's process as the two streams of the SDK's client.

A line of stdout that is not a message is noted and left out. Starts and ends no process.
"""

from __future__ import annotations

from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from onetool_ipy.mcp.interceptor import MessageInterceptor
from onetool_ipy.mcp.process import ServerProcess


class _PipeStream:
    """One direction of a server's pipes. The session ends the process, so closing a stream does
    nothing."""

    def __init__(self, process: ServerProcess, interceptor: MessageInterceptor) -> None:
        self._process, self._interceptor = process, interceptor

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> _PipeStream:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        return None


class PipeReader(_PipeStream):
    """The messages on a server's stdout. Other lines are noted in `process.junk` and left out."""

    async def receive(self) -> Any:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def __aiter__(self) -> PipeReader:
        return self

    async def __anext__(self) -> Any:
        while True:
            line = await self._process.line()
            if line is None:
                raise StopAsyncIteration
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if line.strip() and not self._process.junk:
                    start = line[:120].decode("utf-8", "replace").strip()
                    self._process.junk = f"Its stdout is not MCP: {start!r}"
                continue
            self._interceptor.on_receive(message, line)
            return SessionMessage(message)


class PipeWriter(_PipeStream):
    """A server's stdin, message by message."""

    async def send(self, item: Any, /) -> None:
        message = item.message
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
        self._interceptor.on_send(message, data)
        if not self._process.is_alive():
            self._interceptor.undelivered += 1
            raise anyio.BrokenResourceError
        try:
            await self._process.send(data)
        except OSError as exc:
            raise anyio.BrokenResourceError from exc
        self._interceptor.sent += 1
