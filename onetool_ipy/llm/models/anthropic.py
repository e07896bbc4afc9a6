"""Anthropic's Messages. Content comes in blocks; thinking goes back unchanged, with its signature. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from onetool_ipy.llm.formats import declare
from onetool_ipy.llm.messages import Message, OfferedTool, Outcomes, Stop, TokenUsage, Turn, User
from onetool_ipy.llm.models.wire import (
    Json,
    ModelRequest,
    ReplyReader,
    WireFormat,
    alternating,
    arguments_of,
    as_json_object,
    base_of,
    count,
    said_text,
    system_text,
    with_options,
)

__all__ = ["Anthropic"]

_VERSION = "2023-06-01"
_MAX_TOKENS = 4096
_STOPS: dict[str, Stop] = {
    "end_turn": "done",
    "stop_sequence": "done",
    "tool_use": "calls",
    "max_tokens": "length",
    "refusal": "refused",
}


class _Reader(ReplyReader):
    def __init__(self, request: ModelRequest, provider: str) -> None:
        super().__init__(request, provider)
        self._blocks: dict[int, Json] = {}
        self._json: dict[int, str] = {}

    def whole(self, data: Json) -> None:
        self._blocks = dict(enumerate(data.get("content") or ()))
        self.text = "".join(b.get("text") or "" for b in self._blocks.values() if b.get("type") == "text")
        self._read_end(data, data.get("usage"))
        self.is_complete = True

    def piece(self, data: Json) -> str:
        kind = data.get("type")
        if kind == "message_start":
            self._read_usage((data.get("message") or {}).get("usage"))
        elif kind == "content_block_start":
            self._blocks[data.get("index", len(self._blocks))] = dict(data.get("content_block") or {})
        elif kind == "content_block_delta":
            return self._grow(data.get("index", 0), data.get("delta") or {})
        elif kind == "message_delta":
            self._read_end(data.get("delta") or {}, data.get("usage"))
        elif kind == "message_stop":
            self.is_complete = self.is_closed = True
        return ""

    def finish(self) -> None:
        for index, block in self._blocks.items():
            if block.get("type") == "tool_use":
                said = arguments_of(self._json[index]) if index in self._json else arguments_of(block.get("input"))
                block["input"] = as_json_object(said)
                self.add(block.get("id"), block.get("name"), said)

    def parts(self) -> list[Json]:
        """Return the blocks as they came, without empty texts, which it would refuse."""
        return [b for b in self._blocks.values() if b.get("type") != "text" or (b.get("text") or "").strip()]

    def _grow(self, index: int, delta: Json) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
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

    def _read_end(self, said: Json, usage: object) -> None:
        if reason := said.get("stop_reason"):
            self.stop = _STOPS.get(reason, "other")
        self._read_usage(usage)

    def _read_usage(self, usage: object) -> None:
        """Read the token counts; tokens from the provider's cache count as input."""
        if isinstance(usage, dict):
            read = sum(
                count(usage.get(key))
                for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            )
            self.usage = TokenUsage(read or self.usage.input, count(usage.get("output_tokens")) or self.usage.output)


class Anthropic(WireFormat):
    """Calls are `tool_use` blocks, outcomes `tool_result` blocks of one user message."""

    provider = "anthropic"
    default_url = "https://api.anthropic.com"
    reader = _Reader

    def url(self, request: ModelRequest) -> str:
        base = base_of(request.base_url, version="", endpoints=("/messages", "/v1"))
        return f"{base}/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({} if key is None else {"x-api-key": key})}

    def body(self, request: ModelRequest) -> Json:
        out: Json = {
            "model": request.model,
            "max_tokens": request.max_tokens or request.options.get("max_tokens", _MAX_TOKENS),
            "messages": alternating(map(_blocks, request.messages), "content"),
        }
        if system := system_text(request.messages):
            out["system"] = system
        if request.tools:
            out["tools"] = declare(self.provider, request.tools)
        elif called := _called(request.messages):  # it requires every tool that the conversation mentions
            out["tools"] = declare(self.provider, called)
            out["tool_choice"] = {"type": "none"}
        if request.is_streamed:
            out["stream"] = True
        return with_options(out, request.options)


def _blocks(message: Message) -> tuple[str, list[Json]]:
    match message:
        case User(text=text, images=images):
            pictures: list[Json] = [
                {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
                for mime, data in images
            ]
            return "user", [*pictures, {"type": "text", "text": text}] if text.strip() else pictures
        case Turn(provider="anthropic", parts=parts) if parts:
            return "assistant", [dict(part) for part in parts]
        case Turn(text=text, calls=calls):
            blocks: list[Json] = [{"type": "text", "text": text}] if text.strip() else []
            uses = [(call.id, call.wire_name, as_json_object(call.arguments)) for call in calls]
            return "assistant", blocks + [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in uses]
        case Outcomes(items=items):
            return "user", [
                {
                    "type": "tool_result",
                    "tool_use_id": one.call.id,
                    "content": said_text(one),
                    **({"is_error": True} if one.is_error else {}),
                }
                for one in items
            ]
    return "", []


def _called(messages: Sequence[Message]) -> list[OfferedTool]:
    names = dict.fromkeys(call.wire_name for said in messages if isinstance(said, Turn) for call in said.calls)
    return [OfferedTool(name, "Not to be called now.", {"type": "object"}, name) for name in names]
