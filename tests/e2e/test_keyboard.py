"""The whole way with the keyboard alone: no step here touches the mouse."""

from __future__ import annotations

import json
import sys

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.screens import field, tools
from tests.faces.widgets.test_server_requests import SERVER
from tests.harness.lab import PANEL_ID, Lab, Notebook
from tests.harness.stub import Stub

pytestmark = pytest.mark.browser

SETUP = """%load_ext onetool_ipy
import pandas as pd
from onetool_ipy import tool
from onetool_ipy.llm import ScriptedModel

@tool("shop.order")
def order(item: str, count: int = 1) -> str:
    "Order something."
    return f"ordered {count} {item}"

@tool("shop.prices", read_only=True)
def prices(first: int = 0) -> list[dict]:
    "Prices by number."
    return [{"id": n, "price": n / 4} for n in range(first, first + 40)]

m = ScriptedModel([[("shop.order", {"item": each}) for each in ("pen", "ink")], "It is done."])
old = %tool shop.prices
new = %tool shop.prices first=3
"""
PROGRAM = """%%tool program
import shop
for item in ("cup", "pot", "tray"):
    shop.order(item=item)
"""


def choose(page: Page, command: str) -> None:
    """Run a command from JupyterLab's palette."""
    page.keyboard.press("Control+Shift+C")
    expect(page.locator(".lm-CommandPalette-input")).to_be_focused()
    page.keyboard.type(command)
    expect(page.locator(".lm-CommandPalette-item.lm-mod-active")).to_contain_text(command)
    page.keyboard.press("Enter")


def press(target: Locator, keys: str = "Tab", *, back: bool = False, most: int = 40) -> None:
    """Go on by Tab until `target` has the focus, then press `keys` there."""
    page = target.page
    for _ in range(most):
        if target.evaluate("target => target === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab" if back else "Tab")
    expect(target).to_be_focused()
    page.keyboard.press(keys)


def test_a_tool_is_found_run_and_left_and_a_source_is_added_by_keys(lab: Lab) -> None:
    """From a cell to the panel, to a value in a tool's tab, to a source, and back to the cell."""
    notebook = lab.open_notebook(["%load_ext onetool_ipy", ""], name="keys", viewport=(933, 600))
    notebook.run_cell(0)
    page, keys = notebook.page, notebook.page.keyboard
    panel, tool = page.locator(f"#{PANEL_ID}"), page.locator(".onetool-ToolTab")
    search = panel.get_by_role("combobox", name="Search tools")

    choose(page, "Tools panel")
    expect(panel.get_by_role("tab", name="Tools")).to_be_focused()
    expect(tools(panel).first).to_be_visible()
    for _ in range(4):  # over the three ways to begin
        keys.press("Tab")
    expect(search).to_be_focused()
    keys.type("list_dir")
    expect(tools(panel)).to_have_count(1)
    keys.press("Enter")
    expect(field(tool, "path")).to_be_focused()
    keys.type(".")
    keys.press("Enter")
    result = tool.locator(".otx-viewer")
    expect(result).to_contain_text("keys.ipynb")
    for _ in range(12):
        keys.press("Tab")
        if result.evaluate("result => result.contains(document.activeElement)"):
            break
    expect(result.locator(":focus")).to_have_count(1)
    keys.press("Alt+w")
    expect(tool).to_have_count(0)

    choose(page, "Tools panel")
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    expect(panel.get_by_role("tab", name="Sources")).to_be_focused()
    keys.press("Tab")
    expect(panel.get_by_label("Add", exact=True)).to_be_focused()
    keys.type("curl -H 'Authorization: Bearer a-token' https://api.example.com/orders?limit=3")
    expect(panel.get_by_role("button", name="Clear")).to_be_visible()
    keys.press("Enter")
    editor = page.locator(".onetool-HttpTool")
    expect(editor).to_contain_text("Filled in.")
    assert editor.evaluate("editor => editor.scrollTop") == 0
    expect(editor.get_by_label("URL", exact=True)).to_have_value("https://api.example.com/orders")
    keys.press("Alt+w")
    expect(editor).to_have_count(0)
    choose(page, "Tools panel")
    choose(page, "Tools panel")  # from the panel, too
    keys.press("Escape")
    expect(page.locator(".jp-Notebook .jp-Cell:focus, .jp-Notebook .jp-Cell :focus")).to_have_count(
        1
    )
    assert notebook.page_errors == []


