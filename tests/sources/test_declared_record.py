"""The record of checked definitions: a second start with the same files checks none of them again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.sources.declared import FILE, DefinitionChecks
from tests.core.support import Project
from tests.sources.test_declared import definition

BAD_SCHEMA = {"type": "object", "properties": {"city": {"type": "nonsense"}}}
DEFINITIONS: list[Any] = [
    definition("one"),
    definition("no_words", description=None),
    definition("geo.two", parameters={**BAD_SCHEMA, "properties": {"city": {"type": "integer"}}}),
    definition("bad_schema", parameters=BAD_SCHEMA),
    definition("typo", descripton="x"),
    definition("one"),
    definition("web", implementation={"type": "http"}),
    definition("lost", implementation={"type": "builtin", "handler": "no.such"}),
    definition("echo", parameters={"type": "object"}, implementation={"type": "builtin", "handler": "tools.echo"}),
    "no mapping",
]
NAMES = ["config.one", "geo.two", "config.typo", "config.echo"]


def _open(project: Project, *definitions: Any) -> Toolbox:
    return project.open("tools: " + json.dumps(list(definitions or DEFINITIONS)))


def _state(box: Toolbox) -> tuple[list[str], list[str]]:
    listed = [spec.name for spec in box.registry.list() if spec.origin == "config"]
    return listed, [str(problem) for problem in box.problems()]


def _file(box: Toolbox) -> Path:
    return box.config.paths.state / "cache" / FILE


def test_a_second_start_has_the_same_tools_and_says_the_same_problems(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """Every kind of wrong definition is a problem and an error in the log, at each start."""
    cold = _open(project)
    first = _state(cold)
    assert _file(cold).is_file()
    said = [record.getMessage() for record in caplog.records]
    caplog.clear()

    warm = _open(project)

    assert _state(warm) == first
    assert [record.getMessage() for record in caplog.records] == said
    assert first[0] == NAMES
    for word in ("no_words", "bad_schema", "descripton", "taken by a config tool", "not yet supported", "no.such"):
        assert any(word in text for text in first[1]), word


def test_the_tools_of_a_second_start_work_as_those_of_the_first(project: Project) -> None:
    _open(project).registry.list()

    box = _open(project)

    assert box.call("one", {"city": "x"}).data == {"temperature": 21}
    assert box.call("one", {}).error.code == "invalid_args"
    assert box.call("geo.two", {"city": "x"}).error.code == "invalid_args"
    assert box.call("echo", {"message": "hi"}).ok
    cold, warm = (_open(project).registry.require("geo.two") for _ in range(2))
    assert (cold.signature, cold.description, cold.tags, cold.where, cold.read_only) == (
        warm.signature,
        warm.description,
        warm.tags,
        warm.where,
        warm.read_only,
    )


def test_a_second_start_compiles_no_schema(project: Project) -> None:
    """In a process of its own, which counts what is compiled besides the schema of the settings."""
    box = _open(project, definition("one"), definition("two"))
    box.registry.list()
    code = (
        "import os, sys, jsonschema_rs; from onetool_ipy import open_toolbox\n"
        "compiled, compile_schema = [], jsonschema_rs.validator_for\n"
        "jsonschema_rs.validator_for = lambda s, **k: compiled.append(s.get('title')) or compile_schema(s, **k)\n"
        "box = open_toolbox(sys.argv[1], env=dict(os.environ))\n"
        "names = [spec.name for spec in box.registry.list() if spec.origin == 'config']\n"
        "seen = lambda: None in compiled\n"
        "print(len(names), seen(), box.call('two', {'city': 'x'}).ok, seen())"
    )

    command = [sys.executable, "-c", code, str(project.home / "onetool.yaml")]
    out = subprocess.run(command, env=project.env, capture_output=True, text=True, check=False)

    assert out.stdout.split() == ["2", "False", "True", "True"], out.stderr


def test_a_change_of_the_configuration_is_checked(project: Project) -> None:
    _open(project, definition("one"), definition("two")).registry.list()

    box = _open(project, definition("one"), definition("two", description=None))

    assert _state(box)[0] == ["config.one"]
    assert any("config.two" in text for text in _state(box)[1])


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"a": 1}',
        b'["another fingerprint", 9, []]',
        b"KEY, 10, []]",
        b"KEY, 9, {}]",
        b'KEY, 9, ["0"]]',
        b"KEY, 9, [true]]",
        b"KEY, 9]",
        b"KEY, 9, [" + b"1, " * 500_000 + b"1]]",
    ],
    ids=lambda damage: repr(damage[:20]),
)
def test_what_is_damaged_or_of_others_is_ignored_and_written_anew(project: Project, damage: bytes) -> None:
    box = _open(project)
    first, file = _state(box), _file(box)
    good = file.read_bytes()
    file.write_bytes(damage.replace(b"KEY", b'["' + box.config.fingerprint.encode() + b'"'))

    assert _state(_open(project)) == first
    assert file.read_bytes() == good


def test_a_wrong_record_affects_the_wrong_tools_alone(project: Project) -> None:
    """As one of a project that ships its own: the tools are off and say why, and the others work."""
    box = _open(project)
    box.registry.list()
    file, count = _file(box), len(DEFINITIONS) - 1
    file.write_text(json.dumps([box.config.fingerprint, count, []]), encoding="utf-8")

    box = _open(project)

    assert {spec.name for spec in box.registry.list()} >= {*NAMES, "config.bad_schema"}
    assert all(spec.signature for spec in box.registry.list())
    assert "description" in box.call("no_words", {}).error.message
    assert "Not a JSON Schema" in box.call("bad_schema", {"city": "x"}).error.message
    assert box.call("one", {"city": "x"}).ok


def test_where_it_cannot_be_written_all_are_checked_each_time(project: Project) -> None:
    box = _open(project)
    first, file = _state(box), _file(box)
    file.unlink()
    file.mkdir()

    assert _state(_open(project)) == first
    assert [path.name for path in file.parent.iterdir() if path.name.endswith(".tmp")] == []


def test_it_is_for_the_user_alone_and_tells_configurations_apart(tmp_path: Path) -> None:
    path = tmp_path / "cache" / FILE
    DefinitionChecks(path, "a").write([2, 5], 7)

    assert DefinitionChecks(path, "a").read(7) == {2, 5}
    assert DefinitionChecks(path, "b").read(7) is None
    assert DefinitionChecks(path, "a").read(8) is None
    assert path.stat().st_mode & 0o777 == 0o600
