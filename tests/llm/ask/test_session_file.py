"""Named sessions on disk: after a restart, from two kernels, damaged, forgotten."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import StoreError, names_in, windows_fault
from onetool_ipy.llm import Outcome, Outcomes, ScriptedModel, Turn, User
from onetool_ipy.llm.ask.session import Session
from tests.harness.systems import has_mode
from tests.llm.ask.conftest import MakeBox


def test_rule_18_a_session_goes_on_after_a_restart(make_box: MakeBox) -> None:
    image = ("image/png", "iVBORw0KGgo=")
    first = make_box(secrets="KEY: key-of-the-tests-1\n")
    first.ask(
        "key-of-the-tests-1",
        model=ScriptedModel([("tools.echo", {"message": 1}), "One."]),
        session="my work/1",
    )
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
    assert messages[2] == Outcomes(
        (Outcome(messages[1].calls[0], {"data_from": "tools.echo", "data": 1}),)
    )  # type: ignore[union-attr]  # a Turn
    assert second.ask.session_names() == ["my work/1"]
    (file,) = (second.config.paths.state / "sessions").glob("*.json")
    assert has_mode(file, 0o600)
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


def test_what_the_model_saw_in_another_kernel_is_known_here(
    make_box: MakeBox, tmp_path: Path
) -> None:
    (tmp_path / "salaries.csv").write_text("name,salary\n", encoding="utf-8")
    one, other = make_box(), make_box()
    one.ask("1", model=ScriptedModel(["a"]), session="s")
    read = ("fs.read_file", {"path": "salaries.csv"})
    other.ask("2", model=ScriptedModel([read, "b"]), session="s")

    one.ask("3", model=ScriptedModel(["c"]), session="s")

    assert list(one.ask.session("s").guard.sources) == list(other.ask.session("s").guard.sources)
    assert one.ask.session("s").guard.sources


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b'{"format": 99}',
        b'{"format": 1, "messages": [{"kind": "turn"}]}',
        b'{"format": 1, "messages": []}',
        b'{"format": 1, "messages": [], "handles": 1, "used": [], "offered": [], "wire": {}}',
        b'{"format": 1, "messages": [], "handles": [], "used": [], "offered": [], "wire": []}',
        b"[]",
    ],
)
def test_rule_18_a_damaged_session_is_refused_and_left_as_it_is(
    make_box: MakeBox, damage: bytes
) -> None:
    """Also in a kernel that has the session open: what it hears stays in its memory."""
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="s")
    is_open = box.ask.session("s")
    (file,) = (box.config.paths.state / "sessions").glob("*.json")
    file.write_bytes(damage)

    for asker in (make_box(), box):
        with pytest.raises(StoreError) as caught:
            asker.ask("2", model=ScriptedModel(["b"]), session="s")
        assert "'s'" in caught.value.message
        assert "Rename or delete" in caught.value.hint
    with pytest.raises(StoreError):
        is_open.commit([User("2"), Turn("b")])

    assert file.read_bytes() == damage
    assert len(is_open.messages) == 4
    left = {path.name for path in file.parent.iterdir()}
    assert left <= {file.name, file.name + ".lock", "s.exchanges.jsonl"}


def test_a_session_of_another_name_goes_on_beside_a_damaged_one_which_health_names(
    make_box: MakeBox,
) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="s")
    (file,) = (box.config.paths.state / "sessions").glob("*.json")
    file.write_bytes(b"{")

    box = make_box()
    box.ask("2", model=ScriptedModel(["b"]), session="t")

    assert str(file) in {problem.where for problem in box.problems()}
    file.unlink()
    box.ask("3", model=ScriptedModel(["c"]), session="s")
    assert len(box.ask.session("s")) == 2


def test_rule_18_a_cleared_session_is_gone_from_disk(make_box: MakeBox) -> None:
    box = make_box()
    box.ask("1", model=ScriptedModel(["a"]), session="s")

    box.ask.session("s").clear()

    assert len(make_box().ask.session("s")) == 0


def test_a_session_that_is_shortened_keeps_the_exchange_of_another_kernel(
    make_box: MakeBox,
) -> None:
    one, other = make_box(), make_box()
    one.ask("1", model=ScriptedModel(["a"]), session="s")
    mine = one.ask.session("s")
    other.ask("2", model=ScriptedModel(["b"]), session="s")

    mine.shorten([User("short"), Turn("ok")])

    texts = [getattr(message, "text", "") for message in make_box().ask.session("s").messages]
    assert texts == ["short", "ok", "2", "b"]


def test_a_session_that_another_kernel_shortened_too_stays_as_that_one_left_it(
    make_box: MakeBox,
) -> None:
    one, other = make_box(), make_box()
    one.ask("1", model=ScriptedModel(["a"]), session="s")
    mine = one.ask.session("s")
    other.ask.session("s").shorten([User("theirs"), Turn("ok")])

    mine.shorten([User("mine"), Turn("ok")])

    assert [getattr(message, "text", "") for message in mine.messages] == ["theirs", "ok"]


@pytest.mark.parametrize(
    "name", ["\u5317" * 12, "\u5317" * 90, 'a"b' * 60, "x" * 300, "\u00e9" * 17, "plain name"]
)
def test_a_session_is_listed_by_its_name(make_box: MakeBox, name: str) -> None:
    make_box().ask("1", model=ScriptedModel(["a"]), session=name)

    assert make_box().ask.session_names() == [name]


@pytest.mark.parametrize("name", ["a\n!rm x", "a\u2028b", "a\x85b", "a\x00b", "\ud800"])
def test_a_name_that_would_end_a_line_of_code_is_refused(make_box: MakeBox, name: str) -> None:
    with pytest.raises(UsageProblem, match="is not a session's name"):
        make_box().ask("1", model=ScriptedModel(["a"]), session=name)


@pytest.mark.slow
def test_a_session_of_large_pictures_never_becomes_a_file_that_cannot_be_read(
    make_box: MakeBox,
) -> None:
    box = make_box()
    picture = [User("Look", (("image/png", "A" * 12_000_000),)), Turn("Seen.")]
    session = box.ask.session("s")
    for _ in range(5):
        session.commit(picture)
    assert not [problem for problem in box.problems() if "sessions" in problem.where]

    with pytest.raises(StoreError, match="would be larger than 64 MB"):
        session.commit(picture)

    assert len(session.messages) == 12
    assert len(make_box().ask.session("s").messages) == 10


def test_an_exchange_that_was_cut_off_costs_itself_alone(make_box: MakeBox) -> None:
    box = make_box()
    for text in ("one", "two"):
        box.ask(text, model=ScriptedModel(["a"]), session="s")
    (file,) = (box.config.paths.state / "sessions").glob("*.exchanges.jsonl")
    file.write_bytes(file.read_bytes()[:-20])
    box.ask("three", model=ScriptedModel(["a"]), session="s")

    shown = [exchange["prompt"] for exchange in make_box().ask.session("s").exchanges()]
    assert shown == ["one", "three"]


def test_threads_that_name_a_new_session_share_it(make_box: MakeBox) -> None:
    box, threads = make_box(), 4
    start = threading.Barrier(threads)

    def name_them(_thread: int) -> list[Session]:
        start.wait()
        return [box.ask.session(f"s{number}") for number in range(200)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            by_name = zip(*pool.map(name_them, range(threads)), strict=True)
    finally:
        sys.setswitchinterval(interval)

    assert all(session is first for first, *others in by_name for session in others)


def test_rule_18_exchanges_of_many_threads_are_all_kept(make_box: MakeBox) -> None:
    boxes = [make_box() for _ in range(6)]
    start = threading.Barrier(len(boxes))

    def ask(number: int) -> None:
        start.wait()
        for turn in range(3):
            boxes[number].ask(
                f"{number}/{turn}", model=ScriptedModel([f"answer {number}/{turn}"]), session="s"
            )

    with ThreadPoolExecutor(len(boxes)) as threads:
        list(threads.map(ask, range(len(boxes))))

    texts = [getattr(message, "text", "") for message in make_box().ask.session("s").messages]
    exchanges = set(zip(texts[::2], texts[1::2], strict=True))
    assert exchanges == {
        (f"{n}/{turn}", f"answer {n}/{turn}") for n in range(len(boxes)) for turn in range(3)
    }


def test_the_file_of_another_session_is_not_gone_on_with(make_box: MakeBox) -> None:
    """`Report` and `report` are one file on most disks of macOS and Windows: it is renamed to what
    such a disk would find."""
    box = make_box()
    box.ask("Our plans?", model=ScriptedModel(["Few."]), session="report")
    (file,) = (box.config.paths.state / "sessions").glob("*.json")
    file.rename(file.with_name("Report.json"))

    with pytest.raises(StoreError, match="it holds the session 'report'"):
        box.ask("And?", model=ScriptedModel(["None."]), session="Report")


def test_a_session_may_have_the_name_of_a_device_of_windows(make_box: MakeBox) -> None:
    make_box().ask("1", model=ScriptedModel(["a"]), session="aux")

    again = make_box()

    assert again.ask.session_names() == ["aux"]
    assert len(again.ask.session("aux").messages) == 2
    names = names_in(again.config.paths.state / "sessions")
    assert [windows_fault(name, ()) for name in names] == [""] * len(names)
