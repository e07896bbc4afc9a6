"""The store: damaged, misplaced and newer files cost only themselves; other processes' changes are seen at once."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.errors import Conflict, NotFound
from onetool_ipy.base.files import StoreError
from onetool_ipy.bundles.importing.openapi import import_openapi
from onetool_ipy.bundles.store import BundleStore
from onetool_ipy.faces.creation import store_draft
from tests.bundles.aids import Shelf, go, http
from tests.harness.surroundings import ROOT


@pytest.fixture
def pair(shelf: Shelf) -> tuple[Shelf, Path, Path]:
    """A bundle with two tools, and the files of the tools."""
    bundle = shelf.bundle()
    files = [shelf.root / bundle.bundle_id / f"{shelf.tool(bundle, slug).tool_id}.json" for slug in ("good", "bad")]
    return shelf, files[0], files[1]


def says(shelf: Shelf, path: Path) -> str:
    return " ".join(str(problem) for problem in shelf.box.problems() if problem.where == str(path))


DAMAGE: dict[str, Any] = {
    "cut in half": lambda text: text[: len(text) // 2],
    "empty": lambda text: b"",
    "no JSON": lambda text: b"\x00\xff" * 50,
    "a list": lambda text: b"[]",
    "no format": lambda text: text.replace(b'"format": 1', b'"formats": 1'),
    "a field too many": lambda text: text.replace(b'"format": 1', b'"format": 1, "extra": 1'),
    "a bad slug": lambda text: text.replace(b'"slug": "bad"', b'"slug": "b_d"'),
    "a bad type": lambda text: text.replace(b'"type": "go"', b'"type": "stop"'),
    "deep": lambda text: b"[" * 100_000,
    "huge": lambda text: text + b" " * 5_000_000,
    "a naive time": lambda text: text.replace(b"00Z", b"00"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_tool_costs_only_itself(pair: tuple[Shelf, Path, Path], damage: str) -> None:
    shelf, _, bad = pair
    broken = DAMAGE[damage](bad.read_bytes())
    bad.write_bytes(broken)

    tools = shelf.bundles.list_tools(bundle_ids=[bad.parent.name])

    assert [tool.slug for tool in tools] == ["good"]
    assert shelf.box.call("my-api.good", {"message": "x"}).data == "x"
    assert shelf.box.call("my-api.bad", {"message": "x"}).error.code == "tool_not_found"  # type: ignore[union-attr]
    assert says(shelf, bad)
    with pytest.raises(NotFound):
        shelf.bundles.patch_tool(bad.parent.name, "bad", "1", enabled=False)
    with pytest.raises(Conflict, match="holds 1 tool"):
        shelf.bundles.delete_bundle(bad.parent.name)
    assert bad.read_bytes() == broken


def test_a_mended_file_comes_back(pair: tuple[Shelf, Path, Path]) -> None:
    shelf, _, bad = pair
    whole = bad.read_bytes()
    bad.write_bytes(whole[:100])
    assert shelf.box.call("my-api.bad", {"message": "x"}).error is not None

    bad.write_bytes(whole)

    assert shelf.box.call("my-api.bad", {"message": "x"}).data == "x"
    assert not says(shelf, bad)


def test_a_damaged_bundle_costs_only_itself_and_is_not_written_over(shelf: Shelf) -> None:
    good, bad = shelf.bundle("good"), shelf.bundle("bad")
    shelf.tool(bad)
    file = shelf.root / bad.bundle_id / "bundle.json"
    file.write_bytes(file.read_bytes()[:50])

    assert [b.slug for b in shelf.bundles.list_bundles()][-1] == "good"
    for verb in (
        lambda: shelf.bundles.put_bundle(bad.bundle_id, slug="new", display_name="New"),
        lambda: shelf.bundles.get_bundle(bad.bundle_id),
        lambda: shelf.tool(bad, "more"),
        lambda: shelf.bundles.delete_bundle(bad.bundle_id),
    ):
        with pytest.raises(Conflict, match="is damaged"):
            verb()
    assert file.stat().st_size == 50
    assert shelf.tool(good).available
    assert "is damaged" in says(shelf, file)


def test_a_newer_format_is_never_written_to_and_keeps_its_place(pair: tuple[Shelf, Path, Path]) -> None:
    shelf, _, newer = pair
    text = newer.read_bytes().replace(b'"format": 1', b'"format": 2, "surprise": {}')
    newer.write_bytes(text)
    own = newer.parent.name

    assert "newer than this version knows" in says(shelf, newer)
    with pytest.raises(Conflict):
        shelf.bundles.put_tool(own, "bad", "1", go())
    with pytest.raises(NotFound):
        shelf.bundles.delete_tool(own, "bad", "1")
    assert newer.read_bytes() == text
    bundle = newer.parent / "bundle.json"
    bundle.write_bytes(bundle.read_bytes().replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(Conflict, match="format 2"):
        shelf.bundles.patch_bundle(own, enabled=False)
    assert b'"format": 2' in bundle.read_bytes()


def test_copies_and_strangers_are_problems(pair: tuple[Shelf, Path, Path]) -> None:
    shelf, good, _ = pair
    folder = good.parent
    copy = folder / f"{shelf.bundles.new_id()}.json"
    shutil.copy(good, copy)
    odd = folder / "notes.json"
    odd.write_text("{}")
    link = folder / f"{shelf.bundles.new_id()}.json"
    link.symlink_to(good)
    fifo = folder / f"{shelf.bundles.new_id()}.json"
    os.mkfifo(fifo)
    stranger = shelf.root / "drafts"
    stranger.mkdir()
    orphan = shelf.root / shelf.bundles.new_id()
    orphan.mkdir()
    (orphan / good.name).write_bytes(good.read_bytes())
    (folder / "README.md").write_text("fine")

    assert "A copy needs ids of its own" in says(shelf, copy)
    assert "is not a bundle's file" in says(shelf, odd)
    assert "not a plain file" in says(shelf, link)
    assert "not a plain file" in says(shelf, fifo)
    assert "is not a bundle's folder" in says(shelf, stranger)
    assert "no 'bundle.json'" in says(shelf, orphan)
    assert not says(shelf, folder / "README.md")
    assert len(shelf.bundles.list_tools(bundle_ids=[folder.name])) == 2


def test_of_two_records_for_one_place_the_older_is_served(pair: tuple[Shelf, Path, Path]) -> None:
    """As two branches give that were merged."""
    shelf, good, _ = pair
    data = json.loads(good.read_bytes())
    twin = {**data, "toolID": shelf.bundles.new_id(), "createdAt": "2026-02-01T00:00:00Z", "description": "Twin."}
    path = good.parent / f"{twin['toolID']}.json"
    path.write_text(json.dumps(twin))
    other = json.loads((good.parent / "bundle.json").read_bytes())
    other |= {"bundleID": shelf.bundles.new_id(), "createdAt": "2026-02-01T00:00:00Z"}
    folder = shelf.root / other["bundleID"]
    folder.mkdir()
    (folder / "bundle.json").write_text(json.dumps(other))
    inside = {**twin, "bundleID": other["bundleID"], "toolID": shelf.bundles.new_id()}
    (folder / f"{inside['toolID']}.json").write_text(json.dumps(inside))

    assert shelf.bundles.get_tool(good.parent.name, "good", "1").description == "Say it."
    assert "which is older" in says(shelf, path)
    assert any("the slug 'my-api' is that of the bundle" in str(problem) for problem in shelf.box.problems())
    failed = shelf.bundles.invoke(other["bundleID"], "good", "1", {"message": "x"})
    assert failed.error.code == "tool_not_found"  # type: ignore[union-attr]
    assert shelf.bundles.invoke(good.parent.name, "good", "1", {"message": "x"}).data == "x"


OTHER = """
import sys
from onetool_ipy import open_toolbox
config, code = sys.argv[1:]
with open_toolbox(config) as box:
    bundles = box.bundles
    exec(code)
