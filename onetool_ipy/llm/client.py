"""The HTTP client of a configured model, for every wire format; and `open_model`, which finds it by name.

One async generator does everything: retries, deadline, pieces of text, the turn at its end. `complete` pulls it from a
thread, so that `on_text` runs in the calling thread; `acomplete` from a task. A request is repeated only as long as
nothing of a reply was read. An HTTP status or an error inside a reply becomes one of our failures here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import httpx

from onetool_ipy.base import values
from onetool_ipy.base.background import Background
from onetool_ipy.base.errors import (
    TRANSIENT_STATUSES,
    CallCancelled,
    CallFailure,
    CallTimeout,
    ExecutionFailed,
    InvalidConfig,
    InvalidOutput,
    MissingSecret,
    OneToolError,
    RateLimited,
    TooLarge,
    UnknownProvider,
    UsageProblem,
)
from onetool_ipy.base.masking import Secrets
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.config.settings import Model, Models
from onetool_ipy.llm.messages import DEADLINE_S, Message, ModelClient, OfferedTool, OnText, Turn
from onetool_ipy.llm.wire import Anthropic, Gemini, ModelRequest, Ollama, OpenAi, ReplyReader, WireFormat
from onetool_ipy.net.body import HttpResponse, ResponseStream
from onetool_ipy.net.client import HttpClient, Retry, Rules
from onetool_ipy.net.errors import ConnectionFailed
from onetool_ipy.net.hosts import Hosts, origin_of

__all__ = ["HttpModelClient", "default_url", "open_model"]

_FORMATS: Mapping[str, WireFormat] = {wire.provider: wire for wire in (OpenAi(), Ollama(), Gemini(), Anthropic())}
_TRIES = 3
_MAX_BYTES = 32 * 1024 * 1024
_MAX_TEXT = 300
_HOW_TO = """Write in onetool.yaml, then run ot.reload():
models:
  default: local
  local: {provider: ollama, base_url: "http://127.0.0.1:11434", model: qwen3}"""
_DEFAULT = "Write 'default: NAME' under 'models' in onetool.yaml."


def default_url(provider: str) -> str:
    """Return the base_url of a provider's own models; empty for an unknown provider."""
    wire = _FORMATS.get(provider)
    return "" if wire is None else wire.default_url


def open_model(
    which: str | None,
    models: Models,
    *,
    secrets: Secrets,
    http_client: HttpClient,
    background: Background,
) -> ModelClient:
    """Return the client of a configured model by name, or of the default one.

    Raises UsageProblem if there is no such model, or none at all, saying what to write.
    """
    if not models.named:
        raise UsageProblem("No model is configured.", hint=_HOW_TO)
    listed = ", ".join(f"'{name}'" for name in models.named)
    name = models.default if which is None else which
    if name is None:
        raise UsageProblem("No model was named, and there is no default.", hint=f"{_DEFAULT} Configured: {listed}.")
    chosen = models.named.get(name)
    if chosen is None:
        near = did_you_mean(name, models.named)
        text = f"No model '{values.cut(name, 80)}'." + (f" {near}" if near else "")
        raise UsageProblem(text, hint=f"Configured: {listed}.")
    return HttpModelClient(chosen, secrets=secrets, http_client=http_client, background=background)


