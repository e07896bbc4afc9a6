"""An exchange: one ask of a named session as a person reads it, while it runs and later.

It has the prompt, what the model wrote and called, in their order, the price and the end. The
messages of a session are what a model is sent, and are shortened in time; its exchanges stay, in a
file of their own that grows by a line for each. Everything in an exchange is masked before it is
cut, so that no part of a secret is left in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from onetool_ipy.base import values
from onetool_ipy.base.values import Json
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.llm.ask.answer import Answer, AnswerCall, call_view, summary
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.llm.messages import TokenUsage
from onetool_ipy.render.result import Called, DisplayLimits, head, show

_EVERY_S = 0.2
_MAX_TEXT = 100_000
_MAX_ARGS = 4_000
_MAX_PROBLEM = 2_000
_MAX_FACTS = 120
_RESULT = DisplayLimits(lines=12, chars=2_000, rows=5)


class ExchangeListener(AskListener):
    """Hands an ask on to its listener, and publishes it as an exchange each time it goes on: text
    at most five times a second, all else at once."""

    def __init__(
        self,
        listener: AskListener,
        exchange: Json,
        *,
        mask: Callable[[str], str],
        publish: Callable[[Json], None],
    ) -> None:
        self.exchange = exchange
        self._listener = listener
        self._mask = mask
        self._publish = publish
        self._parts: list[Json] = []
        self._calls: dict[int, Json] = {}
        self._sent: Json = {}
        self._published_at = 0.0
        exchange |= {"state": "running", "prompt": self._short(exchange["prompt"], _MAX_TEXT)}

    def began(self, model: str, session: Session) -> None:
        self._listener.began(model, session)
        self.exchange["model"] = self._mask(model)
        self._tell()

    def sent(self, text: str) -> None:
        self._listener.sent(text)
        self._sent = self._add("note", text)

    def text(self, piece: str) -> None:
        self._listener.text(piece)
        if not self._parts or "text" not in self._parts[-1]:
            self._parts.append({"text": ""})
        part = self._parts[-1]
        part["text"] = values.cut(part["text"] + piece, _MAX_TEXT)
        if time.monotonic() - self._published_at >= _EVERY_S:
            self._tell()

    def replied(self, usage: TokenUsage) -> None:
        self._listener.replied(usage)

    def shortened(self, text: str) -> None:
        self._listener.shortened(text)
        self._add("note", text)

    def calling(self, number: int, name: str, args: object) -> None:
        self._listener.calling(number, name, args)
        self._show(number, Called(name, args), None)

    def called(self, number: int, call: AnswerCall) -> None:
        self._listener.called(number, call)
        view = call_view(call)
        if view.state == "failed":
            ms = (f"{call.ms:,.0f} ms",) if call.ms >= 1 else ()
            view = view._replace(facts=(view.problem.partition("\n")[0], *ms))
        self._show(number, view, call.sent)

    def question(self, question: Question, put: Callable[[Question], Reply]) -> Reply:
        self.exchange["state"] = "waiting"
        self._tell()
        try:
            return self._listener.question(question, put)
        finally:
            self.exchange["state"] = "running"
            self._tell()

    def ended(self, answer: Answer) -> None:
        self._listener.ended(answer)
        usage = answer.usage
        self.exchange |= {
            "state": answer.stop_reason,
            "isOk": answer.ok,
            "facts": self._short(summary(answer), _MAX_PROBLEM),
            "tokens": usage.total,
            "cost": answer.cost,
            "seconds": round(answer.seconds, 1),
        }
        if self._sent:
            self._sent["note"] = self._short(answer.sent, _MAX_TEXT)
        self._tell()

    def _add(self, kind: str, text: str) -> Json:
        self._parts.append(part := {kind: self._short(text, _MAX_TEXT)})
        self._tell()
        return part

    def _show(self, number: int, call: Called, sent: object) -> None:
        """Add a call, or renew it. Of its result there is what the model was sent."""
        args = values.map_text(values.to_json(call.args), self._mask)
        text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=2)
        plain = values.map_text(values.to_json(sent), self._mask)
        row = self._calls.get(number)
        part = self._calls.setdefault(number, {})
        part |= {
            "call": call.name,
            "line": self._mask(head(call._replace(args=args))),
            "args": "" if text in ("{}", "null") else values.cut(text, _MAX_ARGS),
            "state": call.state,
            "facts": self._short(" · ".join(call.facts), _MAX_FACTS),
            "problem": self._short(call.problem, _MAX_PROBLEM),
            "result": show(plain, _RESULT).text if call.state == "ok" else "",
        }
        if row is None:
            self._parts.append(part)
        self._tell()

    def _short(self, text: str, length: int) -> str:
        return values.cut(self._mask(text), length)

    def _tell(self) -> None:
        self._published_at = time.monotonic()
        parts = [dict(part) for part in self._parts]
        self.exchange["parts"] = parts
        self._publish(dict(self.exchange))