"""


def elsewhere(shelf: Shelf, code: str) -> None:
    """Run code in another process, with `bundles`."""
    command = [sys.executable, "-c", OTHER, str(shelf.project.home / "onetool.yaml"), code]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **shelf.project.env})


def test_what_another_process_does_is_seen_by_the_next_list_and_call(shelf: Shelf) -> None:
    bundle = shelf.bundle()
    own = bundle.bundle_id
    record = go()
    assert shelf.box.registry.get("my-api.say") is None

    elsewhere(shelf, f"bundles.put_tool({own!r}, 'say', '1', {record!r})")
    assert [tool.slug for tool in shelf.bundles.list_tools(bundle_ids=[own])] == ["say"]
    assert shelf.box.call("my-api.say", {"message": "x"}).data == "x"

    elsewhere(
        shelf,
        f"bundles.patch_tool({own!r}, 'say', '1', enabled=False); bundles.put_tool({own!r}, 'b', '1', {record!r})",
    )
    assert shelf.box.call("my-api.say", {"message": "x"}).error.reason == "disabled"  # type: ignore[union-attr]
    assert shelf.box.call("my-api.b", {"message": "x"}).ok

    elsewhere(shelf, f"bundles.patch_tool({own!r}, 'say', '1', enabled=True); bundles.delete_tool({own!r}, 'b', '1')")
    assert shelf.box.call("my-api.say", {"message": "x"}).data == "x"
    assert shelf.box.call("my-api.b", {"message": "x"}).error.code == "tool_not_found"  # type: ignore[union-attr]


def test_edits_within_a_tick_of_the_clock_are_seen(shelf: Shelf) -> None:
    """Same size, same times, same number: only the content tells."""
    bundle = shelf.bundle()
    tool = shelf.tool(bundle, description="0000")
    file = shelf.root / bundle.bundle_id / f"{tool.tool_id}.json"
    text = file.read_bytes()
    store = BundleStore(shelf.root)
    seen = []
    for number in range(100):
        file.write_bytes(text.replace(b'"0000"', f'"{number:04}"'.encode()))

        seen.append(store.look().bundles[bundle.bundle_id].tools["say", "1"].description)

    assert seen == [f"{number:04}" for number in range(100)]


def test_what_was_written_is_served_as_another_process_reads_it(shelf: Shelf) -> None:
    """A record that was just written is not parsed again: it must be the very record that its file makes."""
    packed = ROOT / "tests" / "data" / "openapi" / "readme.json.xz"
    draft = import_openapi(lzma.decompress(packed.read_bytes()))
    own = store_draft(shelf.box, draft).bundle.bundle_id
    bundle = shelf.bundle("more", description="with 'ü' and 2 lines\nof it")
    shelf.bundles.put_tool(
        bundle.bundle_id,
        "all",
        "1.0",
        http(
            tags=["b", "a", "b"],
            limits={"maxCallsPerMinute": 3},
            outputSchema={"type": "number", "maximum": 2**70, "minimum": -1.5e300},
            argSchema={"type": "object", "properties": {"ü": {"const": 2**63}}},
        ),
    )
    shelf.tool(bundle)

    fresh = BundleStore(shelf.root).look()

    assert fresh.problems == ()
    assert {problem.message for problem in shelf.box.problems()} == {"the secret 'README_API_BEARER' is missing."}
    assert len(fresh.bundles[own].tools) == len(draft.tools) == 54
    for bundle_id, held in fresh.bundles.items():
        assert shelf.bundles.get_bundle(bundle_id) == held.bundle
        for read in held.tools.values():
            assert shelf.bundles.get_tool(bundle_id, *read.pair) == read


def test_a_record_is_shared_with_nobody(shelf: Shelf) -> None:
    record = go(argSchema={"type": "object", "properties": {"message": {"type": "string"}}})
    bundle = shelf.bundle()

    made = shelf.bundles.put_tool(bundle.bundle_id, "say", "1", record)
    record["argSchema"]["properties"]["message"]["type"] = "integer"
    made.to_dict()["argSchema"]["properties"].clear()

    assert shelf.box.call("my-api.say", {"message": "x"}).data == "x"
    assert shelf.bundles.get_tool(bundle.bundle_id, "say", "1")["argSchema"] == {
        "type": "object",
        "properties": {"message": {"type": "string"}},
    }


def test_nothing_is_made_before_something_is_written(shelf: Shelf) -> None:
    shelf.bundles.list_bundles()
    shelf.bundles.search("x")
    shelf.bundles.reap()
    shelf.box.problems()

    assert not shelf.root.exists()


def test_a_folder_of_another_user_is_neither_read_nor_written(shelf: Shelf, tmp_path: Path) -> None:
    home = tmp_path / "theirs" / ".onetool"
    shutil.copytree(shelf.project.home, home)
    (home / "bundles").mkdir(exist_ok=True)
    os.chown(home, 12345, 12345)
    store = BundleStore(home / "bundles", is_found=False)

    assert "another user owns it" in str(store.problems())
    with pytest.raises(StoreError, match="another user owns it"), store.writing():
        pass


@pytest.mark.parametrize("kind", ["written by all", "of another user"])
def test_a_record_that_others_may_have_written_is_a_problem_and_does_not_count(shelf: Shelf, kind: str) -> None:
    bundle = shelf.bundle()
    shelf.tool(bundle)
    (path,) = [file for file in shelf.root.rglob("*.json") if file.name != "bundle.json"]
    if kind == "written by all":
        path.chmod(0o666)
    else:
        os.chown(path, 12345, -1)

    found = BundleStore(shelf.root).look()

    assert [len(held.tools) for held in found.bundles.values()] == [0]
    said = "may be written by every user" if kind == "written by all" else "belongs to another user"
    assert said in str(found.problems)


def test_a_project_without_bundles_loads_no_pydantic(shelf: Shelf) -> None:
    code = (
        "import sys; from onetool_ipy import open_toolbox\n"
        "box = open_toolbox(sys.argv[1]); box.registry.list(); box.call('time.now'); box.problems()\n"
        "print('pydantic' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(shelf.project.home / "onetool.yaml")]
    done = subprocess.run(
        command, check=True, cwd=ROOT, env={**os.environ, **shelf.project.env}, capture_output=True, text=True
    )

    assert done.stdout.strip() == "False"
