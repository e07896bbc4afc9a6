"""The result viewer and the usage view in a real JupyterLab: large texts and tables, trees,
pictures, figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import WIDTH, Screens, serious
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


def save_as(viewer: Locator, name: str) -> None:
    """Save the result as a variable, by the menu."""
    entry = viewer.get_by_label("Name of the variable")
    if not entry.is_visible():
        viewer.get_by_role("button", name="More: save").click()
    entry.fill(name)
    viewer.get_by_role("button", name="Save", exact=True).click()


def menu_item(viewer: Locator, menu: str, item: str) -> Locator:
    """Open a menu of the table and give one of its entries."""
    viewer.get_by_role("button", name=menu, exact=True).click()
    return viewer.locator(".otx-menu-body:visible").get_by_text(item, exact=True)


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
    handle = screens.value(
        "[row['handle'] for row in ot.results() if row['tool'] == 'nb.lines'][0]"
    ).strip("'")

    viewer = screens.open(f"ot.result(handle={handle!r}).view()")

    expect(viewer).to_contain_text("30,000 lines")
    expect(viewer).to_contain_text(handle)
    save_as(viewer, "kept")
    expect(viewer).to_contain_text("kept: str, 678,893 characters")
    assert screens.value("kept == stored.data") == "True"


@pytest.mark.screen
def test_a_hundred_thousand_rows_are_sorted_and_filtered(screens: Screens) -> None:
    viewer = screens.open("rows = %tool nb.table n=100000\nrows.view()")
    rows = viewer.locator(".otx-table-row")
    expect(rows.nth(0)).to_contain_text("name 0")

    viewer.get_by_role("button", name="turned", exact=True).click()
    viewer.get_by_role("button", name="turned ▲", exact=True).click()
    expect(viewer.get_by_role("columnheader", name="turned")).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(rows.nth(0)).to_contain_text("99999")
    expect(rows.nth(1)).to_contain_text("99998")
    viewer.get_by_label("Filter rows").fill("name 4242")
    expect(viewer.get_by_role("status").filter(has_text="of 100,000 rows")).to_contain_text("11 of")
    viewer.get_by_role("button", name="turned ▼", exact=True).click()
    viewer.get_by_role("button", name="id", exact=True).click()
    expect(rows.nth(0)).to_contain_text("name 4242")
    save_as(viewer, "taken")
    expect(viewer).to_contain_text("taken: list, 11 rows")
    assert screens.value("[row['id'] for row in taken][:2]") == "[4242, 42420]"


FRAME = """
import numpy as np, pandas as pd
day = pd.date_range("2024-01-01", periods=5000, freq="h")
sales = pd.DataFrame({
    "at": day, "town": np.array(["Wien", "Linz", "Graz", "Lisboa", None], dtype=object)[np.arange(5000) % 5],
    "pieces": np.arange(5000) % 97, "price": np.round(np.sin(np.arange(5000)) * 50 + 60, 2),
    "paid": np.arange(5000) % 3 == 0, "note": [f"was ${i}, now ${i // 2}" for i in range(5000)],
})
ot.view(sales)
"""


@pytest.fixture(scope="module")
def sales(_screens: Screens) -> Locator:
    return _screens.open(FRAME)


def test_columns_have_types(screens: Screens, sales: Locator) -> None:
    """Numbers stand right with like decimals, dates are short, the row's number is that of the
    data."""
    row = sales.locator(".otx-table-row").first
    expect(row.get_by_role("gridcell").first).to_have_text("2024-01-01 00:00:00")
    price = row.get_by_role("gridcell").nth(3)
    expect(price).to_have_text("60.00")
    assert price.evaluate("cell => getComputedStyle(cell).textAlign") == "right"
    expect(row).to_contain_text("was $0, now $0")
    pieces = sales.get_by_role("button", name="pieces", exact=True)
    pieces.click()
    sales.get_by_role("button", name="pieces ▲", exact=True).click()
    expect(sales.get_by_role("columnheader", name="pieces")).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(sales.get_by_role("rowheader").first).to_have_text("96")
    sales.get_by_role("button", name="pieces ▼", exact=True).click()
    expect(sales.get_by_role("rowheader").first).to_have_text("0")


def test_columns_are_filtered_hidden_and_resized(screens: Screens, sales: Locator) -> None:
    box = screens.page.locator(".otx-filter-box:popover-open")
    for name, condition in (("at", "2024-02"), ("price", "> 100")):
        sales.get_by_role("button", name=f"Filter {name}", exact=True).click()
        screens.page.keyboard.type(condition)  # the condition has the focus
        expect(sales.locator(".otx-chips")).to_contain_text(condition)
        screens.page.keyboard.press("Enter")
        expect(box).to_have_count(0)
    sales.get_by_role("button", name="Filter town", exact=True).click()
    box.get_by_label("Wien").check()
    expected = screens.value(
        "((sales['at'].dt.strftime('%Y-%m') == '2024-02') & (sales.price > 100) & (sales.town =="
        " 'Wien')).sum()"
    )
    count = expected.removeprefix("np.int64(").removesuffix(")")
    expect(sales.get_by_role("status").filter(has_text="of 5,000 rows")).to_contain_text(
        f"{count} of"
    )
    assert serious(screens, ".otx") == []
    sales.get_by_role("button", name="Filter price", exact=True).click()
    box.get_by_label("Condition for price").fill("> much")
    expect(box.get_by_role("alert")).to_contain_text("'much' is not a number")
    expect(sales.get_by_role("status").filter(has_text="of 5,000 rows")).to_contain_text(
        f"{count} of"
    )
    box.get_by_role("button", name="Clear").click()
    expect(box).to_contain_text("113 values")
    screens.page.keyboard.press("Escape")
    expect(sales.get_by_role("button", name="Filter price", exact=True)).to_be_focused()
    sales.locator(".otx-filter-chip", has_text="at").click()
    expect(sales.get_by_role("status").filter(has_text="of 5,000 rows")).to_contain_text("1,000 of")
    menu_item(sales, "Columns", "paid").click()
    screens.page.keyboard.press("Escape")
    expect(sales.get_by_role("columnheader", name="paid")).to_have_count(0)
    edge = sales.get_by_label("Width of note")
    before = int(str(edge.get_attribute("aria-valuenow")))
    bounds = edge.bounding_box()
    assert bounds is not None
    screens.page.mouse.move(bounds["x"] + 4, bounds["y"] + 4)
    screens.page.mouse.down()
    screens.page.mouse.move(bounds["x"] + 84, bounds["y"] + 4, steps=3)
    screens.page.mouse.up()
    assert int(str(sales.get_by_label("Width of note").get_attribute("aria-valuenow"))) > before + 5


def test_rows_are_copied_downloaded_and_saved(
    screens: Screens, sales: Locator, tmp_path: Path
) -> None:
    """What is taken is what is shown: the filter for Wien of the test before, without the hidden
    column."""
    sales.locator(".otx-table-row").first.get_by_role("gridcell").nth(4).click()
    screens.page.keyboard.press("Control+c")
    expect(sales).to_contain_text("Copied the cell.")
    assert screens.clipboard() == "was $0, now $0"
    screens.page.keyboard.press("Shift+ArrowDown")
    screens.page.keyboard.press("Control+c")
    expect(sales).to_contain_text("Copied 2 cells.")
    assert screens.clipboard().splitlines() == ["was $0, now $0", "was $5, now $2"]
    sales.get_by_role("rowheader").nth(0).click()
    sales.get_by_role("rowheader").nth(1).click(modifiers=["Shift"])
    expect(sales).to_contain_text("2 rows selected")
    menu_item(sales, "Copy", "With column names").click()
    expect(sales).to_contain_text("Copied 2 rows.")
    lines = screens.clipboard().splitlines()
    assert lines[0].split("\t") == ["at", "town", "pieces", "price", "note"]
    assert lines[2].split("\t")[1:3] == ["Wien", "5"]
    menu_item(sales, "Copy", "As pandas code").click()
    expect(sales).to_contain_text("Copied the code.")
    assert screens.value(f"({screens.clipboard()}).shape") == "(1000, 5)"
    with screens.page.expect_download() as caught:
        menu_item(sales, "Download", "CSV").click()
    caught.value.save_as(tmp_path / "sales.csv")
    lines = (tmp_path / "sales.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "at,town,pieces,price,note"
    assert len(lines) == 1_001
    expect(sales).to_contain_text("1,000 rows")
    save_as(sales, "wien")
    expect(sales).to_contain_text("wien: DataFrame, 1,000 rows")
    assert screens.value("wien.shape, set(wien.town)") == "((1000, 6), {'Wien'})"
    save_as(sales, "no name")
    expect(sales).to_contain_text("'no name' is not a valid variable name")


def test_each_column_has_a_summary_and_its_bars_filter(screens: Screens, sales: Locator) -> None:
    """It is of the rows that are found; Wien of the test before until the filters are cleared."""
    sales.get_by_role("tab", name="Summary").click()
    expect(sales).to_contain_text("6 columns, 1,000 of 5,000 rows")
    sales.get_by_role("button", name="Clear filters").click()
    expect(sales).to_contain_text("6 columns, 5,000 rows")
    town = sales.get_by_role("row", name="town")
    expect(town).to_contain_text("1,000 (20 %)")
    expect(town).to_contain_text("Lisboa 1,000")
    price = sales.get_by_role("row", name="price")
    expect(price).to_contain_text("110.00")
    expect(price).to_contain_text("35.36")
    expect(sales.get_by_role("row", name="at")).to_contain_text("2024-07-27")
    assert serious(screens, ".otx") == []
    price.get_by_role("button", name="40 to below 50: 338 rows").click()
    expect(sales.get_by_role("tab", name="Table")).to_have_attribute("aria-selected", "true")
    expect(sales.locator(".otx-chips")).to_contain_text("price 40..<50")
    expect(sales.get_by_role("status").filter(has_text="of 5,000 rows")).to_contain_text("338 of")


def test_a_tree_opens_by_steps_and_gives_paths(screens: Screens) -> None:
    viewer = screens.open(
        # A small tree would be open.
        "nested = %tool nb.draw drawing={'title': 'deep' * 600, 'labels': ['a', 'b']}\nnested.view()"
    )
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
    assert picture.evaluate(WIDTH) == 1


def test_images_stand_beside_the_text(screens: Screens) -> None:
    viewer = screens.open("ot.view(['a red dot:', red.data, 'that was it'])")
    expect(viewer.get_by_role("img")).to_be_visible()
    expect(viewer).to_contain_text("that was it")


PRICES = """
import time
from onetool_ipy import tool

