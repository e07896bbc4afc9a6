"""Find the running kernel of a project, and let it serve its tools: for `onetool-ipy mcp --attach`.

A kernel is found by its connection file in Jupyter's runtime folder, whoever started it: Jupyter Server, an editor, a
console. The file is the user's own and holds the key by which the user may run code there. A kernel is asked for one
expression, silently; one that has not loaded onetool_ipy answers with an error, and nothing of it is imported there.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_core.paths import jupyter_runtime_dir

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import read_own
from onetool_ipy.faces.mcp.attach import LOOPBACK, ServingNote, read_note

__all__ = ["note_of_kernel"]

_LOADED = "get_ipython().magics_manager.registry['onetool_ipy']"
_MAX_FILE = 100_000
_MOST_KERNELS = 50
_DIAL_S = 0.5
_ASK_S = 10.0
_TURN_S = 0.05
_OTHERS_S = 1.0
"""How long others are waited for when one has answered: a kernel that is busy would hold up the client."""

_SERVE_S = 60.0


def note_of_kernel(project: Path) -> ServingNote:
    """Let the kernel of a project serve its tools to this process. Raises UsageProblem if there is not just one."""
    found, silent = _kernels_of(project)
    try:
        if not found:
            raise _none(project, silent)
        if len(found) > 1:
            raise UsageProblem(
                f"{len(found)} notebooks of '{project}' are running.", hint="In the one that you mean, run: %tool serve"
            )
        answer = _Asked(found[0], f"{_LOADED}.serve_to({str(project)!r}, {os.getpid()})").answer(_SERVE_S)
    finally:
        for client in found:
            client.stop_channels()
    note = read_note(answer or "")
    if note is None:
        raise UsageProblem(f"The notebook of '{project}' does not answer.", hint="In it, run: %tool serve")
    return note


class _Asked:
    """One expression that a kernel was asked for."""

    def __init__(self, client: BlockingKernelClient, expression: str) -> None:
        self._client = client
        self._id = client.execute("", silent=True, user_expressions={"it": expression}, allow_stdin=False)

    def answer(self, limit_s: float) -> str | None:
        """Return its text; an empty one if the expression fails, None if the kernel does not answer in time."""
        until = time.monotonic() + limit_s
        while True:
            try:
                reply = self._client.get_shell_msg(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                return None
            if reply["parent_header"].get("msg_id") == self._id:
                break
        value = reply["content"].get("user_expressions", {}).get("it", {})
        try:
            return str(ast.literal_eval(value["data"]["text/plain"]))
        except (LookupError, TypeError, ValueError, SyntaxError):
            return ""


def _kernels_of(project: Path) -> tuple[list[BlockingKernelClient], int]:
    """Return the clients of the kernels whose toolbox is of this project, and how many kernels did not answer."""
    clients = [client for info in _connections() if (client := _connect(info)) is not None]
    waiting = [(client, _Asked(client, f"str({_LOADED}.box.config.paths.project)")) for client in clients]
    found: list[BlockingKernelClient] = []
    until = time.monotonic() + _ASK_S
    while waiting and time.monotonic() < until:
        for client, asked in waiting[:]:
            answer = asked.answer(_TURN_S)
            if answer is None:
                continue
            waiting.remove((client, asked))
            if answer == str(project):
                found.append(client)
                until = min(until, time.monotonic() + _OTHERS_S)
            else:
                client.stop_channels()
    for client, _ in waiting:
        client.stop_channels()
    return found, len(waiting)


def _connections() -> Iterator[dict[str, Any]]:
    """Yield the connection files of kernels on this machine that listen now, the newest first."""
    files = list(Path(jupyter_runtime_dir()).glob("kernel-*.json"))
    files.sort(key=lambda file: os.stat(file).st_mtime if file.exists() else 0.0, reverse=True)
    for file in files[:_MOST_KERNELS]:
        try:
            info = json.loads(read_own(file, _MAX_FILE) or b"")
            if info["key"] and _listens(info):
                yield info
        except (ValueError, LookupError, TypeError, OSError):
            continue


def _listens(info: dict[str, Any]) -> bool:
    if info["transport"] == "ipc":
        return os.path.exists(f"{info['ip']}-{int(info['shell_port'])}")
    if info["ip"] not in LOOPBACK:
        return False
    socket.create_connection((info["ip"], int(info["shell_port"])), timeout=_DIAL_S).close()
    return True


def _connect(info: dict[str, Any]) -> BlockingKernelClient | None:
    client = BlockingKernelClient()
    try:
        client.load_connection_info(info)  # type: ignore[arg-type]  # it is what the file holds
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
    except Exception:  # noqa: BLE001 - a file of another program's making may hold anything; it costs only itself
        return None
    return client


def _none(project: Path, silent: int) -> UsageProblem:
    if silent:
        busy = "one is" if silent == 1 else f"{silent} are"
        return UsageProblem(
            f"No notebook that answers has the tools of '{project}'; {busy} busy.",
            hint="Try again when the cell has ended, or run there: %tool serve",
        )
    return UsageProblem(
        f"No running notebook has the tools of '{project}'.",
        hint=f"{_where(project)} run: %load_ext onetool_ipy. Its tools without a notebook: onetool-ipy mcp",
    )


def _where(project: Path) -> str:
    """Where to load the extension: at the Jupyter Server of the project, if one is running."""
    for file in sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json")):
        try:
            server = json.loads(read_own(file, _MAX_FILE) or b"")
            if project.is_relative_to(server["root_dir"]):
                socket.create_connection(("127.0.0.1", int(server["port"])), timeout=_DIAL_S).close()
                return f"In a notebook of it at {server['url']},"
        except (ValueError, LookupError, TypeError, OSError):
            continue
    return "In a notebook of it,"
