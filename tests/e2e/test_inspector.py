"""The official MCP Inspector in a real browser, against our server: tools that ask, images,
prompts, resources."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from onetool_ipy import open_toolbox
from onetool_ipy.faces.mcp.http import serve_http
from tests.harness import exam
from tests.harness.patience import HANG_S, until
from tests.harness.ports import reserve
from tests.harness.surroundings import ROOT, private

pytestmark = pytest.mark.browser

PROJECT = ROOT / "tests" / "data" / "exam_project"
INSPECTOR = (
    ROOT / "tests" / "node" / "exam" / "node_modules" / "@modelcontextprotocol" / "inspector"
)
HANG_MS = HANG_S * 1000


@pytest.fixture(params=["modern", "legacy"])
def address(
    request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Iterator[str]:
    """The Inspector's page, for a server of ours that asks for its token. A failure shows what the
    server and the Inspector wrote."""
    caplog.set_level(logging.DEBUG, "mcp.server")
    shutil.copytree(PROJECT, tmp_path / "project")
    held, port = reserve()
    own = {"CLIENT_PORT": str(port), "HOST": "127.0.0.1", "MCP_AUTO_OPEN_ENABLED": "false"}
    own |= {
        "MCP_SANDBOX_PORT": "0",
        "MCP_APP_ORIGIN_PORT": "0",
        "MCP_INSPECTOR_SECRET_STORE": "memory",
    }
    # A file and not a pipe: the Inspector stands still once a pipe that nobody reads is full.
    output = tmp_path / "inspector.txt"
    with (
        open_toolbox(tmp_path / "project", env={"ONETOOL_STATE": str(tmp_path / "state")}) as box,
        output.open("wb") as written,
    ):
        serving = serve_http(box, allow=["*"])
        launcher = INSPECTOR / "clients" / "launcher" / "build" / "index.js"
        command = [exam.node(), str(launcher), "--web", "--transport", "http"]
        command += ["--server-url", serving.url, "--protocol-era", request.param]
        command += ["--header", f"Authorization: Bearer {serving.token}"]
        program = subprocess.Popen(
            command,
            env={**os.environ, **private(tmp_path / "home"), **own},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
        try:
            page = re.compile(rf"http://\S+:{port}\S*(?=\s)")
            until(lambda: page.search(output.read_text()) or program.poll() is not None)
            found = page.search(output.read_text())
            assert found, output.read_text()
            yield found[0]
        finally:
            program.kill()
            program.wait()
            serving.stop()
            held.close()
            request.node.add_report_section("teardown", "Inspector", output.read_text()[-20_000:])


def test_the_inspector_uses_tools_prompts_and_resources(address: str, page: Page) -> None:
    page.set_default_timeout(HANG_MS)
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(address)
    # Its input is not drawn, so there is nothing to click.
    page.get_by_role("switch").first.press("Space")
    expect(page.get_by_text("Connected", exact=True)).to_be_visible(timeout=HANG_MS)

    page.get_by_text("Tools", exact=True).click()
    page.get_by_text("test.elicitation", exact=True).click()
    page.get_by_role("textbox", name="message").fill("Who are you?")
    page.get_by_role("button", name="Execute Tool").click()
    form = page.get_by_role("dialog")
    expect(form).to_contain_text("Who are you?", timeout=HANG_MS)
    form.get_by_role("textbox", name="username").fill("Ada")
    form.get_by_role("textbox", name="email").fill("ada@example.com")
    form.get_by_role("button", name="Submit").click()
    expect(
        page.get_by_text("User response: {'username': 'Ada', 'email': 'ada@example.com'}").first
    ).to_be_visible(timeout=HANG_MS)

    page.get_by_text("test.image_content", exact=True).click()
    page.get_by_role("button", name="Execute Tool").click()
    expect(page.locator("img[src^='data:image/png']")).to_be_visible(timeout=HANG_MS)

    page.get_by_text("Prompts", exact=True).click()
    page.get_by_text("test.prompt_with_arguments", exact=True).click()
    page.get_by_placeholder("Enter arg1...").fill("hello")
    page.get_by_placeholder("Enter arg2...").fill("world")
    page.get_by_role("button", name="Get Prompt").click()
    expect(
        page.get_by_text("Prompt with arguments: arg1='hello', arg2='world'").first
    ).to_be_visible(timeout=HANG_MS)

    page.get_by_text("Resources", exact=True).first.click()
    page.get_by_text("test.static_text", exact=True).click()
    expect(
        page.get_by_text("This is the content of the static text resource.").first
    ).to_be_visible(timeout=HANG_MS)
    page.get_by_text("Docs of test", exact=True).click()
    expect(page.get_by_text("Give an image as bytes.").first).to_be_visible(timeout=HANG_MS)
