"""Listing, Record, Text: plain values that show themselves; nothing in them is ever code."""

from __future__ import annotations

import copy
import json
import pickle
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from onetool_ipy.render import html
from onetool_ipy.render.views import ErrorText, Listing, Record, Text
from tests.harness.programs import python

EVIL = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</td></table><b>",
    "\"'><x y='",
    "&lt;",
    "javascript:x",
    "\x00\u202e",
]


def test_they_are_plain_values() -> None:
    rows, record, text = Listing([{"a": 1}]), Record(a=1), Text("x")

    assert (rows, record, text) == ([{"a": 1}], {"a": 1}, "x")
    assert json.dumps([rows, record, text]) == '[[{"a": 1}], {"a": 1}, "x"]'
    for value in (rows, record, text, ErrorText("Error: x")):
        assert copy.deepcopy(value) == value
        assert pickle.loads(pickle.dumps(value)) == value
        assert type(copy.copy(value)) is type(value)


def test_text_shows_bare_in_a_notebook() -> None:
    """A str shows by its repr, which must not have quotes."""
    for text in (Text('it\'s\n"bare"'), ErrorText("Error: no")):
        assert repr(text) == str(text) == text


def test_ipython_prints_what_repr_says() -> None:
    from IPython.lib.pretty import pretty

    for value in (Listing([{"a": 1}, {"a": 2}]), Record(a={"b": {"c": 1}}), Text("x y")):
        assert pretty(value) == repr(value)


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_nothing_from_outside_becomes_html(evil: str) -> None:
    plain = (
        _shape(Listing([{"a": "x"}])._repr_html_()),
        _shape(Record(a="x")._repr_html_()),
        _shape(html.pre("x")),
    )

    assert _shape(Listing([{"a": evil}])._repr_html_()) == plain[0]
    assert _shape(Listing([{evil: "x"}])._repr_html_()) == plain[0]
    assert _shape(Listing([evil])._repr_html_()) == plain[0]
    assert _shape(Record({evil: evil})._repr_html_()) == plain[1]
    assert _shape(Text(evil)._repr_html_()) == plain[2]


def test_html_needs_nothing_from_elsewhere_and_follows_the_theme() -> None:
    text = Listing([{"a": 1}])._repr_html_() + Record(a=1)._repr_html_()

    assert not re.search(r"https?:|src=|href=|@import|url\(", text)
    assert "--jp-" in text
    assert not re.search(r"[;\"]\s*background", text)


def test_rows_in_html_and_frame_are_those_of_the_list() -> None:
    rows = Listing([{"name": "a", "n": 1}, {"name": "b", "more": [1, 2]}])

    assert list(rows.df.columns) == ["name", "n", "more"]
    assert rows._repr_html_().count("<tr>") == 3
    assert list(Listing(["a", "b"]).df["name"]) == ["a", "b"]
    assert Listing().df.empty
    assert Listing()._repr_html_()


def test_long_list_keeps_the_notebook_small() -> None:
    """The text is whole, since it must load back; the table says what it leaves out."""
    rows = Listing({"name": f"pack.tool_{i}", "description": "x" * 100} for i in range(10_000))

    shown = rows._repr_html_()

    assert len(shown) < 500_000
    assert "10,000 rows" in shown
    assert str(rows).count("\n") == 9_999


def test_importing_loads_nothing_heavy() -> None:
    heavy = ("pandas", "yaml", "jinja2", "rapidfuzz", "IPython")
    code = (
        "import sys, onetool_ipy.render.views, onetool_ipy.render.html, onetool_ipy.base.search, "
        "onetool_ipy.snippets.definition, onetool_ipy.packs.ot\n"
        "print([name for name in sys.argv[1:] if name in sys.modules])"
    )

    done = python(code, *heavy)

    assert done.stdout.strip() == "[]"


class _Shape(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, sorted(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.seen.append(tag)


def _shape(text: str) -> list[Any]:
    """The elements of a page and the names of their attributes."""
    parser = _Shape()
    parser.feed(text)
    return parser.seen


def test_shares_and_times_are_written_one_way() -> None:
    """Numbers stay numbers for programs; a person reads one form above and below, without idle
    decimals."""
    rows = [
        {"tool": "a", "success_rate": 37.5, "avg_ms": 0.091, "p95_ms": 189.068},
        {"tool": "b", "success_rate": 64.7058, "avg_ms": 9.96, "p95_ms": 2293.759},
    ]
    record = Record(success_rate=64.7058, tools=Listing(rows))

    for text in (
        Listing(rows)._repr_html_(),
        Listing(rows).to_text(100),
        record._repr_html_(),
        record.to_text(100),
    ):
        assert {"37.5 %", "64.7 %", "0.1", "10.0", "189", "2294"} <= set(
            re.findall(r"[\d.]+(?: %)?", text)
        ), text
        assert "189.068" not in text
    assert html.is_numeric(["37.5 %", None, 3])
    assert not html.is_numeric(["37.5 %", "x"])
    assert record["tools"].df["p95_ms"].tolist() == [189.068, 2293.759]
