"""The viewer of a table of any library: paged, sorted, saved as CSV, and open again by its
handle."""

from __future__ import annotations

import base64
import io
from typing import Any

import pandas as pd
import polars as pl
import pytest

from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.widgets.viewer import ResultViewer
from onetool_ipy.faces.widgets.widget import result_picture
from tests.faces.widgets.conftest import Side
from tests.harness.tables import KINDS, NAMED

ROWS = [{"id": number, "name": f"n{number}"} for number in range(500)]


def csv_of(viewer: ResultViewer, whose: dict[str, Any], columns: list[int]) -> str:
    ask = {**whose, "format": "csv", "visible": columns, "sort": None, "filter": ""}
    assert viewer.download(ask)["size"] > 0
    return base64.b64decode(viewer.part({**whose, "offset": 0})["base64"]).decode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_any_kind_is_paged_sorted_and_saved(kind: str, side: Side) -> None:
    viewer = ResultViewer(side.box)
    data = KINDS[kind](ROWS)

    about = viewer.show(ToolResult(True, data, meta={"tool": "nb.table", "call_id": "c1"}))

    assert about["kinds"][0] == "table"
    assert (about["rows"], about["lines"]) == (500, 500)
    whose = {"handle": about["handle"], "call": about["call"]}
    page = viewer.table(
        {**whose, "offset": 0, "limit": 2, "sort": {"column": 0, "isDown": True}, "filter": ""}
    )
    names = [column["name"] for column in page["columns"]]
    place = names.index("id" if kind in NAMED else "0")
    assert page["rows"][0][place + 1] == "499"
    assert viewer.find({**whose, "pattern": "n49[0-4]"})["matched"] == 5
    table = pd.read_csv(io.StringIO(csv_of(viewer, whose, [place, place + 1])))
    assert table.to_numpy().tolist() == [[row["id"], row["name"]] for row in ROWS]
    assert viewer.value(whose) is data


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_table_opens_as_a_table_in_another_screen(kind: str, side: Side) -> None:
    handle = side.box.results.put(KINDS[kind](ROWS))

    viewer = ResultViewer(side.box)
    about = viewer.open(handle)

    assert (about["kinds"], about["rows"]) == (["table", "summary", "text"], 500)
    page = viewer.table({"handle": handle, "offset": 7, "limit": 1, "sort": None, "filter": ""})
    assert "n7" in page["rows"][0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_picture_of_a_table_of_any_kind_has_its_rows(kind: str, side: Side) -> None:
    picture = result_picture(side.box, ToolResult(True, KINDS[kind](ROWS)), None)

    assert "500 rows" in picture.text
    assert "n3" in picture.text


def test_the_code_of_a_table_reads_it_in_its_own_way(side: Side) -> None:
    viewer = ResultViewer(side.box)
    frame = pl.DataFrame(ROWS)
    about = viewer.show(ToolResult(True, frame, meta={"call_id": "c1"}))

    payload = {
        "handle": about["handle"],
        "call": about["call"],
        "visible": [0],
        "sort": None,
        "filter": "n49",
    }
    code = viewer.code(payload, {"rows": frame})["code"]

    assert code.startswith("import pandas as pd\ndf = rows.to_pandas()\n")
    exec(code, {"rows": frame})
