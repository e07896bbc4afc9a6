"""What a server may ask of its client during a session, and its log messages. The SDK calls these
on the loop.

`ServerCallbacks.options` are the callbacks for the SDK's `Client`. A question is put in the context
of the call that it belongs to, so that it reaches the caller. A server of the older protocol does
not say for which call it asks: then the calls under way have to come from one place. The time a
person takes counts towards no limit.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)
from pydantic import FileUrl

from onetool_ipy.base import values
from onetool_ipy.base.background import timed_out
from onetool_ipy.base.errors import CallFailure, CallTimeout, OneToolError
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.core import current
from onetool_ipy.core.question import NobodyToAsk, ProposedCall, Question, QuestionRefused, Reply
from onetool_ipy.mcp.definition import ServerDefinition

_REJECTED = -1
_MAX_SAMPLES = 5
_MAX_SAMPLE_TEXT = 50_000
_MAX_SAMPLE_TOKENS = 4_096
_MAX_SAMPLE_MESSAGES = 50
_MAX_LOG_LINE = 2_000
_STOP_REASONS = {"cut": "maxTokens", "refused": "refusal"}


class RunningCall:
    """A call under way: where its questions go, and its limits. `note` says why a question of it
    was not put.

    `is_begun` says that the server has begun with it, whatever happens to a later message; `left`
    where its result can be had if the connection ends.
    """

    def __init__(self, definition: ServerDefinition, limit: asyncio.Timeout) -> None:
        self.scope = current.scope()
        self.note = self.left = ""
        self.is_begun = False
        self._context = contextvars.copy_context()
        self._definition = definition
        self._limit = limit
        self._until = _now() + definition.timeout_s
        self._samples = 0
        self.heard()

    def heard(self) -> None:
        """Restart the limit of silence."""
        idle_s = self._definition.idle_s
        self._reschedule(self._until if idle_s is None else min(self._until, _now() + idle_s))

    def extend(self) -> None:
        """Restart all limits: the server reported the state of a task."""
        self._until = _now() + self._definition.timeout_s
        self.heard()

    def timeout(self) -> CallTimeout:
        """Return the failure of this call past its limit."""
        if self._definition.idle_s is None or _now() >= self._until:
            return timed_out(self._definition.timeout_s)
        return CallTimeout(
            f"Nothing was heard for {self._definition.idle_s:g} s.",
            hint="Raise 'idle_s' of the server.",
        )

    async def ask(self, question: Question) -> Reply:
        """Ask the person or client that made this call. Raises NobodyToAsk or QuestionRefused."""
        if self.scope is None or self.scope.toolbox is None:
            raise NobodyToAsk(f"{question.subject} asks a person, and nobody is here to answer.")
        reply: Reply = await self._off_the_clock(self.scope.toolbox.aput_question(question))
        return reply

    async def sample(self, asker: str, params: CreateMessageRequestParams) -> tuple[str, str, str]:
        """Let the user's model reply, if the user says yes; return its name, text and end. Raises
        an OneToolError."""
        self._samples += 1
        messages = []
        for message in params.messages:
            parts = message.content if isinstance(message.content, list) else [message.content]
            if not all(isinstance(part, TextContent) for part in parts):
                raise QuestionRefused("A server may give your model text alone.")
            text = "\n".join(part.text for part in parts if isinstance(part, TextContent))
            messages.append((message.role, text))
        system, max_tokens = params.system_prompt or "", min(params.max_tokens, _MAX_SAMPLE_TOKENS)
        if self._samples > _MAX_SAMPLES:
            raise QuestionRefused(
                f"A call may use your model at most {_MAX_SAMPLES} times; it was not asked again."
            )
        if sum(len(text) for _, text in messages) + len(system) > _MAX_SAMPLE_TEXT:
            raise QuestionRefused(
                f"The text for your model is longer than {_MAX_SAMPLE_TEXT:,} characters."
            )
        if not messages or max_tokens < 1:
            raise QuestionRefused("A server asked your model for nothing: no message, or no token.")
        if len(messages) > _MAX_SAMPLE_MESSAGES:
            raise QuestionRefused(
                f"There are more than {_MAX_SAMPLE_MESSAGES} messages for your model."
            )
        texts = [*([("system", system)] if system else []), *messages]
        args = tuple((role, json.dumps(text, ensure_ascii=False)) for role, text in texts)
        model = ProposedCall(
            "your model", "Its reply goes to the server.", (*args, ("max_tokens", str(max_tokens)))
        )
        reply = await self.ask(
            Question(asker, "wants to use your model.", calls=(model,), each_time=True)
        )
        if reply.action != "accept" or 1 not in reply.content.get("run", ()):
            raise QuestionRefused("The user did not allow the use of the model.")
        # Without a scope nobody could have said yes.
        assert self.scope is not None
        work = self.scope.toolbox.sample(system, messages, max_tokens)
        answer: tuple[str, str, str] = await self._off_the_clock(work)
        return answer

    async def _off_the_clock(self, work: Coroutine[object, object, object]) -> Any:
        """Run something in the context of this call, without counting towards its limits."""
        began = _now()
        self._reschedule(None)
        try:
            return await asyncio.get_running_loop().create_task(work, context=self._context)
        finally:
            self._until += _now() - began
            self.heard()

    def _reschedule(self, when: float | None) -> None:
        if not self._limit.expired():
            # The call may be over already.
            with suppress(RuntimeError):
                self._limit.reschedule(when)


class ServerCallbacks:
    """The callbacks of one session. `log` takes a line for the server's log."""

    def __init__(self, definition: ServerDefinition, log: Callable[[str], None]) -> None:
        self._definition = definition
        self._log = log
        self._running: list[RunningCall] = []

    @property
    def options(self) -> Json:
        """The arguments of the SDK's `Client` that say what the server may ask of us."""
        callbacks = {
            "elicitation_callback": self._elicit,
            "logging_callback": self._logged,
            "log_level": self._definition.log_level,
        }
        # A callback declares its capability. A server that may list roots uses those alone:
        # server-filesystem then refuses the folders of its own command line.
        roots = {"list_roots_callback": self._roots} if self._definition.roots else {}
        sampling = {"sampling_callback": self._sample} if self._definition.sampling else {}
        return {**callbacks, **roots, **sampling}

    @asynccontextmanager
    async def call(self) -> AsyncIterator[RunningCall]:
        """Hold the limits of one call, and take the questions that belong to it. Raises
        CallTimeout."""
        try:
            async with asyncio.timeout(None) as limit:
                call = RunningCall(self._definition, limit)
                self._running.append(call)
                try:
                    yield call
                finally:
                    self._running.remove(call)
        except TimeoutError:
            raise call.timeout() from None

    async def _elicit(self, _context: Any, params: Any) -> ElicitResult | ErrorData:
        """Ask the person. If no one can answer, the server gets "decline"; a question that is not
        allowed fails."""
        is_form = not isinstance(params, ElicitRequestURLParams)
        asker = f"server '{self._definition.name}'"
        question = Question(
            asker,
            params.message,
            **({"form": params.requested_schema} if is_form else {"url": params.url}),
        )
        call = self._asking_call()
        if call is None:
            self._log(
                "[client] It asked outside of a call, or during calls of several clients:"
                f" {question.text[:200]}"
            )
            return ErrorData(
                code=INVALID_REQUEST, message="It is not clear for which call this is asked."
            )
        try:
            reply = await call.ask(question)
        except NobodyToAsk as exc:
            call.note = exc.message
            return ElicitResult(action="decline")
        except CallFailure as exc:
            call.note = exc.message
            return ErrorData(code=INVALID_REQUEST, message=exc.message)
        return ElicitResult(
            action=reply.action,
            content=dict(reply.content) if is_form and reply.action == "accept" else None,
        )

    async def _sample(
        self, _context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Lend the user's model for one text, after a yes to just this text."""
        call = self._asking_call()
        if call is None:
            return ErrorData(
                code=INVALID_REQUEST, message="It is not clear for which call this is asked."
            )
        try:
            model, text, end = await call.sample(f"server '{self._definition.name}'", params)
        except OneToolError as exc:
            call.note = exc.message
            return ErrorData(code=_REJECTED, message=exc.message)
        return CreateMessageResult(
            role="assistant",
            content=TextContent(text=text),
            model=model,
            stop_reason=_STOP_REASONS.get(end, "endTurn"),
        )

    def _asking_call(self) -> RunningCall | None:
        """Return the call that a request of the server belongs to, or None if that is not clear."""
        here = current.scope()
        own = [call for call in self._running if here is not None and call.scope is here]
        calls = own or self._running
        places = {
            None if call.scope is None else (call.scope.asked_by, call.scope.ask) for call in calls
        }
        return calls[-1] if len(places) == 1 else None

    async def _roots(self, _context: object) -> ListRootsResult:
        """Name the folders in `roots` of the server's definition."""
        roots = [Path(root) for root in self._definition.roots]
        return ListRootsResult(
            roots=[Root(uri=FileUrl(root.as_uri()), name=root.name or None) for root in roots]
        )

    async def _logged(self, params: LoggingMessageNotificationParams) -> None:
        """Keep a log message beside what the server writes to stderr."""
        data = (
            params.data
            if isinstance(params.data, str)
            else json.dumps(params.data, ensure_ascii=False)
        )
        origin = f"{params.logger}: " if params.logger else ""
        self._log(values.cut(printable_line(f"[{params.level}] {origin}{data}"), _MAX_LOG_LINE))


def _now() -> float:
    return asyncio.get_running_loop().time()
