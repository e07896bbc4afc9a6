"""Questions on a page: calls to approve, forms, addresses; in the running cell and in the panel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.screens import AXE
from tests.e2e.steps import Steps, check, check_clicks
from tests.harness.lab import Lab, Notebook
from tests.harness.surroundings import ROOT

pytestmark = pytest.mark.browser

SETUP = '''
%load_ext onetool_ipy
from pathlib import Path
from onetool_ipy import tool
from onetool_ipy.core import current
from onetool_ipy.core.question import Question
from onetool_ipy.llm import ScriptedModel

EVIL = "<img src=x onerror='window.hacked=1'> \\u202e <script>window.hacked=1</script>"

@tool("shop.order")
def order(item: str, count: int = 1) -> str:
    """Order something.

    Args:
        item: What.
        count: How many.
    """
    with Path("ordered.txt").open("a") as file:
        file.write(f"{item[:20]}\\n")
    return f"ordered {item[:20]}"

def ask(**fields):
    return current.require().put_question(Question("server 'shop'", **fields))

three = [("shop.order", each) for each in ({"item": "pen"}, {"item": EVIL, "count": 2}, {"item": "x" * 3000})]
m = ScriptedModel([three, "That is **all**."])
FORM = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "format": "email", "title": "E-mail", "description": EVIL},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "gift": {"type": "boolean"},
        "extras": {"type": "array", "items": {"anyOf": [{"const": "m", "title": "Milk"}, {"const": "s"}]}},
    },
    "required": ["mail", "size"],
}
'''
ASK = "a = %ask --model m Order"
_AXE_RUN = """async selector => {
  const found = await window.axe.run(selector, { resultTypes: ['violations'] });
  return found.violations.map(each => [each.id, each.nodes.map(node => node.html.slice(0, 200))]);
}"""


def _open(lab: Lab, code: str = ASK, later: str = "1 + 1") -> tuple[Notebook, Locator]:
    """Open a notebook, run its setup, and begin the cell that asks; gives the question in the
    cell."""
    notebook = lab.open_notebook([SETUP.strip(), code, later], name="questions")
    notebook.run_cell(0)
    expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
    notebook.begin_cell(1)
    question = notebook.output(1).locator(".otx-question")
    expect(question).to_be_visible()
    return notebook, question


def _ordered(notebook: Notebook) -> list[str]:
    file = notebook.path.parent / "ordered.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.mark.screen
def test_one_of_three_calls_is_approved_with_two_clicks(lab: Lab) -> None:
    notebook, question = _open(lab)
    person = Steps(notebook.page)
    expect(question).to_contain_text("The model wants to make 3 calls that may change something")
    expect(question.locator("li")).to_have_count(3)
    expect(question.locator("li").nth(1)).to_contain_text("\\u202e")
    expect(question.locator("li").nth(1).locator("dt")).to_have_text(["item", "count"])
    long = question.locator("li").nth(2)
    long.get_by_role("button", name="2,802 more characters").click()
    expect(long.locator("dd").first).to_have_text(f'"{"x" * 3000}"')
    expect(notebook.output(1).locator(".jp-Stdin-input")).to_have_count(0)

    for name in ("Run shop.order", "Skip the rest"):
        person.click(question.get_by_role("button", name=name).first)

    expect(notebook.output(1)).to_contain_text("That is all.")
    expect(notebook.output(1).locator("summary", has_text="– shop.order")).to_have_count(2)
    assert _ordered(notebook) == ["pen"]
    check("approve one of three calls", person)
    check_clicks("one of three calls approved", person)
    expect(question).to_have_count(0)
    expect(notebook.output(1)).to_contain_text(
        "You allowed 1 call of shop.order and skipped 2 calls of shop.order, "
    )
    assert notebook.page.evaluate("() => window.hacked === undefined")
    assert notebook.page_errors == []
    notebook.command("docmanager:save")
    saved = notebook.path.read_text(encoding="utf-8")
    assert "You allowed 1 call of shop.order" in saved
    assert "vnd.onetool.question" not in saved


def test_skip_runs_nothing_and_always_asks_no_more(lab: Lab) -> None:
    notebook, question = _open(lab)
    question.get_by_role("button", name="Skip all").click()
    expect(notebook.output(1)).to_contain_text("You skipped 3 calls of shop.order, ")
    assert _ordered(notebook) == []

    notebook.execute("m = ScriptedModel([three[:1], 'Done.', three[:2], 'Both.'])")
    notebook.begin_cell(1)
    expect(question.get_by_role("button")).to_have_text(["Run", "Always run shop.order", "Skip"])
    question.get_by_role("button", name="Always run shop.order").press("Enter")
    expect(notebook.output(1)).to_contain_text(
        "You allowed every call of shop.order in this session, "
    )
    notebook.run_cell(1)
    expect(notebook.output(1)).to_contain_text("Both.")
    assert len(_ordered(notebook)) == 3


def test_a_form_shows_its_errors_beside_the_fields_and_keeps_what_was_typed(lab: Lab) -> None:
    notebook, question = _open(lab, 'r = ask(text="Where to?", form=FORM); r')
    expect(question).to_contain_text("Server 'shop' asks you")
    question.get_by_label("E-mail").fill("nobody")
    question.get_by_label("count").fill("12")
    question.get_by_role("checkbox", name="Milk").check()

    question.get_by_role("button", name="Send").click()

    field = question.locator(".otx-field")
    expect(field.nth(0).locator(".otx-error")).to_contain_text("email")
    expect(field.nth(1).locator(".otx-error")).to_have_text("This field is required.")
    expect(field.nth(2).locator(".otx-error")).to_contain_text("9")
    expect(question.get_by_label("E-mail")).to_be_focused()
    expect(question.get_by_label("E-mail")).to_have_value("nobody")
    question.get_by_label("E-mail").fill("a@example.com")
    question.get_by_label("size").select_option("Large")
    question.get_by_label("count").fill("3")
    question.get_by_label("count").press("Enter")
    expect(notebook.output(1)).to_contain_text("Server 'shop' asked you. You answered, ")
    wanted = {"mail": "a@example.com", "size": "l", "count": 3, "gift": False, "extras": ["m"]}
    notebook.execute(f"assert (r.action, dict(r.content)) == ('accept', {wanted!r}), r")
    assert notebook.page.evaluate("() => window.hacked === undefined")
    assert notebook.page_errors == []


def test_an_address_is_shown_whole_and_not_opened(lab: Lab) -> None:
    notebook, question = _open(
        lab, 'r = ask(text="Sign in.", url="https://shop.example/a?b=c#d"); r.action'
    )
    opened: list[object] = []

    def note(page: object) -> None:  # Playwright takes no method of a list
        opened.append(page)

    notebook.listen("popup", note)

    expect(question.locator("code")).to_have_text("https://shop.example/a?b=c#d")
    link = question.get_by_role("link", name="Open this address")
    assert link.get_attribute("rel") == "noopener noreferrer"
    question.get_by_role("button", name="Cancel").click()

    expect(notebook.output(1)).to_contain_text("'cancel'")
    assert opened == []


def test_a_server_asks_in_the_cell_and_a_password_is_not_asked_for(lab: Lab) -> None:
    notebook = lab.open_notebook(
        ["%load_ext onetool_ipy", "%tool shop.order", "%tool shop.login"], name="asking"
    )
    notebook.run_cell(0)
    server = ROOT / "tests" / "mcp" / "asking_server.py"
    add = f"f'server add shop {{sys.executable}} {server}'"
    notebook.execute(f"import sys\nget_ipython().run_line_magic('tool', {add})")
    expect(notebook.page.locator(".onetool-Status")).to_contain_text("tools")
    notebook.begin_cell(1)
    question = notebook.output(1).locator(".otx-question")
    expect(question).to_contain_text("Server 'shop' asks you")
    expect(question).to_contain_text("Which size?")

    question.get_by_label("Size").select_option("large")
    question.get_by_label("Count").fill("2")
    question.get_by_role("button", name="Send").click()

    expect(notebook.output(1)).to_contain_text("2 x large")
    expect(notebook.output(1)).to_contain_text("Server 'shop' asked you. You answered, ")
    notebook.begin_cell(2)
    expect(notebook.output(2)).to_contain_text(
        "asks for a secret ('password'), which a form must not"
    )
    assert notebook.output(2).locator(".otx-question").count() == 0


RERUN = """
if not Path("ordered.txt").exists():
    shop.order(item="pen" + EVIL)
