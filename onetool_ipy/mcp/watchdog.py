"""Run one MCP server, and end everything it started when the kernel ends. A program of its own,
without our imports.

    python -I -S watchdog.py KERNEL_PID STATUS_FD UNSET COMMAND [ARGUMENT ...]

The server gets our stdin, stdout and stderr; we only watch. It is ended when the kernel is gone,
when we get SIGTERM, or when it ended and left children behind: by its closed stdin, then SIGTERM,
then SIGKILL, within 2.5 s. Linux makes us the parent of orphaned children, so that all of them are
found. We write the pid of the server to STATUS_FD, and `E<errno>` if the command could not be run.
UNSET names a variable that Python may have set (LC_CTYPE), or is `-`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # typing takes a start 5 ms
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_BY_ITSELF_S = 0.5
_BY_SIGTERM_S = 1.0
_BY_SIGKILL_S = 2.0
_LOOK_EVERY_S = 0.02
_LOOK_FOR_PARENT_S = 1.0


def main(argv: list[str]) -> int:
    """Run the server to its end. Returns its exit status, or 128 + the signal that ended it."""
    parent, status = int(argv[1]), int(argv[2])
    os.set_inheritable(status, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    kernel, _queue = _descriptor_of(parent)
    wake, is_asked = _listen()
    if os.getppid() != parent:
        return 0
    os.environ.pop(argv[3], None)
    server = _start(argv[4:], status)
    # Close our copies of the server's streams, so that both sides see their end.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    code = _watch(server, parent, kernel, wake, is_asked)
    if code is None:
        code = _wait_for(server, _BY_ITSELF_S)
    _clear(signal.SIGTERM, _BY_SIGTERM_S)
    _clear(signal.SIGKILL, _BY_SIGKILL_S)
    return 143 if code is None else code


def _listen() -> tuple[int, list[int]]:
    """Return a descriptor that is readable after a signal, and the list of termination signals
    received."""
    wake, noted = os.pipe()
    for end in (wake, noted):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: signals.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return wake, signals


def _start(command: list[str], status: int) -> int:
    server = os.fork()
    if server == 0:
        try:
            signal.set_wakeup_fd(-1)
            for number in (
                signal.SIGPIPE,
                signal.SIGTERM,
                signal.SIGINT,
                signal.SIGHUP,
                signal.SIGCHLD,
            ):
                signal.signal(number, signal.SIG_DFL)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.execvp(command[0], command)
        except OSError as exc:
            os.write(status, f"E{exc.errno}\n".encode())
        finally:
            os._exit(127)
    os.write(status, f"{server}\n".encode())
    os.close(status)
    return server


def _watch(
    server: int, parent: int, kernel: int | None, wake: int, signals: list[int]
) -> int | None:
    """Sleep until the server ended (returns its status) or must end (None)."""
    poll = select.poll()
    for end in (wake, *(() if kernel is None else (kernel,))):
        poll.register(end, select.POLLIN)
    while True:
        ready = [
            end for end, _ in poll.poll(None if kernel is not None else _LOOK_FOR_PARENT_S * 1000)
        ]
        if wake in ready:
            os.read(wake, 512)
        code = _reaped(server)
        if code is not None:
            return code
        if signals or kernel in ready or os.getppid() != parent:
            return None


def _reaped(server: int) -> int | None:
    """Reap every child that ended. Returns the status of the server if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == server:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else 128 - ended


def _wait_for(server: int, limit_s: float) -> int | None:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        code = _reaped(server)
        if code is not None:
            return code
        time.sleep(_LOOK_EVERY_S)
    return None


def _clear(number: int, limit_s: float) -> None:
    """Signal all remaining descendants until none is left or the time is up."""
    until = time.monotonic() + limit_s
    ended: set[int] = set()
    while True:
        _reaped(-1)
        left = _descendants()
        for pid in left:
            if pid not in ended or number == signal.SIGKILL:
                ended.add(pid)
                try:  # noqa: SIM105 - importing contextlib costs every start 2 ms
                    os.kill(pid, number)
                except OSError:
                    pass
        if not left or time.monotonic() > until:
            return
        time.sleep(_LOOK_EVERY_S)


def _descendants() -> list[int]:
    """Return all running descendants; without /proc, the other members of our process group."""
    parents: dict[int, int] = {}
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return _group()
    for name in numbers:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != b"Z":
            parents[int(name)] = int(parent)
    pids, waiting = [], [os.getpid()]
    while waiting:
        above = waiting.pop()
        below = [pid for pid, parent_pid in parents.items() if parent_pid == above]
        pids += below
        waiting += below
    return pids


def _group() -> list[int]:
    """Return the other processes of our group, from `ps`, without those of the question itself."""
    # The PATH is that of the server, which may lead elsewhere.
    question = "exec ps -A -o pid= -o ppid= -o pgid= -o stat="
    with os.popen(f"echo $$; PATH=/bin:/usr/bin; {question}") as lines:
        shell = lines.readline().strip()
        rows = [line.split() for line in lines]
    mine, own = str(os.getpgrp()), {str(os.getpid()), shell}
    return [
        int(row[0])
        for row in rows
        if len(row) == 4 and row[2] == mine and row[0] not in own and not row[3].startswith("Z")
    ]


def _descriptor_of(pid: int) -> tuple[int | None, object]:
    """Return a descriptor that becomes readable when a process ends, if the system has one, and
    what keeps it open."""
    try:
        if hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid), None
        bsd: Any = select
        if hasattr(bsd, "kqueue"):  # macOS
            queue = bsd.kqueue()
            event = bsd.kevent(pid, bsd.KQ_FILTER_PROC, bsd.KQ_EV_ADD, bsd.KQ_NOTE_EXIT)
            queue.control([event], 0)
            return queue.fileno(), queue
    except OSError:
        pass
    return None, None


def _prctl(option: int, value: int) -> None:
    import ctypes

    # macOS has none.
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    code = main(sys.argv)
    # At an ordinary exit Python restores the signals first, and a SIGTERM of that moment would be
    # our status in place of the server's.
    os._exit(code)
