"""Screenshots of the notebook and the panel, light and dark: `make shots`.

Not a test: pictures for a person to look at. It uses the same wheel, server and browser as the
browser tests do.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e import panel_shots, screen_shots
from tests.harness import surroundings, wheel
from tests.harness.lab import Lab

CELLS = (
    "%load_ext onetool_ipy",
    "%tool",
    "%tool time.now",
    "%tool info fs.read_file",
    "%tool tim.now",
)
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def main(folder: Path) -> None:
    """Take the pictures into `folder`."""
    with tempfile.TemporaryDirectory(prefix="onetool-shots-") as scratch:
        place = Path(scratch)
        surroundings.enter(place / "home")
        installed = wheel.install(wheel.build_wheel(place / "dist"), place / "venv")
        lab = Lab(installed, place / "lab")
        try:
            for picture in _take(lab, folder):
                print(picture)
        finally:
            lab.close()
            surroundings.leave()


def _take(lab: Lab, folder: Path) -> list[Path]:
    """The first cells, then what results, tables and usage look like."""
    pictures = _tour(lab, folder, "notebook", CELLS, (1200, 1000))
    for name in ("find-and-shorten", "large-results-and-usage", "ask-a-model"):
        cells = [
            "".join(cell["source"])
            for cell in json.loads((surroundings.ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))[
                "cells"
            ]
            if cell["cell_type"] == "code"
        ]
        pictures += _tour(lab, folder, name, cells, (1200, 3400))
    lab.close_notebooks()
    return pictures + panel_shots.take(lab, folder) + screen_shots.take(lab, folder)


def _tour(lab: Lab, folder: Path, label: str, cells: Sequence[str], viewport: tuple[int, int]) -> list[Path]:
    notebook = lab.open_notebook(cells, name=label, viewport=viewport)
    panel = notebook.show_panel()
    for index in range(len(cells)):
        notebook.run_cell(index)
    expect(panel.locator(".otx-tool").first).to_be_visible()
    pictures: list[Path] = []
    for name, theme in THEMES.items():
        notebook.command("apputils:change-theme", theme=theme)
        notebook.page.locator("#jupyterlab-splash").wait_for(state="detached")
        pictures += lab.screenshot(f"{label}-{name}", folder)
    return pictures


if __name__ == "__main__":
    main(Path(sys.argv[1]))
