"""What MCP clients read: stored results in pages, docs of packs, tools marked as resources; wrong
addresses."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from onetool_ipy import Toolbox, tool
from onetool_ipy.faces.mcp.server import MAX_LINES, RESULT_TEMPLATE
from tests.faces.mcp.conftest import SECRET, Connect

MODES = ["2026-07-28", "legacy"]


async def read(client: Any, uri: str) -> Any:
    (contents,) = (await client.read_resource(uri)).contents
    return contents


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_a_stored_result_is_paged_and_searched(connect: Connect, mode: str) -> None:
    """A million rows cost a client what it asks for."""
    async with connect(mode=mode) as client:
        large = await client.call_tool("shop_lines", {"n": 200_000})
        uri = f"onetool://result/{large.structured_content['handle']}"
        templates = [
            each.uri_template
            for each in (await client.list_resource_templates()).resource_templates
        ]
        assert RESULT_TEMPLATE in templates
        page = await read(client, f"{uri}?offset=199999&limit=5")
        assert [json.loads(line) for line in page.text.splitlines()] == [
            "line 199999",
            "line 200000",
        ]
        about = page.meta["onetool_ipy/page"]
        assert about == {
            "total_lines": 200_000,
            "offset": 199_999,
            "returned": 2,
            "has_more": False,
        }
        first = await read(client, f"{uri}?limit=3")
        more = first.meta["onetool_ipy/page"]["next"]
        assert (await read(client, more)).text.splitlines()[0] == '"line 4"'
        found = await read(client, f"{uri}?search=line%20777%22")
        assert (found.text, found.meta["onetool_ipy/page"]["matched"]) == ('"line 777"', 1)
        bounded = await read(client, f"{uri}?limit=100000000")
        assert bounded.meta["onetool_ipy/page"]["returned"] == MAX_LINES


async def test_a_page_of_long_lines_is_bounded(shop: Toolbox, connect: Connect) -> None:
    tool(_long)
    async with connect() as client:
        large = await client.call_tool("nb_long", {})
        page = await read(
            client, f"onetool://result/{large.structured_content['handle']}?limit=1000"
        )
    about = page.meta["onetool_ipy/page"]
    assert len(page.text) < 1_200_000
    assert about["has_more"] is True
    assert 0 < about["returned"] < 100


def _long() -> list[str]:
    """Long lines."""
    return ["x" * 20_000] * 200


_long.__name__ = "long"


async def test_a_handle_is_for_those_who_were_given_it(shop: Toolbox, connect: Connect) -> None:
    """Whatever the allow-list; and another handle stays closed to a client with a narrow one."""
    other = shop.results.put(["private"])
    async with connect(allow=["shop.lines"]) as client:
        large = await client.call_tool("shop_lines", {"n": 1000})
        assert (await read(client, f"onetool://result/{large.structured_content['handle']}")).text
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"onetool://result/{other}")
        with pytest.raises(MCPError) as unknown:
            await client.read_resource("onetool://result/zzzzzz")
    assert str(caught.value) == f"Handle not found: '{other}'."
    assert str(unknown.value) == "Handle not found: 'zzzzzz'."


WRONG = [
    ("onetool://result/zzzzzz", "zzzzzz"),
    ("onetool://result/{}?offset=-1", "offset must be a whole number"),
    ("onetool://result/{}?offset=0", "offset must be a whole number"),
    ("onetool://result/{}?limit=1e9", "limit must be a whole number"),
    ("onetool://result/{}?limit=99999999999999999999", "limit must be a whole number"),
    ("onetool://result/{}?search=%28", "search"),
    ("onetool://result/..%2F..%2Fsecrets.yaml", ""),
    ("onetool://result/../../secrets.yaml", "No resource"),
    ("onetool://docs/nowhere", "No resource"),
    ("shop://stock/..%2Fsecrets", "No resource"),
    ("shop://stock/%2Fetc%2Fpasswd", "No resource"),
    ("shop://stock/a%00b", "No resource"),
    ("file:///etc/passwd", "No resource"),
]


@pytest.mark.parametrize(("uri", "said"), WRONG, ids=[each[0] for each in WRONG])
async def test_wrong_addresses_are_refused_in_words(connect: Connect, uri: str, said: str) -> None:
    async with connect() as client:
        handle = (await client.call_tool("shop_lines", {"n": 1000})).structured_content["handle"]
        asked = uri.replace("{}", handle)
        with pytest.raises(MCPError) as caught:
            await client.read_resource(asked)
        assert caught.value.error.code == types.INVALID_PARAMS
        assert said in caught.value.error.message
        assert caught.value.error.data == {"uri": asked}
        assert caught.value.error.message.replace("\n", "").isprintable()
        assert (await read(client, "shop://card")).text == '{"apples": 3}'


@pytest.mark.parametrize("mode", MODES)
async def test_tools_marked_so_are_resources(connect: Connect, mode: str) -> None:
    async with connect(mode=mode) as client:
        listed = {str(each.uri): each for each in (await client.list_resources()).resources}
        assert {"shop://card", "shop://label", "onetool://docs/shop", "onetool://docs/ot"} <= set(
            listed
        )
        assert listed["shop://card"].description == "The card."
        templates = {
            each.uri_template
            for each in (await client.list_resource_templates()).resource_templates
        }
        assert "shop://stock/{item}" in templates
        assert "shop_card" not in {each.name for each in (await client.list_tools()).tools}
        card = await read(client, "shop://card")
        assert (card.mime_type, card.text) == ("application/json", '{"apples": 3}')
        assert (await read(client, "shop://stock/red%20apples")).text == "stock of red apples"
        label = await read(client, "shop://label")
        assert (label.mime_type, base64.b64decode(label.blob)[:4], label.uri) == (
            "image/png",
            b"\x89PNG",
            "shop://label",
        )


async def test_a_large_resource_is_read_in_pages_and_masked(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(MCPError, match="5,000 lines in pages") as caught:
            await client.read_resource("shop://all")
        uri = caught.value.error.message.rpartition(" ")[2]
        page = await read(client, uri)
    assert len(page.text.splitlines()) == 100
    assert SECRET not in page.text


async def test_the_docs_of_a_pack_have_its_offered_tools(connect: Connect) -> None:
    async with connect(allow=["shop.order", "shop.lines"]) as client:
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        assert listed == ["onetool://docs/shop"]
        docs = await read(client, "onetool://docs/shop")
    assert docs.mime_type == "text/markdown"
    assert "Ask for the size first." in docs.text
    assert "### shop.order" in docs.text
    assert "Ask how large" in docs.text
    assert "shop.picture" not in docs.text


@pytest.mark.filterwarnings("ignore:resources/")  # of the older revision
async def test_watchers_hear_of_changes(shop: Toolbox, connect: Connect) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.put_nowait(str(message.params.uri))

    async with connect(mode="legacy", message_handler=hear) as client:
        await client.subscribe_resource("shop://card")
        await client.subscribe_resource("shop://label")
        await client.unsubscribe_resource("shop://label")
        tool(_long)
        assert await asyncio.wait_for(heard.get(), 60) == "shop://card"
        assert heard.empty()
