"""`%%tool program` and the flags of `%ask` about programs, in a real kernel."""

from __future__ import annotations

import re

import pytest

from tests.harness.kernel import Kernel

SETUP = '''
from pathlib import Path
from typing import TypedDict
from onetool_ipy import tool
from onetool_ipy.llm import ScriptedModel

class Customer(TypedDict):
    id: int
    owes: float

@tool("crm.customers", read_only=True)
def customers(region: str) -> list[Customer]:
    """List the customers."""
    print("reading", flush=True)
    return [{"id": 1, "owes": 99}, {"id": 2, "owes": 5}]

@tool("crm.remind")
def remind(customer: int) -> None:
    """Remind a customer."""
    Path("reminded.txt").open("a").write(f"{customer}\\n")
'''
PROGRAM = """\
import crm
for row in crm.customers(region="eu"):
    if row["owes"] > 97:
        crm.remind(customer=row["id"])
'done'
"""


@pytest.fixture
def loaded(loaded: Kernel) -> Kernel:
    loaded.execute(SETUP)
    return loaded


def _reminded(kernel: Kernel) -> list[str]:
    file = kernel.cwd / "reminded.txt"
    return file.read_text(encoding="utf-8").split() if file.exists() else []


@pytest.mark.slow
def test_a_program_gives_an_answer(loaded: Kernel) -> None:
    outcome = loaded.execute(
        "%%tool program -o a\nimport crm\nprint('hello')\ncrm.customers(region='eu')"
    )
    assert outcome.result is None
    assert loaded.evaluate("(a.text, len(a.value), a.df.shape)") == "('hello\\n', 2, (2, 2))"
    shown = loaded.execute("%%tool program @limit\nlimit + 1", allow_errors=True)
    assert "no variable 'limit'" in shown.text
    loaded.execute("limit = 41")
    assert "42" in loaded.execute("%%tool program @limit\nlimit + 1").result_text


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%tool program\nimport crm\ncrm.customers(regon='eu')", "regon"),
        ("%%tool program\n1 / 0", "Line 1: ZeroDivisionError"),
        ("%%tool program\nx = 1 +", "Line 1:"),
        ("%tool program", "%%tool program"),
        ("%%tool program limit\n1", "@name"),
    ],
    ids=["types", "failed", "syntax", "no cell", "no variable"],
)
def test_what_is_wrong_is_said_in_few_lines(loaded: Kernel, cell: str, words: str) -> None:
    outcome = loaded.execute(cell, allow_errors=True)
    assert outcome.error is not None
    assert words in outcome.text
    assert "Traceback" not in outcome.text


def test_rule_5_a_notebook_asks_with_all_numbers_or_none(loaded: Kernel) -> None:
    running = loaded.start_execute(f"%%tool program -o a\n{PROGRAM}", allow_stdin=True)
    question = loaded.answer_input("all")
    running.wait()
    assert "1.  crm.remind  1" in question
    assert "  | import crm" in question
    assert "always" not in question
    assert (_reminded(loaded), loaded.evaluate("a.value")) == (["1"], "'done'")
    running = loaded.start_execute(f"%%tool program\n{PROGRAM}", allow_stdin=True)
    loaded.answer_input("always")
    assert "'always' is not one of the answers. Run? all, none: " in loaded.answer_input("yes")
    assert "not understood" in running.wait(allow_errors=True).text
    assert _reminded(loaded) == ["1"]


def test_rule_6_a_plan_is_shown_in_the_cell(loaded: Kernel) -> None:
    """The program and a row for each write, as text and as a table."""
    outcome = loaded.execute(f"%%tool program --plan\n{PROGRAM}")
    assert "  | import crm" in outcome.result_text
    assert "  1.  crm.remind  1\n" in outcome.result_text
    page = outcome.result["text/html"]
    assert "crm.remind</td>" in page
    assert "import crm" in page
    assert "--resume" in page
    assert _reminded(loaded) == []


def test_rule_6_what_a_failing_program_printed_is_in_the_cell(loaded: Kernel) -> None:
    outcome = loaded.execute("%%tool program\nprint('so far')\n1 / 0", allow_errors=True)
    assert "so far" in outcome.text
    assert "ZeroDivisionError" in outcome.text


@pytest.mark.slow
def test_rule_6_a_program_waits_and_goes_on_after_a_restart(loaded: Kernel) -> None:
    shown = loaded.execute(f"%%tool program -o a\n{PROGRAM}")
    assert shown.text.count("  1.  crm.remind  1\n") == 1
    assert loaded.evaluate("a.stop_reason") == "'waiting'"
    program = loaded.evaluate("a.note").split("--resume ")[1].strip("'")
    for line in ("a = %ask --resume", "%ask -o a --resume", "%ask --resume"):
        assert loaded.execute(f"{line} {program}").text.count("  1.  crm.remind  1\n") == 1
    assert program in loaded.execute("%ask --waiting").result_text
    state = loaded.evaluate("__import__('os').environ['ONETOOL_STATE']")
    loaded.restart()
    loaded.execute(f"import os\nos.environ['ONETOOL_STATE'] = {state}")
    loaded.execute("%load_ext onetool_ipy")
    loaded.execute(SETUP)
    running = loaded.start_execute(f"a = %ask --resume {program}", allow_stdin=True)
    assert "1.  crm.remind  1" in loaded.answer_input("1")
    running.wait()
    assert (_reminded(loaded), loaded.evaluate("a.value")) == (["1"], "'done'")
    assert "No program waits" in loaded.execute("%ask --waiting").result_text
    outcome = loaded.execute(f"%ask --resume {program} again", allow_errors=True)
    assert "waits" in outcome.text


def test_a_model_writes_a_program_and_distil_makes_it_a_cell(loaded: Kernel) -> None:
    loaded.execute(
        f"m = ScriptedModel([('program', {{'code': {PROGRAM!r}}}), 'One reminder.'])\nlimit = 1"
    )
    running = loaded.start_execute(
        "a = %ask --model m --code Remind those over @limit", allow_stdin=True
    )
    loaded.answer_input("all")
    assert "One reminder." in running.wait().text
    outcome = loaded.execute("%ask --distil")
    (payload,) = [each for each in outcome.payload if each["source"] == "set_next_input"]
    assert payload["text"] == f"%%tool program @limit\n{PROGRAM}"
    loaded.execute(f"m = ScriptedModel([('program', {{'code': {PROGRAM!r}}})])")
    shown = loaded.execute("a = %ask --model m --code --plan Remind them")
    assert "  1.  crm.remind  1\n" in shown.text
    assert loaded.evaluate("(a.stop_reason, len(a.plan))") == "('waiting', 1)"
    program = loaded.evaluate("a.note").split("--resume ")[1].strip("'")
    assert "dropped" in loaded.execute(f"%ask --drop {program}").result_text
    assert _reminded(loaded) == ["1"]


@pytest.mark.parametrize(
    "code", ["while True: pass", "while True:\n    try: [0] * 1000\n    except BaseException: pass"]
)
def test_rule_10_stop_ends_an_endless_program(loaded: Kernel, code: str) -> None:
    """Long before its five seconds are over; the kernel works on."""
    reads = "crm.customers(region='x')\ncrm.customers(region='y')"
    running = loaded.start_execute(f"%%tool program -o a\nimport crm\n{reads}\n{code}")
    # When the second read begins, the first one has ended.
    running.wait_for_output(re.compile("reading.*reading", re.DOTALL))
    loaded.interrupt()
    running.wait()
    assert loaded.evaluate("(a.stop_reason, len(a.calls) >= 1)") == "('interrupted', True)"
