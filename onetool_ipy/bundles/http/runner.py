"""Calls an HTTP tool, sync or async: checks, sends its steps, reads the responses.

A call is one generator that yields requests and receives responses (`HttpRunner._flow`); the sync
and the async methods differ only in how they wait for a response. One deadline covers steps,
tokens, retries and redirects. Before anything is sent the arguments are checked, every secret is
there, and the rate limit has room. Calls per minute are counted and OAuth2 tokens kept in the
runner, so per process. A trace shows requests with `***` for each secret; secrets and fetched
tokens in responses are masked.
"""

from __future__ import annotations

import base64
import datetime
import html
import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Set
from dataclasses import replace
from functools import cached_property, partial
from http.client import responses
from typing import TYPE_CHECKING, Any, NamedTuple

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
from onetool_ipy.bundles.http.auth import NO_AUTH, Grant, Tokens, auth_of, bearer
from onetool_ipy.bundles.http.definition import (
    HttpDefinition,
    HttpStep,
    OAuth2,
    ResponseOptions,
    ToolLimits,
)
from onetool_ipy.bundles.http.request import OutgoingRequest, PreparedRequest
from onetool_ipy.bundles.http.template import (
    HIDDEN,
    CallValues,
    MaskedValues,
    Ref,
    SecretLookup,
    ValueSource,
    secrets_of,
)
from onetool_ipy.core.result import failure_of
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.response import HttpResponse, Mask, masking
from onetool_ipy.schema.check import Checker, compile_schema, describe_error, pointer

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_MAX_REQUEST_BYTES = 10 * 1024 * 1024
"""The largest body to send if the tool itself sets no limit."""

_MINUTE = datetime.timedelta(seconds=60)
_MAX_WORDS = 300
_MAX_PAGE = 20_000
_MAX_MISMATCHES = 20
_MAX_BODY = 64 * 1024
_SHORTEST_SECRET = 6
_QUOTED_HIDDEN = "%2A%2A%2A"
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_COOKIES = ("set-cookie", "set-cookie2")
# A script without an end goes on to the end of the page; to look for the end of each would be slow.
_SCRIPT = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_TEXT_TYPES = frozenset(
    (
        *(
            "csv",
            "ecmascript",
            "graphql",
            "html",
            "javascript",
            "jsonl",
            "jsonlines",
            "markdown",
            "ndjson",
            "plain",
        ),
        *(
            "rtf",
            "sh",
            "sql",
            "tex",
            "text",
            "toml",
            "typescript",
            "www-form-urlencoded",
            "xml",
            "yaml",
            "yml",
        ),
    )
)
"""What an `application/` type is text by, also with `x-` before it."""

Note = Callable[[dict[str, Any]], None]

Fence = Callable[[str], None]
"""Raises for an address of another environment than the one that the tool's bundle uses."""


class RateLimit:
    """At most `most` calls in sixty seconds."""

    def __init__(self, most: int | None, clock: Callable[[], datetime.datetime]) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: deque[datetime.datetime] = deque(maxlen=most)

    def take(self, tool: str) -> None:
        """Use a permit, or raise RateLimited."""
        if self._most is None:
            return
        with self._lock:
            now = self._clock()
            oldest = self._taken[0] if len(self._taken) == self._most else None
            # A permit of the future was taken before the clock was set back: it counts no longer.
            if oldest is None or oldest + _MINUTE <= now or oldest > now + _MINUTE:
                self._taken.append(now)
                return
        wait_s = max(1, round((oldest + _MINUTE - now).total_seconds()))
        raise RateLimited(
            f"'{tool}' may be called {self._most} times a minute.",
            hint=f"Wait {wait_s} s, or raise its maxCallsPerMinute.",
            details={"retryAfterS": wait_s},
        )


