"""A tool's value leaves as what it is: images, sound, files, tables, links; nothing secret, nothing
without bound."""

from __future__ import annotations

import base64
import datetime
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypedDict

import jsonschema_rs
import pytest
from pydantic import BaseModel, ConfigDict, Field

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.mcp.content import DeclaredOutput, call_result, declared_output
from onetool_ipy.render.media import Image
from tests.faces.mcp.conftest import SECRET, Connect
from tests.harness.tables import FOREIGN

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


@pytest.mark.parametrize("tool", ["shop_picture", "shop_drawn"])
async def test_bytes_that_are_an_image_leave_as_one(connect: Connect, tool: str) -> None:
    async with connect() as client:
        result = await client.call_tool(tool, {})
    (block,) = result.content
    assert (block.type, block.mime_type, base64.b64decode(block.data)) == (
        "image",
        "image/png",
        PNG,
    )


async def test_sound_and_other_bytes_leave_as_what_they_are(connect: Connect) -> None:
    async with connect() as client:
        (sound,) = (await client.call_tool("shop_sound", {})).content
        (file,) = (await client.call_tool("shop_file", {})).content
    assert (sound.type, sound.mime_type) == ("audio", "audio/wav")
    assert file.type == "resource"
    assert base64.b64decode(file.resource.blob) == b"\x00\x01\x02"


async def test_a_table_is_structured_and_text(connect: Connect) -> None:
    rows = [{"id": 1, "name": "apple"}, {"id": 2, "name": "pear"}]
    async with connect() as client:
        result = await client.call_tool("shop_table", {})
    assert result.structured_content == {"result": rows}
    assert json.loads(result.content[0].text) == rows


