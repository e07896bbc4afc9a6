"""The loop over real HTTP: a configured model, the double of all four providers, streamed and
whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy.llm import Call, Outcome, Outcomes, Turn, User
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.llm.wire import Anthropic, ModelRequest
from tests.harness.models import ModelDouble
from tests.llm import provider_types
from tests.llm.ask.conftest import MakeBox, Traces

PROVIDERS = ("openai", "ollama", "gemini", "anthropic")
PROMPT = "Compare the weather in Lima and Oslo"
ANSWER = "Lima is **warm**, Oslo is not."


def _settings(provider: str, url: str, **ask: Any) -> str:
    model = {"provider": provider, "base_url": url, "model": "m-1", "key": "MODEL_KEY"}
    return f"models: {json.dumps({'default': 'double', 'double': model})}\nask: {json.dumps(ask)}"


def _calls(*calls: tuple[str, dict[str, Any] | str]) -> dict[str, Any]:
    written = [(name, args if isinstance(args, str) else json.dumps(args)) for name, args in calls]
    return {"toolCalls": [{"name": name, "arguments": args} for name, args in written]}


def _fixtures(*responses: dict[str, Any]) -> list[dict[str, Any]]:
    first, last = responses
    return [
        {"match": {"userMessage": PROMPT, "hasToolResult": False}, "response": first},
        {"match": {"userMessage": PROMPT, "hasToolResult": True}, "response": last},
        {"match": {"userMessage": "No more calls are possible"}, "response": last},
    ]


class Ear(AskListener):
    def __init__(self) -> None:
        self.pieces: list[str] = []

    def text(self, piece: str) -> None:
        self.pieces.append(piece)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_calls_and_their_results_make_an_answer(
    make_box: MakeBox, traces: Traces, double: ModelDouble, provider: str, streamed: bool
) -> None:
    box = make_box(
        _settings(provider, double.url, stream=streamed), secrets="MODEL_KEY: key-of-the-tests-1\n"
    )
    traces.add(
        box, "geo.weather", read_only=True, gives=lambda args: {"city": args["x"], "celsius": 20}
    )
    calls = _calls(("geo_weather", {"x": "Lima"}), ("geo_weather", {"x": "Oslo"}), ("time_now", {}))
    double.say(_fixtures(calls, {"content": ANSWER}))
    ear = Ear()

    answer = box.ask(PROMPT, listener=ear)

    assert (answer.stop_reason, answer.text) == ("done", ANSWER), answer.note
    assert [(c.name, c.args, c.ok) for c in answer.calls] == [
        ("geo.weather", {"x": "Lima"}, True),
        ("geo.weather", {"x": "Oslo"}, True),
        ("time.now", {}, True),
    ]
    assert "".join(ear.pieces) == ANSWER
    assert (len(ear.pieces) > 1) == streamed
    assert answer.usage.total > 0
    assert answer.model == "double"
    first, second = double.journal()
    assert "geo_weather" in json.dumps(first["body"])
    sent = json.dumps(second["body"]).replace("\\", "").replace(" ", "")
    assert '"data_from":"geo.weather"' in sent
    assert "key-of-the-tests-1" not in sent


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rule_18_the_last_request_keeps_its_tools_and_forbids_calls(
    make_box: MakeBox, double: ModelDouble, provider: str
) -> None:
    box = make_box(
        _settings(provider, double.url, max_steps=1), secrets="MODEL_KEY: key-of-the-tests-1\n"
    )
    double.say(_fixtures(_calls(("time_now", {}), ("shell_pwd", {})), {"content": "That is all."}))

    answer = box.ask(PROMPT)

    assert (answer.stop_reason, answer.text) == ("max_steps", "That is all."), answer.note
    assert len(answer.calls) == 2
    first, last = (entry["body"] for entry in double.journal())
    assert last["tools"] == first["tools"]


@pytest.mark.slow
def test_anthropic_is_told_of_the_tools_that_were_called_and_not_to_call_them() -> None:
    """It refuses a conversation with calls in it and no tools; the double would not."""
    call = Call("c1", "time_now", {})
    said = [User("Go"), Turn(calls=(call,)), Outcomes((Outcome(call, "noon"),))]

    body = Anthropic().body(
        ModelRequest("http://127.0.0.1", "m", said, (), None, is_streamed=False)
    )

    assert [tool["name"] for tool in body["tools"]] == ["time_now"]
    assert body["tool_choice"] == {"type": "none"}
    provider_types.anthropic_request(streamed=False).validate_python(body)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_bad_calls_over_the_wire_run_nothing(
    make_box: MakeBox, traces: Traces, double: ModelDouble, provider: str
) -> None:
    box = make_box(_settings(provider, double.url), secrets="MODEL_KEY: key-of-the-tests-1\n")
    traces.add(box, "evil.wipe")
    calls = _calls(("evil_wipe", {}), ("FS_read_file", {"path": "x"}), ("time_now", {}))
    double.say(_fixtures(calls, {"content": "No."}))

    answer = box.ask(PROMPT)

    assert [call.ok for call in answer.calls] == [False, False, True]
    assert traces.left() == {}


@pytest.mark.parametrize(
    "rates", [{"malformedRate": 1}, {"disconnectRate": 1}, {"dropRate": 1}], ids=str
)
def test_a_model_that_misbehaves_gives_an_answer_that_says_so(
    make_box: MakeBox, double: ModelDouble, rates: dict[str, float]
) -> None:
    box = make_box(_settings("openai", double.url), secrets="MODEL_KEY: key-of-the-tests-1\n")
    double.say(_fixtures(_calls(("time_now", {})), {"content": "x"}))
    double.misbehave(**rates)

    answer = box.ask(PROMPT)

    assert answer.stop_reason == "error"
    assert answer.note
    assert set(answer.to_dict()) >= {
        "text",
        "toolCalls",
        "toolResults",
        "stopReason",
        "usage",
        "error",
    }
