"""Kept programs survive the end of their process at any moment: no write is repeated, lost or made without a yes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT

COUNT = 10
KILLS = 1_000 if os.environ.get("ONETOOL_SOAK") else 4

# A child process runs, or goes on with, a program of ten writes. Each write adds a line to a file. The yes of its
# person is for what the question shows, which is written down, too. It is killed in the middle of it.
_CHILD = '''
import json, os, sys, time
from pathlib import Path
from onetool_ipy import open_toolbox, tool
from onetool_ipy.core.question import Reply
from onetool_ipy.host import Host
from onetool_ipy.base.errors import ProgramUnsure

folder, program, decision = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def note(name, line):
    with (folder / name).open("a") as file:
        file.write(line + "\\n")
        file.flush()

class Person(Host):
    def ask(self, question):
        for call in question.calls:
            note("shown.txt", dict(call.args)["n"])
        note("ready.txt", "yes")
        return Reply("accept", {"run": list(range(1, len(question.calls) + 1))})

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

CODE = """
import shop
for i in range(10):
    shop.write(n=shop.read(n=i))
'end'
"""
with open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state"), "HOME": str(folder)}) as box:
    box.adopt(read)
    box.adopt(write)
    box.host = Person()
    note("ready.txt", "open")
    try:
        answer = box.ask.resume(program, decision) if program else box.ask.program(CODE)
    except ProgramUnsure as exc:
        print(json.dumps({"unsure": exc.message}))
    else:
        print(json.dumps({"stop": answer.stop_reason, "value": answer.value, "note": answer.note}))
'''


class _Shop:
    """A folder in which processes run a program, and are killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".onetool").mkdir(parents=True)
        (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    def kept(self) -> str:
        return next((file.parent.name for file in self.folder.glob("state/*/programs/*/program.json")), "")

    def run(self, program: str = "", decision: str = "", *, kill_after: int | None = None) -> dict[str, str]:
        """Run a process; `kill_after` so many bytes of its files kills it. An empty reply says that it was killed."""
        command = [sys.executable, "-c", _CHILD, str(self.folder), program, decision]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            if kill_after is not None:
                # The moment is a size of the files that the process writes, so that any machine meets all of them.
                while child.poll() is None and self._size() < kill_after:
                    pass
                child.send_signal(signal.SIGKILL)
            output, _ = child.communicate(timeout=100)
        finally:
            child.kill()
            child.wait()
        return json.loads(output) if output.strip() else {}

    def _size(self) -> int:
        total = 0
        # Files come and go meanwhile; `os.walk` passes over folders that are gone.
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with suppress(OSError):
                    total += os.stat(os.path.join(folder, name)).st_size
        return total


@pytest.mark.timeout(120 + 10 * KILLS)
def test_rule_8_killed_at_any_moment(tmp_path: Path) -> None:
    """Kill, resume, kill again, and decide each doubt by what really happened: each write is made exactly once."""
    chance = random.Random(20261117)
    kills = number = doubts = halves = 0
    while kills < KILLS:
        number += 1
        shop = _Shop(tmp_path / str(number))
        reply: dict[str, str] = {}
        program = decision = ""
        while not reply.get("stop"):
            before = shop._size()
            is_killed = kills < KILLS and chance.random() < 0.8
            reply = shop.run(program, decision, kill_after=before + chance.randrange(1, 4_000) if is_killed else None)
            kills += is_killed
            program, decision = shop.kept(), ""
            written = shop.lines("written.txt")
            assert len(set(written)) == len(written), "a write was repeated"
            assert set(written) <= set(shop.lines("shown.txt")), "a write was not shown"
            if not program and not reply.get("stop"):
                # Killed before the program was kept: then nothing was written, unless it had just ended.
                assert len(written) in (0, COUNT)
                if written:
                    break
            halves += is_killed and not reply and 0 < len(written) < COUNT
            if "unsure" in reply:
                doubts += 1
                doubt = reply["unsure"].split('{"n": ')[1].split("}")[0]
                decision = "skip" if doubt in written else "again"
        assert shop.lines("written.txt") == [str(n) for n in range(COUNT)]
        assert not shop.kept()
    print(f"{kills} kills of {number} programs: {halves} between writes, {doubts} in one")
    assert KILLS < 100 or min(halves, doubts) > KILLS / 20


def test_rule_8_a_doubt_is_never_settled_in_silence(tmp_path: Path) -> None:
    """The process ends in the write itself: without a word of the person nothing goes on."""
    shop = _Shop(tmp_path / "a")
    (shop.folder / "die-4").touch()
    assert shop.run() == {}
    (shop.folder / "die-4").unlink()
    assert shop.lines("written.txt") == ["0", "1", "2", "3", "4"]
    for _ in range(2):
        assert "during write 5" in shop.run(shop.kept())["unsure"]
    assert shop.lines("written.txt") == ["0", "1", "2", "3", "4"]
    assert shop.run(shop.kept(), "skip")["value"] == "end"
    assert shop.lines("written.txt") == [str(n) for n in range(COUNT)]
