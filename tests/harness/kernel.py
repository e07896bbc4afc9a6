"""A real ipykernel in a process of its own, driven over the Jupyter protocol.

`Kernel` sends requests and gathers what comes back into an `Outcome`, which holds exactly what a
notebook would save. A kernel can be used again: `reset` gives the next test an empty namespace,
a folder and a state directory of its own, and our extension unloaded.
"""

from __future__ import annotations

import os
import queue
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.harness import surroundings
from tests.harness.patience import until

__all__ = ["CONTEXT", "Completion", "Display", "Execution", "Kernel", "KernelError", "Outcome"]

# That of the process, which lives as long. One of a client's own waits for ever when both are
# collected before the client's channels were stopped: in any thread, and outside of any limit.
CONTEXT: zmq.Context[Any] = zmq.Context.instance()
START_TIMEOUT_S = 120.0
REPLY_TIMEOUT_S = 90.0
_ASLEEP_LOOKS = 3
_STOP_AFTER_S = 0.5

# IPython's history file is written through to the disk at each start, reset and end.
_NO_HISTORY_FILE = "--HistoryManager.hist_file=:memory:"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

# Runs inside the kernel. `builtins` keeps what must outlive the namespace. A reset collects
# garbage, which takes ever longer in a kernel that has imported much: what is left is frozen, so
# that the next one looks only at what is new.
_REMEMBER = """
import builtins as _b, os as _o
_b._harness_environ = dict(_o.environ)
del _b, _o
"""
_RESET = """
def _harness_reset(work, state):
    import builtins, gc, os, sys
    shell = get_ipython()
    if "onetool_ipy" in shell.extension_manager.loaded:
        shell.extension_manager.unload_extension("onetool_ipy")
    os.environ.clear()
    os.environ.update(builtins._harness_environ)
    os.environ["ONETOOL_STATE"] = state
    os.chdir(work)
    shell.reset(new_session=True, aggressive=False)
    gc.freeze()
_harness_reset({work!r}, {state!r})
"""


@dataclass(frozen=True, slots=True)
class Display:
    """One `display_data` or `update_display_data` message."""

    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    display_id: str | None = None
    is_update: bool = False

    @property
    def text(self) -> str:
        """What a terminal would show of it."""
        return str(self.data.get("text/plain", ""))


@dataclass(frozen=True, slots=True)
class KernelError:
    """An `error` output: what stops "Run All"."""

    ename: str
    evalue: str
    traceback: tuple[str, ...]

    @property
    def text(self) -> str:
        """The traceback as a user reads it, without colours."""
        return _ANSI.sub("", "\n".join(self.traceback))


