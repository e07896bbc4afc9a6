"""Whole writes, appends and locks, on a disk that behaves. What happens on others is in tests/faults."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.files import Draft, StoreError, append, locked, sweep, write_whole


def test_whole_write_replaces_the_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"old, and longer")

    write_whole(tmp_path / "a", b"new")

    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_whole_write_makes_missing_folders_for_the_owner_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "x" / "y" / "a", b"1")

    assert (tmp_path / "x" / "y" / "a").read_bytes() == b"1"
    assert (tmp_path / "x" / "y").stat().st_mode & 0o077 == 0


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


def test_what_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, why in [(tmp_path, "folder"), (tmp_path / "pipe", "plain file"), (Path("/dev/null"), "plain file")]:
        with pytest.raises(StoreError, match=why) as caught:
            write_whole(path, b"x")
        assert caught.value.path == path


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "file/inside"], ids=["NUL", "too long", "not a folder"])
def test_bad_path_is_one_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")

    for work in (lambda p: write_whole(p, b"x"), lambda p: append(p, b"x"), lambda p: locked(p)):
        with pytest.raises(StoreError) as caught:
            work(tmp_path / name)
        assert isinstance(caught.value, OneToolError)
        assert str(tmp_path) in str(caught.value)


def test_draft_is_invisible_until_it_is_published(tmp_path: Path) -> None:
    draft = Draft(tmp_path / "a")
    draft.open()
    draft.write(b"one")
    draft.write(memoryview(b"two"))
    assert not (tmp_path / "a").exists()

    draft.publish()

    assert (tmp_path / "a").read_bytes() == b"onetwo"
    assert draft.size == 6


def test_discarded_draft_leaves_nothing_also_twice(tmp_path: Path) -> None:
    draft = Draft(tmp_path / "a")
    draft.open()
    draft.write(b"one")

    draft.discard()
    draft.discard()

    assert os.listdir(tmp_path) == []


def test_sweep_takes_what_the_dead_left_and_nothing_of_the_living(tmp_path: Path) -> None:
    living = Draft(tmp_path / "a")
    living.open()
    dying = (
        "import os, sys; from pathlib import Path; from onetool_ipy.base.files import Draft\n"
        "draft = Draft(Path(sys.argv[1])); draft.open(); draft.write(b'half'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", dying, str(tmp_path / "b")], check=False)
    (tmp_path / ".somebody-elses.tmp").write_bytes(b"")
    assert len(os.listdir(tmp_path)) == 3

    removed = sweep(tmp_path)
    living.write(b"whole")
    living.publish()

    assert removed == 1
    assert sorted(os.listdir(tmp_path)) == [".somebody-elses.tmp", "a"]
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_sweep_of_a_missing_folder_finds_nothing(tmp_path: Path) -> None:
    assert sweep(tmp_path / "missing") == 0


def test_append_adds_to_the_end(tmp_path: Path) -> None:
    append(tmp_path / "deep" / "log", b"one\n")
    append(tmp_path / "deep" / "log", b"two\n", sync=True)

    assert (tmp_path / "deep" / "log").read_bytes() == b"one\ntwo\n"
    assert (tmp_path / "deep" / "log").stat().st_mode & 0o777 == 0o600


def test_append_to_a_descriptor_names_its_file_when_it_fails() -> None:
    fd = os.open("/dev/full", os.O_WRONLY | os.O_APPEND)
    try:
        with pytest.raises(StoreError, match=r"/dev/full.*disk is full"):
            append(Path("/dev/full"), b"x", fd=fd)
    finally:
        os.close(fd)


def test_append_to_a_pipe_that_nobody_reads_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(StoreError, match="pipe"):
        append(tmp_path / "pipe", b"x")


def test_record_that_got_there_in_part_is_taken_back(tmp_path: Path) -> None:
    """A file that may grow by half a record only, as on a disk that fills up in the middle of a write."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from onetool_ipy.base.files import StoreError, append\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "log = Path(sys.argv[1]); append(log, b'first\\n')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try: append(log, b'0123456789')\n"
        "except StoreError as exc: print(exc)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, text=True, check=False
    )

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
        with pytest.raises(StoreError, match=r"Cannot lock '.*/a'.*0\.2 s") as caught:
            locked(tmp_path / "a", 0.2)
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


def test_lock_is_free_after_any_exception_while_its_traceback_lives(tmp_path: Path) -> None:
    caught: list[BaseException] = []
    try:
        with locked(tmp_path / "a"):
            raise KeyboardInterrupt
    except KeyboardInterrupt as exc:
        caught.append(exc)

    with locked(tmp_path / "a", 0.0):
        assert caught[0].__traceback__ is not None
