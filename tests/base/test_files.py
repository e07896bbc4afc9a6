"""Whole writes, appends and locks, on a disk that behaves. What happens on others is in
tests/faults."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.files import (
    MAX_BYTES,
    AtomicFile,
    StoreError,
    Unreadable,
    alocked,
    append,
    locked,
    read,
    read_own,
    remove_stale_temp_files,
    write_whole,
)
from tests.harness.programs import python
from tests.harness.systems import has_mode


def test_whole_write_replaces_the_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"old, and longer")

    write_whole(tmp_path / "a", b"new")

    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_whole_write_makes_missing_folders_for_the_owner_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "x" / "y" / "a", b"1")

    assert (tmp_path / "x" / "y" / "a").read_bytes() == b"1"
    assert has_mode(tmp_path / "x" / "y", 0o700)


@pytest.mark.posix("modes of files")
def test_new_file_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").write_bytes(b"")
    (tmp_path / "shared").chmod(0o644)

    write_whole(tmp_path / "shared", b"1")
    write_whole(tmp_path / "fresh", b"1")

    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o600


def test_link_is_written_through_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")

    write_whole(tmp_path / "link", b"new")

    assert (tmp_path / "target").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("target", ["target", "missing"])
def test_link_is_refused_where_none_may_be_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(target)

    with pytest.raises(StoreError, match=r"link'.*symbolic link"):
        write_whole(tmp_path / "link", b"new", nofollow=True)

    assert (tmp_path / "target").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["link", "target"]


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="folder") as caught:
        write_whole(tmp_path, b"x")
    assert caught.value.path == tmp_path


@pytest.mark.posix("pipes and devices in folders")
def test_what_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(StoreError, match="plain file") as caught:
            write_whole(path, b"x")
        assert caught.value.path == path


@pytest.mark.parametrize(
    "name", ["a\0b", "x" * 300, "file/inside"], ids=["NUL", "too long", "not a folder"]
)
def test_bad_path_is_one_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")

    for work in (
        lambda p: write_whole(p, b"x"),
        lambda p: append(p, b"x"),
        lambda p: locked(p).__enter__(),
    ):
        with pytest.raises(StoreError) as caught:
            work(tmp_path / name)
        assert isinstance(caught.value, OneToolError)
        assert str(tmp_path) in str(caught.value)


def test_a_plain_file_is_read_whole_and_a_missing_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")

    content = read(tmp_path / "a")

    assert content is not None
    assert (content.data, content.stat.st_size) == (b"text", 4)
    assert read(tmp_path / "b") is read(tmp_path / "a" / "b") is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder", "is a folder, not a file."),
        pytest.param(
            *("pipe", "is not a regular file."), marks=pytest.mark.posix("pipes in folders")
        ),
        ("link", "is a link to a file that does not exist."),
        ("large", f"is too large: {MAX_BYTES + 1:,} bytes; the limit is {MAX_BYTES:,}."),
        ("\0", "cannot be read: "),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    if name == "pipe":
        os.mkfifo(tmp_path / "pipe")
    if name == "link":
        (tmp_path / "link").symlink_to("nowhere")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(MAX_BYTES + 1)

    with pytest.raises(Unreadable) as caught:
        read(tmp_path / name)

    assert str(caught.value).startswith(words)


def test_of_ones_own_files_only_small_plain_ones_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("a")

    assert read_own(tmp_path / "a", 4) == b"1234"
    assert [
        read_own(tmp_path / "a", 3),
        read_own(tmp_path / "link", 4),
        read_own(tmp_path / "b", 4),
    ] == [None] * 3


def test_atomic_file_is_invisible_until_it_is_committed(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "a") as file:
        file.write(b"one")
        file.write(memoryview(b"two"))
        assert not (tmp_path / "a").exists()
        file.commit()

    assert (tmp_path / "a").read_bytes() == b"onetwo"
    assert file.size == 6
    assert os.listdir(tmp_path) == ["a"]


def test_atomic_file_is_closed_while_a_library_writes_it(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "a") as file:
        with file.lent() as temp:
            with pytest.raises(StoreError):
                file.write(b"ours")
            temp.write_bytes(b"theirs")
        assert not (tmp_path / "a").exists()
        file.commit()

    assert (tmp_path / "a").read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["a"]


def test_atomic_file_without_a_commit_leaves_nothing(tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), AtomicFile(tmp_path / "a") as file:
        file.write(b"one")
        raise ZeroDivisionError

    assert os.listdir(tmp_path) == []


def test_stale_temp_files_are_those_of_dead_writers_and_old_ones_of_other_machines(
    tmp_path: Path,
) -> None:
    dying = (
        "import os, sys; from pathlib import Path; from onetool_ipy.base.files import AtomicFile\n"
        "with AtomicFile(Path(sys.argv[1])) as file: file.write(b'half'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", dying, str(tmp_path / "b")], check=False)
    for name in (".somebody-elses.tmp", ".onetool-elsewhere-1-0123456789abcdef.tmp"):
        (tmp_path / name).write_bytes(b"")
    old = tmp_path / ".onetool-elsewhere-2-0123456789abcdef.tmp"
    old.write_bytes(b"")
    os.utime(old, (1, 1))

    with AtomicFile(tmp_path / "a") as living:
        assert len(os.listdir(tmp_path)) == 5
        removed = remove_stale_temp_files(tmp_path)
        living.write(b"whole")
        living.commit()

    assert removed == 2
    assert sorted(os.listdir(tmp_path)) == [
        ".onetool-elsewhere-1-0123456789abcdef.tmp",
        ".somebody-elses.tmp",
        "a",
    ]
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert remove_stale_temp_files(tmp_path / "missing") == 0


def test_append_adds_to_the_end(tmp_path: Path) -> None:
    append(tmp_path / "deep" / "log", b"one\n")
    append(tmp_path / "deep" / "log", b"two\n", sync=True)

    assert (tmp_path / "deep" / "log").read_bytes() == b"one\ntwo\n"
    assert has_mode(tmp_path / "deep" / "log", 0o600)


@pytest.mark.linux("/dev/full")
def test_append_names_its_file_when_it_fails() -> None:
    with pytest.raises(StoreError, match=r"/dev/full.*disk is full"):
        append(Path("/dev/full"), b"x")


@pytest.mark.posix("symbolic links without a right of their own")
def test_append_through_a_link_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"kept\n")
    (tmp_path / "log").symlink_to(tmp_path / "theirs")

    with pytest.raises(StoreError, match="symbolic link"):
        append(tmp_path / "log", b"more\n")

    assert (tmp_path / "theirs").read_bytes() == b"kept\n"


@pytest.mark.posix("pipes in folders")
def test_append_to_a_pipe_that_nobody_reads_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(StoreError, match="pipe"):
        append(tmp_path / "pipe", b"x")


@pytest.mark.posix("limits of processes")
def test_record_that_got_there_in_part_is_taken_back(tmp_path: Path) -> None:
    """A file that may grow by half a record only, as on a disk that fills up in the middle of a
    write."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from onetool_ipy.base.files import StoreError, append\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "log = Path(sys.argv[1]); append(log, b'first\\n')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try: append(log, b'0123456789')\n"
        "except StoreError as exc: print(exc)\n"
    )

    done = python(code, tmp_path / "log", check=False)

    assert "too large" in done.stdout, done.stderr
    assert (tmp_path / "log").read_bytes() == b"first\n"


