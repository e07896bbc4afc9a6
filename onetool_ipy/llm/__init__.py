"""Language models: provider formats, a client for every wire format, the `ask` loop, a scripted model for tests.

`messages` holds a conversation independent of any provider; `formats` and `wire` translate it. Only `ask` knows the
Toolbox; to all else callers pass in what is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.llm.messages import Call, Message, ModelClient, Outcome, Outcomes, System, TokenUsage, Turn, User
    from onetool_ipy.llm.scripted import ScriptedModel

__all__ = [
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
    from onetool_ipy.llm import messages, scripted

    return getattr(scripted if name == "ScriptedModel" else messages, name)


def __dir__() -> list[str]:
    return sorted(__all__)
