"""The tasks that people know from other programs take no more clicks and keys here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.screens import field, tools
from tests.e2e.steps import Steps, check
from tests.e2e.test_panel import tab
from tests.faces.widgets.test_server_requests import SERVER
from tests.harness.lab import Lab

pytestmark = pytest.mark.browser

SALES = """%load_ext onetool_ipy
import pandas as pd
sales = pd.DataFrame({"town": ["Wien", "Linz", "Graz"] * 100, "pieces": range(300)})"""


def test_rows_are_filtered_and_exported_and_a_server_is_added_and_called(lab: Lab, tmp_path: Path) -> None:
    notebook = lab.open_notebook([SALES, ""], name="steps", viewport=(1400, 900))
    notebook.run_cell(0)
    page = notebook.page
    page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()  # there one is after it

    person = Steps(page)
    person.type("ot.view(sales)")
    person.press("Shift+Enter")
    viewer = notebook.output(1).locator(".otx")
    person.click(viewer.get_by_label("Filter rows"))
    person.type("wien")
    expect(viewer.get_by_role("status").filter(has_text="of 300 rows")).to_contain_text("100 of")
    person.click(viewer.get_by_role("button", name="Download", exact=True))
    with page.expect_download() as caught:
        person.click(viewer.locator(".otx-menu-body:visible").get_by_text("CSV", exact=True))
    caught.value.save_as(tmp_path / "sales.csv")
    assert len((tmp_path / "sales.csv").read_text(encoding="utf-8").splitlines()) == 101
    check("filter and export rows", person)

    (tmp_path / "adder.py").write_text(SERVER, encoding="utf-8")
    person = Steps(page)
    person.click(page.locator('.lm-TabBar-tab[data-id="onetool-ipy-panel"]'))
    panel = page.locator("#onetool-ipy-panel")
    expect(panel.locator(".otx-tool").first).to_be_visible()
    tab(panel, "Servers")
    person.clicks += 1
    person.paste(
        panel.get_by_label("Command, address or JSON of a server"), f"{sys.executable} {tmp_path / 'adder.py'}"
    )
    person.click(panel.get_by_role("button", name="Add server"))
    expect(panel.get_by_role("listitem")).to_contain_text("adder")
    tab(panel, "Tools")
    person.clicks += 1
    person.click(tools(panel).filter(has_text="adder.add"))
    for name, value in (("a", "2"), ("b", "3")):
        person.click(field(panel, name))
        person.type(value)
    person.click(panel.get_by_role("button", name="Run", exact=True))
    expect(panel.locator(".otx-viewer")).to_contain_text("5")
    check("add and call an MCP server", person)
    assert notebook.page_errors == []
