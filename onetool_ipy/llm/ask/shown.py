"""An answer and its calls as they are shown: parts for a view that grows, and one output for an answer shown again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onetool_ipy.core.printable import printable
from onetool_ipy.render import markdown
from onetool_ipy.render.called import Called, to_text

if TYPE_CHECKING:
    from onetool_ipy.llm.ask.answer import Answer, AnswerCall

__all__ = ["bundle", "called", "summary"]

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
