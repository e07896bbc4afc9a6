"""Bundles and HTTP tools in the side panel, over the REST API: from an empty form to a call in a cell, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.test_panel import load, tab
from tests.harness.lab import Lab, Notebook
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
        described = {"openapi": "3.1.0", "info": {"title": "Items", "version": "1"}, "servers": [{"url": origin}]}
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
    (onetool / "onetool.yaml").write_text(json.dumps({"version": 1, "http": http}), encoding="utf-8")
    (onetool / "secrets.yaml").write_text(f"API_KEY: {SECRET}\n", encoding="utf-8")
    (onetool / "secrets.yaml").chmod(0o600)


def field(form: Locator, name: str) -> Locator:
    own = form.locator(".otx-field").filter(has=form.page.locator(f".otx-name:text-is('{name}')"))
    return own.locator("input, textarea").first


def error(form: Locator, name: str) -> Locator:
    own = form.locator(".otx-field").filter(has=form.page.locator(f".otx-name:text-is('{name}')"))
    return own.locator(".otx-error").first


def switch(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("switch", name=name)


def flip(notebook: Notebook, panel: Locator, name: str) -> None:
    """Press a switch, and wait until the server has heard of it: it shows at once what was wished."""
    with notebook.page.expect_response(lambda answer: answer.request.method == "PATCH"):
        switch(panel, name).press("Space")
    expect(switch(panel, name)).to_be_focused()  # the list was drawn anew, and one is still where one was


def error_of(notebook: Notebook, index: int) -> str:
    (output,) = [each for each in notebook.run_cell(index) if each["output_type"] == "error"]
    return str(output["evalue"])


def test_http_tool_is_made_tried_called_switched_edited_and_deleted(lab: Lab, api: Stub) -> None:
    """Create it against a loopback API, call it with %tool at once, switch it off and see the call refused."""
    notebook = lab.open_notebook(["%tool shop.get-item id=7", ""])
    make_project(notebook.path.parent, api)
    panel = load(notebook)
    tab(panel, "Bundles")
    panel.get_by_role("button", name="New HTTP tool").click()
    form = panel.locator(".onetool-ToolForm")
    save = form.get_by_role("button", name="Save")

    save.click()
    for name in ("bundle", "tool", "url"):
        expect(error(form, name)).to_have_text("This field is required.")
    expect(field(form, "bundle")).to_be_focused()
    field(form, "bundle").fill("my shop")
    field(form, "tool").fill("get-item")
    field(form, "url").fill("ftp://nowhere/${id}")
    save.click()
    expect(error(form, "bundle")).to_contain_text("'my shop'")
    expect(error(form, "url")).to_contain_text("Must start with http:// or https://")
    field(form, "bundle").fill("shop")
    expect(error(form, "bundle")).to_be_hidden()
    save.click()
    expect(save).to_be_enabled()
    expect(error(form, "url")).to_contain_text("Must start with http:// or https://")
    expect(panel.locator(".onetool-Bundle[data-slug=shop]")).to_have_count(0)
    field(form, "url").fill(api.url("/items/${id}"))
    field(form, "version").fill("v 1")
    save.click()
    expect(error(form, "version")).to_contain_text("'v 1'")
    field(form, "version").fill("v1")
    field(form, "auth").fill('{"type": "bearer", "value": "${API_KEY}"}')
    form.locator("h4:text-is('Try it') + div input").fill("3")
    form.get_by_role("button", name="Test").click()
    tested = form.locator(".onetool-Tested")
    expect(tested.get_by_role("status")).to_have_text("ok")
    expect(tested.locator("pre").first).to_contain_text("Bearer ***")
    assert api.asked[-1].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in panel.inner_text()
    save.click()
    expect(panel).to_contain_text("Saved. Call it: %tool shop.get-item")

    notebook.run_cell(0)
    expect(notebook.output(0)).to_contain_text("/items/7")
    flip(notebook, panel, "get-item v1")
    expect(switch(panel, "get-item v1")).not_to_be_checked()
    assert "switched off" in error_of(notebook, 0)
    flip(notebook, panel, "get-item v1")
    flip(notebook, panel, "Bundle shop")
    expect(switch(panel, "Bundle shop")).not_to_be_checked()
    assert "switched off" in error_of(notebook, 0)
    flip(notebook, panel, "Bundle shop")
    expect(switch(panel, "Bundle shop")).to_be_checked()

    panel.get_by_role("button", name="Edit get-item v1").click()
    expect(field(form, "version")).to_have_value("v2")
    field(form, "url").fill(api.url("/second/${id}"))
    field(form, "version").fill("v1")
    save.click()
    expect(error(form, "version")).to_contain_text("v1")  # a version that is there is never changed
    field(form, "version").fill("v2")
    save.click()
    expect(panel.locator(".onetool-Tool")).to_have_count(2)
    notebook.run_cell(0)
    expect(notebook.output(0)).to_contain_text("/second/7")

    panel.get_by_role("button", name="Delete the bundle shop").click()
    panel.get_by_role("button", name="Delete the bundle shop").click()
    expect(panel.locator(".onetool-Bundles .otx-notice")).to_contain_text("shop")  # it is not empty
    for version in ("v2", "v1"):
        panel.get_by_role("button", name=f"Delete get-item {version}").click()
        panel.get_by_role("button", name=f"Delete get-item {version}").click()
        expect(panel.locator(f".onetool-Tool[data-version={version}]")).to_have_count(0)
        expect(switch(panel, "Bundle shop")).to_be_focused()
    assert "shop" in error_of(notebook, 0)

    panel.get_by_role("button", name="Import OpenAPI").click()
    wanted = panel.locator(".onetool-Bundles-editor")
    field(wanted, "document").fill(api.url("/openapi.json"))
    field(wanted, "bundle").fill("items")
    panel.get_by_role("button", name="Import", exact=True).click()
    expect(panel).to_contain_text("1 tool imported into items.")
    tab(panel, "Tools")
    panel.get_by_label("Search tools").fill("listItems")
    expect(panel.locator(".otx-tool-name").first).to_have_text("items.listItems")
    assert SECRET not in notebook.page.content()
    assert notebook.page_errors == []