@pytest.fixture
def notebook(lab: Lab) -> Notebook:
    notebook = lab.open_notebook([SETUP, ""], name="keys", viewport=(933, 600))
    folder = notebook.path.parent
    (folder / ".onetool").mkdir()
    settings = {"version": 1, "aliases": {"lost": "nowhere.tool"}}
    (folder / ".onetool" / "onetool.yaml").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "adder.py").write_text(SERVER, encoding="utf-8")
    assert notebook.run_cell(0) == []
    return notebook


def view_of(page: Page, name: str) -> Locator:
    """Go to a view of the panel: the palette, then the arrows."""
    panel = page.locator(f"#{PANEL_ID}")
    choose(page, "Tools panel")
    wanted = panel.get_by_role("tablist", name="Views").get_by_role("tab", name=name)
    for _ in range(3):
        if wanted.evaluate("tab => tab === document.activeElement"):
            break
        page.keyboard.press("ArrowRight")
    expect(wanted).to_be_focused()
    return panel


def test_history_health_usage_and_ask_are_used_by_keys(notebook: Notebook) -> None:
    page, keys = notebook.page, notebook.page.keyboard
    tool, usage = page.locator(".onetool-ToolTab"), page.locator(".onetool-Usage")

    panel = view_of(page, "History")
    rows = panel.locator(".otx-history-row")
    expect(rows).to_have_count(2)
    press(panel.get_by_label("Search history"), "Tab")
    keys.press("Shift+Tab")
    keys.type("first")
    expect(rows).to_have_count(1)
    press(rows.get_by_role("button", name="Edit the call"), "Enter")
    expect(field(tool, "first")).to_be_focused()
    expect(field(tool, "first")).to_have_value("3")
    keys.press("Alt+w")
    expect(tool).to_have_count(0)

    panel = view_of(page, "History")
    press(panel.get_by_role("button", name="Rerun").first, "Enter")
    expect(tool.locator(".otx-viewer")).to_contain_text("40 rows")
    keys.press("Alt+w")

    view_of(page, "History")
    press(panel.locator(".onetool-Panel-problems"), "Enter", back=True)
    health = panel.get_by_role("region", name="Health")
    press(health.get_by_role("button", name="Check now"), "Enter", back=True)
    expect(health).to_contain_text("Checked just now.")
    press(panel.locator(".onetool-Panel-problems"), "Enter")
    expect(health).to_be_hidden()
    press(panel.get_by_role("button", name="Usage"), "Enter")
    expect(usage).to_contain_text("shop.prices")
    press(usage.get_by_role("button", name="Refresh"), "Enter")
    expect(usage.locator(":focus")).to_have_count(1)
    keys.press("Alt+w")
    expect(usage).to_have_count(0)

    panel = view_of(page, "Ask")
    press(panel.get_by_role("button", name="Look for models"), "Enter")
    press(panel.get_by_label("Question"), "W")
    keys.type("hy?")
    press(panel.get_by_role("button", name="Ask", exact=True), "Enter")
    expect(panel.get_by_label("Question")).to_have_value("Why?")
    assert notebook.page_errors == []


def test_rows_are_filtered_summed_up_and_compared_by_keys(notebook: Notebook) -> None:
    keys = notebook.page.keyboard
    notebook.execute("new.view()")
    viewer = notebook.output(2).locator(".otx-viewer")
    expect(viewer).to_contain_text("40 rows")
    keys.press("Escape")
    press(viewer.get_by_role("tab", name="Table"))
    press(viewer.get_by_role("button", name="Filter price"), "Enter")
    keys.type(">9")
    keys.press("Enter")
    expect(viewer).to_contain_text("6 of 40 rows")
    press(viewer.get_by_role("button", name="Download", exact=True), "Enter", back=True)
    press(viewer.locator(".otx-menu-body:visible").get_by_text("CSV", exact=True), "Escape")
    expect(viewer.get_by_role("button", name="Download", exact=True)).to_be_focused()
    press(viewer.get_by_role("button", name="Clear filters"), "Enter")
    expect(viewer.get_by_role("status").filter(has_text="40 rows").first).to_be_visible()
    press(viewer.get_by_role("tab", name="Table"), "ArrowRight", back=True)
    expect(viewer.get_by_role("tab", name="Summary")).to_be_focused()
    expect(viewer).to_contain_text("Distinct")
    press(viewer.get_by_role("button", name="More: save"), "Enter", back=True)
    choices = viewer.get_by_role("group", name="Results to compare with").get_by_role("button")
    press(choices.first, "Enter")
    expect(viewer.locator(".otx-compare-text")).to_contain_text("3 rows new, 3 rows gone")
    press(viewer.get_by_role("button", name="Rows matched by id"), "Enter")
    press(viewer.locator(".otx-compare-head").get_by_label("price", exact=True), "Space")
    expect(viewer.get_by_role("button", name="Rows matched by id, price")).to_be_visible()
    assert notebook.page_errors == []


