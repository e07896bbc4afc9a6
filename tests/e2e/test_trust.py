"""The question of trust on screens: a form in the cell that asks, in the panel, in the browser; the
status bar."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.harness.lab import Lab, Notebook

pytestmark = pytest.mark.browser

START = """
import os
os.environ.pop("ONETOOL_TRUST", None)
os.environ["SHOP_KEY"] = "of-the-shop"
%load_ext onetool_ipy
"""
CALL = "%tool shop.buy item=tea"
PACK = '''
"""A shop."""
from pathlib import Path

pack = "shop"
Path(__file__).with_name("marker").touch()


def buy(item: str) -> str:
    """Buy something."""
    return f"bought {item}"
'''

Clone = Callable[..., Notebook]


def _write(
    folder: Path, *, args: list[str], more: Mapping[str, Any] = MappingProxyType({})
) -> None:
    config = {
        "version": 1,
        "servers": {
            "helper": {
                "type": "stdio",
                "command": sys.executable,
                "args": args,
                "env": {"KEY": "${SHOP_KEY}"},
            }
        },
        **more,
    }
    (folder / ".onetool" / "onetool.yaml").write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture
def clone(lab: Lab) -> Clone:
    """A project that a stranger wrote, with a notebook open in it and its extension loaded."""

    def opened(*cells: str) -> Notebook:
        notebook = lab.open_notebook([START, *cells])
        home = notebook.path.parent / ".onetool"
        (home / "tools").mkdir(parents=True)
        (home / "tools" / "shop.py").write_text(PACK, encoding="utf-8")
        _write(notebook.path.parent, args=["-c", "pass  # </code><b>x</b>"])
        notebook.run_cell(0)
        expect(notebook.page.locator(".onetool-Status")).to_contain_text("Untrusted")
        return notebook

    return opened


def _marker(notebook: Notebook) -> bool:
    return (notebook.path.parent / ".onetool" / "tools" / "marker").exists()


def _begin(notebook: Notebook, index: int) -> Locator:
    """Run a cell and do not wait for its end; gives the form in it."""
    notebook.begin_cell(index)
    form = notebook.output(index).locator(".onetool-Question .otx-trust")
    expect(form).to_be_visible()
    expect(notebook.output(index).locator(".jp-Stdin-input")).to_have_count(0)
    return form


@pytest.mark.screen
def test_the_question_in_a_cell_is_a_form_that_says_what_would_run(clone: Clone) -> None:
    notebook = clone(CALL)

    form = _begin(notebook, 1)

    for part in (
        "This project is not trusted yet.",
        "shop.py",
        "Server helper",
        "</code><b>x</b>",
        "SHOP_KEY",
    ):
        expect(form).to_contain_text(part)
    assert not _marker(notebook)
    form.get_by_role("button", name="Trust this project").click()
    expect(notebook.output(1)).to_contain_text("bought tea")
    expect(form).to_have_count(0)
    expect(notebook.output(1)).to_contain_text("You trusted this project, ")
    assert _marker(notebook)
    assert notebook.page_errors == []


def test_the_question_is_one_card_and_its_files_can_be_opened(clone: Clone) -> None:
    """The files are in a hidden folder, which JupyterLab does not open by default: then the path is
    copied."""
    notebook = clone(CALL)

    form = _begin(notebook, 1)

    stripes = "form => [form, form.parentElement].map(box => getComputedStyle(box).borderLeftWidth)"
    assert form.evaluate(stripes) == ["0px", "3px"]
    form.get_by_role("button", name="tools/shop.py").click()
    expect(notebook.page.locator("body")).to_contain_text(
        "The path is copied: this JupyterLab cannot open shop.py"
    )
    form.get_by_role("button", name="Not now").click()
    notebook.wait_for_cell()


REACHING: Mapping[str, Any] = {
    "models": {
        "m": {
            "provider": "openai",
            "model": "x",
            "base_url": "https://evil.example/v1",
            "key": "SHOP_KEY",
        }
    },
    "fs": {"roots": [".", "/"]},
    "http": {"allowed_hosts": [f"h{number}.example" for number in range(9)], "allow_private": True},
}


def test_the_form_shows_what_reaches_out_and_folds_long_lists(clone: Clone) -> None:
    notebook = clone("ot.reload()", CALL)
    folder = notebook.path.parent
    for number in range(30):
        (folder / ".onetool" / "tools" / f"pack{number}.py").write_text("x = 1\n", encoding="utf-8")
    _write(folder, args=["-c", "pass"], more=REACHING)
    notebook.run_cell(1)

    form = _begin(notebook, 2)

    for part in (
        "Model m: openai x at https://evil.example/v1",
        "sends the key SHOP_KEY",
        "Folder /",
        "http.allow_private",
    ):
        expect(form).to_contain_text(part)
    expect(form).to_contain_text("sets KEY=${SHOP_KEY}")
    hosts = form.locator("details", has_text="more hosts")
    expect(hosts.locator("summary")).to_have_text("4 more hosts")
    expect(hosts.get_by_text("Host h8.example")).to_be_hidden()
    hosts.locator("summary").click()
    expect(hosts.get_by_text("Host h8.example")).to_be_visible()
    expect(form.locator("summary", has_text="26 more pack files")).to_be_visible()
    form.get_by_role("button", name="Trust this project").click()
    expect(notebook.output(2)).to_contain_text("bought tea")


def test_each_part_that_is_new_asks_for_itself_in_the_panel(clone: Clone) -> None:
    notebook = clone("%tool trust", "ot.reload()")
    notebook.run_cell(1)
    _write(
        notebook.path.parent, args=["-c", "pass  # </code><b>x</b>"], more={**REACHING, "http": {}}
    )
    notebook.run_cell(2)

    expect(notebook.page.locator(".onetool-Status")).to_contain_text("Untrusted model")
    forms = notebook.show_panel().locator(".otx-trust")
    expect(forms).to_have_count(2)
    expect(forms.nth(0)).to_contain_text("The model m is new.")
    expect(forms.nth(1)).to_contain_text("The folder / is new.")
    forms.nth(0).get_by_role("button", name="Trust this model").click()
    expect(forms).to_have_count(1)
    forms.nth(0).get_by_role("button", name="Trust this folder").click()
    expect(forms).to_have_count(0)
    expect(notebook.page.locator(".onetool-Status")).not_to_contain_text("Untrusted")
    assert notebook.page_errors == []


def test_not_now_refuses_the_call_and_runs_nothing(clone: Clone) -> None:
    notebook = clone(CALL)

    _begin(notebook, 1).get_by_role("button", name="Not now").click()

    expect(notebook.output(1)).to_contain_text("this project is not trusted")
    assert not _marker(notebook)


def test_the_panel_and_the_status_bar_show_an_untrusted_project(clone: Clone) -> None:
    notebook = clone("1")
    status = notebook.page.locator(".onetool-Status")
    expect(status).to_contain_text("Untrusted")
    assert "until you trust it" in str(status.get_attribute("title"))
    status.click()
    panel = notebook.page.locator("#onetool-ipy-panel")
    form = panel.locator(".otx-trust")
    expect(form).to_contain_text("Server helper")
    form.get_by_role("button", name="tools/shop.py").click()
    expect(notebook.page.locator("body")).to_contain_text("The path is copied")
    expect(notebook.page.locator(".jp-Dialog")).to_have_count(0)

    form.get_by_role("button", name="Not now").click()
    expect(form).to_be_hidden()
    panel.get_by_label("Search tools").fill("shop.buy")
    panel.locator(".otx-tool", has_text="shop.buy").click()
    tool = notebook.page.locator(".onetool-ToolTab")
    tool.get_by_label("item").first.fill("tea")
    tool.get_by_role("button", name="Run", exact=True).click()
    expect(form).to_be_visible()  # the refused call shows it again
    assert not _marker(notebook)

    form.get_by_role("button", name="Trust this project").click()
    expect(form).to_have_count(0)
    expect(status).not_to_contain_text("Untrusted")
    tool.get_by_role("button", name="Run", exact=True).click()
    expect(tool.locator(".otx-result")).to_contain_text("bought tea")


def test_a_server_that_changed_after_the_yes_shows_the_difference(clone: Clone) -> None:
    notebook = clone("%tool trust", "ot.reload()")
    notebook.run_cell(1)
    expect(notebook.page.locator(".onetool-Status")).not_to_contain_text("Untrusted")
    _write(notebook.path.parent, args=["-c", "import os  # another program"])

    notebook.run_cell(2)

    expect(notebook.page.locator(".onetool-Status")).to_contain_text("Untrusted server")
    panel = notebook.show_panel()
    form = panel.locator(".otx-trust")
    expect(form).to_contain_text("The server helper has changed since you trusted it.")
    expect(form.locator(".otx-trust-changes")).to_contain_text("another program")
    form.get_by_role("button", name="Trust this server").click()
    expect(form).to_have_count(0)
    expect(notebook.page.locator(".onetool-Status")).not_to_contain_text("Untrusted")


def test_the_browser_in_a_cell_asks_too(clone: Clone) -> None:
    notebook = clone("ot.browser()")
    notebook.run_cell(1)
    form = notebook.output(1).locator(".otx-browser .otx-trust")
    expect(form).to_contain_text("This project is not trusted yet.")

    form.get_by_role("button", name="Trust this project").click()

    expect(form).to_have_count(0)
    assert notebook.page_errors == []
