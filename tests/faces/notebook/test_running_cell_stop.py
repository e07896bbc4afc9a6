"""Stop gives control back within 1 s wherever Python is waited for, and leaves a usable kernel
(promise 4)."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faces.notebook.waiting import TOOLS, kept
from tests.harness.kernel import Kernel, Outcome
from tests.harness.patience import until

GUARD_S = 55.0
"""Control is back before the tools would have ended by themselves. How fast it is:
tests/faults/test_interrupts.py."""

LONG = "for _ in range(1200): time.sleep(0.05)"
"""One long sleep is in C, and hears Stop at its end on Windows."""

STUBBORN = '''
import httpx
from onetool_ipy.sdk import safe_request

@tool
def stubborn(s: float) -> str:
    """Go on after an interrupt."""
    until = time.monotonic() + s
    word = "begun"
    while time.monotonic() < until:
        try:
            said, word = word, None
            said and print(said, flush=True)
            time.sleep(0.2)
        except KeyboardInterrupt:
            print("swallowed", flush=True)

@tool
def minding(s: float) -> str:
    """Go on for a while after an interrupt."""
    try:
        print("begun", flush=True)
        for _ in range(int(s / 0.05)):
            time.sleep(0.05)
    except KeyboardInterrupt:
        print("swallowed", flush=True)
    time.sleep(0.3)

@tool
def quiet(s: float) -> str:
    """Wait."""
    time.sleep(s)

@tool
def fetch(url: str) -> str:
    """Ask a server that never answers."""
    print("begun", flush=True)
    return safe_request(httpx.Client(trust_env=False, timeout=100), "GET", url)

@tool(timeout=100)
def limited(s: float) -> str:
    """Wait, under a limit."""
    print("begun", flush=True)
    time.sleep(s)

@tool(timeout=100)
def deaf(s: float) -> str:
    """Mind nothing, under a limit."""
    until = time.monotonic() + s
    word = "begun"
    while time.monotonic() < until and not released.is_set():
        try:
            said, word = word, None
            said and print(said, flush=True)
            time.sleep(0.05)
        except BaseException:
            pass

from onetool_ipy.core import current
released = threading.Event()
box = current.toolbox()
'''


@pytest.fixture(scope="module")
def silent_server() -> Iterator[str]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept_open: list[socket.socket] = []
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.is_set():
                kept_open.append(server.accept()[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        is_over.set()
        socket.create_connection(server.getsockname()).close()
        thread.join(5)
        for connection in kept_open:
            connection.close()


@pytest.fixture(scope="module")
def ready(
    _shared_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory, silent_server: str
) -> Kernel:
    folder = tmp_path_factory.mktemp("interrupt")
    _shared_kernel.reset(folder / "work", folder / "state")
    _shared_kernel.execute("%load_ext onetool_ipy")
    _shared_kernel.execute(TOOLS + STUBBORN + f"\nurl = {silent_server!r}")
    return _shared_kernel


def interrupted(kernel: Kernel, code: str, *, times: int = 1) -> tuple[Outcome, float]:
    """What a cell gives that is interrupted when its tool has begun, and how long it took after
    that."""
    execution = kernel.start_execute(code, allow_stdin=True)
    execution.wait_for_output("begun")
    for _ in range(times - 1):
        kernel.interrupt()
        execution.wait_for_output("swallowed")
    began = time.monotonic()
    kernel.interrupt()
    outcome = execution.wait(allow_errors=True)
    return outcome, time.monotonic() - began


def test_what_was_given_up_is_counted_until_it_ends(ready: Kernel) -> None:
    """A call under a limit that minds nothing is left behind by Stop, and counted in health. The
    first of this file."""
    count = "ot.health().get('abandoned_calls', 0)"
    assert ready.execute(count).result_text == "0"
    interrupted(ready, "nb.deaf(s=50)")

    assert ready.execute(count).result_text == "1"
    ready.execute("released.set()")
    assert until(lambda: ready.execute(count).result_text == "0")


IN_C = pytest.mark.posix("a call in C that hears Stop before its end")
WAITING_IN_C = {
    "a Python tool in C": "nb.nap(s=60)",
    "a shortcut": "$nb.nap s=60",
    "a tool in a tool": "nb.outer(s=60)",
    "a sync call in a cell with await": "await asyncio.sleep(0); nb.nap(s=60)",
}
WAITING = {
    "a tool that spins": "nb.spin(s=60)",
    "an async tool": "nb.anap(s=60)",
    "a tool under a limit": "nb.limited(s=60)",
    "a call under a limit": "%tool nb.spin s=60 --timeout 100",
    "an async tool under a limit": "%tool nb.anap s=60 --timeout 100",
    "HTTP": "nb.fetch(url=url)",
    "a batch": "nb.batch(s=60)",
    "await of a sync tool": "await nb.nap.aio(s=60)",
    "await of an async tool": "await nb.anap.aio(s=60)",
    "await of acall": "await box.acall('nb.anap', {'s': 60})",
    "many at once": "await asyncio.gather(*(nb.anap.aio(s=60) for _ in range(50)))",
}


@pytest.mark.parametrize(
    "code",
    [
        *(pytest.param(code, id=name) for name, code in WAITING.items()),
        *(pytest.param(code, id=name, marks=IN_C) for name, code in WAITING_IN_C.items()),
    ],
)
def test_stop_gives_control_back(ready: Kernel, code: str) -> None:
    outcome, took_s = interrupted(ready, code)

    assert took_s < GUARD_S
    assert outcome.error is not None, "it stops Run All"
    name = "CancelledError" if "gather" in code else "KeyboardInterrupt"
    assert outcome.error.ename == name
    assert len(outcome.error.text.splitlines()) == 1
    assert "was stopped after" in outcome.error.text
    assert all(line.endswith("stopped") for line in kept(outcome))
    row = ready.execute("[(row.ok, row.reason) for row in box.log.history(limit=1)]").result_text
    assert row == "[(False, 'cancelled')]"
    assert ready.execute("nb.quiet(s=0); 'usable'").result_text == "'usable'"


@pytest.mark.windows("a call in C that hears Stop at its end")
def test_call_in_c_hears_stop_at_its_end(ready: Kernel) -> None:
    outcome, _ = interrupted(ready, "nb.nap(s=2)")

    assert outcome.error is not None
    assert outcome.error.ename == "KeyboardInterrupt"
    assert ready.execute("nb.quiet(s=0); 'usable'").result_text == "'usable'"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("%tool import {url} --allow-host", "%tool import was stopped."),
        ('%ask tool:nb.quiet {{"s": 60}}', "%ask was stopped."),
        ("$napping", "$napping was stopped."),
    ],
    ids=["import", "ask", "snippet"],
)
def test_stop_of_a_line_without_a_call_is_one_line(
    ready: Kernel, silent_server: str, code: str, line: str
) -> None:
    ready.execute(f"%%snippet napping\nprint('begun')\n{LONG}")
    running = ready.start_execute(f"print('begun', flush=True)\n{code.format(url=silent_server)}")
    running.wait_for_output("begun")

    ready.interrupt()
    outcome = running.wait(allow_errors=True)

    assert outcome.error is not None
    assert outcome.error.text == f"KeyboardInterrupt: {line}"


SLOW = f"""
from onetool_ipy.core.result import ToolResult
class Slow(dict):
    def __missing__(self, key):
        {LONG}
