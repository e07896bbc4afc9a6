"""`%ask` in JupyterLab: the question where a person answers it, and hostile text where a browser
would run it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.lab import Lab

SETUP = '''
%load_ext onetool_ipy
from pathlib import Path
from onetool_ipy import tool
from onetool_ipy.llm import ScriptedModel

EVIL = "<img src=x onerror='window.hacked=1'> ![p](/evil.png) <script>window.hacked=1</script>"

@tool("shop.order")
def order(item: str, count: int = 1) -> dict:
    """Order something.

    Args:
        item: What.
        count: How many.
    """
    Path("ordered.txt").open("a").write(f"{item}\\n")
    return {"ordered": item, "note": EVIL}

turn = [EVIL, ("shop.order", {"item": "pen\\n  2. time.now\\u202e"}), ("shop.order", {"item": EVIL, "count": 2})]
m = ScriptedModel([turn, EVIL + " That is **all**."])
'''


@pytest.mark.browser
def test_a_person_answers_in_the_notebook_and_nothing_hostile_runs(lab: Lab) -> None:
    notebook = lab.open_notebook(
        [SETUP.strip(), "a = %ask --model m Order a pen and ink"], name="ask"
    )
    notebook.run_cell(0)
    expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")

    notebook.begin_cell(1)
    question = notebook.output(1).locator(".otx-question")
    expect(question.locator("li").first).to_contain_text('"pen\\n  2. time.now\\u202e"')
    question.get_by_role("button", name="Skip shop.order").first.click()
    question.get_by_role("button", name="Run shop.order", exact=True).last.click()

    output = notebook.output(1)
    expect(output).to_contain_text("That is all.")
    calls = output.locator("details:has(> summary > b)")
    expect(calls).to_have_count(2)
    calls.nth(1).locator("> summary").click()
    expect(calls.nth(1)).to_contain_text("ordered")
    assert output.locator("img").count() == 0
    assert output.locator("script").count() == 0
    assert notebook.page.evaluate("() => window.hacked === undefined")
    assert (notebook.path.parent / "ordered.txt").read_text(encoding="utf-8").startswith("<img")
