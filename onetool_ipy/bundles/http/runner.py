"""HttpRunner: an HTTP tool that is ready to be called, sync or async; made by `compile_http`.

The course of a call is one generator that yields what is to be sent and is given the reply; `run` and `arun` differ in
how they wait. One deadline holds for all of it: steps, tokens, tries, redirects. Before anything is sent the arguments
are checked, every secret is there, and a call of this minute is free.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Generator, Mapping, Set
from functools import partial
from typing import Any, NamedTuple

from onetool_ipy.bundles.http.answer import Answer, Output
from onetool_ipy.bundles.http.auth import Credentials, Grant, Sign, Tokens, TokenWay, bearer
from onetool_ipy.bundles.http.definition import HttpDefinition, Limits, OAuth2, Step
from onetool_ipy.bundles.http.rate import PerMinute
from onetool_ipy.bundles.http.request import Outgoing, Prepared
from onetool_ipy.bundles.http.scope import HIDDEN, Scope, Secret, Shown, Values
from onetool_ipy.bundles.http.template import Ref
from onetool_ipy.bundles.http.trace import Trace, Veil, shown_request
from onetool_ipy.core import current, schema
from onetool_ipy.core.checker import Checker
from onetool_ipy.core.errors import CallFailure, CallTimeout, InvalidTool
from onetool_ipy.core.model import UncheckedCall
from onetool_ipy.net.faults import Mask, masked
from onetool_ipy.net.reply import Reply
from onetool_ipy.net.road import Road
from onetool_ipy.net.rules import Rules

__all__ = ["HttpRunner", "compile_http"]

MAX_REQUEST_BYTES = 10 * 1024 * 1024
"""The largest body that is sent, where the tool itself sets no limit."""

_UNAUTHORIZED = 401

Note = Callable[[dict[str, Any]], None]


class _Send(NamedTuple):
    """A request, and what holds for it."""

    out: Outgoing
    rules: Rules


_Course = Generator[_Send, Reply, Any]


def compile_http(
    definition: HttpDefinition,
    *,
    arg_schema: Mapping[str, Any] | None,
    output_schema: Mapping[str, Any] | bool | None = None,
    is_output_strict: bool = True,
    limits: Limits | None = None,
    name: str,
    road: Road,
    rules: Rules,
    secret: Secret,
    mask: Mask = str,
    hide: Callable[[str], object] = str,
    clock: Callable[[], datetime.datetime],
) -> HttpRunner:
    """Make a tool ready; raises InvalidTool for a schema that is none, or a `${name}` that can mean nothing."""
    parameters = dict(arg_schema or {"type": "object"})
    known = schema.params(parameters)
    arguments = {param.name for param in known}
    plan = definition.plan()
    clashes = arguments & {step for step, _ in plan} if len(plan) > 1 else set()
    if clashes:
        raise InvalidTool(f"'{min(clashes)}' is both an argument and a step.", hint="Name the step differently.")
    steps: list[_Ready] = []
    for step, part in plan:
        steps.append(_Ready(step, part, arguments, {ready.name for ready in steps}))
    return HttpRunner(
        name=name,
        steps=steps,
        checker=Checker(parameters),
        defaults={param.name: param.schema["default"] for param in known if param.has_default},
        output=Output(
            dict(output_schema) if isinstance(output_schema, Mapping) else output_schema, is_strict=is_output_strict
        ),
        limits=limits or Limits(),
        road=road,
        rules=rules,
        secret=secret,
        mask=mask,
        hide=hide,
        clock=clock,
    )


class _Ready:
    """One step, made ready."""

    def __init__(self, name: str, step: Step, arguments: Set[str], steps: Set[str]) -> None:
        self.name = name
        self.request = Prepared(step.request, arguments, steps)
        self.answer = Answer(step.response)
        auth = step.request.auth
        self.tokens = TokenWay(auth, arguments, steps) if isinstance(auth, OAuth2) else None
        self.credentials = Credentials(None if isinstance(auth, OAuth2) else auth, arguments, steps)
        self.timeout_s = None if step.request.timeout_ms is None else step.request.timeout_ms / 1000

    def refs(self) -> set[Ref]:
        found = {*self.request.refs(), *self.credentials.refs()}
        return found | set(self.tokens.refs()) if self.tokens is not None else found

    def shown(self, scope: Scope, room: int) -> dict[str, Any]:
        """The request as it may be shown."""
        sign = self.credentials.shown() if self.tokens is None else Sign({"Authorization": f"Bearer {HIDDEN}"}, [])
        return shown_request(self.request.fill(scope, headers=sign.headers, query=sign.query, room=room))


class HttpRunner:
    """An HTTP tool, ready to be called; see the package for what its methods promise."""

    def __init__(
        self,
        *,
        name: str,
        steps: list[_Ready],
        checker: Checker,
        defaults: Mapping[str, Any],
        output: Output,
        limits: Limits,
        road: Road,
        rules: Rules,
        secret: Secret,
        mask: Mask,
        hide: Callable[[str], object],
        clock: Callable[[], datetime.datetime],
    ) -> None:
        self.name = name
        self.secrets = tuple(sorted({ref.name for step in steps for ref in step.refs() if ref.kind == "secret"}))
        self._steps = steps
        self._checker = checker
        self._defaults = defaults
        self._output = output
        self._road = road
        self._rules = rules.replace(max_bytes=min(rules.max_bytes, limits.max_response_bytes or rules.max_bytes))
        self._room = limits.max_request_bytes or MAX_REQUEST_BYTES
        self._secret = secret
        self._mask = mask
        self._hide = hide
        self._rate = PerMinute(limits.max_calls_per_minute, clock)
        self._tokens = Tokens(clock)
        self._limit_s = max(step.timeout_s or rules.timeout_s for step in steps)

    def run(self, args: Mapping[str, Any], note: Note | None = None) -> Any:
        """Call it, and wait for the value."""
        return self._drive(self._course(args, Veil(self._mask), note))

    async def arun(self, args: Mapping[str, Any], note: Note | None = None) -> Any:
        """`run` without blocking the event loop, whichever it is."""
        return await self._adrive(self._course(args, Veil(self._mask), note))

    def preview(self, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What would be sent, masked; raises InvalidArgs and TooLarge as a call would."""
        scope = Shown(self._values(args))
        try:
            return [Veil(self._mask).masked(step.shown(scope, self._room)) for step in self._steps]
        except CallFailure as exc:
            fault = masked(exc, self._mask)
        raise fault

    def trace(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Call it, and tell what was sent and what came back, masked."""
        trace = Trace(self._mask)
        try:
            return trace.done(self._drive(self._course(args, trace, None)))
        except CallFailure as exc:
            return trace.failed(exc, self.name)

    async def atrace(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """`trace` without blocking the event loop, whichever it is."""
        trace = Trace(self._mask)
        try:
            return trace.done(await self._adrive(self._course(args, trace, None)))
        except CallFailure as exc:
            return trace.failed(exc, self.name)

    def missing_secrets(self) -> list[str]:
        """The names of secrets that it takes and that are not there now."""
        return [name for name in self.secrets if self._secret(name) is None]

    def _drive(self, course: _Course) -> Any:
        try:
            send = next(course)
            while True:
                out = send.out
                send = course.send(
                    self._road.request(out.method, out.url, rules=send.rules, headers=out.headers, content=out.content)
                )
        except StopIteration as done:
            return done.value
        finally:
            course.close()

    async def _adrive(self, course: _Course) -> Any:
        try:
            send = next(course)
            while True:
                out = send.out
                reply = await self._road.arequest(
                    out.method, out.url, rules=send.rules, headers=out.headers, content=out.content
                )
                send = course.send(reply)
        except StopIteration as done:
            return done.value
        finally:
            course.close()

    def _course(self, args: Mapping[str, Any], trace: Veil, note: Note | None) -> _Course:
        """The whole call: yields what is to be sent, is given the replies, returns the value."""
        fault: CallFailure
        try:
            scope = self._values(args)
            for name in self.secrets:
                scope.secret(name)
            return (yield from self._walk(scope, trace, note))
        except CallFailure as exc:
            fault = masked(exc, trace.mask)
        raise fault

    def _walk(self, scope: Values, trace: Veil, note: Note | None) -> _Course:
        until = time.monotonic() + self._limit_s
        value, is_there, counted = None, True, False
        for step in self._steps:
            sign = step.credentials.sign(scope)
            grant = step.tokens.grant(scope) if step.tokens is not None else None
            out = step.request.fill(scope, headers=sign.headers, query=sign.query, room=self._room)
            if not counted:
                self._rate.take(self.name)
                counted = True
            trace.hide(sign.secrets)
            reply = yield from self._exchange(step, out, grant, until, trace, scope)
            if note is not None:
                note({"status": reply.status, "attempts": reply.attempts})
            trace.got(reply)
            value, is_there = step.answer.read(reply, trace.mask)
            scope.steps[step.name] = value
        if is_there:
            found = self._output.check(value, self.name, trace.mask)
            if found:
                trace.mismatch = found
                if note is not None:
                    note({"mismatch": found})
        return value

    def _exchange(
        self, step: _Ready, out: Outgoing, grant: Grant | None, until: float, trace: Veil, scope: Values
    ) -> Generator[_Send, Reply, Reply]:
        """One request and its reply; with OAuth2 first the token, and a new one where it is refused."""
        shown = partial(step.shown, Shown(scope), self._room)
        if grant is None:
            trace.sent(step.name, shown)
            return (yield _Send(out, self._within(step, until)))
        trace.hide((grant.secret,))
        for last in (False, True):
            token = self._tokens.get(grant) or (yield from self._fetch(step, grant, until))
            self._hide(token)  # each time: after a reload there are new secrets, and the token still holds
            sign = bearer(token)
            trace.hide(sign.secrets)
            trace.sent(step.name, shown)
            headers = {name: value for name, value in out.headers.items() if name.lower() != "authorization"}
            reply = yield _Send(out._replace(headers=headers | sign.headers), self._within(step, until))
            if reply.status != _UNAUTHORIZED or last:
                return reply
            self._tokens.forget(grant)
        raise AssertionError  # the last one returns

    def _fetch(self, step: _Ready, grant: Grant, until: float) -> Generator[_Send, Reply, str]:
        reply = yield _Send(grant.request(in_body=False), self._within(step, until))
        if reply.status in (400, _UNAUTHORIZED):  # some servers take the client in the form only
            reply = yield _Send(grant.request(in_body=True), self._within(step, until))
        return self._tokens.take(grant, reply)

    def _within(self, step: _Ready, until: float) -> Rules:
        """The rules, with the time that is left."""
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise CallTimeout(f"No result of '{self.name}' within {self._limit_s:g} s.", hint="Give it more time.")
        own_s = step.timeout_s or self._rules.timeout_s
        return self._rules.replace(timeout_s=min(left_s, own_s))

    def _values(self, args: Mapping[str, Any]) -> Values:
        here = current.scope()
        is_checked = here is None or type(here.call) is not UncheckedCall
        given = self._checker.check(args, self.name, self._mask) if is_checked else args
        return Values(given, self._secret, defaults=self._defaults, room=self._room, tool=self.name)
