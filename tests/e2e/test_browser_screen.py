"""The tool browser in a real JupyterLab, driven by what a person can see, click and type."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import Screens, choose, field, find, press_run, serious, tools
from tests.harness.lab import Lab

pytestmark = pytest.mark.browser

GO_ON = "go_on.set()"
HOLD = "go_on.clear()"


@pytest.fixture(scope="module")
def screens(shared_lab: Lab) -> Iterator[Screens]:
    """One notebook for the whole file."""
    opened = Screens(shared_lab)
    yield opened
    opened.notebook.close()


@pytest.fixture(scope="module")
def _browser(screens: Screens) -> Locator:
    return screens.open()


@pytest.fixture
def browser(
    _browser: Locator, screens: Screens, request: pytest.FixtureRequest
) -> Iterator[Locator]:
    """The open browser, with nothing in its search."""
    find(_browser, "")
    yield _browser
    screens.picture(request)
    assert screens.notebook.page_errors == []


def test_a_tool_is_found_by_a_typo_and_its_letters_are_marked(browser: Locator) -> None:
    first = find(browser, "loacte")

    expect(first).to_contain_text("nb.locate")
    expect(first.locator("mark").first).to_be_visible()
    expect(browser.locator(".otx-total")).to_contain_text("of")


def test_filters_by_pack_and_tag_hold_together(browser: Locator) -> None:
    find(browser, "a")
    browser.get_by_label("Tag").select_option("draw")
    expect(tools(browser)).to_have_count(1)
    expect(tools(browser)).to_contain_text("nb.draw")

    browser.get_by_label("Tag").select_option("")
    packs = browser.get_by_role("navigation", name="Packs")
    packs.get_by_role("button", name="fs").click()
    find(browser, "")
    expect(tools(browser).first).to_contain_text("fs.")
    packs.get_by_role("button", name="All").click()


@pytest.mark.screen
def test_a_nested_form_with_a_union_is_filled_and_run(browser: Locator) -> None:
    choose(browser, "nb.draw")
    form = browser.locator(".otx-form")
    field(browser, "title").fill("A plan")
    shape = form.locator(".otx-union").first
    shape.locator("select").first.select_option(label="Box")
    for name, value in (("width", "3"), ("height", "4")):
        field(shape, name).fill(value)
    form.get_by_role("button", name="+ Add to labels").click()
    form.get_by_label("labels, item 1").fill("first")

    press_run(browser)
    result = browser.locator(".otx-viewer")
    expect(result).to_contain_text("ok")
    result.get_by_role("tab", name="Raw").click()
    expect(result).to_contain_text('"width": 3')
    browser.get_by_role("tab", name="JSON").click()
    typed = json.loads(browser.get_by_label("Arguments as JSON").input_value())
    assert typed == {
        "drawing": {
            "title": "A plan",
            "shape": {"kind": "box", "width": 3, "height": 4},
            "labels": ["first"],
        }
    }


def test_wrong_arguments_are_said_at_their_field(browser: Locator) -> None:
    choose(browser, "nb.locate")
    form = browser.locator(".otx-form")
    field(browser, "limit").fill("many")

    press_run(browser)

    expect(form.locator(".otx-field", has_text="limit").locator(".otx-error")).to_contain_text(
        "is not a whole number"
    )
    expect(field(browser, "limit")).to_have_attribute("aria-invalid", "true")
    field(browser, "limit").fill("")
    field(browser, "address").fill("Ring 1, Wien")
    press_run(browser)
    expect(browser.locator(".otx-viewer")).to_contain_text("5 rows")


def test_a_slow_tool_shows_progress_and_is_cancelled(browser: Locator, screens: Screens) -> None:
    screens.notebook.execute(HOLD)
    choose(browser, "nb.slow")
    field(browser, "n").fill("3")
    press_run(browser)

    progress = browser.locator(".otx-progress")
    expect(progress).to_contain_text("3 of 3 · counting")
    expect(browser.get_by_role("button", name="Run", exact=True)).to_have_attribute(
        "aria-disabled", "true"
    )
    browser.get_by_role("button", name="Cancel", exact=True).click()

    expect(browser.locator(".otx-summary .otx-chip")).to_have_text("cancelled")
    expect(progress).to_have_text("")
    expect(browser.get_by_role("button", name="Run", exact=True)).to_be_focused()
    screens.notebook.execute(GO_ON)


def test_several_calls_run_at_once_and_all_results_arrive(
    browser: Locator, screens: Screens
) -> None:
    screens.notebook.execute(HOLD)
    choose(browser, "nb.slow")
    for name in ("one", "two"):
        field(browser, "n").fill("2")
        field(browser, "name").fill(name)
        press_run(browser)
        expect(browser.locator(".otx-progress")).to_contain_text(f"counting {name}")
    choose(browser, "nb.quick")
    field(browser, "text").fill("meanwhile")
    press_run(browser)
    expect(browser.locator(".otx-viewer")).to_contain_text("said meanwhile")
    others = browser.get_by_role("group", name="Other calls").locator(".otx-call-line")
    expect(others).to_have_count(2)

    screens.notebook.execute(GO_ON)
    expect(others.nth(0)).to_contain_text("ok")
    expect(others.nth(1)).to_contain_text("ok")
    others.nth(0).get_by_role("button", name="nb.slow", exact=True).click()
    expect(browser.locator(".otx-viewer")).to_contain_text("told after 2 one")
    expect(field(browser, "name")).to_have_value("one")
    others.nth(0).get_by_role("button", name="Dismiss").click()
    expect(others).to_have_count(0)
    expect(browser).to_be_focused()  # the button that had it is gone; the notebook must not get it


def test_copied_code_runs_in_a_cell_with_the_same_result(
    browser: Locator, screens: Screens
) -> None:
    screens.notebook.execute("town = 'Graz'")
    choose(browser, "nb.locate")
    field(browser, "address").fill("=town")
    field(browser, "limit").fill("2")
    field(browser, "country").select_option(label="DE")
    press_run(browser)
    expect(browser.locator(".otx-viewer")).to_contain_text("2 rows")
    expect(browser.locator(".otx-viewer")).to_contain_text("Graz")
    browser.get_by_role("tab", name="Code").click()

    given = []
    for kind in ("%tool", "Python"):
        browser.get_by_role("button", name=f"Copy as {kind}").click()
        expect(browser.locator(".otx-snippet", has_text=kind).get_by_role("status")).to_have_text(
            "copied"
        )
        copied = screens.clipboard()
        screens.notebook.execute(f"given = {copied}")
        given.append(screens.value("getattr(given, 'data', given)"))
    assert given[0] == given[1]
    assert "'address': 'Graz', 'country': 'DE'" in given[0]


def test_a_list_field_takes_a_variable_of_the_notebook(browser: Locator, screens: Screens) -> None:
    screens.notebook.execute("rows = list(range(321))")
    choose(browser, "nb.size")
    browser.get_by_role("button", name="rows: use a notebook variable").click()
    field = browser.get_by_label("rows, a notebook variable")
    field.press_sequentially("=")
    expect(browser.locator("datalist option[value='=rows']")).to_have_count(1)
    field.press_sequentially("rows")
    field.press("Control+Enter")

    expect(browser.locator(".otx-viewer")).to_contain_text("321")
    field.fill("=missing")
    expect(browser.locator(".otx-form .otx-error:visible")).to_contain_text("no 'missing'")


@pytest.mark.screen
def test_history_favourites_and_stored_results(browser: Locator, screens: Screens) -> None:
    choose(browser, "nb.quick")
    field(browser, "text").fill("for later")
    field(browser, "text").press("Control+Enter")
    expect(browser.locator(".otx-viewer")).to_contain_text("said for later")
    choose(browser, "nb.lines")
    field(browser, "n").fill("5000")
    press_run(browser)
    expect(browser.locator(".otx-viewer")).to_contain_text("5,000 lines")

    browser.get_by_role("tab", name="History").click()
    expect(browser.locator(".otx-history-row", has_text="nb.lines").first).to_be_visible()
    browser.get_by_role("searchbox", name="Search history").fill("quick LATER")
    expect(browser.locator(".otx-history-row", has_text="nb.lines")).to_have_count(0)
    past = browser.locator(".otx-history-row", has_text="for later").first
    expect(past).to_be_visible()
    assert serious(screens, ".otx") == []
    past.get_by_role("button", name="Rerun nb.quick").click()
    past.get_by_role("alertdialog").get_by_role("button", name="Run again").click()
    expect(browser.locator(".otx-viewer")).to_contain_text("said for later")
    past.get_by_role("button", name="Edit the call of nb.quick").click()
    expect(field(browser, "text")).to_have_value("for later")

    browser.get_by_role("tab", name="Results").click()
    browser.get_by_role("button", name="Open the result of nb.lines").first.click()
    expect(browser.locator(".otx-viewer")).to_contain_text("line 3 of the text")

    browser.get_by_role("tab", name="Tools", exact=True).click()
    find(browser, "quick")
    tools(browser).first.get_by_title("Make it a favourite").click()
    find(browser, "")
    expect(tools(browser).first).to_contain_text("nb.quick")
    browser.get_by_role("button", name="★ Favourites").click()
    expect(tools(browser)).to_have_count(1)
    browser.get_by_role("navigation", name="Packs").get_by_role("button", name="All").click()


def test_the_keyboard_is_enough_and_the_notebook_hears_nothing_of_it(
    browser: Locator, screens: Screens
) -> None:
    before = screens.cells()
    keys = screens.page.keyboard
    browser.locator(".otx-total").click()
    search = browser.get_by_role("combobox", name="Search tools")
    search.focus()
    keys.type("quick")
    expect(tools(browser).first).to_contain_text("nb.quick")
    keys.press("ArrowDown")
    keys.press("ArrowUp")
    keys.press("Enter")
    expect(field(browser, "text")).to_be_focused()
    keys.press("Control+A")
    keys.type("by keys: d d a b")
    keys.press("Control+Enter")
    expect(browser.locator(".otx-viewer")).to_contain_text("said by keys: d d a b")
    keys.press("Escape")
    expect(search).to_be_focused()
    keys.press("Escape")
    expect(search).to_have_value("")
    keys.press("?")
    expect(browser.get_by_role("note", name="Keys")).to_be_visible()
    keys.press("Escape")
    expect(browser.get_by_role("note", name="Keys")).to_be_hidden()

    for target in (
        search,
        browser.get_by_role("tab", name="Form"),
        browser.get_by_role("button", name="Run", exact=True),
    ):
        target.focus()
        for key in ("d", "d", "a", "b", "x", "m", "Shift+Enter", "Shift+M", "Control+S", "0", "0"):
            keys.press(key)
    browser.get_by_role("button", name="Run", exact=True).focus()
    keys.press("/")
    expect(search).to_be_focused()
    assert screens.cells() == before
    keys.press("Escape")
    expect(search).to_have_value("")
    keys.press("Escape")
    expect(
        screens.page.locator(".jp-Notebook.jp-mod-commandMode .jp-Cell:focus .otx-browser")
    ).to_have_count(1)
    expect(screens.page.locator(".jp-Dialog")).to_have_count(0)


def test_dark_and_light_are_followed_live_and_axe_finds_nothing_serious(
    browser: Locator, screens: Screens
) -> None:
    choose(browser, "nb.draw")
    press_run(browser)
    colours = []
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        screens.theme(theme)
        expect(browser.get_by_role("heading", name="nb.draw")).to_be_visible()
        colours.append(browser.evaluate("element => getComputedStyle(element).backgroundColor"))
        assert serious(screens, ".otx") == []
    assert colours[0] != colours[1]


def test_360_pixels_are_enough(browser: Locator, screens: Screens) -> None:
    screens.page.set_viewport_size({"width": 480, "height": 900})
    screens.notebook.command("application:toggle-left-area")
    screens.page.wait_for_function(
        "() => document.querySelector('.otx-browser').clientWidth <= 400"
    )
    choose(browser, "nb.quick")
    field(browser, "text").fill("small")
    field(browser, "text").press("Control+Enter")
    expect(browser.locator(".otx-viewer")).to_contain_text("said small")
    assert browser.evaluate("element => element.scrollWidth <= element.clientWidth")
    expect(tools(browser).first).to_be_hidden()
    browser.get_by_role("button", name="‹ All tools").click()
    expect(tools(browser).first).to_be_visible()
    screens.page.set_viewport_size({"width": 1280, "height": 1000})
    screens.notebook.command("application:toggle-left-area")


def test_an_ask_in_the_history_has_no_buttons_to_call_it_again(
    browser: Locator, screens: Screens
) -> None:
    screens.notebook.execute(
        "from onetool_ipy.llm import ScriptedModel, Turn\n"
        "half = ScriptedModel([Turn('Half of the', stop='cut')])\n"
        "answer = %ask --model half Tell me a story"
    )

    browser.get_by_role("tab", name="History").click()
    browser.get_by_role("searchbox", name="Search history").fill("story")
    row = browser.locator(".otx-history-row").first
    expect(row).to_contain_text("The reply was cut at the token limit")
    expect(row.get_by_role("button")).to_have_count(0)
    browser.get_by_role("searchbox", name="Search history").fill("")
    browser.get_by_role("tab", name="Tools", exact=True).click()


def test_a_busy_kernel_still_answers(browser: Locator, screens: Screens) -> None:
    """A cell that runs does not stop the browser: JupyterLab carries its messages past the cell."""
    screens.notebook.execute(HOLD)
    screens.notebook.begin("print('held')\nwhile not go_on.wait(0.1): pass")
    expect(screens.notebook.output(len(screens.cells()) - 1)).to_contain_text("held")
    choose(browser, "nb.quick")
    field(browser, "text").fill("past the cell")
    field(browser, "text").press("Control+Enter")
    expect(browser.locator(".otx-viewer")).to_contain_text("said past the cell")
    choose(browser, "nb.locate")
    screens.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()"
    )
    screens.notebook.wait_for_cell()
    screens.notebook.execute(GO_ON)


def test_a_reloaded_page_finds_the_browser_again(browser: Locator, screens: Screens) -> None:
    """The kernel still knows the view: the page gets it back, and not its picture."""
    screens.save()
    screens.page.reload()
    screens.page.locator("#jupyterlab-splash").wait_for(state="detached")

    expect(browser).to_be_visible()
    expect(screens.page.locator(".otx-picture:visible")).to_have_count(0)
    choose(browser, "nb.quick")
    field(browser, "text").fill("again")
    press_run(browser)
    expect(browser.locator(".otx-viewer")).to_contain_text("said again")


def test_a_restart_of_the_kernel_is_said(browser: Locator, screens: Screens) -> None:
    """The last one: nothing works after it, and the browser says why."""
    screens.notebook.restart_kernel()

    expect(browser.get_by_role("alert").first).to_contain_text("The kernel was restarted")
    find(browser, "quick").click()
    expect(browser.locator(".otx-tool-page")).to_contain_text("The kernel was restarted")
