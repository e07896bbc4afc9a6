"""The usage screen's data."""

from __future__ import annotations

from tests.faces.widgets.conftest import Side


def test_usage_has_steps_that_suit_the_calls(side: Side) -> None:
    side.run("time.now")
    side.box.call("tools.echo", {})
    for period in ("day", "week", "month", "all"):
        usage = side.ask("usage", period=period, tool="")
        assert len(usage["series"]) <= 40, "calls of one test are not spread over days"
        assert all(len(step["label"]) == len("11:46:28") for step in usage["series"])
        assert [(row["tool"], row["calls"]) for row in usage["failures"]] == [("tools.echo", 1)]
        assert sum(step["ok"] + step["failed"] for step in usage["series"]) == 2
        assert usage["totals"][0]["value"] == "2"
    assert side.ask("usage", period="day", tool="time.now")["totals"][0]["value"] == "1"
    assert side.ask("usage", since="yesterday")["totals"][0]["value"] == "2"
    assert side.ask("usage", since="2999-01-01")["totals"][0]["value"] == "0"


def test_usage_leaves_the_toolbox_out_but_where_it_is_asked_for(side: Side) -> None:
    side.run("time.now")
    side.box.ot.map("time.now", [{}, {}])
    side.box.ot.health()

    usage = side.ask("usage", period="all", tool="")
    of_map = side.ask("usage", period="all", tool="ot.map")

    assert [(row["tool"], row["calls"]) for row in usage["tools"]] == [("time.now", 3)]
    assert usage["totals"][0]["value"] == "3"
    assert sum(step["ok"] for step in usage["series"]) == 3
    assert usage["known"] == ["time.now"]
    assert of_map["totals"][0]["value"] == "1"
    assert of_map["known"] == ["ot.map", "time.now"]
