"""The store: damaged, misplaced and newer files cost only themselves; other processes' changes are
seen at once."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.errors import Conflict, NotFound
from onetool_ipy.base.files import StoreError
from onetool_ipy.bundles.importing.formats import import_document
from onetool_ipy.bundles.store import BundleStore, stored_slugs
from onetool_ipy.faces.creation import store_draft
from tests.bundles.aids import ProjectBundles, go, http
from tests.harness.project import Project
from tests.harness.surroundings import ROOT
from tests.harness.systems import make_pipe


@pytest.fixture
def pair(project_bundles: ProjectBundles) -> tuple[ProjectBundles, Path, Path]:
    """A bundle with two tools, and the files of the tools."""
    bundle = project_bundles.bundle()
    files = [
        project_bundles.root / bundle.slug / f"{project_bundles.tool(bundle, slug).slug}@1.json"
        for slug in ("good", "bad")
    ]
    return project_bundles, files[0], files[1]


def owner(file: Path) -> str:
    """The id of the bundle that a tool's file lies in."""
    found: str = json.loads((file.parent / "bundle.json").read_bytes())["bundleID"]
    return found


def says(project_bundles: ProjectBundles, path: Path) -> str:
    return " ".join(
        str(problem) for problem in project_bundles.box.problems() if problem.where == str(path)
    )


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
def test_a_damaged_tool_costs_only_itself(
    pair: tuple[ProjectBundles, Path, Path], damage: str
) -> None:
    project_bundles, _, bad = pair
    broken = DAMAGE[damage](bad.read_bytes())
    bad.write_bytes(broken)

    tools = project_bundles.bundles.list_tools(bundle_ids=[owner(bad)])

    assert [tool.slug for tool in tools] == ["good"]
    assert project_bundles.box.call("my-api.good", {"message": "x"}).data == "x"
    assert project_bundles.box.call("my-api.bad", {"message": "x"}).error.code == "tool_not_found"  # type: ignore[union-attr]
    assert says(project_bundles, bad)
    with pytest.raises(NotFound):
        project_bundles.bundles.patch_tool(owner(bad), "bad", "1", enabled=False)
    with pytest.raises(Conflict, match="holds 1 tool"):
        project_bundles.bundles.delete_bundle(owner(bad))
    assert bad.read_bytes() == broken


def test_a_link_that_leads_to_itself_costs_only_itself(
    pair: tuple[ProjectBundles, Path, Path],
) -> None:
    """One such link beside the bundles took all of them away."""
    project_bundles, good, _ = pair
    odd = good.parent.parent / "odd"
    odd.symlink_to("odd")

    assert project_bundles.box.call("my-api.good", {"message": "x"}).data == "x"
    assert "it is a symbolic link" in says(project_bundles, odd)


def test_a_mended_file_comes_back(pair: tuple[ProjectBundles, Path, Path]) -> None:
    project_bundles, _, bad = pair
    whole = bad.read_bytes()
    bad.write_bytes(whole[:100])
    assert project_bundles.box.call("my-api.bad", {"message": "x"}).error is not None

    bad.write_bytes(whole)

    assert project_bundles.box.call("my-api.bad", {"message": "x"}).data == "x"
    assert not says(project_bundles, bad)


def test_a_damaged_bundle_costs_only_itself_and_is_not_written_over(
    project_bundles: ProjectBundles,
) -> None:
    good, bad = project_bundles.bundle("good"), project_bundles.bundle("bad")
    project_bundles.tool(bad)
    file = project_bundles.root / bad.slug / "bundle.json"
    file.write_bytes(file.read_bytes()[:50])

    assert [b.slug for b in project_bundles.bundles.list_bundles()][-1] == "good"
    for verb in (
        lambda: project_bundles.bundles.put_bundle(bad.bundle_id, slug="new", display_name="New"),
        lambda: project_bundles.bundles.get_bundle(bad.bundle_id),
        lambda: project_bundles.tool(bad, "more"),
        lambda: project_bundles.bundles.delete_bundle(bad.bundle_id),
    ):
        with pytest.raises(Conflict, match="is damaged"):
            verb()
    assert file.stat().st_size == 50
    assert project_bundles.tool(good).available
    assert "is damaged" in says(project_bundles, file)


