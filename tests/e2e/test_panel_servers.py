"""The panel's servers: from the line of a README to a called tool, by clicks alone."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import AXE, WIDTH
from tests.e2e.test_panel import load, tab
from tests.faces.widgets.test_server_requests import SERVER
from tests.harness.lab import Lab, Notebook

pytestmark = pytest.mark.browser


@pytest.mark.screen
def test_a_server_is_added_started_looked_at_and_removed(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "adder.py").write_text(SERVER, encoding="utf-8")
    notebook = lab.open_notebook(["", ""])
    panel = load(notebook)
    counted = notebook.page.locator(".onetool-Status")
    count = int(counted.inner_text().split()[0])
    tab(panel, "Sources")
    screen = panel.locator(".onetool-Sources")
    expect(screen).to_contain_text("Nothing of your own yet.")
    paste = screen.get_by_label("Add", exact=True)
    expect(paste).to_be_focused()
    for wrong, words in {
        "npx 'open": "This is not a command line",
        "pip install mcp-server-time": "'pip install' installs a program",
        "no-such-program --now": "There is no program 'no-such-program'",
        "nosuch.json": "There is no file 'nosuch.json'",
    }.items():
        paste.fill(wrong)
        expect(screen.get_by_role("alert")).to_contain_text(words)

    paste.fill(f"{sys.executable} {tmp_path / 'adder.py'}")
    expect(screen).to_contain_text("an MCP server. It runs this:")
    expect(screen.locator(".onetool-Add-runs")).to_contain_text("adder.py")
    screen.get_by_role("button", name="Add server").click()
    expect(screen).to_contain_text("adder: added for this session.")
    # Its page opens in the main area.
    expect(notebook.page.locator(".onetool-Server")).to_be_visible()
    notebook.command("application:close")
    row = screen.locator(".otx-server")
    expect(row).to_contain_text("connected")  # the tools view lists its tools
    expect(row).to_contain_text("1 tool")
    expect(counted).to_have_text(f"{count + 1} tools")
    assert row.get_by_role("presentation").evaluate(WIDTH) > 0
    outputs = notebook.execute("adder.add(a=2, b=3)")
    assert outputs[0]["data"]["text/plain"] == "5"

    # The page is told that it ended, without a cell that runs.
    end_server(tmp_path)
    expect(counted).to_have_text(f"{count + 1} tools · 1 server down")
    expect(row).to_contain_text("disconnected")
    row.get_by_role("button", name="Start adder", exact=True).click()
    expect(counted).to_have_text(f"{count + 1} tools")

    row.get_by_role("button", name="Logs adder").click()
    expect(row.get_by_role("group", name="Logs of adder")).to_contain_text("ready <b>")
    notebook.page.add_script_tag(path=AXE)
    found = notebook.page.evaluate(
        "async () => (await axe.run('.onetool-Sources')).violations"
        ".filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id)"
    )
    assert found == []
    look_at_its_tab(notebook, row)
    tab(panel, "Tools")
    panel.get_by_label("Tag", exact=True).select_option("destructive")
    tool = panel.locator(".otx-tool")
    expect(tool).to_have_count(1)
    expect(tool).to_contain_text("adder.add")
    assert tool.locator(".otx-chip").all_inner_texts() == ["destructive", "open world"]
    assert tool.locator("img").evaluate(WIDTH) > 0
    panel.get_by_label("Tag", exact=True).select_option("")
    tab(panel, "Sources")
    row.get_by_role("button", name="Remove adder").click()
    row.get_by_role("button", name="Really remove? adder").click()
    expect(row).to_have_count(0)
    expect(screen).to_contain_text("adder is removed.")
    assert notebook.page_errors == []


def end_server(folder: Path) -> None:
    """Kill the server's process, as a fault of its own would."""
    command = f"{sys.executable}\0{folder / 'adder.py'}\0".encode()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # a process that has just ended
            if entry.read_bytes() == command:
                os.kill(int(entry.parent.name), signal.SIGKILL)


def look_at_its_tab(notebook: Notebook, row: Locator) -> None:
    """Its tools, every message whole, its log; a tab of its own."""
    row.get_by_role("button", name="Open adder").click()
    page = notebook.page.locator(".onetool-Server")
    expect(page).to_contain_text("connected")
    expect(page.locator(".otx-offers")).to_contain_text("Add two numbers.")
    page.get_by_role("tab", name="Messages").click()
    page.get_by_label("Filter messages").fill("tools/call")
    expect(page.locator(".otx-messages > li")).to_have_count(2)
    page.locator(".otx-messages .otx-expand").first.click()
    expect(page.locator(".otx-message-body pre")).to_contain_text('"arguments": {')
    assert json.loads(page.locator(".otx-message-body pre").inner_text())["method"] == "tools/call"
    page.get_by_role("tab", name="Log").click()
    expect(page.locator(".otx-server-log")).to_contain_text("ready <b>")
    serious = notebook.page.evaluate(
        "async () => (await axe.run('.otx-server-page')).violations"
        ".filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id)"
    )
    assert serious == []
    page.get_by_role("tab", name="Tools").click()
    page.get_by_role("button", name="Call add", exact=True).click()
    tool = notebook.page.locator(".onetool-ToolTab")
    expect(tool.get_by_role("heading", name="adder.add")).to_be_visible()
    notebook.command("application:close")
    notebook.command("application:close")
    tab(notebook.page.locator("#onetool-ipy-panel"), "Sources")
