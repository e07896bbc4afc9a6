"""The result viewer, as its page asks: pages, tables, trees, pictures, and the value as a
variable."""

from __future__ import annotations

import base64
import json
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest

from onetool_ipy import open_toolbox, tool
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.widgets.requests import ScreenRequests
from tests.faces.widgets.conftest import SECRET, Side


@pytest.mark.slow
def test_a_million_lines_are_paged_and_searched(side: Side) -> None:
    def big(lines: int) -> str:
        return "\n".join(f"line {i}" for i in range(1, lines + 1))

    side.box.adopt(big)
    shown = side.run("nb.big", lines=1_000_000)
    assert (shown["lines"], len(shown["preview"])) == (1_000_000, 200)
    assert len(json.dumps(shown)) < 20_000
    page = side.ask("page", handle=shown["handle"], call=shown["call"], offset=900_001, limit=100)
    assert page["lines"][0] == "line 900001"
    found = side.ask("find", handle=shown["handle"], call=shown["call"], pattern="line 99999[05]$")
    assert (found["hits"], found["matched"], found["isComplete"]) == ([999990, 999995], 2, True)
    bad = side.raw("find", handle=shown["handle"], pattern="(")
    assert "(" in bad["error"]["message"]


@pytest.mark.slow
def test_a_table_is_sorted_and_filtered_over_all_rows(side: Side) -> None:
    def rows(n: int) -> list[dict[str, Any]]:
        return [{"id": i, "name": f"n{i % 7}", "x": None if i == 3 else i * 0.5} for i in range(n)]

    side.box.adopt(rows)
    shown = side.run("nb.rows", n=100_000)
    assert shown["kinds"][0] == "table"
    whose = {"handle": shown["handle"], "call": shown["call"]}
    plain = side.ask("table", **whose, offset=0, limit=3, sort=None, filter="")
    assert [(column["name"], column["kind"]) for column in plain["columns"]] == [
        ("id", "integer"),
        ("name", "text"),
        ("x", "number"),
    ]
    assert plain["rows"][0] == [0, "0", "n0", "0.0"]
    down = side.ask(
        "table", **whose, offset=0, limit=2, sort={"column": 0, "isDown": True}, filter=""
    )
    assert [row[:2] for row in down["rows"]] == [[99_999, "99999"], [99_998, "99998"]]
    some = side.ask(
        "table", **whose, offset=0, limit=2, sort={"column": 0, "isDown": True}, filter="N6"
    )
    assert some["total"] == 14285
    assert some["rows"][0][2] == "n6"
    assert side.ask("table", **whose, offset=3, limit=1, sort=None, filter="")["rows"][0][3] == ""


def test_a_tree_opens_part_by_part_and_a_picture_is_sent_as_bytes(side: Side) -> None:
    def nested() -> dict[str, Any]:
        return {"a": {"b": list(range(500))}, "text": "<b>", "key": SECRET}

    def picture() -> bytes:
        return b"\x89PNG\r\n\x1a\n" + b"\0" * 20

    def fetched() -> dict[str, Any]:
        """A picture as an HTTP tool gives it."""
        return {"mime": "image/png", "base64": base64.b64encode(picture()).decode(), "size": 28}

    def broken() -> dict[str, Any]:
        return {"mime": "image/png", "base64": "%%%", "size": 3}

    for function in (nested, picture, fetched, broken):
        side.box.adopt(function)
    shown = side.run("nb.nested")
    whose = {"handle": shown["handle"], "call": shown["call"]}
    top = side.ask("tree", **whose, path=[], offset=0, limit=100)
    assert [child["key"] for child in top["children"]] == ["a", "text", "key"]
    inside = side.ask("tree", **whose, path=["a", "b"], offset=490, limit=100)
    assert (inside["total"], len(inside["children"])) == (500, 10)
    assert (
        "nothing" in side.raw("tree", **whose, path=["nope"], offset=0, limit=1)["error"]["message"]
    )
    for name in ("nb.picture", "nb.fetched"):
        image = side.run(name)
        assert image["kinds"][0] == "image"
        assert side.ask("image", call=image["call"])["parts"][0]["mime"] == "image/png"
    assert "image" not in side.run("nb.broken")["kinds"]


def test_images_are_shown_with_the_text_beside_them(side: Side) -> None:
    def mixed() -> list[Any]:
        """Text, a picture, text."""
        return [f"before {SECRET}", b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "after"]

    side.box.adopt(mixed)
    shown = side.run("nb.mixed")
    assert shown["kinds"][0] == "image"
    parts = side.ask("image", call=shown["call"])["parts"]
    assert [part.get("text") or part["mime"] for part in parts] == [
        "before ***",
        "image/png",
        "after",
    ]


