"""Servers as a whole: when they start, what is remembered, start and stop by hand, reload,
names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.base.errors import Unavailable, UsageProblem
from onetool_ipy.mcp.definition import read_server
from tests.harness.patience import HANG_S, until
from tests.harness.programs import python
from tests.harness.servers import hostile, wait_until_gone, write_project

Open = Callable[..., Toolbox]


def starts(journal: Path) -> int:
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return sum("pid" in json.loads(line) for line in lines)


# When they start, and what is remembered


def test_a_configured_server_does_not_import_the_sdk(tmp_path: Path) -> None:
    """The SDK takes 2 s to import. That happens when a server starts, not when a toolbox is
    opened."""
    folder = write_project(tmp_path, {"srv": hostile()})
    code = (
        "import sys; from onetool_ipy import open_toolbox\n"
        f"with open_toolbox({str(folder)!r}) as box: print(dict(box.servers))\n"
        "print(sorted({'mcp', 'mcp_types', 'httpx2', 'anyio'} & set(sys.modules)))"
    )

    done = python(code, timeout=HANG_S)

    assert done.stdout.splitlines() == ["{'srv': 'not started'}", "[]"]


def test_nothing_starts_before_it_is_needed(opened: Open, tmp_path: Path) -> None:
    box = opened({"srv": hostile(f"--journal={tmp_path / 'journal'}")})

    assert dict(box.servers) == {"srv": "not started"}
    assert box.servers.reason("srv") == ""
    assert box.config.settings.servers
    assert starts(tmp_path / "journal") == 0
    assert box.ot.config()["servers"] == ["srv"]
    assert "srv.echo" in box.ot.tools(info="list")  # a listing that needs it
    assert starts(tmp_path / "journal") == 1
    assert dict(box.servers) == {"srv": "connected"}


def test_listing_waits_for_a_server_that_a_screen_began_to_start(opened: Open) -> None:
    """The panel lists and does not wait; the line that follows must not say that the server has no
    tools."""
    box = opened({"srv": hostile()})
    box.servers.prepare(wait=False)

    assert "srv.echo" in {spec.name for spec in box.registry.list()}


def test_known_tools_are_listed_without_starting_anything(opened: Open, tmp_path: Path) -> None:
    flags = (f"--journal={tmp_path / 'journal'}", "--instructions=Be kind to it.")
    with opened({"srv": hostile(*flags)}) as first:
        rows = first.ot.tools(pattern="srv.", info="full")
    box = opened({"srv": hostile(*flags)})

    assert box.ot.tools(pattern="srv.", info="full") == rows
    assert "Be kind to it." in box.ot.packs(pattern="srv", info="full")
    assert box.ot.help(query="srv.echo")
    assert starts(tmp_path / "journal") == 1
    assert box.call("srv.echo", {"text": "now"}).data == "now"
    assert starts(tmp_path / "journal") == 2


def test_another_definition_has_another_memory(opened: Open, tmp_path: Path) -> None:
    with opened({"srv": hostile()}) as first:
        assert "srv.more_0" not in first.ot.tools(info="list")

    assert "srv.more_0" in opened({"srv": hostile("--many=1")}).ot.tools(info="list")


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"version": 1, "tools": [3], "faults": []}', b"\xff\xfe"]
)
def test_a_damaged_memory_is_no_memory(opened: Open, tmp_path: Path, damage: bytes) -> None:
    with opened({"srv": hostile()}) as first:
        names = first.ot.tools(info="list")
        (kept,) = (first.config.paths.state / "cache" / "servers").glob("*.json")
    kept.write_bytes(damage)

    assert opened({"srv": hostile()}).ot.tools(info="list") == names


def test_no_secret_is_in_what_is_remembered(opened: Open, tmp_path: Path) -> None:
    (tmp_path / ".onetool").mkdir()
    secrets = tmp_path / ".onetool" / "secrets.yaml"
    secrets.write_text("TOKEN: open-sesame-99\n", encoding="utf-8")
    secrets.chmod(0o600)
    box = opened({"srv": hostile("--instructions=Use ${TOKEN}, always.", env={"T": "${TOKEN}"})})

    assert "srv.echo" in box.ot.tools(info="list")
    assert "open-sesame-99" not in box.ot.packs(pattern="srv", info="full")
    kept = b"".join(
        file.read_bytes() for file in box.config.paths.state.rglob("*") if file.is_file()
    )
    assert b"echo" in kept
    assert b"open-sesame" not in kept
    assert "open-sesame" not in repr(box.servers.definition("srv"))


@pytest.mark.slow
def test_one_call_starts_all_and_waits_for_its_own(opened: Open, tmp_path: Path) -> None:
    definitions = {"a": hostile(), "b": hostile(f"--journal={tmp_path / 'journal'}")}
    with opened(definitions) as first:
        first.ot.tools()
    assert starts(tmp_path / "journal") == 1
    box = opened(definitions)

    assert box.call("a.echo", {"text": "x"}).ok

    assert box.servers.check() == {"a": "connected", "b": "connected"}
    assert starts(tmp_path / "journal") == 2


def test_a_check_with_a_limit_leaves_a_slow_server_starting(opened: Open, tmp_path: Path) -> None:
    """As `ot.health` does: a server that is not up yet is neither waited for nor given up."""
    gate, real = tmp_path / "gate", hostile()
    code = (
        "import os, runpy, sys, time\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.05)\n"
        "runpy.run_path(sys.argv[-1], run_name='__main__')\n"
    )
    box = opened({"srv": {**real, "args": ["-S", "-c", code, str(gate), *real["args"]]}})

    assert box.servers.check(0.2) == {"srv": "starting"}

    assert (box.servers.reason("srv"), box.servers.problems()) == ("", [])
    missing = box.servers.explain("srv.echo")
    assert missing is not None
    assert (missing.message, missing.hint) == (
        "No tool 'srv.echo'. The server 'srv' is still starting.",
        "Try again in a moment.",
    )
    gate.touch()
    until(lambda: dict(box.servers) == {"srv": "connected"})


@pytest.mark.slow
def test_listing_from_memory_needs_neither_mcp_nor_a_thread(opened: Open, tmp_path: Path) -> None:
    """Nor do opening, completion and help."""
    with opened({"srv": hostile()}) as first:
        first.ot.tools()
    code = """
