"""Bundles under many processes, kill -9 and disks that fail: no pair twice, nothing lost, nothing
half."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.base.files import StoreError, locked
from tests.faults.disks import fill, make_read_only, make_writable, small_disk
from tests.faults.failing import run_failing
from tests.harness.programs import actor

RECORD = {"type": "go", "goTool": {"func": "tools.echo"}}


def run(name: str, **options: Any) -> dict[str, Any]:
    return actor("tests.faults.bundle_actors", name, json.dumps(options), is_silent=True)


@pytest.mark.slow
@pytest.mark.spec("002/Non-functional/Uniqueness holds across processes by file locks")
@pytest.mark.spec("002/Data Model/Slug and version unique in a bundle")
@pytest.mark.parametrize(
    "each", [pytest.param(6, id="few"), pytest.param(1000, id="many", marks=pytest.mark.soak)]
)
def test_the_same_put_from_16_processes_is_made_once(
    tmp_path: Path, each: int, record_property: Any
) -> None:
    found = run("race", home=str(tmp_path / ".onetool"), processes=16, each=each)

    record_property(
        "figures",
        f"16 processes, {each} names, {found['stored']} stored, {max(found['made'])} of each",
    )
    assert found["made"] == [1] * each
    assert found["refused"] == 15 * each
    assert (found["stored"], found["distinct"], found["problems"]) == (each, each, [])


@pytest.mark.spec("002/Non-functional/Uniqueness holds across processes by file locks")
def test_the_same_put_from_two_processes_is_made_once(tmp_path: Path) -> None:
    found = run("race", home=str(tmp_path / ".onetool"), processes=2, each=3)

    assert found["made"] == [1, 1, 1]
    assert (found["refused"], found["stored"], found["problems"]) == (3, 3, [])


@pytest.mark.slow
def test_the_careless_control_makes_some_twice(tmp_path: Path) -> None:
    tries = (
        run("careless", home=str(tmp_path / f"careless-{n}"), processes=16, each=50)["made"]
        for n in range(20)
    )

    assert any(max(made) > 1 for made in tries)


@pytest.mark.slow
@pytest.mark.spec("002/Non-functional/Uniqueness holds across processes by file locks")
def test_the_same_slug_from_16_processes_is_one_bundle(tmp_path: Path) -> None:
    assert run("slugs", home=str(tmp_path / ".onetool"), processes=16) == {"made": 1, "stored": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [pytest.param(12, id="few"), pytest.param(2000, id="many", marks=pytest.mark.soak)]
)
def test_a_killed_put_loses_and_breaks_nothing(
    tmp_path: Path, kills: int, record_property: Any
) -> None:
    found = run("killed", home=str(tmp_path / ".onetool"), rounds=kills, seed=kills)

    record_property(
        "figures", f"{kills} kills, {found['landed']} inside a write, {found['lost']} lost"
    )
    assert (found["lost"], found["broken"], found["left"]) == (0, [], [])
    assert kills < 100 or found["landed"] > kills / 10, "too few kills landed in a write"


def test_a_killed_writers_temp_file_is_swept_by_the_next(tmp_path: Path) -> None:
    with opened(tmp_path) as box:
        own = bundle(box)
        folder = tmp_path / ".onetool" / "bundles" / "b"
        killed = subprocess.Popen([sys.executable, "-c", ""])
        killed.wait()
        host = re.sub(r"[^A-Za-z0-9_.]", "_", platform.node())[:60]
        (folder / f".onetool-{host}-{killed.pid}-0123456789abcdef.tmp").write_bytes(b'{"half')

        assert box.bundles.list_tools(bundle_ids=[own]).items == []
        box.bundles.put_tool(own, "a", "1", RECORD)

        assert [name for name in os.listdir(folder) if name.endswith(".tmp")] == []


def opened(place: Path) -> Toolbox:
    home = place / ".onetool"
    home.mkdir(exist_ok=True)
    (home / "onetool.yaml").touch()
    return open_toolbox(
        home / "onetool.yaml",
        env={"HOME": str(place), "ONETOOL_STATE": str(place.parent / "state")},
    )


def bundle(box: Toolbox) -> str:
    own = box.bundles.new_id()
    box.bundles.put_bundle(own, slug="b", display_name="B")
    return own


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_a_full_disk_is_an_error_that_names_the_file_and_changes_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "512k") as disk, opened(disk) as box:
        own = bundle(box)
        box.bundles.put_tool(own, "first", "1", RECORD)
        folder = disk / ".onetool" / "bundles" / "b"
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        fill(disk)

        for verb in (
            lambda: box.bundles.put_tool(own, "second", "1", RECORD),
            lambda: box.bundles.patch_tool(own, "first", "1", enabled=False),
            lambda: box.bundles.patch_bundle(own, enabled=False),
        ):
            with pytest.raises(StoreError, match=r"\.json': the disk is full"):
                verb()

        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert box.call("b.first", {}).error.code != "tool_not_found"  # type: ignore[union-attr]
        box.bundles.delete_tool(own, "first", "1")
        (disk / "filler").unlink()
        assert box.bundles.put_tool(own, "second", "1", RECORD).slug == "second"


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_many_that_do_not_fit_on_the_disk_leave_none(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "512k") as disk, opened(disk) as box:
        own = bundle(box)
        many = [(f"t{number}", "1", {**RECORD, "description": "x" * 3000}) for number in range(200)]

        with pytest.raises(StoreError, match="the disk is full"):
            box.bundles.put_tools(own, many)

        assert os.listdir(disk / ".onetool" / "bundles" / "b") == ["bundle.json"]
        assert len(box.bundles.put_tools(own, many[:20])) == 20


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_a_read_only_disk_is_an_error_and_still_reads(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "512k") as disk, opened(disk) as box:
        own = bundle(box)
        box.bundles.put_tool(own, "first", "1", RECORD)
        make_read_only(disk)

        for verb in (
            lambda: box.bundles.put_tool(own, "second", "1", RECORD),
            lambda: box.bundles.delete_tool(own, "first", "1"),
            lambda: box.bundles.patch_bundle(own, enabled=False),
        ):
            with pytest.raises(StoreError, match="the disk is read-only"):
                verb()
        assert [tool.slug for tool in box.bundles.list_tools(bundle_ids=[own])] == ["first"]
        make_writable(disk)
        box.bundles.delete_tool(own, "first", "1")


CHILD = """
import sys
from onetool_ipy import OneToolError, open_toolbox
config, own = sys.argv[1:]
with open_toolbox(config) as box:
    try:
        box.bundles.patch_tool(own, "first", "1", enabled=False)
    except OneToolError as exc:
        print(exc.message)
