"""Read, write, append to and lock files; every error is a StoreError that names the path and the
reason.

A file is written whole: temporary file, fsync, rename, fsync of the folder. Whatever is killed, a
path holds its old content or its new. The name of a temporary file says which process writes it, so
that what a dead one left can be removed. A read waits for no FIFO or device and stops at a size
limit. Folders are made for their owner alone. Stop is deferred while a file is written or a lock is
held.

A `Stamp` tells whether a file may have changed, by its times, size and inode. A clock of a file
system ticks in milliseconds or seconds: a stamp of its last tick is young, and its file has to be
read again.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from onetool_ipy.base.errors import UsageProblem, words_of
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.base.processes import IS_WINDOWS, is_running, system_words

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
# Patterns stay text here: `re` compiles them at their first use, and a start needs none of them.
_TEMP_NAME = r"\.onetool-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{16}\.tmp"

# A read must not wait for the writer of a FIFO, and an append not for its reader.
_COMMON_FLAGS = (
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
_READ_FLAGS = os.O_RDONLY | _COMMON_FLAGS | getattr(os, "O_NOCTTY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_FOLLOW | _COMMON_FLAGS
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS

# FILE_APPEND_DATA, FILE_READ_ATTRIBUTES, SYNCHRONIZE.
_APPEND_ONLY = 0x4 | 0x80 | 0x10_0000
_SHARING_S = 2.0
_ACCESS_DENIED, _IN_USE = 5, (32, 33)
_CLAIMED_BYTE = 1 << 30
_F_FULLFSYNC, _F_GETPATH = 51, 50
_DEVICE = (
    r"(?is) *(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?"
)

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
    errno.EEXIST: "a part of the path is not a folder",
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

_CLOSE_IT = "Close the program that uses it, then try again."
_CLEAR_IT = "Clear its read-only attribute, then try again."
_LEFT_ALONE = "Correct the file, or move it away; until then it is left as it is."

Done = TypeVar("Done")

Stamp = tuple[int, int, int, int]
"""Time of change of the content and of the entry, in ns; size; number."""


class StoreError(UsageProblem):
    """A file that could not be read or written; `path` says which, `reason` why."""

    def __init__(
        self, path: Path | str, reason: str, *, doing: str = "write", hint: str = ""
    ) -> None:
        super().__init__(f"Cannot {doing} '{path}': {reason}.", hint=hint)
        self.path = Path(path)
        self.reason: str = reason

    @classmethod
    def of(cls, path: Path | str, exc: OSError | ValueError, *, doing: str = "write") -> StoreError:
        """Translate an OSError."""
        if not isinstance(exc, OSError) or (number := exc.errno) is None:
            return cls(path, words_of(exc), doing=doing)
        if isinstance(exc, PermissionError) and is_in_use(path, exc):
            return cls(path, "another program has it open", doing=doing, hint=_CLOSE_IT)
        reason = _REASONS.get(number) or system_words(exc)
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


def is_young(stamp: Stamp, now_ns: int = 0) -> bool:
    """Whether the file may have changed without a change of its times, or since `now_ns`. Whole
    seconds mean a coarse clock; FAT counts creation in hundredths of them."""
    is_coarse = stamp[0] % 1_000_000_000 == 0 and stamp[1] % 10_000_000 == 0
    # On Windows the second time is that of creation.
    age_ns = (now_ns or time.time_ns()) - max(stamp[:2])
    return age_ns < (_COARSE_TICK_NS if is_coarse else _TICK_NS)


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, each with mode 0700. An existing folder stays as it
    is."""
    try:
        os.mkdir(folder, 0o700)
    except FileNotFoundError:
        if folder.parent == folder:  # a drive or a share that is not there
            raise
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


def is_in_use(path: Path | str, exc: PermissionError) -> bool:
    """Whether another program's open file is why this was denied; never outside Windows."""
    if sys.platform == "win32":
        import _winapi

        if not _may_be_in_use(path, exc):
            return False
        # Windows denies access to protected files and to files in use alike. To open the file for
        # ourselves alone tells them apart.
        try:
            _winapi.CloseHandle(_winapi.CreateFile(os.fspath(path), 0xC000_0000, 0, 0, 3, 0, 0))
        except OSError as denied:
            return denied.winerror in _IN_USE
        return True  # it was in use until now
    return False


def _may_be_in_use(path: Path | str, exc: PermissionError) -> bool:
    # The functions of the C library know no number of Windows.
    winerror = getattr(exc, "winerror", None) or _ACCESS_DENIED
    is_plain = IS_WINDOWS and os.path.isfile(path) and os.access(path, os.W_OK)
    return winerror in _IN_USE or (winerror == _ACCESS_DENIED and is_plain)


