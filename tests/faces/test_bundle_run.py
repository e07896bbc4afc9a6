"""All tools of a bundle called once: those that read are called, the others are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, open_toolbox, tool
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.bundle_run import run_bundle

WIPED: list[str] = []


@tool("shop.find", read_only=True)
def find(name: str = "pen") -> str:
    """Find something."""
    return f"one {name}"


@tool("shop.broken", read_only=True)
def broken() -> str:
    """Break."""
    raise LookupError("no such shelf")


@tool("shop.wipe")
def wipe(name: str) -> str:
    """Delete something."""
    WIPED.append(name)
    return "gone"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    box = open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")})
    for function in (find, broken, wipe):
        box.adopt(function)
    yield box
    box.close()


def test_each_tool_that_reads_is_called_and_what_may_change_something_is_not(box: Toolbox) -> None:
    runs = {run.tool: run for run in run_bundle(box, "shop", source="widget")}

    assert {name: run.outcome for name, run in runs.items()} == {
        "shop.find": "ok",
        "shop.broken": "failed",
        "shop.wipe": "skipped",
    }
    assert "no such shelf" in runs["shop.broken"].message
    assert runs["shop.find"].call == "%tool shop.find"
    assert WIPED == []


def test_a_bundle_without_tools_is_refused(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match="has no tools to run"):
        list(run_bundle(box, "nowhere", source="widget"))