def test_questions_and_a_plan_are_answered_by_keys(notebook: Notebook) -> None:
    page, keys = notebook.page, notebook.page.keyboard
    page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").focus()
    keys.type("a = %ask --model m Order")
    keys.press("Shift+Enter")
    question = notebook.output(1).locator(".otx-question")
    expect(question).to_contain_text("2 calls")
    keys.press("Escape")  # out of the next cell, which Tab would indent
    press(question.get_by_role("button", name="Run shop.order").first, "Enter", back=True)
    press(question.get_by_role("button", name="Skip shop.order").last, "Enter")
    expect(notebook.output(1)).to_contain_text("It is done.")

    notebook.begin(PROGRAM)
    question = notebook.output(3).locator(".otx-question")
    press(question.get_by_role("checkbox", name="Run 2. shop.order"), "Space")
    press(question.get_by_role("button", name="Run 2 of 3"), "Enter")
    notebook.wait_for_cell()
    expect(notebook.output(3)).to_contain_text("You allowed 2 of 3 writes of the program")
    assert notebook.page_errors == []


def test_an_http_tool_an_import_and_a_server_are_used_by_keys(notebook: Notebook) -> None:
    page, keys = notebook.page, notebook.page.keyboard
    editor, form = page.locator(".onetool-HttpTool"), page.locator(".onetool-Import")
    server, tool = page.locator(".otx-server-page"), page.locator(".onetool-ToolTab")
    with Stub(lambda _: (200, {"items": [{"id": 1}]})) as api:
        panel = view_of(page, "Sources")
        press(panel.get_by_role("button", name="New HTTP tool"), "Enter")
        expect(editor.get_by_label("URL", exact=True)).to_be_focused()
        keys.type(api.url("/items"))
        keys.press("Enter")
        press(editor.get_by_role("button", name="Allow and send"), "Enter")
        expect(editor.locator(".otx-editor-status")).to_contain_text("200 OK")
        press(editor.get_by_label("Bundle", exact=True))
        keys.press("Shift+Tab")
        keys.type("shop-api")
        press(editor.get_by_role("button", name="Save", exact=True), "Enter")
        expect(editor.locator(".otx-editor-status")).to_contain_text("Saved.")
        keys.press("Alt+w")

    paths = {f"/{n}": {"get": {"operationId": f"op{n}", "responses": {}}} for n in range(12)}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": paths,
        "servers": [{"url": "https://a.test"}],
    }
    view_of(page, "Sources")
    keys.press("Tab")
    keys.insert_text(json.dumps(document))
    keys.press("Enter")
    expect(form.get_by_label("Filter operations")).to_be_focused()
    press(form.get_by_role("button", name="None", exact=True), "Enter")
    press(form.get_by_role("checkbox", name="op3"), "Space")
    press(form.get_by_role("button", name="Import 1 tool"), "Enter")
    expect(form).to_contain_text("1 tool imported into")
    keys.press("Alt+w")

    view_of(page, "Sources")
    keys.press("Tab")
    keys.insert_text(f"{sys.executable} adder.py")
    expect(panel.get_by_role("button", name="Add server")).to_be_visible()
    keys.press("Enter")
    expect(server).to_contain_text("Add two numbers.")
    press(server.get_by_role("button", name="Call add"), "Enter")
    expect(field(tool, "a")).to_be_focused()
    assert notebook.page_errors == []