class ResponseReader:
    """Reads the responses of one request."""

    def __init__(self, response: ResponseOptions) -> None:
        codes = response.success_codes or ["2xx"]
        self._codes = {code for code in codes if isinstance(code, int)}
        self._hundreds = {int(code[0]) for code in codes if isinstance(code, str)}
        self._is_lenient = response.error_mode == "empty"
        self._encoding = response.encoding
        selector = response.chosen()
        self._select = selector.compiled() if selector is not None else None

    def is_success(self, status: int) -> bool:
        """Whether the tool expects this status."""
        return status in self._codes or status // 100 in self._hundreds

    def read(self, response: HttpResponse, mask: Mask) -> tuple[object, bool]:
        """Return the value and whether there is one; raises ExecutionFailed unless errorMode is
        `empty`."""
        if not self.is_success(response.status):
            if self._is_lenient:
                return None, False
            raise _status_failure(response, mask)
        encoding = _encoding_of(response) if self._encoding == "auto" else self._encoding
        value: object
        if encoding == "json":
            value = response.json() if response.body.strip() else None
        elif encoding == "text":
            value = response.text
        else:
            content = base64.b64encode(response.body).decode("ascii")
            mime = response.mime or "application/octet-stream"
            value = {"mime": mime, "base64": content, "size": len(response.body)}
        if self._select is not None:
            value = self._select(value, response.text)
        return value, True


class OutputCheck:
    """Checks a tool's value against its outputSchema, if it has one."""

    def __init__(self, schema: Mapping[str, Any] | bool | None, *, is_strict: bool = True) -> None:
        if isinstance(schema, Mapping):
            self._schema = dict(schema)
        else:
            self._schema = {"not": {}} if schema is False else {}
        self._is_strict = is_strict
        if is_strict:
            self._validator  # noqa: B018 - compiles the schema, or raises

    def check(self, value: object, tool: str, mask: Mask) -> list[dict[str, str]]:
        """Return what does not fit as `[{pointer, message}]`; if the schema is strict, raise
        InvalidOutput instead.

        Its details have the list as `mismatch`, and the value, so that the result of a POST is not
        lost.
        """
        if self._validator is None:
            return []
        if values.is_json(value):
            errors = zip(self._validator.iter_errors(value), range(_MAX_MISMATCHES), strict=False)
            mismatch = [
                {
                    "pointer": pointer(list(error.instance_path)),
                    "message": describe_error(error, value, self._schema, mask),
                }
                for error, _ in errors
            ]
        else:
            mismatch = [{"pointer": "", "message": "It is nested too deep to be checked."}]
        if mismatch and self._is_strict:
            first = mismatch[0]
            raise InvalidOutput(
                f"What '{tool}' got does not fit outputSchema at '{first['pointer']}':"
                f" {first['message']}",
                hint="Its value is in error.details. Correct outputSchema, or the selector.",
                details={"mismatch": mismatch, "value": value},
            )
        return mismatch

    @cached_property
    def _validator(self) -> Validator | None:
        """The compiled schema. That of a document is compiled for the first value: a document may
        have a thousand."""
        try:
            return compile_schema(self._schema) if self._schema else None
        except InvalidTool:
            # A call that went well does not fail by a document's own mistake.
            if self._is_strict:
                raise
            return None


class CallMasker:
    """Masks the secrets of one call, also tokens that were fetched during it. Records nothing."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._hidden: list[str] = []
        self.mismatch: list[dict[str, str]] = []

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these secrets too."""
        long = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
        self._hidden = sorted({*self._hidden, *long}, key=len, reverse=True)

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

    def received(self, response: HttpResponse) -> None:
        """Its response arrived."""


