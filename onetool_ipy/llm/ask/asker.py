"""A model's reply from the cassette that is on, or from the model, recorded.

A reply belongs to what was said before it: prompt, turns and outcomes, not our own instructions, which change with
versions of this package. Handles of stored results are new in each run: the cassette has their numbers instead.

One ask under way: request, calls, request, until the model is done or something ends it.

Everything that was said is kept in whole steps, so that a session never holds a call without its outcome, whatever
ends the ask: a limit, Stop, or a failing model.

Asker: what `box.ask` is. Reads what was asked for, finds model and session, and has the talk.

Keeps, as long as the toolbox lives, the named sessions and what was allowed "always". The prompt form `tool:NAME
{json}` runs one tool without a model, where a face says that a person typed it (`typed`); the allow-list holds. In a
prompt from anywhere else it is text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, CallTimeout, ExecutionFailed, NotApproved, OneToolError, UsageProblem
from onetool_ipy.core import names
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import CallSource, ToolCall
from onetool_ipy.llm.ask import tools
from onetool_ipy.llm.ask.answer import Answer, AnswerCall, StopReason
from onetool_ipy.llm.ask.approval import Approvals, needs_yes
from onetool_ipy.llm.ask.calls import BadJson, CallRunner, Preapproved, instructions
from onetool_ipy.llm.ask.context import AskContext, AskListener
from onetool_ipy.llm.ask.session import AskLimits, Meter, Session, size, trimmed
from onetool_ipy.llm.ask.tools import Offering
from onetool_ipy.llm.formats import OfferedTool
from onetool_ipy.llm.messages import Message, Outcomes, System, Turn, User
from onetool_ipy.llm.models import ModelClient
from onetool_ipy.stores.cassettes import Cassette

__all__ = ["AskRun", "Asker", "as_call", "reply"]


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


class AskRun:
    """One prompt and all that comes of it."""

    def __init__(
        self,
        context: AskContext,
        model: ModelClient,
        session: Session,
        offering: Offering,
        runner: CallRunner,
        meter: Meter,
        *,
        listener: AskListener,
        streamed: bool = True,
    ) -> None:
        self._context = context
        self._model = model
        self._session = session
        self._offering = offering
        self._runner = runner
        self._meter = meter
        self._listener = listener
        self._streamed = streamed
        self._said: list[Message] = []
        self._partial = ""
        self._unshown = ""
        self._note = ""
        self._error: CallFailure | None = None

    def have(self, prompt: str, *, is_kept: bool) -> Answer:
        """Ask, and give the answer whatever happens. `is_kept` says that a later ask sees the session."""
        self._said = [User(prompt)]
        self._listener.began(self._model.name, self._session)
        try:
            stop = self._steps()
        except KeyboardInterrupt:
            stop = "interrupted"
        except CallTimeout as exc:
            stop = self._broken(exc, "limit" if self._meter.left_s <= 0 else "error")
        except CallFailure as exc:
            stop = self._broken(exc, "error")
        self._show_rest()
        answer = Answer(
            prompt=prompt,
            text=self._text(),
            calls=self._runner.made,
            usage=self._meter.usage,
            stop_reason=stop,
            session_context_updated=self._commit(stop) and is_kept and bool(self._runner.made),
            error=self._error,
            note=self._note,
            model=self._model.name,
            seconds=self._meter.seconds,
        )
        self._listener.ended(answer)
        return answer

    def _steps(self) -> StopReason:
        for _ in range(self._meter.limits.max_steps):
            turn = self._request()
            if not turn.calls:
                return "done"
            over = self._meter.reached()
            done = self._runner.run(turn.calls, limit=over)
            self._said += [turn, done.outcomes]
            self._partial = ""
            if done.interrupted:
                return "interrupted"
            if over is not None or (over := self._meter.reached()) is not None:
                self._note = over
                return "limit"
            if done.stopped:
                self._last()
                return "repeated" if done.stopped == "repeated" else "limit"
        self._last()
        return "max_steps"

    def _last(self) -> None:
        """One last request without tools: what the model makes of what it has. Calls in its reply are not run."""
        turn = self._request(is_last=True)
        if turn.calls:
            self._said.append(Turn(turn.text, (), turn.usage, turn.stop))

    def _request(self, *, is_last: bool = False) -> Turn:
        specs = [] if is_last else self._offering.specs()
        tools = self._offering.offers(specs)
        system = System(instructions(specs, self._context.config.prompts, is_last=is_last))
        budget = self._meter.limits.context_tokens * self._context.config.settings.stats.chars_per_token
        messages = [system, *trimmed([*self._session.messages, *self._said], budget)]
        self._partial = ""
        turn: Any = self._complete(messages, tools)
        if not isinstance(turn, Turn) or not isinstance(turn.text, str):
            shown = self._context.mask(values.safe_repr(turn, 80))
            raise ExecutionFailed(f"The model '{self._model.name}' gave no turn with text, but {shown}.")
        if turn.text and not self._partial:
            self._partial = self._unshown = turn.text
        self._show_rest()
        self._meter.spend(turn, sum(size(message) for message in messages))
        self._listener.replied(self._meter.usage)
        if not turn.calls:
            self._said.append(turn)
            self._partial = ""
        return turn

    def _complete(self, messages: Sequence[Message], tools: Sequence[OfferedTool]) -> Turn:
        on_text = self._heard if self._streamed else None
        left_s = max(self._meter.left_s, 0.1)
        cassette = self._context.replays.active
        try:
            if cassette is None:
                return self._model.complete(messages, tools, on_text=on_text, deadline_s=left_s)
            ask = partial(self._model.complete, messages, tools, on_text=on_text, deadline_s=left_s)
            return reply(cassette, self._model.name, messages, self._session.handles, ask)
        except OneToolError:
            raise
        except Exception as exc:  # a client of the user's own may raise anything
            said = self._context.mask(f"The model '{self._model.name}' failed with {type(exc).__name__}: {exc}")
            raise ExecutionFailed(said) from exc

    def _heard(self, piece: str) -> None:
        """Hand on what the model said, masked; what may be the beginning of a secret waits for what comes after it."""
        self._partial += piece
        said = self._unshown + piece
        end = self._context.config.secrets.settled(said)
        self._unshown = said[end:]
        if end:
            self._listener.text(self._context.mask(said[:end]))

    def _show_rest(self) -> None:
        rest, self._unshown = self._unshown, ""
        if rest:
            self._listener.text(self._context.mask(rest))

    def _broken(self, exc: CallFailure, stop: StopReason) -> StopReason:
        details: Any = exc.details
        text = details.get("text") if isinstance(details, dict) else None
        if isinstance(text, str) and len(text) > len(self._partial):
            self._partial = text
        if stop == "error":
            self._error = exc
        self._note = exc.message
        return stop

    def _text(self) -> str:
        """What the model said last; where that is nothing, all it said on the way."""
        last = self._said[-1]
        if self._partial.strip():
            return self._partial
        if isinstance(last, Turn) and last.text.strip():
            return last.text
        return "\n\n".join(one.text for one in self._said if isinstance(one, Turn) and one.text.strip())

    def _commit(self, stop: StopReason) -> bool:
        """Let the session have what was said; it ends with a turn of the model, and with no call that is open."""
        said = list(self._said)
        if self._partial.strip():
            said.append(Turn(self._partial))
        elif not isinstance(said[-1], Turn) and len(said) > 1:
            said.append(Turn(f"(stopped: {stop})"))
        if len(said) < 2:
            return False
        self._session.commit(said)
        return True


_DIRECT = re.compile(r"\s*tool:(?P<name>\S+?)(?:\s+(?P<args>.*)|(?P<glued>\{.*))?\s*", re.DOTALL)
_MAX_STEPS = 1000


class Asker:
    """Asks models on behalf of one toolbox."""

    def __init__(self, context: AskContext) -> None:
        self.sessions: dict[str, Session] = {}
        self.last: Answer | None = None
        self._context = context
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
        listener: AskListener | None = None,
    ) -> Answer:
        """Ask a model. What is None is as the settings under `ask` say."""
        _require_prompt(prompt)
        context, settings = self._context, self._context.config.settings.ask
        listener = listener or AskListener()
        given = settings.tool_allow if tool_allow is None else tool_allow
        allow: Sequence[str] | None = tools.allow_list(given, context.shortcuts)
        is_on = settings.with_tools if with_tools is None else with_tools
        limits = AskLimits(
            max_steps=_steps(settings.max_steps if max_steps is None else max_steps),
            max_calls=settings.max_calls,
            max_tokens=settings.max_tokens,
            max_seconds=settings.max_seconds,
            context_tokens=settings.context_tokens,
        )
        talking = self.session(session)
        client = context.model(model)
        allow = self._narrowed(prompt, allow) if is_on else allow
        offering = tools.Offering(context.registry, talking, allow=allow, prompt=prompt, is_on=is_on)
        meter = Meter(limits, context.config.settings.stats.chars_per_token)
        runner = CallRunner(
            context,
            talking,
            offering,
            meter,
            approvals=self._approvals,
            bounds=self._bounds(approve),
            listener=listener,
        )
        talk = AskRun(context, client, talking, offering, runner, meter, listener=listener, streamed=settings.stream)
        self.last = talk.have(prompt, is_kept=session is not None)
        return self.last

    def typed(
        self,
        prompt: str,
        *,
        source: CallSource,
        tool_allow: Sequence[str] | str | None = None,
        listener: AskListener | None = None,
        approve: Sequence[str] | str | None = None,
    ) -> Answer | None:
        """Run the tool that a person typed as `tool:NAME {json}`; None for any other prompt.

        Without `approve` it is the person's own call. With it, also where it is empty, a tool that may change something
        needs to be approved, by it or by the user's own settings.
        """
        asked = _DIRECT.fullmatch(prompt)
        if asked is None:
            return None
        given = self._context.config.settings.ask.tool_allow if tool_allow is None else tool_allow
        allow = tools.allow_list(given, self._context.shortcuts)
        bounds = None if approve is None else self._bounds(approve)
        self.last = self._direct(asked, allow, bounds, listener or AskListener(), source)
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
        named = tools.mentioned(prompt, self._context.registry, self._context.shortcuts)
        if named is None:
            return allow
        for name in named:
            if not names.allowed(name, allow):
                raise UsageProblem(
                    f"The prompt names '+{name}', which is not among the tools allowed here.",
                    hint="Add it to tool_allow, or leave it out of the prompt.",
                )
        return tuple(named)

    def _bounds(self, approve: Sequence[str] | str | None) -> Preapproved:
        context = self._context
        place = context.config.user_state / "approvals.json"
        settled = cache(partial(_standing, context.config.home))
        given = tools.allow_list(approve, context.shortcuts)
        if not given:
            return Preapproved({}, settled, place)
        known = [*context.registry.list(), *context.registry.versions()]
        specs = [spec for spec in known if names.allowed(spec.name, given)]
        return Preapproved(self._approvals.given(specs, given, place), settled, place)

    def _direct(
        self,
        asked: re.Match[str],
        allow: Sequence[str] | None,
        bounds: Preapproved | None,
        listener: AskListener,
        source: CallSource,
    ) -> Answer:
        """Run one tool as it was asked for by name."""
        context, name = self._context, asked["name"]
        (name,) = tools.allow_list([name], context.shortcuts) or (name,)
        call_id = context.new_id()
        args, why = _arguments(asked["args"] or asked["glued"] or "{}", name)
        if why is None and bounds is not None:
            why = self._unapproved(name, args, bounds)
        listener.calling(1, name, args)
        if why is not None:
            meta = {"tool": name, "call_id": call_id, "source": source, "duration_ms": 0.0}
            result = ToolResult(False, error=Failure.of(why, name), meta=meta)
        else:
            result = context.executor.call(ToolCall(call_id, name, args, source), allow=allow)
        name = str(result.meta.get("tool", name))
        sent = values.map_text(context.outgoing(result), context.mask) if result.ok else None
        made = AnswerCall(call_id, name, args, result, sent)
        listener.called(1, made)
        said = values.to_text(sent) if result.error is None else result.error.message
        answer = Answer(prompt=asked.string, text=said, calls=[made])
        listener.ended(answer)
        return answer

    def _unapproved(self, name: str, args: Any, bounds: Preapproved) -> CallFailure | None:
        """Why a tool must not run without a yes; the executor tells of one that is not there."""
        try:
            spec = self._context.registry.require(name)
        except CallFailure:
            return None
        if (
            not needs_yes(spec, args, self._context.config)
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
    from onetool_ipy.config.load import own_settings
    from onetool_ipy.snippets.definition import read_shortcuts

    own = own_settings(home)
    return tools.allow_list(own.ask.approve, read_shortcuts(own.aliases, {})) or ()


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
