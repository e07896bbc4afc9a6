"""Anthropic's Messages. Pure. Content comes in blocks; thinking goes back as it came, with its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onetool_ipy.llm.formats import OfferedTool, declare
from onetool_ipy.llm.messages import Message, Outcomes, Stop, TokenUsage, Turn, User
from onetool_ipy.llm.models.wire import (
    ModelRequest,
    ReplyReader,
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


class Anthropic:
    """Calls are `tool_use` blocks, outcomes `tool_result` blocks of one user message."""

    provider = "anthropic"
    default_url = "https://api.anthropic.com"
    needs_key = True
    is_sse = True

    def url(self, ask: ModelRequest) -> str:
        base = base_of(ask.base_url, version="", endpoints=("/messages", "/v1"))
        return f"{base}/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({} if key is None else {"x-api-key": key})}

    def body(self, ask: ModelRequest) -> dict[str, Any]:
        out: dict[str, Any] = {
            "model": ask.model,
            "max_tokens": ask.max_tokens or ask.options.get("max_tokens", _MAX_TOKENS),
            "messages": _messages(ask.messages),
        }
        if system := system_text(ask.messages):
            out["system"] = system
        if ask.tools:
            out["tools"] = declare(self.provider, ask.tools)
        elif called := _called(ask.messages):  # it wants to know of every tool that the conversation speaks of
            out["tools"] = declare(self.provider, called)
            out["tool_choice"] = {"type": "none"}
        if ask.is_streamed:
            out["stream"] = True
        return with_options(out, ask.options)

    def reading(self, ask: ModelRequest) -> ReplyReader:
        return _Reading(ask)


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation, in which user and assistant take turns."""
    out: list[dict[str, Any]] = []
    for message in messages:
        role, blocks = _blocks(message)
        if blocks and out and out[-1]["role"] == role:
            out[-1]["content"] += blocks
        elif blocks:
            out.append({"role": role, "content": blocks})
    return out


def _blocks(message: Message) -> tuple[str, list[dict[str, Any]]]:
    match message:
        case User(text=text):
            return "user", [{"type": "text", "text": text}] if text.strip() else []
        case Turn(provider="anthropic", parts=parts) if parts:
            return "assistant", [dict(part) for part in parts]
        case Turn(text=text, calls=calls):
            said: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
            return "assistant", said + [_tool_use(c.id, c.wire_name, as_json_object(c.arguments)) for c in calls]
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


def _tool_use(call_id: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)}


class _Reading(ReplyReader):
    provider = "anthropic"

    def __init__(self, ask: ModelRequest) -> None:
        super().__init__(ask)
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, str] = {}

    def whole(self, data: dict[str, Any]) -> None:
        self._blocks = dict(enumerate(data.get("content") or ()))
        self.text = "".join(b.get("text") or "" for b in self._blocks.values() if b.get("type") == "text")
        self._end(data, data.get("usage"))
        self.is_over = True

    def piece(self, data: dict[str, Any]) -> str:
        kind = data.get("type")
        if kind == "message_start":
            self._usage((data.get("message") or {}).get("usage"))
        elif kind == "content_block_start":
            self._blocks[data.get("index", len(self._blocks))] = dict(data.get("content_block") or {})
        elif kind == "content_block_delta":
            return self._grow(data.get("index", 0), data.get("delta") or {})
        elif kind == "message_delta":
            self._end(data.get("delta") or {}, data.get("usage"))
        elif kind == "message_stop":
            self.is_over = self.is_ended = True
        return ""

    def finish(self) -> None:
        for index, block in self._blocks.items():
            if block.get("type") == "tool_use":
                said = arguments_of(self._json[index]) if index in self._json else arguments_of(block.get("input"))
                block["input"] = as_json_object(said)
                self.add(block.get("id"), block.get("name"), said)

    def parts(self) -> list[dict[str, Any]]:
        """The blocks as they came; an empty text would be refused."""
        return [b for b in self._blocks.values() if b.get("type") != "text" or (b.get("text") or "").strip()]

    def _grow(self, index: int, delta: dict[str, Any]) -> str:
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

    def _end(self, said: dict[str, Any], usage: object) -> None:
        if reason := said.get("stop_reason"):
            self.stop = _STOPS.get(reason, "other")
        self._usage(usage)

    def _usage(self, usage: object) -> None:
        """Tokens read from the provider's cache count as read."""
        if isinstance(usage, dict):
            read = sum(
                count(usage.get(key))
                for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            )
            self.usage = TokenUsage(read or self.usage.input, count(usage.get("output_tokens")) or self.usage.output)
