"""What a running tool uses: of its toolbox, and of the person or program that made its call.

Of the toolbox: other packs, its own settings and secrets, progress. A pack called from another pack
runs in a call of its own, so each sees its own settings.

Of the caller: questions, its log, and results that are not data. `ask_user` reaches a person: in a
notebook, a terminal, or by the MCP client that made the call. The others reach an MCP client only.
Where nobody can answer they raise NobodyToAsk. They block: an async tool calls them by `await
asyncio.to_thread(ask_user, ...)`. The time that a call waits for answers does not count for its
limit.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.background import require_wanted
from onetool_ipy.base.errors import UsageProblem, words_of
from onetool_ipy.base.values import Json
from onetool_ipy.core import current
from onetool_ipy.core.question import NobodyToAsk, Question, checked, count_question

T = TypeVar("T")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_LEVELS = {"debug": 10, "info": 20, "notice": 20, "warning": 30, "error": 40}


def get_pack(name: str) -> Any | None:
    """Return the pack of that name, with its tools as methods, or None."""
    return current.require().pack(name)


def call_tool(name: str, /, **kwargs: object) -> Any:
    """Call a tool by its qualified name and return its raw value; a tool's own exception passes
    through.

    Raises ValueError if there is no such pack or tool.
    """
    box = current.require()
    spec = box.registry.find(name)
    pack_name, _, tool_name = (spec.name if spec is not None else name).partition(".")
    pack = box.pack(pack_name)
    if pack is None:
        raise ValueError(f"Pack not found: {pack_name}")
    try:
        tool = pack[tool_name]
    except KeyError:
        raise ValueError(f"Tool not found: {name}") from None
    return tool(**kwargs)


def get_config(pack: str | None = None) -> Json:
    """Return a copy of the settings of the running tool's pack, or of the pack named; empty if it
    has none."""
    if pack is None:
        pack = _own_pack()
    settings = current.require().config.settings.packs.get(pack)
    return {} if settings is None else values.plain_copy(settings.data)[0]


def get_secret(name: str) -> str | None:
    """Return the secret of that name, from secrets.yaml, else from the environment."""
    secret = current.require().config.secrets.get(name)
    return None if secret is None else str(secret)


def describe_for_model(cls: type[T], function: Callable[[T], object]) -> None:
    """Say how values of a class are described to a model where a prompt names them with `@`.

    The function returns text, JSON data or an image. It counts for subclasses, too; a class of your
    own may have a method `_repr_llm_` instead. At most 4 kB of it are sent.
    """
    if not isinstance(cls, type) or not callable(function):
        raise UsageProblem(
            "describe_for_model takes a class and a function.",
            hint="describe_for_model(Cls, function)",
        )
    current.require().ask.attachments.describers[cls] = function


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Report how far the running call is, to the program that made it, if it listens.

    Ends a call that was stopped, cancelled or ran past its limit, since nobody waits for it any
    more.
    """
    require_wanted()
    here = current.scope()
    if here is not None and here.progress is not None:
        here.progress(
            _sayable(done), _sayable(total), text if isinstance(text, str) else words_of(text)
        )


def _sayable(number: Any) -> Any:
    """Return a number that can be drawn, and anything else as its text: a report must not cost the
    result."""
    if number is None or isinstance(number, float) or (type(number) is int and abs(number) < 2**63):
        return number
    try:
        return float(number)
    except Exception:  # noqa: BLE001 - a foreign __float__ may raise anything
        return words_of(number)[:12]


def _own_pack() -> str:
    """Return the pack of the running tool, or the one whose file is being imported."""
    here = current.scope()
    if here is None:
        return ""
    # A pack that is being imported may be loaded by a tool of another pack.
    if here.importing:
        asking = sys._getframe(2).f_globals.get("pack")
        return asking if isinstance(asking, str) else ""
    return here.spec.pack if here.spec is not None else ""


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


def ask_user(schema: Mapping[str, object], message: str, *, name: str = "answer") -> Json | None:
    """Let the person fill in a form; return the values by field, or None if the person declines.

    `schema` is a JSON Schema of type object with plain fields; no passwords. `name` is what MCP
    clients know the question by; each question of a call that asks several needs its own.
    """
    if not isinstance(schema, Mapping):
        raise UsageProblem(
            "ask_user(schema, message) takes a JSON Schema first, not"
            f" {values.safe_repr(schema, 40)}."
        )
    here = current.scope()
    _require_thread()
    if here is not None and here.client is not None:
        filled: dict[str, Any] | None = ask_client(**{name: UserForm(schema, message)})[name]
        return filled
    reply = current.require().put_question(_question(UserForm(schema, message)))
    return dict(reply.content) if reply.action == "accept" else None


def ask_model(
    prompt: str, *, max_tokens: int = 1000, system: str = "", name: str = "sample"
) -> str:
    """Let the model of the MCP client answer a prompt, and return its text."""
    return str(ask_client(**{name: Sample(prompt, max_tokens, system)})[name])


def ask_client(**questions: UserForm | Sample | Roots) -> Json:
    """Ask the MCP client several things at once; return the answers by name.

    A UserForm gives its values or None, a Sample the model's text, Roots a list of addresses.
    """
    here = current.scope()
    _require_thread()
    if here is None or here.client is None:
        raise NobodyToAsk(
            "This call was not made by an MCP client that can be asked.", hint="See client_can()."
        )
    ready: dict[str, object] = {}
    for name, question in questions.items():
        ready[name] = question
        if isinstance(question, UserForm):
            if here.meta is not None:
                count_question(here.meta)
            ready[name] = checked(_question(question).masked(current.require().mask))
    return here.client.ask(ready)


def client_can() -> frozenset[str]:
    """Return what the MCP client of this call answers: some of `elicitation` (forms), `sampling`
    and `roots`."""
    here = current.scope()
    return frozenset() if here is None or here.client is None else here.client.can()


def log(text: str, level: LogLevel = "info") -> None:
    """Log a line: to the MCP client that made this call, and to Python's logger of the tool's
    pack."""
    here = current.scope()
    pack = here.spec.pack if here is not None and here.spec is not None else "tool"
    logging.getLogger(f"onetool_ipy.packs.{pack}").log(_LEVELS.get(level, 50), "%s", text)
    if here is not None and here.client is not None:
        here.client.log(level, text, pack)


def _require_thread() -> None:
    """Refuse to block the event loop that async tools share."""
    if current.require().tool_loop.is_here():
        raise UsageProblem(
            "An async tool asks from a thread.",
            hint="Write: await asyncio.to_thread(ask_user, ...)",
        )


def _question(form: UserForm) -> Question:
    here = current.scope()
    asker = f"tool '{here.spec.name}'" if here is not None and here.spec is not None else "a tool"
    return Question(asker, form.message, form=form.schema)
