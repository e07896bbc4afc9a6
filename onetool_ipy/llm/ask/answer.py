"""Answer: the result of an ask as a value: the text, every call with its result, its cost, and why
it ended.

`to_dict` has the shape of spec 004 with all its keys, and those of a value, a cost and a program
where there is one. `to_cells` gives the calls as plain `%tool` lines, so that the work of a model
can be repeated without one. `summary`, `call_view` and `mime_bundle` display an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.base import tables, values
from onetool_ipy.base.errors import AskFailed, CallFailure
from onetool_ipy.base.printable import printable
from onetool_ipy.core import current
from onetool_ipy.core.question import Question
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.shown import mask, without_secrets
from onetool_ipy.core.tool import format_call
from onetool_ipy.llm.messages import TokenUsage
from onetool_ipy.render import html, markdown
from onetool_ipy.render.question import program_html, program_lines
from onetool_ipy.render.result import MARKS, Called, head, to_text
from onetool_ipy.render.views import milliseconds

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs


StopReason = Literal[
    "done", "max_steps", "repeated", "limit", "interrupted", "cut", "refused", "waiting", "error"
]
"""Why an ask ended: the model was done; a limit of steps, repetition or another limit; Stop; a
reply that hit the model's token limit; one that the provider refused; a program that waits for a
yes; a failing model."""

UNMADE = "writes_not_made"
"""The reason in the call log where a program ended well without a write that was allowed."""

_ENDINGS: dict[StopReason, str] = {
    "max_steps": "ended after the last step (max_steps)",
    "repeated": "ended: the same calls again and again",
    "limit": "ended at a limit",
    "interrupted": "stopped",
    "cut": "cut",
    "refused": "refused",
    "waiting": "waits for a yes",
    "error": "failed",
}
_MAX_VALUE = 2_000
_MAX_REPR = 20_000


@without_secrets
@dataclass(frozen=True, slots=True)
class AnswerCall:
    """One call that the model asked for. `args` is a dict, or the text as it came if that is not a
    JSON object.

    `result` holds the tool's own object; `sent` is what the model received of it, about `tokens`
    long. `is_tool` is False for the search among tools.
    """

    id: str
    name: str
    args: Any
    result: ToolResult
    sent: Any
    tokens: int = 0
    is_tool: bool = True

    @property
    def ok(self) -> bool:
        return self.result.ok

    @property
    def ms(self) -> float:
        return float(self.result.meta.get("duration_ms") or 0)

    @property
    def cached(self) -> bool:
        """Whether an earlier result of this session was reused."""
        return bool(self.result.meta.get("cached"))

    def __repr__(self) -> str:
        end = _error_text(self) or "ok"
        # A secret is masked before the text is cut, so that no part of it is left.
        args = values.cut(mask(values.safe_repr(self.args, _MAX_REPR)), 80)
        return f"AnswerCall({self.name} {args}: {values.cut(mask(end), 200)})"


def _error_text(call: AnswerCall) -> str | None:
    """Why a call failed; one that the person did not allow was skipped."""
    error = call.result.error
    is_skipped = error is not None and bool(call.result.meta.get("skipped"))
    return None if error is None else f"skipped: {error.message}" if is_skipped else str(error)


@without_secrets
class AnswerCalls(list[AnswerCall]):
    """The calls of an answer, in order; `.df` has one row for each."""

    @property
    def df(self) -> pd.DataFrame:
        """id, tool, args, ok, error, ms, tokens, cached."""
        import pandas as pd

        columns = ["id", "tool", "args", "ok", "error", "ms", "tokens", "cached"]
        rows = [
            (c.id, c.name, c.args, c.ok, _error_text(c), c.ms, c.tokens, c.cached) for c in self
        ]
        return pd.DataFrame(rows, columns=columns)


@without_secrets
class PlannedCalls(list[dict[str, Any]]):
    """The writes of a program, in order, as rows {tool, args, state}; `.df` has one row for each.

    `state` is `made`, `failed`, `skipped`, `in doubt` (it had begun at the Stop) or `not reached`.
    """

    @property
    def df(self) -> pd.DataFrame:
        """tool, args, state."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=["tool", "args", "state"])

    def __repr__(self) -> str:
        return values.safe_repr(list(self), _MAX_REPR)


