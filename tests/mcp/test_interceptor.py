"""What the interceptor does to the results of lists: nothing that a server sends reaches the SDK's
own checks."""

from __future__ import annotations

import json
from typing import Any

import anyio
import hypothesis
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import ListToolsResult, jsonrpc_message_adapter

from onetool_ipy.mcp.interceptor import InterceptedStream, MessageInterceptor
from onetool_ipy.mcp.trace import MessageTrace

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
ENTRIES = JSON | st.fixed_dictionaries({"name": JSON}, optional={"inputSchema": JSON})


def listed(entries: list[Any], params: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """The entries that the interceptor kept, and the result that it passes on."""
    interceptor = MessageInterceptor(MessageTrace())
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params or {}}
    response = {"jsonrpc": "2.0", "id": 1, "result": {"tools": entries}}
    interceptor.on_send(jsonrpc_message_adapter.validate_json(json.dumps(request)))
    message: Any = jsonrpc_message_adapter.validate_json(json.dumps(response))
    interceptor.on_receive(message)
    return interceptor.lists["tools"], message.result


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.lists(ENTRIES, max_size=4))
def test_every_entry_is_kept_and_what_is_passed_on_is_always_valid(entries: list[Any]) -> None:
    kept, result = listed(entries)

    assert kept == entries
    names = [tool.name for tool in ListToolsResult.model_validate(result).tools]
    assert names == [
        entry["name"]
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]


def test_a_schema_is_passed_on_only_if_it_marks_headers() -> None:
    marked = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    plain = {"type": "object", "properties": {"a": {"type": "string"}}}

    _, result = listed(
        [{"name": "one", "inputSchema": marked}, {"name": "two", "inputSchema": plain}]
    )

    assert [tool["inputSchema"] for tool in result["tools"]] == [marked, {"type": "object"}]


def test_a_newer_servers_result_gets_what_it_left_out() -> None:
    version = "io.modelcontextprotocol/protocolVersion"
    _, older = listed([])
    _, newer = listed([], {"_meta": {version: "2026-07-28"}})

    assert older == {"tools": []}
    assert newer == {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


async def test_an_intercepted_stream_is_the_stream_but_for_what_passes() -> None:
    """What it does not know itself, such as its end, is that of the stream below."""
    interceptor = MessageInterceptor(MessageTrace())
    sending, receiving = anyio.create_memory_object_stream[Any](1)
    out, back = InterceptedStream(sending, interceptor), InterceptedStream(receiving, interceptor)
    ping = jsonrpc_message_adapter.validate_json('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')

    await out.send(SessionMessage(ping))
    received = await back.receive()
    out.close()

    assert received.message == ping
    assert interceptor.sent == 1
    assert sending.statistics().open_send_streams == 0
    assert [item async for item in back] == []
    back.close()
