"""The side panel in a real JupyterLab from the installed wheel: the tools of the notebook in front.

What a person does is done through the page: clicks, keys, drops. Cells are run by JupyterLab's own
command.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.harness.lab import Lab, Notebook
from tests.harness.wheel import Installed

pytestmark = pytest.mark.browser

LOAD = "%load_ext onetool_ipy"
NOT_LOADED = "onetool_ipy is not loaded in this kernel."
BUSY = "A cell is running: you see the last known state."

NEW_TOOL = """
from onetool_ipy import tool

@tool
def twice(n: int) -> int:
    "Double a number."
    return 2 * n
"""
SUBSHELLS = """
import threading, time
ends = time.monotonic() + 60  # JupyterLab's own come and go when a notebook opens
while (found := sum(t.name.startswith('subshell-') for t in threading.enumerate())) > 1 and time.monotonic() < ends:
    time.sleep(0.05)
print(found)
"""


def tab(panel: Locator, name: str) -> None:
    """Open a view of the panel."""
    panel.get_by_role("tablist", name="Views").get_by_role("tab", name=name).click()


def health_of(panel: Locator) -> Locator:
    """What the line at the panel's foot unfolds to."""
    line = panel.locator(".onetool-Panel-problems")
    if line.get_attribute("aria-expanded") == "false":
        line.click()
    return panel.get_by_role("region", name="Health")


def usage_of(panel: Locator) -> Locator:
    """The tab of the usage in the main area."""
    panel.get_by_role("button", name="Usage").click()
    return panel.page.get_by_role("region", name="Usage")


def load(notebook: Notebook) -> Locator:
    """Show the panel and load the extension with its button."""
    panel = notebook.show_panel()
    panel.get_by_role("button", name="Load it").click()
    expect(panel.locator(".otx-tool").first).to_be_visible()
    return panel


_SOURCES = """[...window.jupyterapp.shell.widgets('main')].find(each => each.sessionContext)
  .content.widgets.map(cell => cell.model.sharedModel.getSource())"""


def sources(notebook: Notebook) -> list[str]:
    """What stands in the cells."""
    cells: list[str] = notebook.page.evaluate(f"() => {_SOURCES}")
    return cells


def wait_for_cells(notebook: Notebook, expected: list[str]) -> None:
    notebook.page.wait_for_function(
        f"wanted => JSON.stringify({_SOURCES}) === wanted",
        arg=json.dumps(expected, separators=(",", ":")),
    )


@pytest.mark.screen
def test_wheel_gives_a_working_call_and_the_panel_lists_the_tools(
    lab: Lab, installed_wheel: Installed
) -> None:
    """From "not loaded" to a called tool, without a request to any other server."""
    notebook = lab.open_notebook(
        ["import onetool_ipy; print(onetool_ipy.__file__)", "%tool time.now", ""]
    )
    asked: list[str] = []
    notebook.listen("request", lambda request: asked.append(request.url))
    panel = notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)
    assert Path(notebook.run_cell(0)[0]["text"].strip()).is_relative_to(installed_wheel.prefix)

    load(notebook)

    rows = panel.locator(".otx-tool")
    expect(panel.locator(".otx-tool-name", has_text="fs.read_file")).to_be_visible()
    expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
    assert notebook.run_cell(0)[0]["output_type"] == "stream"  # and nothing of ours beside it
    notebook.run_cell(1)
    expect(notebook.output(1)).to_contain_text("iso")
    panel.get_by_label("Search tools").fill("tme.nwo")  # two typos
    expect(rows.first.locator(".otx-tool-name")).to_have_text("time.now")
    rows.first.locator(".otx-star").click()
    panel.get_by_label("Search tools").fill("")
    expect(rows.first.locator(".otx-tool-name")).to_have_text("time.now")
    tab(panel, "Sources")
    expect(panel.locator(".onetool-Bundle")).to_have_count(4)
    expect(panel.locator(".onetool-Sources-list > *").nth(0)).to_contain_text("Nothing of your own")
    expect(panel.locator(".onetool-Sources-list > *").nth(1)).to_have_text("Built-in packs")
    own = urlsplit(lab.address).netloc
    assert {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))} == {
        own
    }
    assert notebook.page_errors == []


