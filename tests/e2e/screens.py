"""A notebook with tools of every kind to look at, and what one does with a screen: only what a
person can do.

Not a test. Everything goes through the page: clicks, keys, and what is to be read there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.conftest import FAILED
from tests.harness.lab import Lab, Notebook
from tests.harness.surroundings import ROOT

__all__ = ["AXE", "SETUP", "Screens", "choose", "field", "find", "press_run", "serious", "tools"]

AXE = ROOT / "tests" / "node" / "node_modules" / "axe-core" / "axe.min.js"
WIDTH = "image => image.decode().then(() => image.naturalWidth)"
"""The width of an image in its own pixels, once it is there."""

LOAD = "%load_ext onetool_ipy"
SETUP = '''
import base64, struct, threading, zlib
from typing import Literal, TypedDict
from onetool_ipy import tool
from onetool_ipy.sdk import progress

class Circle(TypedDict):
    kind: Literal["circle"]
    radius: float

class Box(TypedDict):
    kind: Literal["box"]
    width: int
    height: int

class Drawing(TypedDict, total=False):
    title: str
    shape: Circle | Box
    labels: list[str]

go_on = threading.Event()

@tool(tags=["geo"])
def locate(address: str, country: Literal["AT", "DE", "CH"] = "AT", limit: int = 5) -> list[dict]:
    """Find the places of an address.

    Args:
        address: Street and town.
        country: Where to look.
        limit: At most so many.
    """
    return [{"id": i, "address": address, "country": country, "at": {"lat": 48.2 + i / 10}} for i in range(limit)]

@tool(tags=["draw"])
def draw(drawing: Drawing, copies: int = 1) -> dict:
    "Draw a shape."
    return {"copies": copies, "drawing": drawing}

@tool
def slow(n: int, name: str = "") -> str:
    "Count until it is told to go on."
    for i in range(n):
        progress(i + 1, n, f"counting {name}")
        if go_on.wait(0.05 if i < n - 1 else 60):
            return f"told after {i + 1} {name}"
    return "never told"

@tool
def quick(text: str) -> str:
    "Say it."
    return f"said {text}"

@tool
def lines(n: int) -> str:
    "Many lines."
    return "\\n".join(f"line {i} of the text" for i in range(1, n + 1))

@tool
def table(n: int) -> list[dict]:
    "Many rows."
    return [{"id": i, "turned": (i * 7919) % n, "name": f"name {i}"} for i in range(n)]

@tool
def size(rows: list) -> int:
    "Count rows."
    return len(rows)

@tool
def dot() -> bytes:
    "A picture of one red dot."
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = part(b"IHDR", head) + part(b"IDAT", zlib.compress(b"\\0\\xff\\0\\0")) + part(b"IEND", b"")
    return b"\\x89PNG\\r\\n\\x1a\\n" + body
'''

_AXE_RUN = """async selector => {
  const found = await window.axe.run(selector, { resultTypes: ['violations'] });
  return found.violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => ({ rule: each.id, where: each.nodes.map(node => node.html.slice(0, 200)) }));
}"""


class Screens:
    """One notebook with SETUP run in it, and the screens that are opened there."""

    def __init__(
        self,
        lab: Lab,
        *,
        setup: str = SETUP,
        load: str = LOAD,
        viewport: tuple[int, int] = (1280, 1000),
    ) -> None:
        self.notebook: Notebook = lab.open_notebook(
            [load, setup], name="screens", viewport=viewport, is_page_new=True
        )
        self.page = self.notebook.page
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for cell in range(2):
            outputs = self.notebook.run_cell(cell)
            assert not [each for each in outputs if each["output_type"] == "error"], outputs

    def open(self, code: str = "ot.browser()") -> Locator:
        """Run a cell that shows a screen; gives the screen."""
        before = self.page.locator(".jp-Cell .otx").count()
        self.notebook.execute(code)
        found = self.page.locator(".jp-Cell .otx").nth(before)
        expect(found).to_be_visible()
        return found

    def value(self, expression: str) -> str:
        """What an expression is in the notebook's kernel, as `repr` has it."""
        outputs = self.notebook.execute(f"print(repr(({expression})))")
        assert outputs[0]["output_type"] == "stream", outputs
        return str(outputs[0]["text"]).strip()

    def clipboard(self) -> str:
        return str(self.page.evaluate("() => navigator.clipboard.readText()"))

    def theme(self, name: str) -> None:
        """Switch JupyterLab's theme, as its menu does, and wait until it is there."""
        self.notebook.command("apputils:change-theme", theme=name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)

    def cells(self) -> list[str]:
        """The sources of all cells, to see whether anything touched them."""
        found: list[str] = self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(cell"
            " => cell.getSource())"
        )
        return found

    def picture(self, request: pytest.FixtureRequest) -> None:
        """Keep a picture of the page if the test that ends has failed."""
        if request.node.stash.get(FAILED, False):
            self.page.screenshot(path=ROOT / "build" / "failures" / f"{request.node.name}.png")

    def save(self) -> dict[str, Any]:
        """Save the notebook; gives what is in the file."""
        self.notebook.command("docmanager:save")
        saved: dict[str, Any] = json.loads(Path(self.notebook.path).read_text(encoding="utf-8"))
        return saved


def tools(screen: Locator) -> Locator:
    """The tools that are listed."""
    return screen.get_by_role("listbox", name="Tools").get_by_role("option")


def find(screen: Locator, text: str) -> Locator:
    """Type into the search; gives the first tool that is found."""
    screen.get_by_role("combobox", name="Search tools").fill(text)
    return tools(screen).first


def choose(screen: Locator, name: str) -> None:
    """Find a tool by its name and open it."""
    first = find(screen, name)
    expect(first).to_contain_text(name)
    first.click()
    expect(screen.get_by_role("heading", name=name, exact=True)).to_be_visible()


def field(screen: Locator, name: str) -> Locator:
    """The input, choice or box of a form's field, by the name that stands above it."""
    own = screen.page.locator(".otx-name", has_text=re.compile(f"^{name}$"))
    return (
        screen.locator(".otx-field").filter(has=own).last.locator("input, select, textarea").first
    )


def press_run(screen: Locator) -> None:
    screen.get_by_role("button", name="Run", exact=True).click()


def serious(screens: Screens, selector: str) -> list[dict[str, Any]]:
    """What axe-core finds serious or critical."""
    if not screens.page.evaluate("() => 'axe' in window"):
        screens.page.add_script_tag(path=AXE)
    found: list[dict[str, Any]] = screens.page.evaluate(_AXE_RUN, selector)
    return found
