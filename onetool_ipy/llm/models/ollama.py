"""Ollama's own `/api/chat`: lines of JSON, arguments as objects, no ids. Pure."""

from __future__ import annotations

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

__all__ = ["Ollama"]

_TOP_LEVEL = frozenset(("think", "keep_alive", "format"))
"""Options of the body itself; the others go into its `options`."""
_STOPS: dict[str, Stop] = {"stop": "done", "length": "length"}


class _Reader(ReplyReader):
    def piece(self, data: Json) -> str:
        message = data.get("message") or {}
        new = text_of(message.get("content"))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            self.add(call.get("id"), function.get("name"), function.get("arguments"))
        if data.get("done"):
            self.is_complete = self.is_closed = True
            self.stop = _STOPS.get(data.get("done_reason") or "stop", "other")
            self.usage = TokenUsage(count(data.get("prompt_eval_count")), count(data.get("eval_count")))
        self.text += new
        return new


class Ollama(WireFormat):
    """Arguments are an object; an outcome names its tool, not its call."""

    provider = "ollama"
    default_url = "http://127.0.0.1:11434"
    reader = _Reader
    needs_key = False
    is_sse = False

    def url(self, request: ModelRequest) -> str:
        return base_of(request.base_url, version="", endpoints=("/chat", "/api", "/v1")) + "/api/chat"

    def body(self, request: ModelRequest) -> Json:
        body: Json = {
            "model": request.model,
            "messages": [line for message in request.messages for line in _lines(message)],
            "stream": request.is_streamed,
        }
        if request.tools:
            body["tools"] = declare(self.provider, request.tools)
        limit = {} if request.max_tokens is None else {"num_predict": request.max_tokens}
        options = {key: value for key, value in request.options.items() if key not in _TOP_LEVEL}
        if inner := with_options(limit, options):
            body["options"] = inner
        return with_options(body, {key: value for key, value in request.options.items() if key in _TOP_LEVEL})


def _lines(message: Message) -> list[Json]:
    match message:
        case System(text=text):
            return [{"role": "system", "content": text}]
        case User(text=text, images=images):
            said: Json = {"role": "user", "content": text}
            return [{**said, "images": [data for _, data in images]} if images else said]
        case Turn(text=text):
            calls = [
                {"function": {"name": call.wire_name, "arguments": as_json_object(call.arguments)}}
                for call in message.calls
            ]
            line: Json = {"role": "assistant", "content": text}
            return [{**line, "tool_calls": calls} if calls else line]
        case Outcomes(items=items):
            return [{"role": "tool", "tool_name": one.call.wire_name, "content": said_text(one)} for one in items]
