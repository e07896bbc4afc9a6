"""`ask`: a prompt goes to a model with tools; the calls it wants are run, and the answer comes back as a value.

The loop knows the toolbox only as a `Desk`. What a model may run is decided in three places that do not trust each
other: what is offered, the check before a call, and the executor's own allow-list. `Watch` hears of everything as it
happens; `Answer` has it all at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.llm.ask.answer import Answer
    from onetool_ipy.llm.ask.asker import Asker
    from onetool_ipy.llm.ask.context import Watch
    from onetool_ipy.llm.ask.session import Session

__all__ = ["Answer", "Asker", "Session", "Watch"]

_HOMES = {"Answer": "answer", "Asker": "asker", "Session": "session", "Watch": "context"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
