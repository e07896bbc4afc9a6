"""The page that nbconvert makes of a notebook: its reader has no kernel, and maybe no network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.wheel import Installed

pytestmark = pytest.mark.browser

SETUP = """%load_ext onetool_ipy
from onetool_ipy import tool
from onetool_ipy.llm import ScriptedModel

@tool("shop.prices", read_only=True)
def prices(n: int = 3) -> list[dict]:
    "What things cost."
    return [{"sku": f"A-{i:03}", "price": i * 1.5} for i in range(n)]

@tool("shop.order")
def order(sku: str) -> str:
    "Order something."
    return f"ordered {sku}"

m = ScriptedModel([["Let me look.", ("shop.prices", {"n": 2})], "They cost **$0** and **$1.50**."])
"""
PROGRAM = """%%tool program
import shop
for each in shop.prices(n=3):
    shop.order(sku=each["sku"])
"""
CELLS = {
    "%tool": "2 tools",
    "%tool shop.prices n=500": "20 of 500 rows",
    "x = %tool shop.prices n=3\ny = %tool shop.prices n=4\ny.view()": "4 rows × 2 columns",
    "%tool browse": "What things cost.",
    "ot.diff(x, y)": "1 row new",
    "%ask --model m What do they cost?": "They cost $0 and $1.50.",
    PROGRAM: "The program wants to make 3 writes.",
    "ot.health()": "Nothing is wrong.",
    "ot.stats()": "shop.prices",
    "ot.usage()": "shop.prices",
}
"""Cells, and what a reader of their outputs sees among the rest."""


def test_each_output_is_read_without_a_kernel(
    installed_wheel: Installed, page: Page, tmp_path: Path
) -> None:
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": code,
        }
        for code in (SETUP, *CELLS)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (tmp_path / "shop.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    installed_wheel.run(
        *("-m", "nbconvert", "--execute", "--to", "html", "shop.ipynb"), cwd=tmp_path
    )
    page.context.set_offline(True)
    page.goto((tmp_path / "shop.html").as_uri(), wait_until="domcontentloaded")
    shown = page.locator(".jp-CodeCell")
    for place, sentence in enumerate(CELLS.values(), 1):
        expect(shown.nth(place).locator(".jp-OutputArea")).to_contain_text(sentence)
    tables = [shown.nth(place).locator("table:visible").count() for place in (2, 3, 4, 5, 7, 9, 10)]
    assert all(tables), tables
    # Whatever can be clicked on does something without a kernel.
    assert page.locator(":is(button, input, select, textarea):visible").count() == 0
    expect(page.locator("body")).not_to_contain_text("Loading widget")
    page.get_by_text("shop.prices n=2").click()
    expect(shown.nth(6)).to_contain_text("A-001")
    code = shown.nth(7).locator(".jp-OutputArea pre", has_text="import shop")
    assert "mono" in code.evaluate("node => getComputedStyle(node).fontFamily")
