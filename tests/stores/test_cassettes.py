"""Cassettes: recorded once, answered from the file after; clear words for what is missing, stale or
damaged."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import socket
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy import Toolbox, ToolResult, open_toolbox
from onetool_ipy.base.errors import OneToolError, Unavailable, UsageProblem
from onetool_ipy.base.files import StoreError
from onetool_ipy.faces.mcp.mock import read_recording
from onetool_ipy.stores.cassettes import Cassette, NotRecorded, RecordedCall, read_calls
from onetool_ipy.stores.encoding import decode, encode
from tests.bundles.aids import ProjectBundles
from tests.harness.programs import python
from tests.harness.project import Project
from tests.harness.stub import Stub
from tests.harness.systems import make_pipe

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SECRET = "sk-cassette/0123456789"


class Bench:
    """A toolbox with a tool `nb.ask` that counts its calls and gives what it is told to."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        self.file = root / "calls.jsonl"
        self.count = 0
        self.gives: Callable[[int], Any] = lambda number: {"number": number}
        self.box = open_toolbox(
            root, env={**os.environ, "ONETOOL_STATE": str(root / "state"), "CI": "", **env}
        )
        self.adopt()

    def adopt(self, **words: Any) -> None:
        def ask(question: Any = "") -> Any:
            self.count += 1
            return self.gives(self.count)

        self.box.adopt(ask)

    def ask(self, question: Any = "", mode: str | None = None) -> ToolResult:
        with self.box.ot.replay(self.file, mode=mode):
            return self.box.call("nb.ask", {"question": question})


Open = Callable[..., Bench]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Open]:
    made: list[Toolbox] = []
    folder = tmp_path / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "secrets.yaml").write_text(json.dumps({"KEY": SECRET}), encoding="utf-8")
    (folder / "secrets.yaml").chmod(0o600)

    def make(**env: str) -> Bench:
        opened = Bench(tmp_path, env)
        made.append(opened.box)
        return opened

    yield make
    for box in made:
        box.close()


def test_the_first_time_is_recorded_and_answered_after(bench: Open) -> None:
    first, second = bench(), bench()
    assert first.ask("a").data == {"number": 1}

    again = second.ask("a")

    assert again.data == {"number": 1}
    assert again.meta["replayed"] is True
    assert second.count == 0
    assert second.box.log.count_of("nb.ask")[0] == 2, "an answered call is a call, and logged"


@pytest.mark.parametrize(
    "value",
    ["text\n  of lines \n\n", "a: b # c", "2026-01-01", "~", "...\n---\n", b"\x00\xff", (1, {2}), 1e20, 1e-7,
     float("-inf"), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), pd.DataFrame({"a": [1], "b": ["x"]}),
     {1: None}, "x" * 2_000_000],
    ids=lambda value: f"{type(value).__name__}",
)  # fmt: skip
def test_values_come_back_as_they_were(bench: Open, value: Any) -> None:
    made = bench()
    made.gives = lambda number: value
    made.ask("a")
    back = made.ask("a", mode="replay").data
    assert type(back) is type(value)
    assert back.equals(value) if isinstance(value, pd.DataFrame) else back == value


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        TEXT | st.floats(allow_nan=False) | st.integers() | st.none(), lambda inner: st.lists(inner)
    )
)
def test_any_text_survives_the_file(value: Any) -> None:
    line = RecordedCall(tool="a.b", key="k", result=encode(value)).to_line()
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    assert decode(json.loads(line)["result"]) == value


def test_the_file_is_readable_and_in_order(bench: Open) -> None:
    made = bench()
    made.gives = lambda number: "line one\nline two\n"
    made.ask("hello")
    made.ask("and again")
    first, second = lines(made.file)
    names = ["format", "tool", "key", "args", "result", "version", "recorded", "ms", "input_schema"]
    assert list(first) == [*names, "of_notebook"]
    assert (first["format"], first["tool"], first["args"]) == (1, "nb.ask", {"question": "hello"})
    assert first["result"] == "line one\nline two\n"
    assert first["input_schema"]["properties"].keys() == {"question"}
    assert second["args"] == {"question": "and again"}


