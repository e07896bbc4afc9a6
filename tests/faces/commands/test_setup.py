"""`%tool adopt` in a real kernel: an expression of the notebook, a place, and what is neither."""

from __future__ import annotations

import pytest

from tests.harness.kernel import Kernel

_SHOP = """
class Shop:
    def __init__(self, name): self.name = name
    def price(self, item: str) -> str:
        "Return the price."
        return f"{item} at {self.name}"
    def buy(self, item: str) -> str:
        "Buy it."
        return item
"""


@pytest.fixture
def loaded(loaded: Kernel) -> Kernel:
    loaded.execute(_SHOP)
    return loaded


def test_an_expression_of_the_notebook_is_adopted(loaded: Kernel) -> None:
    text = loaded.execute('%tool adopt Shop("the corner") --read-only price').text
    assert "Adopted: shop.price, shop.buy" in text
    assert "tea at the corner" in loaded.execute("%tool shop.price item=tea").text
    assert "tea at the corner" in loaded.execute('shop.price("tea")').text
    assert (
        "['shop.price']"
        in loaded.execute('[r["name"] for r in ot.tools("shop") if "price" in r["name"]]').text
    )
    assert "read-only" in loaded.execute("%tool info shop.price").text


def test_the_same_cell_again_replaces_its_tools_and_another_one_is_told_of_the_pack(
    loaded: Kernel,
) -> None:
    first = loaded.execute('ot.adopt(Shop("one"))', cell_id="adopting")
    again = loaded.execute('ot.adopt(Shop("two"))', cell_id="adopting")
    other = loaded.execute('ot.adopt(Shop("three"))', cell_id="other", allow_errors=True)
    assert first.text == again.text
    assert "pack=" in other.text
    assert "tea at two" in loaded.execute('shop.price("tea")').text


def test_a_place_and_a_pack_are_adopted(loaded: Kernel) -> None:
    assert (
        "Adopted: words.shorten" in loaded.execute("%tool adopt textwrap:shorten --pack words").text
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%tool adopt", "needs something to adopt"),
        ("%tool adopt nothing_here", "'nothing_here' is not a value of this notebook"),
        ("%tool adopt 1 +", "'1 +' is not a value of this notebook"),
        ("%tool adopt Shop", "'Shop' is a class. Adopt an object of it: Shop(...)"),
    ],
)
def test_what_is_not_there_is_said(loaded: Kernel, line: str, words: str) -> None:
    assert words in " ".join(loaded.execute(line, allow_errors=True).text.split())


def test_functions_of_a_cell_become_a_pack_file_that_works_in_another_notebook(
    kernel: Kernel,
) -> None:
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute("import math\nfrom onetool_ipy import tool")

    saved = kernel.execute(
        "%%tool save geo\n@tool\ndef area(r: float) -> float:\n    return math.floor(r * r)"
    ).text
    kernel.execute("%%tool --save geo\ndef twice(n: int) -> int:\n    return 2 * n")
    kernel.execute("del math, tool")

    assert "geo.area saved to" in saved
    assert "Try it with: %tool check geo.area" in saved
    assert kernel.execute("geo.area(3), geo.twice(4)").result_text == "(9, 8)"
    refused = kernel.execute(
        "%%tool save geo\ndef third(n: int) -> int:\n    return n * rate", allow_errors=True
    ).text
    assert "The cell uses 'rate', which only this notebook has." in refused


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%tool save", "%tool save needs one pack."),
        ("%tool save geo", "Write %%tool save geo as the first line of their cell."),
        ("%tool nb.x --save", "Write %%tool save PACK above the functions to save."),
        ("%tool nb.x --save geo", "Write %%tool save geo as the first line of their cell."),
        (
            "%tool search promote a cell tool to a pack file",
            "%%tool save PACK  promote the cell's functions",
        ),
    ],
)
def test_whoever_looks_for_saving_a_cell_finds_it(kernel: Kernel, line: str, message: str) -> None:
    kernel.execute("%load_ext onetool_ipy")

    assert message in kernel.execute(line, allow_errors=True).text
