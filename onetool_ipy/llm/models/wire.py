"""Where a model is reached: the configured base_url, in any of the ways people write it. Pure.

OpenAI-compatible servers (vLLM, llama.cpp, LM Studio) are told with or without `/v1`; a whole endpoint pasted from a
manual is understood too.

Lines of a streamed reply -> the JSON objects in it: server-sent events, or one object per line. Pure.

What a model's server said no with: HTTP statuses and errors inside a reply, in our words. Pure.

What a wire format must offer, and what all of them share: reading of JSON arguments, ids, text of an outcome.

A `Wire` is pure: it writes a request's body and reads replies, and never sends anything. `Reading` takes the pieces of
one reply, streamed or whole, and ends as a Turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    CallFailure,
    ExecutionFailed,
    InvalidConfig,
    InvalidOutput,
    OneToolError,
    RateLimited,
    TooLarge,
)
from onetool_ipy.config.settings import Model
from onetool_ipy.llm.formats import OfferedTool
from onetool_ipy.llm.messages import Call, Message, Outcome, Stop, System, TokenUsage, Turn
from onetool_ipy.net.body import HttpResponse
from onetool_ipy.net.client import is_passing

if TYPE_CHECKING:
    from onetool_ipy.net.client import Rules

__all__ = [
    "ModelRequest",
    "ReplyReader",
    "StreamDecoder",
    "WireFormat",
    "arguments_of",
    "as_json_object",
    "base_of",
    "count",
    "may_pass",
    "refused",
    "rules_for",
    "said_text",
    "system_text",
    "text_of",
    "with_options",
    "words_of",
]

_MAX_BYTES = 32 * 1024 * 1024


def base_of(url: str, *, version: str, endpoints: tuple[str, ...] = ()) -> str:
    """The base that endpoints are appended to, without a slash at its end.

    `version` is added where the address names no path; `endpoints` at its end are what someone pasted with it.
    """
    base = url.strip().rstrip("/")
    for endpoint in endpoints:
        base = base.removesuffix(endpoint).rstrip("/")
    _, _, rest = base.partition("://")
    return base if "/" in rest or not version else f"{base}/{version}"


def rules_for(url: str) -> Rules:
    """What holds for requests to a model: its own host and port, and no other. It may be a private one."""
    import httpx

    from onetool_ipy.net.client import Rules
    from onetool_ipy.net.hosts import Hosts, origin_of

    try:
        place = origin_of(httpx.URL(url))
    except httpx.InvalidURL as exc:
        raise InvalidConfig(f"The model's base_url is not valid: {exc}") from None
    except OneToolError as exc:
        raise InvalidConfig(f"The model's base_url cannot be used: {exc.message}", hint=exc.hint) from None
    host = f"[{place.host}]" if ":" in place.host else place.host
    return Rules(
        hosts=Hosts([f"{host}:{place.port}"]), allow_private=True, max_bytes=_MAX_BYTES, tries=1, max_redirects=0
    )


_END = "[DONE]"


class StreamDecoder:
    """Fed with lines; gives objects. `is_over` once the server said that no more will come."""

    def __init__(self, *, is_sse: bool) -> None:
        self.is_over = False
        self._is_sse = is_sse
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[dict[str, Any]]:
        """Take a line, without its end."""
        if not self._is_sse:
            yield from self._objects(line)
        elif not line:
            yield from self.finish()
        elif line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Take the end of an event, or of all."""
        text, self._data = "\n".join(self._data), []
        yield from self._objects(text)

    def _objects(self, text: str) -> Iterator[dict[str, Any]]:
        if not text.strip() or self.is_over:
            return
        if text.strip() == _END:
            self.is_over = True
            return
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidOutput("A part of the model's reply is not JSON.", hint="Ask again.") from None
        if not isinstance(found, dict):
            raise InvalidOutput("A part of the model's reply is not a JSON object.", hint="Ask again.")
        yield found


_MAX_WORDS = 300

_ALSO_PASSING = (500, 529)


def may_pass(status: int) -> bool:
    """Whether another try may do better."""
    return is_passing(status) or status in _ALSO_PASSING


def refused(model: Model, reply: HttpResponse, attempts: int) -> CallFailure:
    """The failure of a request that was answered with something else than a reply."""
    status = reply.status
    said = words_of(_json(reply))
    kind: type[CallFailure] = {429: RateLimited, 413: TooLarge}.get(status, ExecutionFailed)
    return kind(
        f"The model '{model.name}' answered {status}" + (f": {said}" if said else "."),
        hint=_hint(model, reply),
        details={"status": status, "attempts": attempts},
    )


def words_of(data: Any) -> str:
    """What an error says, on one line; "" where there is none."""
    found = data.get("error") if isinstance(data, dict) else data
    if isinstance(found, dict):
        found = found.get("message") or found.get("type") or found
    if found is None or found == "":
        return ""
    text = found if isinstance(found, str) else json.dumps(found, default=str)
    return values.cut(" ".join(text.split()), _MAX_WORDS)


def _json(reply: HttpResponse) -> Any:
    if not reply.is_json:
        return reply.text if reply.mime == "text/plain" else None
    try:
        found = reply.json()
    except CallFailure:
        return reply.text
    return found[0] if isinstance(found, list) and found else found  # Gemini's streams answer with a list


def _hint(model: Model, reply: HttpResponse) -> str:
    status = reply.status
    if status in (401, 403):
        where = f"the secret '{model.key}'" if model.key else "that the model has a 'key: SECRET_NAME'"
        return f"Check {where} in the configuration."
    if status == 404:
        return f"Check 'model: {model.model}' and its base_url in onetool.yaml."
    if status == 429 and (wait := reply.headers.get("retry-after")):
        return f"It says: try again in {wait}" + (" s." if wait.isdigit() else ".")
    if 300 <= status < 400:
        return "It is elsewhere: write its real address as base_url."
    return "Try again later." if status >= 500 or status == 429 else ""


Json = dict[str, Any]

_LIMITS = frozenset(("max_tokens", "max_completion_tokens", "num_predict", "maxOutputTokens"))


class ModelRequest(NamedTuple):
    """One request, in no provider's words."""

    base_url: str
    model: str
    messages: Sequence[Message]
    tools: Sequence[OfferedTool]
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


class WireFormat(Protocol):
    """One provider's way of saying things."""

    provider: str
    default_url: str
    needs_key: bool
    is_sse: bool

    def url(self, ask: ModelRequest) -> str:
        """Where the request goes."""

    def headers(self, key: str | None) -> dict[str, str]:
        """How the key is shown, and what else a request must carry."""

    def body(self, ask: ModelRequest) -> Json:
        """The request's body."""

    def reading(self, ask: ModelRequest) -> ReplyReader:
        """A reader for the reply."""


class ReplyReader:
    """The reply as it comes: `whole` for one that is read at once, `piece` for each part of a streamed one.

    A subclass collects `text`, calls, `usage` and `stop`. It sets `is_over` when the turn is complete, without which a
    stream was cut; and `is_ended` when nothing more will come, though the connection may stay open.
    """

    provider = ""

    def __init__(self, ask: ModelRequest) -> None:
        self.ask = ask
        self.text = ""
        self.usage = TokenUsage()
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
