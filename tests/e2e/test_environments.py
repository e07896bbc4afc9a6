"""Environments of a bundle in the panel and in the HTTP editor, and *Run all* over a bundle, by
clicks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.test_http_editor import FRONT, open_editor, status
from tests.e2e.test_panel import LOAD, tab
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Asked, Stub

pytestmark = pytest.mark.browser

TOKEN = "tok-of-the-shop-1a2b"
BEARER = {"type": "bearer", "value": "${SHOP_TOKEN}"}


def answer(asked: Asked) -> tuple[int, Any]:
    if asked.path.endswith("/broken"):
        return 500, {"detail": "out of ink"}
    return 200, {"path": asked.target, "signed": "authorization" in asked.headers}


@pytest.fixture
def api() -> Iterator[Stub]:
    with Stub(answer) as stub:
        yield stub


@pytest.fixture
def other() -> Iterator[Stub]:
    with Stub(answer) as stub:
        yield stub


@pytest.fixture
def notebook(lab: Lab, api: Stub, other: Stub) -> Notebook:
    """A trusted project with a bundle of three tools and three environments; only one host is
    allowed."""
    notebook = lab.open_notebook([LOAD, "%tool shop.orders"], viewport=(1400, 900))
    onetool = notebook.path.parent / ".onetool"
    onetool.mkdir()
    http = {"allowed_hosts": [f"127.0.0.1:{api.port}"]}
    (onetool / "onetool.yaml").write_text(
        json.dumps({"version": 1, "http": http}), encoding="utf-8"
    )
    (onetool / "secrets.yaml").write_text(f"SHOP_TOKEN: {TOKEN}\n", encoding="utf-8")
    (onetool / "secrets.yaml").chmod(0o600)
    environments = {
        "live": {"base_url": api.url("/live"), "auth": BEARER, "variables": {"region": "eu"}},
        "test": {"base_url": api.url("/test"), "variables": {"region": "us"}},
        "other": {"base_url": other.url("/far"), "auth": BEARER},
    }
    (onetool / "environments.json").write_text(json.dumps({"shop": environments}), encoding="utf-8")
    notebook.run_cell(0)
    notebook.execute("%tool trust")
    for line in (
        f"new http shop.orders --url {api.url('/live/orders')}",
        f"bundle set shop --base-url {api.url('/live')}",
        "new http shop.broken --url /broken",
        "new http shop.buy -X POST --url /buy",
        "bundle env shop live",
        "bundle delete shop.orders@1",
        "new http shop.orders --url '/${region}/orders'",
    ):
        outputs = notebook.execute(f"%tool {line}")
        assert not [each for each in outputs if each["output_type"] == "error"], outputs
    return notebook


def panel_of(notebook: Notebook) -> Locator:
    panel = notebook.show_panel()
    tab(panel, "Sources")
    return panel


def called(notebook: Notebook) -> Locator:
    """What a call of the tool shows now."""
    notebook.run_cell(1)
    return notebook.output(1)


@pytest.mark.screen
def test_the_panel_switches_asks_and_runs_all_tools(
    notebook: Notebook, api: Stub, other: Stub
) -> None:
    panel = panel_of(notebook)
    switch = panel.get_by_label("Environment of shop")
    expect(switch).to_have_value("live")
    expect(called(notebook)).to_contain_text("/live/eu/orders")

    # A person who chooses has the focus there; a choice by script gives none.
    switch.focus()
    switch.select_option("test")
    expect(switch).to_have_attribute("aria-busy", "false")
    expect(switch).to_have_value("test")
    expect(switch).to_be_focused()
    expect(called(notebook)).to_contain_text("/test/us/orders")

    switch.select_option("other")
    notice = panel.locator(".onetool-Sources .otx-notice")
    expect(notice).to_contain_text(f"this would send it to '127.0.0.1:{other.port}'")
    expect(notice).to_contain_text(f"Allow requests to 127.0.0.1:{other.port}?")
    expect(switch).to_have_value("test")
    notice.get_by_role("button", name="Cancel").click()
    expect(notice).to_be_hidden()
    expect(switch).to_be_focused()
    expect(called(notebook)).to_contain_text("/test/us/orders")
    assert other.asked == []

    panel.get_by_role("button", name="Run all tools of shop").click()
    report = panel.locator(".onetool-Bundle[data-slug=shop] .onetool-Bundle-report")
    expect(report).to_contain_text("1 ok, 1 failed, 1 skipped")
    expect(report.get_by_role("listitem").filter(has_text="buy")).to_contain_text(
        "It may change something."
    )
    expect(report.get_by_role("listitem").filter(has_text="broken")).to_contain_text("500")
    report.get_by_role("button", name="Close the report").click()
    expect(report).to_be_empty()
    assert [each.method for each in api.asked if each.path.endswith("/buy")] == []

    switch.select_option("other")
    notice.get_by_role("button", name="Switch to other").press("Enter")
    expect(switch).to_have_value("other")
    assert other.asked == []
    assert TOKEN not in notebook.page.content()
    assert notebook.page_errors == []


def test_the_editor_shows_where_a_request_goes_and_switches(
    notebook: Notebook, api: Stub, other: Stub
) -> None:
    panel = panel_of(notebook)
    expect(panel.get_by_label("Environment of shop")).to_be_visible()
    panel.get_by_role("button", name="shop HTTP", exact=True).click()
    panel.get_by_role("button", name="Edit orders 1").click()
    editor = notebook.page.locator(".onetool-HttpTool")
    environment, target = editor.get_by_label("Environment"), editor.get_by_label("Resulting URL")
    expect(environment).to_have_value("live")
    expect(target).to_have_text(f"Sent to {api.url('/live/eu/orders')} (live)")
    # A variable is no argument.
    expect(editor.get_by_label("Value of region to try")).to_have_count(0)

    environment.select_option("test")
    expect(status(editor)).to_have_text("shop uses test.")
    expect(target).to_have_text(f"Sent to {api.url('/test/us/orders')} (test)")
    expect(panel.get_by_label("Environment of shop")).to_have_value("test")
    editor.get_by_label("URL", exact=True).fill("/${region}/orders/{id}")
    expect(target).to_have_text(f"Sent to {api.url('/test/us/orders/{id}')} (test)")
    editor.get_by_label("Value of id to try").fill("7")
    editor.get_by_role("button", name="Send", exact=True).click()
    expect(editor.locator(".otx-viewer")).to_contain_text("/test/us/orders/7")

    environment.select_option("other")
    question = editor.get_by_role("alertdialog")
    expect(question).to_contain_text(f"Allow requests to 127.0.0.1:{other.port}?")
    question.get_by_role("button", name="Cancel").click()
    expect(environment).to_have_value("test")
    expect(environment).to_be_focused()
    environment.select_option("other")
    question.get_by_role("button", name="Allow and switch").click()
    expect(target).to_have_text(f"Sent to {other.url('/far/{region}/orders/{id}')} (other)")
    expect(editor.get_by_label("Value of region to try")).to_be_visible()
    assert other.asked == []
    notebook.page.evaluate(FRONT, True)
    notebook.run_cell(1)
    expect(notebook.output(1)).to_contain_text(
        "neither a variable of the environment 'other' nor a secret"
    )
    assert notebook.page_errors == []


def test_a_pasted_tool_follows_its_environment_and_never_leaves_it(
    lab: Lab, api: Stub, other: Stub, tmp_path: Path
) -> None:
    """Paste, save, make staging by a line, call; then back in the panel. Production and staging are
    two servers."""
    notebook = lab.open_notebook(["", "%tool my-api.get-orders id=7"], viewport=(1400, 900))
    editor = open_editor(notebook)
    panel = notebook.show_panel()
    url = editor.get_by_label("URL", exact=True)
    url.fill(api.url("/orders/{id}"))
    editor.get_by_label("Kind of auth").select_option("bearer")
    editor.get_by_label("Value of the new secret").fill(TOKEN)
    tick = editor.get_by_label("use it for all tools of this bundle")
    expect(tick).to_be_checked()
    editor.get_by_label("Value of id to try").fill("7")
    editor.get_by_role("button", name="Send", exact=True).click()
    editor.get_by_role("button", name="Allow and send").click()
    expect(status(editor)).to_contain_text("200 OK")
    editor.get_by_role("button", name="Save", exact=True).click()
    expect(status(editor)).to_contain_text("Saved.")
    expect(tick).to_be_checked()
    stored = json.loads(
        (notebook.path.parent / ".onetool/bundles/my-api/get-orders@1.json").read_text()
    )
    assert stored["http"]["request"]["urlTemplate"] == "/orders/${id}"
    notebook.page.screenshot(path=str(tmp_path / "saved.png"))

    notebook.page.evaluate(FRONT, True)
    secret = f"--allow-host --secret-host MY_API_TOKEN=127.0.0.1:{other.port}"
    outputs = notebook.execute(
        f"%tool bundle env my-api staging --base-url {other.url('')} {secret}"
    )
    assert not [each for each in outputs if each["output_type"] == "error"], outputs
    switch = panel.get_by_label("Environment of my-api")
    expect(switch).to_have_value("staging")  # without a reload of the list
    sent = len(api.asked)
    notebook.run_cell(1)
    expect(notebook.output(1)).to_contain_text("/orders/7")
    notebook.page.screenshot(path=str(tmp_path / "staging.png"))
    assert [(each.path, each.headers.get("authorization")) for each in other.asked] == [
        ("/orders/7", f"Bearer {TOKEN}")
    ]
    assert len(api.asked) == sent, "nothing goes to production"

    notebook.execute(f"%tool new http my-api.back --url {api.url('/back')}")
    assert "belongs to the environment 'default'" in json.dumps(
        notebook.execute("%tool my-api.back")
    )
    switch.select_option("default")
    notice = panel.locator(".onetool-Sources .otx-notice")
    # $ONETOOL_TRUST names all folders here, so nothing is pinned, and the question says whose hosts
    # these are.
    expect(notice).to_contain_text(
        f"is used with '127.0.0.1:{other.port}' (the environment 'staging')"
    )
    expect(notice).to_contain_text(
        f"would send it to '127.0.0.1:{api.port}' (the environment 'default')"
    )
    notebook.page.screenshot(path=str(tmp_path / "question.png"))
    notice.get_by_role("button", name="Switch to default").click()
    expect(notice).to_be_hidden()
    expect(switch).to_have_value("default")
    notebook.page.screenshot(path=str(tmp_path / "back.png"))
    notebook.run_cell(1)
    expect(notebook.output(1)).to_contain_text("/orders/7")
    assert len(api.asked) == sent + 1
    assert notebook.page_errors == []
