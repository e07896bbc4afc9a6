"""`ot.stats` and `ot.history`, from real calls (spec 001)."""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from onetool_ipy import Toolbox, ToolCall, open_toolbox
from onetool_ipy.faces.widgets.overviews import usage_data
from onetool_ipy.render import report as render_report

NOW = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime.datetime:
        return self.time

    def back(self, **ago: float) -> None:
        self.time = NOW - datetime.timedelta(**ago)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Callable[..., Toolbox]:
    def start(config: str = "version: 1\n") -> Toolbox:
        folder = tmp_path / ".onetool"
        folder.mkdir(exist_ok=True)
        (folder / "onetool.yaml").write_text(config, encoding="utf-8")
        return open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}, clock=clock)

    return start


@pytest.fixture
def box(make: Callable[..., Toolbox], clock: Clock) -> Iterator[Toolbox]:
    """Calls of the last hours, days and months, by two tools, some failed."""
    with make() as made:
        for ago, count in (
            ({"days": 100}, 1),
            ({"days": 20}, 2),
            ({"days": 3}, 3),
            ({"hours": 2}, 4),
        ):
            clock.back(**ago)
            for _ in range(count):
                made.call("tools.echo", {"message": "four"})
        clock.back(hours=1)
        made.call("fs.read_file", {"path": "/nowhere"})
        made.call("no.tool", {})
        clock.back()
        yield made


@pytest.mark.spec("001/Runtime Statistics/Get all-time stats")
def test_stats_add_up_all_calls(box: Toolbox) -> None:
    found = box.ot.stats()
    assert found["total_calls"] == 12
    assert found["success_rate"] == pytest.approx(100 * 10 / 12, abs=0.01)
    assert (found["context_saved"], found["time_saved_ms"]) == (0, 0)
    box.call(ToolCall("m", "tools.echo", {"message": "four" * 100}, "model"))
    by_model = box.ot.stats()
    assert (by_model["context_saved"], by_model["time_saved_ms"]) == (30_000 - 100, 4_000)
    assert found["estimates"] == ["context_saved", "time_saved_ms"]
    rows = {row["tool"]: row for row in found["tools"]}
    assert set(rows) == {"tools.echo", "fs.read_file", "no.tool"}
    assert list(rows["tools.echo"]) == [
        "tool",
        "calls",
        "failures",
        "success_rate",
        "avg_ms",
        "p95_ms",
        "last_called",
    ]
    assert (rows["tools.echo"]["calls"], rows["tools.echo"]["failures"]) == (10, 0)
    assert (rows["no.tool"]["calls"], rows["no.tool"]["failures"]) == (1, 1)
    assert yaml.safe_load(str(found)) == found


def test_an_estimate_is_never_negative(make: Callable[..., Toolbox]) -> None:
    with make() as box:
        box.call(ToolCall("m", "tools.echo", {"message": "four" * 40_000}, "model"))

        assert box.ot.stats()["context_saved"] == 0


def test_no_page_shows_what_was_guessed(box: Toolbox, tmp_path: Path) -> None:
    """A model made a call, so both estimates have a value: cell, terminal, report and panel leave
    them out."""
    box.call(ToolCall("m", "tools.echo", {"message": "four"}, "model"))
    file = tmp_path / "stats.html"

    stats = box.ot.stats(output=str(file))

    assert (stats["context_saved"], stats["time_saved_ms"]) == (29_999, 4_000)
    panel = json.dumps(usage_data(box, {"period": "all"}))
    for page in (stats._repr_html_(), stats.to_text(100), file.read_text(encoding="utf-8"), panel):
        assert "tools.echo" in page
        assert not re.search(r"saved|stimate|29,?999|4,?000|4 s", page)


def test_without_calls_there_is_no_share_of_those_that_went_well(
    make: Callable[..., Toolbox],
) -> None:
    with make() as box:
        stats = box.ot.stats("day")

    assert stats["success_rate"] is None
    assert "success_rate" not in stats.to_text(80)
    assert "success_rate" not in stats._repr_html_()


def test_one_call_is_not_calls(make: Callable[..., Toolbox], tmp_path: Path) -> None:
    with make() as box:
        box.call("tools.echo", {"message": 1})
        box.ot.stats(output=str(tmp_path / "stats.html"), tool="tools.echo")

    assert "<b>1</b><span>call</span>" in (tmp_path / "stats.html").read_text(encoding="utf-8")


@pytest.mark.spec("001/Runtime Statistics/Filter by period")
@pytest.mark.parametrize(("period", "calls"), [("day", 6), ("week", 9), ("month", 11), ("all", 12)])
def test_stats_of_a_period(box: Toolbox, period: str, calls: int) -> None:
    assert box.ot.stats(period=period)["total_calls"] == calls


