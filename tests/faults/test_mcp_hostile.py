"""Servers that do not behave: each has a clear state and reason, costs no other server, and no
memory."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox
from tests.harness.patience import until
from tests.harness.servers import hostile, wait_until_gone, write_project

Open = Callable[..., Toolbox]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    boxes: list[Toolbox] = []

    def start(servers: Mapping[str, Any], more: str = "timeouts: {mcp_s: 60}\n") -> Toolbox:
        write_project(tmp_path, {"good": hostile(), **servers}, more)
        boxes.append(open_toolbox(tmp_path))
        return boxes[-1]

    yield start
    for box in boxes:
        assert box.call("good.echo", {"text": "unaffected"}).data == "unaffected"
        box.close()


CASES = {
    "missing command": (
        {"type": "stdio", "command": "no-such-command-here"},
        "There is no command 'no-such-command-here'.",
    ),
    "not a program": (
        {"type": "stdio", "command": "/etc/passwd"},
        "There is no command '/etc/passwd'.",
    ),
    "no such folder": (hostile(cwd="not/there"), "not/there' does not exist."),
    "exits at once": (
        hostile("--exit=7"),
        "It ended with status 7: KeyError: 'the flux capacitor'",
    ),
    "exits silently": ({"type": "stdio", "command": "true"}, "It ended with status 0."),
    "no handshake": (hostile("--mute", timeout_s=1), "It did not answer within 1 s."),
    "not a server": (
        {"type": "stdio", "command": "yes", "timeout_s": 5},
        "Its stdout is not MCP: 'y'",
    ),
    "a line without an end": (hostile("--flood-at-once"), "It wrote a line of more than 32 MB."),
}


@pytest.mark.slow
@pytest.mark.parametrize(("definition", "reason"), CASES.values(), ids=list(CASES))
def test_a_server_that_does_not_start_says_why(opened: Open, definition: Any, reason: str) -> None:
    box = opened({"bad": definition})

    health = box.ot.health()
    while "starting" in health["proxy"]["states"].values():
        health = box.ot.health()

    assert health["proxy"]["states"] == {"good": "connected", "bad": "failed"}
    (problem,) = health["problems"]
    assert problem["where"].endswith("onetool.yaml:2")
    assert problem["message"].startswith("The server 'bad': ")
    assert reason in problem["message"]
    assert problem["hint"]


def test_junk_on_stdout_is_left_out(opened: Open) -> None:
    box = opened({"bad": hostile("--junk")})

    assert box.call("bad.echo", {"text": "through"}).data == "through"
    assert box.ot.health()["proxy"]["status"] == "ok"


def test_bad_tools_are_problems_and_the_others_work(opened: Open) -> None:
    box = opened({"bad": hostile("--bad-tools")})

    names = {spec.short_name for spec in box.registry.packs()["bad"]}
    said = [p["message"] for p in box.ot.health()["problems"]]

    assert {"echo", "loop", "evil_pattern", "undescribed"} <= names
    assert not names & {
        "",
        "no_schema_at_all",
        "array",
        "bad_type",
        "bad_output",
        "far_ref",
        "bell\x07",
    }
    for word in (
        "without a name",
        "no_schema_at_all",
        "'array'",
        "bad_type",
        "bad_output",
        "far_ref",
        "twice",
    ):
        assert any(word in text for text in said), word
    assert box.registry.get("bad.echo").parameters["required"] == ["text"]  # type: ignore[union-attr]
    assert box.call("bad.loop", {"node": {"next": {"next": {}}}}).data == "called loop"
    box.call("bad.evil_pattern", {"a": "a" * 60 + "!"})  # backtracking would take years


def test_every_tool_is_reachable_whatever_its_name(opened: Open) -> None:
    box = opened({"bad-names": hostile("--names", "--pages=3")})
    pack = box.pack("bad_names")
    assert pack is not None

    for wire, spelled in (
        ("get-sum", "get_sum"),
        ("a/b", "a_b"),
        ("a.b", "a_b"),
        ("class", "class_"),
        ("1st", "_1st"),
    ):
        assert pack[wire]() == f"called {wire}"
        assert getattr(pack, spelled)().startswith("called")
        assert box.call(f"bad-names.{wire}").data == f"called {wire}"
    assert pack.ünï() == "called ünï"
    assert pack["with_blank"]() == "called with blank"
    (long,) = [
        spec for spec in box.registry.packs()["bad-names"] if spec.short_name.startswith("xxx")
    ]
    assert len(long.name) <= 128
    assert box.call(long.name).data == "called " + "x" * 200


@pytest.mark.slow
def test_all_pages_of_a_list_are_read(opened: Open) -> None:
    box = opened({"bad": hostile("--many=1000", "--pages=7")})

    assert sum(spec.short_name.startswith("more_") for spec in box.registry.packs()["bad"]) == 1000


@pytest.mark.slow
def test_a_storm_of_list_changes_is_followed_once_it_is_over(opened: Open, tmp_path: Path) -> None:
    box = opened({"bad": hostile(f"--journal={tmp_path / 'journal'}")})
    assert box.registry.get("bad.fresh_1") is None

    assert box.call("bad.storm", {"n": 3000}).data == "stormed"

    assert until(lambda: box.registry.get("bad.fresh_1") is not None)
    assert box.call("bad.fresh_1").data == "called fresh_1"
    assert "bad.fresh_1" in box.ot.tools(info="list")
    asked = (tmp_path / "journal").read_text(encoding="utf-8").count('"tools/list"')
    assert asked < 20


@pytest.mark.posix("the memory of a process, as POSIX counts it")
@pytest.mark.slow
def test_a_line_of_a_gigabyte_costs_the_call_and_little_memory(opened: Open) -> None:
    box = opened({"bad": hostile()})
    assert box.call("bad.echo", {"text": "x"}).ok
    before = _peak_mb()

    error = box.call("bad.flood", {"n": 10**9}).error

    assert error is not None
    assert error.reason == "unavailable"
    assert _peak_mb() - before < 250
    assert "It wrote a line of more than 32 MB." in _reason(box, "bad")
    assert box.call("bad.echo", {"text": "again"}).data == "again"


@pytest.mark.slow
def test_stderr_is_kept_within_bounds_and_secrets_are_masked_in_it(
    opened: Open, tmp_path: Path
) -> None:
    (tmp_path / ".onetool").mkdir()
    secrets = tmp_path / ".onetool" / "secrets.yaml"
    secrets.write_text("LOUD: 'noise 19998'\n", encoding="utf-8")
    secrets.chmod(0o600)
    box = opened({"bad": hostile()})
    assert box.call("bad.noise").data == "loud"

    until(lambda: "noise 19999 " in box.servers.logs("bad"))
    kept = box.servers.logs("bad")

    assert len(kept) < 70_000
    assert kept.startswith("...\nnoise ")
    assert "noise 19999 " in kept
    assert "noise 19998" not in kept
    assert "***" in kept


def test_a_deaf_server_with_children_is_gone_after_close(tmp_path: Path) -> None:
    """It ignores its closed stdin and SIGTERM, and has grandchildren in other sessions, one of them
    an orphan."""
    from tests.harness.servers import alive, below

    write_project(tmp_path, {"bad": hostile("--deaf", "--children")})
    mine = below(os.getpid())
    with open_toolbox(tmp_path) as box:
        assert box.call("bad.echo", {"text": "x"}).ok

        def sleepers() -> int:
            return sum(
                command.startswith("sleep 60")
                for command in alive(below(os.getpid()) - mine).values()
            )

        assert until(lambda: sleepers() == 4)
        started = below(os.getpid()) - mine

    assert wait_until_gone(started) == {}


@pytest.mark.posix("fork")
@pytest.mark.slow
def test_a_fork_in_a_cell_leaves_the_servers_alone(opened: Open) -> None:
    box = opened({"bad": hostile()})
    pid = box.call("bad.calls").unwrap()["pid"]

    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = box.call("bad.calls").unwrap()["pid"]  # a server of its own
            box.close()
            code = 0 if own != pid else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert box.call("bad.calls").unwrap()["pid"] == pid
    assert box.servers["bad"] == "connected"


def _reason(box: Toolbox, name: str) -> str:
    box.servers.check()
    return box.servers.reason(name)


def _peak_mb() -> float:
    import resource

    unit = 1024 if sys.platform == "linux" else 1024 * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


@pytest.mark.parametrize("stays", [False, True], ids=["dies with its guard", "lives on"])
def test_a_server_that_kills_its_guard_leaves_nothing_behind(
    opened: Open, tmp_path: Path, stays: bool
) -> None:
    """A daemon in a session of its own, whose parents are gone; found here by a variable that only
    this server has."""
    mark, journal = f"escaped-{secrets.token_hex(8)}", tmp_path / "journal"
    box = opened({"bad": hostile(f"--journal={journal}", env={"ESCAPE": mark})})
    assert box.call("good.echo", {"text": "x"}).ok
    good = box.servers.pid("good")
    box.call("bad.escape", {"n": 1} if stays else {})
    until(lambda: '"daemon"' in journal.read_text(encoding="utf-8"))

    box.servers.stop("bad")

    assert wait_until_gone(bearing(f"ESCAPE={mark}")) == {}
    assert bearing(f"ESCAPE={mark}") == set()
    assert good is not None
    assert box.servers.pid("good") == good


def bearing(entry: str) -> set[int]:
    """The processes with an entry in their environment."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if entry.encode() in place.read_bytes().split(b"\0"):
                found.add(int(place.parent.name))
    return found
