"""Hand what a running notebook serves to a client on stdio: `onetool-ipy mcp --attach [FOLDER]`.

`%tool serve` and `onetool-ipy mcp --http` leave a note in the project's state folder, readable by
the user alone: the configuration for a client, with address and token. A note whose server is gone
is removed. Messages are passed on as they are, of either era of the protocol; only the HTTP headers
are added that they need.

If nothing serves yet, the project's kernel is asked to. It is found by its connection file in
Jupyter's runtime folder, whoever started it: Jupyter Server, an editor, a console. The file is the
user's own and holds the key by which the user may run code there. A kernel is asked for one
expression, silently; a kernel without onetool_ipy answers with an error, and nothing is imported
there.
"""

from __future__ import annotations

import ast
import os
import queue
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
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
from onetool_ipy.base.foreign_json import parse_json
from onetool_ipy.base.values import Json

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

NOTES = "serving"
"""The folder of the notes, in a project's state folder."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The names of this machine that count."""

_MAX_NOTE = 100_000
_DIAL_S = 3.0
_OPEN_S = 30.0

_LOADED = "get_ipython().magics_manager.registry['onetool_ipy']"
_MAX_FILE = 100_000
_MOST_KERNELS = 50
_KERNEL_DIAL_S = 0.5
_ASK_S = 10.0
_TURN_S = 0.05
_OTHERS_S = 1.0
"""How long others are waited for when one has answered: a kernel that is busy would hold up the
client."""

_SERVE_S = 60.0


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
    notes = [
        note for file in sorted((state / NOTES).glob("*.json")) if (note := _read(file)) is not None
    ]
    chosen = [note for note in notes if port in (0, note.port)]
    if len(chosen) == 1:
        return chosen[0]
    if not notes and not port:
        return None
    ports = ", ".join(str(note.port) for note in notes)
    problem = (
        f"Several serve the tools of '{project}'"
        if not port
        else f"Nothing serves '{project}' on port {port}"
    )
    raise UsageProblem(f"{problem}; ports: {ports or 'none'}.", hint="Choose one with --port.")


def attach(note: ServingNote) -> None:
    """Pass messages between standard input and output and the server, until either ends."""
    anyio.run(_attach, note)


