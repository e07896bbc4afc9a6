"""A conversation with a model, independent of any provider, and the protocol of a model client.

A conversation is a list of messages: `System`, `User`, `Turn` (a reply of the model) and `Outcomes`
(the results of all calls of the turn before, in one message, so that they stay together). Each
client writes them in its provider's format. Values are frozen and live in memory; `Turn` can be
written as JSON, for record and replay. Their fields may be given by position, since people write
them in tests and in clients of their own: `User("hello")`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol, cast

from onetool_ipy.base.errors import UsageProblem

DEADLINE_S = 300.0
"""How long one reply may take, with all retries, by default."""

OnText = Callable[[str], object]
"""Called with each piece of streamed text."""

Stop = Literal["done", "calls", "cut", "refused", "other"]
"""Why a turn ended: it was complete, it asks for calls, it hit the token limit, the provider
refused it."""


@dataclass(frozen=True, slots=True)
class System:
    """Instructions for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class User:
    """What the person writes, and the images that go with it: their MIME types and base64.

    `forbids_calls` marks the line by which the last request of an ask demands an answer without
    more calls. The tools stay in that request, so that the provider finds its cached prefix again.
    `schema` is the JSON Schema that the answer must fit.
    """

    text: str
    images: tuple[tuple[str, str], ...] = ()
    forbids_calls: bool = False
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model asks for, by its wire name.

    `arguments` is a dict, or the text as it came if that is not a JSON object. `id` is unique in
    the conversation, also if the provider gives none.
    """

    id: str
    wire_name: str
    arguments: dict[str, Any] | str

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "wire_name": self.wire_name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens read and written, as the provider counts them; 0 if it does not say.

    `cached` is the part of `input` that came from the provider's cache, `reasoning` the part of
    `output` that is not shown.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model: text, calls, or both.

    `parts` is the reply in the format of `provider`, which wants it back unchanged (Gemini's
    thought signatures, Anthropic's thinking blocks). Other providers get text and calls.
    `stop_word` is the provider's own word for `stop`.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: TokenUsage = TokenUsage()
    stop: Stop = "done"
    provider: str = ""
    parts: tuple[Mapping[str, Any], ...] = ()
    stop_word: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as JSON data."""
        lists = {
            "calls": [call.to_dict() for call in self.calls],
            "parts": [dict(part) for part in self.parts],
        }
        return {**asdict(replace(self, calls=(), parts=())), **lists}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn:
        """Read what `to_dict` wrote."""
        return cls(
            text=data["text"],
            calls=tuple(Call(**call) for call in data["calls"]),
            usage=TokenUsage(**data["usage"]),
            stop=data["stop"],
            provider=data["provider"],
            parts=tuple(data["parts"]),
            stop_word=data.get("stop_word", ""),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one call: any JSON value, or the words of its failure; and its images, as
    `User` has them."""

    call: Call
    content: Any
    is_error: bool = False
    images: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The results of the calls of the turn before, in the order of the calls."""

    items: tuple[Outcome, ...]


Message = System | User | Turn | Outcomes


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """One tool as it is offered to a model. `name` is its wire name, `tool` its canonical name."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLimits:
    """What a provider takes: the bytes of one image, and the longer side in pixels."""

    max_bytes: int = 20_000_000
    max_side: int = 8_000


TakesImages = Callable[[], ImageLimits | None]
"""Says what images a model takes; None if it takes none."""


class ModelClient(Protocol):
    """A model that can be asked. `name` is what people call it.

    `complete` sends a conversation and returns the model's turn; it keeps no state. With `on_text`
    the reply is streamed, and each piece of text is passed on in the calling thread (or task).

    Failures are those of `base.errors` with secrets masked; `details["text"]` holds the text before
    a reply broke off. KeyboardInterrupt and cancelling close the connection and pass through.
    """

    @property
    def name(self) -> str: ...

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,
        max_tokens: int | None = None,
    ) -> Turn:
        """Send a conversation and wait for the reply. Raises a CallFailure if there is none."""
        ...

    async def acomplete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,
        max_tokens: int | None = None,
    ) -> Turn:
        """`complete` without blocking the event loop."""
        ...


def require_client(value: object) -> ModelClient:
    """Return a model client that a user passed in. Raises UsageProblem if it is not one."""
    if not callable(getattr(value, "complete", None)):
        raise UsageProblem(
            f"A model is a name or has a method 'complete'; this is {type(value).__name__!r}."
        )
    return cast(ModelClient, value)


def image_limits(client: object) -> ImageLimits | None:
    """Return what a model takes, or None if it takes no images. A client of the user's own need not
    say."""
    limits = getattr(client, "image_limits", None)
    if not callable(limits):
        return ImageLimits()
    answer = limits()
    return answer if isinstance(answer, ImageLimits) else None


def encoded(images: Sequence[tuple[str, bytes]]) -> tuple[tuple[str, str], ...]:
    """Return images, as MIME types and bytes, as messages carry them: MIME types and base64."""
    return tuple((mime, base64.b64encode(data).decode("ascii")) for mime, data in images)