def test_the_same_call_again_takes_the_next_answer(bench: Open) -> None:
    first, second = bench(), bench()
    with first.box.ot.replay(first.file):
        for _ in range(3):
            first.box.call("nb.ask")
    with second.box.ot.replay(first.file, mode="replay"):
        numbers = [second.box.call("nb.ask").data["number"] for _ in range(3)]
        more = second.box.call("nb.ask")
    assert numbers == [1, 2, 3]
    assert more.error is not None
    assert "was recorded 3 times with these arguments, and is called again" in more.error.message
    with second.box.ot.replay(first.file):
        assert [second.box.call("nb.ask").data["number"] for _ in range(4)] == [1, 2, 3, 1]


def test_a_miss_says_what_to_do(bench: Open) -> None:
    made = bench()
    made.ask("a")
    miss = made.ask("b", mode="replay")
    assert miss.error is not None
    assert miss.error.message.startswith(
        "'nb.ask' was not recorded with these arguments. Only recorded calls may be answered here,"
        " from '"
    )
    assert "Run it once where there is a network" in miss.error.hint
    with made.box.ot.replay(made.file, mode="replay"):
        other = made.box.call("time.now")
        wrong = made.box.call("nb.ask", {"nope": 1})
        nowhere = made.box.call("no.where")
    assert other.error is not None
    assert "'time.now' was not recorded." in other.error.message
    assert wrong.error is not None
    assert wrong.error.code == "invalid_args"
    assert nowhere.error is not None
    assert nowhere.error.code == "tool_not_found"
    assert made.count == 1


@pytest.mark.parametrize(
    ("env", "mode"),
    [({}, "auto"), ({"CI": "true"}, "replay"), ({"CI": "false"}, "auto"), ({"ONETOOL_REPLAY": "replay"}, "replay"),
     ({"CI": "1", "ONETOOL_REPLAY": "auto"}, "auto")],
)  # fmt: skip
def test_ci_and_the_environment_choose_the_mode(
    bench: Open, env: dict[str, str], mode: str
) -> None:
    bench().ask("a")
    made = bench(**env)
    with made.box.ot.replay(made.file) as cassette:
        assert cassette.mode == mode
    with pytest.raises(UsageProblem, match="No mode 'often' of replay"):
        made.box.ot.replay(made.file, mode="often")


def test_without_a_file_only_replay_is_refused_and_makes_none(bench: Open) -> None:
    made = bench()
    with pytest.raises(UsageProblem, match="There is no replay file"):
        made.ask("a", mode="replay")
    assert not made.file.exists()
    assert made.box.replays.active is None


def test_a_changed_tool_makes_its_answers_stale(bench: Open) -> None:
    made = bench()
    made.ask("a")

    def ask(question: Any = "", depth: int = 1) -> Any:
        return "live"

    made.box.adopt(ask)
    for mode in ("auto", "replay"):
        stale = made.ask("a", mode=mode)
        assert stale.error is not None
        assert "'nb.ask' has changed since its answer was recorded" in stale.error.message
        assert "mode='refresh'" in stale.error.hint
    assert made.ask("a", mode="refresh").data == "live"
    assert made.ask("a", mode="replay").data == "live"


def test_a_refresh_replaces_what_is_asked_and_keeps_the_rest(bench: Open) -> None:
    made = bench()
    made.ask("a")
    made.ask("b")
    made.ask("a", mode="refresh")
    assert made.ask("a", mode="replay").data == {"number": 3}
    assert made.ask("b", mode="replay").data == {"number": 2}
    assert [line["tool"] for line in lines(made.file)] == ["nb.ask", "nb.ask"]


def test_a_refresh_that_is_killed_loses_nothing(bench: Open) -> None:
    made = bench()
    made.ask("a")
    made.ask("b")
    made.box.ot.replay(made.file, mode="refresh").begin()
    made.box.call("nb.ask", {"question": "a"})
    other = bench()
    assert other.ask("a", mode="replay").data == {"number": 3}
    assert other.ask("b", mode="replay").data == {"number": 2}


def test_a_refresh_that_the_disk_refused_replaces_with_the_next_answer(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    Cassette(path).answer("k", 1, lambda: "old")
    fresh, before = Cassette(path, mode="refresh"), path.read_bytes()
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError):
        fresh.answer("k", 1, lambda: "lost")
    path.rmdir()
    path.write_bytes(before)

    fresh.answer("k", 1, lambda: "new")
    fresh.close()

    assert [call.result for call in read_calls(path)] == ["new"]


