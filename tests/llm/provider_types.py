"""The providers' own types, which judge the tools and requests that we send, and the replies that
tests make.

Their packages take seconds to import, and their types as long to compile: both happen in the first
test that asks for one, not wherever the tests are only listed.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

__all__ = [
    "anthropic_request",
    "anthropic_tool",
    "gemini",
    "judge_reply",
    "ollama_request",
    "ollama_tool",
    "openai_request",
    "openai_tool",
]


@cache
def openai_tool() -> TypeAdapter[Any]:
    from openai.types.chat import ChatCompletionToolParam

    return TypeAdapter(ChatCompletionToolParam)


@cache
def openai_request(*, streamed: bool) -> TypeAdapter[Any]:
    from openai.types.chat import completion_create_params as params

    kind: Any = (
        params.CompletionCreateParamsStreaming
        if streamed
        else params.CompletionCreateParamsNonStreaming
    )
    return TypeAdapter(kind)


@cache
def anthropic_tool() -> TypeAdapter[Any]:
    from anthropic.types import ToolParam

    return TypeAdapter(ToolParam)


@cache
def anthropic_request(*, streamed: bool) -> TypeAdapter[Any]:
    from anthropic.types import message_create_params as params

    kind: Any = (
        params.MessageCreateParamsStreaming if streamed else params.MessageCreateParamsNonStreaming
    )
    return TypeAdapter(kind)


def gemini() -> ModuleType:
    from google.genai import types

    return types


def ollama_tool() -> Any:
    from ollama import Tool

    return Tool


def ollama_request() -> Any:
    from ollama._types import ChatRequest

    return ChatRequest


def judge_reply(provider: str, data: Any, *, streamed: bool) -> None:
    """Raise unless the provider's own client would take this reply, or this piece of a streamed
    one."""
    _reply(provider, streamed=streamed).validate_python(data)


@cache
def _reply(provider: str, *, streamed: bool) -> TypeAdapter[Any]:
    kind: Any
    if provider == "openai":
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        kind = ChatCompletionChunk if streamed else ChatCompletion
    elif provider == "anthropic":
        from anthropic import types

        kind = types.RawMessageStreamEvent if streamed else types.Message
    elif provider == "gemini":
        kind = gemini().GenerateContentResponse
    else:
        from ollama import ChatResponse

        kind = ChatResponse
    return TypeAdapter(kind)