class CallTrace(CallMasker):
    """Records the requests and responses of one call."""

    def __init__(self, mask: Mask) -> None:
        super().__init__(mask)
        self._steps: list[dict[str, Any]] = []
        self._sent_at = 0.0

    def sent(self, name: str, request: Callable[[], dict[str, Any]]) -> None:
        """Record a request. A step that is sent again counts once."""
        if not self._steps or self._steps[-1]["name"] != name:
            self._steps.append({"name": name, "request": request(), "response": None})
        self._sent_at = time.monotonic()

    def received(self, response: HttpResponse) -> None:
        """Record the response."""
        self._steps[-1]["response"] = {
            "status": response.status,
            "headers": dict(response.headers),
            "url": response.url,
            "attempts": response.attempts,
            "durationMs": round((time.monotonic() - self._sent_at) * 1000, 1),
            "size": len(response.body),
            **_body_entry(response),
        }

    def done(self, value: object) -> dict[str, Any]:
        """The report of a call that returned a value."""
        meta = {"meta": {"mismatch": self.mismatch}} if self.mismatch else {}
        return self._report({"ok": True, "value": value, **meta})

    def failed(self, exc: CallFailure, tool: str) -> dict[str, Any]:
        """The report of a call that failed; raises its error if no response ever came."""
        if not any(step["response"] for step in self._steps):
            raise exc
        return self._report({"ok": False, "error": failure_of(exc, tool, self.mask).to_dict()})

    def _report(self, result: dict[str, Any]) -> dict[str, Any]:
        last = self._steps[-1]
        steps = {"steps": self._steps} if len(self._steps) > 1 else {}
        report = {
            "request": last["request"],
            "response": last["response"],
            "result": result,
            **steps,
        }
        masked_report: dict[str, Any] = self.masked(report)
        return masked_report


class _PreparedStep:
    """One step of a tool, made once and used by every call."""

    def __init__(self, name: str, step: HttpStep, arguments: Set[str], steps: Set[str]) -> None:
        self.name = name
        self.request = PreparedRequest(step.request, arguments, steps)
        self.reader = ResponseReader(step.response)
        self.auth = auth_of(step.request.auth, arguments, steps)
        self.timeout_s = None if step.request.timeout_ms is None else step.request.timeout_ms / 1000
        token_url = [step.request.auth.token_url] if isinstance(step.request.auth, OAuth2) else []
        self.addresses = (step.request.url_template, *token_url)

    def refs(self) -> set[Ref]:
        return {*self.request.refs(), *(self.auth.refs() if self.auth is not None else ())}

    def preview(self, scope: ValueSource, room: int) -> dict[str, Any]:
        """The request as a dict, with `***` for each secret."""
        parts = NO_AUTH if self.auth is None else self.auth.shown()
        out = self.request.fill(scope, headers=parts.headers, query=parts.query, room=room)
        # In a URL and in a form, the stars of a secret are percent-encoded.
        url = out.url.replace(_QUOTED_HIDDEN, HIDDEN)
        preview: dict[str, Any] = {"method": out.method, "url": url, "headers": dict(out.headers)}
        if out.content is not None:
            preview["body"] = _cut(
                out.content.decode("utf-8", "replace").replace(_QUOTED_HIDDEN, HIDDEN)
            )
        return preview


class _Sending(NamedTuple):
    """A request and its rules, as a call yields them."""

    request: OutgoingRequest
    rules: Rules


_Flow = Generator[_Sending, HttpResponse, object]