def test_assign_saves_the_value_and_says_what_it_is(side: Side) -> None:
    shown = side.run("tools.echo", message=[1, 2])
    answer = side.ask("assign", handle=shown["handle"], call=shown["call"], variable="x")
    assert side.names["x"] == [1, 2]
    assert answer["said"] == "x: list, 2 rows"
    assert (
        "not a valid variable name"
        in side.raw("assign", call=shown["call"], variable="not a name")["error"]["message"]
    )


@pytest.mark.parametrize("is_other", [False, True], ids=["this kernel", "another kernel"])
def test_assign_gives_what_the_result_was_also_by_its_handle(side: Side, is_other: bool) -> None:
    """A tab knows a result by its handle alone; another kernel has only its file."""

    @tool
    def sales() -> pd.DataFrame:
        day = pd.date_range("2024-01-01", periods=6_000, freq="h")
        towns = ["Wien", "Linz", "Graz"] * 2_000
        return pd.DataFrame({"when": day, "town": towns, "price": [n / 4 for n in range(6_000)]})

    side.box.adopt(sales)
    handle = side.run("nb.sales")["handle"]
    if is_other:
        folder = side.box.config.paths.project
        side.desk.close()
        side.box.close()
        side.box = open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state")})
        side.desk = ScreenRequests(side.box, send=side._sent, namespace=lambda: side.names)
    assert side.ask("open", handle=handle)["rows"] == 6_000
    query = {"filter": "wien", "columns": {"2": "> 10"}, "sort": {"column": 2, "isDown": True}}

    answer = side.ask("assign", handle=handle, variable="wien", **query)

    assert answer["said"] == "wien: DataFrame, 1,986 rows"
    wien = side.names["wien"]
    assert list(wien.dtypes) == list(sales().dtypes)
    assert list(wien["price"][:2]) == [1499.25, 1498.5]


@pytest.mark.parametrize("value", [{"a": [1, {"b": 2}]}, "two\nlines", [1, 2], ["one"]], ids=repr)
def test_assign_by_handle_gives_plain_values_as_they_were(side: Side, value: Any) -> None:
    handle = side.box.results.put(value)
    side.ask("assign", handle=handle, variable="x")
    assert side.names["x"] == value


def test_a_few_flat_rows_read_the_same_with_and_without_a_frame(side: Side) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 2, "name": "b", "on": True},
        {"id": 10, "more": None, "name": "a"},
    ]

    def give() -> list[dict[str, Any]]:
        return rows

    side.box.adopt(give)
    shown = side.run("nb.give")
    asked = {"call": shown["call"], "handle": None, "offset": 0, "limit": 10}
    plain = side.ask("table", **asked)
    kinds = {column["name"]: column["kind"] for column in plain["columns"]}
    assert kinds == {"id": "integer", "name": "text", "on": "boolean", "more": "text"}
    assert plain["rows"] == [[0, "2", "b", "true", ""], [1, "10", "a", "", ""]]
    by_id = side.ask("table", **asked, sort={"column": 0, "isDown": False})
    assert by_id["columns"] == plain["columns"]
    assert [row[:3] for row in by_id["rows"]] == [[0, "2", "b"], [1, "10", "a"]]


def test_a_frame_is_a_table(side: Side) -> None:
    side.desk.show_first(ToolResult(True, pd.DataFrame({"a": [3, 1, 2], "b": ["x", "y", None]})))
    shown = side.ask("open")
    assert shown["kinds"][0] == "table"
    assert shown["rows"] == 3
    asked = {"call": shown["call"], "handle": None, "offset": 0, "limit": 10}
    found = side.ask("table", **asked, sort={"column": 0, "isDown": False})
    assert [column["name"] for column in found["columns"]] == ["a", "b"]
    assert found["rows"] == [[1, "1", "y"], [2, "2", ""], [0, "3", "x"]]


def test_code_begins_with_the_variable_that_holds_the_table(side: Side) -> None:
    def taken(data: Any, **names: Any) -> str:
        side.names = {"_": data, **names}
        side.desk.show_first(ToolResult(True, data))
        about = side.ask("open")
        answer = side.ask(
            "pandasCode", call=about["call"], handle=None, visible=[0], columns={"0": "> 1"}
        )
        return str(answer["code"])

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    rows = frame.to_dict("records")
    assert taken(frame, sales=frame) == "sales[(sales['a'] > 1)][['a']]"
    assert taken(rows, rows=rows).splitlines()[:2] == [
        "import pandas as pd",
        "df = pd.DataFrame(rows)",
    ]
    assert taken(rows, x=ToolResult(True, rows)).splitlines()[0] == "df = x.df"
    assert taken(rows).splitlines()[0].startswith("# df is this table")


def test_a_value_that_no_call_gave_is_viewed(side: Side) -> None:
    side.desk.show_first(ToolResult(True, {"a": [1, 2]}))
    shown = side.ask("open")
    tree = side.ask("tree", call=shown["call"], handle=None, path=["a"], offset=0, limit=10)
    assert [child["preview"] for child in tree["children"]] == ["1", "2"]
