"""What is checked when a tool is PUT, beyond the form of its record: schemas, placeholders, names, size.

Raises InvalidRequest that names the field, or BodyTooLarge; nothing is stored that could not be called.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import orjson

from onetool_ipy.bundles.model import ToolBody
from onetool_ipy.bundles.runners import Runners
from onetool_ipy.core import schema
from onetool_ipy.core.checker import compile_schema
from onetool_ipy.core.errors import BodyTooLarge, InvalidRequest, InvalidTool

__all__ = ["MAX_BYTES", "require_callable"]

MAX_BYTES = 1024 * 1024
"""The largest record, as JSON."""


def require_callable(body: ToolBody, name: str, *, runners: Runners, secrets: Collection[str]) -> None:
    """Make sure that a tool could be called as it is written."""
    size = _size(body.shared())
    if size > MAX_BYTES:
        raise BodyTooLarge(f"The tool's record has {size:,} bytes; at most {MAX_BYTES:,} are kept.")
    both = sorted({param.name for param in schema.params(body.arg_schema)} & set(secrets)) if secrets else []
    if both:
        raise InvalidRequest(
            f"argSchema: '{both[0]}' is also the name of a secret.",
            hint="Arguments and secrets must not share a name; rename the argument.",
        )
    try:
        runners.draft(body, name)
        if body.http is None:
            compile_schema(body.arg_schema)
    except InvalidTool as exc:
        _require_schema(body.arg_schema, "argSchema")  # where it is the schema's fault, say so
        if body.output_schema is not None:
            _require_schema(body.output_schema, "outputSchema")
        raise InvalidRequest(f"{body.type}: {exc.message}", hint=exc.hint) from exc


def _size(record: dict[str, Any]) -> int:
    try:
        return len(orjson.dumps(record))
    except TypeError:  # a number of more than 64 bits
        return len(json.dumps(record, ensure_ascii=False).encode())


def _require_schema(given: dict[str, Any] | bool, field: str) -> None:
    try:
        compile_schema(given if isinstance(given, dict) else {"not": {}} if given is False else {})
    except InvalidTool as exc:
        raise InvalidRequest(f"{field}: {exc.message}", hint=exc.hint) from exc
