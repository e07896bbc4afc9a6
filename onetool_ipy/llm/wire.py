"""The wire formats of the providers: OpenAI, Ollama, Gemini, Anthropic. Pure: nothing here sends
anything.

A `WireFormat` writes the address, headers and body of a request. Its `ReplyReader` takes a reply,
whole or in pieces, and ends as a `Turn`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidOutput
from onetool_ipy.base.values import Json
from onetool_ipy.llm.answer_type import is_strict
from onetool_ipy.llm.formats import declare, object_schema
from onetool_ipy.llm.messages import (
    Call,
    ImageLimits,
    Message,
    OfferedTool,
    Outcome,
    Outcomes,
    Stop,
    System,
    TokenUsage,
    Turn,
    User,
)

Images = tuple[tuple[str, str], ...]

_STOPS: Mapping[str, Stop] = {
    # OpenAI; Ollama has "stop" and "length" of these.
    "stop": "done",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "cut",
    "content_filter": "refused",
    "refusal": "refused",
    # Anthropic, which also says "refusal".
    "end_turn": "done",
    "stop_sequence": "done",
    "tool_use": "calls",
    "max_tokens": "cut",
    "model_context_window_exceeded": "cut",
    # Gemini
    "STOP": "done",
    "MAX_TOKENS": "cut",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "LANGUAGE": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "IMAGE_SAFETY": "refused",
    "IMAGE_PROHIBITED_CONTENT": "refused",
    "IMAGE_RECITATION": "refused",
}
"""What the providers' words for the end of a reply mean. No two providers use one word for
different ends."""
_LIMITS = frozenset(("max_tokens", "max_completion_tokens", "num_predict", "maxOutputTokens"))
_ANTHROPIC_VERSION = "2023-06-01"
_ANTHROPIC_MAX_TOKENS = 4096
_OLLAMA_TOP_LEVEL = frozenset(("think", "keep_alive", "format"))
"""Options of the body itself; the others go into its `options`."""


class ModelRequest(NamedTuple):
    """One request, independent of any provider."""

    base_url: str
    model: str
    messages: Sequence[Message]
    tools: Sequence[OfferedTool]
    max_tokens: int | None
    is_streamed: bool
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def forbids_calls(self) -> bool:
        """Whether the model must answer without calls, though tools are declared."""
        last = self.messages[-1] if self.messages else None
        return isinstance(last, User) and last.forbids_calls

    @property
    def answer_schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema for the answer, which the last message of the person carries."""
        prompts = (
            m
            for m in reversed(self.messages)
            if isinstance(m, User) and (m.schema or not m.forbids_calls)
        )
        prompt = next(prompts, None)
        return None if prompt is None else prompt.schema

    @property
    def final_schema(self) -> Mapping[str, Any] | None:
        """The schema for the answer, unless the reply may hold calls: for providers that cannot
        offer both."""
        return self.answer_schema if self.forbids_calls or not self.tools else None