def test_a_refresh_in_threads_keeps_every_answer(tmp_path: Path) -> None:
    """As a map does over rows that are equal."""
    begin = threading.Barrier(8)

    def record(number: int) -> None:
        for turn in range(40):
            begin.wait()
            cassette.record(RecordedCall(tool="a.b", key=f"{turn}"), number)

    cassette = Cassette(tmp_path / "calls.jsonl", mode="refresh")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(record, range(8)))
    cassette.close()

    kept = Counter(line["key"] for line in lines(cassette.path))
    assert set(kept.values()) == {8}


def test_secrets_are_masked_in_arguments_and_results(bench: Open) -> None:
    made = bench()
    made.gives = lambda number: {"token": SECRET, "list": [f"x {SECRET}"]}
    assert made.ask({"key": SECRET}).data["token"] == SECRET, "who records gets the true value"
    assert SECRET not in made.file.read_text(encoding="utf-8")
    assert "0123456789" not in made.file.read_text(encoding="utf-8")
    assert made.ask({"key": SECRET}, mode="replay").data == {"token": "***", "list": ["x ***"]}


def test_a_secret_in_a_table_is_masked_or_the_table_is_not_recorded(bench: Open) -> None:
    """As JSON it can be masked; in Parquet, which a float with all its digits needs, it cannot."""
    made = bench()
    made.gives = lambda number: pd.DataFrame({"key": [SECRET], "n": [1]})
    made.ask("a")
    assert made.ask("a", mode="replay").data["key"].tolist() == ["***"]
    made.gives = lambda number: pd.DataFrame({"key": [SECRET], "x": [0.1 + 0.2]})
    with pytest.warns(UserWarning, match="a secret in a form that cannot be masked"):
        made.ask("b")
    text = made.file.read_text(encoding="utf-8")
    assert "0123456789" not in text
    assert "parquet" not in text


def test_requests_of_an_http_tool_are_recorded_without_secrets(
    project: Project, tmp_path: Path
) -> None:
    """So that a server can be made of the recording."""
    file = tmp_path / "calls.jsonl"
    project.write("secrets.yaml", f"KEY: {SECRET}\n").chmod(0o600)
    with Stub(lambda asked: (200, {"id": 7})) as stub:
        bundles = ProjectBundles(
            project,
            config=f"http: {{allowed_hosts: ['127.0.0.1:{stub.port}'], allow_private: true}}\n",
        )
        schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
        request = {"urlTemplate": stub.url("/items/${id}"), "query": {"key": "${KEY}"}}
        record = {"type": "http", "argSchema": schema, "http": {"request": request}}
        bundles.bundles.put_tool(bundles.bundle().bundle_id, "item", "1", record)
        with bundles.box.ot.replay(file, mode="auto"):
            result = bundles.box.call("my-api.item", {"id": 7})
        assert result.ok, result.error
        assert SECRET.replace("/", "%2F") in stub.asked[0].target
        url = stub.url("/items/7?key=")

    (line,) = lines(file)
    (request,) = line["requests"]
    assert request["method"] == "GET"
    assert request["url"].startswith(url)
    assert "0123456789" not in file.read_text(encoding="utf-8")
    assert line["input_schema"]["required"] == ["id"]


def test_a_secret_in_bytes_is_not_recorded_and_said(bench: Open) -> None:
    made = bench()
    made.gives = lambda number: SECRET.encode() + b"\x00"
    with pytest.warns(UserWarning, match="'nb.ask' was not recorded"):
        made.ask("a")
    text = made.file.read_text(encoding="utf-8")
    assert "not_recorded" in text
    import base64

    assert base64.b64encode(SECRET.encode())[:20].decode() not in text


def test_what_cannot_be_recorded_is_said_and_runs_live_again(bench: Open) -> None:
    made = bench()
    thing = object()
    made.gives = lambda number: thing
    with pytest.warns(UserWarning, match="it holds a value of type 'builtins.object'"):
        assert made.ask("a").data is thing
    refused = made.ask("a", mode="replay")
    assert refused.error is not None
    assert (
        "could not be recorded: it holds a value of type 'builtins.object'" in refused.error.message
    )
    with pytest.warns(UserWarning, match="not recorded"):
        assert made.ask("a").data is thing
    with pytest.warns(UserWarning, match="in its arguments"):
        made.ask(thing)
    no = made.ask(thing, mode="replay")
    assert no.error is not None
    assert "its arguments cannot be recorded" in no.error.message


