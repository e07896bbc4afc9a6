"""`--dry` has no effect: every kind of tool, in every state of its source, in a real kernel.

A tool's effect is a file, a request, a message to its server or a row of the call log; none of them
may appear.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from onetool_ipy import open_toolbox
from tests.harness.kernel import Kernel
from tests.harness.servers import hostile, write_project
from tests.harness.stub import Stub

State = Literal["unknown", "known", "untrusted", "off", "failing"]

_PACK = '''\
from pathlib import Path
Path({markers!r}, "imported").touch()
{more}
def mark(text: str) -> str:
    """Mark."""
    Path({markers!r}, "pack").touch()
    return text
'''
_CELL = '''\
from pathlib import Path
from onetool_ipy import tool
@tool
def mark(text: str) -> str:
    """Mark."""
    Path({markers!r}, "cell").touch()
    return text
'''
_CONFIG = {
    "name": "config.tell",
    "description": "Tell.",
    "type": "function",
    "handler": "tell",
    "parameters": {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "message": {"type": "string"}},
        "required": ["topic", "message"],
    },
    "implementation": {"type": "internal", "handler": "ot.notify"},
}
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_ID = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}

_CALLED = "would be called with"
_START = "has not been started yet.\n  Start it with: %tool server start srv"
_TRUST = "%tool trust"
_OFF = "is switched off"

TEXTS: dict[str, tuple[str, dict[State, str]]] = {
    "srv.echo text=x": (
        "MCP",
        {
            "unknown": _START,
            "untrusted": _TRUST,
            "off": "The server 'srv' is switched off.",
            "failing": "did not start",
        },
    ),
    "tools.echo message=hello": ("built-in", {"off": _OFF}),
    "ot.notify topic=out message=m": ("ot", {}),
    "nb.mark text=x": ("cell", {}),
    "mine.mark text=x": ("pack file", {"failing": "ValueError: broken"}),
    "config.tell topic=out message=m": ("definition", {"failing": "tool 'config.tell'."}),
    "shop.send id=7": ("HTTP bundle", {"off": _OFF}),
    "shop.local text=x": ("function of a bundle", {"off": _OFF}),
    "srv": (
        "pack",
        dict.fromkeys(("unknown", "known", "untrusted", "failing"), "'srv' is a pack")
        | {"off": "'srv'"},
    ),
}
"""A call -> the kind of its tool, and what a dry call says where that is not what it would be
called with."""

SPELLINGS = (
    "%tool {} --dry",
    "%tool --dry {}",
    "${} --dry",
    "%tool {} --dry --soft",
    "%tool {} --dry --bg",
)
MORE = (
    "x = %tool {} --dry",
    "%%tool {} --dry --args\n{{}}",
    "%tool {} --dry --unchecked",
    "%tool {} --dry -o y",
)


class Project:
    """A project with a tool of every kind, and the effects that they had."""

    def __init__(self, folder: Path, stub: Stub, state: State) -> None:
        self.markers = folder / "markers"
        self.markers.mkdir(parents=True)
        self.journal = self.markers / "journal"
        self._topic = folder / ".onetool" / "out.yaml"
        self._stub = stub
        is_failing, is_off = state == "failing", state == "off"
        server = hostile(
            f"--journal={self.journal}", *(["--exit=3"] if is_failing else []), enabled=not is_off
        )
        handler = (
            {"type": "internal", "handler": "ot.nothing"}
            if is_failing
            else _CONFIG["implementation"]
        )
        settings = {
            "tools": [{**_CONFIG, "implementation": handler}],
            "topics": [{"pattern": "out", "file": "out.yaml"}],
            "http": {"allowed_hosts": [f"127.0.0.1:{stub.port}"]},
        }
        write_project(
            folder,
            {"srv": server},
            "\n".join(f"{key}: {json.dumps(each)}" for key, each in settings.items()),
        )
        tools = folder / ".onetool" / "tools"
        tools.mkdir()
        more = "raise ValueError('broken')" if is_failing else ""
        (tools / "mine.py").write_text(
            _PACK.format(markers=str(self.markers), more=more), encoding="utf-8"
        )
        self._write_bundle(
            folder, is_enabled=not is_off, header="${SHOP_KEY}" if is_failing else "7"
        )

    def _write_bundle(self, folder: Path, *, is_enabled: bool, header: str) -> None:
        request = {
            "method": "POST",
            "urlTemplate": self._stub.url("/${id}"),
            "headers": {"X-Key": header},
        }
        records: dict[str, Any] = {
            "send": {"argSchema": _ID, "type": "http", "http": {"request": request}},
            "local": {"argSchema": _TEXT, "type": "go", "goTool": {"func": "nb.mark"}},
        }
        with open_toolbox(
            folder, env={**os.environ, "ONETOOL_STATE": str(folder / "theirs")}
        ) as box:
            own = box.bundles.new_id()
            box.bundles.put_bundle(own, slug="shop", display_name="Shop")
            for slug, record in records.items():
                box.bundles.put_tool(own, slug, "1", record)
            box.bundles.patch_bundle(own, enabled=is_enabled)

    def effects(self, kernel: Kernel) -> list[Any]:
        """All that the tools did so far, but for the import of the pack file."""
        messages = (
            self.journal.read_text(encoding="utf-8").splitlines() if self.journal.exists() else []
        )
        calls = [line for line in messages if '"pid"' in line or '"tools/call"' in line]
        files = {path.name for path in self.markers.iterdir()} - {"imported"}
        log = kernel.evaluate("len(current.toolbox().log.history(limit=1000))")
        return [
            files,
            self._topic.exists() and self._topic.read_text(),
            len(self._stub.asked),
            calls,
            log,
        ]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(lambda _asked: (200, {"a": 1})) as serving:
        yield serving


@pytest.mark.slow
@pytest.mark.parametrize("state", ["unknown", "known", "untrusted", "off", "failing"])
def test_a_dry_call_has_no_effect_whatever_the_tool_and_the_state_of_its_source(
    kernel: Kernel, stub: Stub, state: State
) -> None:
    project = Project(kernel.cwd, stub, state)
    trusted = "" if state == "untrusted" else str(kernel.cwd)
    kernel.execute(f"import os; os.environ['ONETOOL_TRUST'] = {trusted!r}")
    kernel.execute("%load_ext onetool_ipy\nfrom onetool_ipy.core import current")
    kernel.execute(_CELL.format(markers=str(project.markers)))
    if state == "off":
        kernel.execute("%tool bundle off tools")
    if state in ("known", "failing"):
        for call in TEXTS:
            kernel.execute(f"%tool {call}", allow_errors=True)
    imported = project.markers / "imported"

    for call, (kind, texts) in TEXTS.items():
        before = project.effects(kernel)
        for spelling in (*SPELLINGS, *MORE):
            outcome = kernel.execute(spelling.format(call), allow_errors=True, allow_stdin=True)
            if spelling in SPELLINGS and not (call == "srv" and spelling.startswith("$")):
                assert texts.get(state, _CALLED) in outcome.text, f"{kind}: {spelling.format(call)}"
        assert project.effects(kernel) == before, f"{kind}: {call}"
        assert imported.exists() == (state != "untrusted") or kind in (
            "MCP",
            "built-in",
            "ot",
            "cell",
        ), kind

    if state == "known":  # the control: each of these markers was set by a call
        files, topic, requests, calls, log = project.effects(kernel)
        assert files == {"cell", "pack", "journal"}
        assert str(topic).count("message: m\n") == 2
        assert requests == 1
        assert len(calls) == 2
        assert int(log) >= len(TEXTS) - 1
