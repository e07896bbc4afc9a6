"""The plan of a program: the writes that it would make, collected in a run where no write happens.

A write is a call that needs a person's approval. Its result is not known before it has run, so the program gets a
stand-in for it, and every use of that raises in the program. `may_be_more` is true where the results of writes can
decide what the program does next: then the plan is what is known of it so far, and what comes beyond is a new question.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.values import Json
from onetool_ipy.core.question import ProposedCall, Question
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.programs.sandbox import MAX_CODE, HostCall, StandIn

MAX_WRITES = 200
SHOWN_WRITES = 20


class CallKey(NamedTuple):
    """A call as it is compared: the tool's name, and its arguments as JSON text in a fixed order."""

    tool: str
    args: str


class WriteKey(NamedTuple):
    """A write as a yes is for it: the call, and the fingerprint of its tool."""

    call: CallKey
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One write of a plan, as it is shown."""

    spec: ToolSpec
    args: Json
    key: WriteKey

    def row(self) -> Json:
        """The write as a row of `a.plan`."""
        return {"tool": self.spec.name, "args": self.args}


@dataclass(slots=True, kw_only=True)
class Plan:
    """The writes of one run, in order."""

    writes: list[PlannedWrite] = field(default_factory=list)
    may_be_more: bool = False

    def question(self, code: str, reads: Mapping[str, int], handle: str) -> Question:
        """Make the question: the program, every write with every argument, and what was read."""
        count = len(self.writes)
        lines = []
        if handle:
            lines.append(f"{count} writes, of which the first {SHOWN_WRITES} are shown. All: ot.result('{handle}')")
        if self.may_be_more:
            lines.append("May be more: depends on results.")
        counts = ", ".join(f"{tool} {number}×" for tool, number in reads.items())
        lines.append(f"It has read: {counts}." if counts else "It has read nothing.")
        noun = "a write" if count == 1 else f"{count} writes"
        return Question(
            "the program",
            f"The program wants to make {noun}.",
            calls=tuple(ProposedCall.of(write.spec, write.args) for write in self.writes),
            details=tuple(lines),
            program=code,
        )


class SourceMap:
    """Where in a program the result of a call is thrown away, and whether exceptions are caught anywhere."""

    def __init__(self, code: str) -> None:
        self._statements: set[tuple[int, int]] = set()
        self.catches = True
        if len(code) > MAX_CODE:
            return
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        starts = [0, *accumulate(len(line) for line in code.encode().splitlines(keepends=True))]
        self.catches = False
        for node in ast.walk(tree):
            self.catches = self.catches or isinstance(node, (ast.Try, ast.TryStar))
            if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
                end_line = call.end_lineno or call.lineno
                end = starts[end_line - 1] + (call.end_col_offset or 0)
                self._statements.add((starts[call.lineno - 1] + call.col_offset, end))

    def is_used(self, call: HostCall) -> bool:
        """Whether the program may look at the result of a call."""
        return (call.start, call.end) not in self._statements


def call_key(tool: str, args: Json) -> CallKey:
    """Return what a call is compared by."""
    return CallKey(tool, json.dumps(args, sort_keys=True, ensure_ascii=False))


def has_stand_in(value: Any) -> bool:
    """Whether a value holds the result of a write that has not run."""
    if isinstance(value, StandIn):
        return True
    if isinstance(value, Mapping):
        return any(has_stand_in(key) or has_stand_in(item) for key, item in value.items())
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(has_stand_in, value))


class Decisions:
    """What the person decided about the writes of a plan. Each decision is for one write, and is used up by it."""

    def __init__(self) -> None:
        self._waiting: dict[CallKey, list[tuple[str, bool]]] = {}

    def decide(self, plan: Plan, numbers: set[int]) -> None:
        """Take the numbers of the writes that may run. What was decided before is over."""
        self._waiting = {}
        for number, write in enumerate(plan.writes, start=1):
            self._waiting.setdefault(write.key.call, []).append((write.key.fingerprint, number in numbers))

    def take(self, key: WriteKey) -> Literal["yes", "no", "changed", "unknown"]:
        """Use up the decision for a write. `changed` says that the yes was for the tool as it was before."""
        decisions = self._waiting.get(key.call)
        if not decisions:
            return "unknown"
        fingerprint, is_yes = decisions.pop(0)
        if not is_yes:
            return "no"
        return "yes" if fingerprint == key.fingerprint else "changed"