stock = [{"sku": f"A-{i:03}", "name": f"tea no. {i}", "price": 2.5 + i / 10, "left": 40 + i} for i in range(40)]

@tool(read_only=True)
def prices(shop: str) -> list:
    "Give the price list of a shop."
    return [dict(row) for row in stock]

@tool(read_only=True)
def story(day: int) -> str:
    "Tell a story."
    return f"Once upon a time\\nthere was day {day}.\\nThe end."

first = %tool nb.prices shop=Wien
monday = %tool nb.story day=1
for row in stock[3:6]:
    row["price"] += 0.25
stock[7]["left"] = None
del stock[10]
stock += [{"sku": "B-001", "name": "matcha", "price": 9.9, "left": 3}]
second = %tool nb.prices shop=Wien
second.view()
"""


def compare_with(viewer: Locator, text: str) -> None:
    """Choose another result in the menu."""
    viewer.get_by_role("button", name="More: save").click()
    viewer.get_by_role("group", name="Results to compare with").get_by_role("button").filter(
        has_text=text
    ).first.click()


@pytest.mark.screen
def test_a_result_is_compared_with_another_one(screens: Screens) -> None:
    """The earlier call of the same tool is the first choice; only what changed is shown, changed
    cells marked."""
    viewer = screens.open(PRICES)
    viewer.get_by_role("button", name="More: save").click()
    choices = viewer.get_by_role("group", name="Results to compare with").get_by_role("button")
    expect(choices.first).to_contain_text("nb.prices shop=Wien")
    choices.first.press("Enter")

    sentence = viewer.locator(".otx-compare-text")
    expect(sentence).to_contain_text(
        "1 row new, 1 row gone, 3 price values, 1 left changed: A-003 price 2.8 → 3.05"
    )
    expect(viewer).to_contain_text("From nb.prices shop=Wien")
    expect(viewer.get_by_role("tab", name="Changes")).to_have_attribute("aria-selected", "true")
    rows = viewer.locator(".otx-table-row")
    expect(rows).to_have_count(6)
    expect(rows.nth(0)).to_contain_text("matcha")
    expect(viewer.locator(".otx-row-changed del").first).to_have_text("2.8")
    expect(viewer.locator(".otx-row-changed ins").first).to_have_text("3.05")
    expect(viewer.locator(".otx-row-changed ins").last).to_have_text("nothing")
    save_as(viewer, "changes")
    expect(viewer).to_contain_text("changes: DataFrame, 6 rows")
    assert (
        screens.value("list(changes['change'].value_counts().items())")
        == "[('changed', 4), ('added', 1), ('removed', 1)]"
    )

    keys = viewer.locator(".otx-compare-head")
    keys.get_by_role("button", name="Rows matched by sku").click()
    keys.get_by_label("left", exact=True).check()
    expect(keys.get_by_role("button", name="Rows matched by sku, left")).to_be_visible()
    keys.get_by_label("sku", exact=True).uncheck()
    expect(sentence).to_contain_text("2 rows new, 2 rows gone")
    viewer.get_by_role("tab", name="Table").click()
    expect(viewer).to_contain_text("tea no. 12")
    viewer.get_by_role("tab", name="Changes").click()
    expect(sentence).to_contain_text("2 rows new, 2 rows gone")
    assert serious(screens, ".otx") == []


def test_what_cannot_be_compared_is_said_in_a_sentence(screens: Screens) -> None:
    """Another kind of result, a key that is not unique, and a result that is gone since the menu
    was opened."""
    screens.notebook.execute("stock[1]['price'] = stock[0]['price']")
    viewer = screens.open("third = %tool nb.prices shop=Graz\nthird.view()")
    sentence = viewer.locator(".otx-compare-text")
    compare_with(viewer, "nb.story")
    expect(sentence).to_have_text(
        "The first result is text and the second is a list or table, so they cannot be compared."
    )

    compare_with(viewer, "nb.prices")
    expect(sentence).to_contain_text("1 price changed")
    keys = viewer.locator(".otx-compare-head")
    keys.get_by_role("button", name="Rows matched by sku").click()
    keys.get_by_label("price", exact=True).check()
    expect(keys.get_by_role("button", name="Rows matched by sku, price")).to_be_visible()
    keys.get_by_label("sku", exact=True).uncheck()
    expect(sentence).to_contain_text("The key is not unique: price=2.5 is in more than one row")
    expect(viewer.locator(".otx-table-row:visible")).to_have_count(0)
    screens.page.keyboard.press("Escape")

    viewer.get_by_role("button", name="More: save").click()
    choice = (
        viewer.get_by_role("group", name="Results to compare with")
        .get_by_role("button")
        .filter(has_text="nb.story")
    )
    expect(choice).to_be_visible()
    screens.notebook.execute(
        "from onetool_ipy.core import current; current.require().lineage.clear()"
    )
    choice.click()
    expect(sentence).to_contain_text("The result of that call of 'nb.story' was not stored.")


def test_texts_are_compared_by_their_lines(screens: Screens) -> None:
    screens.notebook.execute("monday = %tool nb.story day=1")
    viewer = screens.open("tuesday = %tool nb.story day=2\ntuesday.view()")
    compare_with(viewer, "nb.story day=1")
    expect(viewer.locator(".otx-compare-text")).to_have_text("1 line new, 1 line gone")
    expect(viewer.locator(".otx-row-added")).to_contain_text("there was day 2.")


def test_a_failure_is_shown_with_its_reason(screens: Screens) -> None:
    viewer = screens.open(
        "bad = %tool nb.quick text=x --soft\nbad = %tool fs.read_file path=nowhere.txt"
        " --soft\nbad.view()"
    )

    expect(viewer.get_by_role("alert").filter(has_text="nowhere.txt")).to_be_visible()


@pytest.mark.screen
def test_the_usage_view_counts_by_period_and_tool(screens: Screens) -> None:
    usage = screens.open(
        "bad = %tool fs.read_file path=nowhere.txt --soft\ncount ="
        " nb.size(rows=[1])\not.usage('day')"
    )
    expect(usage.get_by_role("img", name="Calls")).to_be_visible()
    table = usage.get_by_role("group", name="Per tool").get_by_role("table")
    expect(table).to_contain_text("nb.size")
    expect(usage).to_contain_text("fs.read_file")

    usage.get_by_label("Tool", exact=True).select_option("nb.size")
    expect(table.locator("tbody tr")).to_have_count(1)
    usage.get_by_label("Period").select_option("all")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(usage.locator(".otx-total-box").first).to_contain_text("1")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_axe_finds_nothing_serious_in_viewer_and_usage(screens: Screens, theme: str) -> None:
    screens.theme(theme)
    assert screens.page.locator(".otx:visible").count() >= 5
    assert serious(screens, ".otx") == []