def test_a_failure_of_the_tool_is_played_as_the_same_failure(bench: Open) -> None:
    made = bench()

    def fail(number: int) -> Any:
        raise KeyError("nothing there")

    made.gives = fail
    live, played = made.ask("a"), made.ask("a", mode="replay")
    assert live.error is not None
    assert played.error is not None
    assert played.error.to_dict() == live.error.to_dict()
    assert made.count == 1
    pack = made.box.pack("nb")
    assert pack is not None
    with (
        made.box.ot.replay(made.file, mode="replay"),
        pytest.raises(KeyError, match="nothing there"),
    ):
        pack.ask(question="a")


def test_what_may_pass_and_what_never_began_is_not_recorded(bench: Open) -> None:
    made = bench()

    def fail(number: int) -> Any:
        raise Unavailable("no network")

    made.gives = fail
    made.ask("a")
    with made.box.ot.replay(made.file):
        made.box.call("nb.ask", {"nope": 1})
        made.box.call("no.where")
    assert not made.file.exists()
    made.gives = lambda number: "there"
    assert made.ask("a").data == "there"


def test_a_refused_connection_is_not_recorded(bench: Open) -> None:
    """An HTTP tool whose server is away: the outage must not be replayed for ever."""
    opened = bench()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{held.getsockname()[1]}"
        config = opened.file.parent / ".onetool" / "onetool.yaml"
        config.write_text(f"version: 1\nhttp: {{allowed_hosts: ['{place}']}}\n", encoding="utf-8")
        opened.box.reload()
        bundles = opened.box.bundles
        away = bundles.put_bundle(bundles.new_id(), slug="away", display_name="Away")
        request = {"method": "POST", "urlTemplate": f"http://{place}/"}
        bundles.put_tool(
            away.bundle_id, "send", "1", {"type": "http", "http": {"request": request}}
        )
        with opened.box.ot.replay(opened.file):
            result = opened.box.call("away.send")

    assert result.error is not None
    assert "Cannot connect" in result.error.message
    assert not opened.file.exists()


def test_only_the_outermost_call_is_recorded_and_ot_never(bench: Open) -> None:
    made = bench()

    def outer() -> Any:
        return [made.box.call("nb.ask", {"question": "inner"}).data, str(made.box.ot.version())]

    made.box.adopt(outer)
    for _ in range(2):
        with made.box.ot.replay(made.file) as cassette:
            data = made.box.call("nb.outer").data
            made.box.ot.tools()
        assert data[0] == {"number": 1}
        made.gives = lambda number: "changed"
    assert cassette.played == 1
    assert len(lines(made.file)) == 1


async def test_async_and_many_threads_share_a_cassette(bench: Open) -> None:
    made = bench()
    with made.box.ot.replay(made.file) as cassette:
        await asyncio.gather(*(made.box.acall("nb.ask", {"question": i}) for i in range(20)))
        threads = [
            threading.Thread(target=made.box.call, args=("nb.ask", {"question": -i}))
            for i in range(1, 20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cassette.recorded == 39
    with made.box.ot.replay(made.file, mode="replay"):
        results = [made.box.call("nb.ask", {"question": i}) for i in range(-19, 20)]
    assert all(result.ok for result in results)
    assert made.count == 39


def test_a_disabled_or_forbidden_tool_is_not_answered_for(bench: Open) -> None:
    made = bench()
    made.ask("a")
    with made.box.ot.replay(made.file):
        result = made.box.call("nb.ask", {"question": "a"}, allow=["time.*"])
    assert result.error is not None
    assert result.error.reason == "not_allowed"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[:-40], "line 1 is not JSON"),
        (
            lambda text: text + "of: nb.ask\n",
            "line 2 is not JSON, so this version did not record it",
        ),
        (
            lambda text: text.replace('"tool": "nb.ask"', '"tool": 5'),
            "line 1 is not a recorded call",
        ),
        (
            lambda text: text.replace('"result":', '"value":'),
            "line 1 has neither 'result' nor 'failure'",
        ),
        (lambda text: "[1]\n" + text, "line 1 is not a recorded call"),
        (
            lambda text: text.replace('"format": 1', '"format": 2'),
            "line 1 has format 2; this version reads format 1",
        ),
        (lambda text: text.replace('"format": 1, ', ""), "line 1 has format None"),
        (lambda text: "\x00" + text, "line 1"),
    ],
)
def test_a_damaged_file_is_said_and_left_alone(bench: Open, damage: Any, said: str) -> None:
    made = bench()
    made.ask("a")
    broken = damage(made.file.read_text(encoding="utf-8"))
    made.file.write_text(broken, encoding="utf-8")
    with pytest.raises(OneToolError, match=said) as caught:
        made.ask("a")
    assert "Nothing was changed" in caught.value.hint
    assert made.file.read_text(encoding="utf-8") == broken
    assert made.box.replays.active is None
    assert made.box.call("nb.ask").ok


