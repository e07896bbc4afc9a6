"""`--bg` and `box.start`: a job lives in the cell that started it, and nowhere else (contract
15)."""

from __future__ import annotations

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

from tests.conftest import FreshKernel
from tests.faces.notebook.waiting import TOOLS, drawn, kept
from tests.harness.kernel import Execution, Kernel
from tests.harness.patience import HANG_S, until

MORE = '''
from onetool_ipy.core import current
box = current.toolbox()

@tool
def talk(n: int, secret: str = "", hold: bool = False) -> list:
    """Print and count; if it is to hold, wait for a file before the end."""
    import os, sys
    for i in range(n):
        while hold and i == n - 1 and not os.path.exists("go"):
            time.sleep(0.02)
        print("word", i, secret)
        print("aside", i, file=sys.stderr)
        progress(i + 1, n)
        time.sleep(0.1)
    return list(range(n))

@tool
async def atalk(n: int) -> str:
    """Print and count."""
    for i in range(n):
        print("async word", i)
        await asyncio.sleep(0.1)
    return "<b>bold</b>"

@tool
def large() -> list:
    """Much."""
    return [f"row {i}" for i in range(5000)]

@tool
def broken() -> int:
    """Fail."""
    raise ValueError("no <i>luck</i>")

@tool
def picture() -> bytes:
    """A picture."""
    return b"\\x89PNG\\r\\n\\x1a\\n" + b"0" * 20
'''

# A thread that sends for the first time opens a socket. Here it is so slow that the kernel closes
# all others meanwhile; then the kernel waits for it before it asks whether all are closed.
SLOW_SOCKET = """
import threading, time, zmq
from ipykernel.iostream import IOPubThread
from ipykernel.kernelapp import IPKernelApp

is_begun, is_made = threading.Event(), threading.Event()
usual, control = IOPubThread._event_pipe.fget, IPKernelApp.instance().control_thread
stop_control = control.stop

def slow(self):
    if threading.current_thread() is threading.main_thread() or hasattr(self._local, "event_pipe") or is_begun.is_set():
        return usual(self)
    context = self.socket.context
    is_begun.set()
    until = time.monotonic() + 2
    while not self.closed and time.monotonic() < until:
        time.sleep(0.001)
    self._event_pipes[threading.current_thread()] = self._local.event_pipe = pipe = context.socket(zmq.PUSH)
    pipe.linger = 0
    pipe.connect(self._event_interface)
    is_made.set()
    return pipe

def stop():
    is_made.wait()
    stop_control()

IOPubThread._event_pipe, control.stop = property(slow), stop
"""


@pytest.fixture
def ready(kernel: Kernel) -> Kernel:
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS + MORE)
    return kernel


def begin(kernel: Kernel, code: str, *, is_watched: bool = True) -> Execution:
    execution = kernel.start_execute(code, allow_stdin=is_watched)
    execution.wait()
    return execution


@pytest.mark.parametrize(
    "code",
    ["%tool nb.talk n=6 hold=true --bg", "job = box.start('nb.talk', {'n': 6, 'hold': True})"],
)
def test_a_job_lives_in_its_own_cell(ready: Kernel, code: str) -> None:
    first = begin(ready, code)
    others = [begin(ready, f"print('cell {n}')") for n in range(2)]
    running = re.compile(r"job 1 · nb.talk · running · \S+ s · [1-5]/6\nword 0")
    first.wait_for_output(running, even_after_end=True)
    others += [begin(ready, f"print('cell {n}')") for n in range(2, 4)]
    (ready.cwd / "go").touch()
    first.wait_for_output("· done ·", even_after_end=True)

    assert [other.outcome.stdout for other in others] == [f"cell {n}\n" for n in range(4)]
    assert [(other.outcome.displays, other.outcome.stderr) for other in others] == [([], "")] * 4
    assert (first.outcome.stdout, first.outcome.stderr, first.outcome.result) == ("", "", None)
    assert any(running.match(text) for text in drawn(first.outcome))
    (last,) = kept(first.outcome)
    head, *rest = last.splitlines()
    assert re.fullmatch(r"job 1 · nb.talk · done · \d+\.\d s · 6/6 done", head)
    assert [line.strip() for line in rest] == [
        *(f"{word} {n}" for n in range(6) for word in ("word", "aside")),
        "[0, 1, 2, 3, 4, 5]",
    ]
    assert "Split" not in ready.evaluate("__import__('sys').stdout"), "the streams are as they were"


