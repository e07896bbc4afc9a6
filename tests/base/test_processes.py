"""What differs between systems about processes, command lines and sockets: one meaning on each."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.processes import (
    INHERITED,
    ProcessEnd,
    ProcessJob,
    command_line,
    find_command,
    is_running,
    kill,
    listen_alone,
    new_event_loop,
    system_words,
    wait_for_stdin,
    words_in,
)
from tests.harness import macos


def sleeper(**options: object) -> subprocess.Popen[bytes]:
    script = "print('up', flush=True); import time; time.sleep(600)"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )


def test_a_process_runs_until_it_has_ended() -> None:
    process = sleeper()
    try:
        assert is_running(process.pid)
    finally:
        kill(process.pid)
        process.communicate()

    assert not is_running(process.pid)
    assert is_running(os.getpid())


@pytest.mark.posix("Windows waits for a Job Object")
def test_the_end_of_a_process_is_readable_when_it_has_ended() -> None:
    process = sleeper()
    end = ProcessEnd(process.pid)
    try:
        assert select.select([end], [], [], 0)[0] == []
        kill(process.pid)
        assert select.select([end], [], [], 60)[0] == [end]
    finally:
        end.close()
        end.close()
        process.communicate()


@pytest.mark.linux("its descriptors of processes make the kqueue of macOS")
def test_the_end_of_a_process_is_readable_also_as_on_macos() -> None:
    said = macos.run(
        "import errno, select, subprocess\n"
        "from onetool_ipy.base.processes import ProcessEnd\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "end = ProcessEnd(child.pid)\n"
        "print(select.select([end], [], [], 0)[0] == [])\n"
        "child.kill()\n"
        "print(select.select([end], [], [], 60)[0] == [end])\n"
        "end.close(), end.close(), child.wait()\n"
        "try: ProcessEnd(child.pid)\n"
        "except OSError as exc: print(exc.errno == errno.ESRCH)\n"
    )

    assert said.split() == ["True"] * 3


@pytest.mark.windows("Job Objects")
@pytest.mark.parametrize("how", ["end", "drop"])
def test_all_processes_of_a_job_end_with_it(how: str) -> None:
    """Also a child that the process had started before."""
    job = ProcessJob()
    script = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c',"
        " 'import time; time.sleep(600)']); print(child.pid, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, creationflags=ProcessJob.flags
    )
    job.hold(process.pid)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert is_running(child)
    if how == "end":
        job.end()
        job.end()
    else:
        del job

    process.communicate(timeout=60)
    until = time.monotonic() + 60
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_running(child)


def test_an_event_loop_can_start_a_process() -> None:
    async def started() -> int:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        return await process.wait()

    loop = new_event_loop()
    try:
        assert loop.run_until_complete(started()) == 0
    finally:
        loop.close()


def test_an_event_loop_for_another_thread_leaves_the_signals_where_they_are() -> None:
    waking, woken = socket.socketpair()
    with waking, woken:
        waking.setblocking(False)
        before = signal.set_wakeup_fd(waking.fileno())
        try:
            loop = new_event_loop()
            thread = threading.Thread(target=loop.close)
            thread.start()
            thread.join()
        finally:
            now = signal.set_wakeup_fd(before)
        assert now == waking.fileno()


def test_a_command_is_found_by_its_path_or_below_the_folder(tmp_path: Path) -> None:
    name = "tool.cmd" if os.name == "nt" else "tool"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / name
    program.write_text("")
    program.chmod(0o700)
    env = {"PATH": str(tmp_path / "bin")}

    assert find_command("tool", cwd=str(tmp_path), env=env) is not None
    below = find_command(os.path.join("bin", "tool"), cwd=str(tmp_path), env={})
    assert below is not None
    assert Path(below).samefile(program)
    assert find_command("other", cwd=str(tmp_path), env=env) is None
    assert find_command("tool", cwd=str(tmp_path), env={"PATH": ""}) is None


_WORDS = st.lists(
    st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"])), min_size=1
)


@pytest.mark.posix("cmd and PowerShell have no quotes that hold every character")
@given(_WORDS)
def test_a_command_line_is_read_as_the_words_it_was_made_of(words: list[str]) -> None:
    if re.search(r"[A-Za-z]:\\", " ".join(words)):
        return  # a path of Windows
    assert words_in(command_line(words)) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r"C:\tools\server.exe --root D:\data", [r"C:\tools\server.exe", "--root", r"D:\data"]),
        (r'"C:\Program Files\x\s.exe" "a b"', [r"C:\Program Files\x\s.exe", "a b"]),
        (r"npx -y s --dir=C:\new\table", ["npx", "-y", "s", r"--dir=C:\new\table"]),
        ("uvx server # 1", ["uvx", "server", "#", "1"]),
    ],
    ids=["plain", "quoted", "option", "hash"],
)
def test_backslashes_of_a_pasted_path_stay(line: str, words: list[str]) -> None:
    assert words_in(line) == words


def test_an_open_quote_is_no_command_line() -> None:
    with pytest.raises(ValueError, match="quot"):
        words_in('C:\\x "open')


@pytest.mark.windows("keys instead of descriptors")
def test_a_line_is_waited_for_until_a_key_is_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """There `select` takes sockets alone."""
    looks = iter([False, False, True])
    monkeypatch.setattr("msvcrt.kbhit", lambda: next(looks))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)

    wait_for_stdin()

    assert next(looks, None) is None


def test_no_other_program_binds_a_port_that_is_listened_on() -> None:
    with socket.socket() as first, socket.socket() as second:
        listen_alone(first)
        first.bind(("127.0.0.1", 0))
        first.listen()
        second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Windows denies access to a port that is held alone.
        with pytest.raises(OSError, match=r"in use|10013|10048|forbidden|denied"):
            second.bind(first.getsockname())


def test_a_refused_connection_is_told_in_the_systems_words() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError) as refused:
            socket.create_connection(free.getsockname(), timeout=30).close()

    assert "refused" in system_words(refused.value)
    assert system_words(OSError(errno.ENOENT, "other")) == os.strerror(errno.ENOENT)
    assert system_words(OSError(-2, "Name or service not known")) == "Name or service not known"


def test_a_program_with_only_the_inherited_variables_starts() -> None:
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", "import socket; socket.socket().close()"], env=env, check=False
    )

    assert done.returncode == 0
