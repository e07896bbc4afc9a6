"""Questions in a real kernel whose page shows no forms: typed answers, Stop, and nobody to ask."""

from __future__ import annotations

import pytest

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
    assert "12 is greater than 9" in outcome.text
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
