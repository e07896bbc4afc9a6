"""Every notebook of this repository runs to its end as a newcomer runs it.

No folder is trusted beforehand, and nobody can be asked.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onetool_ipy.config.trust import TRUST_ENV
from tests.harness import surroundings
from tests.harness.kernel import Kernel

NOTEBOOKS = surroundings.ROOT / "notebooks"


@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook_runs_without_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert sources
    own = surroundings.private(tmp_path / "home")
    own.pop(TRUST_ENV)
    monkeypatch.delenv(TRUST_ENV)

    with Kernel(NOTEBOOKS, env=own) as kernel:
        for source in sources:
            kernel.execute(source)
