"""Questions in a real kernel whose page shows no forms: typed answers, Stop, and nobody to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from onetool_ipy.assemble import open_leniently
from tests.harness.kernel import Kernel

SETUP = '''
%load_ext onetool_ipy
from onetool_ipy import tool
from onetool_ipy.core import current
from onetool_ipy.core.question import Question
box = current.require()
FORM = {"type": "object", "properties": {"count": {"type": "integer", "maximum": 9}}, "required": ["count"]}
QUESTION = Question("server 'shop'", "How many?", form=FORM)

@tool("shop.order")
def order() -> str:
    """Order something."""
    reply = box.put_question(QUESTION)
    return f"{reply.action} {dict(reply.content)}"

@tool("shop.later")
async def later() -> str:
    """Order something, as an MCP server asks: on the event loop."""
    reply = await box.aput_question(QUESTION)
    return f"{reply.action} {dict(reply.content)}"
'''
WAYS = ["%tool shop.order", "%tool shop.order --timeout 300", "%tool shop.later"]


@pytest.fixture
def asking(kernel: Kernel) -> Kernel:
    kernel.execute(SETUP)
    return kernel


@pytest.mark.parametrize("line", WAYS)
def test_a_form_is_typed_where_the_page_shows_none(asking: Kernel, line: str) -> None:
    running = asking.start_execute(line, allow_stdin=True)
    first = asking.answer_input("yes")
    asking.answer_input("12")
    asking.answer_input("3")
    outcome = running.wait()

    assert "Server 'shop' asks:\n  How many?" in first
    assert "12 is too large; it may be at most 9" in outcome.text
    assert outcome.result_text.strip() == "accept {'count': 3}"
    assert "Server 'shop' asked you. You answered, " in outcome.text


@pytest.mark.parametrize("line", WAYS)
def test_stop_ends_the_question_and_leaves_the_next_input_alone(asking: Kernel, line: str) -> None:
    running = asking.start_execute(line, allow_stdin=True)
    asking.wait_for_question()
    asking.interrupt()
    outcome = running.wait(allow_errors=True)

    assert outcome.error is not None
    assert outcome.error.ename == "KeyboardInterrupt"
    again = asking.start_execute("input('Name? ')", allow_stdin=True)
    assert asking.answer_input("Ada") == "Name? "
    assert again.wait().result_text == "'Ada'"


@pytest.mark.parametrize("line", WAYS)
def test_without_a_person_the_call_says_that_nobody_can_be_asked(asking: Kernel, line: str) -> None:
    outcome = asking.execute(line, allow_errors=True)

    assert outcome.error is not None
    assert "asks a person, and this notebook runs without one" in outcome.text


_RECORD = {
    "type": "http",
    "description": "x",
    "http": {"request": {"urlTemplate": "https://api.test/orders"}},
}


def _put(folder: Path, slug: str) -> None:
    """Make a bundle in the project, as Jupyter Server does for a REST client; this is another
    process than a kernel."""
    with open_leniently(cwd=folder) as box:
        own = box.bundles.new_id()
        box.bundles.put_bundle(own, slug=slug, display_name=slug)
        box.bundles.put_tool(own, "get-orders", "1", _RECORD)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["project", "folder", "opened folder"])
def test_a_bundle_that_another_process_made_is_a_name_in_the_next_cell(
    kernel: Kernel, place: str
) -> None:
    if place == "project":
        (kernel.cwd / ".onetool").mkdir()
        (kernel.cwd / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    kernel.execute("%load_ext onetool_ipy")
    if place != "folder":
        kernel.execute("%tool time.now")
    kernel.execute("taken = 5; import json")

    for slug in ("my-api", "taken", "json", "len", "second"):
        _put(kernel.cwd, slug)
        if slug == "my-api":
            assert kernel.execute("my_api.get_orders").result_text == "<tool my-api.get-orders()>"

    assert kernel.execute("second.get_orders").result_text == "<tool second.get-orders()>"
    assert kernel.evaluate("(taken, json.__name__, len([1]))") == "(5, 'json', 1)"
    kernel.execute("del second")
    assert kernel.execute("second", allow_errors=True).error is not None, (
        "a deleted name stays deleted"
    )


def test_a_bundle_made_in_a_cell_is_a_name_in_the_same_cell(kernel: Kernel) -> None:
    made = "%tool new http my-api.get-orders --url https://api.test/orders\nmy_api.get_orders"
    kernel.execute("%load_ext onetool_ipy")
    assert kernel.execute(made).result_text == "<tool my-api.get-orders()>"
