"""The process of a stdio server: started under its guard, its three streams on the event loop, its death seen at once.

Owns how a server is started, what it wrote to stderr (the last of it), and how it is told to go. Knows nothing of MCP.
What it writes is taken in lines of bounded length; whoever writes a longer one is ended.

The guard ends everything that the server started. A server that kills its guard runs with our rights, so this cannot be
prevented; then we end, by the mark in its environment, what is left of it (Linux). A program that also takes the mark
out of its environment, or that kills us too, stays.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from onetool_ipy.base.errors import Unavailable
from onetool_ipy.mcp.definition import ServerDefinition

__all__ = ["MARK", "MAX_LINE", "ServerProcess", "StderrLog"]

MAX_LINE = 32 * 1024 * 1024
"""The longest message that is taken, in bytes."""

MARK = "ONETOOL_SERVER"
"""The variable by which the processes of one life of a server are known."""

_GUARD = Path(__file__).with_name("watchdog.py")
_KEPT = 64 * 1024
_GONE_S = 3.0
_LAST_WORDS_S = 0.5
_LOOK_EVERY_S = 0.01


class StderrLog(asyncio.Protocol):
    """The last of what a server wrote to stderr, over all its lives."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def data_received(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * _KEPT:
            self._cut = True
            del self._kept[: len(self._kept) - _KEPT]

    def text(self) -> str:
        """What is kept, from the beginning of a line on."""
        said = bytes(self._kept[-_KEPT:]).decode("utf-8", "replace")
        is_cut = self._cut or len(self._kept) > _KEPT
        return f"...\n{said.partition(chr(10))[2]}" if is_cut else said

    def mark(self) -> int:
        """A place to read on from: give it to `since`."""
        return len(self._kept)

    def since(self, mark: int) -> str:
        """What was written after a mark; all that is kept where that is not known."""
        return bytes(self._kept[mark:] if mark <= len(self._kept) else self._kept).decode("utf-8", "replace")


class ServerProcess:
    """A server's process. `line` is what it writes, `send` is its stdin, `is_alive` is true now.

    `fault` is why we ended it, `junk` what it wrote that is no message; `died` says that it ended before we ended it.
    """

    def __init__(self, process: subprocess.Popen[bytes], spill: StderrLog, mark: str) -> None:
        self.pid = 0
        self.junk = ""
        self.fault = ""
        self.died = False
        self._process = process
        self._spill = spill
        self._began = spill.mark()
        self._mark = f"{MARK}={mark}".encode()
        self._ended = False
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._reader = asyncio.StreamReader(limit=MAX_LINE)
        self._writer: asyncio.StreamWriter

    @classmethod
    async def start(
        cls, definition: ServerDefinition, surroundings: Mapping[str, str], spill: StderrLog
    ) -> ServerProcess:
        """Start the server's command, or raise Unavailable with what stood in the way."""
        mark = secrets.token_hex(16)
        env = {**definition.environment(surroundings), MARK: mark}
        _require_startable(definition, env)
        status, said = os.pipe()
        command = [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(said)]
        command.append("-" if "LC_CTYPE" in env else "LC_CTYPE")
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own would need a thread for each, or signals
                [*command, definition.command, *definition.args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=definition.cwd or None,
                pass_fds=(said,),
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            os.close(status)
            raise Unavailable(f"The command '{definition.command}' cannot be run: {exc}.") from exc
        finally:
            os.close(said)
        child = cls(process, spill, mark)
        try:
            await child._connect(status, definition)
        except BaseException:
            child.end()
            raise
        return child

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
            (lambda: self._spill, process.stderr),
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
        opened = getattr(os, "pidfd_open", None)
        if opened is not None and pid:
            with suppress(OSError):
                self._pidfd = opened(pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._seen_off)

    def _seen_off(self) -> None:
        self._over.set()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)

    def is_alive(self) -> bool:
        """Whether the server is there, now."""
        if self._ended or self._reader.at_eof():
            return False
        if self._pidfd is None:
            return self._process.poll() is None
        try:
            return not select.select([self._pidfd], [], [], 0)[0]
        except (OSError, ValueError, TypeError):  # it was closed by the loop's thread in this moment
            return False

    async def over(self) -> None:
        """Return when the server is gone, and what it wrote last was read."""
        await self._over.wait()
        waited = 0.0
        while not self._ended and not self._reader.at_eof() and waited < _LAST_WORDS_S:
            await asyncio.sleep(_LOOK_EVERY_S)
            waited += _LOOK_EVERY_S

    async def line(self) -> bytes | None:
        """The next line that it writes; None at the end. A line that is too long ends it."""
        try:
            found = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            self._over.set()
            return None
        except asyncio.LimitOverrunError:
            self.fault = f"It wrote a line of more than {MAX_LINE // 2**20} MB."
            self.end()
            return None
        except OSError:
            self._over.set()
            return None
        return found

    async def send(self, data: bytes) -> None:
        """Write to its stdin; ConnectionError or OSError where it is gone."""
        if self._ended or self._writer.is_closing():
            raise ConnectionResetError("The server is gone.")
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        """Close its stdin and let its guard see it out; returns at once, may be called twice."""
        if self._ended:
            return
        self.died = not self.is_alive()
        self._ended = True
        self._over.set()
        for transport in self._transports:
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            elif transport is not self._stderr():
                transport.close()
        if self._process.poll() is None:
            with suppress(OSError):
                self._process.terminate()
        if self._pidfd is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def gone(self) -> int | None:
        """Wait, for a while, until nothing of it is left; its exit status."""
        waited = 0.0
        while self._process.poll() is None and waited < _GONE_S:
            await asyncio.sleep(_LOOK_EVERY_S)
            waited += _LOOK_EVERY_S
        if self._process.poll() is None:
            with suppress(OSError):
                os.killpg(self._process.pid, 9)
        status = self._process.poll()
        if status is None or status < 0:  # its guard did not end by itself
            await self._clear()
        stderr = self._stderr()
        if stderr is not None:
            stderr.close()
        return self._process.poll()

    async def _clear(self) -> None:
        """End what bears the mark, until nothing does or the time is over."""
        waited = 0.0
        while (left := _marked(self._mark)) and waited < _GONE_S:
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(_LOOK_EVERY_S)
            waited += _LOOK_EVERY_S

    def last_words(self) -> str:
        """The last line of substance that this life of the server wrote to stderr."""
        lines = [line.strip() for line in self._spill.since(self._began).splitlines()]
        said = [line for line in lines if line and not line.startswith(("at ", "Node.js v", "^", "}", "{"))]
        errors = [line for line in said if "Error" in line.partition(":")[0]]
        return (errors or said or [""])[-1]

    def _stderr(self) -> asyncio.BaseTransport | None:
        return self._transports[2] if len(self._transports) > 2 else None


def _marked(mark: bytes) -> list[int]:
    """The processes that have a variable in their environment; none where there is no /proc."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is not ours
            if mark in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
    return found


def _require_startable(definition: ServerDefinition, env: Mapping[str, str]) -> None:
    if sys.platform == "win32":
        raise Unavailable("Servers of type stdio need Linux or macOS.", hint="Use a server of type http.")
    if not os.path.isdir(definition.cwd):
        raise Unavailable(f"Its folder '{definition.cwd}' is not there.", hint="Mend 'cwd' in the configuration.")
    command = definition.command
    place = os.path.join(definition.cwd, command) if os.sep in command else command
    if shutil.which(place, path=env.get("PATH")) is None:
        raise Unavailable(f"There is no command '{command}'.", hint="Install it, or write its whole path.")
