"""Asker: what `box.ask` is. Reads what was asked for, finds model and session, and has the talk.

Keeps, as long as the toolbox lives, the named sessions and what was allowed "always". The prompt form `tool:NAME
{json}` runs one tool without a model, where a face says that a person typed it (`typed`); the allow-list holds. In a
prompt from anywhere else it is text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.core import names, values
from onetool_ipy.core.errors import CallFailure, NotApproved, UsageProblem
from onetool_ipy.core.model import CallSource, Failure, ToolCall, ToolResult
from onetool_ipy.llm.ask import offer
from onetool_ipy.llm.ask.answer import Answer, AnswerCall
from onetool_ipy.llm.ask.approval import Approvals, needs_yes
from onetool_ipy.llm.ask.calls import BadJson, Bounds, Runner
from onetool_ipy.llm.ask.desk import Desk, Watch
from onetool_ipy.llm.ask.limits import Limits, Meter
from onetool_ipy.llm.ask.loop import Talk
from onetool_ipy.llm.ask.session import Session

if TYPE_CHECKING:
    from onetool_ipy.llm.models import ModelClient

__all__ = ["Asker", "as_call"]

_DIRECT = re.compile(r"\s*tool:(?P<name>\S+?)(?:\s+(?P<args>.*)|(?P<glued>\{.*))?\s*", re.DOTALL)
_MAX_STEPS = 1000


class Asker:
    """Asks models on behalf of one toolbox."""

    def __init__(self, desk: Desk) -> None:
        self.sessions: dict[str, Session] = {}
        self.last: Answer | None = None
        self._desk = desk
        self._approvals = Approvals()

    def __call__(
        self,
        prompt: str,
        *,
        model: str | ModelClient | None = None,
        with_tools: bool | None = None,
        tool_allow: Sequence[str] | str | None = None,
        max_steps: int | None = None,
        approve: Sequence[str] | str | None = None,
        session: str | Session | None = None,
        watch: Watch | None = None,
    ) -> Answer:
        """Ask a model. What is None is as the settings under `ask` say."""
        _require_prompt(prompt)
        desk, settings = self._desk, self._desk.config.settings.ask
        watch = watch or Watch()
        given = settings.tool_allow if tool_allow is None else tool_allow
        allow: Sequence[str] | None = offer.allow_list(given, desk.shortcuts)
        is_on = settings.with_tools if with_tools is None else with_tools
        limits = Limits(
            max_steps=_steps(settings.max_steps if max_steps is None else max_steps),
            max_calls=settings.max_calls,
            max_tokens=settings.max_tokens,
            max_seconds=settings.max_seconds,
            context_tokens=settings.context_tokens,
        )
        talking = self.session(session)
        client = desk.model(model)
        allow = self._narrowed(prompt, allow) if is_on else allow
        offering = offer.Offering(desk.registry, talking, allow=allow, prompt=prompt, is_on=is_on)
        meter = Meter(limits, desk.config.settings.stats.chars_per_token)
        runner = Runner(
            desk, talking, offering, meter, approvals=self._approvals, bounds=self._bounds(approve), watch=watch
        )
        talk = Talk(desk, client, talking, offering, runner, meter, watch=watch, streamed=settings.stream)
        self.last = talk.have(prompt, is_kept=session is not None)
        return self.last

    def typed(
        self,
        prompt: str,
        *,
        source: CallSource,
        tool_allow: Sequence[str] | str | None = None,
        watch: Watch | None = None,
        approve: Sequence[str] | str | None = None,
    ) -> Answer | None:
        """Run the tool that a person typed as `tool:NAME {json}`; None for any other prompt.

        Without `approve` it is the person's own call. With it, also where it is empty, a tool that may change something
        needs to be approved, by it or by the user's own settings.
        """
        asked = _DIRECT.fullmatch(prompt)
        if asked is None:
            return None
        given = self._desk.config.settings.ask.tool_allow if tool_allow is None else tool_allow
        allow = offer.allow_list(given, self._desk.shortcuts)
        bounds = None if approve is None else self._bounds(approve)
        self.last = self._direct(asked, allow, bounds, watch or Watch(), source)
        return self.last

    def session(self, which: str | Session | None) -> Session:
        """A session by its name, made where there is none; without a name one for a single ask."""
        if isinstance(which, Session):
            return which
        if which is None:
            return Session()
        if not isinstance(which, str) or not which.strip():
            raise UsageProblem(f"A session is a name or a Session, not {values.safe_repr(which, 40)}.")
        return self.sessions.setdefault(which, Session(which))

    def _narrowed(self, prompt: str, allow: Sequence[str] | None) -> Sequence[str] | None:
        """The allow-list, cut down to what the prompt names with `+`."""
        named = offer.mentioned(prompt, self._desk.registry, self._desk.shortcuts)
        if named is None:
            return allow
        for name in named:
            if not names.allowed(name, allow):
                raise UsageProblem(
                    f"The prompt names '+{name}', which is not among the tools allowed here.",
                    hint="Add it to tool_allow, or leave it out of the prompt.",
                )
        return tuple(named)

    def _bounds(self, approve: Sequence[str] | str | None) -> Bounds:
        desk = self._desk
        place = desk.config.user_state / "approvals.json"
        settled = cache(partial(_standing, desk.config.home))
        given = offer.allow_list(approve, desk.shortcuts)
        if not given:
            return Bounds({}, settled, place)
        known = [*desk.registry.list(), *desk.registry.versions()]
        specs = [spec for spec in known if names.allowed(spec.name, given)]
        return Bounds(self._approvals.given(specs, given, place), settled, place)

    def _direct(
        self,
        asked: re.Match[str],
        allow: Sequence[str] | None,
        bounds: Bounds | None,
        watch: Watch,
        source: CallSource,
    ) -> Answer:
        """Run one tool as it was asked for by name."""
        desk, name = self._desk, asked["name"]
        (name,) = offer.allow_list([name], desk.shortcuts) or (name,)
        call_id = desk.new_id()
        args, why = _arguments(asked["args"] or asked["glued"] or "{}", name)
        if why is None and bounds is not None:
            why = self._unapproved(name, args, bounds)
        watch.calling(1, name, args)
        if why is not None:
            meta = {"tool": name, "call_id": call_id, "source": source, "duration_ms": 0.0}
            result = ToolResult(False, error=Failure.of(why, name), meta=meta)
        else:
            result = desk.executor.call(ToolCall(call_id, name, args, source), allow=allow)
        name = str(result.meta.get("tool", name))
        sent = values.map_text(desk.outgoing(result), desk.mask) if result.ok else None
        made = AnswerCall(call_id, name, args, result, sent)
        watch.called(1, made)
        said = values.to_text(sent) if result.error is None else result.error.message
        answer = Answer(prompt=asked.string, text=said, calls=[made])
        watch.ended(answer)
        return answer

    def _unapproved(self, name: str, args: Any, bounds: Bounds) -> CallFailure | None:
        """Why a tool must not run without a yes; the executor tells of one that is not there."""
        try:
            spec = self._desk.registry.require(name)
        except CallFailure:
            return None
        if (
            not needs_yes(spec, args, self._desk.config)
            or self._approvals.state(spec.name, spec.fingerprint, *bounds) == "allowed"
        ):
            return None
        return NotApproved(f"'{spec.name}' may change something. It was not run. Allow it with --approve {spec.name}")


def as_call(prompt: str) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments of a prompt of the form `tool:NAME {json}`; None for any other."""
    asked = _DIRECT.fullmatch(prompt)
    args, why = ({}, None) if asked is None else _arguments(asked["args"] or asked["glued"] or "{}", asked["name"])
    return None if asked is None or why is not None else (asked["name"], args)


def _standing(home: Path) -> Sequence[str]:
    """What the user's own settings allow for good. Aliases are those of the same file, never those of a project."""
    from onetool_ipy.config.own import own_settings
    from onetool_ipy.core.shortcuts import read_shortcuts

    own = own_settings(home)
    return offer.allow_list(own.ask.approve, read_shortcuts(own.aliases, {})) or ()


def _arguments(text: str, name: str) -> tuple[Any, CallFailure | None]:
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        return text, BadJson(f"'{name}': the arguments are not JSON ({exc}).", hint='Write tool:NAME {"key": "value"}')
    if not isinstance(found, dict):
        return text, BadJson(f"'{name}': the arguments must be a JSON object, got {values.safe_repr(found, 60)}.")
    return found, None


def _no_number(word: str) -> Any:
    raise ValueError(f"'{word}' is no JSON")


def _require_prompt(prompt: Any) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise UsageProblem("There is nothing to ask.", hint='For example: box.ask("What time is it?")')


def _steps(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= _MAX_STEPS:
        raise UsageProblem(f"max_steps is a whole number from 1 to {_MAX_STEPS}, not {values.safe_repr(given, 40)}.")
    return given
