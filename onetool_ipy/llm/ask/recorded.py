"""A model's reply from the cassette that is on, or from the model, recorded.

A reply belongs to what was said before it: prompt, turns and outcomes, not our own instructions, which change with
versions of this package. Handles of stored results are new in each run: the cassette has their numbers instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.llm.messages import Message, Outcomes, System, Turn, User
from onetool_ipy.stores.cassettes import Cassette

__all__ = ["reply"]


def reply(
    cassette: Cassette, model: str, messages: Sequence[Message], handles: Iterable[str], ask: Callable[[], Turn]
) -> Turn:
    """The turn that was recorded for this conversation; else what `ask` gives, recorded."""
    known = {handle: f"@handle-{number}@" for number, handle in enumerate(handles, start=1)}
    key = [_written(message) for message in messages if not isinstance(message, System)]
    found = cassette.answer(
        f"model:{model}",
        _renamed(key, known),
        lambda: _renamed(ask().to_dict(), known),
    )
    return Turn.from_dict(_renamed(found, {name: handle for handle, name in known.items()}))


def _written(message: Message) -> dict[str, Any]:
    match message:
        case User(text=text):
            return {"user": text}
        case Turn(text=text, calls=calls):
            return {"model": text, "calls": [call.to_dict() for call in calls]}
        case Outcomes(items=items):
            return {"outcomes": [{"call": item.call.id, "content": item.content} for item in items]}
    return {}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    def change(text: str) -> str:
        for old, new in names.items():
            text = text.replace(old, new)
        return text

    return values.map_text(value, change) if names else value
