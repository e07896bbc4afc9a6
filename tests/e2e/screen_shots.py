"""Pictures of the screens for `make shots`: a newcomer's path, and each screen in both themes and three widths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.e2e.screens import Screens, choose, field, find, press_run
from tests.harness.lab import Lab
from tests.harness.surroundings import ROOT

__all__ = ["take"]

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WIDTHS = {"1600": 1680, "1000": 1080, "360": 480}


def take(lab: Lab, folder: Path) -> list[Path]:
    """Take all pictures into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [*_newcomer(lab, folder), *_screens(lab, folder)]
    lab.close_notebooks()
    return pictures


def _newcomer(lab: Lab, folder: Path) -> Iterator[Path]:
    """Open the quickstart, run it, find a tool by a typo, run it, copy the call."""
    quickstart = json.loads((ROOT / "notebooks" / "quickstart.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in quickstart["cells"] if cell["cell_type"] == "code"]
    notebook = lab.open_notebook(cells, name="quickstart", viewport=(1280, 900))
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    notebook.command("apputils:change-theme", theme=THEMES["light"])
    for index in range(len(cells)):
        notebook.run_cell(index)
    browser = notebook.page.locator(".jp-Cell .otx-browser")
    browser.scroll_into_view_if_needed()
    notebook.page.screenshot(path=folder / "newcomer-1-opened.png")
    yield folder / "newcomer-1-opened.png"
    find(browser, "wrod")
    yield _shot(browser, folder / "newcomer-2-found.png")
    browser.get_by_role("combobox", name="Search tools").press("Enter")
    field(browser, "text").fill("the cat and the dog")
    field(browser, "text").press("Control+Enter")
    expect(browser.locator(".otx-viewer")).to_contain_text("rows")
    yield _shot(browser, folder / "newcomer-3-ran.png")
    browser.get_by_role("tab", name="Code").click()
    browser.get_by_role("button", name="Copy as %tool").click()
    yield _shot(browser, folder / "newcomer-4-copied.png")


def _screens(lab: Lab, folder: Path) -> Iterator[Path]:
    screens = Screens(lab, viewport=(1680, 1000))
    screens.notebook.command("application:toggle-left-area")
    browser = screens.open()
    choose(browser, "nb.locate")
    field(browser, "address").fill("Ring 1, Wien")
    press_run(browser)
    expect(browser.locator(".otx-viewer")).to_contain_text("Ring 1, Wien")
    text = screens.open("many = %tool nb.lines n=1000000\nmany.view()")
    text.get_by_label("Find in the result").fill("99999[05] of")
    expect(text.locator(".otx-count")).to_contain_text("1 of 2")
    table = screens.open("rows = %tool nb.table n=100000\nrows.view()")
    table.get_by_role("button", name="turned").click()
    expect(table.get_by_role("columnheader", name="turned")).to_have_attribute("aria-sort", "ascending")
    tree = screens.open("nested = %tool nb.draw drawing={'title': 'deep', 'labels': ['a', 'b']}\nnested.view()")
    tree.get_by_role("button", name="drawing: {").click()
    failed = screens.open("bad = %tool fs.read_file path=nowhere.txt --soft\nbad.view()")
    usage = screens.open("ot.usage('day')")
    expect(usage.locator("svg").first).to_be_visible()
    others = {"text": text, "table": table, "tree": tree, "failed": failed, "usage": usage}
    for theme, name in THEMES.items():
        screens.theme(name)
        screens.page.set_viewport_size({"width": 1280, "height": 1000})
        for kind, screen in others.items():
            yield _shot(screen, folder / f"{kind}-{theme}.png")
        for width, pixels in WIDTHS.items():
            screens.page.set_viewport_size({"width": pixels, "height": 1000})
            yield _shot(browser, folder / f"browser-{theme}-{width}.png")


def _shot(screen: Locator, path: Path) -> Path:
    screen.screenshot(path=path)
    return path
