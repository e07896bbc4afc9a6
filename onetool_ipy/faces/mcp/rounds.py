"""Requests that may ask their client: over the one channel of a session, or in rounds where there
is none.

From revision 2026-07-28 on a server cannot send requests. It answers `input_required` with its
questions, and the client repeats its request with the answers. The tool runs once: its thread waits
between the rounds, and the sealed `requestState` names it. At most `MAX_WAITING` requests wait at a
time, each for `WAIT_S`; an older one is cancelled.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from typing import Any, get_args

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from onetool_ipy.base.background import clock_stopped
from onetool_ipy.base.errors import CallCancelled, Unavailable
from onetool_ipy.base.values import Json
from onetool_ipy.core.question import NobodyToAsk, Question, Reply, form_errors
from onetool_ipy.core.result import ToolResult
from onetool_ipy.sdk.tools import LogLevel, Roots, Sample

MAX_WAITING = 4
WAIT_S = 600.0
_LOG_LEVELS: tuple[str, ...] = get_args(LogLevel)

_MAX_ROUNDS = 10
_MAX_UNSENT = 64
_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
_UNANSWERED: Any = object()
_NEEDS = {Question: "elicitation", Sample: "sampling", Roots: "roots"}
_WORDS = {"elicitation": "ask its user", "sampling": "lend its model", "roots": "name its folders"}
Work = Callable[["ServedRequest"], Awaitable[types.Result]]


class WaitingRequests:
    """The requests that wait for answers of their clients, oldest first, by the state that the
    client sends back."""

    def __init__(self) -> None:
        self._waiting: dict[str, ServedRequest] = {}

    async def serve(
        self, context: ServerRequestContext[Any], params: Any, work: Work, *, log_level: str
    ) -> Any:
        """Begin a request, or go on with one that waited; return its result, or what it asks."""
        state = params.request_state
        request = (
            ServedRequest(work, log_level) if state is None else self._waiting.pop(state, None)
        )
        if request is None:
            raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState")
        try:
            questions = await request.next_round(context, params.input_responses or {})
        except asyncio.CancelledError:
            request.cancel()
            raise
        return await request.result() if questions is None else self._ask(request, questions)

    def close(self) -> None:
        """Cancel them all. May be called twice."""
        while self._waiting:
            self._waiting.popitem()[1].cancel()

    def _ask(
        self, request: ServedRequest, questions: dict[str, types.InputRequest]
    ) -> types.InputRequiredResult:
        while len(self._waiting) >= MAX_WAITING:
            self._end(next(iter(self._waiting)))
        state = secrets.token_urlsafe(16)
        self._waiting[state] = request
        asyncio.get_running_loop().call_later(WAIT_S, self._end, state)
        return types.InputRequiredResult(input_requests=questions, request_state=state)

    def _end(self, state: str) -> None:
        request = self._waiting.pop(state, None)
        if request is not None:
            request.cancel()


class ServedRequest:
    """One request of a client, from its first round to its result. Tools reach it as the client of
    their call."""

    def __init__(self, work: Work, log_level: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._work = work
        self._log_level = log_level
        self._task: asyncio.Future[types.Result] | None = None
        self._context: ServerRequestContext[Any] | None = None
        self._asked: asyncio.Future[dict[str, types.InputRequest]] = self._loop.create_future()
        self._answered: asyncio.Future[None] | None = None
        self._answers: dict[str, Any] = {}
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[Any]] = set()
        self._is_cancelled = False
        self._lacking: set[str] = set()
        # Two threads meet here.
        self._unsent: deque[Callable[[], Awaitable[None]]] = deque(maxlen=_MAX_UNSENT)
        self._sending: asyncio.Task[None] | None = None

    async def next_round(
        self, context: ServerRequestContext[Any], answers: Mapping[str, object]
    ) -> dict[str, types.InputRequest] | None:
        """Go on until there is a result (None) or questions."""
        self._context, self._answers, self._asked = (
            context,
            dict(answers),
            self._loop.create_future(),
        )
        if self._task is None:
            self._task = asyncio.ensure_future(self._work(self))
        if self._answered is not None:
            self._answered.set_result(None)
            self._answered = None
        events: set[asyncio.Future[Any]] = {self._task, self._asked}
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        if self._sending is not None:
            await asyncio.gather(self._sending, return_exceptions=True)
        return None if self._task.done() else self._asked.result()

    async def result(self) -> types.Result:
        """Return the result, after the last round."""
        assert self._task is not None
        return await self._task

    def cancel(self) -> None:
        """Stop the request, and wake a tool that waits for an answer. May be called twice."""
        if self._task is not None:
            self._task.cancel()
        self._is_cancelled = True
        for question in list(self._asking):
            question.cancel()

    def can(self) -> frozenset[str]:
        """Return what the client answers."""
        capabilities = None if self._context is None else self._context.session.client_capabilities
        if capabilities is None:
            return frozenset()
        form = capabilities.elicitation
        has_form = form is not None and (form.form is not None or form.url is None)
        abilities = {
            "elicitation": has_form,
            "sampling": capabilities.sampling is not None,
            "roots": capabilities.roots is not None,
        }
        return frozenset(name for name, is_there in abilities.items() if is_there)

    def put(self, question: Question) -> Reply:
        """Put a question of a nested server to the client's user."""
        if question.form is None or question.takes_secret:
            raise NobodyToAsk(
                f"{question.subject} asks for more than a form, which cannot be handed on to the"
                " client."
            )
        filled = self.ask({"question": question})["question"]
        return Reply("decline") if filled is None else Reply("accept", filled)

    def ask(self, questions: Mapping[str, object]) -> Json:
        """Ask the client all of these at once and wait; in the thread of a tool."""
        lacking = {_NEEDS[type(question)] for question in questions.values()} - self.can()
        if lacking:
            self._lacking |= lacking
            what = " and ".join(_WORDS[name] for name in sorted(lacking))
            raise NobodyToAsk(
                f"The tool needs a client that can {what}; this one did not declare it"
                f" ({', '.join(sorted(lacking))})."
            )
        waiting = asyncio.run_coroutine_threadsafe(self._ask(dict(questions)), self._loop)
        try:
            with clock_stopped():
                return waiting.result()
        except CancelledError:
            raise CallCancelled("The question was taken back.") from None
        finally:
            waiting.cancel()

    def report(self, done: float, total: float | None, text: str) -> None:
        """Send progress; in any thread."""
        self._send(lambda session: session.report_progress(done, total, text or None))

    def log(self, level: str, text: str, logger: str) -> None:
        """Send a line of a log if the client wants lines of this level; in any thread."""
        context = self._context
        threshold = self._log_level
        if context is not None and context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            threshold = str((context.meta or {}).get(_LEVEL_KEY, ""))
        if (
            context is None
            or threshold not in _LOG_LEVELS
            or _LOG_LEVELS.index(level) < _LOG_LEVELS.index(threshold)
        ):
            return
        params = types.LoggingMessageNotificationParams(level=level, data=text, logger=logger)  # type: ignore[arg-type]  # checked above
        note = types.LoggingMessageNotification(params=params)
        self._send(
            lambda session: session.send_notification(note, related_request_id=context.request_id)
        )

    def require_capable(self, result: ToolResult) -> None:
        """Raise the error of the protocol for a call that failed because the client cannot
        answer."""
        context = self._context
        if result.error is None or not self._lacking or context is None:
            return
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            data: dict[str, Any] = {
                "requiredCapabilities": {name: {} for name in sorted(self._lacking)}
            }
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, result.error.message, data)

    async def _ask(self, questions: Json) -> Json:
        task = asyncio.current_task()
        if self._is_cancelled or task is None:
            raise asyncio.CancelledError
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        async with self._turn:
            context = self._context
            if context is not None and context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                return {
                    name: await _over_session(context, question)
                    for name, question in questions.items()
                }
            for _ in range(_MAX_ROUNDS):
                replies = {
                    name: _read(question, self._answers.get(name))
                    for name, question in questions.items()
                }
                missing = {
                    name: _request(questions[name])
                    for name, value in replies.items()
                    if value is _UNANSWERED
                }
                if not missing:
                    self._answers = {
                        name: value
                        for name, value in self._answers.items()
                        if name not in questions
                    }
                    return replies
                self._answered = self._loop.create_future()
                self._asked.set_result(missing)
                await self._answered
            raise Unavailable(f"The client has not answered in {_MAX_ROUNDS} rounds.")

    def _send(self, send: Callable[[Any], Awaitable[None]]) -> None:
        async def drain() -> None:
            while self._unsent:
                await self._unsent.popleft()()

        def start() -> None:
            if self._sending is None or self._sending.done():
                self._sending = self._loop.create_task(drain())

        context = self._context
        if context is not None:
            self._unsent.append(lambda: send(context.session))
            self._loop.call_soon_threadsafe(start)


