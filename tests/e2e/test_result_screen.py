"""The result viewer and the usage view in a real JupyterLab: large texts and tables, trees, pictures, figures."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.screens import Screens, serious
from tests.harness.lab import Lab

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def _screens(shared_lab: Lab) -> Iterator[Screens]:
    """One notebook for the whole file."""
    opened = Screens(shared_lab)
    yield opened
    opened.notebook.close()


@pytest.fixture
def screens(_screens: Screens, request: pytest.FixtureRequest) -> Iterator[Screens]:
    yield _screens
    _screens.picture(request)
    assert _screens.notebook.page_errors == []


def test_a_million_lines_are_paged_and_searched(screens: Screens) -> None:
    """Line 900,001 is shown although only windows of the text ever reach the page."""
    screens.notebook.execute("many = %tool nb.lines n=1000000")
    viewer = screens.open("many.view()")
    expect(viewer).to_contain_text("1,000,000 lines")
    place = viewer.get_by_label("Go to line")
    place.fill("900001")
    place.press("Enter")
    expect(viewer).to_contain_text("line 900001 of the text")
    assert viewer.locator(".otx-line").count() < 100

    search = viewer.get_by_label("Find in the result")
    search.fill("99999[05] of")
    count = viewer.locator(".otx-count")
    expect(count).to_have_text("1 of 2")
    expect(viewer.locator(".otx-line.otx-current")).to_contain_text("line 999990 of")
    viewer.get_by_role("button", name="Next").click()
    expect(count).to_have_text("2 of 2")
    expect(viewer.locator(".otx-line.otx-current")).to_contain_text("line 999995 of")
    search.press("Shift+Enter")
    expect(count).to_have_text("1 of 2")
    search.fill("no such line")
    expect(count).to_have_text("no match")
    search.fill("([")
    expect(count).not_to_have_text("…")
    expect(viewer.locator(".otx-virtual-list")).to_be_visible()

    viewer.get_by_label("Lines of the result").focus()
    screens.page.keyboard.press("End")
    expect(viewer).to_contain_text("line 1000000 of the text")
    screens.page.keyboard.press("Home")
    expect(viewer).to_contain_text("line 1 of the text")


def test_a_stored_result_is_viewed_by_its_handle(screens: Screens) -> None:
    screens.notebook.execute("stored = %tool nb.lines n=30000")
    expect(screens.open("stored.view()")).to_contain_text("30,000 lines")
    handle = screens.value("[row['handle'] for row in ot.results() if row['tool'] == 'nb.lines'][0]").strip("'")

    viewer = screens.open(f"ot.result(handle={handle!r}).view()")

    expect(viewer).to_contain_text("30,000 lines")
    expect(viewer).to_contain_text(handle)
    viewer.get_by_label("Name of the variable").fill("kept")
    viewer.get_by_role("button", name="Assign").click()
    said = viewer.locator(".otx-assign code")
    expect(said).to_contain_text("kept = ot.result(")
    screens.notebook.execute(str(said.text_content()).replace("kept", "again"))
    assert screens.value("kept == list(again), len(kept)") == "(True, 30000)"


def test_a_hundred_thousand_rows_are_sorted_and_filtered(screens: Screens) -> None:
    viewer = screens.open("rows = %tool nb.table n=100000\nrows.view()")
    rows = viewer.locator(".otx-table-row")
    expect(rows.nth(0)).to_contain_text("name 0")

    viewer.get_by_role("button", name="turned").click()
    viewer.get_by_role("button", name="turned").click()
    expect(viewer.get_by_role("columnheader", name="turned")).to_have_attribute("aria-sort", "descending")
    expect(rows.nth(0)).to_contain_text("99999")
    expect(rows.nth(1)).to_contain_text("99998")
    viewer.get_by_label("Filter rows").fill("name 4242")
    expect(viewer.get_by_role("status").filter(has_text="of 100,000 rows")).to_contain_text("11 of")
    viewer.get_by_role("button", name="turned").click()
    viewer.get_by_role("button", name="id").click()
    expect(rows.nth(0)).to_contain_text("name 4242")
    viewer.get_by_label("Name of the variable").fill("taken")
    viewer.get_by_role("button", name="Assign").click()
    expect(viewer.locator(".otx-assign code")).to_contain_text("taken = ")
    assert screens.value("len(taken)") == "100000"


def test_a_tree_opens_by_steps_and_gives_paths(screens: Screens) -> None:
    viewer = screens.open("nested = %tool nb.draw drawing={'title': 'deep', 'labels': ['a', 'b']}\nnested.view()")
    tree = viewer.get_by_role("tree")
    expect(tree.get_by_role("treeitem")).to_have_count(2)
    tree.get_by_role("button", name="drawing: {").click()
    tree.get_by_role("button", name="labels: [").click()
    leaf = tree.get_by_role("treeitem").filter(has_text=re.compile('^1: "b"'))
    leaf.hover()
    leaf.get_by_role("button", name="Copy the path of 1").click()

    expect(viewer.get_by_role("status").filter(has_text="copied")).to_be_visible()
    assert screens.clipboard() == '["drawing"]["labels"][1]'
    assert screens.value(f"nested.data{screens.clipboard()}") == "'b'"


def test_a_picture_is_shown(screens: Screens) -> None:
    viewer = screens.open("red = %tool nb.dot\nred.view()")

    picture = viewer.get_by_role("img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 1


def test_a_failure_is_shown_with_its_reason(screens: Screens) -> None:
    viewer = screens.open(
        "bad = %tool nb.quick text=x --soft\nbad = %tool fs.read_file path=nowhere.txt --soft\nbad.view()"
    )

    expect(viewer.get_by_role("alert").filter(has_text="nowhere.txt")).to_be_visible()


def test_the_usage_view_counts_by_period_and_tool(screens: Screens) -> None:
    usage = screens.open("ot.usage('day')")
    expect(usage.get_by_role("img", name="Calls")).to_be_visible()
    table = usage.get_by_role("table")
    expect(table).to_contain_text("nb.table")
    expect(usage).to_contain_text("fs.read_file")

    usage.get_by_label("Tool", exact=True).select_option("nb.table")
    expect(table.locator("tbody tr")).to_have_count(1)
    usage.get_by_label("Period").select_option("all")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(usage.locator(".otx-total-box").first).to_contain_text("1")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_axe_finds_nothing_serious_in_viewer_and_usage(screens: Screens, theme: str) -> None:
    screens.theme(theme)
    assert screens.page.locator(".otx:visible").count() >= 5
    assert serious(screens, ".otx") == []
