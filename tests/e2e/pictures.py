"""The pictures of the README, one of each face: `make shots` writes them to docs/screens.

Not a test. Small viewports, so that each stays small; `tests/test_readme.py` holds them to a size.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import jupyter_server
from PIL import Image
from playwright.sync_api import Locator, expect

from tests.e2e import story
from tests.e2e.screens import Screens, choose, field, press_run
from tests.faces.widgets.test_server_requests import SERVER as ADDER
from tests.harness import surroundings, wheel
from tests.harness.lab import Lab, Notebook
from tests.harness.stub import Stub

SETUP = '''
from typing import Literal
from onetool_ipy import tool

@tool(pack="geo", read_only=True)
def locate(address: str, country: Literal["AT", "CH", "DE"] = "AT", limit: int = 5) -> list[dict]:
    """Find the places of an address.

    Args:
        address: Street and town.
        country: Where to look.
        limit: At most so many.
    """
    places = ((f"{address} {i}", round(48.2 + i / 10, 1)) for i in range(limit))
    return [{"address": place, "country": country, "lat": lat} for place, lat in places]
'''
ORDERS = """
@tool("shop.order")
def order(street: str) -> str:
    "Order something."
    if street.endswith("7"):
        raise ValueError("no such street")
    return "ordered"

m = ot.map("shop.order", [f"Ring {i}" for i in range(50)])
"""
ASK = """
from onetool_ipy.llm import ScriptedModel
m = ScriptedModel([
    ["Let me look it up.", ("geo.locate", {"address": "Ring", "limit": 2}), ("time.now", {})],
    "There are **two** places called *Ring*; the first one is at 48.2 degrees north.",
])
"""
QUESTIONS = """
from onetool_ipy import tool
from onetool_ipy.llm import ScriptedModel
from onetool_ipy.sdk import ask_user

@tool("shop.order")
def order(item: str, count: int = 1) -> str:
    "Order something from the stationer."
    return f"ordered {count} {item}"

@tool("mail.send")
def send(to: str, subject: str, text: str) -> str:
    "Send a mail from your account."
    return "sent"

text = "Dear team,\\nthe pens arrive on Friday. " + "Please tell me what else you need. " * 12
m = ScriptedModel([
    ["I order the pens, then I tell the team.", ("shop.order", {"item": "fountain pen", "count": 12}),
     ("mail.send", {"to": "team@example.com", "subject": "Pens", "text": text})], "Done.",
])
FIELDS = {
    "mail": {"type": "string", "format": "email", "title": "E-mail", "description": "Where the receipt goes."},
    "size": {"type": "string", "title": "Size", "enum": ["s", "m", "l"], "enumNames": ["Small", "Medium", "Large"]},
    "count": {"type": "integer", "title": "How many", "minimum": 1, "maximum": 9, "default": 2},
    "extras": {"type": "array", "title": "Extras", "items": {"enum": ["Gift box", "Card", "Engraving"]}},
    "express": {"type": "boolean", "title": "Express delivery"},
}
FORM = {"type": "object", "properties": FIELDS, "required": ["mail", "size"]}

@tool("stationer.notebook")
def notebook() -> dict | None:
    "Order a notebook."
    return ask_user(FORM, "Please complete your order.")
"""
SERVERS = """
%tool server add ledger python3 -c "import sys; sys.exit('no licence found')"
%tool server add maps python3 -c "import sys; sys.exit('no map data found')"
"""
TROUBLE = """version: 1
servers:
  adder: {command: python, args: [adder.py]}
  maps: {command: maps-server}
aliases:
  where: nowhere.locate
"""
PAGES = ("ot.health()", "%tool")
APPROVE = "a = %ask --model m Order a dozen pens and tell the team"
FORM = "%tool stationer.notebook"
NOTEBOOK = (
    "%tool time.now",
    'x = %tool geo.locate address="Ring" limit=3\nx.df',
    "%tool geo.locat address=Ring",
)

CUSTOMERS = """
from onetool_ipy import tool

