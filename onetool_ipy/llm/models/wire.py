"""What a wire format must offer, and what all of them share: reading of JSON arguments, ids, text of an outcome.

A `Wire` is pure: it writes a request's body and reads replies, and never sends anything. `Reading` takes the pieces of
one reply, streamed or whole, and ends as a Turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from onetool_ipy.core.errors import InvalidOutput
from onetool_ipy.llm.formats import Offer
from onetool_ipy.llm.messages import Call, Message, Outcome, Stop, System, Turn, Usage

__all__ = [
    "Ask",
    "Reading",
    "Wire",
    "arguments_of",
    "as_json_object",
    "count",
    "said_text",
    "system_text",
    "text_of",
    "with_options",
]

Json = dict[str, Any]

_LIMITS = frozenset(("max_tokens", "max_completion_tokens", "num_predict", "maxOutputTokens"))


class Ask(NamedTuple):
    """One request, in no provider's words."""

    base_url: str
    model: str
    messages: Sequence[Message]
    tools: Sequence[Offer]
    max_tokens: int | None
    is_streamed: bool
    options: Mapping[str, Any] = MappingProxyType({})


def with_options(body: Json, options: Mapping[str, Any]) -> Json:
    """The body with the model's own options, of which ours win; of two limits, the lower."""
    out = {**options, **body}
    for key in _LIMITS & options.keys() & body.keys():
        if isinstance(options[key], int):
            out[key] = min(options[key], body[key])
    return out


class Wire(Protocol):
    """One provider's way of saying things."""

    provider: str
    default_url: str
    needs_key: bool
    is_sse: bool

    def url(self, ask: Ask) -> str:
        """Where the request goes."""

    def headers(self, key: str | None) -> dict[str, str]:
        """How the key is shown, and what else a request must carry."""

    def body(self, ask: Ask) -> Json:
        """The request's body."""

    def reading(self, ask: Ask) -> Reading:
        """A reader for the reply."""


class Reading:
    """The reply as it comes: `whole` for one that is read at once, `piece` for each part of a streamed one.

    A subclass collects `text`, calls, `usage` and `stop`. It sets `is_over` when the turn is complete, without which a
    stream was cut; and `is_ended` when nothing more will come, though the connection may stay open.
    """

    provider = ""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.text = ""
        self.usage = Usage()
        self.stop: Stop | None = None
        self.is_over = False
        self.is_ended = False
        self.has_begun = False
        self._calls: list[tuple[str, str, dict[str, Any] | str]] = []

    def whole(self, data: Json) -> None:
        """Take a reply that is read at once."""
        raise NotImplementedError

    def piece(self, data: Json) -> str:
        """Take a part of a streamed reply; gives the new text."""
        raise NotImplementedError

    def parts(self) -> Sequence[Json]:
        """The reply in the provider's words, where it wants it back."""
        return ()

    def add(self, call_id: object, name: object, arguments: dict[str, Any] | str) -> None:
        """Note a call that the model asks for."""
        self._calls.append((call_id if isinstance(call_id, str) else "", str(name), arguments))

    def turn(self) -> Turn:
        """All that was said. Raises InvalidOutput where that is nothing at all."""
        self.finish()
        if self.stop is None and not self.text and not self._calls:
            raise InvalidOutput("The model gave no answer: the reply has no choices.", hint="Ask again.")
        stop: Stop = self.stop or "other"
        if self._calls and stop not in ("length", "refused"):
            stop = "calls"
        calls = self._distinct()
        is_renamed = any(given and given != call.id for call, (given, *_) in zip(calls, self._calls, strict=True))
        parts = () if is_renamed else tuple(self.parts())  # what the parts call it would not be found
        return Turn(self.text, calls, self.usage, stop, self.provider, parts)

    def finish(self) -> None:
        """Called once when all is there."""

    def _distinct(self) -> tuple[Call, ...]:
        """The calls with an id each. Made ones are the same when the same conversation is had again."""
        known = {call.id for said in self.ask.messages if isinstance(said, Turn) for call in said.calls}
        out: list[Call] = []
        for number, (given, name, arguments) in enumerate(self._calls, start=1):
            call_id = given if given and given not in known else f"call_{len(self.ask.messages)}_{number}"
            while call_id in known:
                call_id += "x"
            known.add(call_id)
            out.append(Call(call_id, name, arguments))
        return tuple(out)


def arguments_of(text: object) -> dict[str, Any] | str:
    """The arguments of a call: a dict, or the text as it came where it is no JSON object."""
    if isinstance(text, dict):
        return text
    if text is None or (isinstance(text, str) and not text.strip()):
        return {}
    if not isinstance(text, str):
        return json.dumps(text, default=str)
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def text_of(content: object) -> str:
    """The text in what a provider gives as content: text, parts that have some, or another value, as JSON."""
    if isinstance(content, list):
        return "".join(text_of(part) for part in content if isinstance(part, str) or _has_text(part))
    if isinstance(content, dict) and _has_text(content):
        return str(content["text"])
    return "" if content is None else content if isinstance(content, str) else json.dumps(content)


def _has_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def as_json_object(arguments: dict[str, Any] | str) -> dict[str, Any]:
    """The arguments as a provider takes them back; what was no JSON object is told as the text it was."""
    return arguments if isinstance(arguments, dict) else {"not_a_json_object": arguments}


def said_text(outcome: Outcome) -> str:
    """What a call gave, as text."""
    if isinstance(outcome.content, str):
        return outcome.content
    return json.dumps(outcome.content, ensure_ascii=False)


def system_text(messages: Iterable[Message]) -> str:
    """All instructions as one text."""
    return "\n\n".join(message.text for message in messages if isinstance(message, System))


def count(value: object) -> int:
    """A number of tokens; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _no_number(word: str) -> float:
    raise ValueError(word)
