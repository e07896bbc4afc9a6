"""Parquet parts that are damaged, of another version, or not ours: each costs itself, and is named."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
import pytest

from onetool_ipy.faces.notebook.running_cell import Interrupts
from onetool_ipy.stores.calls import database
from onetool_ipy.stores.calls.closing import Retention
from onetool_ipy.stores.calls.journal import files_in
from onetool_ipy.stores.calls.log import CallLog
from tests.harness.programs import python
from tests.stores.calls.aids import Clock, clock, note
from tests.stores.calls.test_closing import filled, tidied

__all__ = ["clock"]  # a fixture

DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "text": lambda path: path.write_text("not a table", encoding="utf-8"),
    "zeros": lambda path: path.write_bytes(zeroed(path.read_bytes())),
    "schema": lambda path: rewrite(path, "SELECT 'x' AS ts, 7 AS tool"),
    "version": lambda path: rewrite(path, "SELECT * FROM calls", version="9"),
    "unmarked": lambda path: rewrite(path, "SELECT * FROM calls", version=None),
}


def zeroed(data: bytes) -> bytes:
    """A file whose footer is whole, and whose pages are not."""
    footer = int.from_bytes(data[-8:-4], "little") + 8
    return data[:4] + bytes(len(data) - footer - 4) + data[-footer:]


def rewrite(path: Path, query: str, version: str | None = "1") -> None:
    facts = {"version": version, "calls": "1", "first": "1", "last": "9" * 17}
    facts |= {"damaged": "0", "attached": "0", "members": ""}
    text = ", ".join(f"{name}: '{fact}'" for name, fact in facts.items())
    with duckdb.connect() as database:
        database.execute(f"CREATE VIEW calls AS FROM read_parquet('{path}')").fetchall()
        metadata = f", KV_METADATA {{{text}}}" if version else ""
        new = path.with_suffix(".new")
        database.execute(f"COPY ({query}) TO '{new}' (FORMAT parquet{metadata})").fetchall()
    new.replace(path)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", [0, 2])
def test_a_damaged_part_costs_itself_and_is_named(
    tmp_path: Path, clock: Clock, damage: str, place: int
) -> None:
    log = tidied(tmp_path, clock)
    path = sorted(tmp_path.glob("*.parquet"))[place]
    DAMAGES[damage](path)

    for asked in (log, CallLog(tmp_path, clock=clock)):
        assert asked.usage().total_calls == 400
        assert len(asked.history(limit=None)) == len(asked.frame()) == 400
        asked.overview(period="month")
        assert asked.family("id450").calls.keys() <= {"id450"}
        (problem,) = asked.problems()
        assert problem.where == str(path)
    note(log, number=1000)
    log.tidy()
    assert log.usage().total_calls == 401
    assert path.exists(), "what could not be read is never deleted"


WITHOUT_FILES = """
import os, resource, sys
from pathlib import Path
import duckdb
from onetool_ipy.stores.calls.database import read_metadata

path = Path(sys.argv[1])
with duckdb.connect() as connection:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    try:
        print(read_metadata(connection, [path]))
    except duckdb.Error as exc:
        print("Too many open files" in str(exc))
    for number in taken:
        os.close(number)
    print(read_metadata(connection, [path])[str(path)]["calls"])
"""


@pytest.mark.posix("a limit of open files")
def test_a_part_that_no_file_is_left_for_is_not_damaged(tmp_path: Path, clock: Clock) -> None:
    """Once it counts as damaged, it is left out of every answer of this kernel."""
    tidied(tmp_path, clock)
    path = sorted(tmp_path.glob("*.parquet"))[0]
    command = [sys.executable, "-c", WITHOUT_FILES, str(path)]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "100"]


def test_a_part_of_no_rows_is_no_problem(tmp_path: Path, clock: Clock) -> None:
    log = tidied(tmp_path, clock)
    rewrite(sorted(tmp_path.glob("*.parquet"))[0], "SELECT * FROM calls WHERE false")

    assert CallLog(tmp_path, clock=clock).usage().total_calls == 400
    assert len(log.frame()) == 400
    assert log.problems() == []


ASKED = """
import sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog

