"""Calls that take longer than 0.5 s show elapsed time or progress in their own cell (contract
8)."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from tests.faces.notebook.waiting import TOOLS, drawn, kept
from tests.harness.kernel import Kernel, Outcome
from tests.harness.patience import HANG_S, until
from tests.harness.surroundings import ROOT


@pytest.fixture(scope="module")
def ready(_shared_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    folder = tmp_path_factory.mktemp("progress")
    _shared_kernel.reset(folder / "work", folder / "state")
    _shared_kernel.execute("%load_ext onetool_ipy")
    _shared_kernel.execute(TOOLS + HELD)
    return _shared_kernel


HELD = '''
import os

def hold():
    while not os.path.exists("go"):
        time.sleep(0.02)

@tool
def held(n: int, text: str = "") -> int:
    """Count to the half, wait to be let go, count to the end."""
    for i in range(n):
        if i == n // 2:
            hold()
        progress(i + 1, n, text)
    return n

@tool
def stay() -> str:
    """Wait to be let go."""
    hold()
    return "gone"

@tool
async def astay() -> str:
    """Wait to be let go, without blocking."""
    while not os.path.exists("go"):
        await asyncio.sleep(0.02)
    return "gone"

@tool
def outstay() -> str:
    """Call a tool that waits to be let go."""
    return nb.stay()
'''


def held(
    kernel: Kernel, code: str, shown: str | re.Pattern[str], *, allow_errors: bool = False
) -> Outcome:
    """Run a cell with tools that hold, and let them go when it shows something."""
    go = kernel.cwd / "go"
    running = kernel.start_execute(code, allow_stdin=True)
    running.wait_for_output(shown)
    go.touch()
    outcome = running.wait(allow_errors=allow_errors)
    go.unlink()
    return outcome


def watched(kernel: Kernel, code: str, *, allow_errors: bool = False) -> Outcome:
    """Run a cell as a person does: one who could be asked for input."""
    return kernel.execute(code, allow_stdin=True, allow_errors=allow_errors)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("nb.stay()", "nb.stay"),
        ("x = %tool nb.stay --timeout 60", "nb.stay"),
        ("$nb.stay", "nb.stay"),
        ("ot.run('nb.stay')", "nb.stay"),
        ("nb.astay()", "nb.astay"),
        ("await nb.astay.aio()", "nb.astay"),
        ("await nb.stay.aio()", "nb.stay"),
        ("nb.outstay()", "nb.outstay"),
    ],
)
def test_a_long_call_shows_its_time_and_keeps_one_line(ready: Kernel, code: str, name: str) -> None:
    """One line per call that the person made, whatever it calls itself."""
    outcome = held(ready, code, name)

    assert re.fullmatch(rf"{name} · (0\.[5-9]|[1-9]\d?(\.\d)?) s", drawn(outcome)[0]), (
        "not before 0.5 s"
    )
    assert len(kept(outcome)) == 1
    assert re.fullmatch(rf"{name} · \d+\.\d s", kept(outcome)[0])


@pytest.mark.parametrize(
    "code",
    [
        "nb.nap(s=0.01)",
        "nb.count(n=30, every_s=0.001)",
        "for _ in range(2000): nb.count(n=0)",
        "ot.tools()",
    ],
)
def test_a_short_call_shows_nothing(ready: Kernel, code: str) -> None:
    """Where the machine stands still for half a second it is a long call: so one try of ten must
    do."""
    assert any(watched(ready, code).displays == [] for _ in range(10))


def test_progress_is_a_bar_and_then_a_line(ready: Kernel) -> None:
    outcome = held(ready, "nb.held(n=12, text='<b>page</b>')", "6/12")

    *running, last = outcome.displays
    assert any(
        re.fullmatch(r"nb.held · \d+(\.\d)? s · 6/12 · <b>page</b>", shown.text)
        for shown in running
    )
    assert all('role="progressbar"' in shown.data["text/html"] for shown in running)
    assert all("<b>" not in shown.data["text/html"] for shown in running)
    assert re.fullmatch(r"nb.held · \d+\.\d s · 12/12 done", last.text)
    assert "progressbar" not in last.data["text/html"]


def test_at_most_ten_updates_a_second(ready: Kernel) -> None:
    outcome = watched(
        ready, "began = time.monotonic(); nb.count(n=3000, every_s=0.001); time.monotonic() - began"
    )

    assert 3 <= len(outcome.displays) <= 10 * float(outcome.result_text) + 2
    assert kept(outcome)[0].endswith("3,000/3,000 done")


SAID = {
    "7, None, 'files'": "7 · files",
    "0.5, 1.0, ''": "0.5/1",
    "5, 0, ''": "5/0",
    "9, 3, ''": "9/3",
    "float('nan'), 3, ''": "nan/3",
    "1, 2, 'two\\nlines'": "two lines",
    "10**5000, 1e300, ''": "int/1e+300",
    "'x', 'y', 5": "x/y · 5",
    "Mute(), 2, Mute()": "Mute/2 · Mute",
    "1, 2, 'a' * 500": "a" * 80,
    "None, None, ''": "s",
}


def test_whatever_a_tool_says_is_shown_and_breaks_nothing(ready: Kernel) -> None:
    mute = "class Mute:\n    def __str__(self):\n        raise ValueError\n"
    says = mute + "".join(
        f"@tool\ndef odd{n}() -> int:\n    'Odd.'\n    progress({said})\n    hold()\n    return 1\n"
        for n, said in enumerate(SAID)
    )
    call = "await asyncio.gather(*(getattr(nb, f'odd{n}').aio() for n in range(%d)))"
    ready.execute(says)
    outcomes = [
        held(ready, says + f"nb.odd{n}()", shown) for n, shown in enumerate(list(SAID.values())[:2])
    ]
    together = held(ready, call % len(SAID), "... 6 more")

    assert [outcome.result_text for outcome in outcomes] == ["1", "1"]
    rows = next(text for text in drawn(together) if text.startswith("... 6 more")).splitlines()[1:]
    assert len(rows) == 5, "a cell shows five rows"
    for row, shown in zip(rows, list(SAID.values())[6:], strict=True):
        assert row.endswith(shown)


def test_a_secret_in_progress_is_masked(kernel: Kernel) -> None:
    folder = kernel.cwd / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "secrets.yaml").write_text("KEY: hunter2hunter2\n", encoding="utf-8")
    (folder / "secrets.yaml").chmod(0o600)
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS + HELD)

    outcome = held(kernel, "nb.held(n=8, text='with hunter2hunter2')", "with ")

    assert "hunter2" not in str(outcome.displays)


BAD = """
@tool
def bad():
    "Bad."
    hold()
    1 / 0
