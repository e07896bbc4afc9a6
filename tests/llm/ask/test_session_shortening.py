"""A conversation that is too long: results become handles, exchanges a summary, and what is left
out is said."""

from __future__ import annotations

from typing import Any

import pytest

from onetool_ipy.llm import Call, Outcome, Outcomes, ScriptedModel, Turn, User
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.llm.ask.session import size, with_handles
from tests.llm.ask.conftest import MakeBox, Traces


class _Reader(AskListener):
    """A person who reads what became of a long conversation."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def shortened(self, text: str) -> None:
        self.lines.append(text)


def test_rule_18_old_results_become_handles_first(make_box: MakeBox, traces: Traces) -> None:
    box = make_box("ask: {context_tokens: 1500}")
    traces.add(box, "a.big", read_only=True, gives=lambda args: f"{args['n']} " + "x" * 1500)
    person = _Reader()
    replies = [each for n in range(6) for each in (("a.big", {"n": n}), f"said {n}")]
    model = ScriptedModel(replies)

    for n in range(6):
        answer = box.ask(f"ask {n}", model=model, session="s", listener=person)
        for request in model.requests[-2:]:
            assert sum(size(message) for message in request.messages[1:]) <= 1500 * 4

    last = model.requests[-1].messages
    assert [message.text for message in last if isinstance(message, User)] == [
        f"ask {n}" for n in range(6)
    ]
    contents = [
        item.content["data"]
        for message in last
        if isinstance(message, Outcomes)
        for item in message.items
    ]
    assert contents[0]["preview"].startswith("0 xxx")
    assert box.results.query(contents[0]["handle"])["lines"] == ["0 " + "x" * 1500]
    assert contents[-1] == "5 " + "x" * 1500, "the newest result is whole"
    assert "old results of tools are sent as handles from now on" in person.lines[0]
    assert answer.stop_reason == "done"


def test_a_result_that_is_a_handle_already_is_not_stored_again() -> None:
    call = Call("c1", "a_big", {})
    long = "x" * 5000
    whole = Outcomes((Outcome(call, {"data": {"rows": long}}),))
    short = Outcomes((Outcome(call, {"data": {"handle": "k3f9a2b7c1d4", "preview": long}}),))
    handles = iter(["h1", "h2"])

    (first, second), count = with_handles([whole, short], 20_000, lambda *_: next(handles))

    assert count == 1
    assert isinstance(first, Outcomes)
    assert first.items[0].content["data"]["handle"] == "h1"
    assert second == short


def test_rule_18_then_old_exchanges_become_a_summary_that_is_shown(make_box: MakeBox) -> None:
    box = make_box("ask: {context_tokens: 600}", secrets="KEY: key-of-the-tests-1\n")
    person = _Reader()
    told = "The person likes ink. key-of-the-tests-1"

    def reply(request: Any) -> str:
        is_summary = request.messages[0].text.startswith("Sum up the conversation")
        return told if is_summary else "answer " + "y" * 300

    model = ScriptedModel([reply], repeat=True)

    for n in range(8):
        box.ask(f"ask {n} " + "x" * 300, model=model, session="s", listener=person)

    summaries = [line for line in person.lines if "was summed up" in line]
    assert summaries
    assert summaries[0].endswith("The person likes ink. ***")
    last = model.requests[-1].messages
    assert "This is a summary of it:\n\nThe person likes ink. ***" in getattr(last[1], "text", "")
    assert getattr(last[-1], "text", "").startswith("ask 7 ")
    assert sum(size(message) for message in last[1:]) <= 600 * 4
    requests = [each for each in model.requests if not each.tools]
    assert all(sum(size(message) for message in each.messages[1:]) <= 600 * 4 for each in requests)


def test_rule_18_without_a_summary_the_oldest_messages_are_left_out_and_it_is_said(
    make_box: MakeBox,
) -> None:
    box = make_box("ask: {context_tokens: 600}")
    person = _Reader()

    def reply(request: Any) -> Any:
        is_summary = request.messages[0].text.startswith("Sum up the conversation")
        return Turn("", stop="refused") if is_summary else "answer " + "y" * 300

    model = ScriptedModel([reply], repeat=True)

    for n in range(8):
        answer = box.ask(f"ask {n} " + "x" * 300, model=model, session="s", listener=person)

    assert any("Its oldest messages are left out of the request." in line for line in person.lines)
    assert "oldest messages are left out" in answer.note
    assert sum(size(message) for message in model.requests[-1].messages[1:]) <= 600 * 4


@pytest.mark.parametrize(
    ("excess", "expected"), [(0, 0), (1, 1), (1_200, 1), (1_900, 2), (99_000, 4)]
)
def test_rule_18_no_more_results_become_handles_than_are_needed(
    excess: float, expected: int
) -> None:
    """The oldest first; what is saved by then is enough."""
    stored: list[Any] = []

    def put(_tool: str, data: Any) -> str:
        stored.append(data)
        return f"handle{len(stored)}"

    texts = [f"{n} " + "x" * 1_500 for n in range(4)]
    messages = [
        Outcomes((Outcome(Call(f"c{n}", "a_big", {}), {"data": text}),))
        for n, text in enumerate(texts)
    ]

    shorter, count = with_handles(messages, excess, put)

    assert (count, stored) == (expected, texts[:expected])
    assert shorter[expected:] == messages[expected:]
    assert sum(map(size, messages)) - sum(map(size, shorter)) >= min(excess, 1_200 * expected)
