"""What the ui module asks, answered: the desk over a real toolbox, without a browser."""

from __future__ import annotations

import base64
import json
import queue
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest

from onetool_ipy import open_toolbox, tool
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ServerFacts
from onetool_ipy.faces.widgets.requests import MAX_SENT, ScreenRequests
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.sdk import progress
from tests.harness.patience import HANG_S, until

SECRET = "s3cr3t-in-widgets"


class Circle(TypedDict):
    kind: Literal["circle"]
    radius: float


class Box(TypedDict):
    kind: Literal["box"]
    width: int


class Side:
    """The page's side of a desk."""

    def __init__(self, folder: Path) -> None:
        onetool = folder / ".onetool"
        onetool.mkdir(parents=True)
        (onetool / "onetool.yaml").write_text("version: 1\n")
        (onetool / "secrets.yaml").write_text(f"KEY: {SECRET}\n")
        (onetool / "secrets.yaml").chmod(0o600)
        self.box = open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state")})
        self.names: dict[str, Any] = {}
        self.sent: queue.Queue[dict[str, Any]] = queue.Queue()
        self.unread: list[dict[str, Any]] = []
        self.everything: list[str] = []
        self.desk = ScreenRequests(
            self.box,
            send=self._sent,
            namespace=lambda: self.names,
        )

    def _sent(self, message: dict[str, Any]) -> None:
        self.everything.append(json.dumps(message))  # what cannot be sent fails here
        self.sent.put(message)

    def raw(self, kind: str, **payload: Any) -> dict[str, Any]:
        self.desk.receive({"id": 1, "kind": kind, "payload": payload})
        return self.wait(lambda message: message.get("id") == 1)

    def ask(self, kind: str, **payload: Any) -> Any:
        message = self.raw(kind, **payload)
        assert "error" not in message, message
        return message["value"]

    def wait(self, fits: Any) -> dict[str, Any]:
        """The next message that fits; the others are kept for who waits for them."""
        for message in self.unread:
            if fits(message):
                self.unread.remove(message)
                return message
        while True:
            message = self.sent.get(timeout=HANG_S)
            if fits(message):
                return message
            self.unread.append(message)

    def run(self, name: str, **args: Any) -> dict[str, Any]:
        job = self.ask("run", name=name, args=args)["job"]
        shown: dict[str, Any] = self.wait(lambda m: m.get("job") == job and "result" in m)["result"]
        return shown


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    side = Side(tmp_path / "project")
    yield side
    side.desk.close()
    side.box.close()
    assert not any(SECRET in text for text in side.everything)


def adopt(side: Side, fn: Any) -> None:
    side.box.adopt(fn)


def test_one_thread_at_most_stays_when_nothing_is_asked(side: Side) -> None:
    before = set(threading.enumerate())

    for _ in range(5):
        side.ask("history")
    assert until(lambda: before.issuperset(threading.enumerate()))

    side.run("tools.echo", message="hi")
    assert until(lambda: len(set(threading.enumerate()) - before) <= 1), "the event loop that runs jobs"


def test_overview_and_entries_tell_what_there_is(side: Side) -> None:
    overview = side.ask("overview")
    assert {"name": "time", "count": 1} in overview["packs"]
    entries = side.ask("entries")
    assert entries["isPartial"] is False
    assert len(entries["items"]) == overview["tools"]
    read = next(item for item in entries["items"] if item["name"] == "fs.read_file")
    assert (read["arguments"], read["badges"]) == (["path", "maxBytes"], ["read-only"])
    assert overview["badges"] == ["read-only"]


def test_what_the_project_recommends_is_first_and_marked(side: Side) -> None:
    assert "recommended" not in side.ask("overview")["tags"]
    config = side.box.config.paths.project / ".onetool" / "onetool.yaml"
    config.write_text(f"{config.read_text(encoding='utf-8')}\nrecommended: [time]\n", encoding="utf-8")
    side.box.reload()

    assert side.ask("overview")["tags"][0] == "recommended"
    assert side.ask("overview")["packs"][0]["name"] == "time"
    first, second, *_ = side.ask("entries")["items"]
    assert (first["name"], first["badges"][0]) == ("time.now", "recommended")
    assert "recommended" not in second["badges"]
    found = side.ask("search", query="", filters={"tag": "recommended"}, limit=9)
    assert [item["name"] for item in found["items"]] == ["time.now"]
    assert side.ask("tool", name="time.now")["badges"][0] == "recommended"


