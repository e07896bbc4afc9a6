"""A `%tool` or `$name` line that is alone in its statement shows itself, wherever it is in its
cell."""

from __future__ import annotations

import pytest

from tests.harness.kernel import Kernel

TOOL = """
from onetool_ipy import tool
@tool
def say(word: str) -> str:
    "Say a word."
    return f"said {word}"
"""


@pytest.fixture
def ready(kernel: Kernel) -> Kernel:
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOL)
    kernel.execute("%%snippet greet word=you\n'hello {{ word }}'")
    return kernel


@pytest.mark.parametrize(
    ("cell", "shown", "result"),
    [
        ("%tool nb.say word=a\n%tool nb.say word=b", ["said a"], "said b"),
        ("%tool nb.say word=a\nx = 1", ["said a"], ""),
        ("$nb.say word=a\n1 + 1", ["said a"], "2"),
        ("%tool nb.say word=a;\n%tool nb.say word=b;", [], ""),
        ("$nb.say word=a;\n1", [], "1"),
        ("x = %tool nb.say word=a\ny = $nb.say word=b\nx.data, y.data", [], "('said a', 'said b')"),
        (
            "for i in (1, 2):\n    if i:\n        %tool nb.say word={str(i)}",
            ["said 1", "said 2"],
            "",
        ),
        (
            "try:\n    %tool nb.say word=a\nfinally:\n    %tool nb.say word=b",
            ["said a", "said b"],
            "",
        ),
        ("def f():\n    %tool nb.say word=a\nf()", [], ""),
        ("%tool nb.say --dry word=a\n1", ["nb.say would be called with:\n  word = 'a'"], "1"),
    ],
)
def test_lone_line_shows_itself(ready: Kernel, cell: str, shown: list[str], result: str) -> None:
    outcome = ready.execute(cell)

    assert [display.data["text/plain"] for display in outcome.displays] == shown
    assert (outcome.result_text if outcome.result is not None else "") == result


def test_line_is_shown_once_where_ipython_shows_every_line(ready: Kernel) -> None:
    ready.execute("get_ipython().ast_node_interactivity = 'all'")

    outcome = ready.execute("%tool nb.say word=a\n%tool nb.say word=b")
    # Other tests use this kernel too.
    ready.execute("get_ipython().ast_node_interactivity = 'last_expr'")

    assert outcome.displays == []
    assert outcome.result_text == "said b"


def test_nothing_is_left_when_the_extension_is_unloaded(ready: Kernel) -> None:
    ready.execute("%unload_ext onetool_ipy")

    assert ready.execute("get_ipython().ast_transformers").result_text == "[]"
