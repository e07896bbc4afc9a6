"""What is checked when a tool is PUT, beyond the form of its record: schemas, placeholders, names, size.

Raises InvalidRequest that names the field, or BodyTooLarge; nothing is stored that could not be called.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

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
    size = len(json.dumps(body.to_dict(), ensure_ascii=False).encode())
    if size > MAX_BYTES:
        raise BodyTooLarge(f"The tool's record has {size:,} bytes; at most {MAX_BYTES:,} are kept.")
    _require_schema(body.arg_schema, "argSchema")
    if body.output_schema is not None:
        _require_schema(body.output_schema, "outputSchema")
    both = sorted({param.name for param in schema.params(body.arg_schema)} & set(secrets))
    if both:
        raise InvalidRequest(
            f"argSchema: '{both[0]}' is also the name of a secret.",
            hint="Arguments and secrets must not share a name; rename the argument.",
        )
    try:
        runners.draft(body, name)
    except InvalidTool as exc:
        raise InvalidRequest(f"{body.type}: {exc.message}", hint=exc.hint) from exc


def _require_schema(given: dict[str, Any] | bool, field: str) -> None:
    try:
        compile_schema(given if isinstance(given, dict) else {"not": {}} if given is False else {})
    except InvalidTool as exc:
        raise InvalidRequest(f"{field}: {exc.message}", hint=exc.hint) from exc
