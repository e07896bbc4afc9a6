"""Built-in pack `fs`: list a folder, read a text file; confined to the configured roots.

The file that was actually opened is checked, after following links, so that no spelling and no race
leads outside. FIFOs, devices, files under /proc, the secrets file of any project (by any name or
link) and files in a state directory are never read.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import ExecutionFailed, TooLarge
from onetool_ipy.base.files import is_inside, open_plain, place_of, scanned, windows_fault
from onetool_ipy.base.processes import IS_WINDOWS
from onetool_ipy.core.current import is_from_outside
from onetool_ipy.core.decorate import mark

_MAX_ENTRIES = 100_000
_CHUNK = 1024 * 1024
_MAX_FROM_OUTSIDE = 10 * 1024 * 1024
"""What one call reads at most for a model, a REST client or an MCP client."""
_SEPARATORS = os.sep + (os.altsep or "")
_FOLDER = ".onetool"
_SECRETS = "secrets.yaml"


class OutsideRoots(ExecutionFailed):
    """A path outside the roots, to secrets, or in a state directory."""

    reason = "not_allowed"
    status = 403


class Private(NamedTuple):
    """Files that no fs tool reads, wherever the roots are.

    `secrets_files` are the known ones; those of other projects are recognized by their path.
    `state` are the state directories of this user, with the tokens and a folder for each project,
    and the one of this project.
    """

    secrets_files: tuple[Path, ...] = ()
    state: tuple[Path, ...] = ()


def packs(
    roots: Sequence[Path], private: Private, working: Callable[[], str] = os.getcwd
) -> list[tuple[str, Sequence[Callable[..., Any]]]]:
    """Return the pack, confined to `roots`; relative paths start at the folder that `working`
    returns."""
    confined = Confined(roots, private, working)

    @mark(read_only=True, cache_key=confined.listing_stamp)
    def list_dir(path: str, recursive: bool = False, maxDepth: int = 4) -> list[dict[str, Any]]:  # noqa: N803 - 004
        """List a folder.

        Args:
            path: The folder, absolute or relative to the working directory.
            recursive: List what is below it too.
            maxDepth: How many levels down a recursive listing goes; 1 is the direct children.

        Returns:
            Rows {path, type, size}, sorted by path; type is file, directory, symlink or other, size
            in bytes for files.

        Example:
            %tool fs.list_dir path=.
        """
        if maxDepth < 1:
            raise ExecutionFailed(f"maxDepth must be at least 1, got {maxDepth}.")
        # From Python it may be a Path.
        return confined.entries(os.fspath(path), maxDepth if recursive else 1)

    @mark(read_only=True, cache_key=confined.stamp)
    def read_file(path: str, maxBytes: int = 204800) -> str:  # noqa: N803 - 004
        """Read a text file (UTF-8).

        Args:
            path: The file, absolute or relative to the working directory.
            maxBytes: A larger file is an error. Models, REST and MCP clients read at most 10 MB a
                call.

        Returns:
            The text.

        Example:
            %tool fs.read_file path=README.md
        """
        if maxBytes < 0:
            raise ExecutionFailed(f"maxBytes must not be negative, got {maxBytes}.")
        return confined.read(
            os.fspath(path), maxBytes, _MAX_FROM_OUTSIDE if is_from_outside() else None
        )

    return [("fs", [list_dir, read_file])]


class Confined:
    """The files and folders inside the roots."""

    def __init__(
        self, roots: Sequence[Path], private: Private, working: Callable[[], str] = os.getcwd
    ) -> None:
        self._roots = tuple(roots)
        self._private = private
        self._working = working

    def stamp(self, path: str, **_: Any) -> tuple[str, int, int] | None:
        """Return the cache key of a path: real path, time of change, size; None if it cannot be
        cached."""
        try:
            real = self._real(path)
            status = os.stat(real)
        except (OSError, ValueError, ExecutionFailed):
            return None
        return (real, status.st_mtime_ns, status.st_size)

    def listing_stamp(
        self, path: str, recursive: bool = False, **_: Any
    ) -> tuple[str, int, int] | None:
        """Return `stamp`, or None for a recursive listing, since a folder's time ignores changes
        further down."""
        return None if recursive else self.stamp(path)

    def entries(self, path: str, depth: int) -> list[dict[str, Any]]:
        """List a folder, down to `depth` levels, sorted; links are listed, not followed."""
        rows = list(islice(self._walk(path, depth), _MAX_ENTRIES + 1))
        if len(rows) > _MAX_ENTRIES:
            raise TooLarge(
                f"'{path}' holds more than {_MAX_ENTRIES:,} entries.",
                hint="List a smaller part of it.",
            )
        return sorted(rows, key=lambda row: row["path"])

    def read(self, path: str, limit: int, most: int | None = None) -> str:
        """Read a regular file of at most `limit` bytes, and of at most `most` whatever the
        limit."""
        allowed = limit if most is None else min(limit, most)
        with self._opened(self._real(path), path) as fd:
            size = os.fstat(fd).st_size
            data = b"" if size > allowed else _read_up_to(fd, allowed + 1)
        size = max(size, len(data))
        if size > limit:
            raise TooLarge(
                f"'{path}' has {size} bytes, more than maxBytes {limit}.",
                hint="Raise maxBytes to read it.",
            )
        if size > allowed:
            raise TooLarge(
                f"'{path}' has {size} bytes, more than the {allowed} that such a call reads.",
                hint="Call fs.read_file from the notebook or in Python to read it.",
            )
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ExecutionFailed(f"'{path}' is not UTF-8 text (byte {exc.start}).") from exc

    def _real(self, path: str) -> str:
        """Return the absolute path without links and without `~`."""
        path = os.fspath(path)
        if not path or "\0" in path:
            raise ExecutionFailed("A path must not be empty and cannot hold a NUL character.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as exc:
            raise ExecutionFailed(
                f"{values.safe_repr(path, 80)} holds a character that no path can."
            ) from exc
        expanded = os.path.expanduser(path)
        drives = [os.path.splitdrive(root)[0] for root in self._roots]
        if IS_WINDOWS and (fault := windows_fault(expanded, drives)):
            raise OutsideRoots(f"'{path}' {fault}, so it is not opened.")
        if not os.path.isabs(expanded):
            expanded = os.path.join(self._working(), expanded)
        try:
            return os.path.realpath(expanded)
        except OSError as exc:  # on Windows some names of devices
            raise ExecutionFailed(f"Cannot open '{path}': {os.strerror(exc.errno or 0)}.") from exc

    def _walk(self, path: str, depth: int) -> Iterator[dict[str, Any]]:
        top = self._real(path)
        drive, rest = os.path.splitdrive(path)
        label = drive + (rest.rstrip(_SEPARATORS) or os.sep)
        todo = [(top, "" if label == "." else label, depth)]
        while todo:
            place, label, left = todo.pop()
            try:
                with self._listed(place, label or path) as scan:
                    entries = [(entry.name, *_kind(entry)) for entry in scan]
            except ExecutionFailed:
                if place == top:
                    raise
                continue  # removed, or not readable: its own row is listed already
            for name, kind, size in entries:
                row = os.path.join(label, name)
                yield {"path": row, "type": kind, "size": size}
                if kind == "directory" and left > 1:
                    todo.append((os.path.join(place, name), row, left - 1))

    @contextmanager
    def _listed(self, real: str, path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        """Open a folder without links, and check that it lies inside a root and may be listed."""

        def check(lies: str, status: os.stat_result) -> None:
            self._require_inside(lies, path)
            _require_folder(status, path)
            self._refuse_state(status, lies, path)

        self._require_inside(real, path)
        try:
            _require_folder(os.lstat(real), path)
            with scanned(real, check) as entries:
                yield entries
        except OSError as exc:
            raise _unopened(path, exc) from exc

    @contextmanager
    def _opened(self, real: str, path: str) -> Iterator[int]:
        """Open a file without links, and check that the open file lies inside a root and may be
        read."""
        self._require_inside(real, path)
        try:
            _require_file(os.lstat(real), path)
            fd = open_plain(real)
        except OSError as exc:
            raise _unopened(path, exc) from exc
        try:
            status, lies = os.fstat(fd), place_of(fd, real)
            self._require_inside(lies, path)
            _require_file(status, path)
            self._refuse_state(status, lies, path)
            self._refuse_secrets(status, lies, path)
            yield fd
        finally:
            os.close(fd)

    def _require_inside(self, real: str, path: str) -> None:
        if any(is_inside(real, os.path.realpath(root)) for root in self._roots):
            return
        roots = ", ".join(f"'{root}'" for root in self._roots) or "none"
        named = real if path.startswith("~") else path
        raise OutsideRoots(
            f"'{named}' is outside the allowed folders ({roots}).",
            hint="Add it to fs.roots in .onetool/onetool.yaml, then run: %tool trust",
        )

    def _refuse_secrets(self, status: os.stat_result, lies: str, path: str) -> None:
        """Refuse the secrets file of any project, by its path and by its inode, since a hard link
        is the same file.

        An editor's copies beside it (`secrets.yaml~`, `.secrets.yaml.swp`) are refused too.
        """
        parent, name = os.path.split(lies)
        is_named = _SECRETS in name.casefold() and os.path.basename(parent).casefold() == _FOLDER
        if is_named or any(_is_same(status, file) for file in self._secrets_files(lies)):
            raise OutsideRoots(f"'{path}' holds secrets and is never read.")

    def _secrets_files(self, lies: str) -> Iterator[str | Path]:
        """Yield the secrets files to compare with: the known ones, and of every project above the
        file or a root."""
        yield from self._private.secrets_files
        folders: set[str] = set()
        for start in (lies, *(os.path.realpath(root) for root in self._roots)):
            folder = start
            while folder not in folders:
                folders.add(folder)
                yield os.path.join(folder, _FOLDER, _SECRETS)
                folder = os.path.dirname(folder)

    def _refuse_state(self, status: os.stat_result, lies: str, path: str) -> None:
        """Refuse everything in a state directory: tokens, approvals, the arguments and results of
        calls."""
        folders = self._private.state
        # Names are compared by case folding, as some file systems do.
        is_state = any(
            is_inside(_folded(lies), _folded(os.path.realpath(folder))) for folder in folders
        )
        # A hard link elsewhere is the same file under another path. Few files have one, so this
        # walk is rare.
        if not is_state and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            files = (file for folder in folders for file in Path(folder).rglob("*"))
            is_state = any(_is_same(status, file) for file in files)
        if is_state:
            raise OutsideRoots(
                f"'{path}' is in a state directory of onetool-ipy, which fs never reads.",
                hint=(
                    "Keep other files elsewhere, or point $ONETOOL_STATE or state_dir at a folder"
                    " of its own."
                ),
            )


def _folded(path: str) -> str:
    return (
        path if path.isascii() and path.islower() else unicodedata.normalize("NFC", path).casefold()
    )


def _is_same(status: os.stat_result, file: str | Path) -> bool:
    try:
        return os.path.samestat(status, os.stat(file))
    except (OSError, ValueError):
        return False


def _unopened(path: str, exc: OSError) -> ExecutionFailed:
    folder = os.path.dirname(path) or "."
    while not os.path.isdir(folder) and folder != (above := os.path.dirname(folder) or "."):
        folder = above
    hint = f'See what is there: %tool fs.list_dir path="{folder}"'
    is_missing = isinstance(exc, FileNotFoundError)
    message = f"Cannot open '{path}': {os.strerror(exc.errno or 0)}."
    return ExecutionFailed(message, hint=hint if is_missing else "")


def _require_folder(status: os.stat_result, path: str) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise ExecutionFailed(f"'{path}' is not a folder.", hint="Read a file with fs.read_file.")


def _require_file(status: os.stat_result, path: str) -> None:
    """Require a regular file; opening anything else could block or have effects."""
    if stat.S_ISDIR(status.st_mode):
        raise ExecutionFailed(f"'{path}' is a folder.", hint="List it with fs.list_dir.")
    # What is under /proc shows processes and their environment.
    kernel = None
    with suppress(OSError):
        kernel = os.stat("/proc/self").st_dev
    if not stat.S_ISREG(status.st_mode) or status.st_dev == kernel:
        raise ExecutionFailed(f"'{path}' is not a regular file.")


def _read_up_to(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(fd, min(limit, _CHUNK))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _kind(entry: os.DirEntry[str]) -> tuple[str, int | None]:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return "other", None
    if stat.S_ISLNK(status.st_mode):
        return "symlink", None
    if stat.S_ISDIR(status.st_mode):
        return "directory", None
    return ("file", status.st_size) if stat.S_ISREG(status.st_mode) else ("other", None)
