"""Signing in to an MCP server in a browser: from a README's line to the first result, by way of
Jupyter Server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.harness.lab import Lab
from tests.harness.oauth import CANARY, OAuthServer

pytestmark = pytest.mark.browser


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as found:
        yield found


def test_from_the_line_of_a_readme_to_the_first_result(lab: Lab, server: OAuthServer) -> None:
    """The cell shows the link with its whole address; the person says yes; the browser comes back
    to Jupyter Server."""
    notebook = lab.open_notebook(
        [
            "%load_ext onetool_ipy",
            f"%tool server add crm {server.url}",
            "%tool crm.whoami",
            "%tool server login crm",
        ]
    )
    notebook.run_cell(0)
    notebook.run_cell(1)
    notebook.run_cell(2)
    expect(notebook.output(2)).to_contain_text("%tool server login crm")

    notebook.begin_cell(3)
    link = notebook.output(3).get_by_role("link", name="Sign in to crm")
    expect(link).to_be_visible()
    url = link.get_attribute("href") or ""
    expect(notebook.output(3)).to_contain_text(url)
    assert len(notebook.page.context.pages) == 1, "nothing opens by itself"
    with notebook.page.context.expect_page() as opened:
        link.click()
    page = opened.value
    page.get_by_role("link", name="Allow").click()
    expect(page.locator("body")).to_contain_text(
        "You may close this page and go back to your notebook."
    )
    assert page.url.startswith(f"{lab.address}onetool/callback?")
    ended = page.url
    page.goto(ended)
    expect(page.locator("body")).to_contain_text("This sign-in is not known here, or is over.")
    page.close()

    expect(notebook.output(3)).to_contain_text("You are signed in to crm. It is connected, 1 tool.")
    expect(notebook.output(3)).not_to_contain_text("Sign in to crm")
    shown = notebook.execute("%tool crm.whoami")
    assert shown[0]["data"]["text/plain"] == "you"
    notebook.command("docmanager:save")
    saved = notebook.path.read_text(encoding="utf-8")
    assert CANARY not in saved + lab.log
    assert "state=" not in saved, "the link is gone with the sign-in"