slow = ToolResult(True, Slow(), None, {{}})
"""


@pytest.mark.parametrize("code", [LONG, "slow['a']"], ids=["none", "a result"])
def test_stop_of_plain_python_shows_no_frame_of_ours(ready: Kernel, code: str) -> None:
    ready.execute(SLOW)
    running = ready.start_execute(f"print('begun', flush=True)\n{code}")
    running.wait_for_output("begun")

    ready.interrupt()
    outcome = running.wait(allow_errors=True)

    assert outcome.error is not None
    assert outcome.error.ename == "KeyboardInterrupt"
    assert f"----> 2 {code}" in outcome.error.text
    assert "onetool_ipy" not in outcome.error.text


@pytest.mark.posix("a signal that a thread does not get")
@pytest.mark.parametrize(
    "call", ["nb.nap.aio(s=60)", "nb.anap.aio(s=60)"], ids=["sync tool", "async tool"]
)
def test_stop_is_heard_by_a_loop_that_was_just_about_to_sleep(ready: Kernel, call: str) -> None:
    """Then the signal does not end the sleep. Here it never does: another thread of the kernel gets
    it."""
    cell = f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
try:
    await {call}
finally:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
"""
    outcome, took_s = interrupted(ready, cell)

    assert took_s < GUARD_S
    assert outcome.error is not None
    assert outcome.error.ename == "KeyboardInterrupt"
    assert ready.execute("await nb.anap.aio(s=0)").result_text == "'rested'"


