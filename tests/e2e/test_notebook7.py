"""Notebook 7, whose main area is one notebook: each button of ours does there what it does in
JupyterLab. What is a tab in JupyterLab is below the notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import choose, field, press_run
from tests.e2e.test_panel import health_of, tab, usage_of
from tests.faces.widgets.test_server_requests import SERVER
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Stub
from tests.harness.wheel import Installed

pytestmark = pytest.mark.browser

SETUP = """%load_ext onetool_ipy
from onetool_ipy import tool
from onetool_ipy.llm import ScriptedModel

@tool(read_only=True)
def rows(n: int = 5000) -> list[dict]:
    "Many rows."
    return [{"id": i, "price": i / 4, "town": ("Graz", "Linz", "Wien")[i % 3]} for i in range(n)]

@tool
def add(a: int, b: int = 2) -> int:
    "Add two numbers."
    return a + b

m = ScriptedModel([[("nb.add", {"a": 40})], "It is **42**."])
"""


@pytest.fixture(scope="module")
def notebook_app(
    installed_wheel: Installed, shared_lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("notebook7")
    app = Lab(installed_wheel, folder, browser=shared_lab.browser, app="notebook")
    yield app
    app.close()


@pytest.fixture
def notebook(notebook_app: Lab) -> Iterator[Notebook]:
    """A notebook with tools of its own."""
    notebook = notebook_app.open_notebook([SETUP], viewport=(1400, 900))
    assert notebook.run_cell(0) == []
    yield notebook
    notebook.close()


def open_panel(notebook: Notebook) -> Locator:
    """Open the side panel in the menu, as a person does."""
    page = notebook.page
    page.get_by_role("menuitem", name="View").click()
    page.locator(".lm-Menu-item", has_text="Left Sidebar").hover()
    page.locator(".lm-Menu-item", has_text="Show Tools").click()
    panel = page.locator("#onetool-ipy-panel")
    expect(panel.locator(".otx-tool", has_text="nb.add")).to_be_visible()
    return panel


@pytest.mark.screen
def test_a_tool_and_its_result_open_below_the_notebook(notebook: Notebook) -> None:
    page, panel = notebook.page, open_panel(notebook)
    panel.locator(".otx-tool", has_text="nb.add").click()
    tool = page.locator(".onetool-ToolTab")
    expect(field(tool, "a")).to_be_focused()
    field(tool, "a").fill("3")
    press_run(tool)
    expect(tool.locator(".otx-result")).to_contain_text("5")
    tool.get_by_role("button", name="Insert and run").click()
    expect(notebook.output(1)).to_contain_text("5")

    notebook.execute("%tool nb.rows")
    notebook.output(2).get_by_role("button", name="Open in viewer").click()
    result = page.locator(".onetool-Result")
    expect(result).to_contain_text("5,000 rows")
    result.get_by_role("button", name="Filter price").click()
    page.keyboard.type("2..3")
    page.keyboard.press("Enter")
    expect(result).to_contain_text("5 of 5,000 rows")
    assert notebook.page_errors == []


def test_a_low_window_shows_rows_of_a_result_below_the_notebook(notebook: Notebook) -> None:
    page, panel = notebook.page, open_panel(notebook)
    page.set_viewport_size({"width": 933, "height": 600})
    panel.locator(".otx-tool", has_text="nb.rows").click()
    tool = page.locator(".onetool-ToolTab")
    expect(field(tool, "n")).to_be_focused()
    page.keyboard.press("Enter")
    expect(tool.locator(".otx-table-row").nth(2)).to_be_in_viewport(ratio=0.9)
    assert notebook.page_errors == []


def test_pages_and_screens_work_in_cells(notebook: Notebook) -> None:
    """`%tool`, `%tool browse`, a viewer with a comparison, and a question of `%ask`."""
    assert "Nothing" not in str(notebook.execute("%tool"))
    expect(notebook.output(1)).to_contain_text("%tool browse")
    notebook.execute("%tool browse")
    browser = notebook.output(2).locator(".otx-browser")
    choose(browser, "nb.add")
    field(browser, "a").fill("40")
    press_run(browser)
    expect(browser.locator(".otx-result")).to_contain_text("42")

    notebook.execute("x = %tool nb.rows n=3\ny = %tool nb.rows n=4\ny.view()")
    viewer = notebook.output(3).locator(".otx-viewer")
    viewer.get_by_role("button", name="More: save").click()
    choices = viewer.get_by_role("group", name="Results to compare with").get_by_role("button")
    choices.first.click()
    expect(viewer.locator(".otx-compare-text")).to_contain_text("1 row new")

    notebook.begin("a = %ask --model m What is 40 and 2?")
    question = notebook.output(4).locator(".otx-question")
    question.get_by_role("button", name="Run", exact=True).click()
    notebook.wait_for_cell()
    expect(notebook.output(4)).to_contain_text("It is 42.")
    assert notebook.page_errors == []


def test_each_button_of_the_panel_does_something(notebook: Notebook) -> None:
    """Every view of the side panel, and what its buttons open below the notebook."""
    page, panel = notebook.page, open_panel(notebook)
    (notebook.path.parent / "adder.py").write_text(SERVER, encoding="utf-8")
    notebook.execute(f"%tool server add adder {sys.executable} adder.py\nadder.add(a=2, b=3)")
    notebook.execute("%tool nb.rows n=3")
    tab(panel, "History")
    expect(panel.locator(".otx-history-row").first).to_contain_text("nb.rows")
    panel.get_by_role("button", name="Rerun").first.click()
    expect(page.locator(".onetool-ToolTab .otx-result")).to_contain_text("3 rows")
    tab(panel, "Sources")
    panel.get_by_role("button", name="Open adder").click()
    server = page.locator(".onetool-Server")
    server.get_by_role("button", name="Call").first.click()
    expect(page.get_by_role("tab", name="adder.add")).to_have_attribute("aria-selected", "true")
    panel.get_by_role("button", name="Import tools").click()
    expect(page.get_by_role("form", name="Import tools")).to_be_visible()
    expect(usage_of(panel)).to_contain_text("adder.add")
    expect(health_of(panel)).to_contain_text("1 server")
    tab(panel, "Ask")
    look = panel.get_by_role("button", name="Look for models")
    expect(look).to_be_in_viewport()  # the form begins at its top
    panel.get_by_label("Question").fill("Why?")
    panel.get_by_role("button", name="Ask", exact=True).click()
    expect(panel.get_by_label("Question")).to_have_value("Why?")  # no model yet, and it says so
    assert notebook.page_errors == []


def test_an_http_tool_is_made_below_the_notebook(notebook: Notebook) -> None:
    items = [{"id": n, "name": f"item {n}"} for n in range(30)]
    with Stub(lambda _: (200, items)) as api:
        page, panel = notebook.page, open_panel(notebook)
        tab(panel, "Sources")
        panel.get_by_role("button", name="New HTTP tool").click()
        editor = page.locator(".onetool-HttpTool")
        expect(editor.get_by_label("URL", exact=True)).to_be_focused()
        page.keyboard.type(api.url("/items"))
        page.keyboard.press("Enter")
        editor.get_by_role("button", name="Allow and send").click()
        expect(editor.locator(".otx-table-row").first).to_be_visible()
        editor.get_by_label("Bundle", exact=True).fill("shop")
        editor.get_by_label("Tool", exact=True).fill("items")
        editor.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("tab", name="shop.items")).to_be_visible()
        notebook.execute("len(shop.items())")
        expect(notebook.output(1)).to_contain_text("30")
    assert notebook.page_errors == []


def test_a_button_says_in_words_that_the_kernel_is_gone(notebook: Notebook) -> None:
    panel = open_panel(notebook)
    tab(panel, "Sources")
    notebook.page.evaluate(
        "async () => { await window.jupyterapp.serviceManager.sessions.shutdownAll(); }"
    )
    expect(panel).to_contain_text("This notebook has no kernel.")
    panel.get_by_role("button", name="New HTTP tool").click()
    expect(notebook.page.locator(".Toastify__toast")).to_contain_text("no kernel")
    assert notebook.page_errors == []
