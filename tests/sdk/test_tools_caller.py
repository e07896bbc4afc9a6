"""What a tool asks where it runs for a person, and where nobody can answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox, tool
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.host import Host
from onetool_ipy.sdk import Roots, ask_client, ask_model, ask_user, client_can, log

FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


class Person(Host):
    """A person who replies always the same."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Reply:
        self.asked.append(question)
        return self.reply


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    with open_toolbox(env={"ONETOOL_STATE": str(tmp_path)}) as box:
        tool(order)
        tool(ask_others)
        tool(order_async)
        yield box


def order() -> Any:
    """Ask for a size."""
    log("it asks", "warning")
    return ask_user(FORM, "Which size?")


def ask_others() -> list[str]:
    """Ask what only an MCP client answers."""
    said = [f"{sorted(client_can())}"]
    for ask in (lambda: ask_model("Which?"), lambda: ask_client(folders=Roots())):
        try:
            ask()
        except NobodyToAsk as exc:
            said.append(exc.message)
    return said


async def order_async(in_thread: bool) -> Any:
    """Ask, on the event loop or beside it."""
    return (
        await asyncio.to_thread(ask_user, FORM, "Which size?")
        if in_thread
        else ask_user(FORM, "Which size?")
    )


def test_a_question_with_its_arguments_swapped_says_their_order() -> None:
    with pytest.raises(UsageProblem, match=r"ask_user\(schema, message\) .* not 'Which size\?'"):
        ask_user("Which size?", "Say it.")  # type: ignore[arg-type]


def test_a_person_is_asked_and_the_answer_comes_back(box: Toolbox) -> None:
    person = box.host = Person(Reply("accept", {"size": 3}))
    assert box.call("nb.order").unwrap() == {"size": 3}
    (question,) = person.asked
    assert (question.asker, question.text) == ("tool 'nb.order'", "Which size?")
    assert question.form is not None
    assert question.form["required"] == ["size"]


def test_an_async_tool_asks_from_a_thread(box: Toolbox) -> None:
    """Else nothing of the other async tools, nor of MCP servers, would go on until there is an
    answer."""
    person = box.host = Person(Reply("accept", {"size": 3}))
    blocked = box.call("nb.order_async", {"in_thread": False})
    assert blocked.error is not None
    assert "from a thread" in blocked.error.message
    assert not person.asked
    assert box.call("nb.order_async", {"in_thread": True}).unwrap() == {"size": 3}


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_whoever_says_no_gives_none(box: Toolbox, action: Any) -> None:
    box.host = Person(Reply(action))
    assert box.call("nb.order").unwrap() is None


@pytest.mark.parametrize("source", ["rest", "mcp"])
def test_the_person_at_the_kernel_is_not_asked_for_a_client(box: Toolbox, source: Any) -> None:
    person = box.host = Person(Reply("accept", {"size": 3}))
    result = box.call("nb.order", source=source)
    assert result.error is not None
    assert result.error.reason == "unavailable"
    assert not person.asked


def test_what_only_a_client_answers_is_refused_without_one(box: Toolbox) -> None:
    said = box.call("nb.ask_others").unwrap()
    assert said[0] == "[]"
    assert len(said) == 3
    assert all("MCP client" in each for each in said[1:])


def test_lines_go_to_the_log_of_the_pack(box: Toolbox, caplog: pytest.LogCaptureFixture) -> None:
    box.host = Person(Reply("decline"))
    with caplog.at_level(logging.INFO, logger="onetool_ipy.packs"):
        box.call("nb.order")
    assert ("onetool_ipy.packs.nb", logging.WARNING, "it asks") in caplog.record_tuples
