"""The HTTP client of a configured model, for every wire format; and `open_model`, which finds it by
name.

One coroutine on the background loop does everything: retries, deadline, the pieces of text, the
turn at its end. Pieces go back through a queue, so that `on_text` runs in the calling thread
(`complete`) or task (`acomplete`). An HTTP status or an error inside a reply becomes one of our
failures here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import httpx

from onetool_ipy.base import values
from onetool_ipy.base.background import SIGNAL_CHECK_S, Background
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
from onetool_ipy.base.printable import visible
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.config.settings import Model, Models
from onetool_ipy.core.tracing import Attributes, traced_work
from onetool_ipy.llm.messages import (
    DEADLINE_S,
    ImageLimits,
    Message,
    ModelClient,
    OfferedTool,
    OnText,
    Turn,
)
from onetool_ipy.llm.wire import (
    Anthropic,
    Gemini,
    ModelRequest,
    Ollama,
    OpenAi,
    ReplyReader,
    WireFormat,
)
from onetool_ipy.net.client import HttpClient, Retry, Rules, headers_of
from onetool_ipy.net.hosts import Hosts, origin_of
from onetool_ipy.net.response import ConnectionFailed, HttpResponse, masked

_FORMATS: Mapping[str, WireFormat] = {
    wire.provider: wire for wire in (OpenAi(), Ollama(), Gemini(), Anthropic())
}
_TRIES = 3
_MAX_BYTES = 32 * 1024 * 1024
_MAX_TEXT = 300
_MAX_LISTED, _MAX_NAME = 1_000, 200
_HOW_TO = """Write in onetool.yaml, then run ot.reload():
models:
  default: local
  local: {provider: ollama, base_url: "http://127.0.0.1:11434", model: qwen3}"""
_DEFAULT = "Write 'default: NAME' under 'models' in onetool.yaml."


def default_url(provider: str) -> str:
    """Return the base_url of a provider's own models; empty for an unknown provider."""
    wire = _FORMATS.get(provider)
    return "" if wire is None else wire.default_url


def listed_models(
    provider: str, key: str | None, http_client: HttpClient, base_url: str = ""
) -> list[str]:
    """Return the models that a provider lists for a key, the newest first where it says how old
    they are.

    Raises CallFailure.
    """
    wire = _FORMATS[provider]
    url = wire.models_url(base_url or wire.default_url)
    response = http_client.request("GET", url, rules=_rules_for(url), headers=wire.headers(key))
    if response.status != 200:
        text = _error_text(_error_body(response))
        raise ExecutionFailed(
            f"The list of models was answered with {response.status}"
            + (f": {text}" if text else ".")
        )
    return model_names(response)


def require_address(url: str) -> None:
    """Raise InvalidConfig for the base_url of a model that no request could be sent to."""
    _rules_for(url)


