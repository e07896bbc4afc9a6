"""How replies end, in the four wire formats, whole and streamed. Each reply is what its provider's
own types take."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import InvalidOutput
from onetool_ipy.config.paths import home_at
from onetool_ipy.llm import TokenUsage, User
from onetool_ipy.llm.answer_type import AnswerType
from onetool_ipy.llm.messages import Call, Message, OfferedTool, Outcome, Outcomes, System, Turn
from onetool_ipy.llm.wire import (
    Anthropic,
    Gemini,
    ModelRequest,
    Ollama,
    OpenAi,
    WireFormat,
    arguments_of,
    with_options,
)
from tests.llm import provider_types
from tests.llm.conftest import MakeClient
from tests.llm.misbehaving import Answer, Misbehaving, answered, streamed

PROVIDERS = ("openai", "ollama", "gemini", "anthropic")
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
TEXT = "The first of three"
CALL = ("tools_echo", {"message": "half"})


class End(NamedTuple):
    provider: str
    word: str
    stop: str


ENDS = [
    End("openai", "length", "cut"),
    End("openai", "content_filter", "refused"),
    End("ollama", "length", "cut"),
    End("gemini", "MAX_TOKENS", "cut"),
    End("gemini", "SAFETY", "refused"),
    End("gemini", "RECITATION", "refused"),
    End("gemini", "PROHIBITED_CONTENT", "refused"),
    End("anthropic", "max_tokens", "cut"),
    End("anthropic", "model_context_window_exceeded", "cut"),
    End("anthropic", "refusal", "refused"),
]
EVERY_END = pytest.mark.parametrize("end", ENDS, ids=[f"{end.provider}-{end.word}" for end in ENDS])


def reply(end: End, *, is_streamed: bool, text: str = TEXT, has_call: bool = False) -> Answer:
    """A reply with this text, and a call if asked for, that ends in this word; judged by the
    provider's types."""
    pieces = _REPLIES[end.provider](end.word, text, CALL if has_call else None, is_streamed)
    for piece in pieces:
        provider_types.judge_reply(end.provider, piece, streamed=is_streamed)
    if not is_streamed:
        return answered(200, pieces[0])
    return streamed(
        *pieces, kind="application/x-ndjson" if end.provider == "ollama" else "text/event-stream"
    )


def _openai(word: str, text: str, call: Any, is_streamed: bool) -> list[Any]:
    calls = []
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        calls = [{"index": 0, "id": "call_9", "type": "function", "function": function}]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 12,
        "total_tokens": 42,
        "prompt_tokens_details": {"cached_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    head = {"id": "c-1", "created": 1, "model": "m-1"}
    if not is_streamed:
        choice = {"index": 0, "message": message, "finish_reason": word}
        return [{**head, "object": "chat.completion", "choices": [choice], "usage": usage}]
    chunk = {**head, "object": "chat.completion.chunk"}
    return [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": word}]},
        {**chunk, "choices": [], "usage": usage},
    ]


def _ollama(word: str, text: str, call: Any, is_streamed: bool) -> list[Any]:
    calls = [] if call is None else [{"function": {"name": call[0], "arguments": call[1]}}]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    head = {"model": "m-1", "created_at": "2026-01-01T00:00:00Z"}
    end = {"done": True, "done_reason": word, "prompt_eval_count": 30, "eval_count": 12}
    if not is_streamed:
        return [{**head, "message": message, **end}]
    return [
        {**head, "message": message, "done": False},
        {**head, "message": {"role": "assistant", "content": ""}, **end},
    ]


def _gemini(word: str, text: str, call: Any, is_streamed: bool) -> list[Any]:
    parts: list[Any] = [{"text": text}] if text else []
    if call is not None:
        parts.append({"functionCall": {"name": call[0], "args": call[1]}})
    usage = {
        "promptTokenCount": 30,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
        "cachedContentTokenCount": 20,
        "totalTokenCount": 42,
    }
    content = {"role": "model", "parts": parts}
    if not is_streamed:
        return [
            {"candidates": [{"content": content, "finishReason": word}], "usageMetadata": usage}
        ]
    return [
        {"candidates": [{"content": content}]},
        {"candidates": [{"finishReason": word}], "usageMetadata": usage},
    ]


def _anthropic(word: str, text: str, call: Any, is_streamed: bool) -> list[Any]:
    blocks: list[Any] = [{"type": "text", "text": text}] if text else []
    if call is not None:
        blocks.append({"type": "tool_use", "id": "toolu_9", "name": call[0], "input": call[1]})
    read = {"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 0}
    written = {"output_tokens": 12, "output_tokens_details": {"thinking_tokens": 5}}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1"}
    if not is_streamed:
        return [
            {
                **head,
                "content": blocks,
                "stop_reason": word,
                "stop_sequence": None,
                "usage": {**read, **written},
            }
        ]
    begun = {
        **head,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**read, "output_tokens": 1},
    }
    events: list[Any] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": word, "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": end, "usage": written},
        {"type": "message_stop"},
    ]


