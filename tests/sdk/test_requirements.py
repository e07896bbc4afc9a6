"""What tools need besides Python: declared, found without running anything, checked, said before a
tool runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, tool
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import InvalidTool, Unavailable
from onetool_ipy.config.paths import home_at
from onetool_ipy.sdk import check_deps, deps_of, requires_cli, requires_lib
from onetool_ipy.sdk.requirements import Dep, require_deps
from tests.harness.patience import until
from tests.harness.project import Project

RIPGREP = """
from onetool_ipy.sdk import requires_cli, requires_lib

@requires_cli("rg", version_flag="--version", install="apt install ripgrep")
def search(pattern: str) -> str:
    "Search files."
    return pattern

@requires_lib("pandas")
@requires_cli("nonexistent-command")
def table() -> str:
    "Make a table."
    return "table"

def plain() -> str:
    "Need nothing."
    return "plain"
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH for commands of the test's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def command(folder: Path, name: str, script: str, on_windows: str = "") -> None:
    """Make a command of a script for `sh`, which `cmd` may understand, too."""
    if os.name == "nt":
        text = f"@echo off\r\n{on_windows or script}\r\n"
        (folder / f"{name}.cmd").write_text(text, encoding="utf-8", newline="")
        return
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)


@pytest.mark.spec("000/CLI Dependency Declaration/Declare single CLI dependency")
def test_a_command_is_declared_on_the_function_and_found_by_check_deps(
    project: Project, commands: Path
) -> None:
    command(commands, "rg", "echo ripgrep 14.1.0")

    @requires_cli("rg")
    def search() -> str:
        return "found"

    project.pack("ripgrep", RIPGREP)
    project.open()

    assert search() == "found"
    assert deps_of(search) == (Dep("cli", "rg"),)
    assert [
        (row["tool"], row["kind"], row["name"], row["status"])
        for row in check_deps("ripgrep.search")
    ] == [("ripgrep.search", "cli", "rg", "ok")]


@pytest.mark.spec("000/CLI Dependency Declaration/Declare CLI with version check")
def test_a_commands_version_is_asked_for_with_its_flag(project: Project, commands: Path) -> None:
    command(
        commands,
        "ffmpeg",
        'test "$1" = --version && echo "ffmpeg version 6.1.1-3ubuntu5 Copyright (c) 2000-2023"',
        'if "%1"=="--version" echo ffmpeg version 6.1.1-3ubuntu5 Copyright (c) 2000-2023',
    )
    project.pack(
        "media",
        """
        from onetool_ipy.sdk import requires_cli
        @requires_cli("ffmpeg", version_flag="--version")
        def cut():
            "Cut."
        """,
    )
    project.open()

    (row,) = check_deps()

    assert (row["name"], row["status"], row["version"]) == ("ffmpeg", "ok", "6.1.1-3ubuntu5")


@pytest.mark.spec("000/Library Dependency Declaration/Declare library dependency")
def test_a_library_is_declared_on_the_function_and_found_by_check_deps(project: Project) -> None:
    import pandas

    @requires_lib("pandas")
    def table() -> str:
        return "table"

    project.pack("ripgrep", RIPGREP)
    project.open()

    assert deps_of(table) == (Dep("lib", "pandas", "", "pip install pandas"),)
    assert {
        "tool": "ripgrep.table",
        "kind": "lib",
        "name": "pandas",
        "status": "ok",
        "version": pandas.__version__,
        "install": "pip install pandas",
    } in check_deps()


@pytest.mark.spec("000/Dependency Checking/Check all tools")
def test_all_tools_are_reported(project: Project, commands: Path) -> None:
    command(commands, "rg", "echo ripgrep 14.1.0")
    project.pack("ripgrep", RIPGREP)
    project.pack(
        "other", 'requires = {"lib": ["httpx"]}\ndef one():\n    "One."\ndef two():\n    "Two."\n'
    )
    project.open()

    rows = check_deps()

    assert [(row["tool"], row["name"], row["status"]) for row in rows] == [
        ("other.one", "httpx", "ok"),
        ("other.two", "httpx", "ok"),
        ("ripgrep.search", "rg", "ok"),
        ("ripgrep.table", "pandas", "ok"),
        ("ripgrep.table", "nonexistent-command", "missing"),
    ]
    assert list(rows.df.columns) == ["tool", "kind", "name", "status", "version", "install"]
    assert len(rows.df) == 5


@pytest.mark.spec("000/Dependency Checking/Check specific tool")
def test_one_tool_or_one_pack_is_reported(project: Project) -> None:
    project.pack("ripgrep", RIPGREP)
    project.pack("other", 'requires = {"lib": ["httpx"]}\ndef one():\n    "One."\n')
    project.open()

    assert {row["tool"] for row in check_deps(tool="ripgrep")} == {
        "ripgrep.search",
        "ripgrep.table",
    }
    assert {row["tool"] for row in check_deps(tool="ripgrep.table")} == {"ripgrep.table"}
    assert check_deps(tool="ripgrep.plain") == []


