"""Rows 34 and 35: what OpenTelemetry costs a call where nobody traces, and our tools in the hands
of other frameworks.

Row 34 times the step that every call passes, beside the library's own no-op span. Row 35 lets
LangChain and OpenAI Agents call a tool that they made of a function themselves, and ours of the
same function.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.tracing import traced
from tests.benchmarks.timing import Contender, LeftOut, at_most, line, note, race, statement, times
from tests.benchmarks.trivial import ARGS, add

__all__ = ["ROWS", "run"]

ROWS = (34, 35)

_STEP_S, _STEP_MOONSHOT_S = 0.3e-6, 0.2e-6
_REACH = {"langchain": 1.5, "openai-agents": 2.0}
_MOONSHOT = 1.2


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "ONETOOL_STATE": str(Path(folder) / "state")}
        with open_toolbox(folder, env=env) as box:
            box.adopt(add, read_only=["add"])
            return [_without_provider(box), *_in_frameworks(box)]


def _without_provider(box: Toolbox) -> dict[str, Any]:
    from opentelemetry import trace

    tracer = trace.get_tracer("bench")

    def naive() -> None:
        with tracer.start_as_current_span("execute_tool nb.add"):
            pass

    step, resolved = traced(str), box.resolve("nb.add", ARGS)
    note("  racing ...")
    found = race(
        [
            statement("ours", "step(resolved)", step=step, resolved=resolved),
            statement("no-op", "naive()", naive=naive),
        ]
    )
    target = at_most(found["ours"], _STEP_S, _STEP_MOONSHOT_S)
    what = "OpenTelemetry in a call, no tracer provider in the process"
    return line(34, what, found["ours"], found["no-op"], name="a no-op span", **target)


def _in_frameworks(box: Toolbox) -> Iterator[dict[str, Any]]:
    for framework, contenders in (("langchain", _langchain), ("openai-agents", _agents)):
        try:
            native, ours = contenders(box)
        except ImportError as exc:
            raise LeftOut(f"{framework} is not installed: {exc}") from exc
        note(f"  racing in {framework} ...")
        found = race([native, ours], least=5)
        cost = found["ours"] / found["native"]
        target = at_most(cost, _REACH[framework], _MOONSHOT, show=times)
        what = f"our tool called by {framework}: {times(cost)} of its own"
        yield line(35, what, found["ours"], found["native"], name="a native tool", **target)


def _langchain(box: Toolbox) -> tuple[Contender, Contender]:
    made = importlib.import_module("langchain_core.tools").tool(add)
    (ours,) = box.export("langchain", ["nb.add"])
    call = {"type": "tool_call", "name": "add", "args": ARGS, "id": "1"}
    code = "tool.invoke(call)"
    return statement("native", code, tool=made, call=call), statement(
        "ours", code, tool=ours, call=call
    )


def _agents(box: Toolbox) -> tuple[Contender, Contender]:
    agents = importlib.import_module("agents")
    context = importlib.import_module("agents.tool_context").ToolContext
    text = '{"a": 1, "b": 2}'
    here = context(context=None, tool_name="add", tool_call_id="1", tool_arguments=text)
    (ours,) = box.export("openai-agents", ["nb.add"])

    def timed(tool: Any) -> Callable[[int], float]:
        async def calls(count: int) -> float:
            began = time.process_time()
            for _ in range(count):
                await tool.on_invoke_tool(here, text)
            return time.process_time() - began

        return lambda count: asyncio.run(calls(count))

    return Contender("native", timed(agents.function_tool(add))), Contender("ours", timed(ours))
