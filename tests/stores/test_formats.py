"""Every file we keep has a format: one of a later version is never written to, one of an earlier
version still serves.

Each test uses a whole toolbox, as a person does who has two versions of this package in turn.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.base.errors import Conflict, UsageProblem
from onetool_ipy.base.files import StoreError
from onetool_ipy.config.edit import add_server, allow_host, save_snippet
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.widgets.requests import Favourites
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.mcp.listing import ListingCache, ServerListing
from onetool_ipy.snippets.definition import Snippet
from onetool_ipy.stores.map_progress import MAX_AGE_S

NEWER = b'{"format": 99, "version": 99, "whatever": ["it", "is"]}\n'
PACK = (
    'pack = "geo"\n\n\ndef locate(place: str) -> str:\n    """Find a place."""\n    return place\n'
)


class Home:
    """A project with its state, that one may open again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".onetool"
        self.folder.mkdir()
        self.set("")
        self.now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
        self._open: list[Toolbox] = []

    def set(self, settings: str) -> None:
        (self.folder / "onetool.yaml").write_text(f"version: 1\n{settings}\n", encoding="utf-8")

    def open(self) -> Toolbox:
        env = {"ONETOOL_STATE": str(self.root / "state"), **home_at(self.root), "CI": ""}
        self._open.append(open_toolbox(self.root, env=env, clock=lambda: self.now))
        return self._open[-1]

    def found(self, pattern: str) -> Path:
        """The one file of the project's state that is named so."""
        (path,) = (self.root / "state").rglob(pattern)
        return path

    def close(self) -> None:
        for box in self._open:
            box.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def said(box: Toolbox, path: Path) -> str:
    return " ".join(str(problem) for problem in box.problems() if problem.where == str(path))


# --- maps ----------------------------------------------------------------------------------------


def test_rows_of_another_format_stand_beside_ours_until_they_are_old(home: Home) -> None:
    box = home.open()
    assert box.ot.map("tools.echo", ["a", "b"])["ok"].all()
    path = home.found("maps/*.1.jsonl")
    newer, older = (
        path.with_name(path.name.replace(".1.jsonl", f".{number}.jsonl")) for number in (2, 0)
    )
    for file in (newer, older):
        file.write_bytes(NEWER)
    _age(older, 3 * MAX_AGE_S)

    frame = home.open().ot.map("tools.echo", ["a", "b", "c"])

    assert frame.attrs["onetool"]["resumed"] == 2
    assert newer.read_bytes() == NEWER
    assert not older.exists(), "files to which nobody adds any more are removed"


def _age(path: Path, seconds: float) -> None:
    when = path.stat().st_mtime - seconds
    os.utime(path, (when, when))


# --- bundles --------------------------------------------------------------------------------------


def test_newer_bundles_and_switches_are_left_alone_and_said(home: Home) -> None:
    box = home.open()
    bundle = box.bundles.put_bundle(box.bundles.new_id(), slug="my-api", display_name="My API")
    tool = {"type": "go", "goTool": {"func": "tools.echo"}, "description": "Say it."}
    kept = box.bundles.put_tool(bundle.bundle_id, "say", "1", tool)
    builtin = next(one for one in box.bundles.list_bundles().items if one.slug == "time")
    box.bundles.patch_bundle(builtin.bundle_id, enabled=False)
    root = home.folder / "bundles"
    files = [
        root / bundle.slug / "bundle.json",
        root / bundle.slug / f"{kept.slug}@{kept.version}.json",
        root / "builtins.json",
    ]
    for file in files:
        file.write_bytes(file.read_bytes().replace(b'"format": 1', b'"format": 99'))
    before = [file.read_bytes() for file in files]

    again = home.open()
    for refused in (
        lambda: again.bundles.patch_bundle(bundle.bundle_id, enabled=False),
        lambda: again.bundles.put_bundle(bundle.bundle_id, slug="my-api", display_name="Mine"),
        lambda: again.bundles.patch_bundle(builtin.bundle_id, enabled=True),
    ):
        with pytest.raises(Conflict, match="format 99"):
            refused()
    again.bundles.reap()

    assert [file.read_bytes() for file in files] == before
    assert all("format 99" in said(again, file) for file in files)
    assert again.call("time.now").ok