class ReplyReader:
    """Reads one reply: `whole` takes it at once, `piece` takes each part of a stream.

    A subclass collects `text`, calls, `usage` and `stop`. It sets `is_complete` when the turn is
    complete; a stream without it was cut off. It sets `is_closed` when nothing more will come,
    though the connection may stay open.
    """

    def __init__(self, request: ModelRequest, provider: str) -> None:
        self.text = ""
        self.usage = TokenUsage()
        self.stop: Stop | None = None
        self.stop_word = ""
        self.is_complete = False
        self.is_closed = False
        self.has_begun = False
        self._messages = request.messages
        self._provider = provider
        self._calls: list[tuple[str, str, Json | str]] = []

    def piece(self, data: Json) -> str:
        """Take a part of a streamed reply. Returns the new text."""
        raise NotImplementedError

    def whole(self, data: Json) -> None:
        """Take a reply that was read at once."""
        self.piece(data)
        self.is_complete = True

    def parts(self) -> Sequence[Json]:
        """Return the reply in the provider's format, if the provider wants it back."""
        return ()

    def finish(self) -> None:
        """Called once when everything was read."""

    def add(self, call_id: object, name: object, arguments: object) -> None:
        """Add a call that the model asks for."""
        self._calls.append(
            (call_id if isinstance(call_id, str) else "", str(name), arguments_of(arguments))
        )

    def end(self, word: str, stop: Stop | None = None) -> None:
        """Take the provider's word for the end of the reply. `stop` is what it means, if `_STOPS`
        does not say."""
        self.stop_word = word
        self.stop = stop or _STOPS.get(word, "other")

    def turn(self) -> Turn:
        """Return the reply as a turn. Raises InvalidOutput if it is empty for no reason that we
        know."""
        self.finish()
        stop: Stop = self.stop or "other"
        if stop == "other" and not self.text and not self._calls:
            reason = (
                f"it ended with '{values.cut(self.stop_word, 80)}'"
                if self.stop_word
                else "the reply has no choices"
            )
            raise InvalidOutput(f"The model gave no answer: {reason}.", hint="Ask again.")
        if self._calls and stop not in ("cut", "refused"):
            stop = "calls"
        calls = self._with_ids()
        # The provider's own parts name its calls; they are of no use where a call got another id.
        provider_ids = [provider_id for provider_id, *_ in self._calls]
        is_renamed = any(
            old and old != call.id for call, old in zip(calls, provider_ids, strict=True)
        )
        parts = () if is_renamed else tuple(self.parts())
        return Turn(self.text, calls, self.usage, stop, self._provider, parts, self.stop_word)

    def _with_ids(self) -> tuple[Call, ...]:
        """Return the calls, each with a distinct id. Ids made here are the same if the conversation
        is repeated."""
        taken_ids = {
            call.id for turn in self._messages if isinstance(turn, Turn) for call in turn.calls
        }
        calls: list[Call] = []
        for number, (provider_id, name, arguments) in enumerate(self._calls, start=1):
            is_free = provider_id and provider_id not in taken_ids
            call_id = provider_id if is_free else f"call_{len(self._messages)}_{number}"
            while call_id in taken_ids:
                call_id += "x"
            taken_ids.add(call_id)
            calls.append(Call(call_id, name, arguments))
        return tuple(calls)


class WireFormat:
    """A provider's request format. `is_sse` says that it streams server-sent events, not lines of
    JSON."""

    provider: ClassVar[str]
    default_url: ClassVar[str]
    reader: ClassVar[type[ReplyReader]]
    needs_key: ClassVar[bool] = True
    is_sse: ClassVar[bool] = True
    image_limits: ClassVar[ImageLimits] = ImageLimits()

    def url(self, request: ModelRequest) -> str:
        """Return the address of the request."""
        raise NotImplementedError

    def models_url(self, base_url: str) -> str:
        """Return the address of the list of models."""
        return f"{base_url}/models"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers, with the key."""
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, request: ModelRequest) -> Json:
        """Return the body of the request."""
        raise NotImplementedError


def base_of(url: str, *, version: str, endpoints: tuple[str, ...] = ()) -> str:
    """Return the configured base_url as endpoints are appended to it, without a slash at its end.

    People write it with or without `version`, which is added if the address has no path; or paste
    one of the `endpoints` with it, which is removed.
    """
    base = url.strip().rstrip("/")
    for endpoint in endpoints:
        base = base.removesuffix(endpoint).rstrip("/")
    _, _, rest = base.partition("://")
    return base if "/" in rest or not version else f"{base}/{version}"


def with_options(body: Json, options: Mapping[str, Any]) -> Json:
    """Return the body with the model's configured options. Ours win; of two token limits, the lower
    one."""
    merged = {**options, **body}
    for key in _LIMITS & options.keys() & body.keys():
        if isinstance(options[key], int):
            merged[key] = min(options[key], body[key])
    return merged


def arguments_of(value: object) -> Json | str:
    """Return the arguments of a call as a dict, or as the text that came if it is not a JSON
    object."""
    if isinstance(value, dict):
        return value
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    try:
        arguments = values.from_json(value)
    except (ValueError, RecursionError):
        return value
    return arguments if isinstance(arguments, dict) else value


def text_of(content: object) -> str:
    """Return the text in a provider's content: text, parts that have some, or another value as
    JSON."""
    if isinstance(content, list):
        return "".join(
            text_of(part) for part in content if isinstance(part, str) or _has_text(part)
        )
    if isinstance(content, dict) and _has_text(content):
        return str(content["text"])
    return "" if content is None else content if isinstance(content, str) else json.dumps(content)


def _has_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def as_json_object(arguments: Json | str) -> Json:
    """Return the arguments as a provider takes them back; text that was not a JSON object goes into
    one."""
    return arguments if isinstance(arguments, dict) else {"not_a_json_object": arguments}


def result_text(outcome: Outcome) -> str:
    """Return the result of a call as text."""
    content = outcome.content
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def picture_messages(items: Sequence[Outcome]) -> list[User]:
    """Return the images of tools as messages, for providers whose results of tools are text."""
    return [
        User(f"The image that {item.call.wire_name} gave:", item.images)
        for item in items
        if item.images
    ]


def alternating(turns: Iterable[tuple[str, list[Json]]], key: str) -> list[Json]:
    """Return messages of alternating roles, each with its blocks under `key`; neighbours of one
    role are joined."""
    messages: list[Json] = []
    for role, blocks in turns:
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1][key] += blocks
        elif blocks:
            messages.append({"role": role, key: blocks})
    return messages


def system_text(messages: Iterable[Message]) -> str:
    """Return all instructions as one text."""
    return "\n\n".join(message.text for message in messages if isinstance(message, System))


def count(value: object) -> int:
    """Return a number of tokens, or 0 if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def detail(usage: Json, group: str, key: str) -> int:
    """Return a number of tokens out of a group of a provider's counts, or 0 if there is none."""
    counts = usage.get(group)
    return count(counts.get(key)) if isinstance(counts, dict) else 0


