"""What a screen leaves in a saved notebook: small whatever the data, and it says how much it
shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest
from nbclient import NotebookClient

from onetool_ipy import open_toolbox, tool
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.faces.widgets.widget import browser_picture, result_picture, usage_picture
from onetool_ipy.toolbox import Toolbox

SECRET = "s3cr3t-in-a-picture"
MAX_BYTES = 100_000
SETUP = """%load_ext onetool_ipy
import pandas as pd
from onetool_ipy import ToolResult, tool
odd = "'\\"<&>\\x00\\x1b😀" * 2000
def made(number):
    def any_tool(text: str = "") -> str:
        return text
    any_tool.__doc__ = odd
    return tool(f"pack{number}.{'long_name_' * 6}{number}")(any_tool)
for number in range(300):
    made(number)"""
SCREENS = {
    "ot.view(pd.DataFrame([[1.5] * 20_000] * 3))": "3 rows × 20,000 columns",
    "ot.view(pd.DataFrame([range(20)] * 500, columns=[odd + str(n) for n in range(20)]))": (
        "20 of 500 rows"
    ),
    "ot.view(pd.DataFrame({'a': [odd] * 500, 'b': [odd * 20] * 500}))": "20 of 500 rows",
    "ot.view([{f'{odd}{n}': odd for n in range(200)}] * 100)": "20 of 100 rows, 8 of 200 columns",
    "ot.view([{str(n): n for n in range(20_000)}] * 3)": "20 of 20,000 columns",
    "ot.view(ToolResult(True, odd * 50))": "1 line",
    "ot.view(ToolResult(True, '\\n'.join([odd] * 500)))": "20 of 500 lines",
    "ot.view([odd] * 500)": "lines",
    "ot.view({'a': odd * 50, 'b': list(range(100_000))})": "lines",
    "ot.browser()": "40 of 3",
    "ot.usage()": "Usage, week",
}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    onetool = tmp_path / ".onetool"
    onetool.mkdir()
    (onetool / "onetool.yaml").write_text("version: 1\n")
    (onetool / "secrets.yaml").write_text(f"KEY: {SECRET}\n")
    (onetool / "secrets.yaml").chmod(0o600)
    with open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        yield box


@pytest.mark.slow
def test_saved_notebook_has_at_most_100_kb_for_a_screen(tmp_path: Path) -> None:
    """Wide and long tables, long cells, long names, odd characters, many tools: the bytes in the
    file."""
    make: Any = nbformat.v4
    notebook = make.new_notebook(cells=[make.new_code_cell(cell) for cell in (SETUP, *SCREENS)])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    # The state of widgets is saved only by those who ask for it.
    notebook.metadata.pop("widgets", None)

    for cell, said in zip(notebook.cells[1:], SCREENS.values(), strict=True):
        alone = make.new_notebook(cells=[cell], metadata=notebook.metadata)
        nbformat.write(alone, tmp_path / "saved.ipynb")
        assert (tmp_path / "saved.ipynb").stat().st_size <= MAX_BYTES, cell.source
        picture = cell.outputs[0]["data"]
        assert said in picture["text/html"], cell.source
        assert said in picture["text/plain"], cell.source


def view(box: Toolbox, data: Any) -> str:
    return result_picture(box, ToolResult(True, data), None).text


def test_table_reads_as_in_the_viewer(box: Toolbox) -> None:
    """Short dates, like decimals, a named index; numbers at the right."""
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2024-01-01", "2024-01-02"]),
            "price": [70.6, 8.25],
            "town": ["Wien", None],
        },
        index=pd.Index(["a", "b"], name="key"),
    )
    assert view(box, frame) == (
        "Result: 2 rows × 4 columns.\n"
        "  key  day         price  town\n"
        "  a    2024-01-01  70.60  Wien\n"
        "  b    2024-01-02   8.25"
    )
    assert view(box, frame["price"]).startswith("Result: 2 rows × 2 columns.\n  key  price\n")


def test_rows_have_the_labels_that_pandas_gives_them(box: Toolbox) -> None:
    """A filtered frame keeps its labels; a column may be named as the index is."""
    frame = pd.DataFrame({"#": ["a", "b", "c"]}, index=[7, 8, 9])[1:]
    assert view(box, frame) == "Result: 2 rows × 1 column.\n  #  #_2\n  8  b\n  9  c"
    assert view(box, [{"n": 5}, {"n": 6}]).splitlines()[1:] == ["  #  n", "  0  5", "  1  6"]


def test_picture_says_how_much_it_shows(box: Toolbox) -> None:
    assert view(box, [{"n": n} for n in range(21)]).endswith("\n  19  19\nShown: 20 of 21 rows.")
    assert view(box, "\n".join("abcdefghijklmnopqrstu")).endswith("\n  t\nShown: 20 of 21 lines.")
    assert "Shown" not in view(box, [{"n": n} for n in range(20)])
    handle = box.results.put([{"n": n} for n in range(30)])
    assert result_picture(box, None, handle).text.endswith("Shown: 20 of 30 rows.")


def test_columns_of_one_name_and_names_that_are_cut_alike_are_all_there(box: Toolbox) -> None:
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["a", "a", "x" * 200 + "1", "x" * 200 + "2"])
    assert view(box, frame).splitlines()[2].split() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("at", [0, 20, 30, 38, 50, 95])
def test_cut_shows_no_part_of_a_secret(box: Toolbox, at: int) -> None:
    """Cells and names are masked before they are cut, wherever the secret stands."""
    text = "x" * at + SECRET + "y" * 500
    data = [{f"{text}{n}": text for n in range(30)}]

    tell = tool("demo.tell")(lambda: None)
    tell.__doc__ = text
    box.adopt(tell)
    failed = ToolResult(False, None, Failure("execution_error", text, "demo.tell"))
    for picture in (
        result_picture(box, ToolResult(True, data), None),
        result_picture(box, ToolResult(True, pd.DataFrame(data)), None),
        result_picture(box, ToolResult(True, text), None),
        result_picture(box, failed, None),
        browser_picture(box),
        usage_picture(box, "day", ""),
    ):
        assert "s3cr" not in picture.html + picture.text


@pytest.mark.slow
def test_one_call_is_one_call(box: Toolbox) -> None:
    box.call("tools.echo", {"message": "x"})
    assert "tools.echo  1 call, 0 failed" in usage_picture(box, "day", "").text