@tool("crm.customers", read_only=True)
def customers(region: str) -> list[dict]:
    \"\"\"List the customers of a region.\"\"\"
    return [{"id": 7, "owes": 120}, {"id": 12, "owes": 40}, {"id": 19, "owes": 310}, {"id": 31, "owes": 98}]

@tool("crm.remind")
def remind(customer: int, text: str) -> str:
    \"\"\"Send a reminder.\"\"\"
    return "sent"
"""
REMIND = """%%tool program -o reminders
import crm

late = [each for each in crm.customers(region="EU") if each["owes"] > 97]
for each in late:
    crm.remind(customer=each["id"], text=f"You owe {each['owes']} euros.")
len(late)
"""


def main(folder: Path) -> None:
    """Take the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="onetool-pictures-") as scratch:
        place = Path(scratch)
        surroundings.enter(place / "home")
        lab = Lab(
            wheel.install(wheel.build_wheel(place / "dist"), place / "venv"), place / "lab", scale=2
        )
        try:
            story.take(lab, folder / "first-minute.png")
            _notebook(lab, folder)
            _screens(lab, folder)
            _questions(lab, folder)
            _program(lab, folder)
            _http_tool(lab, folder)
            _imports(lab, folder)
            _pages(lab, folder)
            _servers(lab, folder)
            _usage_and_health(lab, folder)
            _asking(lab, folder)
        finally:
            lab.close()
            surroundings.leave()
    # Screens have few colours: 256 look the same in a third of the bytes.
    for path in folder.glob("*.png"):
        Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
            path, optimize=True
        )


def _notebook(lab: Lab, folder: Path) -> None:
    """The notebook alone, then with the panel beside it."""
    notebook = lab.open_notebook(["%load_ext onetool_ipy" + SETUP, *NOTEBOOK], viewport=(1000, 640))
    for cell in range(1 + len(NOTEBOOK)):
        notebook.run_cell(cell)
    panel = notebook.show_panel()
    expect(panel.get_by_role("option").filter(has_text="geo.locate")).to_be_visible()
    _top(notebook, 1)
    notebook.page.screenshot(path=folder / "panel.png")
    notebook.command("application:toggle-left-area")
    _top(notebook, 1)
    _keep(notebook.page.locator(".jp-NotebookPanel"), folder / "notebook.png")
    notebook.close()


def _screens(lab: Lab, folder: Path) -> None:
    screens = Screens(lab, setup=SETUP, viewport=(1000, 900))
    screens.notebook.command("application:toggle-left-area")
    browser = screens.open()
    choose(browser, "geo.locate")
    field(browser, "address").fill("Ring")
    field(browser, "limit").fill("3")
    press_run(browser)
    expect(browser.locator(".otx-viewer .otx-table-row")).to_have_count(3)
    _keep(browser, folder / "browser.png")
    screens.notebook.execute('x = %tool geo.locate address="Ring" limit=5000')
    viewer = screens.open("ot.view(x)")
    expect(viewer).to_contain_text("5,000")
    expect(viewer.locator(".otx-table-row").first).to_be_visible()
    _keep(viewer, folder / "results.png")
    screens.notebook.execute(ORDERS)
    browser.get_by_role("tab", name="History").click()
    browser.locator(".otx-run-line").click()
    expect(browser.locator(".otx-history-row").nth(8)).to_be_visible()
    _keep(browser, folder / "history.png")
    usage = screens.open("ot.usage()")
    expect(usage.get_by_role("img", name="Calls")).to_be_visible()
    _keep(usage, folder / "usage.png")
    screens.notebook.execute(ASK)
    screens.notebook.execute("a = %ask --model m Where is the Ring?")
    _keep(screens.page.locator(".jp-Cell").last, folder / "ask.png")


def _questions(lab: Lab, folder: Path) -> None:
    """Calls to approve, and the form of a server."""
    notebook = lab.open_notebook(
        ["%load_ext onetool_ipy" + QUESTIONS, APPROVE, FORM], viewport=(900, 760)
    )
    notebook.run_cell(0)
    notebook.command("application:toggle-left-area")
    expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
    for cell, name in ((1, "approval.png"), (2, "form.png")):
        notebook.begin_cell(cell)
        question = notebook.output(cell).locator(".otx-question")
        expect(question).to_be_visible()
        _keep(notebook.page.locator(".jp-Notebook .jp-Cell").nth(cell), folder / name)
        question.get_by_role("button", name="Skip all" if cell == 1 else "Cancel").click()
        expect(question).to_have_count(0)
    notebook.close()


