"""Where else the tools are (palette, launcher, menus, status bar), what the panel says of trouble,
and how it looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

import onetool_ipy
from tests.e2e.screens import AXE
from tests.e2e.test_panel import LOAD, NOT_LOADED, health_of, load, tab, usage_of, wait_for_cells
from tests.harness.lab import Lab
from tests.harness.wheel import Installed

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror='hacked=1'><script>hacked=1</script>"
EVIL_TOOL = f"""
from onetool_ipy import tool

@tool(tags=["{EVIL}"])
def evil(text: str = "{EVIL}") -> str:
    '''{EVIL}'''
    return text
"""
WITHOUT_US = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name == "onetool_ipy":
            raise ModuleNotFoundError(f"No module named '{name}'")

sys.meta_path.insert(0, Without())
"""
"""A kernel of an environment where the package is not."""
FUNCTION = "def shout(text: str) -> str:\n    'Say it loudly.'\n    return text.upper()"


def say_in_dialog(page: Page, text: str) -> None:
    page.locator(".jp-Dialog input").fill(text)
    page.locator(".jp-Dialog input").press("Enter")


def choose_in_menu(page: Page, cell: int, item: str) -> None:
    page.locator(".jp-Notebook .jp-Cell .jp-InputPrompt").nth(cell).click(button="right")
    page.locator(".lm-Menu-item", has_text=item).click()


def test_tools_are_in_the_palette_the_launcher_and_the_cell_menu(lab: Lab) -> None:
    notebook = lab.open_notebook(["", "1 + 1", FUNCTION, "$two", '%tool voice.shout text="hey"'])
    page = notebook.page
    load(notebook)
    page.locator(".jp-Notebook .jp-Cell .jp-InputPrompt").first.click()

    page.keyboard.press("Control+Shift+C")
    palette = page.locator(".lm-CommandPalette-input")
    palette.fill("time.now")
    expect(page.locator(".lm-CommandPalette-itemLabel").first).to_have_text("Insert time.now")
    palette.press("Enter")
    wait_for_cells(
        notebook, ["%tool time.now", "1 + 1", FUNCTION, "$two", '%tool voice.shout text="hey"']
    )

    choose_in_menu(page, 1, "Save cell as snippet")
    say_in_dialog(page, "two")
    expect(page.locator(".Toastify__toast").last).to_contain_text("$two")
    notebook.run_cell(3)
    expect(notebook.output(3)).to_contain_text("2")
    choose_in_menu(page, 1, "Save cell as tool")
    say_in_dialog(page, "voice")
    expect(page.locator(".Toastify__toast", has_text="no function")).to_be_visible()
    choose_in_menu(page, 2, "Save cell as tool")
    say_in_dialog(page, "voice")
    expect(page.locator(".Toastify__toast", has_text="voice.shout")).to_be_visible()
    notebook.run_cell(4)
    expect(notebook.output(4)).to_contain_text("HEY")
    assert (notebook.path.parent / ".onetool" / "tools" / "voice.py").read_text(
        encoding="utf-8"
    ) == f'pack = "voice"\n\n\n{FUNCTION}\n'

    notebook.command("application:toggle-left-area")
    expect(page.locator("#onetool-ipy-panel")).to_be_hidden()
    notebook.command("launcher:create")
    section = page.locator(".jp-Launcher-section", has=page.get_by_role("heading", name="onetool"))
    section.locator(".jp-LauncherCard", has_text="Tools panel").click()
    expect(page.locator("#onetool-ipy-panel")).to_be_visible()
    notebook.command("onetool:new-http")
    expect(page.locator(".onetool-HttpTool").get_by_label("URL", exact=True)).to_be_focused()
    assert notebook.page_errors == []


