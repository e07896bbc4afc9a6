"""JupyterLab from the installed wheel in a real browser: the first call, and the side panel."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.harness.lab import Lab
from tests.harness.wheel import Installed

pytestmark = pytest.mark.browser

LOAD = "%load_ext onetool_ipy"
NOT_LOADED = f"load the extension: {LOAD}"
COUNT = "from onetool_ipy.core.current import toolbox\nprint(len(toolbox().registry.list()))"

NEW_TOOL = """
from onetool_ipy import tool

@tool
def twice(n: int) -> int:
    "Double a number."
    return 2 * n
"""


def test_wheel_gives_a_working_call_and_the_panel_counts_the_tools(lab: Lab, installed_wheel: Installed) -> None:
    notebook = lab.open_notebook(["import onetool_ipy; print(onetool_ipy.__file__)", LOAD, "%tool time.now"])
    panel = notebook.show_panel()
    expect(panel).to_contain_text("Tools")
    expect(panel).to_contain_text(NOT_LOADED)

    place = notebook.run_cell(0)[0]["text"].strip()
    assert Path(place).is_relative_to(installed_wheel.prefix)
    assert notebook.run_cell(1) == []
    called = notebook.run_cell(2)
    assert [output["output_type"] for output in called] != ["error"]
    expect(notebook.output(2)).to_contain_text("iso")

    tools = int(notebook.execute(COUNT)[0]["text"])
    assert tools >= 5
    expect(panel).to_contain_text(f"tools: {tools}")
    assert notebook.page_errors == []


def test_panel_follows_new_tools_and_a_restart(lab: Lab) -> None:
    notebook = lab.open_notebook([LOAD])
    panel = notebook.show_panel()
    notebook.run_cell(0)
    tools = int(notebook.execute(COUNT)[0]["text"])
    expect(panel).to_contain_text(f"tools: {tools}")

    notebook.execute(NEW_TOOL)
    expect(panel).to_contain_text(f"tools: {tools + 1}")

    notebook.restart_kernel()
    expect(panel).to_contain_text(NOT_LOADED)


def test_panel_says_when_there_is_no_notebook(lab: Lab) -> None:
    notebook = lab.open_notebook()
    panel = notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)

    notebook.command("docmanager:save")
    notebook.command("application:close-all")

    expect(panel).to_contain_text("no notebook")


def test_panel_asks_only_after_cells(lab: Lab) -> None:
    """Its own question, which makes the kernel busy and idle too, must not make it ask again."""
    notebook = lab.open_notebook(["1 + 1"])
    notebook.page.evaluate(COUNT_QUESTIONS)

    notebook.run_cell(0)
    notebook.run_cell(0)
    notebook.page.evaluate(TWENTY_ROUND_TRIPS)

    assert notebook.page.evaluate("() => window.onetoolAsked") == 2


COUNT_QUESTIONS = """() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  window.onetoolAsked = 0;
  kernel.anyMessage.connect((_, { direction, msg }) => {
    const isRequest = direction === 'send' && msg.header.msg_type === 'execute_request';
    window.onetoolAsked += isRequest && msg.content.silent ? 1 : 0;
  });
}"""
TWENTY_ROUND_TRIPS = """async () => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  for (let trip = 0; trip < 20; trip++) {
    await kernel.requestKernelInfo();
  }
}"""