def _program(lab: Lab, folder: Path) -> None:
    """The question of a program: its text, its writes, and what a yes is about."""
    notebook = lab.open_notebook(
        ["%load_ext onetool_ipy" + CUSTOMERS, REMIND], viewport=(1000, 900)
    )
    notebook.run_cell(0)
    expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
    notebook.begin_cell(1)
    question = notebook.output(1).locator(".otx-question")
    expect(question).to_be_visible()
    _keep(question, folder / "plan.png")
    question.get_by_role("button", name="No").click()
    notebook.wait_for_cell()
    notebook.close()


def _http_tool(lab: Lab, folder: Path) -> None:
    """The editor of an HTTP tool, with a response."""
    rows = [
        {"id": n, "item": item, "price": n * 1.25}
        for n, item in enumerate(("pen", "ink", "paper", "ruler"), 1)
    ]
    with Stub(lambda _: (200, {"user": "Ada", "orders": rows})) as api:
        notebook = lab.open_notebook(["%load_ext onetool_ipy"], viewport=(1000, 740))
        notebook.run_cell(0)
        expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
        notebook.command("application:toggle-left-area")
        notebook.command("onetool:new-http")
        editor = notebook.page.locator(".onetool-HttpTool")
        fields = {
            "URL": api.url("/users/{id}/orders"),
            "Bundle": "shop",
            "Description of id": "Which user",
        }
        for label, text in (fields | {"Value of id to try": "7"}).items():
            editor.get_by_label(label, exact=True).fill(text)
        editor.get_by_label("Type of id").select_option("integer")
        editor.get_by_label("Kind of auth").select_option("bearer")
        editor.get_by_label("Value of the new secret").fill("token-of-the-shop")
        editor.get_by_role("button", name="Send", exact=True).click()
        editor.get_by_role("button", name="Allow and send").click()
        editor.get_by_label("Keep (JMESPath)").fill("orders")
        expect(editor.locator(".otx-table-row").first).to_be_visible()
        _keep(editor, folder / "http-tool.png")
        notebook.close()


def _imports(lab: Lab, folder: Path) -> None:
    """The operations of a document, those that read chosen."""
    notebook = lab.open_notebook(["%load_ext onetool_ipy"], viewport=(1200, 640))
    (notebook.path.parent / ".onetool").mkdir()
    (notebook.path.parent / ".onetool" / "onetool.yaml").write_text(
        "version: 1\n", encoding="utf-8"
    )
    notebook.run_cell(0)
    expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
    panel = notebook.show_panel()
    panel.get_by_role("tab", name="Sources").click()
    panel.get_by_role("button", name="Import tools").click()
    form = notebook.page.get_by_role("form", name="Import tools")
    document = Path(jupyter_server.__file__).parent / "services" / "api" / "api.yaml"
    form.get_by_label("Choose a file").set_input_files(document)
    form.get_by_label("Server", exact=True).fill("http://localhost:8888")
    form.get_by_role("button", name="Show operations").click()
    expect(form).to_contain_text("Import 15 tools")
    notebook.page.screenshot(path=folder / "import.png")
    notebook.close()


def _pages(lab: Lab, folder: Path) -> None:
    """The page of `%tool` in the light theme, the state of the toolbox in the dark one."""
    load = "import os\nos.chdir('/opt')\n%load_ext onetool_ipy"
    screens = Screens(lab, setup=SETUP + SERVERS, load=load, viewport=(900, 900))
    screens.notebook.command("application:toggle-left-area")
    first = len(screens.cells())
    for code in PAGES:
        screens.notebook.execute(code)
    shown = screens.page.locator(".jp-Notebook .jp-Cell")
    _keep(shown.nth(first + 1), folder / "overview.png")
    screens.theme("JupyterLab Dark")
    _keep(shown.nth(first), folder / "health.png")
    screens.theme("JupyterLab Light")
    screens.notebook.close()