import sys, threading
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_line_magic("load_ext", "onetool_ipy")
loaded = [name for name in ("mcp", "mcp_types", "pydantic", "httpx2", "anyio") if name in sys.modules]
assert not loaded, loaded
shell.run_cell("names = ot.tools(info='list'); page = ot.help(query='srv.echo')")
_, offers = shell.complete("%tool srv.ec")
_, arguments = shell.complete("%tool srv.echo ")
print("srv.echo" in shell.user_ns["names"], offers, arguments)
print([name for name in ("mcp", "mcp_types", "httpx2") if name in sys.modules])
print([thread.name for thread in threading.enumerate() if thread.name == "onetool-loop"])
"""
    done = python(code, check=False, cwd=tmp_path, timeout=HANG_S)

    said, loaded, threads = done.stdout.splitlines()[-3:]
    assert said == "True ['srv.echo'] ['text=']", done.stderr
    assert (loaded, threads) == ("[]", "[]")


# By hand


def test_start_stop_restart_by_hand(opened: Open) -> None:
    box = opened({"srv": hostile()})
    servers = box.servers

    assert servers.start("srv") == "connected"
    pid = servers.pid("srv")
    assert pid is not None
    assert servers.start("srv") == "connected"
    assert servers.pid("srv") == pid
    assert servers.stop("srv") == "stopped"
    assert wait_until_gone({pid}) == {}
    assert servers.reason("srv") == "It was stopped."
    error = box.call("srv.echo", {"text": "x"}).error
    assert error is not None
    assert error.reason == "unavailable"
    assert error.hint == "Start it with: %tool server start srv"
    assert servers.check() == {"srv": "stopped"}
    assert servers.restart("srv") == "connected"
    assert box.call("srv.echo", {"text": "x"}).data == "x"


def test_test_says_how_it_went(opened: Open) -> None:
    box = opened({"srv": hostile(), "bad": hostile("--exit=4")})

    found = box.servers.test("srv")
    assert found.pop("ms") >= 0
    assert found == {
        "server": "srv",
        "ok": True,
        "tools": 18,
        "about": "hostile 6.6.6",
        "protocol": "2025-11-25",
    }
    found = box.servers.test("bad")
    assert not found["ok"]
    assert "It ended with status 4: KeyError: 'the flux capacitor'" in found["reason"]
    assert "Traceback" in found["stderr"]


def test_a_server_that_does_not_start_raises_with_the_reason(opened: Open) -> None:
    servers = opened({"bad": hostile("--exit=4")}).servers

    with pytest.raises(Unavailable, match=r"did not start\. It ended with status 4"):
        servers.start("bad")


def test_an_unknown_server_is_named_with_the_nearest(opened: Open) -> None:
    servers = opened({"github": hostile()}).servers

    with pytest.raises(UsageProblem, match=r"No server 'githbu'\. Did you mean 'github'\?"):
        servers.start("githbu")


def test_a_server_can_be_added_for_the_session(opened: Open, tmp_path: Path) -> None:
    box = opened({"srv": hostile()})
    box.ot.tools()
    definition = read_server("extra", hostile(), "added", folder=tmp_path, timeout_s=HANG_S)

    box.servers.add(definition)

    assert box.call("extra.echo", {"text": "x"}).data == "x"
    assert "extra.echo" in box.ot.tools(info="list")
    with pytest.raises(UsageProblem, match="already"):
        box.servers.add(definition)
    pid = box.servers.pid("extra")
    box.reload()
    assert box.servers.pid("extra") == pid
    assert box.call("extra.echo", {"text": "y"}).data == "y"
    with pytest.raises(UsageProblem, match="in the configuration"):
        box.servers.remove("srv")
    box.servers.remove("extra")
    assert "extra.echo" not in box.ot.tools(info="list")
    assert pid is not None
    assert wait_until_gone({pid}) == {}


def test_a_server_that_is_switched_off_is_left_out(opened: Open) -> None:
    box = opened({"srv": hostile(enabled=False)})

    assert not [name for name in box.ot.tools(info="list") if name.startswith("srv")]
    assert box.ot.health()["proxy"] == {
        "status": "ok",
        "server_count": 0,
        "servers": {},
        "states": {},
    }
    assert dict(box.servers) == {"srv": "disabled"}
    with pytest.raises(Unavailable, match="switched off"):
        box.servers.start("srv")


def test_a_servers_own_read_only_mark_counts_only_if_it_is_trusted(opened: Open) -> None:
    box = opened({"no": hostile("--read-only"), "yes": hostile("--read-only", trusted=True)})

    box.registry.list()
    marks = {name: box.registry.get(name).read_only for name in ("no.echo", "yes.echo", "yes.slow")}  # type: ignore[union-attr]

    assert marks == {"no.echo": False, "yes.echo": True, "yes.slow": False}


# Reload


@pytest.mark.slow
def test_reload_restarts_only_what_changed(opened: Open, tmp_path: Path) -> None:
    box = opened({"same": hostile(), "other": hostile(), "gone": hostile()})
    box.servers.check()
    before = {name: box.servers.pid(name) for name in box.servers}

    write_project(
        tmp_path,
        {"fresh": hostile(), "same": hostile(), "other": hostile("--many=2")},
        "stats: {}\n",
    )
    assert str(box.ot.reload()) == "OK: Configuration reloaded"

    assert set(box.servers) == {"fresh", "same", "other"}
    assert box.servers.pid("same") == before["same"]
    assert "other.more_1" in box.ot.tools(info="list")
    assert not [name for name in box.ot.tools(info="list") if name.startswith("gone.")]
    assert wait_until_gone({before["other"], before["gone"]}) == {}  # type: ignore[arg-type]
    box.servers.check()
    assert box.ot.health()["proxy"]["status"] == "ok"


def test_reload_and_calls_inside_a_running_event_loop(opened: Open, tmp_path: Path) -> None:
    box = opened({"srv": hostile()})

    async def cell() -> Any:
        assert box.call("srv.echo", {"text": "a"}).data == "a"
        write_project(tmp_path, {"srv": hostile(), "more": hostile()})
        box.reload()
        assert box.servers["srv"] == "connected"
        return (await box.acall("more.echo", {"text": "b"})).data

    assert asyncio.run(asyncio.wait_for(cell(), 30)) == "b"


def test_a_failed_reload_keeps_the_servers(opened: Open, tmp_path: Path) -> None:
    box = opened({"srv": hostile()})
    pid = box.call("srv.calls").unwrap()["pid"]
    (tmp_path / ".onetool" / "onetool.yaml").write_text("version: [\n", encoding="utf-8")

    assert str(box.ot.reload()).startswith("Error: ")

    assert box.call("srv.calls").unwrap()["pid"] == pid


# Names


def test_a_server_with_the_name_of_a_pack_is_a_problem_and_loses_nothing(opened: Open) -> None:
    box = opened({"time": hostile()})

    assert box.call("time.echo", {"text": "x"}).data == "x"
    assert "timestamp" in box.call("time.now").unwrap()
    (problem,) = box.ot.health()["problems"]
    assert "has the name of a builtin pack" in problem["message"]


def test_a_tool_that_is_there_already_keeps_its_name(opened: Open, tmp_path: Path) -> None:
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "srv.py").write_text(
        'pack = "srv"\n\ndef echo() -> str:\n    "Mine."\n    return "mine"\n', encoding="utf-8"
    )
    box = opened({"srv": hostile()})

    assert box.call("srv.echo").data == "mine"
    said = [p["message"] for p in box.ot.health()["problems"]]
    assert any("The name 'srv.echo' is taken by a file tool" in text for text in said)
    assert box.call("srv.calls").ok


def test_a_server_is_a_pack_anywhere(opened: Open) -> None:
    opened({"my-server": hostile()})
    from onetool_ipy.live import my_server

    assert my_server.echo(text="x") == my_server.echo("x") == "x"
    assert "echo" in dir(my_server)
    assert "What to say" in my_server.echo.__doc__


def test_two_toolboxes_have_servers_of_their_own(opened: Open, tmp_path: Path) -> None:
    one, two = opened({"srv": hostile()}), opened({"srv": hostile()})

    pids = {box.call("srv.calls").unwrap()["pid"] for box in (one, two)}
    assert len(pids) == 2
    one.close()
    one.close()
    assert two.call("srv.echo", {"text": "x"}).data == "x"
    with pytest.raises(UsageProblem, match="closed"):
        one.servers.start("srv")
