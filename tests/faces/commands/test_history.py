"""`history` as a person reads it: local times, runs as one line, failures with their message,
numbers to call again."""

from __future__ import annotations

import pytest

from tests.harness.kernel import Kernel

STREETS = """
from onetool_ipy import tool

@tool(read_only=True)
def code(street: str) -> int:
    "Find a street."
    if street.startswith("X"):
        raise LookupError(f"no such street: {street}")
    return len(street)
"""


@pytest.mark.slow
def test_a_list_is_readable(loaded: Kernel) -> None:
    """No ids, no raw rows; a run of `ot.map` is one line; the error is told."""
    loaded.execute(STREETS)
    loaded.execute("%tool nb.code street=X7", allow_errors=True)
    loaded.execute(
        "import pandas as pd; m = ot.map('nb.code', pd.DataFrame({'s': ['a', 'X47', 'c']}),"
        " street='s')"
    )
    loaded.execute("%tool tools.echo message=hello")

    text = loaded.execute("%tool history").result_text

    newest, run, failed, *_ = text.splitlines()
    assert newest.split()[0] == "1"
    assert "tools.echo message=hello · " in newest
    assert "ot.map of nb.code: 3 rows, 1 failed" in run
    assert run.endswith(" ms"), "not 0.0 s"
    assert failed.split()[0] == "2"
    assert "nb.code street=X7 · failed: " in failed
    assert "no such street: X7" in failed
    assert "rerun N" in text
    ids = loaded.evaluate("[row['call_id'] for row in ot.history()]")
    assert not any(each in text for each in eval(ids))


def test_numbers_are_those_of_the_list_that_was_shown(loaded: Kernel) -> None:
    loaded.execute("%tool tools.echo message=first\n%tool tools.echo message=second")
    shown = loaded.execute("%tool history 5").result_text
    assert shown.index("second") < shown.index("first")

    assert loaded.execute("%tool history rerun 2").result_text == "first"
    assert loaded.execute("%tool history rerun 2").result_text == "first", (
        "a call made since does not shift the list"
    )
    assert loaded.execute("%tool rerun 2").result_text == "first", "the word that people type"
    assert loaded.execute("%tool history rerun").result_text == "first", (
        "without a number the last call"
    )
    assert "second" not in loaded.execute("%tool history FIRST echo").result_text
    missing = loaded.execute("%tool history rerun 999", allow_errors=True)
    assert "No call '999'" in missing.text


def test_failed_and_since_choose(loaded: Kernel) -> None:
    loaded.execute(STREETS)
    loaded.execute("%tool nb.code street=X1", allow_errors=True)
    loaded.execute("%tool nb.code street=good")

    failed = loaded.execute("%tool history --failed --since yesterday").result_text
    assert "X1" in failed
    assert "good" not in failed
    again = loaded.execute("%tool history rerun 1 --failed", allow_errors=True)
    assert "no such street: X1" in again.text
    assert "--since yesterday" in loaded.execute("%tool history yesterday").result_text
    assert "No call matches." in loaded.execute("%tool history --since 2999-01-01").result_text
    assert "Usage, since " in str(loaded.execute("%tool usage --since yesterday").displays)
    wrong = loaded.execute("%tool history --since soon", allow_errors=True).text
    assert "--since does not understand 'soon'." in wrong
    assert "2h" in wrong


def test_two_results_are_compared(loaded: Kernel) -> None:
    loaded.execute(
        "from onetool_ipy import tool\n@tool(read_only=True)\ndef prices(tea: float) -> list:\n"
        "    'Give prices.'\n    return [{'id': 'tea', 'price': tea}, {'id': 'milk', 'price': 1.0}]"
    )
    loaded.execute("%tool nb.prices tea=2.0")
    loaded.execute("%tool nb.prices tea=2.5")
    loaded.execute("r = %tool tools.echo message=unseen")
    loaded.execute("%tool history")

    text = loaded.execute("%tool history diff 3 2").result_text
    assert "1 price changed: tea price 2.0 → 2.5" in text
    assert "milk" not in text
    assert "1 price changed" in loaded.execute("%tool history diff 3 2 --key id").result_text
    assert "needs two calls" in loaded.execute("%tool history diff 3", allow_errors=True).text
    assert "No call '99'" in loaded.execute("%tool history diff 99 1", allow_errors=True).text


def test_a_call_of_a_tool_that_did_not_exist_keeps_its_words(loaded: Kernel) -> None:
    """It was logged as `{}`, and said to be masked."""
    loaded.execute("%tool geo_tools.dist a=1 b='x y'", allow_errors=True)
    assert "a=1 b='x y'" in loaded.execute("%tool history").result_text
    again = loaded.execute("%tool history rerun 1", allow_errors=True).text
    assert "There was no tool 'geo_tools.dist' then" in again
    assert "masked" not in again
