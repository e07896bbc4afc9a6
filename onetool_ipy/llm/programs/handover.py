"""`ask --code`: how a model hands a program over, and what it sees of it.

The model is offered one tool, `program`, whose argument `code` is the program; a reply with one
fenced block counts as a call of it. The instructions have the stubs of the tools, the same in every
request. What the program prints and its last value go back to the model, 4 kB each, the rest as a
handle. A program that is wrong comes back as a failed call: the model may correct it, which is a
step of the ask.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidArgs
from onetool_ipy.base.search import Index
from onetool_ipy.config.load import needs_approval
from onetool_ipy.core import names
from onetool_ipy.core.registry import entry_of
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.answer_type import AnswerMismatch, AnswerType
from onetool_ipy.llm.ask.answer import Answer, AnswerCall
from onetool_ipy.llm.ask.context import AskToolbox
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.llm.ask.tools import MAX_FIRST, ToolSelection
from onetool_ipy.llm.messages import Call, OfferedTool, Turn
from onetool_ipy.llm.programs.run import ProgramOptions, Programs
from onetool_ipy.llm.programs.sandbox import require_sandbox
from onetool_ipy.llm.programs.stubs import tool_modules

MAX_SEEN = 4_096
_MAX_HITS = 12
_CORRECTIONS = 2
_FENCE = re.compile(
    r"^```[ \t]*(?:(?P<kind>python|py)[ \t]*)?\n(?P<code>.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE
)
_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "The whole program, in Python."}},
    "required": ["code"],
    "additionalProperties": False,
}
_GUIDE = """\
Solve this with one Python program over the tools: call `program` with it, or write it as one \
```python block.
1. Import the packs as modules and call their functions with keywords: `import crm; rows = \
crm.customers(region="eu")`.
2. Tool results are plain data: dicts, lists, text, numbers, None. There is no pandas and no numpy.
3. The last expression is the value of the program; print only what you need to read. You see 4 kB \
of each.
4. Not in this Python: class inheritance, `yield`, `del`, `@property`, files, network, \
environment, `statistics`, `io`.
5. There are: json, re, math, datetime, random, collections, itertools, functools, dataclasses, \
comprehensions, try.
6. A failed call raises TypeError, TimeoutError, PermissionError, MemoryError or RuntimeError.
7. Functions that ask the person are collected and shown in one question. Do not look at their \
results unless you must.
8. The program is type-checked before it runs. If it is refused, correct it and send the whole \
program again."""


class ProgramSelection(ToolSelection):
    """The offer of an ask with `--code`: the tool `program`, and a search where there are many
    tools."""

    def __init__(
        self,
        box: AskToolbox,
        session: Session,
        *,
        allow: Sequence[str] | None,
        prompt: str,
        variables: Sequence[str],
        answer_type: AnswerType | None = None,
    ) -> None:
        super().__init__(box.registry, session, allow=allow, prompt=prompt, is_on=True)
        self._box = box
        self._variables = variables
        self._answer_type = answer_type
        self._stubs: str | None = None
        self.has_ended = False

    @property
    def guide(self) -> str:
        """How a program is written, and the stubs of its modules. It is the same in every request
        of an ask."""
        return self._stubs or ""

    def _new_offer(self) -> list[OfferedTool]:
        listing = self._registry.known()
        visible = self._visible(listing)
        self.packs = tuple(dict.fromkeys(spec.pack for spec in visible))
        about = (
            "Run one Python program over the tools. Gives what it prints and the value of its last"
            " expression."
        )
        specs = [
            ToolSpec(
                name=names.PROGRAM, description=about, parameters=_SCHEMA, run=lambda args: args
            )
        ]
        if len(visible) > MAX_FIRST:
            best = self._best(visible)
            specs.append(self._search_tool())
            visible = [spec for spec in visible if spec.name in best]
        if self._stubs is None:
            parts = [_GUIDE, "The modules:", self._text(visible)]
            if len(specs) > 1:
                parts.insert(
                    1,
                    f"These are some of the modules. Find more functions with {self._search_name}"
                    " first.",
                )
            if self._variables:
                parts.append(
                    f"These variables are there, as plain data: {', '.join(self._variables)}."
                )
            if self._answer_type is not None:
                schema = json.dumps(self._answer_type.schema["properties"], ensure_ascii=False)
                definitions = json.dumps(
                    self._answer_type.schema.get("$defs", {}), ensure_ascii=False
                )
                parts.append(
                    f"The last value must fit this JSON Schema of it: {schema}, with $defs:"
                    f" {definitions}"
                )
            self._stubs = "\n\n".join(parts)
        pager = self._registry.get(names.PAGER) if self._session.handles else None
        if pager is not None:
            specs += self._registry.loaded([pager])
        return self._session.offers(specs, (spec.name for spec in listing))

    def search(self, query: str) -> list[dict[str, Any]]:
        """Return the stubs of the matching tools."""
        hits = Index(map(entry_of, self._visible(self._registry.known()))).search(
            query, limit=_MAX_HITS
        )
        return [{"modules": self._text([hit.item.value for hit in hits])}]

    def read(self, turn: Turn) -> Turn:
        """Return a reply with one fenced block as a call of `program`; any other reply as it is.

        Once a program has ended, a block in a reply is a part of the answer.
        """
        blocks = list(_FENCE.finditer(turn.text))
        if turn.calls or self.has_ended or len(blocks) != 1 or turn.stop in ("cut", "refused"):
            return turn
        call = Call(f"program-{self._box.new_id()}", names.PROGRAM, {"code": blocks[0]["code"]})
        return replace(turn, calls=(call,), parts=())

    def is_direct(self, name: str) -> bool:
        """Whether a tool may be called outside of a program: the search, and the pages of large
        results."""
        return self.is_search(name) or name == names.PAGER

    def _text(self, specs: Sequence[ToolSpec]) -> str:
        config = self._box.config
        modules = tool_modules(
            self._registry.loaded(specs), lambda spec: needs_approval(spec, {}, config)
        )
        return self._box.mask(modules.text())


class ProgramCalls:
    """Runs the programs of one ask. `variables` are what its prompt named."""

    def __init__(
        self,
        box: AskToolbox,
        session: Session,
        selection: ProgramSelection,
        options: ProgramOptions,
        variables: Mapping[str, Any],
        answer_type: AnswerType | None = None,
    ) -> None:
        """Raises Unavailable where there is no sandbox."""
        require_sandbox()
        self.outcome: Answer | None = None
        self.mismatch: AnswerMismatch | None = None
        self._mismatch_count = 0
        self._answer_type = answer_type
        self.calls: list[AnswerCall] = []
        self._box = box
        self._session = session
        self._selection = selection
        self._options = options
        self._variables = variables

    def run(self, args: object, meta: dict[str, Any]) -> ToolResult:
        """Run the program in a call's arguments. Raises KeyboardInterrupt after Stop; `outcome` has
        what was done."""
        code = args.get("code") if isinstance(args, Mapping) else None
        if not isinstance(code, str) or not code.strip():
            failure = InvalidArgs("'program' takes one argument, code: the whole program as text.")
            return ToolResult(False, error=Failure.of(failure, names.PROGRAM), meta=meta)
        if self._mismatch_count > _CORRECTIONS:
            failure = InvalidArgs(
                f"Not run: {_CORRECTIONS} corrections of the value are all that one ask may make."
            )
            return ToolResult(False, error=Failure.of(failure, names.PROGRAM), meta=meta)
        outcome = self.outcome = Programs(self._box).run(code, self._variables, self._options)
        self.calls += outcome.calls
        if outcome.stop_reason == "done" and self._answer_type is not None:
            try:
                outcome.value = self._answer_type.check(outcome.value)
            except AnswerMismatch as exc:
                self._mismatch_count, self.mismatch = self._mismatch_count + 1, exc
                reasons = "; ".join(exc.reasons)
                failure = InvalidArgs(
                    f"The program ran, and its value has the wrong type: {self._box.mask(reasons)}"
                )
                return ToolResult(False, error=Failure.of(failure, names.PROGRAM), meta=meta)
            self.mismatch = None
        self._selection.has_ended = outcome.stop_reason in ("done", "waiting")
        if outcome.stop_reason == "interrupted":
            raise KeyboardInterrupt
        if outcome.error is not None:
            error = Failure.of(outcome.error, names.PROGRAM)
            if facts := self._facts(outcome):
                details = (
                    error.details if isinstance(error.details, dict) else {"errors": error.details}
                )
                error = replace(error, details={**details, **facts})
            return ToolResult(False, error=error, meta=meta)
        if outcome.stop_reason == "waiting":
            return ToolResult(True, {"waiting": outcome.note}, None, meta)
        return ToolResult(
            True, {"value": self._seen(outcome.value), **self._facts(outcome)}, None, meta
        )

    def _facts(self, outcome: Answer) -> dict[str, Any]:
        """Return what a program printed, and its writes where not all of them were made."""
        facts: dict[str, Any] = {"printed": self._seen(outcome.text)} if outcome.text else {}
        if any(row["state"] != "made" for row in outcome.plan):
            facts["writes"] = self._seen(list(outcome.plan))
        return facts

    def _seen(self, value: Any) -> Any:
        """Return what the model sees of a value: all of it, or its beginning and a handle."""
        plain = values.map_text(values.to_json(value), self._box.mask)
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
        if len(text.encode()) <= MAX_SEEN:
            return plain
        handle = self._box.results.put(value, tool=names.PROGRAM)
        self._session.handles[handle] = None
        beginning = text.encode()[:MAX_SEEN].decode("utf-8", "ignore")
        return {"handle": handle, "preview": beginning, "size": len(text)}


def program_variables(named: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """Return the attached values that have a name, as a program sees them."""
    variables = {name.lstrip("@"): value for name, value in named}
    # A result stays one: it says which tool gave it, and so whose data it is.
    return {
        name: value.data if isinstance(value, ToolResult) and not value.ok else value
        for name, value in variables.items()
        if name.isidentifier()
    }