class HttpModelClient:
    """The client of a configured model."""

    def __init__(
        self,
        model: Model,
        *,
        secrets: Secrets,
        http_client: HttpClient,
        background: Background,
        retry: Retry | None = None,
    ) -> None:
        wire = _FORMATS.get(model.provider)
        if wire is None:
            raise UnknownProvider(f"The provider {model.provider!r} is not supported.")
        self.model = model
        self._wire = wire
        self._secrets = secrets
        self._http_client = http_client
        self._background = background
        self._retry = retry or Retry()

    @property
    def name(self) -> str:
        return self.model.name

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,
        max_tokens: int | None = None,
    ) -> Turn:
        """Send a conversation and wait for the reply. Raises a CallFailure if there is none."""
        if self._background.is_here():
            raise UsageProblem("A model cannot be asked here without blocking.", hint="Use `await acomplete(...)`.")
        connection = _ModelConnection()
        replies = self._replies(self._request(messages, tools, on_text, max_tokens), deadline_s, connection)
        try:
            while not isinstance(piece := self._background.run(replies.__anext__), Turn):
                if on_text is not None:
                    on_text(piece)
            return piece
        except BaseException:
            self._background.submit(lambda: connection.cut(replies))
            raise

    async def acomplete(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool] = (),
        *,
        on_text: OnText | None = None,
        deadline_s: float = DEADLINE_S,
        max_tokens: int | None = None,
    ) -> Turn:
        """`complete` without blocking the event loop, whichever it is."""
        request = self._request(messages, tools, on_text, max_tokens)
        async with aclosing(self._replies(request, deadline_s, _ModelConnection())) as replies:
            async for piece in replies:
                if isinstance(piece, Turn):
                    return piece
                if on_text is not None:
                    on_text(piece)
        raise AssertionError("the replies end with a turn or a failure")

    def __repr__(self) -> str:
        return f"<HttpModelClient {self.model.name!r}: {self.model.model!r} by {self.model.provider}>"

    def _request(
        self, messages: Sequence[Message], tools: Sequence[OfferedTool], on_text: OnText | None, max_tokens: int | None
    ) -> ModelRequest:
        model = self.model
        url = model.base_url or self._wire.default_url
        is_streamed = on_text is not None
        return ModelRequest(url, model.model, tuple(messages), tuple(tools), max_tokens, is_streamed, model.options)

    async def _replies(
        self, request: ModelRequest, deadline_s: float, connection: _ModelConnection
    ) -> AsyncGenerator[str | Turn, None]:
        """Give the pieces of streamed text as they come, then the turn."""
        until = time.monotonic() + deadline_s
        attempt = 0
        while True:
            attempt += 1
            reader = self._wire.reader(request, self._wire.provider)
            try:
                async with connection.hold(self._send(request, until, deadline_s)) as stream:
                    wait_s = self._wait_s(stream, attempt, until)
                    if wait_s is None:
                        async with aclosing(self._read(stream, request, reader, attempt)) as pieces:
                            async for piece in pieces:
                                yield piece
                        yield _parsed(reader.turn)
                        return
            except ConnectionFailed as exc:
                wait_s = self._retry.wait_s(attempt)
                if attempt >= _TRIES or reader.has_begun or time.monotonic() + wait_s >= until:
                    raise self._masked(exc, reader) from None
            except CallFailure as exc:
                raise self._masked(exc, reader) from None
            sleep = asyncio.sleep if self._retry.sleep is None else self._retry.sleep
            await sleep(wait_s)

    def _send(self, request: ModelRequest, until: float, deadline_s: float) -> ResponseStream:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise CallTimeout(f"No answer from the model '{self.name}' within {deadline_s:g} s.")
        url = self._wire.url(request)
        return self._http_client.stream(
            "POST",
            url,
            rules=_rules_for(url).replace(timeout_s=left_s),
            headers=self._wire.headers(self._key()),
            json=self._secrets.mask_value(self._wire.body(request)),
        )

    def _key(self) -> str | None:
        """Return the secret that the model's `key` names."""
        if self.model.key is None:
            if self._wire.needs_key and self.model.base_url is None:
                raise MissingSecret(
                    f"The model '{self.name}' needs a key.",
                    hint=f"Write 'key: NAME' into it ({self.model.where}), and NAME into secrets.yaml.",
                )
            return None
        found = self._secrets.get(self.model.key)
        if found is None or not found.strip():
            named = self._secrets.mask(values.cut(self.model.key, 80))
            raise MissingSecret(
                f"There is no secret '{named}', which is the key of the model '{self.name}'.",
                hint=f"'key' is the NAME of a secret: write '{named}: <the key>' into secrets.yaml.",
            )
        return found.strip()

    def _wait_s(self, stream: ResponseStream, attempt: int, until: float) -> float | None:
        """Return how long to wait before another try, or None if this response counts."""
        if stream.status not in TRANSIENT_STATUSES or attempt >= _TRIES:
            return None
        wait_s = self._retry.wait_s(attempt, stream.headers)
        return wait_s if time.monotonic() + wait_s < until else None

    async def _read(
        self, stream: ResponseStream, request: ModelRequest, reader: ReplyReader, attempt: int
    ) -> AsyncGenerator[str, None]:
        """Read a reply, whole or piece by piece. Gives the new text of each piece."""
        if stream.status >= 300:
            raise _refused(self.model, await _error_reply(stream), attempt)
        is_json = self._wire.is_sse and "application/json" in stream.headers.get("content-type", "")
        if not request.is_streamed or is_json:
            _parsed(reader.whole, self._checked((await stream.aread()).json()))
            if request.is_streamed and reader.text:  # a server that does not stream
                yield reader.text
            return
        decoder = _StreamDecoder(is_sse=self._wire.is_sse)
        reader.has_begun = True
        async with aclosing(stream.alines()) as lines:  # type: ignore[type-var]  # an async generator has aclose
            async for line in lines:
                for data in decoder.feed(line):
                    if text := _parsed(reader.piece, self._checked(data)):
                        yield text
                if decoder.is_over or reader.is_closed:
                    return
        for data in decoder.finish():
            if text := _parsed(reader.piece, self._checked(data)):
                yield text
        if not (decoder.is_over or reader.is_complete):
            raise ExecutionFailed(
                f"The reply of the model '{self.name}' broke off after {len(reader.text):,} characters.",
                hint="Ask again.",
            )

    def _checked(self, data: Any) -> dict[str, Any]:
        """Return a part of a reply if it is an object and reports no error."""
        if not isinstance(data, dict):
            raise InvalidOutput(f"The reply of the model '{self.name}' is not a JSON object.")
        if error := _error_text(data) if data.get("error") else "":
            raise ExecutionFailed(f"The model '{self.name}' failed: {error}")
        return data

    def _masked(self, exc: CallFailure, reader: ReplyReader) -> CallFailure:
        """Return the failure without secrets, with the text that came before it."""
        mask = self._secrets.mask
        exc.message, exc.hint = mask(exc.message), mask(exc.hint)
        exc.args = (exc.message,)
        if reader.text:
            known = exc.details if isinstance(exc.details, dict) else {}
            exc.details = {**known, "text": reader.text}
        return exc


