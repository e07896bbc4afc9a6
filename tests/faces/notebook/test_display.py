"""A result that cannot be stored says why, also in `meta`; the value is there all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from onetool_ipy import Toolbox, ToolCall, open_toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.tool import CallSource


class Room:
    """How much of a result is shown."""

    max_lines = 20
    max_chars = 2000


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    """A toolbox with a file where the folder of results should be."""
    (tmp_path / "home").mkdir()
    made = open_toolbox(
        env={**home_at(tmp_path / "home"), "ONETOOL_STATE": str(tmp_path / "state")}
    )
    made.config.paths.state.mkdir(parents=True, exist_ok=True)
    made.results.folder.write_text("in the way", encoding="utf-8")
    return made


def test_in_a_notebook(box: Toolbox) -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from onetool_ipy.faces.notebook.display import bundle

    result = box.call("tools.echo", {"message": "line\n" * 5000})

    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))

    shown, about = bundle(shell, box, result, Room())

    assert "not stored" in shown["text/plain"]
    assert "is not a folder" in result.meta["not_stored"]
    assert about["onetool"]["not_stored"] == result.meta["not_stored"]
    assert "handle" not in result.meta
    assert result.data == "line\n" * 5000


@pytest.mark.parametrize("source", ["model", "rest", "mcp"])
def test_towards_a_client(box: Toolbox, source: CallSource) -> None:
    result = box.call(ToolCall("id", "tools.echo", {"message": "line\n" * 50_000}, source))

    assert box.outgoing(result) == "line\n" * 50_000
    assert "is not a folder" in result.meta["not_stored"]