def test_binary_data_is_no_cassette(bench: Open) -> None:
    made = bench()
    made.file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OneToolError, match="line 1 is not UTF-8 text"):
        made.ask("a")


def test_a_result_that_was_edited_badly_is_said(bench: Open) -> None:
    made = bench()
    made.gives = lambda number: b"data"
    made.ask("a")
    text = made.file.read_text(encoding="utf-8")
    made.file.write_text(text.replace("ZGF0YQ==", "ZGF0Y"), encoding="utf-8")
    result = made.ask("a")
    assert result.error is not None
    assert "cannot be read back" in result.error.message


def test_a_disk_that_cannot_be_written_costs_the_record_not_the_result(bench: Open) -> None:
    made = bench()
    made.file = made.file.parent / ".onetool" / "onetool.yaml" / "in" / "the-way.jsonl"
    with pytest.warns(UserWarning, match="a part of the path is not a folder"):
        assert made.ask("a").data == {"number": 1}


def test_blank_and_deleted_lines_are_fine(bench: Open) -> None:
    made = bench()
    made.ask("a")
    made.ask("b")
    text = made.file.read_text(encoding="utf-8")
    made.file.write_text("\n" + text.partition("\n")[2] + "\n\n", encoding="utf-8")
    assert made.ask("b", mode="replay").data == {"number": 2}
    assert made.ask("a").data == {"number": 3}


def test_a_file_that_an_editor_saved_without_its_last_line_end_goes_on(bench: Open) -> None:
    one = bench()
    one.ask("a")
    one.file.write_text(one.file.read_text(encoding="utf-8").rstrip("\n"), encoding="utf-8")
    one.ask("b")

    assert [one.ask(question, "replay").data["number"] for question in "ab"] == [1, 2]


def test_a_pipe_in_the_place_of_a_recording_is_refused_at_once(bench: Open) -> None:
    one = bench()
    if not make_pipe(one.file):
        return

    with pytest.raises(UsageProblem, match="it is not a regular file"):
        one.ask()
    with pytest.raises(UsageProblem, match="it is not a regular file"):
        read_recording(one.file, str)


def test_other_answers_are_recorded_by_kind_and_key(tmp_path: Path) -> None:
    """For what is no tool's: the replies of a model."""
    asked: list[int] = []

    def produce() -> Any:
        asked.append(1)
        return {"text": "hello", "tokens": (1, 2)}

    key = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    for _ in range(2):
        cassette = Cassette(tmp_path / "model.jsonl")
        assert cassette.answer("model", key, produce, version="1") == {
            "text": "hello",
            "tokens": (1, 2),
        }
    assert len(asked) == 1
    with pytest.raises(NotRecorded):
        Cassette(tmp_path / "model.jsonl", mode="replay").answer(
            "model", {"model": "other"}, produce
        )
    with pytest.raises(OneToolError, match="has changed since"):
        Cassette(tmp_path / "model.jsonl").answer("model", key, produce, version="2")


def test_no_cassette_costs_no_import(tmp_path: Path) -> None:

    code = (
        "import sys, onetool_ipy\n"
        "box = onetool_ipy.open_toolbox()\n"
        "box.call('time.now')\n"
        "print([m for m in sys.modules if 'cassette' in m or 'faithful' in m or m == 'yaml'])"
    )
    ran = python(code, cwd=tmp_path)
    assert ran.stdout.strip() == "[]"


def test_cassettes_end_with_their_toolbox(bench: Open) -> None:
    made = bench()
    made.box.ot.replay(made.file).begin()
    made.box.close()
    assert made.box.replays.active is None


def test_an_inner_cassette_answers_before_an_outer_one(bench: Open) -> None:
    made = bench()
    inner = made.file.with_name("inner.jsonl")
    with warnings.catch_warnings(), made.box.ot.replay(made.file) as outer:
        warnings.simplefilter("error")
        with made.box.ot.replay(inner):
            made.box.call("nb.ask")
        made.box.call("nb.ask")
        assert outer.recorded == 1
    assert inner.exists()
