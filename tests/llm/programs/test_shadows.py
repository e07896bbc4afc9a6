"""The guard of programs: a call out is free if the same program on made-up private data makes the
very same call. `make test` prints what the benchmark measures."""

from __future__ import annotations

import datetime
import json
import math
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy.llm.ask.guard import BITS
from onetool_ipy.llm.programs.shadows import MadeUp
from tests.llm.programs.conftest import Shop
from tests.llm.programs.guard_programs import (
    ATTACKS_AFTER,
    ATTACKS_BEFORE,
    BENIGN_AFTER,
    BENIGN_BEFORE,
    Program,
)
from tests.llm.programs.guarded import PLACE, SECRETS, GuardedWorld

RecordProperty = Callable[[str, object], None]
_BENIGN, _ATTACKS = [*BENIGN_BEFORE, *BENIGN_AFTER], [*ATTACKS_BEFORE, *ATTACKS_AFTER]


@pytest.fixture
def world(shop: Shop) -> GuardedWorld:
    return GuardedWorld(shop.box)


def _ids(programs: list[Program]) -> Any:
    return pytest.mark.parametrize("program", programs, ids=[each.name for each in programs])


def _runs(world: GuardedWorld, code: str, approve: Sequence[str] = ()) -> list[list[str]]:
    """Run a program with one seed on two secrets of the same shape. Return what each sent."""
    runs = []
    for secret in SECRETS:
        world.secret = secret
        runs.append(world.run_with_seed(code, approve))
    return runs


def _bits(runs: list[list[str]]) -> float:
    """Return the bits that what went out tells of the secret. Only how many calls were made before
    the question, or the end, may differ."""
    short, long = sorted(runs, key=len)
    assert long[: len(short)] == short
    return 0.0 if short == long else math.log2(len(long) + 1)


@_ids(_BENIGN)
def test_a_program_that_carries_nothing_is_never_asked_about(
    world: GuardedWorld, program: Program, record_property: RecordProperty
) -> None:
    answer = world.run(program.code, "always")
    record_property("guard of programs", ("questions", len(world.person.questions)))

    assert answer.stop_reason == "done", answer.error
    assert len(world.person.questions) == int(program.carries)


@pytest.mark.slow
@_ids(_ATTACKS)
def test_what_an_attack_sends_says_nothing_of_the_secret(
    world: GuardedWorld, program: Program, record_property: RecordProperty
) -> None:
    one, other = _runs(world, program.code, approve=["*"])
    assert one != other, "it is no attack"

    bits = _bits(_runs(world, program.code))
    record_property("guard of programs", ("bits", bits))
    assert bits <= math.log2(500) < BITS


def test_private_data_that_may_go_to_a_place_is_not_made_up_for_it(
    make_shop: Callable[..., Shop], tmp_path: Path
) -> None:
    """The user's own settings let the owners go to the search; what the program reads besides may
    not."""
    own = tmp_path / "home" / ".onetool"
    own.mkdir(parents=True, exist_ok=True)
    settings = f"version: 1\nguard: {{allow: [{{from: crm.get, to: {PLACE}}}]}}\n"
    (own / "onetool.yaml").write_text(settings, encoding="utf-8")
    world = GuardedWorld(make_shop().box)
    head = "import crm, db, web\nowner = crm.get(id='c-7781')['owner']\nn = db.three()\n"
    world.read("db.three", lambda: 3)

    world.run(head + "web.search(q=owner)")
    assert not world.person.questions
    assert world.sent[-1] == f'web.search {{"q": "{world.secret["owner"]}"}}'
    world.run(head + "web.search(q=owner + str(n))")
    assert len(world.person.questions) == 1


@pytest.mark.slow
def test_stop_ends_a_shadow_that_computes(world: GuardedWorld) -> None:
    """The shadow counts to a billion, where the program counts to three."""

    def stop() -> None:
        signal.raise_signal(signal.SIGINT)

    def three() -> int:
        if is_stopping:
            threading.Timer(0.7, stop).start()
        return 3

    world.read("db.three", three)
    code = "import db, web\nn = 0\nfor k in range(db.three()):\n    n = k\nweb.search(q='x')"
    is_stopping = False
    world.run(code)
    assert len(world.person.questions) == 1

    # A kernel of the whole run may live beside this test.
    before = set(psutil.Process().children(recursive=True))
    is_stopping = True
    answer = world.run(code)
    # It would have been asked about, as above, had the shadow come to its end or to its limit.
    assert answer.stop_reason == "interrupted"
    assert not world.person.questions
    assert set(psutil.Process().children(recursive=True)) <= before