def test_a_newer_format_is_never_written_to(pair: tuple[ProjectBundles, Path, Path]) -> None:
    project_bundles, _, newer = pair
    text = newer.read_bytes().replace(b'"format": 1', b'"format": 2, "surprise": {}')
    newer.write_bytes(text)
    own = owner(newer)

    assert "has format 2; this version reads 1. Update onetool-ipy" in says(project_bundles, newer)
    project_bundles.bundles.put_tool(own, "bad", "1", go())
    project_bundles.bundles.delete_tool(own, "bad", "1")
    with pytest.raises(NotFound):
        project_bundles.bundles.delete_tool(own, "bad", "1")
    assert newer.read_bytes() == text
    bundle = newer.parent / "bundle.json"
    bundle.write_bytes(bundle.read_bytes().replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(Conflict, match="format 2"):
        project_bundles.bundles.patch_bundle(own, enabled=False)
    assert b'"format": 2' in bundle.read_bytes()


def test_copies_and_strangers_are_problems(pair: tuple[ProjectBundles, Path, Path]) -> None:
    project_bundles, good, _ = pair
    folder = good.parent
    copy = folder / f"{project_bundles.bundles.new_id()}.json"
    shutil.copy(good, copy)
    odd = folder / "notes.json"
    odd.write_text("{}")
    link = folder / f"{project_bundles.bundles.new_id()}.json"
    link.symlink_to(good)
    fifo = folder / f"{project_bundles.bundles.new_id()}.json"
    has_fifo = make_pipe(fifo)
    stranger = project_bundles.root / "drafts"
    stranger.mkdir()
    orphan = project_bundles.root / project_bundles.bundles.new_id()
    orphan.mkdir()
    (orphan / good.name).write_bytes(good.read_bytes())
    (folder / "README.md").write_text("fine")

    assert "A copy needs ids of its own" in says(project_bundles, copy)
    assert "has format None; this version reads 1" in says(project_bundles, odd)
    assert "not a plain file" in says(project_bundles, link)
    assert not has_fifo or "not a plain file" in says(project_bundles, fifo)
    assert not says(project_bundles, stranger)
    assert "no 'bundle.json'" in says(project_bundles, orphan)
    assert not says(project_bundles, folder / "README.md")
    assert len(project_bundles.bundles.list_tools(bundle_ids=[owner(good)])) == 2


def test_of_two_records_for_one_place_the_older_is_served(
    pair: tuple[ProjectBundles, Path, Path],
) -> None:
    """As two branches give that were merged."""
    project_bundles, good, _ = pair
    data = json.loads(good.read_bytes())
    twin = {
        **data,
        "toolID": project_bundles.bundles.new_id(),
        "createdAt": "2026-02-01T00:00:00Z",
        "description": "Twin.",
    }
    path = good.parent / f"{twin['toolID']}.json"
    path.write_text(json.dumps(twin))
    other = json.loads((good.parent / "bundle.json").read_bytes())
    other |= {"bundleID": project_bundles.bundles.new_id(), "createdAt": "2026-02-01T00:00:00Z"}
    folder = project_bundles.root / other["bundleID"]
    folder.mkdir()
    (folder / "bundle.json").write_text(json.dumps(other))
    inside = {**twin, "bundleID": other["bundleID"], "toolID": project_bundles.bundles.new_id()}
    (folder / f"{inside['toolID']}.json").write_text(json.dumps(inside))

    assert project_bundles.bundles.get_tool(owner(good), "good", "1").description == "Say it."
    assert "which is older" in says(project_bundles, path)
    assert any(
        "the name 'my-api' is that of the bundle" in str(problem)
        for problem in project_bundles.box.problems()
    )
    failed = project_bundles.bundles.invoke(other["bundleID"], "good", "1", {"message": "x"})
    assert failed.error.code == "tool_not_found"  # type: ignore[union-attr]
    assert project_bundles.bundles.invoke(owner(good), "good", "1", {"message": "x"}).data == "x"


OTHER = """
import sys
import textwrap
from onetool_ipy import open_toolbox
config, code = sys.argv[1:]
with open_toolbox(config) as box:
    bundles = box.bundles
    exec(code)
"""


def elsewhere(project_bundles: ProjectBundles, code: str) -> None:
    """Run code in another process, with `bundles`."""
    command = [
        sys.executable,
        "-c",
        OTHER,
        str(project_bundles.project.home / "onetool.yaml"),
        code,
    ]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **project_bundles.project.env})