class _AnthropicReader(ReplyReader):
    def __init__(self, request: ModelRequest, provider: str) -> None:
        super().__init__(request, provider)
        self._anthropic_blocks: dict[int, Json] = {}
        self._json: dict[int, str] = {}

    def whole(self, data: Json) -> None:
        self._anthropic_blocks = dict(enumerate(data.get("content") or ()))
        self.text = "".join(
            b.get("text") or "" for b in self._anthropic_blocks.values() if b.get("type") == "text"
        )
        self._read_end(data, data.get("usage"))
        self.is_complete = True

    def piece(self, data: Json) -> str:
        kind = data.get("type")
        if kind == "message_start":
            self._read_usage((data.get("message") or {}).get("usage"))
        elif kind == "content_block_start":
            self._anthropic_blocks[data.get("index", len(self._anthropic_blocks))] = dict(
                data.get("content_block") or {}
            )
        elif kind == "content_block_delta":
            return self._grow(data.get("index", 0), data.get("delta") or {})
        elif kind == "message_delta":
            self._read_end(data.get("delta") or {}, data.get("usage"))
        elif kind == "message_stop":
            self.is_complete = self.is_closed = True
        return ""

    def finish(self) -> None:
        for index, block in self._anthropic_blocks.items():
            if block.get("type") == "tool_use":
                arguments = arguments_of(self._json.get(index, block.get("input")))
                block["input"] = as_json_object(arguments)
                self.add(block.get("id"), block.get("name"), arguments)

    def parts(self) -> list[Json]:
        """Return the blocks as they came, without empty texts, which it would refuse."""
        return [
            b
            for b in self._anthropic_blocks.values()
            if b.get("type") != "text" or (b.get("text") or "").strip()
        ]

    def _grow(self, index: int, delta: Json) -> str:
        block = self._anthropic_blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "text_delta":
                new: str = delta.get("text") or ""
                block["text"] = (block.get("text") or "") + new
                self.text += new
                return new
            case "input_json_delta":
                self._json[index] = self._json.get(index, "") + (delta.get("partial_json") or "")
            case "thinking_delta":
                block["thinking"] = (block.get("thinking") or "") + (delta.get("thinking") or "")
            case "signature_delta":
                block["signature"] = delta.get("signature")
        return ""

    def _read_end(self, data: Json, usage: object) -> None:
        if word := data.get("stop_reason"):
            self.end(word)
        self._read_usage(usage)

    def _read_usage(self, usage: object) -> None:
        """Read the token counts; tokens from the provider's cache count as input."""
        if isinstance(usage, dict):
            cached = count(usage.get("cache_read_input_tokens"))
            read = (
                count(usage.get("input_tokens"))
                + count(usage.get("cache_creation_input_tokens"))
                + cached
            )
            # A stream counts its input at the beginning and its output at the end; neither takes
            # the other back.
            before = self.usage
            self.usage = TokenUsage(
                read or before.input,
                count(usage.get("output_tokens")) or before.output,
                cached or before.cached,
                detail(usage, "output_tokens_details", "thinking_tokens") or before.reasoning,
            )


