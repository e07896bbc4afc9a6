"""Canonical names, allow-lists, and the names that models are given."""

from __future__ import annotations

import hashlib
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.core import names


def _hashed(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return f"{plain[:54]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("echo", "config.echo"),
        ("a.b", "a.b"),
        ("a.b.c", "a.b.c"),
        ("get-sum", "config.get-sum"),
        ("ä.ö", "ä.ö"),
    ],
)
def test_a_name_without_a_dot_goes_to_the_bare_pack(name: str, full: str) -> None:
    assert names.canonical(name) == full


def test_a_name_without_a_dot_takes_the_pack_it_is_given() -> None:
    assert names.canonical("echo", pack="nb") == "nb.echo"


@pytest.mark.parametrize(
    "name",
    [
        "",
        None,
        5,
        " ",
        "a b",
        "a.b\n",
        "a\u00a0b",
        "a\x00",
        "\u200bx",
        ".a",
        "a.",
        ".",
        "x" * 129,
        b"a.b",
    ],
    ids=repr,
)
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidTool):
        names.canonical(name)


def test_the_longest_name_is_one() -> None:
    assert names.canonical("a." + "x" * 126) == "a." + "x" * 126


def test_a_pack_must_be_a_name_too() -> None:
    with pytest.raises(InvalidTool):
        names.canonical("echo", pack="no pack")


@pytest.mark.parametrize(
    ("name", "allow", "expected"),
    [
        ("a.b", None, True),
        ("a.b", [], False),
        ("a.b", ["a.b"], True),
        ("a.b", ["a.*"], True),
        ("ab.c", ["a.*"], False),
        ("a.b", ["*"], True),
        ("a.b", ["b"], False),
        ("a.b", ["A.B"], False),
        ("a.b", ["a.b*", "a"], False),
        ("config.x", ["x"], True),
        ("config.x", ["config.x"], True),
        ("a.b", "a.b", True),
        ("a.b", "a.bc", False),
    ],
    ids=repr,
)
def test_an_allow_list_takes_exact_names_packs_and_everything(
    name: str, allow: list[str] | None, expected: bool
) -> None:
    assert names.allowed(name, allow) is expected


@pytest.mark.parametrize(
    ("given_names", "expected"),
    [
        (["time.now"], {"time.now": "time_now"}),
        (["a.get-sum"], {"a.get-sum": "a_get-sum"}),
        (["1a.b"], {"1a.b": "_1a_b"}),
        (["-a.b"], {"-a.b": "_-a_b"}),
        (["ä.ö"], {"ä.ö": "___"}),
        (["config.weather"], {"config.weather": "weather"}),
        (["config.a_b", "a.b"], {"config.a_b": "config_a_b", "a.b": "a_b"}),
        (["a.b_c", "a_b.c"], {"a.b_c": _hashed("a.b_c"), "a_b.c": _hashed("a_b.c")}),
        (
            ["config.x!", "config.x?"],
            {"config.x!": _hashed("config.x!"), "config.x?": _hashed("config.x?")},
        ),
        (["p." + "x" * 61], {"p." + "x" * 61: "p_" + "x" * 61}),
        (["p." + "x" * 62], {"p." + "x" * 62: _hashed("p." + "x" * 62)}),
    ],
    ids=[
        "plain",
        "dash",
        "digit",
        "leading dash",
        "letters",
        "bare",
        "bare taken",
        "equal",
        "bare equal",
        "63",
        "64",
    ],
)
def test_names_for_models_are_made_as_the_contract_says(
    given_names: list[str], expected: dict[str, str]
) -> None:
    assert names.wire_names(given_names) == expected


def test_a_name_that_looks_like_a_hashed_one_gives_way_too() -> None:
    taken = _hashed("a.b_c")
    wire = names.wire_names(["a.b_c", "a_b.c", f"config.{taken}"])

    assert wire["a.b_c"] == taken
    assert len(set(wire.values())) == 3


_NAMES = st.lists(
    st.tuples(
        st.sampled_from(["a", "a_b", "config", "1", "-", "ä"]),
        st.text("ab_.-?", min_size=1, max_size=70),
    ).map(lambda pair: ".".join(pair)),
    unique=True,
    max_size=12,
)


@given(_NAMES, st.randoms())
def test_names_for_models_are_short_different_and_independent_of_order(
    known: list[str], chance: random.Random
) -> None:
    wire = names.wire_names(known)

    shuffled = list(known)
    chance.shuffle(shuffled)
    assert names.wire_names(shuffled) == wire
    assert set(wire) == set(known)
    assert len(set(wire.values())) == len(known)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", name) for name in wire.values())


def test_a_definition_that_bears_another_tools_name_is_not_let_through_by_it() -> None:
    assert names.allowed("fs.read_file", ["fs.read_file"])
    assert not names.allowed("config.fs.read_file", ["fs.read_file"])
    assert not names.allowed("config.fs.read_file", ["fs.*"])
    assert names.allowed("config.fs.read_file", ["config.fs.read_file"])
    assert names.allowed("config.say", ["say"])
