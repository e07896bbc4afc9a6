"""What a server says about its result goes with the result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mcp_types import Annotations, CallToolResult, TextContent

from onetool_ipy import Toolbox
from onetool_ipy.mcp.content import meta_of
from tests.harness.servers import real

Open = Callable[..., Toolbox]


@pytest.mark.slow
def test_annotations_of_content_are_in_the_meta_of_the_result(opened: Open) -> None:
    box = opened({"every": real("everything")})

    result = box.call("every.get-annotated-message", {"messageType": "error"})

    assert result.ok
    assert result.meta["mcp"]["annotations"][0]["audience"] == ["user", "assistant"]
    assert result.meta["mcp"]["annotations"][0]["priority"] == 1.0
    assert "mcp" not in box.call("every.echo", {"message": "x"}).meta


@pytest.mark.parametrize(
    ("result", "meta"),
    [
        (CallToolResult(content=[]), {}),
        (CallToolResult(content=[], _meta={"a": 1}), {"_meta": {"a": 1}}),
        (CallToolResult(content=[], _meta={"a": "x" * 20_000}), {}),
        (
            CallToolResult(
                content=[
                    TextContent(text="a"),
                    TextContent(text="b", annotations=Annotations(priority=0.5)),
                ]
            ),
            {"annotations": [None, {"priority": 0.5}]},
        ),
    ],
)
def test_meta_of_a_result(result: CallToolResult, meta: object) -> None:
    assert meta_of(result) == meta
