"""`ot.map`: what it takes, what it gives, what it refuses before anything runs."""

from __future__ import annotations

import datetime
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from onetool_ipy import Toolbox, tool
from onetool_ipy.base.errors import CallTimeout, RateLimited, Unavailable
from onetool_ipy.core import current
from onetool_ipy.core.result import ToolCallError
from onetool_ipy.stores.calls.query import CallFilter, RunRow
from tests.harness.patience import HANG_S
from tests.harness.project import Project
from tests.harness.tables import NAMED

SECRET = "sk-map-0123456789"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    with Project(tmp_path, env=os.environ) as project:
        yield project.open(secrets={"KEY": SECRET}, clock=None)


@pytest.fixture
def calls(box: Toolbox) -> list[dict[str, Any]]:
    """What the tool `nb.place` was called with."""
    seen: list[dict[str, Any]] = []

    def place(address: str, lang: str = "en", depth: float | None = None) -> str:
        seen.append({"address": address, "lang": lang, "depth": depth})
        return f"{address}/{lang}"

    box.adopt(place)
    return seen


Adopt = Callable[..., Any]
FRAME = pd.DataFrame(
    {"addr": ["Rome", "Bern"], "lang": ["it", "de"], "n": [1, 2]}, index=["x", "y"]
)


def test_an_argument_names_its_column_and_the_index_stays(box: Toolbox, calls: list[Any]) -> None:
    frame = box.ot.map("nb.place", FRAME, address="addr", workers=2)

    assert frame.columns.tolist() == ["place", "ok", "error", "ms"]
    assert frame.index.tolist() == ["x", "y"]
    assert frame["place"].tolist() == ["Rome/en", "Bern/en"]
    assert frame["ok"].tolist() == [True, True]
    assert frame["error"].isna().all()
    assert (frame["ms"] > 0).all()
    assert FRAME.join(frame)["place"].tolist() == ["Rome/en", "Bern/en"]


@pytest.mark.parametrize(
    ("data", "given"),
    [
        (FRAME, {"address": "addr", "lang": "lang"}),
        (FRAME.rename(columns={"addr": "address"}), {}),
        ({"address": ["Rome", "Bern"], "lang": ["it", "de"]}, {}),
        ({"address": np.array(["Rome", "Bern"]), "lang": ("it", "de")}, {}),
        ([{"address": "Rome", "lang": "it"}, {"address": "Bern", "lang": "de"}], {}),
        (
            [{"a": "Rome", "b": "it"}, {"a": "Bern", "b": "de"}],
            {"columns": {"address": "a", "lang": "b"}},
        ),
        (
            (row for row in [{"address": "Rome", "lang": "it"}, {"address": "Bern", "lang": "de"}]),
            {},
        ),
    ],
    ids=["frame", "own-names", "lists", "arrays", "records", "records-named", "generator"],
)
def test_every_shape_of_table(
    box: Toolbox, calls: list[Any], data: Any, given: dict[str, Any]
) -> None:
    assert box.ot.map("nb.place", data, **given)["place"].tolist() == ["Rome/it", "Bern/de"]


@pytest.mark.parametrize(
    "data",
    [
        ["Rome", "Bern"],
        pd.Series(["Rome", "Bern"]),
        pd.Index(["Rome", "Bern"]),
        np.array(["Rome", "Bern"]),
    ],
)
def test_a_list_is_for_the_one_open_argument(box: Toolbox, calls: list[Any], data: Any) -> None:
    frame = box.ot.map("nb.place", data, const={"lang": "fr"})
    assert frame["place"].tolist() == ["Rome/fr", "Bern/fr"]
    assert frame.index.tolist() == [0, 1]


def test_a_series_may_be_named_as_a_column(box: Toolbox, calls: list[Any]) -> None:
    frame = box.ot.map("nb.place", FRAME["addr"], address="addr", lang="fr")
    assert frame["place"].tolist() == ["Rome/fr", "Bern/fr"]