def patiently(step: Callable[[], Done], path: Path | str) -> Done:
    """Do a step on a file, again and again for 2 s while another program has it open (Windows).

    A second kernel, a virus scanner or OneDrive keeps a file open for moments, and Windows refuses
    to replace or to remove it meanwhile.
    """
    until, nap_s = time.monotonic() + _SHARING_S, _FIRST_NAP_S
    while True:
        try:
            return step()
        except PermissionError as exc:
            if not IS_WINDOWS or time.monotonic() > until or not _may_be_in_use(path, exc):
                raise
        time.sleep(nap_s)
        nap_s = min(2 * nap_s, _LONGEST_NAP_S / 4)


def remove(path: Path | str) -> None:
    """Remove a file; on Windows patiently. Raises OSError."""
    patiently(lambda: os.unlink(path), path)


def claim(fd: int) -> bool:
    """Lock a file that is open for reading and writing, for this process until it is closed;
    False if another process holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            # A lock keeps others from reading what it covers, so it covers a byte behind the end.
            os.lseek(fd, _CLAIMED_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(fd, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also on a disk without locks: then nobody takes over anything
        return False
    return True


def to_disk(fd: int) -> None:
    """Bring a file's content to the disk itself. Raises OSError."""
    # On macOS fsync ends at the cache of the drive.
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(fd, _F_FULLFSYNC)
        except OSError:  # a network drive has none
            os.fsync(fd)
        return
    os.fsync(fd)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies below it; both whole and without links.

    Names are compared as the system does: on Windows without case, and `/` is a separator too.
    """
    path, folder = os.path.normcase(path), os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def place_of(fd: int, path: str) -> str:
    """Return where an open file lies, as the system says; else `path` without its links."""
    try:
        if sys.platform == "win32":
            return _final_path(fd)
        if sys.platform == "darwin":
            import fcntl

            return os.fsdecode(fcntl.fcntl(fd, _F_GETPATH, bytes(1024)).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return os.path.realpath(path)


def _final_path(fd: int) -> str:
    """Return the path of an open file with long names and the case on the disk (Windows)."""
    import ctypes
    import msvcrt

    c, crt = cast("Any", ctypes), cast("Any", msvcrt)
    text = c.create_unicode_buffer(1 << 15)
    handle = c.c_void_p(crt.get_osfhandle(fd))
    if not c.windll.kernel32.GetFinalPathNameByHandleW(handle, text, len(text), 0):
        raise OSError(errno.EINVAL, "no path")
    if text.value.startswith("\\\\?\\UNC\\"):
        return "\\\\" + str(text.value[8:])
    return str(text.value).removeprefix("\\\\?\\")


@contextmanager
def scanned(folder: str, check: Callable[[str, os.stat_result], None]) -> Iterator[Any]:
    """Give the entries of a folder, after `check` saw where the open folder lies and its status.

    Windows opens no folders: there the path is checked. Raises OSError.
    """
    if sys.platform == "win32":
        check(os.path.realpath(folder), os.stat(folder))
        with os.scandir(folder) as entries:
            yield entries
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        check(place_of(fd, folder), os.fstat(fd))
        with os.scandir(fd) as entries:
            yield entries
    finally:
        os.close(fd)


def open_plain(path: str) -> int:
    """Open a file to read, that is no link, and without waiting for a FIFO. Raises OSError."""
    return patiently(lambda: os.open(path, _READ_FLAGS | _NO_FOLLOW), path)


def windows_fault(path: str, drives: Iterable[str]) -> str:
    r"""Return why a path must not be opened on Windows, or "".

    Devices (`con`, `nul.txt`), the raw forms (`\\?\`, `\\.\`), streams (`a.txt:b`), and names that
    Windows changes (a dot or blank at the end) have a meaning that no comparison of names sees. A
    share that is not among `drives` is not even looked at: that would send the user's password.
    """
    import ntpath

    path = path.replace("/", "\\")
    if path.startswith(("\\\\?", "\\\\.", "\\??")):
        return "is a raw path of Windows"
    drive, rest = ntpath.splitdrive(path)
    if drive.startswith("\\\\") and drive.casefold() not in map(str.casefold, drives):
        return "is on another machine"
    if drive and not rest.startswith("\\"):
        return "is relative to the folder of a drive"
    if drive[1:] == ":" and not drive[0].isalpha():
        return "names a stream of a file"
    for name in filter(None, rest.split("\\")):
        if ":" in name:
            return "names a stream of a file"
        if name not in (".", "..") and name[-1] in ". ":
            return "has a name that ends with a dot or a blank"
        if re.fullmatch(_DEVICE, name):
            return "names a device of Windows"
    return ""


def read(path: Path, limit: int = MAX_BYTES) -> Content | None:
    """Return the content of a file, or None if there is none. Raises Unreadable for anything
    else."""
    try:
        fd = patiently(lambda: os.open(path, _READ_FLAGS), path)
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise Unreadable("is a folder, not a file.")
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("is not a regular file.")
            # The file may grow meanwhile. Room for the largest file would take longer than to read
            # a small one.
            with open(fd, "rb", closefd=False) as file:
                data = file.read(min(status.st_size, limit) + 1)
                if len(data) > status.st_size:
                    data += file.read(limit + 1 - len(data))
            size = max(status.st_size, len(data))
        finally:
            os.close(fd)
    except FileNotFoundError:
        if path.is_symlink():
            raise Unreadable("is a link to a file that does not exist.") from None
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as exc:
        if os.path.isdir(path):  # Windows opens no folder
            raise Unreadable("is a folder, not a file.") from None
        reason = (getattr(exc, "strerror", None) or str(exc)).lower()
        if isinstance(exc, PermissionError) and is_in_use(path, exc):
            reason = "another program has it open"
        raise Unreadable(f"cannot be read: {reason}.") from exc
    if size > limit:
        raise Unreadable(f"is too large: {size:,} bytes; the limit is {limit:,}.")
    return Content(data=data, stat=status)


def bytes_of(path: Path, limit: int = MAX_BYTES) -> bytes | None:
    """Return the bytes of a file that a person named, or None if there is none. Raises StoreError
    for anything else."""
    try:
        content = read(path, limit)
    except Unreadable as exc:
        reason = str(exc).rstrip(".").removeprefix("cannot be read: ")
        reason = f"it {reason}" if reason.startswith("is ") else reason
        raise StoreError(path, reason, doing="read") from exc
    return None if content is None else content.data


def read_object(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is no file. Raises StoreError for one that
    cannot be read.

    Whoever changes a part of a file reads it like this first, so nobody writes over what could not
    be read. A name that stands twice, or a number that no float can hold, is refused too: it would
    be lost.
    """
    try:
        content = bytes_of(path, limit)
        if content is None:
            return {}
        data = json.loads(content, object_pairs_hook=_unique, parse_float=_finite)
        if isinstance(data, dict):
            return data
        reason = "it does not hold a JSON object"
    except RecursionError:
        reason = "it is nested too deep"
    except StoreError as exc:
        reason = exc.reason
    except ValueError as exc:
        reason = f"it is not valid JSON ({exc})"
    raise StoreError(path, reason, doing="read", hint=_LEFT_ALONE)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the name '{next(name for name in names if names.count(name) > 1)}' stands in it twice"
        )
    return data


def read_own(path: Path, limit: int, *, start: int = 0) -> bytes | None:
    """Return the bytes of one of the user's own files from `start` on, or None if it is missing,
    too large, a link or not theirs."""
    try:
        flags = _READ_FLAGS | _NO_FOLLOW
        with open(patiently(lambda: os.open(path, flags), path), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > limit or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
                return None
            file.seek(start)
            return file.read()
    except (OSError, ValueError):
        return None


def end_of_own(path: Path, limit: int) -> bytes | None:
    """`read_own` for a file of lines of any size: of a larger one the last lines within the
    limit."""
    try:
        size = os.lstat(path).st_size
    except OSError:
        return None
    data = read_own(path, max(size, limit), start=max(size - limit, 0))
    return data if data is None or size <= limit else data.partition(b"\n")[2]


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
        # `mode` is that of a file that is there. Windows replaces no read-only file, nor would it
        # remove a temp file that is one.
        if IS_WINDOWS and not mode & stat.S_IWRITE:
            raise StoreError(path, "it is read-only", hint=_CLEAR_IT)
        self._mode = mode
        self._fd = -1
        self._dropped = 0
        self._is_synced = False

    @contextmanager
    def lent(self) -> Iterator[Path]:
        """Give the path of the temp file to a library that writes by itself. We close it meanwhile:
        Windows opens no file for writing twice."""
        self._close()
        yield self._temp
        try:
            with deferred:
                self._fd = os.open(self._temp, os.O_WRONLY | _COMMON_FLAGS)
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc

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
                remove(self._temp)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add a piece."""
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, memoryview(data)[written:])
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc
        self.size += written
        # The disk begins to write a large file at once, so that the sync at the end does not wait
        # for all of it.
        if self.size - self._dropped >= _DROP_EVERY and hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(
                    self._fd, self._dropped, self.size - self._dropped, os.POSIX_FADV_DONTNEED
                )
            self._dropped = self.size

    def sync(self) -> None:
        """Sync the content to disk; called after the last piece. Several files may do so at once,
        in threads."""
        try:
            to_disk(self._fd)
        except OSError as exc:
            raise StoreError.of(self.path, exc) from exc
        self._is_synced = True

    def commit(self, *, sync_folder: bool = True) -> None:
        """Sync the content to disk, then rename it to the path in one step. The last of many files
        may sync for all."""
        if not self._is_synced:
            self.sync()
        try:
            with deferred:
                # Windows cannot rename an open file.
                self._close()
                patiently(lambda: os.replace(self._temp, self.path), self.path)
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

    A symbolic link at the path is followed and stays a link; with `nofollow` it is refused. An
    existing file keeps its permissions, a new one gets `mode`.
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


def newline_of(text: str) -> str:
    """Return how a text ends its lines; most do so in one way."""
    return "\r\n" if "\r\n" in text and not re.search(r"(?<!\r)\n", text) else "\n"


def remove_stale_temp_files(folder: Path) -> int:
    """Remove the temp files that dead writers left in this folder and return how many. Never
    raises.

    A file of another machine cannot be asked about its writer: it is removed when it is a day old.
    """
    count = 0
    for name in names_in(folder):
        if (match := re.fullmatch(_TEMP_NAME, name)) is None:
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
    """Add one record with one write: other processes' records stand before or after it, never
    inside.

    A new file, and the folders above it, are for their owner alone. A symbolic link is refused: it
    could lead into any file of the user. A disk that fills up in the middle of the record is an
    error, and what got there is cut off again unless another process has already written behind it.
    """
    try:
        with deferred:
            fd = open_to_append(path)
            try:
                append_to(fd, data)
                if sync:
                    to_disk(fd)
            finally:
                os.close(fd)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc


def append_line(path: Path, line: bytes) -> None:
    """`append` a line, on a line of its own: an editor may have saved the file without its last
    line end, and what was cut off before costs itself."""
    try:
        fd = os.open(path, _READ_FLAGS | _NO_FOLLOW)
    except OSError:  # there is none; otherwise the append tells why
        append(path, line)
        return
    try:
        size = os.fstat(fd).st_size
        os.lseek(fd, max(size - 1, 0), os.SEEK_SET)
        is_ended = os.read(fd, 1) in (b"", b"\n")
    except OSError:  # a FIFO
        is_ended = True
    finally:
        os.close(fd)
    append(path, line if is_ended else b"\n" + line)


def open_to_append(path: Path) -> int:
    """Open a file for `append_to`; a new one, and the folders above it, are for their owner
    alone."""
    try:
        try:
            return patiently(lambda: _opened_to_append(path), path)
        except FileNotFoundError:
            make_folder(path.parent)
            return _opened_to_append(path)
    except (OSError, ValueError) as exc:
        raise StoreError.of(path, exc) from exc


def _opened_to_append(path: Path) -> int:
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        # O_APPEND of the C library looks up the end and then writes: a process that writes in
        # between loses its record. To a file that is open for nothing else the system appends.
        handle = _winapi.CreateFile(os.fspath(path), _APPEND_ONLY, 3, 0, 4, 0, 0)
        return msvcrt.open_osfhandle(handle, os.O_APPEND)
    return os.open(path, _APPEND_FLAGS, 0o600)


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
        with suppress(OSError):  # Windows cuts no file that is open to append
            if os.fstat(fd).st_size == start + written:
                os.ftruncate(fd, start)
        raise


@contextmanager
def locked(path: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold the lock that stands for a path, in `<path>.lock` beside it: `with locked(path): ...`.

    One holder among all threads and processes, and not re-entrant. The lock of a process that died
    is free.
    """
    lock, naps = _new_lock(path), _naps(path, timeout_s)
    while True:
        # Stop is heard between two attempts. From the attempt that succeeds to the release it is
        # deferred.
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
    """Yield how long to wait before each further attempt at a lock. Raises StoreError when the time
    is over."""
    began, nap_s = time.monotonic(), _FIRST_NAP_S
    while (left_s := began + timeout_s - time.monotonic()) > 0:
        yield min(nap_s, left_s)
        # Whoever has waited longest looks most often. Otherwise a process that takes the lock again
        # and again starves the others.
        nap_s = min(2 * nap_s, _LONGEST_NAP_S / max(1.0, time.monotonic() - began))
    hint = (
        f"Another process is holding '{path.name}.lock' beside it. Try again, or end that process."
    )
    raise StoreError(path, f"it was locked for {timeout_s:g} s", doing="lock", hint=hint)
