"""A tool's value as MCP content, and its output schema as a client may rely on it.

    Image, Audio, Resource, ResourceLink   the content of that kind; bytes that are an image or
                                           sound, too
    Blocks                                 each part by itself
    text                                   text
    anything else                          its JSON as text, and as structured content;
                                           {"result": value} unless it is an object

A value larger than `output.max_inline_bytes` goes as {handle, total_lines, preview} with a link to
the stored result. Text is masked, and media are bounded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import mcp_types as types

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool, OneToolError, TooLarge
from onetool_ipy.base.values import Json
from onetool_ipy.core.result import ToolResult
from onetool_ipy.render.media import Audio, Blocks, Image, Resource, ResourceLink, type_of
from onetool_ipy.schema.check import Checker
from onetool_ipy.schema.read import resolve
from onetool_ipy.toolbox import Toolbox

MAX_MEDIA = 20_000_000
"""How many bytes of one image, sound or file are sent."""

_HANDLE: Json = {
    "type": "object",
    "properties": {
        "handle": {"type": "string"},
        "total_lines": {"type": "integer"},
        "preview": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["handle", "total_lines", "preview"],
}
_OTHER: Json = {
    "type": "object",
    "properties": {
        "other": {"description": "What the tool gave, if it is not of the declared form."}
    },
    "required": ["other"],
}
_ERROR: Json = {
    "type": "object",
    "properties": {"error": {"type": "object"}},
    "required": ["error"],
}
"""The structured content of a failed call: some clients check that, too."""
_LOCAL = "#/$defs/"
Block = (
    types.TextContent
    | types.ImageContent
    | types.AudioContent
    | types.ResourceLink
    | types.EmbeddedResource
)


class DeclaredOutput:
    """The output schema of a tool as clients see it, or None; made of `source`. What is sent always
    conforms to it."""

    def __init__(self, source: Json | None, mask: Callable[[str], str]) -> None:
        self.source = source
        self.schema: Json | None = values.map_text(values.to_json(declared_output(source)), mask)
        try:
            self._checker = None if self.schema is None else Checker(self.schema)
        except InvalidTool:
            self.schema = self._checker = None

    def conforming(self, data: object) -> Json:
        """Return the structured content for data: as declared, or as {"other": data} if it is of
        another form."""
        content: Json = data if isinstance(data, dict) else {"result": data}
        return (
            {"other": data}
            if self._checker is not None and self._checker.violations(content)
            else content
        )


def call_result(box: Toolbox, result: ToolResult, declared: DeclaredOutput) -> types.CallToolResult:
    """Return what a client gets for the result of a call."""
    if result.error is not None:
        failure = values.map_text(values.to_json(result.to_dict()["error"]), box.mask)
        reason = f" ({failure['reason']})" if failure.get("reason") else ""
        text = types.TextContent(text=f"{failure['code']}{reason}: {failure['message']}")
        return types.CallToolResult(
            content=[text], structured_content={"error": failure}, is_error=True
        )
    try:
        medium = medium_of(result.data)
        if isinstance(medium, (Image, Audio, Resource, ResourceLink, Blocks)):
            other = None if declared.schema is None else {"other": None}
            return types.CallToolResult(
                content=content_blocks(medium, box.mask), structured_content=other
            )
        data = values.map_text(box.outgoing(result), box.mask)
    except OneToolError as exc:
        return types.CallToolResult(
            content=[types.TextContent(text=box.mask(exc.message))], is_error=True
        )
    content: list[Block] = [types.TextContent(text=data if isinstance(data, str) else _json(data))]
    handle = result.meta.get("handle")
    if isinstance(data, dict) and handle is not None and data.get("handle") == handle:
        content.append(
            types.ResourceLink(
                uri=result_uri(str(handle)),
                name=f"{result.meta.get('tool') or 'result'} {handle}",
                description=f"All {data['total_lines']:,} lines of this result. "
                "Page with ?offset=1&limit=100, search with ?search=REGEX.",
                mime_type="text/plain",
            )
        )
    return types.CallToolResult(content=content, structured_content=declared.conforming(data))


def content_blocks(value: object, mask: Callable[[str], str]) -> list[Block]:
    """Return a value, or each of the parts of `Blocks`, as content. Raises TooLarge."""
    parts = value if isinstance(value, Blocks) else [value]
    return [_block(medium_of(part), mask) for part in parts]


def medium_of(value: object) -> Any:
    """Return bytes that are an image or sound, and an object that draws itself, as that; other
    values as they are."""
    if isinstance(value, (bytes, bytearray)):
        if not (kind := type_of(bytes(value[:12]))):
            return Resource("onetool://bytes", "application/octet-stream", bytes(value))
        return Image(kind, bytes(value)) if kind.startswith("image/") else Audio(kind, bytes(value))
    draw = None if isinstance(value, type) else getattr(type(value), "_repr_png_", None)
    try:
        drawn = draw(value) if callable(draw) else None
    except Exception:  # noqa: BLE001 - a foreign object that cannot draw itself goes as data
        drawn = None
    return Image("image/png", drawn) if isinstance(drawn, bytes) else value


def declared_output(schema: Json | None) -> Json | None:
    """Return the output schema that holds for everything we send: an object, a large result, or one
    of another form."""
    if schema is None or not _is_movable(schema):
        return None
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    forms: list[Json] = [
        {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    ]
    kind = resolve(schema, schema).get("type")
    if kind == "object":
        forms = [inner]
    elif not isinstance(kind, str):  # some of its values are objects, maybe
        forms.append({"type": "object", "allOf": [inner]})
    defs = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "anyOf": [*forms, _HANDLE, _OTHER, _ERROR], **defs}


def result_uri(handle: str) -> str:
    """Return the address of a stored result."""
    return f"onetool://result/{quote(handle, safe='')}"


def _block(part: object, mask: Callable[[str], str]) -> Block:
    if isinstance(part, ResourceLink):
        name = mask(part.name or part.uri)
        return types.ResourceLink(
            uri=part.uri,
            name=name,
            description=mask(part.description) or None,
            mime_type=part.mime or None,
        )
    if isinstance(part, Image):
        return types.ImageContent(data=_base64(part.data), mime_type=part.mime)
    if isinstance(part, Audio):
        return types.AudioContent(data=_base64(part.data), mime_type=part.mime)
    if isinstance(part, Resource):
        if isinstance(part.content, bytes):
            blob = types.BlobResourceContents(
                uri=part.uri, mime_type=part.mime or None, blob=_base64(part.content)
            )
            return types.EmbeddedResource(resource=blob)
        _require_size(len(part.content))
        text = types.TextResourceContents(
            uri=part.uri, mime_type=part.mime or None, text=mask(part.content)
        )
        return types.EmbeddedResource(resource=text)
    plain = part if isinstance(part, str) else _json(values.to_json(part))
    _require_size(len(plain))
    return types.TextContent(text=mask(plain))


def _base64(data: bytes) -> str:
    _require_size(len(data))
    return base64.b64encode(data).decode("ascii")


def _require_size(size: int) -> None:
    if size > MAX_MEDIA:
        raise TooLarge(
            f"The result has {size:,} bytes; at most {MAX_MEDIA:,} are sent to a client."
        )


def _is_movable(schema: object) -> bool:
    """Whether all references of a schema point into its own `$defs`, which can be moved to the top
    of another."""
    if isinstance(schema, dict):
        target = schema.get("$ref", _LOCAL)
        is_known = isinstance(target, str) and target.startswith(_LOCAL)
        return (
            is_known
            and not {"$id", "$anchor", "$dynamicRef"} & schema.keys()
            and all(map(_is_movable, schema.values()))
        )
    return all(map(_is_movable, schema)) if isinstance(schema, list) else True


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False)
