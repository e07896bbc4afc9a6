"""Fingerprints of a tool: short hashes that stay the same in every process as long as the tool is the same.

`fingerprint` covers everything that a tool is; a source may say what that is by `ToolSpec.identity`. Code of this
package is left out: it changes with the version, and the user installed it. `schema_hash` covers what a tool
takes and gives, `code_hash` also its own code, but not the functions that it calls.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values

if TYPE_CHECKING:
    from onetool_ipy.core.tool import ToolSpec

__all__ = ["code_hash", "code_of", "fingerprint", "schema_hash"]

_DEEP = 8

_PLAIN = (str, bytes, int, float, type(None))


def fingerprint(spec: ToolSpec) -> str:
    """Hash all that a tool is."""
    own = spec.identity() if spec.identity is not None else _described(spec)
    text = json.dumps(values.to_json([spec.name, spec.origin, spec.server, own]), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _described(spec: ToolSpec) -> list[Any]:
    return [spec.description, spec.parameters, spec.read_only, code_of(spec.run)]


def code_of(fn: Any, depth: int = 0) -> list[Any]:
    """The code of a function and of the functions that it holds; empty for one without Python code."""
    if depth > _DEEP:
        return []
    if isinstance(fn, partial):
        given = [*fn.args, *(part for pair in sorted(fn.keywords.items()) for part in pair)]
        return [code_of(fn.func, depth + 1), [repr(one) for one in given if isinstance(one, _PLAIN)]]
    code = getattr(fn, "__code__", None)
    if code is None:
        own: Any = type(fn).__call__ if callable(fn) else None
        return code_of(own, depth + 1) if hasattr(own, "__code__") else []
    mine = [] if str(getattr(fn, "__module__", "")).startswith("onetool_ipy.") else _code(code)
    inner = [cell.cell_contents for cell in getattr(fn, "__closure__", None) or () if _is_full(cell)]
    return [mine, *(code_of(part, depth + 1) for part in inner if callable(part))]


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


def schema_hash(spec: ToolSpec) -> str:
    """Hash what a tool takes and gives, and the version of its record."""
    return _hash([spec.parameters, spec.output_schema, spec.record[0]])


def code_hash(spec: ToolSpec) -> str:
    """Hash a tool with its name, its record and its own code."""
    return _hash([spec.name, spec.parameters, list(spec.record), code_of(spec.run)])


def _hash(parts: list[Any]) -> str:
    text = json.dumps(values.to_json(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