_REPLIES: dict[str, Any] = {
    "openai": _openai,
    "ollama": _ollama,
    "gemini": _gemini,
    "anthropic": _anthropic,
}


@STREAMED
@EVERY_END
def test_rule_15_the_end_of_a_reply_is_read_in_its_providers_words(
    make_client: MakeClient, end: End, is_streamed: bool
) -> None:
    with Misbehaving(reply(end, is_streamed=is_streamed, has_call=True)) as server:
        client = make_client(end.provider, server.url)
        turn = client.complete([User("hello")], on_text=(lambda _: None) if is_streamed else None)

    assert (turn.text, turn.stop, turn.stop_word) == (TEXT, end.stop, end.word)
    assert [call.wire_name for call in turn.calls] == ["tools_echo"]


@STREAMED
@pytest.mark.parametrize("provider", PROVIDERS)
def test_rule_15_cached_and_reasoning_tokens_are_counted(
    make_client: MakeClient, provider: str, is_streamed: bool
) -> None:
    done = {"openai": "stop", "ollama": "stop", "gemini": "STOP", "anthropic": "end_turn"}[provider]
    with Misbehaving(reply(End(provider, done, "done"), is_streamed=is_streamed)) as server:
        client = make_client(provider, server.url)
        turn = client.complete([User("hello")], on_text=(lambda _: None) if is_streamed else None)

    # Ollama has neither a cache to tell of nor a count of what it thought.
    assert turn.usage == (TokenUsage(30, 12) if provider == "ollama" else TokenUsage(30, 12, 20, 5))
    assert turn.stop == "done"


@STREAMED
@EVERY_END
def test_rule_15_an_ask_tells_how_the_reply_ended_and_runs_none_of_its_calls(
    tmp_path: Path, end: End, is_streamed: bool
) -> None:
    """A model asks for a read-only call in a reply that is cut or refused: `stop_reason` says so,
    nothing runs."""
    folder = tmp_path / ".onetool"
    folder.mkdir()
    with Misbehaving(reply(end, is_streamed=is_streamed, has_call=True)) as server:
        model = {"provider": end.provider, "base_url": server.url, "model": "m-1"}
        settings = {
            "version": 1,
            "models": {"default": "m", "m": model},
            "ask": {"stream": is_streamed},
        }
        (folder / "onetool.yaml").write_text(json.dumps(settings), encoding="utf-8")
        with open_toolbox(
            tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state"), **home_at(tmp_path)}
        ) as box:
            answer = box.ask("hello", session="s")
            rows = box.log.history()
            messages = box.ask.session("s").messages

    assert (answer.stop_reason, answer.text, answer.ok) == (end.stop, TEXT, False)
    assert answer.to_dict()["stopReason"] == end.stop
    assert answer.calls == []
    assert answer.unwrap() is answer
    assert "The call in it was not run." in answer.note
    assert len(server.seen) == 1
    (row,) = rows
    assert (row.tool, row.source, row.ok, row.code, row.reason) == (
        "ask",
        "python",
        False,
        end.stop,
        end.stop,
    )
    assert row.message == answer.note
    assert [getattr(message, "text", "") for message in messages] == ["hello", TEXT]
    assert messages[-1].calls == ()  # type: ignore[union-attr]  # it is a Turn