def test_badges_filter_and_an_icon_is_sent_once(side: Side) -> None:
    pixel, now = "data:image/png;base64,AAAA", side.box.registry.require("time.now")
    for name in ("far.one", "far.two"):
        hints = {"open world": True, "destructive": name == "far.one"}
        spec = now.replace(
            name=name, origin="cell", server_facts=ServerFacts(icon=pixel, hints=hints), read_only=False, load=None
        )
        side.box.registry.session.specs[name] = spec
    side.box.registry.rebuild()

    entries = side.ask("entries")
    assert entries["icons"] == [pixel]
    assert {item["name"] for item in entries["items"] if item.get("icon") == 0} == {"far.one", "far.two"}
    assert side.ask("overview")["badges"] == ["read-only", "destructive", "open world"]
    found = side.ask("search", query="", filters={"tag": "destructive"}, limit=9)
    assert [item["name"] for item in found["items"]] == ["far.one"]
    assert side.ask("tool", name="far.two")["icon"] == pixel


def test_over_two_thousand_tools_only_answers_are_sent(side: Side) -> None:
    for number in range(MAX_SENT):
        side.box.registry.session.specs[f"many.tool_{number}"] = side.box.registry.require("time.now").replace(
            name=f"many.tool_{number}", origin="cell"
        )
    side.box.registry.rebuild()
    assert side.ask("entries") == {"items": [], "icons": [], "isPartial": True}
    found = side.ask("search", query="many.tool_1234", filters={}, limit=5)
    assert found["items"][0]["name"] == "many.tool_1234"
    narrowed = side.ask("search", query="", filters={"pack": "fs"}, limit=50)
    assert {item["pack"] for item in narrowed["items"]} == {"fs"}


def test_checking_is_that_of_the_tool_line(side: Side) -> None:
    """The same words as `%tool`, each with its JSON pointer; code that does the same stands beside."""

    def locate(address: str, limit: int = 5) -> list[str]:
        """Find it."""
        return [address] * limit

    adopt(side, locate)
    answer = side.ask("check", name="nb.locate", args={"limit": "many", "nope": 1})
    assert {error["pointer"] for error in answer["errors"]} >= {"/limit"}
    good = side.ask("check", name="nb.locate", args={"address": "Ring 1", "limit": 2})
    assert good["errors"] == []
    assert good["code"]["tool"] == '%tool nb.locate address="Ring 1" limit=2'
    assert good["code"]["python"] == "ot.run('nb.locate', address='Ring 1', limit=2)"


def test_variables_of_the_notebook(side: Side) -> None:
    """`=name` is the object itself, `==text` a text, and what is not there is said."""
    seen: list[Any] = []

    def take(value: Any, more: list[Any] | None = None) -> str:
        """Take anything."""
        seen.append((value, more))
        return "taken"

    adopt(side, take)
    side.names["df"] = marker = object()
    side.names["rows"] = [{"a": 7}]
    side.run("nb.take", value="=df", more=["=rows[0]", "==plain"])
    assert seen == [(marker, [{"a": 7}, "=plain"])]
    missing = side.ask("check", name="nb.take", args={"value": "=nothing"})
    assert "nothing" in missing["errors"][0]["message"]
    code = side.ask("check", name="nb.take", args={"value": "=df"})["code"]
    assert code["tool"] == "%tool nb.take value={df}"
    assert code["python"] == "ot.run('nb.take', value=df)"
    harmless = side.ask("check", name="nb.take", args={"value": "=__import__('os').system('true')"})
    assert harmless["errors"] == [], "what is no variable is text"


def test_large_integers_arrive_whole(side: Side) -> None:
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    adopt(side, double)
    shown = side.run("nb.double", n="12345678901234567890")
    assert shown["preview"] == ["24691357802469135780"]


def test_a_run_tells_its_progress_and_its_end(side: Side) -> None:
    is_seen = threading.Event()

    def count(n: int) -> str:
        """Count, and go on when the last report was seen."""
        for i in range(n):
            progress(i + 1, n, "counting")
        return "done" if is_seen.wait(HANG_S) else "not seen"

    adopt(side, count)
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
        """Wait."""
        begun.set()
        while not ended.is_set():
            pass
        return "late"

    adopt(side, slow)
    job = side.ask("run", name="nb.slow", args={})["job"]
    assert begun.wait(HANG_S)
    assert side.ask("cancel", job=job) == {"isCancelled": True}
    result = side.wait(lambda m: m.get("job") == job and "result" in m)["result"]
    ended.set()
    assert result["error"]["reason"] == "cancelled"


