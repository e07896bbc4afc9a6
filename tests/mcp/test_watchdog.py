"""No MCP server outlives its kernel: killed, restarted, shut down; and Stop leaves none behind that
nobody owns.

Counted by pid: all that is below the kernel before, and whether any of it still runs after. The
servers are one that others wrote behind a shell (as npx is), and one that ignores its closed stdin
and SIGTERM and has children that went their own way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.mcp import watchdog
from tests.harness import macos
from tests.harness.kernel import Kernel, private_kernel
from tests.harness.patience import HANG_S, until
from tests.harness.programs import python
from tests.harness.servers import alive, below, hostile, real, wait_until_gone, write_project

FEW, MANY = 2, 50

pytestmark = pytest.mark.timeout(600)  # kernels and servers start and end again and again

START = """
%load_ext onetool_ipy
while "starting" in (_states := ot.health()["proxy"]["states"]).values():
    pass  # each look waits for 8 s
print(_states)
"""


def project(folder: Path) -> Path:
    node = real("everything")
    behind = " ".join([node["command"], *node["args"]])
    servers = {
        "wrapped": {"type": "stdio", "command": "sh", "args": ["-c", f"{behind}; true"]},
        "deaf": hostile("--deaf", "--children", f"--journal={folder / 'journal'}"),
    }
    return write_project(folder, servers, "timeouts: {mcp_s: 90}\n")


def start(kernel: Kernel) -> set[int]:
    """Start the servers in a kernel; every process below it."""
    said = kernel.execute(START, HANG_S).stdout
    assert said.count("'connected'") == 2, said
    found: set[int] = set()

    def are_all_there() -> bool:
        found.update(below(kernel.pid))
        commands = list(alive(found).values())
        has_everything = sum("server-everything" in command for command in commands) >= 2
        return has_everything and sum(command.startswith("sleep 60") for command in commands) == 4

    assert until(are_all_there), alive(found)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project that each kernel of a test runs in."""
    return project(tmp_path / "work")


def killed(home: Path, times: int) -> None:
    for turn in range(times):
        kernel = private_kernel(home.parent / f"kernel-{turn}")
        try:
            kernel.execute(f"%cd -q {home}")
            pids = start(kernel)
            os.kill(kernel.pid, signal.SIGKILL)
            assert wait_until_gone(pids) == {}, f"turn {turn}"
        finally:
            kernel.close()


def restarted(home: Path, times: int) -> None:
    with private_kernel(home.parent) as kernel:
        for turn in range(times):
            pids = start(kernel)
            kernel.restart()
            assert wait_until_gone(pids) == {}, f"turn {turn}"


def interrupted(home: Path, times: int) -> None:
    """Stop during a call and during a start: control is back, the server is told, nothing is left
    unowned."""
    with private_kernel(home.parent) as kernel:
        before = start(kernel)
        for turn in range(times):
            running = kernel.start_execute("%tool deaf.slow n=60")
            _wait_for_calls(home / "journal", turn + 1)
            kernel.interrupt()
            outcome = running.wait(allow_errors=True)
            assert outcome.error is not None
            _wait_for_cancels(home / "journal", turn + 1)
            assert kernel.execute("%tool deaf.echo text=on").result_text == "on"
        assert alive(below(kernel.pid)).keys() == alive(before).keys()
        kernel.execute("from onetool_ipy.core import current")
        restarts = "[current.require().servers.restart('wrapped') for _ in 'abc']"
        running = kernel.start_execute(f"print('now'); {restarts}")
        running.wait_for_output("now")
        kernel.interrupt()
        stopped = running.wait(allow_errors=True).error
        assert stopped is not None
        assert stopped.ename == "KeyboardInterrupt"
        assert kernel.execute("%tool wrapped.echo message=on", HANG_S).result_text == "Echo: on"
        pids = below(kernel.pid) | before
        kernel.kill()
        assert wait_until_gone(pids) == {}


@pytest.mark.slow
def test_nothing_is_left_after_kill_9(home: Path) -> None:
    killed(home, FEW)


@pytest.mark.slow
def test_nothing_is_left_after_a_restart(home: Path) -> None:
    restarted(home, FEW)


@pytest.mark.slow
def test_stop_ends_the_call_and_leaves_nothing_unowned(home: Path) -> None:
    interrupted(home, FEW)