def model_names(response: HttpResponse) -> list[str]:
    """Return the names in a list of models, in the form of any provider; empty if the response is
    not one."""
    try:
        data: Any = response.json() if response.status == 200 else {}
    except CallFailure:
        return []
    rows = (data.get("models") or data.get("data")) if isinstance(data, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if all(type(row.get("created")) is int for row in rows):
        rows.sort(key=lambda row: -row["created"])
    names = [row.get("name") or row.get("id") for row in rows[:_MAX_LISTED]]
    return list(
        dict.fromkeys(
            name.removeprefix("models/")
            for name in names
            if isinstance(name, str)
            and name.strip()
            and len(name) <= _MAX_NAME
            and visible(name) == name
        )
    )


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
        missing = "" if which is None else f"No model '{values.cut(str(which), 80)}'. "
        raise UsageProblem(f"{missing}No model is configured.", hint=_HOW_TO)
    configured = ", ".join(f"'{name}'" for name in models.named)
    name = models.default if which is None else which
    if name is None:
        raise UsageProblem(
            "No model was named, and there is no default.",
            hint=f"{_DEFAULT} Configured: {configured}.",
        )
    model = models.named.get(name)
    if model is None:
        near = did_you_mean(name, models.named)
        text = f"No model '{values.cut(name, 80)}'." + (f" {near}" if near else "")
        raise UsageProblem(text, hint=f"Configured: {configured}.")
    return HttpModelClient(model, secrets=secrets, http_client=http_client, background=background)


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

    def image_limits(self) -> ImageLimits | None:
        """Return what images the model takes, or None if it takes none. Ollama is asked what its
        model can do."""
        takes_images = self.model.images
        if takes_images is None and isinstance(self._wire, Ollama):
            takes_images = self._can_see(self._wire)
        return None if takes_images is False else self._wire.image_limits

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
            raise UsageProblem(
                "A model cannot be asked here without blocking.", hint="Use `await acomplete(...)`."
            )
        request = self._request(messages, tools, on_text, max_tokens)
        pieces: SimpleQueue[str | None] = SimpleQueue()
        with self._running(request, deadline_s, pieces.put) as future:
            while (piece := _next_piece(pieces)) is not None:
                if on_text is not None:
                    on_text(piece)
            turn: Turn = future.result()
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
        """`complete` without blocking the event loop, on any loop."""
        request = self._request(messages, tools, on_text, max_tokens)
        if self._background.is_here():
            return await self._reply(request, deadline_s, on_text or (lambda _piece: None))
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def put(piece: str | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        with self._running(request, deadline_s, put) as future:
            while (piece := await pieces.get()) is not None:
                if on_text is not None:
                    on_text(piece)
            turn: Turn = future.result()
        return turn

    @contextmanager
    def _running(
        self, request: ModelRequest, deadline_s: float, put: Callable[[str | None], None]
    ) -> Iterator[Future[Any]]:
        """Ask on the background loop while the block runs. `put` gets each piece of text, and None
        at the end."""
        running = self._background.submit(lambda: self._reply(request, deadline_s, put))
        running.future.add_done_callback(lambda _: put(None))
        try:
            yield running.future
        except CancelledError:  # the toolbox was closed meanwhile
            raise CallCancelled("The model is no longer asked.") from None
        except BaseException:
            self._background.abandon(running)
            raise

    def __repr__(self) -> str:
        return (
            f"<HttpModelClient {self.model.name!r}: {self.model.model!r} by {self.model.provider}>"
        )

    def _can_see(self, wire: Ollama) -> bool | None:
        """Whether a model of Ollama has the capability "vision"; None if the server does not
        say."""
        url = f"{wire.root(self.model.base_url or wire.default_url)}/api/show"
        try:
            body = {"model": self.model.model}
            response = self._http_client.request(
                "POST", url, rules=_rules_for(url), headers=wire.headers(self._key()), json=body
            )
            data = response.json() if response.status == 200 else None
        except CallFailure:
            return None
        capabilities = data.get("capabilities") if isinstance(data, dict) else None
        return "vision" in capabilities if isinstance(capabilities, list) else None

    def _request(
        self,
        messages: Sequence[Message],
        tools: Sequence[OfferedTool],
        on_text: OnText | None,
        max_tokens: int | None,
    ) -> ModelRequest:
        model = self.model
        url = model.base_url or self._wire.default_url
        is_streamed = on_text is not None
        return ModelRequest(
            url, model.model, tuple(messages), tuple(tools), max_tokens, is_streamed, model.options
        )

    async def _reply(self, request: ModelRequest, deadline_s: float, on_text: OnText) -> Turn:
        # The conventions of OpenTelemetry have another name for one of the providers.
        provider = "gcp.gemini" if self.model.provider == "gemini" else self.model.provider
        attributes: Attributes = {
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": self.model.model,
        }
        with traced_work("chat", self.model.model, attributes) as ended:
            turn = await self._ask(request, deadline_s, on_text)
            ended["gen_ai.usage.input_tokens"] = turn.usage.input
            ended["gen_ai.usage.output_tokens"] = turn.usage.output
            ended["gen_ai.response.finish_reasons"] = (turn.stop,)
        return turn

    async def _ask(self, request: ModelRequest, deadline_s: float, on_text: OnText) -> Turn:
        """Ask until a reply counts, and read it. Runs on the background loop; `on_text` gets each
        new piece of text.

        A request is repeated only as long as nothing of a reply was read.
        """
        until = time.monotonic() + deadline_s
        attempt = 0
        reader = self._wire.reader(request, self._wire.provider)
        failure: CallFailure
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    attempt += 1
                    try:
                        async with self._send(request) as response:
                            wait_s = self._wait_s(response, attempt, until)
                            if wait_s is None:
                                await self._read(response, request, reader, attempt, on_text)
                                turn: Turn = _parsed(reader.turn)
                                return turn
                    except ConnectionFailed:
                        wait_s = self._retry.wait_s(attempt)
                        if (
                            attempt >= _TRIES
                            or reader.has_begun
                            or time.monotonic() + wait_s >= until
                        ):
                            raise
                    await self._retry.asleep(wait_s)
        except TimeoutError:
            failure = CallTimeout(
                f"The model '{self.name}' did not answer within {deadline_s:g} s.",
                hint="Ask for less, or raise 'ask.max_seconds' in onetool.yaml.",
            )
        except CallFailure as exc:
            failure = exc
        failure = masked(failure, self._secrets.mask)
        if reader.text:
            details = failure.details if isinstance(failure.details, dict) else {}
            failure.details = {**details, "text": reader.text}
        raise failure

    def _send(self, request: ModelRequest) -> AbstractAsyncContextManager[httpx.Response]:
        url = self._wire.url(request)
        headers, body = (
            self._wire.headers(self._key()),
            self._secrets.mask_value(self._wire.body(request)),
        )
        return self._http_client.stream(
            "POST", url, rules=_rules_for(url), headers=headers, json=body
        )

    def _key(self) -> str | None:
        """Return the secret that the model's `key` names."""
        if self.model.key is None:
            if self._wire.needs_key and self.model.base_url is None:
                raise MissingSecret(
                    f"The model '{self.name}' needs a key.",
                    hint=(
                        f"Write 'key: NAME' into it ({self.model.where}), and NAME into"
                        " secrets.yaml."
                    ),
                )
            return None
        secret = self._secrets.key_of_model(self.model.key)
        if secret is None or not secret.strip():
            key_name = self._secrets.mask(values.cut(self.model.key, 80))
            raise MissingSecret(
                f"There is no secret '{key_name}', which is the key of the model '{self.name}'.",
                hint=(
                    f"'key' is the NAME of a secret: write '{key_name}: <the key>' into"
                    " secrets.yaml."
                ),
            )
        return secret.strip()

    def _wait_s(self, response: httpx.Response, attempt: int, until: float) -> float | None:
        """Return how long to wait before another try, or None if this response counts."""
        if response.status_code not in TRANSIENT_STATUSES or attempt >= _TRIES:
            return None
        wait_s = self._retry.wait_s(attempt, response.headers)
        return wait_s if time.monotonic() + wait_s < until else None

    async def _read(
        self,
        response: httpx.Response,
        request: ModelRequest,
        reader: ReplyReader,
        attempt: int,
        on_text: OnText,
    ) -> None:
        """Read a reply, whole or piece by piece."""
        if response.status_code >= 300:
            # The status counts, also where the words of the error do not arrive.
            body = b""
            with suppress(CallFailure):
                body = await response.aread()
            raise _refused(self.model, _whole(response, body), attempt)
        is_json = self._wire.is_sse and "application/json" in response.headers.get(
            "content-type", ""
        )
        if not request.is_streamed or is_json:
            _parsed(reader.whole, self._checked(_whole(response, await response.aread()).json()))
            # A server that cannot stream answers at once, though it was asked for a stream.
            if request.is_streamed and reader.text:
                on_text(reader.text)
            return
        decoder = _StreamDecoder(is_sse=self._wire.is_sse)
        reader.has_begun = True
        async for text in response.aiter_text():
            for data in decoder.feed(text):
                if piece := _parsed(reader.piece, self._checked(data)):
                    on_text(piece)
            if decoder.is_over or reader.is_closed:
                return
        for data in decoder.finish():
            if piece := _parsed(reader.piece, self._checked(data)):
                on_text(piece)
        if not (decoder.is_over or reader.is_complete):
            raise ExecutionFailed(
                f"The reply of the model '{self.name}' broke off after {len(reader.text):,}"
                " characters.",
                hint="Ask again.",
            )

    def _checked(self, data: object) -> dict[str, Any]:
        """Return a part of a reply if it is an object and reports no error."""
        if not isinstance(data, dict):
            raise InvalidOutput(f"The reply of the model '{self.name}' is not a JSON object.")
        if error := _error_text(data) if data.get("error") else "":
            raise ExecutionFailed(f"The model '{self.name}' failed: {error}")
        return data


class _StreamDecoder:
    """Decodes the text of a streamed reply into JSON objects: server-sent events, or one object per
    line.

    A line ends at a line feed. httpx's own lines end at U+2028, too, which JSON may hold. `is_over`
    is set when the server says that the stream is done.
    """

    def __init__(self, *, is_sse: bool) -> None:
        self.is_over = False
        self._is_sse = is_sse
        self._rest = ""
        self._data: list[str] = []

    def feed(self, text: str) -> Iterator[dict[str, Any]]:
        """Take the next piece of text, wherever it ends."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            yield from self._line(line.removesuffix("\r"))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Take the end of the stream."""
        yield from self._line(self._rest.removesuffix("\r"))
        yield from self._event()

    def _line(self, line: str) -> Iterator[dict[str, Any]]:
        if not self._is_sse:
            yield from self._objects(line)
        elif not line:
            yield from self._event()
        elif line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))

    def _event(self) -> Iterator[dict[str, Any]]:
        text, self._data = "\n".join(self._data), []
        yield from self._objects(text)

    def _objects(self, text: str) -> Iterator[dict[str, Any]]:
        if not text.strip() or self.is_over:
            return
        if text.strip() == "[DONE]":
            self.is_over = True
            return
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidOutput(
                "A part of the model's reply is not JSON.", hint="Ask again."
            ) from None
        if not isinstance(data, dict):
            raise InvalidOutput(
                "A part of the model's reply is not a JSON object.", hint="Ask again."
            )
        yield data