log = CallLog(Path(sys.argv[1]))
log.tidy()
print(log.usage().total_calls, len(log.frame()), [Path(one.where).name for one in log.problems()])
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode that keeps an owner from reading")
def test_a_journal_of_another_user_costs_itself_and_is_named(tmp_path: Path, clock: Clock) -> None:
    """As after one start with sudo. Root itself may read everything, so it gives that right up."""
    logs = [filled(tmp_path, clock, 10), filled(tmp_path, clock, 5)]
    paths = sorted(tmp_path.glob("*.jsonl"))
    for log in logs:
        log.close()
    small = min(paths, key=lambda path: path.stat().st_size)
    small.chmod(0)
    rights = "-dac_override,-dac_read_search"
    lowered = ["setpriv", "--bounding-set", rights, "--inh-caps", rights]
    command = [*(lowered if os.geteuid() == 0 else []), sys.executable, "-c", ASKED, str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == f"10 10 ['{small.name}']\n"


def test_a_damaged_part_gives_way_to_its_journal(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock, 50)
    log.close()
    (file,) = files_in(tmp_path)
    data = file.path.read_bytes()
    log.tidy()
    file.path.write_bytes(data)
    os.truncate(file.as_state("part").path, 100)

    assert CallLog(tmp_path, clock=clock).usage().total_calls == 50


def test_a_log_that_outlives_the_interpreter_leaves_no_warnings(tmp_path: Path) -> None:
    """As in a terminal's IPython, which holds the toolbox to the end: DuckDB printed a page."""
    program = f"""
        import ctypes, pathlib
        from onetool_ipy.stores.calls.log import CallLog
        log = CallLog(pathlib.Path({str(tmp_path)!r}))
        log.record("id", "nb.add", "python", {{}}, True, 1.0, args_size=2, size=2)
        print(log.counts()["nb.add"][0])
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(log))
        """
    done = python(program, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.fixture
def cell() -> Iterator[None]:
    """The handler of Stop that a running cell has."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts = Interrupts()
    interrupts.begin(object)
    yield
    interrupts.end()
    signal.signal(signal.SIGINT, before)


def is_stopped_at(line: int, work: Callable[[], object]) -> bool:
    """Do the work with a Stop before its n-th line in the database's file; False if there are
    fewer lines."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != database.__file__:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return trace

    try:
        sys.settrace(trace)
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    assert left > 0, "the Stop was heard"
    return False


@pytest.mark.slow
def test_a_stop_at_any_line_of_a_question_reads_every_call_once(
    tmp_path: Path, clock: Clock, cell: None
) -> None:
    log = CallLog(tmp_path, clock=clock)
    count = 0
    while True:
        count += 1
        note(log, number=count)
        if not is_stopped_at(count, lambda: log.history(limit=None)):
            break
        ids = [row.call_id for row in log.history(limit=None)]
        assert sorted(ids) == sorted({f"id{number}" for number in range(1, count + 1)})
    assert count > 50, count


def test_a_stop_while_duckdb_answers_is_a_stop(tmp_path: Path, clock: Clock, cell: None) -> None:
    log = CallLog(tmp_path, clock=clock)
    note(log, number=1)
    stop = threading.Timer(0.02, _thread.interrupt_main)

    def question(calls: database.Calls) -> None:
        stop.start()
        calls.ask("SELECT sum(range % 7) FROM range(50_000_000)")

    with pytest.raises(KeyboardInterrupt):
        log._ask(question)

    assert log.usage().total_calls == 1


@pytest.mark.slow
def test_questions_while_a_thread_tidies_are_answered_whole(tmp_path: Path, clock: Clock) -> None:
    """As in every kernel: its own thread closes journals. Both used one connection, and each took
    the answers of the other."""
    log = filled(tmp_path, clock, 600, rotate_calls=20, retention=Retention(calls=300))
    log.tidy()
    is_over = threading.Event()

    def tidy() -> None:
        while not is_over.is_set():
            log.tidy()

    thread = threading.Thread(target=tidy)
    thread.start()
    try:
        found = {(log.usage().total_calls, len(log.history(limit=9))) for _ in range(30)}
    finally:
        is_over.set()
        thread.join()

    assert found == {(600, 9)}
    assert log.problems() == []