def test_a_project_begins_with_three_buttons_and_its_history_is_live(lab: Lab) -> None:
    """A function that the panel writes runs as it is; a call of it stands in the history at once,
    also while the history is shown."""
    notebook = lab.open_notebook([LOAD, "", 'nb.greet("Ada")'])
    panel = load(notebook)
    beginnings = panel.get_by_role("group", name="How to begin")
    for name in ("Paste a curl command", "Add an MCP server"):
        beginnings.get_by_role("button", name=name).click()
        expect(panel.get_by_role("textbox", name="Add", exact=True)).to_be_focused()
        tab(panel, "Tools")
    notebook.page.locator(".jp-Notebook .jp-Cell .jp-InputPrompt").nth(1).click()
    beginnings.get_by_role("button", name="Write a function").click()
    notebook.page.wait_for_function(f"() => {_SOURCES}.some(source => source.includes('greet'))")

    notebook.run_cell(1)
    expect(beginnings).to_have_count(0)
    tab(panel, "History")
    expect(panel.locator(".otx-history-row")).to_have_count(0)
    notebook.run_cell(2)

    expect(panel.locator(".otx-history-row")).to_have_count(1)
    expect(panel.locator(".otx-history-row")).to_contain_text("nb.greet")
    assert notebook.page_errors == []


def test_the_history_follows_the_calls_of_a_running_cell(lab: Lab) -> None:
    """A cell that waits after each call until the test has seen it is not over, and its calls are
    listed."""
    steps = "import os\nos.mkfifo('go')\nfor n in (1, 2):\n    nb.twice(n)\n    open('go').close()"
    notebook = lab.open_notebook([LOAD + NEW_TOOL, steps])
    panel = notebook.show_panel()
    notebook.run_cell(0)
    tab(panel, "History")
    expect(panel).to_contain_text("No calls yet.")

    notebook.begin_cell(1)
    for count in (1, 2):
        expect(panel.locator(".otx-history-row")).to_have_count(count)
        expect(panel).not_to_contain_text(BUSY)
        # Either end of a pipe waits until the other one is open.
        (notebook.path.parent / "go").open("w").close()

    notebook.wait_for_cell()
    expect(panel.locator(".otx-history-row")).to_have_count(2)
    assert notebook.page_errors == []


def test_click_is_not_lost_when_the_kernel_reports_a_change(lab: Lab) -> None:
    """The list is loaded again while the mouse button is down on a row, and the status bar counts
    the new tool."""
    notebook = lab.open_notebook([""])
    panel = load(notebook)
    notebook.execute(NEW_TOOL)
    row = panel.locator(".otx-tool").filter(has_text="twice")
    expect(row).to_be_visible()
    count = int(panel.locator(".otx-total").inner_text().split()[0])

    row.hover()
    notebook.page.mouse.down()
    notebook.execute(NEW_TOOL.replace("twice", "zweimal"))
    expect(panel.locator(".otx-total")).to_have_text(f"{count + 1} tools")
    notebook.page.mouse.up()

    expect(notebook.page.locator(".onetool-ToolTab")).to_contain_text("Double a number.")
    expect(notebook.page.locator(".onetool-Status")).to_have_text(f"{count + 1} tools")


def test_call_is_inserted_run_and_dragged(lab: Lab) -> None:
    """Run in the tool's tab; into the empty current cell, else one new cell below; run in a cell;
    dropped on a cell."""
    notebook = lab.open_notebook([""])
    panel = load(notebook)
    panel.get_by_label("Search tools").fill("echo")
    panel.get_by_label("Search tools").press("Enter")
    tool = notebook.page.locator(".onetool-ToolTab")
    message = tool.locator(".otx-form textarea, .otx-form input").first
    expect(message).to_be_focused()
    message.fill("hello there")

    message.press("Control+Enter")
    expect(tool.locator(".otx-result")).to_contain_text("hello there")
    expect(notebook.output(0)).to_have_text("")
    tool.get_by_role("button", name="Insert", exact=True).click()
    wait_for_cells(notebook, ['%tool tools.echo message="hello there"'])
    expect(tool).to_be_hidden()  # the notebook is in front
    notebook.page.get_by_role("tab", name="tools.echo").click()
    tool.get_by_role("button", name="Insert and run").click()
    wait_for_cells(notebook, ['%tool tools.echo message="hello there"'] * 2)
    expect(notebook.output(1)).to_contain_text("hello there")

    panel.get_by_label("Search tools").fill("fs.read")
    cells = notebook.page.locator(".jp-Notebook .jp-Cell")
    panel.locator(".otx-tool").first.drag_to(cells.nth(0))
    call = "%tool fs.read_file path="
    wait_for_cells(notebook, ['%tool tools.echo message="hello there"', call, sources(notebook)[0]])
    tab(panel, "History")
    expect(panel.locator(".otx-history-row").first).to_contain_text("tools.echo")