def _request(question: Any) -> types.InputRequest:
    if isinstance(question, Question):
        form = {
            key: value
            for key, value in (question.form or {}).items()
            if key != "additionalProperties"
        }
        return types.ElicitRequest(
            params=types.ElicitRequestFormParams(message=question.text, requested_schema=form)
        )
    if isinstance(question, Roots):
        return types.ListRootsRequest()
    message = types.SamplingMessage(role="user", content=types.TextContent(text=question.prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[message],
            max_tokens=question.max_tokens,
            system_prompt=question.system or None,
        )
    )


def _read(question: object, answer: object) -> object:
    """Return what a client answered; _UNANSWERED if it did not, or not what was asked."""
    if isinstance(question, Question):
        if not isinstance(answer, types.ElicitResult):
            return _UNANSWERED
        filled = dict(answer.content or {})
        if answer.action != "accept":
            return None
        return filled if not form_errors(question.form or {}, filled) else _UNANSWERED
    if isinstance(question, Roots):
        return (
            [str(root.uri) for root in answer.roots]
            if isinstance(answer, types.ListRootsResult)
            else _UNANSWERED
        )
    if not isinstance(answer, types.CreateMessageResult | types.CreateMessageResultWithTools):
        return _UNANSWERED
    parts = answer.content if isinstance(answer.content, list) else [answer.content]
    return "".join(part.text for part in parts if isinstance(part, types.TextContent))


async def _over_session(context: ServerRequestContext[Any], question: object) -> object:
    kinds: dict[type, Any] = {Question: types.ElicitResult, Roots: types.ListRootsResult}
    expected = kinds.get(type(question), types.CreateMessageResult)
    related = ServerMessageMetadata(related_request_id=context.request_id)
    try:
        answer = await context.session.send_request(_request(question), expected, metadata=related)
    except (MCPError, ValidationError) as exc:
        reason = (
            exc.error.message
            if isinstance(exc, MCPError)
            else "its answer is not one of the protocol"
        )
        raise Unavailable(f"The client did not answer: {reason}.") from exc
    reply = _read(question, answer)
    if reply is _UNANSWERED:
        raise Unavailable("The client's answer does not fit the form.")
    return reply
