"""What an ask costs: by the model's own price, by the table, or not known."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from onetool_ipy.config.settings import Model
from onetool_ipy.llm import ScriptedModel, TokenUsage
from onetool_ipy.llm.prices import ModelPrice

PRICE = {"input": 2.0, "output": 10.0, "cached": 0.5}


class Priced(ScriptedModel):
    """A scripted model with settings, as the client of a configured one has them."""

    def __init__(self, replies: Any, **fields: Any) -> None:
        super().__init__(replies)
        facts = {"provider": "openai", "model": "gpt-5.6", "base_url": None, "key": None, "where": "", **fields}
        self.model = Model(name="m", **facts)


@pytest.mark.parametrize(
    ("price", "cost"),
    [(PRICE, 0.0042), ({"input": 2.0, "output": 10.0}, 0.006), ({"input": 0.0, "output": 0.0}, 0.0)],
    ids=["cached", "cached as input", "free"],
)
def test_rule_17_a_configured_price_is_dollars_per_million_tokens(price: dict[str, float], cost: float) -> None:
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


def test_rule_17_without_the_table_only_a_configured_price_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    assert ModelPrice(Priced([])).cost(TokenUsage(1000, 10)) is None
    assert ModelPrice(Priced([], price=PRICE)).cost(TokenUsage(1000, 10)) == pytest.approx(0.0021)
