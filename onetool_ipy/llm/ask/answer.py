"""An answer and its calls as they are shown: parts for a view that grows, and one output for an answer shown again.

Answer: what an ask gave, as a value. The text, every call with its result, what it cost, and why it ended.

`to_dict` is spec 004's shape and always has all its keys. `to_cells` gives the calls as plain `%tool` lines, so that
the work of a model can be done again without one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, OneToolError
from onetool_ipy.base.printable import printable
from onetool_ipy.base.records import Value
from onetool_ipy.core import current
from onetool_ipy.core.result import ToolResult
from onetool_ipy.llm.messages import TokenUsage
from onetool_ipy.render import markdown
from onetool_ipy.render.result import Called, to_text

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

__all__ = ["Answer", "AnswerCall", "AnswerCalls", "AskFailed", "StopReason", "bundle", "called", "summary"]

_ENDINGS = {
    "max_steps": "ended after the last step (max_steps)",
    "repeated": "ended: the same calls again and again",
    "limit": "ended at a limit",
    "interrupted": "stopped",
    "error": "failed",
}


def summary(answer: Answer) -> str:
    """`local · 2 calls · 1,204 tokens in, 96 out · 3.1 s`, and how it ended where that was not by itself."""
    count = len(answer.calls)
    facts = [answer.model or "no model"]
    if count:
        facts.append(f"{count} call{'' if count == 1 else 's'}")
    if answer.usage.total:
        facts.append(f"{answer.usage.input:,} tokens in, {answer.usage.output:,} out")
    if answer.seconds:
        facts.append(f"{answer.seconds:.1f} s" if answer.seconds >= 0.05 else "<0.1 s")
    if answer.stop_reason != "done":
        facts.append(_ENDINGS[answer.stop_reason] + (f": {answer.note}" if answer.note else ""))
    return " · ".join(facts)


def called(call: AnswerCall, *, is_open: bool = False) -> Called:
    """A call as `render` shows it."""
    failed = call.result.error
    took = "used again" if call.cached else f"{call.ms:,.0f} ms" if call.ms >= 1 else "<1 ms"
    facts = [took, *([f"~{call.tokens:,} tokens"] if call.tokens else [])]
    if failed is not None:
        why = f"{failed.message}\n{failed.hint}".strip()
        return Called(call.name, call.args, "failed", problem=why, facts=(failed.reason or failed.code,))
    return Called(call.name, call.args, "ok", call.result.data, facts=tuple(facts), is_open=is_open)


def bundle(answer: Answer, mask: Callable[[str], str]) -> dict[str, str]:
    """An answer as one output: what was said, which calls were made, what it cost."""
    calls = [called(call) for call in answer.calls]
    text = "\n".join([*(to_text(call) for call in calls), printable(answer.text), printable(summary(answer))])
    made = "\n".join(f"- {'✓' if call.state == 'ok' else '✗'} `{call.name}`" for call in calls)
    shown = "\n\n".join(markdown.safe(part) for part in (answer.text, made, summary(answer)) if part)
    return {"text/plain": mask(text), "text/markdown": mask(shown)}


StopReason = Literal["done", "max_steps", "repeated", "limit", "interrupted", "error"]
"""Why an ask ended: the model was done; steps, repetition or another limit ended it; Stop; a failure of the model."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.@/-]*")


class AskFailed(OneToolError):
    """The model could not be asked to the end. `answer` has what was there until then."""

    def __init__(self, message: str, *, hint: str = "", answer: Answer | None = None) -> None:
        super().__init__(message, hint=hint)
        self.answer = answer


