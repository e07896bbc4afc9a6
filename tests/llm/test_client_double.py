"""Round trips with the double of the model APIs, and what it was sent judged by the providers' own
types."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from onetool_ipy.base.errors import ExecutionFailed, InvalidOutput, RateLimited
from onetool_ipy.llm import Message, Outcome, Outcomes, System, TokenUsage, Turn, User
from onetool_ipy.llm.formats import OfferedTool
from tests.harness.models import ModelDouble
from tests.harness.patience import HANG_S
from tests.llm import provider_types
from tests.llm.conftest import KEY, MakeClient

PROVIDERS = ("openai", "ollama", "gemini", "anthropic")
PROMPT = "Compare the weather in Lima and Oslo"
ANSWER = "Lima is warm, Oslo is not; und Zürich liegt dazwischen."
TOOLS = [
    OfferedTool(
        "geo_weather",
        "The weather of a city.",
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "geo.weather",
    ),
    OfferedTool("time_now", "What time it is.", {"type": "object", "properties": {}}, "time.now"),
]
FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": PROMPT, "hasToolResult": False},
        "response": {
            "toolCalls": [
                {"name": "geo_weather", "arguments": json.dumps({"city": "Lima"})},
                {"name": "geo_weather", "arguments": json.dumps({"city": "Oslo"})},
                {"name": "time_now", "arguments": "{}"},
            ]
        },
    },
    {"match": {"userMessage": PROMPT, "hasToolResult": True}, "response": {"content": ANSWER}},
]
BEGIN: list[Message] = [System("Be brief."), User(PROMPT)]


class Recorder(httpx.AsyncBaseTransport):
    """The real network, and what went out: the double's journal holds requests in OpenAI's words,
    whatever came."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        return await self._network.handle_async_request(request)


