"""What a provider's wire format must define, and what the formats share. Pure: nothing here sends anything.

A `WireFormat` writes the address, headers and body of a request. Its `ReplyReader` takes a reply, whole or in pieces,
and ends as a `Turn`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidOutput
from onetool_ipy.llm.messages import Call, Message, OfferedTool, Outcome, Stop, System, TokenUsage, Turn

__all__ = [
    "Json",
    "ModelRequest",
    "ReplyReader",
    "WireFormat",
    "alternating",
    "arguments_of",
    "as_json_object",
    "base_of",
    "count",
    "said_text",
    "system_text",
    "text_of",
    "with_options",
]

Json = dict[str, Any]

_LIMITS = frozenset(("max_tokens", "max_completion_tokens", "num_predict", "maxOutputTokens"))


class ModelRequest(NamedTuple):
    """One request, independent of any provider."""

    base_url: str
    model: str
    messages: Sequence[Message]
    tools: Sequence[OfferedTool]
    max_tokens: int | None
    is_streamed: bool
    options: Mapping[str, Any] = MappingProxyType({})


class ReplyReader:
    """Reads one reply: `whole` takes it at once, `piece` takes each part of a stream.

    A subclass collects `text`, calls, `usage` and `stop`. It sets `is_complete` when the turn is complete; a stream
    without it was cut off. It sets `is_closed` when nothing more will come, though the connection may stay open.
    """

    def __init__(self, request: ModelRequest, provider: str) -> None:
        self.text = ""
        self.usage = TokenUsage()
        self.stop: Stop | None = None
        self.is_complete = False
        self.is_closed = False
        self.has_begun = False
        self._messages = request.messages
        self._provider = provider
        self._calls: list[tuple[str, str, Json | str]] = []

    def piece(self, data: Json) -> str:
        """Take a part of a streamed reply. Returns the new text."""
        raise NotImplementedError

    def whole(self, data: Json) -> None:
        """Take a reply that was read at once."""
        self.piece(data)
        self.is_complete = True

    def parts(self) -> Sequence[Json]:
        """Return the reply in the provider's format, if the provider wants it back."""
        return ()

    def finish(self) -> None:
        """Called once when everything was read."""

    def add(self, call_id: object, name: object, arguments: object) -> None:
        """Add a call that the model asks for."""
        self._calls.append((call_id if isinstance(call_id, str) else "", str(name), arguments_of(arguments)))

    def turn(self) -> Turn:
        """Return the reply as a turn. Raises InvalidOutput if it is empty."""
        self.finish()
        if self.stop is None and not self.text and not self._calls:
            raise InvalidOutput("The model gave no answer: the reply has no choices.", hint="Ask again.")
        stop: Stop = self.stop or "other"
        if self._calls and stop not in ("length", "refused"):
            stop = "calls"
        calls = self._with_ids()
        is_renamed = any(given and given != call.id for call, (given, *_) in zip(calls, self._calls, strict=True))
        parts = () if is_renamed else tuple(self.parts())  # the parts would name calls that no longer exist
        return Turn(self.text, calls, self.usage, stop, self._provider, parts)

    def _with_ids(self) -> tuple[Call, ...]:
        """Return the calls, each with a distinct id. Ids made here are the same if the conversation is repeated."""
        known = {call.id for turn in self._messages if isinstance(turn, Turn) for call in turn.calls}
        found: list[Call] = []
        for number, (given, name, arguments) in enumerate(self._calls, start=1):
            call_id = given if given and given not in known else f"call_{len(self._messages)}_{number}"
            while call_id in known:
                call_id += "x"
            known.add(call_id)
            found.append(Call(call_id, name, arguments))
        return tuple(found)


class WireFormat:
    """A provider's request format. `is_sse` says that it streams server-sent events, not lines of JSON."""

    provider: ClassVar[str]
    default_url: ClassVar[str]
    reader: ClassVar[type[ReplyReader]]
    needs_key: ClassVar[bool] = True
    is_sse: ClassVar[bool] = True

    def url(self, request: ModelRequest) -> str:
        """Return the address of the request."""
        raise NotImplementedError

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers, with the key."""
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, request: ModelRequest) -> Json:
        """Return the body of the request."""
        raise NotImplementedError


def base_of(url: str, *, version: str, endpoints: tuple[str, ...] = ()) -> str:
    """Return the configured base_url as endpoints are appended to it, without a slash at its end.

    People write it with or without `version`, which is added if the address has no path; or paste one of the
    `endpoints` with it, which is removed.
    """
    base = url.strip().rstrip("/")
    for endpoint in endpoints:
        base = base.removesuffix(endpoint).rstrip("/")
    _, _, rest = base.partition("://")
    return base if "/" in rest or not version else f"{base}/{version}"


def with_options(body: Json, options: Mapping[str, Any]) -> Json:
    """Return the body with the model's configured options. Ours win; of two token limits, the lower one."""
    merged = {**options, **body}
    for key in _LIMITS & options.keys() & body.keys():
        if isinstance(options[key], int):
            merged[key] = min(options[key], body[key])
    return merged


def arguments_of(value: object) -> Json | str:
    """Return the arguments of a call as a dict, or as the text that came if it is not a JSON object."""
    if isinstance(value, dict):
        return value
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    try:
        found = values.from_json(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, dict) else value


def text_of(content: object) -> str:
    """Return the text in a provider's content: text, parts that have some, or another value as JSON."""
    if isinstance(content, list):
        return "".join(text_of(part) for part in content if isinstance(part, str) or _has_text(part))
    if isinstance(content, dict) and _has_text(content):
        return str(content["text"])
    return "" if content is None else content if isinstance(content, str) else json.dumps(content)


def _has_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def as_json_object(arguments: Json | str) -> Json:
    """Return the arguments as a provider takes them back; text that was not a JSON object goes into one."""
    return arguments if isinstance(arguments, dict) else {"not_a_json_object": arguments}


def said_text(outcome: Outcome) -> str:
    """Return the result of a call as text."""
    content = outcome.content
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def alternating(said: Iterable[tuple[str, list[Json]]], key: str) -> list[Json]:
    """Return messages of alternating roles, each with its blocks under `key`; neighbours of one role are joined."""
    found: list[Json] = []
    for role, blocks in said:
        if blocks and found and found[-1]["role"] == role:
            found[-1][key] += blocks
        elif blocks:
            found.append({"role": role, key: blocks})
    return found


def system_text(messages: Iterable[Message]) -> str:
    """Return all instructions as one text."""
    return "\n\n".join(message.text for message in messages if isinstance(message, System))


def count(value: object) -> int:
    """Return a number of tokens, or 0 if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
