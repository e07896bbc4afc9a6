"""One stored result: plain text, a sidecar, an index that is made when it is needed; lines found by
number, or cut."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onetool_ipy.base.files import StoreError
from onetool_ipy.stores.result_file import DamagedResult
from onetool_ipy.stores.results import Results
from tests.stores.results_aids import NUMBERED, Clock, lines, open_results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_results(tmp_path, Clock())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n", [""]),
        ("\n\n", ["", ""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\r\nb\rc", ["a", "b\rc"]),
        ("a\u2028b\u2029c\x0bd\x0ce\x85f", ["a\u2028b\u2029c\x0bd\x0ce\x85f"]),
        ("\ufeffa\x00b", ["\ufeffa\x00b"]),
        ("é€😀", ["é€😀"]),
        ("a\ud800b\udfff", ["a\\ud800b\\udfff"]),
    ],
    ids=[
        "empty",
        "newline",
        "newlines",
        "one",
        "ended",
        "blank",
        "CR",
        "separators",
        "BOM+NUL",
        "wide",
        "surrogates",
    ],
)
def test_lines_end_as_linux_or_windows_ends_them_and_text_stays_as_it_is(
    results: Results, text: str, expected: list[str]
) -> None:
    handle = results.put(text)

    found = results.query(handle)

    assert found["lines"] == expected
    assert found["total_lines"] == len(expected)


@pytest.mark.parametrize("width", [0, 1, 7, 100, 5_000, 16_384, 16_385, 40_000])
def test_every_line_of_a_large_result_is_found_by_number(results: Results, width: int) -> None:
    """Lines that are shorter than, longer than and exactly as long as a block of the index."""
    count = min(30_000, 6_000_000 // (width + 1))
    expected = [
        f"{number:06d}"[: min(width, 6)] + "x" * max(0, width - 6) for number in range(count)
    ]
    handle = results.put("".join(f"{line}\n" for line in expected))

    for first in {0, 1, count // 3, count // 2, count - 3, count - 1}:
        found = results.query(handle, offset=first + 1, limit=3)

        shown = [line.partition(" ... [cut")[0] for line in found["lines"]]
        assert shown == [line[:16_384] for line in expected[first : first + 3]]
        assert found["total_lines"] == count


def test_all_lines_come_back_page_by_page(results: Results) -> None:
    text = [f"{'é' * (number % 700)}{number}" for number in range(5_000)]
    handle = results.put("\n".join(text))

    back: list[str] = []
    while (found := results.query(handle, offset=len(back) + 1, limit=777))["returned"]:
        back += found["lines"]
        assert found["has_more"] == (len(back) < 5_000)

    assert back == text


def test_very_long_line_is_cut_with_a_mark_and_its_neighbours_are_not(results: Results) -> None:
    handle = results.put("before\n" + "é" * 500_000 + "\nafter")

    first, long, last = lines(results, handle)

    assert (first, last) == ("before", "after")
    assert long == "é" * 8_192 + " ... [cut: line of 1,000,000 bytes]"
    assert lines(results, handle, offset=3) == ["after"]


def test_answer_ends_at_32_mib_and_says_that_there_is_more(results: Results) -> None:
    handle = results.put(("y" * 9_999 + "\n") * 6_000)

    found = results.query(handle, limit=10**9)

    assert 32 * 1024 * 1024 <= sum(map(len, found["lines"])) < 36 * 1024 * 1024
    assert found["returned"] == len(found["lines"])
    assert found["has_more"]
    rest = results.query(handle, offset=found["returned"] + 1, limit=10**9)
    assert found["returned"] + rest["returned"] == 6_000


def test_answer_of_very_long_lines_ends_at_32_mib_too(results: Results) -> None:
    handle = results.put(("y" * 20_600 + "\n") * 2_500)

    found = results.query(handle, limit=10**9)

    assert 2_000 <= found["returned"] <= 2_100
    assert found["has_more"]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "short": lambda data: data[:20],
    "end missing": lambda data: data[:-2],
    "half": lambda data: data[: len(data) // 2],
    "start missing": lambda data: data[100:],
    "longer": lambda data: data + b"x",
    "text": lambda data: b"hello\n" * 100,
}


@pytest.mark.parametrize("suffix", ["txt", "json"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_file_costs_only_itself(
    results: Results, suffix: str, damage: Callable[[bytes], bytes]
) -> None:
    broken, good = results.put("x" * 99 + "\n" + "y" * 8_790), results.put("good")
    path = results.folder / f"{broken}.{suffix}"
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(DamagedResult, match=f"{broken}.*damaged"):
        results.query(broken)

    assert lines(results, good) == ["good"]
    assert [row["handle"] for row in results.list()] == [good]
    assert lines(results, results.put("new")) == ["new"]
    results.reap()
    assert lines(results, good) == ["good"]


@pytest.mark.parametrize("suffix", ["txt", "json"])
def test_damaged_result_is_removed_in_the_end(tmp_path: Path, suffix: str) -> None:
    clock = Clock()
    results = open_results(tmp_path, clock)
    handle = results.put("one\ntwo")
    (results.folder / f"{handle}.{suffix}").write_bytes(b"NONSENSE")

    clock.forward(days=40)
    results.reap()

    assert not list(results.folder.glob("*.txt"))


def test_result_is_a_text_file_that_any_program_can_read(results: Results) -> None:
    handle = results.put("über\nzwei\n", tool="demo.text", call_id="c1")

    assert (results.folder / f"{handle}.txt").read_text(encoding="utf-8") == "über\nzwei\n"
    assert json.loads((results.folder / f"{handle}.json").read_bytes()) == {
        "tool": "demo.text",
        "call_id": "c1",
        "created": "2026-11-15T12:00:00+00:00",
        "expires": "2026-11-16T12:00:00+00:00",
        "lines": 2,
        "bytes": 11,
        "form": {"form": "text"},
    }


LARGE = "".join(f"line {number}\n" for number in range(500_000))


def test_index_is_written_beside_a_large_text_when_its_lines_are_read(results: Results) -> None:
    small, large = results.put(NUMBERED), results.put(LARGE)
    assert not list(results.folder.glob("*.npy"))

    assert lines(results, small, offset=500) == ["line 500"]
    assert lines(results, large, offset=499_999) == ["line 499998", "line 499999"]

    (index,) = results.folder.glob("*.npy")
    assert index.stem == large
    starts = np.load(index)
    assert (starts.dtype, len(starts), starts[1], starts[-1]) == (np.uint32, 500_001, 7, len(LARGE))


BAD_INDEXES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "short": lambda data: data[:-100],
    "no index": lambda data: b"hello\n" * 100,
    "of another text": lambda data: data[:-4] + b"\1\0\0\0",
    "a pickle": lambda data: b"\x80\x04N.",
}


@pytest.mark.parametrize("damage", BAD_INDEXES.values(), ids=BAD_INDEXES.keys())
def test_damaged_index_is_made_again(
    results: Results, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    handle = results.put(LARGE)
    results.query(handle)
    (index,) = results.folder.glob("*.npy")
    before = index.read_bytes()
    index.write_bytes(damage(before))

    assert lines(open_results(tmp_path), handle, offset=250_001, limit=1) == ["line 250000"]
    assert index.read_bytes() == before


def test_index_that_cannot_be_written_is_kept_in_memory(results: Results) -> None:
    handle = results.put(LARGE)
    (results.folder / f"{handle}.npy").mkdir()

    assert lines(results, handle, offset=250_001, limit=1) == ["line 250000"]
    assert not list(results.folder.glob(".onetool-*")), "no temp file stays"


def test_index_goes_with_its_text(results: Results) -> None:
    deleted, evicted = results.put(LARGE), results.put(LARGE)
    for handle in (deleted, evicted):
        results.query(handle)

    results.delete(deleted)
    (results.folder / f"{evicted}.txt").unlink()
    results.reap()

    assert [path.name for path in results.folder.iterdir()] == [f"{evicted}.json"]


def test_file_that_shrinks_after_it_was_opened_once_is_an_error_and_no_crash(
    results: Results,
) -> None:
    handle = results.put(NUMBERED)
    results.query(handle)
    path = results.folder / f"{handle}.txt"
    path.write_bytes(path.read_bytes()[:1_000])

    with pytest.raises(DamagedResult):
        results.query(handle, offset=400)


@pytest.mark.parametrize(
    "kind", ["folder", "link", pytest.param("pipe", marks=pytest.mark.posix("pipes in folders"))]
)
def test_what_is_no_file_of_ours_is_an_error_and_no_wait(
    results: Results, tmp_path: Path, kind: str
) -> None:
    handle = results.put("x")
    path = results.folder / f"{handle}.txt"
    (tmp_path / "elsewhere").write_bytes(path.read_bytes())
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(path)

    with pytest.raises(StoreError, match=handle):
        results.query(handle)
    assert results.list() == []
