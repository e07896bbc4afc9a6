"""A table of another library in a cell: as the library or pandas draws it, with the way to all of
it; a figure once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import plotly.graph_objects as go
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.faces.notebook.display import bundle
from tests.faces.notebook.test_display import Room
from tests.harness.kernel import Kernel


@pytest.fixture
def shell() -> InteractiveShell:
    return InteractiveShell(config=Config(HistoryManager={"enabled": False}))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    with open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as opened:
        yield opened


def give(box: Toolbox, value: Any) -> Any:
    def table() -> Any:
        return value

    box.adopt(table)
    return box.call("nb.table", {})


@pytest.mark.parametrize(
    ("value", "part", "word"),
    [
        (pl.DataFrame({"id": range(5_000)}), "5,000 rows", "shape: (5_000, 1)"),
        (duckdb.connect().sql("select range as id from range(5000)"), "5,000 rows", "BIGINT"),
        (pa.table({"id": list(range(5_000))}), "of 5,000 rows", "<td>4999</td>"),
        (xr.Dataset({"id": ("row", range(5_000))}), "5,000 rows", "xr-dim"),
        ([(number, "a") for number in range(5_000)], "of 5,000 rows", "<td>4999</td>"),
    ],
    ids=["polars", "duckdb", "pyarrow", "xarray", "tuples"],
)
def test_a_long_table_is_drawn_and_leads_to_all_of_it(
    box: Toolbox, shell: InteractiveShell, value: Any, part: str, word: str
) -> None:
    result = give(box, value)

    shown, _ = bundle(shell, box, result, Room())

    assert word in shown["text/html"].replace("<small>", "")
    last = shown["text/plain"].splitlines()[-1]
    assert part in last
    assert f"ot.view('{result.handle}')" in last
    assert box.results.query(result.handle)["total_lines"] == 5_000


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ((3, 200), "3 rows × 20 of 200 columns"),
        ((61, 20), "10 of 61 rows × 20 columns"),
        ((61, 21), "10 of 61 rows × 20 of 21 columns"),
        ((60, 20), ""),
    ],
    ids=str,
)
def test_what_pandas_cuts_of_a_frame_is_told(
    box: Toolbox, shell: InteractiveShell, shape: tuple[int, int], part: str
) -> None:
    frame = pd.DataFrame(0, index=range(shape[0]), columns=range(shape[1]))

    with pd.option_context("display.max_columns", 20):
        shown, _ = bundle(shell, box, give(box, frame), Room())

    last = shown["text/plain"].splitlines()[-1]
    assert last.startswith(f"... {part} ·") if part else "ot.view" not in last


def test_a_short_table_has_no_line_below(box: Toolbox, shell: InteractiveShell) -> None:
    shown, _ = bundle(shell, box, give(box, pl.DataFrame({"id": [1, 2]})), Room())

    assert "ot.view" not in shown["text/plain"]
    assert not box.results.list()


@pytest.mark.slow
def test_a_figure_that_shows_itself_is_shown_once(
    box: Toolbox, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """plotly's figures have `_ipython_display_`, and HTML of their own besides."""
    result = give(box, go.Figure(go.Scatter(x=[1, 2], y=[3, 4])))

    shown, _ = bundle(shell, box, result, Room())

    assert capsys.readouterr().out == ""
    assert shown["text/plain"].startswith("Figure(")


@pytest.mark.slow
def test_a_figure_in_a_notebook_is_one_output_however_large(kernel: Kernel) -> None:
    """In a kernel the figure has a bundle of its own; a large one has more text than a cell may
    hold."""
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute(
        "import plotly.graph_objects as go\n"
        "def figure(n: int):\n"
        "    'Draw.'\n"
        "    return go.Figure(go.Scatter(x=list(range(n)), y=list(range(n))))\n"
        "ot.adopt(figure)"
    )
    for count in (3, 100_000):
        outcome = kernel.execute(f"%tool nb.figure n={count}")
        assert outcome.result is not None
        assert "application/vnd.plotly.v1+json" in outcome.result
        assert not any(
            "application/vnd.plotly.v1+json" in display.data for display in outcome.displays
        )
