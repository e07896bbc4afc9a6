"""Where a model is reached: the configured base_url, in any of the ways people write it. Pure.

OpenAI-compatible servers (vLLM, llama.cpp, LM Studio) are told with or without `/v1`; a whole endpoint pasted from a
manual is understood too.

Lines of a streamed reply -> the JSON objects in it: server-sent events, or one object per line. Pure.

What a model's server said no with: HTTP statuses and errors inside a reply, in our words. Pure.

What a wire format must offer, and what all of them share: reading of JSON arguments, ids, text of an outcome.

A `Wire` is pure: it writes a request's body and reads replies, and never sends anything. `Reading` takes the pieces of
one reply, streamed or whole, and ends as a Turn.

Client: sends a conversation by HTTP and reads the reply, whatever the wire format.

One async generator does it all: tries, deadline, pieces of text, the turn at its end. `complete` pulls it from a
thread, piece by piece, so that `on_text` runs where the asking code runs; `acomplete` from a task. A try is made again
only as long as nothing of a reply was read.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.background import Background
from onetool_ipy.base.errors import (
    CallCancelled,
    CallFailure,
    CallTimeout,
    ExecutionFailed,
    InvalidOutput,
    MissingSecret,
    UnknownProvider,
    UsageProblem,
)
from onetool_ipy.base.masking import Secrets
from onetool_ipy.config.settings import Model
from onetool_ipy.llm.formats import OfferedTool
from onetool_ipy.llm.messages import Message, Turn
from onetool_ipy.llm.models import DEADLINE_S, OnText
from onetool_ipy.llm.models.anthropic import Anthropic
from onetool_ipy.llm.models.gemini import Gemini
from onetool_ipy.llm.models.ollama import Ollama
from onetool_ipy.llm.models.openai import OpenAi
from onetool_ipy.llm.models.wire import (
    ModelRequest,
    ReplyReader,
    StreamDecoder,
    WireFormat,
    may_pass,
    refused,
    rules_for,
    words_of,
)
from onetool_ipy.net.body import HttpResponse
from onetool_ipy.net.client import HttpClient, Retry
from onetool_ipy.net.errors import ConnectionFailed

if TYPE_CHECKING:
    from onetool_ipy.net.body import ResponseStream

__all__ = ["HttpModelClient", "default_url"]


_WIRES: Mapping[str, Callable[[], WireFormat]] = {
    "openai": OpenAi,
    "ollama": Ollama,
    "gemini": Gemini,
    "anthropic": Anthropic,
}


def default_url(provider: str) -> str:
    """Where a provider's models are where no base_url is set; empty for an unknown one."""
    make = _WIRES.get(provider)
    return "" if make is None else make().default_url


_TRIES = 3


