"""Pages in a real JupyterLab: names open tools in the panel, lines go into cells, nothing of them
is cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.screens import Screens, serious, tools
from tests.harness.lab import Lab

pytestmark = pytest.mark.browser

SETUP = '''
from onetool_ipy import tool

@tool(pack="geo", read_only=True)
def locate(address: str, limit: int = 5) -> list[dict]:
    """Find the **places** of an address, and tell their prices: it was $5, now it is $4, in as many words as it takes.

    Args:
        address: Street and town, as one would write them on a letter.
    """
    return [{f"column_{n}": "x" * 30 for n in range(20)}]

@tool(pack="geo")
def a_name_that_is_rather_long_for_any_table_of_tools(x: int) -> int:
    "Add <b>one</b>."
    return x + 1
'''
PAGES = (
    "%tool",
    "%tool geo",
    "%tool info geo.locate",
    "%tool list",
    "%tool search places",
    "%tool --help",
    "ot.health()",
)
EDGE = """at => {
  const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[at];
  const output = [...cell.querySelectorAll('.jp-OutputArea-output')].pop();
  const texts = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let left = Infinity;
  while (texts.nextNode()) {
    range.selectNodeContents(texts.currentNode);
    const box = range.getBoundingClientRect();
    if (box.width && texts.currentNode.data.trim()) left = Math.min(left, box.left);
  }
  return { left, hidden: output.scrollWidth - output.clientWidth };
}"""


@pytest.fixture(scope="module")
def _screens(shared_lab: Lab) -> Iterator[Screens]:
    opened = Screens(shared_lab, setup=SETUP, viewport=(933, 600))
    yield opened
    opened.notebook.close()


@pytest.fixture
def screens(_screens: Screens, request: pytest.FixtureRequest) -> Iterator[Screens]:
    yield _screens
    _screens.picture(request)


@pytest.mark.screen
def test_pages_can_be_clicked_and_nothing_of_them_is_cut(screens: Screens) -> None:
    notebook = screens.notebook
    notebook.execute("print('printed')")
    for code in (*PAGES, "%tool geo.locate address=x"):
        *before, page = [each["output_type"] for each in notebook.execute(code)]
        # On a busy machine a call may take long enough to leave a line above its page.
        assert page == "execute_result", code
        assert set(before) <= {"display_data"}, code
    printed = screens.page.evaluate(EDGE, 2)["left"]
    for at, code in enumerate(PAGES, start=3):
        found = screens.page.evaluate(EDGE, at)
        assert found["hidden"] == 0, code
        assert abs(found["left"] - printed) < 1.5, code
    expect(notebook.output(5)).to_contain_text("it was $5, now it is $4")
    expect(notebook.output(5).locator("mjx-container")).to_have_count(0)

    wide = notebook.output(3 + len(PAGES)).locator(".otx-scroll")
    assert wide.evaluate("box => box.scrollWidth > box.clientWidth")
    assert "gradient" in wide.evaluate("box => getComputedStyle(box).backgroundImage"), (
        "a hint that it scrolls"
    )
    assert serious(screens, ".jp-OutputArea .mathjax_ignore") == []

    screens.page.set_viewport_size({"width": 1280, "height": 900})
    panel = screens.page.locator("#onetool-ipy-panel")
    notebook.output(4).get_by_role("button", name="Open geo.locate").click()
    tool = screens.page.locator(".onetool-ToolTab")
    expect(tool.get_by_role("heading", name="geo.locate", exact=True)).to_be_visible()
    screens.page.get_by_role("tab", name="screens.ipynb").click()
    notebook.output(3).get_by_role("button", name="Open geo", exact=True).click()
    expect(tools(panel)).to_have_count(2)
    expect(tools(panel).first).to_contain_text("geo.")

    notebook.output(3).get_by_role("button", name="Put into a cell: %tool info NAME").press("Enter")
    expect(screens.page.locator(".jp-Notebook .jp-mod-active .cm-content")).to_have_text(
        "%tool info "
    )
    assert screens.cells().count("%tool info ") == 1
    # As a link in a stranger's output may ask.
    notebook.command("onetool:insert", tool="geo.locate", run=True)
    expect(screens.page.locator(".jp-Notebook .jp-mod-active .cm-content")).to_contain_text(
        "%tool geo.locate"
    )
    expect(screens.page.locator(".jp-Notebook .jp-mod-active .jp-InputPrompt")).to_have_text("[ ]:")


def test_the_toolbox_itself_is_found_in_the_browser_and_not_listed(screens: Screens) -> None:
    browser = screens.open("ot.browser()")
    options = tools(browser)
    expect(options.first).to_contain_text("geo.")
    expect(options.filter(has_text="ot.help")).to_have_count(0)
    expect(browser.get_by_role("navigation", name="Packs")).not_to_contain_text("ot")
    browser.get_by_role("combobox", name="Search tools").fill("ot.help")
    expect(options.first).to_contain_text("ot.help")

    of_pack = screens.open("%tool browse geo")
    expect(tools(of_pack)).to_have_count(2)
