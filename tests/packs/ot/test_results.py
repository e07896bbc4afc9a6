"""`ot.result` and `ot.results` (spec 001), and the handy ways to the same from a ToolResult."""

from __future__ import annotations

import datetime

import pytest

from onetool_ipy import Toolbox
from tests.harness.project import Project
from tests.packs.ot.test_usage import Clock

LINES = [f"line {i}" + (" error" if i % 10 == 0 else "") for i in range(1, 501)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def box(project: Project, clock: Clock) -> Toolbox:
    return project.open(clock=clock)


@pytest.fixture
def handle(box: Toolbox) -> str:
    return box.results.put("\n".join(LINES), tool="log.read")


@pytest.mark.spec("001/Query Stored Results/Basic query with defaults")
def test_the_first_hundred_lines_by_default(box: Toolbox, handle: str) -> None:
    found = box.ot.result(handle=handle)
    assert found["lines"] == LINES[:100]
    assert found["offset"] == 1


@pytest.mark.spec("001/Query Stored Results/Query with offset and limit")
def test_offset_and_limit_choose_lines(box: Toolbox, handle: str) -> None:
    assert box.ot.result(handle=handle, offset=101, limit=50)["lines"] == LINES[100:150]


@pytest.mark.spec("001/Query Stored Results/Query with search filter")
def test_search_keeps_matching_lines_and_pages_them(box: Toolbox, handle: str) -> None:
    errors = [line for line in LINES if "error" in line]
    found = box.ot.result(handle=handle, search="error")
    assert found["lines"] == errors
    assert (found["matched"], found["total_lines"]) == (50, 500)
    assert found["line_numbers"] == list(range(10, 501, 10))
    assert (
        box.ot.result(handle=handle, search="error", offset=11, limit=5)["lines"] == errors[10:15]
    )
    assert box.ot.result(handle=handle, search="ERROR")["matched"] == 0
    assert box.ot.result(handle=handle, search="(?i)ERROR")["matched"] == 50


@pytest.mark.spec("001/Query Stored Results/Query with fuzzy matching")
@pytest.mark.parametrize("typed", ["config", "confguration"])
def test_fuzzy_finds_similar_words_best_first(box: Toolbox, typed: str) -> None:
    text = "nothing here\nthe configuration of the whole system is read at start\nconfetti"
    found = box.ot.result(handle=box.results.put(text), search=typed, fuzzy=True)
    assert "configuration" in found["lines"][0]
    assert found["scores"] == sorted(found["scores"], reverse=True)


@pytest.mark.spec("001/Query Stored Results/Invalid handle")
@pytest.mark.parametrize("bad", ["nonexistent", "../../etc/passwd", "", "a" * 10_000, "a\0b"])
def test_an_unknown_handle_is_said(box: Toolbox, bad: str) -> None:
    said = box.ot.result(handle=bad)
    assert said.startswith("Error: ")
    assert "not found" in said


@pytest.mark.spec("001/Query Stored Results/Expired handle")
def test_an_expired_handle_says_expired_also_the_second_time(
    box: Toolbox, handle: str, clock: Clock
) -> None:
    clock.time += datetime.timedelta(days=2)
    for _ in range(2):
        said = box.ot.result(handle=handle)
        assert said.startswith("Error: ")
        assert "expired" in said


@pytest.mark.spec("001/Query Stored Results/Query response format")
def test_the_answer_has_its_five_keys(box: Toolbox, handle: str) -> None:
    found = box.ot.result(handle=handle, limit=10)
    assert {key: found[key] for key in ("total_lines", "returned", "offset", "has_more")} == {
        "total_lines": 500, "returned": 10, "offset": 1, "has_more": True,
    }  # fmt: skip
    assert isinstance(found["lines"], list)
    past = box.ot.result(handle=handle, offset=10**12)
    assert (past["lines"], past["has_more"]) == ([], False)


@pytest.mark.spec("001/Query Stored Results/1-indexed offset")
def test_offset_one_is_the_first_line(box: Toolbox, handle: str) -> None:
    assert box.ot.result(handle=handle, offset=1, limit=1)["lines"] == ["line 1"]


@pytest.mark.spec("001/Query Stored Results/Offset validation")
def test_an_offset_below_one_raises(box: Toolbox, handle: str) -> None:
    with pytest.raises(ValueError, match=r"^offset must be >= 1 \(1-indexed\), got 0$"):
        box.ot.result(handle=handle, offset=0)


@pytest.mark.spec("001/Query Stored Results/Limit validation")
def test_a_limit_below_one_raises(box: Toolbox, handle: str) -> None:
    with pytest.raises(ValueError, match=r"^limit must be >= 1, got 0$"):
        box.ot.result(handle=handle, limit=0)


def test_a_bad_pattern_is_said(box: Toolbox, handle: str) -> None:
    assert box.ot.result(handle=handle, search="(").startswith("Error: ")


def test_results_are_listed_newest_first(box: Toolbox, handle: str, clock: Clock) -> None:
    clock.time += datetime.timedelta(seconds=5)
    newer = box.results.put([{"a": 1}], tool="shop.list")
    rows = box.ot.results()
    assert [row["handle"] for row in rows] == [newer, handle]
    assert list(rows[0]) == ["handle", "tool", "created", "lines", "bytes", "expires"]
    assert box.ot.results(pattern="shop", info="list") == [newer]
    assert len(rows.df) == 2


def test_a_result_pages_searches_and_stores_itself(box: Toolbox) -> None:
    result = box.call("tools.echo", {"message": [{"n": i, "s": f"x{i}"} for i in range(300)]})
    assert result.handle is None
    assert result.lines(offset=299)["lines"] == ['{"n":298,"s":"x298"}', '{"n":299,"s":"x299"}']
    assert result.search("x29")["matched"] == 11
    assert result.handle == result.store()
    assert box.ot.result(handle=result.handle)["total_lines"] == 300


def test_frames_find_the_records_flatten_them_and_parse_dates(box: Toolbox) -> None:
    data = {
        "meta": {"n": 1},
        "items": [{"id": 1, "at": "2024-01-31T12:00:00Z", "user": {"name": "a"}}, {"id": 2}],
    }
    result = box.call("tools.echo", {"message": data})
    frame = result.df
    assert list(frame.columns) == ["id", "at", "user.name"]
    assert str(frame["at"].dtype).startswith("datetime64")
    choice = {"path": "items", "rows": 2, "dates": ["at"]}
    assert frame.attrs["onetool"] == {**choice, "call_id": result.meta["call_id"]}
    other = box.call("tools.echo", {"message": {"a": [{"x": 1}], "b": {"c": [{"y": 1}, {"y": 2}]}}})
    assert list(other.to_df("data.b.c")["y"]) == [1, 2]
    assert list(box.call("tools.echo", {"message": "a\nb"}).df["line"]) == ["a", "b"]


def test_what_leaves_the_kernel_and_is_large_goes_as_a_handle(box: Toolbox) -> None:
    small = box.call("tools.echo", {"message": "x"})
    assert box.outgoing(small) == "x"
    large = box.call("tools.echo", {"message": "\n".join("y" * 100 for _ in range(1000))})
    sent = box.outgoing(large)
    assert set(sent) == {"handle", "total_lines", "preview"}
    assert (sent["total_lines"], len(sent["preview"])) == (1000, 10)
    assert len(large.data) == 1000 * 101 - 1
    assert box.ot.result(handle=sent["handle"])["total_lines"] == 1000
