"""ScriptedModel: a model that says what it was told to say. A testing aid for your own tests and notebooks.

    from onetool_ipy.llm import ScriptedModel

    model = ScriptedModel([("time.now", {}), "It is noon."])
    answer = box.ask("What time is it?", model=model)
    assert model.requests[1].outcomes[0].content["data"]["iso"]

Each reply is used once, in order. A reply is

- a text: that is said, and the turn is over;
- `(tool, arguments)`: that tool is called. The tool is named as you name it, `time.now`; one that was not offered is
  asked for as it stands, so that made-up names can be tried. Arguments that are a str are what the model wrote;
- a list of texts and calls: all of them in one turn;
- a `Turn`: just that;
- a function of the `Request`: what it gives is the reply, and may be any of these;
- an exception: it is raised, as a failing server would.

`requests` holds what was sent. When the replies are used up, asking is an error; with `repeat=True` the last one is
said again and again. Tokens are counted as one for four characters, so that limits can be tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidOutput, UsageProblem
from onetool_ipy.base.records import Value
from onetool_ipy.llm.formats import OfferedTool
from onetool_ipy.llm.messages import Call, Message, Outcome, Outcomes, System, TokenUsage, Turn, User
from onetool_ipy.llm.models import DEADLINE_S, OnText

__all__ = ["ScriptedModel", "ScriptedReply", "ScriptedRequest"]

_CHARS_PER_TOKEN = 4

ScriptedReply = Any
"""What a scripted model may be told to say; see the top of this file."""


class ScriptedRequest(Value):
    """What a scripted model was asked."""

    messages: tuple[Message, ...]
    tools: tuple[OfferedTool, ...]
    max_tokens: int | None = None

    @property
    def prompt(self) -> str:
        """What the person said last."""
        return next((one.text for one in reversed(self.messages) if isinstance(one, User)), "")

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the calls of the turn before gave; nothing where the last message is another."""
        last = self.messages[-1] if self.messages else None
        return last.items if isinstance(last, Outcomes) else ()

    @property
    def offered(self) -> list[str]:
        """The tools that were offered, by their canonical names."""
        return [tool.tool for tool in self.tools]


class ScriptedModel:
    """A model client whose replies are given beforehand."""

    def __init__(self, replies: Sequence[ScriptedReply] = (), *, name: str = "scripted", repeat: bool = False) -> None:
        if isinstance(replies, str):
            raise UsageProblem("The replies of a scripted model are a list.", hint=f"Write [{replies!r}].")
        self.requests: list[ScriptedRequest] = []
        self._replies = list(replies)
        self._name = name
        self._repeat = repeat

    @property
    def name(self) -> str:
        return self._name

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,  # noqa: ARG002 - a script needs no time
        max_tokens: int | None = None,
    ) -> Turn:
        """Say the next reply."""
        request = ScriptedRequest(tuple(messages), tuple(tools), max_tokens)
        number = len(self.requests)
        self.requests.append(request)
        turn = _turn(self._reply(number), request)
        if on_text is not None:
            for word in _words(turn.text):
                on_text(word)
        return turn

    async def acomplete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,
        max_tokens: int | None = None,
    ) -> Turn:
        """`complete` for async code."""
        return self.complete(messages, tools, on_text=on_text, deadline_s=deadline_s, max_tokens=max_tokens)

    def __repr__(self) -> str:
        return f"<ScriptedModel {self._name!r}: {len(self.requests)} of {len(self._replies)} replies said>"

    def _reply(self, number: int) -> ScriptedReply:
        if number < len(self._replies):
            return self._replies[number]
        if self._repeat and self._replies:
            return self._replies[-1]
        raise InvalidOutput(
            f"The script of the model '{self._name}' has {len(self._replies)} replies, and was asked once more.",
            hint="Add a reply, or say repeat=True.",
        )


def _turn(reply: ScriptedReply, request: ScriptedRequest) -> Turn:
    if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
        raise reply
    if callable(reply):
        return _turn(reply(request), request)
    if isinstance(reply, Turn):
        return reply
    text, calls = "", list[Call]()
    for part in reply if isinstance(reply, list) else [reply]:
        if isinstance(part, str):
            text += part
        else:
            calls.append(_call(part, request, len(calls) + 1))
    said = text + "".join(json.dumps(values.to_json(call.to_dict())) for call in calls)
    usage = TokenUsage(_tokens(_written(request)), _tokens(said))
    return Turn(text, tuple(calls), usage, "calls" if calls else "done")


def _call(part: Any, request: ScriptedRequest, number: int) -> Call:
    if isinstance(part, Call):
        return part
    if isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], str) and isinstance(part[1], Mapping | str):
        tool, arguments = part
        wire = next((offer.name for offer in request.tools if offer.tool == tool), tool)
        given = arguments if isinstance(arguments, str) else dict(arguments)
        return Call(f"call_{len(request.messages)}_{number}", wire, given)
    shown = values.safe_repr(part, 80)
    raise UsageProblem(
        f"A scripted model cannot say {shown}.", hint="Give it a text, (tool, {arguments}), or a list of them."
    )


def _written(request: ScriptedRequest) -> str:
    return "".join(_texts(request))


def _texts(request: ScriptedRequest) -> Iterator[str]:
    for message in request.messages:
        if isinstance(message, System | User | Turn):
            yield message.text
        else:
            yield from (json.dumps(values.to_json(one.content)) for one in message.items)


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARS_PER_TOKEN)


def _words(text: str) -> list[str]:
    """The text as a model streams it, word by word."""
    return re.findall(r"\s*\S+\s*|\s+", text)
