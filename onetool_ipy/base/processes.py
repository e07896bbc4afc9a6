"""What differs between systems about processes, sockets, terminals and command lines.

Together with `base/files.py` and `config/paths.py` the only place that asks which system this is;
all others call a function that has the same meaning on each of them. Starts nothing by itself.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import words_of

if TYPE_CHECKING:
    import asyncio
    import socket
    import subprocess

IS_WINDOWS = sys.platform == "win32"
"""For the few places where what differs is more than a function of this file."""

INHERITED = (
    (
        *("ALLUSERSPROFILE", "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA"),
        *("PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES"),
        *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR"),
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""Variables that every process of a server inherits. Without SYSTEMROOT neither sockets nor Node
start on Windows."""

_DRIVE = r"(?:^|[\s\"'=])[A-Za-z]:\\"
_QUIET_POLL_S = 0.05
_ACCESS_DENIED, _STILL_RUNS, _SYNCHRONIZE = 5, 258, 0x0010_0000
_SUSPENDED, _NO_WINDOW, _MAY_END_AND_RESUME = 0x4, 0x0800_0000, 0x0901


class ProcessEnd:
    """A descriptor that becomes readable when a process ends. Raises OSError where there is
    none."""

    def __init__(self, pid: int) -> None:
        self._queue: Any = None
        if hasattr(os, "pidfd_open"):
            self._fd = os.pidfd_open(pid)
            return
        import select

        # macOS and BSD: the queue itself is readable once it holds the event. Others have none.
        kqueue: Any = getattr(select, "kqueue", None)
        if kqueue is None:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        about: Any = select
        self._queue = kqueue()
        self._fd = self._queue.fileno()
        event = about.kevent(pid, about.KQ_FILTER_PROC, about.KQ_EV_ADD, about.KQ_NOTE_EXIT)
        try:
            self._queue.control([event], 0)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Release the descriptor. May be called twice."""
        fd, self._fd = self._fd, -1
        if self._queue is not None:
            self._queue.close()
        elif fd >= 0:
            os.close(fd)


class ProcessJob:
    """The processes that a process starts, held together by Windows: they end when this does.

    The only handle is in our process, so they end with it too, however it ends.
    """

    flags = _SUSPENDED | _NO_WINDOW
    """The creation flags of a process for `hold`: it must not run before it is in the job."""

    def __init__(self) -> None:
        import win32job

        self._library: Any = win32job
        self._handle: Any = win32job.CreateJobObject(None, "")
        about = win32job.JobObjectExtendedLimitInformation
        limits = win32job.QueryInformationJobObject(self._handle, about)
        limits["BasicLimitInformation"]["LimitFlags"] |= win32job.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
        win32job.SetInformationJobObject(self._handle, about, limits)

    def hold(self, pid: int) -> None:
        """Put a suspended process into the job and let it run. Raises OSError."""
        import _winapi
        import ctypes

        winapi: Any = _winapi  # a type checker on Linux knows an empty module
        handle = winapi.OpenProcess(_MAY_END_AND_RESUME, False, pid)
        try:
            try:
                self._library.AssignProcessToJobObject(self._handle, handle)
            except Exception as exc:  # pywintypes.error is no OSError
                raise OSError(errno.EPERM, words_of(exc)) from exc
            library: Any = ctypes
            library.windll.ntdll.NtResumeProcess(ctypes.c_void_p(handle))
        finally:
            winapi.CloseHandle(handle)

    def end(self) -> None:
        """End every process of the job, with no chance to refuse. May be called twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(Exception):  # pywintypes.error: they have ended
                self._library.TerminateJobObject(handle, 1)


def is_running(pid: int) -> bool:
    """Whether a process of this machine still runs, as far as the system tells."""
    if sys.platform == "win32":
        import _winapi

        try:
            handle = _winapi.OpenProcess(_SYNCHRONIZE, False, pid)
        except OSError as exc:
            return exc.winerror == _ACCESS_DENIED
        try:
            return _winapi.WaitForSingleObject(handle, 0) == _STILL_RUNS
        finally:
            _winapi.CloseHandle(handle)
    try:
        os.kill(pid, 0)
    except OSError as exc:
        return exc.errno != errno.ESRCH
    return True


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started with `start_new_session=True`, and its children where the
    system has groups. Does not wait."""
    if sys.platform == "win32":
        with suppress(OSError):
            process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def kill(pid: int) -> None:
    """End a process at once. Raises OSError."""
    # Windows has no signals: there any number but 0 and two others terminates the process.
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for another thread that can start processes; ipykernel's policy on
    Windows makes others."""
    import asyncio

    if sys.platform == "win32":
        import threading

        # In the main thread this loop would take the signals away from the loop of that thread.
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.set_wakeup_fd(-1) if is_main else -1
        try:
            return asyncio.ProactorEventLoop()
        finally:
            if is_main:
                signal.set_wakeup_fd(before)
    return asyncio.new_event_loop()


def find_command(command: str, *, cwd: str, env: Mapping[str, str]) -> str | None:
    """Return the program that a command names, or None; one with a folder is relative to `cwd`.

    On Windows the endings of PATHEXT are tried, so `npx` is `npx.cmd`, and the path is whole.
    """
    import shutil

    has_folder = os.path.dirname(command) != ""
    return shutil.which(os.path.join(cwd, command) if has_folder else command, path=env.get("PATH"))


def command_line(words: Iterable[str]) -> str:
    """Return words as one line to paste into the shell of this system."""
    if sys.platform == "win32":
        import subprocess

        return subprocess.list2cmdline(words)
    return shlex.join(words)


def quoted(word: str) -> str:
    """Return a word as it stands in a line for the shell of this system."""
    return command_line([word])


def words_in(line: str) -> list[str]:
    r"""Split a command line that a person pasted. Raises ValueError for an open quote.

    On Windows, and where a path of Windows stands in it (`C:\tools`), a backslash is a character.
    """
    if IS_WINDOWS or re.search(_DRIVE, line):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="")
        lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
        return list(lexer)
    return shlex.split(line)


def listen_alone(listening: socket.socket) -> None:
    """Let no other program bind the same port. On Windows SO_REUSEADDR would allow just that."""
    import socket

    if sys.platform == "win32":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def wait_for_stdin() -> None:
    """Return when a line can be read from the terminal. An exception that another thread raises in
    this one (Stop) is heard meanwhile."""
    if sys.platform == "win32":
        import msvcrt
        import time

        # A pipe is read with the line.
        while sys.stdin.isatty() and not msvcrt.kbhit():
            time.sleep(_QUIET_POLL_S)
        return
    import select

    while not select.select([sys.stdin], [], [], 0.1)[0]:
        pass


def system_words(exc: OSError) -> str:
    """Return the system's words for an error; asyncio writes words of its own into `strerror`."""
    number = getattr(exc, "winerror", None) or exc.errno or 0
    if sys.platform == "win32":
        import ctypes

        # A connection that asyncio refused has a number of winsock's (10061) or of the system.
        if number >= 1000 and (words := ctypes.FormatError(number).strip().rstrip(".")):
            return words
    number = exc.errno or 0
    if number <= 0:
        return str(exc.strerror)
    return os.strerror(number)
