"""What is checked when a tool is PUT, beyond the form of its record: schemas, placeholders, names, size.

Raises InvalidRequest that names every field, or BodyTooLarge; nothing is stored that could not be called.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import orjson

from onetool_ipy.bundles.faults import fault, together
from onetool_ipy.bundles.model import ToolBody
from onetool_ipy.bundles.runners import Runners
from onetool_ipy.core import schema
from onetool_ipy.core.checker import compile_schema
from onetool_ipy.core.errors import BodyTooLarge, InvalidRequest, InvalidTool

__all__ = ["MAX_BYTES", "require_callable"]

MAX_BYTES = 1024 * 1024
"""The largest record, as JSON."""

_SHARED = "Arguments and secrets must not share a name; rename the argument."


def require_callable(body: ToolBody, name: str, *, runners: Runners, secrets: Collection[str]) -> None:
    """Make sure that a tool could be called as it is written."""
    size = _size(body.shared())
    if size > MAX_BYTES:
        said = f"The tool's record has {size:,} bytes; at most {MAX_BYTES:,} are kept."
        raise BodyTooLarge(said, details=[fault("", said)])
    both = sorted({param.name for param in schema.params(body.arg_schema)} & set(secrets)) if secrets else []
    wrong = [_at("/argSchema", "argSchema", f"'{name}' is also the name of a secret.", _SHARED) for name in both]
    try:
        runners.draft(body, name)
        if body.http is None:
            compile_schema(body.arg_schema)
    except InvalidTool as exc:
        wrong += _reasons(body, exc)
    if wrong:
        raise together(wrong)


def _reasons(body: ToolBody, found: InvalidTool) -> list[InvalidRequest]:
    """Everything by which a tool cannot work: its schemas, else the parts of its request, else what was found."""
    schemas = {"argSchema": body.arg_schema, "outputSchema": body.output_schema}
    wrong = [_schema_fault(given, field) for field, given in schemas.items() if given is not None]
    if any(wrong):
        return [one for one in wrong if one is not None]
    parts = [("", found)]
    if body.http is not None:
        from onetool_ipy.bundles.http.probe import wrong_parts

        parts = list(wrong_parts(body.http, {param.name for param in schema.params(body.arg_schema)})) or parts
    place = "/http" if body.http is not None else "/goTool"
    return [_at(place + part, body.type, exc.message, exc.hint) for part, exc in parts]


def _at(pointer: str, field: str, said: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {said}", hint=hint, details=[fault(pointer, said, hint)])


def _size(record: dict[str, Any]) -> int:
    try:
        return len(orjson.dumps(record))
    except TypeError:  # a number of more than 64 bits
        return len(json.dumps(record, ensure_ascii=False).encode())


def _schema_fault(given: dict[str, Any] | bool, field: str) -> InvalidRequest | None:
    try:
        compile_schema(given if isinstance(given, dict) else {"not": {}} if given is False else {})
    except InvalidTool as exc:
        return _at(f"/{field}", field, exc.message, exc.hint)
    return None
