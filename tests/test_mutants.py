"""`make mutants` changes what it says, at the place it says, and nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests import mutants

SOURCE = '''\
def is_open(door, key):
    """Say whether a döor is open."""
    knock(door)
    if not door or key == 1:
        return False
    if door.hinge:
        return squeak(door)
    return "ja"
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("not door or key == 1", "(not door and key == 1)"),
        ("not door", "(door)"),
        ("key == 1", "(key != 1)"),
        ("False", "(True)"),
        ('"ja"', "('jax')"),
        ("knock(door)", "(None)"),
        ("squeak(door)", "(None)"),
    ],
)
def test_a_mutant_changes_one_place(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "door.py"
    path.write_text(SOURCE, encoding="utf-8")
    (mutant,) = [each for each in mutants.mutants_of(path) if each.before == before]

    mutant.apply()

    assert path.read_text(encoding="utf-8") == SOURCE.replace(before, after)


def test_every_place_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "door.py"
    path.write_text(SOURCE, encoding="utf-8")

    assert len(list(mutants.mutants_of(path))) == 7


def test_the_tests_of_a_module_have_its_name() -> None:
    names = [Path(file).name for file in mutants.tests_of(mutants.PACKAGE / "schema" / "check.py")]

    assert names[0] == "test_check.py"
    assert all(name.startswith("test_check") for name in names)


def test_the_rest_of_the_room_is_asked_after_the_modules_own_tests() -> None:
    own = mutants.tests_of(mutants.PACKAGE / "schema" / "check.py")
    room = mutants.tests_of_room(mutants.PACKAGE / "schema" / "check.py")

    assert str(mutants.ROOT / "tests" / "schema" / "test_read.py") in room
    assert set(own).isdisjoint(room)


def test_a_module_without_a_test_of_its_name_is_named(tmp_path: Path) -> None:
    known = mutants.PACKAGE / "schema" / "check.py"
    assert mutants.without_tests([known, mutants.PACKAGE / "_version.py"]) == []


def test_the_parts_of_a_sample_are_the_whole_of_it() -> None:
    paths = sorted((mutants.PACKAGE / "schema").glob("*.py"))
    whole, _ = mutants.sample(paths, count=10, seed=3)
    parts = [
        mutants.sample(paths, count=10, seed=3, part=mutants.read_part(text))[0]
        for text in ("1/3", "2/3", "3/3")
    ]

    assert [len(part) for part in parts] == [4, 3, 3]
    assert {repr(mutant) for part in parts for mutant in part} == {*map(repr, whole)}


@pytest.mark.parametrize("text", ["3/2", "0/2", "2", "a/b", "1/2/3"])
def test_a_part_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="part"):
        mutants.read_part(text)
