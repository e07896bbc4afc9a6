"""`ask --code`: how a model hands a program over, what it sees, and how it may correct it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.llm.answer_type import AnswerMismatch
from onetool_ipy.llm.ask.answer import Answer, call_view, summary
from onetool_ipy.llm.programs.handover import MAX_SEEN
from tests.llm.programs.conftest import REMIND, Person, Shop

FOUR = [("remind", number) for number in range(8, 12)]


def _ask(shop: Shop, model: ScriptedModel, *replies: Any, **options: Any) -> Answer:
    shop.person = Person(*replies)
    shop.box.host = shop.person
    return shop.box.ask(
        "Remind those who owe more than 97.", model=model, **{"code": True, **options}
    )


def test_rule_19_as_the_argument_of_an_offered_tool(shop: Shop) -> None:
    model = ScriptedModel([("program", {"code": REMIND}), "Four were reminded."])
    answer = _ask(shop, model, "all")
    assert model.requests[0].offered == ["program"]
    assert [tool.name for tool in model.requests[0].tools] == ["program"]
    assert (answer.text, answer.value, answer.program, answer.stop_reason) == (
        "Four were reminded.",
        4,
        REMIND,
        "done",
    )
    assert shop.writes == FOUR
    assert {row.source for row in shop.box.log.history() if row.tool.startswith("crm.")} == {
        "model"
    }
    assert [call.name for call in answer.calls if call.is_tool] == [
        "crm.customers",
        *["crm.remind"] * 4,
    ]


def test_rule_19_as_one_fenced_block(shop: Shop) -> None:
    model = ScriptedModel(
        [f"I will do that:\n\n```python\n{REMIND}```\n", "Done:\n```python\nprint(1)\n```"]
    )
    answer = _ask(shop, model, "all")
    assert answer.value == 4
    assert answer.text.startswith("Done:")
    assert shop.writes == FOUR


@pytest.mark.parametrize("text", ["No block.", "```\na\n```\n\n```\nb\n```", "```python\nprint(1)"])
def test_rule_19_another_reply_is_an_answer(shop: Shop, text: str) -> None:
    answer = _ask(shop, ScriptedModel([text]))
    assert (answer.text, answer.stop_reason, answer.program) == (text, "done", None)


def test_rule_2_the_model_gets_the_errors_and_may_correct_it(shop: Shop) -> None:
    """A refused program is a step: it makes no call, and the model reads what is wrong with it."""
    wrong = REMIND.replace('"owes"', '"debt"')
    model = ScriptedModel([("program", {"code": wrong}), ("program", {"code": REMIND}), "Done."])
    answer = _ask(shop, model, "all")
    error = model.requests[1].outcomes[0].content["error"]
    assert error["reason"] == "program_types"
    assert "debt" in error["message"]
    assert answer.value == 4
    assert shop.reads == [("customers", "eu")]
    with_limit = ScriptedModel([("program", {"code": wrong})] * 2 + ["I give up."])
    assert _ask(shop, with_limit, max_steps=2).stop_reason == "max_steps"


def test_rule_6_a_program_that_waits_ends_the_ask(shop: Shop) -> None:
    model = ScriptedModel([("program", {"code": REMIND})])
    answer = _ask(shop, model)
    assert answer.stop_reason == "waiting"
    assert f"%ask --resume {shop.waiting}" in answer.note
    assert len(answer.plan) == 4
    assert shop.resume(shop.waiting, "all").value == 4
    assert shop.writes == FOUR
    assert {row.source for row in shop.box.log.history() if row.tool == "crm.remind"} == {"model"}


def test_rule_6_plan_shows_and_keeps(shop: Shop) -> None:
    answer = _ask(
        shop,
        ScriptedModel([("program", {"code": REMIND})]),
        "all",
        code=False,
        plan=True,
        approve=["*"],
    )
    assert (answer.stop_reason, len(answer.plan), shop.writes) == ("waiting", 4, [])


def test_rule_4_a_standing_yes_does_not_count_under_code(shop: Shop) -> None:
    shop.box.ask._always["crm.remind"] = shop.box.registry.require("crm.remind").fingerprint
    assert _ask(shop, ScriptedModel([("program", {"code": REMIND})])).stop_reason == "waiting"
    model = ScriptedModel([("program", {"code": REMIND}), "Done."])
    assert _ask(shop, model, approve=["crm.remind"]).stop_reason == "done"
    assert shop.writes == FOUR


def test_rule_5_a_no_is_told_to_the_model(shop: Shop) -> None:
    model = ScriptedModel([("program", {"code": REMIND}), "Then not."])
    answer = _ask(shop, model, "none")
    assert model.requests[1].outcomes[0].content["error"]["reason"] == "not_approved"
    assert (answer.text, shop.writes) == ("Then not.", [])


def test_rule_5_the_model_is_told_what_was_skipped(shop: Shop) -> None:
    model = ScriptedModel([("program", {"code": REMIND}), "Reminded them."])
    answer = _ask(shop, model, [1, 3])
    data = model.requests[1].outcomes[0].content["data"]
    assert [row["state"] for row in data["writes"]] == ["made", "skipped", "made", "skipped"]
    assert list(answer.plan.df["state"]) == ["made", "skipped", "made", "skipped"]
    assert (answer.stop_reason, answer.ok) == ("done", True)
    assert "2 of 4 writes made, 2 skipped." in answer.note
    assert answer.note in summary(answer)


def test_rule_5_an_allowed_write_that_was_not_made_is_no_success(shop: Shop) -> None:
    code = "import crm\ntry:\n    crm.fail(customer=1)\nexcept RuntimeError:\n    pass"
    model = ScriptedModel([("program", {"code": code}), "All is well."])
    answer = _ask(shop, model, "all")
    assert not answer.ok
    assert answer.plan[0]["state"] == "failed"
    assert model.requests[1].outcomes[0].content["data"]["writes"][0]["state"] == "failed"


def test_rule_6_what_a_failing_program_printed_is_told_to_model_and_person(shop: Shop) -> None:
    code = "import crm\nprint('twelve', len(crm.customers()))\n1 / 0"
    model = ScriptedModel([("program", {"code": code}), "It failed."])
    answer = _ask(shop, model)
    error = model.requests[1].outcomes[0].content["error"]
    assert error["details"]["printed"] == "twelve 12\n"
    assert error["details"]["line"] == 3
    (call,) = [call for call in answer.calls if call.name == "program"]
    assert "twelve 12" in call_view(call).problem


def test_rule_9_the_model_sees_four_kilobytes_and_a_handle(make_shop: Callable[..., Shop]) -> None:
    shop = make_shop(count=400)
    code = "import crm\nprint('x' * 9000)\ncrm.customers()"
    model = ScriptedModel([("program", {"code": code}), "Seen."])
    answer = _ask(shop, model)
    seen = model.requests[1].outcomes[0].content["data"]
    assert len(seen["value"]["preview"].encode()) <= MAX_SEEN
    assert len(seen["printed"]["preview"]) <= MAX_SEEN
    assert len(answer.value) == 400
    assert answer.df.shape == (400, 3)
    assert len(shop.box.results.value(seen["value"]["handle"])) == 400
    assert "ot.result" in model.requests[1].offered


def test_rule_9_secrets_are_masked_in_what_the_model_sees(make_shop: Callable[..., Shop]) -> None:
    shop = make_shop(secrets="KEY: verysecretvalue123\n")
    model = ScriptedModel([("program", {"code": "print('a', k)\nk"}), "Seen."])
    _ask(shop, model, attach={"k": "verysecretvalue123"})
    assert "verysecretvalue123" not in str(model.requests[1].messages)


def test_rule_10_stop_ends_the_ask_with_what_was_done(shop: Shop) -> None:
    shop.stop_at = 2
    answer = _ask(shop, ScriptedModel([("program", {"code": REMIND})]), "all")
    assert answer.stop_reason == "interrupted"
    assert f"--resume {shop.waiting}" in answer.note
    assert shop.writes == FOUR[:2]
    assert len([call for call in answer.calls if call.name == "crm.remind"]) == 2


def test_rule_3_the_allow_list_holds_and_tools_are_not_called_directly(shop: Shop) -> None:
    model = ScriptedModel([("crm.customers", {}), ("program", {"code": REMIND}), "No."])
    answer = _ask(shop, model, "all", tool_allow=["crm.customers"])
    assert model.requests[1].outcomes[0].content["error"]["reason"] == "not_allowed"
    assert model.requests[2].outcomes[0].content["error"]["reason"] == "program_types"
    assert (shop.reads, shop.writes, answer.stop_reason) == ([], [], "done")


def test_rule_3_calls_of_a_program_do_not_count_against_max_calls(
    make_shop: Callable[..., Shop],
) -> None:
    shop = make_shop("ask: {max_calls: 2}")
    assert _ask(shop, ScriptedModel([("program", {"code": REMIND}), "Done."]), "all").value == 4


def test_rule_1_named_variables_are_in_the_program(shop: Shop) -> None:
    model = ScriptedModel([("program", {"code": "sum(row['n'] for row in df)"}), "Five."])
    assert _ask(shop, model, attach={"df": [{"n": 2}, {"n": 3}]}).value == 5
    assert "as plain data: df" in model.requests[0].messages[0].text


def test_the_instructions_have_the_stubs_and_stay_the_same(shop: Shop) -> None:
    """A provider reads the beginning of a request from its cache, so it must not change."""
    model = ScriptedModel([("program", {"code": "1"}), ("program", {"code": "2"}), "Two."])
    _ask(shop, model)
    systems = {request.messages[0].text for request in model.requests}
    assert len(systems) == 1
    (text,) = systems
    assert 'def customers(region: str = ...) -> list["CustomersRow"]' in text
    assert "(asks the person)" in text
    assert (
        len([line for line in text.splitlines() if line[:2] in {f"{n}." for n in range(1, 9)}]) == 8
    )


def test_many_tools_are_searched_first(shop: Shop) -> None:
    for number in range(120):
        shop.add(f"many.tool_{number}", lambda: 1, read_only=True)
    shop.add("many.unusual_thing", lambda: 42, read_only=True)
    code = "import many\nmany.unusual_thing()"
    model = ScriptedModel(
        [("ask.search_tools", {"query": "unusual thing"}), ("program", {"code": code}), "42."]
    )
    answer = _ask(shop, model)
    assert "ask.search_tools" in model.requests[0].offered
    assert "def unusual_thing()" in str(model.requests[1].outcomes[0].content)
    assert answer.value == 42


@pytest.mark.parametrize("args", [{}, {"code": 1}, {"code": "  "}, "not json"])
def test_a_call_without_a_program_fails(shop: Shop, args: Any) -> None:
    model = ScriptedModel([("program", args), "Sorry."])
    _ask(shop, model)
    assert model.requests[1].outcomes[0].is_error


def test_python_has_the_same_verbs(shop: Shop) -> None:
    shop.run(REMIND)
    rows = shop.box.ask.waiting()
    assert rows[0]["writes"] == 4
    assert rows[0]["program"] == REMIND
    shop.box.ask.drop(rows[0]["id"])
    assert not shop.box.ask.waiting()
    with pytest.raises(UsageProblem, match="no program"):
        shop.box.ask.program("  ")


def test_rule_14_with_code_the_value_of_the_program_is_checked(shop: Shop) -> None:
    """A value of another type is a correction, and the model is told why."""
    model = ScriptedModel(
        [("program", {"code": "'two'"}), ("program", {"code": "[1, 2]"}), "Here."]
    )
    answer = _ask(shop, model, as_=list[int])
    assert answer.value == [1, 2]
    assert "wrong type" in model.requests[1].outcomes[0].content["error"]["message"]
    wrong = ScriptedModel(
        [*(("program", {"code": f"'{word}'"}) for word in ("a", "b", "c", "d")), "I cannot."]
    )
    with pytest.raises(AnswerMismatch) as info:
        _ask(shop, wrong, as_=list[int])
    assert "2 corrections" in wrong.requests[4].outcomes[0].content["error"]["message"]
    assert info.value.answer is not None