class Anthropic(WireFormat):
    """Anthropic's Messages. Calls are `tool_use` blocks, outcomes `tool_result` blocks of one user
    message.

    Thinking goes back unchanged, with its signature.
    """

    provider = "anthropic"
    default_url = "https://api.anthropic.com"
    reader = _AnthropicReader
    # Anthropic takes 5 MB of base64, which is three quarters of it in bytes.
    image_limits = ImageLimits(max_bytes=3_750_000)

    def url(self, request: ModelRequest) -> str:
        return f"{self._root(request.base_url)}/v1/messages"

    def models_url(self, base_url: str) -> str:
        return f"{self._root(base_url)}/v1/models"

    def _root(self, base_url: str) -> str:
        return base_of(base_url, version="", endpoints=("/messages", "/v1"))

    def headers(self, key: str | None) -> dict[str, str]:
        return {
            "anthropic-version": _ANTHROPIC_VERSION,
            **({} if key is None else {"x-api-key": key}),
        }

    def body(self, request: ModelRequest) -> Json:
        out: Json = {
            "model": request.model,
            "max_tokens": request.max_tokens
            or request.options.get("max_tokens", _ANTHROPIC_MAX_TOKENS),
            # Anthropic caches a prefix only where a request asks for it. A mark on the request,
            # instead of one on the last block, leaves the messages the same from turn to turn.
            "cache_control": request.options.get("cache_control", {"type": "ephemeral"}),
            "messages": alternating(map(_anthropic_blocks, request.messages), "content"),
        }
        if system := system_text(request.messages):
            out["system"] = system
        # Anthropic requires every tool that the conversation mentions, also where none may be
        # called.
        turns = [message for message in request.messages if isinstance(message, Turn)]
        called = dict.fromkeys(call.wire_name for turn in turns for call in turn.calls)
        empty: Json = {"type": "object"}
        if tools := request.tools or [
            OfferedTool(name, "Not to be called now.", empty, name) for name in called
        ]:
            out["tools"] = declare(self.provider, tools)
        if tools and (request.forbids_calls or not request.tools):
            out["tool_choice"] = {"type": "none"}
        if request.is_streamed:
            out["stream"] = True
        if schema := request.answer_schema:
            form = {"type": "json_schema", "schema": schema}
            out["output_config"] = {**request.options.get("output_config", {}), "format": form}
        return with_options(out, request.options)


