"""Stored results as their users see them: handles, pages, how long they live, who can read them."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.stores.result_file import DamagedResult
from onetool_ipy.stores.results import (
    HandleExpired,
    HandleNotFound,
    Results,
    mask_stream,
    new_handle,
)
from tests.harness.programs import python
from tests.stores.results_aids import (
    NUMBERED,
    SECRET,
    START,
    Clock,
    hide,
    lines,
    names,
    open_results,
)

KEYS = ["lines", "total_lines", "returned", "offset", "has_more"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def results(tmp_path: Path, clock: Clock) -> Results:
    return open_results(tmp_path, clock)


@pytest.mark.spec("001/Query Stored Results/Basic query with defaults")
def test_query_gives_the_first_hundred_lines(results: Results) -> None:
    handle = results.put(NUMBERED)

    assert lines(results, handle) == [f"line {number}" for number in range(1, 101)]


@pytest.mark.spec("001/Query Stored Results/Query with offset and limit")
def test_query_offset_and_limit_choose_the_lines(results: Results) -> None:
    handle = results.put(NUMBERED)

    assert lines(results, handle, offset=101, limit=50) == [
        f"line {number}" for number in range(101, 151)
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"offset": "1"}, "offset must be a whole number, got '1'"),
        ({"offset": 1.5}, "offset must be a whole number, got 1.5"),
        ({"offset": float("nan")}, "offset must be a whole number, got nan"),
        ({"offset": None}, "offset must be a whole number, got None"),
        ({"limit": [1]}, "limit must be a whole number, got [1]"),
        ({"limit": True}, "limit must be a whole number, got True"),
        ({"search": 5}, "search must be text, got 5"),
        ({"search": b"x"}, "search must be text, got b'x'"),
        ({"search": ["x"], "fuzzy": True}, "search must be text, got ['x']"),
    ],
    ids=str,
)
def test_query_says_what_kind_of_value_it_wants(
    results: Results, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError) as caught:
        results.query(results.put(NUMBERED), **given)
    assert str(caught.value) == said


@pytest.mark.parametrize("huge", [2**31, 2**63, 2**64 + 1, 10**30])
@pytest.mark.parametrize(
    "more", [{}, {"search": "line"}, {"search": "line", "fuzzy": True}], ids=str
)
def test_query_takes_huge_numbers(results: Results, huge: int, more: dict[str, Any]) -> None:
    handle = results.put("line\n" * 3)

    assert results.query(handle, offset=huge, **more)["lines"] == []
    assert results.query(handle, limit=huge, **more)["lines"] == ["line"] * 3


@pytest.mark.spec("001/Query Stored Results/Query response format")
def test_query_answers_with_these_keys_and_no_others(results: Results) -> None:
    handle = results.put(NUMBERED)

    found = results.query(handle, offset=499, limit=2)

    assert list(found) == KEYS
    assert found == {
        "lines": ["line 499", "line 500"],
        "total_lines": 500,
        "returned": 2,
        "offset": 499,
        "has_more": False,
    }


@pytest.mark.spec("001/Query Stored Results/1-indexed offset")
def test_query_offset_starts_at_one(results: Results) -> None:
    handle = results.put("first\nsecond\n")

    assert lines(results, handle, offset=1, limit=1) == ["first"]


@pytest.mark.spec("001/Query Stored Results/Offset validation")
@pytest.mark.parametrize("offset", [0, -1, -(10**12)])
def test_query_refuses_an_offset_below_one(results: Results, offset: int) -> None:
    handle = results.put("x")

    with pytest.raises(ValueError, match=rf"^offset must be >= 1 \(1-indexed\), got {offset}$"):
        results.query(handle, offset=offset)


@pytest.mark.spec("001/Query Stored Results/Limit validation")
@pytest.mark.parametrize("limit", [0, -1])
def test_query_refuses_a_limit_below_one(results: Results, limit: int) -> None:
    handle = results.put("x")

    with pytest.raises(ValueError, match=rf"^limit must be >= 1, got {limit}$"):
        results.query(handle, limit=limit)


@pytest.mark.parametrize("offset", [501, 10**12, 10**30])
def test_query_past_the_end_is_empty(results: Results, offset: int) -> None:
    handle = results.put(NUMBERED)

    found = results.query(handle, offset=offset, limit=10**30)

    assert found == {
        "lines": [],
        "total_lines": 500,
        "returned": 0,
        "offset": offset,
        "has_more": False,
    }


BAD_HANDLES = {
    "climbing": "../../etc/passwd",
    "root": "/",
    "absolute": "/etc/passwd",
    "empty": "",
    "dot": ".",
    "NUL": "abc\0def",
    "newline": "abcdefghjkmn\n",
    "upper case": "ABCDEFGHJKMN",
    "other digits": "a٠١٢٣٤٥٦٧٨٩b",
    "huge": "a" * 10_000_000,
    "surrogate": "\ud800" * 12,
    "with suffix": "abcdefghjkmn.txt",
    "never given": "abcdefghjkmn",
    "number": 123456789012,
    "nothing": None,
    "list": ["abcdefghjkmn"],
}


@pytest.mark.spec("001/Query Stored Results/Invalid handle")
@pytest.mark.parametrize("handle", BAD_HANDLES.values(), ids=BAD_HANDLES.keys())
def test_unknown_handle_is_not_found(results: Results, handle: Any) -> None:
    results.put("something else")

    for ask in (results.query, results.describe, results.store):
        with pytest.raises(HandleNotFound, match="Handle not found") as caught:
            ask(handle)
        assert len(str(caught.value)) < 200
    assert results.delete(handle) is False


def test_unsafe_handle_touches_no_path(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from onetool_ipy.stores.results import HandleNotFound
        from tests.stores.results_aids import open_results
        from tests.stores.test_results import BAD_HANDLES
        results = open_results(Path(sys.argv[1]))
        touched = []
        sys.addaudithook(lambda event, args: touched.append(str(args[0])) if event in ("open", "os.remove") else None)
        for handle in BAD_HANDLES.values():
            try:
                results.query(handle)
            except HandleNotFound:
                results.delete(handle)
        open("/dev/null").close()
        print(*(path for path in touched if not path.startswith(sys.argv[1])))
        """

    done = python(code, tmp_path, check=False)

    # Which the code opened itself, as a control.
    assert done.stdout.split() == ["/dev/null"], done.stderr


