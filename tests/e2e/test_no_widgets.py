"""A JupyterLab whose environment lacks the front end of widgets says so, and names the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.harness.lab import Lab
from tests.harness.wheel import Installed

pytestmark = pytest.mark.browser


def test_a_lab_without_the_widget_manager_names_the_missing_package(
    installed_wheel: Installed, shared_lab: Lab, tmp_path: Path
) -> None:
    settings = tmp_path / "home" / "jupyter" / "config" / "labconfig"
    settings.mkdir(parents=True)
    off = {"disabledExtensions": {"@jupyter-widgets/jupyterlab-manager": True}}
    (settings / "page_config.json").write_text(json.dumps(off), encoding="utf-8")
    lab = Lab(installed_wheel, tmp_path, browser=shared_lab.browser)
    try:
        notebook = lab.open_notebook(["%load_ext onetool_ipy\not.browser()"])
        notebook.run_cell(0)
        expect(notebook.output(0)).to_contain_text("Tool browser:")
        expect(notebook.output(0).locator(".otx-missing-widgets")).to_be_visible()
        expect(notebook.output(0)).to_contain_text("pip install jupyterlab_widgets")
    finally:
        lab.close()