@dataclass(slots=True)
class Outcome:
    """What one cell gave: status, streams, displays, result, error."""

    status: str = "pending"
    execution_count: int | None = None
    stdout: str = ""
    stderr: str = ""
    displays: list[Display] = field(default_factory=list)
    result: Mapping[str, Any] | None = None
    result_metadata: Mapping[str, Any] = field(default_factory=dict)
    error: KernelError | None = None
    payload: list[dict[str, Any]] = field(default_factory=list)
    user_expressions: dict[str, Any] = field(default_factory=dict)
    reply: dict[str, Any] = field(default_factory=dict)
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the cell ran to its end."""
        return self.status == "ok"

    @property
    def result_text(self) -> str:
        """The `Out[...]` text, empty where there is none."""
        return str((self.result or {}).get("text/plain", ""))

    @property
    def text(self) -> str:
        """All that is readable, in one string: streams, displays, result, error."""
        parts = [self.stdout, self.stderr, *(shown.text for shown in self.displays)]
        parts.append(self.result_text)
        if self.error is not None:
            parts.append(self.error.text)
        return _ANSI.sub("", "\n".join(part for part in parts if part))


@dataclass(frozen=True, slots=True)
class Completion:
    """A `complete_reply`: the texts offered and the range of the code they replace."""

    matches: tuple[str, ...]
    start: int
    end: int
    types: tuple[str, ...]
    reply: Mapping[str, Any]


class Execution:
    """A cell that was sent and may still be running."""

    def __init__(self, channels: _Channels, msg_id: str) -> None:
        self.msg_id = msg_id
        self.outcome = Outcome()
        self._channels = channels
        self._began_s = time.monotonic()
        self._is_idle = False
        self._is_answered = False

    def wait(self, timeout: float = REPLY_TIMEOUT_S, *, allow_errors: bool = False) -> Outcome:
        """Gather outputs until the kernel is idle again and has replied."""
        deadline = time.monotonic() + timeout
        while not self._is_idle:
            self._channels.take_output(deadline, self)
        while not self._is_answered:
            self._channels.take_reply(deadline, self)
        if self.outcome.error is not None and not allow_errors:
            raise AssertionError(f"the cell failed:\n{self.outcome.text}")
        return self.outcome

    def wait_for_output(
        self,
        needle: str | re.Pattern[str],
        timeout: float = REPLY_TIMEOUT_S,
        *,
        even_after_end: bool = False,
    ) -> Outcome:
        """Return as soon as `needle` (a text or a pattern) was printed or shown; the cell may run
        on.

        A background job may still write into a cell that has ended: `even_after_end` waits for it.
        """
        deadline = time.monotonic() + timeout
        pattern = needle if isinstance(needle, re.Pattern) else re.compile(re.escape(needle))
        while pattern.search(self.outcome.text) is None:
            if self._is_idle and not even_after_end:
                raise AssertionError(f"no {needle!r} in:\n{self.outcome.text}")
            self._channels.take_output(deadline, self)
        return self.outcome

    def absorb_output(self, kind: str, content: dict[str, Any]) -> None:
        """Add one message of the output channel."""
        if kind == "status":
            self._is_idle = content["execution_state"] == "idle"
        else:
            _absorb(self.outcome, kind, content)

    def absorb_reply(self, content: dict[str, Any]) -> None:
        """Add the answer to the request itself."""
        self.outcome.reply = content
        self.outcome.status = content["status"]
        self.outcome.execution_count = content.get("execution_count")
        self.outcome.payload = list(content.get("payload", []))
        self.outcome.user_expressions = dict(content.get("user_expressions") or {})
        self.outcome.duration_s = time.monotonic() - self._began_s
        self._is_answered = True


class _Channels:
    """The two channels of a kernel, and which cell each message belongs to."""

    def __init__(self, client: BlockingKernelClient, manager: KernelManager) -> None:
        self.executions: dict[str, Execution] = {}
        self._client = client
        self._manager = manager

    def take_output(self, deadline: float, waiting: Execution) -> None:
        message = self._next(self._client.get_iopub_msg, deadline, waiting)
        if owner := self._owner(message):
            owner.absorb_output(message["msg_type"], message["content"])

    def take_reply(self, deadline: float, waiting: Execution) -> None:
        message = self._next(self._client.get_shell_msg, deadline, waiting)
        if owner := self._owner(message):
            owner.absorb_reply(message["content"])

    def _owner(self, message: dict[str, Any]) -> Execution | None:
        return self.executions.get(message["parent_header"].get("msg_id", ""))

    def _next(
        self, get: Callable[..., dict[str, Any]], deadline: float, waiting: Execution
    ) -> dict[str, Any]:
        """The next message of a channel; short waits, so that a dead kernel is noticed."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"the kernel took too long; so far:\n{waiting.outcome.text}")
            try:
                return get(timeout=min(left, 2.0))
            except queue.Empty:
                if not self._manager.is_alive():
                    raise RuntimeError(
                        f"the kernel died; so far:\n{waiting.outcome.text}"
                    ) from None