@STREAMED
def test_rule_15_a_blocked_prompt_is_refused_and_no_error(
    make_client: MakeClient, is_streamed: bool
) -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    provider_types.judge_reply("gemini", body, streamed=is_streamed)
    with Misbehaving(streamed(body) if is_streamed else answered(200, body)) as server:
        client = make_client("gemini", server.url)
        turn = client.complete([User("hello")], on_text=(lambda _: None) if is_streamed else None)

    assert (turn.text, turn.stop, turn.stop_word) == ("", "refused", "SAFETY")


@STREAMED
def test_rule_15_a_refusal_in_openais_own_field_is_refused(
    make_client: MakeClient, is_streamed: bool
) -> None:
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    pieces = _openai("stop", "", None, is_streamed)
    pieces[0]["choices"][0]["delta" if is_streamed else "message"] = message
    for piece in pieces:
        provider_types.judge_reply("openai", piece, streamed=is_streamed)
    with Misbehaving(streamed(*pieces) if is_streamed else answered(200, pieces[0])) as server:
        client = make_client("openai", server.url)
        turn = client.complete([User("hello")], on_text=(lambda _: None) if is_streamed else None)

    assert (turn.text, turn.stop) == ("I cannot help with that.", "refused")


@STREAMED
def test_an_empty_reply_that_ended_oddly_is_a_failure_that_names_its_end(
    make_client: MakeClient, is_streamed: bool
) -> None:
    end = End("gemini", "MALFORMED_FUNCTION_CALL", "other")
    with (
        Misbehaving(reply(end, is_streamed=is_streamed, text="")) as server,
        pytest.raises(InvalidOutput, match="it ended with 'MALFORMED_FUNCTION_CALL'"),
    ):
        make_client("gemini", server.url).complete(
            [User("hello")], on_text=(lambda _: None) if is_streamed else None
        )


FORMATS: dict[str, WireFormat] = {
    wire.provider: wire for wire in (OpenAi(), Ollama(), Gemini(), Anthropic())
}
FORBIDDEN = {
    "openai": {"tool_choice": "none"},
    "ollama": {},
    "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
    "anthropic": {"tool_choice": {"type": "none"}},
}
"""How each provider is told not to call; Ollama has only the words of the last message."""


def _bodies(provider: str) -> list[dict[str, Any]]:
    """The bodies of three requests of one ask: the prompt, after a call, and the last one, which
    forbids calls."""
    call = Call("call_1", "time_now", {})
    tools = (
        OfferedTool("time_now", "Tell the time.", {"type": "object", "properties": {}}, "time.now"),
    )
    messages = [System("Be brief."), User("What time is it?")]
    later = [*messages, Turn(calls=(call,)), Outcomes((Outcome(call, "noon"),))]
    last = [*later, User("Answer now.", forbids_calls=True)]
    wire = FORMATS[provider]
    return [
        wire.body(ModelRequest(wire.default_url, "m-1", one, tools, None, is_streamed=False))
        for one in (messages, later, last)
    ]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rule_18_each_request_begins_with_the_one_before(provider: str) -> None:
    key = "contents" if provider == "gemini" else "messages"
    bodies = _bodies(provider)

    for before, body in pairwise(bodies):
        rest = {name: value for name, value in body.items() if name not in FORBIDDEN[provider]}
        joined = len(before[key]) - (provider in ("gemini", "anthropic") and before is bodies[1])
        assert json.dumps(body[key][:joined]) == json.dumps(before[key][:joined])
        assert json.dumps({**rest, key: []}) == json.dumps({**before, key: []})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rule_18_the_last_request_keeps_its_tools_and_forbids_calls(provider: str) -> None:
    *earlier, last = _bodies(provider)

    assert last["tools"] == earlier[0]["tools"]
    assert {name: last[name] for name in FORBIDDEN[provider]} == FORBIDDEN[provider]
    assert not any(name in body for body in earlier for name in ("tool_choice", "toolConfig"))
    assert "Answer now." in json.dumps(last)
    judges = {
        "openai": lambda: provider_types.openai_request(streamed=False).validate_python(last),
        "anthropic": lambda: provider_types.anthropic_request(streamed=False).validate_python(last),
        "gemini": lambda: provider_types.gemini().ToolConfig.model_validate(last["toolConfig"]),
        "ollama": lambda: provider_types.ollama_request().model_validate(last),
    }
    judges[provider]()


