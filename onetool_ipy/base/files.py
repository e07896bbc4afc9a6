"""Read, write, append to and lock files; every error is a StoreError that names the path and the reason.

A file is written whole: temporary file, fsync, rename, fsync of the folder. Whatever is killed, a path holds its old
content or its new. A writer keeps its temporary file locked; `sweep` removes those that no living process holds. A
read waits for no FIFO or device and stops at a size limit. Folders are made for their owner alone.

A `Stamp` tells whether a file may have changed, by its times, size and inode. A clock of a file system ticks in
milliseconds or seconds: a stamp of its last tick is young, and its file has to be read again.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.records import Value

__all__ = [
    "MAX_BYTES",
    "Content",
    "Draft",
    "OpenFile",
    "Stamp",
    "StoreError",
    "Unreadable",
    "append",
    "is_running",
    "is_young",
    "locked",
    "make_folder",
    "make_private",
    "names_in",
    "open_to_append",
    "read",
    "read_own",
    "stamp_from",
    "stamp_of",
    "sweep",
    "tighten",
    "write_whole",
]

Stamp = tuple[int, int, int, int]
"""Time of change of the content and of the entry, in ns; size; number."""

_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_100_000_000


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """Return the stamp of the file at the path, or None if there is no file."""
    try:
        return stamp_from(os.stat(path))
    except (OSError, ValueError):
        return None


def stamp_from(found: os.stat_result) -> Stamp:
    """Return the stamp in a result of `os.stat`."""
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def is_young(stamp: Stamp) -> bool:
    """Whether the file may have changed without a change of its times. Whole seconds mean a coarse clock."""
    is_coarse = stamp[0] % 1_000_000_000 == 0 and stamp[1] % 1_000_000_000 == 0
    return time.time_ns() - stamp[1] < (_COARSE_TICK_NS if is_coarse else _TICK_NS)


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, each with mode 0700. An existing folder stays as it is."""
    try:
        os.mkdir(folder, 0o700)
    except FileNotFoundError:
        make_private(folder.parent)
        with suppress(FileExistsError):  # another process was quicker
            os.mkdir(folder, 0o700)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def tighten(folder: Path) -> None:
    """Remove the access of others to a folder of ours that is not a link. Never raises OSError."""
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or not stat.S_IMODE(found.st_mode) & 0o077:
            return
        if hasattr(os, "geteuid") and found.st_uid == os.geteuid():
            os.chmod(folder, stat.S_IMODE(found.st_mode) & 0o700)
    except (OSError, ValueError):
        return


MAX_BYTES = 8 * 1024 * 1024
"""A thousand tools are under 1 MB."""

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOCTTY", 0)
)


class Content(Value):
    """What the file held, and what it looked like (mode, size, time) at that moment."""

    data: bytes
    stat: os.stat_result

    def __repr__(self) -> str:
        return f"Content({len(self.data)} bytes)"


class Unreadable(Exception):
    """A file that is there and cannot be used; the message is the reason."""


def read(path: Path) -> Content | None:
    """Return the content of a file, or None if there is none. Raises Unreadable for anything else."""
    try:
        _check(os.stat(path))
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        if path.is_symlink():
            raise Unreadable("is a link to a file that does not exist.") from None
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as exc:
        raise Unreadable(f"cannot be read: {_reason(exc)}.") from exc
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _check(found)
        try:
            data = file.read(MAX_BYTES + 1)
        except OSError as exc:
            raise Unreadable(f"cannot be read: {_reason(exc)}.") from exc
    if len(data) > MAX_BYTES:
        raise Unreadable(_too_large(len(data)))
    return Content(data, found)