@pytest.mark.screen
def test_a_cut_result_opens_in_a_tab_of_its_own(lab: Lab) -> None:
    """A click on the button below a cut table; a second click finds the same tab."""
    made = (
        "@tool\ndef many() -> list[dict]:\n    'Rows.'\n    return [{'id': i, 'price': i / 4} for i"
        " in range(5000)]"
    )
    notebook = lab.open_notebook(
        ["%load_ext onetool_ipy\nfrom onetool_ipy import tool\n" + made, "%tool nb.many"]
    )
    notebook.run_cell(0)
    notebook.run_cell(1)
    page = notebook.page
    button = notebook.output(1).get_by_role("button", name="Open in viewer")
    button.click()
    result = page.locator(".onetool-Result")
    expect(result).to_contain_text("5,000 rows")
    expect(result.get_by_role("columnheader", name="price")).to_be_visible()
    expect(result.locator(".otx-notice")).to_be_hidden()  # as long as it has nothing to say
    expect(page.get_by_role("tab", name="nb.many result")).to_be_visible()
    page.get_by_role("tab", name="notebook.ipynb").click()
    button.click()
    expect(page.locator(".onetool-Result")).to_have_count(1)
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:activate-command-palette')")
    page.locator(".lm-CommandPalette-input").fill("onetool")
    places = [
        "Tools panel",
        "Open tool browser",
        "Ask",
        "Usage",
        "Health",
        "New HTTP tool",
        "Import tools",
        "Insert tool call",
    ]
    expect(page.locator(".lm-CommandPalette-itemLabel:visible").nth(7)).to_be_visible()
    assert page.locator(".lm-CommandPalette-itemLabel").all_inner_texts()[:8] == places
    page.locator(".lm-CommandPalette-input").fill("onetool usage")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Usage")).to_contain_text("nb.many")
    assert notebook.page_errors == []


def test_result_opens_again_after_a_restart_of_its_kernel(lab: Lab) -> None:
    """The tab of the kernel before stays as it was; the result, which is stored, opens in one of
    the new kernel."""
    made = (
        "@tool\ndef many() -> list[dict]:\n    'Rows.'\n    return [{'id': i} for i in range(5000)]"
    )
    notebook = lab.open_notebook([f"{LOAD}\nfrom onetool_ipy import tool\n{made}", "%tool nb.many"])
    notebook.run_cell(0)
    notebook.run_cell(1)
    page = notebook.page
    button = notebook.output(1).get_by_role("button", name="Open in viewer")
    button.click()
    result = page.locator(".onetool-Result:visible")
    expect(result).to_contain_text("5,000 rows")
    page.get_by_role("tab", name="notebook.ipynb").click()
    notebook.restart_kernel()
    panel = load(notebook)

    button.click()

    expect(result).to_contain_text("5,000 rows")
    expect(result.locator(".otx-notice")).to_be_hidden()
    expect(panel.locator(".otx-tool").first).to_be_visible()
    assert notebook.page_errors == []


def test_result_saved_from_its_tab_is_what_it_was(lab: Lab) -> None:
    """A table with dates: filtered and sorted in the tab, then saved as a variable."""
    setup = """%load_ext onetool_ipy
import pandas as pd
from onetool_ipy import tool
@tool
def sales() -> pd.DataFrame:
    "Sales by hour."
    day = pd.date_range("2024-01-01", periods=6000, freq="h")
    towns = ["Wien", "Linz", "Graz"] * 2000
    return pd.DataFrame({"when": day, "town": towns, "price": [n / 4 for n in range(6000)]})"""
    shown = "print(type(wien).__name__, wien['when'].dtype.kind, list(wien['price'][:2]))"
    notebook = lab.open_notebook([setup, "%tool nb.sales", shown])
    notebook.run_cell(0)
    notebook.run_cell(1)
    page = notebook.page
    notebook.output(1).get_by_role("button", name="Open in viewer").click()
    result = page.locator(".onetool-Result")
    result.get_by_label("Filter rows").fill("wien")
    expect(result).to_contain_text("2,000 of 6,000 rows")
    result.get_by_role("button", name="price", exact=True).click()
    result.get_by_role("button", name="price ▲", exact=True).click()
    expect(result.locator(".otx-table-row").first).to_contain_text("1499.25")

    result.get_by_role("button", name="More: save").click()
    result.get_by_label("Name of the variable").fill("wien")
    result.get_by_role("button", name="Save", exact=True).click()

    expect(result).to_contain_text("wien: DataFrame, 2,000 rows")
    page.get_by_role("tab", name="notebook.ipynb").click()
    assert notebook.run_cell(2)[0]["text"] == "DataFrame M [1499.25, 1498.5]\n"
    assert notebook.page_errors == []


