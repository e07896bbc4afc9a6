"""What the ui module asks, answered: the desk over a real toolbox, without a browser."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import tool
from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.values import Json
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.question import Question
from onetool_ipy.core.tool import ServerFacts
from onetool_ipy.faces.widgets.questions import OpenQuestions
from onetool_ipy.faces.widgets.requests import MAX_SENT, Favourites, ScreenRequests
from onetool_ipy.sdk import progress
from tests.faces.widgets.conftest import SECRET, Side
from tests.harness.patience import HANG_S, until


def test_one_thread_at_most_stays_when_nothing_is_asked(side: Side) -> None:
    before = set(threading.enumerate())

    for _ in range(5):
        side.ask("history")
    assert until(lambda: before.issuperset(threading.enumerate()))

    side.run("tools.echo", message="hi")
    assert until(lambda: len(set(threading.enumerate()) - before) <= 1), (
        "the event loop that runs jobs"
    )


def test_overview_and_entries_tell_what_there_is(side: Side) -> None:
    overview = side.ask("overview")
    assert {"name": "time", "count": 1} in overview["packs"]
    entries = side.ask("entries")
    assert entries["isPartial"] is False
    own = [item for item in entries["items"] if item["pack"] != "ot"]
    assert len(own) == overview["tools"]
    read = next(item for item in entries["items"] if item["name"] == "fs.read_file")
    assert (read["arguments"], read["badges"]) == (["path", "maxBytes"], ["read-only"])
    assert overview["badges"] == ["read-only"]


def test_the_toolbox_itself_is_found_and_not_counted(side: Side) -> None:
    overview = side.ask("overview")
    assert "ot" not in [pack["name"] for pack in overview["packs"]]
    assert side.ask("report")["tools"] == overview["tools"]
    assert side.ask("report")["tools"] == len(side.box.registry.known()) - len(
        side.box.registry.known_packs()["ot"]
    )

    def found(query: str, **filters: Any) -> set[str]:
        items = side.ask("search", query=query, filters=filters, limit=50)["items"]
        return {item["name"] for item in items}

    assert not {name for name in found("") if name.startswith("ot.")}
    assert "ot.history" in found("history")
    assert "ot.history" in found("", pack="ot")
    side.ask("favourite", name="ot.history", isOn=True)
    assert {name for name in found("") if name.startswith("ot.")} == {"ot.history"}


def test_an_empty_project_says_how_to_begin(side: Side) -> None:
    typed = [line for line, _about in side.ask("overview")["begin"]]
    assert typed == ["@tool", "%%tool new http my-api", "%tool server add NAME"]
    side.box.adopt(sorted, "own")
    assert side.ask("overview")["begin"] == []


def test_tools_that_everybody_has_do_not_stand_above_ones_own(side: Side) -> None:
    """Those that were called last come first in the list, but not `time.now`, called once."""
    side.box.adopt(sorted, "own")
    side.box.call("own.sorted", {"iterable": [2, 1]}, source="python")
    side.box.call("time.now", {}, source="python")

    assert side.ask("overview")["recent"] == ["own.sorted"]


def test_what_the_project_recommends_is_first_and_marked(side: Side) -> None:
    assert "recommended" not in side.ask("overview")["tags"]
    config = side.box.config.paths.project / ".onetool" / "onetool.yaml"
    config.write_text(
        f"{config.read_text(encoding='utf-8')}\nrecommended: [time]\n", encoding="utf-8"
    )
    side.box.reload()

    assert side.ask("overview")["tags"][0] == "recommended"
    assert side.ask("overview")["packs"][0]["name"] == "time"
    first, second, *_ = side.ask("entries")["items"]
    assert (first["name"], first["badges"][0]) == ("time.now", "recommended")
    assert "recommended" not in second["badges"]
    found = side.ask("search", query="", filters={"tag": "recommended"}, limit=9)
    assert [item["name"] for item in found["items"]] == ["time.now"]
    assert side.ask("tool", name="time.now")["badges"][0] == "recommended"


def test_a_yes_to_trust_covers_what_its_form_showed_and_nothing_that_came_later(
    tmp_path: Path,
) -> None:
    """A file is added. The page asks again for its list of tools, as does another page; then the
    form gets a yes."""
    tools = tmp_path / "clone" / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools.parent / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (tools / "first.py").write_text("def one():\n    'One.'\n", encoding="utf-8")
    env = {"ONETOOL_STATE": str(tmp_path / "state"), **home_at(tmp_path)}
    replies: list[Json] = []
    with open_leniently(env=env, cwd=tmp_path / "clone") as box:
        screens = [ScreenRequests(box, send=replies.append, namespace=dict) for _ in range(2)]

        def ask(kind: str, screen: ScreenRequests = screens[0], **payload: object) -> Json:
            screen.receive({"id": kind, "kind": kind, "payload": payload})
            return next(
                json.loads(json.dumps(reply))
                for reply in reversed(replies)
                if reply.get("id") == kind
            )

        form = ask("overview")["value"]["trust"]["wouldRun"]
        (tools / "second.py").write_text("def two():\n    'Two.'\n", encoding="utf-8")
        box.reload()
        newer = [ask("overview", screen)["value"]["trust"]["wouldRun"] for screen in screens]

        for yes in ({"wouldRun": form}, {"wouldRun": {}}, {}):
            assert "nothing was trusted" in ask("trust", isTrusted=True, **yes)["error"]["message"]
        assert box.config.trust.how == "untrusted"
        assert (
            newer
            == [
                {
                    **form,
                    "packFiles": [str(Path("tools", f"{name}.py")) for name in ("first", "second")],
                }
            ]
            * 2
        )
        (tools / "third.py").write_text("def three():\n    'Three.'\n", encoding="utf-8")
        assert (
            "nothing was trusted"
            in ask("trust", isTrusted=True, wouldRun=newer[0])["error"]["message"]
        )
        newest = ask("trust")["value"]["wouldRun"]
        assert ask("trust", isTrusted=True, wouldRun=newest)["value"]["how"] == "listed"


def test_the_open_questions_go_to_the_pages_before_a_report(side: Side) -> None:
    """A page that has just connected asks for its report, while a question is open."""
    sent: list[Json] = []
    questions = OpenQuestions(sent.append)
    screen = ScreenRequests(side.box, send=sent.append, namespace=dict, questions=questions)

    def connect(key: str) -> None:
        screen.receive({"id": "1", "kind": "report"})
        questions.answer({"question": key, "action": "decline"})

    questions.ask(Question("server 'shop'", "Go?"), connect)

    event, report, *_ = sent
    assert [each["text"] for each in event["questions"]] == ["Go?"]
    assert "questions" not in report["value"], (
        "a report may have been made before a question that its page knows"
    )


def test_badges_filter_and_an_icon_is_sent_once(side: Side) -> None:
    pixel, now = "data:image/png;base64,AAAA", side.box.registry.require("time.now")
    for name in ("far.one", "far.two"):
        hints = {"open world": True, "destructive": name == "far.one"}
        spec = now.replace(
            name=name,
            origin="cell",
            server_facts=ServerFacts(icon=pixel, hints=hints),
            read_only=False,
            load=None,
        )
        side.box.registry.session.specs[name] = spec
    side.box.registry.rebuild()

    entries = side.ask("entries")
    assert entries["icons"] == [pixel]
    assert {item["name"] for item in entries["items"] if item.get("icon") == 0} == {
        "far.one",
        "far.two",
    }
    assert side.ask("overview")["badges"] == ["read-only", "destructive", "open world"]
    found = side.ask("search", query="", filters={"tag": "destructive"}, limit=9)
    assert [item["name"] for item in found["items"]] == ["far.one"]
    assert side.ask("tool", name="far.two")["icon"] == pixel


@pytest.mark.slow
def test_over_two_thousand_tools_only_answers_are_sent(side: Side) -> None:
    for number in range(MAX_SENT):
        side.box.registry.session.specs[f"many.tool_{number}"] = side.box.registry.require(
            "time.now"
        ).replace(name=f"many.tool_{number}", origin="cell")
    side.box.registry.rebuild()
    assert side.ask("entries") == {"items": [], "icons": [], "isPartial": True}
    found = side.ask("search", query="many.tool_1234", filters={}, limit=5)
    assert found["items"][0]["name"] == "many.tool_1234"
    narrowed = side.ask("search", query="", filters={"pack": "fs"}, limit=50)
    assert {item["pack"] for item in narrowed["items"]} == {"fs"}


def test_a_run_tells_its_progress_and_its_end(side: Side) -> None:
    is_seen = threading.Event()

    def count(n: int) -> str:
        """Count, and go on when the last report was seen."""
        for i in range(n):
            progress(i + 1, n, "counting")
        return "done" if is_seen.wait(HANG_S) else "not seen"

    side.box.adopt(count)
    job = side.ask("run", name="nb.count", args={"n": 1000})["job"]
    side.wait(lambda m: m.get("job") == job and "progress" in m and m["progress"]["done"] == 1000)
    is_seen.set()
    ended = side.wait(lambda m: m.get("job") == job and "result" in m)
    assert ended["result"]["ok"] is True
    assert ended["result"]["preview"] == ["done"]
    assert sum("progress" in text for text in side.everything) < 20


def test_cancel_ends_a_run(side: Side) -> None:
    import threading

    begun, ended = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        while not ended.is_set():
            pass
        return "late"

    side.box.adopt(slow)
    job = side.ask("run", name="nb.slow", args={})["job"]
    assert begun.wait(HANG_S)
    assert side.ask("cancel", job=job) == {"isCancelled": True}
    result = side.wait(lambda m: m.get("job") == job and "result" in m)["result"]
    ended.set()
    assert result["error"]["reason"] == "cancelled"


def test_what_a_screen_begins_with_is_masked(side: Side) -> None:
    desk = ScreenRequests(
        side.box,
        send=side._sent,
        namespace=dict,
        first={"view": "browser", "options": {"tool": "tools.echo", "args": {"message": SECRET}}},
    )
    desk.receive({"id": 77, "kind": "view"})
    answer = side.wait(lambda message: message.get("id") == 77)["value"]
    assert answer == {
        "view": "browser",
        "options": {"tool": "tools.echo", "args": {"message": "***"}},
    }


@pytest.mark.parametrize(
    "message",
    [None, 3, "x", {}, {"kind": 3}, {"id": 1, "kind": "nonsense"}, {"id": 1, "kind": "tool", "payload": "x"},
     {"id": 1, "kind": "run", "payload": {"name": "time.now", "args": []}},
     {"id": 1, "kind": "page", "payload": {"handle": "../../etc/passwd", "offset": 1, "limit": 1}},
     {"id": 1, "kind": "table", "payload": {"handle": None, "offset": "a", "limit": {}}},
     {"id": 1, "kind": "tool", "payload": {"name": "no.such"}}],
    ids=str,
)  # fmt: skip
def test_nonsense_breaks_nothing(side: Side, message: Any) -> None:
    side.desk.receive(message)
    if isinstance(message, dict) and message.get("id"):
        assert "error" in side.wait(lambda m: m.get("id") == 1)
    assert side.ask("overview")["tools"] > 0


def test_a_new_tool_is_told(side: Side) -> None:
    @tool
    def fresh() -> str:
        return "new"

    side.box.adopt(fresh)
    assert side.wait(lambda m: m.get("event") == "changed")


def test_favourites_that_several_pages_choose_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "favourites.json"

    def choose(first: int) -> None:
        for number in range(4):
            Favourites(file).set(f"{first}.{number}", is_on=True)
            Favourites(file).set(f"{first}.{number - 1}", is_on=False)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(choose, range(8)))

    assert sorted(Favourites(file).names()) == [f"{first}.3" for first in range(8)]