@pytest.mark.spec("000/Dependency Checking/CLI not installed")
def test_a_command_that_is_not_there_is_missing(project: Project) -> None:
    project.pack(
        "lost",
        'from onetool_ipy.sdk import requires_cli\n@requires_cli("nonexistent")\ndef one():\n   '
        ' "One."\n',
    )
    project.open()

    (row,) = check_deps()

    assert row == {
        "tool": "lost.one",
        "kind": "cli",
        "name": "nonexistent",
        "status": "missing",
        "version": None,
        "install": "",
    }


@pytest.mark.parametrize(
    ("name", "words"), [("nope", "Pack not found: nope"), ("a.nope", "Tool not found: a.nope")]
)
def test_a_tool_or_pack_that_is_not_there_is_a_value_error(
    box: Toolbox, name: str, words: str
) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        check_deps(tool=name)


def test_without_any_needs_the_report_is_empty_and_has_its_columns(box: Toolbox) -> None:
    rows = check_deps()

    assert rows == []
    assert list(rows.df.columns) == ["tool", "kind", "name", "status", "version", "install"]


def test_nothing_of_a_pack_is_run_to_find_out(project: Project, commands: Path) -> None:
    command(commands, "rg", "echo ripgrep 14.1.0")
    project.pack(
        "loud",
        'requires = {"cli": ["rg"]}\nraise RuntimeError("it was run")\ndef one():\n    "One."\n',
    )
    project.open()

    assert [row["status"] for row in check_deps()] == ["ok"]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_command_is_asked_for_its_version_only_where_the_project_is_trusted(
    project: Project, commands: Path, tmp_path: Path, is_trusted: bool
) -> None:
    asked = tmp_path / "asked"
    command(
        commands,
        "rg",
        f"touch {asked}; echo ripgrep 14.1.0",
        f'type nul > "{asked}"\r\necho ripgrep 14.1.0',
    )
    project.pack("ripgrep", RIPGREP)
    places = {**home_at(tmp_path.parent), "ONETOOL_STATE": str(tmp_path / "state")}
    env = {**os.environ, **places, "ONETOOL_TRUST": ""}
    with open_leniently(env=env, cwd=project.root) as box:
        if is_trusted:
            box.gate.grant()
        assert box.ot.health()["version"]
        assert not asked.exists(), "health asks no command"
        (row,) = box.ot.deps(tool="ripgrep.search")

    assert row["status"] == "ok"
    assert row["version"] == ("14.1.0" if is_trusted else None)
    assert asked.exists() is is_trusted


def test_a_pack_declares_in_several_forms(project: Project, commands: Path) -> None:
    for name in ("one-x", "two-x"):
        command(commands, name, "echo 1.2.3")
    project.pack(
        "media",
        """
        from onetool_ipy import sdk
        requires = {
            "cli": ["one-x", ("ffmpeg-x", "apt install ffmpeg"), {"name": "two-x", "version_flag": "--version"}],
            "lib": [{"name": "nope_lib", "install": "conda install nope"}],
        }
        @sdk.requires_cli("one-x", install="its own words win")
        async def cut():
            "Cut."
        """,
    )
    project.open()

    assert [(row["name"], row["status"], row["install"]) for row in check_deps()] == [
        ("one-x", "ok", "its own words win"),
        ("ffmpeg-x", "missing", "apt install ffmpeg"),
        ("two-x", "ok", ""),
        ("nope_lib", "missing", "conda install nope"),
    ]


@pytest.mark.posix("scripts for sh, and groups of processes")
@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "while :; do :; done",
        "trap '' TERM; sleep 600 & echo $! >> $PIDS; wait",
        "yes 1.2.3.4.5.6.7.8.9-endless | tr -d '\\n'",
        "cat",
    ],
    ids=["spins", "hangs", "floods", "reads"],
)
def test_a_version_is_waited_for_only_so_long(
    project: Project, commands: Path, script: str
) -> None:
    """Three of them at once, so all have begun before the first two could be given up; none is left
    running."""
    for name in ("odd1", "odd2", "odd3"):
        command(
            commands,
            name,
            f"PIDS={commands}/pids\necho $$ >> $PIDS\ndate +%s.%N >> $PIDS.began\n{script}",
        )
    entries = ", ".join(f'{{"name": "odd{i}", "version_flag": "-V"}}' for i in (1, 2, 3))
    project.pack("odd", f'requires = {{"cli": [{entries}]}}\ndef one():\n    "One."\n')
    project.open()

    rows = check_deps()

    assert [row["status"] for row in rows] == ["ok"] * 3
    began = sorted(map(float, (commands / "pids.began").read_text(encoding="utf-8").split()))
    assert began[-1] - began[0] < 4
    pids = (commands / "pids").read_text(encoding="utf-8").split()
    assert len(pids) == (6 if "sleep" in script else 3)
    assert until(lambda: not any(map(is_running, pids))), "a kill is on its way"


