"""What differs between systems about files: files in use, locks, paths of Windows."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onetool_ipy.base.files import (
    StoreError,
    Unreadable,
    append,
    append_to,
    claim,
    is_in_use,
    is_inside,
    open_plain,
    open_to_append,
    place_of,
    read,
    remove,
    windows_fault,
    write_whole,
)
from tests.harness import macos
from tests.harness.programs import python


class TestFilesInUse:
    """Three readers and sixteen writers, as two kernels, a scanner and a synchronizer are."""

    def test_what_was_written_is_there_under_readers_and_writers(self, tmp_path: Path) -> None:
        file, texts, faults = tmp_path / "kept.json", set[bytes](), list[Exception]()
        write_whole(file, b"first" * 400)
        is_over = threading.Event()

        def write(number: int) -> None:
            turn = 0
            while turn < 4:
                text = b"%d-%d " % (number, turn) * 400
                try:
                    write_whole(file, text)
                except StoreError as exc:
                    # On a busy machine 2 s may not be enough: the file is as it was.
                    if exc.reason == "another program has it open":
                        continue
                    faults.append(exc)
                    return
                texts.add(text)
                turn += 1

        def look() -> None:
            while not is_over.is_set():
                try:
                    content = read(file)
                    assert content is not None
                    assert len(set(content.data.split())) == 1, "a mixture of two"
                    is_over.wait(0.002)
                except (Unreadable, AssertionError) as exc:
                    faults.append(exc)
                    return

        readers = [threading.Thread(target=look) for _ in range(3)]
        writers = [threading.Thread(target=write, args=(number,)) for number in range(16)]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        is_over.set()
        for thread in readers:
            thread.join()

        assert faults == []
        last = read(file)
        assert last is not None
        assert last.data in texts
        assert os.listdir(tmp_path) == ["kept.json"]

    @pytest.mark.windows("other systems replace a file that is open")
    def test_a_file_in_use_is_named_as_such_after_a_while(self, tmp_path: Path) -> None:
        file = tmp_path / "kept.json"
        write_whole(file, b"old")
        began = time.monotonic()

        with file.open("rb"), pytest.raises(StoreError, match="another program has it open"):
            write_whole(file, b"new")

        assert time.monotonic() - began >= 2.0
        assert file.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["kept.json"]

    @pytest.mark.windows("other systems remove a file that is open")
    def test_a_file_is_removed_when_its_reader_lets_go(self, tmp_path: Path) -> None:
        file = tmp_path / "kept.json"
        file.write_bytes(b"old")
        reader = file.open("rb")
        timer = threading.Timer(0.3, reader.close)
        timer.start()

        remove(file)

        timer.join()
        assert not file.exists()

    @pytest.mark.windows("elsewhere the folder decides")
    def test_a_read_only_file_is_named_as_such_and_left_as_it_is(self, tmp_path: Path) -> None:
        file = tmp_path / "kept.json"
        file.write_bytes(b"old")
        file.chmod(0o444)

        with pytest.raises(StoreError, match="it is read-only") as caught:
            write_whole(file, b"new")

        assert "attribute" in caught.value.hint
        assert file.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["kept.json"], "no temp file"

    @pytest.mark.posix("Windows replaces no read-only file")
    def test_a_read_only_file_is_replaced_and_stays_read_only(self, tmp_path: Path) -> None:
        file = tmp_path / "kept.json"
        file.write_bytes(b"old")
        file.chmod(0o444)

        write_whole(file, b"new")

        assert file.read_bytes() == b"new"
        assert file.stat().st_mode & 0o777 == 0o444

    def test_what_is_denied_for_another_reason_is_not_waited_for(self, tmp_path: Path) -> None:
        assert not is_in_use(tmp_path, PermissionError(13, "denied"))
        assert not is_in_use(tmp_path / "missing", PermissionError(13, "denied"))

    def test_a_folder_is_read_as_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(Unreadable, match="is a folder"):
            read(tmp_path)


def test_one_process_claims_a_file_until_it_closes_it(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"line\n")
    script = (
        "import os, sys; from onetool_ipy.base.files import claim;"
        "print(claim(os.open(sys.argv[1], os.O_RDWR)))"
    )

    def other() -> str:
        return python(script, file).stdout.strip()

    fd = os.open(file, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
    try:
        assert claim(fd)
        assert other() == "False"
        # Its owner and readers go on, from where they were.
        os.write(fd, b"more\n")
        assert file.read_bytes() == b"line\nmore\n"
    finally:
        os.close(fd)
    assert other() == "True"


_NAMES = st.lists(st.sampled_from(["a", "A", "ab", "b", "ü", ".x"]), max_size=4)


@given(_NAMES, _NAMES)
def test_inside_is_what_the_parts_of_the_paths_say(path: list[str], folder: list[str]) -> None:
    top = Path(os.path.abspath(os.sep))
    one, other = top.joinpath(*path), top.joinpath(*folder)

    assert is_inside(str(one), str(other)) == one.is_relative_to(other)


@pytest.mark.parametrize("name", ["plain.txt", "Ünicode ö.txt"])
def test_an_open_file_tells_its_place(tmp_path: Path, name: str) -> None:
    file = Path(os.path.realpath(tmp_path)) / name
    file.write_text("x")
    fd = open_plain(str(file))
    try:
        assert place_of(fd, "elsewhere") == str(file)
    finally:
        os.close(fd)


@pytest.mark.linux("what macOS answers about a file is made of what Linux knows")
@pytest.mark.parametrize("is_network_drive", [False, True])
def test_a_file_is_brought_to_the_disk_itself_as_on_macos(
    tmp_path: Path, is_network_drive: bool
) -> None:
    """There fsync ends at the cache of the drive. A network drive has nothing but fsync."""
    said = macos.run(
        "from pathlib import Path\n"
        "from onetool_ipy.base.files import write_whole\n"
        "write_whole(Path(sys.argv[1]), b'kept')\n"
        "print(len(macos.SYNCED))\n",
        str(tmp_path / "file"),
        is_network_drive=is_network_drive,
    )

    assert int(said) >= 1 if not is_network_drive else int(said) == 0
    assert (tmp_path / "file").read_bytes() == b"kept"


@pytest.mark.windows("handles that may do nothing but append")
def test_no_record_lands_on_that_of_another_process(tmp_path: Path) -> None:
    """Between the look for the end and the write another process may have written."""
    assert sys.platform == "win32"
    import _winapi
    import msvcrt

    append(tmp_path / "log", b"of another\n")
    fd = open_to_append(tmp_path / "log")
    os.lseek(fd, 0, os.SEEK_SET)

    _winapi.WriteFile(msvcrt.get_osfhandle(fd), b"ours\n")

    append_to(fd, b"more\n")
    os.close(fd)
    assert (tmp_path / "log").read_bytes() == b"of another\nours\nmore\n"


@pytest.mark.linux("what macOS answers about a file is made of what Linux knows")
def test_an_open_file_tells_where_it_lies_now_as_on_macos(tmp_path: Path) -> None:
    """The name that it was opened by may lead elsewhere by then."""
    said = macos.run(
        "import os\n"
        "from onetool_ipy.base.files import place_of\n"
        "os.chdir(sys.argv[1]), open('Before', 'w').close()\n"
        "fd = os.open('Before', os.O_RDONLY)\n"
        "os.rename('Before', 'After ü')\n"
        "print(place_of(fd, 'Before'))\n",
        str(tmp_path),
    )

    assert said.strip() == os.path.realpath(tmp_path / "After ü")


@pytest.mark.parametrize(
    "path",
    [
        *(r"\\?\C:\a", r"//?/C:/a", r"\\.\C:", r"\??\C:\a", r"\\.\pipe\x", r"\\server\share\a"),
        *("//server/share/a", "C:a", "C:", r"C:\a:b", "a:b", r"a.txt::$DATA", r"C:\a\con", "nul"),
        *("aux.txt", r"x\COM1", "lpt³.log", "CONIN$", "com1 .txt", "a.", "a ", r"a.\b", r"a \b"),
        *(".onetool./secrets.yaml", ".onetool /secrets.yaml", "secrets.yaml:", "nul:", "..."),
    ],
)
def test_paths_that_windows_reads_in_its_own_way_are_refused(path: str) -> None:
    assert windows_fault(path, [r"\\other\share", "C:"])


@pytest.mark.parametrize(
    "path",
    [
        "a.txt",
        r"C:\a\b",
        "C:/a/../b",
        r"\\Server\Share\a",
        "console.txt",
        "com.txt",
        ".",
        "..",
        "",
        ".onetool/x",
        "com10",
        "nullable",
        r"\a",
        "./a",
    ],
)
def test_other_paths_are_looked_at(path: str) -> None:
    assert windows_fault(path, [r"\\server\share", "C:"]) == ""


_PIECES = st.sampled_from(["a", "secrets.yaml", ".onetool", "..", ".", "/", "\\", ":", " ", "NUL"])


@example("\\:\\\\ .onetool\\\\")
@example("a:\\a")
@given(st.lists(_PIECES, max_size=8).map("".join))
def test_what_is_let_through_has_only_names_that_stay_as_they_are(path: str) -> None:
    """The naive twin of Windows: it drops dots and blanks at the end of a name, and reads a stream
    behind a colon."""
    if windows_fault(path, []):
        return
    for name in re.sub("^[a-z]:", "", path).replace("/", "\\").split("\\"):
        assert name in (".", "..") or name.rstrip(". ") == name
        assert ":" not in name
        assert name.split(".")[0].strip().upper() != "NUL"


@pytest.mark.windows("drives and shares")
@pytest.mark.parametrize("place", ["Q:\\none\\f", "\\\\no-such-host\\share\\f", "Q:f"])
def test_a_drive_that_is_not_there_is_an_error_that_names_the_path(place: str) -> None:
    with pytest.raises(StoreError, match="no such file") as caught:
        write_whole(Path(place), b"x")

    assert place.startswith(str(caught.value.path)), "the first folder that is missing"