def test_a_million_lines_are_paged_and_searched(side: Side) -> None:
    def big(lines: int) -> str:
        """Many lines."""
        return "\n".join(f"line {i}" for i in range(1, lines + 1))

    adopt(side, big)
    shown = side.run("nb.big", lines=1_000_000)
    assert (shown["lines"], len(shown["preview"])) == (1_000_000, 200)
    assert len(json.dumps(shown)) < 20_000
    page = side.ask("page", handle=shown["handle"], call=shown["call"], offset=900_001, limit=100)
    assert page["lines"][0] == "line 900001"
    found = side.ask("find", handle=shown["handle"], call=shown["call"], pattern="line 99999[05]$")
    assert (found["hits"], found["matched"], found["isComplete"]) == ([999990, 999995], 2, True)
    bad = side.raw("find", handle=shown["handle"], pattern="(")
    assert "(" in bad["error"]["message"]


def test_a_table_is_sorted_and_filtered_over_all_rows(side: Side) -> None:
    def rows(n: int) -> list[dict[str, Any]]:
        """Rows."""
        return [{"id": i, "name": f"n{i % 7}", "x": None if i == 3 else i * 0.5} for i in range(n)]

    adopt(side, rows)
    shown = side.run("nb.rows", n=100_000)
    assert shown["kinds"][0] == "table"
    whose = {"handle": shown["handle"], "call": shown["call"]}
    plain = side.ask("table", **whose, offset=0, limit=3, sort=None, filter="")
    assert [(column["name"], column["kind"]) for column in plain["columns"]] == [
        ("id", "integer"),
        ("name", "text"),
        ("x", "number"),
    ]
    assert plain["rows"][0] == [0, "0", "n0", "0.0"]
    down = side.ask("table", **whose, offset=0, limit=2, sort={"column": 0, "isDown": True}, filter="")
    assert [row[:2] for row in down["rows"]] == [[99_999, "99999"], [99_998, "99998"]]
    some = side.ask("table", **whose, offset=0, limit=2, sort={"column": 0, "isDown": True}, filter="N6")
    assert some["total"] == 14285
    assert some["rows"][0][2] == "n6"
    assert side.ask("table", **whose, offset=3, limit=1, sort=None, filter="")["rows"][0][3] == ""


def test_a_tree_opens_part_by_part_and_a_picture_is_sent_as_bytes(side: Side) -> None:
    def nested() -> dict[str, Any]:
        """Nested."""
        return {"a": {"b": list(range(500))}, "text": "<b>", "key": SECRET}

    def picture() -> bytes:
        """A picture."""
        return b"\x89PNG\r\n\x1a\n" + b"\0" * 20

    def fetched() -> dict[str, Any]:
        """A picture as an HTTP tool gives it."""
        return {"mime": "image/png", "base64": base64.b64encode(picture()).decode(), "size": 28}

    def broken() -> dict[str, Any]:
        """Not a picture."""
        return {"mime": "image/png", "base64": "%%%", "size": 3}

    for function in (nested, picture, fetched, broken):
        adopt(side, function)
    shown = side.run("nb.nested")
    whose = {"handle": shown["handle"], "call": shown["call"]}
    top = side.ask("tree", **whose, path=[], offset=0, limit=100)
    assert [child["key"] for child in top["children"]] == ["a", "text", "key"]
    inside = side.ask("tree", **whose, path=["a", "b"], offset=490, limit=100)
    assert (inside["total"], len(inside["children"])) == (500, 10)
    assert "nothing" in side.raw("tree", **whose, path=["nope"], offset=0, limit=1)["error"]["message"]
    for name in ("nb.picture", "nb.fetched"):
        image = side.run(name)
        assert image["kinds"][0] == "image"
        assert side.ask("image", call=image["call"])["parts"][0]["mime"] == "image/png"
    assert "image" not in side.run("nb.broken")["kinds"]


def test_images_are_shown_with_the_text_beside_them(side: Side) -> None:
    def mixed() -> list[Any]:
        """Text, a picture, text."""
        return [f"before {SECRET}", b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "after"]

    adopt(side, mixed)
    shown = side.run("nb.mixed")
    assert shown["kinds"][0] == "image"
    parts = side.ask("image", call=shown["call"])["parts"]
    assert [part.get("text") or part["mime"] for part in parts] == ["before ***", "image/png", "after"]


