"""Programs over tools, rule by rule: what runs, what is asked, what is kept, what ends a
program."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onetool_ipy.base.errors import (
    NotApproved,
    ProgramBusy,
    ProgramChanged,
    ProgramFailed,
    ProgramLimit,
    ProgramTypes,
    ProgramUnsure,
    UsageProblem,
)
from onetool_ipy.core.question import Question
from onetool_ipy.core.tool import HttpHooks, ServerFacts, ToolSpec
from onetool_ipy.llm.ask.answer import mime_bundle
from onetool_ipy.llm.programs.run import MAX_CALLS
from onetool_ipy.terminal import approval_reply, program_text
from tests.harness.systems import has_mode
from tests.llm.programs.conftest import REMIND, Shop

FOUR = [("remind", number) for number in range(8, 12)]


def _folder(tmp_path: Path, program: str) -> Path:
    (folder,) = (tmp_path / "state").rglob(program)
    return folder


def test_rule_1_variables_that_are_named_are_there(shop: Shop) -> None:
    answer = shop.run(
        "sum(row['n'] for row in df) + limit", variables={"df": [{"n": 2}, {"n": 3}], "limit": 1}
    )
    assert answer.value == 6


def test_rule_1_a_tool_that_is_not_allowed_is_not_there(shop: Shop) -> None:
    answer = shop.run(REMIND, tool_allow=["crm.customers"])
    assert isinstance(answer.error, ProgramTypes)
    assert "remind" in answer.error.message
    assert not shop.reads


def test_rule_1_a_pack_named_like_a_library_has_another_name(shop: Shop) -> None:
    assert "T" in shop.run("import time_tools\ntime_tools.now()['iso']").value


@pytest.mark.parametrize(
    "line",
    [
        "crm.customers()[0]['nme']",
        "crm.customers(regon='eu')",
        "crm.remind(customer='x')",
        "crm.nothing()",
    ],
)
def test_rule_2_a_program_that_fails_the_check_makes_no_call(shop: Shop, line: str) -> None:
    answer = shop.run(f"import crm\ncrm.customers()\n{line}", "all")
    assert isinstance(answer.error, ProgramTypes)
    assert answer.stop_reason == "error"
    assert (shop.reads, shop.writes, len(answer.calls)) == ([], [], 0)


def test_rule_3_every_call_is_in_the_log_under_the_program(shop: Shop) -> None:
    """The rows of the calls have the program as their parent, and source `magic`."""
    shop.run(REMIND, "all")
    rows = shop.box.log.history()
    program = next(row for row in rows if row.tool == "program")
    calls = [row for row in rows if row.tool != "program"]
    assert {row.parent for row in calls} == {program.call_id}
    assert {row.source for row in rows} == {"magic"}
    assert len(calls) == 5
    assert "program" not in shop.box.log.counts()


def test_rule_3_arguments_are_checked_by_the_tool_itself(shop: Shop) -> None:
    """What the type check cannot see, the call does: the program gets a TypeError."""
    code = (
        "import crm\nargs = {'customer': 'x' + str(1)}\ntry:\n    eval('crm.remind(**args)')\n"
        "except TypeError as e:\n    s = str(e)\ns"
    )
    answer = shop.run(code, "all")
    assert "customer" in answer.value
    assert not shop.writes


@pytest.mark.parametrize("value", ["len", "[print]", "{'a': (int,)}"])
def test_rule_3_a_function_is_not_given_to_a_tool(shop: Shop, value: str) -> None:
    """A tool gets plain data, and never the text of an object of the sandbox."""
    shop.add("crm.set", lambda x: shop.writes.append(x))
    answer = shop.run(f"import crm\ncrm.set(x={value})", "all")
    assert "takes plain data, and not a function" in str(answer.error)
    assert shop.writes == []


def test_rule_3_tools_for_people_are_not_there(shop: Shop) -> None:
    answer = shop.run("import ot\not.map(tool='crm.remind', data=[{'customer': 1}])", "all")
    assert isinstance(answer.error, ProgramTypes)


def test_rule_3_secrets_are_masked_for_a_models_program(make_shop: Callable[..., Shop]) -> None:
    """A model never sees a secret in a result, so its program cannot hand one to another tool."""
    shop = make_shop(secrets="KEY: verysecretvalue123\n")
    shop.add("crm.key", lambda: {"key": "verysecretvalue123"}, read_only=True)
    assert shop.run("import crm\ncrm.key()['key']", source="model").value == "***"
    assert shop.run("import crm\ncrm.key()['key']").value == "verysecretvalue123"


def test_rule_4_reads_run_and_writes_are_shown_first(shop: Shop) -> None:
    """The person sees all four writes in one question; each runs once, and the read is made
    once."""
    answer = shop.run(REMIND, "all")
    assert answer.value == 4
    assert shop.reads == [("customers", "eu")]
    assert shop.writes == FOUR
    assert [call.tool for call in shop.person.last.calls] == ["crm.remind"] * 4
    assert len(shop.person.questions) == 1


def test_rule_4_nothing_is_written_before_the_yes(shop: Shop) -> None:
    seen: list[Any] = []
    shop.run(REMIND, lambda _question: seen.append(list(shop.writes)) or "all")
    assert seen == [[]]


def test_rule_4_what_the_fork_read_is_not_read_again(shop: Shop) -> None:
    """Reads behind a write are made while planning, and used by the real run."""
    code = (
        "import crm\ncrm.remind(customer=1)\na ="
        " len(crm.customers(region='x'))\ncrm.remind(customer=2)\na"
    )
    answer = shop.run(code, "all")
    assert answer.value == 12
    assert shop.reads == [("customers", "x")]
    assert shop.writes == [("remind", 1), ("remind", 2)]


def test_rule_4_a_write_beyond_the_plan_is_a_new_question(shop: Shop) -> None:
    """The second write depends on the result of the first: it is shown with its real arguments, and
    asked for."""
    code = (
        "import crm\nx = crm.remind(customer=1)\nif x['sent']:\n    crm.remind(customer=x['id'] +"
        " 1)\n'done'"
    )
    answer = shop.run(code, "all", "all")
    assert answer.value == "done"
    assert [[call.args for call in each.calls] for each in shop.person.questions] == [
        [(("customer", "1"),)],
        [(("customer", "2"),)],
    ]
    assert shop.writes == [("remind", 1), ("remind", 2)]
    shop.writes.clear()
    answer = shop.run(code, "all", None)
    assert answer.stop_reason == "waiting"
    assert shop.writes == [("remind", 1)]


def test_rule_4_a_standing_yes_does_not_count(
    make_shop: Callable[..., Shop], tmp_path: Path
) -> None:
    """Neither `ask.approve` of the user's own settings nor an earlier "always" lets a program
    write."""
    own = tmp_path / "home" / ".onetool"
    own.mkdir(parents=True)
    (own / "onetool.yaml").write_text("version: 1\nask: {approve: ['*']}\n", encoding="utf-8")
    shop = make_shop("ask: {approve: ['*']}")
    shop.box.ask._always["crm.remind"] = shop.box.registry.require("crm.remind").fingerprint
    assert shop.run(REMIND).stop_reason == "waiting"
    assert not shop.writes


def test_rule_4_approve_of_this_very_call_counts_for_the_tools_it_names(shop: Shop) -> None:
    assert shop.run(REMIND, approve=["crm.remind"]).value == 4
    assert shop.writes == FOUR
    assert not shop.person.questions
    assert not shop.box.ask.waiting()
    shop.writes.clear()
    assert shop.run(REMIND, approve=["crm.fail"]).stop_reason == "waiting"
    assert not shop.writes


def test_rule_4_each_yes_is_used_once(shop: Shop) -> None:
    """Two identical writes with one yes: one runs, the other is skipped."""
    answer = shop.run("import crm\nfor i in range(2):\n    crm.remind(customer=1)", [2])
    assert shop.writes == [("remind", 1)]
    assert [row["state"] for row in answer.plan] == ["skipped", "made"]


def test_rule_4_a_write_gets_the_arguments_that_were_shown(shop: Shop) -> None:
    """The tool that gave the rows changes its own list before the write: the write gets what the
    question had."""
    rows = [{"id": 1}]

    def todo() -> list[dict[str, int]]:
        """Give the rows, as the tool itself holds them."""
        return rows

    def sync() -> int:
        """Change the rows that were given out."""
        rows[0]["id"] = 99
        rows.append({"id": 2})
        return len(rows)

    def delete(rows: list[dict[str, int]]) -> None:
        shop.writes.append(("delete", json.dumps(rows)))
        rows.append({"id": 666})

    shop.add("crm.todo", todo, read_only=True)
    shop.add("crm.sync", sync, read_only=True)
    shop.add("crm.delete", delete)
    code = "import crm\nrows = crm.todo()\ncrm.sync()\ncrm.delete(rows=rows)\ncrm.delete(rows=rows)"
    answer = shop.run(code, "all")
    shown = [dict(call.args)["rows"] for call in shop.person.last.calls]
    assert shown == ['[{"id": 1}]'] * 2
    assert shop.writes == [("delete", text) for text in shown]
    assert [row["args"] for row in answer.plan] == [{"rows": [{"id": 1}]}] * 2


def test_rule_4_a_variable_that_changes_while_the_question_stands_changes_no_write(
    shop: Shop,
) -> None:
    rows = [{"id": 1}]
    shop.add("crm.delete", lambda rows: shop.writes.append(json.dumps(rows)))

    def change(_question: Question) -> str:
        rows[0]["id"] = 99
        rows.append({"id": 2})
        return "all"

    shop.run(
        "import crm\ncrm.delete(rows=rows)\ncrm.delete(rows=rows[:1])",
        change,
        variables={"rows": rows},
    )
    assert shop.writes == ['[{"id": 1}]'] * 2


def test_rule_4_a_read_that_changes_an_earlier_result_changes_no_write(shop: Shop) -> None:
    """Also where the later read runs only after the yes, between two writes."""
    box = {"ids": [1]}

    def more(customer: int) -> int:
        """Change what was given out."""
        box["ids"].append(customer)
        return len(box["ids"])

    shop.add("crm.box", lambda: box, read_only=True)
    shop.add("crm.more", more, read_only=True)
    shop.add("crm.delete", lambda box: shop.writes.append(json.dumps(box)))
    code = (
        "import crm\nbox = crm.box()\nx = crm.remind(customer=1)\n"
        "crm.more(customer=x['id'])\ncrm.delete(box=box)\ncrm.delete(box=box['ids'])"
    )
    shop.run(code, "all", "all")
    assert shop.writes == [("remind", 1), '{"ids": [1]}', "[1]"]
    assert box == {"ids": [1, 1]}


def test_rule_4_a_write_keeps_the_order_of_keys_that_was_shown(shop: Shop) -> None:
    shop.add("crm.put", lambda body: shop.writes.append(json.dumps(body)))
    shop.run("import crm\ncrm.put(body={'z': 1, 'a': 2})", "all")
    assert dict(shop.person.last.calls[0].args)["body"] == shop.writes[0] == '{"z": 1, "a": 2}'


def test_rule_4_the_log_says_which_calls_the_arguments_came_from(shop: Shop) -> None:
    """Whole results, rows of them, and variables of the notebook; the tool gets copies all the
    same."""
    shop.add("crm.stock", lambda: [{"item": 1}, {"item": 2}], read_only=True)
    given = shop.box.call("crm.stock")
    shop.add("crm.delete", lambda rows, more: shop.writes.append((rows, more)))
    code = "import crm\nrows = crm.customers()\ncrm.delete(rows=[rows[0], rows[2]], more=stock[1])"
    shop.run(code, "all", variables={"stock": given})
    rows = {row.tool: row for row in shop.box.log.history()}
    read = rows["crm.customers"]
    inputs = json.loads(rows["crm.delete"].inputs)
    assert inputs == [["rows", read.call_id], ["more", given.meta["call_id"]]]
    assert shop.writes[0][1] is not given.data[1]


def test_rule_4_a_tool_that_changes_after_the_yes_does_not_run(shop: Shop) -> None:
    def change(_question: Question) -> str:
        shop.add("crm.remind", lambda customer: shop.writes.append(("evil", customer)))
        return "all"

    answer = shop.run(REMIND, change)
    assert isinstance(answer.error, ProgramChanged)
    assert not shop.writes


def test_rule_4_a_read_that_becomes_a_write_is_not_run(shop: Shop) -> None:
    """Whether a call is a write is decided by the tool as it is when it is called."""

    def peek() -> str:
        """Look, and make the other tool a writing one."""
        shop.add("crm.customers", lambda region: shop.writes.append(("evil", region)))
        return "x"

    shop.add("crm.peek", peek, read_only=True)
    answer = shop.run("import crm\ncrm.peek()\ncrm.customers(region='x')")
    assert answer.stop_reason == "waiting"
    assert not shop.writes


@pytest.mark.parametrize("source", ["magic", "model", "python"])
def test_rule_4_a_read_cannot_write_through_another_tool(shop: Shop, source: str) -> None:
    """Neither at once nor in a job; where this very call names the tool that reads, it may."""

    def report(customer: int, later: bool = False) -> str:
        """Say that it only reads."""
        if later:
            return str(shop.box.start("crm.remind", {"customer": customer}).result().error)
        return str(shop.box.call("crm.remind", {"customer": customer}).error)

    shop.add("crm.report", report, read_only=True)
    code = "import crm\n[crm.report(customer=1), crm.report(customer=1, later=True)]"
    answer = shop.run(code, source=source)
    assert shop.writes == []
    assert all(
        "'crm.remind' may change something, and was not run" in text for text in answer.value
    )
    assert shop.run(code, source=source, approve=["crm.report"]).value == ["None", "None"]
    assert shop.writes == [("remind", 1)] * 2


def test_rule_4_a_write_with_a_yes_may_call_others(shop: Shop) -> None:
    shop.add("crm.all", lambda: [shop.box.call("crm.remind", {"customer": n}).ok for n in (1, 2)])
    assert shop.run("import crm\ncrm.all()", "all").value == [True, True]


def test_rule_4_a_program_that_fails_by_itself_is_not_asked_about(shop: Shop) -> None:
    """The results of its writes are not looked at, so the failure is its own; nothing is
    written."""
    answer = shop.run("import crm\ncrm.remind(customer=1)\n1 / 0", "all")
    assert isinstance(answer.error, ProgramFailed)
    assert answer.error.details["line"] == 3
    assert (shop.writes, shop.person.questions) == ([], [])


def test_rule_4_a_write_that_fails_is_an_exception_in_the_program(shop: Shop) -> None:
    code = (
        "import crm\ntry:\n    crm.fail(customer=1)\nexcept RuntimeError as e:\n    s = str(e)\ns"
    )
    assert "busy" in shop.run(code, "all").value
    assert shop.writes == [("fail", 1)]


def test_rule_5_the_question_has_program_writes_reads_and_doubts(shop: Shop) -> None:
    shop.run(REMIND, "none")
    assert shop.person.last.program == REMIND
    assert shop.person.last.details == ("It has read: crm.customers 1×.",)
    shop.run("import crm\nx = crm.remind(customer=1)\nx", "none")
    assert "May be more: depends on results." in shop.person.last.details


def test_rule_5_many_writes_are_shown_by_the_first_and_a_handle(shop: Shop) -> None:
    answer = shop.run("import crm\nfor i in range(50):\n    crm.remind(customer=i)", "all")
    text = program_text(shop.person.last)
    assert "50 writes" in text
    assert "\n  |     crm.remind(customer=i)\n" in text, "the program keeps its indentation"
    assert "\n       tool        customer\n  1.   crm.remind  0\n" in text
    assert "\n  20.  crm.remind  19\n" in text
    assert "21. " not in text
    handle = text.split("ot.result('")[1].split("'")[0]
    assert len(shop.box.results.value(handle)) == 50
    assert len(shop.writes) == 50
    assert list(answer.plan.df.columns) == ["tool", "args", "state"]
    assert answer.plan[49] == {"tool": "crm.remind", "args": {"customer": 49}, "state": "made"}


@pytest.mark.parametrize(
    "text", ["x" * 90, "宽" * 40, "a\\n  2.  crm.remind  all"], ids=["long", "wide", "forged"]
)
def test_rule_5_what_does_not_fit_a_table_is_a_list(shop: Shop, text: str) -> None:
    """A line of the question is never broken by the terminal, and every argument has its name."""
    shop.run(f"import crm\ncrm.remind(customer=1, text='{text}')", "none")
    lines = program_text(shop.person.last).splitlines()
    place = lines.index("It has read nothing.")
    assert max(map(len, lines)) <= 76
    assert [line for line in lines[:place] if line.startswith("  2.")] == []
    is_list = len(text) > 30
    assert any(line.startswith("       text=") for line in lines) == is_list


SIX = """\
import crm
for customer in crm.customers(region="eu")[-6:]:
    crm.remind(customer=customer["id"])
