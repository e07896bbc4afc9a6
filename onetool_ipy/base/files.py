"""Read, write, append to and lock files; every error is a StoreError that names the path and the reason.

A file is written whole: temporary file, fsync, rename, fsync of the folder. Whatever is killed, a path holds its old
content or its new. The name of a temporary file says which process writes it, so that what a dead one left can be
removed. A read waits for no FIFO or device and stops at a size limit. Folders are made for their owner alone. Stop is
deferred while a file is written or a lock is held.

A `Stamp` tells whether a file may have changed, by its times, size and inode. A clock of a file system ticks in
milliseconds or seconds: a stamp of its last tick is young, and its file has to be read again.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base.errors import OneToolError, words_of
from onetool_ipy.base.interrupts import deferred

if TYPE_CHECKING:
    from filelock import BaseFileLock

MAX_BYTES = 8 * 1024 * 1024
"""How large a file of a project may be. A thousand tools are under 1 MB."""

_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_100_000_000
_FIRST_NAP_S = 0.0005
_LONGEST_NAP_S = 0.02
_STALE_S = 24 * 3600.0
_DROP_EVERY = 8 * 1024 * 1024
_TEMP_NAME = re.compile(r"\.onetool-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{16}\.tmp")

# A read must not wait for the writer of a FIFO, and an append not for its reader.
_COMMON_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ_FLAGS = os.O_RDONLY | _COMMON_FLAGS | getattr(os, "O_NOCTTY", 0)
_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _COMMON_FLAGS
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS

_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
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

_LEFT_ALONE = "Correct the file, or move it away; until then it is left as it is."

Stamp = tuple[int, int, int, int]
"""Time of change of the content and of the entry, in ns; size; number."""


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
            return cls(path, words_of(exc), doing=doing)
        reason = _REASONS.get(number) or os.strerror(number)
        return cls(path, reason, doing=doing, hint=_HINTS.get(number, ""))


class Unreadable(Exception):
    """A file that is there and cannot be used; the message is the reason."""


class Content(NamedTuple):
    """What the file held, and what it looked like (mode, size, time) at that moment."""

    data: bytes
    stat: os.stat_result

    def __repr__(self) -> str:
        return f"Content({len(self.data)} bytes)"


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """Return the stamp of the file at the path, or None if there is no file."""
    try:
        return stamp_from(os.stat(path))
    except (OSError, ValueError):
        return None


def stamp_from(status: os.stat_result) -> Stamp:
    """Return the stamp in a result of `os.stat`."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


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
        # Another process may have been quicker.
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, with those above it."""
    try:
        make_private(folder)
    except (OSError, ValueError) as exc:
        raise StoreError.of(folder, exc, doing="make the folder") from exc


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


def read(path: Path) -> Content | None:
    """Return the content of a file, or None if there is none. Raises Unreadable for anything else."""
    try:
        fd = os.open(path, _READ_FLAGS)
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise Unreadable("is a directory, not a file.")
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("is not a regular file.")
            # The file may grow meanwhile.
            with open(fd, "rb", closefd=False) as file:
                size = max(status.st_size, len(data := file.read(MAX_BYTES + 1)))
        finally:
            os.close(fd)
    except FileNotFoundError:
        if path.is_symlink():
            raise Unreadable("is a link to a file that does not exist.") from None
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as exc:
        reason = (getattr(exc, "strerror", None) or str(exc)).lower()
        raise Unreadable(f"cannot be read: {reason}.") from exc
    if size > MAX_BYTES:
        raise Unreadable(f"is too large: {size:,} bytes; the limit is {MAX_BYTES:,}.")
    return Content(data=data, stat=status)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is no file. Raises StoreError for one that cannot be read.

    Whoever changes a part of a file reads it like this first, so nobody writes over what could not be read. A name that
    stands twice is refused too: one of the two values would be lost.
    """
    try:
        content = read(path)
        if content is None:
            return {}
        data = json.loads(content.data, object_pairs_hook=_unique)
        if not isinstance(data, dict):
            raise Unreadable("does not hold a JSON object")
    except RecursionError:
        raise StoreError(path, "it is nested too deep", doing="read", hint=_LEFT_ALONE) from None
    except (Unreadable, ValueError) as exc:
        reason = f"it {exc}" if isinstance(exc, Unreadable) else f"it is not valid JSON ({exc})"
        raise StoreError(path, reason.rstrip("."), doing="read", hint=_LEFT_ALONE) from None
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name '{next(name for name in names if names.count(name) > 1)}' stands in it twice")
    return data


