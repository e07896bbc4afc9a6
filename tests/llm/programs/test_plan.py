"""The plan of a program: which results it may look at, the question about its writes, and a yes for
each once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy.core.tool import ServerFacts, ToolSpec
from onetool_ipy.llm.programs.plan import (
    Plan,
    PlannedWrite,
    ProgramWrites,
    SourceMap,
    WriteKey,
    call_key,
    stand_ins,
)
from onetool_ipy.llm.programs.sandbox import HostCall, StandIn


def write(**args: Any) -> PlannedWrite:
    return PlannedWrite(key=WriteKey(call_key("shop.order", args), "f"), text=json.dumps(args))


def plan(*writes: PlannedWrite, **facts: Any) -> Plan:
    server = ServerFacts(server="shop", hints={"destructive": True})
    spec = ToolSpec(
        name="shop.order",
        description="Order.",
        parameters={},
        run=lambda _: None,
        server_facts=server,
    )
    return Plan(writes=list(writes), tools={"shop.order": spec}, **facts)


def test_a_decision_is_for_one_write_as_it_was_shown() -> None:
    first, second, third = write(n=1), write(n=1), write(n=2)
    writes = ProgramWrites()
    writes.show(plan(first, second, third))
    writes.decide({1})

    assert [writes.take(write(n=1).key.call) for _ in range(3)] == [first, second, None]
    assert (first.is_chosen, second.is_chosen) == (True, False)
    writes.show(plan(write(n=3)))
    assert writes.take(third.key.call) is None


def test_a_write_gives_new_arguments_at_each_request() -> None:
    one = write(rows=[1])
    one.args["rows"].append(2)

    assert one.args == {"rows": [1]}


def test_a_new_question_keeps_what_was_settled_and_what_was_chosen_in_vain() -> None:
    """A chosen write that comes again is in the list once; one that was not chosen and not reached
    is over."""
    writes = ProgramWrites()
    writes.show(plan(write(n=1), write(n=2), write(n=3), write(n=3), write(n=4)))
    writes.decide({1, 2, 3, 4})
    for number, state in ((1, "made"), (2, "failed")):
        taken = writes.take(write(n=number).key.call)
        assert taken is not None
        taken.state = state  # type: ignore[assignment]  # the states of the table above
    writes.show(plan(write(n=3), write(n=5)))

    assert [(row["args"]["n"], row["state"]) for row in writes.rows()] == [
        (1, "made"),
        (2, "failed"),
        (3, "not reached"),
        (3, "not reached"),
        (5, "not reached"),
    ]
    assert writes.unmade_count == 2
    assert writes.summary() == "1 of 5 writes made, 1 failed, 3 not reached."


def test_the_order_of_arguments_makes_no_other_call() -> None:
    assert call_key("t", {"a": 1, "b": 2}) == call_key("t", {"b": 2, "a": 1})
    assert call_key("t", {"a": 1}) != call_key("t", {"a": "1"})


def test_the_question_has_every_write_and_what_was_read() -> None:
    question = plan(write(n=1), may_be_more=True).question("code", {"crm.list": 2}, "")

    assert question.text == "The program wants to make a write."
    assert question.details == ("May be more: depends on results.", "It has read: crm.list 2×.")
    [call] = question.calls
    assert (call.args, call.badges) == ((("n", "1"),), ("server shop", "destructive"))
    assert plan(write(), write()).question("", {}, "r_1").details == (
        "2 writes, of which the first 20 are shown. All: ot.result('r_1')",
        "It has read nothing.",
    )


@pytest.mark.parametrize(
    ("code", "is_used"),
    [("f(1)", False), ("é = 1\nf(1)", False), ("x = f(1)", True), ("[f(1)]", True)],
)
def test_a_result_that_is_thrown_away_is_not_used(code: str, is_used: bool) -> None:
    start = code.encode().index(b"f(1)")
    call = HostCall(function="f", args=(1,), kwargs={}, start=start, end=start + 4)

    assert SourceMap(code).is_used(call) is is_used


def test_a_program_that_catches_or_cannot_be_read_may_do_anything() -> None:
    assert SourceMap("try:\n    f()\nexcept ValueError:\n    pass").catches
    assert SourceMap("(").catches
    assert not SourceMap("f()").catches


def test_a_stand_in_is_found_wherever_it_is() -> None:
    stand_in = StandIn()

    for value in (stand_in, [1, (stand_in,)], {"a": {"b": stand_in}}):
        assert list(stand_ins(value)) == [stand_in]
    assert not list(stand_ins({"a": [1, "x"]}))