def read_own(path: Path, limit: int) -> bytes | None:
    """Return the bytes of one of the user's own files, or None if it is missing, too large, a link or not theirs."""
    try:
        with open(os.open(path, _FLAGS | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size > limit or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
                return None
            return file.read()
    except (OSError, ValueError):
        return None


def _check(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise Unreadable("is a directory, not a file.")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("is not a regular file.")
    if found.st_size > MAX_BYTES:
        raise Unreadable(_too_large(found.st_size))


def _too_large(size: int) -> str:
    return f"is too large: {size:,} bytes; the limit is {MAX_BYTES:,}."


def _reason(exc: OSError | ValueError) -> str:
    return (getattr(exc, "strerror", None) or str(exc)).lower()


if sys.platform != "win32":
    import fcntl


_ATTEMPTS = 100
_TEMP_PREFIX, _TEMP_SUFFIX = ".onetool-", ".tmp"

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOENT: "there is no such file or folder",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "it is a symbolic link",
    errno.EIO: "the disk reports an input/output error",
    errno.EFBIG: "the file is too large for this disk",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
}
_HINTS = {
    errno.ENOSPC: "Free some space, or point $ONETOOL_STATE at another disk.",
    errno.EDQUOT: "Free some space, or point $ONETOOL_STATE at another disk.",
    errno.EROFS: "Point $ONETOOL_STATE at a folder that can be written.",
}
_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
_BUSY = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
_BEGIN_EVERY = 8 * 1024 * 1024
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)
_NO_WRITER_IS_THIS_SLOW_S = 24 * 3600.0
_FIRST_NAP_S = 0.0005
_LONGEST_NAP_S = 0.02


class StoreError(OneToolError):
    """A file that could not be read or written; `path` says which, `reason` why."""

    def __init__(self, path: Path | str, reason: str, *, doing: str = "write", hint: str = "") -> None:
        super().__init__(f"Cannot {doing} '{path}': {reason}.", hint=hint)
        self.path = Path(path)
        self.reason = reason

    @classmethod
    def of(cls, path: Path | str, exc: OSError | ValueError, *, doing: str = "write") -> StoreError:
        """Translate an OSError."""
        number = exc.errno if isinstance(exc, OSError) else None
        if number is None:
            return cls(path, str(exc) or type(exc).__name__, doing=doing)
        reason = _REASONS.get(number) or os.strerror(number)
        return cls(path, reason, doing=doing, hint=_HINTS.get(number, ""))


class Draft:
    """A file on its way: pieces go to a temp name beside the path, `publish` makes them the file.

    Whoever opens one calls `publish`, or `discard` when anything at all was raised. Not for two threads at once.
    """

    def __init__(self, path: Path, *, mode: int = 0o600) -> None:
        self.path = path
        self.size = 0
        self._begun = 0
        self._mode = mode
        self._temp = _temp_beside(path)
        self._file: io.FileIO | None = None
        self._is_synced = False

    def open(self) -> None:
        """Make the temp file, and its folder if that is missing."""
        try:
            try:
                self._create()
            except FileNotFoundError:
                make_folder(self.path.parent)
                self._create()
        except (OSError, ValueError) as exc:
            raise StoreError.of(self.path, exc) from exc

    def _create(self) -> None:
        """Make a file that is locked from its first moment on.

        A sweep may lock it in that moment, taking it for an orphan, and then remove whatever has its name: so the
        next attempt takes another name.
        """
        for _ in range(_ATTEMPTS):
            file = io.FileIO(self._temp, "x", opener=_opener(self._mode))
            if _is_ours(file.fileno()):
                self._file = file
                return
            file.close()
            with suppress(FileNotFoundError):
                os.unlink(self._temp)
            self._temp = _temp_beside(self.path)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(self._temp))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add a piece."""
        assert self._file is not None
        try:
            _write_all(self._file.fileno(), data)
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc
        self.size += len(data)
        if self.size - self._begun >= _BEGIN_EVERY and hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self._file.fileno(), self._begun, self.size - self._begun, os.POSIX_FADV_DONTNEED)
            self._begun = self.size

    def sync(self) -> None:
        """Sync the content to disk; called after the last piece. Several files may do so at once, in threads."""
        assert self._file is not None
        try:
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc
        self._is_synced = True

    def publish(self, *, sync_folder: bool = True) -> None:
        """Sync the content to disk, then rename it to the path in one step. The last of many files may sync for all."""
        assert self._file is not None
        if not self._is_synced:
            self.sync()
        try:
            if sys.platform == "win32":  # where an open file cannot be renamed
                self._file.close()
            os.replace(self._temp, self.path)
            self._file.close()
            _sync_folder(self.path.parent) if sync_folder else None
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc

    def discard(self) -> None:
        """Leave nothing behind; may be called at any time, also twice."""
        if self._file is not None:
            with suppress(OSError):  # a failed close has let go of the file all the same
                self._file.close()
        with suppress(OSError, ValueError):
            os.unlink(self._temp)


def write_whole(path: Path, data: bytes, *, nofollow: bool = False, mode: int = 0o600) -> None:
    """Replace the file's content, or leave it as it was and raise StoreError.

    A symbolic link at the path is followed and stays a link; with `nofollow` it is refused. An existing file keeps its
    permissions, a new one gets `mode`.
    """
    target, mode = _target(path, nofollow, mode)
    draft = Draft(target, mode=mode)
    try:
        draft.open()
        draft.write(data)
        draft.publish()
    except BaseException:  # also an interrupt: nothing half may stay
        draft.discard()
        raise


class OpenFile(io.FileIO):
    """A file that is closed when the last thread has dropped it.

    The destructor of FileIO closes it, since an interrupt inside a destructor written in Python would be lost. The
    slot hides the mark by which FileIO knows that it was not closed explicitly and would warn.
    """

    __slots__ = ("_finalizing",)


def append(path: Path, data: bytes, *, fd: int | None = None, sync: bool = False) -> None:
    """Add one record with one write: other processes' records stand before or after it, never inside.

    `fd` is the file where it is open already, with O_APPEND. A disk that fills up in the middle of the record is an
    error, and what got there is cut off again unless another process has already written behind it.
    """
    try:
        if fd is not None:
            return _append(fd, data, sync=sync)
        with open_to_append(path) as file:
            return _append(file.fileno(), data, sync=sync)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc


def locked(path: Path, timeout_s: float = 10.0) -> AbstractContextManager[object]:
    """Hold the lock that stands for a path, in `<path>.lock` beside it: `with locked(path): ...`.

    One holder among all threads and processes, and not re-entrant. The lock is an open file, so that it is free once
    the block was left, whatever was raised where (closing is one step of C, which no interrupt can divide), and once
    its process has died.
    """
    place = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + timeout_s
    try:
        return _hold(place, deadline)
    except TimeoutError as exc:
        hint = f"Another process is holding '{place}'. Try again, or end that process."
        raise StoreError(path, f"it was locked for {timeout_s:g} s", doing="lock", hint=hint) from exc
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc, doing="lock") from exc


def sweep(folder: Path) -> int:
    """Remove the temp files that dead writers left in this folder and return how many. Never raises."""
    temps = [name for name in names_in(folder) if name.startswith(_TEMP_PREFIX) and name.endswith(_TEMP_SUFFIX)]
    return sum(_remove_orphan(folder / name) for name in temps)


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def is_running(pid: int) -> bool:
    """Whether a process of this machine still runs, as far as the system tells; Windows does not."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except OSError as exc:
        return exc.errno != errno.ESRCH
    return True


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, with those above it."""
    try:
        make_private(folder)
    except (OSError, ValueError) as exc:
        raise StoreError.of(folder, exc, doing="make the folder") from exc


def _target(path: Path, nofollow: bool, mode: int) -> tuple[Path, int]:
    """Return the file to replace and its mode. Raises if it is not a plain file."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            if nofollow:
                raise StoreError(path, "it is a symbolic link")
            path = Path(os.path.realpath(path))
            found = os.stat(path)
    except FileNotFoundError:
        return path, mode
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc
    if stat.S_ISDIR(found.st_mode):
        raise StoreError(path, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(path, "it is not a plain file")
    return path, stat.S_IMODE(found.st_mode)


def _temp_beside(path: Path) -> Path:
    return path.with_name(f"{_TEMP_PREFIX}{os.urandom(8).hex()}{_TEMP_SUFFIX}")


def _write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    done = os.write(fd, data)
    if done == len(data):
        return
    rest = memoryview(data)[done:]
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as exc:
        if exc.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(fd)


def open_to_append(path: Path) -> OpenFile:
    """Open a file for `append`; a new one is for its owner alone, and so are the folders above it. Raises OSError."""
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):  # which may have no reader, and would hold us
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), str(path))
    except FileNotFoundError:
        make_folder(path.parent)
    return OpenFile(path, "a", opener=_opener(0o600))