def test_assign_saves_the_value_and_says_what_it_is(side: Side) -> None:
    shown = side.run("tools.echo", message=[1, 2])
    answer = side.ask("assign", handle=shown["handle"], call=shown["call"], variable="x")
    assert side.names["x"] == [1, 2]
    assert answer["said"] == "x: list, 2 rows"
    assert (
        "not a valid variable name" in side.raw("assign", call=shown["call"], variable="not a name")["error"]["message"]
    )


@pytest.mark.parametrize("is_other", [False, True], ids=["this kernel", "another kernel"])
def test_assign_gives_what_the_result_was_also_by_its_handle(side: Side, is_other: bool) -> None:
    """A tab knows a result by its handle alone; another kernel has only its file."""

    @tool
    def sales() -> pd.DataFrame:
        """Many rows."""
        day = pd.date_range("2024-01-01", periods=6_000, freq="h")
        towns = ["Wien", "Linz", "Graz"] * 2_000
        return pd.DataFrame({"when": day, "town": towns, "price": [n / 4 for n in range(6_000)]})

    adopt(side, sales)
    handle = side.run("nb.sales")["handle"]
    if is_other:
        folder = side.box.config.paths.project
        side.desk.close()
        side.box.close()
        side.box = open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state")})
        side.desk = ScreenRequests(side.box, send=side._sent, namespace=lambda: side.names)
    assert side.ask("open", handle=handle)["rows"] == 6_000
    query = {"filter": "wien", "columns": {"2": "> 10"}, "sort": {"column": 2, "isDown": True}}

    answer = side.ask("assign", handle=handle, variable="wien", **query)

    assert answer["said"] == "wien: DataFrame, 1,986 rows"
    wien = side.names["wien"]
    assert list(wien.dtypes) == list(sales().dtypes)
    assert list(wien["price"][:2]) == [1499.25, 1498.5]


@pytest.mark.parametrize("value", [{"a": [1, {"b": 2}]}, "two\nlines", [1, 2], ["one"]], ids=repr)
def test_assign_by_handle_gives_plain_values_as_they_were(side: Side, value: Any) -> None:
    handle = side.box.results.put(value)
    side.ask("assign", handle=handle, variable="x")
    assert side.names["x"] == value


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
    assert [row["tool"] for row in whole["items"]] == ["fs.read_file", "tools.echo", *["tools.echo"] * 3]
    assert not whole["hasMore"]
    run = whole["items"][1]
    assert (run["rows"], run["failures"], run["ok"]) == (2, 0, True)
    inside = side.ask("history", run=run["run"])
    assert sorted(row["summary"] for row in inside["items"]) == ['{"message":"a"}', '{"message":"b"}']
    first = side.ask("history", limit=2)
    assert first == {"items": whole["items"][:2], "hasMore": True}
    assert side.ask("history", limit=2, offset=2)["items"] == whole["items"][2:4]
    [found] = side.ask("history", query="NUMBER 1")["items"]
    assert found["args"] == {"message": "number 1"}
    assert side.ask("history", since="today")["items"] == whole["items"]
    assert side.ask("history", since="2999-01-01")["items"] == []
    [failed] = side.ask("history", isFailed=True)["items"]
    assert failed["tool"] == "fs.read_file"
    assert len(failed["when"]) == len("11:46:28")
    assert SECRET not in json.dumps(whole)


def test_the_variables_of_the_notebook_are_offered(side: Side) -> None:
    side.names |= {"rows": [1], "_hidden": 1, "In": [], "helper": lambda: 1, "json": json, "word": "x"}
    offered = side.ask("variables")["items"]
    assert offered == [{"name": "word", "kind": "str"}, {"name": "rows", "kind": "list"}]


def test_an_http_tool_reads_as_curl_with_its_secret_by_name(side: Side) -> None:
    bundle = side.box.bundles.put_bundle(side.box.bundles.new_id(), slug="api", display_name="API")
    request = {
        "method": "POST",
        "urlTemplate": "https://api.example.com/users/${id}",
        "headers": {"X-Note": "it's"},
        "auth": {"type": "bearer", "value": "${KEY}"},
        "body": {"text": "${text}"},
    }
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}
    record = {"type": "http", "http": {"request": request}, "argSchema": schema, "description": "Say it."}
    side.box.bundles.put_tool(bundle.bundle_id, "say", "1", record)
    code = side.ask("check", name="api.say", args={"id": 7, "text": "a b"})["code"]
    words = shlex.split(code["curl"])
    assert words[:4] == ["curl", "-X", "POST", "https://api.example.com/users/7"]
    assert "Authorization: Bearer $KEY" in words
    assert "X-Note: it's" in words
    assert "a b" in words[-1]
    assert SECRET not in json.dumps(side.everything)
    assert "curl" not in side.ask("check", name="time.now", args={})["code"]


