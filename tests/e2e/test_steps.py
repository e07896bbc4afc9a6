"""The tasks that people know from other programs take no more clicks and keys here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.screens import field, tools
from tests.e2e.steps import Steps, check, check_clicks
from tests.e2e.test_panel import tab
from tests.faces.widgets.test_server_requests import SERVER
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Asked, Stub

pytestmark = pytest.mark.browser

SALES = """%load_ext onetool_ipy
import pandas as pd
sales = pd.DataFrame({"town": ["Wien", "Linz", "Graz"] * 100, "pieces": range(300)})"""


def _view_sales(person: Steps) -> None:
    """Write it into the second cell and run it. JupyterLab goes to the cell below, a moment
    late."""
    person.type("ot.view(sales)")
    person.press("Shift+Enter")
    expect(
        person.page.locator(".jp-Notebook .jp-Cell").nth(2).locator(".cm-content")
    ).to_be_focused()


def test_rows_are_filtered_and_exported_and_a_server_is_added_and_called(
    lab: Lab, tmp_path: Path
) -> None:
    notebook = lab.open_notebook([SALES, ""], name="steps", viewport=(1400, 900))
    notebook.run_cell(0)
    page = notebook.page
    # There one is after it.
    page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()

    person = Steps(page)
    _view_sales(person)
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
    tab(panel, "Sources")
    person.clicks += 1
    expect(panel.get_by_label("Add", exact=True)).to_be_focused()
    page.keyboard.insert_text(f"{sys.executable} {tmp_path / 'adder.py'}")
    expect(panel.get_by_role("button", name="Add server")).to_be_visible()
    person.press("Enter")
    expect(panel.locator(".otx-server")).to_contain_text("adder")
    tab(panel, "Tools")
    person.clicks += 1
    person.click(tools(panel).filter(has_text="adder.add"))
    tool = page.locator(".onetool-ToolTab")
    expect(field(tool, "a")).to_be_focused()
    person.type("2")
    person.press("Tab")
    person.type("3")
    person.press("Enter")
    expect(tool.locator(".otx-viewer")).to_contain_text("5")
    expect(tool.locator(".otx-viewer")).to_be_in_viewport()
    check("add and call an MCP server", person)
    assert notebook.page_errors == []


TOKEN = "tok-1a2b3c4d5e"
MANY = """%load_ext onetool_ipy
import pandas as pd
towns = ["Wien", "Linz", "Graz", "Steyr"] * 25_000
sales = pd.DataFrame({"town": towns, "pieces": range(100_000), "note": "x", "price": [2.5] * 100_000})"""
YESTERDAY = """%load_ext onetool_ipy
import datetime
from pathlib import Path
from onetool_ipy import open_toolbox

def call(days, path):
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    with open_toolbox(".", clock=lambda: moment) as box:
        box.call("fs.read_file", {"path": path})