class HttpRunner:
    """A callable HTTP tool. `secrets` are the names of the secrets it needs; failures are raised as
    CallFailures.

    Making one raises InvalidTool for an invalid schema or a `${name}` without a meaning. `note`
    receives `{status, attempts, headers}` of each response, for the `meta` of the result. `fence`
    is asked once for each call.
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
        fence: Callable[[], Fence] | None = None,
    ) -> None:
        self._checker = Checker(
            dict(arg_schema or {"type": "object"}), texts=definition.text_names()
        )
        arguments = {param.name for param in self._checker.params}
        plan = definition.plan()
        clashes = arguments & {step for step, _ in plan} if len(plan) > 1 else set()
        if clashes:
            raise InvalidTool(
                f"'{min(clashes)}' is both an argument and a step.",
                hint="Name the step differently.",
            )
        self._steps: list[_PreparedStep] = []
        for step_name, step in plan:
            earlier = {prepared.name for prepared in self._steps}
            self._steps.append(_PreparedStep(step_name, step, arguments, earlier))
        refs = {ref for step in self._steps for ref in step.refs()}
        limits = limits or ToolLimits()
        self.name = name
        self._environment = definition.environment.name if definition.environment else ""
        self._variables = definition.environment.variables if definition.environment else {}
        names = {ref.name for ref in refs if ref.kind == "secret"}
        self.secrets = tuple(
            sorted({secret for each in names for secret in secrets_of(each, self._variables)})
        )
        self._defaults = {
            param.name: param.schema["default"]
            for param in self._checker.params
            if param.has_default
        }
        self._output = OutputCheck(output_schema, is_strict=is_output_strict)
        self._client = client
        self._rules = replace(
            rules, max_bytes=min(rules.max_bytes, limits.max_response_bytes or rules.max_bytes)
        )
        self._room = limits.max_request_bytes or _MAX_REQUEST_BYTES
        self._secret = secret
        self._mask = mask
        self._hide = hide
        self._fence = fence
        self._rate = RateLimit(limits.max_calls_per_minute, clock)
        self._tokens = Tokens(clock)
        self._limit_s = max(step.timeout_s or rules.timeout_s for step in self._steps)

    def run(self, args: Mapping[str, object], note: Note | None = None) -> object:
        """Check the arguments, send, and wait for the value."""
        return self.send(self._checked(args), note)

    async def arun(self, args: Mapping[str, object], note: Note | None = None) -> object:
        """`run` without blocking the event loop."""
        return await self.asend(self._checked(args), note)

    def send(self, args: Mapping[str, object], note: Note | None = None) -> object:
        """`run` with the arguments of a bound call, which are checked already."""
        return self._call(args, CallMasker(self._mask), note)

    async def asend(self, args: Mapping[str, object], note: Note | None = None) -> object:
        """`send` without blocking the event loop."""
        return await self._acall(args, CallMasker(self._mask), note)

    def preview(self, args: Mapping[str, object]) -> list[dict[str, Any]]:
        """Check the arguments and return the requests that a call would send, masked. Nothing is
        sent."""
        return self.requests(self._checked(args))

    def requests(self, args: Mapping[str, object]) -> list[dict[str, Any]]:
        """`preview` with arguments that are checked already."""
        with masking(self._mask):
            self._require_own()
            scope = MaskedValues(self._values(args))
            return [
                CallMasker(self._mask).masked(step.preview(scope, self._room))
                for step in self._steps
            ]

    def trace(self, args: Mapping[str, object]) -> dict[str, Any]:
        """Call the tool and return `{request, response, result}`, masked, with all `steps` if there
        are several.

        `result` is `{ok, value}` or `{ok, error}`. A failure before the first response raises.
        """
        trace = CallTrace(self._mask)
        try:
            return trace.done(self._call(self._checked(args), trace))
        except CallFailure as exc:
            return trace.failed(exc, self.name)

    def missing_secrets(self) -> list[str]:
        """The names of the secrets it needs that do not exist now."""
        return [name for name in self.secrets if self._secret(name) is None]

    def _call(
        self, args: Mapping[str, object], masker: CallMasker, note: Note | None = None
    ) -> object:
        with masking(masker.mask):
            flow = self._flow(args, masker, note)
            try:
                (method, url, headers, content), rules = next(flow)
                while True:
                    response = self._client.request(
                        method, url, rules=rules, headers=headers, content=content
                    )
                    (method, url, headers, content), rules = flow.send(response)
            except StopIteration as done:
                return done.value

    async def _acall(
        self, args: Mapping[str, object], masker: CallMasker, note: Note | None = None
    ) -> object:
        with masking(masker.mask):
            flow = self._flow(args, masker, note)
            try:
                (method, url, headers, content), rules = next(flow)
                while True:
                    response = await self._client.arequest(
                        method, url, rules=rules, headers=headers, content=content
                    )
                    (method, url, headers, content), rules = flow.send(response)
            except StopIteration as done:
                return done.value

    def _flow(self, args: Mapping[str, object], masker: CallMasker, note: Note | None) -> _Flow:
        """The whole call: yields requests, receives responses, returns the value."""
        rules = replace(self._rules, require=self._require_own())
        scope = self._values(args)
        for name in self.secrets:
            scope.secret(name)
        value: object = None
        is_there, until = True, 0.0
        for step in self._steps:
            parts = NO_AUTH if step.auth is None else step.auth.sign(scope)
            grant = None if step.auth is None else step.auth.grant(scope)
            out = step.request.fill(
                scope, headers=parts.headers, query=parts.query, room=self._room
            )
            # A call takes one permit, and only when its first request is known to be whole. Then
            # its clock starts, so that a failure names the whole limit.
            if step is self._steps[0]:
                self._rate.take(self.name)
                until = time.monotonic() + self._limit_s
            masker.hide(parts.secrets)
            preview = partial(step.preview, MaskedValues(scope), self._room)
            if grant is None:
                masker.sent(step.name, preview)
                response = yield _Sending(out, self._within(rules, step, until))
            else:
                within = partial(self._within, rules, step, until)
                response = yield from self._with_token(step, out, grant, within, masker, preview)
            if note is not None:
                headers = {
                    name: HIDDEN if name in _COOKIES else text
                    for name, text in response.headers.items()
                }
                note(
                    {
                        "status": response.status,
                        "attempts": response.attempts,
                        "headers": masker.masked(headers),
                    }
                )
            masker.received(response)
            try:
                value, is_there = step.reader.read(response, masker.mask)
            except ExecutionFailed as exc:
                raise self._explained(exc, step, response, masker, preview) from None
            scope.steps[step.name] = value
        if is_there and (mismatch := self._output.check(value, self.name, masker.mask)):
            masker.mismatch = mismatch
            if note is not None:
                note({"mismatch": mismatch})
        return value

    def _with_token(
        self,
        step: _PreparedStep,
        out: OutgoingRequest,
        grant: Grant,
        within: Callable[[], Rules],
        masker: CallMasker,
        preview: Callable[[], dict[str, Any]],
    ) -> Generator[_Sending, HttpResponse, HttpResponse]:
        """Send one request with an OAuth2 token: fetch it first if need be, and a new one if it is
        refused."""
        masker.hide((grant.secret,))
        is_second = False
        while True:
            token = self._tokens.get(grant)
            if token is None:
                response = yield _Sending(grant.request(in_body=False), within())
                # Some servers take the client in the form only.
                if response.status in (400, _UNAUTHORIZED):
                    response = yield _Sending(grant.request(in_body=True), within())
                token = self._tokens.take(grant, response)
            # The token is hidden each time: after a reload there are new secrets, and the token
            # still holds.
            self._hide(token)
            parts = bearer(token)
            masker.hide(parts.secrets)
            masker.sent(step.name, preview)
            headers = {
                name: value
                for name, value in out.headers.items()
                if name.lower() != "authorization"
            }
            response = yield _Sending(out._replace(headers=headers | parts.headers), within())
            if response.status != _UNAUTHORIZED or is_second:
                return response
            self._tokens.forget(grant)
            is_second = True

    def _explained(
        self,
        exc: ExecutionFailed,
        step: _PreparedStep,
        response: HttpResponse,
        masker: CallMasker,
        preview: Callable[[], dict[str, Any]],
    ) -> ExecutionFailed:
        """Add to a failure what was sent, and where the credentials came from if they were
        refused."""
        answer = {
            "status": response.status,
            "headers": dict(response.headers),
            **_body_entry(response),
        }
        exc.exchange = masker.masked({"request": preview(), "response": answer})
        request = exc.exchange["request"]
        lines = [
            exc.hint,
            values.cut(
                f"It sent {request['method']} {request['url'].partition('?')[0]}", _MAX_WORDS
            ),
        ]
        if response.status in (_UNAUTHORIZED, _FORBIDDEN):
            names = ", ".join(f"'{name}'" for name in self.secrets)
            no_auth = "This tool sends no auth." if step.auth is None else ""
            lines.append(f"Check the secret {names}." if names else no_auth)
        exc.hint = "\n".join(line for line in lines if line)
        return exc

    def _require_own(self) -> Fence | None:
        """Refuse a tool with an address of another environment; returns the check for what is only
        known later.

        A value may be a part of an address, and a response may redirect.
        """
        if self._fence is None:
            return None
        fence = self._fence()
        for address in (address for step in self._steps for address in step.addresses):
            fence(address)
        return fence

    def _within(self, rules: Rules, step: _PreparedStep, until: float) -> Rules:
        """The rules, with the time that is left."""
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise CallTimeout(
                f"'{self.name}' did not finish within {self._limit_s:g} s.",
                hint="Raise http.timeout_s, or the tool's timeoutMs.",
            )
        return replace(rules, timeout_s=min(left_s, step.timeout_s or rules.timeout_s))

    def _checked(self, args: Mapping[str, object]) -> dict[str, object]:
        return self._checker.check(args, self.name, self._mask)

    def _values(self, args: Mapping[str, object]) -> CallValues:
        return CallValues(
            args,
            self._secret,
            defaults=self._defaults,
            room=self._room,
            tool=self.name,
            environment=self._environment,
            variables=self._variables,
        )


def phrase_of(status: int) -> str:
    """The words of a status, as in 'Not Found'."""
    return responses.get(status, "")


def _encoding_of(response: HttpResponse) -> str:
    if response.is_json or not response.body:
        return "json"
    mime = response.mime
    if (
        mime.startswith("text/")
        or mime.removeprefix("application/").removeprefix("x-") in _TEXT_TYPES
        or mime.endswith(("+text", "+xml", "+yaml"))
        or "charset=" in response.headers.get("content-type", "")
    ):
        return "text"
    if mime:
        return "binary"
    try:
        response.body.decode("utf-8")
    except UnicodeDecodeError:
        return "binary"
    return "text"


def _body_entry(response: HttpResponse) -> dict[str, str]:
    """The body of a response for a report, if it is text."""
    return {} if _encoding_of(response) == "binary" else {"body": _cut(response.text)}


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_BODY else f"{text[:_MAX_BODY]}..."


def _status_failure(response: HttpResponse, mask: Mask) -> ExecutionFailed:
    """The error for a failed status, with the server's message; of an HTML page, its title."""
    text = _message(response) or ("" if _encoding_of(response) == "binary" else response.text)
    if response.mime in ("text/html", "application/xhtml+xml"):
        title = re.search(r"<title[^<>]*>([^<]*)", text[:_MAX_PAGE], re.IGNORECASE)
        inner = title[1] if title else _SCRIPT.sub(" ", text[:_MAX_PAGE])
        text = html.unescape(re.sub(r"<[^<>]*>", " ", inner))
    text = " ".join(text.split())
    words = f": {values.cut(mask(text[:_MAX_PAGE]), _MAX_WORDS)}" if text else "."
    after = response.headers.get("retry-after", "")
    failure = ExecutionFailed(
        f"HTTP {response.status} {phrase_of(response.status)}".rstrip() + words,
        hint=f"It asks to wait: Retry-After {mask(after[:40])}." if after else "",
        details={"status": response.status, "attempts": response.attempts},
    )
    failure.transient = response.status in TRANSIENT_STATUSES
    return failure


def _message(response: HttpResponse) -> str:
    """The sentence for people in a JSON error, under the names that APIs use for it (`detail` in
    RFC 9457)."""
    try:
        body: Any = json.loads(response.text) if response.is_json else None
    except (ValueError, RecursionError):
        return ""
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if not isinstance(body, dict):
        return ""
    texts = (
        body.get(name) for name in ("detail", "message", "error_description", "error", "title")
    )
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")
