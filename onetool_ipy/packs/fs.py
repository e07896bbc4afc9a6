"""Built-in pack `fs`: list a directory, read a text file; confined to the configured roots.

The check is made on what was really opened, after following links, so that no spelling and no race leads out. The
secrets file, FIFOs and devices are never read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onetool_ipy.core.decorate import mark
from onetool_ipy.core.errors import ExecutionFailed, TooLarge

__all__ = ["Confined", "packs"]

_MAX_ENTRIES = 100_000


class OutsideRoots(ExecutionFailed):
    reason = "not_allowed"
    status = 403


def packs(roots: Sequence[Path], secrets_file: Path | None = None) -> list[tuple[str, Sequence[Callable[..., Any]]]]:
    """The pack with its functions, confined to `roots`."""
    confined = Confined(roots, secrets_file)

    @mark(read_only=True, cache_key=confined.stamp)
    def list_dir(path: str, recursive: bool = False, maxDepth: int = 4) -> list[dict[str, Any]]:  # noqa: N803 (004)
        """List a directory.

        Args:
            path: The directory, absolute or relative to the working directory.
            recursive: List what is below it too.
            maxDepth: How many levels down a recursive listing goes; 1 is the direct children.

        Returns:
            Rows {path, type, size}, sorted by path; type is file, directory, symlink or other.

        Example:
            %tool fs.list_dir path=.
        """
        if maxDepth < 1:
            raise ExecutionFailed(f"maxDepth must be at least 1, got {maxDepth}.")
        return sorted(confined.entries(path, maxDepth if recursive else 1), key=lambda row: row["path"])

    @mark(read_only=True, cache_key=confined.stamp)
    def read_file(path: str, maxBytes: int = 204800) -> str:  # noqa: N803 (004)
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
        return confined.read(path, maxBytes)

    return [("fs", [list_dir, read_file])]


class Confined:
    """The file system as far as the roots reach."""

    def __init__(self, roots: Sequence[Path], secrets_file: Path | None = None) -> None:
        self._roots = tuple(roots)
        self._secrets_file = secrets_file

    def stamp(self, path: str, **_: Any) -> tuple[str, int, int]:
        """What a cached answer depends on: path, time of change, size."""
        found = os.stat(path)
        return (os.path.realpath(path), found.st_mtime_ns, found.st_size)

    def entries(self, path: str, depth: int) -> Iterator[dict[str, Any]]:
        """The rows of a directory, down to `depth` levels; links are named, not followed."""
        fd = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            rows = list(_walk(fd, "" if path in (".", "./") else path.rstrip("/") or "/", depth))
        finally:
            os.close(fd)
        if len(rows) > _MAX_ENTRIES:
            raise TooLarge(f"'{path}' holds more than {_MAX_ENTRIES:,} entries.", hint="List a smaller part of it.")
        return iter(rows)

    def read(self, path: str, limit: int) -> str:
        """The text of a regular file of at most `limit` bytes."""
        fd = self._open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if stat.S_ISDIR(found.st_mode):
                raise ExecutionFailed(f"'{path}' is a directory.", hint="List it with fs.list_dir.")
            if not stat.S_ISREG(found.st_mode):
                raise ExecutionFailed(f"'{path}' is not a regular file.")
            self._refuse_secrets(found, path)
            if found.st_size > limit:
                raise _over(path, found.st_size, limit)
            with os.fdopen(os.dup(fd), "rb") as file:
                data = file.read(limit + 1)
        finally:
            os.close(fd)
        if len(data) > limit:
            raise _over(path, len(data), limit)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ExecutionFailed(f"'{path}' is not UTF-8 text (byte {exc.start}).") from exc

    def _open(self, path: str, flags: int) -> int:
        """Open a path and make sure that what was opened lies inside a root."""
        if "\0" in path:
            raise ExecutionFailed("A path cannot hold a NUL character.")
        real = os.path.realpath(os.path.expanduser(path))
        self._require_inside(real, path)
        try:
            fd = os.open(real, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as exc:
            raise ExecutionFailed(f"Cannot open '{path}': {exc.strerror}.") from exc
        try:
            self._require_inside(_opened_path(fd, real), path)
        except OutsideRoots:
            os.close(fd)
            raise
        return fd

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
        if self._secrets_file is None:
            return
        try:
            secret = os.stat(self._secrets_file)
        except OSError:
            return
        if os.path.samestat(found, secret):
            raise OutsideRoots(f"'{path}' holds secrets and is never read.")


def _walk(fd: int, shown: str, depth: int) -> Iterator[dict[str, Any]]:
    with os.scandir(fd) as found:
        entries = list(found)
    for count, entry in enumerate(entries):
        if count > _MAX_ENTRIES:
            return
        label = os.path.join(shown, entry.name) if shown else entry.name
        kind, size = _kind(entry)
        yield {"path": label, "type": kind, "size": size}
        if kind == "directory" and depth > 1:
            try:
                child = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            except OSError:
                continue  # gone, or not ours to read: its own row is all there is
            try:
                yield from _walk(child, label, depth - 1)
            finally:
                os.close(child)


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


def _opened_path(fd: int, fallback: str) -> str:
    """Where an open file really lies, by the system's own word where it gives one."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return fallback


def _over(path: str, size: int, limit: int) -> TooLarge:
    return TooLarge(f"'{path}' has {size} bytes, more than maxBytes {limit}.", hint="Raise maxBytes to read it.")
