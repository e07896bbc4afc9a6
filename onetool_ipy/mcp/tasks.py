"""Tools that run as tasks (revision 2025-11-25): start one, look until it has ended, take its result.

The SDK has the messages but no client for them. Imports the SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mcp import Client
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CancelTaskRequest,
    CancelTaskRequestParams,
    CancelTaskResult,
    CreateTaskResult,
    GetTaskPayloadRequest,
    GetTaskPayloadRequestParams,
    GetTaskRequest,
    GetTaskRequestParams,
    GetTaskResult,
    TaskMetadata,
)

from onetool_ipy.base.printable import printable_line
from onetool_ipy.mcp.callbacks import RunningCall

__all__ = ["requires_task", "run_task"]

_TTL_MS = 24 * 3_600 * 1_000
_POLL_S = (0.05, 10.0)
_CANCEL_S = 5.0


def requires_task(tool: Any) -> bool:
    """Whether a tool, as a server listed it, can only be called as a task."""
    execution = tool.get("execution") if isinstance(tool, dict) and isinstance(tool.get("name"), str) else None
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


async def run_task(
    client: Client,
    tool: str,
    args: dict[str, Any],
    call: RunningCall,
    progress: Callable[[float, float | None, str], None] | None,
) -> CallToolResult:
    """Call a tool as a task and wait for its result. If the wait is cancelled, so is the task.

    The limit of the call counts from the last time that the server told how the task is.
    """
    send = client.session.send_request
    params = CallToolRequestParams(name=tool, arguments=args, task=TaskMetadata(ttl=_TTL_MS))
    task = (await send(CallToolRequest(params=params), CreateTaskResult)).task
    task_id, looks = task.task_id, 0
    try:
        while task.status == "working":
            await asyncio.sleep(min(max((task.poll_interval or 500) / 1000, _POLL_S[0]), _POLL_S[1]))
            task = await send(GetTaskRequest(params=GetTaskRequestParams(task_id=task_id)), GetTaskResult)
            looks += 1
            call.extend()
            if progress is not None:
                progress(looks, None, printable_line(task.status_message or "")[:200])
        # A task that needs input asks for it while its result is awaited; one that failed has its error as result.
        payload = GetTaskPayloadRequest(params=GetTaskPayloadRequestParams(task_id=task_id))
        return await send(payload, CallToolResult)
    except BaseException:
        if task.status in ("working", "input_required"):
            with suppress(Exception):  # the server has ended, or knows no cancelling
                async with asyncio.timeout(_CANCEL_S):
                    stop = CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id))
                    await asyncio.shield(send(stop, CancelTaskResult))
        raise
