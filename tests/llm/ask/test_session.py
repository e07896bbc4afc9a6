"""Sessions: what is used again, how names stay, and how a long talk is cut without parting a call and its result."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.llm import Call, Outcome, Outcomes, ScriptedModel, Turn, User
from onetool_ipy.llm.ask.context import AskListener
from onetool_ipy.llm.ask.session import Session, size, trimmed
from onetool_ipy.llm.messages import Message
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import MakeBox, Traces


@pytest.mark.spec("004/Ask Default/Cached results are reused in a session")
def test_a_file_is_read_again_only_when_it_changed(box: Toolbox, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("one")
    read = ("fs.read_file", {"path": "note.txt"})
    model = ScriptedModel([read, "a", read, "b", read, "c", read, "d"])

    first = box.ask("1", model=model, session="s")
    second = box.ask("2", model=model, session="s")
    file.write_text("two!")
    third = box.ask("3", model=model, session="s")
    other = box.ask("4", model=model, session="another")

    assert [a.calls[0].cached for a in (first, second, third, other)] == [False, True, False, False]
    assert [a.calls[0].result.data for a in (first, second, third, other)] == ["one", "one", "two!", "two!"]
    assert second.to_dict()["toolResults"][0]["meta"]["cached"] is True
    assert second.session_context_updated


@pytest.mark.spec("004/Ask Default/Cached results are reused in a session")
def test_only_what_is_declared_cacheable_is_used_again(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.plain", read_only=True)
    traces.add(box, "a.cached", read_only=True, cache_key=lambda **args: args.get("x"))
    traces.add(box, "a.writing", cache_key=lambda **args: "same")
    traces.add(box, "a.broken", read_only=True, cache_key=lambda nothing: 1)
    traces.add(box, "a.failing", read_only=True, cache_key=lambda **args: 1, gives=_failing)
    names = ["a.plain", "a.cached", "a.writing", "a.broken", "a.failing", "time.now"]
    model = ScriptedModel([[(name, {}) if name == "time.now" else (name, {"x": "1"}) for name in names]] * 2 + ["ok"])

    answer = box.ask("Go", model=model, approve=["a.writing"])

    assert traces.left() == {"a.broken": 2, "a.cached": 1, "a.failing": 2, "a.plain": 2, "a.writing": 2}
    assert [call.name for call in answer.calls if call.cached] == ["a.cached"]


def test_a_key_of_none_is_not_used_again(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.b", read_only=True, cache_key=lambda **args: None)

    box.ask("Go", model=ScriptedModel([("a.b", {}), ("a.b", {}), "ok"]))

    assert traces.left() == {"a.b": 2}


def test_a_file_outside_the_roots_is_not_had_from_the_cache(box: Toolbox, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"outside-{os.getpid()}.txt"
    outside.write_text("private")
    read = ("fs.read_file", {"path": str(outside)})

    answer = box.ask("Go", model=ScriptedModel([read, read, "no"]))
    outside.unlink()

    assert [call.ok for call in answer.calls] == [False, False]


def test_the_names_a_model_was_given_stay_when_tools_come_and_go(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.b_c", read_only=True, gives="first")
    model = ScriptedModel(
        [
            "hello",
            Turn(calls=(Call("c1", "a_b_c", {}),)),
            lambda r: Turn(calls=(Call("c2", _wire(r, "a_b.c"), {}),)),
            "ok",
        ]
    )
    box.ask("1", model=model, session="s")
    traces.add(box, "a_b.c", read_only=True, gives="second")

    answer = box.ask("2", model=model, session="s")

    assert [(call.name, call.result.data) for call in answer.calls] == [("a.b_c", "first"), ("a_b.c", "second")]
    offered = {tool.tool: tool.name for tool in model.requests[-1].tools}
    assert offered["a.b_c"] == "a_b_c"
    assert offered["a_b.c"].startswith("a_b_c_")


def test_two_tools_whose_names_collide_are_told_apart(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.b_c", read_only=True, gives="first")
    traces.add(box, "a_b.c", read_only=True, gives="second")
    model = ScriptedModel([[("a_b.c", {}), ("a.b_c", {})], Turn(calls=(Call("c", "a_b_c", {}),)), "ok"])

    answer = box.ask("Go", model=model)

    assert [call.result.data for call in answer.calls[:2]] == ["second", "first"]
    assert len({tool.name for tool in model.requests[0].tools}) == len(model.requests[0].tools)
    assert answer.calls[2].result.error is not None
    assert answer.calls[2].result.error.code == "tool_not_found"


def _conversation(seed: int) -> list[Message]:
    rng = random.Random(seed)
    said: list[Message] = []
    for ask in range(rng.randint(1, 8)):
        said.append(User("u" * rng.randint(1, 400)))
        for step in range(rng.randint(0, 5)):
            calls = tuple(
                Call(f"{ask}.{step}.{n}", "t", {"x": "y" * rng.randint(0, 50)}) for n in range(rng.randint(1, 4))
            )
            said.append(Turn("t" * rng.randint(0, 50), calls))
            said.append(Outcomes(tuple(Outcome(call, "o" * rng.randint(0, 900)) for call in calls)))
        if ask or rng.random() < 0.7:
            said.append(Turn("answer"))
    return said


@pytest.mark.parametrize("seed", range(60))
def test_trimming_never_parts_a_call_from_its_result(seed: int) -> None:
    said = _conversation(seed)
    whole = sum(map(size, said))
    asked = [message for message in said if isinstance(message, User)]
    for share in (0.0, 0.1, 0.3, 0.6, 0.9, 1.0):
        kept = trimmed(said, whole * share)
        assert kept == [message for message in said if any(message is one for one in kept)]
        assert isinstance(kept[0], User)
        assert asked[-1] in kept
        for before, message in zip([None, *kept], kept, strict=False):
            if isinstance(message, Outcomes):
                assert isinstance(before, Turn)
                assert [item.call.id for item in message.items] == [call.id for call in before.calls]
            if isinstance(before, Turn) and before.calls:
                assert isinstance(message, Outcomes)
        assert kept[-1] is said[-1]
    assert trimmed(said, whole) == said


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
    assert [message.text for message in last if isinstance(message, User)] == [f"ask {n}" for n in range(6)]
    contents = [item.content["data"] for message in last if isinstance(message, Outcomes) for item in message.items]
    assert contents[0]["preview"].startswith("0 xxx")
    assert box.results.query(contents[0]["handle"])["lines"] == ["0 " + "x" * 1500]
    assert contents[-1] == "5 " + "x" * 1500, "the newest result is whole"
    assert "old results of tools are sent as handles from now on" in person.lines[0]
    assert answer.stop_reason == "done"


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


def test_rule_18_without_a_summary_the_oldest_messages_are_left_out_and_it_is_said(make_box: MakeBox) -> None:
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


def test_rule_18_a_session_goes_on_after_a_restart(make_box: MakeBox) -> None:
    image = ("image/png", "iVBORw0KGgo=")
    first = make_box(secrets="KEY: key-of-the-tests-1\n")
    first.ask("key-of-the-tests-1", model=ScriptedModel([("tools.echo", {"message": 1}), "One."]), session="my work/1")
    first.ask.session("my work/1").commit(
        [User("Look", (image,)), Turn("Seen.", parts=({"text": "Seen."},), provider="gemini")]
    )
    first.close()

    second = make_box()
    model = ScriptedModel(["Two."])
    second.ask("And?", model=model, session="my work/1")

    messages = model.requests[0].messages[1:]
    assert [type(message).__name__ for message in messages] == [
        "User",
        "Turn",
        "Outcomes",
        "Turn",
        "User",
        "Turn",
        "User",
    ]
    assert getattr(messages[0], "text", "") == "***"
    assert getattr(messages[4], "images", ()) == (image,)
    assert messages[2] == Outcomes((Outcome(messages[1].calls[0], {"data_from": "tools.echo", "data": 1}),))  # type: ignore[union-attr]  # a Turn
    assert second.ask.session_names() == ["my work/1"]
    (file,) = (second.config.paths.state / "sessions").glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "key-of-the-tests-1" not in file.read_text(encoding="utf-8")


def test_rule_18_two_kernels_in_one_session_lose_nothing(make_box: MakeBox) -> None:
    one, other = make_box(), make_box()
    one.ask("1", model=ScriptedModel(["a"]), session="s")
    other.ask("2", model=ScriptedModel(["b"]), session="s")

    def meanwhile(request: Any) -> str:
        other.ask("3", model=ScriptedModel(["c"]), session="s")
        return "d"

    one.ask("4", model=ScriptedModel([meanwhile]), session="s")

    texts = [getattr(message, "text", "") for message in other.ask.session("s").messages]
    assert texts == ["1", "a", "2", "b", "3", "c", "4", "d"]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"format": 99}', b'{"format": 1, "messages": [{"kind": "turn"}]}', b"[]"]
)
def test_rule_18_a_damaged_session_begins_anew_and_is_put_aside(make_box: MakeBox, damage: bytes) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="s")
    (file,) = (box.config.paths.state / "sessions").glob("*.json")
    file.write_bytes(damage)

    fresh = make_box()
    fresh.ask("2", model=ScriptedModel(["b"]), session="s")

    assert len(fresh.ask.session("s")) == 2
    assert file.with_suffix(".damaged").read_bytes() == damage


def test_rule_18_a_cleared_session_is_gone_from_disk(make_box: MakeBox) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="s")

    box.ask.session("s").clear()

    assert len(make_box().ask.session("s")) == 0


def test_sessions_are_kept_by_name_over_a_reload(box: Toolbox) -> None:
    model = ScriptedModel([("time.now", {}), "a", "b"])
    box.ask("1", model=model, session="s")

    box.reload()
    box.ask("2", model=model, session="s")

    assert len(model.requests[-1].messages) == 6
    assert "s" in repr(box.ask.sessions["s"])


def test_a_session_that_was_never_named_is_not_kept(box: Toolbox) -> None:
    box.ask("1", model=ScriptedModel(["a"]))

    assert box.ask.sessions == {}
    assert len(Session()) == 0


def _failing(args: dict[str, Any]) -> Any:
    raise ValueError("no")


def _wire(request: Any, tool: str) -> str:
    return str(next(offer.name for offer in request.tools if offer.tool == tool))