def _servers(lab: Lab, folder: Path) -> None:
    """The servers in the panel: one that runs, one that could not start, and the field for the line
    of a README."""
    notebook = lab.open_notebook(["%load_ext onetool_ipy"], viewport=(1000, 900))
    (notebook.path.parent / "adder.py").write_text(ADDER, encoding="utf-8")
    notebook.run_cell(0)
    notebook.execute(
        "%tool server add adder python adder.py\n"
        "%tool server add maps python3 -c \"import sys; sys.exit('no map data found')\""
    )
    notebook.execute("adder.add(a=2, b=3)")
    panel = notebook.show_panel()
    panel.get_by_role("tablist", name="Views").get_by_role("tab", name="Sources").click()
    panel.get_by_role("button", name="Start maps").click()
    expect(panel).to_contain_text("maps did not start.")
    expect(panel.locator(".otx-server").filter(has_text="maps")).to_contain_text("failed")
    expect(panel.locator(".otx-server").filter(has_text="adder")).to_contain_text("connected")
    panel.screenshot(path=folder / "servers.png")
    notebook.close()


def _asking(lab: Lab, folder: Path) -> None:
    """A conversation in the panel at its default width."""
    notebook = lab.open_notebook(
        ["%load_ext onetool_ipy" + SETUP, ASK], name="asking", viewport=(1000, 690)
    )
    notebook.run_cell(0)
    notebook.run_cell(1)
    notebook.execute("%ask --session chat --model m Where is the Ring?")
    panel = notebook.show_panel()
    panel.get_by_role("tablist", name="Views").get_by_role("tab", name="Ask").click()
    expect(panel.get_by_role("log")).to_contain_text("degrees north")
    panel.locator(".otx-ask-call summary").first.click()
    panel.get_by_label("Question").fill("And the second one?")
    panel.screenshot(path=folder / "panel-ask.png")
    notebook.close()


def _usage_and_health(lab: Lab, folder: Path) -> None:
    """The two in the panel at its default width, health in the dark theme, with problems of three
    kinds."""
    notebook = lab.open_notebook(["%load_ext onetool_ipy" + SETUP, ORDERS], viewport=(1000, 690))
    onetool = notebook.path.parent / ".onetool"
    onetool.mkdir()
    (onetool / "onetool.yaml").write_text(TROUBLE, encoding="utf-8")
    (notebook.path.parent / "adder.py").write_text(ADDER, encoding="utf-8")
    notebook.run_cell(0)
    notebook.execute("%tool trust\n%tool server start adder")
    notebook.run_cell(1)
    notebook.execute("x = %tool geo.locate address=Ring limit=3")
    panel = notebook.show_panel()
    panel.get_by_role("button", name="Usage").click()
    usage = notebook.page.get_by_role("region", name="Usage")
    expect(usage.get_by_role("img", name="Calls")).to_be_visible()
    usage.screenshot(path=folder / "panel-usage.png")
    panel.locator(".onetool-Panel-problems").click()
    panel.get_by_role("button", name="Check now").click()
    expect(panel).to_contain_text("Checked just now.")
    panel.locator(".otx-problem", has_text="maps").locator(".otx-expand").click()
    expect(panel).to_contain_text("Install it, or write its whole path.")
    notebook.command("apputils:change-theme", theme="JupyterLab Dark")
    notebook.page.locator("#jupyterlab-splash").wait_for(state="detached")
    panel.screenshot(path=folder / "panel-health.png")
    notebook.command("apputils:change-theme", theme="JupyterLab Light")
    notebook.close()


def _top(notebook: Notebook, cell: int) -> None:
    notebook.page.locator(".jp-Notebook .jp-Cell").nth(cell).evaluate(
        "node => node.scrollIntoView({block: 'start'})"
    )


def _keep(what: Locator, path: Path) -> None:
    what.scroll_into_view_if_needed()
    what.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
