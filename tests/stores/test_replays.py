"""Which cassette is on: the last one that began answers, and ending one gives the place back."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.stores.replays import Replaying, Replays

Make = Callable[..., Replaying]


@pytest.fixture
def replays() -> Replays:
    return Replays()


@pytest.fixture
def make(replays: Replays, tmp_path: Path) -> Make:
    def replaying(name: str, mode: str | None = None) -> Replaying:
        return Replaying(
            replays,
            tmp_path / name,
            mode=mode,
            mask=str,
            clock=lambda: datetime.datetime.now(datetime.UTC),
        )

    return replaying


@pytest.mark.parametrize(
    ("env", "name", "mode"),
    [
        ({}, None, "auto"),
        ({"CI": "true"}, None, "replay"),
        ({"CI": "1"}, None, "replay"),
        ({"CI": "False"}, None, "auto"),
        ({"CI": "0"}, None, "auto"),
        ({"CI": ""}, None, "auto"),
        ({"CI": "true", "ONETOOL_REPLAY": "auto"}, None, "auto"),
        ({"CI": "true"}, "refresh", "refresh"),
        ({"ONETOOL_REPLAY": "refresh"}, "replay", "replay"),
    ],
)
def test_mode_is_the_named_one_then_the_environments_then_that_of_ci(
    replays: Replays, env: dict[str, str], name: str | None, mode: str
) -> None:
    replays.env = env

    assert replays.mode(name) == mode


@pytest.mark.parametrize("env", [{}, {"ONETOOL_REPLAY": "often"}])
def test_unknown_mode_is_refused(replays: Replays, env: dict[str, str]) -> None:
    replays.env = env

    with pytest.raises(UsageProblem, match="No mode 'often' of replay"):
        replays.mode(None if env else "often")


def test_last_one_answers_until_it_ends(replays: Replays, make: Make) -> None:
    outer, inner = make("a.jsonl"), make("b.jsonl")
    assert (replays.active, replays.steps) == (None, [])

    with outer as first:
        with inner as second:
            assert replays.active is second
            assert replays.steps == [second.around]
        assert replays.active is first
        assert replays.steps == [first.around]
    assert (replays.active, replays.steps) == (None, [])
    outer.end()
    replays.end(first)
    assert (replays.active, replays.steps) == (None, [])


def test_outer_one_may_end_first(replays: Replays, make: Make) -> None:
    outer, inner = make("a.jsonl"), make("b.jsonl")
    outer.begin()
    second = inner.begin()

    outer.end()

    assert replays.active is second
    assert replays.steps == [second.around]


def test_one_alone_switches_the_others_off(replays: Replays, make: Make) -> None:
    make("a.jsonl").begin()
    alone = make("b.jsonl")

    cassette = alone.begin_alone()

    assert replays.active is cassette
    replays.end(cassette)
    assert replays.active is None


def test_beginning_again_starts_from_the_first_answer(replays: Replays, make: Make) -> None:
    replaying = make("a.jsonl")
    first = replaying.begin()

    second = replaying.begin()

    assert second is not first
    assert replays.active is second
    replaying.end()
    assert replays.active is None, "the first one was left on"


def test_its_repr_says_whether_it_is_on(make: Make) -> None:
    replaying = make("a.jsonl")
    assert "off; switch it on by" in repr(replaying)

    with replaying:
        assert repr(replaying).endswith(", on>")
    assert "off" in repr(replaying)


class Named:
    """What Replays asks of a cassette."""

    def __init__(self, name: int) -> None:
        self.around, self.closed = name, 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.slow
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["begin", "end", "close"]), st.integers(0, 3)), max_size=20
    )
)
def test_stack_of_cassettes_is_as_a_list_has_it(steps: list[tuple[str, int]]) -> None:
    """A naive twin: a list, and the last of it."""
    replays: Any = Replays()
    cassettes = [Named(number) for number in range(4)]
    on: list[Named] = []
    for verb, number in steps:
        cassette = cassettes[number]
        if verb == "begin" and cassette not in on:
            replays.begin(cassette)
            on.append(cassette)
        elif verb == "end":
            replays.end(cassette)
            on = [each for each in on if each is not cassette]
        elif verb == "close":
            replays.close(but=cassette)
            on = [each for each in on if each is cassette]
        assert replays.active is (on[-1] if on else None)
        assert replays.steps == ([on[-1].around] if on else [])
