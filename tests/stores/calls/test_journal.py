"""Journals: one line for each call, one owner for each open file, and a damaged line costs itself
only."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.stores.calls.journal import CONTEXT, Journal, files_in, parse
from onetool_ipy.stores.calls.log import CallLog
from tests.harness.programs import python
from tests.harness.systems import has_mode, make_pipe
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


def test_what_calls_share_is_written_once_and_each_call_is_a_short_array(tmp_path: Path) -> None:
    calls = CallLog(tmp_path, notebook=lambda: "/home/eve/plan.ipynb")
    for number, ok in enumerate((True, True, False)):
        more = {} if ok else {"code": "invalid_args", "message": "no", "parent": "c0"}
        calls.record(f"c{number}", "geo.code", "magic", {"q": "x"}, ok, 1.5, args_size=1, **more)
    calls.record("c3", "geo.code", "magic", {"q": b"x"}, True, 1.5)

    (file,) = files_in(calls.folder)
    context, *rows = map(json.loads, file.path.read_bytes().splitlines())

    assert (file.state, file.path.suffix) == ("open", ".jsonl")
    assert (context["context"], context["tool"], context["source"]) == (0, "geo.code", "magic")
    assert context["notebook"] == "/home/eve/plan.ipynb"
    assert {"user", "host", "session"} <= context.keys() <= {"context", *CONTEXT}
    assert [(row[0], *row[2:]) for row in rows] == [
        (0, "c0", {"q": "x"}, 1.5, 0),
        (0, "c1", {"q": "x"}, 1.5, 0),
        (
            *(0, "c2", {"q": "x"}, 1.5, 0),
            {"ok": False, "code": "invalid_args", "message": "no", "parent": "c0"},
        ),
        (0, "c3", '{"q":"<1 bytes>"}', 1.5, 0),
    ]


def test_a_process_that_goes_on_with_a_journal_takes_no_context_of_the_last_one(
    tmp_path: Path,
) -> None:
    for number in range(3):
        log = CallLog(tmp_path)
        note(log, f"a.t{number}", number)
        note(log, f"a.t{number + 1}", number + 10)
        log.close()

    assert {(row.call_id, row.tool) for row in log.history()} == {
        *((f"id{number}", f"a.t{number}") for number in range(3)),
        *((f"id{number + 10}", f"a.t{number + 1}") for number in range(3)),
    }
    assert len({row.session for row in log.history()}) == 3


def test_a_damaged_context_costs_its_calls_what_it_said_and_nothing_else(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    note(log, "a.b", 1)
    note(log, "c.d", 2)
    note(log, "a.b", 3)
    (file,) = files_in(tmp_path)
    file.path.write_bytes(file.path.read_bytes().replace(b'{"context":0', b'{"contxet":0'))

    log = CallLog(tmp_path)
    assert {(row.call_id, row.tool, row.arguments["n"]) for row in log.history()} == {
        ("id1", "(unknown)", 1),
        ("id2", "c.d", 2),
        ("id3", "(unknown)", 3),
    }
    assert "1 lines could not be read" in str(log.problems()[0])


def test_processes_one_after_the_other_share_a_journal(tmp_path: Path) -> None:
    """Each command of the command line is a process of its own, with one call."""
    for number in range(200):
        log = CallLog(tmp_path)
        note(log, number=number)
        log.close()

    assert len(files_in(tmp_path)) == 1
    assert CallLog(tmp_path).usage().total_calls == 200


def test_two_processes_at_once_have_a_journal_each(tmp_path: Path) -> None:
    first, second = CallLog(tmp_path), CallLog(tmp_path)
    note(first, number=1)
    note(second, number=2)

    assert len(files_in(tmp_path)) == 2
    assert first.usage().total_calls == second.usage().total_calls == 2


def test_a_journal_without_a_line_is_left_to_the_process_that_made_it(tmp_path: Path) -> None:
    """It may not have claimed it yet."""
    made = tmp_path / "20260304T101112000000-0123abcd.jsonl"
    made.touch()
    log = CallLog(tmp_path, close_calls=0)
    note(log, number=1)
    log.close()

    log.tidy()

    assert made.read_bytes() == b""
    assert [file.path.suffix for file in files_in(tmp_path)] == [".jsonl", ".parquet"]


def test_a_journal_whose_owner_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from onetool_ipy.stores.calls.journal import Journal;"
        "journal = Journal(pathlib.Path(sys.argv[1])); journal.append(b'{}\\n'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 9

    journals = [Journal(tmp_path) for _ in range(2)]
    for journal in journals:
        journal.append(line(id="c1"))

    assert sorted(file.path.read_bytes().count(b"\n") for file in files_in(tmp_path)) == [1, 2]


def test_a_full_journal_is_left_and_another_begun(tmp_path: Path) -> None:
    journal = Journal(tmp_path, rotate_bytes=300)

    answers = [journal.append(line(id=f"c{number}")) for number in range(4)]

    assert answers == [False, False, True, False]
    assert sorted(file.path.read_bytes().count(b"\n") for file in files_in(tmp_path)) == [1, 3]


@pytest.mark.posix("a limit of a file's size")
def test_a_call_that_fits_in_part_is_counted_as_lost_and_spoils_nothing(tmp_path: Path) -> None:
    """A disk that becomes full takes a part of a line."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from onetool_ipy.stores.calls.journal import Journal, files_in\n"
        "folder, *lines = sys.argv[1:]; folder = Path(folder)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "journal = Journal(folder); journal.append(lines[0].encode())\n"
        "(file,) = files_in(folder)\n"
        "limit = file.path.stat().st_size + 5\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "journal.append(lines[1].encode()); print(journal.dropped, journal.fault.reason)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "journal.append(lines[2].encode())"
    )
    lines = [line(id=name).decode() for name in ("c1", "c2", "c3")]
    done = python(code, tmp_path, *lines, check=False)

    assert done.stdout == "1 the disk is full\n", done.stderr
    assert [row.call_id for row in CallLog(tmp_path).history()] == ["c3", "c1"]


