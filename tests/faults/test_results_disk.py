"""Disks that are full, read-only, or fail midway: the error names the path, old results are read,
nothing stays."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy.base.files import StoreError, append, write_whole
from onetool_ipy.stores.results import HandleExpired, Results
from tests.faults.actors import ROOT
from tests.faults.disks import fill, make_read_only, make_writable, small_disk
from tests.faults.failing import run_failing
from tests.stores.results_aids import Clock, lines, names, open_results


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as place:
        yield place


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_full_disk_is_named_and_leaves_nothing_behind(disk: Path) -> None:
    results = open_results(disk)
    old = results.put("old")
    before = names(results)

    for _ in range(5):
        with pytest.raises(StoreError, match=r"results/\w{12}\.txt': the disk is full") as caught:
            results.put("x" * 5_000_000)
        assert str(disk) in str(caught.value)
        assert "ONETOOL_STATE" in caught.value.hint

    assert names(results) == before
    assert lines(results, old) == ["old"]
    assert lines(results, results.put("new")) == ["new"]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_disk_full_to_the_last_byte_still_reads(disk: Path) -> None:
    clock = Clock()
    results = open_results(disk, clock)
    old = results.put("old")
    fill(disk)

    with pytest.raises(StoreError, match="disk is full"):
        results.put("new")
    assert lines(results, old) == ["old"]
    assert [row["handle"] for row in results.list()] == [old]
    clock.forward(days=2)
    with pytest.raises(HandleExpired):
        results.query(old)


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_kept_object_survives_a_full_disk(disk: Path) -> None:
    """The handle works again once there is room."""
    results = open_results(disk)
    handles = [results.keep([number]) for number in range(3)]
    fill(disk)
    handles += [results.keep([number]) for number in range(3, 60)]
    with pytest.raises(StoreError):
        results.query(handles[0])

    (disk / "filler").unlink()

    assert [lines(results, handle) for handle in handles] == [[str(number)] for number in range(60)]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_whole_write_and_append_keep_what_was_there_on_a_full_disk(disk: Path) -> None:
    write_whole(disk / "whole", b"old")
    append(disk / "log", b"first\n")

    with pytest.raises(StoreError, match=r"disk/whole': the disk is full"):
        write_whole(disk / "whole", b"x" * 5_000_000)
    with pytest.raises(StoreError, match=r"disk/log': the disk is full"):
        append(disk / "log", b"x" * 5_000_000)

    assert (disk / "whole").read_bytes() == b"old"
    assert (disk / "log").read_bytes() == b"first\n"
    assert sorted(os.listdir(disk)) == ["log", "whole"]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_read_only_disk_is_named_and_reads(disk: Path) -> None:
    clock = Clock()
    results = open_results(disk, clock)
    old = results.put("old")
    before = names(results)
    make_read_only(disk)
    try:
        with pytest.raises(StoreError, match=r"Cannot write .*read-only"):
            results.put("new")
        with pytest.raises(StoreError, match="read-only"):
            results.delete(old)
        assert lines(results, old) == ["old"]
        assert results.reap() == 0
        clock.forward(days=2)
        for _ in range(2):
            with pytest.raises(HandleExpired):
                results.query(old)
        assert results.list() == []
    finally:
        make_writable(disk)
    assert names(results) == before


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_folder_that_cannot_be_made_is_named(disk: Path) -> None:
    make_read_only(disk)
    results = open_results(disk / "deep")
    try:
        with pytest.raises(StoreError, match=f"{disk}/deep.*read-only"):
            results.put("x")
    finally:
        make_writable(disk)
    assert results.list() == []


FAILING = {
    "write": ("write:error=ENOSPC", "full"),
    "a later write": ("write:error=EIO:when=3", "input/output"),
    "fsync of the file": ("fsync:error=EIO:when=1", "input/output"),
    "fsync of the sidecar": ("fsync:error=EIO:when=2", "input/output"),
    "fsync of the folder": ("fsync:error=EIO:when=3", "input/output"),
    "rename": ("rename:error=EACCES", "permission denied"),
    "rename, full": ("rename:error=ENOSPC", "full"),
}

ATTEMPT = """if True:
    import os, sys
    from pathlib import Path
    from onetool_ipy.base.files import StoreError, append, write_whole
    from onetool_ipy.stores.results import Results
    folder = Path(sys.argv[2])
    try:
        if sys.argv[1] == "put":
            Results(folder).put("new " * 200_000)
        elif sys.argv[1] == "whole":
            write_whole(folder / "whole", b"new")
        else:
            append(folder / "log", b"new", sync=True)
    except StoreError as exc:
        sys.exit(0 if str(folder) in str(exc) and sys.argv[3] in str(exc) else repr(exc))
    sys.exit("no error")
"""


def attempt(what: str, folder: Path, fault: tuple[str, str]) -> int:
    """Run the attempt with a failing system call, and say how often that call failed."""
    calls, words = fault
    command = [sys.executable, "-c", ATTEMPT, what, str(folder), words]
    done, failed = run_failing(calls, command, folder.with_suffix(".strace"), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return failed


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.parametrize("fault", FAILING.values(), ids=FAILING.keys())
def test_failing_call_of_put_leaves_the_store_as_it_was(
    tmp_path: Path, fault: tuple[str, str]
) -> None:
    results = Results(tmp_path / "results")
    old = results.put("old")
    before = names(results)

    landed = attempt("put", results.folder, fault)

    assert landed > 0
    assert names(results) == before
    assert lines(results, old) == ["old"]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.parametrize("name", ["write", "fsync of the file", "rename"])
def test_failing_call_of_a_whole_write_keeps_the_old_content(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "whole").write_bytes(b"old")

    landed = attempt("whole", folder, FAILING[name])

    assert landed > 0
    assert (folder / "whole").read_bytes() == b"old"
    assert os.listdir(folder) == ["whole"]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.parametrize("name", ["write", "fsync of the file"])
def test_failing_append_is_an_error(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    assert attempt("append", folder, FAILING[name]) > 0


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_attempt_without_a_fault_is_noticed(tmp_path: Path) -> None:
    """The control of the tests above: the same attempt, and nothing fails."""
    with pytest.raises(AssertionError, match="no error"):
        attempt("put", tmp_path / "results", ("fsync:error=EIO:when=999", "full"))