Path("there.txt").write_text("there")
call(3, "long-ago.txt")
call(1, "notes.txt")
call(0, "there.txt")
Path("notes.txt").write_text("found again")"""


@pytest.fixture
def api() -> Iterator[Stub]:
    """An API that wants a token, and the description of its twenty operations."""

    def answer(asked: Asked) -> tuple[int, object]:
        if asked.path == "/openapi.json":
            kinds = {"pets": 3, "orders": 9, "users": 8}
            paths = {
                f"/{kind}/{n}": {
                    ("get", "post", "delete")[n % 3]: {"operationId": f"{kind}{n}", "responses": {}}
                }
                for kind, count in kinds.items()
                for n in range(count)
            }
            head = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}}
            return 200, {
                **head,
                "servers": [{"url": f"http://{asked.headers['host']}"}],
                "paths": paths,
            }
        return (
            (200, {"items": [1]})
            if asked.headers.get("authorization") == f"Bearer {TOKEN}"
            else (401, {})
        )

    with Stub(answer) as stub:
        yield stub


def opened(lab: Lab, setup: str, api: Stub | None = None) -> Notebook:
    notebook = lab.open_notebook([setup, ""], name="steps", viewport=(1400, 900))
    if api is not None:
        (notebook.path.parent / ".onetool").mkdir()
        config = {"version": 1, "http": {"allowed_hosts": [f"127.0.0.1:{api.port}"]}}
        (notebook.path.parent / ".onetool" / "onetool.yaml").write_text(
            json.dumps(config), encoding="utf-8"
        )
    notebook.run_cell(0)
    return notebook


def test_100_000_rows_are_sorted_filtered_and_exported(lab: Lab, tmp_path: Path) -> None:
    notebook = opened(lab, MANY)
    # There one is after it.
    notebook.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()
    person = Steps(notebook.page)
    _view_sales(person)
    viewer = notebook.output(1).locator(".otx")
    person.click(viewer.get_by_role("button", name="pieces", exact=True))
    person.click(viewer.get_by_label("Filter rows"))
    person.type("wien")
    expect(viewer.get_by_role("status").filter(has_text="of 100,000 rows")).to_contain_text(
        "25,000 of"
    )
    person.click(viewer.get_by_role("button", name="Columns", exact=True))
    person.click(viewer.locator(".otx-menu-body:visible").get_by_label("note"))
    person.click(viewer.get_by_role("button", name="Download", exact=True))
    with notebook.page.expect_download() as caught:
        person.click(viewer.locator(".otx-menu-body:visible").get_by_text("CSV", exact=True))
    caught.value.save_as(tmp_path / "sales.csv")
    lines = (tmp_path / "sales.csv").read_text(encoding="utf-8").splitlines()
    assert (len(lines), lines[:2]) == (25_001, ["town,pieces,price", "Wien,0,2.5"])
    check_clicks("100,000 rows: sort, filter, columns, CSV", person)
    assert notebook.page_errors == []


def test_an_http_tool_with_a_token_is_made_tried_and_saved(lab: Lab, api: Stub) -> None:
    notebook = opened(lab, "%load_ext onetool_ipy")
    page, person = notebook.page, Steps(notebook.page)
    panel, editor = page.locator("#onetool-ipy-panel"), page.locator(".onetool-HttpTool")
    person.click(page.locator('.lm-TabBar-tab[data-id="onetool-ipy-panel"]'))
    person.click(panel.get_by_role("tablist", name="Views").get_by_role("tab", name="Sources"))
    expect(panel.get_by_label("Add", exact=True)).to_be_focused()
    page.keyboard.insert_text(f"curl -H 'Authorization: Bearer {TOKEN}' {api.url('/items')}")
    person.press("Enter")
    expect(editor.locator(".otx-editor-status")).to_contain_text("Filled in.")
    person.click(editor.get_by_role("button", name="Send", exact=True))
    person.click(editor.get_by_role("button", name="Allow and send"))
    expect(editor.locator(".otx-editor-status")).to_contain_text("200 OK")
    person.click(editor.get_by_role("button", name="Save", exact=True))
    expect(editor.locator(".otx-editor-status")).to_contain_text(
        "Saved. Call it: %tool my-api.get-items"
    )
    check_clicks("HTTP tool with a token, from the panel's icon to Save", person)
    assert notebook.page_errors == []


def test_three_of_twenty_operations_are_imported(lab: Lab, api: Stub) -> None:
    notebook = opened(lab, "%load_ext onetool_ipy", api)
    page, person = notebook.page, Steps(notebook.page)
    panel, form = page.locator("#onetool-ipy-panel"), page.get_by_role("form", name="Import tools")
    person.click(page.locator('.lm-TabBar-tab[data-id="onetool-ipy-panel"]'))
    person.click(panel.get_by_role("tablist", name="Views").get_by_role("tab", name="Sources"))
    expect(panel.get_by_label("Add", exact=True)).to_be_focused()
    page.keyboard.insert_text(api.url("/openapi.json"))
    person.press("Enter")
    expect(form.get_by_label("Filter operations")).to_be_focused()
    expect(form).to_contain_text("20 operations")
    person.type("pets")
    person.click(form.get_by_role("button", name="All", exact=True))
    person.click(form.get_by_role("button", name="Import 3 tools"))
    expect(form).to_contain_text("3 tools imported into")
    expect(panel.locator(".onetool-Tool")).to_have_count(3)
    check_clicks("3 of 20 operations imported", person)
    assert notebook.page_errors == []


def test_a_server_is_added_and_called(lab: Lab, tmp_path: Path) -> None:
    """From the line of a README to a value: what the server offers is shown as soon as it is
    added."""
    (tmp_path / "adder.py").write_text(SERVER, encoding="utf-8")
    notebook = opened(lab, "%load_ext onetool_ipy")
    page, person = notebook.page, Steps(notebook.page)
    panel = page.locator("#onetool-ipy-panel")
    person.click(page.locator('.lm-TabBar-tab[data-id="onetool-ipy-panel"]'))
    person.click(panel.get_by_role("tablist", name="Views").get_by_role("tab", name="Sources"))
    expect(panel.get_by_label("Add", exact=True)).to_be_focused()
    page.keyboard.insert_text(f"{sys.executable} {tmp_path / 'adder.py'}")
    expect(panel.get_by_role("button", name="Add server")).to_be_visible()
    person.press("Enter")
    person.click(page.locator(".onetool-Server").get_by_role("button", name="Call add"))
    form = page.locator(".onetool-ToolTab")
    expect(field(form, "a")).to_be_focused()
    person.type("2")
    person.press("Tab")
    person.type("3")
    person.press("Enter")
    expect(form.locator(".otx-result")).to_contain_text("5")
    check_clicks("server added and called", person)
    assert notebook.page_errors == []


def test_what_failed_since_yesterday_is_found_and_run_again(lab: Lab, api: Stub) -> None:
    """The fields of the history are reached by the Tab key."""
    notebook = opened(lab, YESTERDAY, api)
    page, person = notebook.page, Steps(notebook.page)
    panel = page.locator("#onetool-ipy-panel")
    person.click(page.locator('.lm-TabBar-tab[data-id="onetool-ipy-panel"]'))
    person.click(panel.get_by_role("tablist", name="Views").get_by_role("tab", name="History"))
    rows = panel.locator(".otx-history-row")
    expect(rows).to_have_count(3)
    when = panel.get_by_label("When")
    for _ in range(8):  # the tab, the search, its keys, and then the fields of the history
        person.press("Tab")
        if when.evaluate("field => field === document.activeElement"):
            break
    person.type("s")
    expect(when).to_have_value("yesterday")
    person.press("Tab")
    person.press("Space")
    expect(panel.get_by_role("button", name="Failed only")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("notes.txt")
    person.click(rows.get_by_role("button", name="Rerun fs.read_file"))
    expect(page.locator(".onetool-ToolTab .otx-viewer")).to_contain_text("found again")
    check_clicks("what failed since yesterday, run again", person)
    assert notebook.page_errors == []
