"""Sample arguments made from a schema, for trying a tool: the least it takes, everything it names, and edge values.

Deterministic and small. Every sample fits the schema as far as its plain keywords say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.schema.check import compile_schema
from onetool_ipy.schema.pattern import text_for
from onetool_ipy.schema.read import params, resolve

__all__ = ["samples"]

_MAX_DEPTH = 5


def samples(parameters: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Named argument sets: `required only`, `every argument`, `edge values`."""
    known = params(parameters)
    least = {p.name: _value(p.schema, parameters, 0) for p in known if p.required}
    yield "required only", least
    full = {p.name: _value(p.schema, parameters, 0) for p in known}
    if full != least:
        yield "every argument", full
    edges = {p.name: _edge(p.schema, parameters) for p in known}
    if edges != full:
        yield "edge values", edges


def _value(node: Any, root: Mapping[str, Any], depth: int) -> Any:
    found = resolve(node, root)
    if depth > _MAX_DEPTH:
        return None
    for key in ("default", "const"):
        if key in found and (key == "const" or found[key] is not None):
            return found[key]
    for key in ("examples", "enum"):
        if isinstance(found.get(key), list) and found[key]:
            return found[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(found.get(key), list) and found[key]:
            return _value(found[key][0], root, depth + 1)
    kind = found.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return _of_kind(kind, found, root, depth)


def _of_kind(kind: Any, found: dict[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if kind == "string":
        return _text(found)
    if kind in ("integer", "number"):
        return _number(found, int if kind == "integer" else float)
    if kind == "boolean":
        return True
    if kind == "array":
        count = max(1, int(found.get("minItems", 1)))
        return [_value(found.get("items", {}), root, depth + 1) for _ in range(min(count, 20))]
    if kind == "object" or "properties" in found:
        names = found.get("required") or list(found.get("properties") or {})
        inner = found.get("properties") or {}
        return {name: _value(inner.get(name, {}), root, depth + 1) for name in names}
    return None if kind == "null" else "text"


def _text(found: dict[str, Any]) -> str:
    known = {
        "date-time": "2024-01-31T12:00:00Z",
        "date": "2024-01-31",
        "time": "12:00:00",
        "email": "a@example.org",
        "uri": "https://example.org/",
        "uuid": "018f2b5e-0000-7000-8000-000000000000",
        "path": ".",
    }
    text = known.get(str(found.get("format")), "text")
    least = int(found.get("minLength", 0))
    if isinstance(found.get("pattern"), str):
        matching = _matching(found, [text, "", "1", *known.values()])
        if matching is not None:
            return matching
    return (text + "x" * least)[: found.get("maxLength")] if len(text) < least else text[: found.get("maxLength")]


def _matching(found: dict[str, Any], usual: list[str]) -> str | None:
    """A text that fits the pattern and the lengths of a schema: a usual one if it does; None if none is found."""
    try:
        kept = ("pattern", "minLength", "maxLength")
        validator = compile_schema({key: value for key, value in found.items() if key in kept})
    except InvalidTool:
        return None
    longer = (text_for(found["pattern"], more=more) for more in (0, 1, 3, 8, 20, int(found.get("minLength", 0))))
    return next((text for text in (*usual, *longer) if text is not None and validator.is_valid(text)), None)


def _number(found: dict[str, Any], kind: type) -> Any:
    low = found.get("minimum", found.get("exclusiveMinimum"))
    high = found.get("maximum", found.get("exclusiveMaximum"))
    value = 1 if low is None else low + (1 if "exclusiveMinimum" in found else 0)
    if high is not None and value > high:
        value = high - (1 if "exclusiveMaximum" in found else 0)
    return kind(value)


def _edge(node: Any, root: Mapping[str, Any]) -> Any:
    """An unusual but valid value: empty text, zero, an empty list."""
    found = resolve(node, root)
    if any(key in found for key in ("enum", "const", "anyOf", "oneOf", "allOf", "pattern", "format")):
        options = found.get("enum")
        return options[-1] if isinstance(options, list) and options else _value(found, root, 0)
    kind = found.get("type")
    if kind == "string" and not found.get("minLength"):
        return ""
    if kind == "array" and not found.get("minItems"):
        return []
    if kind == "boolean":
        return False
    if kind in ("integer", "number") and not {"minimum", "exclusiveMinimum"} & set(found):
        return 0
    return _value(found, root, 0)
