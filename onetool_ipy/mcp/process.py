"""The process of a stdio server: started under its watchdog, its streams on the event loop, its
death seen at once.

Owns the start, the end of its stderr output, and its termination. Knows nothing of MCP. It reads
lines of bounded length; a longer line ends the server.

The watchdog ends everything that the server started. A server can kill its watchdog, since it runs
with our rights; then we end what is left by a mark in its environment (Linux). A program that also
removes the mark survives. On Windows there is no watchdog: a job ends everything.
"""

from __future__ import annotations

import abc
import asyncio
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from onetool_ipy.base.errors import Unavailable
from onetool_ipy.base.processes import IS_WINDOWS, ProcessEnd, ProcessJob, find_command
from onetool_ipy.mcp.definition import ServerDefinition

MAX_LINE = 32 * 1024 * 1024
"""The longest message that is accepted, in bytes."""

MARK = "ONETOOL_SERVER"
"""The environment variable that marks the processes of one server start."""

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_MAX_KEPT = 64 * 1024
_BY_ITSELF_S = 0.5
_WAIT_GONE_S = 3.0
_DRAIN_S = 0.5
_POLL_S = 0.01


class StderrLog(asyncio.Protocol):
    """The end of a server's stderr output, over all its starts."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def data_received(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * _MAX_KEPT:
            self._cut = True
            del self._kept[: len(self._kept) - _MAX_KEPT]

    def add_line(self, line: str) -> None:
        """Add a line of our own, such as a log message that came over the session."""
        self.data_received(line.encode("utf-8", "replace") + b"\n")

    def text(self) -> str:
        """Return the kept output, starting at a line."""
        text = bytes(self._kept[-_MAX_KEPT:]).decode("utf-8", "replace")
        is_cut = self._cut or len(self._kept) > _MAX_KEPT
        return f"...\n{text.partition(chr(10))[2]}" if is_cut else text

    def mark(self) -> int:
        """Return the current position, for `since`."""
        return len(self._kept)

    def since(self, mark: int) -> str:
        """Return the output after a position, or everything kept if that is gone."""
        return bytes(self._kept[mark:] if mark <= len(self._kept) else self._kept).decode(
            "utf-8", "replace"
        )


class ServerProcess(abc.ABC):
    """A server's process. `line` reads its stdout, `send` writes to its stdin.

    `fault` is why we ended it, `junk` a note on output that is not a message; `died` says that it
    ended by itself.
    """

    def __init__(self, stderr: StderrLog) -> None:
        self.pid = 0
        self.junk = ""
        self.fault = ""
        self.died = False
        self._stderr = stderr
        self._began = stderr.mark()
        self._ended = False
        self._has_ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=MAX_LINE)
        self._writer: asyncio.StreamWriter

    @classmethod
    async def start(
        cls, definition: ServerDefinition, environ: Mapping[str, str], stderr: StderrLog
    ) -> ServerProcess:
        """Start the server's command. Raises Unavailable with the reason if that fails."""
        mark = secrets.token_hex(16)
        env = {**definition.environment(environ), MARK: mark}
        program = _startable(definition, env)
        if IS_WINDOWS:
            return await _JobProcess.begin(definition, program, env, stderr)
        return await _WatchedProcess.begin(definition, env, stderr, mark)

    @abc.abstractmethod
    def is_alive(self) -> bool:
        """Whether the server runs now."""

    @abc.abstractmethod
    def end(self) -> None:
        """Close stdin, and end what does not end by itself. Returns at once; may be called
        twice."""

    @abc.abstractmethod
    async def wait_gone(self) -> int | None:
        """Wait a while until nothing of it is left. Returns its exit status."""

    async def wait_ended(self) -> None:
        """Return when the server has ended and its last output was read."""
        await self._has_ended.wait()
        waited = 0.0
        while not self._ended and not self._reader.at_eof() and waited < _DRAIN_S:
            await asyncio.sleep(_POLL_S)
            waited += _POLL_S

    async def line(self) -> bytes | None:
        """Return the next line of stdout, or None at its end. A line that is too long ends the
        server."""
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            self.fault = f"It wrote a line of more than {MAX_LINE // 2**20} MB."
            self.end()
        except (asyncio.IncompleteReadError, OSError):
            self._has_ended.set()
        return None

    async def send(self, data: bytes) -> None:
        """Write to stdin. Raises OSError if the server is gone."""
        if self._ended or self._writer.is_closing():
            raise ConnectionResetError("The server is gone.")
        self._writer.write(data)
        await self._writer.drain()

    def last_error(self) -> str:
        """Return the last meaningful line that the server wrote to stderr since it was started."""
        lines = [line.strip() for line in self._stderr.since(self._began).splitlines()]
        lines_left = [
            line
            for line in lines
            if line and not line.startswith(("at ", "Node.js v", "^", "}", "{"))
        ]
        errors = [line for line in lines_left if "Error" in line.partition(":")[0]]
        return (errors or lines_left or [""])[-1]


