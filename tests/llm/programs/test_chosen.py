"""Any program and any choice: each write that is made was shown and chosen, with these arguments,
and is made once."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy.core.question import Question
from tests.llm.programs.conftest import Shop

_TEXT = st.text(st.characters(codec="utf-8"), max_size=4)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=6,
)
_LIVE = ("live", "live[0]", "[live, live]")
_STEPS = st.one_of(
    st.tuples(st.just("write"), _VALUES),
    # The list that a tool gives, and changes at each call of `sync`.
    st.tuples(st.just("live"), st.integers(0, 2)),
    st.tuples(st.just("sync"), st.integers(0, 2)),
    # A write that needs the result of the write before it.
    st.tuples(st.just("needs"), st.none()),
)
Steps = list[tuple[str, Any]]


def _program(steps: Steps) -> str:
    lines = ["import crm", "live = crm.rows()", "last = 'nothing'"]
    for place, (kind, value) in enumerate(steps):
        if kind == "sync":
            lines.append(f"crm.sync(n={value})")
        elif kind == "needs":
            lines.append(f"crm.put(place={place}, value=[last])")
        else:
            text = _LIVE[value] if kind == "live" else repr(value)
            lines.append(f"last = crm.put(place={place}, value={text})")
    return "\n".join([*lines, "'end'"])


def _expected(steps: Steps, skip: frozenset[int]) -> list[tuple[int, Any]]:
    """The naive twin: it knows no sandbox, no rounds, and no object that a tool shares with a
    program."""
    live, made = [{"id": 1}, 2], []
    last: Any = "nothing"
    for place, (kind, value) in enumerate(steps):
        if kind == "sync" or (kind == "needs" and last is None):
            continue
        if kind == "needs":
            args: Any = [last]
        else:
            args = [live, live[0], [live, live]][value] if kind == "live" else value
        if place not in skip:
            made.append((place, args))
        if kind != "needs":
            last = None if place in skip else {"place": place}
    return made


@pytest.mark.slow
@settings(
    max_examples=300 if os.environ.get("ONETOOL_SOAK") else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(_STEPS, max_size=6), skip=st.frozensets(st.integers(0, 5), max_size=3))
def test_exactly_the_chosen_writes_are_made_with_what_was_shown(
    shop: Shop, steps: Steps, skip: frozenset[int]
) -> None:
    rows: list[Any] = [{"id": 1}, 2]
    made: list[tuple[int, Any]] = []
    shown: dict[int, Any] = {}

    def put(place: int, value: Any) -> dict[str, int]:
        """Write, and change what was given."""
        made.append((place, json.loads(json.dumps(value))))
        if isinstance(value, list):
            value.append("changed")
        return {"place": place}

    def sync(n: int) -> int:
        """Change the rows that were given out."""
        rows.append(n)
        rows[0]["id"] += 1
        return n

    def choose(question: Question) -> list[int] | str:
        writes = [{name: json.loads(text) for name, text in call.args} for call in question.calls]
        shown.update((write["place"], write["value"]) for write in writes)
        return [
            at for at, write in enumerate(writes, start=1) if write["place"] not in skip
        ] or "none"

    shop.add("crm.rows", lambda: rows, read_only=True)
    shop.add("crm.sync", sync, read_only=True)
    shop.add("crm.put", put)
    answer = shop.run(_program(steps), *[choose] * 20)

    expected = _expected(steps, skip)
    assert made == [(place, shown[place]) for place, _ in made]
    if answer.error is not None:
        # Nothing of one question was chosen, which is a no to all that comes.
        assert answer.error.reason == "not_approved"
        assert made == expected[: len(made)]
        return
    assert (answer.stop_reason, answer.ok, made) == ("done", True, expected)
    assert [
        (row["args"]["place"], row["args"]["value"])
        for row in answer.plan
        if row["state"] == "made"
    ] == expected
    assert {row["args"]["place"] for row in answer.plan if row["state"] == "skipped"} <= skip


@pytest.mark.slow
def test_programs_of_many_threads_do_not_share_a_yes(shop: Shop) -> None:
    """Eight programs at once, each with another choice: each makes its own writes, and no other
    one's."""
    lock, made = threading.Lock(), list[tuple[int, int]]()

    def put(program: int, n: int) -> int:
        with lock:
            made.append((program, n))
        return n

    def choose(question: Question) -> list[int]:
        number = int(dict(question.calls[0].args)["program"])
        return [
            at for at in range(1, len(question.calls) + 1) if (number >> (at - 1)) & 1 or at == 6
        ]

    shop.add("crm.put", put)
    code = "import crm\nfor n in range(6):\n    crm.put(program=number, n=n)"
    answers: dict[int, Any] = {}
    shop.run("1")
    shop.person.replies = [choose] * 8

    def run(number: int) -> None:
        answers[number] = shop.box.ask.program(code, variables={"number": number})

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, answer in answers.items():
        chosen = [n for n in range(6) if (number >> n) & 1 or n == 5]
        assert answer.ok, answer.note
        assert [n for program, n in made if program == number] == chosen
        assert [at for at, row in enumerate(answer.plan) if row["state"] == "made"] == chosen
        assert answer.ok
    assert len(answers) == 8
