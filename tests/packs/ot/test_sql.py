"""`ot.sql` in a person's code: their tables by name, and who may ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from onetool_ipy import Toolbox, ToolCall, open_toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.result import ToolResult


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    with open_toolbox(
        tmp_path, env={**home_at(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    ) as made:
        yield made


def records_of(result: ToolResult) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.df.to_dict("records")
    return found


def test_tables_of_the_person_s_code_are_tables_by_name(box: Toolbox) -> None:
    mine = pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index(["x", "y", "z"], name="key"))
    result = box.run("tools.echo", {"message": "hello"})
    records = [{"a": 2, "b": "two"}]

    assert records_of(box.ot.sql("select key from mine join records using (a)")) == [{"key": "y"}]
    assert records_of(box.ot.sql("select * from RESULT")) == [{"line": "hello"}]
    assert (mine.index.name, result.ok, len(records)) == ("key", True, 1)


def test_tables_of_other_libraries_are_read_by_their_interface(box: Toolbox) -> None:
    class Foreign:
        def to_pandas(self) -> pd.DataFrame:
            return pd.DataFrame({"a": [7]})

    theirs = Foreign()
    assert records_of(box.ot.sql("from theirs")) == [{"a": 7}]
    del theirs


def test_the_log_wins_over_a_table_called_calls_and_says_so(
    box: Toolbox, capsys: pytest.CaptureFixture[str]
) -> None:
    notes: list[str] = []
    box.host.note = notes.append  # type: ignore[method-assign]  # what the person would see
    calls = pd.DataFrame({"mine": [1]})

    assert "mine" not in box.ot.sql("from calls limit 1").df
    assert notes == ["'calls' is the call log here, and not your table of that name."]
    del calls


def test_an_answer_is_a_result_like_any_other(box: Toolbox) -> None:
    result = box.ot.sql("select 1 as one")

    assert result.df["one"].tolist() == [1]
    assert box.results.value(result.store())["one"].tolist() == [1]
    (row,) = box.log.history(limit=1)
    assert (row.tool, json.loads(row.args)) == ("ot.sql", {"query": "select 1 as one"})


@pytest.mark.parametrize("source", ["model", "rest", "mcp"])
def test_models_and_clients_are_not_offered_it_and_may_not_call_it(
    box: Toolbox, source: Any
) -> None:
    result = box.call(ToolCall("id", "ot.sql", {"query": "select 1"}, source))

    assert result.error is not None
    assert not box.registry.require("ot.sql").is_offered


def test_tables_are_listed(box: Toolbox) -> None:
    handle = box.results.put("x", tool="a.b")
    mine = pd.DataFrame({"a": [1]})

    found = {row["table"]: row["what"] for row in records_of(box.ot.sql("show tables"))}
    assert found["calls"] == "every call of the log"
    assert (found[f"r_{handle}"], found["mine"]) == ("a.b", "a table of yours")
    del mine


def test_variables_are_those_of_the_code_that_asks(box: Toolbox) -> None:
    def inner() -> list[dict[str, Any]]:
        own = [{"a": 1}]
        assert own
        return records_of(box.ot.sql("from own"))

    own = [{"a": 2}]
    assert (inner(), records_of(box.ot.sql("from own"))) == ([{"a": 1}], own)