def read_own(path: Path, limit: int) -> bytes | None:
    """Return the bytes of one of the user's own files, or None if it is missing, too large, a link or not theirs."""
    try:
        with open(os.open(path, _READ_FLAGS | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > limit or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
                return None
            return file.read()
    except (OSError, ValueError):
        return None


class AtomicFile:
    """A file that is written beside its path and renamed to it by `commit`, in one step.

        with AtomicFile(path) as file:
            file.write(data)
            file.commit()

    Without a `commit` the block leaves nothing behind. Not for two threads at once.
    """

    def __init__(self, path: Path, *, mode: int = 0o600) -> None:
        self.path = path
        self.size = 0
        self._temp = path.with_name(f".onetool-{_host()}-{os.getpid()}-{os.urandom(8).hex()}.tmp")
        self._mode = mode
        self._fd = -1
        self._dropped = 0
        self._is_synced = False

    def __enter__(self) -> AtomicFile:
        """Make the temp file, and its folder if that is missing."""
        try:
            with deferred:
                try:
                    self._fd = os.open(self._temp, _CREATE_FLAGS, self._mode)
                except FileNotFoundError:
                    make_folder(self.path.parent)
                    self._fd = os.open(self._temp, _CREATE_FLAGS, self._mode)
        except (OSError, ValueError) as exc:
            raise StoreError.of(self.path, exc) from exc
        except BaseException:
            # A Stop that came meanwhile: the block is not entered, so nobody else removes the file.
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        with deferred:
            self._close()
            # After a commit there is no such file.
            with suppress(OSError, ValueError):
                os.unlink(self._temp)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add a piece."""
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, memoryview(data)[written:])
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc
        self.size += written
        # The disk begins to write a large file at once, so that the sync at the end does not wait for all of it.
        if self.size - self._dropped >= _DROP_EVERY and hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self._fd, self._dropped, self.size - self._dropped, os.POSIX_FADV_DONTNEED)
            self._dropped = self.size

    def sync(self) -> None:
        """Sync the content to disk; called after the last piece. Several files may do so at once, in threads."""
        try:
            os.fsync(self._fd)
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc
        self._is_synced = True

    def commit(self, *, sync_folder: bool = True) -> None:
        """Sync the content to disk, then rename it to the path in one step. The last of many files may sync for all."""
        if not self._is_synced:
            self.sync()
        try:
            with deferred:
                # Windows cannot rename an open file.
                self._close()
                os.replace(self._temp, self.path)
                if sync_folder:
                    _sync_folder(self.path.parent)
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        # A failed close has released the descriptor all the same, and the content is synced.
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)


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


def write_whole(path: Path, data: bytes, *, nofollow: bool = False, mode: int = 0o600) -> None:
    """Replace the file's content, or leave it as it was and raise StoreError.

    A symbolic link at the path is followed and stays a link; with `nofollow` it is refused. An existing file keeps its
    permissions, a new one gets `mode`.
    """
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if nofollow:
                raise StoreError(path, "it is a symbolic link")
            path = Path(os.path.realpath(path))
            status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise StoreError(path, "it is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(path, "it is not a plain file")
        mode = stat.S_IMODE(status.st_mode)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc
    with deferred, AtomicFile(path, mode=mode) as file:
        file.write(data)
        file.commit()


def remove_stale_temp_files(folder: Path) -> int:
    """Remove the temp files that dead writers left in this folder and return how many. Never raises.

    A file of another machine cannot be asked about its writer: it is removed when it is a day old.
    """
    count = 0
    for name in names_in(folder):
        if (match := _TEMP_NAME.fullmatch(name)) is None:
            continue
        path = folder / name
        with suppress(OSError):
            is_dead = match["host"] == _host() and not is_running(int(match["pid"]))
            if is_dead or time.time() - os.lstat(path).st_mtime > _STALE_S:
                os.unlink(path)
                count += 1
    return count


def _host() -> str:
    """The name of this machine, as it stands in the name of a temporary file."""
    import platform  # late: most processes write no file

    return re.sub(r"[^A-Za-z0-9_.]", "_", platform.node())[:60]


def append(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Add one record with one write: other processes' records stand before or after it, never inside.

    A new file, and the folders above it, are for their owner alone. A disk that fills up in the middle of the record is
    an error, and what got there is cut off again unless another process has already written behind it.
    """
    try:
        with deferred:
            fd = open_to_append(path)
            try:
                append_to(fd, data)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc


def open_to_append(path: Path) -> int:
    """Open a file for `append_to`; a new one, and the folders above it, are for their owner alone."""
    try:
        try:
            return os.open(path, _APPEND_FLAGS, 0o600)
        except FileNotFoundError:
            make_folder(path.parent)
            return os.open(path, _APPEND_FLAGS, 0o600)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc


def append_to(fd: int, data: bytes) -> None:
    """Add one record to a file that is open with O_APPEND, as `append` does. Raises OSError."""
    written = os.write(fd, data)
    if written == len(data):
        return
    start = os.lseek(fd, 0, os.SEEK_CUR) - written
    try:
        # After a short write the next one tells why it was short, or completes the record.
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])
    except OSError:
        if os.fstat(fd).st_size == start + written:
            os.ftruncate(fd, start)
        raise