@pytest.mark.slow
def test_what_another_process_does_is_seen_by_the_next_list_and_call(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()
    own = bundle.bundle_id
    record = go()
    assert project_bundles.box.registry.get("my-api.say") is None

    elsewhere(project_bundles, f"bundles.put_tool({own!r}, 'say', '1', {record!r})")
    assert [tool.slug for tool in project_bundles.bundles.list_tools(bundle_ids=[own])] == ["say"]
    assert project_bundles.box.call("my-api.say", {"message": "x"}).data == "x"

    elsewhere(
        project_bundles,
        f"bundles.patch_tool({own!r}, 'say', '1', enabled=False); bundles.put_tool({own!r}, 'b',"
        f" '1', {record!r})",
    )
    assert project_bundles.box.call("my-api.say", {"message": "x"}).error.reason == "disabled"  # type: ignore[union-attr]
    assert project_bundles.box.call("my-api.b", {"message": "x"}).ok

    elsewhere(
        project_bundles,
        f"bundles.patch_tool({own!r}, 'say', '1', enabled=True); bundles.delete_tool({own!r}, 'b',"
        " '1')",
    )
    assert project_bundles.box.call("my-api.say", {"message": "x"}).data == "x"
    assert project_bundles.box.call("my-api.b", {"message": "x"}).error.code == "tool_not_found"  # type: ignore[union-attr]


def test_edits_within_a_tick_of_the_clock_are_seen(project_bundles: ProjectBundles) -> None:
    """Same size, same times, same number: only the content tells."""
    bundle = project_bundles.bundle()
    tool = project_bundles.tool(bundle, description="0000")
    file = project_bundles.root / bundle.slug / f"{tool.slug}@{tool.version}.json"
    text = file.read_bytes()
    store = BundleStore(project_bundles.root)
    seen = []
    for number in range(100):
        file.write_bytes(text.replace(b'"0000"', f'"{number:04}"'.encode()))

        seen.append(store.snapshot().bundles[bundle.bundle_id].tools["say", "1"].description)

    assert seen == [f"{number:04}" for number in range(100)]


@pytest.mark.slow
def test_what_was_written_is_served_as_another_process_reads_it(
    project_bundles: ProjectBundles,
) -> None:
    """A record that was just written is not parsed again: it must be the very record that its file
    makes."""
    packed = ROOT / "tests" / "data" / "openapi" / "readme.json.xz"
    draft = import_document(lzma.decompress(packed.read_bytes()))
    own = store_draft(project_bundles.box, draft).bundle.bundle_id
    bundle = project_bundles.bundle("more", description="with 'ü' and 2 lines\nof it")
    project_bundles.bundles.put_tool(
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
    project_bundles.tool(bundle)

    fresh = BundleStore(project_bundles.root).snapshot()

    assert fresh.problems == ()
    assert {problem.message for problem in project_bundles.box.problems()} == {
        "the secret 'README_API_BEARER' is missing."
    }
    assert len(fresh.bundles[own].tools) == len(draft.tools) == 54
    for bundle_id, held in fresh.bundles.items():
        assert project_bundles.bundles.get_bundle(bundle_id) == held.bundle
        for read in held.tools.values():
            assert project_bundles.bundles.get_tool(bundle_id, *read.pair) == read


COUNTED = """
import sys
import textwrap
listed = []
sys.addaudithook(lambda event, args: event in ("os.listdir", "os.scandir") and listed.append(str(args[0])))
bundles.put_tool({own!r}, "one-more", "1", {record!r})
assert 0 < sum("my-api" in folder for folder in listed) < 10, listed
"""


@pytest.mark.slow
def test_a_write_lists_folders_a_few_times_however_many_tools_there_are(
    project_bundles: ProjectBundles,
) -> None:
    own, record = project_bundles.bundle().bundle_id, go()
    project_bundles.bundles.put_tools(
        own, [(f"say-{number}", "1", record) for number in range(100)]
    )

    elsewhere(project_bundles, COUNTED.format(own=own, record=record))

    assert len(project_bundles.bundles.list_tools(bundle_ids=[own], page_size=200)) == 101


def test_a_record_is_shared_with_nobody(project_bundles: ProjectBundles) -> None:
    record = go(argSchema={"type": "object", "properties": {"message": {"type": "string"}}})
    bundle = project_bundles.bundle()

    made = project_bundles.bundles.put_tool(bundle.bundle_id, "say", "1", record)
    record["argSchema"]["properties"]["message"]["type"] = "integer"
    made.to_dict()["argSchema"]["properties"].clear()

    assert project_bundles.box.call("my-api.say", {"message": "x"}).data == "x"
    assert project_bundles.bundles.get_tool(bundle.bundle_id, "say", "1")["argSchema"] == {
        "type": "object",
        "properties": {"message": {"type": "string"}},
    }


def test_nothing_is_made_before_something_is_written(project_bundles: ProjectBundles) -> None:
    project_bundles.bundles.list_bundles()
    project_bundles.bundles.search("x")
    project_bundles.bundles.reap()
    project_bundles.box.problems()

    assert not project_bundles.root.exists()


@pytest.mark.posix("owners of files")
def test_a_folder_of_another_user_is_neither_read_nor_written(
    project_bundles: ProjectBundles, tmp_path: Path
) -> None:
    home = tmp_path / "theirs" / ".onetool"
    shutil.copytree(project_bundles.project.home, home)
    (home / "bundles").mkdir(exist_ok=True)
    os.chown(home, 12345, 12345)
    store = BundleStore(home / "bundles", is_found=False)

    assert "another user owns it" in str(store.problems())
    with pytest.raises(StoreError, match="another user owns it"), store.writing():
        pass


@pytest.mark.posix("modes of files")
@pytest.mark.parametrize("kind", ["written by all", "of another user"])
def test_a_record_that_others_may_have_written_is_a_problem_and_does_not_count(
    project_bundles: ProjectBundles, kind: str
) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)
    (path,) = [file for file in project_bundles.root.rglob("*.json") if file.name != "bundle.json"]
    if kind == "written by all":
        path.chmod(0o666)
    else:
        os.chown(path, 12345, -1)

    found = BundleStore(project_bundles.root).snapshot()

    assert [len(held.tools) for held in found.bundles.values()] == [0]
    said = "may be written by every user" if kind == "written by all" else "belongs to another user"
    assert said in str(found.problems)


@pytest.mark.parametrize(
    ("slugs", "folders"),
    [
        (["Order", "order", "ORDER"], r"order, order-[0-9a-f]{8}, order-[0-9a-f]{8}"),
        (["con", "NUL", "com1"], r"com1-[0-9a-f]{8}, con-[0-9a-f]{8}, nul-[0-9a-f]{8}"),
        (["文" * 64], r"文{50}-[0-9a-f]{8}"),
    ],
    ids=["case", "reserved", "long"],
)
def test_a_name_that_some_file_system_cannot_hold_gets_a_hash(
    project_bundles: ProjectBundles, slugs: list[str], folders: str
) -> None:
    """For bundles, and for tools in one; all of them are found, changed and deleted."""
    bundles = [project_bundles.bundle(slug) for slug in slugs]
    names = sorted(path.name.casefold() for path in project_bundles.root.iterdir() if path.is_dir())
    assert re.fullmatch(folders, ", ".join(names))
    for slug in slugs:
        project_bundles.tool(bundles[0], slug, "1")
    files = {path.name.casefold() for path in project_bundles.root.glob("*/*.json")} - {
        "bundle.json"
    }
    assert len(files) == len(slugs)
    for slug in slugs:
        project_bundles.bundles.patch_tool(bundles[0].bundle_id, slug, "1", enabled=False)
        project_bundles.bundles.delete_tool(bundles[0].bundle_id, slug, "1")
    assert {path.name for path in project_bundles.root.glob("*/*.json")} == {"bundle.json"}


def test_a_bundle_that_gets_another_slug_moves_with_its_tools(
    project_bundles: ProjectBundles,
) -> None:
    """A file of the new folder's name is in the way of the second move: any name will do."""
    bundle = project_bundles.bundle("old")
    project_bundles.tool(bundle)
    file = project_bundles.root / "newer"
    file.write_text("in the way", encoding="utf-8")
    for slug, folder in (("new", "new"), ("newer", r"newer-[0-9a-f]{8}")):
        project_bundles.bundles.put_bundle(bundle.bundle_id, slug=slug, display_name="New")

        (name,) = [path.name for path in project_bundles.root.iterdir() if path.is_dir()]
        assert re.fullmatch(folder, name)
        assert project_bundles.box.call(f"{slug}.say", {"message": "x"}).data == "x"


def test_a_copied_folder_is_a_problem_and_the_first_is_served(
    project_bundles: ProjectBundles,
) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle)
    shutil.copytree(project_bundles.root / "my-api", project_bundles.root / "my-api-copy")

    assert "A copy needs ids of its own" in says(
        project_bundles, project_bundles.root / "my-api-copy"
    )
    assert project_bundles.box.call("my-api.say", {"message": "x"}).data == "x"