def test_panel_follows_cells_a_busy_kernel_and_a_restart(lab: Lab) -> None:
    notebook = lab.open_notebook(
        [LOAD, NEW_TOOL, "input('free?')", "%unload_ext onetool_ipy", SUBSHELLS]
    )
    panel = notebook.show_panel()
    page = notebook.page
    notebook.run_cell(0)
    expect(panel.locator(".otx-tool").first).to_be_visible()
    notebook.run_cell(1)
    panel.get_by_label("Search tools").fill("twice")
    expect(panel.locator(".otx-tool-name").first).to_have_text("nb.twice")

    # A cell that waits for its reader keeps the kernel busy for as long as we want.
    notebook.begin_cell(2)
    expect(panel).to_contain_text(BUSY)
    panel.locator(".otx-tool").first.click()
    tool = page.locator(".onetool-ToolTab")
    expect(tool.locator(".otx-title h3")).to_have_text("nb.twice")  # answered while the cell runs
    tool.locator(".otx-form input").first.fill("21")
    tool.get_by_role("button", name="Run", exact=True).click()
    expect(tool.locator(".otx-result")).to_contain_text("42")
    page.get_by_role("tab", name="notebook.ipynb").click()
    usage = usage_of(panel)
    expect(usage.get_by_role("row", name="nb.twice")).to_be_visible()
    page.get_by_role("tab", name="notebook.ipynb").click()
    expect(panel).to_contain_text(BUSY)
    page.locator(".jp-Stdin-input").fill("yes")
    page.locator(".jp-Stdin-input").press("Enter")
    expect(panel).not_to_contain_text(BUSY)

    notebook.restart_kernel()
    expect(panel).to_contain_text(NOT_LOADED)
    expect(health_of(panel)).to_contain_text("appears here once onetool_ipy is loaded")
    page.get_by_role("tab", name="Usage").click()
    expect(usage.get_by_role("alert")).to_contain_text("The kernel was restarted.")
    expect(usage.get_by_role("row", name="nb.twice")).to_be_visible()  # what was known stays
    page.get_by_role("tab", name="notebook.ipynb").click()
    panel = load(notebook)
    panel.get_by_label("Search tools").fill("twice")
    expect(panel.locator(".otx-head .otx-total")).to_have_text("no tools")
    assert notebook.run_cell(4)[0]["text"] == "1\n"
    notebook.run_cell(3)
    expect(panel).to_contain_text(NOT_LOADED)
    assert notebook.page_errors == []


# The answer to the panel's next look for our comm reaches the page when it is let go.
_HOLD_LOOK = """() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const send = kernel.sendShellMessage.bind(kernel);
  const letGo = new Promise(resolve => (window.letGo = resolve));
  window.answers = 0;
  kernel.sendShellMessage = (message, ...more) => {
    const sent = send(message, ...more);
    if (message.content.target_name !== 'onetool_ipy.panel') return sent;
    kernel.sendShellMessage = send;
    return { done: sent.done.then(answer => ((window.answers += 1), letGo.then(() => answer))) };
  };
}"""


def test_an_extension_that_is_loaded_while_the_panel_connects_is_found(lab: Lab) -> None:
    """The cell ends before the panel hears that the kernel had no tools yet."""
    notebook = lab.open_notebook([LOAD])
    page, panel = notebook.page, notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)
    page.evaluate(_HOLD_LOOK)
    notebook.restart_kernel()
    page.wait_for_function("() => window.answers === 1")

    notebook.run_cell(0)
    page.evaluate("() => window.letGo()")

    expect(panel.locator(".otx-tool").first).to_be_visible()
    expect(panel).not_to_contain_text(NOT_LOADED)


def test_a_command_waits_for_a_panel_that_connects(lab: Lab) -> None:
    """A tool is asked for before the panel knows what the kernel has: the extension is loaded, then
    it is shown."""
    notebook = lab.open_notebook([""])
    page, panel = notebook.page, notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)
    page.evaluate(_HOLD_LOOK)
    notebook.restart_kernel()
    page.wait_for_function("() => window.answers === 1")

    page.evaluate(
        "() => void window.jupyterapp.commands.execute('onetool:show', { name: 'time.now' })"
    )
    page.evaluate("() => window.letGo()")

    expect(page.locator(".otx-title h3")).to_have_text("time.now")


def test_load_it_keeps_its_place_while_it_is_pressed(lab: Lab) -> None:
    notebook = lab.open_notebook(["input('free?')"])
    page, panel = notebook.page, notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)
    panel.get_by_role("button", name="Load it").hover()
    page.mouse.down()
    notebook.begin_cell(0)
    expect(panel).to_contain_text("The kernel is busy.")
    page.mouse.up()
    expect(panel).to_contain_text("The kernel is busy; it is loaded when the cell has ended.")

    page.locator(".jp-Stdin-input").press("Enter")

    expect(panel.locator(".otx-tool").first).to_be_visible()


