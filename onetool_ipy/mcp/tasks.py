"""Tools that run as tasks (revision 2025-11-25): start one, look until it has ended, take its
result.

A task of a server at an address outlives this kernel, so it is saved: `resume_task` takes its
result later. The SDK has the messages but no client for them. Imports the SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
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
    Task,
    TaskMetadata,
)

from onetool_ipy.base.errors import ExecutionFailed
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.mcp.callbacks import RunningCall
from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.stores.tasks import SavedTask, TaskStore

Progress = Callable[[float, float | None, str], None]

_TTL_MS = 24 * 3_600 * 1_000
_POLL_S = (0.05, 10.0)
_CANCEL_S = 5.0


def requires_task(tool: object) -> bool:
    """Whether a tool, as a server listed it, can only be called as a task."""
    execution = (
        tool.get("execution")
        if isinstance(tool, dict) and isinstance(tool.get("name"), str)
        else None
    )
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


class TaskRun:
    """One call that waits for a task."""

    def __init__(
        self,
        client: Client,
        call: RunningCall,
        progress: Progress | None,
        definition: ServerDefinition,
        store: TaskStore,
    ) -> None:
        self._client = client
        self._send = client.session.send_request
        self._call = call
        self._progress = progress
        self._definition = definition
        self._store = store

    async def start(self, wire: str, args: Json, tool: str) -> CallToolResult:
        """Call a tool as a task and wait for its result. `wire` is what the server calls the
        tool."""
        params = CallToolRequestParams(name=wire, arguments=args, task=TaskMetadata(ttl=_TTL_MS))
        task = (await self._send(CallToolRequest(params=params), CreateTaskResult)).task
        self._call.is_begun = True
        server, key = self._definition.name, self._definition.fingerprint(self._store.mask)
        saved = self._store.new(
            task.task_id, task.ttl, server=server, definition=key, tool=tool, wire=wire
        )
        # A process, and what it does, ends with this kernel.
        if self._definition.url:
            self._store.write(saved)
        return await self._finish(saved, task.status, _pause(task))

    async def resume(self, saved: SavedTask) -> CallToolResult:
        """Wait for the result of a task that an earlier call has started."""
        return await self._finish(saved, "working", 0)

    async def _finish(self, saved: SavedTask, status: str, pause_s: float) -> CallToolResult:
        """Wait for the result. If the wait is cancelled so is the task; it goes on if the
        connection or kernel ends."""
        store, is_kept, self._status = self._store, False, status
        store.held.add(saved.id)
        try:
            return await self._result(saved.task_id, pause_s)
        except _Unknown:
            raise
        except MCPError:
            is_kept = self._status not in ("failed", "cancelled")
            raise
        except BaseException:
            is_kept = store.is_closed or not await cancel_task(self._client, saved.task_id)
            raise
        finally:
            store.held.discard(saved.id)
            if not is_kept:
                store.remove(saved)
            elif self._definition.url:
                self._call.left = (
                    f"The task goes on at the server. Get its result with: %tool jobs {saved.id}"
                )

    async def _result(self, task_id: str, pause_s: float) -> CallToolResult:
        """Look until the task has ended. The limit of the call counts from the server's last
        answer."""
        looks = 0
        while self._status == "working":
            await asyncio.sleep(pause_s)
            task = await self._look(task_id)
            self._status, pause_s = task.status, _pause(task)
            looks += 1
            self._call.extend()
            if self._progress is not None:
                self._progress(looks, None, printable_line(task.status_message or "")[:200])
        # A task that needs input asks for it while its result is awaited; one that failed has its
        # error as result.
        payload = GetTaskPayloadRequest(params=GetTaskPayloadRequestParams(task_id=task_id))
        return await self._send(payload, CallToolResult)

    async def _look(self, task_id: str) -> Task:
        try:
            task = await self._send(
                GetTaskRequest(params=GetTaskRequestParams(task_id=task_id)), GetTaskResult
            )
        except MCPError as exc:
            if exc.error.code != INVALID_PARAMS:
                raise
            raise _Unknown(
                f"The server '{self._definition.name}' no longer knows the task of this call."
            ) from None
        self._call.is_begun = True
        return task


class _Unknown(ExecutionFailed):
    """The server does not know a task."""


def _pause(task: Task) -> float:
    return min(max((task.poll_interval or 500) / 1000, _POLL_S[0]), _POLL_S[1])


async def cancel_task(client: Client, task_id: str) -> bool:
    """Ask the server to end a task; whether it has heard that."""
    request = CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id))
    try:
        async with asyncio.timeout(_CANCEL_S):
            await asyncio.shield(client.session.send_request(request, CancelTaskResult))
    except MCPError as exc:
        # The task has ended already, or the server does not know it.
        return exc.error.code == INVALID_PARAMS
    except Exception:  # noqa: BLE001 - the server has ended, or knows no cancelling; the SDK raises many kinds
        return False
    return True
