"""A small shop whose tools write down what they do, and persons who answer questions about
programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypedDict

import pytest

from onetool_ipy import open_toolbox, tool
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.host import Host
from onetool_ipy.llm.ask.answer import Answer
from onetool_ipy.toolbox import Toolbox


class Customer(TypedDict):
    id: int
    name: str
    owes: float


REMIND = """\
import crm

sent = 0
for customer in crm.customers(region="eu"):
    if customer["owes"] > 97:
        crm.remind(customer=customer["id"])
        sent += 1
sent
"""
"""Reads once, and reminds customers 8 to 11."""


class Person(Host):
    """Answers questions: by numbers, "all", "none", or a function; None means that nobody is
    there."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        reply = self.replies.pop(0) if self.replies else None
        if callable(reply):
            reply = reply(question)
        if reply is None:
            raise NobodyToAsk("Nobody could be asked.")
        if reply == "none":
            return Reply("decline")
        if reply == "all":
            reply = list(range(1, len(question.calls) + 1))
        return Reply("accept", {"run": reply} if isinstance(reply, list) else {})

    @property
    def last(self) -> Question:
        return self.questions[-1]


class Shop:
    """A toolbox with a shop's tools, and what they were called with."""

    def __init__(self, box: Toolbox, *, count: int = 12) -> None:
        self.box = box
        self.count = count
        self.reads: list[tuple[Any, ...]] = []
        self.writes: list[tuple[Any, ...]] = []
        self.stop_at = -1
        self.add_tools()

    def add_tools(self) -> None:
        reads, writes = self.reads, self.writes

        def customers(region: str = "eu") -> list[Customer]:
            reads.append(("customers", region))
            return [
                {"id": number, "name": f"c{number}", "owes": 90 + number}
                for number in range(self.count)
            ]

        def remind(customer: int, text: str = "") -> dict[str, Any]:
            if len(writes) == self.stop_at:
                self.stop_at = -1
                raise KeyboardInterrupt
            writes.append(("remind", customer, text) if text else ("remind", customer))
            return {"sent": True, "id": customer}

        def fail(customer: int) -> None:
            """Fail, as a write does."""
            writes.append(("fail", customer))
            raise ValueError("the line is busy")

        self.add("crm.customers", customers, read_only=True)
        self.add("crm.remind", remind)
        self.add("crm.fail", fail)

    def add(self, name: str, run: Callable[..., Any], **facts: Any) -> ToolSpec:
        """Add or replace a tool."""
        return self.box.adopt(tool(name=name, **facts)(run))

    def run(self, code: str, *replies: Any, **options: Any) -> Answer:
        """Run a program; `replies` are what the person answers."""
        self.person = Person(*replies)
        self.box.host = self.person
        return self.box.ask.program(code, **{"source": "magic", **options})

    def resume(self, program: str, *replies: Any, decision: Any = "", **options: Any) -> Answer:
        """Go on with a program that waits."""
        self.person = Person(*replies)
        self.box.host = self.person
        return self.box.ask.resume(program, decision, **options)

    @property
    def waiting(self) -> str:
        """The id of the one program that waits."""
        (row,) = self.box.ask.waiting()
        return str(row["id"])


@pytest.fixture
def make_shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """`make_shop("output: {...}", secrets="...")`: a shop in a project of its own; the same one at
    each call."""
    with ExitStack() as stack:

        def make(
            settings: str = "", *, secrets: str = "", folder: str = "project", **facts: Any
        ) -> Shop:
            project = tmp_path / folder
            (project / ".onetool").mkdir(parents=True, exist_ok=True)
            (project / ".onetool" / "onetool.yaml").write_text(
                f"version: 1\n{settings}\n", encoding="utf-8"
            )
            if secrets:
                file = project / ".onetool" / "secrets.yaml"
                file.write_text(secrets, encoding="utf-8")
                file.chmod(0o600)
            env = {"ONETOOL_STATE": str(tmp_path / "state"), **home_at(tmp_path / "home")}
            return Shop(stack.enter_context(open_toolbox(project, env=env)), **facts)

        yield make


@pytest.fixture
def shop(make_shop: Callable[..., Shop]) -> Shop:
    return make_shop()
