"""The tool browser in a real marimo notebook, in a real browser: found, filled in, run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness import surroundings
from tests.harness.ports import reserve

pytestmark = pytest.mark.browser

START_S = 90.0
NOTEBOOK = """
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    from onetool_ipy import open_toolbox

    box = open_toolbox()
    word = "from marimo"
    return box, mo, word


@app.cell
def _(box, mo):
    view = box.ot.browser("tools.echo")
    assert isinstance(view, mo.ui.anywidget), type(view)
    view
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A marimo server that runs the notebook."""
    file = tmp_path / "notebook.py"
    file.write_text(NOTEBOOK, encoding="utf-8")
    held, port = reserve()
    command = [sys.executable, "-m", "marimo", "-q", "run", str(file), "--headless", "--no-token"]
    env = {**os.environ, **surroundings.private(tmp_path / "home")}
    log = (tmp_path / "marimo.log").open("wb")
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        cwd=tmp_path,
        env=env,
        stdout=log,
        stderr=log,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, tmp_path / "marimo.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)
        held.close()
        log.close()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)  # there is nothing else to wait for
    raise AssertionError(f"marimo did not start:\n{log.read_text(encoding='utf-8')}")


def test_the_browser_is_a_widget_that_runs_tools(address: str, page: Page) -> None:
    page.goto(address)
    screen = page.locator(".otx-browser")
    expect(screen).to_be_visible(timeout=START_S * 1000)
    expect(screen.locator(".otx-signature")).to_contain_text("tools.echo(")

    screen.get_by_label("message").first.fill("=word")
    screen.get_by_role("button", name="Run", exact=True).click()

    expect(screen.locator(".otx-result")).to_contain_text("from marimo")
