"""Bundles and HTTP tools in the side panel, over the REST API: from an empty form to a call in a
cell, and back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import APIResponse, Locator, Route, expect

from tests.e2e.test_panel import load, tab
from tests.harness.lab import PANEL_ID, Lab, Notebook
from tests.harness.stub import Asked, Stub

pytestmark = pytest.mark.browser

SECRET = "s3cr3t-of-the-panel"


def answer(asked: Asked) -> tuple[int, Any]:
    """A small API, and its description."""
    if asked.path == "/openapi.json":
        operation = {
            "operationId": "listItems",
            "summary": "All items",
            "responses": {"200": {"description": "ok"}},
        }
        origin = f"http://{asked.headers['host']}"
        described = {
            "openapi": "3.1.0",
            "info": {"title": "Items", "version": "1"},
            "servers": [{"url": origin}],
        }
        return 200, {**described, "paths": {"/items": {"get": operation}}}
    return 200, {"path": asked.path, "seen": asked.headers.get("authorization", "")}


@pytest.fixture
def api() -> Iterator[Stub]:
    with Stub(answer) as stub:
        yield stub


def make_project(folder: Path, api: Stub) -> None:
    onetool = folder / ".onetool"
    onetool.mkdir()
    http = {"allowed_hosts": [f"127.0.0.1:{api.port}"], "allow_private": True}
    (onetool / "onetool.yaml").write_text(
        json.dumps({"version": 1, "http": http}), encoding="utf-8"
    )
    (onetool / "secrets.yaml").write_text(f"API_KEY: {SECRET}\n", encoding="utf-8")
    (onetool / "secrets.yaml").chmod(0o600)


def save_in(
    editor: Locator, *, url: str, bundle: str = "", tool: str = "", secret: str = ""
) -> None:
    """Fill in an HTTP tool editor, and save."""
    for label, text in {"URL": url, "Bundle": bundle, "Tool": tool}.items():
        if text:
            editor.get_by_label(label, exact=True).fill(text)
    if secret:
        editor.get_by_label("Kind of auth").select_option("bearer")
        editor.get_by_label("Secret", exact=True).select_option(secret)
    editor.get_by_role("button", name="Save", exact=True).click()
    expect(editor.locator(".otx-editor-status")).to_contain_text("Saved. Call it: %tool")


def close_editor(notebook: Notebook) -> None:
    """Close the tab of the editor; the notebook is in front again."""
    notebook.command("application:close")
    expect(notebook.page.locator(".onetool-HttpTool")).to_have_count(0)


def switch(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("switch", name=name)


def flip(notebook: Notebook, panel: Locator, name: str) -> None:
    """Press a switch, and wait until the server has heard of it: it shows at once what was
    wished."""
    with notebook.page.expect_response(lambda answer: answer.request.method == "PATCH"):
        switch(panel, name).press("Space")
    # The list was drawn anew, and one is still where one was.
    expect(switch(panel, name)).to_be_focused()


def error_of(notebook: Notebook, index: int) -> str:
    (output,) = [each for each in notebook.run_cell(index) if each["output_type"] == "error"]
    return str(output["evalue"])


def _import_items(notebook: Notebook, panel: Locator, api: Stub) -> None:
    """Import a document by its address, in the tab that the panel opens."""
    panel.get_by_role("button", name="Import tools").click()
    form = notebook.page.get_by_role("form", name="Import tools")
    form.get_by_label("Document", exact=True).fill(api.url("/openapi.json"))
    form.get_by_role("button", name="Show operations").click()
    form.get_by_label("Bundle", exact=True).fill("items")
    form.get_by_role("button", name="Import 1 tool").click()
    expect(form).to_contain_text("1 tool imported into items.")
    notebook.command("application:close")


@pytest.mark.screen
def test_http_tool_is_made_tried_called_switched_edited_and_deleted(lab: Lab, api: Stub) -> None:
    """Create it against a loopback API, call it with %tool at once, switch it off and see the call
    refused."""
    notebook = lab.open_notebook(["%tool shop.get-item id=7", ""])
    make_project(notebook.path.parent, api)
    panel = load(notebook)
    tab(panel, "Sources")
    panel.get_by_role("button", name="New HTTP tool").click()
    editor = notebook.page.locator(".onetool-HttpTool")
    expect(editor.get_by_label("URL", exact=True)).to_be_focused()
    save_in(editor, bundle="shop", tool="get-item", url=api.url("/items/{id}"), secret="API_KEY")
    expect(panel.locator(".onetool-Bundle[data-slug=shop]")).to_be_visible()
    close_editor(notebook)

    notebook.run_cell(0)
    expect(notebook.output(0)).to_contain_text("/items/7")
    flip(notebook, panel, "get-item 1")
    expect(switch(panel, "get-item 1")).not_to_be_checked()
    assert "switched off" in error_of(notebook, 0)
    flip(notebook, panel, "get-item 1")
    flip(notebook, panel, "Bundle shop")
    expect(switch(panel, "Bundle shop")).not_to_be_checked()
    assert "switched off" in error_of(notebook, 0)
    flip(notebook, panel, "Bundle shop")
    expect(switch(panel, "Bundle shop")).to_be_checked()

    panel.get_by_role("button", name="Edit get-item 1").click()
    editor.get_by_text("More", exact=True).click()
    expect(editor.get_by_label("Version")).to_have_value("2")
    editor.get_by_label("Version").fill("1")
    editor.get_by_role("button", name="Save", exact=True).click()
    # A version that is there is never changed.
    expect(editor.locator(".otx-error:visible")).to_contain_text("'1'")
    editor.get_by_label("Version").fill("2")
    save_in(editor, url=api.url("/second/{id}"))
    close_editor(notebook)
    expect(panel.locator(".onetool-Tool")).to_have_count(2)
    notebook.run_cell(0)
    expect(notebook.output(0)).to_contain_text("/second/7")

    panel.get_by_role("button", name="Delete the bundle shop").click()
    panel.get_by_role("button", name="Delete shop?").click()
    expect(panel.locator(".onetool-Sources .otx-notice")).to_contain_text("shop")  # it is not empty
    for version in ("2", "1"):
        panel.get_by_role("button", name=f"Delete get-item {version}").click()
        panel.get_by_role("button", name=f"Delete get-item {version}?").click()
        expect(panel.locator(f".onetool-Tool[data-version='{version}']")).to_have_count(0)
        expect(switch(panel, "Bundle shop")).to_be_focused()
    assert "shop" in error_of(notebook, 0)

    _import_items(notebook, panel, api)
    tab(panel, "Tools")
    panel.get_by_label("Search tools").fill("listItems")
    expect(panel.locator(".otx-tool-name").first).to_have_text("items.listItems")
    assert SECRET not in notebook.page.content()
    assert notebook.page_errors == []


def test_an_imported_bundle_stays_open_when_the_kernel_reports_its_project(
    lab: Lab, api: Stub
) -> None:
    """The import needs no kernel; one that loads the extension later changes nothing in the
    list."""
    notebook = lab.open_notebook(["%load_ext onetool_ipy"])
    make_project(notebook.path.parent, api)
    panel = notebook.show_panel()
    tab(panel, "Sources")
    _import_items(notebook, panel, api)
    expect(panel.locator(".onetool-Tool")).to_have_count(1)

    notebook.run_cell(0)

    project = panel.locator(".onetool-Sources-project")
    expect(project).to_have_attribute("title", str(notebook.path.parent))
    expect(project).to_have_text(f"Project: {notebook.path.parent.name}")
    with notebook.page.expect_response(lambda answer: "/onetool/tools/tools" in answer.url):
        panel.get_by_role("button", name="Refresh").click()
    expect(panel.locator(".onetool-Tool")).to_have_count(1)


def _show_bundles(notebook: Notebook, api: Stub) -> Locator:
    """The panel with the bundles of a new project: the built-in packs alone."""
    make_project(notebook.path.parent, api)
    panel = load(notebook)
    tab(panel, "Sources")
    expect(panel.locator(".onetool-Bundle")).to_have_count(4)
    return panel


def test_a_kernel_that_does_not_answer_keeps_no_bundle_away(lab: Lab, api: Stub) -> None:
    """An import while the kernel hangs; when it goes on, nothing is there twice."""
    notebook = lab.open_notebook(["import os; print(os.getpid())"])
    panel = _show_bundles(notebook, api)
    kernel = int(notebook.run_cell(0)[0]["text"])
    os.kill(kernel, signal.SIGSTOP)
    try:
        _import_items(notebook, panel, api)
        expect(panel.locator(".onetool-Tool")).to_have_count(1)
    finally:
        os.kill(kernel, signal.SIGCONT)

    notebook.execute(f"%tool bundle env items live --base-url {api.url()}")
    panel.get_by_role("button", name="Refresh").click()
    expect(panel.get_by_label("Environment of items")).to_have_value("live")
    expect(panel.locator(".onetool-Tool")).to_have_count(1)


_BEGIN_LOAD = """id => {
  const panel = [...window.jupyterapp.shell.widgets('left')].find(widget => widget.id === id);
  window.olderLoad = panel.current.sources.load();
}"""


def test_an_older_list_of_bundles_does_not_replace_a_newer_one(lab: Lab, api: Stub) -> None:
    """The answer to what Refresh asked comes after the import that was begun later."""
    notebook = lab.open_notebook([""])
    panel = _show_bundles(notebook, api)
    held: list[tuple[Route, APIResponse]] = []
    notebook.page.route(
        "**/onetool/tools/bundles?*", lambda route: held.append((route, route.fetch())), times=1
    )
    notebook.page.evaluate(_BEGIN_LOAD, PANEL_ID)
    _import_items(notebook, panel, api)
    expect(panel.locator(".onetool-Tool")).to_have_count(1)

    ((route, older),) = held
    route.fulfill(response=older)
    notebook.page.evaluate("() => window.olderLoad")

    expect(panel.locator(".onetool-Tool")).to_have_count(1)


_IS_WHOLE = (
    "box => box.scrollWidth <= box.clientWidth && getComputedStyle(box).whiteSpace !== 'nowrap'"
)


def test_long_names_and_their_versions_are_whole_in_a_narrow_panel(lab: Lab, api: Stub) -> None:
    name = "pet-shop.list-all-pets-of-the-northern-stores"
    line = f"%tool new http {name} --url http://127.0.0.1:{api.port}/pets"
    notebook = lab.open_notebook([""])
    make_project(notebook.path.parent, api)
    panel = notebook.show_panel()
    load(notebook)
    notebook.execute(line)
    notebook.execute(f"%tool {name}")

    tab(panel, "History")
    called = panel.locator(".otx-history .otx-tool-name", has_text=name)
    expect(called).to_be_visible()
    assert called.evaluate(_IS_WHOLE)
    tab(panel, "Sources")
    panel.get_by_role("button", name="pet-shop", exact=False).first.click()
    row = panel.locator(".onetool-Tool .otx-tool-name")
    expect(row.locator(".otx-chip")).to_have_text("1")
    assert row.evaluate(_IS_WHOLE)
