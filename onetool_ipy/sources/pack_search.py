"""Find the pack files that the patterns of `tools_dir` name, inside the folder of the configuration and nowhere else.

A pattern that leads outside, a file or folder that a symbolic link leads outside, one that another user may have
written, and too many files are problems. The walk is bounded, whatever the patterns are.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onetool_ipy.config.ownership import Owners
from onetool_ipy.core.model import Problem
from onetool_ipy.core.printable import printable

__all__ = ["MAX_FILES", "Search"]

MAX_FILES = 2_000
_MAX_ENTRIES = 20_000
_MAX_DEPTH = 20
_MAGIC = frozenset("*?[")


class _Enough(Exception):
    """The walk has seen as many entries as it may."""


class Search:
    """One look for the pack files of a project; `problems` says what does not count."""

    def __init__(self, root: Path) -> None:
        self.problems: list[Problem] = []
        self._root = root
        self._real = os.path.realpath(root)
        self._owners = Owners(root)
        self._left = _MAX_ENTRIES
        self._folders: dict[str, bool] = {}
        self._inside: dict[str, bool] = {}

    def files(self, patterns: Sequence[str]) -> list[Path]:
        """The files, in the order of the patterns and by name."""
        found: dict[str, None] = {}
        for pattern in patterns:
            parts = self._parts(pattern)
            if parts is None:
                continue
            try:
                found.update(dict.fromkeys(sorted(self._matching(parts), key=Path)))
            except _Enough:
                hint = "Name the folder of the pack files more closely."
                self._say("tools_dir", f"'{pattern}' leads through more than {_MAX_ENTRIES:,} files and folders.", hint)
                break
        chosen = [path for path in found if self._counts(path)]
        if len(chosen) > MAX_FILES:
            said = f"finds {len(chosen):,} pack files; only the first {MAX_FILES:,} count."
            self._say("tools_dir", said, "Remove some, or join them.")
        return [Path(path) for path in chosen[:MAX_FILES]]

    def _say(self, where: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(printable(where), printable(message), printable(hint)))

    def _parts(self, pattern: str) -> list[str] | None:
        """The parts of a pattern; None, and a problem, for one that leads out of the folder."""
        parts = [part for part in pattern.replace(os.sep, "/").split("/") if part not in ("", ".")]
        is_outside = os.path.isabs(pattern) or pattern.startswith(("/", "~")) or os.path.splitdrive(pattern)[0]
        if is_outside or ".." in parts or "\0" in pattern:
            self._say(
                "tools_dir",
                f"'{pattern}' leads out of '{self._root.name}/', so it does not count.",
                f'Put pack files into {self._root.name}/tools/ and name them from there, e.g. "tools/*.py".',
            )
            return None
        return parts

    def _matching(self, parts: Sequence[str]) -> Iterator[str]:
        """The paths that a pattern names; a folder stands for the Python files in it."""
        for path in self._walk(str(self._root), parts, 0):
            if os.path.isdir(path):
                if not any(_MAGIC & set(part) for part in parts):
                    yield from self._walk(path, ["*.py"], 0)
            elif path.endswith(".py") and not os.path.basename(path).startswith("_"):
                yield path

    def _walk(self, folder: str, parts: Sequence[str], depth: int) -> Iterator[str]:
        if not parts:
            yield folder
            return
        if depth > _MAX_DEPTH:
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._walk(folder, rest, depth)
            for name in self._names(folder):
                inner = os.path.join(folder, name)
                if os.path.isdir(inner) and not os.path.islink(inner):
                    yield from self._walk(inner, parts, depth + 1)
        elif not _MAGIC & set(first):
            inner = os.path.join(folder, first)
            if os.path.lexists(inner):
                yield from self._walk(inner, rest, depth + 1)
        else:
            for name in fnmatch.filter(self._names(folder), first):
                inner = os.path.join(folder, name)
                if not rest or os.path.isdir(inner):
                    yield from self._walk(inner, rest, depth + 1)

    def _names(self, folder: str) -> list[str]:
        """What is in a folder that lies inside the root, sorted."""
        if not self._is_inside(folder):
            self._outside(folder)
            return []
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        raise _Enough
                    names.append(entry.name)
        except OSError:
            return []
        return sorted(names)

    def _is_inside(self, path: str) -> bool:
        """Whether a path lies inside the root, wherever links lead."""
        if os.path.islink(path) or path == str(self._root):
            return self._is_below(os.path.realpath(path))
        folder = os.path.dirname(path)
        known = self._inside.get(folder)
        if known is None:
            known = self._inside[folder] = self._is_below(os.path.realpath(folder))
        return known

    def _is_below(self, real: str) -> bool:
        return real == self._real or real.startswith(self._real.rstrip(os.sep) + os.sep)

    def _outside(self, path: str) -> None:
        said = f"is a link that leads out of '{self._root.name}/', so it does not count."
        problem = Problem(printable(path), said, "Copy what it leads to instead.")
        if problem not in self.problems:
            self.problems.append(problem)

    def _counts(self, path: str) -> bool:
        """Whether a path is a plain file inside the root, in folders that only its owner may write."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return False
        if not stat.S_ISREG(found.st_mode):
            return False
        if not self._is_inside(path):
            self._outside(path)
            return False
        if fault := self._owners.fault(found, path):
            self._say(path, *fault)
            return False
        real = os.path.realpath(path) if os.path.islink(path) else path
        return all(self._is_safe(folder) for folder in self._above(real))

    def _above(self, path: str) -> Iterable[str]:
        """The folders between a file and the root."""
        root = self._real if path.startswith(self._real + os.sep) else str(self._root)
        folder = os.path.dirname(path)
        while len(folder) > len(root):
            yield folder
            folder = os.path.dirname(folder)

    def _is_safe(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            try:
                fault = self._owners.fault(os.stat(folder), folder)
            except OSError:
                return False
            if fault is not None:
                self._say(folder, *fault)
            known = self._folders[folder] = fault is None
        return known
