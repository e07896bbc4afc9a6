"""`%tool replay` in a real kernel: on, off, state, and what is typed wrong."""

from __future__ import annotations

import pytest

from tests.harness.kernel import Kernel

TOOL = """
from onetool_ipy import tool
seen = []
@tool
def dice(sides: int = 6) -> int:
    "Throw."
    import random
    seen.append(sides)
    return random.randrange(10**9)
"""


@pytest.fixture
def shell(kernel: Kernel) -> Kernel:
    kernel.execute("import os; os.environ.pop('CI', None)\n%load_ext onetool_ipy")
    kernel.execute(TOOL)
    return kernel


@pytest.mark.slow
def test_recorded_until_it_is_switched_off_and_answered_after(shell: Kernel) -> None:
    assert (
        "No replay is on. Switch one on with: %tool replay FILE"
        in shell.execute("%tool replay").text
    )
    assert "(auto): 0 answers" in shell.execute("%tool replay calls.jsonl").text
    shell.execute("a = %tool nb.dice\nb = nb.dice(20)\nc = $nb.dice sides=8")
    assert "3 recorded so far" in shell.execute("%tool replay").text
    assert "Off: Replay" in shell.execute("%tool replay off").text
    assert "No replay was on" in shell.execute("%tool replay off").text

    shell.execute(
        "%tool replay calls.jsonl --only\nd = %tool nb.dice\ne = nb.dice(20)\nf = $nb.dice sides=8"
    )

    assert shell.evaluate("(a.data, b, c.data) == (d.data, e, f.data)") == "True"
    assert shell.evaluate("seen") == "[6, 20, 8]"


def test_a_cassette_ends_with_the_extension(shell: Kernel) -> None:
    shell.execute("%tool replay calls.jsonl")
    shell.execute("%unload_ext onetool_ipy\n%load_ext onetool_ipy")
    assert "No replay is on" in shell.execute("%tool replay").text


def test_the_context_manager_does_the_same(shell: Kernel) -> None:
    shell.execute("with ot.replay('w.jsonl'):\n    a = nb.dice()")
    shell.execute("with ot.replay('w.jsonl') as cassette:\n    b = nb.dice()")
    assert shell.evaluate("(a == b, len(seen), cassette.played)") == "(True, 1, 1)"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%tool replay a.jsonl b.jsonl", "takes one file"),
        ("%tool replay --refresh", "takes one file"),
        ("%tool replay a.jsonl --only --refresh", "at most one of"),
        ("%tool replay a.jsonl --onyl", "--onyl"),
        (
            "%tool replay nowhere.jsonl --only",
            "Record it first where there is a network: %tool replay",
        ),
        ("%tool replay ..", "..': it is a folder"),
        ("with ot.replay('x.jsonl', mode='often'): pass", "No mode 'often' of replay"),
    ],
)
def test_what_is_typed_wrong_is_said_in_a_few_lines(shell: Kernel, line: str, said: str) -> None:
    shell.execute("%tool replay kept.jsonl")
    outcome = shell.execute(line, allow_errors=True)
    assert not outcome.ok
    assert said in outcome.text
    assert len(outcome.text.splitlines()) <= 5
    assert "kept.jsonl" in shell.execute("%tool replay").text, "the one that was on stays on"


def test_a_miss_is_an_error_that_stops_the_cell(shell: Kernel) -> None:
    shell.execute("%tool replay calls.jsonl\nnb.dice(1)\n%tool replay calls.jsonl --only")
    outcome = shell.execute("%tool nb.dice sides=2", allow_errors=True)
    assert not outcome.ok
    assert "'nb.dice' was not recorded with these arguments" in outcome.text
    assert (
        "Run it once where there is a network, to keep its answer, after: %tool replay"
        in outcome.text
    )


def test_replay_is_completed_and_in_the_help(shell: Kernel) -> None:
    assert "replay" in shell.complete("%tool repl").matches
    assert "%tool replay FILE" in shell.execute("%tool help all").text
