"""The plan of a program: which results it may look at, the question about its writes, and a yes for each once."""

from __future__ import annotations

from typing import Any

import pytest

from onetool_ipy.core.tool import ServerFacts, ToolSpec
from onetool_ipy.llm.programs.plan import Decisions, Plan, PlannedWrite, SourceMap, WriteKey, call_key, has_stand_in
from onetool_ipy.llm.programs.sandbox import HostCall, StandIn


def write(fingerprint: str = "f", **args: Any) -> PlannedWrite:
    facts = ServerFacts(server="shop", hints={"destructive": True})
    spec = ToolSpec(name="shop.order", description="Order.", parameters={}, run=lambda _: None, server_facts=facts)
    return PlannedWrite(spec=spec, args=args, key=WriteKey(call_key("shop.order", args), fingerprint))


def test_a_decision_is_for_one_write_as_it_was_shown() -> None:
    decisions = Decisions()
    decisions.decide(Plan(writes=[write(n=1), write(n=1), write(n=2), write(n=3)]), {1, 4})

    assert [decisions.take(write(n=1).key) for _ in range(3)] == ["yes", "no", "unknown"]
    assert decisions.take(write("other", n=2).key) == "no"
    assert decisions.take(write("other", n=3).key) == "changed"
    decisions.decide(Plan(), set())
    assert decisions.take(write(n=2).key) == "unknown"


def test_the_order_of_arguments_makes_no_other_call() -> None:
    assert call_key("t", {"a": 1, "b": 2}) == call_key("t", {"b": 2, "a": 1})
    assert call_key("t", {"a": 1}) != call_key("t", {"a": "1"})


def test_the_question_has_every_write_and_what_was_read() -> None:
    question = Plan(writes=[write(n=1)], may_be_more=True).question("code", {"crm.list": 2}, "")

    assert question.text == "The program wants to make a write."
    assert question.details == ("May be more: depends on results.", "It has read: crm.list 2×.")
    [call] = question.calls
    assert (call.args, call.badges) == ((("n", "1"),), ("server shop", "destructive"))
    assert Plan(writes=[write(), write()]).question("", {}, "r_1").details == (
        "2 writes, of which the first 20 are shown. All: ot.result('r_1')",
        "It has read nothing.",
    )


@pytest.mark.parametrize(
    ("code", "is_used"), [("f(1)", False), ("é = 1\nf(1)", False), ("x = f(1)", True), ("[f(1)]", True)]
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

    assert all(map(has_stand_in, (stand_in, [1, (stand_in,)], {"a": {"b": stand_in}})))
    assert not has_stand_in({"a": [1, "x"]})
