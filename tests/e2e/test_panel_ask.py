"""The panel's place for asking: from no model to a conversation, without a line of YAML."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.e2e.screens import AXE
from tests.e2e.test_panel import load, sources, tab
from tests.harness.lab import Lab
from tests.llm.misbehaving import Answer, Misbehaving, answered, streamed

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror='window.hacked=1'> ![p](http://127.0.0.1:9/p.png)"
SETUP = """
from onetool_ipy import tool
from onetool_ipy.core import current
from onetool_ipy.llm.ask.setup import LocalServer

current.require().ask.setup.servers = [LocalServer({port}, "LM Studio", "openai", "/v1/models")]

@tool("crm.remind")
def remind(customer: int) -> str:
    "Send a reminder."
    return "sent"
"""
CALL = {"index": 0, "id": "c1", "function": {"name": "crm_remind", "arguments": '{"customer": 7}'}}


def said(*deltas: dict[str, Any], end: str = "stop") -> Answer:
    """A streamed reply in OpenAI's format."""
    pieces = [{"choices": [{"delta": delta}]} for delta in deltas]
    usage = {"prompt_tokens": 40, "completion_tokens": 2}
    ending = {"choices": [{"delta": {}, "finish_reason": end}], "usage": usage}
    return streamed(*pieces, ending, "[DONE]")


REPLIES = (
    answered(200, {"data": [{"id": "small"}]}),
    answered(200, {"choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}]}),
    said({"content": "I remind "}, {"content": "them."}, {"tool_calls": [CALL]}, end="tool_calls"),
    said({"content": f"It is **sent**. {EVIL}"}),
    said({"content": "You are welcome."}),
)


@pytest.mark.screen
def test_a_model_is_chosen_and_asked_from_the_panel(lab: Lab) -> None:
    with Misbehaving(*REPLIES) as server:
        notebook = lab.open_notebook([""], name="talk")
        page, panel = notebook.page, load(notebook)
        notebook.execute(SETUP.format(port=urlsplit(server.url).port))
        tab(panel, "Ask")
        ask = panel.locator(".otx-ask")
        expect(ask).to_contain_text("No model is configured yet.")
        assert server.seen == []

        ask.get_by_role("button", name="Look for models").click()
        expect(ask.get_by_role("combobox", name="Model", exact=True)).to_have_value("small")
        ask.get_by_role("button", name="Test").click()
        expect(ask.locator(".otx-models")).to_contain_text("small answered in")
        ask.get_by_label("for this project alone").check()
        ask.get_by_role("button", name="Save").click()
        expect(ask).to_contain_text("Saved as 'local' in the project's onetool.yaml.")
        settings = notebook.path.parent / ".onetool" / "onetool.yaml"
        assert '"model": "small"' in settings.read_text(encoding="utf-8")

        # The box has the focus now: the first question takes no click.
        expect(ask.get_by_label("Question")).to_be_focused()
        page.keyboard.type("Remind customer 7")
        page.keyboard.press("Enter")
        expect(ask).to_contain_text("Waits for your answer")
        expect(ask).to_contain_text("I remind them.")
        panel.get_by_role("button", name="Run", exact=True).click()
        expect(ask).to_contain_text("1 call · 80 tokens in, 4 out")
        expect(ask.locator("strong")).to_have_text("sent")
        assert ask.locator("img").count() == 0
        call = ask.locator(".otx-ask-call")
        expect(call).to_contain_text("crm.remind customer=7")
        call.locator("summary").click()
        expect(call.locator("pre").last).to_have_text("sent")

        ask.get_by_label("Question").fill("Thanks,\nmodel")
        page.keyboard.press("Enter")
        expect(ask).to_contain_text("2 questions · 126 tokens")
        expect(ask.get_by_label("Question")).to_be_focused()
        page.add_script_tag(path=AXE)
        found = page.evaluate(
            "async () => (await axe.run('.otx-ask')).violations"
            ".filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id)"
        )

    sent = json.dumps(server.seen[-1].body)
    assert "Remind customer 7" in sent
    assert "Thanks,\\\\nmodel" in sent.replace("\\n", "\\\\n")
    cells = sources(notebook)
    assert "%ask --session chat Remind customer 7" in cells
    assert "%%ask --session chat\nThanks,\nmodel" in cells
    assert page.evaluate("() => window.hacked === undefined")
    assert found == []
