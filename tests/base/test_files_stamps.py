"""Stamps: when a file may have changed, and when its times cannot tell."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from onetool_ipy.base.files import is_young, stamp_from, stamp_of


def test_nothing_has_no_stamp(tmp_path: Path) -> None:
    assert stamp_of(tmp_path / "nope") is None
    assert stamp_of("\0") is None


def test_a_replaced_file_has_another_stamp(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_text("one")
    other.write_text("two")
    found = file.stat()
    before = stamp_of(file)

    os.utime(other, ns=(found.st_mtime_ns, found.st_mtime_ns))
    other.replace(file)

    assert before == stamp_from(found)
    assert stamp_of(file) != before


@pytest.mark.parametrize(
    ("age_s", "fraction_ns", "young"),
    [(0.0, 1, True), (0.5, 1, False), (1.0, 0, True), (5.0, 0, False)],
    ids=[
        "now",
        "half a second ago",
        "a second ago, by a clock of seconds",
        "long ago, by a clock of seconds",
    ],
)
def test_what_changed_within_a_tick_is_young(age_s: float, fraction_ns: int, young: bool) -> None:
    moment = time.time_ns() - int(age_s * 1e9)
    moment = moment - moment % 1_000_000_000 if fraction_ns == 0 else moment | 1

    assert is_young((moment, moment, 1, 1)) is young


def test_what_fat_counts_in_two_seconds_stays_young_until_its_clock_ticks() -> None:
    """On Windows the second time is that of creation, which FAT counts in 10 ms."""
    now = 1_700_000_001_500_000_000
    written, created = 1_700_000_000_000_000_000, 1_600_000_000_010_000_000

    assert is_young((written, created, 1, 1), now)
    assert not is_young((written, created, 1, 1), now + 1_000_000_000)