# --- small files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [NEWER, b'{"format": 1, "tools": ["fs.', b"[]", b'{"format": 1, "tools": 7}']
)
def test_favourites_that_cannot_be_read_are_never_written(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "favourites.json"
    file.write_bytes(text)
    favourites = Favourites(file)

    assert favourites.names() == []
    with pytest.raises(StoreError) as caught:
        favourites.set("time.now", is_on=True)
    assert str(caught.value.path) == str(file)
    assert file.read_bytes() == text


def test_a_bad_favourite_and_an_unknown_key_stay_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "favourites.json"
    file.write_text('{"format": 1, "note": "mine", "tools": ["fs.read_file", 7]}', encoding="utf-8")

    assert Favourites(file).set("time.now", is_on=True) == ["fs.read_file", "time.now"]

    assert json.loads(file.read_bytes()) == {
        "format": 1,
        "note": "mine",
        "tools": ["fs.read_file", 7, "time.now"],
    }
    assert Favourites(file).set("fs.read_file", is_on=False) == ["time.now"]


def test_a_favourite_with_half_a_character_is_kept_as_any_other(tmp_path: Path) -> None:
    file = tmp_path / "favourites.json"
    file.write_text(r'{"format": 1, "tools": ["a.\ud800"]}', encoding="utf-8")

    assert Favourites(file).set("b.\udc00", is_on=True) == ["a.\ud800", "b.\udc00"]
    assert Favourites(file).names() == ["a.\ud800", "b.\udc00"]


def test_newer_approvals_allow_nothing_and_older_ones_ask_again(home: Home) -> None:
    def reason(box: Toolbox) -> str | None:
        spec = ToolSpec(
            name="a.send",
            description="Send.",
            parameters={"type": "object"},
            run=lambda args: "sent",
        )
        box.registry.register(spec)
        answer = box.ask("Go", model=ScriptedModel([("a.send", {}), "ok"]))
        error = answer.calls[0].result.error
        return None if error is None else error.reason

    home.set("ask: {approve: [a.send]}")
    assert reason(home.open()) is None
    path = home.found("approvals.json")
    data = json.loads(path.read_bytes())
    assert data["format"] == 2

    path.write_text(json.dumps({**data["tools"], "b.old": "0"}), encoding="utf-8")
    assert reason(home.open()) is None
    path.write_text(json.dumps({"a.send": "another"}), encoding="utf-8")
    assert reason(home.open()) == "not_approved", "an old file is believed, too"
    path.write_bytes(NEWER)
    assert reason(home.open()) == "not_approved"
    assert path.read_bytes() == NEWER


@pytest.mark.parametrize("pattern", ["cache/packs.[0-9].json"])
def test_caches_of_other_formats_stand_beside_ours(home: Home, pattern: str) -> None:
    (home.folder / "tools").mkdir()
    pack = home.folder / "tools" / "geo.py"
    pack.write_text(PACK, encoding="utf-8")
    _age(pack, 60)
    _until_trusted(lambda: home.open().close(), home, pattern)
    path = home.found(pattern)
    head, own, _ = path.name.rsplit(".", 2)
    beside = [path.with_name(f"{head}.{number}.json") for number in (int(own) - 1, int(own) + 1)]
    for other in beside:
        other.write_bytes(NEWER)
    path.write_bytes(NEWER)  # and in the place of our own it is as good as none

    box = home.open()

    assert box.call("geo.locate", {"place": "Lisbon"}).data == "Lisbon"
    assert [other.read_bytes() for other in beside] == [NEWER, NEWER]


def _until_trusted(act: Callable[[], None], home: Home, pattern: str) -> None:
    """What was changed within the last tick of the disk's clock is not kept yet."""
    for _ in range(2000):
        act()
        if list((home.root / "state").rglob(pattern)):
            return
    raise AssertionError(f"no {pattern}")


def test_remembered_lists_of_servers_stand_beside_ours(tmp_path: Path) -> None:
    shelf = ListingCache(tmp_path, str)
    definition = ServerDefinition(name="srv", where="here", type="stdio", command="x")
    shelf.put(definition, ServerListing(about="ours"))
    (path,) = tmp_path.glob("*.2.json")
    newer = path.with_name(path.name.replace(".2.json", ".3.json"))
    newer.write_bytes(NEWER)

    shelf.put(definition, ServerListing(about="ours, again"))

    assert shelf.get(definition) == ServerListing(about="ours, again")
    assert newer.read_bytes() == NEWER


# --- the user's own files -------------------------------------------------------------------------


def test_a_newer_configuration_is_said_and_not_added_to(home: Home) -> None:
    paths = home.open().config.paths
    main, snippets = home.folder / "onetool.yaml", home.folder / "snippets.yaml"
    main.write_text("version: 2\nhttp: {allowed_hosts: []}\n", encoding="utf-8")
    snippets.write_text("version: 2\nsnippets:\n  a: {body: '1'}\n", encoding="utf-8")
    before = main.read_bytes(), snippets.read_bytes()

    for act in (
        lambda: allow_host(paths, "api.example.com"),
        lambda: add_server(paths, "srv", {"command": "x"}),
        lambda: save_snippet(paths, Snippet(name="b", body="2")),
    ):
        with pytest.raises(UsageProblem, match="has version '2', which this release does not know"):
            act()

    assert (main.read_bytes(), snippets.read_bytes()) == before
    main.write_text("version: 1\n", encoding="utf-8")
    assert any(
        "version: '2' is not a version this release knows" in str(one)
        for one in home.open().problems()
    )