def test_the_beginning_of_a_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    """A kill left it; the process that goes on with the journal removes it. Its call was never
    acknowledged."""
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

    assert {row.tool: row.calls for row in log.usage().tools} == {
        f"t.{thread}": 500 for thread in range(8)
    }
    assert len({row.call_id for row in log.history(limit=None)}) == 4000


@pytest.mark.posix("fork")
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
    done = python(code, tmp_path / "calls", check=False)

    assert done.stdout.split() == ["2", "2", "child", "parent", "parent2"], done.stderr


def test_files_are_for_their_owner_alone(calls: CallLog) -> None:
    note(calls)
    calls.close()
    calls.tidy()

    assert all(has_mode(path, 0o600) for path in calls.folder.iterdir())
    assert has_mode(calls.folder, 0o700)


@pytest.mark.posix("Windows removes no file that is open")
def test_a_folder_deleted_under_a_running_process_is_made_again(calls: CallLog) -> None:
    note(calls, number=1)
    for path in calls.folder.iterdir():
        path.unlink()
    calls.folder.rmdir()
    calls.usage()
    note(calls, number=2)

    assert [row.call_id for row in calls.history()] == ["id2"]


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_log_whose_file_a_tool_closed_goes_on_in_another(calls: CallLog, is_asked: bool) -> None:
    """As code does that makes itself a daemon, or closes one number twice."""
    note(calls, number=1)
    (file,) = calls.folder.glob("*.jsonl")
    for number in range(3, 512):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), file.stat()):
                os.close(number)
    if is_asked:
        calls.usage()
    note(calls, number=2)
    note(calls, number=3)

    kept = {row.call_id for row in calls.history()}
    assert kept == ({"id1", "id2", "id3"} if is_asked else {"id1", "id3"})
    assert len(calls.problems()) == (not is_asked), "a call that was not recorded is told"


