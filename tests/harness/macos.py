"""Make a Python on Linux look like one on macOS, as far as our code can tell the two apart.

What macOS lacks is taken away: descriptors of processes, /proc, a parent for orphans. What it has
instead is made of what Linux has: a kqueue that tells the end of a process, and the questions
F_FULLFSYNC and F_GETPATH about an open file. For a process of its own: `run`, or `before()` in front
of a program's text.
"""

from __future__ import annotations

import ctypes
import os
import select
import subprocess
import sys
import sysconfig
from importlib import import_module
from typing import Any, NamedTuple

from tests.harness.surroundings import ROOT

SYNCED: list[int] = []
"""The descriptors whose content was brought to the disk itself, not only to its cache."""

_F_GETPATH, _F_FULLFSYNC = 50, 51
_pidfd_open = getattr(os, "pidfd_open", None)
_listdir = os.listdir


class Event(NamedTuple):
    """`select.kevent`."""

    ident: int
    filter: int
    flags: int
    fflags: int


class Queue:
    """`select.kqueue` for the end of processes: readable once one of them has ended."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ends: list[int] = []

    def fileno(self) -> int:
        return self._epoll.fileno()

    def control(self, events: list[Event], _most: int, _timeout: float | None = None) -> list[Any]:
        assert _pidfd_open is not None
        for event in events:
            assert event[1:] == (-5, 1, 0x8000_0000), "EVFILT_PROC, EV_ADD, NOTE_EXIT"
            self._ends.append(_pidfd_open(event.ident))
            self._epoll.register(self._ends[-1], select.EPOLLIN)
        return []

    def close(self) -> None:
        self._epoll.close()
        for end in self._ends:
            os.close(end)
        self._ends.clear()


def pretend(*, has_kqueue: bool = True, is_network_drive: bool = False) -> None:
    """From now on this process is as on macOS. A network drive does not know F_FULLFSYNC."""
    import fcntl

    asked = fcntl.fcntl
    # These two look for a file and a module that Python has on macOS only.
    sysconfig.get_config_vars()
    import_module("urllib.request")
    sys.platform = "darwin"
    del os.pidfd_open  # type: ignore[attr-defined,unused-ignore]

    def listdir(path: Any = ".") -> list[Any]:
        if path == "/proc":
            raise FileNotFoundError(path)
        return _listdir(path)

    def about(fd: int, question: int, argument: Any = 0) -> Any:
        if question == _F_GETPATH:
            return os.readlink(f"/proc/self/fd/{fd}").encode().ljust(len(argument), b"\0")
        if question == _F_FULLFSYNC and not is_network_drive:
            SYNCED.append(fd)
            return os.fsync(fd)
        return asked(fd, question, argument)

    changed: Any = (os, fcntl, ctypes, select)
    changed[0].listdir, changed[1].fcntl, changed[2].CDLL = listdir, about, lambda _name: object()
    if has_kqueue:
        select_of: Any = select
        select_of.kqueue, select_of.kevent = Queue, Event
        select_of.KQ_FILTER_PROC, select_of.KQ_EV_ADD, select_of.KQ_NOTE_EXIT = -5, 1, 0x8000_0000


def before(**options: bool) -> str:
    """Return the beginning of a program's text; the options are those of `pretend`."""
    return (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.harness import macos; macos.pretend(**{options})\n"
    )


def run(program: str, *words: str, env: dict[str, str] | None = None, **options: bool) -> str:
    """Run a program's text as on macOS. Returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", before(**options) + program, *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
