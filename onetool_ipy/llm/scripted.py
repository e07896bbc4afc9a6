"""ScriptedModel: a model whose replies you write beforehand. A testing aid for your own tests and
notebooks.

    from onetool_ipy.llm import ScriptedModel

    model = ScriptedModel([("time.now", {}), "It is noon."])
    answer = box.ask("What time is it?", model=model)
    assert model.requests[1].outcomes[0].content["data"]["iso"]

Each reply is used once, in order. A reply is

- a text: the model says it, and the turn is over;
- `(tool, arguments)`: a call of that tool by its canonical name, `time.now`. A tool that was not
  offered is asked for by the same name, to test made-up names. Arguments given as a str are the
  raw text of the model;
- a list of texts and calls: all of them in one turn;
- a `Turn`: that turn;
- a function of the `ScriptedRequest`: it returns the reply, which may be any of these;
- an exception: it is raised, as by a failing server.

`requests` holds what was sent. Asking after the last reply is an error, or with `repeat=True`
repeats it. Four characters count as one token, to test limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidOutput, UsageProblem
from onetool_ipy.llm.messages import (
    DEADLINE_S,
    Call,
    Message,
    OfferedTool,
    OnText,
    Outcome,
    Outcomes,
    System,
    TokenUsage,
    Turn,
    User,
)

_CHARS_PER_TOKEN = 4
_WORD = re.compile(r"\s*\S+\s*|\s+")

ScriptedReply = Any
"""A scripted reply; the docstring of this module lists the kinds."""


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One request to a scripted model."""

    messages: tuple[Message, ...]
    tools: tuple[OfferedTool, ...]
    max_tokens: int | None = None

    @property
    def prompt(self) -> str:
        """The last message of the person."""
        return next(
            (
                message.text
                for message in reversed(self._conversation())
                if isinstance(message, User)
            ),
            "",
        )

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes in the last message; empty if it is of another kind."""
        messages = self._conversation()
        last = messages[-1] if messages else None
        return last.items if isinstance(last, Outcomes) else ()

    @property
    def offered(self) -> list[str]:
        """The canonical names of the offered tools."""
        return [tool.tool for tool in self.tools]

    @property
    def forbids_calls(self) -> bool:
        """Whether this is the last request of an ask: calls in its reply are not run."""
        last = self.messages[-1] if self.messages else None
        return isinstance(last, User) and last.forbids_calls

    def _conversation(self) -> tuple[Message, ...]:
        """Return the conversation without the line that forbids calls."""
        return self.messages[:-1] if self.forbids_calls else self.messages


class ScriptedModel:
    """A model client with scripted replies."""

    def __init__(
        self, replies: Sequence[ScriptedReply] = (), *, name: str = "scripted", repeat: bool = False
    ) -> None:
        if isinstance(replies, str):
            raise UsageProblem(
                "The replies of a scripted model are a list.", hint=f"Write [{replies!r}]."
            )
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
        deadline_s: float = DEADLINE_S,  # noqa: ARG002 - part of the protocol
        max_tokens: int | None = None,
    ) -> Turn:
        """Return the next reply."""
        request = ScriptedRequest(tuple(messages), tuple(tools), max_tokens)
        number = len(self.requests)
        self.requests.append(request)
        turn = _turn(self._reply(number), request)
        if on_text is not None:
            for word in _WORD.findall(turn.text):  # as a model streams its text
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
        return self.complete(
            messages, tools, on_text=on_text, deadline_s=deadline_s, max_tokens=max_tokens
        )

    def __repr__(self) -> str:
        return (
            f"<ScriptedModel {self._name!r}: {len(self.requests)} of {len(self._replies)} replies"
            " used>"
        )

    def _reply(self, number: int) -> ScriptedReply:
        if number < len(self._replies):
            return self._replies[number]
        if self._repeat and self._replies:
            return self._replies[-1]
        raise InvalidOutput(
            f"The script of the model '{self._name}' has {len(self._replies)} replies, and was"
            " asked once more.",
            hint="Add a reply, or say repeat=True.",
        )


def _turn(reply: ScriptedReply, request: ScriptedRequest) -> Turn:
    if isinstance(reply, BaseException) or (
        isinstance(reply, type) and issubclass(reply, BaseException)
    ):
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
    output = text + "".join(json.dumps(values.to_json(call.to_dict())) for call in calls)
    texts = []
    for message in request.messages:
        if isinstance(message, System | User | Turn):
            texts.append(message.text)
        else:
            texts += [json.dumps(values.to_json(item.content)) for item in message.items]
    usage = TokenUsage(_tokens("".join(texts)), _tokens(output))
    return Turn(text, tuple(calls), usage, "calls" if calls else "done")


def _call(part: object, request: ScriptedRequest, number: int) -> Call:
    if isinstance(part, Call):
        return part
    if (
        isinstance(part, tuple)
        and len(part) == 2
        and isinstance(part[0], str)
        and isinstance(part[1], Mapping | str)
    ):
        tool, arguments = part
        wire = next((offer.name for offer in request.tools if offer.tool == tool), tool)
        copied = arguments if isinstance(arguments, str) else dict(arguments)
        return Call(f"call_{len(request.messages)}_{number}", wire, copied)
    raise UsageProblem(
        f"A scripted model cannot say {values.safe_repr(part, 80)}.",
        hint="Give it a text, (tool, {arguments}), or a list of them.",
    )


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARS_PER_TOKEN)