def test_rule_18_anthropic_is_asked_to_cache() -> None:
    request = ModelRequest(
        "https://api.anthropic.com", "m-1", [User("Hi")], (), None, is_streamed=False
    )
    longer = request._replace(options={"cache_control": {"type": "ephemeral", "ttl": "1h"}})

    assert Anthropic().body(request)["cache_control"] == {"type": "ephemeral"}
    assert Anthropic().body(longer)["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    for body in map(Anthropic().body, (request, longer)):
        provider_types.anthropic_request(streamed=False).validate_python(body)


SCHEMA = AnswerType(list[int]).schema
STRUCTURED: dict[str, Any] = {
    "openai": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        }
    },
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "gemini": {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    },
    "ollama": {"format": SCHEMA},
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rule_14_each_provider_is_asked_for_a_structured_answer_in_its_own_way(
    provider: str,
) -> None:
    wire, user = FORMATS[provider], User("Count", schema=SCHEMA)
    tools = (
        OfferedTool("time_now", "Tell the time.", {"type": "object", "properties": {}}, "time.now"),
    )
    last = User("Answer now.", forbids_calls=True)

    def body(messages: list[Message], tools: tuple[OfferedTool, ...] = ()) -> dict[str, Any]:
        return wire.body(
            ModelRequest(wire.default_url, "m-1", messages, tools, None, is_streamed=False)
        )

    plain, structured = body([User("Count")]), body([user])
    assert structured == {**plain, **STRUCTURED[provider]}
    judges = {
        "openai": lambda: provider_types.openai_request(streamed=False).validate_python(structured),
        "anthropic": lambda: provider_types.anthropic_request(streamed=False).validate_python(
            structured
        ),
        "gemini": lambda: provider_types.gemini().GenerationConfig.model_validate(
            structured["generationConfig"]
        ),
        "ollama": lambda: provider_types.ollama_request().model_validate(structured),
    }
    judges[provider]()
    (key,) = STRUCTURED[provider]
    # Gemini and Ollama cannot write by a schema while a call is possible, so the field waits for
    # the last request.
    assert (key in body([user], tools)) == (provider in ("openai", "anthropic"))
    assert key in body([user, last], tools)
    assert key not in body([user, Turn("[1]"), User("And now?")])


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ({"a": 1}, {"a": 1}),
        (None, {}),
        ("", {}),
        (" \n", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", "[1]"),
        ("{", "{"),
        (5, "5"),
    ],
)
def test_arguments_that_are_no_object_stay_the_text_that_came(
    value: object, arguments: object
) -> None:
    assert arguments_of(value) == arguments


def test_a_models_options_go_along_and_the_lower_limit_holds() -> None:
    options = {"temperature": 0, "max_tokens": 50, "model": "other"}

    assert with_options({"model": "m", "max_tokens": 90}, options) == {
        "temperature": 0,
        "max_tokens": 50,
        "model": "m",
    }
    assert with_options({"max_tokens": 9}, options)["max_tokens"] == 9