def read_note(text: str | bytes) -> ServingNote | None:
    """Return the note in a client's configuration; None if it is not one of a server on this
    machine."""
    try:
        entry = parse_json(text)["mcpServers"]["onetool"]
        note = ServingNote(
            str(entry["url"]), {str(k): str(v) for k, v in entry.get("headers", {}).items()}
        )
        return note if note.host in LOOPBACK and note.port else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _read(file: Path) -> ServingNote | None:
    """Read a note. Returns None if it is not the user's own file, or if its server is gone; then it
    is removed."""
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
        streamable_http_client(note.url, http_client=http, max_sse_event_size=None) as (
            from_server,
            to_server,
        ),
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
        self._arguments: Json = {}

    def headers(self, message: types.JSONRPCMessage) -> dict[str, str] | None:
        """Return the headers of a message to the server."""
        params: Any = getattr(message, "params", None) or {}
        version = (params.get("_meta") or {}).get(types.PROTOCOL_VERSION_META_KEY)
        method = getattr(message, "method", None)
        if version is None or method is None:
            return {inbound.MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else None
        headers = {
            inbound.MCP_PROTOCOL_VERSION_HEADER: str(version),
            inbound.MCP_METHOD_HEADER: method,
        }
        name = params.get(inbound.NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
            if method == "tools/call" and name in self._arguments:
                headers |= inbound.mcp_param_headers(
                    self._arguments[name], params.get("arguments") or {}
                )
        return headers

    def learn(self, message: types.JSONRPCMessage) -> None:
        """Note the revision that a session agrees on, and which arguments of tools go as headers,
        too."""
        if not isinstance(message, types.JSONRPCResponse):
            return
        self._version = str(message.result.get("protocolVersion", self._version))
        for tool in message.result.get("tools") or ():
            self._arguments[tool["name"]] = inbound.x_mcp_header_map(tool["inputSchema"])


def note_of_kernel(project: Path) -> ServingNote:
    """Let the kernel of a project serve its tools to this process. Raises UsageProblem if there is
    not just one."""
    kernels, silent = _kernels_of(project)
    try:
        if not kernels:
            raise _none(project, silent)
        if len(kernels) > 1:
            raise UsageProblem(
                f"{len(kernels)} notebooks of '{project}' are running.",
                hint="In the one that you mean, run: %tool serve",
            )
        answer = _Asked(kernels[0], f"{_LOADED}.serve_to({str(project)!r}, {os.getpid()})").answer(
            _SERVE_S
        )
    finally:
        for client in kernels:
            client.stop_channels()
    note = read_note(answer or "")
    if note is None:
        raise UsageProblem(
            f"The notebook of '{project}' does not answer.", hint="In it, run: %tool serve"
        )
    return note


class _Asked:
    """One expression that a kernel was asked for."""

    def __init__(self, client: BlockingKernelClient, expression: str) -> None:
        self._client = client
        self._id = client.execute(
            "", silent=True, user_expressions={"it": expression}, allow_stdin=False
        )

    def answer(self, limit_s: float) -> str | None:
        """Return its text; an empty one if the expression fails, None if the kernel does not answer
        in time."""
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
    """Return the clients of the kernels whose toolbox is of this project, and how many kernels did
    not answer."""
    clients = [client for info in _connections() if (client := _connect(info)) is not None]
    waiting = [
        (client, _Asked(client, f"str({_LOADED}.box.config.paths.project)")) for client in clients
    ]
    kernels: list[BlockingKernelClient] = []
    until = time.monotonic() + _ASK_S
    while waiting and time.monotonic() < until:
        for client, request in waiting[:]:
            answer = request.answer(_TURN_S)
            if answer is None:
                continue
            waiting.remove((client, request))
            if answer == str(project):
                kernels.append(client)
                until = min(until, time.monotonic() + _OTHERS_S)
            else:
                client.stop_channels()
    for client, _ in waiting:
        client.stop_channels()
    return kernels, len(waiting)


def _connections() -> Iterator[Json]:
    """Yield the connection files of kernels on this machine that listen now, the newest first."""
    files = _runtime_files("kernel-*.json")
    files.sort(key=lambda file: os.stat(file).st_mtime if file.exists() else 0.0, reverse=True)
    for file in files[:_MOST_KERNELS]:
        try:
            info = parse_json(read_own(file, _MAX_FILE) or b"")
            if info["key"] and _listens(info):
                yield info
        except (ValueError, LookupError, TypeError, OSError):
            continue


def _runtime_files(pattern: str) -> list[Path]:
    from jupyter_core.paths import jupyter_runtime_dir

    return list(Path(jupyter_runtime_dir()).glob(pattern))


def _listens(info: Json) -> bool:
    if info["transport"] == "ipc":
        return os.path.exists(f"{info['ip']}-{int(info['shell_port'])}")
    if info["ip"] not in LOOPBACK:
        return False
    socket.create_connection((info["ip"], int(info["shell_port"])), timeout=_KERNEL_DIAL_S).close()
    return True


def _connect(info: Json) -> BlockingKernelClient | None:
    from jupyter_client.blocking.client import BlockingKernelClient

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
        hint=(
            f"{_where(project)} run: %load_ext onetool_ipy. Its tools without a notebook:"
            " onetool-ipy mcp"
        ),
    )


def _where(project: Path) -> str:
    """Where to load the extension: at the Jupyter Server of the project, if one is running."""
    for file in sorted(_runtime_files("jpserver-*.json")):
        try:
            server = parse_json(read_own(file, _MAX_FILE) or b"")
            if project.is_relative_to(server["root_dir"]):
                socket.create_connection(
                    ("127.0.0.1", int(server["port"])), timeout=_KERNEL_DIAL_S
                ).close()
                return f"In a notebook of it at {server['url']},"
        except (ValueError, LookupError, TypeError, OSError):
            continue
    return "In a notebook of it,"