def test_what_a_screen_begins_with_is_masked(side: Side) -> None:
    desk = ScreenRequests(
        side.box,
        send=side._sent,
        namespace=dict,
        first={"view": "browser", "options": {"tool": "tools.echo", "args": {"message": SECRET}}},
    )
    desk.receive({"id": 77, "kind": "view"})
    answer = side.wait(lambda message: message.get("id") == 77)["value"]
    assert answer == {"view": "browser", "options": {"tool": "tools.echo", "args": {"message": "***"}}}


def test_the_branch_that_is_meant_is_checked(side: Side) -> None:
    def draw(shape: Circle | Box) -> str:
        """Draw."""
        return "drawn"

    adopt(side, draw)
    answer = side.ask("check", name="nb.draw", args={"shape": {"kind": "box", "width": "three"}})
    assert [error["pointer"] for error in answer["errors"]] == ["/shape/width"]


def test_a_few_flat_rows_read_the_same_with_and_without_a_frame(side: Side) -> None:
    rows: list[dict[str, Any]] = [{"id": 2, "name": "b", "on": True}, {"id": 10, "more": None, "name": "a"}]

    def give() -> list[dict[str, Any]]:
        """Rows."""
        return rows

    adopt(side, give)
    shown = side.run("nb.give")
    asked = {"call": shown["call"], "handle": None, "offset": 0, "limit": 10}
    plain = side.ask("table", **asked)
    kinds = {column["name"]: column["kind"] for column in plain["columns"]}
    assert kinds == {"id": "integer", "name": "text", "on": "boolean", "more": "text"}
    assert plain["rows"] == [[0, "2", "b", "true", ""], [1, "10", "a", "", ""]]
    by_id = side.ask("table", **asked, sort={"column": 0, "isDown": False})
    assert by_id["columns"] == plain["columns"]
    assert [row[:3] for row in by_id["rows"]] == [[0, "2", "b"], [1, "10", "a"]]


def test_a_frame_is_a_table(side: Side) -> None:
    side.desk.show_first(ToolResult(True, pd.DataFrame({"a": [3, 1, 2], "b": ["x", "y", None]})))
    shown = side.ask("open")
    assert shown["kinds"][0] == "table"
    assert shown["rows"] == 3
    asked = {"call": shown["call"], "handle": None, "offset": 0, "limit": 10}
    found = side.ask("table", **asked, sort={"column": 0, "isDown": False})
    assert [column["name"] for column in found["columns"]] == ["a", "b"]
    assert found["rows"] == [[1, "1", "y"], [2, "2", ""], [0, "3", "x"]]


def test_code_begins_with_the_variable_that_holds_the_table(side: Side) -> None:
    def taken(data: Any, **names: Any) -> str:
        side.names = {"_": data, **names}
        side.desk.show_first(ToolResult(True, data))
        about = side.ask("open")
        answer = side.ask("pandasCode", call=about["call"], handle=None, visible=[0], columns={"0": "> 1"})
        return str(answer["code"])

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    rows = frame.to_dict("records")
    assert taken(frame, sales=frame) == "sales[(sales['a'] > 1)][['a']]"
    assert taken(rows, rows=rows).splitlines()[:2] == ["import pandas as pd", "df = pd.DataFrame(rows)"]
    assert taken(rows, x=ToolResult(True, rows)).splitlines()[0] == "df = x.df"
    assert taken(rows).splitlines()[0].startswith("# df is this table")


def test_a_value_that_no_call_gave_is_viewed(side: Side) -> None:
    side.desk.show_first(ToolResult(True, {"a": [1, 2]}))
    shown = side.ask("open")
    tree = side.ask("tree", call=shown["call"], handle=None, path=["a"], offset=0, limit=10)
    assert [child["preview"] for child in tree["children"]] == ["1", "2"]


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
        """New."""
        return "new"

    adopt(side, fresh)
    assert side.wait(lambda m: m.get("event") == "changed")
