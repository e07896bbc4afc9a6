"""Files in the state folder that we never wrote: whatever is in them, the toolbox opens and
works."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.base.files import is_young, stamp_of
from onetool_ipy.faces.widgets.requests import Favourites
from onetool_ipy.llm.scripted import ScriptedModel
from tests.harness.project import Project

WILD: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "number": b"1e999",
    "list": b"[[[]]]",
    "wrong kinds": json.dumps(
        {"format": {}, "version": [], "tools": [1, None], "entries": 7, "folder": 5}
    ).encode(),
    "huge number": b'{"format": ' + b"9" * 5000 + b', "version": 1, "tools": {"a": {"b": 1}}}',
    "deep": b"[" * 200_000,
    "deep objects": b'{"tools":' * 100_000,
    "not text": b"\xff\xfe\x00",
    "NaN": b'{"format": NaN, "tools": {"time.now": NaN}}',
}


@pytest.mark.parametrize("data", WILD.values(), ids=WILD.keys())
def test_a_wild_file_in_the_state_folder_costs_itself_only(project: Project, data: bytes) -> None:
    pack = project.write(
        "tools/p.py",
        '"""P."""\npack = "p"\n__all__ = ["f"]\n\ndef f() -> int:\n    """F."""\n    return 7\n',
    )
    # Of a file that was written just now nothing is kept.
    while (stamp := stamp_of(pack)) is None or is_young(stamp):
        pass
    definition: dict[str, Any] = {
        "name": "m",
        "description": "M.",
        "type": "function",
        "handler": "m",
    }
    definition |= {
        "parameters": {"type": "object"},
        "implementation": {"type": "mock", "mock_response": 8},
    }
    config = json.dumps({"version": 1, "tools": [definition]})
    with project.open(config) as box:
        assert box.call("p.f").data == 7
        assert box.call("m").data == 8
        state = box.config.paths.state
    written = [path for path in state.rglob("*.json") if path.is_file()]
    for path in (*written, state / "approvals.json", state / "favourites.json"):
        path.write_bytes(data)

    with open_toolbox(project.home / "onetool.yaml", env=project.env) as again:
        assert again.call("p.f").data == 7
        assert again.call("m").data == 8
        assert [spec.name for spec in again.registry.list() if spec.pack == "p"] == ["p.f"]
        assert Favourites(state / "favourites.json").names() == []
        (call,) = again.ask("Go", model=ScriptedModel([[("p.f", {})], "ok"])).calls
        assert not call.ok, "no such file approves a tool"
    assert written, "there were caches to spoil"


@pytest.mark.parametrize(
    "handle", ["../secret", "/etc/passwd", "..", "a/../../secret", "secret\0", "sеcret000000"]
)
def test_a_handle_is_never_a_path(project: Project, handle: str) -> None:
    with project.open() as box:
        folder = box.results.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / "secret.lines").write_text("private", encoding="utf-8")
        result = box.call("ot.result", {"handle": handle}, source="model")

        assert result.error is not None
        assert "not found" in result.error.message
        assert not box.results.delete(handle)
        assert (folder.parent / "secret.lines").exists()
