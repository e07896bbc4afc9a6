"""Servers that say no, break off, hang or talk nonsense; Stop and cancelling; keys and
addresses."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import (
    CallFailure,
    CallTimeout,
    ExecutionFailed,
    InvalidConfig,
    InvalidOutput,
    MissingSecret,
    RateLimited,
    TooLarge,
    UsageProblem,
)
from onetool_ipy.llm import ScriptedModel, TokenUsage, Turn, User
from tests.harness.patience import HANG_S
from tests.llm.conftest import KEY, MakeClient
from tests.llm.misbehaving import Answer, Misbehaving, answered, streamed

PROVIDERS = ("openai", "ollama", "gemini", "anthropic")
HELLO = [User("hello")]


def _ignore(_: str) -> None:
    return None


def _said(provider: str, text: str) -> Answer:
    """A good whole reply."""
    return answered(200, WHOLE[provider](text))


WHOLE: dict[str, Any] = {
    "openai": lambda text: {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    },
    "ollama": lambda text: {
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 3,
        "eval_count": 5,
    },
    "gemini": lambda text: {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5},
    },
    "anthropic": lambda text: {
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 5},
    },
}
BEGUN: dict[str, list[Any]] = {
    "openai": [{"choices": [{"delta": {"content": "half a "}}]}],
    "ollama": [{"message": {"content": "half a "}, "done": False}],
    "gemini": [{"candidates": [{"content": {"parts": [{"text": "half a "}]}}]}],
    "anthropic": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "half a "},
        },
    ],
}
KIND = {"ollama": "application/x-ndjson"}


def _begun(provider: str, *more: Any, **how: Any) -> Answer:
    return streamed(*BEGUN[provider], *more, kind=KIND.get(provider, "text/event-stream"), **how)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_a_passing_refusal_is_tried_again(
    make_client: MakeClient, provider: str, status: int
) -> None:
    waits: list[float] = []
    no = answered(status, {"error": {"message": "not now"}}, Retry_After="7")
    with Misbehaving(no, no, _said(provider, "at last")) as server:
        turn = make_client(provider, server.url, waits=waits).complete(HELLO)

    assert (turn.text, turn.usage) == ("at last", TokenUsage(3, 5))
    assert waits == [7.0, 7.0]
    assert [one.body for one in server.seen] == [server.seen[0].body] * 3


def test_a_wait_that_does_not_fit_the_deadline_is_not_begun(make_client: MakeClient) -> None:
    waits: list[float] = []
    with (
        Misbehaving(answered(429, {"error": {"message": "slow down"}}, Retry_After="60")) as server,
        pytest.raises(RateLimited, match="answered 429: slow down") as caught,
    ):
        make_client("openai", server.url, waits=waits).complete(HELLO, deadline_s=30)

    assert waits == []
    assert len(server.seen) == 1
    assert caught.value.hint == "It says: try again in 60 s."


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_connection_that_breaks_before_the_reply_is_tried_again(
    make_client: MakeClient, streams: bool
) -> None:
    with Misbehaving(Answer(b""), Answer(b""), _said("openai", "hi")) as server:
        turn = make_client("openai", server.url).complete(
            HELLO, on_text=_ignore if streams else None
        )

    assert turn.text == "hi"
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, ""),
        (401, "secret 'KEY'"),
        (403, "secret 'KEY'"),
        (404, "model: m-1"),
        (302, "base_url"),
    ],
)
def test_a_lasting_refusal_is_told_at_once(make_client: MakeClient, status: int, hint: str) -> None:
    no = answered(
        status, {"error": {"message": f"no, {KEY} will not do"}}, Location="http://127.0.0.1:9/"
    )
    with Misbehaving(no) as server, pytest.raises(ExecutionFailed) as caught:
        make_client("openai", server.url).complete(HELLO)

    assert caught.value.message == f"The model 'local' answered {status}: no, *** will not do"
    assert hint in caught.value.hint
    assert caught.value.details == {"status": status, "attempts": 1}
    assert len(server.seen) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("how", [{}, {"is_cut": True}], ids=["ended", "cut"])
def test_a_stream_cut_in_the_middle_keeps_what_was_said(
    make_client: MakeClient, provider: str, how: dict[str, bool]
) -> None:
    heard: list[str] = []
    with (
        Misbehaving(_begun(provider, **how)) as server,
        pytest.raises(ExecutionFailed, match="broke") as caught,
    ):
        make_client(provider, server.url).complete(HELLO, on_text=heard.append)

    assert heard == ["half a "]
    assert caught.value.details["text"] == "half a "
    assert len(server.seen) == 1, "what was read in part is not asked for again"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_error_inside_a_stream_is_told(make_client: MakeClient, provider: str) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "too much to do"}}
    with (
        Misbehaving(_begun(provider, error)) as server,
        pytest.raises(ExecutionFailed, match="failed: too much to do") as caught,
    ):
        make_client(provider, server.url).complete(HELLO, on_text=_ignore)

    assert caught.value.details["text"] == "half a "


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("piece", ["{not json", "[1]", '"x"', "17"])
def test_a_part_that_is_no_object_is_told(
    make_client: MakeClient, provider: str, piece: str
) -> None:
    with Misbehaving(_begun(provider, piece)) as server, pytest.raises(InvalidOutput) as caught:
        make_client(provider, server.url).complete(HELLO, on_text=_ignore)

    assert caught.value.details["text"] == "half a "


EMPTY: list[tuple[str, Any]] = [
    ("openai", {"choices": []}),
    ("openai", {"choices": None}),
    ("openai", {}),
    ("openai", {"choices": [7]}),
    ("openai", {"choices": [{"message": {"tool_calls": [3]}}]}),
    ("openai", {"choices": "xyz"}),
    ("openai", []),
    ("openai", b"<html>"),
    ("openai", b""),
    ("ollama", {}),
    ("ollama", {"message": "text"}),
    ("gemini", {}),
    ("gemini", {"candidates": []}),
    ("gemini", {"candidates": [{"content": {"parts": ["x"]}}]}),
    ("anthropic", {}),
    ("anthropic", {"content": 3}),
    ("anthropic", {"content": ["x"], "stop_reason": "end_turn"}),
]


@pytest.mark.parametrize(("provider", "body"), EMPTY, ids=str)
def test_a_reply_without_an_answer_is_told(
    make_client: MakeClient, provider: str, body: Any
) -> None:
    with Misbehaving(answered(200, body)) as server, pytest.raises(InvalidOutput):
        make_client(provider, server.url).complete(HELLO)


def test_a_stream_of_empty_choices_is_told(make_client: MakeClient) -> None:
    with (
        Misbehaving(streamed({"choices": []}, "[DONE]")) as server,
        pytest.raises(InvalidOutput, match="no choices"),
    ):
        make_client("openai", server.url).complete(HELLO, on_text=_ignore)


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"city": "Lima"}', {"city": "Lima"}),
        ("", {}),
        (None, {}),
        ("{city: Lima", "{city: Lima"),
        ("[1, 2]", "[1, 2]"),
        ('"Lima"', '"Lima"'),
        ('{"x": NaN}', '{"x": NaN}'),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=["object", "nothing", "none", "broken", "list", "text", "nan", "deep"],
)
def test_arguments_that_are_no_json_object_come_as_they_are(
    make_client: MakeClient, written: Any, arguments: Any
) -> None:
    call = {"id": "c1", "function": {"name": "geo_weather", "arguments": written}}
    reply = answered(
        200, {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    )
    with Misbehaving(reply, _said("openai", "ok")) as server:
        client = make_client("openai", server.url)
        turn = client.complete(HELLO)
        client.complete([*HELLO, turn])

    assert turn.calls[0].arguments == arguments
    echoed = server.seen[1].body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(echoed, str)
    assert echoed.startswith("{")


def test_calls_without_ids_or_with_the_same_one_get_their_own(make_client: MakeClient) -> None:
    calls = [
        {"id": given, "function": {"name": "f", "arguments": "{}"}}
        for given in ("a", "a", "", None)
    ]
    reply = answered(200, {"choices": [{"message": {"tool_calls": calls}}]})
    with Misbehaving(reply) as server:
        client = make_client("openai", server.url)
        first = client.complete(HELLO)
        second = client.complete([*HELLO, first])

    ids = [call.id for turn in (first, second) for call in turn.calls]
    assert ids[0] == "a"
    assert len(set(ids)) == 8


def test_pieces_of_calls_without_an_index_are_put_together(make_client: MakeClient) -> None:
    pieces = [
        {"id": "a", "function": {"name": "f", "arguments": '{"x"'}},
        {"function": {"arguments": ": 1}"}},
        {"id": "b", "function": {"name": "g", "arguments": "{}"}},
    ]
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    with Misbehaving(streamed(*chunks, "[DONE]")) as server:
        turn = make_client("openai", server.url).complete(HELLO, on_text=_ignore)

    assert [(c.id, c.wire_name, c.arguments) for c in turn.calls] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {}),
    ]


def test_a_thousand_calls_in_a_turn_are_read(make_client: MakeClient) -> None:
    calls = [{"id": f"c{i}", "function": {"name": "f", "arguments": "{}"}} for i in range(1000)]
    with Misbehaving(answered(200, {"choices": [{"message": {"tool_calls": calls}}]})) as server:
        assert len(make_client("openai", server.url).complete(HELLO).calls) == 1000


def test_gemini_gets_its_parts_back_unchanged(make_client: MakeClient) -> None:
    parts = [
        {"text": "thinking", "thought": True},
        {
            "functionCall": {"name": "f", "args": {"x": 1}, "id": "own"},
            "thoughtSignature": "c2lnbmF0dXJl",
        },
        {"functionCall": {"name": "g", "args": {}}},
        {"text": "", "thoughtSignature": "bW9yZQ=="},
    ]
    reply = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    with Misbehaving(streamed(reply), _said("gemini", "ok")) as server:
        client = make_client("gemini", server.url)
        turn = client.complete(HELLO, on_text=_ignore)
        client.complete([*HELLO, turn])

    assert turn.text == ""
    assert server.seen[1].body["contents"][1] == {"role": "model", "parts": parts}


def test_anthropic_gets_its_thinking_back_unchanged(make_client: MakeClient) -> None:
    def delta(**what: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": 0, "delta": what}

    events = [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": ""},
        },
        delta(type="thinking_delta", thinking="hm"),
        delta(type="signature_delta", signature="c2ln"),
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": '{"x":'},
        },
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": " 1}"},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    with Misbehaving(streamed(*events, stays=True), _said("anthropic", "ok")) as server:
        client = make_client("anthropic", server.url)
        turn = client.complete(HELLO, on_text=_ignore)
        client.complete([*HELLO, turn])

    assert (turn.text, turn.usage.output) == ("", 9)
    assert server.seen[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
    ]


def test_a_server_that_does_not_stream_is_understood(make_client: MakeClient) -> None:
    heard: list[str] = []
    with Misbehaving(_said("openai", "all at once")) as server:
        turn = make_client("openai", server.url).complete(HELLO, on_text=heard.append)

    assert turn.text == "all at once"
    assert heard == ["all at once"]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_server_that_hangs_is_given_up_at_the_deadline(
    make_client: MakeClient, streams: bool
) -> None:
    with Misbehaving(Answer(b"", stays=True)) as server:
        # On a machine that stands still, the time may end before it is asked.
        while not server.began.is_set():
            with pytest.raises(CallTimeout):
                make_client("openai", server.url).complete(
                    HELLO, on_text=_ignore if streams else None, deadline_s=0.3
                )

        assert server.hung_up.wait(HANG_S)


def test_a_stream_that_hangs_keeps_what_was_said(make_client: MakeClient) -> None:
    heard: list[str] = []
    with Misbehaving(_begun("openai", stays=True)) as server:
        while not heard:  # on a machine that stands still, the time may end before anything is said
            with pytest.raises(CallTimeout) as caught:
                make_client("openai", server.url).complete(
                    HELLO, on_text=heard.append, deadline_s=0.4
                )

    assert caught.value.details["text"] == "half a "


@pytest.mark.posix("a signal for one thread")
def test_stop_ends_a_stream_at_once_and_hangs_up(make_client: MakeClient) -> None:
    heard: list[str] = []
    came = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def listen(text: str) -> None:
        heard.append(text)
        came.set()

    def stop() -> None:
        if came.wait(HANG_S):
            signal.pthread_kill(main, signal.SIGINT)

    with Misbehaving(_begun("openai", stays=True)) as server:
        client = make_client("openai", server.url)
        threading.Thread(target=stop, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            client.complete(HELLO, on_text=listen)

        assert heard == ["half a "]
        assert server.hung_up.wait(HANG_S)


@pytest.mark.parametrize(
    ("provider", "end"),
    [
        ("openai", "[DONE]"),
        ("ollama", {"message": {"content": ""}, "done": True}),
        ("anthropic", {"type": "message_stop"}),
    ],
)
def test_the_end_of_a_reply_is_not_waited_for_twice(
    make_client: MakeClient, provider: str, end: Any
) -> None:
    """Some servers keep the connection open after it."""
    with Misbehaving(_begun(provider, end, stays=True)) as server:
        turn = make_client(provider, server.url).complete(HELLO, on_text=_ignore, deadline_s=HANG_S)

    assert turn.text == "half a "


async def test_cancelling_hangs_up(make_client: MakeClient) -> None:
    heard = asyncio.Event()
    with Misbehaving(_begun("openai", stays=True)) as server:
        asking = asyncio.create_task(
            make_client("openai", server.url).acomplete(HELLO, on_text=lambda _: heard.set())
        )
        await asyncio.wait_for(heard.wait(), 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        assert await asyncio.to_thread(server.hung_up.wait, 30)


def test_an_error_of_the_listener_is_its_own_and_hangs_up(make_client: MakeClient) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError

    with Misbehaving(_begun("openai", stays=True)) as server:
        with pytest.raises(ZeroDivisionError):
            make_client("openai", server.url).complete(HELLO, on_text=fail)

        assert server.hung_up.wait(HANG_S)


def test_text_is_handed_over_in_the_thread_that_asked(make_client: MakeClient) -> None:
    threads: list[threading.Thread] = []
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    with Misbehaving(_begun("openai", end, "[DONE]")) as server:
        make_client("openai", server.url).complete(
            HELLO, on_text=lambda _: threads.append(threading.current_thread())
        )

    assert threads == [threading.current_thread()]


@pytest.mark.parametrize(
    ("provider", "suffix", "path"),
    [
        ("openai", "", "/v1/chat/completions"),
        ("openai", "/", "/v1/chat/completions"),
        ("openai", "/v1", "/v1/chat/completions"),
        ("openai", "/v1/", "/v1/chat/completions"),
        ("openai", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai", "/gateway/openai", "/gateway/openai/chat/completions"),
        ("ollama", "", "/api/chat"),
        ("ollama", "/api", "/api/chat"),
        ("ollama", "/v1", "/api/chat"),
        ("ollama", "/api/chat", "/api/chat"),
        ("gemini", "", "/v1beta/models/m-1:generateContent"),
        ("gemini", "/v1beta", "/v1beta/models/m-1:generateContent"),
        ("gemini", "/v1beta/models", "/v1beta/models/m-1:generateContent"),
        ("anthropic", "", "/v1/messages"),
        ("anthropic", "/v1", "/v1/messages"),
        ("anthropic", "/v1/messages", "/v1/messages"),
        ("anthropic", "/proxy", "/proxy/v1/messages"),
    ],
)
def test_an_address_is_understood_in_any_of_its_forms(
    make_client: MakeClient, provider: str, suffix: str, path: str
) -> None:
    with Misbehaving(_said(provider, "hi")) as server:
        make_client(provider, server.url + suffix).complete(HELLO)

    assert server.seen[0].path == path


@pytest.mark.parametrize("model", ["models/m 1", "../../evil", "a/b?c#d"])
def test_a_model_name_cannot_lead_elsewhere(make_client: MakeClient, model: str) -> None:
    with Misbehaving(_said("gemini", "hi")) as server:
        make_client("gemini", server.url, model=model).complete(HELLO)

    assert server.seen[0].path.startswith("/v1beta/models/")
    assert server.seen[0].path.count("/") == 3


@pytest.mark.parametrize(
    ("provider", "header", "value"),
    [
        ("openai", "authorization", f"Bearer {KEY}"),
        ("ollama", "authorization", f"Bearer {KEY}"),
        ("gemini", "x-goog-api-key", KEY),
        ("anthropic", "x-api-key", KEY),
    ],
)
def test_a_key_is_sent_as_the_provider_wants_it(
    make_client: MakeClient, provider: str, header: str, value: str
) -> None:
    with Misbehaving(_said(provider, "hi")) as server:
        make_client(provider, server.url).complete(HELLO)
        make_client(provider, server.url, key=None).complete(HELLO)

    assert server.seen[0].headers[header] == value
    assert header not in server.seen[1].headers


def test_a_missing_key_is_told_before_anything_is_sent(make_client: MakeClient) -> None:
    with Misbehaving(_said("openai", "hi")) as server:
        with pytest.raises(MissingSecret, match="no secret 'KEY'") as caught:
            make_client("openai", server.url, secrets={}).complete(HELLO)
        assert "secrets.yaml" in caught.value.hint
        assert server.seen == []

    with pytest.raises(MissingSecret, match="needs a key"):
        make_client("anthropic", None, key=None).complete(HELLO)


def test_a_key_given_instead_of_its_name_is_not_shown(make_client: MakeClient) -> None:
    with pytest.raises(MissingSecret) as caught:
        make_client("openai", "http://127.0.0.1:9", key=KEY).complete(HELLO)

    assert KEY not in "".join(caught.value.lines())


@pytest.mark.parametrize(
    "url", ["http://", "http://a b/", "http://user:pass@127.0.0.1/", "http://0x7f.1/"]
)
def test_an_address_that_cannot_be_used_is_told(make_client: MakeClient, url: str) -> None:
    with pytest.raises(InvalidConfig, match="base_url"):
        make_client("openai", url).complete(HELLO)


def test_a_server_that_is_not_there_is_told(make_client: MakeClient) -> None:
    with pytest.raises(CallFailure, match=r"Cannot connect to '127\.0\.0\.1:9'"):
        make_client("openai", "http://127.0.0.1:9").complete(HELLO)


def test_asking_on_the_background_loop_must_be_awaited(make_client: MakeClient) -> None:
    client = make_client("openai", "http://127.0.0.1:9")

    async def block() -> Turn:
        return client.complete(HELLO)

    with pytest.raises(UsageProblem) as caught:
        client._background.run(block)
    assert "acomplete" in caught.value.hint


CONFIG = """
version: 1
models:
  default: local
  local: {{provider: ollama, base_url: "{url}", model: qwen3}}
  big: {{provider: openai, base_url: "{url}", model: gpt, key: BIG_KEY}}
