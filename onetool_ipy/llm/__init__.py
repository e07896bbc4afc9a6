"""Language models: provider formats, a client for every wire format, the `ask` loop, a scripted
model for tests.

`messages` holds a conversation independent of any provider; `formats` and `wire` translate it. Only
`ask` knows the Toolbox; to all else callers pass in what is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.llm.answer_type import AnswerMismatch
    from onetool_ipy.llm.messages import (
        Call,
        Message,
        ModelClient,
        Outcome,
        Outcomes,
        System,
        TokenUsage,
        Turn,
        User,
    )
    from onetool_ipy.llm.scripted import ScriptedModel

__all__ = [
    "AnswerMismatch",
    "Call",
    "Message",
    "ModelClient",
    "Outcome",
    "Outcomes",
    "ScriptedModel",
    "System",
    "TokenUsage",
    "Turn",
    "User",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onetool_ipy.llm import answer_type, messages, scripted

    homes = {"AnswerMismatch": answer_type, "ScriptedModel": scripted}
    return getattr(homes.get(name, messages), name)


def __dir__() -> list[str]:
    return sorted(__all__)