%tool history rerun 1
"""
TOKEN = "tok-58a1c7e0d4"
CARD = {
    "name": "io.github.someone/clock",
    "version": "1",
    "packages": [
        {
            "registryType": "pypi",
            "identifier": "mcp-server-time",
            "environmentVariables": [
                {
                    "name": "CLOCK_KEY",
                    "isRequired": True,
                    "isSecret": True,
                    "description": "<b>A</b> key",
                }
            ],
        }
    ],
}

ADD_CARD = """
import os
os.environ["PATH"] += os.pathsep + os.getcwd()
%tool server add --save card.json
""".strip()


def test_a_command_asks_with_buttons_and_a_secret_stays_unseen(lab: Lab) -> None:
    """No, Stop, and a yes in a narrow panel, by keyboard; then a server's card: its secret, and a
    yes."""
    notebook, question = _open(lab, RERUN.strip(), ADD_CARD)
    page = notebook.page
    page.add_script_tag(path=str(AXE))
    expect(question).to_contain_text("'shop.order' may change something. Call it again?")
    expect(question.locator("li")).to_contain_text("%tool shop.order item=")
    expect(question.locator("li")).to_contain_text("\\u202e")
    expect(notebook.output(1).locator(".jp-Stdin-input")).to_have_count(0)
    assert page.evaluate(_AXE_RUN, ".jp-OutputArea .otx-question") == []
    question.get_by_role("button", name="Call it again").focus()
    page.keyboard.press("Tab")
    expect(question.get_by_role("button", name="No")).to_be_focused()
    page.keyboard.press("Enter")
    expect(notebook.output(1)).to_contain_text("Call it again? You said no, ")
    expect(notebook.output(1)).to_contain_text("'shop.order' was not called again.")
    assert len(_ordered(notebook)) == 1

    notebook.begin_cell(1)
    expect(question).to_be_visible()
    notebook.command("notebook:interrupt-kernel")
    expect(notebook.output(1)).to_contain_text("Call it again? Stopped, ")
    expect(question).to_have_count(0)
    # What comes before is dropped.
    expect(page.locator(".jp-Notebook .jp-InputPrompt").nth(1)).not_to_have_text("[*]:")
    assert len(_ordered(notebook)) == 1

    panel = notebook.show_panel()
    notebook.begin_cell(1)
    asked = panel.locator(".otx-question")
    expect(asked).to_be_visible()
    assert asked.evaluate("node => node.clientWidth < 320 && node.scrollWidth <= node.clientWidth")
    assert page.evaluate(_AXE_RUN, "#onetool-ipy-panel .otx-question") == []
    asked.get_by_role("button", name="Call it again").press("Enter")
    expect(notebook.output(1)).to_contain_text("Call it again? You said yes, ")
    expect(notebook.output(1)).to_contain_text("ordered pen")
    assert len(_ordered(notebook)) == 2

    notebook.path.with_name("card.json").write_text(json.dumps(CARD), encoding="utf-8")
    notebook.path.with_name("uvx").write_text("#!/bin/sh\n", encoding="utf-8")
    notebook.path.with_name("uvx").chmod(0o755)
    notebook.begin_cell(2)
    question = notebook.output(2).locator(".otx-question")
    expect(question).to_contain_text("The server 'clock' needs 'CLOCK_KEY'.")
    field = question.get_by_label("CLOCK_KEY")
    assert field.get_attribute("type") == "password"
    assert page.evaluate(_AXE_RUN, ".jp-OutputArea .otx-question") == []
    field.fill(TOKEN)
    field.press("Enter")
    expect(question).to_contain_text("Add the server 'clock'?")
    expect(question).to_contain_text("Its secrets go to secrets.yaml: CLOCK_CLOCK_KEY")
    question.get_by_role("button", name="Add").click()
    expect(notebook.output(2)).to_contain_text("clock: saved to ")
    assert TOKEN in (notebook.path.parent / ".onetool" / "secrets.yaml").read_text(encoding="utf-8")
    notebook.command("docmanager:save")
    saved = notebook.path.read_text(encoding="utf-8")
    assert "Add the server 'clock'? You said yes, " in saved
    assert TOKEN not in saved
    assert page.evaluate("() => window.hacked === undefined")
    assert notebook.page_errors == []


def test_stop_takes_the_question_back_at_once(lab: Lab) -> None:
    notebook, question = _open(lab)

    notebook.command("notebook:interrupt-kernel")

    expect(question).to_have_count(0)
    expect(notebook.output(1)).to_contain_text("3 calls of shop.order did not run.")
    assert _ordered(notebook) == []
    assert notebook.run_cell(2)[0]["data"]["text/plain"] == "2"
    expect(notebook.page.locator(".onetool-Status")).not_to_contain_text("question")


def test_after_a_reload_of_the_page_the_panel_asks(lab: Lab) -> None:
    notebook, _ = _open(lab)
    page = notebook.page

    page.goto(page.url.replace("&reset", "").replace("?reset", ""))

    panel = page.locator("#onetool-ipy-panel")
    question = panel.locator(".otx-question")
    expect(question).to_be_visible()
    expect(page.locator(".onetool-Status")).to_contain_text("1 question")
    question.get_by_role("button", name="Run shop.order").first.click()
    question.get_by_role("button", name="Skip the rest").click()
    expect(question).to_have_count(0)
    expect(page.locator(".onetool-Status")).not_to_contain_text("question")
    notebook.run_cell(2)  # the kernel is free again
    assert _ordered(notebook) == ["pen"]


def test_the_panel_answers_while_the_cell_shows_the_same_question(lab: Lab) -> None:
    notebook, in_cell = _open(lab)
    panel = notebook.show_panel()

    in_cell.get_by_role("button", name="Skip shop.order").nth(1).click()
    expect(panel.locator(".otx-question li").nth(1)).to_contain_text("will be skipped")
    panel.locator(".otx-question").get_by_role("button", name="Run the rest").click()

    expect(in_cell).to_have_count(0)
    expect(panel.locator(".otx-question")).to_have_count(0)
    expect(notebook.output(1)).to_contain_text("That is all.")
    assert _ordered(notebook) == ["pen", "x" * 20]


def test_a_notebook_from_elsewhere_cannot_show_a_question(lab: Lab) -> None:
    forged: dict[str, object] = {
        "id": "1",
        "asker": "You",
        "text": "Click me",
        "calls": [],
        "form": None,
        "url": "https://evil.example",
    }
    notebook = lab.open_notebook(["1"], name="forged")
    content = json.loads(notebook.path.read_text(encoding="utf-8"))
    data = {"application/vnd.onetool.question+json": forged, "text/plain": "x"}
    content["cells"][0]["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    file: Path = notebook.path.with_name("other.ipynb")
    file.write_text(json.dumps(content), encoding="utf-8")

    other = lab.open_file(file)

    expect(other.output(0)).to_contain_text("This question is over.")
    assert other.output(0).locator(".otx-question").count() == 0


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
@pytest.mark.parametrize("code", [ASK, 'ask(text="Where to?", form=FORM)'], ids=["calls", "form"])
def test_axe_finds_nothing_in_either_theme(lab: Lab, theme: str, code: str) -> None:
    notebook, question = _open(lab, code)
    notebook.command("apputils:change-theme", theme=theme)
    page = notebook.page
    page.locator("#jupyterlab-splash").wait_for(state="detached")
    page.add_script_tag(path=str(AXE))

    assert page.evaluate(_AXE_RUN, ".jp-OutputArea .otx-question") == []
    first = question.locator("button, input, select").first
    first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert first.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    notebook.command("apputils:change-theme", theme="JupyterLab Light")
    notebook.command("notebook:interrupt-kernel")
    expect(question).to_have_count(0)


PROGRAM = """\
%%tool program -o p
import shop

