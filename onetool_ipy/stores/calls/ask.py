"""Questions to the log: look, and first mend or fold what stands in the way of an answer.

A damaged database is mended and the question asked again. Where that cannot be done (a disk that cannot be written),
the answer comes from the append files alone, and `faults` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.core.model import Problem
from onetool_ipy.stores.calls.append import newer_files
from onetool_ipy.stores.calls.database import Unusable, problem_of
from onetool_ipy.stores.calls.fold import KEEP, Keep, fold
from onetool_ipy.stores.calls.mend import identity, mend, set_aside_files
from onetool_ipy.stores.calls.snapshot import Snapshot, snapshot, tails_only
from onetool_ipy.stores.files import StoreError

__all__ = ["UNFOLDED_BYTES", "ask", "faults", "try_fold"]

UNFOLDED_BYTES = 128 << 10
"""How much may be unfolded before a reader folds it, so that the next one has less to do."""

Answer = TypeVar("Answer")


def ask(folder: Path, question: Callable[[Snapshot], Answer], *, keep: Keep = KEEP) -> Answer:
    """Answer a question from one look at the log. Raises Unusable where the database is busy or its disk fails."""
    is_short = False
    for _ in range(3):
        seen = identity(folder)
        try:
            with snapshot(folder) as found:
                if is_short or (found.unfolded_bytes <= UNFOLDED_BYTES and not found.is_torn):
                    return question(found)
            try_fold(folder, keep=keep)
            is_short = True
        except Unusable as exc:
            if exc.fault != "damaged":
                raise
            fault = exc
            try:
                mend(folder, seen)
            except StoreError:
                break
        except OSError as exc:
            raise StoreError.of(folder, exc, doing="read") from exc
    return question(tails_only(folder, fault))


def try_fold(folder: Path, *, keep: Keep = KEEP, at_most: int | None = None) -> OneToolError | None:
    """Fold all there is, or at most so many bytes; what goes wrong is the answer, since nobody has to wait for it."""
    for _ in range(2):
        seen = identity(folder)
        try:
            if at_most is not None:
                fold(folder, keep=keep, at_most=at_most)
                return None
            while fold(folder, keep=keep):
                pass
            return None
        except OSError as exc:
            return StoreError.of(folder, exc)
        except Unusable as exc:
            problem: OneToolError = exc
            if exc.fault != "damaged":
                break
            try:
                mend(folder, seen)
            except StoreError as failed:
                return failed
    return problem


def faults(folder: Path, last: OneToolError | None) -> Iterator[Problem]:
    """What is wrong with the log as it is now, and what the `last` fold met with."""
    seen = problem_of(last) if isinstance(last, Unusable) else last and Problem(str(folder), last.message, last.hint)
    yield from {str(problem): problem for problem in (*([seen] if seen else []), *_faults(folder))}.values()


def _faults(folder: Path) -> Iterator[Problem]:
    try:
        with snapshot(folder) as found:
            if found.fault is not None and (problem := problem_of(found.fault)) is not None:
                yield problem
            for name, lines in found.damaged_files:
                yield _unread(folder / name, lines)
            unread = sum(batch.damaged for batch in found.tails())
            if unread:
                yield _unread(folder, unread)
    except Unusable as exc:
        if (problem := problem_of(exc)) is not None:
            yield problem
    except OSError as exc:
        failed = StoreError.of(folder, exc, doing="read")
        yield Problem(str(folder), f"the call log cannot be read: {failed.reason}.", failed.hint)
    for name in newer_files(folder):
        said = "a later version wrote this part of the call log; its calls are not counted here."
        yield Problem(str(folder / name), said, "Use that version to see them.")
    yield from set_aside_files(folder)


def _unread(where: Path, lines: int) -> Problem:
    said = f"{lines} lines could not be read and are left out of the call log."
    return Problem(str(where), said, "Nothing is to be done: all others are counted.")
