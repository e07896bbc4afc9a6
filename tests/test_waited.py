"""How long a person thinks about a question is not the time of the tool that asks it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.host import Host
from onetool_ipy.sdk import ask_user, call_tool

THOUGHT_S = 0.3


class Thinker(Host):
    """A person who takes their time."""

    def ask(self, question: Question) -> Reply:
        end = time.monotonic() + THOUGHT_S
        while time.monotonic() < end:
            pass
        return Reply("accept", {"answer": "blue"})


def ask() -> str:
    """Ask for a colour."""
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    return str((ask_user(schema, "Which colour?") or {}).get("answer"))


def outer() -> str:
    """Let another tool ask."""
    return str(call_tool("nb.ask"))


async def anouter() -> str:
    """Let another tool ask, from a loop."""
    return str(await asyncio.to_thread(call_tool, "nb.ask"))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    with open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        box.host = Thinker()
        for tool in (ask, outer, anouter):
            box.adopt(tool)
        yield box


@pytest.mark.parametrize("timeout", [None, 60.0])
@pytest.mark.parametrize("tool", ["nb.ask", "nb.outer", "nb.anouter"])
def test_the_thinking_of_a_person_is_not_the_latency_of_a_tool(
    box: Toolbox, tool: str, timeout: float | None
) -> None:
    began = time.monotonic()
    result = box.call(tool, timeout=timeout)
    took_ms = 1000 * (time.monotonic() - began)

    assert result.unwrap() == "blue"
    rows = box.log.history()
    assert {row.tool for row in rows} == {tool, "nb.ask"}
    for ms in (result.meta["duration_ms"], *(row.ms for row in rows)):
        assert ms <= took_ms - 1000 * THOUGHT_S


def test_the_time_around_a_question_counts(box: Toolbox) -> None:
    def slow() -> str:
        """Work, then ask."""
        time.sleep(0.1)
        return str(call_tool("nb.ask"))

    box.adopt(slow)

    assert box.call("nb.slow").meta["duration_ms"] >= 100
