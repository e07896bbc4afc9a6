"""The pipes of a process as streams: messages one by one, whatever else is written between them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.mcp.interceptor import MessageInterceptor
from onetool_ipy.mcp.pipes import PipeReader, PipeWriter
from onetool_ipy.mcp.process import ServerProcess, StderrLog
from onetool_ipy.mcp.trace import MessageTrace

ECHO = """
import sys
print("hello, I am a server", flush=True)
for line in sys.stdin:
    print(flush=True)
    print('{"id": 7, "jsonrpc": "2.0", "result": {"length": %d}}' % len(line), flush=True)
    break
"""
REQUEST: Any = jsonrpc_message_adapter.validate_python(
    {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
)


async def started(folder: Path) -> ServerProcess:
    definition = ServerDefinition(
        name="srv",
        where="test",
        type="stdio",
        command=sys.executable,
        args=("-c", ECHO),
        cwd=str(folder),
    )
    return await ServerProcess.start(definition, os.environ, StderrLog())


async def test_lines_that_are_no_messages_are_left_out_and_noted(tmp_path: Path) -> None:
    process = await started(tmp_path)
    interceptor = MessageInterceptor(MessageTrace())
    await PipeWriter(process, interceptor).send(SessionMessage(REQUEST))

    reader = PipeReader(process, interceptor)
    message = (await reader.receive()).message

    assert message.result == {"length": len(REQUEST.model_dump_json(exclude_unset=True)) + 1}
    assert process.junk == "Its stdout is not MCP: 'hello, I am a server'"
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()
    process.end()
    await process.wait_gone()


async def test_a_message_to_a_process_that_has_ended_counts_as_undelivered(tmp_path: Path) -> None:
    process = await started(tmp_path)
    interceptor = MessageInterceptor(MessageTrace())
    process.end()

    with pytest.raises(anyio.BrokenResourceError):
        await PipeWriter(process, interceptor).send(SessionMessage(REQUEST))

    assert (interceptor.sent, interceptor.undelivered) == (0, 1)
    await process.wait_gone()
