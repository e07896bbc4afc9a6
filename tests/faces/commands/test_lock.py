"""`lock`, `verify` and `diff` in a real project: a clean run says nothing, a changed tool is named and fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from onetool_ipy.faces.cli import main
from tests.core.support import Project, project
from tests.harness.surroundings import ROOT

__all__ = ["project"]  # a fixture

PACK = '''
pack = "shop"

def find(query: str, limit: int = 10) -> list:
    """Find goods."""
    return [query] * limit
'''
SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("goods")

@server.tool()
def stock(name: str{extra}) -> int:
    """Count what is there."""
    return 1

server.run()
'''


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A trusted project with a pack file, where the command line runs."""
    project.write("onetool.yaml", "version: 1\n")
    project.write("tools/shop.py", PACK)
    monkeypatch.setenv("ONETOOL_STATE", project.env["ONETOOL_STATE"])
    monkeypatch.setenv("ONETOOL_TRUST", str(project.root))
    monkeypatch.chdir(project.root)
    return project


def _run(*words: str) -> int:
    try:
        return main(list(words)) or 0
    except SystemExit as exc:
        return int(exc.code or 0)


def test_a_clean_project_verifies_and_the_lock_is_the_same_twice(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("verify") == 1
    assert "onetool-ipy lock" in capsys.readouterr().err
    assert _run("lock") == 0
    assert "with 1 tool" in capsys.readouterr().out
    path = shop.home / "onetool.lock"
    first = path.read_bytes()
    assert str(shop.root) not in first.decode()
    for _ in range(3):
        assert _run("lock") == 0
        assert path.read_bytes() == first
        assert _run("verify") == 0
    assert "as locked." in capsys.readouterr().out


def test_a_changed_tool_is_named_and_fails_and_a_new_one_does_not(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("lock")
    shop.write("tools/shop.py", PACK + '\ndef sell(name: str) -> str:\n    """Sell."""\n    return name\n')
    capsys.readouterr()
    assert _run("verify") == 0
    assert "The tool 'shop.sell' is new." in capsys.readouterr().out

    shop.write("tools/shop.py", PACK.replace("limit: int = 10", "limit: int").replace("Find goods", "Find things"))
    assert _run("verify", "--json") == 1
    (drift,) = json.loads(capsys.readouterr().out)["drift"]
    assert (drift["name"], drift["state"]) == ("shop.find", "changed")
    assert "the argument 'limit' became required" in drift["lines"]
    assert "  + Find things." in drift["lines"]
    assert _run("diff", "shop.find") == 0
    assert "the argument 'limit' became required" in capsys.readouterr().out

    shop.write("tools/shop.py", 'pack = "shop"\n')
    assert _run("verify") == 1
    assert "The tool 'shop.find' is gone." in capsys.readouterr().out
    assert _run("diff", "shop.find") == 0
    assert "is gone" in capsys.readouterr().out
    assert _run("diff", "shop.fimd") == 1


def test_a_server_is_asked_anew(shop: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """What is cached of a server's tools does not hide that they changed; a server that does not start fails."""
    program = shop.root / "goods.py"
    program.write_text(SERVER.replace("{extra}", ""), encoding="utf-8")
    server = {"goods": {"command": sys.executable, "args": ["goods.py"], "env": {"PYTHONPATH": str(ROOT)}}}
    shop.write("onetool.yaml", json.dumps({"version": 1, "servers": server}))
    assert _run("lock") == 0
    assert _run("verify") == 0

    program.write_text(SERVER.replace("{extra}", ", shelf: int"), encoding="utf-8")
    capsys.readouterr()
    assert _run("verify") == 1
    assert "the argument 'shelf' is new, and required" in capsys.readouterr().out

    program.write_text("raise SystemExit(3)", encoding="utf-8")
    assert _run("verify") == 1
    out = capsys.readouterr().out
    assert "could not be asked" in out
    assert "is gone" not in out
    assert _run("lock") == 1


def test_a_folder_without_a_project_has_nothing_to_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _run("lock") == 1
    assert "onetool-ipy init" in capsys.readouterr().err


@pytest.mark.soak
def test_200_clean_runs_give_no_false_drift(shop: Project) -> None:
    _run("lock")
    assert [_run("verify") for _ in range(200)] == [0] * 200
