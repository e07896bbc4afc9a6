"""One server: its connections, which are replaced when they die, and what a call says while there
is none."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.processes import kill
from tests.harness.patience import HANG_S, until
from tests.harness.servers import HOSTILE, hostile, wait_until_gone

Open = Callable[..., Toolbox]


def test_a_server_that_dies_during_a_call_fails_that_call_once(
    opened: Open, tmp_path: Path
) -> None:
    box = opened({"srv": hostile(f"--journal={tmp_path / 'journal'}")})

    error = box.call("srv.die").error

    assert error is not None
    assert (error.code, error.reason) == ("execution_error", "unavailable")
    assert "not repeated" in error.hint
    lines = map(json.loads, (tmp_path / "journal").read_text(encoding="utf-8").splitlines())
    assert sum(line.get("method") == "tools/call" for line in lines) == 1
    health = box.ot.health()
    assert health["proxy"]["servers"] == {"srv": "disconnected"}
    (problem,) = health["problems"]
    assert "It ended with status 3: FatalError: out of cheese" in problem["message"]
    assert box.call("srv.echo", {"text": "again"}).data == "again"
    assert box.ot.health()["proxy"]["status"] == "ok"


def test_a_killed_server_is_seen_and_started_again_by_the_next_call(opened: Open) -> None:
    box = opened({"srv": hostile()})
    first = box.call("srv.calls").unwrap()
    assert box.servers.pid("srv") == first["pid"]

    kill(first["pid"])
    assert wait_until_gone({first["pid"]}) == {}

    assert until(lambda: box.servers["srv"] == "disconnected")  # heard of a moment after the end
    proxy = box.ot.health()["proxy"]
    assert (proxy["status"], proxy["servers"]) == ("degraded", {"srv": "disconnected"})
    ending = "It ended with status 15." if os.name == "nt" else "It was ended by signal 9."
    assert ending in box.servers.reason("srv")
    second = box.call("srv.calls").unwrap()
    assert second["pid"] != first["pid"]
    assert second["calls"] == 1
    assert dict(box.servers) == {"srv": "connected"}


@pytest.mark.slow
def test_a_start_and_an_end_are_told_when_the_state_is_the_new_one(opened: Open) -> None:
    box = opened(
        {
            "srv": hostile(),
            "bad": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
        }
    )
    told: list[dict[str, str]] = []
    box.subscribe(states=lambda: told.append(dict(box.servers)))

    pid = box.call("srv.calls").unwrap()["pid"]
    assert until(lambda: told and told[-1]["srv"] == "connected")
    with pytest.raises(OneToolError):
        box.servers.start("bad")
    assert until(lambda: told[-1]["bad"] == "failed")
    os.kill(pid, 9)
    assert until(lambda: told[-1]["srv"] == "disconnected")
    box.servers.start("srv")
    assert until(lambda: told[-1]["srv"] == "connected")
    box.servers.stop("srv")
    assert until(lambda: told[-1]["srv"] == "stopped")


def test_a_state_that_is_read_while_the_start_ends_is_no_failure(opened: Open) -> None:
    """The reader saw that there is no connection yet, and goes on when there is one."""
    box = opened({"srv": hostile()})
    is_read, is_started = threading.Event(), threading.Event()
    read: list[str] = []

    def pause(frame: FrameType, event: str, value: object) -> Callable[..., Any] | None:
        if (
            frame.f_code.co_name == "_own_connection"
            and event == "return"
            and value is None
            and not is_read.is_set()
        ):
            is_read.set()
            assert is_started.wait(HANG_S)
        return pause

    def look() -> bool:
        read.append(box.servers["srv"])
        return is_read.is_set()

    def read_states() -> None:
        sys.settrace(pause)
        until(look)

    reader = threading.Thread(target=read_states)
    reader.start()
    assert is_read.wait(HANG_S)
    box.servers.start("srv")
    is_started.set()
    reader.join(HANG_S)

    assert read[-1] in ("not started", "starting")
    assert box.servers["srv"] == "connected"


def test_a_server_that_is_still_starting_ends_with_its_toolbox(
    opened: Open, tmp_path: Path
) -> None:
    """It never says a word; its pid is in a file."""
    file = tmp_path / "pid"
    code = (
        "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()}\\n'); time.sleep(600)"
    )
    box = opened({"srv": {"command": sys.executable, "args": ["-c", code, str(file)]}})
    assert box.servers.check(0.2) == {"srv": "starting"}
    assert until(lambda: file.exists() and file.read_text(encoding="utf-8").endswith("\n"))

    box.close()

    assert wait_until_gone({int(file.read_text(encoding="utf-8"))}) == {}


@pytest.mark.posix("SIGSTOP")
@pytest.mark.slow
def test_a_server_that_hangs_is_seen(opened: Open) -> None:
    box = opened({"srv": hostile()})
    pid = box.call("srv.calls").unwrap()["pid"]
    os.kill(pid, signal.SIGSTOP)

    assert box.servers.check() == {"srv": "disconnected"}
    assert box.servers.reason("srv") == "It does not answer."
    # Another one: that it hangs was seen before sending.
    assert box.call("srv.calls").unwrap()["pid"] != pid
    assert wait_until_gone({pid}) == {}


def test_a_loop_that_was_given_up_costs_no_server(opened: Open) -> None:
    """An async tool that blocks its loop past its limit: the connections to servers live on another
    loop."""
    from onetool_ipy import tool

    box = opened({"srv": hostile()})
    first = box.call("srv.calls").unwrap()["pid"]

    @tool
    async def blocks() -> None:
        """Block the loop, in C."""
        time.sleep(3)  # noqa: ASYNC251 - that is the point

    box.adopt(blocks)
    error = box.call("nb.blocks", timeout=0.2).error
    assert error is not None
    assert error.reason == "timeout"

    assert box.call("srv.calls").unwrap()["pid"] == first
    assert dict(box.servers) == {"srv": "connected"}


def failing(folder: Path) -> dict[str, Any]:
    """A server that starts as long as the file `good` is there."""
    code = (
        "import os, runpy, sys\n"
        "if os.path.exists(sys.argv.pop(1)): runpy.run_path(sys.argv[1], run_name='__main__')\n"
        "print('ConfigError: no flux', file=sys.stderr)\n"
        "print('and no capacitor, KEY=sesame-open', file=sys.stderr)\n"
        "sys.exit(9)\n"
    )
    words = ["-S", "-c", code, str(folder / "good"), str(HOSTILE)]
    return {"type": "stdio", "command": sys.executable, "args": words}


@pytest.mark.parametrize("is_known", [False, True], ids=["never listed", "listed before"])
def test_a_tool_of_a_server_that_did_not_start_says_why_and_what_to_do(
    opened: Open, tmp_path: Path, is_known: bool
) -> None:
    (tmp_path / "good").touch()
    if is_known:
        with opened({"bad": failing(tmp_path)}) as before:
            assert before.call("bad.echo", {"text": "x"}).ok
    (tmp_path / "good").unlink()
    box = opened({"bad": failing(tmp_path)})

    for result in (
        box.call("bad.echo", {"text": "x"}),
        box.call("bad.echo", {"text": "x"}, source="model"),
    ):
        error = result.error
        assert error is not None
        assert (
            "The server 'bad' did not start. It ended with status 9: ConfigError: no flux"
            in error.message
        )
        assert "See what it wrote: %tool server logs bad" in error.hint
        assert error.details["stderr"][-2:] == [
            "ConfigError: no flux",
            "and no capacitor, KEY=sesame-open",
        ]
        assert (error.code, error.reason) == (
            ("execution_error", "unavailable") if is_known else ("tool_not_found", None)
        )
    with pytest.raises(OneToolError, match=r"did not start\. It ended with status 9"):
        box.pack("bad").echo("x") if is_known else box.ot.run("bad.echo", text="x")


def test_a_tool_of_a_server_that_is_off_or_stopped_says_so(opened: Open) -> None:
    box = opened({"off": hostile(enabled=False), "held": hostile()})
    box.servers.stop("held")

    off, held = (box.call(f"{name}.echo", {"text": "x"}).error for name in ("off", "held"))

    assert off is not None
    assert off.message == "No tool 'off.echo'. The server 'off' is switched off."
    assert off.hint.startswith("Set 'enabled: true' and reload.")
    assert held is not None
    assert "The server 'held' was stopped." in held.message
    assert "%tool server start held" in held.hint
