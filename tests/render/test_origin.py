"""A tree of calls as text and as a picture: every call once, its facts beside it, nothing in it is
code."""

from __future__ import annotations

import datetime

from onetool_ipy.render.origin import Origin

WHEN = datetime.datetime(2026, 1, 2, 12, 0, tzinfo=datetime.UTC)
LEAF = Origin(
    call_id="c",
    tool="a.list",
    call="%tool a.list",
    role="rows",
    cell="3",
    notebook="/home/x/n.ipynb",
)
TREE = Origin(
    call_id="a",
    tool="a.sum",
    call="%tool a.sum <rows>",
    ok=False,
    when=WHEN,
    ms=1234.6,
    handle="r_1",
    changed="the tool has changed",
    parts=(
        LEAF,
        Origin(call_id="c", tool="a.list", call="%tool a.list", role="called", is_repeated=True),
    ),
)


def test_a_tree_prints_a_line_for_each_call() -> None:
    first, second, third = repr(TREE).splitlines()

    assert first.startswith("%tool a.sum <rows>  [")
    assert first.endswith(", 1,235 ms · failed · handle r_1 · the tool has changed]")
    assert second == "├─ rows: %tool a.list  [cell [3] of n.ipynb]"
    assert third == "└─ called: %tool a.list (above)"
    assert [call.call_id for call in TREE.calls()] == ["a", "c", "c"]


def test_no_call_took_0_ms() -> None:
    quick = Origin(call_id="a", tool="a.b", call="%tool a.b", when=WHEN, ms=0.04)

    assert repr(quick).endswith(", <1 ms]")


def test_the_id_of_a_cell_is_not_shown() -> None:
    place = Origin(
        call_id="c",
        tool="t",
        call="t",
        cell="a9fc8bda-3366-40ae-8a00-33a266d886b1",
        notebook="x/n.ipynb",
    )

    assert repr(place) == "t  [n.ipynb]"


def test_branches_go_on_below_the_calls_that_follow() -> None:
    deep = Origin(
        call_id="r",
        tool="t",
        call="t",
        parts=(Origin(call_id="m", tool="m", call="m", parts=(LEAF,)), LEAF),
    )

    assert [line.partition("rows")[0] for line in repr(deep).splitlines()] == [
        "t",
        "├─ m",
        "│  └─ ",
        "└─ ",
    ]


def test_the_picture_has_a_box_for_each_call_and_no_code() -> None:
    picture = TREE._repr_mimebundle_()["image/svg+xml"]

    assert picture.count("<rect") == 3
    assert picture.count('class="b f"') == 1
    assert picture.count("<path") == 2
    assert "a.sum &lt;rows&gt;" in picture
    assert "<rows>" not in picture
