"""Topics under kill -9, many processes, and disks that fail: every answered message is there,
whole, once."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from onetool_ipy.base.files import StoreError, locked
from onetool_ipy.config.settings import Topic
from onetool_ipy.stores.topics import Topics, document
from tests.faults.disks import make_read_only, small_disk
from tests.faults.failing import run_failing
from tests.harness.programs import actor

NOW = datetime.datetime(2026, 3, 4, 10, 20, 30, tzinfo=datetime.UTC)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KB."""
    with small_disk(tmp_path / "disk", "256k") as place:
        yield place


def topics(folder: Path, **options: Any) -> Topics:
    return Topics([Topic(pattern="*", file="notes.yaml")], folder, clock=lambda: NOW, **options)


def messages(folder: Path) -> list[Any]:
    text = (folder / "notes.yaml").read_text(encoding="utf-8")
    return [found["message"] for found in yaml.safe_load_all(text)]


def run(name: str, folder: Path, **options: Any) -> dict[str, Any]:
    return actor("tests.faults.log_campaign", name, json.dumps({"folder": str(folder), **options}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [pytest.param(25, id="few"), pytest.param(3000, id="many", marks=pytest.mark.soak)]
)
def test_a_killed_process_loses_and_breaks_no_message(
    tmp_path: Path, kills: int, record_property: Any
) -> None:
    found = run("notify_killed", tmp_path, rounds=kills, seed=kills)

    record_property(
        "figures", f"{kills} kills, {found['landed']} inside a write, {found['lost']} lost"
    )
    assert found["landed"] > kills / 5
    assert (found["lost"], found["doubled"], found["broken"], found["last"]) == (0, 0, 0, "last")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "each"),
    [pytest.param(16, 8, id="few"), pytest.param(16, 1000, id="many", marks=pytest.mark.soak)],
)
def test_many_processes_write_whole_documents(
    tmp_path: Path, processes: int, each: int, record_property: Any
) -> None:
    found = run("many_notes", tmp_path, processes=processes, each=each)

    record_property(
        "figures", f"{processes} processes, {processes * each} messages, {found['distinct']} found"
    )
    assert found == {"codes": [0], "documents": processes * each, "distinct": processes * each}


WHOLE = document(NOW, "t", "the message:\n---\n" + "z" * 200)


@pytest.mark.parametrize("cut", range(1, len(WHOLE) - 1, 5))
def test_a_document_cut_off_anywhere_is_removed_by_the_next(tmp_path: Path, cut: int) -> None:
    """What a kill in the middle of a write leaves. The control below shows what it costs without
    the repair."""
    path = tmp_path / "notes.yaml"
    path.write_bytes(document(NOW, "t", "first") + WHOLE[:cut])

    topics(tmp_path).notify("t", "next")

    found = messages(tmp_path)
    is_complete = WHOLE[:cut].endswith(b'"\n') or WHOLE[:cut].rstrip(b".\n").endswith(b'zzz"')
    assert (found[0], found[-1]) == ("first", "next")
    assert len(found) == 2 or (is_complete and len(found) == 3)


def test_the_control_without_repair_loses_the_later_messages(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    path.write_bytes(document(NOW, "t", "first") + WHOLE[:-30] + b"\n" + document(NOW, "t", "next"))

    with pytest.raises(yaml.YAMLError):
        messages(tmp_path)


@pytest.mark.slow
def test_a_large_document_cut_off_is_removed_too(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    path.write_bytes(document(NOW, "t", "first") + document(NOW, "t", "y" * 3_000_000)[:-20])

    topics(tmp_path).notify("t", "next")

    assert messages(tmp_path) == ["first", "next"]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.slow
def test_a_full_disk_is_an_error_that_names_the_file_and_changes_nothing(disk: Path) -> None:
    notes = topics(disk)
    notes.notify("t", "first")
    before = (disk / "notes.yaml").read_bytes()

    for size in (300_000, 270_000):
        with pytest.raises(StoreError, match=r"notes\.yaml.*the disk is full") as caught:
            notes.notify("t", "m" * size)
        assert caught.value.path == disk / "notes.yaml"
        assert (disk / "notes.yaml").read_bytes() == before

    assert notes.notify("t", "fits") == "OK: t -> notes.yaml"
    assert messages(disk) == ["first", "fits"]
    assert sorted(os.listdir(disk)) == [".notify.lock", "notes.yaml"]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_a_read_only_disk_is_an_error_that_names_the_file(disk: Path) -> None:
    notes = topics(disk)
    notes.notify("t", "first")
    make_read_only(disk)

    with pytest.raises(StoreError, match=r"notes\.yaml.*the disk is read-only"):
        notes.notify("t", "second")
    assert messages(disk) == ["first"]


CHILD = """
import datetime, os, sys
from pathlib import Path
from onetool_ipy.config.settings import Topic
from onetool_ipy.base.files import StoreError
from onetool_ipy.stores.topics import Topics
folder, out = sys.argv[1:]
notes = Topics([Topic(pattern="*", file="notes.yaml")], Path(folder), clock=lambda: datetime.datetime.now(datetime.UTC))
try:
    said = notes.notify("t", "second")
except StoreError as exc:
    said = str(exc)
os.writev(os.open(out, os.O_CREAT | os.O_WRONLY), [said.encode()])
"""


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("fsync,fdatasync:error=EIO", "input/output error"),
        ("write:error=ENOSPC", "the disk is full"),
        ("write:error=EIO", "input/output error"),
    ],
    ids=["fsync", "full", "write"],
)
def test_a_failing_write_is_an_error_and_leaves_the_file_as_it_was(
    tmp_path: Path, fault: str, reason: str
) -> None:
    folder, out = tmp_path / ".onetool", tmp_path / "out"
    folder.mkdir()
    topics(folder).notify("t", "first")

    done, failed = run_failing(
        fault, [sys.executable, "-c", CHILD, str(folder), str(out)], tmp_path / "strace"
    )

    assert done.returncode == 0, done.stderr
    assert failed > 0, "the fault was never met"
    said = out.read_text(encoding="utf-8")
    assert said.startswith(f"Cannot write '{folder / 'notes.yaml'}'")
    assert reason in said
    assert messages(folder) == ["first"]
    assert topics(folder).notify("t", "third").startswith("OK")
    assert messages(folder) == ["first", "third"]


def test_a_lock_held_for_too_long_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with locked(tmp_path / ".notify"), pytest.raises(StoreError, match=r"notes\.yaml.*locked"):
        topics(tmp_path, lock_wait_s=0.05).notify("t", "m")