def test_lock_has_one_holder_among_threads(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with locked(tmp_path / "a"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0002)  # long enough for another thread to get in, if the lock let it
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(most) == 80
    assert max(most) == 1


def test_lock_that_is_not_given_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    with locked(tmp_path / "a"):
        began = time.monotonic()
        with (
            pytest.raises(StoreError, match=r"Cannot lock '.*[/\\]a'.*0\.2 s") as caught,
            locked(tmp_path / "a", 0.2),
        ):
            pass
        took = time.monotonic() - began

    assert took >= 0.2, "it waited as long as it may"
    assert ".lock" in caught.value.hint
    with locked(tmp_path / "a", 0.0):
        pass


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from onetool_ipy.base.files import locked\n"
        "with locked(Path(sys.argv[1])): os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=False)

    with locked(tmp_path / "a", 0.0):
        pass


async def test_an_async_lock_waits_without_blocking_the_loop(tmp_path: Path) -> None:
    steps: list[str] = []

    async def second() -> None:
        async with alocked(tmp_path / "a"):
            steps.append("second")

    async with alocked(tmp_path / "a"):
        task = asyncio.create_task(second())
        await asyncio.sleep(0)
        with pytest.raises(StoreError, match="0 s"):
            async with alocked(tmp_path / "a", 0.0):
                pass
        steps.append("first")
    await task

    assert steps == ["first", "second"]
