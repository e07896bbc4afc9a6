"""What a person reads of a session: live while an ask runs, and later from its file."""

from __future__ import annotations

from typing import Any

import pytest

from onetool_ipy.core.question import Question, Reply
from onetool_ipy.llm import ScriptedModel
from tests.harness.systems import has_mode
from tests.llm.ask.conftest import MakeBox, Traces

SECRET = "key-of-the-tests-1"


def test_an_ask_of_a_named_session_is_followed_and_kept_as_it_was_shown(
    make_box: MakeBox, traces: Traces
) -> None:
    box = make_box(secrets=f"KEY: {SECRET}\n")
    traces.add(box, "shop.look", read_only=True, gives={"price": 3, "note": SECRET})
    traces.add(box, "shop.order")
    heard: list[tuple[str, dict[str, Any]]] = []
    stop = box.ask.follow(lambda session, exchange: heard.append((session, exchange)))
    calls = [("shop.look", {"x": SECRET}), ("shop.order", {"n": 2})]

    box.ask(
        f"Buy it with {SECRET}",
        model=ScriptedModel([["I look.", *calls], "It costs 3."]),
        session="trip",
    )
    stop()
    box.ask("And now?", model=ScriptedModel(["Nothing."]), session="trip")

    (first, second) = box.ask.exchanges("trip")
    assert {session for session, _ in heard} == {"trip"}
    assert heard[0][1]["state"] == "running"
    assert heard[-1][1] == first
    text, look, order, end = first["parts"][-4:]
    assert (text, end) == ({"text": "I look."}, {"text": "It costs 3."})
    assert (look["call"], look["state"]) == ("shop.look", "ok")
    assert look["line"] == 'shop.look x="***"'
    assert '"price": 3' in look["result"]
    assert (order["state"], order["args"]) == ("failed", '{\n  "n": 2\n}')
    assert order["facts"] == order["problem"].split("\n")[0]
    assert (first["state"], first["isOk"], first["prompt"]) == ("done", True, "Buy it with ***")
    assert "2 calls" in first["facts"]
    assert first["tokens"] > 0
    assert second["prompt"] == "And now?"
    assert SECRET not in repr(heard)
    (file,) = (box.config.paths.state / "sessions").glob("*.exchanges.jsonl")
    assert SECRET not in file.read_text(encoding="utf-8")
    assert has_mode(file, 0o600)


def test_a_question_shows_that_the_ask_waits(make_box: MakeBox, traces: Traces) -> None:
    box = make_box()
    traces.add(box, "shop.order")
    states: list[str] = []
    box.ask.follow(lambda _session, exchange: states.append(exchange["state"]))

    def answer(_question: Question) -> Reply:
        states.append("asked")
        return Reply("decline")

    box.host.ask = answer  # type: ignore[method-assign]  # a person of the test's own
    box.ask("Order", model=ScriptedModel([("shop.order", {}), "Not."]), session="trip")

    at = states.index("asked")
    assert states[at - 1 : at + 2] == ["waiting", "asked", "running"]


def test_an_ask_that_failed_is_kept_for_its_reader(make_box: MakeBox) -> None:
    box = make_box()

    answer = box.ask("Hello", model=ScriptedModel([]), session="trip")

    (exchange,) = box.ask.exchanges("trip")
    assert answer.stop_reason == exchange["state"] == "error"
    assert exchange["isOk"] is False
    assert "has 0 replies" in exchange["facts"]
    assert len(box.ask.session("trip")) == 0


@pytest.mark.parametrize(
    "damage",
    [b"{", b"[]", b'{"id": 3}', b"\xff", b"[" * 100_000, b'{"id": "x", "tokens": NaN}'],
)
def test_a_damaged_line_costs_itself(make_box: MakeBox, damage: bytes) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="trip")
    (file,) = (box.config.paths.state / "sessions").glob("*.exchanges.jsonl")
    file.write_bytes(file.read_bytes() + damage + b"\n")
    box.ask("2", model=ScriptedModel(["b"]), session="trip")

    assert [each["prompt"] for each in box.ask.exchanges("trip")] == ["1", "2"]


def test_of_a_file_that_grew_too_long_the_newest_exchanges_are_read(make_box: MakeBox) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="trip")
    (file,) = (box.config.paths.state / "sessions").glob("*.exchanges.jsonl")
    with file.open("r+b") as long:
        long.seek(70 * 1024 * 1024)
        long.write(b"\n")
    box.ask("2", model=ScriptedModel(["b"]), session="trip")

    assert [each["prompt"] for each in box.ask.exchanges("trip")] == ["2"]


def test_half_a_character_of_a_model_is_kept_as_a_sign(make_box: MakeBox) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a\ud800"]), session="trip")

    assert box.ask.exchanges("trip")[0]["parts"][-1] == {"text": "a?"}


def test_a_session_that_is_forgotten_has_no_exchanges(make_box: MakeBox) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="trip")

    box.ask.session("trip").clear()

    assert box.ask.exchanges("trip") == []
    assert box.ask.exchanges("another") == []
    left = (box.config.paths.state / "sessions").iterdir()
    assert [path.name for path in left if not path.name.endswith(".lock")] == []


def test_an_ask_without_a_session_is_not_kept(make_box: MakeBox) -> None:
    box = make_box()
    heard: list[object] = []
    box.ask.follow(lambda *both: heard.append(both))

    box.ask("1", model=ScriptedModel(["a"]))

    assert heard == []
    assert not (box.config.paths.state / "sessions").exists()
