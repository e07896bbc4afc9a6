"""Tools that wait, as a cell of a test defines them; and what a cell showed of them."""

from __future__ import annotations

from tests.harness.kernel import Outcome

__all__ = ["TOOLS", "drawn", "kept"]

TOOLS = '''
import asyncio, threading, time
from onetool_ipy import tool
from onetool_ipy.sdk import batch_execute, call_tool, progress

@tool
def count(n: int, every_s: float = 0.1, text: str = "") -> int:
    """Count, and say how far."""
    for i in range(n):
        progress(i + 1, n, text)
        time.sleep(every_s)
    return n

@tool
def nap(s: float) -> str:
    """Wait in C."""
    print("begun", flush=True)
    time.sleep(s)
    return "rested"

@tool
async def anap(s: float) -> str:
    """Wait on the loop."""
    print("begun", flush=True)
    await asyncio.sleep(s)
    return "rested"

@tool
def spin(s: float) -> str:
    """Never wait."""
    print("begun", flush=True)
    until = time.monotonic() + s
    while time.monotonic() < until:
        pass
    return "dizzy"

@tool
def batch(s: float) -> str:
    """Wait in many threads."""
    print("begun", flush=True)
    return batch_execute([s] * 20, time.sleep)

@tool
def outer(s: float) -> str:
    """Wait for another tool."""
    return call_tool("nb.nap", s=s)
'''


def drawn(outcome: Outcome) -> list[str]:
    """The texts that the displays of a cell showed, one after the other."""
    return [shown.text for shown in outcome.displays]


def kept(outcome: Outcome) -> list[str]:
    """What a notebook saves: the last text of each display."""
    last: dict[str | None, str] = {}
    for shown in outcome.displays:
        assert shown.is_update == (shown.display_id in last), "shown once, then updated"
        last[shown.display_id] = shown.text
    return list(last.values())
