"""The loop over real HTTP: a configured model, the double of all four providers, streamed and
whole."""

from __future__ import annotations

import json

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
    model = {"provider": provider, "base_url": double.url, "model": "m-1", "key": "MODEL_KEY"}
    box = make_box(
        f"models: {json.dumps({'default': 'double', 'double': model})}\n"
        f"ask: {json.dumps({'stream': streamed})}",
        secrets="MODEL_KEY: key-of-the-tests-1\n",
    )
    traces.add(
        box, "geo.weather", read_only=True, gives=lambda args: {"city": args["x"], "celsius": 20}
    )
    calls = [("geo_weather", {"x": "Lima"}), ("geo_weather", {"x": "Oslo"}), ("time_now", {})]
    asked = {"toolCalls": [{"name": name, "arguments": json.dumps(args)} for name, args in calls]}
    double.say(
        [
            {"match": {"userMessage": PROMPT, "hasToolResult": False}, "response": asked},
            {
                "match": {"userMessage": PROMPT, "hasToolResult": True},
                "response": {"content": ANSWER},
            },
        ]
    )
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