@pytest.mark.spec("001/Runtime Statistics/Filter by tool")
def test_stats_of_one_tool(box: Toolbox) -> None:
    found = box.ot.stats(tool="fs.read_file")
    assert (found["total_calls"], found["success_rate"], found["tool"]) == (1, 0.0, "fs.read_file")
    assert [row["tool"] for row in found["tools"]] == ["fs.read_file"]
    nothing = box.ot.stats(tool="never.called")
    assert (nothing["total_calls"], nothing["success_rate"], nothing["tools"]) == (0, None, [])


@pytest.mark.spec("001/Runtime Statistics/Generate HTML report")
def test_stats_write_a_self_contained_report(box: Toolbox, tmp_path: Path) -> None:
    box.call("<script>alert(1)</script>.x", {})
    file = tmp_path / "stats.html"
    found = box.ot.stats(output=str(file))
    assert found["html_report"] == str(file)
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "tools.echo" in page
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert box.ot.stats(output=str(file))["html_report"] == str(file)


@pytest.mark.spec("001/Runtime Statistics/Stats disabled")
def test_stats_that_are_disabled_say_so(make: Callable[..., Toolbox]) -> None:
    with make("version: 1\nstats: {enabled: false}\n") as box:
        said = box.ot.stats()
        assert said.startswith("Error: ")
        assert "disabled" in said
        assert box.call("ot.stats").ok is False


@pytest.mark.spec("001/Runtime Statistics/HTML write error")
def test_a_report_that_cannot_be_written_says_why_and_harms_nothing(
    box: Toolbox, tmp_path: Path
) -> None:
    taken, link = tmp_path / "notes.txt", tmp_path / "link.html"
    taken.write_text("mine", encoding="utf-8")
    if os.name == "posix":
        link.symlink_to(tmp_path / "target.html")
    for path in (
        taken,
        tmp_path,
        tmp_path / "no" / "such.html",
        *([link] if os.name == "posix" else ()),
    ):
        said = box.ot.stats(output=str(path))
        assert said.startswith(f"Error: Cannot write to '{path}': ")
    assert taken.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "target.html").exists()


