"""Short signs of a tool as it is, to tell whether what was kept of it still holds. Pure.

`of_schema` changes with what a tool takes and gives, and with its version; `of_code` also with what it does, as far as
its own code tells: not with the functions that it calls.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.model import ToolSpec

__all__ = ["of_code", "of_schema"]

_DEEP = 4


def of_schema(spec: ToolSpec) -> str:
    """The sign of what a tool takes and gives."""
    return _sign([spec.parameters, spec.output_schema, _definition(spec.run, "version")])


def of_code(spec: ToolSpec) -> str:
    """The sign of a tool with its name and its code."""
    definition = [_definition(spec.run, field) for field in ("version", "tool_id")]
    return _sign([spec.name, spec.parameters, definition, _code_of(spec.run, 0)])


def _sign(parts: list[Any]) -> str:
    text = json.dumps(values.to_json(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _definition(run: Any, field: str) -> str:
    """A field of the record that a tool is made from, where it is made from one: a tool of a bundle."""
    records = run.args if isinstance(run, partial) else ()
    return next((str(getattr(record, field)) for record in records if hasattr(record, field)), "")


def _code_of(fn: Any, depth: int) -> list[Any]:
    """The code of a Python function and of those that it holds; nothing for what has none, nor for our own."""
    code = getattr(fn, "__code__", None)
    if code is None or depth > _DEEP:
        return []
    own = [] if str(getattr(fn, "__module__", "")).startswith("onetool_ipy.") else _code(code)
    inner = [cell.cell_contents for cell in getattr(fn, "__closure__", None) or () if _is_full(cell)]
    return [own, *(_code_of(part, depth + 1) for part in inner if callable(part))]


def _code(code: Any) -> list[Any]:
    consts = [_code(const) if hasattr(const, "co_code") else _const(const) for const in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), consts]


def _const(value: Any) -> str:
    """A constant as text; the order of a set differs from process to process."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _is_full(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
