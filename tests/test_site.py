"""The site: every page and notebook is in it, with search, and a link that leads nowhere is an
error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.harness.surroundings import ROOT


class _Tagged(yaml.SafeLoader):
    """Reads a file that names functions and variables of its program as if they were not there."""


_Tagged.add_multi_constructor("", lambda loader, tag, node: None)


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
    assert "http.server --directory build/site" in made.stdout
    site = ROOT / "build" / "site"
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    for page in site.rglob("*.html"):  # mkdocs looks at no anchor of the page itself
        text = page.read_text(encoding="utf-8")
        assert {*re.findall('href="#([^"]+)"', text)} <= {*re.findall(' id="?([^" >]+)', text)}
    found = {(entry["location"].partition("#")[0], entry["title"]) for entry in index["docs"]}
    pages = {page for page, _ in found}
    for source in [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
        assert source.relative_to(ROOT).with_suffix(".html").as_posix() in pages, source.name
    titles = {re.sub("<[^>]+>", "", title) for _, title in found}
    for notebook in ROOT.glob("notebooks/*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        parts = [re.sub("[`*]", "", part) for part in re.findall("^## (.+)$", text, re.M)]
        assert notebook.stem == "index" or {*parts} <= titles, notebook.name


def test_a_guide_and_its_notebook_are_one_page_and_no_title_stands_twice() -> None:
    menu = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Tagged)["nav"]
    entries: list[tuple[str, str]] = []
    for part in menu:
        for title, value in part.items():
            is_page = isinstance(value, str)
            entries += (
                [(title, value)] if is_page else [one for each in value for one in each.items()]
            )
    titles = [title for title, _ in entries]
    pages = [page for _, page in entries]

    assert len(titles) == len(set(titles))
    assert len(pages) == len(set(pages)) == 20
