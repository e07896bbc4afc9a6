"""Journals: one line for each call, one owner for each open file, and a damaged line costs itself only."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.calls.journal import FIELDS, Journal, journals_in, parse
from onetool_ipy.stores.calls.log import CallLog
from tests.stores.calls.aids import calls, clock, note

__all__ = ["calls", "clock"]  # fixtures

CALL: dict[str, Any] = {
    "ts": 1772619630123456,
    "id": "c1",
    "tool": "a.b",
    "source": "python",
    "args": "{}",
    "whole": True,
    "ok": True,
    "ms": 1.5,
    "size": 7,
}


def line(**changes: Any) -> bytes:
    return json.dumps({**CALL, **changes}).encode() + b"\n"


def test_a_line_is_an_object_that_a_person_can_read(tmp_path: Path) -> None:
    calls = CallLog(tmp_path, notebook=lambda: "/home/eve/plan.ipynb")
    calls.record(
        "c1", "geo.code", "magic", {"q": "x"}, ok=False, ms=1.5, code="invalid_args", message="no", parent="c0"
    )

    (file,) = journals_in(calls.folder).values()
    row = json.loads(file.path.read_bytes())

    assert (file.state, file.path.suffix) == ("open", ".jsonl")
    assert (row["id"], row["tool"], row["args"], row["ok"]) == ("c1", "geo.code", '{"q":"x"}', False)
    assert (row["code"], row["message"], row["parent"]) == ("invalid_args", "no", "c0")
    assert row["notebook"] == "/home/eve/plan.ipynb"
    assert {"user", "host", "session"} <= row.keys() <= {*FIELDS}


def test_processes_one_after_the_other_share_a_journal(tmp_path: Path) -> None:
    """Each command of the command line is a process of its own, with one call."""
    for number in range(200):
        log = CallLog(tmp_path)
        note(log, number=number)
        log.close()

    assert len(journals_in(tmp_path)) == 1
    assert CallLog(tmp_path).usage().total_calls == 200


def test_two_processes_at_once_have_a_journal_each(tmp_path: Path) -> None:
    first, second = CallLog(tmp_path), CallLog(tmp_path)
    note(first, number=1)
    note(second, number=2)

    assert len(journals_in(tmp_path)) == 2
    assert first.usage().total_calls == second.usage().total_calls == 2


def test_a_full_journal_is_left_and_another_begun(tmp_path: Path) -> None:
    journal = Journal(tmp_path, rotate_bytes=300)

    answers = [journal.append(line(id=f"c{number}")) for number in range(4)]

    assert answers == [False, False, True, False]
    assert sorted(file.path.read_bytes().count(b"\n") for file in journals_in(tmp_path).values()) == [1, 3]


def test_the_beginning_of_a_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    """A kill left it; the process that goes on with the journal removes it. Its call was never acknowledged."""
    journal = Journal(tmp_path)
    journal.append(line(id="c1"))
    journal.append(line(id="c2")[:-9])
    journal.release()

    Journal(tmp_path).append(line(id="c3"))

    log = CallLog(tmp_path)
    assert {row.call_id for row in log.history()} == {"c1", "c3"}
    assert log.problems() == []


def test_threads_share_one_journal(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls", rotate_bytes=20_000)

    def work(thread: int) -> None:
        for number in range(500):
            note(log, f"t.{thread}", thread * 1000 + number)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {row.tool: row.calls for row in log.usage().tools} == {f"t.{thread}": 500 for thread in range(8)}
    assert len({row.call_id for row in log.history(limit=None)}) == 4000


def test_a_forked_child_has_a_journal_and_a_session_of_its_own(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
log = CallLog(Path(sys.argv[1]))
log.record("parent", "a.b", "python", {}, ok=True, ms=0.0)
pid = os.fork()
log.record("child" if pid == 0 else "parent2", "a.b", "python", {}, ok=True, ms=0.0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
rows = log.history()
print(len(list(log.folder.glob("*.jsonl"))), len({row.session for row in rows}), *sorted(row.call_id for row in rows))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "calls")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stdout.split() == ["2", "2", "child", "parent", "parent2"], done.stderr


def test_files_are_for_their_owner_alone(calls: CallLog) -> None:
    note(calls)
    calls.compact()

    modes = {path.name: path.stat().st_mode & 0o777 for path in calls.folder.iterdir()}

    assert set(modes.values()) == {0o600}
    assert calls.folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_deleted_under_a_running_process_is_made_again(calls: CallLog) -> None:
    note(calls, number=1)
    for path in calls.folder.iterdir():
        path.unlink()
    calls.folder.rmdir()
    calls.usage()
    note(calls, number=2)

    assert [row.call_id for row in calls.history()] == ["id2"]


def test_foreign_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    names = ["notes.txt", "calls.jsonl", "20260304T102030-x.jsonl", "calls-1-1-000000000000.jsonl", ".hidden", "x.db"]
    for name in names:
        (tmp_path / name).write_text("[1]\n", encoding="utf-8")
    os.mkfifo(tmp_path / "20260304T102030000000-00000000.jsonl")
    (tmp_path / "20260304T102030000000-00000001.jsonl").mkdir()
    (tmp_path / "20260304T102030000000-00000002.jsonl").symlink_to(tmp_path / "notes.txt")
    log = CallLog(tmp_path)
    note(log)

    assert log.usage().total_calls == 1
    assert log.problems() == []
    assert all((tmp_path / name).read_text(encoding="utf-8") == "[1]\n" for name in names)


@pytest.mark.parametrize(
    "damaged",
    [
        b"\n",
        b"garbage\n",
        b"\0" * 4096 + b"\n",
        b"{}\n",
        b"[]\n",
        b"[1,2]\n",
        b'{"id":"c1"}\n',
        b'{"id":"c1","handle":7}\n',
        b"[" * 500 + b"\n",
        b"\xff\xfe\n",
        line(ms=-1),
        line(ms="x"),
        line(ms=1).replace(b'"ms": 1', b'"ms": 1e999'),
        line(ts=1 << 70),
        line(ok=1),
        line(whole=None),
        line(handle=None),
        line(size=1 << 60),
        line(tool=""),
        line()[:30] + line(),
        b"x" * 3_000_000 + b"\n",
    ],
    ids=lambda damaged: ascii(damaged[:24]),
)
def test_a_damaged_line_costs_itself_only(tmp_path: Path, damaged: bytes) -> None:
    good = [line(id=f"c{number}") for number in range(6)]
    (tmp_path / "20260304T102030000000-00000000.jsonl").write_bytes(b"".join([*good[:3], damaged, *good[3:]]))
    (tmp_path / "20260304T102030000000-00000001.jsonl").write_bytes(line(id="c9"))
    log = CallLog(tmp_path)

    assert log.usage().total_calls == 7
    assert {row.call_id for row in log.history()} == {"c0", "c1", "c2", "c3", "c4", "c5", "c9"}
    assert bool(log.problems()) is (damaged != b"\n")


@pytest.mark.parametrize("keep", [1, 20, 60])
def test_a_last_line_without_its_end_is_no_problem(tmp_path: Path, keep: int) -> None:
    (tmp_path / "20260304T102030000000-00000000.jsonl").write_bytes(
        line(id="c1") + line(id="c2") + line(id="c3")[:keep]
    )
    log = CallLog(tmp_path)

    assert log.usage().total_calls == 2
    assert log.problems() == []


def test_a_damaged_closed_journal_costs_what_follows_the_damage(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(line(id=f"c{number}", args=os.urandom(40).hex()) for number in range(2000)))
    path = tmp_path / "20260304T102030000000-00000000.jsonl.gz"
    path.write_bytes(data[: len(data) // 2])
    log = CallLog(tmp_path)

    assert 800 < log.usage().total_calls < 1200
    assert "lines could not be read" in str(log.problems()[0])


def test_handles_are_lines_of_their_own() -> None:
    lines = parse(line(id="c1") + b'{"id":"c1","handle":"r_1"}\n' + line(id="c2", handle="r_2"))

    assert (len(lines.calls), lines.handles, lines.damaged) == (2, [("c1", "r_1")], 0)
