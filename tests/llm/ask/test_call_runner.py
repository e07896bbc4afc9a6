"""The calls of one turn: in order, checked, bounded; their results go back to the model, cut,
masked and marked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy.llm import Outcomes, ScriptedModel, Turn, User
from onetool_ipy.render.media import Image
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox, Traces, TypingPerson


@pytest.mark.spec("004/Ask/Calls run in order and results join the context")
@pytest.mark.spec("004/Ask/Results go back to the model for the final answer")
def test_calls_run_in_the_models_order_and_their_results_go_back(
    box: Toolbox, traces: Traces
) -> None:
    order: list[str] = []
    for name in ("a.one", "a.two", "a.three"):
        traces.add(
            box,
            name,
            read_only=True,
            gives=lambda args, name=name: order.append(name) or {"from": name},
        )
    calls = [("a.three", {"x": "1"}), ("a.one", {}), ("a.two", {}), ("a.one", {"n": 2})]
    model = ScriptedModel([calls, "All done."])

    answer = box.ask("Go", model=model)

    assert order == ["a.three", "a.one", "a.two", "a.one"]
    first, second = model.requests
    assert len(first.messages) == 2
    turn, outcomes = second.messages[-2:]
    assert isinstance(turn, Turn)
    assert isinstance(outcomes, Outcomes)
    assert [item.call for item in outcomes.items] == list(turn.calls)
    assert [item.content["data"] for item in outcomes.items] == [{"from": name} for name in order]
    assert answer.text == "All done."
    assert answer.stop_reason == "done"


@pytest.mark.spec("004/Ask Output/toolCalls")
@pytest.mark.spec("004/Ask Output/toolResults")
def test_the_answer_holds_calls_and_results_in_the_same_order(box: Toolbox) -> None:
    model = ScriptedModel(
        [[("tools.echo", {"message": 1}), ("fs.read_file", {"path": "no"})], ("time.now", {}), "ok"]
    )

    found = box.ask("Go", model=model).to_dict()

    assert [(c["name"], c["args"]) for c in found["toolCalls"]] == [
        ("tools.echo", {"message": 1}),
        ("fs.read_file", {"path": "no"}),
        ("time.now", {}),
    ]
    assert [r["callId"] for r in found["toolResults"]] == [c["id"] for c in found["toolCalls"]]
    assert len({c["id"] for c in found["toolCalls"]}) == 3
    assert [r["ok"] for r in found["toolResults"]] == [True, False, True]
    assert all({"ok", "data", "error", "meta"} <= set(r) for r in found["toolResults"])
    assert found["toolResults"][0]["data"] == 1
    assert found["toolResults"][1]["error"]["code"] == "execution_error"
    json.dumps(found)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("none", "the person did not allow it"),
        (None, "nobody could be asked. It was not run. Allow it with approve="),
    ],
)
def test_a_call_that_is_not_approved_is_skipped_by_a_person_only(
    box: Toolbox, traces: Traces, typed: str | None, words: str
) -> None:
    class Person(TypingPerson):
        def typed(self, _text: str) -> str | None:
            return typed

    traces.add(box, "a.one")

    [call] = box.ask("Go", model=ScriptedModel([("a.one", {}), "ok"]), listener=Person()).calls

    assert words in call.result.error.message
    assert ("skipped" in call.result.meta) is (typed is not None)
    assert traces.left() == {}


@pytest.mark.spec("004/Ask Output/toolError")
def test_the_first_failure_is_the_tool_error(box: Toolbox) -> None:
    calls = [
        ("tools.echo", {"message": 1}),
        ("fs.read_file", {}),
        ("no.such", {}),
        ("time.now", {}),
    ]

    failed = box.ask("Go", model=ScriptedModel([calls, "ok"])).to_dict()["toolError"]
    fine = box.ask("Go", model=ScriptedModel([("time.now", {}), "ok"])).to_dict()["toolError"]

    assert set(failed) == {"tool", "code", "message"}
    assert (failed["tool"], failed["code"]) == ("fs.read_file", "invalid_args")
    assert "path" in failed["message"]
    assert fine is None


def test_a_failure_goes_back_to_the_model_which_may_mend_it(box: Toolbox) -> None:
    model = ScriptedModel(
        [
            ("tools.echo", {"massage": "hi"}),
            lambda request: (
                "tools.echo",
                {"message": request.outcomes[0].content["error"]["code"]},
            ),
            "mended",
        ]
    )

    answer = box.ask("Go", model=model)

    assert model.requests[1].outcomes[0].is_error
    assert answer.calls[1].result.data == "invalid_args"
    assert answer.text == "mended"


@pytest.mark.spec("004/Ask Flags/tool-allow")
def test_the_allow_list_holds_in_the_executor_too(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.secret", read_only=True)
    model = ScriptedModel([[("a.secret", {}), ("time.now", {})], "ok"])

    answer = box.ask("Go", model=model, tool_allow=["time.now"])

    assert answer.calls[0].result.error is not None
    assert answer.calls[0].result.error.reason == "not_allowed"
    assert answer.calls[1].ok
    assert traces.left() == {}


def test_a_thousand_calls_in_a_turn_are_bounded(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.b", read_only=True)
    model = ScriptedModel([[("a.b", {"n": n}) for n in range(1000)], "That was a lot."])

    answer = box.ask("Go", model=model)

    assert traces.left() == {"a.b": 50}
    assert answer.stop_reason == "limit"
    assert len(answer.calls) == 1000
    assert [call.ok for call in answer.calls] == [True] * 50 + [False] * 950
    assert "max_calls" in str(answer.calls[50].result.error)
    assert answer.text == "That was a lot."


@pytest.mark.parametrize(
    "arguments", ["{not json", '["a"]', "null", '"text"', "{}{}", "\x00", "9" * 10_000]
)
def test_arguments_that_are_no_json_object_run_nothing(
    box: Toolbox, traces: Traces, arguments: str
) -> None:
    traces.add(box, "a.b", read_only=True)
    model = ScriptedModel([[("a.b", arguments), ("a.b", {"x": "good"})], "ok"])

    answer = box.ask("Go", model=model)

    error = answer.calls[0].result.error
    assert error is not None
    assert error.code == "invalid_args"
    assert len(error.message) < 600
    assert traces.left() == {"a.b": 1}


def test_a_large_result_goes_as_a_preview_and_can_be_read_on_in(
    make_box: MakeBox, traces: Traces
) -> None:
    box = make_box("output: {max_inline_bytes: 1000, preview_lines: 3}")
    lines = "\n".join(f"line {n}" for n in range(5000))
    traces.add(box, "a.big", read_only=True, gives=lines)
    model = ScriptedModel(
        [
            ("a.big", {}),
            lambda r: (
                "ot.result",
                {"handle": r.outcomes[0].content["data"]["handle"], "offset": 4000, "limit": 2},
            ),
            "read",
        ]
    )

    answer = box.ask("Go", model=model, tool_allow=["a.big"])

    sent = model.requests[1].outcomes[0].content["data"]
    assert sent["total_lines"] == 5000
    assert sent["preview"] == ["line 0", "line 1", "line 2"]
    assert model.requests[0].offered == ["a.big"]
    assert model.requests[1].offered == ["a.big", "ot.result"]
    assert model.requests[2].outcomes[0].content["data"]["lines"] == ["line 3999", "line 4000"]
    assert answer.calls[0].result.data == lines
    assert answer.to_dict()["toolResults"][0]["data"]["total_lines"] == 5000


def test_results_of_others_are_not_read_by_the_way(make_box: MakeBox, traces: Traces) -> None:
    box = make_box("output: {max_inline_bytes: 100}")
    traces.add(box, "a.big", read_only=True, gives="x\n" * 500)
    private = box.results.put("a private result")
    model = ScriptedModel([("a.big", {}), ("ot.result", {"handle": private}), "no"])

    answer = box.ask("Go", model=model, tool_allow=["a.big"])

    assert answer.calls[1].result.error is not None
    assert answer.calls[1].result.error.reason == "not_allowed"


def test_secrets_are_masked_in_what_is_sent(make_box: MakeBox, traces: Traces) -> None:
    box = make_box(secrets="TOKEN: very-secret-value-1\n")
    traces.add(box, "a.leak", read_only=True, gives={"found": "very-secret-value-1"})
    model = ScriptedModel([("a.leak", {}), "ok"])

    answer = box.ask("Go", model=model)

    assert model.requests[1].outcomes[0].content["data"] == {"found": "***"}
    assert answer.calls[0].result.data == {"found": "very-secret-value-1"}


def test_rule_13_a_tools_picture_is_sent_beside_its_data(box: Toolbox, traces: Traces) -> None:
    picture = Image("image/png", b"\x89PNG\r\n\x1a\n drawn")
    traces.add(box, "plot.draw", read_only=True, gives=lambda args: picture)
    sighted, blind = (
        ScriptedModel([("plot.draw", {}), "ok"]),
        ScriptedModel([("plot.draw", {}), "ok"]),
    )
    blind.image_limits = lambda: None  # type: ignore[attr-defined]  # what a client of one's own may have

    answer = box.ask("Draw", model=sighted)
    box.ask("Draw", model=blind, attach={"fig": picture})

    assert answer.calls[0].result.data == picture
    (outcome,) = sighted.requests[1].outcomes
    assert outcome.content["data"] == "(image 1, sent along)"
    assert outcome.images == (("image/png", "iVBORw0KGgogZHJhd24="),)
    (outcome,) = blind.requests[1].outcomes
    assert "which this model does not take" in outcome.content["data"]
    assert outcome.images == ()
    assert "an image of 14 bytes, which this model does not take" in blind.requests[0].prompt
    assert all(
        not message.images for message in blind.requests[0].messages if isinstance(message, User)
    )


def _itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    return value


@pytest.mark.parametrize("make", [_itself, _nested])
def test_an_ask_goes_on_after_a_result_that_has_no_end(
    box: Toolbox, make: Callable[[], list[Any]]
) -> None:
    def tree() -> list[Any]:
        return make()

    box.adopt(tree)

    answer = box.ask("Go", model=ScriptedModel([("nb.tree", {}), "done"]), approve="nb.tree")

    assert answer.text == "done", answer.note
    assert answer.calls[0].result.ok
