"""One ask under way: request, calls, request, until the model is done or something ends it.

Everything that was said is kept in whole steps, so that a session never holds a call without its outcome, whatever
ends the ask: a limit, Stop, or a failing model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.errors import CallFailure, CallTimeout, ExecutionFailed, OneToolError
from onetool_ipy.llm.ask.answer import Answer, StopReason
from onetool_ipy.llm.ask.calls import Runner
from onetool_ipy.llm.ask.desk import Desk, Watch
from onetool_ipy.llm.ask.limits import Meter
from onetool_ipy.llm.ask.offer import Offering
from onetool_ipy.llm.ask.session import Session, size, trimmed
from onetool_ipy.llm.ask.words import instructions
from onetool_ipy.llm.formats import Offer
from onetool_ipy.llm.messages import Message, System, Turn, User
from onetool_ipy.llm.models import ModelClient

__all__ = ["Talk"]


class Talk:
    """One prompt and all that comes of it."""

    def __init__(
        self,
        desk: Desk,
        model: ModelClient,
        session: Session,
        offering: Offering,
        runner: Runner,
        meter: Meter,
        *,
        watch: Watch,
        streamed: bool = True,
    ) -> None:
        self._desk = desk
        self._model = model
        self._session = session
        self._offering = offering
        self._runner = runner
        self._meter = meter
        self._watch = watch
        self._streamed = streamed
        self._said: list[Message] = []
        self._partial = ""
        self._unshown = ""
        self._note = ""
        self._error: CallFailure | None = None

    def have(self, prompt: str, *, is_kept: bool) -> Answer:
        """Ask, and give the answer whatever happens. `is_kept` says that a later ask sees the session."""
        self._said = [User(prompt)]
        self._watch.began(self._model.name, self._session)
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
        self._watch.ended(answer)
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
        system = System(instructions(specs, self._desk.config.prompts, is_last=is_last))
        budget = self._meter.limits.context_tokens * self._desk.config.settings.stats.chars_per_token
        messages = [system, *trimmed([*self._session.messages, *self._said], budget)]
        self._partial = ""
        turn: Any = self._complete(messages, tools)
        if not isinstance(turn, Turn) or not isinstance(turn.text, str):
            shown = self._desk.mask(values.safe_repr(turn, 80))
            raise ExecutionFailed(f"The model '{self._model.name}' gave no turn with text, but {shown}.")
        if turn.text and not self._partial:
            self._partial = self._unshown = turn.text
        self._show_rest()
        self._meter.spend(turn, sum(size(message) for message in messages))
        self._watch.replied(self._meter.usage)
        if not turn.calls:
            self._said.append(turn)
            self._partial = ""
        return turn

    def _complete(self, messages: Sequence[Message], tools: Sequence[Offer]) -> Turn:
        on_text = self._heard if self._streamed else None
        left_s = max(self._meter.left_s, 0.1)
        cassette = self._desk.replays.active
        try:
            if cassette is None:
                return self._model.complete(messages, tools, on_text=on_text, deadline_s=left_s)
            from onetool_ipy.llm.ask.recorded import reply

            ask = partial(self._model.complete, messages, tools, on_text=on_text, deadline_s=left_s)
            return reply(cassette, self._model.name, messages, self._session.handles, ask)
        except OneToolError:
            raise
        except Exception as exc:  # a client of the user's own may raise anything
            said = self._desk.mask(f"The model '{self._model.name}' failed with {type(exc).__name__}: {exc}")
            raise ExecutionFailed(said) from exc

    def _heard(self, piece: str) -> None:
        """Hand on what the model said, masked; what may be the beginning of a secret waits for what comes after it."""
        self._partial += piece
        said = self._unshown + piece
        end = self._desk.config.secrets.settled(said)
        self._unshown = said[end:]
        if end:
            self._watch.text(self._desk.mask(said[:end]))

    def _show_rest(self) -> None:
        rest, self._unshown = self._unshown, ""
        if rest:
            self._watch.text(self._desk.mask(rest))

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
