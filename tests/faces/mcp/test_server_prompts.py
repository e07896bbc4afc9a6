"""Prompts for MCP clients: tools marked so, snippets, prompts.yaml; completion, and what is not
offered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from onetool_ipy import Toolbox, tool
from onetool_ipy.assemble import open_leniently
from onetool_ipy.faces.mcp.server import ToolboxServer
from tests.faces.mcp.conftest import Connect

MODES = ["2026-07-28", "legacy"]


async def text(client: Any, name: str, args: dict[str, str] | None = None) -> str:
    result = await client.get_prompt(name, args)
    return "".join(message.content.text for message in result.messages)


@pytest.mark.parametrize("mode", MODES)
async def test_tools_snippets_and_instructions_are_prompts(connect: Connect, mode: str) -> None:
    async with connect(mode=mode) as client:
        listed = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert list(listed) == ["greet", "shop", "shop_about"]
        about = {argument.name: argument for argument in listed["shop_about"].arguments}
        assert (about["item"].required, about["loud"].required, about["item"].description) == (
            True,
            False,
            "Which.",
        )
        assert listed["greet"].description == "Greet somebody"
        assert "shop_about" not in {tool.name for tool in (await client.list_tools()).tools}
        assert await text(client, "greet", {"times": "3"}) == "hello('you', 3)"
        assert await text(client, "shop") == "Ask for the size first."
        assert (
            await text(client, "shop_about", {"item": "pear", "count": "2"})
            == "Write 3 words about the pear."
        )
        assert (
            await text(client, "shop_about", {"item": "pear", "loud": "true"})
            == "WRITE 2 WORDS ABOUT THE PEAR."
        )


async def test_arguments_are_completed(connect: Connect) -> None:
    async with connect() as client:

        async def complete(prompt: str, name: str, value: str) -> list[str]:
            ref = types.PromptReference(name=prompt)
            found = await client.complete(ref, {"name": name, "value": value})
            return list(found.completion.values)

        assert await complete("shop_about", "item", "ap") == ["apple", "apricot"]
        assert await complete("shop_about", "loud", "t") == ["true"]
        assert await complete("shop_about", "nothing", "") == []
        assert await complete("greet", "who", "y") == ["you"]
        assert await complete("no_such", "who", "") == []


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("no_such", {}, "No prompt 'no_such'"),
        ("\x1b[31mred\x07", {}, r"No prompt '\x1b[31mred\x07'"),
        ("shop_about", {}, "item"),
        ("shop_about", {"item": "banana"}, "item"),
        ("greet", {"times": "many"}, "'times' must be of type 'int'"),
        ("greet", {"times": "1", "more": "x"}, "unknown 'more'"),
        ("shop", {"more": "x"}, "takes no arguments"),
        ("shop_order", {"item": "x"}, "No prompt"),
    ],
)
async def test_what_is_wrong_is_said(
    connect: Connect, name: str, args: dict[str, str], said: str
) -> None:
    async with connect() as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, args)
        assert caught.value.error.code == types.INVALID_PARAMS
        assert said in caught.value.error.message
        assert caught.value.error.message.replace("\n", "").isprintable()
        assert await text(client, "greet", {"times": "1"}) == "hello('you', 1)"


async def test_control_characters_do_not_come_back(connect: Connect) -> None:
    async with connect() as client:
        said = await text(client, "greet", {"times": "1", "who": "\x1b[2Jyou\x00"})
    assert "\x1b" not in said
    assert "\x00" not in said


async def test_an_allow_list_holds_for_prompts(connect: Connect) -> None:
    async with connect(allow=["time.now"]) as client:
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError):
            await client.get_prompt("greet", {"times": "1"})
    async with connect(allow=["$greet"]) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
    async with connect(allow=["shop.about"]) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [
            "shop",
            "shop_about",
        ]


@pytest.mark.usefixtures("shop")
async def test_a_new_prompt_is_told(connect: Connect) -> None:
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/prompts/list_changed":
            heard.set()

    async with connect(mode="legacy", message_handler=hear) as client:
        await client.list_prompts()
        tool(prompt=True)(_extra)
        await asyncio.wait_for(heard.wait(), 60)
        assert "nb_extra" in {prompt.name for prompt in (await client.list_prompts()).prompts}


def _extra() -> str:
    """A prompt of a cell."""
    return "more"


_extra.__name__ = "extra"


async def test_snippets_of_an_untrusted_project_are_not_offered(
    tmp_path: Path, shop: Toolbox
) -> None:
    project = shop.config.paths.project
    with open_leniently(cwd=project, env={"ONETOOL_STATE": str(tmp_path / "other")}) as box:
        assert box.config.trust.how == "untrusted"
        server = ToolboxServer(box, allow=["*"])
        async with Client(server.server, mode="2026-07-28") as client:
            assert "greet" not in {prompt.name for prompt in (await client.list_prompts()).prompts}
            with pytest.raises(MCPError, match="trust"):
                await client.get_prompt("shop_about", {"item": "pear"})
        server.close()