def _next_piece(pieces: SimpleQueue[str | None]) -> str | None:
    """Wait for the next piece, a little at a time: Python handles a signal that comes just before a
    wait at its end."""
    while True:
        with suppress(Empty):
            return pieces.get(timeout=SIGNAL_CHECK_S)


def _whole(response: httpx.Response, body: bytes) -> HttpResponse:
    return HttpResponse(
        status=response.status_code, headers=headers_of(response), body=body, url=str(response.url)
    )


def _parsed(parse: Callable[..., Any], *data: dict[str, Any]) -> Any:
    """Parse a part of a reply. Raises InvalidOutput if it does not have its provider's form."""
    try:
        return parse(*data)
    except (AttributeError, TypeError, KeyError, ValueError) as exc:
        if isinstance(exc, CallFailure):
            raise
        raise InvalidOutput(
            "The model's reply is not in its provider's format.", hint="Check 'provider'."
        ) from None


def _rules_for(url: str) -> Rules:
    """Return the rules for requests to a model: its own host and port only, which may be
    private."""
    try:
        origin = origin_of(httpx.URL(url))
    except httpx.InvalidURL as exc:
        raise InvalidConfig(f"The model's base_url is not valid: {exc}") from None
    except OneToolError as exc:
        raise InvalidConfig(
            f"The model's base_url cannot be used: {exc.message}", hint=exc.hint
        ) from None
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return Rules(
        hosts=Hosts([f"{host}:{origin.port}"]),
        allow_private=True,
        max_bytes=_MAX_BYTES,
        tries=1,
        max_redirects=0,
    )


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


