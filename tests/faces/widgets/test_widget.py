"""The screens where nothing moves: as text in a terminal, as an output that is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.faces.widgets.widget import NotebookScreens
from onetool_ipy.toolbox import Toolbox
from tests.harness.project import Project

SECRET = "s3cr3t-in-a-picture"


class Terminal:
    """A shell without a kernel."""

    kernel = None


@pytest.fixture
def box(project: Project) -> Toolbox:
    return project.open(secrets={"KEY": SECRET}, clock=None)


def test_a_terminal_shows_text(box: Toolbox) -> None:
    screens = NotebookScreens(box, Terminal())
    box.call("tools.echo", {"message": f"<b>{SECRET}</b>"})
    result = box.call("tools.echo", {"message": f"<b>{SECRET}</b>"})

    assert "time.now" in str(screens.browser())
    shown = str(screens.result(result))
    assert "<b>***</b>" in shown
    assert SECRET not in shown
    usage = str(screens.usage("day"))
    assert "2 calls" in usage
    assert "tools.echo" in usage


def test_the_usage_as_text_has_the_failures_by_message(box: Toolbox) -> None:
    for _ in range(2):
        box.call("fs.read_file", {"path": f"{SECRET}.txt"})

    usage = str(NotebookScreens(box, Terminal()).usage("day"))

    assert "Failed calls by message:\n  2 x fs.read_file: " in usage
    assert "'***.txt'" in usage
    assert SECRET not in usage


def test_any_value_is_viewed_and_an_unknown_handle_is_said(box: Toolbox) -> None:
    screens = NotebookScreens(box, Terminal())
    assert "3" in str(screens.result([1, 2, 3]))
    assert "0 lines" not in str(screens.result({"a": None}))
    with pytest.raises(OneToolError, match="nosuch"):
        screens.result("nosuch")
    with pytest.raises(OneToolError, match=r"no\.such"):
        screens.browser("no.such")


def test_to_look_at_the_usage_is_no_call(box: Toolbox) -> None:
    NotebookScreens(box, Terminal()).usage("day")
    assert box.log.usage(period="day").total_calls == 0


def test_a_wrong_period_is_said(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match="'decade' is not a period"):
        NotebookScreens(box, Terminal()).usage("decade")


@pytest.mark.slow
def test_a_run_without_a_browser_keeps_picture_and_view(tmp_path: Path) -> None:
    """As papermill and `jupyter execute` do it: the outputs of the cell are the picture, then the
    view."""
    make: Any = nbformat.v4
    cells = ["%load_ext onetool_ipy", "ot.browser()"]
    notebook = make.new_notebook(cells=[make.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    picture, view = notebook.cells[1].outputs
    assert 'class="otx-picture ' in picture["data"]["text/html"]
    assert "time.now" in picture["data"]["text/plain"]
    assert list(view["data"]) == ["application/vnd.jupyter.widget-view+json", "text/html"]