def test_load_it_loads_the_notebook_in_front(lab: Lab) -> None:
    """Two notebooks whose panels look the same: the button is that of the one that is shown."""
    notebook = lab.open_notebook([""], name="first")
    panel = notebook.show_panel()
    expect(panel).to_contain_text(NOT_LOADED)
    second = notebook.path.with_name("second.ipynb")
    second.write_text(notebook.path.read_text(encoding="utf-8"), encoding="utf-8")
    notebook.command("docmanager:open", path=f"{second.parent.name}/{second.name}")
    notebook.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path.endsWith('second.ipynb')"
    )
    expect(panel).to_contain_text(NOT_LOADED)
    notebook.page.locator("#jp-main-dock-panel .lm-TabBar-tab").filter(
        has_text="first.ipynb"
    ).click()

    load(notebook)


def test_a_call_is_inserted_at_once_and_its_arguments_when_the_kernel_answers(lab: Lab) -> None:
    """What the user has written meanwhile stays."""
    notebook = lab.open_notebook(["import os; print(os.getpid())", "", ""])
    load(notebook)
    kernel = int(notebook.run_cell(0)[0]["text"])
    first = sources(notebook)[0]
    insert = """([cell, name]) => {
      window.jupyterapp.shell.currentWidget.content.activeCellIndex = cell;
      void window.jupyterapp.commands.execute('onetool:insert', { tool: name });
    }"""
    os.kill(kernel, signal.SIGSTOP)
    try:
        notebook.page.evaluate(insert, [1, "fs.read_file"])
        wait_for_cells(notebook, [first, "%tool fs.read_file", ""])
        notebook.page.evaluate(insert, [2, "fs.list_dir"])
        wait_for_cells(notebook, [first, "%tool fs.read_file", "%tool fs.list_dir"])
        expect(
            notebook.page.locator(".jp-Notebook .jp-Cell").nth(2).locator(".cm-content")
        ).to_be_focused()
        notebook.page.keyboard.type(" path=here")
        wait_for_cells(notebook, [first, "%tool fs.read_file", "%tool fs.list_dir path=here"])
    finally:
        os.kill(kernel, signal.SIGCONT)

    wait_for_cells(notebook, [first, "%tool fs.read_file path=", "%tool fs.list_dir path=here"])


def test_two_notebooks_have_their_own_kernels_and_projects(lab: Lab) -> None:
    """Each shows its own tools and bundles; switching to and fro leaves one line to each kernel,
    closing none."""
    notebook = lab.open_notebook(
        [
            f"{LOAD}\nfrom onetool_ipy import tool\n@tool\ndef only_here() -> str:\n    return 'a'",
            SUBSHELLS,
        ],
        name="first",
    )
    panel = notebook.show_panel()
    notebook.run_cell(0)
    expect(panel.locator(".otx-tool-name", has_text="nb.only_here")).to_be_visible()
    other = lab.root / f"second-{secrets.token_hex(4)}"
    other.mkdir()
    (other / "second.ipynb").write_text(notebook.path.read_text(encoding="utf-8"), encoding="utf-8")
    page = notebook.page
    notebook.command("docmanager:open", path=f"{other.name}/second.ipynb")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path.endsWith('second.ipynb')"
    )
    expect(panel).to_contain_text(NOT_LOADED)

    load(notebook)

    expect(panel.locator(".otx-tool-name", has_text="nb.only_here")).to_have_count(0)
    tab(panel, "Sources")
    expect(panel.locator(".onetool-Sources-project")).to_have_text(f"Project: {other.name}")
    tabs = page.locator("#jp-main-dock-panel .lm-TabBar-tab")
    for _ in range(5):
        tabs.filter(has_text="first.ipynb").click()
        tabs.filter(has_text="second.ipynb").click()
    tabs.filter(has_text="first.ipynb").click()
    expect(panel.locator(".onetool-Sources-project")).to_have_text(
        f"Project: {notebook.path.parent.name}"
    )
    tab(panel, "Tools")
    expect(panel.locator(".otx-tool-name", has_text="nb.only_here")).to_be_visible()
    assert notebook.run_cell(1)[0]["text"] == "1\n"

    notebook.command("docmanager:save-all")
    notebook.command("application:close-all")
    expect(panel).to_contain_text("Open a notebook to see its tools.")
    expect(page.locator(".onetool-Status")).to_be_hidden()
    # Its kernel lives on.
    notebook.command("docmanager:open", path=notebook.path.relative_to(lab.root).as_posix())
    expect(panel.locator(".otx-tool-name", has_text="nb.only_here")).to_be_visible()
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.ready")
    assert notebook.run_cell(1)[0]["text"] == "1\n"