@pytest.mark.slow
def test_handles_are_short_safe_and_all_different() -> None:
    given = {new_handle() for _ in range(20_000)}

    assert len(given) == 20_000
    assert all(
        len(handle) == 12 and handle.isalnum() and handle.islower() and handle[0].isalpha()
        for handle in given
    )


@pytest.mark.spec("001/Query Stored Results/Expired handle")
def test_expired_handle_says_so_every_time_and_in_every_process(
    results: Results, clock: Clock, tmp_path: Path
) -> None:
    handle = results.put("x")
    clock.forward(days=1, seconds=-1)
    assert lines(results, handle) == ["x"]
    clock.forward(seconds=1)

    for _ in range(2):
        with pytest.raises(HandleExpired, match="expired"):
            results.query(handle)
    with pytest.raises(HandleExpired):
        open_results(tmp_path, clock).query(handle)
    assert names(results) == [f"{handle}.json"], "the sidecar stays, to tell"


def test_expired_handle_that_nobody_asked_for_is_removed_by_reap(
    results: Results, clock: Clock
) -> None:
    old = results.put("old")
    clock.forward(hours=23)
    young = results.put("young")
    clock.forward(hours=1)

    removed = results.reap()

    assert removed == 1
    assert names(results) == sorted([f"{old}.json", f"{young}.json", f"{young}.txt"])
    with pytest.raises(HandleExpired):
        results.query(old)


def test_clock_set_back_a_day_loses_nothing_and_revives_nothing(
    results: Results, clock: Clock
) -> None:
    gone = results.put("gone")
    clock.forward(days=1)
    with pytest.raises(HandleExpired):
        results.query(gone)
    kept = results.put("kept")
    clock.forward(days=-1)

    results.reap()

    assert lines(results, kept) == ["kept"]
    with pytest.raises(HandleExpired):
        results.query(gone)


def test_clock_set_back_does_not_make_new_results_the_first_to_go(
    tmp_path: Path, clock: Clock
) -> None:
    results = open_results(tmp_path, clock, max_bytes=4_000)
    old = [results.put("a" * 1_000) for _ in range(3)]
    clock.forward(days=-1)

    new = [results.put("b" * 1_000) for _ in range(2)]

    assert [lines(results, handle) for handle in new] == [["b" * 1_000]] * 2
    with pytest.raises(HandleExpired):
        results.query(old[0])


def test_folder_copied_without_its_times_keeps_its_results(results: Results) -> None:
    handle = results.put("x")
    os.utime(results.folder / f"{handle}.txt", (0, 0))

    assert results.reap() == 0
    assert lines(results, handle) == ["x"]


def test_sidecar_of_an_expired_result_goes_after_thirty_days(
    results: Results, clock: Clock
) -> None:
    handle = results.put("x")
    clock.forward(days=2)
    results.reap()
    clock.forward(days=31)
    results.reap()

    assert names(results) == []
    with pytest.raises(HandleNotFound):
        results.query(handle)


