"""Bundles: every verb of 002 on them, built-in ones, deletion and reaping."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy.base.errors import Conflict, Forbidden, InvalidRequest, NotFound
from onetool_ipy.bundles.builtins import BUILTINS
from tests.bundles.aids import Shelf, go
from tests.core.support import Project

UNKNOWN = "01a1dda5-1a5f-7550-940b-3554c1c70918"


@pytest.mark.spec("002/API Bundles/PUT creates or replaces")
@pytest.mark.spec("002/Data Model/createdAt is immutable")
@pytest.mark.spec("002/Data Model/modifiedAt is the last structural change")
def test_put_creates_then_replaces_and_keeps_created_at(shelf: Shelf) -> None:
    own = shelf.bundles.new_id()
    first = shelf.bundles.put_bundle(own, slug="a", display_name="A", description="one")
    later = shelf.clock.turn(hours=1)

    second = shelf.bundles.put_bundle(own, slug="b", display_name="B", enabled=False)

    assert (first.was_created, second.was_created) == (True, False)
    assert (second.slug, second.display_name, second.description, second.is_enabled) == ("b", "B", "", False)
    assert (second.created_at, second.modified_at) == (first.created_at, later)
    assert shelf.bundles.get_bundle(own) == second


@pytest.mark.spec("002/API Bundles/PATCH toggles isEnabled")
@pytest.mark.spec("002/Data Model/modifiedAt is the last structural change")
def test_patch_turns_it_off_and_on_and_leaves_modified_at(shelf: Shelf) -> None:
    made = shelf.bundle()
    shelf.clock.turn(hours=1)

    off = shelf.bundles.patch_bundle(made.bundle_id, enabled=False)
    on = shelf.bundles.patch_bundle(made.bundle_id, enabled=True)

    assert (off.is_enabled, on.is_enabled) == (False, True)
    assert off.modified_at == on.modified_at == made.modified_at
    with pytest.raises(InvalidRequest, match="'isEnabled' must be true or false"):
        shelf.bundles.patch_bundle(made.bundle_id, enabled="off")  # type: ignore[arg-type]  # that is the point


@pytest.mark.spec("002/API Bundles/DELETE soft-deletes")
@pytest.mark.spec("002/Behaviour/Soft-delete marks softDeletedAt")
def test_delete_needs_it_empty_and_marks_it(shelf: Shelf) -> None:
    made = shelf.bundle()
    shelf.tool(made)

    with pytest.raises(Conflict, match="holds 1 tool"):
        shelf.bundles.delete_bundle(made.bundle_id)
    shelf.bundles.delete_tool(made.bundle_id, "say", "1")
    gone = shelf.bundles.delete_bundle(made.bundle_id)

    assert gone["softDeletedAt"] == "2026-01-02T12:00:00Z"
    on_disk = json.loads((shelf.root / made.bundle_id / "bundle.json").read_text())
    assert on_disk["softDeletedAt"] == "2026-01-02T12:00:00Z"
    assert made.slug not in [bundle.slug for bundle in shelf.bundles.list_bundles(include_disabled=True)]


def test_a_deleted_bundle_is_unknown_and_its_id_is_used_up(shelf: Shelf) -> None:
    made = shelf.bundle()
    shelf.bundles.delete_bundle(made.bundle_id)

    for verb in (
        lambda: shelf.bundles.get_bundle(made.bundle_id),
        lambda: shelf.bundles.patch_bundle(made.bundle_id, enabled=True),
        lambda: shelf.bundles.delete_bundle(made.bundle_id),
        lambda: shelf.tool(made),
    ):
        with pytest.raises(NotFound):
            verb()
    with pytest.raises(Conflict, match="was deleted"):
        shelf.bundles.put_bundle(made.bundle_id, slug="again", display_name="")
    assert shelf.bundle(made.slug).slug == made.slug  # its slug is free again


@pytest.mark.spec("002/Behaviour/Empty soft-deleted bundle is reaped after 2 days")
def test_reap_takes_what_was_deleted_two_days_ago(shelf: Shelf) -> None:
    kept, gone = shelf.bundle("kept"), shelf.bundle("gone")
    shelf.bundles.delete_bundle(gone.bundle_id)

    shelf.clock.turn(days=2, seconds=-1)
    assert shelf.bundles.reap() == []
    shelf.clock.turn(seconds=1)
    assert shelf.bundles.reap() == [gone.bundle_id]

    assert shelf.bundles.reap() == []
    assert not (shelf.root / gone.bundle_id).exists()
    assert (shelf.root / kept.bundle_id).exists()
    assert shelf.bundles.put_bundle(gone.bundle_id, slug="gone", display_name="").was_created


@pytest.mark.spec("002/Behaviour/Empty soft-deleted bundle is reaped after 2 days")
def test_reap_leaves_what_is_not_empty(shelf: Shelf) -> None:
    gone = shelf.bundle()
    shelf.bundles.delete_bundle(gone.bundle_id)
    note = shelf.root / gone.bundle_id / "note.txt"
    note.write_text("mine")

    shelf.clock.turn(days=9)

    assert shelf.bundles.reap() == []
    assert note.read_text() == "mine"


def test_other_writes_reap_too(shelf: Shelf) -> None:
    gone = shelf.bundle()
    shelf.bundles.delete_bundle(gone.bundle_id)
    shelf.clock.turn(days=3)

    shelf.bundle("next")

    assert not (shelf.root / gone.bundle_id).exists()


def test_slug_of_a_live_bundle_is_taken(shelf: Shelf) -> None:
    first = shelf.bundle("a")
    second = shelf.bundle("b")

    with pytest.raises(Conflict, match=f"that of the bundle '{first.bundle_id}'"):
        shelf.bundle("a")
    with pytest.raises(Conflict):
        shelf.bundles.put_bundle(second.bundle_id, slug="a", display_name="")

    assert shelf.bundles.get_bundle(second.bundle_id).slug == "b"
    assert shelf.bundle("A").slug == "A"  # case counts


def test_twins_in_nfc_and_nfd_are_one_slug(shelf: Shelf) -> None:
    shelf.bundle("caf\u00e9")

    with pytest.raises(Conflict):
        shelf.bundle("cafe\u0301")


def test_slug_must_not_be_a_packs_name(shelf: Shelf) -> None:
    shelf.project.write("tools/geo.py", 'pack = "geo"\n\ndef find() -> int:\n    """Find."""\n    return 1\n')

    for slug in ("geo", "time", "ot"):
        with pytest.raises(Conflict, match=f"the name of the pack '{slug}'"):
            shelf.bundle(slug)


def test_slug_must_not_be_a_servers_name(project: Project) -> None:
    shelf = Shelf(project, config="version: 1\nservers: {docs: {type: http, url: 'http://127.0.0.1:9/mcp'}}")

    with pytest.raises(Conflict, match="the name of the server 'docs'"):
        shelf.bundle("docs")


@pytest.mark.parametrize("slug", ["a_b", "a/b", "x" * 65, "", None])
def test_bad_slug_is_refused_and_makes_nothing(shelf: Shelf, slug: Any) -> None:
    with pytest.raises(InvalidRequest, match="slug"):
        shelf.bundle(slug)

    assert not shelf.root.exists()


@pytest.mark.parametrize("own", ["x", "", None, "0c7bd8a5-3ffa-4d4b-ba08-7e1e7bd7b2f6", "../../x"])
def test_bad_id_is_refused_by_every_verb(shelf: Shelf, own: Any) -> None:
    for verb in (
        lambda: shelf.bundles.put_bundle(own, slug="a", display_name="A"),
        lambda: shelf.bundles.patch_bundle(own, enabled=True),
        lambda: shelf.bundles.delete_bundle(own),
        lambda: shelf.bundles.list_bundles(ids=[own]),
        lambda: shelf.bundles.list_tools(bundle_ids=[own]),
        lambda: shelf.bundles.put_tool(own, "a", "1", go()),
        lambda: shelf.bundles.get_tool(own, "a", "1"),
        lambda: shelf.bundles.patch_tool(own, "a", "1", enabled=True),
        lambda: shelf.bundles.delete_tool(own, "a", "1"),
        lambda: shelf.bundles.invoke(own, "a", "1", {}),
    ):
        with pytest.raises(InvalidRequest):
            verb()


def test_unknown_bundle_is_not_found_by_every_verb(shelf: Shelf) -> None:
    for verb in (
        lambda: shelf.bundles.get_bundle(UNKNOWN),
        lambda: shelf.bundles.patch_bundle(UNKNOWN, enabled=True),
        lambda: shelf.bundles.delete_bundle(UNKNOWN),
        lambda: shelf.bundles.put_tool(UNKNOWN, "a", "1", go()),
        lambda: shelf.bundles.get_tool(UNKNOWN, "a", "1"),
        lambda: shelf.bundles.patch_tool(UNKNOWN, "a", "1", enabled=True),
        lambda: shelf.bundles.delete_tool(UNKNOWN, "a", "1"),
    ):
        with pytest.raises(NotFound, match=f"no bundle '{UNKNOWN}'"):
            verb()
    assert shelf.bundles.list_bundles(ids=[UNKNOWN]).items == []


@pytest.mark.spec("002/API Bundles/GET lists with bundleIDs includeDisabled pageSize pageToken")
def test_list_takes_ids_disabled_size_and_token(shelf: Shelf) -> None:
    made = [shelf.bundle(f"b{number}") for number in range(5)]
    shelf.bundles.patch_bundle(made[1].bundle_id, enabled=False)
    wanted = [bundle.bundle_id for bundle in made[:4]]

    on = shelf.bundles.list_bundles(ids=wanted)
    everything = shelf.bundles.list_bundles(ids=wanted, include_disabled=True)
    first = shelf.bundles.list_bundles(ids=wanted, page_size=2)
    rest = shelf.bundles.list_bundles(ids=wanted, page_size=2, page_token=first.next_page_token)

    assert [b.slug for b in on] == ["b0", "b2", "b3"]
    assert [b.slug for b in everything] == ["b0", "b1", "b2", "b3"]
    assert [b.slug for b in [*first, *rest]] == ["b0", "b2", "b3"]
    assert rest.next_page_token is None
    assert len(shelf.bundles.list_bundles()) == len(BUILTINS) + 4


@pytest.mark.spec("002/Non-functional/Built-ins are served by the normal API")
def test_built_ins_are_listed_with_fixed_ids(shelf: Shelf) -> None:
    bundles = shelf.bundles.list_bundles()
    tools = shelf.bundles.list_tools()

    assert [bundle.slug for bundle in bundles] == ["time", "tools", "shell", "fs"]
    assert [tool.slug for tool in tools] == ["now", "echo", "pwd", "list-dir", "read-file"]
    assert all(row.is_built_in and row.is_enabled for row in [*bundles, *tools])
    assert bundles[0].bundle_id == "019b7730-1000-7000-8000-000000000100"
    assert tools[3].arg_schema == shelf.box.registry.get("fs.list_dir").parameters  # type: ignore[union-attr]
    assert shelf.bundles.invoke(bundles[0].bundle_id, "now", "1", {}).data["iso"] == "2026-01-02T12:00:00.000Z"


@pytest.mark.spec("002/Behaviour/Built-ins refuse PUT DELETE and other PATCH")
@pytest.mark.spec("002/Terminology/Built-in content is read-only")
def test_built_ins_refuse_every_other_change(shelf: Shelf) -> None:
    fs = shelf.bundles.named("fs")
    assert fs is not None

    for verb in (
        lambda: shelf.bundles.put_bundle(fs.bundle_id, slug="fs", display_name="Files"),
        lambda: shelf.bundles.delete_bundle(fs.bundle_id),
        lambda: shelf.bundles.put_tool(fs.bundle_id, "new", "1", go()),
        lambda: shelf.bundles.put_tool(fs.bundle_id, "read-file", "1", go()),
        lambda: shelf.bundles.delete_tool(fs.bundle_id, "read-file", "1"),
    ):
        with pytest.raises(Forbidden) as caught:
            verb()
        assert (caught.value.code, caught.value.status) == ("forbidden", 403)
    assert not shelf.root.exists()


@pytest.mark.spec("002/Behaviour/Built-in isEnabled is mutable")
def test_built_in_bundle_is_one_switch_for_the_real_tools(shelf: Shelf) -> None:
    fs = shelf.bundles.named("fs")
    assert fs is not None

    off = shelf.bundles.patch_bundle(fs.bundle_id, enabled=False)

    assert off.is_enabled is False
    failed = shelf.box.call("fs.list_dir", {"path": "."})
    assert (failed.error.code, failed.error.reason) == ("tool_not_found", "disabled")  # type: ignore[union-attr]
    assert "bundle 'fs' is off" in failed.error.message  # type: ignore[union-attr]
    assert shelf.box.registry.get("fs.list_dir").disabled  # type: ignore[union-attr]
    assert shelf.bundles.invoke(fs.bundle_id, "list-dir", "1", {"path": "."}).error.reason == "disabled"  # type: ignore[union-attr]
    with pytest.raises(Forbidden):
        shelf.bundles.patch_tool(fs.bundle_id, "list-dir", "1", enabled=True)
    shelf.bundles.patch_bundle(fs.bundle_id, enabled=True)
    assert not shelf.box.registry.get("fs.list_dir").disabled  # type: ignore[union-attr]
    assert shelf.box.call("fs.list_dir", {"path": "nowhere"}).error.code == "execution_error"  # type: ignore[union-attr]


@pytest.mark.spec("002/Behaviour/Built-in isEnabled is mutable")
def test_a_built_in_tool_has_a_switch_of_its_own_that_other_processes_honour(shelf: Shelf) -> None:
    tools = shelf.bundles.named("tools")
    other = shelf.another()
    assert tools is not None
    assert other.call("tools.echo", {"message": 1}).data == 1

    shelf.bundles.patch_tool(tools.bundle_id, "echo", "1", enabled=False)

    assert other.call("tools.echo", {"message": 1}).error.reason == "disabled"  # type: ignore[union-attr]
    assert other.call("time.now").ok
    assert other.bundles.get_tool(tools.bundle_id, "echo", "1").is_enabled is False
    assert "echo" not in [tool.slug for tool in other.bundles.list_tools()]
    shelf.bundles.patch_tool(tools.bundle_id, "echo", "1", enabled=True)
    assert other.call("tools.echo", {"message": 2}).data == 2


def test_a_damaged_overlay_switches_nothing_off_and_is_a_problem(shelf: Shelf) -> None:
    shelf.root.mkdir()
    overlay = shelf.root / "builtins.json"
    for text in ("{", "[]", '{"format": 1}', '{"format": "x", "disabled": []}', '{"format": 1, "disabled": 7}'):
        overlay.write_text(text)
        assert shelf.box.call("time.now").ok
        assert any("builtins.json" in problem.where for problem in shelf.box.problems()), text

    overlay.write_text('{"format": 2, "disabled": []}')
    time = shelf.bundles.named("time")
    assert time is not None
    with pytest.raises(Conflict, match="format 2"):
        shelf.bundles.patch_bundle(time.bundle_id, enabled=False)
    assert overlay.read_text() == '{"format": 2, "disabled": []}'


@pytest.mark.spec("002/Objectives/Storage works offline")
@pytest.mark.spec("002/Non-functional/Flat-file JSON storage")
def test_files_are_flat_json_named_by_ids(shelf: Shelf) -> None:
    bundle = shelf.bundle("读取")
    tool = shelf.tool(bundle, "文件", "1.0")

    names = sorted(path.name for path in (shelf.root / bundle.bundle_id).iterdir())
    stored = json.loads((shelf.root / bundle.bundle_id / f"{tool.tool_id}.json").read_text(encoding="utf-8"))

    assert names == sorted(["bundle.json", f"{tool.tool_id}.json"])
    assert (stored["format"], stored["slug"], stored["version"]) == (1, "文件", "1.0")
    assert not {"callCount", "lastCalledAt", "available", "reason"} & stored.keys()


def test_first_bundle_makes_the_folder_of_a_project_without_one(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from onetool_ipy import open_toolbox

    monkeypatch.chdir(tmp_path)
    env = {"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    with open_toolbox(env=env) as box:
        made = box.bundles.put_bundle(box.bundles.new_id(), slug="a", display_name="A")
        assert (tmp_path / ".onetool" / "bundles" / made.bundle_id / "bundle.json").exists()
    with open_toolbox(env=env) as later:
        found = later.bundles.named("a")
        assert found is not None
        assert found.to_dict() == made.to_dict()
