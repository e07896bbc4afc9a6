"""The site: every page and notebook is in it, with search, and a link that leads nowhere is an
error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT


@pytest.mark.slow
def test_site_has_every_page_and_notebook_and_can_be_searched() -> None:
    """`mkdocs build --strict` fails where a link or an anchor leads nowhere, or a page is not in
    the menu."""
    made = subprocess.run(
        [ROOT / ".ci" / "site", Path(sys.executable).parent],
        env={"PATH": "/usr/bin:/bin", "SITE_EXECUTE": "false"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.returncode == 0, made.stdout + made.stderr
    site = ROOT / "build" / "site"
    own = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    sources = [*own, *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    for source in sources:
        assert (site / source.relative_to(ROOT).with_suffix(".html")).is_file(), source.name
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    words = {entry["location"].partition("#")[0]: entry["text"] for entry in index["docs"]}
    assert {
        "index.html",
        "docs/reference.html",
        "docs/benchmarks.html",
        "notebooks/quickstart.html",
    } <= set(words)
