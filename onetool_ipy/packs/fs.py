"""Built-in pack `fs`: list a directory, read a text file; confined to the configured roots.

The check is made on what was really opened, after following links, so that no spelling and no race leads out. The
secrets file, FIFOs and devices are never opened for reading.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.errors import ExecutionFailed, TooLarge

__all__ = ["Confined", "OutsideRoots", "packs"]

_MAX_ENTRIES = 100_000
_CHUNK = 1024 * 1024


class OutsideRoots(ExecutionFailed):
    """A path that leads out of the roots, or to the secrets."""

    reason = "not_allowed"
    status = 403


def packs(
    roots: Sequence[Path], secrets_file: Path | None = None, working: Callable[[], str] = os.getcwd
) -> list[tuple[str, Sequence[Callable[..., Any]]]]:
    """The pack with its functions, confined to `roots`; a relative path starts from the folder that `working` gives."""
    confined = Confined(roots, secrets_file, working)

    @mark(read_only=True, cache_key=confined.listing_stamp)
    def list_dir(path: str, recursive: bool = False, maxDepth: int = 4) -> list[dict[str, Any]]:  # noqa: N803 - 004
        """List a directory.

        Args:
            path: The directory, absolute or relative to the working directory.
            recursive: List what is below it too.
            maxDepth: How many levels down a recursive listing goes; 1 is the direct children.

        Returns:
            Rows {path, type, size}, sorted by path; type is file, directory, symlink or other, size in bytes for files.

        Example:
            %tool fs.list_dir path=.
        """
        if maxDepth < 1:
            raise ExecutionFailed(f"maxDepth must be at least 1, got {maxDepth}.")
        return confined.entries(os.fspath(path), maxDepth if recursive else 1)  # from Python it may be a Path

    @mark(read_only=True, cache_key=confined.stamp)
    def read_file(path: str, maxBytes: int = 204800) -> str:  # noqa: N803 - 004
        """Read a text file (UTF-8).

        Args:
            path: The file, absolute or relative to the working directory.
            maxBytes: A larger file is an error.

        Returns:
            The text.

        Example:
            %tool fs.read_file path=README.md
        """
        if maxBytes < 0:
            raise ExecutionFailed(f"maxBytes must not be negative, got {maxBytes}.")
        return confined.read(os.fspath(path), maxBytes)

    return [("fs", [list_dir, read_file])]


class Confined:
    """The file system as far as the roots reach."""

    def __init__(
        self, roots: Sequence[Path], secrets_file: Path | None = None, working: Callable[[], str] = os.getcwd
    ) -> None:
        self._roots = tuple(roots)
        self._secrets_file = secrets_file
        self._working = working

    def stamp(self, path: str, **_: Any) -> tuple[str, int, int] | None:
        """What a cached answer depends on: path, time of change, size; None where there is nothing to reuse."""
        try:
            real = self._real(path)
            found = os.stat(real)
        except (OSError, ValueError, ExecutionFailed):
            return None
        return (real, found.st_mtime_ns, found.st_size)

    def listing_stamp(self, path: str, recursive: bool = False, **_: Any) -> tuple[str, int, int] | None:
        """As `stamp`; a directory does not tell what changed further down."""
        return None if recursive else self.stamp(path)

    def entries(self, path: str, depth: int) -> list[dict[str, Any]]:
        """The rows of a directory, down to `depth` levels, sorted; links are named, not followed."""
        rows = list(islice(self._walk(path, depth), _MAX_ENTRIES + 1))
        if len(rows) > _MAX_ENTRIES:
            raise TooLarge(f"'{path}' holds more than {_MAX_ENTRIES:,} entries.", hint="List a smaller part of it.")
        return sorted(rows, key=lambda row: row["path"])

    def read(self, path: str, limit: int) -> str:
        """The text of a regular file of at most `limit` bytes."""
        with self._opened(self._real(path), path, os.O_RDONLY) as fd:
            found = os.fstat(fd)
            if found.st_size > limit:
                raise _over(path, found.st_size, limit)
            data = _read_up_to(fd, limit + 1)
        if len(data) > limit:
            raise _over(path, len(data), limit)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ExecutionFailed(f"'{path}' is not UTF-8 text (byte {exc.start}).") from exc

    def _real(self, path: str) -> str:
        """The absolute path without links and without `~`."""
        path = os.fspath(path)
        if not path or "\0" in path:
            raise ExecutionFailed("A path must not be empty and cannot hold a NUL character.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as exc:
            raise ExecutionFailed(f"{values.safe_repr(path, 80)} holds a character that no path can.") from exc
        expanded = os.path.expanduser(path)
        if os.path.isabs(expanded):
            return os.path.realpath(expanded)
        return os.path.realpath(os.path.join(self._working(), expanded))

    def _walk(self, path: str, depth: int) -> Iterator[dict[str, Any]]:
        top = self._real(path)
        todo = [(top, "" if path in (".", "./") else path.rstrip("/") or "/", depth)]
        while todo:
            place, label, left = todo.pop()
            try:
                with self._opened(place, label or path, os.O_RDONLY | os.O_DIRECTORY) as fd, os.scandir(fd) as found:
                    entries = [(entry.name, *_kind(entry)) for entry in found]
            except ExecutionFailed:
                if place == top:
                    raise
                continue  # gone, or not ours to read: its own row is all there is
            for name, kind, size in entries:
                row = os.path.join(label, name)
                yield {"path": row, "type": kind, "size": size}
                if kind == "directory" and left > 1:
                    todo.append((os.path.join(place, name), row, left - 1))

    @contextmanager
    def _opened(self, real: str, path: str, flags: int) -> Iterator[int]:
        """Open a path without links and make sure that what was opened lies inside a root and may be read."""
        self._require_inside(real, path)
        try:
            _require_kind(os.lstat(real), flags, path)
            fd = os.open(real, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as exc:
            raise ExecutionFailed(f"Cannot open '{path}': {exc.strerror}.") from exc
        try:
            self._require_inside(_opened_path(fd) or os.path.realpath(real), path)
            found = os.fstat(fd)
            _require_kind(found, flags, path)
            self._refuse_secrets(found, path)
            yield fd
        finally:
            os.close(fd)

    def _require_inside(self, real: str, path: str) -> None:
        for root in self._roots:
            home = os.path.realpath(root)
            if real == home or real.startswith(home.rstrip("/") + "/"):
                return
        shown = ", ".join(f"'{root}'" for root in self._roots) or "none"
        raise OutsideRoots(
            f"'{path}' is outside the allowed folders ({shown}).", hint="Add it to fs.roots to allow it."
        )

    def _refuse_secrets(self, found: os.stat_result, path: str) -> None:
        """Refuse the secrets file by what it is, not by its name: a hard link is the same file."""
        if self._secrets_file is None:
            return
        try:
            secret = os.stat(self._secrets_file)
        except OSError:
            return
        if os.path.samestat(found, secret):
            raise OutsideRoots(f"'{path}' holds secrets and is never read.")


def _require_kind(found: os.stat_result, flags: int, path: str) -> None:
    """A directory where one is listed, else a regular file; opening anything else could wait or do something."""
    if flags & os.O_DIRECTORY:
        if not stat.S_ISDIR(found.st_mode):
            raise ExecutionFailed(f"'{path}' is not a directory.", hint="Read a file with fs.read_file.")
    elif stat.S_ISDIR(found.st_mode):
        raise ExecutionFailed(f"'{path}' is a directory.", hint="List it with fs.list_dir.")
    elif not stat.S_ISREG(found.st_mode):
        raise ExecutionFailed(f"'{path}' is not a regular file.")


def _read_up_to(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(fd, min(limit, _CHUNK))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _kind(entry: os.DirEntry[str]) -> tuple[str, int | None]:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return "other", None
    if stat.S_ISLNK(found.st_mode):
        return "symlink", None
    if stat.S_ISDIR(found.st_mode):
        return "directory", None
    return ("file", found.st_size) if stat.S_ISREG(found.st_mode) else ("other", None)


def _opened_path(fd: int) -> str | None:
    """Where an open file really lies, by the system's own word; None where it gives none."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


def _over(path: str, size: int, limit: int) -> TooLarge:
    return TooLarge(f"'{path}' has {size} bytes, more than maxBytes {limit}.", hint="Raise maxBytes to read it.")
