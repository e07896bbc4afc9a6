"""Models: provider formats (pure), one client per wire format, the loop of `ask`, and a scripted model for tests.

`messages` holds what is said, in no provider's words; `formats` and `models` translate at the edge. Nothing here
knows the Toolbox: what is needed is handed in. All names are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.llm.messages import Call, Message, Outcome, Outcomes, System, Turn, Usage, User
    from onetool_ipy.llm.models import ModelClient, open_model
    from onetool_ipy.llm.scripted import ScriptedModel

__all__ = [
    "Call",
    "Message",
    "ModelClient",
    "Outcome",
    "Outcomes",
    "ScriptedModel",
    "System",
    "Turn",
    "Usage",
    "User",
    "open_model",
]

_HOMES = {"ModelClient": "models", "open_model": "models", "ScriptedModel": "scripted"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'messages')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