def is_running(pid: str) -> bool:
    """Whether a process is there, and not just waiting for its parent to look at it."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            != "Z"
        )
    except OSError:
        return False


@pytest.mark.windows("a script for cmd")
def test_a_version_is_waited_for_only_so_long_on_windows(project: Project, commands: Path) -> None:
    command(commands, "odd", ":again\r\ngoto again")
    project.pack(
        "odd",
        'requires = {"cli": [{"name": "odd", "version_flag": "-V"}]}\ndef one():\n    "One."\n',
    )
    project.open()

    assert [(row["status"], row["version"]) for row in check_deps()] == [("ok", None)]


def test_a_command_that_cannot_be_started_is_there_without_a_version(
    project: Project, commands: Path
) -> None:
    broken = commands / ("broken.exe" if os.name == "nt" else "broken")
    broken.write_bytes((b"MZ" if os.name == "nt" else b"\x7fELF") + b" no program")
    broken.chmod(0o755)
    project.pack(
        "odd",
        'requires = {"cli": [{"name": "broken", "version_flag": "-V"}]}\ndef one():\n    "One."\n',
    )
    project.open()

    assert [(row["status"], row["version"]) for row in check_deps()] == [("ok", None)]


@pytest.mark.parametrize("name", ["yaml", "PyYAML", "onetool-ipy"])
def test_a_library_is_known_by_its_import_name_and_by_its_distributions(
    project: Project, name: str
) -> None:
    project.pack("odd", f'requires = {{"lib": ["{name}"]}}\ndef one():\n    "One."\n')
    project.open()

    (row,) = check_deps()

    assert row["status"] == "ok"
    assert row["version"]


@pytest.mark.parametrize(
    "value", [5, [], {"gem": ["x"]}, {"cli": [5]}, {"cli": [""]}, {"cli": [{"install": "x"}]}]
)
def test_a_declaration_that_says_it_wrong_is_a_problem_and_stops_nothing(
    project: Project, value: object
) -> None:
    project.pack("odd", f'requires = {value!r}\ndef one():\n    "One."\n    return 1\n')
    box = project.open()

    assert check_deps() == []
    assert any("requires" in p.message or "requirement" in p.message for p in box.problems())
    assert box.call("odd.one").data == 1


@pytest.mark.parametrize("name", ["", " ", None, 5])
def test_a_requirement_without_a_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidTool, match="needs a name"):
        requires_cli(name)  # type: ignore[arg-type]


def test_a_tool_whose_need_is_missing_says_so_before_it_runs(
    project: Project, commands: Path
) -> None:
    project.pack(
        "ripgrep",
        """
        from onetool_ipy.sdk import requires_cli, requires_lib
        @requires_cli("rg-x", install="apt install ripgrep")
        @requires_lib("nope_lib")
        def search():
            "Search."
            raise RuntimeError("it ran")
        """,
    )
    spec = project.open().registry.require("ripgrep.search")
    require = require_deps()

    with pytest.raises(
        Unavailable, match="needs the command 'rg-x' and the library 'nope_lib', which are not"
    ) as caught:
        require(spec)
    assert caught.value.hint == "Install with: apt install ripgrep; pip install nope_lib"
    assert caught.value.reason == "unavailable"


def test_once_it_is_installed_the_tool_runs(project: Project, commands: Path) -> None:
    project.pack("ripgrep", 'requires = {"cli": ["rg-x"]}\ndef search():\n    "Search."\n')
    spec = project.open().registry.get("ripgrep.search")
    assert spec is not None
    require = require_deps()
    with pytest.raises(Unavailable, match="'rg-x', which is not installed"):
        require(spec)

    command(commands, "rg-x", "true")

    require(spec)
    require(spec)


def test_a_tool_that_needs_nothing_is_not_looked_at(project: Project) -> None:
    project.pack("plain", 'def one():\n    "One."\n')
    box = project.open()
    require = require_deps()

    for name in ("plain.one", "time.now"):
        spec = box.registry.get(name)
        assert spec is not None
        require(spec)


def test_decorators_leave_a_cells_tool_as_it_is_in_either_order(
    box: Toolbox, commands: Path
) -> None:
    command(commands, "rg", "echo ripgrep 14.1.0")

    @tool
    @requires_cli("rg")
    def above() -> str:
        return "above"

    @requires_cli("rg")
    @tool
    def below() -> str:
        return "below"

    assert deps_of(above) == deps_of(below) == (Dep("cli", "rg"),)
    assert box.call("nb.above").unwrap() + box.call("nb.below").unwrap() == "abovebelow"