def _error_text(data: object) -> str:
    """Return the text of an error on one line, or an empty text."""
    error = data.get("error") if isinstance(data, dict) else data
    if isinstance(error, dict):
        error = error.get("message") or error.get("type") or error
    if error is None or error == "":
        return ""
    text = error if isinstance(error, str) else json.dumps(error, default=str)
    return values.cut(" ".join(text.split()), _MAX_TEXT)


def _error_body(reply: HttpResponse) -> Any:
    if not reply.is_json:
        return reply.text if reply.mime == "text/plain" else None
    try:
        data = reply.json()
    except CallFailure:
        return reply.text
    # Gemini answers a request for a stream with a list of one error.
    return data[0] if isinstance(data, list) and data else data


def _hint(model: Model, reply: HttpResponse) -> str:
    status = reply.status
    if status in (401, 403):
        where = (
            f"the secret '{model.key}'" if model.key else "that the model has a 'key: SECRET_NAME'"
        )
        return f"Check {where} in the configuration."
    if status == 404:
        return f"Check 'model: {model.model}' and its base_url in onetool.yaml."
    if status == 429 and (wait := reply.headers.get("retry-after")):
        return f"It says: try again in {wait}" + (" s." if wait.isdigit() else ".")
    if 300 <= status < 400:
        return "It is elsewhere: write its real address as base_url."
    return "Try again later." if status >= 500 or status == 429 else ""
