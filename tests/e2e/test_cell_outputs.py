"""Outputs of cells in a real JupyterLab: prices stay prices, and tables can be read by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.screens import Screens, serious
from tests.harness.lab import Lab

pytestmark = pytest.mark.browser

SETUP = """
from onetool_ipy import tool
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.core import current
import pandas as pd

@tool
def price(kind: str = "rows") -> object:
    "Tell prices."
    note = "was $5, now $4"
    found = {"rows": [{"note": note}] * 2, "tree": {"a": {"b": [note] * 9}}, "text": note,
             "frame": pd.DataFrame({"note": [note]}), "many": [{"n": n, "note": note} for n in range(90)]}
    return found[kind]
"""


@pytest.fixture(scope="module")
def _screens(shared_lab: Lab) -> Iterator[Screens]:
    opened = Screens(shared_lab, setup=SETUP)
    yield opened
    opened.notebook.close()


@pytest.fixture
def screens(_screens: Screens, request: pytest.FixtureRequest) -> Iterator[Screens]:
    yield _screens
    _screens.picture(request)


def test_dollar_signs_in_data_are_never_typeset(screens: Screens) -> None:
    """Neither in tables, trees, frames, the history and a model's answer, nor in what is saved of a
    viewer."""
    kinds = ("rows", "tree", "text", "frame", "many")
    codes = [f"%tool nb.price kind={kind}" for kind in kinds]
    codes += ["x = %tool tools.echo message='was $5, now $4'\not.history(limit=1)"]
    said = "It costs $5, was $7. `$a and $b`"
    codes += [f"current.toolbox().ask('q', model=ScriptedModel([{said!r}]))"]
    first = len(screens.cells())
    for code in codes:
        screens.notebook.execute(code)
    screens.notebook.execute(
        "from IPython.display import HTML, display\ndisplay(HTML('<p>is $5, was $4</p>'),"
        " HTML('<p>x $5, was $4</p>'))"
    )
    control = screens.notebook.output(first + len(codes))
    expect(control.locator("mjx-container")).to_have_count(2)  # MathJax is at work on this page

    shown = [screens.notebook.output(first + n) for n in range(len(codes))]
    for output in shown[:-2]:
        expect(output).to_contain_text("was $5, now $4")
    expect(shown[-2]).to_contain_text("was $5, now $4")
    expect(shown[-1]).to_contain_text("It costs $5, was $7. $a and $b")
    for output in shown:
        expect(output.locator("mjx-container")).to_have_count(0)

    screens.open("ot.view([{'note': 'was $5, now $4'}] * 3)")
    saved = json.dumps(screens.save())
    picture = saved[saved.index("otx-picture ") :][:200]
    assert "mathjax_ignore tex2jax_ignore" in picture


def test_a_long_table_in_a_cell_scrolls_by_keyboard(screens: Screens) -> None:
    cell = len(screens.cells())
    screens.notebook.execute(
        "ot.history(limit=500); current.toolbox().call('nb.price', {'kind': 'many'}).df"
    )
    screens.notebook.execute(
        "from onetool_ipy.render.views import Listing\nListing({'n': n} for n in range(400))"
    )
    box = screens.notebook.output(cell + 1).locator("div[tabindex]")
    box.focus()
    screens.page.keyboard.press("End")
    screens.page.wait_for_function("box => box.scrollTop > 100", arg=box.element_handle())
    assert serious(screens, ".jp-Notebook .jp-OutputArea") == []


_LEFT_EDGES = """output => {
  const base = output.querySelector('.jp-OutputArea-output').getBoundingClientRect().left;
  const parts = output.querySelectorAll('table, .otx-open, .otx-cut > div:first-child, pre, .otx-answer > div, .jp-RenderedMarkdown');
  return [...parts].map(part => {
    const left = part.getBoundingClientRect().left + parseFloat(getComputedStyle(part).paddingLeft);
    return Math.round(part.matches('.otx-open') ? part.getBoundingClientRect().left - base : left - base);
  });
}"""


def test_what_a_cell_shows_has_one_left_edge_and_the_size_of_print(screens: Screens) -> None:
    """A table of pandas, the line and the button below it, text of a tool, what `print` writes,
    and the answer of a model with its line."""
    screens.notebook.execute(
        "from onetool_ipy.llm import ScriptedModel; m = ScriptedModel(['Hello.'])"
    )
    first = len(screens.cells())
    screens.notebook.execute("%tool tools.echo message={pd.DataFrame({'a': range(900)})}")
    screens.notebook.execute("%tool time.now")
    screens.notebook.execute("print('hello')")
    screens.notebook.execute("a = %ask --model m Say hello")
    outputs = [screens.notebook.output(first + n) for n in range(4)]
    expect(outputs[0].get_by_role("button", name="Open in viewer")).to_be_visible()

    edges = [edge for output in outputs for edge in output.evaluate(_LEFT_EDGES)]

    assert len(edges) == 7
    assert len(set(edges)) == 1
    sizes = [
        output.locator("pre").evaluate("pre => getComputedStyle(pre).fontSize")
        for output in outputs[1:3]
    ]
    assert len(set(sizes)) == 1