class HttpModelClient:
    """A configured model that can be asked."""

    def __init__(
        self,
        model: Model,
        *,
        secrets: Secrets,
        http_client: HttpClient,
        background: Background,
        retry: Retry | None = None,
    ) -> None:
        make = _WIRES.get(model.provider)
        if make is None:
            raise UnknownProvider(f"The provider {model.provider!r} is not supported.")
        self.model = model
        self._wire = make()
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
        """Send a conversation and wait for the reply. Raises a CallFailure where there is none."""
        if self._background.is_here():
            raise UsageProblem("A model cannot be asked here without blocking.", hint="Use `await acomplete(...)`.")
        line = _Line()
        talk = self._talk(self._ask(messages, tools, on_text, max_tokens), deadline_s, line)
        try:
            while not isinstance(said := self._background.run(talk.__anext__), Turn):
                _tell(on_text, said)
            return said
        except BaseException:
            self._background.submit(lambda: line.cut(talk))
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
        ask = self._ask(messages, tools, on_text, max_tokens)
        async with aclosing(self._talk(ask, deadline_s, _Line())) as talk:
            async for said in talk:
                if isinstance(said, Turn):
                    return said
                _tell(on_text, said)
        raise AssertionError("a talk ends with a turn or a failure")

    def __repr__(self) -> str:
        return f"<Client {self.model.name!r}: {self.model.model!r} by {self.model.provider}>"

    def _ask(
        self, messages: Sequence[Message], tools: Sequence[OfferedTool], on_text: OnText | None, max_tokens: int | None
    ) -> ModelRequest:
        url = self.model.base_url or self._wire.default_url
        return ModelRequest(
            url, self.model.model, tuple(messages), tuple(tools), max_tokens, on_text is not None, self.model.options
        )

    async def _talk(self, ask: ModelRequest, deadline_s: float, line: _Line) -> AsyncGenerator[str | Turn, None]:
        """The pieces of text as they come, where it is streamed; at last the turn."""
        until = time.monotonic() + deadline_s
        attempt = 0
        while True:
            attempt += 1
            reading = self._wire.reading(ask)
            try:
                async with line.hold(self._sent(ask, until, deadline_s)) as reply:
                    wait_s = self._wait_s(reply, attempt, until)
                    if wait_s is None:
                        async with aclosing(self._read(reply, ask, reading, attempt)) as pieces:
                            async for piece in pieces:
                                yield piece
                        yield _taken(reading.turn)
                        return
            except ConnectionFailed as exc:
                wait_s = self._retry.wait_s(attempt)
                if attempt >= _TRIES or reading.has_begun or time.monotonic() + wait_s >= until:
                    raise self._told(exc, reading) from None
            except CallFailure as exc:
                raise self._told(exc, reading) from None
            await self._retry.sleep(wait_s)

    def _sent(self, ask: ModelRequest, until: float, deadline_s: float) -> ResponseStream:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise CallTimeout(f"No answer from the model '{self.name}' within {deadline_s:g} s.")
        url = self._wire.url(ask)
        return self._http_client.stream(
            "POST",
            url,
            rules=rules_for(url).replace(timeout_s=left_s),
            headers=self._wire.headers(self._key()),
            json=self._secrets.mask_value(self._wire.body(ask)),
        )

    def _key(self) -> str | None:
        """The value of the secret that the model's `key` names."""
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

    def _wait_s(self, reply: ResponseStream, attempt: int, until: float) -> float | None:
        """How long to wait before another try; None where this one counts."""
        if not may_pass(reply.status) or attempt >= _TRIES:
            return None
        wait_s = self._retry.wait_s(attempt, reply.headers)
        return wait_s if time.monotonic() + wait_s < until else None

    async def _read(
        self, reply: ResponseStream, ask: ModelRequest, reading: ReplyReader, attempt: int
    ) -> AsyncGenerator[str, None]:
        """Read a reply, whole or piece by piece; gives the new text of each."""
        if reply.status >= 300:
            raise refused(self.model, await _rest(reply), attempt)
        if not ask.is_streamed or (self._wire.is_sse and "application/json" in reply.headers.get("content-type", "")):
            _taken(reading.whole, self._checked((await reply.aread()).json()))
            if ask.is_streamed and reading.text:  # a server that does not stream
                yield reading.text
            return
        pieces = StreamDecoder(is_sse=self._wire.is_sse)
        reading.has_begun = True
        async with aclosing(reply.alines()) as lines:  # type: ignore[type-var]  # an async generator has aclose
            async for line in lines:
                for data in pieces.feed(line):
                    if text := _taken(reading.piece, self._checked(data)):
                        yield text
                if pieces.is_over or reading.is_ended:
                    return
        for data in pieces.finish():
            if text := _taken(reading.piece, self._checked(data)):
                yield text
        if not (pieces.is_over or reading.is_over):
            raise ExecutionFailed(
                f"The reply of the model '{self.name}' broke off after {len(reading.text):,} characters.",
                hint="Ask again.",
            )

    def _checked(self, data: Any) -> dict[str, Any]:
        """A part of a reply that is an object and tells of no error."""
        if not isinstance(data, dict):
            raise InvalidOutput(f"The reply of the model '{self.name}' is not a JSON object.")
        if said := words_of(data) if data.get("error") else "":
            raise ExecutionFailed(f"The model '{self.name}' failed: {said}")
        return data

    def _told(self, exc: CallFailure, reading: ReplyReader) -> CallFailure:
        """The failure with what had been said before it, without secrets."""
        mask = self._secrets.mask
        exc.message, exc.hint = mask(exc.message), mask(exc.hint)
        exc.args = (exc.message,)
        if reading.text:
            known = exc.details if isinstance(exc.details, dict) else {}
            exc.details = {**known, "text": reading.text}
        return exc


class _Line:
    """The connection of one talk, which can be cut from outside, wherever the talk is; lives on its loop.

    An interrupt may come at any moment, also before it is known which work is under way: cancelling that work would
    not be enough.
    """

    def __init__(self) -> None:
        self._stream: ResponseStream | None = None
        self._is_cut = False

    def hold(self, stream: ResponseStream) -> ResponseStream:
        if self._is_cut:
            raise CallCancelled("The model is no longer asked.")
        self._stream = stream
        return stream

    async def cut(self, talk: AsyncGenerator[Any, None]) -> None:
        self._is_cut = True
        if self._stream is not None:
            self._stream.close()
        with suppress(RuntimeError):  # it is running, and ends by what was closed
            await talk.aclose()


def _tell(on_text: OnText | None, text: str) -> None:
    if on_text is not None:
        on_text(text)


def _taken(take: Callable[..., Any], *data: dict[str, Any]) -> Any:
    """Read a part of a reply; one that is made otherwise than its provider says is no reply."""
    try:
        return take(*data)
    except (AttributeError, TypeError, KeyError, ValueError) as exc:
        if isinstance(exc, CallFailure):
            raise
        raise InvalidOutput("The model's reply is not of its provider's form.", hint="Check 'provider'.") from None


async def _rest(reply: ResponseStream) -> HttpResponse:
    """The words that come with a status; none where they do not come."""
    try:
        return await reply.aread()
    except CallFailure:
        return HttpResponse(reply.status, reply.headers, b"", reply.url)
