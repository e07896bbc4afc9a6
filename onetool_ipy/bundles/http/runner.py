"""Calls an HTTP tool, sync or async: checks, sends its steps, reads the responses.

A call is one generator that yields requests and receives responses; the sync and async methods differ only in how they
wait. One deadline covers steps, tokens, retries and redirects. Before anything is sent the arguments are checked, every
secret is there, and the rate limit has room. Calls per minute are counted and OAuth2 tokens kept in the runner, so per
process. A trace shows requests with `***` for each secret; secrets and fetched tokens in responses are masked.
"""

from __future__ import annotations

import base64
import datetime
import html
import json
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Set
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    TRANSIENT_STATUSES,
    CallFailure,
    CallTimeout,
    ExecutionFailed,
    InvalidOutput,
    InvalidTool,
    RateLimited,
)
from onetool_ipy.bundles.http.auth import NO_AUTH, AuthParts, Credentials, Grant, TokenRequest, Tokens, auth_of, bearer
from onetool_ipy.bundles.http.definition import HttpDefinition, HttpStep, ResponseOptions, ToolLimits
from onetool_ipy.bundles.http.request import OutgoingRequest, PreparedRequest
from onetool_ipy.bundles.http.template import (
    HIDDEN,
    CallValues,
    MaskedValues,
    Ref,
    SecretLookup,
    ValueSource,
    compile_selector,
)
from onetool_ipy.core.failures import failure_of
from onetool_ipy.net.body import HttpResponse
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.errors import Mask, masked
from onetool_ipy.schema.check import Checker, compile_schema, pointer, said_of
from onetool_ipy.schema.read import params

__all__ = [
    "CallTrace",
    "HttpRunner",
    "OutputCheck",
    "RateLimit",
    "ResponseReader",
    "Trace",
    "body_text",
    "decoded",
    "phrase_of",
    "shown_request",
]

_MINUTE = datetime.timedelta(seconds=60)


class RateLimit:
    """At most `most` calls in sixty seconds. Takes a permit out of a deque while looking at it, so it needs no lock."""

    def __init__(self, most: int | None, clock: Callable[[], datetime.datetime]) -> None:
        self._most = most
        self._clock = clock
        self._used: deque[datetime.datetime] = deque()
        self._fresh: deque[None] = deque([None] * (most or 0))

    def take(self, tool: str) -> None:
        """Use a permit, or raise RateLimited."""
        if self._most is None:
            return
        now = self._clock()
        try:
            self._fresh.pop()
        except IndexError:
            self._reuse(now, tool)
        self._used.append(now)

    def _reuse(self, now: datetime.datetime, tool: str) -> None:
        wait_s = 1
        try:
            oldest = self._used.popleft()  # no one else sees it now
        except IndexError:  # all are being looked at
            pass
        else:
            if oldest + _MINUTE <= now or oldest > now + _MINUTE:  # the latter: the clock was set back
                return
            self._used.appendleft(oldest)
            wait_s = max(1, round((oldest + _MINUTE - now).total_seconds()))
        raise RateLimited(
            f"'{tool}' may be called {self._most} times a minute.",
            hint=f"Wait {wait_s} s, or raise its maxCallsPerMinute.",
            details={"retryAfterS": wait_s},
        )


_MAX_SAID = 300
_MAX_PAGE = 20_000
# A script without an end goes on to the end of the page; to look for the end of each would be slow.
_SCRIPT = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_MAX_LISTED = 20
_TEXT = frozenset(
    (
        *("csv", "ecmascript", "graphql", "html", "javascript", "jsonl", "jsonlines", "markdown", "ndjson", "plain"),
        *("rtf", "sh", "sql", "tex", "text", "toml", "typescript", "www-form-urlencoded", "xml", "yaml", "yml"),
    )
)
"""What an `application/` type is text by, also with `x-` before it."""


