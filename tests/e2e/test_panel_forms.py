"""The panel's import form: a document that is pasted whole; what the server refuses stands at its own field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jupyter_server
import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import AXE
from tests.e2e.test_panel import load, tab
from tests.e2e.test_panel_bundles import field
from tests.harness.lab import Lab

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
    "paths": {"/items": {"get": {"operationId": "listItems", "responses": {"200": {"description": "ok"}}}}},
}


def wrong(form: Locator, name: str) -> str:
    """What is said at a field, to a reader of the screen too: it is invalid, and described by its message."""
    own = form.locator(".otx-field").filter(has=form.page.locator(f".otx-name:text-is('{name}')")).first
    said = own.locator(":scope > .otx-error")
    expect(said).to_be_visible()
    marked = own.locator("[aria-invalid=true], .otx-invalid").first
    described = str(marked.get_attribute("aria-describedby")).split()
    texts = [form.page.locator(f"[id='{each}']").inner_text() for each in described]
    assert said.inner_text() in texts
    return said.inner_text()


def test_operations_of_a_document_are_chosen_and_imported(lab: Lab) -> None:
    """A file of 32 operations by tag; then YAML and JSON as a person pastes them, and what is wrong at its field."""
    notebook = lab.open_notebook([""])
    (notebook.path.parent / ".onetool").mkdir()
    (notebook.path.parent / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    panel = load(notebook)
    tab(panel, "Bundles")
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    _choose_operations(panel)
    _paste_documents(panel)

    tab(panel, "Tools")
    for name in ("items.listItems", "shops.getShop", "kernels.restart-a-kernel"):
        panel.get_by_label("Search tools").fill(name)
        expect(panel.locator(".otx-tool-name").first).to_have_text(re.compile(re.escape(name)))
    assert notebook.page_errors == []


def _choose_operations(panel: Locator) -> None:
    """A file of 32 operations: some are chosen by tag and by a filter, and imported."""
    page, form = panel.page, panel.locator(".onetool-Bundles-editor")
    show, take = form.get_by_role("button", name="Show operations"), form.get_by_role("button", name="Import")
    panel.get_by_role("button", name="Import tools").click()
    form.get_by_label("Choose a file").set_input_files(JUPYTER)
    assert "only a relative server URL" in wrong(form, "server")
    field(form, "server").fill("http://localhost:8888")
    show.click()
    expect(form).to_contain_text("Swagger 2.0 document · Jupyter Server API · 32 operations")
    expect(form.get_by_label("Filter operations")).to_be_focused()
    expect(take).to_have_text("Import 32 tools")
    expect(field(form, "bundle")).to_have_value("jupyter-server-api")
    form.get_by_role("button", name="Only GET").click()
    expect(take).to_have_text("Import 15 tools")
    form.get_by_role("button", name="None").click()
    expect(take).to_be_disabled()
    form.get_by_label("All of kernels", exact=True).check()
    form.get_by_label("Filter operations").fill("session patch")
    form.get_by_role("group", name="sessions").get_by_role("checkbox").check()
    form.get_by_label("Filter operations").fill("")
    expect(take).to_have_text("Import 7 tools")
    page.add_script_tag(path=AXE)
    assert page.evaluate("async () => (await axe.run('#onetool-ipy-panel')).violations.map(v => v.id)") == []
    expect(form.get_by_label("All of sessions", exact=True)).to_have_js_property("indeterminate", True)
    field(form, "bundle").fill("my kernels")
    take.click()
    assert "'my kernels' holds ' '" in wrong(form, "bundle")
    field(form, "bundle").fill("kernels")
    take.click()
    expect(panel).to_contain_text("7 tools imported into kernels.")
    expect(panel.locator(".onetool-Tool")).to_have_count(7)


def _paste_documents(panel: Locator) -> None:
    """YAML and JSON as a person pastes them, and what is wrong at its field."""
    page, form = panel.page, panel.locator(".onetool-Bundles-editor")
    show, take = form.get_by_role("button", name="Show operations"), form.get_by_role("button", name="Import")

    def paste(document: str, bundle: str) -> None:
        """Open the import, paste as a person does, name the bundle."""
        if not form.is_visible():
            panel.get_by_role("button", name="Import tools").click()
        page.evaluate("text => navigator.clipboard.writeText(text)", document)
        field(form, "document").fill("")
        field(form, "document").press("Control+V")
        expect(field(form, "document")).to_have_value(document)
        field(form, "bundle").fill(bundle)
        show.click()

    paste("", "")
    assert wrong(form, "document") == "Choose a file, paste a document or write its URL."
    expect(field(form, "document")).to_be_focused()
    paste('{"openapi": "3.1.0", ', "items")
    assert "neither JSON nor YAML" in wrong(form, "document")
    paste("openapi: 3.1.0\npaths: {}", "items")
    assert "no operation" in wrong(form, "document")
    paste(json.dumps(JSON, indent=2), "items")
    auth = form.locator(".otx-field").filter(has=page.locator(".otx-name:text-is('auth')")).first
    auth.get_by_role("combobox").first.select_option(label="API key in a header")
    header, secret = auth.locator("input").nth(0), auth.locator("input").nth(1)
    header.fill("X-Api-Key")
    secret.fill("sk-not a name")
    take.click()
    expect(auth.get_by_text("Write the name of a secret")).to_be_visible()
    expect(secret).to_be_focused()
    secret.fill("ITEMS_KEY")
    take.click()
    expect(panel).to_contain_text("1 tool imported into items.")
    expect(panel).to_contain_text("They call items.example.com")
    expect(panel).to_contain_text("They need these secrets in secrets.yaml: ITEMS_KEY.")
    paste(YAML + padding(), "items")
    take.click()
    assert "'items'" in wrong(form, "bundle")  # there is one of that name
    field(form, "bundle").fill("shops")
    take.click()
    expect(panel).to_contain_text("1 tool imported into shops.")


def padding() -> str:
    """What makes a document as long as real ones are: some 200 kB."""
    part: dict[str, Any] = {f"Part{n}": {"type": "object", "description": "x" * 80} for n in range(1500)}
    return f"components: {json.dumps({'schemas': part})}\n"
