"""Compare in the viewer: what a result can be compared with, which one is the older, and what is
said when it fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from onetool_ipy import Toolbox, open_toolbox, tool
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.widgets.requests import ScreenRequests

OLD = [{"id": 1, "price": 1.5, "change": "x → y"}, {"id": 2, "price": 2.0, "change": "-"}]
NEW = [{"id": 1, "price": 1.75, "change": "x → y"}, {"id": 3, "price": 4.0, "change": "-"}]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    with open_toolbox(
        tmp_path, env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}
    ) as opened:

        @tool(read_only=True)
        def give(value: Any, secret: str = "") -> Any:
            return value

        @tool(read_only=True)
        def frame() -> Any:
            return pd.DataFrame(OLD)

        opened.adopt(give)
        opened.adopt(frame)
        yield opened


class Screen:
    """A viewer that shows a result, and asks as the page does."""

    def __init__(self, box: Toolbox, result: ToolResult) -> None:
        self._answers: list[Any] = []
        self.requests = ScreenRequests(box, send=self._answers.append, namespace=dict)
        self.requests.show_first(result)
        self.shown = self.ask("open")

    def ask(self, kind: str, **payload: Any) -> Any:
        own = (
            {"handle": self.shown["handle"], "call": self.shown["call"]}
            if hasattr(self, "shown")
            else {}
        )
        self.requests._answer(1, self.requests._slow[kind], {**own, **payload})
        answer = self._answers.pop()
        return answer.get("value", answer.get("error", {}).get("message"))

    def choices(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.ask("comparable", tool=self.shown["tool"])["items"]
        return items

    def compare(self, other: dict[str, Any], *key: str) -> Any:
        return self.ask("compare", other=other, key=list(key))


def test_results_of_the_same_tool_come_first_and_each_once(box: Toolbox) -> None:
    first, table = box.call("nb.give", {"value": OLD}), box.call("nb.frame")
    stored = box.call("nb.give", {"value": "text"})
    handle = stored.store()
    box.call("nb.give", {"value": 5}), box.call("nb.give", {"wrong": 1})
    strange = box.results.put("from elsewhere", tool="other.tool")
    screen = Screen(box, box.call("nb.give", {"value": NEW}))

    calls = [
        (item["tool"], item["call"], item["handle"], item["isSame"]) for item in screen.choices()
    ]

    assert calls == [
        ("nb.give", stored.meta["call_id"], handle, True),
        ("nb.give", first.meta["call_id"], None, True),
        ("other.tool", None, strange, False),
        ("nb.frame", table.meta["call_id"], None, False),
    ]
    assert screen.choices()[1]["text"].startswith("value=[{")


def test_the_older_result_is_the_first_whichever_is_looked_at(box: Toolbox) -> None:
    old, new = box.call("nb.give", {"value": OLD}), box.call("nb.give", {"value": NEW})
    for result in (new, old):
        screen = Screen(box, result)
        answer = screen.compare(screen.choices()[0])
        assert answer["text"] == "1 row new, 1 row gone, 1 price changed: 1 price 1.5 → 1.75"
        assert [side["isThis"] for side in answer["sides"]] == [result is old, result is new]
        assert (answer["key"], answer["columns"]) == (["id"], ["id", "price", "change"])


def test_the_table_has_only_the_changes_and_marks_changed_cells(box: Toolbox) -> None:
    """A cell of the data that looks like a change is not marked, and a column of our column's name
    stays."""
    box.call("nb.give", {"value": OLD})
    screen = Screen(box, box.call("nb.give", {"value": NEW}))
    answer = screen.compare(screen.choices()[0])
    changes = answer["result"]

    table = screen.ask("table", handle=None, call=changes["call"], offset=0, limit=50)

    assert changes["rows"] == 3
    assert [column["name"] for column in table["columns"]] == ["_change", "id", "price", "change"]
    assert [row[1:] for row in table["rows"]] == [
        ["added", "3", "4.0", "-"],
        ["removed", "2", "2.0", "-"],
        ["changed", "1", ["1.5", "1.75"], "x → y"],
    ]
    screen.ask("assign", handle=None, call=changes["call"], variable="d")
    filtered = screen.ask(
        "table", handle=None, call=changes["call"], filter="1.75", offset=0, limit=50
    )
    assert filtered["total"] == 1


@pytest.mark.parametrize(
    ("before", "after", "key", "message"),
    [
        (OLD, NEW, ["change"], "The key is not unique: change='-' is in more than one row"),
        (OLD, NEW, ["nope"], "Both tables need a column 'nope'."),
        (
            OLD,
            "text",
            [],
            (
                "The first result is a list or table and the second is text, so they cannot be"
                " compared."
            ),
        ),
        ({"a": 1}, [1], [], "The first result is an object and the second is a list or table"),
    ],
    ids=["key", "column", "text", "object"],
)
def test_what_cannot_be_compared_is_one_sentence(
    box: Toolbox, before: Any, after: Any, key: list[str], message: str
) -> None:
    rows = [*before, {"id": 9, "price": 1, "change": "-"}] if key == ["change"] else before
    box.call("nb.give", {"value": rows})
    screen = Screen(box, box.call("nb.give", {"value": after}))

    answer = screen.compare(screen.choices()[0], *key)

    assert isinstance(answer, str)
    assert answer.startswith(message)
    assert "\n" not in answer


def test_a_result_that_is_gone_says_so(box: Toolbox) -> None:
    box.call("nb.give", {"value": OLD})
    kept = box.call("nb.give", {"value": OLD}).store()
    screen = Screen(box, box.call("nb.give", {"value": NEW}))
    stored, held = screen.choices()

    box.lineage.clear()
    box.results.delete(kept)

    assert kept in screen.compare(stored)
    assert screen.compare(held).startswith("The result of that call of 'nb.give' was not stored.")
    assert screen.compare({"call": "nothing"}).startswith("That result is no longer available.")
    assert screen.choices() == []


def test_equal_results_and_other_kinds_are_said_in_words(box: Toolbox) -> None:
    box.call("nb.give", {"value": OLD})
    screen = Screen(box, box.call("nb.give", {"value": OLD}))
    answer = screen.compare(screen.choices()[0])
    assert (answer["text"], answer["result"]["rows"]) == ("No difference.", 0)

    box.call("nb.give", {"value": {"a": {"b": 1}}})
    data = Screen(box, box.call("nb.give", {"value": {"a": {"b": 2}}}))
    assert data.compare(data.choices()[0])["text"] == "1 value changed: a.b 1 → 2"
    box.call("nb.give", {"value": "a\nb"})
    text = Screen(box, box.call("nb.give", {"value": "a\nc"}))
    assert text.compare(text.choices()[0])["text"] == "1 line new, 1 line gone"


def test_secrets_are_masked(tmp_path: Path) -> None:
    folder = tmp_path / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "secrets.yaml").write_text('KEY: "sk-compare-0123456789"\n', encoding="utf-8")
    (folder / "secrets.yaml").chmod(0o600)
    with open_toolbox(
        tmp_path, env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:

        def give(value: Any) -> Any:
            return value

        box.adopt(give)
        rows = [
            [{"id": 1, "sk-compare-0123456789": value}] for value in (1, "sk-compare-0123456789")
        ]
        box.call("nb.give", {"value": rows[0]})
        screen = Screen(box, box.call("nb.give", {"value": rows[1]}))
        item = screen.choices()[0]
        answer = screen.compare(item)
        table = screen.ask("table", handle=None, call=answer["result"]["call"], offset=0, limit=9)
        assert "sk-compare" not in repr((item, answer, table))
