"""Sessions: what is used again, how names stay, and how a long talk is cut without parting a call
and its result."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.llm import Call, Outcome, Outcomes, ScriptedModel, Turn, User
from onetool_ipy.llm.ask.session import Session, size, trimmed
from onetool_ipy.llm.messages import Message
from onetool_ipy.toolbox import Toolbox
from tests.llm.ask.conftest import Traces


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
    assert [a.calls[0].result.data for a in (first, second, third, other)] == [
        "one",
        "one",
        "two!",
        "two!",
    ]
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
    model = ScriptedModel(
        [[(name, {}) if name == "time.now" else (name, {"x": "1"}) for name in names]] * 2 + ["ok"]
    )

    answer = box.ask("Go", model=model, approve=["a.writing"])

    assert traces.left() == {
        "a.broken": 2,
        "a.cached": 1,
        "a.failing": 2,
        "a.plain": 2,
        "a.writing": 2,
    }
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


def test_the_names_a_model_was_given_stay_when_tools_come_and_go(
    box: Toolbox, traces: Traces
) -> None:
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

    assert [(call.name, call.result.data) for call in answer.calls] == [
        ("a.b_c", "first"),
        ("a_b.c", "second"),
    ]
    offered = {tool.tool: tool.name for tool in model.requests[-1].tools}
    assert offered["a.b_c"] == "a_b_c"
    assert offered["a_b.c"].startswith("a_b_c_")


def test_two_tools_whose_names_collide_are_told_apart(box: Toolbox, traces: Traces) -> None:
    traces.add(box, "a.b_c", read_only=True, gives="first")
    traces.add(box, "a_b.c", read_only=True, gives="second")
    model = ScriptedModel(
        [[("a_b.c", {}), ("a.b_c", {})], Turn(calls=(Call("c", "a_b_c", {}),)), "ok"]
    )

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
                Call(f"{ask}.{step}.{n}", "t", {"x": "y" * rng.randint(0, 50)})
                for n in range(rng.randint(1, 4))
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
                assert [item.call.id for item in message.items] == [
                    call.id for call in before.calls
                ]
            if isinstance(before, Turn) and before.calls:
                assert isinstance(message, Outcomes)
        assert kept[-1] is said[-1]
    assert trimmed(said, whole) == said


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