print("reminded")
"done"
"""
"""Reminds customers 6 to 11."""


def test_rule_5_a_write_that_was_not_chosen_is_skipped(shop: Shop) -> None:
    """One box of six is unticked: the other five writes are made, and the answer says what became
    of each."""
    answer = shop.run(SIX, [1, 3, 4, 5, 6])
    assert shop.writes == [("remind", number) for number in (6, 8, 9, 10, 11)]
    assert (answer.value, answer.text, answer.stop_reason, answer.ok) == (
        "done",
        "reminded\n",
        "done",
        True,
    )
    assert list(answer.plan.df.columns) == ["tool", "args", "state"]
    assert list(answer.plan.df["state"]) == ["made", "skipped", "made", "made", "made", "made"]
    assert "5 of 6 writes made, 1 skipped." in answer.note
    assert answer.note in mime_bundle(answer, str)["text/plain"]
    assert answer.to_dict()["plan"][1]["state"] == "skipped"


def test_rule_5_a_write_that_needs_a_skipped_one_is_not_made(shop: Shop) -> None:
    """The program goes on with the stand-in of the plan; only what needs it is left out."""
    code = (
        "import crm\nx = crm.remind(customer=1)\ncrm.remind(customer=2)\ncrm.remind(customer=3,"
        " text=x)\ncrm.remind(customer=4)\n[x, 'end']"
    )
    shop.add("crm.remind", lambda customer, text="": shop.writes.append((customer, text)))
    answer = shop.run(code, [2, 3], approve=())
    assert [dict(call.args)["customer"] for call in shop.person.questions[0].calls] == [
        "1",
        "2",
        "4",
    ]
    assert shop.writes == [(2, ""), (4, "")]
    assert answer.value == ["<result of a write>", "end"]
    assert answer.ok
    assert len(shop.person.questions) == 1


def test_rule_5_a_named_write_that_needs_a_skipped_one_is_not_made(shop: Shop) -> None:
    """`approve=` names its tool, and its argument is not there."""
    shop.add("crm.send", lambda text: shop.writes.append(("send", text)))
    code = (
        "import crm\nx ="
        " crm.remind(customer=1)\ncrm.remind(customer=2)\ncrm.send(text=x)\ncrm.send(text='y')"
    )
    answer = shop.run(code, [2, 3], approve=["crm.send"])
    assert shop.writes == [("remind", 2), ("send", "y")]
    assert [row["state"] for row in answer.plan] == ["skipped", "made", "made", "not reached"]
    assert answer.plan[3]["args"] == {"text": "<result of a write>"}
    assert not answer.ok


def test_rule_5_a_chosen_write_that_is_not_reached_is_told(shop: Shop) -> None:
    """The result of the first write sends the program another way: the third, which was allowed, is
    not made."""
    code = (
        "import crm\ntry:\n    crm.fail(customer=1)\nexcept RuntimeError:\n   "
        " crm.customers(region='x')\nelse:\n    crm.remind(customer=2)\ncrm.remind(customer=3)"
    )
    answer = shop.run(code, [1, 2, 3])
    assert shop.writes == [("fail", 1), ("remind", 3)]
    assert [row["state"] for row in answer.plan] == ["failed", "not reached", "made"]
    assert (answer.stop_reason, answer.ok) == ("done", False)
    assert "1 of 3 writes made, 1 failed, 1 not reached." in answer.note
    row = next(row for row in shop.box.log.history() if row.tool == "program")
    assert (row.ok, row.reason) == (False, "writes_not_made")


def test_rule_5_a_program_that_ends_early_says_what_was_made(shop: Shop) -> None:
    """It looks at the result of the write that was skipped: what was chosen before is made and
    told."""
    code = (
        "import crm\nx ="
        " crm.remind(customer=1)\ncrm.remind(customer=2)\nprint('here')\nx['id']\ncrm.remind(customer=3)"
    )
    answer = shop.run(code, [2])
    assert shop.writes == [("remind", 2)]
    assert isinstance(answer.error, ProgramFailed)
    assert "The result of a write that has not run is not known" in answer.error.message
    assert answer.text == "here\n"
    assert [row["state"] for row in answer.plan] == ["skipped", "made"]
    assert "1 of 2 writes made, 1 skipped." in answer.note


def test_rule_5_a_later_question_keeps_what_an_earlier_one_settled(shop: Shop) -> None:
    code = (
        "import crm\ncrm.remind(customer=1)\nx = crm.remind(customer=2)\ncrm.remind(customer=3)\n"
        "y = x['id']\ncrm.remind(customer=y + 10)\ncrm.remind(customer=y + 11)"
    )
    answer = shop.run(code, [2, 3], [2])
    assert shop.writes == [("remind", 2), ("remind", 3), ("remind", 13)]
    assert [(row["args"]["customer"], row["state"]) for row in answer.plan] == [
        (1, "skipped"),
        (2, "made"),
        (3, "made"),
        (12, "skipped"),
        (13, "made"),
    ]


def test_rule_5_a_choice_holds_after_a_resume(make_shop: Callable[..., Shop]) -> None:
    """A kernel that ends after some writes: what was skipped stays skipped, and what is left is
    asked again."""
    first = make_shop()
    first.run(SIX)
    program = first.waiting
    first.stop_at = 2
    answer = first.resume(program, [1, 3, 4, 6])
    assert answer.stop_reason == "interrupted"
    assert [row["state"] for row in answer.plan] == [
        "made",
        "skipped",
        "made",
        "in doubt",
        "not reached",
        "not reached",
    ]
    second = make_shop()
    answer = second.resume(program, [2, 3], decision="again")
    assert [dict(call.args)["customer"] for call in second.person.last.calls] == ["9", "10", "11"]
    assert first.writes + second.writes == [("remind", number) for number in (6, 8, 10, 11)]
    assert [row["state"] for row in answer.plan] == [
        "made",
        "skipped",
        "made",
        "skipped",
        "made",
        "made",
    ]
    assert answer.ok


def test_rule_5_a_no_ends_the_program(shop: Shop) -> None:
    answer = shop.run(REMIND, "none")
    assert isinstance(answer.error, NotApproved)
    assert not shop.writes
    assert not shop.box.ask.waiting()


@pytest.mark.parametrize("numbers", [[5], [1, 5], [0, 1], [-1]])
def test_a_number_outside_of_the_plan_is_no_answer(shop: Shop, numbers: list[int]) -> None:
    answer = shop.run(REMIND, numbers)

    assert not answer.ok
    assert f"named write {min(set(numbers) - {1})}, and there are 4" in str(answer.error)
    assert not shop.writes
    assert [row["state"] for row in answer.plan] == ["not reached"] * 4
    again = shop.resume(shop.waiting, [1])
    assert again.ok
    assert len(shop.writes) == 1


def test_the_time_of_an_answer_is_not_that_of_the_program(shop: Shop) -> None:
    began, thought = time.monotonic(), []

    def think(question: Question) -> list[int]:
        # Longer than all before it took, however slow the machine is.
        start = time.monotonic()
        while time.monotonic() < start + (start - began) + 0.1:
            pass
        thought.append(time.monotonic() - start)
        return [1, 2, 3, 4]

    answer = shop.run(REMIND, think)

    rest = time.monotonic() - began - thought[0]
    assert answer.ok
    assert answer.seconds <= rest
    (program,) = shop.box.log.history(tool="program")
    assert program.ms <= 1000 * rest


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("all", [1, 2, 3]),
        ("1,3", [1, 3]),
        ("2-3", [2, 3]),
        ("none", []),
        ("", []),
        ("always", []),
        ("always all", []),
        ("yes", []),
        ("4", []),
        ("1; rm", []),
    ],
)
def test_rule_5_only_a_listed_reply_runs_something(typed: str, run: list[int]) -> None:
    assert approval_reply(typed, 3, offers_always=False).content.get("run", []) == run


def test_rule_5_the_program_cannot_forge_a_line_of_the_question(shop: Shop) -> None:
    """Its text is escaped, and its lines are marked."""
    shop.run("import crm\n# \x1b[2J fake\r\ncrm.remind(customer=1, text='a\\nRun? all: ')", "none")
    text = program_text(shop.person.last)
    assert "\x1b" not in text
    assert text.count("\nRun? ") == 1


def test_rule_6_without_a_person_the_program_waits(shop: Shop) -> None:
    """Nothing is raised; the note has the line that resumes it. It waits on where nobody can be
    asked then."""
    answer = shop.run(REMIND)
    assert answer.stop_reason == "waiting"
    assert answer.ok
    assert f"%ask --resume {shop.waiting}" in answer.note
    assert answer.plan[0] == {"tool": "crm.remind", "args": {"customer": 8}, "state": "not reached"}
    again = shop.resume(shop.waiting)
    assert again.stop_reason == "waiting"
    assert not shop.writes
    done = shop.resume(shop.waiting, "all")
    assert (done.stop_reason, done.value) == ("done", 4)
    assert shop.writes == FOUR
    assert shop.reads == [("customers", "eu")]


def test_rule_6_plan_makes_no_write_even_with_a_yes(shop: Shop) -> None:
    answer = shop.run(REMIND, "all", plan=True, approve=["*"])
    assert answer.stop_reason == "waiting"
    assert len(answer.plan) == 4
    assert (shop.writes, shop.person.questions) == ([], [])


@pytest.mark.parametrize("options", [{}, {"plan": True}], ids=["nobody", "plan"])
def test_rule_6_a_program_that_waits_shows_itself_and_its_writes(
    shop: Shop, options: dict[str, Any]
) -> None:
    """As the question does: the program, a table of the writes, what was read, and how to go on."""
    answer = shop.run(REMIND, **options)
    assert list(answer.plan.df["args"]) == [{"customer": number} for number in range(8, 12)]
    text = mime_bundle(answer, str)["text/plain"]
    shop.run(REMIND, "none")
    question = program_text(shop.person.last).rpartition("\n")[0]
    assert question in text
    assert "  4.  crm.remind  11\n" in text
    assert f"%ask --resume {shop.box.ask.waiting()[0]['id']}" in text


@pytest.mark.parametrize("reply", [None, "none"], ids=["waits", "no"])
def test_rule_6_what_is_printed_behind_a_stand_in_has_not_happened(
    shop: Shop, reply: str | None
) -> None:
    code = "import crm\nprint('looked')\ncrm.remind(customer=1)\nprint('reminded customer 1')"
    assert shop.run(code, reply).text == "looked\n"
    assert shop.run(code, "all").text == "looked\nreminded customer 1\n"


def test_rule_6_what_a_failing_program_printed_stays(shop: Shop) -> None:
    answer = shop.run("import crm\nprint('before')\ncrm.customers()\nprint('after')\n1 / 0")
    assert answer.text == "before\nafter\n"
    assert "before\nafter" in mime_bundle(answer, str)["text/plain"]


def test_rule_7_another_kernel_goes_on_once(make_shop: Callable[..., Shop]) -> None:
    first = make_shop()
    first.run(REMIND)
    program = first.waiting
    second = make_shop()
    assert second.resume(program, "all").value == 4
    assert (second.reads, second.writes) == ([], FOUR)
    with pytest.raises(UsageProblem, match="waits"):
        first.resume(program, "all")
    assert first.writes == []


def test_rule_7_the_folder_is_private(shop: Shop, tmp_path: Path) -> None:
    shop.run(REMIND)
    folder = _folder(tmp_path, shop.waiting)
    assert has_mode(folder, 0o700)
    assert {file.name for file in folder.iterdir()} == {"program.json", "journal.jsonl", "digest"}
    assert all(has_mode(file, 0o600) for file in folder.iterdir())


def test_rule_7_a_program_is_gone_when_it_has_ended(shop: Shop, tmp_path: Path) -> None:
    program = REMIND + "\n1 / 0 if sent else 0"
    shop.run(program, "all")
    shop.run(REMIND, "all")
    assert not [path for path in (tmp_path / "state").rglob("*") if path.name == "journal.jsonl"]
    assert not list((tmp_path / "state").rglob("programs/*.lock"))


def test_rule_7_it_expires_as_results_do(make_shop: Callable[..., Shop], tmp_path: Path) -> None:
    shop = make_shop("output: {result_ttl_s: 3600}")
    shop.run(REMIND)
    program = shop.waiting
    record = json.loads((_folder(tmp_path, program) / "program.json").read_text(encoding="utf-8"))
    created, expires = (datetime.fromisoformat(record[key]) for key in ("created", "expires"))
    assert expires - created == timedelta(hours=1)
    store = shop.box.ask._programs._store()
    store._now = lambda: datetime.now(UTC) + timedelta(hours=2)
    with pytest.raises(UsageProblem, match="expired"), store.open(program):
        pass
    assert not shop.box.ask.waiting()


def test_rule_7_a_masked_answer_is_read_again(
    make_shop: Callable[..., Shop], tmp_path: Path
) -> None:
    shop = make_shop(secrets="KEY: verysecretvalue123\n")
    keys: list[int] = []

    def key() -> dict[str, str]:
        keys.append(1)
        return {"key": "verysecretvalue123"}

    shop.add("crm.key", key, read_only=True)
    shop.run("import crm\nk = crm.key()['key']\ncrm.remind(customer=len(k))\nlen(k)")
    folder = _folder(tmp_path, shop.waiting)
    assert all(b"verysecretvalue123" not in file.read_bytes() for file in folder.iterdir())
    answer = shop.resume(shop.waiting, "all")
    assert answer.value == len("verysecretvalue123")
    assert len(keys) == 2


def test_rule_7_a_program_with_a_secret_cannot_be_resumed(
    make_shop: Callable[..., Shop], tmp_path: Path
) -> None:
    shop = make_shop(secrets="KEY: verysecretvalue123\n")
    answer = shop.run("import crm\ncrm.remind(customer=1, text='verysecretvalue123')")
    assert "cannot be resumed" in answer.note
    assert "--resume" not in answer.note
    folder = _folder(tmp_path, shop.waiting)
    assert all(b"verysecretvalue123" not in file.read_bytes() for file in folder.iterdir())
    with pytest.raises(ProgramChanged, match="secret"):
        shop.resume(shop.waiting, "all")
    assert not shop.writes


def test_rule_7_a_changed_tool_is_refused(make_shop: Callable[..., Shop]) -> None:
    first = make_shop()
    first.run(REMIND)
    program = first.waiting
    second = make_shop()
    second.add("crm.customers", lambda region: [{"id": 666, "owes": 1000}], read_only=True)
    with pytest.raises(ProgramChanged, match=r"crm\.customers"):
        second.resume(program, "all")
    assert not second.writes


@pytest.mark.parametrize("change", ["program", "answer", "cut", "line", "swap", "no digest"])
def test_rule_7_a_file_changed_by_hand_is_refused(shop: Shop, tmp_path: Path, change: str) -> None:
    shop.run(REMIND)
    program = shop.waiting
    folder = _folder(tmp_path, program)
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    if change == "program":
        file = folder / "program.json"
        file.write_bytes(file.read_bytes().replace(b"97", b"07"))
    elif change == "answer":
        journal.write_bytes(b"".join(lines).replace(b'"id": 8', b'"id": 9'))
    elif change == "cut":
        journal.write_bytes(b"".join(lines[:-1]))
    elif change == "line":
        journal.write_bytes(
            b"".join(lines) + b'{"kind": "again", "tool": "crm.remind", "args": {}, "chain": "x"}\n'
        )
    elif change == "swap":
        journal.write_bytes(b"".join(reversed(lines)))
    else:
        (folder / "digest").unlink()
    with pytest.raises(ProgramChanged, match="not as they were written"):
        shop.resume(program, "all")
    assert not shop.writes
    shop.box.ask.drop(program)
    assert not shop.box.ask.waiting()


def test_rule_7_another_project_is_refused(make_shop: Callable[..., Shop]) -> None:
    shop = make_shop()
    shop.run(REMIND)
    other = make_shop(folder="other")
    assert not other.box.ask.waiting()
    with pytest.raises(ProgramChanged, match="another project"):
        other.resume(shop.waiting, "all")
    assert not other.writes


def test_rule_7_a_second_kernel_is_refused(make_shop: Callable[..., Shop]) -> None:
    """While the first one asks its person, the second cannot go on with the program."""
    first, second = make_shop(), make_shop()
    first.run(REMIND)
    program = first.waiting
    refusals: list[str] = []

    def meanwhile(_question: Question) -> str:
        with pytest.raises(ProgramBusy) as info:
            second.resume(program, "all")
        refusals.append(info.value.message)
        with pytest.raises(ProgramBusy):
            second.box.ask.drop(program)
        return "all"

    assert first.resume(program, meanwhile).value == 4
    assert "another kernel" in refusals[0]
    assert (first.writes, second.writes) == (FOUR, [])


@pytest.mark.parametrize("program", ["../../etc", "0123456789", "x", "", "a" * 1000])
def test_rule_7_an_unknown_id_touches_no_path(shop: Shop, program: str) -> None:
    with pytest.raises(UsageProblem, match="waits"):
        shop.resume(program)
    with pytest.raises(UsageProblem, match="waits"):
        shop.box.ask.drop(program)


@pytest.fixture
def unsure(shop: Shop) -> Shop:
    """A shop with a program that was stopped in its third write."""
    shop.run(REMIND)
    shop.stop_at = 2
    assert shop.resume(shop.waiting, "all").stop_reason == "interrupted"
    assert shop.writes == FOUR[:2]
    return shop


def test_rule_8_a_write_in_doubt_is_named(unsure: Shop) -> None:
    with pytest.raises(ProgramUnsure) as info:
        unsure.resume(unsure.waiting, "all")
    assert "during write 3" in info.value.message
    assert '{"customer": 10}' in info.value.message
    assert "skip" in info.value.hint
    assert "again" in info.value.hint
    assert unsure.writes == FOUR[:2]


@pytest.mark.parametrize(("decision", "writes"), [("skip", [11]), ("again", [10, 11])])
def test_rule_8_skip_or_again(unsure: Shop, decision: str, writes: list[int]) -> None:
    """What is left is shown and asked again; nothing is repeated, nothing is dropped."""
    answer = unsure.resume(unsure.waiting, "all", decision=decision)
    assert answer.value == 4
    assert [dict(call.args) for call in unsure.person.last.calls] == [
        {"customer": str(each)} for each in writes
    ]
    assert unsure.writes == FOUR[:2] + [("remind", each) for each in writes]


def test_rule_8_again_is_a_question_and_not_a_yes(unsure: Shop) -> None:
    answer = unsure.resume(unsure.waiting, decision="again")
    assert answer.stop_reason == "waiting"
    assert unsure.writes == FOUR[:2]


def test_rule_8_a_decision_without_a_doubt_is_refused(shop: Shop) -> None:
    shop.run(REMIND)
    with pytest.raises(UsageProblem, match="no write that is in doubt"):
        shop.resume(shop.waiting, "all", decision="again")
    with pytest.raises(UsageProblem, match="'skip' or 'again'"):
        shop.resume(shop.waiting, "all", decision="maybe")
    assert not shop.writes


def test_rule_9_the_value_is_whole_and_rows_are_a_frame(shop: Shop) -> None:
    answer = shop.run("import crm\ncrm.customers()")
    assert len(answer.value) == 12
    assert answer.df.shape == (12, 3)
    assert answer.program == "import crm\ncrm.customers()"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("10**5000", "0x31e2"),
        ("raise SystemExit(3)", "RuntimeError: "),
        ("lambda: 1", "<function"),
        ("{1: {2, 3}}", "2"),
    ],
)
def test_rule_9_an_odd_end_is_shown_in_words(shop: Shop, code: str, words: str) -> None:
    """A number too long to be written, an exception that the sandbox cannot make, a function, a
    set."""
    answer = shop.run(code)
    text = mime_bundle(answer, str)["text/plain"]
    assert words in text
    assert "monty" not in text
    assert answer.to_dict()


def test_rule_10_stop_during_a_write_leaves_it_in_doubt(shop: Shop) -> None:
    def stop(customer: int) -> None:
        shop.writes.append(("stop", customer))
        raise KeyboardInterrupt

    shop.add("crm.stop", stop)
    answer = shop.run(
        "import crm\ncrm.remind(customer=1)\ncrm.stop(customer=2)\ncrm.remind(customer=3)", "all"
    )
    assert answer.stop_reason == "interrupted"
    assert shop.writes == [("remind", 1), ("stop", 2)]
    assert [call.name for call in answer.calls] == ["crm.remind"]
    with pytest.raises(ProgramUnsure, match="write 2"):
        shop.resume(shop.waiting, "all")


def _hooks(send: Callable[[dict[str, Any]], Any]) -> HttpHooks:
    origins = ("https://web.example.com",)
    return HttpHooks(send=send, preview=lambda _args: [], origins=origins, has_credentials=False)


def _add_http(shop: Shop, **facts: Any) -> list[Any]:
    sent: list[Any] = []

    def send(args: dict[str, Any]) -> str:
        sent.append(args)
        return "ok"

    schema = {"type": "object", "properties": {"q": {"type": "integer"}}}
    spec = ToolSpec(
        name="web.get", description="Get.", parameters=schema, run=send, read_only=True, **facts
    )
    shop.box.registry.register(spec)
    return sent


_REACH_OUT = "import web\nfor i in range(30):\n    web.get(q=i)\n'done'"


def test_rule_11_reads_that_reach_out_are_limited(shop: Shop) -> None:
    """A loop can carry data out: the 21st call needs a yes, and without a person the program
    ends."""
    sent = _add_http(shop, http=_hooks(lambda args: sent.append(args)))
    answer = shop.run(_REACH_OUT)
    assert isinstance(answer.error, ProgramLimit)
    assert len(sent) == 20
    sent.clear()
    assert shop.run(_REACH_OUT, "none").error is not None
    assert len(sent) == 20
    sent.clear()
    assert shop.run(_REACH_OUT, "yes").value == "done"
    assert len(sent) == 30
    assert "web.get" in shop.person.last.details[0]
    sent.clear()
    assert shop.run(_REACH_OUT, approve=["web.get"]).value == "done"
    assert not shop.person.questions


def test_rule_11_calls_without_arguments_and_local_tools_are_not_counted(shop: Shop) -> None:
    sent = _add_http(shop, http=_hooks(lambda args: sent.append(args)))
    assert shop.run("import web\nfor i in range(30):\n    web.get()\n'done'").value == "done"
    assert (
        shop.run("import crm\nfor i in range(30):\n    crm.customers(region=str(i))\n'done'").value
        == "done"
    )


@pytest.mark.parametrize(
    ("trusted", "hints", "is_open"),
    [(True, {"open world": False}, False), (True, {}, True), (True, {"open world": True}, True)],
)
def test_rule_11_a_trusted_server_may_say_otherwise(
    make_shop: Callable[..., Shop], trusted: bool, hints: dict[str, bool], is_open: bool
) -> None:
    shop = make_shop("servers: {web: {command: 'true', trusted: true}}")
    sent = _add_http(shop, server_facts=ServerFacts(server="web", hints=hints))
    answer = shop.run(_REACH_OUT)
    assert (len(sent) == 20) is is_open
    assert (answer.error is not None) is is_open


@pytest.mark.slow
def test_limit_of_calls_over_all_rounds(shop: Shop) -> None:
    code = f"import crm\nfor i in range({MAX_CALLS + 5}):\n    crm.customers(region=str(i))"
    answer = shop.run(code)
    assert isinstance(answer.error, ProgramLimit)
    assert len(shop.reads) == MAX_CALLS


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    "code",
    ["x=1\n" * 250_000, "(" * 1_000_000, "\n" * 19_999 + "1"],
    ids=["lines", "deep", "empty"],
)
def test_limit_of_the_programs_length_holds_before_it_is_read(shop: Shop, code: str) -> None:
    """A program of 1 MB is refused at once, and one of many lines is read in time that grows with
    them."""
    answer = shop.run(code)
    is_long = len(code) > 20_000
    assert isinstance(answer.error, ProgramLimit) == is_long
    assert is_long or answer.value == 1


def test_limit_of_writes_in_a_plan(shop: Shop) -> None:
    answer = shop.run("import crm\nfor i in range(201):\n    crm.remind(customer=i)", "all")
    assert isinstance(answer.error, ProgramLimit)
    assert "200 writes" in answer.error.message
    assert (shop.writes, shop.person.questions) == ([], [])


@pytest.mark.parametrize("size", ["rows", "text", "1 GB"])
def test_limit_of_a_result_names_the_handle(shop: Shop, size: str) -> None:
    # Nobody touches the gigabyte, so it takes no memory.
    values = {"rows": [{"a": 1}] * 50_001, "text": "x" * 8_000_001, "1 GB": np.zeros(125_000_000)}
    shop.add("crm.big", lambda: values[size], read_only=True)
    code = "import crm\ntry:\n    crm.big()\nexcept MemoryError as e:\n    s = str(e)\ns"
    answer = shop.run(code)
    assert "50,000 rows" in answer.value
    handle = answer.value.split("handle='")[1].split("'")[0]
    if size != "1 GB":
        assert shop.box.results.query(handle, limit=1)["total_lines"] >= 1


@pytest.mark.slow
def test_limit_of_the_arguments_of_a_call(shop: Shop) -> None:
    """8 MB: more is a MemoryError in the program, before anything is asked or run."""
    shop.add("crm.put", lambda text: shop.writes.append(len(text)))
    code = (
        "import crm\ntry:\n    crm.put(text='x' * 8_000_001)\nexcept MemoryError as e:\n    s ="
        " str(e)\ns"
    )
    answer = shop.run(code, "all")
    assert "The arguments of 'crm.put' are larger than 8 MB" in answer.value
    assert (shop.writes, shop.person.questions) == ([], [])
    assert shop.run("import crm\ncrm.put(text='x' * 7_000_000)", "all").ok
    assert shop.writes == [7_000_000]


@pytest.mark.parametrize("line", ["crm.put(x=x)", "x"])
def test_limit_of_a_value_that_is_small_in_the_sandbox_and_endless_outside(
    shop: Shop, line: str
) -> None:
    """A list that holds the same list twice, forty times over: whoever went through it never came
    back."""
    shop.add("crm.put", lambda x: shop.writes.append(x))
    answer = shop.run(f"import crm\nx = []\nfor i in range(40):\n    x = [x, x]\n{line}", "all")
    assert "larger than" in str(answer.error)
    assert (shop.writes, shop.person.questions) == ([], [])


@pytest.mark.slow
def test_limit_of_the_arguments_of_a_program(shop: Shop) -> None:
    """64 MB over all calls of one run of the program."""
    shop.add("crm.size", lambda text: shop.reads.append(len(text)), read_only=True)
    answer = shop.run(
        "import crm\ntext = 'x' * 7_900_000\nfor i in range(9):\n    crm.size(text=text)"
    )
    assert isinstance(answer.error, ProgramLimit)
    assert "64 MB of arguments" in answer.error.message
    assert len(shop.reads) == 8


@pytest.mark.slow
def test_limit_of_programs_that_wait(shop: Shop) -> None:
    for _ in range(20):
        shop.run("import crm\ncrm.remind(customer=1)")
    answer = shop.run("import crm\ncrm.remind(customer=1)", "all")
    assert isinstance(answer.error, ProgramLimit)
    assert not shop.writes
    shop.box.ask.drop(shop.box.ask.waiting()[0]["id"])
    assert shop.run("import crm\ncrm.remind(customer=1)", "all").stop_reason == "done"


def _fill_disk(patch: pytest.MonkeyPatch, kind: bytes) -> None:
    """Let no line of one kind be written."""
    written = os.write

    def full(fd: int, data: Any) -> int:
        if b'"kind": "%b"' % kind in bytes(data):
            raise OSError(28, "No space left on device")
        return written(fd, data)

    patch.setattr(os, "write", full)


def test_a_full_disk_before_a_write_means_no_write(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write is not made where it cannot be noted first."""
    shop.run(REMIND)
    program = shop.waiting
    _fill_disk(monkeypatch, b"begun")
    answer = shop.resume(program, "all")
    assert answer.stop_reason == "error"
    assert "disk" in answer.note
    assert not shop.writes


