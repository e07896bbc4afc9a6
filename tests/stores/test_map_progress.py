"""The finished rows of `ot.map` on disk, read in blocks."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
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
    wanted = {
        key: "x" * (number * 9001 if number % 20 else 3_000_000) for number, key in enumerate(keys)
    }
    assert all(stored.add(key, value, 1.5) for key, value in wanted.items())
    found = MapProgress(tmp_path / "rows.jsonl")
    found.refresh()
    assert list(found.values(keys)) == [FinishedRow(wanted[key], 1.5) for key in keys]


@pytest.mark.parametrize("is_read", [True, False], ids=["read before", "not read before"])
def test_a_dropped_row_is_not_finished_until_it_is_stored_again(
    tmp_path: Path, is_read: bool
) -> None:
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
    path.write_bytes(
        path.read_bytes() + b'\n{"k":"' + keys[1].encode() + b'","t":99999999999.5,"ms":1'
    )
    stored.add(keys[2], "last", 1.0)
    reader = MapProgress(path)
    reader.refresh()
    assert [row and row.value for row in reader.values(keys)] == ["first", None, "last"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the open files of a process")
def test_the_file_is_open_for_the_rows_of_a_run_and_no_longer(tmp_path: Path) -> None:
    """A row that Stop left running ends after the run: it is stored, too."""
    path, keys = tmp_path / "rows.jsonl", keys_of(2)
    stored = MapProgress(path)
    stored.begin()

    with stored.open_for_rows():
        assert stored.add(keys[0], "in time", 1.0)
        assert is_open(path)
    assert stored.add(keys[1], "late", 1.0)

    assert not is_open(path)
    stored.refresh()
    assert [row and row.value for row in stored.values(keys)] == ["in time", "late"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the open files of a process")
def test_a_forked_child_leaves_the_open_file_to_its_parent(tmp_path: Path) -> None:
    path, keys = tmp_path / "rows.jsonl", keys_of(2)
    stored = MapProgress(path)
    stored.begin()

    with stored.open_for_rows():
        child = os.fork()
        if not child:
            os._exit(0 if not is_open(path) and stored.add(keys[0], "child", 1.0) else 1)
        _, status = os.waitpid(child, 0)
        assert stored.add(keys[1], "parent", 1.0)

    assert status == 0
    stored.refresh()
    assert [row and row.value for row in stored.values(keys)] == ["child", "parent"]


def is_open(path: Path) -> bool:
    """Whether this process has the file open."""
    folder = Path("/proc/self/fd")
    return str(path) in [
        os.readlink(folder / name) for name in os.listdir(folder) if os.path.lexists(folder / name)
    ]


def test_rows_that_threads_store_at_once_are_all_found(tmp_path: Path) -> None:
    """Of eight threads, each with a store of its own, as kernels are; half of the rows are longer
    than a block."""
    keys = keys_of(80)
    start = threading.Barrier(8)
    MapProgress(tmp_path / "rows.jsonl").begin()

    def store(own: list[str]) -> None:
        rows = MapProgress(tmp_path / "rows.jsonl")
        start.wait()
        assert all(rows.add(key, key * 2000, 1.0) for key in own)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store, [keys[number::8] for number in range(8)]))

    known = MapProgress(tmp_path / "rows.jsonl")
    known.refresh()
    assert list(known.values(keys)) == [FinishedRow(key * 2000, 1.0) for key in keys]