class ResponseReader:
    """Reads the responses of one request."""

    def __init__(self, response: ResponseOptions) -> None:
        codes = response.success_codes or ["2xx"]
        self._codes = {code for code in codes if isinstance(code, int)}
        self._hundreds = {int(code[0]) for code in codes if isinstance(code, str)}
        self._is_lenient = response.error_mode == "empty"
        self._encoding = response.encoding
        chosen = response.chosen()
        self._select = compile_selector(chosen) if chosen is not None else None

    def is_success(self, status: int) -> bool:
        """Whether the tool expects this status."""
        return status in self._codes or status // 100 in self._hundreds

    def read(self, reply: HttpResponse, mask: Mask) -> tuple[Any, bool]:
        """Return the value and whether there is one; raises ExecutionFailed unless errorMode is `empty`."""
        if not self.is_success(reply.status):
            if self._is_lenient:
                return None, False
            raise _failed(reply, mask)
        value = decoded(reply, self._encoding)
        if self._select is not None:
            value = self._select(value, reply.text)
        return value, True


class OutputCheck:
    """Checks a tool's value against its outputSchema, if it has one."""

    def __init__(self, schema: Mapping[str, Any] | bool | None, *, is_strict: bool = True) -> None:
        known = schema if isinstance(schema, Mapping) else {}
        self._schema: dict[str, Any] = {"not": {}} if schema is False else dict(known)
        self._validator = compile_schema(self._schema) if self._schema else None
        self._is_strict = is_strict

    def check(self, value: Any, tool: str, mask: Mask) -> list[dict[str, str]]:
        """Return what does not fit as `[{pointer, message}]`; if the schema is strict, raise InvalidOutput instead.

        Its details have the list as `mismatch`, and the value, so that the result of a POST is not lost.
        """
        if self._validator is None:
            return []
        found = self._found(value, mask)
        if found and self._is_strict:
            first = found[0]
            raise InvalidOutput(
                f"What '{tool}' got does not fit outputSchema at '{first['pointer']}': {first['message']}",
                hint="Its value is in error.details. Correct outputSchema, or the selector.",
                details={"mismatch": found, "value": value},
            )
        return found

    def _found(self, value: Any, mask: Mask) -> list[dict[str, str]]:
        assert self._validator is not None
        if not values.is_json(value):
            return [{"pointer": "", "message": "It is nested too deep to be checked."}]
        return [
            {"pointer": pointer(list(error.instance_path)), "message": said_of(error, value, self._schema, mask)}
            for error, _ in zip(self._validator.iter_errors(value), range(_MAX_LISTED), strict=False)
        ]


def decoded(reply: HttpResponse, encoding: str) -> Any:
    """The body as a value: JSON, text, or `{mime, base64, size}`."""
    if encoding == "auto":
        encoding = _kind(reply)
    if encoding == "json":
        return reply.json() if reply.body.strip() else None
    if encoding == "text":
        return reply.text
    written = base64.b64encode(reply.body).decode("ascii")
    return {"mime": reply.mime or "application/octet-stream", "base64": written, "size": len(reply.body)}


def body_text(reply: HttpResponse) -> str | None:
    """The body as text, or None if it is binary."""
    return reply.text if _kind(reply) in ("json", "text") else None


def _kind(reply: HttpResponse) -> str:
    if reply.is_json or not reply.body:
        return "json"
    mime = reply.mime
    if (
        mime.startswith("text/")
        or mime.removeprefix("application/").removeprefix("x-") in _TEXT
        or mime.endswith(("+text", "+xml", "+yaml"))
        or "charset=" in reply.headers.get("content-type", "")
    ):
        return "text"
    if mime:
        return "binary"
    try:
        reply.body.decode("utf-8")
    except UnicodeDecodeError:
        return "binary"
    return "text"


