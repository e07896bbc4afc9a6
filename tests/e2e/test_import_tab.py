"""The tab *Import tools*: a file, an address or a pasted document; what the server refuses is said
at its field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jupyter_server
import pytest
from playwright.sync_api import Locator, Route, expect

from tests.e2e.screens import AXE
from tests.e2e.test_panel import load, tab
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Stub

pytestmark = pytest.mark.browser

JUPYTER = Path(jupyter_server.__file__).parent / "services" / "api" / "api.yaml"
YAML = """
openapi: 3.1.0
info: {title: Shops, version: '1'}
servers:
  - url: https://shops.example.com
paths:
  /shops/{id}:
    get:
      operationId: getShop
      summary: One shop
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
      responses: {'200': {description: ok}}
"""
JSON = {
    "openapi": "3.0.3",
    "info": {"title": "Items", "version": "1"},
    "servers": [{"url": "https://items.example.com"}],
    "paths": {
        "/items": {"get": {"operationId": "listItems", "responses": {"200": {"description": "ok"}}}}
    },
}


def open_import(notebook: Notebook) -> Locator:
    """Open the tab from the panel's bundles."""
    panel = notebook.page.locator("#onetool-ipy-panel")
    panel.get_by_role("button", name="Import tools").click()
    form = notebook.page.get_by_role("form", name="Import tools")
    expect(
        form.get_by_label("Document", exact=True).or_(form.get_by_label("Filter operations"))
    ).to_be_visible()
    return form


def wrong(form: Locator, label: str) -> str:
    """What is said at a field, to a reader of the screen too: it is invalid, and described by its
    message."""
    control = form.get_by_label(label, exact=True)
    expect(control).to_have_attribute("aria-invalid", "true")
    expect(control).to_be_focused()
    message = form.page.locator(f"[id='{control.get_attribute('aria-describedby')}']")
    expect(message).to_be_visible()
    return message.inner_text()


@pytest.fixture
def project(lab: Lab) -> Notebook:
    notebook = lab.open_notebook([""])
    (notebook.path.parent / ".onetool").mkdir()
    (notebook.path.parent / ".onetool" / "onetool.yaml").write_text(
        "version: 1\n", encoding="utf-8"
    )
    tab(load(notebook), "Sources")
    return notebook


_TINT = "box => getComputedStyle(box).color"


@pytest.mark.screen
def test_operations_of_a_file_are_chosen_and_imported(project: Notebook) -> None:
    """A file of 32 operations: what reads is chosen at first; some are chosen by tag and by a
    filter, and imported."""
    page, panel, form = (
        project.page,
        project.page.locator("#onetool-ipy-panel"),
        open_import(project),
    )
    take = form.get_by_role("button", name="Import")
    form.get_by_label("Choose a file").set_input_files(JUPYTER)
    assert "only a relative server URL" in wrong(form, "Server")
    form.get_by_label("Server", exact=True).fill("http://localhost:8888")
    form.get_by_role("button", name="Show operations").click()

    expect(form).to_contain_text(
        "api.yaml · Swagger 2.0 document · Jupyter Server API · 32 operations"
    )
    expect(form.get_by_label("Filter operations")).to_be_focused()
    expect(form.get_by_label("Document", exact=True)).to_be_hidden()
    expect(take).to_have_text("Import 15 tools")
    expect(form.get_by_label("Bundle", exact=True)).to_have_value("jupyter-server-api")
    form.get_by_role("button", name="All", exact=True).click()
    expect(take).to_have_text("Import 32 tools")
    methods = form.locator(".onetool-Import-method")
    tints = {
        name: methods.get_by_text(name, exact=True).first.evaluate(_TINT)
        for name in ("GET", "POST", "DELETE")
    }
    assert len(set(tints.values())) == 3, "what deletes does not look like what writes"
    form.get_by_role("button", name="Only GET").click()
    expect(take).to_have_text("Import 15 tools")
    form.get_by_role("button", name="None").click()
    expect(take).to_be_disabled()
    form.get_by_label("All of kernels", exact=True).check()
    form.get_by_label("Filter operations").fill("session patch")
    form.get_by_role("group", name="sessions").get_by_role("checkbox").check()
    form.get_by_label("Filter operations").fill("")
    expect(take).to_have_text("Import 7 tools")
    expect(form.get_by_label("All of sessions", exact=True)).to_have_js_property(
        "indeterminate", True
    )
    page.add_script_tag(path=AXE)
    assert (
        page.evaluate("async () => (await axe.run('.onetool-Import')).violations.map(v => v.id)")
        == []
    )
    form.get_by_label("Bundle", exact=True).fill("my kernels")
    take.click()
    assert "'my kernels' holds ' '" in wrong(form, "Bundle")
    form.get_by_label("Bundle", exact=True).fill("kernels")
    take.click()

    expect(form).to_contain_text("7 tools imported into kernels.")
    assert form.locator(".onetool-Import-done").evaluate(_TINT) != tints["POST"], (
        "success in the colour of warnings"
    )
    expect(panel.locator(".onetool-Tool")).to_have_count(7)
    assert project.page_errors == []


