"""A tool result of a server as a Python value: structured data as it is, text as text, media as
media.

    structured content          that data; `{"result": x}` is x if the schema only wraps a plain
                                value
    one text, or several        text, lines joined
    an image, audio, resource   a value of `render.media`, which a notebook shows
    several of these            a list of them, `Blocks`
    nothing                     None

`isError` and protocol errors are raised as our own failures.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    CallFailure,
    CallTimeout,
    ExecutionFailed,
    InvalidArgs,
    InvalidOutput,
    InvalidTool,
    Unavailable,
)
from onetool_ipy.base.values import Json
from onetool_ipy.render.media import Audio, Blocks, Image, Resource, ResourceLink
from onetool_ipy.schema.check import Checker

_WRAPPED = "x-fastmcp-wrap-result"
_WRAPPER_KEYS = {"type", "properties", "required", "title", "$defs"}
_INVALID_PARAMS = -32602
_CLOSED = -32000
_TIMED_OUT = -32001
_VISIT_FIRST = -32042
_MAX_WORDS = 4_000
_MAX_LISTED = 3
_MAX_META = 10_000


class NotSent(Exception):
    """A call certainly did not reach the server: its session or process was already gone."""


class OutputSchema:
    """The output schema of a tool, compiled. Knows whether it only wraps a plain value."""

    def __init__(self, schema: Json | None) -> None:
        self._wrapped = schema is not None and _is_wrapper(schema)
        self._allows_any_type = schema is None or schema.get("type", "object") != "object"
        try:
            self._checker = None if schema is None else Checker(schema)
        except InvalidTool:
            self._checker = None

    def value(self, data: object, tool: str) -> Any:
        """Return the structured content, unwrapped. Raises InvalidOutput if it does not match the
        schema."""
        if self._checker is None:
            return data
        if not isinstance(data, dict):
            if self._allows_any_type:
                return data
            raise InvalidOutput(
                f"The result of '{tool}' does not fit its own output schema: it is not an object."
            )
        violations = self._checker.violations(data)
        if violations:
            reasons = "; ".join(str(one["message"]) for one in violations[:_MAX_LISTED])
            raise InvalidOutput(
                f"The result of '{tool}' does not fit its own output schema: {reasons}",
                details={"mismatch": violations, "value": data},
            )
        return data["result"] if self._wrapped and data.keys() == {"result"} else data


def _is_wrapper(schema: Json) -> bool:
    """Whether a schema only wraps a plain value as `{"result": value}`, since the protocol requires
    an object.

    FastMCP marks such a schema. The official SDK names it after the function, `addOutput`; a model
    that an author wrote has the name of a class.
    """
    if schema.get(_WRAPPED) is True:
        return True
    properties, title = schema.get("properties"), schema.get("title")
    return (
        schema.keys() <= _WRAPPER_KEYS
        and isinstance(properties, dict)
        and list(properties) == schema.get("required") == ["result"]
        and isinstance(properties["result"], dict)
        and properties["result"].get("title") == "Result"
        and isinstance(title, str)
        and title.endswith("Output")
        and not title[0].isupper()
    )


def value_of(result: Any, output: OutputSchema, tool: str, server: str = "") -> Any:
    """Return the value of a CallToolResult. Raises ExecutionFailed if it is an error. `server` is
    for its links."""
    blocks = [block_of(item, server) for item in result.content or ()]
    if result.is_error:
        text = "\n".join(block for block in blocks if isinstance(block, str)).strip()
        raise ExecutionFailed(
            values.cut(text or "The server reports a failure without a reason.", _MAX_WORDS)
        )
    if result.structured_content is not None:
        data = output.value(result.structured_content, tool)
        media = [block for block in blocks if not isinstance(block, str)]
        return Blocks([data, *media]) if media else data
    if all(isinstance(block, str) for block in blocks):
        return "\n".join(blocks) if blocks else None
    return blocks[0] if len(blocks) == 1 else Blocks(blocks)


def meta_of(result: Any) -> Json:
    """What a server says about its result: `_meta`, and the annotations (audience, priority) of its
    blocks.

    Empty if it says nothing, or more than a result should carry along.
    """
    notes = [
        item.annotations and item.annotations.model_dump(exclude_none=True)
        for item in result.content or ()
    ]
    meta: Json = {"annotations": notes} if any(notes) else {}
    if result.meta:
        meta["_meta"] = dict(result.meta)
    if not meta:
        return meta
    plain: Json = values.to_json(meta)
    return plain if len(json.dumps(plain)) <= _MAX_META else {}


def error_text(exc: BaseException) -> str:
    """Say why a connection failed: by the error that the server sent, or by the kind of the
    exception."""
    error = getattr(exc, "error", None)
    if error is None:
        return f"The connection failed ({type(exc).__name__})."
    return values.cut(f"It answers with an error: {' '.join(str(error.message).split())}", 300)


def failure_of(exc: Any, server: str) -> CallFailure:
    """Return our failure for a protocol error (MCPError)."""
    code, message = exc.error.code, values.cut(str(exc.error.message), _MAX_WORDS)
    if code == _INVALID_PARAMS:
        return InvalidArgs(message)
    if code == _CLOSED:
        return Unavailable(
            f"The server '{server}' stopped during the call; the call may or may not have"
            " completed.",
            hint="It is not repeated. The next call starts the server again.",
        )
    if code == _TIMED_OUT:
        return CallTimeout(message)
    if code == _VISIT_FIRST:
        elicitations = (
            exc.error.data.get("elicitations") if isinstance(exc.error.data, dict) else None
        )
        urls = [str(one.get("url")) for one in elicitations or () if isinstance(one, dict)][
            :_MAX_LISTED
        ]
        return ExecutionFailed(
            message, hint=f"Visit {' and '.join(urls) or 'the address it names'}, then call again."
        )
    return ExecutionFailed(message)


def block_of(item: Any, server: str = "") -> Any:
    """Return the value of one content block. A link is read from `server`."""
    kind = item.type
    if kind == "text":
        return item.text
    if kind == "image":
        return Image(item.mime_type, _bytes(item.data))
    if kind == "audio":
        return Audio(item.mime_type, _bytes(item.data))
    if kind == "resource_link":
        return ResourceLink(
            str(item.uri), item.name or "", item.description or "", item.mime_type or "", server
        )
    inner = item.resource
    text = getattr(inner, "text", None)
    content = text if isinstance(text, str) else _bytes(inner.blob)
    return Resource(str(inner.uri), inner.mime_type or "", content)


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError):
        return b""
