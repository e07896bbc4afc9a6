"""The faults found while one load goes on, each as a Problem with file, line and key.

Two weights: an error is something `open_toolbox(path)` must raise; any other problem costs only its own entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onetool_ipy.config.document import Document
from onetool_ipy.core.model import Problem

__all__ = ["File", "Notes"]

_MOST = 200


class Notes:
    """Collects problems in the order they are found."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems = list(problems)
        self.errors: list[Problem] = []

    def add(self, problem: Problem, *, error: bool) -> None:
        """Note a problem; an error is also one that a strict caller raises."""
        self.problems.append(problem)
        if error:
            self.errors.append(problem)


class File:
    """One parsed file: its values, where each stands, and a way to complain about one."""

    def __init__(self, shown: str, document: Document, notes: Notes, *, strict: bool) -> None:
        self.shown, self.data, self.lines = shown, document.data, document.lines
        self._notes, self._strict = notes, strict
        self._noted = 0
        self.faulty = {fault.key for fault in document.faults}
        self._around_faults = {part for key in self.faulty for part in _prefixes(key)}
        for fault in document.faults:
            self._note(fault.line, fault.key, fault.message, fault.hint, self._weight(fault.key))

    def where(self, key: str) -> str:
        """`file:line` of a dotted key, or of the nearest thing around it that has a line."""
        return f"{self.shown}:{self._line(key)}"

    def complain(self, key: str, message: str, hint: str = "", *, error: bool | None = None) -> None:
        """Note what is wrong with a key; without `error`, the section it stands in decides the weight."""
        weight = self._weight(key) if error is None else error
        self._note(self._line(key), key, message, hint, weight)

    def has_fault_in(self, key: str) -> bool:
        """Whether something at or below the key was left out when the text was parsed."""
        return key in self._around_faults

    @property
    def is_full(self) -> bool:
        """Whether so much is wrong that no more is listed."""
        return self._noted > _MOST

    def _weight(self, key: str) -> bool:
        """One bad tool, server or snippet stops nothing (contract 3); anything else of the main file is an error."""
        head, dot, _ = key.replace("[", ".", 1).partition(".")
        return self._strict and not (dot and head in ("tools", "servers", "snippets"))

    def _note(self, line: int, key: str, message: str, hint: str, error: bool) -> None:
        self._noted += 1
        shown = "".join(c if c.isprintable() else "?" for c in key[:120])
        text = f"{shown}: {message}" if shown else message
        if self.is_full and not (error and not self._notes.errors):  # the first error is told, come what may
            if self._noted > _MOST + 1:
                return
            text, hint = f"has more than {_MOST} problems; the others are not listed.", ""
        self._notes.add(Problem(f"{self.shown}:{line}", text, hint), error=error)

    def _line(self, key: str) -> int:
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return 1


def _prefixes(key: str) -> Iterator[str]:
    """The key itself and the key of everything around it."""
    yield key
    for index, char in enumerate(key):
        if char in ".[":
            yield key[:index]
