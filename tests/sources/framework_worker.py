"""The tools of one framework, adopted and called in a process that has the framework.

Runs in .venv-frameworks:

    python framework_worker.py langchain FOLDER

prints one JSON object: what each kind of call gave, and what the framework's larger things were
adopted as. The parent asserts. The annotations are no texts: frameworks read those of functions
inside functions.
"""

import asyncio
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

from onetool_ipy import open_toolbox
from onetool_ipy.toolbox import Toolbox

CALLS: list[str] = []
MANY = 50_000


def add(a: int, b: int = 2) -> dict:
    """Add two numbers."""
    CALLS.append("add")
    return {"sum": a + b}


async def later(a: int) -> dict:
    """Add one, later."""
    await asyncio.sleep(0)
    return {"sum": a + 1}


def boom(a: int) -> dict:
    """Fail."""
    raise KeyError("the real cause")


def large(a: int) -> dict:
    """Give much."""
    return {"rows": list(range(MANY))}


FUNCTIONS = (add, later, boom, large)


def langchain() -> tuple[Any, dict[str, Any]]:

    from langchain_core.tools import BaseToolkit, InjectedToolCallId, StructuredTool, tool

    @tool(response_format="content_and_artifact")
    def drawn(a: int) -> Any:
        """Draw."""
        return "a picture", [a]

    @tool
    def named(a: int, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Name the call."""
        return f"{a} {call_id}"

    class Kit(BaseToolkit):
        def get_tools(self) -> list:
            return [drawn, named]

    made = [StructuredTool.from_function(coroutine=f) if f is later else tool(f) for f in FUNCTIONS]
    return made, {"kit": Kit()}


def pydantic_ai() -> tuple[Any, dict[str, Any]]:
    from pydantic_ai import FunctionToolset, RunContext, Tool

    toolset = FunctionToolset[Any]([add])

    @toolset.tool
    def whose(ctx: RunContext[str], a: int) -> str:
        """Say whose."""
        return f"of {ctx.deps}"

    return [Tool(f) for f in FUNCTIONS], {"set": toolset.prefixed("my")}


def openai_agents() -> tuple[Any, dict[str, Any]]:
    from agents import RunContextWrapper, function_tool

    @function_tool
    def whose(ctx: RunContextWrapper[str], a: int) -> str:
        """Say whose."""
        return f"of {ctx.context}"

    return [function_tool(f, strict_mode=False) for f in FUNCTIONS], {"strict": whose}


def llama_index() -> tuple[Any, dict[str, Any]]:
    from llama_index.core.tools import FunctionTool
    from llama_index.core.tools.tool_spec.base import BaseToolSpec

    class Spec(BaseToolSpec):
        spec_functions: ClassVar[list[str]] = ["add"]

        def add(self, a: int) -> int:
            """Add one."""
            return a + 1

    made = [
        FunctionTool.from_defaults(**{"async_fn" if f is later else "fn": f}) for f in FUNCTIONS
    ]
    return made, {"spec": Spec()}


def smolagents() -> tuple[Any, dict[str, Any]]:
    from smolagents import Tool, ToolCollection

    made: list[Any] = []
    for function in FUNCTIONS:
        inputs = {"a": {"type": "integer", "description": "a number"}}
        if function is add:
            inputs["b"] = {"type": "integer", "description": "another", "nullable": True}
        fields = {
            "name": function.__name__,
            "description": function.__doc__,
            "inputs": inputs,
            "output_type": "object",
        }
        fields |= {"forward": staticmethod(function), "skip_forward_signature_validation": True}
        made.append(type(function.__name__.title(), (Tool,), fields)())
    return made, {"collection": ToolCollection(made[:1])}


def llm() -> tuple[Any, dict[str, Any]]:
    import llm as library

    class Box(library.Toolbox):
        def prepare(self) -> None:
            self.add_tool(add)

        def count(self, a: int) -> int:
            """Count."""
            return a + 1

        @property
        def danger(self) -> Any:
            CALLS.append("danger")
            raise RuntimeError("a property ran")

    return [library.Tool.function(f) for f in FUNCTIONS], {"box": Box()}


def fastmcp() -> tuple[Any, dict[str, Any]]:
    from fastmcp import Context, FastMCP

    server, other = FastMCP("Plain Server"), FastMCP("other")
    for function in FUNCTIONS:
        server.tool(function)

    @other.tool
    async def whose(a: int, ctx: Context) -> str:
        """Say whose."""
        return f"of {ctx.fastmcp.name}"

    return server, {"context": other}


def mcp() -> tuple[Any, dict[str, Any]]:
    from mcp.server.mcpserver import Context, MCPServer

    server, other = MCPServer("plain"), MCPServer("other")
    for function in FUNCTIONS:
        server.add_tool(function)

    @other.tool()
    async def whose(a: int, ctx: Context) -> str:
        """Say whose."""
        return f"of {type(ctx).__name__}"

    return server, {"context": other}


def objects() -> tuple[Any, dict[str, Any]]:
    class Client:
        add, later, boom, large = map(staticmethod, FUNCTIONS)

        @property
        def danger(self) -> Any:
            CALLS.append("danger")
            raise SystemExit("a property ran")

        def _private(self) -> None: ...

    module = types.ModuleType("shop")
    exec(
        "def price(a: int) -> int:\n    'The price.'\n    return a * 2\ndef _hidden(): ...",
        vars(module),
    )
    return Client(), {"module": module}


FRAMEWORKS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    each.__name__: each
    for each in (
        langchain,
        pydantic_ai,
        openai_agents,
        llama_index,
        smolagents,
        llm,
        fastmcp,
        mcp,
        objects,
    )
}


def outcomes(box: Toolbox, thing: Any) -> dict[str, Any]:
    """Call the four tools in every way."""
    names = box.adopt(thing)
    by_name = {name.rpartition(".")[2]: name for name in names}
    tool = by_name["add"]
    spec = box.registry.require(tool)
    good = box.call(tool, {"a": 1, "b": 2})
    count = len(CALLS)
    bad = [box.call(tool, args) for args in ({"a": "x"}, {"b": 1})]
    ran_with_bad = len(CALLS) - count
    failed = box.call(by_name["boom"], {"a": 1})
    big = box.call(by_name["large"], {"a": 1}, source="model")
    return {
        "names": names,
        "sync": good.data,
        "async": [
            box.call(by_name["later"], {"a": 1}).data,
            asyncio.run(box.acall(by_name["later"], {"a": 1})).data,
        ],
        "sync_in_async": asyncio.run(box.acall(tool, {"a": 1, "b": 2})).data,
        "schema": [
            spec.parameters["properties"]["a"]["type"],
            spec.parameters["required"],
            spec.description,
        ],
        "bad": [[result.error.code, result.error.message] for result in bad if result.error],
        "ran_with_bad": ran_with_bad,
        "exception": [failed.error.code, failed.error.message, repr(failed.error.exception)],
        "large": [len(big.data["rows"]), sorted(box.outgoing(big))],
        "marks": [spec.read_only, spec.origin],
        "again": box.adopt(thing) == names,
    }


def main(framework: str, folder: str) -> None:
    """Adopt, call, and print what came of it."""
    thing, more = FRAMEWORKS[framework]()
    with open_toolbox(Path(folder), env={"ONETOOL_STATE": f"{folder}/state"}) as box:
        report = outcomes(box, thing)
        report["more"] = {}
        for label, each in more.items():
            names = box.adopt(each, pack=label, deps="Ada")
            results = [box.call(name, {"a": 3}) for name in names]
            report["more"][label] = {
                name: result.data if result.ok else str(result.error)
                for name, result in zip(names, results, strict=True)
            }
    report["calls"] = CALLS
    sys.stdout.write(f"\n{json.dumps(report)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
