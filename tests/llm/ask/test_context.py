"""The budget of an ask: what it costs, and the limit of that."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from onetool_ipy.config.settings import Model
from onetool_ipy.llm import ScriptedModel, TokenUsage, Turn
from onetool_ipy.llm.ask.context import ModelPrice
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox

PRICE = {"input": 2.0, "output": 10.0, "cached": 0.5}


def test_rule_17_an_answer_has_its_cost(make_box: MakeBox) -> None:
    box = make_box()
    replies = [Turn("One.", usage=TokenUsage(1000, 100, 500))]

    known = box.ask("Go", model=Priced(replies, price=PRICE))
    unknown = box.ask("Go", model=ScriptedModel(replies))

    assert known.cost == pytest.approx(0.00225)
    assert unknown.cost is None


def test_rule_17_max_cost_ends_an_ask(make_box: MakeBox) -> None:
    box = make_box("ask: {max_cost: 0.01}")
    model = Priced([("tools.echo", {"message": 1})] * 9, price={"input": 20.0, "output": 1.0})

    answer = box.ask("Go", model=model)

    assert answer.stop_reason == "limit"
    assert "of $0.01 (ask.max_cost) are spent" in answer.note
    assert answer.cost is not None
    assert answer.cost >= 0.01


def test_rule_17_a_limit_that_cannot_be_kept_is_said(make_box: MakeBox) -> None:
    box: Toolbox = make_box("ask: {max_cost: 0.01}")
    notes: list[str] = []
    box.host.note = notes.append  # type: ignore[method-assign]  # the host hears what a person would read

    box.ask("Go", model=ScriptedModel(["Fine."]))

    assert "ask.max_cost is ignored" in notes[0]


def test_rule_17_price_and_images_are_settings_of_a_model(make_box: MakeBox) -> None:
    model = "{provider: ollama, model: m, images: false, price: {input: 1, output: 2.5}}"
    box = make_box(f"models: {{local: {model}}}")

    settings = box.config.settings.models.named["local"]

    assert (settings.images, settings.price) == (False, {"input": 1, "output": 2.5})
    assert box.model().image_limits() is None  # type: ignore[attr-defined]  # the client of a configured model
    assert box.problems() == []


class Priced(ScriptedModel):
    """A scripted model with settings, as the client of a configured one has them."""

    def __init__(self, replies: Any, **fields: Any) -> None:
        super().__init__(replies)
        facts = {
            "provider": "openai",
            "model": "gpt-5.6",
            "base_url": None,
            "key": None,
            "where": "",
            **fields,
        }
        self.model = Model(name="m", **facts)


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (PRICE, 0.0042),
        ({"input": 2.0, "output": 10.0}, 0.006),
        ({"input": 0.0, "output": 0.0}, 0.0),
    ],
    ids=["cached", "cached as input", "free"],
)
def test_rule_17_a_configured_price_is_dollars_per_million_tokens(
    price: dict[str, float], cost: float
) -> None:
    usage = TokenUsage(2000, 200, 1200)

    assert ModelPrice(Priced([], price=price)).cost(usage) == pytest.approx(cost)


def test_rule_17_the_table_names_the_model_that_it_matched() -> None:
    price = ModelPrice(Priced([]))

    assert price.matched == ""
    assert (price.cost(TokenUsage(1_000_000, 0)) or 0) > 0.1
    assert price.matched.startswith("gpt-5.6")


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "a-model-that-nobody-sells"},
        {"base_url": "http://127.0.0.1:8000/v1"},
        {"provider": "ollama", "model": "llama3"},
    ],
    ids=["unknown", "own server", "ollama"],
)
def test_rule_17_without_a_price_there_is_no_cost(fields: dict[str, Any]) -> None:
    assert ModelPrice(Priced([], **fields)).cost(TokenUsage(1000, 10)) is None
    assert ModelPrice(ScriptedModel([])).cost(TokenUsage(1000, 10)) is None


def test_rule_17_without_the_table_only_a_configured_price_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    assert ModelPrice(Priced([])).cost(TokenUsage(1000, 10)) is None
    assert ModelPrice(Priced([], price=PRICE)).cost(TokenUsage(1000, 10)) == pytest.approx(0.0021)
