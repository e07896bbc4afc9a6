"""The parts of a toolbox as they are wired: what each may see of the others, and of the project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import OneToolError

Open = Callable[..., Toolbox]
PACK = (
    '"""Notes."""\npack = "notes"\n\n\ndef add(text: str) -> str:\n    """Add a note."""\n   '
    " return text\n"
)
CONFIG = """
version: 1
tools_dir: ["tools/*.py"]
servers: {clock: {type: stdio, command: nothing}}
snippets: {hi: {body: "print(1)"}}
"""
DEFINED = """
tools:
  - {name: mine.clock, description: x, type: function, handler: x, parameters: {type: object, properties: {}},
     implementation: {type: builtin, handler: time.now}}
  - {name: mine.inner, description: x, type: function, handler: x, parameters: {type: object, properties: {}},
     implementation: {type: builtin, handler: ot.packs}}
"""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    boxes: list[Toolbox] = []

    def start(config: str = CONFIG, *, is_trusted: bool = True) -> Toolbox:
        project = tmp_path / "project"
        folder = project / ".onetool"
        (folder / "tools").mkdir(parents=True, exist_ok=True)
        (folder / "tools" / "notes.py").write_text(PACK, encoding="utf-8")
        (folder / "onetool.yaml").write_text(config, encoding="utf-8")
        trust = {"ONETOOL_TRUST": str(project)} if is_trusted else {}
        env = {"ONETOOL_STATE": str(tmp_path / "state"), "HOME": str(tmp_path / "home"), **trust}
        boxes.append(open_leniently(cwd=project, env=env))
        return boxes[-1]

    yield start
    for box in boxes:
        box.close()


@pytest.mark.parametrize("slug", ["clock", "notes", "time"])
def test_bundle_takes_no_name_of_a_server_or_pack(opened: Open, slug: str) -> None:
    box = opened()

    with pytest.raises(OneToolError, match=f"(server|pack) '{slug}'"):
        box.bundles.put_bundle(box.bundles.new_id(), slug=slug, display_name="x")
    box.bundles.put_bundle(box.bundles.new_id(), slug="free", display_name="x")


def test_inventory_shows_what_a_yes_would_cover_and_nothing_after_it(opened: Open) -> None:
    untrusted = opened(is_trusted=False).parts.inventory()
    trusted = opened().parts.inventory()

    assert [part.key for part in untrusted.parts] == ["server clock"]
    assert any("notes.py" in str(file) for file in untrusted.pack_files)
    assert untrusted.snippets == ("hi",)
    assert (trusted.parts, trusted.pack_files, trusted.snippets) == ((), (), ())


def test_definition_names_builtins_of_its_own_kind_alone(opened: Open) -> None:
    """`ot.*` is for `internal`, all others for `builtin` (spec 003)."""
    box = opened(f"version: 1\n{DEFINED}")

    names = {spec.name for spec in box.registry.known()}
    assert "mine.clock" in names
    assert "mine.inner" not in names
    assert box.call("mine.clock").ok


def test_call_log_that_is_off_records_nothing(opened: Open) -> None:
    box = opened("version: 1\nstats: {enabled: false}\n")

    assert box.call("time.now").ok
    assert box.log.enabled is False
    assert not list((box.config.paths.state / "calls").glob("*.jsonl"))