_PAGE = (
    (ROOT / "docs" / "http-tools.md")
    .read_text(encoding="utf-8")
    .partition("## The file of a tool")[2]
)
_BLOCKS = re.findall(r"```json\n(.*?)```", _PAGE, re.DOTALL)


@pytest.mark.parametrize(
    "has_bundle", [True, False], ids=["beside a bundle.json", "in a new folder"]
)
@pytest.mark.parametrize("block", _BLOCKS, ids=["request", "steps"])
def test_a_tool_as_the_page_shows_it_can_be_saved_as_a_file(
    project: Project, block: str, has_bundle: bool
) -> None:
    """Copied into `bundles/pets/find@v1.json`; the other process that serves the project sees it,
    too."""
    project_bundles = ProjectBundles(project)
    project.write("secrets.yaml", "PETS_TOKEN: tok-1a2b3c4d\n", mode=0o600)
    project_bundles.box.reload()
    if has_bundle:
        project_bundles.bundle("pets")
    path = project.write("bundles/pets/find@v1.json", block)
    box = project_bundles.box
    box.registry.refresh()

    bundle = box.bundles.named("pets")
    assert bundle is not None
    tool = box.bundles.get_tool(bundle.bundle_id, "find", "v1")
    args = {"tags": ["a", "b"]} if "tags" in block else {"name": "x"}
    assert box.registry.get("pets.find") is not None
    assert "pets" in stored_slugs(project_bundles.root)
    if "steps" not in block:
        (request,) = box.bundles.preview(bundle.bundle_id, "find", "v1", args)
        assert request["url"] == "https://api.example.com/pets?tags=a%2Cb"
    assert not [problem for problem in box.problems() if "pets" in problem.where]
    assert path.read_text(encoding="utf-8") == textwrap.dedent(block), "reading writes nothing"

    off = box.bundles.patch_tool(bundle.bundle_id, "find", "v1", enabled=False)
    again = project_bundles.another().bundles.get_tool(bundle.bundle_id, "find", "v1")
    assert (again.is_enabled, again.tool_id, again.tool_id) == (False, off.tool_id, tool.tool_id)