@pytest.mark.parametrize(
    "code", ["print('begun', flush=True); j.result()", "print('begun', flush=True); await j"]
)
def test_stop_ends_the_waiting_and_not_the_job(ready: Kernel, code: str) -> None:
    ready.execute("j = box.start('nb.quiet', {'s': 60})")
    outcome, took_s = interrupted(ready, code)

    assert took_s < GUARD_S
    assert outcome.error is not None
    assert ready.execute("j.status, j.cancel()").result_text == "('running', True)"


def test_a_second_interrupt_is_hard(ready: Kernel) -> None:
    """`except KeyboardInterrupt` does not hold it."""
    outcome, took_s = interrupted(ready, "nb.stubborn(s=60)", times=2)

    assert took_s < GUARD_S
    assert outcome.error is not None
    assert outcome.error.ename == "KeyboardInterrupt"
    assert ready.execute("nb.quiet(s=0); 'usable'").result_text == "'usable'"


def test_a_second_interrupt_of_another_call_is_not(ready: Kernel) -> None:
    """Each call has its own first interrupt: one that minds it, and goes on, may do so."""
    code = """
for _ in range(2):
    try:
        nb.minding(s=60)
    except BaseException as exc:
        print(type(exc).__name__)
"""
    execution = ready.start_execute(code, allow_stdin=True)
    for sign in ("begun", "swallowed\nbegun"):
        execution.wait_for_output(sign)
        ready.interrupt()
    outcome = execution.wait()

    # A line may be cut before its end.
    said = re.findall(r"begun|swallowed|Interrupt|Abandoned", outcome.stdout)
    assert said == ["begun", "swallowed"] * 2


def test_stop_during_bookkeeping_waits_for_its_end(ready: Kernel) -> None:
    """The record of a call is written before Stop ends the cell, though the signal came while it
    was written."""
    ready.execute("import signal; from onetool_ipy.base.interrupts import deferred")
    code = (
        "with deferred:\n    signal.raise_signal(signal.SIGINT); print('written')\nprint('not"
        " reached')"
    )
    outcome = ready.execute(code, allow_errors=True)

    assert outcome.error is not None
    assert outcome.error.ename == "KeyboardInterrupt"
    assert outcome.stdout == "written\n"


def test_the_handler_of_signals_is_as_before(ready: Kernel) -> None:
    ready.execute("import signal")
    # The event loop of a kernel has a descriptor of its own on Windows.
    wakeup = "[fd := signal.set_wakeup_fd(-1), signal.set_wakeup_fd(fd)][0]"
    before = [ready.evaluate("signal.getsignal(2)"), ready.evaluate(wakeup)]
    interrupted(ready, "nb.spin(s=60)")

    assert [ready.evaluate("signal.getsignal(2)"), ready.evaluate(wakeup)] == before
    assert "onetool" not in before[0]
    code = "import signal; signal.signal(signal.SIGINT, lambda *a: print('mine')); nb.nap(s=0.3)"
    ready.execute(code)
    assert ready.execute("1").ok
