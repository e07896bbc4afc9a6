"""The step around a call: every trip leaves one record, whatever became of it."""

from __future__ import annotations

import asyncio
import datetime
import getpass
import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import onetool_ipy
from onetool_ipy.base.masking import Secrets
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.lineage import Lineage
from onetool_ipy.core.resolve import ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.stores.calls.log import CallLog
from tests.harness.patience import HANG_S
from tests.harness.programs import python

KEY = "s3cr3t-of-the-house"


class Bench:
    """A real registry and executor with nothing but the call log around a call."""

    def __init__(self, folder: Path, *, enabled: bool = True, more: Any = ()) -> None:
        self.box = onetool_ipy.open_toolbox(
            env={**home_at(folder), "ONETOOL_STATE": str(folder / "state")}
        )
        self.log = CallLog(
            folder / "calls",
            clock=_now,
            mask=Secrets({"KEY": KEY}, {}).mask,
            enabled=enabled,
            notebook=lambda: self.box.host.notebook,
        )
        self.executor = Executor(
            steps=more,
            record=self.log.recorder(),
            background=self.box.background,
            tool_loop=self.box.tool_loop,
            workers=self.box.workers,
        )

    def call(self, name: Any, args: Any, **options: Any) -> ToolResult:
        return self.executor.call(self.box.resolve(name, args, **options))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)

    @onetool_ipy.tool("nb.fail")
    def fail() -> None:
        raise RuntimeError("no")

    @onetool_ipy.tool("nb.stop")
    def stop() -> None:
        raise KeyboardInterrupt

    @onetool_ipy.tool("nb.inner")
    def inner() -> Any:
        """Call another tool."""
        return made.call("tools.echo", {"message": "hi"}).unwrap()

    @onetool_ipy.tool("nb.waits")
    async def waits() -> Any:
        """Wait for another tool."""
        return await made.executor.acall(made.box.resolve("nb.add", {"a": 1}))

    @onetool_ipy.tool("nb.add")
    def add(a: int) -> int:
        return a + 1

    @onetool_ipy.tool("nb.slow")
    async def slow() -> None:
        """Take too long."""
        await asyncio.Event().wait()

    for function in (fail, stop, inner, waits, add, slow):
        made.box.adopt(function)
    yield made
    made.box.close()


def test_a_call_is_recorded_with_what_it_gave(bench: Bench) -> None:
    result = bench.call("tools.echo", {"message": "hello"})

    (row,) = bench.log.history()
    assert (row.tool, row.source, row.ok, row.code) == ("tools.echo", "python", True, None)
    assert (row.call_id, row.ms) == (result.meta["call_id"], result.meta["duration_ms"])
    assert (row.arguments, row.bytes) == ({"message": "hello"}, 5)


@pytest.mark.parametrize(
    ("name", "args", "code", "reason"),
    [
        ("no.such", {}, "tool_not_found", None),
        ("tools.echo", {}, "invalid_args", "schema"),
        ("tools.echo", "no object", "invalid_args", "schema"),
        ("nb.fail", {}, "execution_error", None),
        ("nb.slow", {}, "execution_error", "timeout"),
    ],
)
def test_a_failed_call_is_recorded_with_its_code(
    bench: Bench, name: str, args: Any, code: str, reason: Any
) -> None:
    bench.call(name, args, timeout=0.05 if name == "nb.slow" else None)

    (row,) = bench.log.history()
    assert (row.tool, row.ok, row.code, row.reason) == (name, False, code, reason)
    assert row.bytes > 0
    assert bench.log.usage().failures == 1


def test_a_call_that_is_not_allowed_is_recorded(bench: Bench) -> None:
    bench.call("tools.echo", {"message": 1}, allow=["time.*"])

    assert bench.log.history()[0].reason == "not_allowed"


