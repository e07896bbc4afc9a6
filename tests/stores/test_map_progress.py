"""The finished rows of `ot.map` on disk, read in blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from onetool_ipy.stores.map_progress import FinishedRow, MapProgress, row_keys


def keys_of(count: int) -> list[str]:
    return row_keys({"number": number} for number in range(count))


def test_rows_are_found_wherever_the_blocks_of_the_file_end(tmp_path: Path) -> None:
    """Values of many lengths, some longer than what is read at a time."""
    stored = MapProgress(tmp_path / "rows.jsonl")
    stored.begin()
    keys = keys_of(60)
    wanted = {key: "x" * (number * 9001 if number % 20 else 3_000_000) for number, key in enumerate(keys)}
    assert all(stored.add(key, value, 1.5) for key, value in wanted.items())
    found = MapProgress(tmp_path / "rows.jsonl")
    found.refresh()
    assert list(found.values(keys)) == [FinishedRow(wanted[key], 1.5) for key in keys]


@pytest.mark.parametrize("is_read", [True, False], ids=["read before", "not read before"])
def test_a_dropped_row_is_not_finished_until_it_is_stored_again(tmp_path: Path, is_read: bool) -> None:
    path, keys = tmp_path / "rows.jsonl", keys_of(5)
    first = MapProgress(path)
    first.begin()
    for key in keys:
        first.add(key, "old", 1.0)
    second = MapProgress(path)
    if is_read:
        second.refresh()
    second.drop([*keys[:3], ""])
    second.add(keys[0], "new", 2.0)
    for found in (second, MapProgress(path)):
        found.refresh()
        assert [found.is_finished(key) for key in keys] == [True, False, False, True, True]
        assert next(found.values([keys[0]])) == FinishedRow("new", 2.0)


def test_a_line_that_is_still_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path, keys = tmp_path / "rows.jsonl", keys_of(3)
    stored = MapProgress(path)
    stored.begin()
    stored.add(keys[0], "whole", 1.0)
    whole = path.read_bytes()
    stored.add(keys[1], "later", 1.0)
    later = path.read_bytes()
    reader = MapProgress(path)
    path.write_bytes(later[:-5])
    reader.refresh()
    assert [reader.is_finished(key) for key in keys] == [True, False, False]
    path.write_bytes(later)
    stored.add(keys[2], "last", 1.0)
    reader.refresh()
    assert [row and row.value for row in reader.values(keys)] == ["whole", "later", "last"]
    assert later.startswith(whole)


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path, keys = tmp_path / "rows.jsonl", keys_of(3)
    stored = MapProgress(path)
    stored.begin()
    stored.add(keys[0], "first", 1.0)
    path.write_bytes(path.read_bytes() + b'\n{"k":"' + keys[1].encode() + b'","t":99999999999.5,"ms":1')
    stored.add(keys[2], "last", 1.0)
    reader = MapProgress(path)
    reader.refresh()
    assert [row and row.value for row in reader.values(keys)] == ["first", None, "last"]