class ChangingFolder(type(Path())):  # type: ignore[misc]  # the class differs by system
    """A folder in which another process closes a journal between the listing and the look at it."""

    changes: ClassVar[list[tuple[str, str]]] = []

    def __truediv__(self, name: str) -> Path:
        while self.changes and self.changes[0][0] == name:
            before, after = self.changes.pop(0)
            os.rename(os.path.join(self, before), os.path.join(self, after))
        return Path(os.path.join(self, name))


def test_a_file_that_gets_another_name_while_the_folder_is_read_is_found(tmp_path: Path) -> None:
    """A journal becomes a part, and an old part its sums, each behind the listing."""
    first, second = "20260101T000000000000-00000001", "20260101T000000000000-00000002"
    (tmp_path / f"{first}.jsonl").write_bytes(line())
    (tmp_path / f"{second}.parquet").write_bytes(b"PAR1")
    folder = ChangingFolder(tmp_path)
    folder.changes[:] = [
        (f"{first}.jsonl", f"{first}.parquet"),
        (f"{second}.parquet", f"{second}.days.parquet"),
    ]

    files = {file.name: file.state for file in files_in(folder)}

    assert not folder.changes
    assert files == {first: "part", second: "expired"}


def test_foreign_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    names = [
        "notes.txt",
        "calls.jsonl",
        "20260304T102030-x.jsonl",
        "calls-1-1-000000000000.jsonl",
        ".hidden",
        "x.db",
    ]
    for name in names:
        (tmp_path / name).write_text("[1]\n", encoding="utf-8")
    make_pipe(tmp_path / "20260304T102030000000-00000000.jsonl")
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
        b'[0,1772619630123456,"c1",{},1.5,7\n',
        b'[0,1772619630123456,"c1",{},1.5]\n',
        b'[0,1772619630123456,"c1",{},-1,7]\n',
        b'[0,1772619630123456,"c1",{},1.5,7,{"odd":1}]\n',
        b'[[],1772619630123456,"c1",{},1.5,7]\n',
        b'{"context":0,"tool":7}\n',
        b'{"context":[],"tool":"a.b"}\n',
        b"x" * 3_000_000 + b"\n",
    ],
    ids=lambda damaged: ascii(damaged[:24]),
)
def test_a_damaged_line_costs_itself_only(tmp_path: Path, damaged: bytes) -> None:
    good = [line(id=f"c{number}") for number in range(6)]
    (tmp_path / "20260304T102030000000-00000000.jsonl").write_bytes(
        b"".join([*good[:3], damaged, *good[3:]])
    )
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
    data = gzip.compress(
        b"".join(line(id=f"c{number}", args=os.urandom(40).hex()) for number in range(2000))
    )
    path = tmp_path / "20260304T102030000000-00000000.jsonl.gz"
    path.write_bytes(data[: len(data) // 2])
    log = CallLog(tmp_path)

    assert 800 < log.usage().total_calls < 1200
    assert "lines could not be read" in str(log.problems()[0])


def test_handles_are_lines_of_their_own() -> None:
    lines = parse(line(id="c1") + b'{"id":"c1","handle":"r_1"}\n' + line(id="c2", handle="r_2"), {})

    assert (len(lines.calls), lines.handles, lines.damaged) == (2, [("c1", "r_1")], 0)


@given(
    pieces=st.lists(
        st.sampled_from([b"[", b"]", b'"', b",", b"{}", b"1", b"x", b"\n", b" ", line(), b"[0,1]"]),
        max_size=12,
    )
)
def test_a_block_reads_like_its_lines_one_by_one(pieces: list[bytes]) -> None:
    """Blocks are decoded in one piece, and parts of two lines must never become one."""
    data = b"".join(pieces) + b"\n"

    together = parse(data, {})
    alone = [parse(each + b"\n", {}) for each in data.split(b"\n") if each]

    assert together.calls == [call for lines in alone for call in lines.calls]
    assert together.damaged == sum(lines.damaged for lines in alone)
