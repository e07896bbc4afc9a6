"""Every notebook of this repository runs to its end as a newcomer runs it.

No folder is trusted beforehand, and nobody can be asked. Where a notebook has a part for a person,
a person plays it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from onetool_ipy.config.trust import TRUST_ENV
from tests.harness import surroundings
from tests.harness.kernel import Kernel, Outcome

NOTEBOOKS = surroundings.ROOT / "notebooks"


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel in the folder of the notebooks, of somebody who trusts nothing yet."""
    own = surroundings.private(tmp_path / "home")
    own.pop(TRUST_ENV)
    monkeypatch.delenv(TRUST_ENV)
    with Kernel(NOTEBOOKS, env=own) as kernel:
        yield kernel


def code_cells(name: str) -> list[dict[str, Any]]:
    cells = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook_runs_without_an_error(name: str, newcomer: Kernel) -> None:
    """A cell with the tag `raises-exception` shows an error on purpose: there Jupyter and papermill
    go on."""
    cells = code_cells(name)
    assert cells
    for cell in cells:
        is_meant = "raises-exception" in cell["metadata"].get("tags", ())
        outcome = newcomer.execute("".join(cell["source"]), allow_errors=is_meant)
        assert not is_meant or outcome.error is not None


@pytest.mark.slow
def test_the_parts_for_a_person_in_the_notebook_about_servers(newcomer: Kernel) -> None:
    """The person clicks the link and allows it, then fills in the form."""
    shown: dict[str, Outcome] = {}
    wanted = ("cell-01", "cell-02", "cell-sign", "cell-ask")
    for cell in code_cells("mcp-servers.ipynb"):
        if not cell["id"].startswith(wanted):
            continue
        running = newcomer.start_execute("".join(cell["source"]), allow_stdin=True)
        if "server login" in cell["source"][0]:
            link = re.search(
                r"Sign in to shop: (\S+)", running.wait_for_output("Sign in to shop: ").text
            )
            assert link is not None
            page = httpx.get(link[1], follow_redirects=True)
            ended = httpx.get(f"{page.url}&said=yes", follow_redirects=True)
            assert "go back to your notebook" in ended.text
        if ".order " in cell["source"][0]:
            assert "Server 'robot' asks" in newcomer.answer_input("yes")
            newcomer.answer_input("large")
            newcomer.answer_input("3")
        shown[cell["id"]] = running.wait(allow_errors=True)

    assert "%tool server login shop" in shown["cell-sign-3"].text
    assert "You are signed in to shop. It is connected, 2 tools." in shown["cell-sign-5"].text
    assert "3 x coffee, large" in shown["cell-ask-1"].text
    assert "coffee" in shown["cell-ask-2"].text
    assert "signed out of shop" in shown["cell-ask-4"].text


@pytest.mark.slow
def test_the_quickstart_runs_again_in_the_same_kernel(newcomer: Kernel) -> None:
    """Run All a second time: nothing is asked, since the API is where it was."""
    for cell in 2 * code_cells("quickstart.ipynb"):
        is_meant = "raises-exception" in cell["metadata"].get("tags", ())
        newcomer.execute("".join(cell["source"]), allow_errors=is_meant)
