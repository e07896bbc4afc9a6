"""Ollama's own `/api/chat`: lines of JSON, arguments as objects, no ids. Pure."""

from __future__ import annotations

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

__all__ = ["Ollama"]

_ABOVE = frozenset(("think", "keep_alive", "format"))
"""Options that stand beside the others, not among them."""
_STOPS: dict[str, Stop] = {"stop": "done", "length": "length"}


class Ollama:
    """Arguments are an object; an outcome names its tool, not its call."""

    provider = "ollama"
    default_url = "http://127.0.0.1:11434"
    needs_key = False
    is_sse = False

    def url(self, ask: ModelRequest) -> str:
        return base_of(ask.base_url, version="", endpoints=("/chat", "/api", "/v1")) + "/api/chat"

    def headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, ask: ModelRequest) -> dict[str, Any]:
        out: dict[str, Any] = {
            "model": ask.model,
            "messages": [line for message in ask.messages for line in _lines(message)],
            "stream": ask.is_streamed,
        }
        if ask.tools:
            out["tools"] = declare(self.provider, ask.tools)
        limit = {} if ask.max_tokens is None else {"num_predict": ask.max_tokens}
        if inner := with_options(limit, {key: ask.options[key] for key in ask.options if key not in _ABOVE}):
            out["options"] = inner
        return with_options(out, {key: ask.options[key] for key in ask.options if key in _ABOVE})

    def reading(self, ask: ModelRequest) -> ReplyReader:
        return _Reading(ask)


def _lines(message: Message) -> list[dict[str, Any]]:
    match message:
        case System(text=text):
            return [{"role": "system", "content": text}]
        case User(text=text):
            return [{"role": "user", "content": text}]
        case Turn():
            calls = [
                {"function": {"name": call.wire_name, "arguments": as_json_object(call.arguments)}}
                for call in message.calls
            ]
            said: dict[str, Any] = {"role": "assistant", "content": message.text}
            return [{**said, "tool_calls": calls} if calls else said]
        case Outcomes(items=items):
            return [{"role": "tool", "tool_name": one.call.wire_name, "content": said_text(one)} for one in items]


class _Reading(ReplyReader):
    provider = "ollama"

    def whole(self, data: dict[str, Any]) -> None:
        self.piece(data)
        self.is_over = True

    def piece(self, data: dict[str, Any]) -> str:
        message = data.get("message") or {}
        new = text_of(message.get("content"))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            self.add(call.get("id"), function.get("name"), arguments_of(function.get("arguments")))
        if data.get("done"):
            self.is_over = self.is_ended = True
            self.stop = _STOPS.get(data.get("done_reason") or "stop", "other")
            self.usage = TokenUsage(count(data.get("prompt_eval_count")), count(data.get("eval_count")))
        self.text += new
        return new
