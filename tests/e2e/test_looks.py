"""Every screen at two sizes, light and dark: axe finds nothing serious, nothing sticks out, all is
reached by Tab."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import AXE, SETUP
from tests.e2e.test_panel import LOAD, health_of, tab, usage_of
from tests.faces.widgets.test_server_requests import SERVER
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Stub

pytestmark = pytest.mark.browser

LOOKS = (((1400, 900), "JupyterLab Light"), ((933, 600), "JupyterLab Dark"))
AXE_RUN = """async screen => {
  const { violations } = await window.axe.run(screen, { resultTypes: ['violations'] });
  return violations.filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => `${each.id} ${each.nodes.map(node => node.html.slice(0, 120)).join(' ')}`);
}"""
# What is in a part that scrolls may be outside of it; the screen itself may not be wider than its
# place.
STICKS_OUT = """screen => [screen, ...screen.querySelectorAll('*')].filter(each => {
  if (!each.checkVisibility() || !each.getClientRects().length || each.closest('svg')) return false;
  for (let box = each.parentElement; box && box !== screen.parentElement; box = box.parentElement) {
    if (getComputedStyle(box).overflowX !== 'visible') return false;
  }
  return each.getBoundingClientRect().right > screen.getBoundingClientRect().right + 1;
}).map(each => `${each.tagName}.${each.className}`)"""
# Controls that the Tab key has to reach: one radio button stands for its group, and a tab for its
# list.
TABBABLE = """screen => [
  ...screen.querySelectorAll('button, input, select, textarea, summary, a[href], [tabindex]')
].filter(each => each.tabIndex >= 0 && !each.disabled && each.checkVisibility({ visibilityProperty: true })
  && each.getClientRects().length).map(each => (each.dataset.walked = 'no')).length"""
FOCUSED = """screen => {
  const { activeElement } = document;
  if (!screen.contains(activeElement)) return 'outside';
  activeElement.dataset.walked = 'yes';
  const { outlineStyle, boxShadow, borderColor } = getComputedStyle(activeElement);
  const isMarked = outlineStyle !== 'none' || boxShadow !== 'none';
  return isMarked ? 'marked' : `unmarked ${activeElement.outerHTML.slice(0, 120)} ${borderColor}`;
}"""
LEFT_OUT = """screen => [...screen.querySelectorAll('[data-walked=no]')].filter(each => each.checkVisibility())
  .map(each => each.outerHTML.slice(0, 120))"""


@pytest.fixture
def api() -> Iterator[Stub]:
    rows = [{"id": n, "name": f"item {n}", "price": n * 1.25} for n in range(30)]
    with Stub(lambda asked: (200, {"path": asked.path, "items": rows})) as stub:
        yield stub


@pytest.fixture
def notebook(lab: Lab, api: Stub) -> Notebook:
    notebook = lab.open_notebook([LOAD + "\n" + SETUP], viewport=(1400, 900))
    onetool = notebook.path.parent / ".onetool"
    onetool.mkdir()
    config: dict[str, Any] = {"version": 1, "aliases": {"lost": "nowhere.tool"}}
    config |= {
        "servers": {"maps": {"command": "maps-server"}},
        "http": {"allowed_hosts": [f"127.0.0.1:{api.port}"]},
    }
    (onetool / "onetool.yaml").write_text(json.dumps(config), encoding="utf-8")
    (notebook.path.parent / "adder.py").write_text(SERVER, encoding="utf-8")
    notebook.run_cell(0)
    lines = [
        "%tool trust",
        f"%tool new http shop.orders --url {api.url('/live/orders')}",
        f"%tool bundle set shop --base-url {api.url('/live')}",
        f"%tool bundle env shop staging --base-url {api.url('/test')} --set region=eu",
        "%tool new http shop.stock-of-a-warehouse --url '/${region}/stock/{id}'",
        f"%tool server add adder {sys.executable} adder.py",
        "adder.add(a=2, b=3)",
        "m = ot.map('fs.read_file', ['a.txt', 'b.txt'])",
    ]
    for line in lines:
        outputs = notebook.execute(line)
        assert not [each for each in outputs if each["output_type"] == "error"], outputs
    return notebook


def look(notebook: Notebook, screen: Locator) -> list[str]:
    """What is wrong with a screen in either look, beginning with the colours it has: to change them
    takes a second."""
    page = notebook.page
    if not page.evaluate("() => 'axe' in window"):
        page.add_script_tag(path=AXE)
    faults: list[str] = []
    present = page.evaluate("() => document.body.dataset.jpThemeName")
    for (width, height), theme in sorted(LOOKS, key=lambda each: each[1] != present):
        page.set_viewport_size({"width": width, "height": height})
        notebook.command("apputils:change-theme", theme=theme)
        page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=theme)
        page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        expect(screen).to_be_visible()
        handle = screen.element_handle()
        faults += [f"{theme}: {fault}" for fault in page.evaluate(AXE_RUN, handle)]
        faults += [f"{width} px: {fault} sticks out" for fault in page.evaluate(STICKS_OUT, handle)]
    page.set_viewport_size({"width": 1400, "height": 900})
    return faults


def walk(screen: Locator) -> list[str]:
    """What the Tab key does not reach, or does not mark when it has the focus."""
    count = screen.evaluate(TABBABLE)
    screen.locator("[data-walked]").first.focus()
    # What a script focuses after a click is not marked; what a key focuses is.
    screen.page.keyboard.press("Tab")
    screen.page.keyboard.press("Shift+Tab")
    faults: set[str] = set()
    for _ in range(count + 5):
        state = screen.evaluate(FOCUSED)
        if state == "outside":
            break
        faults |= {state} - {"marked"}
        screen.page.keyboard.press("Tab")
    return [*sorted(faults), *screen.evaluate(LEFT_OUT)]


def test_the_panel_in_its_three_tabs(notebook: Notebook) -> None:
    panel = notebook.show_panel()
    expect(panel.locator(".otx-tool").first).to_be_visible()
    faults: dict[str, list[str]] = {"tools": look(notebook, panel)}
    tab(panel, "History")
    expect(panel.locator(".otx-run-line").first).to_be_visible()
    faults["history"] = look(notebook, panel)
    tab(panel, "Sources")
    panel.locator(".onetool-Bundle[data-slug=shop] .otx-expand").click()
    panel.get_by_role("button", name="Run all tools of shop").click()
    expect(panel.locator(".onetool-Bundle-report").first).to_contain_text("ok")
    expect(panel.get_by_role("button", name="Open adder")).to_be_visible()
    panel.get_by_label("Add", exact=True).fill("https://api.example.com/orders")
    expect(panel.get_by_role("button", name="Make an HTTP tool")).to_be_visible()
    faults["sources"] = [*look(notebook, panel), *walk(panel.locator(".onetool-Sources"))]
    expect(health_of(panel).get_by_role("button", name="Check now")).to_be_visible()
    faults["health"] = [*look(notebook, panel), *walk(panel.locator(".onetool-Panel-foot"))]
    usage = usage_of(panel)
    expect(usage.get_by_role("button", name="Refresh")).to_be_visible()
    faults["usage"] = look(notebook, usage)
    assert {view: each for view, each in faults.items() if each} == {}
    assert notebook.page_errors == []


def test_a_narrow_browser_of_an_empty_project_says_how_to_begin(lab: Lab) -> None:
    """The beginnings stand above the tools while none is open, and not beside the history."""
    notebook = lab.open_notebook([LOAD, "ot.browser()"], viewport=(933, 600))
    notebook.run_cell(0)
    notebook.run_cell(1)
    browser = notebook.output(1).locator(".otx-browser")
    beginnings = browser.locator(".otx-begin")
    tool = browser.locator(".otx-tool").first
    for line in ("@tool", "%%tool new http", "%tool server add"):
        expect(beginnings.get_by_role("listitem").filter(has_text=line)).to_be_visible()
    expect(tool).to_be_visible()

    assert look(notebook, browser) == []
    notebook.page.set_viewport_size({"width": 933, "height": 600})
    browser.get_by_role("tab", name="History").click()
    expect(beginnings).to_be_hidden()
    browser.get_by_role("tab", name="Tools").click()
    expect(beginnings).to_be_visible()
    tool.click()
    expect(beginnings).to_be_hidden()
    browser.get_by_role("button", name="All tools").click()
    expect(beginnings).to_be_visible()
    expect(tool).to_be_visible()
    assert notebook.page_errors == []


def test_the_tabs_of_the_main_area(notebook: Notebook) -> None:
    panel, page = notebook.show_panel(), notebook.page
    tab(panel, "Sources")
    panel.locator(".onetool-Bundle[data-slug=shop] .otx-expand").click()
    panel.get_by_role("button", name="Edit stock-of-a-warehouse 1").click()
    editor = page.locator(".onetool-HttpTool")
    editor.get_by_label("Value of id to try").fill("3")
    editor.get_by_role("button", name="Send", exact=True).click()
    expect(editor.locator(".otx-editor-status.otx-ok")).to_contain_text("200")
    editor.get_by_label("Keep (JMESPath)").fill("items")
    expect(editor.locator(".otx-table-row").first).to_be_visible()
    faults = {"editor": [*look(notebook, editor), *walk(editor)]}
    notebook.command("application:close")
    panel.get_by_role("button", name="Import tools").click()
    form = page.locator(".onetool-Import")
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://a.test"}],
    }
    document["paths"] = {
        f"/orders/{n}": {"get": {"operationId": f"order{n}", "responses": {}}} for n in range(12)
    }
    file = Path(notebook.path.parent) / "shop.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    faults["import"] = look(notebook, form)
    form.get_by_label("Choose a file").set_input_files(file)
    expect(form.get_by_label("Filter operations")).to_be_visible()
    faults["operations"] = [*look(notebook, form), *walk(form)]
    notebook.command("application:close")
    tab(panel, "Sources")
    panel.get_by_role("button", name="Open adder").click()
    server = page.locator(".otx-server-page")
    expect(server).to_contain_text("Add two numbers.")
    faults["server"] = [*look(notebook, server), *walk(server)]
    assert {view: each for view, each in faults.items() if each} == {}
    assert notebook.page_errors == []


def ends_of(box: Locator) -> tuple[float, float]:
    """Where it begins and ends, from the top of the window."""
    ends = "box => (({ top, bottom }) => [top, bottom])(box.getBoundingClientRect())"
    top, bottom = box.evaluate(ends)
    return top, bottom


def test_a_low_narrow_window_cuts_nothing_and_keeps_its_lines(notebook: Notebook) -> None:
    """Bars begin at one edge, a foot is whole, and a filter moves no button to another line."""
    page, panel = notebook.page, notebook.show_panel()
    page.set_viewport_size({"width": 933, "height": 600})
    bars = usage_of(panel).locator(".otx-range")
    expect(bars.nth(1)).to_be_visible()
    edges = bars.evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().left)")
    assert len(set(edges)) == 1
    notebook.command("application:close")

    paths = {f"/{n}": {"get": {"operationId": f"op{n}", "responses": {}}} for n in range(20)}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": paths,
        "servers": [{"url": "https://a.test"}],
    }
    file = Path(notebook.path.parent) / "shop.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    tab(panel, "Sources")
    panel.get_by_role("button", name="Import tools").click()
    form = page.locator(".onetool-Import")
    form.get_by_label("Choose a file").set_input_files(file)
    expect(form.get_by_label("Filter operations")).to_be_visible()
    _, bottom = ends_of(form.get_by_role("button", name="Close"))
    assert bottom + 4 <= ends_of(form)[1]
    notebook.command("application:close")

    notebook.execute("import pandas as pd\not.view(pd.DataFrame({'n': range(200)}))")
    viewer = page.locator(".jp-Cell").last.locator(".otx-viewer")
    expect(viewer).to_contain_text("200 rows")
    before = ends_of(viewer.locator(".otx-table-bar"))
    viewer.get_by_label("Filter rows").fill("19")
    expect(viewer.get_by_role("status").filter(has_text="of 200 rows")).to_be_visible()
    after = ends_of(viewer.locator(".otx-table-bar"))
    assert after[1] - after[0] == before[1] - before[0]
    assert notebook.page_errors == []