def test_tool_browser_is_opened_from_the_palette_also_where_nothing_is_loaded(lab: Lab) -> None:
    notebook = lab.open_notebook(["1 + 1"])
    page = notebook.page
    panel = notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)
    page.locator(".jp-Notebook .jp-Cell .jp-InputPrompt").first.click()

    look_in_palette(page, "Open tool browser")
    page.locator(".lm-CommandPalette-item", has_text="Open tool browser").click()

    wait_for_cells(notebook, ["1 + 1", "ot.browser()"])
    browser = page.locator(".jp-Cell .otx-browser")
    expect(browser.locator(".otx-tool").first).to_be_visible()
    # The kernel has it now, and the panel sees that.
    expect(panel.locator(".otx-tool").first).to_be_visible()
    assert notebook.page_errors == []


def test_kernel_that_has_started_is_not_called_busy(lab: Lab) -> None:
    """Plain notebooks, one after the other: each kernel answers the page's first questions, then it
    is idle."""
    for _ in range(3):
        notebook = lab.open_notebook(["1 + 1"])
        panel = notebook.show_panel()
        expect(panel).to_contain_text(NOT_LOADED)
        # The panel waits 300 ms until it calls a kernel busy; nothing in the page tells the end of
        # that.
        notebook.page.evaluate("() => new Promise(done => setTimeout(done, 1000))")
        expect(panel.locator(".onetool-Panel-status p")).to_have_text([NOT_LOADED])
        assert notebook.page_errors == []
        notebook.close()


def test_load_says_that_the_kernel_is_busy_and_why_it_failed(lab: Lab) -> None:
    """Someone presses Load it while a cell runs, in a kernel that does not have the package."""
    notebook = lab.open_notebook([WITHOUT_US, "input('free?')"])
    notebook.run_cell(0)
    page, panel = notebook.page, notebook.show_panel()
    notebook.begin_cell(1)
    expect(panel).to_contain_text("The kernel is busy.")

    panel.get_by_role("button", name="Load it").click()

    expect(panel.get_by_role("button", name="Loading …")).to_be_visible()
    expect(panel).to_contain_text("it is loaded when the cell has ended")
    page.locator(".jp-Stdin-input").fill("yes")
    page.locator(".jp-Stdin-input").press("Enter")
    expect(panel.get_by_role("alert")).to_contain_text("No module named 'onetool_ipy'")
    expect(panel.get_by_role("button", name="Load it")).to_be_visible()
    notebook.run_cell(0)  # what goes on in the notebook does not take the words away
    expect(panel.get_by_role("alert")).to_contain_text("%pip install onetool-ipy")
    assert notebook.page_errors == []