async def test_parts_leave_each_by_itself_and_masked(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("shop_parts", {})
    assert [block.type for block in result.content] == ["text", "image", "text", "resource_link"]
    assert json.loads(result.content[2].text) == {"a": 1}
    assert SECRET not in result.model_dump_json()


async def test_a_large_value_goes_as_a_link_to_the_stored_result(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("shop_lines", {"n": 1000})
        link = result.content[1]
        assert (link.type, link.uri) == (
            "resource_link",
            f"onetool://result/{result.structured_content['handle']}",
        )
        page = await client.read_resource(link.uri)
    assert json.loads(page.contents[0].text.splitlines()[0]) == "line 1"


async def test_what_is_too_large_to_send_is_refused_in_words(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("shop_huge", {})
    assert result.is_error
    assert "30,000,028 bytes" in result.content[0].text
    assert len(result.model_dump_json()) < 1000


OUTPUTS: list[Any] = [
    (
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        {"n": 1},
        {"n": "one"},
    ),
    ({"type": "array", "items": {"type": "integer"}}, {"result": [1]}, {"result": ["one"]}),
    ({"$defs": {"N": {"type": "integer"}}, "$ref": "#/$defs/N"}, {"result": 1}, {"result": "one"}),
]


@pytest.mark.parametrize(("schema", "good", "bad"), OUTPUTS, ids=["object", "array", "reference"])
def test_the_declared_output_holds_for_values_and_for_handles(
    schema: Any, good: Any, bad: Any
) -> None:
    declared = declared_output(schema)
    assert declared is not None
    assert declared["type"] == "object"
    check = jsonschema_rs.validator_for(declared)
    assert check.is_valid(good)
    assert not check.is_valid(bad)
    assert check.is_valid({"handle": "k3f9a2", "total_lines": 3, "preview": ["a"]})


def test_a_schema_that_cannot_be_moved_is_not_declared() -> None:
    assert (
        declared_output(
            {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {}}}
        )
        is None
    )
    assert declared_output(None) is None


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_output_schemas_are_declared_and_kept(
    shop: Toolbox, connect: Connect, mode: str
) -> None:
    """The SDK's client checks what comes against what is declared, also where it comes as a
    handle."""
    schema = {"type": "array", "items": {"type": "string"}}
    made = ToolSpec(
        name="nb.many",
        description="Many.",
        parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
        run=lambda args: ["x" * 10] * args["n"],
        output_schema=schema,
    )
    shop.registry.register(made)
    async with connect(mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["nb_many"].output_schema["anyOf"][0]["properties"]["result"] == schema
        assert tools["nb_many"].title == "nb.many"
        assert tools["shop_table"].output_schema is None
        assert (await client.call_tool("nb_many", {"n": 2})).structured_content == {
            "result": ["x" * 10] * 2
        }
        assert (await client.call_tool("nb_many", {"n": 2000})).structured_content[
            "total_lines"
        ] == 2000


class Point(TypedDict):
    x: int
    y: int


@dataclass
class Node:
    name: str
    size: float
    inner: list[Node]


class Order(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    number: int = Field(alias="orderNumber", ge=1)
    placed: datetime.date
    price: Decimal


RETURNED: list[Any] = [
    (int, 5, {"result": 5}),
    (str, "text", {"result": "text"}),
    (list[int], [1, 2], {"result": [1, 2]}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[str, int] | None, None, {"result": None}),
    (dict[str, int] | list[int], {"a": 1}, {"a": 1}),
    (Point, {"x": 1, "y": 2}, {"x": 1, "y": 2}),
    (list[Point], [{"x": 1, "y": 2}], {"result": [{"x": 1, "y": 2}]}),
    (
        Node,
        Node("a", 1.5, [Node("b", 2, [])]),
        {"name": "a", "size": 1.5, "inner": [{"name": "b", "size": 2, "inner": []}]},
    ),
    (
        Order,
        Order(number=3, placed=datetime.date(2026, 11, 15), price=Decimal("1.50")),
        {"number": 3, "placed": "2026-11-15", "price": "1.50"},
    ),
    (tuple[int, str], (1, "a"), {"result": [1, "a"]}),
]


@pytest.mark.parametrize(
    ("hint", "value", "sent"), RETURNED, ids=[str(each[0]) for each in RETURNED]
)
async def test_return_annotation_is_declared_and_what_is_sent_fits(
    shop: Toolbox, connect: Connect, hint: Any, value: Any, sent: Any
) -> None:
    """The official client checks each result. One that is of another form than its annotation says
    still comes."""
    given = [value]

    def give() -> Any:
        return given[0]

    give.__annotations__["return"] = hint
    shop.adopt(give)
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        declared = tools["nb_give"].output_schema
        assert declared["type"] == "object"
        assert jsonschema_rs.validator_for(declared).is_valid(sent)
        assert not jsonschema_rs.validator_for(declared).is_valid(
            {"result": 7 if hint is str else "a lie"}
        )
        assert (await client.call_tool("nb_give", {})).structured_content == sent
        given[0] = [["a lie"]]
        lie = await client.call_tool("nb_give", {})
        assert lie.structured_content == {"other": [["a lie"]]}
        assert lie.content[0].text == '[["a lie"]]'
        given[0] = b"\x89PNG\r\n\x1a\n" + b"0" * 20
        picture = await client.call_tool("nb_give", {})
        assert (picture.content[0].type, picture.structured_content) == ("image", {"other": None})
        failed = await client.call_tool("nb_give", {"no": "such argument"})
        assert failed.is_error
        assert jsonschema_rs.validator_for(declared).is_valid(failed.structured_content)
        given[0] = ["x" * 100] * 1000
        assert (await client.call_tool("nb_give", {})).structured_content["total_lines"] == 1000


@pytest.mark.parametrize(
    "hint", [None, Any, object, bytes, Image, "NoSuchType", ToolSpec, type("Foreign", (), {})]
)
async def test_annotation_that_says_nothing_declares_nothing(
    shop: Toolbox, connect: Connect, hint: Any
) -> None:
    def give() -> Any:
        return 5

    give.__annotations__["return"] = hint
    shop.adopt(give)
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["nb_give"].output_schema is None
        assert (await client.call_tool("nb_give", {})).structured_content == {"result": 5}


async def test_annotations_of_a_pack_file_are_declared(shop: Toolbox, connect: Connect) -> None:
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        lines = {"type": "array", "items": {"type": "string"}}
        assert tools["shop_lines"].output_schema["anyOf"][0]["properties"]["result"] == lines
        for name in ("picture", "drawn", "table", "parts"):
            assert tools[f"shop_{name}"].output_schema is None, name
        assert (await client.call_tool("shop_lines", {"n": 2})).structured_content == {
            "result": ["line 1", "line 2"]
        }
        assert (await client.call_tool("shop_lines", {"n": 2000})).structured_content[
            "total_lines"
        ] == 2000


RICH = '''
from dataclasses import dataclass

@dataclass
class Point:
    x: int
    y: int

def corner() -> Point:
    """Give a point."""
    return Point(1, 2)
'''


async def test_classes_of_a_pack_file_are_declared(shop: Toolbox, connect: Connect) -> None:
    (shop.config.paths.project / ".onetool" / "tools" / "rich.py").write_text(
        RICH, encoding="utf-8"
    )
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["rich_corner"].output_schema["anyOf"][0]["required"] == ["x", "y"]
        assert (await client.call_tool("rich_corner", {})).structured_content == {"x": 1, "y": 2}


async def test_secret_in_a_result_is_masked_and_fits_all_the_same(
    shop: Toolbox, connect: Connect
) -> None:
    def give() -> Literal["s3cr3t-of-the-tests", "other"]:
        return "s3cr3t-of-the-tests"

    shop.adopt(give)
    async with connect() as client:
        declared = next(
            tool for tool in (await client.list_tools()).tools if tool.name == "nb_give"
        ).output_schema
        result = await client.call_tool("nb_give", {})
    assert "s3cr3t" not in json.dumps([declared, result.structured_content])
    assert list(result.structured_content) == ["result"]


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_table_of_any_library_is_records_or_a_handle(kind: str, tmp_path: Path) -> None:
    rows = [{"id": number, "name": f"n{number}"} for number in range(3)]
    many = [{"id": number, "name": f"n{number}"} for number in range(50_000)]
    with open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        small = call_result(box, ToolResult(True, FOREIGN[kind](rows)), DeclaredOutput(None, str))
        large = call_result(box, ToolResult(True, FOREIGN[kind](many)), DeclaredOutput(None, str))

        assert small.structured_content is not None
        sent = [
            {name: row[name] for name in ("id", "name")}
            for row in small.structured_content["result"]
        ]
        assert sent == rows
        assert large.structured_content is not None
        assert large.structured_content["total_lines"] == 50_000
        assert json.loads(large.structured_content["preview"][1])["name"] == "n1"