class _ModelConnection:
    """The connection of one request. Lives on its loop; can be cut from outside at any moment.

    An interrupt may come before it is known which work is under way, so cancelling that work would not be enough.
    """

    def __init__(self) -> None:
        self._stream: ResponseStream | None = None
        self._is_cut = False

    def hold(self, stream: ResponseStream) -> ResponseStream:
        if self._is_cut:
            raise CallCancelled("The model is no longer asked.")
        self._stream = stream
        return stream

    async def cut(self, replies: AsyncGenerator[Any, None]) -> None:
        self._is_cut = True
        if self._stream is not None:
            self._stream.close()
        with suppress(RuntimeError):  # it is running, and ends since its stream is closed
            await replies.aclose()


class _StreamDecoder:
    """Decodes the lines of a streamed reply into JSON objects: server-sent events, or one object per line.

    The lines come from our own size-limited stream, so the SSE part is the joining of `data:` lines alone (httpx-sse
    reads httpx responses and is no faster). `is_over` is set when the server says that the stream is done.
    """

    def __init__(self, *, is_sse: bool) -> None:
        self.is_over = False
        self._is_sse = is_sse
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[dict[str, Any]]:
        """Take a line, without its end."""
        if not self._is_sse:
            yield from self._objects(line)
        elif not line:
            yield from self.finish()
        elif line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Take the end of an event, or of the stream."""
        text, self._data = "\n".join(self._data), []
        yield from self._objects(text)

    def _objects(self, text: str) -> Iterator[dict[str, Any]]:
        if not text.strip() or self.is_over:
            return
        if text.strip() == "[DONE]":
            self.is_over = True
            return
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidOutput("A part of the model's reply is not JSON.", hint="Ask again.") from None
        if not isinstance(found, dict):
            raise InvalidOutput("A part of the model's reply is not a JSON object.", hint="Ask again.")
        yield found


def _parsed(parse: Callable[..., Any], *data: dict[str, Any]) -> Any:
    """Parse a part of a reply. Raises InvalidOutput if it does not have its provider's form."""
    try:
        return parse(*data)
    except (AttributeError, TypeError, KeyError, ValueError) as exc:
        if isinstance(exc, CallFailure):
            raise
        raise InvalidOutput("The model's reply is not in its provider's format.", hint="Check 'provider'.") from None


