"""The whole way with the keyboard alone: no step here touches the mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.screens import field, tools
from tests.harness.lab import PANEL_ID, Lab

pytestmark = pytest.mark.browser


def choose(page: Page, command: str) -> None:
    """Run a command from JupyterLab's palette."""
    page.keyboard.press("Control+Shift+C")
    expect(page.locator(".lm-CommandPalette-input")).to_be_focused()
    page.keyboard.type(command)
    expect(page.locator(".lm-CommandPalette-item.lm-mod-active")).to_contain_text(command)
    page.keyboard.press("Enter")


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