def _failed(reply: HttpResponse, mask: Mask) -> ExecutionFailed:
    """The error for a failed status, with the server's message; of an HTML page, its title."""
    said = " ".join((_message(reply) or _title(body_text(reply) or "", reply.mime)).split())
    words = f": {values.cut(mask(said[:20_000]), _MAX_SAID)}" if said else "."
    after = reply.headers.get("retry-after", "")
    hint = f"It asks to wait: Retry-After {mask(after[:40])}." if after else ""
    failure = ExecutionFailed(
        f"HTTP {reply.status} {phrase_of(reply.status)}".rstrip() + words,
        hint=hint,
        details={"status": reply.status, "attempts": reply.attempts},
    )
    failure.transient = reply.status in TRANSIENT_STATUSES
    return failure


def _message(reply: HttpResponse) -> str:
    """The sentence for people in a JSON error, under the names that APIs use for it (`detail` in RFC 9457)."""
    try:
        body: Any = json.loads(reply.text) if reply.is_json else None
    except (ValueError, RecursionError):
        return ""
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if not isinstance(body, dict):
        return ""
    found = (body.get(name) for name in ("detail", "message", "error_description", "error", "title"))
    return next((text for text in found if isinstance(text, str) and text.strip()), "")


def _title(text: str, mime: str) -> str:
    """The title of an HTML page, else its words; any other text as it is."""
    if mime not in ("text/html", "application/xhtml+xml"):
        return text
    title = re.search(r"<title[^<>]*>([^<]*)", text[:_MAX_PAGE], re.IGNORECASE)
    inner = title[1] if title else _SCRIPT.sub(" ", text[:_MAX_PAGE])
    return html.unescape(re.sub(r"<[^<>]*>", " ", inner))


