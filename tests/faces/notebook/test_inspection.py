"""Shift-Tab and `?` through the kernel protocol, as a notebook asks for them."""

from __future__ import annotations

import pytest

from tests.harness.kernel import Kernel

ORDER = '''
from onetool_ipy import tool

@tool("shop.order")
def order(item: str) -> str:
    """Order an item."""
    return item
'''


@pytest.fixture
def loaded(loaded: Kernel) -> Kernel:
    loaded.execute(ORDER)
    loaded.execute("%%snippet greet who\nprint('{{ who }}')")
    return loaded


def test_shift_tab_shows_signature_and_docs(loaded: Kernel) -> None:
    shown = loaded.inspect("shop.order")
    assert "item: str" in shown
    assert "Order an item." in shown


@pytest.mark.parametrize(
    ("code", "at", "shown"),
    [
        ("%tool fs.read_file", None, "fs.read_file(path: str, maxBytes: int = 204800)"),
        ("%tool fs.read_file", 12, "maxBytes"),
        ("x = %tool fs.read_file path=a.txt ", None, "maxBytes"),
        ("%%tool --soft fs.read_file\na.txt", 20, "maxBytes"),
        ("a = 1\n    %tool time.now", None, "time.now()"),
        ("%tool info time.now", None, "time.now()"),
        ("%tool shop.order(item='tea', ", None, "Order an item."),
        ("%tool fs", None, "fs.list_dir"),
        ("$greet", None, "$greet who="),
        ("y = $shop.order item=tea", None, "Order an item."),
    ],
)
def test_shift_tab_on_a_line_of_ours_shows_the_tools_page(
    loaded: Kernel, code: str, at: int | None, shown: str
) -> None:
    assert shown in loaded.inspect(code, at)


@pytest.mark.parametrize(
    "code",
    ["%tool", "%tool no.such", "%tool list", "fs.read_file", "print", "$nothing", "%tool 'a"],
)
def test_shift_tab_elsewhere_is_as_it_was(loaded: Kernel, code: str) -> None:
    """Also that no call is counted: looking is not calling."""
    before = loaded.execute("ot.stats()['total_calls']").text
    with_us = loaded.inspect(code)
    after = loaded.execute("ot.stats()['total_calls']").text
    loaded.execute("%unload_ext onetool_ipy")

    assert int(after) == int(before) + 1  # the first look itself
    assert with_us == loaded.inspect(code) or code == "%tool"


def test_unloaded_the_kernel_answers_shift_tab_by_itself(loaded: Kernel) -> None:
    assert "maxBytes" in loaded.inspect("%tool fs.read_file")

    loaded.execute("%unload_ext onetool_ipy")

    assert loaded.inspect("%tool fs.read_file") == ""
    assert loaded.evaluate("'do_inspect' in vars(get_ipython().kernel)") == "False"


@pytest.mark.parametrize("line", ["%tool time.now?", "%tool shop.order?", "x = 1\n%tool fs?"])
def test_a_question_mark_asks_the_magic(loaded: Kernel, line: str) -> None:
    text = loaded.execute(line).text
    assert "not found" not in text
    assert "time.now()" in text or "shop.order(item: str" in text or "fs.list_dir" in text
