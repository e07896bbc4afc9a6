"""An MCP server whose tools ask the client: for a form, an address to visit, its folders. A program
of its own.

It speaks both protocols. `--sse PORT` and `--http PORT` serve on loopback instead of stdio.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp_types import (
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

server = MCPServer("asking")


class Order(BaseModel):
    size: Literal["small", "large"] = "small"
    count: int


class Login(BaseModel):
    password: str


def _order() -> Elicit[Order]:
    return Elicit("Which size?", Order)


def _login() -> Elicit[Login]:
    return Elicit("Who are you?", Login)


def _poem() -> Sample:
    words = SamplingMessage(role="user", content=TextContent(text="Write a line about rain"))
    return Sample([words], max_tokens=9_000, system_prompt="You are a poet.")


def _novel() -> Sample:
    return Sample(
        [SamplingMessage(role="user", content=TextContent(text="x" * 60_000))], max_tokens=10
    )


def _dialogue() -> Sample:
    return Sample(
        [SamplingMessage(role="user", content=TextContent(text="")) for _ in range(51)],
        max_tokens=10,
    )


def _roots() -> ListRoots:
    return ListRoots()


@server.tool(
    annotations=ToolAnnotations(title="Order", destructive_hint=True, open_world_hint=False)
)
def order(answer: Annotated[ElicitationResult[Order], Resolve(_order)]) -> str:
    if answer.action != "accept":
        return f"no order: {answer.action}"
    return f"{answer.data.count} x {answer.data.size}"


@server.tool()
def must_order(answer: Annotated[Order, Resolve(_order)]) -> str:
    return f"{answer.count} x {answer.size}"


@server.tool()
def login(answer: Annotated[Login, Resolve(_login)]) -> str:
    return f"hello, {answer.password}"


@server.tool()
def poem(answer: Annotated[CreateMessageResult, Resolve(_poem)]) -> str:
    end = "" if answer.stop_reason == "endTurn" else f" ({answer.stop_reason})"
    return f"{answer.model}: {getattr(answer.content, 'text', '')}{end}"


@server.tool()
def novel(answer: Annotated[CreateMessageResult, Resolve(_novel)]) -> str:
    return str(answer)


@server.tool()
def dialogue(answer: Annotated[CreateMessageResult, Resolve(_dialogue)]) -> str:
    return str(answer)


@server.tool()
def roots(found: Annotated[ListRootsResult, Resolve(_roots)]) -> list[str]:
    return [str(root.uri) for root in found.roots]


@server.tool()
async def consent(ctx: Context[Any, Any], url: str) -> str | InputRequiredResult:
    if ctx.request_context.protocol_version < "2026":
        return (await ctx.elicit_url("Say yes there.", url, "1")).action
    if ctx.input_responses:
        return str(ctx.input_responses["yes"].action)  # type: ignore[union-attr]  # it is what was asked for
    request = ElicitRequest(
        params=ElicitRequestURLParams(message="Say yes there.", url=url, elicitation_id="1")
    )
    return InputRequiredResult(input_requests={"yes": request})


@server.tool()
async def for_ever(ctx: Context[Any, Any]) -> str | InputRequiredResult:
    params = ElicitRequestURLParams(
        message="Again.", url="https://shop.example/", elicitation_id="1"
    )
    return InputRequiredResult(input_requests={"again": ElicitRequest(params=params)})


@server.tool()
async def log(ctx: Context[Any, Any], text: str) -> str:
    await ctx.warning(text, logger_name="shop")  # type: ignore[deprecated,unused-ignore]  # the newer protocol has it, too
    return "logged"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("sse" if sys.argv[1] == "--sse" else "streamable-http", port=int(sys.argv[2]))  # type: ignore[call-overload]
    else:
        server.run()