def test_a_full_disk_after_a_write_leaves_it_in_doubt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write was made and could not be noted: the program ends there, and the next resume
    asks."""
    shop.run(REMIND)
    program = shop.waiting
    with monkeypatch.context() as patch:
        _fill_disk(patch, b"done")
        assert shop.resume(program, "all").stop_reason == "error"
    assert shop.writes == FOUR[:1]
    with pytest.raises(ProgramUnsure, match="write 1"):
        shop.resume(program, "all")
    assert shop.resume(program, "all", decision="skip").value == 4
    assert shop.writes == FOUR


def test_a_variable_that_is_too_large_is_refused(shop: Shop) -> None:
    with pytest.raises(UsageProblem, match="'df'"):
        shop.run("len(df)", variables={"df": [1] * 50_001})


def test_a_program_that_comes_to_another_place_makes_nothing_more(shop: Shop) -> None:
    """Files that fit together, and an answer that belongs to another program."""
    shop.run(REMIND)
    programs = shop.box.ask._programs._store()
    with programs.open(shop.waiting) as kept:
        record, lines = kept.record, list(kept.lines)
        kept.delete()
    other = record.model_copy(
        update={"code": "import crm\nlen(crm.customers(region='us'))\ncrm.remind(customer=1)"}
    )
    with programs.keep(other) as kept:
        for line in lines:
            kept.append(**line)
    answer = shop.resume(record.id, "all")
    assert isinstance(answer.error, ProgramChanged)
    assert "same place" in answer.error.message
    assert not shop.writes