def test_missing_cells_are_left_out_where_the_argument_is_optional(
    box: Toolbox, calls: list[Any]
) -> None:
    data = pd.DataFrame({"address": ["a", None, "c"], "depth": [1.5, 2.0, math.nan]})

    frame = box.ot.map("nb.place", data, workers=1)

    assert frame["ok"].tolist() == [True, False, True]
    assert frame["error"][1].startswith("'nb.place': argument 'address'")
    assert calls == [
        {"address": "a", "lang": "en", "depth": 1.5},
        {"address": "c", "lang": "en", "depth": None},
    ]


@pytest.mark.parametrize(
    ("data", "given", "said"),
    [
        (
            FRAME,
            {"address": "adr"},
            "No column 'adr' for the argument 'address'. Did you mean 'addr'?",
        ),
        (FRAME, {"address": "addr", "lang": "fr"}, "No column 'fr' for the argument 'lang'"),
        (FRAME, {}, "No column for the argument 'address'"),
        (FRAME, {"adress": "addr"}, "has no argument 'adress'. Did you mean 'address'?"),
        (FRAME, {"address": "addr", "columns": {"address": "n"}}, "'address' was given twice"),
        (
            FRAME,
            {"columns": {"address": "n"}, "const": {"address": 1}},
            "is in columns= and in const=",
        ),
        (FRAME, {"columns": {"address": "none"}}, "There is no column 'none'"),
        (
            pd.DataFrame([["a", "b"]], columns=["q", "q"]),
            {"address": "q"},
            "There are 2 columns 'q'",
        ),
        (pd.DataFrame([["a", "b"]]), {"address": 0}, "may be a column or a value"),
        ({"address": ["a"], "lang": []}, {}, "not of one length"),
        ({"address": ["a"], "lang": "de"}, {}, "which is not a list"),
        ([{"address": "a", "land": "de"}], {}, "has no argument 'land'"),
        ([{"address": "a"}, "b"], {}, "Some items of the list are dicts"),
        ("Rome", {}, "'Rome' is not a table"),
        (5, {}, "5 is not a table"),
        (np.zeros((2, 2, 2)), {}, "An array of 3 dimensions"),
        (FRAME, {"address": "addr", "workers": 0}, "workers=0"),
        (FRAME, {"address": "addr", "workers": math.nan}, "workers=nan"),
        (FRAME, {"address": "addr", "workers": "eight"}, "workers"),
        (FRAME, {"address": "addr", "retries": -1}, "retries=-1"),
        (FRAME, {"address": "addr", "per_minute": 0}, "per_minute=0"),
        (FRAME, {"address": "addr", "engine": "ray"}, "No engine 'ray'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    box: Toolbox, calls: list[Any], data: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ToolCallError, match=".*".join(map(_quoted, [said]))) as caught:
        box.ot.map("nb.place", data, **given)
    assert caught.value.code == "invalid_args"
    assert calls == []


def _quoted(text: str) -> str:
    import re

    return re.escape(text)


def test_an_unknown_tool_is_said_with_the_nearest(box: Toolbox, calls: list[Any]) -> None:
    with pytest.raises(ToolCallError, match=r"Did you mean 'nb\.place'") as caught:
        box.ot.map("nb.plac", ["a"])
    assert caught.value.code == "tool_not_found"
    with pytest.raises(ToolCallError, match="cannot be mapped"):
        box.ot.map("ot.map", ["a"])


@pytest.mark.parametrize(
    "data", [[], pd.DataFrame({"address": []}), pd.Series([], dtype=str), {}, {"address": []}]
)
def test_no_rows_give_an_empty_frame(box: Toolbox, calls: list[Any], data: Any) -> None:
    given = {} if not isinstance(data, dict) or data else {"const": {"address": "a"}}
    frame = box.ot.map("nb.place", data, **given)
    assert frame.empty
    columns = ["place", "ok", "error", "ms"]
    assert frame.columns.tolist() in (columns, ["address", *columns])


@pytest.mark.parametrize(
    "data",
    [
        ["Rome", "x\ud800"],
        {"address": ["Rome", "x\ud800"]},
        [{"address": "Rome"}, {"address": "x\ud800"}],
    ],
    ids=["list", "lists", "records"],
)
def test_what_failed_stands_beside_its_input(box: Toolbox, data: Any) -> None:
    """Data without an index cannot be joined. An argument that has the name of a result column is
    left out."""

    def where(address: str) -> str:
        if address != "Rome":
            raise LookupError("no such place")
        return address

    def address(address: str) -> str:
        return address.upper()

    box.adopt(where)
    box.adopt(address)
    frame = box.ot.map("nb.where", data)
    assert frame.columns.tolist() == ["address", "where", "ok", "error", "ms"]
    assert frame[~frame.ok]["address"].tolist() == ["x\\ud800"]
    assert box.ot.map("nb.address", ["a"]).columns.tolist() == ["address", "ok", "error", "ms"]
    assert box.ot.map("nb.address", ["a"])["address"].tolist() == ["A"]


def test_a_doubled_index_keeps_each_row_in_its_place(box: Toolbox, calls: list[Any]) -> None:
    frame = box.ot.map("nb.place", FRAME.set_index(pd.Index(["x", "x"])), address="addr")
    assert frame.index.tolist() == ["x", "x"]
    assert frame["place"].tolist() == ["Rome/en", "Bern/en"]
    many = FRAME.set_index(pd.MultiIndex.from_tuples([(1, "a"), (1, "b")], names=["p", "q"]))
    assert box.ot.map("nb.place", many, address="addr").index.equals(many.index)


def test_equal_rows_are_each_called_and_each_resumed(box: Toolbox, calls: list[Any]) -> None:
    box.ot.map("nb.place", ["a", "a", "a"])
    assert len(calls) == 3
    assert box.ot.map("nb.place", ["a", "a", "a"]).attrs["onetool"]["resumed"] == 3
    assert box.ot.map("nb.place", ["a"] * 4).attrs["onetool"]["called"] == 1


def test_cells_of_any_kind_are_passed_as_they_are(box: Toolbox) -> None:
    cells = [
        [1, 2],
        {"a": 1},
        {1, 2},
        b"x",
        datetime.date(2026, 1, 2),
        object(),
        pd.DataFrame({"a": [1]}),
    ]

    frame = box.ot.map("tools.echo", pd.Series(cells))
    again = box.ot.map("tools.echo", pd.Series(cells))

    assert all(
        given is cell or given == cell
        for given, cell in zip(frame["echo"][:6], cells[:6], strict=True)
    )
    pd.testing.assert_frame_equal(again["echo"][6], cells[6])
    assert frame.attrs["onetool"]["not_kept"] == 1, "an object() has no form to be kept in"
    assert again.attrs["onetool"]["resumed"] == 6


@pytest.mark.parametrize(
    ("gives", "columns", "kinds"),
    [
        (lambda n: n, ["f"], ["int64"]),
        (lambda n: 2**70 + n, ["f"], ["object"]),
        (lambda n: n / 2, ["f"], ["float64"]),
        (lambda n: str(n), ["f"], ["str"]),
        (lambda n: n > 1, ["f"], ["bool"]),
        (lambda n: None, ["f"], ["object"]),
        (lambda n: [n], ["f"], ["object"]),
        (lambda n: {"a": n, "b": {"c": 1}}, ["a", "b"], ["int64", "object"]),
        (lambda n: {"a": n} if n else {"b": 1.5}, ["b", "a"], ["float64", "Int64"]),
        (lambda n: {"ok": "yes", "ms": n}, ["f_ok", "f_ms"], ["str", "int64"]),
        (lambda n: {"a": n} if n else "text", ["f"], ["object"]),
        (lambda n: pd.Timestamp("2026-01-02"), ["f"], ["datetime64[us]"]),
    ],
)
def test_columns_are_what_pandas_users_expect(
    box: Toolbox, gives: Any, columns: list[str], kinds: list[str]
) -> None:
    def f(n: int) -> Any:
        return gives(n)

    box.adopt(f)
    frame = box.ot.map("nb.f", [0, 1, 2])
    again = box.ot.map("nb.f", [0, 1, 2])
    assert frame.columns.tolist() == ["n", *columns, "ok", "error", "ms"]
    assert [str(frame[c].dtype) for c in columns] == kinds
    pd.testing.assert_frame_equal(frame.drop(columns="ms"), again.drop(columns="ms"))
    assert again.attrs["onetool"]["resumed"] == 3


def test_whole_numbers_stay_whole_beside_failed_rows(box: Toolbox) -> None:
    def big(n: int) -> int:
        """Give a large number."""
        return 2**60 + 1 if n else 1 // n

    box.adopt(big)
    frame = box.ot.map("nb.big", [1, 0])
    assert frame["big"].tolist()[0] == 2**60 + 1
    assert frame["big"].isna().tolist() == [False, True]


def test_results_that_share_no_key_stay_dicts(box: Toolbox) -> None:
    """A column for each key would make n x n cells."""
    rows = [{"message": {f"k{number}": number}} for number in range(1_100)]

    frame = box.ot.map("tools.echo", rows)

    assert frame.columns.tolist() == ["message", "echo", "ok", "error", "ms"]
    assert frame["echo"][7] == {"k7": 7}


def test_half_a_character_is_written_out(box: Toolbox) -> None:
    frame = box.ot.map("tools.echo", [{"message": {"a": "x\ud800"}}, {"message": {"a": "\ud800"}}])

    assert frame["a"].tolist() == ["x\\ud800", "\\ud800"]


def test_dicts_may_stay_dicts(box: Toolbox) -> None:
    assert box.ot.map("tools.echo", [{"message": {"a": 1}}], expand=False)["echo"].tolist() == [
        {"a": 1}
    ]


def test_a_tool_whose_code_changed_is_called_anew(box: Toolbox) -> None:
    def define(source: str) -> None:
        namespace: dict[str, Any] = {}
        exec(source, namespace)
        box.adopt(namespace["twice"])

    define("def twice(n: int) -> int:\n    'Twice.'\n    return n * 2")
    assert box.ot.map("nb.twice", [1])["twice"].tolist() == [2]
    define("def twice(n: int) -> int:\n    'Twice.'\n    return n * 3")
    assert box.ot.map("nb.twice", [1])["twice"].tolist() == [3]


def test_a_tool_whose_helper_changed_is_called_anew(box: Toolbox) -> None:
    """The helper is another function of the notebook, which the tool's function calls."""

    def define(source: str) -> None:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        helpers = "def times(n: int) -> int:\n    return factor(n) if n else times(1)\n"
        own = "def twice(n: int) -> int:\n    'Twice.'\n    return sum(times(n) for _ in 'x')"
        exec(f"{source}\n{helpers}{own}", namespace)
        box.adopt(namespace["twice"])

    define("def factor(n): return n * 2")
    assert box.ot.map("nb.twice", [1])["twice"].tolist() == [2]
    define("def factor(n): return n * 2")
    assert box.ot.map("nb.twice", [1]).attrs["onetool"]["resumed"] == 1
    define("def factor(n): return n * 3")
    assert box.ot.map("nb.twice", [1])["twice"].tolist() == [3]


def test_rows_of_another_environment_are_not_kept_for_this_one(project: Project) -> None:
    """What production gave is not what staging gives, though tool and arguments are the same."""
    box = project.open(
        {"http": {"allowed_hosts": ["*.example.com"]}},
        replies=lambda request: httpx.Response(200, json={"url": str(request.url)}),
    )
    bundle_id, request = box.bundles.new_id(), {"urlTemplate": "/me", "query": {"in": "${region}"}}

    def called_in(environment: str, region: str) -> list[str]:
        about = {
            "slug": "shop",
            "display_name": "Shop",
            "base_url": f"https://{environment}.example.com",
        }
        active = {"name": environment, "variables": {"region": region}}
        box.bundles.put_bundle(bundle_id, **about, environment=active)
        if not box.bundles.all_tools(bundle_id):
            box.bundles.put_tool(
                bundle_id, "me", "1", {"type": "http", "http": {"request": request}}
            )
        frame = box.ot.map("shop.me", [{}])
        return [*frame["url"], frame.attrs["onetool"]["resumed"]]

    assert called_in("prod", "eu") == ["https://prod.example.com/me?in=eu", 0]
    assert called_in("prod", "eu") == ["https://prod.example.com/me?in=eu", 1]
    assert called_in("prod", "us") == ["https://prod.example.com/me?in=us", 0]
    assert called_in("staging", "eu") == ["https://staging.example.com/me?in=eu", 0]


def test_rows_of_a_tool_that_changes_during_the_run_fail(box: Toolbox, calls: list[Any]) -> None:
    """A switch of the environment, or a cell that defines the tool anew, makes another table of the
    rows behind it."""

    def again(n: int) -> int:
        """Give it, and become another tool."""
        if n == 2:
            box.adopt(tool(name="nb.again")(lambda n: -n))
        return n

    box.adopt(again)

    frame = box.ot.map("nb.again", [1, 2, 3], workers=1)

    assert frame["again"].dropna().tolist() == [1, 2]
    assert "'nb.again' has changed since this run began" in frame["error"].iloc[2]
    assert box.ot.map("nb.again", [1, 2, 3])["again"].tolist() == [-1, -2, -3]


def test_fresh_calls_every_row_anew(box: Toolbox, calls: list[Any]) -> None:
    box.ot.map("nb.place", ["a", "b"])
    assert box.ot.map("nb.place", ["a"], fresh=True).attrs["onetool"]["called"] == 1
    assert box.ot.map("nb.place", ["a", "b"]).attrs["onetool"]["resumed"] == 2
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("failure", "tries"),
    [
        (CallTimeout("late"), 3),
        (Unavailable("away"), 3),
        (RateLimited("slow down", details={"retryAfterS": 0.01}), 13),
        (ConnectionResetError("reset"), 3),
        (TimeoutError("late"), 3),
        (ValueError("no"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_only_what_may_pass_is_tried_again(box: Toolbox, failure: Exception, tries: int) -> None:
    seen: list[int] = []

    def flaky(n: int) -> int:
        seen.append(n)
        raise failure

    box.adopt(flaky)
    frame = box.ot.map("nb.flaky", [1])
    assert len(seen) == tries
    assert not frame["ok"][0]


def test_a_refused_connection_is_tried_again(box: Toolbox, tmp_path: Path) -> None:
    """An HTTP tool whose server is away. It POSTs, so the HTTP client itself sends once."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{held.getsockname()[1]}"
        config = tmp_path / ".onetool" / "onetool.yaml"
        config.write_text(f"version: 1\nhttp: {{allowed_hosts: ['{place}']}}\n", encoding="utf-8")
        box.reload()
        away = box.bundles.put_bundle(box.bundles.new_id(), slug="away", display_name="Away")
        request = {"method": "POST", "urlTemplate": f"http://{place}/"}
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        record = {"type": "http", "http": {"request": request}, "argSchema": schema}
        box.bundles.put_tool(away.bundle_id, "send", "1", record)
        frame = box.ot.map("away.send", [1], retries=1)

    assert "Cannot connect" in frame["error"][0]
    assert [row.ok for row in box.log.history(tool="away.send")] == [False, False]


def test_a_row_that_passes_at_last_is_done(box: Toolbox) -> None:
    seen: list[int] = []

    def flaky(n: int) -> int:
        seen.append(n)
        if len(seen) == 1:
            raise Unavailable("not yet")
        return n

    box.adopt(flaky)
    assert box.ot.map("nb.flaky", [4])["flaky"].tolist() == [4]
    assert [row.ok for row in box.log.history(tool="nb.flaky")] == [True, False]
    [run] = box.log.lines(CallFilter(tool="nb.flaky"))
    assert isinstance(run, RunRow)
    assert (run.rows, run.failures) == (1, 0), "two calls, one row that went well"


def test_a_limit_per_minute_spaces_the_calls(box: Toolbox) -> None:
    seen: list[float] = []

    def stamp(n: int) -> None:
        seen.append(time.monotonic())

    box.adopt(stamp)
    began = time.monotonic()
    box.ot.map("nb.stamp", range(3), per_minute=40, workers=3)
    # A busy machine may delay any call, but none comes before its turn; without turns all come
    # within a second.
    assert len(seen) == 3
    assert all(at - began >= number * 1.5 for number, at in enumerate(sorted(seen)))


def test_no_more_rows_are_under_way_than_allowed(box: Toolbox) -> None:
    """Three wait for each other, so three are under way; and then a moment for a fourth, who would
    be counted."""
    under_way: list[int] = []
    most: list[int] = []
    three, fourth = threading.Barrier(3), threading.Event()

    def meet(n: int) -> None:
        under_way.append(n)
        most.append(len(under_way))
        if len(under_way) > 3:
            fourth.set()
        three.wait(HANG_S)
        fourth.wait(0.1)
        under_way.remove(n)

    box.adopt(meet)
    assert box.ot.map("nb.meet", range(12), workers=3)["ok"].all()
    assert max(most) == 3


def test_every_row_is_a_logged_call_and_secrets_are_kept_out_of_the_state(
    box: Toolbox, tmp_path: Path
) -> None:
    frame = box.ot.map("tools.echo", [f"a {SECRET}", "plain"])

    assert frame["echo"].tolist()[0] == f"a {SECRET}", "a value for Python is never altered"
    assert box.log.count_of("tools.echo")[0] == 2
    assert box.log.count_of("ot.map")[0] == 1
    kept = b"".join(file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file())
    assert SECRET.encode() not in kept
    assert box.ot.map("tools.echo", [f"a {SECRET}", "plain"]).attrs["onetool"]["resumed"] == 1

    def leak(n: int) -> None:
        raise ValueError(SECRET)

    box.adopt(leak)
    assert SECRET not in box.ot.map("nb.leak", [1])["error"][0]


def test_progress_is_told_and_a_rows_own_progress_is_not(box: Toolbox) -> None:
    from onetool_ipy.sdk import progress

    def slow(n: int) -> int:
        progress(77, 99, "my own")
        threading.Event().wait(0.02)
        return n

    box.adopt(slow)
    job = box.start("ot.map", {"tool": "nb.slow", "data": list(range(20)), "workers": 2})
    assert job.result(HANG_S).ok
    assert (job.progress.done, job.progress.total) == (20, 20)
    assert job.progress.text == "nb.slow"


def test_damaged_lines_cost_only_their_rows(box: Toolbox, calls: list[Any], tmp_path: Path) -> None:
    box.ot.map("nb.place", ["a", "b", "c"])
    file = next((tmp_path / "state").rglob("maps/*.jsonl"))
    data = file.read_bytes()
    file.write_bytes(
        data[: data.rindex(b'"v"')] + b"\xff\n" + b'{"k":"x\n{"k":1}\n\n{"drop":5}\n{"k"'
    )

    frame = box.ot.map("nb.place", ["a", "b", "c"])

    assert frame["ok"].all()
    assert frame.attrs["onetool"]["resumed"] == 2
    assert box.ot.map("nb.place", ["a", "b", "c"]).attrs["onetool"]["resumed"] == 3


def test_a_state_that_cannot_be_written_still_gives_the_results(
    box: Toolbox, calls: list[Any], tmp_path: Path
) -> None:
    box.call("tools.echo", {"message": 1})
    folder = next((tmp_path / "state").iterdir()) / "maps"
    folder.write_text("in the way", encoding="utf-8")

    frame = box.ot.map("nb.place", ["a", "b"])

    assert frame["place"].tolist() == ["a/en", "b/en"]
    assert frame.attrs["onetool"]["not_kept"] == 2
    assert "a part of the path is not a folder" in frame.attrs["onetool"]["not_kept_because"]


def test_a_model_cannot_reach_other_tools_through_it(box: Toolbox, calls: list[Any]) -> None:
    for source in ("model", "rest", "mcp"):
        result = box.call("ot.map", {"tool": "nb.place", "data": ["a"]}, source=source)  # type: ignore[arg-type]
        assert result.error is not None
        assert result.error.reason == "not_allowed"
    assert calls == []


def test_rows_know_who_asked_for_the_run(box: Toolbox) -> None:
    def who(n: int) -> str:
        here = current.scope()
        return f"{None if here is None else here.asked_by}"

    def many() -> list[str]:
        return list(box.ot.map("nb.who", [1, 2])["who"])

    box.adopt(who)
    box.adopt(many)

    assert box.call("nb.many", source="magic").data == ["magic", "magic"]


def test_rows_are_recorded_and_played_back(box: Toolbox, calls: list[Any], tmp_path: Path) -> None:
    """Rows that went well before are in the recording too, and what it gave is never taken for what
    the tool gave."""
    words = ["a", "b", "c", "a"]
    box.ot.map("nb.place", ["a"])
    for mode in ("auto", "replay", "replay"):
        with box.ot.replay(tmp_path / "rows.jsonl", mode=mode):
            frame = box.ot.map("nb.place", words)
        assert frame["place"].tolist() == ["a/en", "b/en", "c/en", "a/en"]
        assert frame.attrs["onetool"]["not_kept_because"] == "a replay is on"
    assert len(calls) == 1 + 4

    assert box.ot.map("nb.place", words).attrs["onetool"]["resumed"] == 1


def test_what_a_replay_gave_that_began_during_a_run_is_not_kept(
    box: Toolbox, tmp_path: Path
) -> None:
    replay = box.ot.replay(tmp_path / "rows.jsonl")

    def place(address: str) -> str:
        """Find a place, and go on offline."""
        if address == "a":
            replay.begin()
        return address

    box.adopt(place)
    with box.ot.replay(tmp_path / "rows.jsonl"):
        box.ot.map("nb.place", ["b"])
    box.ot.map("nb.place", ["a", "b"], workers=1)
    replay.end()

    assert box.ot.map("nb.place", ["a", "b"]).attrs["onetool"]["resumed"] == 1


def test_no_other_process_calls_rows_while_a_replay_is_on(
    box: Toolbox, calls: list[Any], tmp_path: Path
) -> None:
    with (
        ProcessPoolExecutor(1) as pool,
        box.ot.replay(tmp_path / "rows.jsonl"),
        pytest.raises(ToolCallError, match="A replay is on, and answers in this process alone"),
    ):
        box.ot.map("nb.place", ["a"], engine=pool)


@pytest.mark.soak
def test_a_million_rows_fit_into_memory(box: Toolbox) -> None:
    import tracemalloc

    tracemalloc.start()
    frame = box.ot.map("tools.echo", pd.Series(range(1_000_000)))
    assert frame["ok"].all()
    assert tracemalloc.get_traced_memory()[1] < 1_500_000_000


@pytest.mark.parametrize("data", [["a"], []])
def test_what_is_no_engine_is_refused_also_where_nothing_is_left_to_do(
    box: Toolbox, calls: list[dict[str, Any]], data: list[str]
) -> None:
    box.ot.map("nb.place", data)
    with pytest.raises(ToolCallError, match="No engine 'spark'"):
        box.ot.map("nb.place", data, engine="spark")


def test_a_list_for_an_argument_that_is_named_too_says_to_leave_it_out(
    box: Toolbox, calls: list[dict[str, Any]]
) -> None:
    with pytest.raises(ToolCallError, match=r"no argument of 'nb\.place' is left for it") as raised:
        box.ot.map("nb.place", ["a"], address="address")
    assert "Leave out the one" in raised.value.hint
    assert calls == []


@pytest.mark.parametrize("kind", sorted(NAMED))
def test_a_table_of_any_kind_has_its_columns_mapped(
    kind: str, box: Toolbox, calls: list[Any]
) -> None:
    data = NAMED[kind]([{"address": "Rome", "lang": "it"}, {"address": "Bern", "lang": "de"}])

    frame = box.ot.map("nb.place", data, address="address", lang="lang")

    assert frame["place"].tolist() == ["Rome/it", "Bern/de"]


def test_places_of_tuples_and_arrays_are_columns(box: Toolbox, calls: list[Any]) -> None:
    tuples = [("Rome", "it"), ("Bern", "de")]

    for data in (tuples, np.array(tuples)):
        frame = box.ot.map("nb.place", data, columns={"address": 0, "lang": 1})
        assert frame["place"].tolist() == ["Rome/it", "Bern/de"]


def test_tuples_can_still_be_the_values_of_one_argument(box: Toolbox) -> None:
    def total(pair: tuple[int, int]) -> int:
        return pair[0] + pair[1]

    box.adopt(total)
    assert box.ot.map("nb.total", [(1, 2), (3, 4)])["total"].tolist() == [3, 7]
