"""The writes of a program, collected in a run where none is made, and what became of each.

A write is a call that needs a person's approval. Its result is not known before it has run, so the
program gets a stand-in for it, and every use of that raises in the program. `may_be_more` is true
where the results of writes can decide what the program does next: then the plan is what is known of
it so far, and what comes beyond is a new question.

A write keeps its arguments as the text that was shown. It is made with what is parsed from that
text, and with nothing else: no object that a tool or the notebook could change takes its place.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.values import Json
from onetool_ipy.core.question import ProposedCall, Question
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.programs.sandbox import MAX_CODE, HostCall, StandIn

MAX_WRITES = 200
SHOWN_WRITES = 20

WriteState = Literal["made", "failed", "skipped", "in doubt", "not reached"]
"""What became of a write. A failed one ran and raised; one in doubt had begun at the Stop."""


class CallKey(NamedTuple):
    """A call as it is compared: the tool's name, and its arguments as JSON text in a fixed
    order."""

    tool: str
    args: str


class WriteKey(NamedTuple):
    """A write as a yes is for it: the call, and the fingerprint of its tool."""

    call: CallKey
    fingerprint: str


@dataclass(slots=True, kw_only=True, eq=False)
class PlannedWrite:
    """One write, and what became of it. `text` has its arguments as JSON, as they are shown.

    `is_chosen` says that a person allowed it, or that this very call names its tool. `note` says
    what private data it would carry elsewhere.
    """

    key: WriteKey
    text: str
    is_chosen: bool = False
    state: WriteState = "not reached"
    note: str = ""

    @property
    def args(self) -> Json:
        """The arguments, new at each request: a tool may change what it gets."""
        args: Json = json.loads(self.text)
        return args

    def row(self) -> Json:
        """Return the write as a row of `a.plan`."""
        return {"tool": self.key.call.tool, "args": self.args, "state": self.state}


@dataclass(slots=True, kw_only=True)
class Plan:
    """The writes of one run, in order, and the tools that make them."""

    writes: list[PlannedWrite] = field(default_factory=list)
    tools: dict[str, ToolSpec] = field(default_factory=dict)
    may_be_more: bool = False

    def question(self, code: str, reads: Mapping[str, int], handle: str) -> Question:
        """Make the question: the program, every write with every argument, and what was read."""
        count = len(self.writes)
        lines = []
        if handle:
            lines.append(
                f"{count} writes, of which the first {SHOWN_WRITES} are shown. All:"
                f" ot.result('{handle}')"
            )
        if self.may_be_more:
            lines.append("May be more: depends on results.")
        counts = ", ".join(f"{tool} {number}×" for tool, number in reads.items())
        lines.append(f"It has read: {counts}." if counts else "It has read nothing.")
        noun = "a write" if count == 1 else f"{count} writes"
        return Question(
            "the program",
            f"The program wants to make {noun}.",
            calls=tuple(
                ProposedCall.of(self.tools[write.key.call.tool], write.args, write.note)
                for write in self.writes
            ),
            details=tuple(lines),
            program=code,
        )


class SourceMap:
    """Where in a program the result of a call is thrown away, whether exceptions are caught
    anywhere, and the texts that stand in it."""

    def __init__(self, code: str) -> None:
        self._statements: set[tuple[int, int]] = set()
        self.catches = True
        self.texts: frozenset[str] = frozenset()
        if len(code) > MAX_CODE:
            return
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        starts = [0, *accumulate(len(line) for line in code.encode().splitlines(keepends=True))]
        self.catches = False
        nodes = [*ast.walk(tree)]
        constants = (node.value for node in nodes if isinstance(node, ast.Constant))
        self.texts = frozenset(each for each in constants if isinstance(each, str))
        for node in nodes:
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


def stand_ins(value: Any) -> Iterator[StandIn]:
    """Yield the results of writes that have not run, wherever they are in a value."""
    if isinstance(value, StandIn):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from stand_ins(pair)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from stand_ins(item)


class ProgramWrites:
    """The writes that a person was shown, over all questions, each with what became of it.

    A decision is for one write, and is used up by it.
    """

    def __init__(self) -> None:
        self._writes: list[PlannedWrite] = []
        self._plan: Sequence[PlannedWrite] = ()
        self._waiting: dict[CallKey, list[PlannedWrite]] = {}
        self.left_out: list[PlannedWrite] = []

    def show(self, plan: Plan) -> None:
        """Take the writes of a new question. What was decided before and not reached is over."""
        again = Counter(write.key.call for write in plan.writes)
        kept = []
        for write in self._writes:
            is_over = write.state == "not reached" and (
                again[write.key.call] > 0 or not write.is_chosen
            )
            again[write.key.call] -= is_over
            kept += [] if is_over else [write]
        self._writes = [*kept, *plan.writes]
        self._plan, self._waiting = plan.writes, {}

    def decide(self, numbers: set[int]) -> None:
        """Take the numbers of the writes of the last question that may run."""
        for number, write in enumerate(self._plan, start=1):
            write.is_chosen = number in numbers
            self._waiting.setdefault(write.key.call, []).append(write)

    def take(self, call: CallKey) -> PlannedWrite | None:
        """Return the first write with a decision that is the same call, and use the decision up."""
        writes = self._waiting.get(call)
        return writes.pop(0) if writes else None

    def add(self, write: PlannedWrite) -> PlannedWrite:
        """Add a write that needed no question, or that an earlier kernel dealt with."""
        self._writes.append(write)
        return write

    def rows(self) -> list[Json]:
        """Return the writes as rows of `a.plan`."""
        return [write.row() for write in (*self._writes, *self.left_out)]

    @property
    def unmade_count(self) -> int:
        """How many writes were chosen and not made."""
        return sum(
            write.is_chosen and write.state != "made" for write in (*self._writes, *self.left_out)
        )

    @property
    def is_begun(self) -> bool:
        """Whether something became of a write."""
        return any(write.state != "not reached" for write in self._writes)

    def summary(self) -> str:
        """Return `5 of 6 writes made, 1 skipped.`; nothing where all were made."""
        counts = Counter(str(row["state"]) for row in self.rows())
        total, writes = counts.total(), counts.pop("made", 0)
        rest = "".join(f", {count} {state}" for state, count in sorted(counts.items()))
        return f"{writes} of {total} writes made{rest}." if rest else ""