def _rules_for(url: str) -> Rules:
    """Return the rules for requests to a model: its own host and port only, which may be private."""
    try:
        origin = origin_of(httpx.URL(url))
    except httpx.InvalidURL as exc:
        raise InvalidConfig(f"The model's base_url is not valid: {exc}") from None
    except OneToolError as exc:
        raise InvalidConfig(f"The model's base_url cannot be used: {exc.message}", hint=exc.hint) from None
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return Rules(
        hosts=Hosts([f"{host}:{origin.port}"]), allow_private=True, max_bytes=_MAX_BYTES, tries=1, max_redirects=0
    )


async def _error_reply(stream: ResponseStream) -> HttpResponse:
    """Read the body of an error response; it is empty if it does not arrive."""
    try:
        return await stream.aread()
    except CallFailure:
        return HttpResponse(stream.status, stream.headers, b"", stream.url)


def _refused(model: Model, reply: HttpResponse, attempts: int) -> CallFailure:
    """Return the failure for an error response."""
    status = reply.status
    text = _error_text(_error_body(reply))
    kind: type[CallFailure] = {429: RateLimited, 413: TooLarge}.get(status, ExecutionFailed)
    return kind(
        f"The model '{model.name}' answered {status}" + (f": {text}" if text else "."),
        hint=_hint(model, reply),
        details={"status": status, "attempts": attempts},
    )


def _error_text(data: Any) -> str:
    """Return the text of an error on one line, or an empty text."""
    found = data.get("error") if isinstance(data, dict) else data
    if isinstance(found, dict):
        found = found.get("message") or found.get("type") or found
    if found is None or found == "":
        return ""
    text = found if isinstance(found, str) else json.dumps(found, default=str)
    return values.cut(" ".join(text.split()), _MAX_TEXT)


def _error_body(reply: HttpResponse) -> Any:
    if not reply.is_json:
        return reply.text if reply.mime == "text/plain" else None
    try:
        found = reply.json()
    except CallFailure:
        return reply.text
    return found[0] if isinstance(found, list) and found else found  # Gemini's streams answer with a list


def _hint(model: Model, reply: HttpResponse) -> str:
    status = reply.status
    if status in (401, 403):
        where = f"the secret '{model.key}'" if model.key else "that the model has a 'key: SECRET_NAME'"
        return f"Check {where} in the configuration."
    if status == 404:
        return f"Check 'model: {model.model}' and its base_url in onetool.yaml."
    if status == 429 and (wait := reply.headers.get("retry-after")):
        return f"It says: try again in {wait}" + (" s." if wait.isdigit() else ".")
    if 300 <= status < 400:
        return "It is elsewhere: write its real address as base_url."
    return "Try again later." if status >= 500 or status == 429 else ""
