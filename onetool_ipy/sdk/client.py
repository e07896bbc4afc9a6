"""What a tool exchanges with the program that made its call: questions, its log, and results that are not data.

`ask_user` reaches a person: in a notebook, a terminal, or by the MCP client that made the call. The others reach an MCP
client only. Where nobody can answer they raise NobodyToAsk. They block: an async tool calls them by
`await asyncio.to_thread(ask_user, ...)`. The time that a call waits for answers does not count for its limit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core import current
from onetool_ipy.core.question import NobodyToAsk, Question, checked
from onetool_ipy.render.media import Audio, Blocks, Image, Resource, ResourceLink

__all__ = [
    "Audio",
    "Blocks",
    "Image",
    "LogLevel",
    "Resource",
    "ResourceLink",
    "Roots",
    "Sample",
    "UserForm",
    "ask_client",
    "ask_model",
    "ask_user",
    "client_can",
    "log",
]

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_LEVELS = {"debug": 10, "info": 20, "notice": 20, "warning": 30, "error": 40}


class UserForm(NamedTuple):
    """A form for the person: a flat JSON Schema of type object, and what to say above it."""

    schema: Mapping[str, Any]
    message: str


class Sample(NamedTuple):
    """A prompt for the client's model."""

    prompt: str
    max_tokens: int = 1000
    system: str = ""


class Roots(NamedTuple):
    """The folders that the client works in."""


def ask_user(schema: Mapping[str, Any], message: str, *, name: str = "answer") -> dict[str, Any] | None:
    """Let the person fill in a form; return the values by field, or None if the person declines.

    `schema` is a JSON Schema of type object with plain fields; no passwords. `name` is what MCP clients know the
    question by; each question of a call that asks several needs its own.
    """
    here = current.scope()
    _require_thread()
    if here is not None and here.client is not None:
        filled: dict[str, Any] | None = ask_client(**{name: UserForm(schema, message)})[name]
        return filled
    reply = current.require().put_question(_question(UserForm(schema, message)))
    return dict(reply.content) if reply.action == "accept" else None


def ask_model(prompt: str, *, max_tokens: int = 1000, system: str = "", name: str = "sample") -> str:
    """Let the model of the MCP client answer a prompt, and return its text."""
    return str(ask_client(**{name: Sample(prompt, max_tokens, system)})[name])


def ask_client(**questions: UserForm | Sample | Roots) -> dict[str, Any]:
    """Ask the MCP client several things at once; return the answers by name.

    A UserForm gives its values or None, a Sample the model's text, Roots a list of addresses.
    """
    here = current.scope()
    _require_thread()
    if here is None or here.client is None:
        raise NobodyToAsk("This call was not made by an MCP client that can be asked.", hint="See client_can().")
    return here.client.ask({name: _ready(question) for name, question in questions.items()})


def client_can() -> frozenset[str]:
    """Return what the MCP client of this call answers: some of `elicitation` (forms), `sampling` and `roots`."""
    here = current.scope()
    return frozenset() if here is None or here.client is None else here.client.can()


def log(text: str, level: LogLevel = "info") -> None:
    """Log a line: to the MCP client that made this call, and to Python's logger of the tool's pack."""
    here = current.scope()
    pack = here.spec.pack if here is not None and here.spec is not None else "tool"
    logging.getLogger(f"onetool_ipy.packs.{pack}").log(_LEVELS.get(level, 50), "%s", text)
    if here is not None and here.client is not None:
        here.client.log(level, text, pack)


def _require_thread() -> None:
    """Refuse to block the event loop that async tools share."""
    if current.require().background.is_here():
        raise UsageProblem("An async tool asks from a thread.", hint="Write: await asyncio.to_thread(ask_user, ...)")


def _ready(question: UserForm | Sample | Roots) -> Question | Sample | Roots:
    if not isinstance(question, UserForm):
        return question
    here = current.scope()
    if here is not None:
        here.count_question()
    return checked(_question(question).masked(current.require().mask))


def _question(form: UserForm) -> Question:
    here = current.scope()
    asker = f"tool '{here.spec.name}'" if here is not None and here.spec is not None else "a tool"
    return Question(asker, form.message, form=form.schema)