def test_a_report_asked_for_from_outside_stays_in_the_roots(box: Toolbox, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in.html", tmp_path.parent / "out-of-roots.html"
    assert box.call("ot.stats", {"output": str(inside)}, source="model").ok
    refused = box.call("ot.stats", {"output": str(outside)}, source="model")
    assert refused.error is not None
    assert "outside the allowed folders" in refused.error.message
    assert not outside.exists()


@pytest.mark.posix("pipes and devices in folders")
@pytest.mark.parametrize("source", ["mcp", "rest", "model"])
def test_a_report_path_outside_the_roots_is_never_opened(
    box: Toolbox, tmp_path: Path, source: Any
) -> None:
    """A FIFO would hold the call for ever, and /dev/full never ends."""
    fifo = tmp_path.parent / f"{source}.fifo"
    os.mkfifo(fifo)
    for path in (str(fifo), "/dev/full", "/dev/zero", "/proc/self/mem", "/etc/passwd"):
        result = box.call(ToolCall("id", "ot.stats", {"output": path}, source), timeout=20)

        assert result.error is not None
        assert (
            result.error.message
            == f"Error: Cannot write to '{path}': it is outside the allowed folders"
        )


@pytest.mark.posix("pipes, sockets and devices in folders")
def test_a_report_is_never_written_to_what_is_no_plain_file(box: Toolbox, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(os.path.relpath(tmp_path / "served"))
        for path in (tmp_path / "pipe", tmp_path / "served", Path("/dev/full"), Path("/dev/zero")):
            assert (
                str(box.ot.stats(output=str(path)))
                == f"Error: Cannot write to '{path}': it is not a plain file"
            )


def test_a_huge_file_in_the_place_of_a_report_is_not_read_to_its_end(
    box: Toolbox, tmp_path: Path
) -> None:
    path = tmp_path / "huge.html"
    path.touch()
    os.truncate(path, 1 << 42)  # 4 TB with nothing in it

    assert str(box.ot.stats(output=str(path))).endswith("it is a file that is not a report")


@pytest.mark.parametrize(
    "output", ["a\0b", "x" * 5000, "~nobody-of-that-name/x.html", "\ud800.html"], ids=ascii
)
def test_a_report_path_that_can_be_none_is_an_error_text(box: Toolbox, output: str) -> None:
    said = box.ot.stats(output=output)

    assert isinstance(said, str)
    assert said.startswith("Error: Cannot write to '")


@pytest.mark.spec("001/Runtime Statistics/Invalid period")
def test_an_invalid_period_is_said_to_the_letter(box: Toolbox) -> None:
    said = (
        "Error: Invalid period 'invalid'. Valid: day, week, month, all. Example:"
        " ot.stats(period='day')"
    )
    assert box.ot.stats(period="invalid") == said
    failed = box.call("ot.stats", {"period": "invalid"})
    assert failed.error is not None
    assert (failed.ok, failed.error.message) == (False, said)


def test_ot_calls_count_too(box: Toolbox) -> None:
    box.ot.version()
    assert box.ot.stats(tool="ot.version")["total_calls"] == 1


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the local time zone, as POSIX writes one."""

    def choose(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


@pytest.mark.posix("a process may change its time zone")
@pytest.mark.parametrize(
    ("zone", "day", "times"),
    [
        ("UTC0", "Mar 10", ["06:30", "08:30"]),
        ("IST-5:30", "Mar 10 UTC", ["12:00", "14:00"]),
        ("EST5EDT,M3.2.0,M11.1.0", "Mar 10 UTC", ["01:30", "04:30"]),
    ],
    ids=["UTC", "Kolkata", "New York, at the change to summer time"],
)
def test_times_of_a_plot_are_local_and_its_days_say_whose_they_are(
    make: Callable[..., Toolbox],
    clock: Clock,
    in_zone: Callable[[str], None],
    zone: str,
    day: str,
    times: list[str],
) -> None:
    in_zone(zone)
    with make() as box:
        first = datetime.datetime(2026, 3, 8, 6, 30, tzinfo=datetime.UTC)
        for clock.time in (first, first + datetime.timedelta(hours=2)):
            box.call("tools.echo", {"message": "x"})
        steps = [row["start"] for row in box.ot.stats().steps if row["calls"]]
        assert steps == times

        clock.time = first + datetime.timedelta(days=2, hours=12)  # in Kolkata it is the 11th
        box.call("tools.echo", {"message": "x"})
        clock.time = first - datetime.timedelta(days=9)
        box.call("tools.echo", {"message": "x"})
        clock.time = first + datetime.timedelta(days=3)
        stats = box.ot.stats()

    assert stats.steps[-1]["start"] == day
    assert sum(row["calls"] for row in stats.steps) == 5, "the first ot.stats is a call, too"
    assert day in render_report.plots(stats["tools"], stats.steps)


def test_stats_as_a_frame_and_as_a_plot(box: Toolbox) -> None:
    found = box.ot.stats()
    assert list(found.df["tool"]) == [row["tool"] for row in found["tools"]]
    plot: Any = found.plot()
    shown = plot._repr_html_() if hasattr(plot, "_repr_html_") else str(plot)
    assert "svg" in shown or "Figure" in shown


def test_history_is_newest_first_with_masked_arguments(box: Toolbox) -> None:
    rows = box.ot.history(limit=3)
    assert [row["tool"] for row in rows] == ["no.tool", "fs.read_file", "tools.echo"]
    assert [row["ok"] for row in rows] == [False, False, True]
    assert rows[0]["code"] == "tool_not_found"
    assert [row["tool"] for row in box.ot.history(failed=True)] == ["no.tool", "fs.read_file"]
    frame = box.ot.history(tool="tools.echo").df
    assert len(frame) == 10
    assert {"user", "host", "notebook", "cell", "session", "parent", "fingerprint"} < {*frame}
    assert [row["tool"] for row in box.ot.history(search="NOWHERE")] == ["fs.read_file"]
    assert box.ot.history(search="nowhere echo") == []


def test_failures_are_told_and_grouped_by_message(box: Toolbox, tmp_path: Path) -> None:
    """In stats, history, report and the frame of the log; secrets in a message are masked before it
    is kept."""
    for number in range(3):
        box.call("fs.read_file", {"path": f"/nowhere/{number}"})
    box.call("tools.echo", {"wrong": 1})
    box.call("tools.echo", {"wrong": 2})

    stats = box.ot.stats(period="day")
    groups = {(row["tool"], row["message"]): row["calls"] for row in stats["failures"]}
    assert groups[("tools.echo", next(m for t, m in groups if t == "tools.echo"))] == 2
    assert any("unknown argument 'wrong'" in message for _, message in groups)
    assert "unknown argument &#x27;wrong&#x27;" in stats._repr_html_()
    newest = box.ot.history(limit=1, failed=True)[0]
    assert "unknown argument 'wrong'" in newest["error"]
    assert newest["code"] == "invalid_args"
    box.ot.stats(output=str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Failed calls by message" in page
    assert "unknown argument &#x27;wrong&#x27;" in page
    frame = box.log.frame(ok=False)
    assert frame["message"].str.contains("wrong").sum() == 2
    assert set(frame["reason"].dropna()) <= {"schema", "not_allowed"}
    assert all(row.reason in ("schema", "not_allowed", None) for row in box.log.history(ok=False))