def test_trouble_is_told_with_what_to_do_and_nothing_hostile_runs(lab: Lab) -> None:
    """Problems and versions; hostile words everywhere; what axe finds and what is cut at the
    default width."""
    other = (  # as a kernel of another environment has it
        "import onetool_ipy._version as v; v.__version__ = '9.9.9'"
    )
    notebook = lab.open_notebook([f"{other}\n{LOAD}", EVIL_TOOL], viewport=(1200, 900))
    onetool = notebook.path.parent / ".onetool"
    onetool.mkdir()
    config = {
        "version": 1,
        "aliases": {"lost": "nowhere.tool"},
        "servers": {"broken": {"command": f"/nowhere/{EVIL}"}},
        "http": {"allowed_hosts": []},
    }
    (onetool / "onetool.yaml").write_text(json.dumps(config), encoding="utf-8")
    page = notebook.page
    panel = notebook.show_panel()
    notebook.run_cell(0)
    expect(panel).to_contain_text(
        f"The kernel has onetool_ipy 9.9.9, this panel has {onetool_ipy.__version__}"
    )
    notebook.run_cell(1)
    found: list[Any] = []
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.command("apputils:change-theme", theme=theme)
        page.locator("#jupyterlab-splash").wait_for(state="detached")
        found += [*_health(panel), *_badly_placed(panel), *_hostile_words(panel)]
    assert found == []
    assert page.evaluate("() => window.hacked") is None
    notebook.command("application:toggle-left-area")
    expect(panel).to_be_hidden()
    page.locator(".onetool-Status").click()
    expect(panel).to_be_visible()
    tab(panel, "Tools")
    page.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tab", name="History")).to_be_focused()
    assert notebook.page_errors == []


@pytest.mark.screen
def test_each_notebook_has_its_own_health(lab: Lab) -> None:
    """What a check finds in one notebook is not said of another."""
    needy = (
        "@tool\n@requires_cli('no-such-program')\ndef needy() -> str:\n    'It lacks something.'\n "
        "   return ''"
    )
    notebook = lab.open_notebook(
        [
            (
                f"{LOAD}\nfrom onetool_ipy import tool\nfrom onetool_ipy.sdk import"
                f" requires_cli\n{needy}"
            )
        ],
        name="first",
    )
    page = notebook.page
    panel = notebook.show_panel()
    notebook.run_cell(0)
    expect(panel.locator(".otx-tool").first).to_be_visible()
    second = notebook.path.with_name("second.ipynb")
    second.write_text(notebook.path.read_text(encoding="utf-8"), encoding="utf-8")
    notebook.command("docmanager:open", path=second.relative_to(lab.root).as_posix())
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path.endsWith('second.ipynb')"
    )
    load(notebook)
    health = health_of(panel)
    tabs = page.locator("#jp-main-dock-panel .lm-TabBar-tab")
    tabs.filter(has_text="first.ipynb").click()
    health.get_by_role("button", name="Check now").click()
    expect(health).to_contain_text("no-such-program")

    tabs.filter(has_text="second.ipynb").click()

    expect(health).to_contain_text("No problems found")
    expect(health).not_to_contain_text("no-such-program")
    tabs.filter(has_text="first.ipynb").click()
    expect(health).to_contain_text("no-such-program")
    notebook.command("docmanager:save-all")
    notebook.command("application:close-all")
    expect(health).to_have_text("Open a notebook to see the health of its tools.")
    assert notebook.page_errors == []


def _health(panel: Locator) -> list[Any]:
    """Problems with what to do about each; gives what axe finds."""
    page = panel.page
    expect(health_of(panel)).to_contain_text("There is no command '/nowhere/<img src=x")
    expect(panel).to_contain_text("There is no tool 'nowhere.tool'.")
    expect(panel.get_by_role("button", name="Restart: onetool.yaml:1")).to_have_text("Restart")
    problem = panel.locator(".otx-problem", has_text="nowhere.tool")
    problem.locator(".otx-expand").click()
    expect(problem).to_contain_text("alias 'lost'")
    expect(panel.locator(".otx-states")).to_contain_text("1 server: 1 failed")
    expect(page.locator(".onetool-Status")).to_contain_text("1 server down")
    return serious(page)