def test_all_takes_exactly_what_the_filter_shows(project: Notebook) -> None:
    """Three of 32 in few clicks: a file, some letters, All, Import."""
    form = open_import(project)
    form.get_by_label("Choose a file").set_input_files(JUPYTER)
    form.get_by_label("Server", exact=True).fill("http://localhost:8888")
    form.get_by_role("button", name="Show operations").click()
    form.get_by_label("Filter operations").fill("kernelspec")
    form.get_by_role("button", name="All", exact=True).click()
    form.get_by_label("Filter operations").fill("")

    count = form.locator(".onetool-Import-row input:checked").count()
    expect(form.get_by_role("button", name="Import")).to_have_text(
        f"Import {count} {'tool' if count == 1 else 'tools'}"
    )
    assert 0 < count < 15


def test_a_document_cannot_be_changed_while_it_is_read(project: Notebook) -> None:
    """What is imported is the document whose operations are shown."""
    page, form, held = project.page, open_import(project), list[Route]()
    page.route("**/onetool/tools/import/preview?*", lambda route: held.append(route))
    form.get_by_text("Paste it").click()
    pasted = form.get_by_label("Pasted document")
    pasted.fill(json.dumps(JSON))
    form.get_by_role("button", name="Show operations").click()
    expect(form).to_contain_text("Reading …")

    pasted.press_sequentially("{")
    expect(pasted).to_have_value(json.dumps(JSON))
    (route,) = held
    route.continue_()

    expect(form).to_contain_text("1 operation")
    expect(form.get_by_label("Filter operations")).to_be_focused()


def test_the_host_of_a_document_is_allowed_with_a_click(project: Notebook) -> None:
    """A host is asked for by its name, and only then is the document read."""
    form = open_import(project)
    with Stub(lambda asked: (200, JSON)) as api:
        form.get_by_label("Document", exact=True).fill(api.url("/openapi.json"))
        form.get_by_label("Document", exact=True).press("Enter")
        expect(form).to_contain_text(f"Requests to 127.0.0.1:{api.port} are not allowed yet.")
        assert api.asked == []
        form.get_by_role("button", name=f"Allow 127.0.0.1:{api.port}").click()

        expect(form).to_contain_text("1 operation")
        expect(form.get_by_label("Filter operations")).to_be_focused()
    assert [asked.path for asked in api.asked] == ["/openapi.json"]
    allowed = (project.path.parent / ".onetool" / "onetool.yaml").read_text(encoding="utf-8")
    assert f"127.0.0.1:{api.port}" in allowed


def test_pasted_documents_and_what_is_wrong_with_them(project: Notebook) -> None:
    """YAML and JSON as a person pastes them; what is wrong is said at its field; the host is
    allowed by a button."""
    page, form = project.page, open_import(project)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    look, take = (
        form.get_by_role("button", name="Show operations"),
        form.get_by_role("button", name="Import"),
    )

    def paste(document: str) -> None:
        pasted = form.get_by_label("Pasted document")
        if not pasted.is_visible():
            form.get_by_text("Paste it").click()
        page.evaluate("text => navigator.clipboard.writeText(text)", document)
        pasted.fill("")
        pasted.press("Control+V")
        expect(pasted).to_have_value(document)
        look.click()

    look.click()
    assert wrong(form, "Document") == "Choose a file, paste a document or write its URL."
    paste('{"openapi": "3.1.0", ')
    assert "neither JSON nor YAML" in wrong(form, "Document")
    paste("openapi: 3.1.0\npaths: {}")
    assert "no operation" in wrong(form, "Document")
    paste(json.dumps(JSON, indent=2))
    form.get_by_label("Auth", exact=True).select_option(label="API key in a header")
    take.click()
    assert wrong(form, "Name of the header") == "Write the name of the header."
    form.get_by_label("Name of the header").fill("X-Api-Key")
    form.get_by_label("Secret", exact=True).fill("sk-not a name")
    take.click()
    assert "Write the name of a secret" in wrong(form, "Secret")
    form.get_by_label("Secret", exact=True).fill("ITEMS_KEY")
    take.click()

    expect(form).to_contain_text("1 tool imported into items.")
    expect(form).to_contain_text("%tool items.listItems")
    form.get_by_label("Value of ITEMS_KEY").fill("key-of-the-items")
    form.get_by_role("button", name="Save ITEMS_KEY").click()
    expect(form).to_contain_text("ITEMS_KEY is in secrets.yaml now.")
    secrets = project.path.parent / ".onetool" / "secrets.yaml"
    assert 'ITEMS_KEY: "key-of-the-items"' in secrets.read_text(encoding="utf-8")
    form.get_by_role("button", name="Allow items.example.com").click()
    expect(form).to_contain_text("items.example.com is allowed now.")
    assert "items.example.com" in (project.path.parent / ".onetool" / "onetool.yaml").read_text(
        encoding="utf-8"
    )
    form.get_by_role("button", name="Import another document").click()
    paste(YAML + padding())
    form.get_by_label("Bundle", exact=True).fill("items")
    take.click()
    assert "'items'" in wrong(form, "Bundle")  # there is one of that name
    form.get_by_label("Bundle", exact=True).fill("shops")
    take.click()
    expect(form).to_contain_text("1 tool imported into shops.")
    assert project.page_errors == []


def padding() -> str:
    """What makes a document as long as real ones are: some 200 kB."""
    part: dict[str, Any] = {
        f"Part{n}": {"type": "object", "description": "x" * 80} for n in range(1500)
    }
    return f"components: {json.dumps({'schemas': part})}\n"