class AnswerCall(Value):
    """One call that the model asked for. `args` is a dict, or the text as it came where that is no JSON object.

    `result` holds the tool's own object; `sent` is what the model was told of it, about `tokens` long. `is_tool` is
    False for the search among tools, which is part of asking.
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
        """Whether an earlier result of this session was used again."""
        return bool(self.result.meta.get("cached"))

    def __repr__(self) -> str:
        said = "ok" if self.result.error is None else str(self.result.error)
        return f"AnswerCall({self.name} {values.safe_repr(self.args, 80)}: {values.cut(said, 200)})"


class AnswerCalls(list[AnswerCall]):
    """The calls of an answer, in order; `.df` has one row for each."""

    @property
    def df(self) -> pd.DataFrame:
        """id, tool, args, ok, error, ms, tokens, cached."""
        import pandas as pd

        columns = ["id", "tool", "args", "ok", "error", "ms", "tokens", "cached"]
        rows = [
            (
                c.id,
                c.name,
                c.args,
                c.ok,
                None if c.result.error is None else str(c.result.error),
                c.ms,
                c.tokens,
                c.cached,
            )
            for c in self
        ]
        return pd.DataFrame(rows, columns=columns)


class Answer:
    """What an ask gave. `error` is the failure of the model, where that ended it."""

    def __init__(
        self,
        *,
        prompt: str,
        text: str = "",
        calls: Iterable[AnswerCall] = (),
        usage: TokenUsage | None = None,
        stop_reason: StopReason = "done",
        session_context_updated: bool = False,
        error: CallFailure | None = None,
        note: str = "",
        model: str = "",
        seconds: float = 0.0,
    ) -> None:
        self.prompt = prompt
        self.text = text
        self.calls = AnswerCalls(calls)
        self.usage = usage if usage is not None else TokenUsage()
        self.stop_reason: StopReason = stop_reason
        self.session_context_updated = session_context_updated
        self.error = error
        self.note = note
        self.model = model
        self.seconds = seconds

    def unwrap(self) -> Answer:
        """Give the answer itself, or raise AskFailed where the model failed."""
        if self.stop_reason != "error":
            return self
        hint = self.error.hint if self.error is not None else ""
        raise AskFailed(self.note or "The model failed.", hint=hint, answer=self)

    @property
    def tool_error(self) -> dict[str, str] | None:
        """The first call that failed: {tool, code, message}."""
        for call in self.calls:
            if call.result.error is not None:
                failed = call.result.error
                return {"tool": call.name, "code": failed.code, "message": failed.message}
        return None

    @property
    def df(self) -> pd.DataFrame:
        """The rows of the last result that has some, as a pandas DataFrame; without one, the calls.

        `frame.attrs["onetool"]` says which call they are from.
        """
        for call in reversed(self.calls):
            if call.ok and call.is_tool and _has_rows(call.result.data):
                frame = call.result.to_df()
                frame.attrs["onetool"] = {**frame.attrs.get("onetool", {}), "tool": call.name, "call": call.id}
                return frame
        return self.calls.df

    def to_dict(self) -> dict[str, Any]:
        """The shape of spec 004, fit for JSON; `error` is there only where the model failed."""
        out: dict[str, Any] = {
            "text": self.text,
            "toolCalls": [{"id": c.id, "name": c.name, "args": values.to_json(c.args)} for c in self.calls],
            "toolResults": [_result(c) for c in self.calls],
            "toolError": self.tool_error,
            "sessionContextUpdated": self.session_context_updated,
            "stopReason": self.stop_reason,
            "usage": {**self.usage.to_dict(), "total": self.usage.total},
        }
        if self.error is not None:
            out["error"] = {"code": self.error.code, "reason": self.error.reason, "message": self.error.message}
        return out

    def to_cells(self, write: Callable[[str, Mapping[str, Any]], str] | None = None) -> list[str]:
        """The calls that ran, each as a `%tool` line that does it again; in order, none twice for a reused result."""
        line = _line if write is None else write
        return [line(c.name, c.args) for c in self.calls if c.ok and c.is_tool and not c.cached]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002 - IPython's
        box = current.toolbox()
        return bundle(self, str if box is None else box.mask)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count = f"{len(self.calls)} call{'' if len(self.calls) == 1 else 's'}"
        return f"<Answer {self.stop_reason}, {count}, {self.usage.total:,} tokens: {values.safe_repr(self.text, 200)}>"


def _result(call: AnswerCall) -> dict[str, Any]:
    written = call.result.to_dict() if call.result.error is not None else {"ok": True, "error": None}
    meta = values.to_json(call.result.meta)
    return {"callId": call.id, **written, "data": None if call.result.error is not None else call.sent, "meta": meta}


def _has_rows(data: Any) -> bool:
    """Whether there is a list of records, or a table, in a result."""
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        return True
    plain = values.to_json(data)
    return _holds_records(plain, 3)


def _holds_records(value: Any, depth: int) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, dict) for row in value)
    inner: Sequence[Any] = list(value.values()) if isinstance(value, dict) and depth else ()
    return any(_holds_records(one, depth - 1) for one in inner)


def _line(name: str, args: Mapping[str, Any]) -> str:
    shown = name if _PLAIN_NAME.fullmatch(name) else _one_line(name)
    return f"%tool {shown} {_one_line(values.to_json(dict(args)))}" if args else f"%tool {shown}"


def _one_line(value: Any) -> str:
    """JSON on one line: characters that end a line for Python, such as U+2028, are escaped."""
    found = json.dumps(value, ensure_ascii=False)
    return found if found.isprintable() else json.dumps(value)
