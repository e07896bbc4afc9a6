"""Kept programs survive the end of their process at any moment: no write is repeated, lost or made
without a yes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.errors import ProgramBusy
from onetool_ipy.llm.programs.journal import ProgramRecord, ProgramStore, new_id
from tests.harness.surroundings import ROOT

COUNT = 10
# A soak has 1,000 kills, in parts that run side by side.
PARTS, KILLS = (4, 250) if os.environ.get("ONETOOL_SOAK") else (1, 12)

# A process that has imported everything forks a child for each run: the child runs, or goes on
# with, a program of ten writes, each of which adds a line to a file. The yes of its person is for
# what the question shows, which is written down, too. The child kills itself at the n-th call or
# return of a function, of Python or of C, in any of its threads.
_CHILD = '''
import json, os, sys, threading
from pathlib import Path
import pydantic_monty
from onetool_ipy import open_toolbox, tool
from onetool_ipy.core.question import Reply
from onetool_ipy.host import Host
from onetool_ipy.base.errors import ProgramUnsure
from onetool_ipy.llm.programs import run as _

CODE = """
import shop
for i in range(10):
    shop.write(n=shop.read(n=i))
'end'
"""

def run(folder, program, decision, kill_at):
    folder, events, asked = Path(folder), 0, 0

    def note(name, line):
        with (folder / name).open("a") as file:
            file.write(line + "\\n")

    def count(_frame, _event, _arg):
        nonlocal events
        events += 1
        if events == kill_at:
            os.kill(os.getpid(), 9)

    class Person(Host):
        def ask(self, question):
            nonlocal asked
            asked = events
            for call in question.calls:
                note("shown.txt", dict(call.args)["n"])
            skipped = {name.split("-")[1] for name in os.listdir(folder) if name.startswith("skip-")}
            numbers = [at for at, call in enumerate(question.calls, 1) if dict(call.args)["n"] not in skipped]
            return Reply("accept", {"run": numbers})

    @tool("shop.read", read_only=True)
    def read(n: int) -> int:
        """Read."""
        return n

    @tool("shop.write")
    def write(n: int) -> int:
        """Write."""
        note("written.txt", str(n))
        if (folder / f"die-{n}").exists():
            os.kill(os.getpid(), 9)
        return n

    with open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state"), "HOME": str(folder)}) as box:
        box.adopt(read)
        box.adopt(write)
        box.host = Person()
        if isinstance(kill_at, list):
            # The child ends when it opens, renames or removes a file of this name so many times.
            def watch(_event, args):
                if any(isinstance(each, (str, Path)) and Path(each).name == kill_at[0] for each in args):
                    kill_at[1] -= 1
                    if not kill_at[1]:
                        os.kill(os.getpid(), 9)

            sys.addaudithook(watch)
        threading.setprofile(count)
        sys.setprofile(count)
        try:
            answer = box.ask.resume(program, decision) if program else box.ask.program(CODE)
        except ProgramUnsure as exc:
            reply = {"unsure": exc.message}
        else:
            reply = {"stop": answer.stop_reason, "value": answer.value, "note": answer.note, "ok": answer.ok}
            reply["plan"] = [[row["args"]["n"], row["state"]] for row in answer.plan]
        sys.setprofile(None)
        threading.setprofile(None)
        return {**reply, "asked": asked, "events": events}

for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            print(json.dumps(run(*json.loads(line))), flush=True)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps({"status": status}), flush=True)
'''


class _Runner:
    """The process that forks the runs."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _CHILD]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1
        )

    def run(
        self, folder: Path, program: str, decision: str, kill_at: int | list[Any]
    ) -> dict[str, Any]:
        """Run a child. Returns its reply, which is empty if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), program, decision, kill_at]) + "\n")
        reply: dict[str, Any] = {}
        while "status" not in (line := json.loads(self._process.stdout.readline())):
            reply = line
        assert reply or line["status"] == -signal.SIGKILL, "the child failed by itself"
        return reply

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def runner() -> Iterator[_Runner]:
    runner = _Runner()
    yield runner
    runner.close()


class _Shop:
    """A folder in which processes run a program, and are killed."""

    def __init__(self, folder: Path, runner: _Runner) -> None:
        self.folder = folder
        self._runner = runner
        (folder / ".onetool").mkdir(parents=True)
        (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    def kept(self) -> str:
        return next(
            (file.parent.name for file in self.folder.glob("state/*/programs/*/program.json")), ""
        )

    def run(
        self, program: str = "", decision: str = "", *, kill_at: int | list[Any] = 0
    ) -> dict[str, Any]:
        """Run the program, or go on with it. An empty reply says that the process was killed."""
        return self._runner.run(self.folder, program, decision, kill_at)


@pytest.mark.posix("a fork for each run")
@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.parametrize("part", range(PARTS))
def test_rule_8_killed_at_any_moment(tmp_path: Path, runner: _Runner, part: int) -> None:
    """Kill, resume, kill again, and decide each doubt by what really happened: each write is made
    exactly once."""
    chance = random.Random(20261117 + part)
    whole = _Shop(tmp_path / "whole", runner).run()
    # Most moments are before the first line of the journal, where nothing can go wrong, so most
    # kills come later.
    early, late = range(1, whole["asked"] - 3_000), range(whole["asked"] - 3_000, whole["events"])
    kills = number = doubts = halves = 0
    while kills < KILLS:
        number += 1
        shop = _Shop(tmp_path / str(number), runner)
        reply: dict[str, Any] = {}
        program = decision = ""
        while not reply.get("stop"):
            is_last = kills >= KILLS
            kill_at = chance.choice(early if chance.random() < 0.1 else late)
            reply = shop.run(program, decision, kill_at=0 if is_last else kill_at)
            kills += not reply
            program, decision = shop.kept(), ""
            written = shop.lines("written.txt")
            assert len(set(written)) == len(written), "a write was repeated"
            assert set(written) <= set(shop.lines("shown.txt")), "a write was not shown"
            if not program and not reply:
                # Killed before the program was kept: then nothing was written, unless it had just
                # ended.
                assert len(written) in (0, COUNT)
                if written:
                    break
            halves += not reply and 0 < len(written) < COUNT
            if "unsure" in reply:
                doubts += 1
                doubt = reply["unsure"].split('{"n": ')[1].split("}")[0]
                decision = "skip" if doubt in written else "again"
        assert shop.lines("written.txt") == [str(n) for n in range(COUNT)]
        assert not shop.kept()
        shutil.rmtree(shop.folder)
        (tmp_path / "kills.txt").write_text(f"{kills} {number} {halves} {doubts}", encoding="utf-8")
    line = (
        f"{kills} kills of {number} programs, {halves} of them between the first write and the"
        f" last, {doubts} in one"
    )
    assert KILLS < 100 or min(halves, doubts) > KILLS / 20, line


@pytest.mark.posix("a fork for each run")
@pytest.mark.slow
def test_rule_8_a_doubt_is_never_settled_in_silence(tmp_path: Path, runner: _Runner) -> None:
    """The process ends in the write itself: without a word of the person nothing goes on."""
    shop = _Shop(tmp_path / "a", runner)
    (shop.folder / "die-4").touch()
    assert shop.run() == {}
    (shop.folder / "die-4").unlink()
    assert shop.lines("written.txt") == ["0", "1", "2", "3", "4"]
    for _ in range(2):
        assert "during write 5" in shop.run(shop.kept())["unsure"]
    assert shop.lines("written.txt") == ["0", "1", "2", "3", "4"]
    assert shop.run(shop.kept(), "skip")["value"] == "end"
    assert shop.lines("written.txt") == [str(n) for n in range(COUNT)]


@pytest.mark.posix("a fork for each run")
@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
def test_rule_8_a_choice_is_kept_through_kills(tmp_path: Path, runner: _Runner) -> None:
    """Three of ten writes are not chosen. Whatever is killed, they stay unmade, and the others are
    made once."""
    chance = random.Random(41)
    skipped = {2, 5, 7}
    whole = _chosen(_Shop(tmp_path / "whole", runner), skipped).run()
    assert (whole["ok"], [n for n, state in whole["plan"] if state == "skipped"]) == (
        True,
        sorted(skipped),
    )
    kills = number = 0
    while kills < KILLS:
        number += 1
        shop = _chosen(_Shop(tmp_path / str(number), runner), skipped)
        reply: dict[str, Any] = {}
        program = decision = ""
        while not reply.get("stop"):
            kill_at = chance.randrange(whole["asked"], whole["events"])
            reply = shop.run(program, decision, kill_at=0 if kills >= KILLS else kill_at)
            kills += not reply
            program, decision = shop.kept(), ""
            written = shop.lines("written.txt")
            if not program and not reply:
                break
            if "unsure" in reply:
                doubt = reply["unsure"].split('{"n": ')[1].split("}")[0]
                decision = "skip" if doubt in written else "again"
        assert shop.lines("written.txt") == [str(n) for n in range(COUNT) if n not in skipped]
        if reply:
            assert [n for n, _ in reply["plan"]] == list(range(COUNT))
            assert {n for n, state in reply["plan"] if state != "made"} >= skipped
            assert {state for _, state in reply["plan"]} <= {"made", "skipped"}
        shutil.rmtree(shop.folder)


def _chosen(shop: _Shop, skipped: set[int]) -> _Shop:
    """Let the person of a shop not choose some writes."""
    for number in skipped:
        (shop.folder / f"skip-{number}").touch()
    return shop


@pytest.mark.posix("a fork for each run")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [("program.json", 1), ("journal.jsonl", 2), ("digest", 3), ("program.json", 2)],
)
def test_rule_7_killed_while_it_is_kept_or_removed(
    tmp_path: Path, runner: _Runner, name: str, count: int
) -> None:
    """What is on disk by then is a program that goes on, or nothing; what is left of it is
    removed."""
    shop = _Shop(tmp_path / "a", runner)
    assert shop.run(kill_at=[name, count]) == {}
    assert shop.run(shop.kept())["value"] == "end"
    assert shop.lines("written.txt") == [str(n) for n in range(COUNT)]
    assert not list(shop.folder.glob("state/*/programs/*"))


@pytest.mark.slow
def test_who_looks_at_the_programs_never_takes_one_from_its_owner(tmp_path: Path) -> None:
    """Four threads make programs, and open them again, while two others list all the time: no
    program is ever busy but for its owner, and nothing is left at the end."""
    store = ProgramStore(
        tmp_path, project="p", now=lambda: datetime.now(UTC), ttl_s=3_600, mask=lambda text: text
    )
    faults: list[Exception] = []
    is_over = threading.Event()

    def own() -> None:
        try:
            for _ in range(10):
                record = _record(new_id())
                with store.keep(record) as kept:
                    kept.append("read", tool="a.b", args={})
                with store.open(record.id) as kept:
                    assert [line["kind"] for line in kept.lines] == ["read"]
                    with pytest.raises(ProgramBusy), store.open(record.id):
                        pass
                    kept.delete()
        except Exception as exc:
            faults.append(exc)

    def look() -> None:
        while not is_over.is_set():
            store.listed()

    owners = [threading.Thread(target=own) for _ in range(4)]
    lookers = [threading.Thread(target=look) for _ in range(2)]
    for thread in owners + lookers:
        thread.start()
    for thread in owners:
        thread.join()
    is_over.set()
    for thread in lookers:
        thread.join()
    assert faults == []
    assert store.listed() == []
    assert list(tmp_path.iterdir()) == []


def _record(program_id: str) -> ProgramRecord:
    return ProgramRecord(
        id=program_id,
        code="1",
        variables={},
        clock=datetime(2026, 1, 1, tzinfo=UTC),
        seed=1,
        source="magic",
        allow=None,
    )
