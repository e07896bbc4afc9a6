"""The tool browser on a page of Voila: it is shown and works, and the console has no error of
ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness import surroundings
from tests.harness.patience import HANG_S, until
from tests.harness.ports import is_open, reserved_port
from tests.harness.servers import others_python

pytestmark = pytest.mark.browser

WIDGETS = ("@jupyter-widgets", "anywidget")
"""The front ends that a widget needs. They come from the kernel's environment, so their versions
match the kernel's."""
CELL: dict[str, object] = {
    "cell_type": "code",
    "id": "a",
    "execution_count": None,
    "metadata": {},
    "outputs": [],
    "source": "%load_ext onetool_ipy\not.browser('tools.echo')",
}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A Voila server, in an environment of its own, that shows a notebook with the browser in
    it."""
    _write_data(tmp_path / "share")
    metadata = {"kernelspec": {"name": "ours", "display_name": "ours"}}
    notebook = {"cells": [CELL], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "page.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    env = {
        **os.environ,
        **surroundings.private(tmp_path / "home"),
        "JUPYTER_PATH": str(tmp_path / "share"),
    }
    command = [
        others_python("clients"),
        "-m",
        "voila",
        "page.ipynb",
        "--no-browser",
        "--Voila.ip=127.0.0.1",
    ]
    with (tmp_path / "voila.log").open("wb") as log, reserved_port() as port:
        server = subprocess.Popen(
            [*command, f"--port={port}"], cwd=tmp_path, env=env, stdout=log, stderr=log
        )
        try:
            until(lambda: server.poll() is not None or is_open(port))
            assert is_open(port), (tmp_path / "voila.log").read_text(encoding="utf-8")
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()
            server.wait(30)


def _write_data(share: Path) -> None:
    """A folder for JUPYTER_PATH with our kernel, the panel of this checkout and the widgets' front
    ends.

    The whole data folder of our environment would not do: nbconvert's templates in it hide those of
    Voila.
    """
    shutil.copytree(
        surroundings.ROOT / "onetool_ipy" / "labextension", share / "labextensions" / "onetool-ipy"
    )
    for name in WIDGETS:
        shutil.copytree(
            Path(sys.prefix, "share/jupyter/labextensions", name), share / "labextensions" / name
        )
    kernel = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "ours",
    }
    (share / "kernels" / "ours").mkdir(parents=True)
    (share / "kernels" / "ours" / "kernel.json").write_text(json.dumps(kernel), encoding="utf-8")


def test_the_browser_works_and_the_console_has_no_error_of_ours(address: str, page: Page) -> None:
    said: list[str] = []
    loaded: list[str] = []
    page.on("response", lambda answer: loaded.append(answer.url) if answer.ok else None)
    page.on(
        "console", lambda message: said.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address, timeout=HANG_S * 1000)
    screen = page.locator(".otx-browser")
    expect(screen).to_be_visible(timeout=HANG_S * 1000)

    screen.get_by_label("message").first.fill('"from voila"')
    screen.get_by_role("button", name="Run", exact=True).click()

    expect(screen.locator(".otx-result")).to_contain_text("from voila")
    assert any("/onetool-ipy/static/remoteEntry." in url for url in loaded), (
        "Voila did not load our panel."
    )
    assert [line for line in said if "onetool" in line] == []
