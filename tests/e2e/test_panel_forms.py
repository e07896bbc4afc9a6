"""The panel's forms: what the server refuses stands at its own field, by structure; a document that is pasted whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.e2e.test_panel import load, tab
from tests.e2e.test_panel_bundles import error, field, make_project
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Stub

pytestmark = pytest.mark.browser

ONE_BUNDLE = re.compile(r"/onetool/tools/bundles/[^/]+$")
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


@pytest.fixture
def api() -> Iterator[Stub]:
    with Stub(lambda asked: (200, {"path": asked.path})) as stub:
        yield stub


def bundles(notebook: Notebook) -> Locator:
    panel = notebook.show_panel()
    tab(panel, "Bundles")
    return panel


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


def first_form(panel: Locator) -> Locator:
    return panel.locator(".onetool-ToolForm form").first


def add(form: Locator, name: str) -> Locator:
    """One more row of a list; gives it."""
    form.get_by_role("button", name=f"+ Add to {name}").click()
    return form.get_by_role("group", name=name, exact=True).locator(".otx-row").last


def test_every_wrong_field_has_its_own_message_and_the_first_has_the_focus(lab: Lab, api: Stub) -> None:
    notebook = lab.open_notebook([""])
    make_project(notebook.path.parent, api)
    panel = bundles(notebook)
    panel.get_by_role("button", name="New HTTP tool").click()
    form = first_form(panel)
    save = panel.get_by_role("button", name="Save")
    for name, text in {
        "bundle": "my shop",
        "tool": "get item",
        "version": "v 1",
        "url": "ftp://nowhere/${id}",
        "arguments": '{"type": "string"}',
        "auth": '{"type": "magic"}',
        "selector": "a[",
    }.items():
        field(form, name).fill(text)
    header = add(form, "headers")
    header.get_by_label("headers, key").fill("Host")
    header.get_by_label("headers, value").fill("x")
    query = add(form, "query")
    query.get_by_label("query, key").fill("${q}")
    query.get_by_label("query, value").fill("x")
    add(form, "tags").locator("input").fill("good")
    tag = add(form, "tags").locator("input")
    tag.fill("a,b")

    save.click()

    assert wrong(form, "bundle") == "'my shop' holds ' ' (Allowed are letters, digits and '-')."
    assert wrong(form, "tool") == "'get item' holds ' '. Allowed are letters, digits and '-'."
    assert "'v 1'" in wrong(form, "version")
    assert wrong(form, "url") == "Must start with http:// or https://."
    assert "object" in wrong(form, "arguments")
    assert "'magic'" in wrong(form, "auth")
    assert "JMESPath" in wrong(form, "selector")
    assert "'Host'" in wrong(form, "headers")
    assert "${q}" in wrong(form, "query")
    expect(tag).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_label("tags, item 1")).not_to_have_attribute("aria-invalid", "true")
    expect(field(form, "bundle")).to_be_focused()
    expect(panel.locator(".onetool-Bundle")).to_have_count(4)  # nothing was made

    field(form, "tool").fill("get-item")  # what was changed is no longer called wrong, the rest still is
    expect(error(form, "tool")).to_be_hidden()
    expect(error(form, "url")).to_be_visible()
    field(form, "bundle").fill("shop")
    save.click()
    expect(field(form, "version")).to_be_focused()

    for name, text in {"version": "v1", "url": api.url("/items/${id}"), "auth": "", "selector": ""}.items():
        field(form, name).fill(text)
    field(form, "arguments").fill('{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}')
    for name in ("headers", "query", "tags"):
        for _ in form.get_by_role("group", name=name, exact=True).locator(".otx-row").all():
            form.get_by_role("group", name=name, exact=True).get_by_role("button", name="Remove").first.click()
    tried = panel.locator("h4:text-is('Try it') + div")
    field(tried, "id").fill("seven")
    panel.get_by_role("button", name="Test").click()
    assert "seven" in wrong(tried, "id")
    expect(field(tried, "id")).to_be_focused()
    expect(error(form, "url")).to_be_hidden()

    field(form, "body").fill('{"half": "${no name}"}')
    save.click()
    assert "${no name}" in wrong(form, "body")
    method = form.locator(".otx-field").filter(has=notebook.page.locator(".otx-name:text-is('method')"))
    method.locator("select").select_option("HEAD")
    field(form, "body").fill("{}")
    save.click()
    assert wrong(form, "body") == "A HEAD request has no body."
    field(form, "body").fill("")
    save.click()
    expect(panel).to_contain_text("Saved. Call it: %tool shop.get-item")
    assert notebook.page_errors == []


def test_what_belongs_to_no_field_is_said_above_and_what_was_typed_stays(lab: Lab, api: Stub) -> None:
    notebook = lab.open_notebook([""])
    make_project(notebook.path.parent, api)
    panel = bundles(notebook)
    panel.get_by_role("button", name="New HTTP tool").click()
    form = first_form(panel)
    for name, text in {"bundle": "shop", "tool": "get", "url": api.url("/")}.items():
        field(form, name).fill(text)
    panel.get_by_role("button", name="New HTTP tool").click()  # a second press loses nothing
    expect(field(form, "tool")).to_have_value("get")

    notebook.page.context.set_offline(True)
    panel.get_by_role("button", name="Test").click()
    above = form.locator(":scope > .otx-error")
    expect(above).to_have_text("The Jupyter server does not respond. Check that it is still running.")
    expect(above).to_be_focused()
    panel.get_by_role("button", name="Refresh").click()
    expect(panel.locator(".onetool-Bundles .otx-notice")).to_contain_text("does not respond")
    notebook.page.context.set_offline(False)

    field(form, "auth").fill('{"type": "bearer", "value": "${NOT_THERE}"}')
    panel.get_by_role("button", name="Test").click()
    expect(above).to_contain_text("needs the secret 'NOT_THERE'")
    field(form, "auth").fill("")
    expect(above).to_be_hidden()

    held: list[Route] = []
    notebook.page.route(ONE_BUNDLE, lambda route: held.append(route))
    with notebook.page.expect_request(ONE_BUNDLE):
        panel.get_by_role("button", name="Save").click()
    field(form, "url").fill(api.url("/typed-while-it-is-saved"))
    panel.get_by_role("button", name="Save").press("Enter")  # and a second press does nothing
    for route in held:
        route.continue_()
    expect(panel).to_contain_text("Saved. Call it: %tool shop.get")
    notebook.page.unroute(ONE_BUNDLE)
    assert len(held) == 1
    panel.get_by_role("button", name="Edit get v1").click()
    expect(field(form, "url")).to_have_value(api.url("/"))
    assert notebook.page_errors == []


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


def test_a_secret_goes_to_another_host_only_after_a_yes_in_a_dialog(lab: Lab, api: Stub) -> None:
    notebook = lab.open_notebook([""])
    folder = notebook.path.parent
    make_project(folder, api)
    (folder / ".onetool" / "secrets.yaml").write_text("SHOP_KEY: value-of-the-key\n", encoding="utf-8")
    (folder / ".onetool" / "secrets.yaml").chmod(0o600)
    panel = bundles(notebook)
    form = first_form(panel)
    dialog = notebook.page.locator(".jp-Dialog")

    def new_tool(name: str, url: str) -> None:
        panel.get_by_role("button", name="New HTTP tool").click()
        for label, text in {"bundle": "shop", "tool": name, "url": url}.items():
            field(form, label).fill(text)
        field(form, "auth").fill('{"type": "bearer", "value": "${SHOP_KEY}"}')

    new_tool("first", "https://first.example.com/")
    panel.get_by_role("button", name="Save").click()
    expect(panel).to_contain_text("Saved. Call it: %tool shop.first")
    new_tool("second", api.url("/second"))
    panel.get_by_role("button", name="Test").click()
    expect(dialog).to_contain_text("'SHOP_KEY' is used with 'first.example.com:443'")
    dialog.get_by_role("button", name="Cancel").click()
    expect(form.locator(":scope > .otx-error")).to_contain_text("this would send it to")
    assert api.asked == []

    panel.get_by_role("button", name="Test").click()
    dialog.get_by_role("button", name="Send it there").click()
    expect(panel.locator(".otx-chip.otx-ok")).to_be_visible()
    panel.get_by_role("button", name="Save").click()
    dialog.get_by_role("button", name="Send it there").click()
    expect(panel).to_contain_text("Saved. Call it: %tool shop.second")

    assert len(api.asked) == 1
    assert notebook.page_errors == []