"""


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["fsync:error=EIO", "rename:error=EIO"], ids=["fsync", "rename"])
def test_a_failing_write_leaves_the_old_record(tmp_path: Path, fault: str) -> None:
    with opened(tmp_path) as box:
        own = bundle(box)
        made = box.bundles.put_tool(own, "first", "1", RECORD)
    (file,) = (tmp_path / ".onetool" / "bundles").glob(f"*/{made.slug}@1.json")
    before = file.read_bytes()
    env = {"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "s")}
    child = [sys.executable, "-c", CHILD, str(tmp_path / ".onetool" / "onetool.yaml"), own]

    done, failed = run_failing(fault, child, tmp_path / "strace", env=env)

    assert done.returncode == 0, done.stderr
    assert failed > 0, "the fault was never met"
    assert done.stdout.startswith(f"Cannot write '{file}'")
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == sorted([file.name, "bundle.json"])


MANY = """
import sys
from onetool_ipy import OneToolError, open_toolbox
config, own = sys.argv[1:]
record = {"type": "go", "goTool": {"func": "tools.echo"}}
with open_toolbox(config) as box:
    try:
        box.bundles.put_tools(own, [(f"t{number}", "1", record) for number in range(20)])
    except OneToolError as exc:
        print(exc.message)
"""


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["fsync:error=EIO:when=1", "rename:error=EIO:when=9"], ids=["fsync", "rename"]
)
def test_of_many_tools_whose_write_fails_none_stays(tmp_path: Path, fault: str) -> None:
    """Their files are synced at the same time, in threads; strace counts the calls of each."""
    with opened(tmp_path) as box:
        own = bundle(box)
    (file,) = (tmp_path / ".onetool" / "bundles").glob("*/bundle.json")
    env = {"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "s")}
    child = [sys.executable, "-c", MANY, str(tmp_path / ".onetool" / "onetool.yaml"), own]

    done, failed = run_failing(fault, child, tmp_path / "strace", env=env)

    assert done.returncode == 0, done.stderr
    assert failed > 0, "the fault was never met"
    assert done.stdout.startswith("Cannot write '")
    assert [path.name for path in file.parent.iterdir()] == ["bundle.json"]


def test_a_lock_that_is_held_does_not_stop_reading(tmp_path: Path) -> None:
    with opened(tmp_path) as box:
        own = bundle(box)
        box.bundles.put_tool(own, "first", "1", {**RECORD, "argSchema": {"type": "object"}})
        with locked(tmp_path / ".onetool" / "bundles" / ".store"):
            assert len(box.bundles.list_tools(bundle_ids=[own])) == 1
            assert box.call("b.first", {"message": "x"}).data == "x"
