"""A page of JupyterLab is lent again only where it looks as a new one: our panel with it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_panel import health_of, tab, usage_of
from tests.harness.lab import Lab

pytestmark = pytest.mark.browser

NOT_LOADED = "onetool_ipy is not loaded in this kernel."
_MARK = "() => { window.mark = 'kept'; }"
_HAS_MARK = "() => window.mark === 'kept'"
_VIEWS = (
    "panel => [...panel.querySelectorAll('[role=tab][aria-selected=true]')].map(tab =>"
    " tab.textContent)"
)


def use_panel(lab: Lab) -> Page:
    """A notebook's page with a mark, whose panel has a search, open health and another view in
    front; a tool and the usage are open beside the notebook."""
    notebook = lab.open_notebook(["%load_ext onetool_ipy"])
    notebook.page.evaluate(_MARK)
    panel = notebook.show_panel()
    notebook.run_cell(0)
    panel.get_by_label("Search tools").fill("time.now")
    panel.locator(".otx-tool", has_text="time.now").first.click()
    expect(notebook.page.locator(".onetool-ToolTab .otx-title")).to_be_visible()
    expect(usage_of(panel)).to_be_visible()
    expect(health_of(panel)).to_be_visible()
    tab(panel, "Sources")
    expect(panel.locator(".onetool-Bundle").first).to_be_visible()
    return notebook.page


def test_the_panel_of_a_page_that_is_lent_again_is_as_a_new_one(lab: Lab) -> None:
    page = use_panel(lab)
    lab.close_notebooks()

    notebook = lab.open_notebook()

    assert notebook.page is page
    assert page.evaluate(_HAS_MARK), "it was not loaded again"
    expect(page.locator("#filebrowser")).to_be_visible()
    expect(page.locator(".onetool-Status")).to_be_hidden()
    panel = notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)
    assert panel.evaluate(_VIEWS) == ["Tools"]
    panel.get_by_role("button", name="Load it").click()
    expect(panel.locator(".otx-tool").first).to_be_visible()
    expect(panel.get_by_label("Search tools")).to_have_value("")
    expect(page.locator(".onetool-ToolTab, .onetool-Usage")).to_have_count(0)
    expect(panel.get_by_role("region", name="Health")).to_be_hidden()


@pytest.mark.parametrize(
    "leave",
    [
        "() => { document.querySelector('#onetool-ipy-panel [role=tab]').title = 'old'; }",
        "() => { document.querySelector('#jp-left-stack').style.minWidth = '300px'; }",
    ],
    ids=["panel", "width"],
)
def test_a_page_on_which_something_is_left_is_loaded_again(lab: Lab, leave: str) -> None:
    notebook = lab.open_notebook()
    notebook.page.evaluate(_MARK)
    notebook.page.evaluate(leave)
    lab.close_notebooks()

    assert not lab.open_notebook().page.evaluate(_HAS_MARK)
