"""`lock`, `verify` and `diff` in a real project: a clean run says nothing, a changed tool is named
and fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onetool_ipy.faces.cli import main
from tests.conftest import FreshKernel
from tests.harness.patience import HANG_S
from tests.harness.project import Project
from tests.harness.surroundings import ROOT

__all__ = []  # a fixture

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


@pytest.mark.slow
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
    shop.write("tools/till.py", 'def sell(name: str) -> str:\n    """Sell."""\n    return name\n')
    capsys.readouterr()
    assert _run("verify") == 0
    assert "The tool 'till.sell' is new." in capsys.readouterr().out

    shop.write(
        "tools/shop.py",
        PACK.replace("limit: int = 10", "limit: int").replace("Find goods", "Find things"),
    )
    assert _run("verify", "--json") == 1
    drift = next(
        each for each in json.loads(capsys.readouterr().out)["drift"] if each["name"] == "shop.find"
    )
    assert drift["state"] == "changed"
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


HELPED = '''
import functools, os, sys
sys.path.insert(0, os.path.dirname(__file__))
try:
    from _lockwire import post
finally:
    sys.path.pop(0)
SERVER = "https://mail.example.com"

def logged(fn):
    return functools.wraps(fn)(lambda *args, **kwargs: fn(*args, **kwargs))

def _send(text):
    return post(SERVER, text)

@logged
def remind(text: str) -> str:
    """Remind somebody."""
    return _send(text)
'''


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("mail.py", "post(SERVER, text)", "post(SERVER, text + secret)"),
        ("mail.py", "mail.example.com", "evil.example.com"),
        ("mail.py", "lambda *args", "lambda *argz"),
        ("mail.py", "def logged(fn):", "def logged(fn): "),
        ("_lockwire.py", "return server", "return 'evil'"),
    ],
    ids=["a helper", "a constant", "a decorator", "one blank", "an imported module"],
)
def test_any_changed_byte_of_the_code_of_a_pack_is_drift(
    shop: Project, capsys: pytest.CaptureFixture[str], file: str, before: str, after: str
) -> None:
    texts = {"mail.py": HELPED, "_lockwire.py": "def post(server, text):\n    return server\n"}
    for name, text in texts.items():
        shop.write(f"tools/{name}", text)
    assert _run("lock") == 0
    assert _run("verify") == 0
    shop.write(f"tools/{file}", texts[file].replace(before, after))
    capsys.readouterr()
    assert _run("verify") == 1
    out = capsys.readouterr().out
    assert "The tool 'mail.remind' changed:\n  its code or its definition changed" in out
    assert "shop.find" not in out
    shop.write(f"tools/{file}", texts[file])
    assert _run("verify") == 0
    sys.modules.pop("_lockwire")


@pytest.mark.slow
def test_another_folder_gives_the_same_bytes(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A colleague's clone, and CI, have the project elsewhere, and other values of variables."""
    (shop.root / "goods.py").write_text(SERVER.replace("{extra}", ""), encoding="utf-8")
    env = {"PYTHONPATH": str(ROOT), "MODE": "${LOCK_MODE}"}
    server = {"goods": {"command": sys.executable, "args": ["goods.py"], "env": env}}
    shop.write("onetool.yaml", json.dumps({"version": 1, "servers": server}))
    monkeypatch.setenv("LOCK_MODE", "mine-0123")
    assert _run("lock") == 0

    other = shop.root.parent / "clone"
    shutil.copytree(shop.root, other, ignore=shutil.ignore_patterns("state"))
    monkeypatch.setenv("ONETOOL_TRUST", str(other))
    monkeypatch.setenv("LOCK_MODE", "theirs-4567")
    monkeypatch.chdir(other)
    assert _run("verify") == 0
    assert _run("lock") == 0
    assert (other / ".onetool" / "onetool.lock").read_bytes() == (
        shop.home / "onetool.lock"
    ).read_bytes()


@pytest.mark.slow
def test_a_notebook_locks_what_the_files_of_the_project_name(
    fresh_kernel: FreshKernel, tmp_path: Path
) -> None:
    """Servers of this session, cell tools and adopted ones are in no file; the command line gives
    the same bytes."""
    work = tmp_path / "work"
    (work / ".onetool" / "tools").mkdir(parents=True)
    (work / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (work / ".onetool" / "tools" / "shop.py").write_text(PACK, encoding="utf-8")
    (work / "goods.py").write_text(SERVER.replace("{extra}", ""), encoding="utf-8")
    env = {"ONETOOL_TRUST": str(work), "ONETOOL_STATE": str(tmp_path / "state")}
    kernel = fresh_kernel(cwd=work, env=env)
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(f"%tool server add goods {sys.executable} {work / 'goods.py'}")
    assert kernel.evaluate("goods.stock(name='x')") == "1"
    kernel.execute(
        'from onetool_ipy import tool\n@tool\ndef mine(text: str) -> str:\n    """Echo."""\n   '
        " return text"
    )
    kernel.execute("import textwrap\not.adopt(textwrap)")
    kernel.execute("%tool lock")
    path = work / ".onetool" / "onetool.lock"
    lock = path.read_bytes()
    assert list(json.loads(lock)["tools"]) == ["shop.find"]
    assert "not in onetool.lock" in kernel.execute("%tool diff goods.stock").text
    assert "as locked" in kernel.execute("%tool verify").text

    path.unlink()
    command = [sys.executable, "-m", "onetool_ipy", "lock"]
    subprocess.run(
        command,
        cwd=work,
        env={**os.environ, **env},
        check=True,
        timeout=HANG_S,
        capture_output=True,
    )
    assert path.read_bytes() == lock


@pytest.mark.slow
def test_a_server_is_asked_anew(shop: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """What is cached of a server's tools does not hide that they changed; a server that does not
    start fails."""
    program = shop.root / "goods.py"
    program.write_text(SERVER.replace("{extra}", ""), encoding="utf-8")
    server = {
        "goods": {"command": sys.executable, "args": ["goods.py"], "env": {"PYTHONPATH": str(ROOT)}}
    }
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


def test_what_is_said_of_a_damaged_lock_file_can_be_done(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a merge with conflicts in it."""
    assert main(["lock"]) == 0
    file = shop.home / "onetool.lock"
    file.write_text("<<<<<<< HEAD\n", encoding="utf-8")
    capsys.readouterr()

    assert main(["lock"]) == main(["verify"]) == 1
    assert capsys.readouterr().err.count("Restore it, or delete it and write a new one") == 2
    file.unlink()
    assert main(["lock"]) == main(["verify"]) == 0


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