def _badly_placed(panel: Locator) -> list[Any]:
    """Gives what is cut or overlaps on each page of the panel."""
    found: list[Any] = []
    expect(usage_of(panel)).to_contain_text("No calls yet")
    found += [("Usage", each) for each in panel.page.evaluate(_BADLY_PLACED)]
    panel.page.get_by_role("tab", name="notebook.ipynb").click()
    expect(health_of(panel)).to_contain_text("problems")
    found += [("Health", each) for each in panel.page.evaluate(_BADLY_PLACED)]
    panel.locator(".onetool-Panel-problems").click()
    for place, words in {"Sources": "broken", "History": "No calls", "Tools": "nb.evil"}.items():
        tab(panel, place)
        expect(panel).to_contain_text(words)
        found += [(place, each) for each in panel.page.evaluate(_BADLY_PLACED)]
    return found


def _hostile_words(panel: Locator) -> list[Any]:
    """Hostile words on the pages and in the forms; gives what axe finds."""
    page = panel.page
    found: list[Any] = []
    panel.get_by_label("Search tools").fill("evil")
    expect(panel.locator(".otx-tool-summary").first).to_contain_text("<img src=x")
    found += serious(page)
    panel.locator(".otx-tool").first.click()
    expect(page.locator(".onetool-ToolTab .otx-tool-docs")).to_contain_text("<script>")
    found += serious(page)
    tab(panel, "Sources")
    panel.get_by_role("button", name="New HTTP tool").click()
    form = page.locator(".onetool-HttpTool")
    form.get_by_label("URL", exact=True).fill(EVIL)
    form.get_by_label("Bundle", exact=True).fill(EVIL)
    form.get_by_label("Tool", exact=True).fill(EVIL)
    form.get_by_role("button", name="Save", exact=True).click()
    expect(form.locator(".otx-error:visible").first).to_contain_text("ust start with http")
    found += serious(page)
    toggle = panel.locator(".onetool-Bundle .otx-expand[aria-expanded=false]").first
    toggle.click()
    expect(panel.locator(".onetool-Tool").last).to_be_visible()
    found += serious(page)
    return found


def test_panel_works_under_a_base_url_with_a_token(
    lab: Lab, installed_wheel: Installed, tmp_path: Path
) -> None:
    """As behind a JupyterHub, in a server that is older than the kernel.

    The settings are a user's own: open at start, no status-bar item, no tools in the palette; then
    they are changed.
    """
    place = tmp_path / "hub"
    settings = place / "home" / "lab" / "settings" / "onetool-ipy"
    settings.mkdir(parents=True)
    wanted = {"openAtStart": True, "statusBar": False, "palette": False}
    (settings / "panel.jupyterlab-settings").write_text(json.dumps(wanted), encoding="utf-8")
    older = tmp_path / "older.py"
    older.write_text("import onetool_ipy._version as v; v.__version__ = '0.0.1'", encoding="utf-8")
    flags = ["--ServerApp.base_url=/user/ann/", f"--config={older}"]
    hub = Lab(installed_wheel, place, flags=flags, browser=lab.browser)
    try:
        notebook = hub.open_notebook([LOAD])
        asked: list[str] = []
        notebook.listen("request", lambda request: asked.append(request.url))
        panel = notebook.page.locator("#onetool-ipy-panel")
        expect(panel).to_be_visible()
        notebook.run_cell(0)
        expect(panel.locator(".otx-tool").first).to_be_visible()
        expect(notebook.page.locator(".onetool-Status")).to_be_hidden()
        expect(panel).to_contain_text(
            f"The kernel has onetool_ipy {onetool_ipy.__version__}, the server has 0.0.1. "
            "Restart the one that was updated."
        )
        look_in_palette(notebook.page, "Tools panel")
        expect(
            notebook.page.locator(".lm-CommandPalette-itemLabel", has_text="Tools panel")
        ).to_be_visible()
        look_in_palette(notebook.page, "time.now")
        expect(
            notebook.page.locator(".lm-CommandPalette-itemLabel", has_text="+time.now")
        ).to_have_count(0)
        notebook.page.keyboard.press("Escape")
        tab(panel, "Sources")
        panel.get_by_role("switch", name="Pack time").click()
        expect(panel.get_by_role("switch", name="Pack time")).not_to_be_checked()
        notebook.command("settingeditor:open", query="onetool_ipy")
        expect(
            notebook.page.locator('.jp-PluginList-entry [data-icon="onetool-ipy:tools"]')
        ).to_be_visible()
        for title in ("Status bar item", "Tools in the command palette"):
            notebook.page.get_by_label(title).check()
        expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
        notebook.page.wait_for_function(_OFFERED, arg=["time.now", "+time.now"], timeout=60_000)
        own = urlsplit(hub.address)
        assert own.path == "/user/ann/"
        for url in (url for url in asked if not url.startswith(("data:", "blob:"))):
            assert urlsplit(url).netloc == own.netloc
            assert urlsplit(url).path.startswith(own.path)
        assert notebook.page_errors == []
    finally:
        hub.close()


