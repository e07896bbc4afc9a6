"""The panel's import form: a document that is pasted whole; what the server refuses stands at its own field."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.test_panel import load, tab
from tests.e2e.test_panel_bundles import field
from tests.harness.lab import Lab

pytestmark = pytest.mark.browser

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


def test_a_document_is_pasted_whole_as_yaml_and_as_json(lab: Lab) -> None:
    notebook = lab.open_notebook([""])
    (notebook.path.parent / ".onetool").mkdir()
    (notebook.path.parent / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    panel = load(notebook)
    tab(panel, "Bundles")
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def paste(document: str, bundle: str) -> Locator:
        """Open the import, paste as a person does, name the bundle, press Import."""
        if not panel.get_by_role("heading", name="Import OpenAPI").is_visible():
            panel.get_by_role("button", name="Import OpenAPI").click()
        form = panel.locator(".onetool-Bundles-editor")
        notebook.page.evaluate("text => navigator.clipboard.writeText(text)", document)
        field(form, "document").fill("")
        field(form, "document").press("Control+V")
        expect(field(form, "document")).to_have_value(document)
        field(form, "bundle").fill(bundle)
        form.get_by_role("button", name="Import", exact=True).click()
        return form

    form = paste("", "")
    assert (wrong(form, "document"), wrong(form, "bundle")) == ("This field is required.", "This field is required.")
    expect(field(form, "document")).to_be_focused()
    form = paste('{"openapi": "3.1.0", ', "my items")
    assert "'my items' holds ' '" in wrong(form, "bundle")
    form = paste('{"openapi": "3.1.0", ', "items")
    assert "neither JSON nor YAML" in wrong(form, "document")
    form = paste(YAML + padding() * 8, "items")
    assert "Give its address instead." in wrong(form, "document")
    form = paste("openapi: 3.1.0\npaths: {}", "items")
    assert "no operation" in wrong(form, "document")

    paste(json.dumps(JSON, indent=2), "items")
    expect(panel).to_contain_text("1 tool imported into items.")
    expect(panel).to_contain_text("They call items.example.com")
    form = paste(YAML, "items")
    assert "'items'" in wrong(form, "bundle")  # there is one of that name
    paste(YAML + padding(), "shops")
    expect(panel).to_contain_text("1 tool imported into shops.")

    tab(panel, "Tools")
    for name in ("items.listItems", "shops.getShop"):
        panel.get_by_label("Search tools").fill(name)
        expect(panel.locator(".otx-tool-name").first).to_have_text(re.compile(re.escape(name)))
    assert notebook.page_errors == []


def padding() -> str:
    """What makes a document as long as real ones are: some 200 kB."""
    part: dict[str, Any] = {f"Part{n}": {"type": "object", "description": "x" * 80} for n in range(1500)}
    return f"components: {json.dumps({'schemas': part})}\n"
