"""Screenshots of the side panel, light and dark: tools, a tool, bundles, an HTTP tool, health, usage, a busy kernel.

Not a test: part of `make shots`.
"""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.test_panel import load, tab
from tests.harness.lab import Lab
from tests.harness.stub import Stub

__all__ = ["take"]

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
SIZE = (900, 820)


def take(lab: Lab, folder: Path) -> list[Path]:
    """The pictures of the panel."""
    with Stub(lambda asked: (200, {"path": asked.path, "name": "Ada"})) as api:
        pictures = [picture for name in THEMES for picture in _views(lab, folder, name, api)]
    lab.close_notebooks()
    return pictures


def _views(lab: Lab, folder: Path, name: str, api: Stub) -> list[Path]:
    lab.close_notebooks()
    notebook = lab.open_notebook(["", "input('go on?')"], name="panel", viewport=SIZE)
    onetool = notebook.path.parent / ".onetool"
    onetool.mkdir()
    config = {
        "version": 1,
        "aliases": {"lost": "nowhere.tool"},
        "servers": {"weather": {"command": "weather-server"}},
        "http": {"allowed_hosts": [f"127.0.0.1:{api.port}"], "allow_private": True},
    }
    (onetool / "onetool.yaml").write_text(json.dumps(config), encoding="utf-8")
    page = notebook.page
    notebook.command("apputils:change-theme", theme=THEMES[name])
    page.locator("#jupyterlab-splash").wait_for(state="detached")
    panel = notebook.show_panel()
    pictures: list[Path] = []

    def shoot(label: str) -> None:
        pictures.extend(lab.screenshot(f"panel-{label}-{name}", folder))

    expect(panel.get_by_role("button", name="Load it")).to_be_visible()
    shoot("missing")
    load(notebook)
    shoot("tools")
    panel.get_by_label("Search tools").fill("echo")
    panel.locator(".otx-tool").first.click()
    panel.locator(".otx-form input, .otx-form textarea").first.fill("hello")
    panel.get_by_role("button", name="Run", exact=True).click()
    expect(panel.locator(".otx-result")).to_contain_text("hello")
    shoot("tool")
    tab(panel, "Health")
    shoot("health")
    tab(panel, "Usage")
    expect(panel.get_by_role("img", name="Calls")).to_be_visible()
    shoot("usage")
    tab(panel, "Bundles")
    panel.get_by_role("button", name="New HTTP tool").click()
    form = page.locator(".onetool-HttpTool")
    form.get_by_label("URL", exact=True).fill(api.url("/users/{id}"))
    form.get_by_label("Bundle", exact=True).fill("my people")
    form.get_by_role("button", name="Save", exact=True).click()
    expect(form.locator(".otx-error:visible").first).to_be_visible()
    shoot("http-error")
    form.get_by_label("Bundle", exact=True).fill("people")
    form.get_by_label("Value of id to try").fill("3")
    form.get_by_role("button", name="Send", exact=True).click()
    expect(form.locator(".otx-editor-status.otx-ok")).to_contain_text("200")
    shoot("http-sent")
    form.get_by_role("button", name="Save", exact=True).click()
    expect(panel.locator(".onetool-Tool").first).to_be_visible()
    shoot("bundles")
    notebook.command("application:close")
    tab(panel, "Tools")
    notebook.begin_cell(1)
    expect(panel).to_contain_text("A cell is running")
    panel.get_by_role("button", name="All tools").click()
    shoot("busy")
    return pictures
