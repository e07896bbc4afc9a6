"""The HTTP tool editor in a tab: an API tool with a token made from nothing, and what it says to
wrong input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import AXE
from tests.e2e.steps import Steps, check
from tests.e2e.test_panel import LOAD, load, tab
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Asked, Stub

pytestmark = pytest.mark.browser

TOKEN = "tok-1a2b3c4d5e"
SERIOUS = (
    "async () => (await axe.run('.otx-editor')).violations.filter(v => ['serious',"
    " 'critical'].includes(v.impact)).map(v => `${v.id} ${v.nodes[0].html}`)"
)

# JupyterLab ignores Save while the last one is not at its end, which is some time after the
# notebook is clean: it still makes the checkpoint.
NOTE_SAVES = """() => {
  window.saves = [];
  window.jupyterapp.commands.commandExecuted.connect((_, command) => {
    if (command.id === 'docmanager:save') window.saves.push(command.result);
  });
}"""


def answer(asked: Asked) -> tuple[int, Any]:
    if asked.headers.get("authorization") != f"Bearer {TOKEN}":
        return 401, {"detail": "no token", "seen": asked.headers.get("authorization", "")}
    rows = [{"id": n, "name": f"item {n}", "price": n / 4} for n in range(1, 4)]
    return 200, {"path": asked.path, "items": rows, "sent": asked.body.decode()}


@pytest.fixture
def api() -> Iterator[Stub]:
    with Stub(answer) as stub:
        yield stub


def open_editor(notebook: Notebook) -> Locator:
    panel = load(notebook)
    tab(panel, "Sources")
    panel.get_by_role("button", name="New HTTP tool").click()
    editor = notebook.page.locator(".onetool-HttpTool")
    expect(editor.get_by_label("URL", exact=True)).to_be_focused()
    return editor


FRONT = """isNotebook => {
  const { shell } = window.jupyterapp;
  shell.activateById([...shell.widgets('main')].find(tab => Boolean(tab.context) === isNotebook).id);
}"""


def run_cell(notebook: Notebook, index: int, said: str) -> None:
    """Run a cell of the notebook behind the editor."""
    notebook.page.evaluate(FRONT, True)
    notebook.run_cell(index)
    expect(notebook.output(index)).to_contain_text(said)
    notebook.page.evaluate(FRONT, False)


def status(editor: Locator) -> Locator:
    return editor.locator(".otx-editor-status")


def test_an_api_tool_with_a_token_is_made_from_nothing(lab: Lab, api: Stub, tmp_path: Path) -> None:
    notebook = lab.open_notebook(["%tool my-api.get-items id=7", "%tool my-api.get-users"])
    editor = open_editor(notebook)
    person = Steps(notebook.page, clicks=1)  # New HTTP tool
    url = editor.get_by_label("URL", exact=True)

    notebook.page.keyboard.insert_text(api.url("/items"))  # the field has the focus
    person.keys += 1
    editor.get_by_label("Kind of auth").select_option("bearer")
    person.clicks += 2
    person.paste(editor.get_by_label("Value of the new secret"), TOKEN)
    person.click(editor.get_by_role("button", name="Send", exact=True))
    expect(editor.get_by_role("alertdialog")).to_contain_text(
        f"Allow requests to 127.0.0.1:{api.port}?"
    )
    assert api.asked == []
    person.click(editor.get_by_role("button", name="Allow and send"))
    expect(status(editor)).to_contain_text("200 OK")
    check("call an API with a token", person)

    url.press("End")
    url.press_sequentially("/{id}")
    editor.get_by_label("Value of id to try").fill("3")
    url.press("Control+Enter")
    expect(editor.locator(".otx-viewer")).to_contain_text("/items/3")
    editor.get_by_role("button", name="Save", exact=True).click()
    expect(status(editor)).to_have_text("Saved. Call it: %tool my-api.get-items id=3")
    expect(notebook.page.locator(".lm-TabBar-tab", has_text="my-api.get-items")).to_be_visible()
    expect(status(editor)).to_have_class(re.compile("otx-ok"))
    run_cell(notebook, 0, "/items/7")
    assert TOKEN not in editor.inner_html()
    folder = notebook.path.parent / ".onetool"
    assert (folder / "secrets.yaml").stat().st_mode & 0o777 == 0o600
    record = json.loads((folder / "bundles" / "my-api" / "bundle.json").read_text(encoding="utf-8"))
    assert record["auth"] == {"type": "bearer", "value": "${MY_API_TOKEN}"}

    look_at_the_response(notebook, editor, api)
    use_the_second_curl(notebook, editor, api)
    notebook.page.add_script_tag(path=AXE)
    assert notebook.page.evaluate(SERIOUS) == []
    lab.screenshot("http-editor", tmp_path)
    assert notebook.page_errors == []


def look_at_the_response(notebook: Notebook, editor: Locator, api: Stub) -> None:
    """The selector is tried on the last response; nothing is sent again."""
    sent = len(api.asked)
    editor.get_by_label("Keep (JMESPath)").fill("items")
    expect(editor.get_by_role("tab", name="Table")).to_be_visible()
    expect(editor.locator(".otx-viewer")).to_contain_text("item 2")
    editor.get_by_role("button", name="Filter name", exact=True).click()
    editor.get_by_role("button", name="Keep", exact=True).click()
    expect(editor.get_by_label("Keep (JMESPath)")).to_have_value("items[].name")
    editor.get_by_label("Keep (JMESPath)").fill("items[")
    expect(editor.locator(".otx-error:visible")).to_have_count(1)
    editor.get_by_label("Keep (JMESPath)").fill("items[].name")
    expect(editor.locator(".otx-error:visible")).to_have_count(0)
    editor.get_by_role("tab", name="Headers").click()
    expect(editor.get_by_role("tabpanel", name="Headers")).to_contain_text("application/json")
    editor.get_by_role("tab", name="Request").click()
    expect(editor.get_by_role("tabpanel", name="Request")).to_contain_text(
        "Authorization: Bearer ***"
    )
    assert len(api.asked) == sent
    editor.get_by_role("button", name="Save", exact=True).click()  # replaces what this editor saved
    expect(status(editor)).to_contain_text("Saved.")
    run_cell(notebook, 0, "item 3")


def use_the_second_curl(notebook: Notebook, editor: Locator, api: Stub) -> None:
    """A pasted curl of the same API uses the token of the bundle; a POST is sent after a yes."""
    curl = f'curl -X POST {api.url("/users")} --json \'{{"name": "Ada"}}\''
    editor.get_by_label("URL", exact=True).evaluate(
        "(field, text) => { const data = new DataTransfer(); data.setData('text/plain', text);"
        " field.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true,"
        " cancelable: true})) }",
        curl,
    )
    expect(editor.get_by_label("Kind of body")).to_have_value("json")
    expect(editor.get_by_label("Bundle", exact=True)).to_have_value("my-api")
    expect(editor.get_by_label("Kind of auth")).to_have_value("inherit")
    expect(editor.get_by_label("Default of name")).to_have_value("Ada")
    sent = len(api.asked)
    editor.get_by_role("button", name="Send", exact=True).click()
    expect(editor.get_by_role("alertdialog")).to_contain_text("POST may change data")
    assert len(api.asked) == sent
    editor.get_by_role("button", name="Send it").click()
    expect(status(editor)).to_contain_text("200 OK")
    assert json.loads(api.asked[-1].body) == {"name": "Ada"}
    editor.get_by_label("Tool", exact=True).fill("get-users")
    editor.get_by_role("button", name="Save", exact=True).click()
    expect(status(editor)).to_have_text("Saved. Call it: %tool my-api.get-users")
    run_cell(notebook, 1, "/users")


@pytest.mark.screen
def test_wrong_input_is_said_at_its_field_in_plain_words(lab: Lab, api: Stub) -> None:
    notebook = lab.open_notebook([""], viewport=(1000, 700))
    editor = open_editor(notebook)
    send = editor.get_by_role("button", name="Send", exact=True)
    errors = editor.locator(".otx-error:visible")

    send.click()
    expect(errors).to_have_text("Must start with http:// or https://.")
    url = editor.get_by_label("URL", exact=True)
    expect(url).to_be_focused()
    url.fill(api.url("/items/{id}"))
    expect(errors).to_have_count(0)
    editor.get_by_label("Type of id").select_option("integer")
    editor.get_by_label("Value of id to try").fill("three")
    send.click()
    expect(errors).to_have_text("id: 'three' is not a whole number.")
    editor.get_by_label("Value of id to try").fill("")
    editor.get_by_label("Kind of auth").select_option("bearer")
    editor.get_by_label("Name of the new secret").fill("my token")
    send.click()
    expect(errors).to_have_text("Use letters, digits and _ for the name, as in API_TOKEN.")
    editor.get_by_label("Kind of auth").select_option("none")
    send.click()
    expect(errors).to_have_text("Fill in 'Try with' for id.")
    expect(editor.get_by_label("Value of id to try")).to_be_focused()
    editor.get_by_label("Value of id to try").fill("3")
    send.click()
    editor.get_by_role("button", name="Cancel").click()
    assert api.asked == []
    send.click()
    editor.get_by_role("button", name="Allow and send").click()
    expect(status(editor)).to_contain_text("401 Unauthorized")
    expect(status(editor)).to_be_in_viewport()  # beside the button, and the response is in view
    expect(editor.locator(".otx-viewer")).to_contain_text("no token")
    expect(editor.locator(".otx-viewer")).to_be_in_viewport()
    editor.get_by_label("Bundle", exact=True).fill("my shop")
    editor.get_by_role("button", name="Save", exact=True).click()
    expect(errors).to_contain_text("'my shop'")
    editor.get_by_text("Paste curl").click()
    editor.get_by_label("curl command").fill("wget https://a.test")
    editor.get_by_role("button", name="Fill in").click()
    expect(errors.first).to_contain_text("does not begin with 'curl'")
    assert "nput should be" not in editor.inner_text()
    notebook.page.set_viewport_size({"width": 360, "height": 700})
    notebook.command("application:toggle-left-area")
    expect(send).to_be_in_viewport()
    assert notebook.page_errors == []


def test_in_a_cell_focus_and_save_stay_with_the_notebook(lab: Lab) -> None:
    """Run All with the editor as the last cell, then Ctrl+S; again from a field of the editor."""
    notebook = lab.open_notebook([LOAD, "1 + 1", "%tool new http"])
    page = notebook.page
    notebook.command("notebook:run-all-cells")
    editor = page.locator(".jp-Cell .otx-editor")
    url = editor.get_by_label("URL", exact=True)
    expect(url).to_be_visible()
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert not editor.evaluate("editor => editor.contains(document.activeElement)")

    page.evaluate(NOTE_SAVES)
    page.keyboard.press("Control+s")
    wait_until_saved(notebook, "execution_count", 3)

    url.fill("https://api.example.com/orders")
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.setMetadata('turn', 'second')"
    )
    url.press("Control+s")
    wait_until_saved(notebook, "turn", "second")
    expect(editor.locator(".otx-error:visible")).to_have_count(0)
    expect(status(editor)).to_have_text("")
    expect(url).to_be_focused()
    assert notebook.page_errors == []


def wait_until_saved(notebook: Notebook, key: str, value: object) -> None:
    """Wait until JupyterLab's save command has ended, and see that the file has it."""
    notebook.page.wait_for_function("() => window.saves.length > 0")
    notebook.page.evaluate("async () => { await window.saves.shift(); }")
    assert not notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
    )
    saved = json.loads(notebook.path.read_text(encoding="utf-8"))
    assert value in (saved["metadata"].get(key), saved["cells"][-1].get(key))