@pytest.mark.slow
def test_nothing_is_left_after_the_end_of_a_script(home: Path, tmp_path: Path) -> None:
    """A program that just ends, and one that closes its toolbox."""

    for last in ("pass", "box.close()"):
        code = (
            "import os, onetool_ipy, sys; box = onetool_ipy.open_toolbox('.'); box.servers.check();"
            "print(box.ot.health()['proxy']['status']);"
            "sys.path.insert(0, sys.argv[1]); from tests.harness.servers import below;"
            f"print(*below(os.getpid()), flush=True); {last}"
        )
        root = str(Path(__file__).resolve().parents[2])
        done = python(code, root, check=False, cwd=home, timeout=HANG_S)
        status, pids, *_ = done.stdout.splitlines()
        assert (status, done.returncode, done.stderr) == ("ok", 0, "")
        assert wait_until_gone({int(pid) for pid in pids.split()}) == {}


@pytest.mark.soak
def test_nothing_is_left_after_many_kills(home: Path, record_property: Any) -> None:
    killed(home, MANY)
    record_property("figures", f"{MANY} kernels killed, no process left")


@pytest.mark.soak
def test_nothing_is_left_after_many_restarts(home: Path, record_property: Any) -> None:
    restarted(home, MANY)
    record_property("figures", f"{MANY} restarts of a kernel, no process left")


@pytest.mark.soak
def test_nothing_is_left_after_many_interrupts(home: Path, record_property: Any) -> None:
    interrupted(home, MANY)
    record_property("figures", f"{MANY} interrupts of a call, no process left")


def _wait_for_calls(journal: Path, count: int) -> None:
    _wait(
        journal, lambda m: m.get("method") == "tools/call" and m["params"]["name"] == "slow", count
    )


def _wait_for_cancels(journal: Path, count: int) -> None:
    _wait(journal, lambda m: m.get("method") == "notifications/cancelled", count)


def _wait(journal: Path, wanted: object, count: int) -> None:
    assert callable(wanted)

    def is_there() -> bool:
        lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
        return sum(bool(wanted(json.loads(line))) for line in lines) >= count

    assert until(is_there), f"the journal has not {count} of them"


@pytest.mark.posix("ps")
def test_without_proc_the_other_processes_of_the_group_are_those_to_end() -> None:
    """Neither the `ps` that is asked, nor its shell, nor a process that has ended. The PATH of the
    server may lead elsewhere."""
    code = (
        "import os, runpy, subprocess, sys; group = runpy.run_path(sys.argv[1])['_group'];"
        "child, ended = (subprocess.Popen(['sleep', n]) for n in ('600', '0'));"
        "os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT); os.environ['PATH'] = '/nowhere';"
        "print(group() == [child.pid]); child.kill(); child.wait(); print(group())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, watchdog.__file__],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )

    assert done.stdout.split() == ["True", "[]"], done.stderr


@pytest.mark.linux("what macOS lacks is taken away from Linux")
@pytest.mark.parametrize("how", ["the kernel is killed", "the watchdog is asked"])
@pytest.mark.parametrize("has_kqueue", [True, False], ids=["kqueue", "looks"])
def test_a_server_ends_with_its_children_also_as_on_macos(
    tmp_path: Path, how: str, has_kqueue: bool
) -> None:
    watching = macos.before(has_kqueue=has_kqueue)
    watching += f"import runpy; runpy.run_path({watchdog.__file__!r}, run_name='__main__')"
    file = tmp_path / "pids"
    server = f'sleep 600 & echo $$ $! > "{file}.new"; mv "{file}.new" "{file}"; wait'
    # The kernel: it starts the watchdog of a server, then waits.
    kernel = (
        "import os, subprocess, sys; status, told = os.pipe();"
        "words = [sys.executable, '-c', sys.argv[1], str(os.getpid()), str(told), '-', 'sh', '-c',"
        " sys.argv[2]];"
        "guard = subprocess.Popen(words, pass_fds=[told], start_new_session=True);"
        "print(guard.pid, flush=True); os.read(status, 99); sys.stdin.read(); guard.terminate();"
        "print(guard.wait(), flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", kernel, watching, server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    guard = int(process.stdout.readline())
    assert until(file.exists)
    pids = {guard, *map(int, file.read_text(encoding="utf-8").split())}

    if how == "the kernel is killed":
        process.kill()
    rest, _ = process.communicate()

    assert wait_until_gone(pids) == {}
    assert how == "the kernel is killed" or rest == "143\n"