def _opener(mode: int) -> Callable[[str, int], int]:
    """Sets the mode of a new file. All in C: an interrupt in a function of ours would lose the open descriptor."""
    return partial(os.open, mode=mode)


def _append(fd: int, data: bytes, *, sync: bool) -> None:
    done = os.write(fd, data)
    if done != len(data):
        _finish_append(fd, data, done)
    if sync:
        os.fsync(fd)


def _finish_append(fd: int, data: bytes, done: int) -> None:
    """Write the rest of a record that was written in part, or take that part back."""
    end = os.lseek(fd, 0, os.SEEK_CUR)
    start = end - done
    try:
        while done < len(data):
            more = os.write(fd, memoryview(data)[done:])
            done, end = done + more, end + more
    finally:
        if done < len(data) and os.fstat(fd).st_size == end:
            os.ftruncate(fd, start)


if sys.platform == "win32":

    def _hold(place: Path, deadline: float) -> AbstractContextManager[object]:
        import filelock

        make_folder(place.parent)
        try:
            return filelock.FileLock(place).acquire(timeout=max(0.0, deadline - time.monotonic()))
        except filelock.Timeout as exc:
            raise TimeoutError from exc

    def _is_ours(_fd: int) -> bool:
        return True

    def _remove_orphan(temp: Path) -> bool:
        try:
            os.unlink(temp)  # refused while the file is open
        except OSError:
            return False
        return True

