"""Gemini's `generateContent`. Pure.

The model's parts go back unchanged, thought signatures included. Tools are declared by their raw JSON Schema, which
says more than the subset that `formats("gemini")` gives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import quote

from onetool_ipy.base.errors import InvalidOutput
from onetool_ipy.llm.formats import object_schema
from onetool_ipy.llm.messages import Message, OfferedTool, Outcome, Outcomes, Stop, TokenUsage, Turn, User
from onetool_ipy.llm.models.wire import (
    Json,
    ModelRequest,
    ReplyReader,
    WireFormat,
    alternating,
    as_json_object,
    base_of,
    count,
    system_text,
    with_options,
)

__all__ = ["Gemini"]

_STOPS: dict[str, Stop] = {"STOP": "done", "MAX_TOKENS": "length"}
_REFUSED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")


class _Reader(ReplyReader):
    def __init__(self, request: ModelRequest, provider: str) -> None:
        super().__init__(request, provider)
        self._parts: list[Json] = []

    def piece(self, data: Json) -> str:
        self._require_unblocked(data)
        new = ""
        for candidate in (data.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                new += self._read_part(part)
            if reason := candidate.get("finishReason"):
                self.stop = "refused" if reason in _REFUSED else _STOPS.get(reason, "other")
                self.is_complete = True
        if isinstance(usage := data.get("usageMetadata"), dict):
            written = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
            self.usage = TokenUsage(count(usage.get("promptTokenCount")), written)
        self.text += new
        return new

    def parts(self) -> list[Json]:
        return self._parts

    def _read_part(self, part: Json) -> str:
        """Keep a part, joining adjacent pieces of plain text. Returns its text."""
        if isinstance(called := part.get("functionCall"), dict):
            self._parts.append(part)
            self.add(called.get("id"), called.get("name"), called.get("args"))
            return ""
        if part.keys() == {"text"} and self._parts and self._parts[-1].keys() == {"text"}:
            self._parts[-1] = {"text": self._parts[-1]["text"] + part["text"]}
        elif part != {"text": ""}:
            self._parts.append(part)
        return "" if part.get("thought") else part.get("text") or ""

    def _require_unblocked(self, data: Json) -> None:
        reason = (data.get("promptFeedback") or {}).get("blockReason")
        if reason and not data.get("candidates"):
            raise InvalidOutput(f"The provider blocked the prompt: {reason}.", hint="Rephrase it.")


class Gemini(WireFormat):
    """All outcomes of a turn go back in one content, each an object."""

    provider = "gemini"
    default_url = "https://generativelanguage.googleapis.com/v1beta"
    reader = _Reader

    def url(self, request: ModelRequest) -> str:
        model = quote(request.model.removeprefix("models/"), safe="")
        method = "streamGenerateContent?alt=sse" if request.is_streamed else "generateContent"
        return f"{base_of(request.base_url, version='v1beta', endpoints=('/models',))}/models/{model}:{method}"

    def headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"x-goog-api-key": key}

    def body(self, request: ModelRequest) -> Json:
        out: Json = {"contents": _contents(request.messages)}
        if system := system_text(request.messages):
            out["systemInstruction"] = {"parts": [{"text": system}]}
        if request.tools:
            out["tools"] = [{"functionDeclarations": [_declared(tool) for tool in request.tools]}]
        limit = {} if request.max_tokens is None else {"maxOutputTokens": request.max_tokens}
        if config := with_options(limit, request.options):
            out["generationConfig"] = config
        return out


def _declared(tool: OfferedTool) -> Json:
    """Declare a tool by its raw JSON Schema; a tool without arguments has none."""
    out: Json = {"name": tool.name, "description": tool.description}
    schema = object_schema(tool.parameters)
    is_bare = not schema["properties"] and not schema.get("additionalProperties")
    return out if is_bare else {**out, "parametersJsonSchema": schema}


def _contents(messages: Sequence[Message]) -> list[Json]:
    """Return the conversation; `given` are the ids that Gemini gave to its calls."""
    given = {
        part["functionCall"].get("id")
        for message in messages
        if isinstance(message, Turn) and message.provider == "gemini"
        for part in message.parts
        if "functionCall" in part
    }
    return alternating((_content(message, given) for message in messages), "parts")


def _content(message: Message, given: Collection[object]) -> tuple[str, list[Json]]:
    match message:
        case User(text=text, images=images):
            return "user", [{"text": text}, *({"inlineData": {"mimeType": m, "data": d}} for m, d in images)]
        case Turn(provider="gemini", parts=parts) if parts:
            return "model", [dict(part) for part in parts]
        case Turn(text=text, calls=calls):
            said: list[Json] = [{"text": text}] if text else []
            asked = [{"functionCall": {"name": c.wire_name, "args": as_json_object(c.arguments)}} for c in calls]
            return "model", said + asked
        case Outcomes(items=items):
            return "user", [{"functionResponse": _response(one, given)} for one in items]
    return "", []


def _response(outcome: Outcome, given: Collection[object]) -> Json:
    """Return the result of a call as an object, with the call's id if Gemini gave it."""
    content = outcome.content
    if outcome.is_error:
        content = {"error": content}
    elif not isinstance(content, dict):
        content = {"result": content}
    named = {"id": outcome.call.id} if outcome.call.id in given else {}
    return {**named, "name": outcome.call.wire_name, "response": content}
