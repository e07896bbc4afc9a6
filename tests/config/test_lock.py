"""The lock file: the same bytes for the same project; drift in words; files of other versions and
damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.config.lock import VERSION, LockProblem, drifts, lock_of, read_lock, write_lock
from onetool_ipy.core.tool import ServerFacts, ToolSpec

EMPTY = {"version": VERSION, "servers": {}, "packs": {}, "bundles": {}, "tools": {}}


def tool(name: str, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    return ToolSpec(
        **{
            "name": name,
            "description": "d",
            "parameters": schema,
            "run": str,
            "origin": "file",
            **more,
        }
    )


def test_every_part_is_in_it_and_builtins_and_cells_are_not() -> None:
    specs = [
        tool("brave.search"),
        tool("shop.find", origin="bundle"),
        tool("git.log", origin="mcp", server_facts=ServerFacts(server="git")),
        tool("fs.read_file", origin="builtin"),
        tool("nb.mine", origin="cell"),
    ]
    lock = lock_of(specs, {"git": {"command": "git-server", "args": ["--token", "s3cret"]}}, _hide)
    assert (list(lock["packs"]), list(lock["bundles"]), list(lock["servers"])) == (
        ["brave"],
        ["shop"],
        ["git"],
    )
    assert sorted(lock["tools"]) == ["brave.search", "git.log", "shop.find"]
    assert "s3cret" not in json.dumps(lock)
    assert lock["tools"]["git.log"]["fingerprint"] == specs[2].fingerprint


def _hide(text: str) -> str:
    return text.replace("s3cret", "***")


def test_the_same_tools_give_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "onetool.lock"
    assert write_lock(path, lock_of([tool("a.x"), tool("a.y")], {}, str))
    first = path.read_bytes()
    assert not write_lock(path, lock_of([tool("a.y"), tool("a.x")], {}, str))
    assert path.read_bytes() == first
    assert drifts(read_lock(path), lock_of([tool("a.x"), tool("a.y")], {}, str)) == []


def test_drift_is_said_in_words() -> None:
    before = lock_of([tool("a.x"), tool("a.y"), tool("b.z")], {"s": {"command": "old"}}, str)
    after = lock_of(
        [tool("a.x", description="other"), tool("a.y"), tool("c.n")],
        {"s": {"command": "new"}, "t": {"url": "u"}},
        str,
    )
    assert [drift.text for drift in drifts(before, after)] == [
        "The server 's' changed:\n  - command: old\n  + command: new",
        "The server 't' is new.",
        "The pack 'b' is gone.",
        "The pack 'c' is new.",
        "The tool 'a.x' changed:\n  its description changed:\n    - d\n    + other",
        "The tool 'b.z' is gone.",
        "The tool 'c.n' is new.",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps({**EMPTY, "version": VERSION + 1, "more": 1}), "later version"),
        (json.dumps({**EMPTY, "version": "1"}), "damaged"),
        (json.dumps({**EMPTY, "tools": []}), "damaged"),
        ("[]", "damaged"),
        ("{", "not JSON"),
        ("[" * 100_000, "damaged: it is nested deeper than 200 levels"),
        ('{"version": NaN}', "not JSON"),
        ('{"version": 1e999}', "damaged: it has a number that is too large"),
        (r'{"version": "\ud800"}', "damaged: it has half of a character"),
        (None, "no lock file"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "onetool.lock"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(LockProblem, match=message):
        read_lock(path)


def test_a_folder_in_its_place_says_why(tmp_path: Path) -> None:
    (tmp_path / "onetool.lock").mkdir()
    with pytest.raises(LockProblem, match="cannot be read"):
        read_lock(tmp_path / "onetool.lock")


def test_odd_entries_drift_and_do_not_fail() -> None:
    before = {**EMPTY, "tools": {"a.x": 5}, "servers": {"s": None}}
    after = lock_of([tool("a.x")], {"s": {"command": "c"}}, str)
    assert [(drift.kind, drift.state) for drift in drifts(before, after)] == [
        ("server", "changed"),
        ("pack", "new"),
        ("tool", "changed"),
    ]


TOOLS = st.dictionaries(
    st.from_regex(r"[ab]\.[xyz]", fullmatch=True),
    st.tuples(st.text(min_size=1, max_size=9), st.sampled_from("pqr")),
)


@pytest.mark.slow
@given(before=TOOLS, after=TOOLS)
def test_drift_is_what_differs_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """The naive twin: the names whose description or parameter is another one, or that are on one
    side alone."""

    def made(tools: dict[str, tuple[str, str]]) -> Any:
        specs = [
            tool(name, description=text, parameters={"type": "object", "properties": {key: {}}})
            for name, (text, key) in tools.items()
        ]
        return lock_of(specs, {}, str)

    path = tmp_path_factory.mktemp("lock") / "onetool.lock"
    write_lock(path, made(before))

    locked = read_lock(path)
    assert locked == made(before), "what is read is what was written"
    differ = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert {drift.name for drift in drifts(locked, made(after)) if "." in drift.name} == differ
