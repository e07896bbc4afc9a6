"""Gemini's `generateContent`. Pure.

What the model said goes back part by part as it came, thought signatures and all. Tools are declared by their raw JSON
Schema, which says more than the subset that `formats("gemini")` gives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

from onetool_ipy.base.errors import InvalidOutput
from onetool_ipy.llm.formats import OfferedTool, object_schema
from onetool_ipy.llm.messages import Message, Outcome, Outcomes, Stop, TokenUsage, Turn, User
from onetool_ipy.llm.models.wire import (
    ModelRequest,
    ReplyReader,
    arguments_of,
    as_json_object,
    base_of,
    count,
    system_text,
    with_options,
)

__all__ = ["Gemini"]

_STOPS: dict[str, Stop] = {"STOP": "done", "MAX_TOKENS": "length"}
_REFUSED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")


class Gemini:
    """All outcomes of a turn go back in one content, each an object."""

    provider = "gemini"
    default_url = "https://generativelanguage.googleapis.com/v1beta"
    needs_key = True
    is_sse = True

    def url(self, ask: ModelRequest) -> str:
        model = quote(ask.model.removeprefix("models/"), safe="")
        method = "streamGenerateContent?alt=sse" if ask.is_streamed else "generateContent"
        return f"{base_of(ask.base_url, version='v1beta', endpoints=('/models',))}/models/{model}:{method}"

    def headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"x-goog-api-key": key}

    def body(self, ask: ModelRequest) -> dict[str, Any]:
        out: dict[str, Any] = {"contents": _contents(ask.messages)}
        if system := system_text(ask.messages):
            out["systemInstruction"] = {"parts": [{"text": system}]}
        if ask.tools:
            out["tools"] = [{"functionDeclarations": [_declared(tool) for tool in ask.tools]}]
        limit = {} if ask.max_tokens is None else {"maxOutputTokens": ask.max_tokens}
        if config := with_options(limit, ask.options):
            out["generationConfig"] = config
        return out

    def reading(self, ask: ModelRequest) -> ReplyReader:
        return _Reading(ask)


def _declared(tool: OfferedTool) -> dict[str, Any]:
    """A tool by its raw JSON Schema; one without arguments has none."""
    out: dict[str, Any] = {"name": tool.name, "description": tool.description}
    schema = object_schema(tool.parameters)
    is_bare = not schema["properties"] and not schema.get("additionalProperties")
    return out if is_bare else {**out, "parametersJsonSchema": schema}


def _contents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation, in which user and model take turns."""
    out: list[dict[str, Any]] = []
    given = {
        part["functionCall"].get("id")
        for message in messages
        if isinstance(message, Turn) and message.provider == "gemini"
        for part in message.parts
        if "functionCall" in part
    }
    for message in messages:
        role, parts = _content(message, given)
        if parts and out and out[-1]["role"] == role:
            out[-1]["parts"] += parts
        elif parts:
            out.append({"role": role, "parts": parts})
    return out


def _content(message: Message, given: Collection[object]) -> tuple[str, list[dict[str, Any]]]:
    match message:
        case User(text=text):
            return "user", [{"text": text}]
        case Turn(provider="gemini", parts=parts) if parts:
            return "model", [dict(part) for part in parts]
        case Turn(text=text, calls=calls):
            said: list[dict[str, Any]] = [{"text": text}] if text else []
            asked = [{"functionCall": {"name": c.wire_name, "args": as_json_object(c.arguments)}} for c in calls]
            return "model", said + asked
        case Outcomes(items=items):
            return "user", [{"functionResponse": _response(one, given)} for one in items]
    return "", []


def _response(outcome: Outcome, given: Collection[object]) -> dict[str, Any]:
    """What a call gave, an object; with the call's id where it is one that Gemini gave."""
    content = outcome.content
    if outcome.is_error:
        content = {"error": content}
    elif not isinstance(content, dict):
        content = {"result": content}
    named = {"id": outcome.call.id} if outcome.call.id in given else {}
    return {**named, "name": outcome.call.wire_name, "response": content}


class _Reading(ReplyReader):
    provider = "gemini"

    def __init__(self, ask: ModelRequest) -> None:
        super().__init__(ask)
        self._parts: list[dict[str, Any]] = []

    def whole(self, data: dict[str, Any]) -> None:
        self.piece(data)
        self.is_over = True

    def piece(self, data: dict[str, Any]) -> str:
        self._feedback(data)
        new = ""
        for candidate in (data.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                new += self._take(part)
            if reason := candidate.get("finishReason"):
                self.stop = "refused" if reason in _REFUSED else _STOPS.get(reason, "other")
                self.is_over = True
        if isinstance(usage := data.get("usageMetadata"), dict):
            written = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
            self.usage = TokenUsage(count(usage.get("promptTokenCount")), written)
        self.text += new
        return new

    def parts(self) -> list[dict[str, Any]]:
        return self._parts

    def _take(self, part: dict[str, Any]) -> str:
        """Keep a part; adjoining pieces of plain text become one."""
        if isinstance(called := part.get("functionCall"), dict):
            self._parts.append(part)
            self.add(called.get("id"), called.get("name"), arguments_of(called.get("args")))
            return ""
        if part.keys() == {"text"} and self._parts and self._parts[-1].keys() == {"text"}:
            self._parts[-1] = {"text": self._parts[-1]["text"] + part["text"]}
        elif part != {"text": ""}:
            self._parts.append(part)
        return "" if part.get("thought") else part.get("text") or ""

    def _feedback(self, data: dict[str, Any]) -> None:
        reason = (data.get("promptFeedback") or {}).get("blockReason")
        if reason and not data.get("candidates"):
            raise InvalidOutput(f"The provider blocked the prompt: {reason}.", hint="Say it in other words.")