@without_secrets
@dataclass(kw_only=True, repr=False, eq=False)
class Answer:
    """The result of an ask. `error` is the failure of the model, if that ended it.

    `value` is the answer as the type that was asked for, or the last value of a program; `program`
    is the program's text, and `plan` its writes; `question` shows them where the program waits for
    a yes, and `unmade_count` says how many were allowed and not made. `cost` is in dollars, or None
    if no price is known; `priced_as` is the model whose price it is. `sent` says what went along
    with the prompt; `call_id` is its id in the call log.
    """

    prompt: str
    text: str = ""
    calls: AnswerCalls = field(default_factory=AnswerCalls)
    usage: TokenUsage = field(default_factory=TokenUsage)
    stop_reason: StopReason = "done"
    session_context_updated: bool = False
    error: CallFailure | None = None
    note: str = ""
    model: str = ""
    seconds: float = 0.0
    value: Any = None
    program: str | None = None
    plan: PlannedCalls = field(default_factory=PlannedCalls)
    cost: float | None = None
    priced_as: str = ""
    sent: str = ""
    call_id: str = ""
    question: Question | None = None
    unmade_count: int = 0

    @property
    def ok(self) -> bool:
        """Whether it ended well: no failure, cut or refused reply, or Stop; every allowed write
        made."""
        return (
            self.stop_reason not in ("error", "cut", "refused", "interrupted")
            and not self.unmade_count
        )

    def unwrap(self) -> Answer:
        """Return the answer itself, or raise AskFailed if the model failed."""
        if self.stop_reason != "error":
            return self
        if self.program is not None and self.error is not None:
            raise self.error
        hint = self.error.hint if self.error is not None else ""
        raise AskFailed(self.note or "The model failed.", hint=hint, answer=self)

    @property
    def tool_error(self) -> dict[str, str] | None:
        """The first call that failed: {tool, code, message}."""
        for call in self.calls:
            if (error := call.result.error) is not None:
                return {"tool": call.name, "code": error.code, "message": error.message}
        return None

    @property
    def df(self) -> pd.DataFrame:
        """The rows of the value, or of the last result that has some, as a pandas DataFrame;
        otherwise the calls.

        `frame.attrs["onetool"]` says which call they come from.
        """
        if _has_rows(self.value):
            is_table = hasattr(self.value, "columns")
            return ToolResult(True, self.value if is_table else values.to_json(self.value)).to_df()
        for call in reversed(self.calls):
            if call.ok and call.is_tool and _has_rows(call.result.portable):
                frame = call.result.to_df()
                frame.attrs["onetool"] = {
                    **frame.attrs.get("onetool", {}),
                    "tool": call.name,
                    "call": call.id,
                }
                return frame
        return self.calls.df

    @property
    def origin(self) -> Any:
        """Where the answer came from: the calls that the model made, as a tree."""
        return current.require().ot.origin(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the shape of spec 004 as JSON data; `error` is there only if the model failed."""
        results = []
        for c in self.calls:
            shape = {"ok": True, "error": None} if c.result.error is None else c.result.to_dict()
            data = c.sent if c.result.error is None else None
            results.append(
                {"callId": c.id, **shape, "data": data, "meta": values.to_json(c.result.meta)}
            )
        out: dict[str, Any] = {
            "text": self.text,
            "toolCalls": [
                {"id": c.id, "name": c.name, "args": values.to_json(c.args)} for c in self.calls
            ],
            "toolResults": results,
            "toolError": self.tool_error,
            "sessionContextUpdated": self.session_context_updated,
            "stopReason": self.stop_reason,
            "usage": {**self.usage.to_dict(), "total": self.usage.total},
        }
        if self.value is not None:
            out["value"] = values.to_json(self.value)
        if self.cost is not None:
            out["cost"] = self.cost
        if self.program is not None:
            out["program"] = self.program
            out["plan"] = values.to_json(self.plan)
        if self.error is not None:
            out["error"] = {
                "code": self.error.code,
                "reason": self.error.reason,
                "message": self.error.message,
            }
        return out

    def to_cells(self, write: Callable[[str, Mapping[str, Any]], str] | None = None) -> list[str]:
        """Return each call that ran as a `%tool` line that repeats it, in order, without reused
        results."""
        line = format_call if write is None else write
        return [line(c.name, c.args) for c in self.calls if c.ok and c.is_tool and not c.cached]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - IPython's
        return mime_bundle(self, mask)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count = f"{len(self.calls)} call{'' if len(self.calls) == 1 else 's'}"
        text = values.safe_repr(mask(self.text), 200)
        return f"<Answer {self.stop_reason}, {count}, {self.usage.total:,} tokens: {text}>"


def summary(answer: Answer, *, reason: bool = True) -> str:
    """Return `local · 2 calls · 1,204 tokens in, 96 out · 3.1 s`, and how it ended and why if it
    was cut short."""
    count = len(answer.calls)
    facts = [answer.model or "no model"]
    if count:
        facts.append(f"{count} call{'' if count == 1 else 's'}")
    if (usage := answer.usage).total:
        cached = f" ({usage.cached:,} cached)" if usage.cached else ""
        reasoning = f" ({usage.reasoning:,} reasoning)" if usage.reasoning else ""
        facts.append(f"{usage.input:,} tokens in{cached}, {usage.output:,} out{reasoning}")
    if answer.cost is not None:
        facts.append(
            f"${answer.cost:.2g}" + (f" (price of {answer.priced_as})" if answer.priced_as else "")
        )
    if answer.seconds:
        facts.append(f"{answer.seconds:.1f} s" if answer.seconds >= 0.05 else "<0.1 s")
    if answer.stop_reason == "done" and answer.program is not None and answer.note:
        facts.append(answer.note)
    if answer.stop_reason != "done":
        facts.append(
            _ENDINGS[answer.stop_reason] + (f": {answer.note}" if answer.note and reason else "")
        )
    return " · ".join(facts)


def call_view(call: AnswerCall, *, is_open: bool = False) -> Called:
    """Return a call as `render` displays it."""
    if (error := call.result.error) is not None:
        problem = f"{error.message}\n{error.hint}".strip()
        if isinstance(error.details, dict) and (printed := error.details.get("printed")):
            problem += f"\nIt printed:\n{values.cut(values.to_text(printed), _MAX_VALUE)}"
        if call.result.meta.get("skipped"):
            return Called(call.name, call.args, "skipped", problem=problem, facts=("skipped",))
        return Called(
            call.name, call.args, "failed", problem=problem, facts=(error.reason or error.code,)
        )
    duration = "used again" if call.cached else milliseconds(call.ms)
    facts = [duration, *([f"~{call.tokens:,} tokens"] if call.tokens else [])]
    facts += [guard] if (guard := str(call.result.meta.get("guard") or "")) else []
    return Called(
        call.name, call.args, "ok", call.result.portable, facts=tuple(facts), is_open=is_open
    )


def mime_bundle(answer: Answer, mask: Callable[[str], str]) -> dict[str, str]:
    """Return an answer as one output: the text, the calls and the cost; of a program its value
    instead of the calls."""
    if answer.program is not None and not answer.model:
        value = "" if answer.value is None else values.cut(values.to_text(answer.value), _MAX_VALUE)
        if answer.question is not None:
            return plan_bundle(answer.question, summary(answer), mask, printed=answer.text.rstrip())
        parts = [part for part in (answer.text.rstrip(), value, summary(answer)) if part]
        return {"text/plain": mask(printable("\n".join(parts)))}
    calls = [call_view(call) for call in answer.calls]
    text = "\n".join(
        [*(to_text(call) for call in calls), printable(answer.text), printable(summary(answer))]
    )
    # A back quote would end the line of code that the arguments are in.
    heads = [(MARKS[call.state], printable(head(call)).replace("`", "'")) for call in calls]
    call_list = "\n".join(f"- {mark} `{line}`" for mark, line in heads)
    parts = [markdown.safe(part) for part in (answer.text, call_list, summary(answer)) if part]
    return {"text/plain": mask(text), "text/markdown": mask("\n\n".join(parts))}


def failed_text(answer: Answer, mask: Callable[[str], str]) -> str:
    """Return what a program printed before it failed; the error that follows does not have it."""
    is_failed = answer.error is not None and answer.program is not None and not answer.model
    return mask(printable(answer.text)) if is_failed else ""


def plan_bundle(
    question: Question, note: str, mask: Callable[[str], str], *, printed: str = ""
) -> dict[str, str]:
    """Return a program that waits and its writes, as the question has them, its prints and a
    note."""
    text = "\n".join(
        [*program_lines(question), *([printable(printed)] if printed else []), printable(note)]
    )
    page = program_html(question) + (html.pre(printed) if printed else "") + html.note(note)
    return {"text/plain": mask(text), "text/html": mask(page)}


def _has_rows(data: object) -> bool:
    """Whether a result holds a list of records or a table."""
    return tables.is_frame(tables.tabular(data)) or _holds_records(values.to_json(data), 3)


def _holds_records(value: object, depth: int) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, dict) for row in value)
    return (
        isinstance(value, dict)
        and depth > 0
        and any(_holds_records(item, depth - 1) for item in value.values())
    )