def _anthropic_blocks(message: Message) -> tuple[str, list[Json]]:
    match message:
        case User(text=text, images=images):
            pictures = _anthropic_images(images)
            return "user", [*pictures, {"type": "text", "text": text}] if text.strip() else pictures
        case Turn(provider="anthropic", parts=parts) if parts:
            return "assistant", [dict(part) for part in parts]
        case Turn(text=text, calls=calls):
            blocks: list[Json] = [{"type": "text", "text": text}] if text.strip() else []
            uses = [(call.id, call.wire_name, as_json_object(call.arguments)) for call in calls]
            return "assistant", blocks + [
                {"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in uses
            ]
        case Outcomes(items=items):
            return "user", [
                {
                    "type": "tool_result",
                    "tool_use_id": item.call.id,
                    "content": [
                        {"type": "text", "text": result_text(item)},
                        *_anthropic_images(item.images),
                    ]
                    if item.images
                    else result_text(item),
                    **({"is_error": True} if item.is_error else {}),
                }
                for item in items
            ]
    return "", []


def _anthropic_images(images: Images) -> list[Json]:
    return [
        {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
        for mime, data in images
    ]


class _GeminiReader(ReplyReader):
    def __init__(self, request: ModelRequest, provider: str) -> None:
        super().__init__(request, provider)
        self._parts: list[Json] = []

    def piece(self, data: Json) -> str:
        # A blocked prompt has no candidates: the reason stands elsewhere.
        if (reason := (data.get("promptFeedback") or {}).get("blockReason")) and not data.get(
            "candidates"
        ):
            self.end(reason, "refused")
            self.is_complete = True
        new = ""
        for candidate in (data.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                new += self._read_part(part)
            if word := candidate.get("finishReason"):
                self.end(word)
                self.is_complete = True
        if isinstance(usage := data.get("usageMetadata"), dict):
            thoughts = count(usage.get("thoughtsTokenCount"))
            self.usage = TokenUsage(
                count(usage.get("promptTokenCount")),
                count(usage.get("candidatesTokenCount")) + thoughts,
                count(usage.get("cachedContentTokenCount")),
                thoughts,
            )
        self.text += new
        return new

    def parts(self) -> list[Json]:
        return self._parts

    def _read_part(self, part: Json) -> str:
        """Keep a part, joining adjacent pieces of plain text. Returns its text."""
        if isinstance(call := part.get("functionCall"), dict):
            self._parts.append(part)
            self.add(call.get("id"), call.get("name"), call.get("args"))
            return ""
        if part.keys() == {"text"} and self._parts and self._parts[-1].keys() == {"text"}:
            self._parts[-1] = {"text": self._parts[-1]["text"] + part["text"]}
        elif part != {"text": ""}:
            self._parts.append(part)
        return "" if part.get("thought") else part.get("text") or ""


class Gemini(WireFormat):
    """Gemini's `generateContent`. All outcomes of a turn go back in one content, each an object.

    The model's parts go back unchanged, thought signatures included. Tools are declared by their
    raw JSON Schema, which says more than the subset that `formats("gemini")` gives.
    """

    provider = "gemini"
    default_url = "https://generativelanguage.googleapis.com/v1beta"
    reader = _GeminiReader

    def url(self, request: ModelRequest) -> str:
        model = quote(request.model.removeprefix("models/"), safe="")
        method = "streamGenerateContent?alt=sse" if request.is_streamed else "generateContent"
        base = base_of(request.base_url, version="v1beta", endpoints=("/models",))
        return f"{base}/models/{model}:{method}"

    def headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"x-goog-api-key": key}

    def body(self, request: ModelRequest) -> Json:
        # A result names its call by an id only where Gemini itself gave that id.
        own_ids = {
            part["functionCall"].get("id")
            for message in request.messages
            if isinstance(message, Turn) and message.provider == "gemini"
            for part in message.parts
            if "functionCall" in part
        }
        turns = (_gemini_content(message, own_ids) for message in request.messages)
        out: Json = {"contents": alternating(turns, "parts")}
        if system := system_text(request.messages):
            out["systemInstruction"] = {"parts": [{"text": system}]}
        if request.tools:
            declared = []
            for tool in request.tools:
                schema = object_schema(tool.parameters)
                # Gemini refuses an object without properties, so a tool without arguments has no
                # schema.
                is_bare = not schema["properties"] and not schema.get("additionalProperties")
                arguments = {} if is_bare else {"parametersJsonSchema": schema}
                declared.append({"name": tool.name, "description": tool.description, **arguments})
            out["tools"] = [{"functionDeclarations": declared}]
            if request.forbids_calls:
                out["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
        limit: Json = {} if request.max_tokens is None else {"maxOutputTokens": request.max_tokens}
        if answer := request.final_schema:
            limit |= {"responseMimeType": "application/json", "responseJsonSchema": answer}
        if config := with_options(limit, request.options):
            out["generationConfig"] = config
        return out


def _gemini_content(message: Message, own_ids: Collection[object]) -> tuple[str, list[Json]]:
    match message:
        case User(text=text, images=images):
            return "user", [
                {"text": text},
                *({"inlineData": {"mimeType": m, "data": d}} for m, d in images),
            ]
        case Turn(provider="gemini", parts=parts) if parts:
            return "model", [dict(part) for part in parts]
        case Turn(text=text, calls=calls):
            texts: list[Json] = [{"text": text}] if text else []
            call_parts = [
                {"functionCall": {"name": c.wire_name, "args": as_json_object(c.arguments)}}
                for c in calls
            ]
            return "model", texts + call_parts
        case Outcomes(items=items):
            responses: list[Json] = []
            for item in items:
                content = (
                    item.content if isinstance(item.content, dict) else {"result": item.content}
                )
                response = {
                    "name": item.call.wire_name,
                    "response": {"error": item.content} if item.is_error else content,
                }
                call_id = {"id": item.call.id} if item.call.id in own_ids else {}
                responses.append({"functionResponse": {**call_id, **response}})
            pictures = [
                {"inlineData": {"mimeType": m, "data": d}} for item in items for m, d in item.images
            ]
            return "user", responses + pictures
    return "", []


class _OllamaReader(ReplyReader):
    def piece(self, data: Json) -> str:
        message = data.get("message") or {}
        new = text_of(message.get("content"))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            self.add(call.get("id"), function.get("name"), function.get("arguments"))
        if data.get("done"):
            self.is_complete = self.is_closed = True
            self.end(data.get("done_reason") or "stop")
            self.usage = TokenUsage(
                count(data.get("prompt_eval_count")), count(data.get("eval_count"))
            )
        self.text += new
        return new


class Ollama(WireFormat):
    """Ollama's own `/api/chat`: lines of JSON. Arguments are an object; an outcome names its tool,
    not its call.

    It has no way to forbid calls but the words of the last message.
    """

    provider = "ollama"
    default_url = "http://127.0.0.1:11434"
    reader = _OllamaReader
    needs_key = False
    is_sse = False

    def url(self, request: ModelRequest) -> str:
        return self.root(request.base_url) + "/api/chat"

    def models_url(self, base_url: str) -> str:
        return self.root(base_url) + "/api/tags"

    def root(self, base_url: str) -> str:
        """Return the address of the server, without a path of its interface."""
        return base_of(base_url, version="", endpoints=("/chat", "/api", "/v1"))

    def body(self, request: ModelRequest) -> Json:
        body: Json = {
            "model": request.model,
            "messages": [line for message in request.messages for line in _ollama_lines(message)],
            "stream": request.is_streamed,
        }
        if request.tools:
            body["tools"] = declare(self.provider, request.tools)
        if schema := request.final_schema:
            body["format"] = schema
        limit = {} if request.max_tokens is None else {"num_predict": request.max_tokens}
        options = {
            key: value for key, value in request.options.items() if key not in _OLLAMA_TOP_LEVEL
        }
        if inner := with_options(limit, options):
            body["options"] = inner
        return with_options(
            body, {key: value for key, value in request.options.items() if key in _OLLAMA_TOP_LEVEL}
        )


def _ollama_lines(message: Message) -> list[Json]:
    match message:
        case System(text=text):
            return [{"role": "system", "content": text}]
        case User(text=text, images=images):
            prompt: Json = {"role": "user", "content": text}
            return [{**prompt, "images": [data for _, data in images]} if images else prompt]
        case Turn(text=text):
            calls = [
                {"function": {"name": call.wire_name, "arguments": as_json_object(call.arguments)}}
                for call in message.calls
            ]
            line: Json = {"role": "assistant", "content": text}
            return [{**line, "tool_calls": calls} if calls else line]
        case Outcomes(items=items):
            lines = [
                {"role": "tool", "tool_name": i.call.wire_name, "content": result_text(i)}
                for i in items
            ]
            return lines + [
                line for user in picture_messages(items) for line in _ollama_lines(user)
            ]


class _OpenAiReader(ReplyReader):
    def __init__(self, request: ModelRequest, provider: str) -> None:
        super().__init__(request, provider)
        self._open: dict[object, dict[str, str]] = {}
        self._is_refusal = False

    def whole(self, data: Json) -> None:
        self._read_usage(data)
        for choice in (data.get("choices") or [])[:1]:
            message = choice.get("message") or {}
            self.text = self._read_text(message)
            self._read_stop(choice)
            for call in message.get("tool_calls") or ():
                function = call.get("function") or {}
                self.add(call.get("id"), function.get("name"), function.get("arguments"))
        self.is_complete = True

    def piece(self, data: Json) -> str:
        self._read_usage(data)
        new = ""
        for choice in (data.get("choices") or [])[:1]:
            delta = choice.get("delta") or {}
            new += self._read_text(delta)
            for call in delta.get("tool_calls") or ():
                self._read_call_piece(call)
            self._read_stop(choice)
        self.text += new
        return new

    def finish(self) -> None:
        for call in self._open.values():
            self.add(call["id"], call["name"], call["arguments"])
        self._open = {}

    def _read_call_piece(self, call: Json) -> None:
        """Read a piece of a call. Pieces belong together by index; some servers send only an id, or
        nothing."""
        last = next(reversed(self._open), None)
        key = call.get("index", call.get("id") or last)
        pieces = self._open.setdefault(key, {"id": "", "name": "", "arguments": ""})
        function = call.get("function") or {}
        pieces["id"] = pieces["id"] or call.get("id") or ""
        pieces["name"] = pieces["name"] or function.get("name") or ""
        arguments = function.get("arguments")
        pieces["arguments"] += (
            arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        )

    def _read_text(self, message: Json) -> str:
        """Return the text of a message. A model that refuses says why in a field of its own, and
        ends as usual."""
        refusal = text_of(message.get("refusal"))
        self._is_refusal = self._is_refusal or bool(refusal)
        return text_of(message.get("content")) or refusal

    def _read_stop(self, choice: Json) -> None:
        if word := choice.get("finish_reason"):
            self.end("refusal" if self._is_refusal and _STOPS.get(word) == "done" else word)
            self.is_complete = True

    def _read_usage(self, data: Json) -> None:
        if isinstance(usage := data.get("usage"), dict):
            self.usage = TokenUsage(
                count(usage.get("prompt_tokens")),
                count(usage.get("completion_tokens")),
                detail(usage, "prompt_tokens_details", "cached_tokens"),
                detail(usage, "completion_tokens_details", "reasoning_tokens"),
            )


class OpenAi(WireFormat):
    """OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio and many others speak too.

    Arguments are JSON text; an outcome names its call by `tool_call_id`.
    """

    provider = "openai"
    default_url = "https://api.openai.com/v1"
    reader = _OpenAiReader

    def url(self, request: ModelRequest) -> str:
        return f"{self._root(request.base_url)}/chat/completions"

    def models_url(self, base_url: str) -> str:
        return f"{self._root(base_url)}/models"

    def _root(self, base_url: str) -> str:
        return base_of(base_url, version="v1", endpoints=("/chat/completions",))

    def body(self, request: ModelRequest) -> Json:
        body: Json = {
            "model": request.model,
            "messages": [line for message in request.messages for line in _openai_lines(message)],
        }
        if request.tools:
            body["tools"] = declare(self.provider, request.tools)
            if request.forbids_calls:
                body["tool_choice"] = "none"
        if request.max_tokens is not None:
            # The newer models of OpenAI refuse the older name, which is all that most other servers
            # know.
            is_own = request.base_url.startswith("https://api.openai.com")
            body["max_completion_tokens" if is_own else "max_tokens"] = request.max_tokens
        if request.is_streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if schema := request.answer_schema:
            form = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return with_options(body, request.options)


def _openai_lines(message: Message) -> list[Json]:
    match message:
        case System(text=text):
            return [{"role": "system", "content": text}]
        case User(text=text, images=()):
            return [{"role": "user", "content": text}]
        case User(text=text, images=images):
            urls = [
                {"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}}
                for mime, data in images
            ]
            return [{"role": "user", "content": [{"type": "text", "text": text}, *urls]}]
        case Turn(text=text, calls=calls):
            line: Json = {"role": "assistant", "content": text or (None if calls else "")}
            if calls:
                functions = [
                    (c.id, c.wire_name, json.dumps(as_json_object(c.arguments))) for c in calls
                ]
                line["tool_calls"] = [
                    {"id": i, "type": "function", "function": {"name": n, "arguments": a}}
                    for i, n, a in functions
                ]
            return [line]
        case Outcomes(items=items):
            results = [
                {"role": "tool", "tool_call_id": i.call.id, "content": result_text(i)}
                for i in items
            ]
            return results + [
                line for user in picture_messages(items) for line in _openai_lines(user)
            ]
