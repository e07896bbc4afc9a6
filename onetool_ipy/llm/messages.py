"""What is said between us and a model, in no provider's words.

A conversation is a list of messages: `System`, `User`, `Turn` (what the model said) and `Outcomes` (what the calls of
the turn before it gave, all of them in one message, so that nothing can part them). Each client writes them in its
provider's own way. Values are frozen and live in memory only; `Turn` alone can be written as JSON, for record/replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from onetool_ipy.base.records import Value

__all__ = ["Call", "Message", "Outcome", "Outcomes", "Stop", "System", "TokenUsage", "Turn", "User"]

Stop = Literal["done", "calls", "length", "refused", "other"]
"""Why a turn ended: it was complete, it wants calls, it was cut at the token limit, the provider blocked it."""


class System(Value):
    """Instructions for the model."""

    text: str


class User(Value):
    """What the person said."""

    text: str


class Call(Value):
    """A tool call that the model asks for, by the name it was given (`wire_name`).

    `arguments` is a dict; where the model wrote something else than a JSON object it is the text as it came, to be
    answered with `invalid_args`. `id` is unique within the conversation, also where the provider gives none.
    """

    id: str
    wire_name: str
    arguments: dict[str, Any] | str

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "wire_name": self.wire_name, "arguments": self.arguments}


class TokenUsage(Value):
    """Tokens that were read and written, as the provider counts them; 0 where it does not say."""

    input: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(self.input + other.input, self.output + other.output)

    def to_dict(self) -> dict[str, int]:
        return {"input": self.input, "output": self.output}


class Turn(Value):
    """What the model said in one reply: text, calls, or both.

    `parts` is the reply in the words of `provider`, which that provider wants back unchanged (Gemini's thought
    signatures, Anthropic's thinking blocks); another provider is told text and calls.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: TokenUsage = TokenUsage()
    stop: Stop = "done"
    provider: str = ""
    parts: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "text": self.text,
            "calls": [call.to_dict() for call in self.calls],
            "usage": self.usage.to_dict(),
            "stop": self.stop,
            "provider": self.provider,
            "parts": [dict(part) for part in self.parts],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn:
        """What `to_dict` wrote."""
        return cls(
            text=data["text"],
            calls=tuple(Call(**call) for call in data["calls"]),
            usage=TokenUsage(**data["usage"]),
            stop=data["stop"],
            provider=data["provider"],
            parts=tuple(data["parts"]),
        )


class Outcome(Value):
    """What one call gave: any JSON value, or the words of its failure."""

    call: Call
    content: Any
    is_error: bool = False


class Outcomes(Value):
    """What the calls of the turn before gave, in the order of the calls."""

    items: tuple[Outcome, ...]


Message = System | User | Turn | Outcomes