else:

    def _hold(place: Path, deadline: float) -> AbstractContextManager[object]:
        # Not filelock, which is Python all the way: an interrupt inside its release leaves the lock held for as long
        # as a traceback refers to it.
        file = open_to_append(place)
        nap_s, began = _FIRST_NAP_S, time.monotonic()
        try:
            while not _try_lock(file.fileno()):
                now = time.monotonic()
                if now >= deadline:
                    raise TimeoutError
                time.sleep(min(nap_s, deadline - now))
                # Whoever has waited longest looks most often. Otherwise a process that takes the lock again and again
                # starves the others.
                nap_s = min(2 * nap_s, _LONGEST_NAP_S / max(1.0, now - began))
        except BaseException:  # also an interrupt: the traceback would keep the file open
            file.close()
            raise
        return file

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno in _BUSY:
                return False
            raise
        return True

    def _is_ours(fd: int) -> bool:
        """Lock a temp file just made; False if the sweep took it for an orphan in that moment."""
        try:
            return _try_lock(fd) and os.fstat(fd).st_nlink > 0
        except OSError as exc:
            if exc.errno in _NO_LOCKS:
                return True
            raise

    def _remove_orphan(temp: Path) -> bool:
        try:
            with io.FileIO(temp, "r") as file:
                if not _is_abandoned(file.fileno()):
                    return False
                os.unlink(temp)
        except OSError:
            return False
        return True

    def _is_abandoned(fd: int) -> bool:
        try:
            return _try_lock(fd)
        except OSError as exc:
            if exc.errno not in _NO_LOCKS:
                raise
            return time.time() - os.fstat(fd).st_mtime > _NO_WRITER_IS_THIS_SLOW_S