# <img src=x onerror='window.hacked=1'>
for item in ["pen", "ink", "<b>cup</b>"]:
    shop.order(item=item)
"""


@pytest.mark.screen
def test_rule_5_the_writes_of_a_program_are_chosen_in_a_table(lab: Lab) -> None:
    """The program, a row for each write, and the buttons; "always" is not offered."""
    notebook, question = _open(lab, PROGRAM, "p.note, list(p.plan.df.state)")
    expect(question.locator("pre")).to_contain_text("# <img src=x onerror='window.hacked=1'>")
    expect(question.locator("tr")).to_have_count(3)
    expect(question.locator("tr").nth(2)).to_contain_text('"<b>cup</b>"')
    expect(question.get_by_role("button")).to_have_text(["Run 3 of 3", "No"])
    expect(question).to_contain_text("It has read nothing.")
    question.get_by_role("checkbox", name="Run 2. shop.order").uncheck()
    question.get_by_role("button", name="Run 2 of 3").click()
    expect(notebook.output(1)).to_contain_text("You allowed 2 of 3 writes of the program")
    notebook.run_cell(2)
    expect(notebook.output(2)).to_contain_text("2 of 3 writes made, 1 skipped.")
    expect(notebook.output(2)).to_contain_text("['made', 'skipped', 'made']")
    assert _ordered(notebook) == ["pen", "<b>cup</b>"]
    assert notebook.page.evaluate("window.hacked") is None


def test_rule_5_the_plan_can_be_read_in_a_narrow_panel(lab: Lab) -> None:
    """At its default width, on a small screen: no line of program or write is hidden, and none is a
    letter wide."""
    notebook, _ = _open(lab, PROGRAM.replace('"ink"', '"a long text that goes on and on " * 3'))
    notebook.page.set_viewport_size({"width": 933, "height": 600})
    panel = notebook.show_panel()
    question = panel.locator(".otx-question")
    expect(question.locator("tr")).to_have_count(3)
    widths = "nodes => nodes.map(node => [node.clientWidth, node.scrollWidth - node.clientWidth])"
    assert all(
        width > 20 and hidden <= 1 for width, hidden in question.locator("dd").evaluate_all(widths)
    )
    assert all(
        hidden <= 1
        for _, hidden in question.locator("pre, .otx-question-writes").evaluate_all(widths)
    )
    (width, _), *_ = question.locator("tr:nth-child(2) dd").evaluate_all(widths)
    assert width > 80
    question.get_by_role("button", name="No").click()
    expect(question).to_have_count(0)


def test_rule_5_a_no_makes_no_write(lab: Lab) -> None:
    notebook, question = _open(lab, PROGRAM)
    question.get_by_role("button", name="No").click()
    expect(notebook.output(1)).to_contain_text("were not made")
    assert _ordered(notebook) == []


LEAVING = """
from onetool_ipy.core.tool import HttpHooks, ToolSpec
Path("salaries.csv").write_text("name,salary\\nMia Brandt,84210\\n")
TEXT = {"type": "object", "properties": {"q": {"type": "string"}}}
current.require().registry.register(ToolSpec(
    name="web.search", description="Search the web.", parameters=TEXT, run=lambda args: args["q"],
    read_only=True,
    http=HttpHooks(len, lambda _: [], frozenset(), ("https://search.example.com:443",), False),
))
calls = [("fs.read_file", {"path": "salaries.csv"}), ("web.search", {"q": "Mia Brandt 84210"})]
m = ScriptedModel([*calls, "Done."])
%ask --model m --approve fs.read_file Sum up salaries.csv
"""


def test_data_that_would_leave_is_shown_with_its_place_and_refused_by_no(lab: Lab) -> None:
    notebook, question = _open(lab, LEAVING.strip())

    expect(question).to_contain_text("The model wants to send your data to search.example.com")
    expect(question).to_contain_text("2 values out of fs.read_file('salaries.csv'), in `q`")
    expect(question.get_by_role("button")).to_have_text(
        ["Send", "Send to search.example.com for the rest of this ask", "No"]
    )
    question.get_by_role("button", name="No", exact=True).click()

    expect(notebook.output(1)).to_contain_text("skipped 1 call of web.search")


LEAVING_PROGRAM = (
    LEAVING[: LEAVING.index("calls = ")]
    + '''
code = """import fs, web
rows = fs.read_file(path='salaries.csv').splitlines()[1:]
for row in rows:
    web.search(q=row.split(',')[0])
"""
get_ipython().run_cell_magic("tool", "program -o p", code)
'''
)


def test_what_a_program_would_send_is_asked_in_cell_and_panel(lab: Lab) -> None:
    notebook, question = _open(lab, LEAVING_PROGRAM.strip())
    panel = notebook.show_panel().locator(".otx-question")

    for each in (question, panel):
        expect(each).to_contain_text("The program wants to send your data to search.example.com")
        expect(each).to_contain_text("1 value out of fs.read_file('salaries.csv'), in `q`")
        expect(each.get_by_role("button")).to_have_text(
            ["Send", "Send to search.example.com for the rest of this program", "No"]
        )
    panel.get_by_role("button", name="No", exact=True).click()

    expect(notebook.output(1)).to_contain_text("the person did not let it go")