class Kernel:
    """A kernel process and the client that talks to it."""

    def __init__(self, cwd: Path, *, env: Mapping[str, str] | None = None) -> None:
        """Start the kernel of this Python in `cwd`, with `env` over this process's variables."""
        self.home = cwd
        self.cwd = cwd
        cwd.mkdir(parents=True, exist_ok=True)
        self._env = {**os.environ, **(env or {})}
        # Unix sockets: a free TCP port may be taken by another process before the kernel listens on
        # it. A socket's path has room for about a hundred characters, so its folder is no child of
        # the test's own.
        self._sockets = tempfile.TemporaryDirectory(prefix="kernel-")
        self._manager = KernelManager(
            context=CONTEXT,
            transport="tcp" if os.name == "nt" else "ipc",
            connection_file=str(Path(self._sockets.name, "k.json")),
        )
        self._manager.start_kernel(cwd=str(cwd), env=self._env, extra_arguments=[_NO_HISTORY_FILE])
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return bool(self._manager.is_alive())

    @property
    def pid(self) -> int:
        """The process id of the kernel."""
        provisioner = self._manager.provisioner
        assert provisioner is not None
        return int(getattr(provisioner, "pid"))  # noqa: B009 - not declared on the base class

    def execute(
        self,
        code: str,
        timeout: float = REPLY_TIMEOUT_S,
        *,
        allow_errors: bool = False,
        **options: Any,
    ) -> Outcome:
        """Run a cell to its end. An error output fails the test unless `allow_errors`."""
        return self.start_execute(code, **options).wait(timeout, allow_errors=allow_errors)

    def start_execute(self, code: str, *, cell_id: str = "", **options: Any) -> Execution:
        """Send a cell and return at once; `options` as for a Jupyter execute request, `cell_id` as
        JupyterLab sends."""
        options.setdefault("allow_stdin", False)
        if cell_id:
            content = {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                **options,
            }
            message = self._client.session.msg(
                "execute_request", content, metadata={"cellId": cell_id}
            )
            self._client.shell_channel.send(message)
            msg_id = message["header"]["msg_id"]
        else:
            msg_id = self._client.execute(code, **options)
        execution = Execution(self._channels, msg_id)
        self._channels.executions[msg_id] = execution
        return execution

    def evaluate(self, expression: str, timeout: float = REPLY_TIMEOUT_S) -> str:
        """The `repr` of an expression, without leaving a trace in the notebook."""
        outcome = self.execute("", timeout, silent=True, user_expressions={"value": expression})
        answer = outcome.user_expressions["value"]
        if answer["status"] != "ok":
            raise AssertionError(f"{expression!r}: {answer['ename']}: {answer['evalue']}")
        return str(answer["data"]["text/plain"])

    def complete(self, code: str, cursor_pos: int | None = None) -> Completion:
        """What Tab offers at `cursor_pos` (the end by default)."""
        position = len(code) if cursor_pos is None else cursor_pos
        content = self._client.complete(code, position, reply=True, timeout=REPLY_TIMEOUT_S)[
            "content"
        ]
        entries = content.get("metadata", {}).get("_jupyter_types_experimental", [])
        return Completion(
            matches=tuple(content["matches"]),
            start=content["cursor_start"],
            end=content["cursor_end"],
            types=tuple(entry.get("type", "") for entry in entries),
            reply=content,
        )

    def inspect(self, code: str, cursor_pos: int | None = None, *, detail_level: int = 0) -> str:
        """What Shift-Tab shows at `cursor_pos`; empty where nothing is found."""
        position = len(code) if cursor_pos is None else cursor_pos
        reply = self._client.inspect(
            code, position, detail_level, reply=True, timeout=REPLY_TIMEOUT_S
        )
        return _ANSI.sub("", str(reply["content"].get("data", {}).get("text/plain", "")))

    def answer_input(self, text: str, timeout: float = REPLY_TIMEOUT_S) -> str:
        """Wait for the question of a cell sent with `allow_stdin=True`, and type `text`; gives the
        question."""
        question = self.wait_for_question(timeout)
        self._client.input(text)
        return question

    def wait_for_question(self, timeout: float = REPLY_TIMEOUT_S) -> str:
        """Wait for the question of a cell sent with `allow_stdin=True`, and answer nothing."""
        return str(self._client.get_stdin_msg(timeout=timeout)["content"]["prompt"])

    def interrupt(self) -> None:
        """What the Stop button does, at a moment that a person can hit: the cell sleeps, or has
        worked for a while.

        A signal in the few instructions before a thread sleeps in C does not end that sleep; a test
        that stops a cell because of what it has just printed would hit them.
        """
        main_thread, looks = Path(f"/proc/{self.pid}/stat"), 0

        def is_asleep() -> bool:
            nonlocal looks
            state = main_thread.read_text().rpartition(")")[2].split()[0]
            looks = looks + 1 if state == "S" else 0
            return looks == _ASLEEP_LOOKS

        if main_thread.exists():
            until(is_asleep, _STOP_AFTER_S)
        self._manager.interrupt_kernel()

    def restart(self) -> None:
        """What Restart Kernel does: a new process, the same folder."""
        self._client.stop_channels()
        self._manager.restart_kernel(now=True, cwd=str(self.cwd), env=self._env)
        self._connect()

    def kill(self) -> None:
        """`kill -9`."""
        self._manager.shutdown_kernel(now=True)

    def reset(self, work: Path, state: Path) -> None:
        """Make the kernel as good as new for another test, in folder `work`."""
        work.mkdir(parents=True, exist_ok=True)
        state.mkdir(parents=True, exist_ok=True)
        self.cwd = work
        if not self.is_alive:
            self.restart()
        self._channels.executions.clear()
        self.execute(_RESET.format(work=str(work), state=str(state)), silent=True)

    def another_client(self) -> BlockingKernelClient:
        """A client of one's own to the same kernel, as a second page has it; stop its channels at
        the end."""
        # With a session of its own: replies go by the session's name.
        client = BlockingKernelClient(context=CONTEXT)
        client.load_connection_info(self._manager.get_connection_info())
        client.start_channels()
        client.wait_for_ready(timeout=START_TIMEOUT_S)
        return client

    def close(self) -> None:
        """Stop the kernel; may be called twice."""
        self._client.stop_channels()
        if self._manager.has_kernel:
            self._manager.shutdown_kernel(now=True)
        self._sockets.cleanup()

    def _connect(self) -> None:
        self._client = self._manager.client(context=CONTEXT)
        self._client.start_channels()
        self._channels = _Channels(self._client, self._manager)
        self._client.wait_for_ready(timeout=START_TIMEOUT_S)
        self.execute(_REMEMBER, silent=True)


def private_kernel(folder: Path, *, env: Mapping[str, str] | None = None) -> Kernel:
    """A kernel whose home, state and working directory all lie below `folder`."""
    return Kernel(folder / "work", env={**surroundings.private(folder / "home"), **(env or {})})


def _absorb(outcome: Outcome, kind: str, content: dict[str, Any]) -> None:
    if kind == "stream":
        if content["name"] == "stdout":
            outcome.stdout += content["text"]
        else:
            outcome.stderr += content["text"]
    elif kind in ("display_data", "update_display_data"):
        outcome.displays.append(
            Display(
                data=content["data"],
                metadata=content["metadata"],
                display_id=content.get("transient", {}).get("display_id"),
                is_update=kind == "update_display_data",
            )
        )
    elif kind == "execute_result":
        outcome.result = content["data"]
        outcome.result_metadata = content["metadata"]
    elif kind == "error":
        outcome.error = KernelError(
            content["ename"], content["evalue"], tuple(content["traceback"])
        )