def _outcomes(turn: Turn) -> Outcomes:
    contents = ({"celsius": 24}, ["cold", 2], "no clock")
    return Outcomes(
        tuple(
            Outcome(call, content, is_error=content == "no clock")
            for call, content in zip(turn.calls, contents, strict=True)
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_three_calls_and_their_outcomes_make_a_round_trip(
    double: ModelDouble, make_client: MakeClient, provider: str, streamed: bool
) -> None:
    double.say(FIXTURES)
    sent = Recorder()
    client = make_client(provider, double.url, transport=sent)
    heard: list[str] = []
    on_text = heard.append if streamed else None

    first = client.complete(BEGIN, TOOLS, on_text=on_text)
    second = client.complete([*BEGIN, first, _outcomes(first)], TOOLS, on_text=on_text)

    assert [(c.wire_name, c.arguments) for c in first.calls] == [
        ("geo_weather", {"city": "Lima"}),
        ("geo_weather", {"city": "Oslo"}),
        ("time_now", {}),
    ]
    assert first.stop == "calls"
    assert len({call.id for call in first.calls}) == 3
    assert (second.text, second.calls, second.stop) == (ANSWER, (), "done")
    assert "".join(heard) == (ANSWER if streamed else "")
    assert len(heard) > 1 or not streamed
    assert [entry["response"]["status"] for entry in double.journal()] == [200, 200]
    for body in sent.bodies:
        _judge(provider, body, streamed)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_images_go_along_with_a_prompt(
    double: ModelDouble, make_client: MakeClient, provider: str
) -> None:
    double.say([{"match": {"userMessage": PROMPT}, "response": {"content": ANSWER}}])
    sent = Recorder()
    client = make_client(provider, double.url, transport=sent)

    turn = client.complete([User(PROMPT, (("image/png", "iVBORw0KGgo="),))])

    assert turn.text == ANSWER
    assert "iVBORw0KGgo=" in json.dumps(sent.bodies[0])
    _judge(provider, sent.bodies[0], streamed=False)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_same_holds_for_async_code(
    double: ModelDouble, make_client: MakeClient, provider: str
) -> None:
    double.say(FIXTURES)
    client = make_client(provider, double.url)
    heard: list[str] = []

    first = await client.acomplete(BEGIN, TOOLS, on_text=heard.append)
    second = await client.acomplete([*BEGIN, first, _outcomes(first)], TOOLS)

    assert len(first.calls) == 3
    assert second.text == ANSWER


# The double has no counts for Ollama.
@pytest.mark.parametrize("provider", ["openai", "gemini", "anthropic"])
def test_tokens_are_counted(double: ModelDouble, make_client: MakeClient, provider: str) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    double.say(
        [
            {
                "match": {"userMessage": "count"},
                "response": {"content": "one two three", "usage": usage},
            }
        ]
    )
    client = make_client(provider, double.url)

    whole = client.complete([User("count")])
    streamed = client.complete([User("count")], on_text=lambda _: None)

    assert whole.usage == streamed.usage == TokenUsage(11, 7)


@pytest.mark.parametrize("first", PROVIDERS)
@pytest.mark.parametrize("then", PROVIDERS)
def test_a_conversation_goes_on_with_another_provider(
    double: ModelDouble, make_client: MakeClient, first: str, then: str
) -> None:
    double.say(FIXTURES)
    turn = make_client(first, double.url).complete(BEGIN, TOOLS)

    sent = Recorder()
    replayed = Turn.from_dict(json.loads(json.dumps(turn.to_dict())))

    answer = make_client(then, double.url, transport=sent).complete(
        [*BEGIN, replayed, _outcomes(turn)], TOOLS
    )

    assert answer.text == ANSWER
    _judge(then, sent.bodies[-1], streamed=False)


@pytest.mark.parametrize(
    ("provider", "options", "sent_as"),
    [
        (
            "openai",
            {"temperature": 0, "seed": 7, "max_tokens": 50},
            {"temperature": 0, "seed": 7, "max_tokens": 50},
        ),
        (
            "anthropic",
            {"stop_sequences": ["END"], "max_tokens": 9000},
            {"stop_sequences": ["END"], "max_tokens": 9000},
        ),
        (
            "gemini",
            {"temperature": 0, "topK": 4},
            {"generationConfig": {"temperature": 0, "topK": 4}},
        ),
        (
            "ollama",
            {"num_ctx": 16384, "think": False, "keep_alive": "5m"},
            {"options": {"num_ctx": 16384}, "think": False, "keep_alive": "5m"},
        ),
    ],
)
def test_the_models_own_options_are_sent_along(
    double: ModelDouble,
    make_client: MakeClient,
    provider: str,
    options: dict[str, Any],
    sent_as: dict[str, Any],
) -> None:
    double.say(FIXTURES)
    plain, sent = Recorder(), Recorder()

    make_client(provider, double.url, transport=plain).complete(BEGIN, TOOLS)
    turn = make_client(provider, double.url, transport=sent, options=options).complete(BEGIN, TOOLS)

    assert len(turn.calls) == 3
    assert sent.bodies == [{**plain.bodies[0], **sent_as}]
    _judge(provider, sent.bodies[0], streamed=False)


@pytest.mark.parametrize(
    ("provider", "key", "inside"),
    [
        ("openai", "max_tokens", ""),
        ("anthropic", "max_tokens", ""),
        ("gemini", "maxOutputTokens", "generationConfig"),
        ("ollama", "num_predict", "options"),
    ],
)
def test_of_two_limits_the_lower_one_holds(
    double: ModelDouble, make_client: MakeClient, provider: str, key: str, inside: str
) -> None:
    double.say(FIXTURES)
    sent = Recorder()
    client = make_client(provider, double.url, transport=sent, options={key: 100})

    client.complete(BEGIN, max_tokens=40)
    client.complete(BEGIN, max_tokens=400)

    assert [(body[inside] if inside else body)[key] for body in sent.bodies] == [40, 100]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_secret_in_the_conversation_is_not_sent_and_the_key_only_as_a_header(
    double: ModelDouble, make_client: MakeClient, provider: str
) -> None:
    double.say([{"match": {"userMessage": "leak"}, "response": {"content": "ok"}}])

    make_client(provider, double.url).complete([User(f"leak {KEY}")])

    (entry,) = double.journal()
    assert KEY not in json.dumps(entry["body"])
    assert "leak ***" in json.dumps(entry["body"])


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("rates", "kind"),
    [
        ({"dropRate": 1}, ExecutionFailed),
        ({"malformedRate": 1}, InvalidOutput),
        ({"disconnectRate": 1}, ExecutionFailed),
        ({"rateLimitRate": 1}, RateLimited),
    ],
    ids=["dropped", "malformed", "disconnected", "limited"],
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_server_that_misbehaves_is_an_error_of_ours(
    double: ModelDouble,
    make_client: MakeClient,
    provider: str,
    rates: dict[str, float],
    kind: type[ExecutionFailed],
    streamed: bool,
) -> None:
    double.say(FIXTURES)
    double.misbehave(**rates)

    with pytest.raises(kind) as caught:
        make_client(provider, double.url).complete(
            BEGIN, TOOLS, on_text=(lambda _: None) if streamed else None
        )

    assert KEY not in str(caught.value)
    double.behave()
    assert len(make_client(provider, double.url).complete(BEGIN, TOOLS).calls) == 3


def test_a_slow_server_is_waited_for(double: ModelDouble, make_client: MakeClient) -> None:
    double.say(FIXTURES)
    double.misbehave(latencyMs=300)

    assert (
        len(make_client("openai", double.url).complete(BEGIN, TOOLS, deadline_s=HANG_S).calls) == 3
    )


def _judge(provider: str, body: dict[str, Any], streamed: bool) -> None:
    """Raise where the provider's own types do not know what we sent."""
    if provider == "openai":
        _strict(provider_types.openai_request(streamed=streamed), body)
    elif provider == "anthropic":
        _strict(provider_types.anthropic_request(streamed=streamed), body)
    elif provider == "gemini":
        for content in body["contents"]:
            provider_types.gemini().Content.model_validate(content)
        for tool in body.get("tools", ()):
            provider_types.gemini().Tool.model_validate(tool)
        if "systemInstruction" in body:
            provider_types.gemini().Content.model_validate(body["systemInstruction"])
    else:
        _judge_ollama(body)


def _strict(kind: TypeAdapter[Any], body: dict[str, Any]) -> None:
    made = kind.validate_python(body)
    assert set(made) == set(body)


def _judge_ollama(body: dict[str, Any]) -> None:
    request = provider_types.ollama_request().model_validate(body)
    assert len(request.messages or ()) == len(body["messages"])
    assert len(request.tools or ()) == len(body.get("tools", ()))
