"""OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio and many others speak too. Pure."""

from __future__ import annotations

import json
from typing import Any

from onetool_ipy.llm.formats import declare
from onetool_ipy.llm.messages import Message, Outcomes, Stop, System, TokenUsage, Turn, User
from onetool_ipy.llm.models.wire import (
    ModelRequest,
    ReplyReader,
    arguments_of,
    as_json_object,
    base_of,
    count,
    said_text,
    text_of,
    with_options,
)

__all__ = ["OpenAi"]

_STOPS: dict[str, Stop] = {
    "stop": "done",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


class OpenAi:
    """Arguments are a JSON text; an outcome names its call by `tool_call_id`."""

    provider = "openai"
    default_url = "https://api.openai.com/v1"
    needs_key = True
    is_sse = True

    def url(self, ask: ModelRequest) -> str:
        return base_of(ask.base_url, version="v1", endpoints=("/chat/completions",)) + "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, ask: ModelRequest) -> dict[str, Any]:
        out: dict[str, Any] = {
            "model": ask.model,
            "messages": [line for message in ask.messages for line in _lines(message)],
        }
        if ask.tools:
            out["tools"] = declare(self.provider, ask.tools)
        if ask.max_tokens is not None:
            is_own = ask.base_url.startswith("https://api.openai.com")  # its newer models refuse the older name
            out["max_completion_tokens" if is_own else "max_tokens"] = ask.max_tokens
        if ask.is_streamed:
            out |= {"stream": True, "stream_options": {"include_usage": True}}
        return with_options(out, ask.options)

    def reading(self, ask: ModelRequest) -> ReplyReader:
        return _Reading(ask)


def _lines(message: Message) -> list[dict[str, Any]]:
    match message:
        case System(text=text):
            return [{"role": "system", "content": text}]
        case User(text=text):
            return [{"role": "user", "content": text}]
        case Turn():
            return [_assistant(message)]
        case Outcomes(items=items):
            return [{"role": "tool", "tool_call_id": one.call.id, "content": said_text(one)} for one in items]


def _assistant(turn: Turn) -> dict[str, Any]:
    out: dict[str, Any] = {"role": "assistant", "content": turn.text or (None if turn.calls else "")}
    if turn.calls:
        out["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.wire_name, "arguments": json.dumps(as_json_object(call.arguments))},
            }
            for call in turn.calls
        ]
    return out


class _Reading(ReplyReader):
    provider = "openai"

    def __init__(self, ask: ModelRequest) -> None:
        super().__init__(ask)
        self._open: dict[object, dict[str, str]] = {}

    def whole(self, data: dict[str, Any]) -> None:
        self._usage(data)
        for choice in (data.get("choices") or [])[:1]:
            message = choice.get("message") or {}
            self.text = text_of(message.get("content")) or text_of(message.get("refusal"))
            self._stop(choice)
            for call in message.get("tool_calls") or ():
                function = call.get("function") or {}
                self.add(call.get("id"), function.get("name"), arguments_of(function.get("arguments")))
        self.is_over = True

    def piece(self, data: dict[str, Any]) -> str:
        self._usage(data)
        new = ""
        for choice in (data.get("choices") or [])[:1]:
            delta = choice.get("delta") or {}
            new += text_of(delta.get("content")) or text_of(delta.get("refusal"))
            for call in delta.get("tool_calls") or ():
                self._take(call)
            self._stop(choice)
        self.text += new
        return new

    def finish(self) -> None:
        for call in self._open.values():
            self.add(call["id"], call["name"], arguments_of(call["arguments"]))
        self._open = {}

    def _take(self, call: dict[str, Any]) -> None:
        """A piece of a call; the pieces of one have its index, with some servers only its id or nothing."""
        last = next(reversed(self._open), None)
        key = call.get("index", call.get("id") or last)
        known = self._open.setdefault(key, {"id": "", "name": "", "arguments": ""})
        function = call.get("function") or {}
        known["id"] = known["id"] or call.get("id") or ""
        known["name"] = known["name"] or function.get("name") or ""
        said = function.get("arguments")
        known["arguments"] += said if isinstance(said, str) else json.dumps(said) if said else ""

    def _stop(self, choice: dict[str, Any]) -> None:
        if reason := choice.get("finish_reason"):
            self.stop = _STOPS.get(reason, "other")
            self.is_over = True

    def _usage(self, data: dict[str, Any]) -> None:
        if isinstance(usage := data.get("usage"), dict):
            self.usage = TokenUsage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")))
