"""`onetool-ipy stubs`: what editors and type checkers see of a project's packs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.sdk.stubs import stubs
from tests.harness.project import Project

BRAVE = '''
from typing import Literal

def search(query: str, count: int = 5, kind: Literal["web", "news"] = "web", lang: str | None = None) -> list:
    """Search the web.

    Args:
        query: What to look for.
        count: How many.

    Example:
        brave.search(query="x")
    """

def ping():
    """Say "hello" """
'''


def spec(name: str, description: str = "Do it.", **properties: dict) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        parameters={"type": "object", "properties": properties, "required": list(properties)[:1]},
        run=lambda args: args,
    )


def test_each_pack_has_a_file_and_one_offers_them_all(project: Project) -> None:
    project.pack("brave", BRAVE)

    files = stubs(project.open().registry.list())

    assert {
        "onetool_ipy/live/__init__.pyi",
        "onetool_ipy/live/_brave.pyi",
        "onetool_ipy/live/_time.pyi",
    } <= set(files)
    assert (
        "from onetool_ipy.live._brave import brave as brave"
        in files["onetool_ipy/live/__init__.pyi"]
    )
    assert "query: str, count: int = 5" in files["onetool_ipy/live/_brave.pyi"]
    assert "query: What to look for." in files["onetool_ipy/live/_brave.pyi"]


@pytest.mark.parametrize(
    "odd",
    [
        spec("my-server.get-sum", a={"type": "integer"}, b={}),
        spec("s.a/b.c", **{"class": {}, "1st": {}, "self": {}}),
        spec("s.x", 'Ends in a "quote"'),
        spec("s.x", 'Holds """ and \\ and \\'),
        spec("s.x", "One\n\ntwo\x00\x0c\ud800 lines \\"),
        spec(
            "s.x", a={"type": "string", "default": '"""'}, b={"type": "string", "default": "'...'"}
        ),
        spec(
            "s.x", a={"anyOf": [{"type": "string"}, {"type": "null"}]}, b={"enum": ["a", 1, None]}
        ),
        spec("class.def"),
    ],
)
def test_whatever_a_tool_is_called_and_says_the_stub_is_python(odd: ToolSpec) -> None:
    files = stubs([odd, spec("s.y")])

    for text in files.values():
        text.encode("utf-8")
        ast.parse(text)


def test_names_that_python_spells_the_same_are_told_apart() -> None:
    text = stubs([spec("s.get-sum"), spec("s.get_sum")])["onetool_ipy/live/_s.pyi"]

    members = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == "_Pack_s"
    ]
    assert [ast.unparse(line.target) for line in members[0].body] == ["get_sum", "get_sum_2"]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_type_checker_knows_the_arguments(project: Project, tmp_path: Path) -> None:
    project.pack("brave", BRAVE)
    for path, text in stubs(project.open().registry.list()).items():
        (tmp_path / "typings" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "typings" / path).write_text(text, encoding="utf-8")
    (tmp_path / "typings" / "onetool_ipy" / "__init__.pyi").touch()
    program = tmp_path / "program.py"
    program.write_text(
        "from onetool_ipy.live import brave\n"
        'brave.search(query="x", count=3, kind="news")\n'
        'brave.search("x", lang=None)\n'
        "async def ask() -> None:\n"
        '    await brave.search.aio(query="x")\n'
        "brave.search(query=1)\n"
        'brave.search(query="x", kind="images")\n'
        "brave.search()\n"
        "brave.nothing()\n",
        encoding="utf-8",
    )

    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        str(tmp_path / "cache"),
        str(program),
    ]
    env = {"MYPYPATH": str(tmp_path / "typings"), "PATH": ""}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )

    found = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert found == ["6", "7", "8", "9"], done.stdout + done.stderr