def look_in_palette(page: Page, text: str) -> None:
    """Open the command palette, and type."""
    if not page.locator(".lm-CommandPalette-input").is_visible():
        page.evaluate(
            "() => window.jupyterapp.commands.execute('apputils:activate-command-palette')"
        )
    page.locator(".lm-CommandPalette-input").fill(text)


def serious(page: Page) -> list[Any]:
    """What axe-core finds serious or critical in the panel."""
    if not page.evaluate("() => 'axe' in window"):
        page.add_script_tag(path=AXE)
    found: list[Any] = page.evaluate(_AXE_RUN)
    return found


# JupyterLab closes the palette whenever a command runs or the focus moves, as after a save of
# settings.
_OFFERED = """async ([text, label]) => {
  const input = document.querySelector('.lm-CommandPalette-input');
  if (!input?.checkVisibility()) {
    await window.jupyterapp.commands.execute('apputils:activate-command-palette');
  } else if (input.value !== text) {
    input.value = text;
    input.dispatchEvent(new Event('input', { bubbles: true }));
  }
  return [...document.querySelectorAll('.lm-CommandPalette-itemLabel')]
    .some(each => each.checkVisibility() && each.textContent.includes(label));
}"""

_AXE_RUN = """async () => {
  const found = await window.axe.run('#onetool-ipy-panel', { resultTypes: ['violations'] });
  return found.violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => [each.id, each.nodes.map(node => node.html.slice(0, 200))]);
}"""

_BADLY_PLACED = """() => {
  const panel = document.getElementById('onetool-ipy-panel');
  const { left, right } = panel.getBoundingClientRect();
  const found = [];
  const tabs = [...panel.querySelectorAll('.onetool-Panel-tabs > [role=tab]')];
  if (new Set(tabs.map(each => each.offsetTop)).size > 1) found.push('the tabs are in two rows');
  const shown = [...panel.querySelectorAll('button, select, input, textarea, .otx-chip')]
    .filter(each => each.checkVisibility() && each.offsetWidth);
  const pen = document.createElement('canvas').getContext('2d');
  const label = each => `${each.tagName} ${each.getAttribute('aria-label') ?? each.textContent.slice(0, 30)}`;
  // What is scrolled out of a view, or partly, is not over what stands beside the view.
  const seen = each => {
    const { left, right, top, bottom } = each.getBoundingClientRect();
    const view = each.closest('.onetool-Panel-view, .onetool-Panel-health')?.getBoundingClientRect();
    return { left, right, top: Math.max(top, view?.top ?? top), bottom: Math.min(bottom, view?.bottom ?? bottom) };
  };
  const boxes = shown.map(each => [each, seen(each)]).filter(([, box]) => box.top < box.bottom);
  for (const [each, box] of boxes) {
    const style = getComputedStyle(each);
    if (box.left < left - 1 || box.right > right + 1) found.push(`${label(each)} is outside`);
    pen.font = `${style.fontSize} ${style.fontFamily}`;
    const isCut = each.tagName === 'SELECT'
      ? pen.measureText(each.selectedOptions[0].text).width > each.clientWidth - 16
      : each.tagName === 'BUTTON' && each.scrollWidth > each.clientWidth + 1 && style.webkitLineClamp === 'none';
    if (isCut) found.push(`${label(each)} is cut`);
  }
  const common = (a, b, from, to) => Math.min(a[to], b[to]) - Math.max(a[from], b[from]);
  const over = (a, b) => common(a, b, 'left', 'right') > 1 && common(a, b, 'top', 'bottom') > 1;
  boxes.forEach(([a, boxA], at) => boxes.slice(at + 1).forEach(([b, boxB]) => {
    if (!a.contains(b) && over(boxA, boxB)) found.push(`${label(a)} is over ${label(b)}`);
  }));
  return found;
}"""
"""Controls that are cut, outside the panel or over each other, and tabs in two rows."""