class _WatchedProcess(ServerProcess):
    """A server under its watchdog, for Linux and macOS."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: StderrLog, mark: str) -> None:
        super().__init__(stderr)
        self._process = process
        self._mark = f"{MARK}={mark}".encode()
        self._exit: ProcessEnd | None = None
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def begin(
        cls, definition: ServerDefinition, env: Mapping[str, str], stderr: StderrLog, mark: str
    ) -> ServerProcess:
        status, report = os.pipe()
        command = [sys.executable, "-I", "-S", str(_WATCHDOG), str(os.getpid()), str(report)]
        command.append("-" if "LC_CTYPE" in env else "LC_CTYPE")
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own needs a thread for each process, or signals
                [*command, definition.command, *definition.args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=definition.cwd or None,
                pass_fds=(report,),
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            os.close(status)
            raise Unavailable(f"The command '{definition.command}' cannot be run: {exc}.") from exc
        finally:
            os.close(report)
        started = cls(process, stderr, mark)
        try:
            await started._connect(status, definition)
        except BaseException:
            started.end()
            raise
        return started

    async def _connect(self, status: int, definition: ServerDefinition) -> None:
        loop = self._loop
        process, reader = self._process, self._reader
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        first = asyncio.StreamReader()
        pipes = (
            (lambda: asyncio.StreamReaderProtocol(first), os.fdopen(status, "rb", 0)),
            (lambda: asyncio.StreamReaderProtocol(reader), process.stdout),
            (lambda: self._stderr, process.stderr),
        )
        for make, pipe in pipes:
            self._transports.append((await loop.connect_read_pipe(make, pipe))[0])
        flow: asyncio.StreamReaderProtocol
        transport, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
        )
        self._transports.append(transport)
        self._writer = asyncio.StreamWriter(transport, flow, None, loop)
        pid, _, fault = (await first.read()).decode().partition("\n")
        if fault.startswith("E"):
            why = os.strerror(int(fault[1:]))
            raise Unavailable(f"The command '{definition.command}' cannot be run: {why}.")
        self._follow(int(pid or 0))

    def _follow(self, pid: int) -> None:
        self.pid = pid
        if pid:
            # Without such a descriptor the end of its output tells that it has ended.
            with suppress(OSError):
                self._exit = ProcessEnd(pid)
        if self._exit is not None:
            self._loop.add_reader(self._exit.fileno(), self._on_exit)

    def _on_exit(self) -> None:
        self._has_ended.set()
        if self._exit is not None:
            self._loop.remove_reader(self._exit.fileno())

    def is_alive(self) -> bool:
        if self._ended or self._reader.at_eof():
            return False
        return self._process.poll() is None if self._exit is None else not self._is_gone()

    def _is_gone(self) -> bool:
        """Whether the server itself is known to have ended."""
        if self._exit is None:
            return False
        # `select.select` takes no descriptor over 1,023.
        ends = select.poll()
        try:
            ends.register(self._exit, select.POLLIN)
            return bool(ends.poll(0))
        except (OSError, ValueError, TypeError):  # the loop's thread has just closed it
            return True

    def end(self) -> None:
        if self._ended:
            return
        self.died = not self.is_alive()
        self._ended = True
        self._has_ended.set()
        for transport in self._transports:
            if isinstance(transport, asyncio.WriteTransport):
                # A pipe that has closed itself has no loop any more, which `abort` needs.
                if not transport.is_closing():
                    transport.abort()
            elif transport is not self._stderr_transport():
                transport.close()
        # The watchdog of a server that has ended is about to end with the server's status. A signal
        # at its very end would take the place of that.
        if self._process.poll() is None and not self._is_gone():
            with suppress(OSError):
                self._process.terminate()
        at_exit, self._exit = self._exit, None
        if at_exit is not None:
            # The loop may be closed.
            with suppress(RuntimeError):
                self._loop.remove_reader(at_exit.fileno())
            at_exit.close()

    async def wait_gone(self) -> int | None:
        """Wait a while until nothing of it is left. Returns its exit status."""
        waited = 0.0
        while self._process.poll() is None and waited < _WAIT_GONE_S:
            await asyncio.sleep(_POLL_S)
            waited += _POLL_S
        if self._process.poll() is None:
            with suppress(OSError):
                os.killpg(self._process.pid, 9)
        status = self._process.poll()
        # The watchdog did not end by itself.
        if status is None or status < 0:
            await self._clear()
        stderr = self._stderr_transport()
        if stderr is not None:
            stderr.close()
        return self._process.poll()

    async def _clear(self) -> None:
        """Kill the processes with our mark, until none is left or the time is up."""
        waited = 0.0
        while (left := _marked(self._mark)) and waited < _WAIT_GONE_S:
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(_POLL_S)
            waited += _POLL_S

    def _stderr_transport(self) -> asyncio.BaseTransport | None:
        return self._transports[2] if len(self._transports) > 2 else None


class _JobProcess(ServerProcess):
    """A server in a job, for Windows: when this process ends, so does all that the server
    started."""

    def __init__(
        self, process: asyncio.subprocess.Process, job: ProcessJob, stderr: StderrLog
    ) -> None:
        super().__init__(stderr)
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._process, self._job = process, job
        self._reader, self._writer = process.stdout, process.stdin
        self._tasks = [self._loop.create_task(each) for each in (self._log(), self._follow())]

    @classmethod
    async def begin(
        cls, definition: ServerDefinition, program: str, env: Mapping[str, str], stderr: StderrLog
    ) -> ServerProcess:
        try:
            job = ProcessJob()
            process = await asyncio.create_subprocess_exec(
                program,
                *definition.args,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                limit=MAX_LINE,
                env=env,
                cwd=definition.cwd or None,
                creationflags=ProcessJob.flags,
            )
            try:
                job.hold(process.pid)
            except OSError:
                process.kill()
                raise
        except (OSError, ValueError) as exc:
            raise Unavailable(f"The command '{definition.command}' cannot be run: {exc}.") from exc
        return cls(process, job, stderr)

    async def _log(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(_MAX_KEPT):
            self._stderr.data_received(data)

    async def _follow(self) -> None:
        await self._process.wait()
        self._has_ended.set()

    def is_alive(self) -> bool:
        return not (self._ended or self._reader.at_eof()) and self._process.returncode is None

    def end(self) -> None:
        if self._ended:
            return
        self.died = not self.is_alive()
        self._ended = True
        self._has_ended.set()
        try:
            self._writer.close()
            self._loop.call_later(_BY_ITSELF_S, self._job.end)
        except RuntimeError:  # the loop is closed
            self._job.end()

    async def wait_gone(self) -> int | None:
        for limit_s in (_BY_ITSELF_S, _WAIT_GONE_S):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), limit_s)
            # Also when the server has ended: it may have left children.
            self._job.end()
        await asyncio.wait(self._tasks, timeout=_DRAIN_S)
        return self._process.returncode


def _marked(mark: bytes) -> list[int]:
    """Return the processes with this variable in their environment; none without /proc."""
    pids = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        # The process may have ended, or be of another user.
        with suppress(OSError):
            if mark in place.read_bytes().split(b"\0"):
                pids.append(int(place.parent.name))
    return pids


def _startable(definition: ServerDefinition, env: Mapping[str, str]) -> str:
    """Return the program that the definition's command names. Raises Unavailable."""
    if not os.path.isdir(definition.cwd):
        raise Unavailable(
            f"Its folder '{definition.cwd}' does not exist.",
            hint="Correct 'cwd' in the configuration.",
        )
    program = find_command(definition.command, cwd=definition.cwd, env=env)
    if program is None:
        raise Unavailable(
            f"There is no command '{definition.command}'.",
            hint="Install it, or write its whole path.",
        )
    return program
