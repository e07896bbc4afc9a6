"""One connection: what it follows while it lives, and what counts of what came before its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onetool_ipy import Toolbox
from tests.harness.patience import until
from tests.harness.servers import hostile, wait_until_gone, write_project

Open = Callable[..., Toolbox]


@pytest.mark.slow
def test_what_a_server_answered_before_it_died_counts(opened: Open) -> None:
    box = opened({"srv": hostile()})

    for _ in range(5):
        pid = box.call("srv.calls").unwrap()["pid"]
        assert box.call("srv.answer_and_die").data == "my last words"
        assert wait_until_gone({pid}) == {}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_changes_of_a_list_are_followed(opened: Open, tmp_path: Path, protocol: str) -> None:
    """With the older protocol they come by themselves, with the newest they are asked for."""
    served = tmp_path / "served"
    write_project(served, {})
    grown = served / ".onetool" / "tools" / "grown.py"
    definition = {
        "command": sys.executable,
        "args": ["-m", "onetool_ipy.faces.cli", "mcp", "--tool-allow", "*"],
        "cwd": str(served),
        "env": {"ONETOOL_STATE": str(tmp_path / "served-state"), "ONETOOL_TRUST": str(served)},
    }
    box = opened({"srv": definition if protocol == "2026-07-28" else hostile()})
    assert box.servers.test("srv")["protocol"] == protocol
    heard: list[int] = []
    box.subscribe(changed=lambda: heard.append(1))
    new = "srv.fresh_1" if protocol == "2025-11-25" else "srv.grown_new"
    assert new not in box.ot.tools(info="list")

    if protocol == "2025-11-25":
        assert box.call("srv.storm", {"n": 1}).ok
    else:
        grown.parent.mkdir()
        grown.write_text('def new() -> int:\n    "Say one."\n    return 1\n', encoding="utf-8")
        assert box.call("srv.ot_reload").ok

    until(lambda: new in box.ot.tools(info="list"))
    assert box.call(new).ok
    assert heard


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('no such database')", "It ended with status 1: no such database."),
        ("print('hello', file=__import__('sys').stderr)", "It ended with status 0."),
        pytest.param(
            *("import os; os.kill(os.getpid(), 9)", "It was ended by signal 9."),
            marks=pytest.mark.posix("signals"),
        ),
        pytest.param(
            *("import os; os._exit(200)", "It ended with status 200."),
            marks=pytest.mark.windows("no signals"),
        ),
    ],
    ids=["failed", "ended", "killed", "large"],
)
def test_how_a_server_ended_is_the_reason(opened: Open, script: str, reason: str) -> None:
    """Its last line is told only where it failed, since that may say why."""
    box = opened({"srv": {"command": sys.executable, "args": ["-c", script]}})

    outcome = box.servers.test("srv")

    said = f"The server 'srv' did not start. {reason}"
    assert (outcome["ok"], outcome["reason"]) == (False, said)