def test_a_call_that_was_stopped_is_recorded(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench.call("nb.stop", {})

    (row,) = bench.log.history()
    assert (row.tool, row.ok, row.reason) == ("nb.stop", False, "cancelled")


def test_a_call_inside_a_call_counts_too(bench: Bench) -> None:
    bench.call("nb.inner", {})

    assert {row.tool: row.calls for row in bench.log.usage().tools} == {
        "nb.inner": 1,
        "tools.echo": 1,
    }


@pytest.mark.parametrize(("name", "inside"), [("nb.inner", "tools.echo"), ("nb.waits", "nb.add")])
def test_a_call_is_recorded_with_the_call_that_made_it(
    bench: Bench, name: str, inside: str
) -> None:
    outer = bench.call(name, {})

    outer_row, inner_row = sorted(bench.log.history(), key=lambda row: row.tool != name)
    assert (inner_row.tool, inner_row.parent) == (inside, outer.meta["call_id"])
    assert outer_row.parent is None


def test_a_call_is_recorded_with_its_tool_s_fingerprint(bench: Bench) -> None:
    bench.call("tools.echo", {"message": 1})
    bench.call("no.such", {})
    spec = bench.box.registry.get("tools.echo")

    assert spec is not None
    assert [row.fingerprint for row in bench.log.history()] == ["", spec.fingerprint]


def test_a_tool_that_changed_has_another_fingerprint(bench: Bench) -> None:
    for answer in (1, 2):
        scope: dict[str, Any] = {}
        exec(f"def answer() -> int:\n    return {answer}", scope)
        bench.box.adopt(onetool_ipy.tool("nb.answer")(scope["answer"]))
        bench.call("nb.answer", {})

    assert len({row.fingerprint for row in bench.log.history()}) == 2


def test_a_call_is_recorded_with_who_called_from_where(bench: Bench) -> None:
    bench.box.host.notebook = "a.ipynb"
    bench.call("tools.echo", {"message": 1})
    bench.box.host.notebook = "b.ipynb"
    bench.call("tools.echo", {"message": 2})

    later, earlier = bench.log.history()
    assert (earlier.notebook, later.notebook, earlier.cell) == ("a.ipynb", "b.ipynb", "")
    assert (earlier.user, earlier.host) == (getpass.getuser(), socket.gethostname())
    assert earlier.session == later.session != ""
    other = CallLog(bench.log.folder)
    other.record("x", "a.b", "cli", {}, ok=True, ms=1.0)
    assert other.history()[0].session != later.session


async def test_an_async_call_is_recorded(bench: Bench) -> None:
    await bench.executor.acall(bench.box.resolve("tools.echo", {"message": "hi"}, call_id="x1"))

    assert bench.log.history()[0].call_id == "x1"


def test_a_call_that_another_step_answers_is_recorded(tmp_path: Path) -> None:
    def answer(_trip: ResolvedCall) -> Generator[None, ToolResult, ToolResult | None]:
        return ToolResult(True, "cached", meta={"handle": "r_3"})
        yield

    bench = Bench(tmp_path, more=[answer])

    bench.call("tools.echo", {"message": "hi"})

    assert (bench.log.history()[0].bytes, bench.log.history()[0].handle) == (6, "r_3")
    bench.box.close()


@pytest.mark.parametrize("name", ["x" * 100_000, f"a.{KEY}", "a\nb.c", "\ud800.x", "", 7, None])
def test_a_name_that_is_none_is_recorded_harmlessly(bench: Bench, name: Any) -> None:
    bench.call(name, {"q": KEY})

    (row,) = bench.log.history()
    assert row.code == "tool_not_found"
    assert len(row.tool) <= 200
    assert KEY not in row.tool + row.args
    assert "\n" not in row.tool
    assert not any(KEY.encode() in path.read_bytes() for path in bench.log.folder.iterdir())


def test_a_foreign_call_id_is_recorded_harmlessly(bench: Bench) -> None:
    for call_id in ("line\nbreak", "x" * 100_000, "\ud800"):
        bench.call("tools.echo", {"message": 1}, call_id=call_id)
        bench.log.attach(call_id, f"r_{len(call_id)}")
    bench.log.close()
    bench.log.tidy()

    rows = bench.log.history()
    assert [len(row.call_id) <= 200 for row in rows] == [True] * 3
    assert {row.handle for row in rows} == {"r_10", "r_100000", "r_1"}
    assert len(bench.log.frame()) == 3


def test_nothing_is_recorded_where_statistics_are_off(tmp_path: Path) -> None:
    bench = Bench(tmp_path, enabled=False)

    assert bench.call("tools.echo", {"message": 1}).ok
    assert not bench.log.folder.exists()
    bench.box.close()


def test_a_log_that_is_off_counts_no_call_of_earlier(bench: Bench, tmp_path: Path) -> None:
    """Whoever turns statistics off does not want to see how often a tool was called."""
    bench.call("tools.echo", {"message": 1})
    folder = bench.log.folder

    assert bench.log.count_of("tools.echo")[0] == 1
    off = CallLog(folder, clock=_now, enabled=False)
    assert off.counts() == {}
    assert off.recent_tools() == []
    off.close()


def test_counts_of_a_log_without_calls_need_no_database(tmp_path: Path) -> None:
    """The tools of a new project are listed before anything was called."""
    log = CallLog(tmp_path / "calls", clock=_now)

    assert log.counts() == {}
    assert not (tmp_path / "calls").exists()
    log.close()


@pytest.mark.parametrize("ending", ["", ".gz"], ids=["small and open", "closed"])
def test_journals_that_were_left_closed_are_made_parts_once(tmp_path: Path, ending: str) -> None:
    """The first question of a process finds them, and the second one does not begin again."""
    line = b'{"id":"c1","ts":1772619630123456,"tool":"a.b","source":"python","args":"{}",'
    line += b'"whole":true,"ok":true,"ms":1.5,"size":7}\n'
    name = f"20260304T102030000000-00000001.jsonl{ending}"
    (tmp_path / name).write_bytes(gzip.compress(line) if ending else line)
    later: list[Callable[[], None]] = []
    log = CallLog(tmp_path, clock=_now, run_later=later.append)

    assert [log.usage().total_calls for _ in range(2)] == [1, 1]
    assert len(later) == (1 if ending else 0)
    log.close()


def test_a_log_that_is_off_or_not_there_has_no_problems(tmp_path: Path) -> None:
    assert CallLog(tmp_path / "calls", clock=_now).problems() == []
    (tmp_path / "calls").mkdir()
    (tmp_path / "calls" / "20260304T102030000000-00000000.jsonl").write_bytes(b"not JSON\n")

    assert len(CallLog(tmp_path / "calls", clock=_now).problems()) == 1
    assert CallLog(tmp_path / "calls", clock=_now, enabled=False).problems() == []


def test_recording_loads_neither_duckdb_nor_pandas(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
import onetool_ipy.stores.calls.log as calls, onetool_ipy.stores.topics
early = [name for name in ("orjson", "duckdb", "pandas", "yaml") if name in sys.modules]
log = calls.CallLog(Path(sys.argv[1]))
log.record("id", "a.b", "python", {}, ok=True, ms=0.0)
print(early, [name for name in ("duckdb", "pandas", "yaml", "numpy") if name in sys.modules])
"""
    done = python(code, tmp_path / "calls", check=False)

    assert done.stdout.strip() == "[] []", done.stderr


class _BrokenLineage(Lineage):
    """A lineage that breaks at the end of every call."""

    def __init__(self) -> None:
        super().__init__(lambda _handle: "")

    def end(self, resolved: ResolvedCall, result: ToolResult, size: int) -> None:
        raise IndexError("pop from an empty deque")


def _break(*_args: object) -> str:
    raise ValueError("broken")


@pytest.mark.parametrize("broken", ["lineage", "mask", "notebook"])
@pytest.mark.parametrize(
    ("name", "ok"), [("tools.echo", True), ("nb.fail", False), ("no.such", False)]
)
def test_what_breaks_beside_a_call_costs_itself_and_never_the_row(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str, name: str, ok: bool
) -> None:
    options: Any = (
        {"mask": _break}
        if broken == "mask"
        else {"notebook": _break}
        if broken == "notebook"
        else {}
    )
    log = CallLog(tmp_path / "other", **options)
    workers, loops = (
        bench.box.workers,
        {"background": bench.box.background, "tool_loop": bench.box.tool_loop},
    )
    record = log.recorder(_BrokenLineage() if broken == "lineage" else None)
    executor = Executor(record=record, workers=workers, **loops)
    for _ in range(3):
        executor.call(bench.box.resolve(name, {"message": KEY} if ok else {}))

    rows = log.history()
    assert [row.ok for row in rows] == [ok] * 3
    assert {row.tool for row in rows} == {
        "(no name)" if broken == "mask" and name == "no.such" else name
    }
    assert (KEY in str(rows)) == (ok and broken != "mask")
    (problem,) = log.problems()
    assert "3 calls of this process were recorded without" in problem.message
    assert len([line for line in caplog.messages if "recorded without" in line]) == 1


def test_a_list_that_is_in_the_arguments_twice_is_recorded_whole(bench: Bench) -> None:
    """`[row] * 2` was recorded as cut, so that it could not be called again."""
    row = {"n": 1, "tags": ["a"]}
    bench.call("tools.echo", {"message": [row] * 2})
    bench.call("nb.fail", {"rows": [row, [row]], "row": row})
    second, first = bench.log.history()
    assert first.arguments == {"message": [row, row]}
    assert second.arguments == {"rows": [row, [row]], "row": row}


def test_without_duckdb_history_is_read_from_the_journals_and_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "site"
    broken.mkdir()
    (broken / "duckdb.py").write_text("raise ImportError('a library is missing')\n", "utf-8")
    code = """
import sys
from pathlib import Path
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.stores.calls.log import CallLog
log = CallLog(Path(sys.argv[1]), rotate_calls=4)
for number in range(9):
    log.record(f"c{number}", "a.b", "python", {"n": number}, number % 2 == 0, 1.0, args_size=1)
log.attach("c8", "r_8")
log.tidy()
print([row.call_id for row in log.history(limit=3)], log.history(limit=1)[0].handle)
print([row.arguments["n"] for row in log.history(limit=None, ok=False)])
try:
    log.usage()
except OneToolError as exc:
    print(exc.message)
print(log.problems()[0].hint)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "calls")]
    env = {**os.environ, "PYTHONPATH": str(broken)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)

    assert done.stdout.splitlines() == [
        "['c8', 'c7', 'c6'] r_8",
        "[7, 5, 3, 1]",
        (
            "Questions about calls need DuckDB, which cannot be loaded: ImportError: a library is"
            " missing."
        ),
        "Run `pip install duckdb`. Calls are recorded all the same.",
    ], done.stderr
    assert "Calls of closed journals are left out" in done.stderr


