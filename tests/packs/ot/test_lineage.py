"""`ot.refresh`: the same call again, and what changed. `ot.origin` and `ot.diff` are tested in
`tests/core`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from onetool_ipy import Toolbox, ToolCallError, open_toolbox, tool
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.host import Host
from onetool_ipy.llm import ScriptedModel


class Shop:
    """A price list that changes, and how often it was asked for."""

    def __init__(self) -> None:
        self.prices = {"tea": 2.0, "milk": 1.0}
        self.calls: list[str] = []


class YesHost(Host):
    """A person who answers each question the same."""

    def __init__(self, action: Any) -> None:
        self.questions: list[Question] = []
        self._action = action

    def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        return Reply(self._action)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def box(tmp_path: Path, shop: Shop) -> Iterator[Toolbox]:
    with open_toolbox(
        tmp_path, env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}
    ) as opened:

        @tool(read_only=True)
        def prices(above: float = 0) -> list[Any]:
            """Give the price list."""
            return [
                {"name": name, "price": price}
                for name, price in shop.prices.items()
                if price > above
            ]

        @tool(read_only=True)
        def price(name: str) -> dict[str, Any]:
            """Give one price."""
            shop.calls.append(name)
            return {"price": shop.prices[name]}

        @tool
        def order(name: str) -> str:
            shop.calls.append(name)
            return f"{name} {len(shop.calls)}"

        for fn in (prices, price, order):
            opened.adopt(fn)
        yield opened


def test_the_same_call_again_says_what_changed(box: Toolbox, shop: Shop) -> None:
    result = box.call("nb.prices", {"above": 0.5})
    handle = result.store()
    assert not box.ot.refresh(result)

    shop.prices.update(tea=2.5, salt=0.7)
    for value in (result, result.df, result.data, handle):
        again = box.ot.refresh(value)
        assert str(again).splitlines() == [
            "1 row new, 1 price changed: tea price 2.0 → 2.5",
            "  new: name=salt price=0.7",
        ], value
        assert again.result.data == [{"name": n, "price": p} for n, p in shop.prices.items()]
        assert [part.tool for part in again.result.origin.calls()] == ["nb.prices"]


class Ledger(dict[str, Any]):
    """A value that cannot be copied."""

    def __deepcopy__(self, _memo: Any) -> Any:
        raise TypeError("one of a kind")


@pytest.mark.parametrize("kind", [list, Ledger, pd.DataFrame])
def test_a_tool_that_gives_its_own_object_again_is_compared_with_what_it_was(
    box: Toolbox, kind: Any
) -> None:
    """The tool changes the list that it gave, so the old value is copied before the call is made
    again."""
    own = kind([{"n": 1}]) if kind is not Ledger else Ledger(n=1)

    @tool(read_only=True)
    def mine() -> Any:
        """Give an object of its own, which grows."""
        if kind is list:
            own[0]["n"] += 1
        else:
            own["n"] = own["n"] + 1
        return own

    box.adopt(mine)
    result = box.call("nb.mine")
    for number, value in enumerate((result, result.data), start=2):
        assert f"{number} → {number + 1}" in str(box.ot.refresh(value))


def test_a_call_that_may_change_something_asks(box: Toolbox, shop: Shop) -> None:
    result = box.call("nb.order", {"name": "tea"})
    handle = result.store()

    with pytest.raises(ToolCallError, match="nobody can be asked"):
        box.ot.refresh(result)
    box.host = no = YesHost("decline")
    with pytest.raises(ToolCallError, match="was not called again"):
        box.ot.refresh(handle)
    assert "%tool nb.order name=tea" in no.questions[0].details
    assert shop.calls == ["tea"]

    box.host = YesHost("accept")
    again = box.ot.refresh(handle)
    assert (again.result.data, shop.calls) == ("tea 2", ["tea", "tea"])
    assert again


def test_a_map_calls_only_rows_whose_input_or_tool_changed(box: Toolbox, shop: Shop) -> None:
    shop.prices["salt"] = 0.5
    frame = pd.DataFrame({"name": ["tea", "milk"]})
    table = box.ot.map("nb.price", frame, name="name")
    shop.calls.clear()

    frame.loc[1, "name"] = "salt"
    again = box.ot.refresh(table, frame)
    assert shop.calls == ["salt"]
    assert again.changed[["row", "column", "old", "new"]].to_dict("records") == [
        {"row": 1, "column": "price", "old": 1.0, "new": 0.5}
    ]
    with pytest.raises(ToolCallError, match="needs the data"):
        box.ot.refresh(table)

    @tool(read_only=True)
    def price(name: str) -> dict[str, Any]:
        """Give one price."""
        shop.calls.append(name)
        return {"price": shop.prices[name] * 2}

    box.adopt(price)
    shop.calls.clear()
    assert len(box.ot.refresh(table, frame).changed) == 1, (
        "the price of salt times two is that of milk"
    )
    assert sorted(shop.calls) == ["salt", "tea"]


def test_what_cannot_be_called_again_says_why(box: Toolbox) -> None:
    forgotten = box.call("nb.prices")
    box.lineage.clear()
    long = box.call("nb.price", {"name": "x" * 5000})
    assert not long.ok
    for value, message in (
        (5, "No call is known"),
        (long.meta["call_id"], "are cut in the log"),
        (forgotten.meta["call_id"], "was not stored"),
        ("nothing", "No call is known"),
    ):
        with pytest.raises(ToolCallError, match=message):
            box.ot.refresh(value)


def test_a_model_is_neither_offered_it_nor_may_call_it(box: Toolbox) -> None:
    handle = box.call("nb.prices").store()
    assert "ot.refresh" not in [each["name"] for each in box.formats("anthropic")]
    answer = box.ask(
        "Go",
        model=ScriptedModel([[("ot.refresh", {"value": handle})], "ok"]),
        approve=["ot.refresh"],
    )
    assert answer.calls[0].result.error is not None


def test_what_is_shown_of_a_difference_has_no_secret(tmp_path: Path) -> None:
    secret = "s3cret-value-1234"
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / ".onetool" / "secrets.yaml").write_text(f"KEY: {secret}\n", encoding="utf-8")
    (tmp_path / ".onetool" / "secrets.yaml").chmod(0o600)
    long = "x" * 31 + secret
    pairs: list[tuple[Any, Any]] = [
        ([{"id": 1, "x": "a"}, {"id": 2}], [{"id": 1, "x": secret}, {"id": secret, "x": long}]),
        ({"a": 1, secret: 2}, {"a": secret, "list": [long]}),
        (f"a\n{secret}", f"b\n{long}"),
        ([{"id": 1, secret: "a"}], [{"id": 1, secret: {"deep": [long]}}]),
        ([{"id": 1, "x": long + "a"}], [{"id": 1, "x": long + "b"}]),
    ]
    with open_toolbox(
        tmp_path, env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        for before, after in pairs:
            for found in (box.ot.diff(before, after), box.ot.diff(after, before)):
                assert "s3cret" not in repr(found) + str(found) + found._repr_html_()
                assert "***" in str(found)


def test_one_object_from_two_calls_is_not_called_equal_results(box: Toolbox) -> None:
    """What the tool's own list held at the first call is gone; two equal lists are equal."""
    own = [{"id": 1, "price": 2}]

    @tool(name="nb.rising", read_only=True)
    def rising(is_copy: bool = False) -> list[dict[str, int]]:
        own[0]["price"] += 1
        return [dict(own[0])] if is_copy else own

    box.adopt(rising)
    first, second = box.call("nb.rising"), box.call("nb.rising")
    copies = [[{"id": 1}], [{"id": 1}]]

    assert "both are one object" in repr(box.ot.diff(first, second))
    assert repr(box.ot.diff(*copies)) == "No difference."
    assert "1 price changed" in repr(box.ot.refresh(second))
    box.adopt(tool(name="nb.fixed", read_only=True)(lambda: (1, b"2")))
    assert repr(box.ot.refresh(box.call("nb.fixed"))) == "No difference."
    kept = box.call("nb.rising", {"is_copy": True})
    assert "1 price changed" in repr(box.ot.refresh(kept))