def test_many_jobs_keep_their_prints_apart(ready: Kernel) -> None:
    sync, other = (
        begin(ready, "a = %tool nb.talk n=5 --bg"),
        begin(ready, "b = %tool nb.atalk n=5 --bg"),
    )
    last = begin(ready, "a.result(); b.result(); print('mine')")

    assert last.outcome.stdout == "mine\n"
    for execution, has, has_not in ((sync, "word 4", "async"), (other, "async word 4", "aside")):
        execution.wait_for_output("· done ·", even_after_end=True)
        assert has in kept(execution.outcome)[0]
        assert has_not not in kept(execution.outcome)[0]
    shown = other.outcome.displays[-1].data["text/html"]
    assert "&lt;b&gt;bold" in shown
    assert "<b>bold" not in shown


@pytest.mark.slow
def test_status_result_progress_and_await(ready: Kernel) -> None:
    begin(ready, "job = %tool nb.talk n=30 --bg")

    assert ready.execute("job.status").result_text in ("'queued'", "'running'")
    assert ready.execute("(await job).data[-1], job.status").result_text == "(29, 'done')"
    assert (
        ready.execute("job.progress.done, job.result().data[-1], job.cancel()").result_text
        == "(30, 29, False)"
    )
    timeout = ready.execute("box.start('nb.nap', {'s': 50}).result(timeout=0.1)", allow_errors=True)
    assert "still running after 0.1 s" in timeout.text


def test_a_job_shown_again_is_the_same_display(ready: Kernel) -> None:
    first = begin(ready, "job = %tool nb.talk n=6 --bg")
    second = begin(ready, "job")

    assert second.outcome.result is None
    (shown,) = second.outcome.displays
    assert not shown.is_update
    assert shown.display_id == first.outcome.displays[0].display_id


def test_the_end_is_told_whatever_it_is(ready: Kernel) -> None:
    failed = begin(ready, "%tool nb.broken --bg")
    # "failed" may stand in the job's own name before.
    failed.wait_for_output("ValueError: no ", even_after_end=True)
    large = begin(ready, "big = %tool nb.large --bg")
    large.wait_for_output("ot.result(handle=", even_after_end=True)
    image = begin(ready, "%tool nb.picture --bg")
    image.wait_for_output("· done ·", even_after_end=True)

    assert "ValueError: no <i>luck</i>" in kept(failed.outcome)[0]
    assert "<i>luck" not in failed.outcome.displays[-1].data["text/html"]
    handle = re.search(r"handle='(\w+)'", kept(large.outcome)[0])
    assert handle is not None
    assert ready.execute(
        f"ot.result(handle='{handle[1]}')['total_lines'], big.result().handle"
    ).result_text == (f"(5000, '{handle[1]}')")
    assert any(
        "data:image/png;base64," in shown.data.get("text/html", "")
        for shown in image.outcome.displays
    )


def test_secrets_of_a_job_are_masked(kernel: Kernel) -> None:
    folder = kernel.cwd / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "secrets.yaml").write_text("KEY: hunter2hunter2\n", encoding="utf-8")
    (folder / "secrets.yaml").chmod(0o600)
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS + MORE)

    job = begin(kernel, "%tool nb.talk n=2 secret=hunter2hunter2 --bg")
    job.wait_for_output("· done ·", even_after_end=True)

    assert "word 1" in kept(job.outcome)[0]
    assert "hunter2" not in str(job.outcome.displays)


def test_jobs_lists_and_cancels(ready: Kernel) -> None:
    spin = begin(ready, "spin = %tool nb.anap s=30 --bg")
    begin(ready, "talk = %tool nb.talk n=1 --bg")
    ready.execute("talk.result()")

    rows = ready.execute("%tool jobs").result_text
    assert re.search(
        r'{id: 1, tool: nb.anap, status: running, progress: "", elapsed: "\S+ s"}', rows
    )
    assert re.search(
        r'{id: 2, tool: nb.talk, status: done, progress: "?1/1"?, elapsed: "\S+ s"}', rows
    )
    assert ready.execute("%tool jobs cancel 1").result_text == "Job 1 (nb.anap): cancelled."
    assert ready.execute("%tool jobs cancel 1").result_text.endswith("Nothing was cancelled.")
    spin.wait_for_output("cancelled", even_after_end=True)
    assert ready.execute("spin.result().error.reason").result_text == "'cancelled'"
    assert ready.execute("%tool jobs 2").displays[0].text.startswith("job 2 · nb.talk · done")


