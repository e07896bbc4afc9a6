"""OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio and many others speak too. Pure."""

from __future__ import annotations

import json
from typing import Any

from onetool_ipy.llm.formats import declare
from onetool_ipy.llm.messages import Message, Outcomes, Stop, System, TokenUsage, Turn, User
from onetool_ipy.llm.models.wire import (
    Json,
    ModelRequest,
    ReplyReader,
    WireFormat,
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


class _Reader(ReplyReader):
    def __init__(self, request: ModelRequest, provider: str) -> None:
        super().__init__(request, provider)
        self._open: dict[object, dict[str, str]] = {}

    def whole(self, data: Json) -> None:
        self._read_usage(data)
        for choice in (data.get("choices") or [])[:1]:
            message = choice.get("message") or {}
            self.text = text_of(message.get("content")) or text_of(message.get("refusal"))
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
            new += text_of(delta.get("content")) or text_of(delta.get("refusal"))
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
        """Read a piece of a call. Pieces belong together by index; some servers send only an id, or nothing."""
        last = next(reversed(self._open), None)
        key = call.get("index", call.get("id") or last)
        known = self._open.setdefault(key, {"id": "", "name": "", "arguments": ""})
        function = call.get("function") or {}
        known["id"] = known["id"] or call.get("id") or ""
        known["name"] = known["name"] or function.get("name") or ""
        arguments = function.get("arguments")
        known["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""

    def _read_stop(self, choice: Json) -> None:
        if reason := choice.get("finish_reason"):
            self.stop = _STOPS.get(reason, "other")
            self.is_complete = True

    def _read_usage(self, data: Json) -> None:
        if isinstance(usage := data.get("usage"), dict):
            self.usage = TokenUsage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")))


class OpenAi(WireFormat):
    """Arguments are JSON text; an outcome names its call by `tool_call_id`."""

    provider = "openai"
    default_url = "https://api.openai.com/v1"
    reader = _Reader

    def url(self, request: ModelRequest) -> str:
        return base_of(request.base_url, version="v1", endpoints=("/chat/completions",)) + "/chat/completions"

    def body(self, request: ModelRequest) -> Json:
        body: Json = {
            "model": request.model,
            "messages": [line for message in request.messages for line in _lines(message)],
        }
        if request.tools:
            body["tools"] = declare(self.provider, request.tools)
        if request.max_tokens is not None:
            is_own = request.base_url.startswith("https://api.openai.com")  # its newer models refuse the older name
            body["max_completion_tokens" if is_own else "max_tokens"] = request.max_tokens
        if request.is_streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return with_options(body, request.options)


def _lines(message: Message) -> list[Json]:
    match message:
        case System(text=text):
            return [{"role": "system", "content": text}]
        case User(text=text, images=()):
            return [{"role": "user", "content": text}]
        case User(text=text, images=images):
            urls = [{"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}} for mime, data in images]
            return [{"role": "user", "content": [{"type": "text", "text": text}, *urls]}]
        case Turn(text=text, calls=calls):
            line: Json = {"role": "assistant", "content": text or (None if calls else "")}
            return [{**line, "tool_calls": [_call(c.id, c.wire_name, c.arguments) for c in calls]} if calls else line]
        case Outcomes(items=items):
            return [{"role": "tool", "tool_call_id": one.call.id, "content": said_text(one)} for one in items]


def _call(call_id: str, name: str, arguments: dict[str, Any] | str) -> Json:
    function = {"name": name, "arguments": json.dumps(as_json_object(arguments))}
    return {"id": call_id, "type": "function", "function": function}