_TOP = "box => Math.round(box.getBoundingClientRect().top)"
_EMPTY_BELOW = """table => {
  const rows = [...table.querySelectorAll('.otx-table-row')];
  return Math.round(table.getBoundingClientRect().bottom - rows.at(-1).getBoundingClientRect().bottom);
}"""
_GAP = """line => {
  const words = document.createRange();
  words.selectNodeContents(line);
  return line.nextElementSibling.getBoundingClientRect().top - words.getBoundingClientRect().bottom;
}"""
_UNUSED = """result => {
  const table = result.querySelector('.otx-virtual-list');
  return Math.round(result.getBoundingClientRect().bottom - table.getBoundingClientRect().bottom);
}"""


def test_nothing_jumps_is_glued_together_or_left_empty(lab: Lab) -> None:
    """The views of the panel, a short table, a second viewer, a project without bundles, a tool
    without arguments."""
    rows = (
        "def rows(n: int = 5000) -> list[dict]:\n    'Rows.'\n    return [{'id': i, 'price': i / 4}"
        " for i in range(n)]"
    )
    first = f"%load_ext onetool_ipy\nfrom onetool_ipy import tool\n@tool\n{rows}"
    notebook = lab.open_notebook(
        [first, "%tool nb.rows", "%tool nb.rows n=4000", "ot.view(rows(3))"]
    )
    page = notebook.page
    for index in range(4):
        notebook.run_cell(index)
    panel = notebook.show_panel()

    tops = set()
    for view in ("Sources", "History", "Results", "Calls", "Tools"):
        panel.get_by_role("tab", name=view, exact=True).click()
        expect(panel.get_by_role("tab", name=view, exact=True)).to_have_attribute(
            "aria-selected", "true"
        )
        tops.add(panel.get_by_role("tab", name="Tools", exact=True).evaluate(_TOP))
    assert len(tops) == 1
    short = notebook.output(3).locator(".otx-virtual-list")
    expect(short.locator(".otx-table-row")).to_have_count(3)
    assert short.evaluate(_EMPTY_BELOW) <= 2
    for index in (1, 2):
        page.get_by_role("tab", name="notebook.ipynb").click()
        notebook.output(index).get_by_role("button", name="Open in viewer").click()
        result = page.locator(".onetool-Result:visible")
        expect(result).to_contain_text(f"{6000 - 1000 * index:,} rows")
        expect(result.locator(".otx-table-row").first).to_be_visible()
        assert result.evaluate(_UNUSED) <= 30
    tab(panel, "Sources")
    own = panel.get_by_role("list", name="Sources")
    expect(own).to_contain_text("nb")
    assert own.evaluate(_GAP) >= 8
    notebook.command("onetool:new-http")
    words = page.locator(".onetool-HttpTool").get_by_text(
        "None yet. Write {name} in the URL, a value or the body."
    )
    expect(words).to_be_visible()
    boxes = (
        "line => [...line.parentElement.children].filter(box => box !== line && box.offsetHeight >"
        " 2).length"
    )
    assert words.evaluate(boxes) <= 1, "only the heading"