@pytest.mark.parametrize(
    "words", ["cancel", "x", "cancel 99", "1 2", "cancel -1", "cancel 1 2", "0", "99999999999999"]
)
def test_a_wrong_line_is_told(ready: Kernel, words: str) -> None:
    outcome = ready.execute(f"%tool jobs {words}", allow_errors=True)

    assert outcome.error is not None
    assert "See: %tool jobs" in outcome.text


def test_no_jobs_are_an_empty_list(ready: Kernel) -> None:
    assert ready.execute("%tool jobs").result_text == "[]"


def test_unloading_with_jobs_under_way_does_not_wait(ready: Kernel) -> None:
    ready.execute(
        "gate = threading.Event()\n@tool\ndef stay(s: int):\n    'Wait in C.'\n    gate.wait()"
    )
    jobs = [
        begin(ready, f"j{n} = %tool nb.{tool} s=100 --bg")
        for n, tool in enumerate(("spin", "stay", "anap"))
    ]
    ready.execute("%unload_ext onetool_ipy")

    reasons = ready.evaluate(f"[j.result({HANG_S}).error.reason for j in (j0, j1, j2)]")
    ready.execute("gate.set()")
    assert reasons == "['cancelled', 'cancelled', 'cancelled']"
    for job in jobs:
        assert kept(job.outcome)[0].split(" · ")[2] != "queued" or job.wait_for_output(
            "cancel", even_after_end=True
        )
    assert "Split" not in ready.evaluate("__import__('sys').stdout")


@pytest.mark.slow
def test_a_kernel_with_jobs_under_way_ends_at_once(fresh_kernel: FreshKernel) -> None:
    kernel = fresh_kernel()
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS)
    for tool in ("spin", "nap", "anap"):
        begin(kernel, f"%tool nb.{tool} s=100 --bg")
    kernel.start_execute("exit()")

    assert until(lambda: not kernel.is_alive)


@pytest.mark.slow
def test_a_kernel_ends_while_a_thread_draws_for_the_first_time(fresh_kernel: FreshKernel) -> None:
    kernel = fresh_kernel()
    (kernel.cwd / "slow_socket.py").write_text(SLOW_SOCKET)
    kernel.execute("%load_ext onetool_ipy\nimport slow_socket")
    kernel.execute(TOOLS)
    begin(kernel, "%tool nb.nap s=100 --bg")
    kernel.execute("assert slow_socket.is_begun.wait(60)")
    kernel.start_execute("exit()")

    assert until(lambda: not kernel.is_alive)


@pytest.mark.slow
def test_tables_stay_those_of_a_notebook_if_a_job_imports_pandas_between_two_cells(
    fresh_kernel: FreshKernel,
) -> None:
    """pandas asks at its import whether it is in a notebook; IPython has the name for that only
    while a cell runs."""
    kernel = fresh_kernel()
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(TOOLS)
    kernel.execute(
        "cell_over = threading.Event()\n"
        "@tool\n"
        "def table() -> int:\n"
        "    'Make a table.'\n"
        "    cell_over.wait()\n"
        "    import pandas\n"
        "    kept = pandas.DataFrame(0, index=range(3), columns=range(30))\n"
        "    return len(kept)"
    )
    kernel.execute(
        "job = %tool nb.table --bg\nget_ipython().events.register('post_run_cell', lambda _:"
        " (cell_over.set(), job.result(60)))"
    )

    shown = kernel.execute(
        "import pandas as pd\npd.DataFrame(0, index=range(3), columns=range(30))"
    )

    assert kernel.evaluate("pd.get_option('display.max_columns')") == "20"
    assert shown.result is not None
    assert shown.result["text/html"].count("<th>") == 20 + 1 + 1 + 3, (
        "20 columns, dots, the corner, three rows"
    )
    hook = "lambda _: has_name.append(hasattr(builtins, 'get_ipython'))"
    kernel.execute(
        f"import builtins\nhas_name = []\nget_ipython().events.register('post_run_cell', {hook})"
    )
    kernel.execute("%unload_ext onetool_ipy")
    assert kernel.evaluate("has_name") == "[True, False]"


@pytest.mark.slow
def test_nbclient_saves_the_end_of_a_job_that_is_waited_for(tmp_path: Path) -> None:
    cells = ["%load_ext onetool_ipy", TOOLS, "job = %tool nb.count n=3 --bg", "job.result().data"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])

    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()

    (line,) = notebook.cells[2].outputs
    assert re.fullmatch(
        r"job 1 · nb.count · done · \d+\.\d s · 3/3 done\n3", line.data["text/plain"]
    )
    (result,) = notebook.cells[3].outputs
    assert result.data["text/plain"] == "3"
