"""The history screen's data: searched, paged, a line for a run, masked; the stored results."""

from __future__ import annotations

import json

from onetool_ipy.llm import ScriptedModel
from tests.faces.widgets.conftest import SECRET, Side


def test_stored_results_history_and_favourites(side: Side) -> None:
    side.run("tools.echo", message="x" * 200_000)
    side.run("tools.echo", message=SECRET)
    [row] = side.ask("results")["items"]
    opened = side.ask("open", handle=row["handle"])
    assert opened["tool"] == "tools.echo"
    past = side.ask("history")["items"]
    assert [each["tool"] for each in past] == ["tools.echo", "tools.echo"]
    assert past[0]["args"] is None, "a call with a secret in it cannot be repeated from the log"
    assert side.ask("favourite", name="time.now", isOn=True) == {"favourites": ["time.now"]}
    assert side.ask("overview")["favourites"] == ["time.now"]
    assert side.ask("favourite", name="time.now", isOn=False) == {"favourites": []}


def test_an_ask_in_the_history_is_not_offered_as_a_call(side: Side) -> None:
    side.box.ask("Go", model=ScriptedModel([("tools.echo", {"message": 1}), "Done."]))

    rows = side.ask("history")["items"]

    assert [(row["tool"], row["isAsk"]) for row in rows] == [("ask", True), ("tools.echo", False)]


def test_the_history_is_searched_paged_and_has_a_line_for_a_run(side: Side) -> None:
    for number in range(3):
        side.run("tools.echo", message=f"number {number}")
    side.box.ot.map("tools.echo", ["a", "b"])
    side.run("fs.read_file", path=f"nowhere/{SECRET}")

    whole = side.ask("history")
    assert [row["tool"] for row in whole["items"]] == [
        "fs.read_file",
        "tools.echo",
        *["tools.echo"] * 3,
    ]
    assert not whole["hasMore"]
    run = whole["items"][1]
    assert (run["rows"], run["failures"], run["ok"]) == (2, 0, True)
    inside = side.ask("history", run=run["run"])
    assert sorted(row["summary"] for row in inside["items"]) == [
        "message=a",
        "message=b",
    ]
    first = side.ask("history", limit=2)
    assert first == {"items": whole["items"][:2], "hasMore": True}
    assert side.ask("history", limit=2, offset=2)["items"] == whole["items"][2:4]
    [found] = side.ask("history", query="NUMBER 1")["items"]
    assert found["args"] == {"message": "number 1"}
    assert side.ask("history", since="today")["items"] == whole["items"]
    assert side.ask("history", since="2999-01-01")["items"] == []
    [failed] = side.ask("history", isFailed=True)["items"]
    assert failed["tool"] == "fs.read_file"
    words, _, message = failed["summary"].partition(" · ")
    assert "nowhere" in words
    assert "outside the allowed folders" in message
    assert len(failed["when"]) == len("11:46:28")
    assert SECRET not in json.dumps(whole)