nb.bad()"""


@pytest.mark.parametrize(
    ("code", "end"), [("nb.held(n=8); 1 / 0", "8/8 done"), (BAD, "failed")], ids=["done", "failed"]
)
def test_the_line_says_how_it_ended(ready: Kernel, code: str, end: str) -> None:
    assert kept(held(ready, code, "nb.", allow_errors=True))[0].endswith(end)


def test_many_calls_are_one_line(ready: Kernel) -> None:
    at_once = held(
        ready,
        "began = time.monotonic(); await asyncio.gather(*(nb.astay.aio() for _ in range(200)));"
        "time.monotonic() - began",
        "200 calls",
    )
    in_turn = watched(ready, "for _ in range(3): nb.nap(s=2)")

    assert len(at_once.displays) <= 10 * float(at_once.result_text) + 2
    assert re.fullmatch(r"nb.astay · 200 calls · \d+\.\d s", kept(at_once)[0])
    assert re.fullmatch(r"nb.nap · 3 calls · \d+\.\d s", kept(in_turn)[0])


def test_a_task_left_behind_shows_in_its_own_cell(ready: Kernel) -> None:
    first = ready.start_execute(
        "task = asyncio.ensure_future(nb.anap.aio(s=1.0)); await asyncio.sleep(0)", allow_stdin=True
    )
    first.wait()

    second = watched(ready, "later = asyncio.ensure_future(nb.anap.aio(s=1.0)); nb.count(n=8)")
    third = watched(ready, "nb.count(n=8); await task; await later")

    assert "anap" not in str(second.displays)
    assert "anap" not in str(third.displays), "nor one that begins when its cell has ended"
    first.wait_for_output(re.compile(r"^nb\.anap · \d+\.\d s$", re.MULTILINE), even_after_end=True)


def test_what_was_printed_before_stands_before(ready: Kernel) -> None:
    seen: list[str] = []
    execution = ready.start_execute(
        "print('first'); nb.count(n=8); print('last')", allow_stdin=True
    )
    absorb = execution.absorb_output
    execution.absorb_output = lambda kind, content: (seen.append(kind), absorb(kind, content))[1]  # type: ignore[method-assign]
    execution.wait()

    kinds = [kind for kind in seen if kind in ("stream", "display_data")]
    assert kinds == ["stream", "display_data", "stream"]


@pytest.mark.parametrize("code", ["%%capture\nnb.count(n=8)", "%%capture out\n%tool nb.nap s=0.8"])
def test_captured_output_stays_captured(ready: Kernel, code: str) -> None:
    assert watched(ready, code).displays == []


def test_nobody_looks_nothing_is_shown(ready: Kernel) -> None:
    assert ready.execute("nb.count(n=8)").displays == []


@pytest.mark.slow
def test_a_notebook_run_by_nbclient_holds_the_result_alone(tmp_path: Path) -> None:
    cells = ["%load_ext onetool_ipy", TOOLS, "nb.count(n=8)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])

    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()

    (output,) = notebook.cells[-1].outputs
    assert (output.output_type, output.data["text/plain"]) == ("execute_result", "8")


def test_no_thread_is_left_when_nothing_runs(ready: Kernel) -> None:
    """Targets, row 13: at most one thread more than without us."""
    watched(ready, "nb.count(n=8)\n%tool nb.nap s=0.1 --timeout 60\nawait nb.anap.aio(s=0.1)")

    ours = "[t.name for t in threading.enumerate() if t.name.startswith('onetool')]"
    assert until(lambda: ready.evaluate(ours) == "['onetool-loop']"), ready.evaluate(ours)


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
def test_a_terminal_shows_one_line_that_is_written_over(tmp_path: Path) -> None:
    code = (
        f"%load_ext onetool_ipy\n{TOOLS}\nnb.count(n=10, every_s=0.3, text='page')\nprint('next"
        " line')"
    )
    (tmp_path / "cells.ipy").write_text(code, encoding="utf-8")

    shown = _in_terminal([sys.executable, "-m", "IPython", "--no-banner", "cells.ipy"], tmp_path)

    drawn_over = re.findall(r"\r\x1b\[Knb\.count · [\d.]+ s · (\d+)/10 · page", shown)
    assert len(drawn_over) >= 2
    assert re.search(r"\r\x1b\[Knb\.count · \d+\.\d s · 10/10 done\r\nnext line\r\n", shown)


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
def test_in_a_terminal_a_map_leaves_its_summary_alone(tmp_path: Path) -> None:
    code = (
        f"%load_ext onetool_ipy\n{TOOLS}\nx = ot.map('nb.nap', [0.4, 0.4, 0.4])\nprint('next line')"
    )
    (tmp_path / "cells.ipy").write_text(code, encoding="utf-8")

    shown = _in_terminal([sys.executable, "-m", "IPython", "--no-banner", "cells.ipy"], tmp_path)

    assert re.search(r"\r\x1b\[Kot\.map · [\d.]+ s", shown)
    assert re.search(
        r"\r\x1b\[Kot\.map nb\.nap: 3 ok\r\n(\r\x1b\[K[^\r\n]*)*\r\x1b\[Knext line", shown
    )


@pytest.mark.slow
def test_a_script_shows_nothing(tmp_path: Path) -> None:
    code = f"%load_ext onetool_ipy\n{TOOLS}\nnb.count(n=8)\nprint('end')"
    (tmp_path / "cells.ipy").write_text(code, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "IPython", "cells.ipy"], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip

    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr


def _in_terminal(command: list[str], folder: Path) -> str:
    """What a program writes to a terminal."""
    import pty

    ours, its = pty.openpty()
    child = subprocess.Popen(
        command,
        cwd=folder,
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(its)
    read = b""
    while select.select([ours], [], [], HANG_S)[0]:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # it has ended
            break
        if not piece:
            break
        read += piece
    os.close(ours)
    assert child.wait(HANG_S) == 0, read.decode()
    return read.decode()
