"""Texts and rows as HTML: escaped, cut, and in a box that scrolls where they are long."""

from __future__ import annotations

import pytest

from onetool_ipy.render import html


@pytest.mark.parametrize(
    ("text", "scrolls"),
    [
        ("x", False),
        ("x" * 25_000, False),
        ("x" * 25_001, True),
        ("\n" * 80, False),
        ("\n" * 81, True),
    ],
    ids=["short", "to the limit", "long", "lines to the limit", "tall"],
)
def test_only_a_long_text_scrolls(text: str, scrolls: bool) -> None:
    assert ("otx-scroll" in html.pre(text)) is scrolls


def test_a_cell_is_cut_wrapped_and_aligned_by_what_it_holds() -> None:
    page = html.table(
        [{"text": "x" * 301, "n": 1}, {"text": None, "n": 2.5}, {"text": ["ü"], "n": None}]
    )

    assert f">{'x' * 299}…<" in page
    assert ">[&quot;ü&quot;]<" in page
    assert page.count("text-align:right") == 4
    assert "right" not in html.table([{"n": 1}, {"n": "1"}])
    assert html.table([{"a": "x" * 32}]).count("nowrap") == 1
    assert "nowrap" not in html.table([{"a": "x" * 33}])


def test_a_tree_folds_what_has_children() -> None:
    leaf = html.Node("k<", "v" * 301)
    page = html.tree(html.Node("", "2 items", (leaf,), is_open=True))

    assert page.count("<details open>") == 1
    assert "k&lt;" in page
    assert f"{'v' * 299}…<" in page
    assert "<details" not in html.tree(leaf)
