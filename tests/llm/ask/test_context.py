"""The budget of an ask: what it costs, and the limit of that."""

from __future__ import annotations

import pytest

from onetool_ipy.llm import ScriptedModel, TokenUsage, Turn
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox
from tests.llm.test_prices import PRICE, Priced


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