"""


def test_a_toolbox_opens_its_models_by_name(tmp_path: Path) -> None:
    with Misbehaving(_said("ollama", "small"), _said("openai", "big")) as server:
        project = _project(tmp_path, CONFIG.format(url=server.url))
        with open_toolbox(project, env={"BIG_KEY": KEY}) as box:
            assert box.model().complete(HELLO).text == "small"
            assert box.model("big").complete(HELLO).text == "big"
            scripted = ScriptedModel(["x"])
            assert box.model(scripted) is scripted
            with pytest.raises(
                UsageProblem, match=r"No model 'bigg'\. Did you mean 'big'"
            ) as caught:
                box.model("bigg")
            assert caught.value.hint == "Configured: 'local', 'big'."
            with pytest.raises(UsageProblem):
                box.model(7)  # type: ignore[arg-type]

    assert server.seen[1].headers["authorization"] == f"Bearer {KEY}"


def test_without_a_model_it_says_what_to_write(tmp_path: Path) -> None:
    with (
        open_toolbox(_project(tmp_path, "version: 1\n"), env={}) as box,
        pytest.raises(UsageProblem) as caught,
    ):
        box.model("mm")

    assert caught.value.message == "No model 'mm'. No model is configured."
    assert "provider: ollama" in caught.value.hint


def test_without_a_default_it_asks_for_a_name(tmp_path: Path) -> None:
    text = CONFIG.format(url="http://127.0.0.1:9").replace("  default: local\n", "")
    with (
        open_toolbox(_project(tmp_path, text), env={}) as box,
        pytest.raises(UsageProblem, match="there is no default"),
    ):
        box.model()


def _project(tmp_path: Path, text: str) -> Path:
    home = tmp_path / ".onetool"
    home.mkdir()
    (home / "onetool.yaml").write_text(text)
    return home / "onetool.yaml"


ODD: dict[str, tuple[Any, str | None]] = {
    "number": (42, "42"),
    "fraction": (1.5, "1.5"),
    "truth": (True, "true"),
    "object": ({"a": [1]}, '{"a": [1]}'),
    "text object": ({"type": "text", "text": "hi"}, "hi"),
    "parts": (
        [{"type": "text", "text": "a "}, {"type": "image"}, {"type": "text", "text": "cat"}],
        "a cat",
    ),
    "texts": (["a ", "cat"], "a cat"),
    "odd parts": ([None, 7, [], {"text": {"value": "a cat"}}], None),
}


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_content_that_is_no_text_is_its_text_or_a_failure_of_the_model(
    provider: str, odd: str, streams: bool, tmp_path: Path
) -> None:
    """Servers that are almost of their provider's form, and structured answers: the ask ends with
    an answer."""
    content, text = ODD[odd]
    reply = answered(200, WHOLE[provider](content))
    if streams:
        kind = KIND.get(provider, "text/event-stream")
        reply = streamed(*_in_pieces(provider, content), kind=kind)
    with Misbehaving(reply) as server:
        _configure(tmp_path, provider, server.url, streams=streams)
        with open_toolbox(
            tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state"), "KEY": KEY}
        ) as box:
            answer = box.ask("hello", with_tools=False)

    assert answer.stop_reason in ("done", "error")
    assert isinstance(answer.text, str)
    assert isinstance(answer.to_dict()["text"], str)
    if answer.stop_reason == "done" and text is not None:
        assert answer.text == text
    if provider in ("openai", "ollama") and text is not None:
        assert answer.stop_reason == "done"


def _in_pieces(provider: str, content: Any) -> list[Any]:
    """The same content streamed."""
    if provider == "openai":
        return [
            {"choices": [{"delta": {"content": content}}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
            "[DONE]",
        ]
    if provider == "anthropic":
        return [
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": content},
            },
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ]
    return [WHOLE[provider](content)]


def _configure(folder: Path, provider: str, url: str, *, streams: bool) -> None:
    (folder / ".onetool").mkdir()
    (folder / ".onetool" / "onetool.yaml").write_text(
        f"version: 1\nmodels: {{m: {{provider: {provider}, model: x, base_url: {url!r}, key:"
        f" KEY}}}}\nask: {{stream: {str(streams).lower()}}}\n",
        encoding="utf-8",
    )


@pytest.mark.parametrize("given", [None, "text", 5, Turn(text=5), Turn(text=["a"])])  # type: ignore[arg-type]
def test_a_client_of_ones_own_that_gives_no_turn_is_a_failure_of_the_model(
    tmp_path: Path, given: Any
) -> None:
    class Own:
        name = "own"

        def complete(self, *args: Any, **options: Any) -> Any:
            return given

    _configure(tmp_path, "openai", "http://127.0.0.1:9", streams=True)
    with open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        answer = box.ask("hello", model=Own())  # type: ignore[arg-type]

    assert answer.stop_reason == "error"
    assert "own" in answer.note


@pytest.mark.parametrize("provider", PROVIDERS)
def test_separators_of_unicode_inside_a_reply_end_no_line(
    make_client: MakeClient, provider: str
) -> None:
    """JSON may hold U+2028 and U+0085 as they are, and many servers write them so."""
    text = "one\u2028two\u2029three\x85four"
    pieces = [
        json.dumps(piece, ensure_ascii=False).replace("half a ", text) for piece in BEGUN[provider]
    ]
    end: Any = {
        "openai": {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        "ollama": {"done": True},
        "gemini": {"candidates": [{"finishReason": "STOP"}]},
        "anthropic": {"type": "message_stop"},
    }[provider]
    with Misbehaving(
        streamed(*pieces, end, kind=KIND.get(provider, "text/event-stream"))
    ) as server:
        turn = make_client(provider, server.url).complete(HELLO, on_text=_ignore)

    assert turn.text == text


@pytest.mark.slow
def test_a_stream_without_an_end_is_bounded(make_client: MakeClient) -> None:
    """One line that never ends, compressed: it is given up at 32 MB, long before the memory is
    full."""
    packed = gzip.compress(b"data: " + b"x" * (40 << 20))
    head = (
        b"HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nContent-Encoding:"
        b" gzip\r\nConnection: close\r\n\r\n"
    )
    with (
        Misbehaving(Answer(head + packed)) as server,
        pytest.raises(TooLarge, match="larger than allowed"),
    ):
        make_client("openai", server.url).complete(HELLO, on_text=_ignore)