def phrase_of(status: int) -> str:
    """The words of a status, as in 'Not Found'."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


_MAX_BODY = 64 * 1024
_SHORTEST = 6
_ENCODED = "%2A%2A%2A"


class CallTrace:
    """Masks the secrets of one call, also tokens that were fetched during it. Records nothing."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._hidden: list[str] = []
        self.mismatch: list[dict[str, str]] = []

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these secrets too."""
        self._hidden = sorted({*self._hidden, *(s for s in secrets if len(s) >= _SHORTEST)}, key=len, reverse=True)

    def mask(self, text: str) -> str:
        """Mask the secrets in a text."""
        text = self._mask(text)
        for secret in self._hidden:
            text = text.replace(secret, HIDDEN)
        return text

    def masked(self, value: Any) -> Any:
        """Mask the secrets in a JSON value."""
        return values.map_text(values.to_json(value), self.mask)

    def sent(self, name: str, request: Callable[[], dict[str, Any]]) -> None:
        """A request is about to be sent."""

    def got(self, reply: HttpResponse) -> None:
        """Its response arrived."""


class Trace(CallTrace):
    """Records the requests and responses of one call."""

    def __init__(self, mask: Mask) -> None:
        super().__init__(mask)
        self._steps: list[dict[str, Any]] = []
        self._began = 0.0

    def sent(self, name: str, request: Callable[[], dict[str, Any]]) -> None:
        """Record a request. A step that is sent again counts once."""
        if not self._steps or self._steps[-1]["name"] != name:
            self._steps.append({"name": name, "request": request(), "response": None})
        self._began = time.monotonic()

    def got(self, reply: HttpResponse) -> None:
        """Record the response."""
        self._steps[-1]["response"] = {
            "status": reply.status,
            "headers": dict(reply.headers),
            "url": reply.url,
            "attempts": reply.attempts,
            "durationMs": round((time.monotonic() - self._began) * 1000, 1),
            "size": len(reply.body),
            **_body(reply),
        }

    def done(self, value: Any) -> dict[str, Any]:
        """The report of a call that returned a value."""
        said = {"meta": {"mismatch": self.mismatch}} if self.mismatch else {}
        return self._told({"ok": True, "value": value, **said})

    def failed(self, exc: CallFailure, tool: str) -> dict[str, Any]:
        """The report of a call that failed; raises its error if no response ever came."""
        if not any(step["response"] for step in self._steps):
            raise exc
        return self._told({"ok": False, "error": failure_of(exc, tool, self.mask).to_dict()})

    def _told(self, result: dict[str, Any]) -> dict[str, Any]:
        last = self._steps[-1]
        told = {"request": last["request"], "response": last["response"], "result": result}
        if len(self._steps) > 1:
            told["steps"] = self._steps
        found: dict[str, Any] = self.masked(told)
        return found


def shown_request(out: OutgoingRequest) -> dict[str, Any]:
    """A request as a dict. Its secrets are `***` already, also the percent-encoded ones."""
    shown: dict[str, Any] = {
        "method": out.method,
        "url": out.url.replace(_ENCODED, HIDDEN),
        "headers": dict(out.headers),
    }
    if out.content is not None:
        text = out.content.decode("utf-8", "replace")
        shown["body"] = _cut(text.replace(_ENCODED, HIDDEN))
    return shown


def _body(reply: HttpResponse) -> dict[str, Any]:
    text = body_text(reply)
    return {} if text is None else {"body": _cut(text)}


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_BODY else f"{text[:_MAX_BODY]}..."


MAX_REQUEST_BYTES = 10 * 1024 * 1024
"""The largest body to send if the tool itself sets no limit."""

_UNAUTHORIZED, _FORBIDDEN = 401, 403
_COOKIES = ("set-cookie", "set-cookie2")

Note = Callable[[dict[str, Any]], None]


class _Send(NamedTuple):
    """A request and its rules."""

    out: OutgoingRequest
    rules: Rules


_Course = Generator[_Send, HttpResponse, Any]


class _Ready:
    """One step, prepared."""

    def __init__(self, name: str, step: HttpStep, arguments: Set[str], steps: Set[str]) -> None:
        self.name = name
        self.request = PreparedRequest(step.request, arguments, steps)
        self.reader = ResponseReader(step.response)
        self.auth = auth_of(step.request.auth, arguments, steps)
        self.timeout_s = None if step.request.timeout_ms is None else step.request.timeout_ms / 1000

    def refs(self) -> set[Ref]:
        return {*self.request.refs(), *(self.auth.refs() if self.auth is not None else ())}

    def sign(self, values: CallValues) -> AuthParts:
        """What the auth of the request adds to it, OAuth2 apart."""
        return self.auth.sign(values) if isinstance(self.auth, Credentials) else NO_AUTH

    def shown(self, scope: ValueSource, room: int) -> dict[str, Any]:
        """The request with `***` for each secret."""
        sign = self.auth.shown() if isinstance(self.auth, Credentials) else NO_AUTH
        if isinstance(self.auth, TokenRequest):
            sign = AuthParts({"Authorization": f"Bearer {HIDDEN}"}, [])
        return shown_request(self.request.fill(scope, headers=sign.headers, query=sign.query, room=room))


class HttpRunner:
    """A callable HTTP tool. `secrets` are the names of the secrets it needs; failures are raised as CallFailures.

    Making one raises InvalidTool for an invalid schema or a `${name}` without a meaning. `note` receives
    `{status, attempts, headers}` of each response, for the `meta` of the result.
    """

    def __init__(
        self,
        definition: HttpDefinition,
        *,
        name: str,
        arg_schema: Mapping[str, Any] | None,
        output_schema: Mapping[str, Any] | bool | None = None,
        is_output_strict: bool = True,
        limits: ToolLimits | None = None,
        client: HttpClient,
        rules: Rules,
        secret: SecretLookup,
        mask: Mask = str,
        hide: Callable[[str], object] = str,
        clock: Callable[[], datetime.datetime],
    ) -> None:
        parameters = dict(arg_schema or {"type": "object"})
        known = params(parameters)
        arguments = {param.name for param in known}
        plan = definition.plan()
        clashes = arguments & {step for step, _ in plan} if len(plan) > 1 else set()
        if clashes:
            raise InvalidTool(f"'{min(clashes)}' is both an argument and a step.", hint="Name the step differently.")
        steps: list[_Ready] = []
        for step, part in plan:
            steps.append(_Ready(step, part, arguments, {ready.name for ready in steps}))
        limits = limits or ToolLimits()
        self.name = name
        self.secrets = tuple(sorted({ref.name for ready in steps for ref in ready.refs() if ref.kind == "secret"}))
        self._steps = steps
        self._checker = Checker(parameters)
        self._defaults = {param.name: param.schema["default"] for param in known if param.has_default}
        self._output = OutputCheck(output_schema, is_strict=is_output_strict)
        self._client = client
        self._rules = rules.replace(max_bytes=min(rules.max_bytes, limits.max_response_bytes or rules.max_bytes))
        self._room = limits.max_request_bytes or MAX_REQUEST_BYTES
        self._secret = secret
        self._mask = mask
        self._hide = hide
        self._rate = RateLimit(limits.max_calls_per_minute, clock)
        self._tokens = Tokens(clock)
        self._limit_s = max(ready.timeout_s or rules.timeout_s for ready in steps)

    def run(self, args: Mapping[str, Any], note: Note | None = None) -> Any:
        """Check the arguments, send, and wait for the value."""
        return self.send(self._checked(args), note)

    async def arun(self, args: Mapping[str, Any], note: Note | None = None) -> Any:
        """`run` without blocking the event loop."""
        return await self.asend(self._checked(args), note)

    def send(self, args: Mapping[str, Any], note: Note | None = None) -> Any:
        """`run` with the arguments of a bound call, which are checked already."""
        return self._drive(self._course(args, CallTrace(self._mask), note))

    async def asend(self, args: Mapping[str, Any], note: Note | None = None) -> Any:
        """`send` without blocking the event loop."""
        return await self._adrive(self._course(args, CallTrace(self._mask), note))

    def preview(self, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Check the arguments and return the requests that a call would send, masked. Nothing is sent."""
        return self.requests(self._checked(args))

    def requests(self, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """`preview` with arguments that are checked already."""
        scope = MaskedValues(self._values(args))
        try:
            return [CallTrace(self._mask).masked(step.shown(scope, self._room)) for step in self._steps]
        except CallFailure as exc:
            fault = masked(exc, self._mask)
        raise fault

    def trace(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Call the tool and return `{request, response, result}`, masked, with all `steps` if there are several.

        `result` is `{ok, value}` or `{ok, error}`. A failure before the first response raises.
        """
        trace = Trace(self._mask)
        try:
            return trace.done(self._drive(self._course(self._checked(args), trace, None)))
        except CallFailure as exc:
            return trace.failed(exc, self.name)

    async def atrace(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """`trace` without blocking the event loop."""
        trace = Trace(self._mask)
        try:
            return trace.done(await self._adrive(self._course(self._checked(args), trace, None)))
        except CallFailure as exc:
            return trace.failed(exc, self.name)

    def missing_secrets(self) -> list[str]:
        """The names of the secrets it needs that do not exist now."""
        return [name for name in self.secrets if self._secret(name) is None]

    def _drive(self, course: _Course) -> Any:
        try:
            send = next(course)
            while True:
                out = send.out
                send = course.send(
                    self._client.request(
                        out.method, out.url, rules=send.rules, headers=out.headers, content=out.content
                    )
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
                reply = await self._client.arequest(
                    out.method, out.url, rules=send.rules, headers=out.headers, content=out.content
                )
                send = course.send(reply)
        except StopIteration as done:
            return done.value
        finally:
            course.close()

    def _course(self, args: Mapping[str, Any], trace: CallTrace, note: Note | None) -> _Course:
        """The whole call as a generator: yields requests, receives responses, returns the value."""
        fault: CallFailure
        try:
            scope = self._values(args)
            for name in self.secrets:
                scope.secret(name)
            return (yield from self._walk(scope, trace, note))
        except CallFailure as exc:
            fault = masked(exc, trace.mask)
        raise fault

    def _walk(self, scope: CallValues, trace: CallTrace, note: Note | None) -> _Course:
        until = time.monotonic() + self._limit_s
        value, is_there, counted = None, True, False
        for step in self._steps:
            sign = step.sign(scope)
            grant = step.auth.grant(scope) if isinstance(step.auth, TokenRequest) else None
            out = step.request.fill(scope, headers=sign.headers, query=sign.query, room=self._room)
            if not counted:
                self._rate.take(self.name)
                counted = True
            trace.hide(sign.secrets)
            reply = yield from self._exchange(step, out, grant, until, trace, scope)
            if note is not None:
                headers = {name: HIDDEN if name.lower() in _COOKIES else text for name, text in reply.headers.items()}
                note({"status": reply.status, "attempts": reply.attempts, "headers": trace.masked(headers)})
            trace.got(reply)
            try:
                value, is_there = step.reader.read(reply, trace.mask)
            except ExecutionFailed as exc:
                raise self._explained(exc, step, reply, trace, scope) from None
            scope.steps[step.name] = value
        if is_there:
            found = self._output.check(value, self.name, trace.mask)
            if found:
                trace.mismatch = found
                if note is not None:
                    note({"mismatch": found})
        return value

    def _explained(
        self, exc: ExecutionFailed, step: _Ready, reply: HttpResponse, trace: CallTrace, scope: CallValues
    ) -> ExecutionFailed:
        """Add to a failure what was sent, and where the credentials came from if they were refused."""
        request = step.shown(MaskedValues(scope), self._room)
        answer = {"status": reply.status, "headers": dict(reply.headers), **_body(reply)}
        exc.exchange = trace.masked({"request": request, "response": answer})
        sent = exc.exchange["request"]
        lines = [exc.hint, values.cut(f"It sent {sent['method']} {sent['url'].partition('?')[0]}", _MAX_SAID)]
        if reply.status in (_UNAUTHORIZED, _FORBIDDEN):
            named = ", ".join(f"'{name}'" for name in self.secrets)
            unnamed = "This tool sends no auth." if step.auth is None else ""
            lines.append(f"Check the secret {named}." if named else unnamed)
        exc.hint = "\n".join(line for line in lines if line)
        return exc

    def _exchange(
        self, step: _Ready, out: OutgoingRequest, grant: Grant | None, until: float, trace: CallTrace, scope: CallValues
    ) -> Generator[_Send, HttpResponse, HttpResponse]:
        """Send one request. With OAuth2 fetch the token first, and a new one if it is refused."""
        shown = partial(step.shown, MaskedValues(scope), self._room)
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

    def _fetch(self, step: _Ready, grant: Grant, until: float) -> Generator[_Send, HttpResponse, str]:
        reply = yield _Send(grant.request(in_body=False), self._within(step, until))
        if reply.status in (400, _UNAUTHORIZED):  # some servers take the client in the form only
            reply = yield _Send(grant.request(in_body=True), self._within(step, until))
        return self._tokens.take(grant, reply)

    def _within(self, step: _Ready, until: float) -> Rules:
        """The rules, with the time that is left."""
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise CallTimeout(
                f"'{self.name}' did not finish within {self._limit_s:g} s.",
                hint="Raise http.timeout_s, or the tool's timeoutMs.",
            )
        own_s = step.timeout_s or self._rules.timeout_s
        return self._rules.replace(timeout_s=min(left_s, own_s))

    def _checked(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self._checker.check(args, self.name, self._mask)

    def _values(self, args: Mapping[str, Any]) -> CallValues:
        return CallValues(args, self._secret, defaults=self._defaults, room=self._room, tool=self.name)