def test_quota_removes_the_oldest_first_and_never_the_newest(tmp_path: Path, clock: Clock) -> None:
    results = open_results(tmp_path, clock, max_bytes=5_000)
    handles = []
    for number in range(8):
        clock.forward(seconds=1)
        handles.append(results.put(str(number) * 1_000))

    left = [row["handle"] for row in results.list()]

    assert left == handles[:-5:-1]
    assert (
        sum(path.stat().st_size for path in results.folder.iterdir() if path.stem in left) <= 5_000
    )
    with pytest.raises(HandleExpired, match="make room"):
        results.query(handles[0])


def test_result_larger_than_the_quota_is_still_readable(tmp_path: Path) -> None:
    results = open_results(tmp_path, max_bytes=1_000)
    small = results.put("small")

    large = results.put("x" * 50_000)

    assert results.query(large)["total_lines"] == 1
    with pytest.raises(HandleExpired):
        results.query(small)


def test_list_tells_what_there_is_newest_first(results: Results, clock: Clock) -> None:
    first = results.put("a\nb\n", tool="demo.text")
    clock.forward(seconds=1)
    second = results.keep([{"a": 1}], tool="demo.rows")

    rows = results.list()

    assert rows == [
        {
            "handle": second,
            "tool": "demo.rows",
            "created": START + timedelta(seconds=1),
            "lines": None,
            "bytes": None,
            "expires": START + timedelta(days=1, seconds=1),
        },
        {
            "handle": first,
            "tool": "demo.text",
            "created": START,
            "lines": 2,
            "bytes": 4,
            "expires": START + timedelta(days=1),
        },
    ]
    assert results.describe(first) == rows[1]
    assert results.describe(second) == rows[0]


def test_list_of_a_new_project_is_empty_and_makes_no_folder(results: Results) -> None:
    assert results.list() == []
    assert results.reap() == 0
    assert not results.folder.exists()


def test_deleted_handle_is_not_found(results: Results) -> None:
    handle, kept = results.put("x"), results.keep(["y"])

    assert results.delete(handle)
    assert results.delete(kept)

    assert not results.delete(handle)
    assert names(results) == []
    for one in (handle, kept):
        with pytest.raises(HandleNotFound):
            results.query(one)


def test_handle_works_in_another_process(results: Results, tmp_path: Path) -> None:
    handle = results.put("über\n")
    code = (
        "import sys; from pathlib import Path; from tests.stores.results_aids import open_results\n"
        "print(ascii(open_results(Path(sys.argv[1])).query(sys.argv[2])['lines']))"
    )

    done = python(code, tmp_path, handle, check=False)

    assert done.stdout.strip() == ascii(["über"]), done.stderr


def test_secrets_never_reach_the_disk(results: Results) -> None:
    """As text, in rows, in keys, in bytes, and wherever a stream of text is cut."""
    filler = "x" * 1_013
    text = "\n".join(f"{filler}{SECRET}{filler}" for _ in range(2_000))
    handles = [
        results.put(text),
        results.put(text.encode()),
        results.put((SECRET * 3 + " ") * 30_000),
        results.put([{SECRET: SECRET}] * 20_000),
        results.put({"headers": {"Authorization": f"Bearer {SECRET}"}}),
    ]

    on_disk = {path.stem: path.read_bytes() for path in results.folder.glob("*.txt")}

    assert set(on_disk) == set(handles)
    assert [handle for handle, data in on_disk.items() if SECRET.encode() in data] == []
    assert all(b"***" in data for data in on_disk.values())
    assert results.query(handles[0])["lines"][0] == f"{filler}***{filler}"
    assert results.query(handles[0])["total_lines"] == 2_000


def test_secret_across_every_possible_cut_is_hidden(results: Results) -> None:
    """The pieces of a stream are shifted by one character until every position was at a border."""
    size = 256 * 1024
    for shift in range(0, len(SECRET) + 1, 3):
        text = "a" * (size - shift) + SECRET + "b" * size + SECRET + "c" * (size - 7)

        handle = results.put(text)

        assert SECRET.encode() not in (results.folder / f"{handle}.txt").read_bytes()
        assert (
            results.query(handle, search=r"a\*\*\*b+\*\*\*c")["matched"]
            + results.query(handle)["total_lines"]
            >= 1
        )


def test_secret_over_three_pieces_is_hidden() -> None:
    pieces = ["a" * 300_000 + SECRET[:5], SECRET[5:8], SECRET[8:] + "b" * 300_000]

    data = b"".join(mask_stream(pieces, hide))

    assert data == b"a" * 300_000 + b"***" + b"b" * 300_000


def test_text_that_is_nothing_but_secrets_is_hidden_and_ends() -> None:
    data = b"".join(mask_stream([SECRET * 20_000] * 15, hide))

    assert SECRET.encode() not in data
    assert set(data) == {ord("*")}


def test_errors_are_of_the_house_and_say_what_to_do() -> None:
    for error in (HandleNotFound("x"), HandleExpired("x"), DamagedResult(Path("/x"), "short")):
        assert isinstance(error, OneToolError)
        assert error.hint