@pytest.mark.posix("fork")
@pytest.mark.slow
def test_a_forked_child_asks_with_a_database_of_its_own(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
log = CallLog(Path(sys.argv[1]), close_calls=1)
log.record("parent", "a.b", "python", {}, ok=True, ms=0.0)
log.close()
log.tidy()
assert log.usage().total_calls == 1
pid = os.fork()
if pid == 0:
    log.record("child", "a.b", "python", {}, ok=True, ms=0.0)
    os._exit(0 if log.usage().total_calls == 2 else 3)
print(os.waitpid(pid, 0)[1], log.usage().total_calls)
"""
    done = python(code, tmp_path / "calls", check=False, timeout=HANG_S)

    assert done.stdout.split() == ["0", "2"], done.stderr


@pytest.mark.posix("fork")
@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", ["del log; gc.collect(); os._exit(0)", "sys.exit(0)"], ids=["collected", "exit"]
)
def test_a_forked_child_does_not_destroy_the_database_of_its_parent(
    tmp_path: Path, ending: str
) -> None:
    """The database would wait for threads that the child does not have. The log may be garbage by
    then, and wait for a collection."""
    code = f"""
import gc, os, sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
log = CallLog(Path(sys.argv[1]), close_calls=1)
log.record("parent", "a.b", "python", {{}}, ok=True, ms=0.0)
log.close()
log.tidy()
assert log.usage().total_calls == 1
log.itself = log
if not os.fork():
    {ending}
print(os.wait()[1])
"""
    done = python(code, tmp_path / "calls", check=False, timeout=HANG_S)

    assert done.stdout.split() == ["0"], done.stderr