@contextmanager
def locked(path: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold the lock that stands for a path, in `<path>.lock` beside it: `with locked(path): ...`.

    One holder among all threads and processes, and not re-entrant. The lock of a process that died is free.
    """
    lock, naps = _new_lock(path), _naps(path, timeout_s)
    while True:
        # Stop is heard between two attempts. From the attempt that succeeds to the release it is deferred.
        with deferred:
            if _acquire(lock, path):
                try:
                    yield
                finally:
                    lock.release()
                return
        time.sleep(next(naps))


@asynccontextmanager
async def alocked(path: Path, timeout_s: float = 10.0) -> AsyncIterator[None]:
    """`locked` without blocking the event loop."""
    import asyncio

    lock, naps = _new_lock(path), _naps(path, timeout_s)
    while not _acquire(lock, path):  # noqa: ASYNC110 - no event tells of the end of another process's lock
        await asyncio.sleep(next(naps))
    try:
        yield
    finally:
        lock.release()


def _new_lock(path: Path) -> BaseFileLock:
    from filelock import FileLock

    make_folder(path.parent)
    return FileLock(path.with_name(path.name + ".lock"), mode=0o600)


def _acquire(lock: BaseFileLock, path: Path) -> bool:
    """Try once to take a lock; False if somebody else holds it."""
    from filelock import Timeout

    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc, doing="lock") from exc
    return True


def _naps(path: Path, timeout_s: float) -> Iterator[float]:
    """Yield how long to wait before each further attempt at a lock. Raises StoreError when the time is over."""
    began, nap_s = time.monotonic(), _FIRST_NAP_S
    while (left_s := began + timeout_s - time.monotonic()) > 0:
        yield min(nap_s, left_s)
        # Whoever has waited longest looks most often. Otherwise a process that takes the lock again and again starves
        # the others.
        nap_s = min(2 * nap_s, _LONGEST_NAP_S / max(1.0, time.monotonic() - began))
    hint = f"Another process is holding '{path.name}.lock' beside it. Try again, or end that process."
    raise StoreError(path, f"it was locked for {timeout_s:g} s", doing="lock", hint=hint)
