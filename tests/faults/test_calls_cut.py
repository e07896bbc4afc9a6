"""A truncated or damaged file of the call log costs the calls in the damaged part and nothing else.

6,000 calls, most of them in the database, the newest also in the append file of the process that is still running.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onetool_ipy.stores.calls.log import CallLog

CALLS, NEWEST = 6000, 2500
PAGE = 4096
TABLE_LEAF, TABLE_INNER = 0x0D, 0x05


def record(log: CallLog, numbers: range) -> None:
    for number in numbers:
        log.record(f"id{number}", f"a.t{number % 7}", "python", {"n": number}, ok=number % 9 != 0, ms=1.5, size=3)


def ids(log: CallLog) -> set[str]:
    return {row.call_id for row in log.history(limit=None)}


def append_file(folder: Path) -> Path:
    (found,) = folder.glob("calls-1-*.jsonl")
    return found


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """6,000 calls, all of them in the database; the process that recorded them holds its append file."""
    folder = tmp_path_factory.mktemp("full") / "calls"
    first = CallLog(folder)
    record(first, range(CALLS - NEWEST))
    first.close()
    first.fold()
    log = CallLog(folder)
    record(log, range(CALLS - NEWEST, CALLS))
    log.fold()
    assert append_file(folder).read_bytes().count(b"\n") // 2 == NEWEST
    assert log.usage().total_calls == CALLS
    yield folder
    log.close()


@pytest.fixture
def folder(full: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(full, tmp_path / "calls"))


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def flip(path: Path, start: int, count: int) -> None:
    data = bytearray(path.read_bytes())
    for place in range(start, start + count):
        data[place] ^= 0x55
    path.write_bytes(data)


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


APPEND_DAMAGE: dict[str, Callable[[Path], None]] = {
    "one byte cut": lambda path: cut(path, path.stat().st_size - 1),
    "half cut": lambda path: cut(path, path.stat().st_size // 2),
    "cut to nothing": lambda path: cut(path, 0),
    "deleted": Path.unlink,
    "bytes flipped in the middle": lambda path: flip(path, path.stat().st_size // 2, 500),
    "last bytes flipped": lambda path: flip(path, path.stat().st_size - 3, 3),
    "all bytes flipped": lambda path: flip(path, 0, path.stat().st_size),
    "garbage appended": lambda path: add(path, b"\xff{garbage" * 50),
    "garbage with newlines appended": lambda path: add(path, b"\n\xff{garbage\n" * 50),
    "a megabyte of garbage appended": lambda path: add(path, b"\xff" * (1 << 20)),
}


@pytest.mark.parametrize("damage", APPEND_DAMAGE.values(), ids=APPEND_DAMAGE.keys())
def test_a_damaged_append_file_costs_nothing_that_the_database_has(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    damage(append_file(folder))
    log = CallLog(folder)

    assert log.usage().total_calls == CALLS
    assert len(ids(log)) == CALLS
    record(log, range(CALLS, CALLS + 5))
    log.fold()
    assert log.usage().total_calls == CALLS + 5
    assert ids(log) == {f"id{number}" for number in range(CALLS + 5)}
    assert not list(folder.glob("calls-damaged-*")), "the database was not damaged"


@pytest.mark.parametrize("damage", APPEND_DAMAGE.values(), ids=APPEND_DAMAGE.keys())
def test_a_damaged_append_file_costs_its_own_damaged_lines(folder: Path, damage: Callable[[Path], None]) -> None:
    """100 more calls are in an append file only. What is whole of its lines is what counts."""
    append_file(folder).unlink()
    writer = CallLog(folder)
    record(writer, range(CALLS, CALLS + 100))
    path = append_file(folder)
    lines = path.read_bytes().split(b"\n")
    damage(path)
    left = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    kept = sum(line in left for line in lines if line)
    log = CallLog(folder)

    assert log.usage().total_calls == CALLS + kept
    log.fold()
    assert log.usage().total_calls == CALLS + kept
    assert len(ids(log)) == CALLS + kept
    writer.close()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_calls_recorded_after_the_cut_all_count(folder: Path, share: float) -> None:
    """The process goes on writing to its file, past the place up to which the file was read before."""
    append_file(folder).unlink()
    log = CallLog(folder)
    record(log, range(CALLS, CALLS + 300))
    log.fold()
    path = append_file(folder)
    cut(path, int(path.stat().st_size * share))
    record(log, range(CALLS + 300, CALLS + 900))

    assert CallLog(folder).usage().total_calls == CALLS + 900
    assert ids(log) == {f"id{number}" for number in range(CALLS + 900)}
    log.close()


def pages(folder: Path) -> int:
    return (folder / "calls.db").stat().st_size // PAGE


DATABASE_DAMAGE: dict[str, Callable[[Path], None]] = {
    "first page": lambda path: flip(path, 0, PAGE),
    "header": lambda path: flip(path, 0, 100),
    "application id": lambda path: flip(path, 68, 4),
    "journal deleted": lambda path: path.with_name("calls.db-journal").unlink(missing_ok=True),
    "journal of garbage": lambda path: (
        path.with_name("calls.db-journal").write_bytes(b"\xd9\xd5\x05\xf9" * 999) and None
    ),
    "one byte cut": lambda path: cut(path, path.stat().st_size - 1),
    "one page cut": lambda path: cut(path, path.stat().st_size - PAGE),
    "half cut": lambda path: cut(path, path.stat().st_size // 2),
    "garbage appended": lambda path: add(path, b"\xff" * 10_000),
}


@pytest.mark.parametrize("has_append_file", [True, False])
@pytest.mark.parametrize("damage", DATABASE_DAMAGE.values(), ids=DATABASE_DAMAGE.keys())
def test_a_damaged_database_still_counts_every_call(
    folder: Path, damage: Callable[[Path], None], has_append_file: bool
) -> None:
    if not has_append_file:
        append_file(folder).unlink()
    damage(folder / "calls.db")
    log = CallLog(folder)

    assert log.usage().total_calls == CALLS
    assert log.usage(period="day").total_calls == CALLS
    assert sum(row.failures for row in log.usage().tools) == len(range(0, CALLS, 9))
    record(log, range(CALLS, CALLS + 5))
    log.fold()
    assert CallLog(folder).usage().total_calls == CALLS + 5


@pytest.mark.parametrize("fill", [b"\0" * PAGE, b"\xa5" * PAGE], ids=["zeros", "garbage"])
def test_any_damaged_page_costs_at_most_the_rows_in_it(full: Path, tmp_path: Path, fill: bytes) -> None:
    """Rollups and rows are on different pages, and rollups are counted again from the rows.

    A page in the middle of the table of calls costs at most its own rows in the history, and never their number.
    """
    data = (full / "calls.db").read_bytes()
    step = max(1, pages(full) // (100 if os.environ.get("ONETOOL_SOAK") else 5))
    for page in sorted({*range(12), *range(12, pages(full), step), pages(full) - 1}):
        folder = tmp_path / str(page)
        shutil.copytree(full, folder)
        with (folder / "calls.db").open("r+b") as file:
            file.seek(page * PAGE)
            file.write(fill)
        log = CallLog(folder)
        log.fold()

        rows = len(log.history(limit=None))
        assert log.usage().total_calls == CALLS, f"page {page}"
        assert log.usage(period="day").total_calls == CALLS, f"page {page}"
        assert rows >= least_rows(data, page), f"page {page}: {rows} rows"
        shutil.rmtree(folder)


def least_rows(data: bytes, page: int) -> int:
    """How many rows must be left without a page: only leaves of tables hold rows, and inner pages lead to them."""
    kind, cells = data[page * PAGE], int.from_bytes(data[page * PAGE + 3 : page * PAGE + 5], "big")
    if kind == TABLE_LEAF:
        return CALLS - cells
    return 0 if kind == TABLE_INNER else CALLS


def test_two_damaged_tables_are_made_anew_from_the_single_calls(folder: Path) -> None:
    append_file(folder).unlink()
    with sqlite3.connect(folder / "calls.db") as connection:
        connection.execute("PRAGMA writable_schema=ON")
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    connection.close()
    for table in ("rollups", "files", "calls_by_ts"):
        flip(folder / "calls.db", (roots[table] - 1) * PAGE, PAGE)
    log = CallLog(folder)

    assert log.usage().total_calls == CALLS
    assert {row.tool: row.calls for row in log.usage().tools} == {
        f"a.t{number}": len(range(number, CALLS, 7)) for number in range(7)
    }
    assert ids(log) == {f"id{number}" for number in range(CALLS)}


def test_a_flipped_count_is_seen_and_made_anew(folder: Path) -> None:
    with sqlite3.connect(folder / "calls.db") as connection:
        connection.execute(
            "UPDATE rollups SET calls = calls + 4096 WHERE span = 'all' AND tool IN (SELECT max(tool) FROM rollups)"
        )
    connection.close()

    assert CallLog(folder).usage().total_calls == CALLS


def test_append_files_are_on_the_disk_before_the_database_relies_on_them(tmp_path: Path) -> None:
    """A real process is watched from inside: the file is synced while the transaction is still open."""
    script = textwrap.dedent(
        """
        import os, sqlite3, sys
        from pathlib import Path
        from onetool_ipy.stores.calls.log import CallLog

        def fsync(fd, sync=os.fsync):
            sync(fd)
            database = sqlite3.connect(folder / "calls.db")
            count = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            database.close()
            print(Path(os.readlink(f"/proc/self/fd/{fd}")).name, count)

        folder = Path(sys.argv[1])
        log = CallLog(folder)
        log.record("id1", "a.b", "python", {}, ok=True, ms=1.0)
        os.fsync = fsync
        log.fold()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.split() == [append_file(tmp_path).name, "0"], "synced, and nothing was committed yet"
