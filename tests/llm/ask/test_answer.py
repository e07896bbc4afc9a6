"""The Answer as a value: tables, cells that do the work again, how it is shown."""

from __future__ import annotations

import ast
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs
import pytest
from pydantic import BaseModel

from onetool_ipy.core.result import ToolResult
from onetool_ipy.llm import ScriptedModel, TokenUsage, Turn
from onetool_ipy.llm.ask.answer import Answer, AnswerCall, AnswerCalls, PlannedCalls, summary
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import Traces

ROWS = [{"city": "Lima", "celsius": 24}, {"city": "Oslo", "celsius": 2}]


def _call(name: str, data: Any, args: Any = None, **meta: Any) -> AnswerCall:
    return AnswerCall(
        "c", name, {} if args is None else args, ToolResult(True, data, None, meta), data
    )


@pytest.mark.parametrize(
    "data",
    [ROWS, {"items": ROWS, "total": 2}, {"a": {"b": {"rows": ROWS}}}],
    ids=["rows", "inside", "deep"],
)
def test_df_is_the_last_result_that_has_rows(data: Any) -> None:
    answer = Answer(
        prompt="p",
        calls=AnswerCalls(
            [_call("a.x", [{"n": 1}]), _call("geo.weather", data), _call("time.now", "noon")]
        ),
    )

    assert answer.df["city"].tolist() == ["Lima", "Oslo"]
    assert answer.df.attrs["onetool"]["tool"] == "geo.weather"


def test_df_without_rows_is_the_table_of_calls(box: Toolbox) -> None:
    answer = box.ask(
        "Go", model=ScriptedModel([[("tools.echo", {"message": 1}), ("no.such", {})], "ok"])
    )

    assert answer.df["tool"].tolist() == ["tools.echo", "no.such"]
    assert answer.calls.df["ok"].tolist() == [True, False]
    assert list(answer.calls.df.columns) == [
        "id",
        "tool",
        "args",
        "ok",
        "error",
        "ms",
        "tokens",
        "cached",
    ]
    assert Answer(prompt="p").df.empty


class _City(BaseModel):
    city: str
    celsius: int


@pytest.mark.parametrize(
    "value",
    [ROWS, {"cities": ROWS}, [_City.model_validate(row) for row in ROWS], pd.DataFrame(ROWS)],
    ids=["rows", "inside", "models", "frame"],
)
def test_rule_9_df_is_the_value_where_it_has_rows(value: Any) -> None:
    answer = Answer(prompt="p", value=value, calls=AnswerCalls([_call("a.x", [{"n": 1}])]))

    assert answer.df["city"].tolist() == ["Lima", "Oslo"]


def test_an_answer_has_its_value_program_plan_and_cost() -> None:
    plan = [{"tool": "crm.remind", "args": {"customer": 1}}]
    usage = TokenUsage(100, 20, 60, 5)
    answer = Answer(
        prompt="p",
        value=7,
        program="7",
        plan=PlannedCalls(plan),
        usage=usage,
        cost=0.0125,
        priced_as="m-1",
    )

    assert answer.plan == plan
    assert answer.plan.df["tool"].tolist() == ["crm.remind"]
    assert (
        answer.usage.input,
        answer.usage.output,
        answer.usage.cached,
        answer.usage.reasoning,
    ) == (100, 20, 60, 5)
    assert (
        summary(answer)
        == "no model · 100 tokens in (60 cached), 20 out (5 reasoning) · $0.013 (price of m-1)"
    )
    data = answer.to_dict()
    assert [data[key] for key in ("value", "program", "plan", "cost")] == [7, "7", plan, 0.0125]
    assert not {"value", "program", "plan", "cost"} & Answer(prompt="p").to_dict().keys()


def test_cells_hold_the_calls_that_ran_and_no_other(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.cached", read_only=True, cache_key=lambda **args: 1)
    turn = [
        ("tools.echo", {"message": "say \"hi\"\n{x} $y 'z' --soft"}),
        ("a.cached", {"x": "1"}),
        ("a.cached", {"x": "1"}),
        ("no.such", {}),
        ("time.now", {}),
    ]

    cells = box.ask("Go", model=ScriptedModel([turn, "ok"])).to_cells()

    assert [cell.split(" ")[1] for cell in cells] == ["tools.echo", "a.cached", "time.now"]
    assert all(cell.startswith("%tool ") and "\n" not in cell for cell in cells)
    assert cells[-1] == "%tool time.now"


@pytest.mark.parametrize(
    "char", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\x1b"], ids=ascii
)
def test_no_character_splits_the_line_of_a_cell(box: Toolbox, char: str) -> None:
    """IPython splits a cell where Python's splitlines does, so the rest would run as code of its
    own."""
    said = f"one{char}!echo two"

    (cell,) = box.ask(
        "Go", model=ScriptedModel([[("tools.echo", {"message": said})], "ok"])
    ).to_cells()

    assert cell.splitlines() == [cell]
    assert (
        ast.literal_eval(cell.removeprefix("%tool tools.echo message={").removesuffix("}")) == said
    )


def test_text_and_repr_say_what_it_is() -> None:
    answer = Answer(
        prompt="p",
        text="Noon.",
        calls=AnswerCalls([_call("time.now", 1)]),
        usage=TokenUsage(1000, 200),
    )

    assert str(answer) == "Noon."
    assert repr(answer) == "<Answer done, 1 call, 1,200 tokens: 'Noon.'>"


def test_a_shown_answer_holds_no_html_and_no_picture() -> None:
    evil = "<img src=x onerror=alert(1)> ![p](http://evil/?q=1)\x1b[31m"

    shown = Answer(
        prompt="p", text=evil, model=evil, calls=AnswerCalls([_call(evil, evil)])
    )._repr_mimebundle_()

    assert "<img" not in shown["text/markdown"]
    assert "![" not in shown["text/markdown"]
    assert "\x1b" not in shown["text/plain"]


def test_usage_adds_up_over_the_requests(box: Toolbox) -> None:
    model = ScriptedModel([("time.now", {}), "Noon."])

    answer = box.ask("Go", model=model)

    assert answer.usage.input > 100
    assert answer.to_dict()["usage"]["total"] == answer.usage.input + answer.usage.output


def test_a_cut_answer_says_so_wherever_it_is_shown(box: Toolbox) -> None:
    usage = TokenUsage(1200, 96, cached=1000, reasoning=40)

    answer = box.ask("Go", model=ScriptedModel([Turn("Half of the", usage=usage, stop="cut")]))

    shown = answer._repr_mimebundle_()
    for text in shown.values():
        assert "The reply was cut at the token limit" in text
        assert "1,200 tokens in (1,000 cached), 96 out (40 reasoning)" in text
    assert "<Answer cut" in repr(answer)
    assert answer.to_dict()["usage"] == {
        "input": 1200,
        "output": 96,
        "cached": 1000,
        "reasoning": 40,
        "total": 1296,
    }