_PIECES = st.lists(
    st.sampled_from(
        [
            "t = t[1:] + t[:1]",
            "t = t.upper()",
            "n = n // 7",
            "n += len(t)",
            "n += ord(t[0])",
            "web.search(q='x', page=k)",
            "web.search(q=str(n % 3))",
            "if n % 2:\n    web.search(q='odd')",
            "if t > 'N':\n    weather.get(city='Ulm')",
            "for c in t[:3]:\n    weather.get(city='Ulm', unit='c' if c < 'f' else 'f')",
            "try:\n    int(t[0])\nexcept ValueError:\n    web.search(q='no')",
            "geo.country(name=countries[n % len(countries)])",
            "n = len(str(geo.country(name=countries[k])))",
            "for c in sorted(countries, key=lambda c: len(c) * n % 5):\n    geo.country(name=c)",
            "k += 1",
        ]
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_PIECES)
def test_what_goes_out_is_the_same_for_every_secret(world: GuardedWorld, pieces: list[str]) -> None:
    head = (
        "import db, files, geo, weather, web\nk = 0\n"
        "t, n = files.read(path='notes.txt'), db.rows()[0]['owes']\n"
        "countries = geo.countries()['countries']\n"
    )
    _bits(_runs(world, head + "\n".join(pieces)))


# --- made-up values -------------------------------------------------------------------------------

_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(_DATA)
def test_made_up_values_have_the_shape_of_the_real_ones(value: Any) -> None:
    made_up = MadeUp("7", frozenset(["named"]), is_high=True)

    def is_alike(one: Any, other: Any) -> bool:
        if isinstance(one, dict):
            return len(one) == len(other) and all(map(is_alike, one.values(), other.values()))
        if isinstance(one, list):
            return len(one) == len(other) and all(map(is_alike, one, other))
        return type(one) is type(other)

    assert is_alike(value, made_up.of(value))
    assert made_up.of({"named": 1, "other": 2}).keys() & {"named", "other"} == {"named"}


@pytest.mark.parametrize("kind", ["keys", "a header", "keys in JSON"])
def test_which_of_the_names_in_a_program_are_keys_carries_at_most_its_bits(
    world: GuardedWorld, kind: str
) -> None:
    """The program names 1,000 numbers, and one of them is a key of what it reads, each time."""
    secret = random.Random(7).sample(range(1_000, 2_000), 40)

    def read(n: int) -> Any:
        if kind == "keys":
            return {str(secret[n]): 1}
        return f"{secret[n]};\n1" if kind == "a header" else json.dumps({str(secret[n]): ""})

    world.read("db.nth", read)
    code = (
        f"import db, web\nbook = {list(map(str, range(1_000, 2_000)))}\nfor n in range(40):\n"
        "    r = db.nth(n=n)\n    for key in book:\n        if key in r:\n"
        "            web.search(q=key)"
    )

    world.run(code)

    assert len(world.sent) * math.log2(1_000) <= BITS
    assert world.person.questions


def test_rows_with_the_same_keys_cost_nothing_more() -> None:
    names = frozenset(f"column {n}" for n in range(30))
    rows = [{"column 3": n, "column 4": {"column 5": n}, "z": 1} for n in range(1_000)]
    made = MadeUp("7", names, is_high=True).of(rows)
    assert all({"column 3", "column 4"} < row.keys() for row in made)


@given(st.text(), st.booleans())
def test_nothing_of_a_text_is_in_its_made_up_form(text: str, is_high: bool) -> None:
    made = MadeUp("7", frozenset(), is_high=is_high).of(f"=9{text}")
    own = set("NOPQRSTUVWXYZ56789" if is_high else "abcdefghijklm1234") | {"\u00a4"}
    assert {char for char in made if char.isalnum() or not char.isascii()} <= own


def test_a_value_of_an_unknown_kind_is_left_out() -> None:
    assert MadeUp("7", frozenset(), is_high=True).of([b"Mia", {1}]) == [None, None]


def test_a_made_up_date_is_a_date() -> None:
    for is_high in (False, True):
        made = MadeUp("7", frozenset(), is_high=is_high).of("2026-12-24T23:59:01Z")
        assert datetime.date.fromisoformat(made[:10]).year != 2026
        datetime.time.fromisoformat(made[11:16])


@pytest.mark.slow
def test_the_largest_results_are_made_up_in_seconds() -> None:
    rows = [{"name": f"person {n}", "owes": n} for n in range(50_000)]
    began = time.process_time()
    MadeUp("7", frozenset(), is_high=True).of(rows)
    MadeUp("7", frozenset(), is_high=True).of("x 1" * 2_600_000)
    assert time.process_time() - began < 10
