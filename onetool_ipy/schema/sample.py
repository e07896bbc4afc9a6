"""Sample arguments made from a schema, for trying a tool: the least it takes, everything it names, and edge values.

Deterministic and small. Every sample fits the schema as far as its plain keywords say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.values import Json
from onetool_ipy.schema.check import compile_schema
from onetool_ipy.schema.pattern import text_for
from onetool_ipy.schema.read import params, resolve

_MAX_DEPTH = 5


def samples(parameters: Mapping[str, object]) -> Iterator[tuple[str, Json]]:
    """Named argument sets: `required only`, `every argument`, `edge values`."""
    arguments = params(parameters)
    least = {p.name: _value(p.schema, parameters, 0) for p in arguments if p.required}
    yield "required only", least
    full = {p.name: _value(p.schema, parameters, 0) for p in arguments}
    if full != least:
        yield "every argument", full
    edges = {p.name: _edge(p.schema, parameters) for p in arguments}
    if edges != full:
        yield "edge values", edges


def _value(node: object, root: Mapping[str, object], depth: int) -> Any:
    schema = resolve(node, root)
    if depth > _MAX_DEPTH:
        return None
    for key in ("default", "const"):
        if key in schema and (key == "const" or schema[key] is not None):
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _value(schema[key][0], root, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "string":
        return _text(schema)
    if kind in ("integer", "number"):
        return _number(schema, int if kind == "integer" else float)
    if kind == "array":
        count = max(1, int(schema.get("minItems", 1)))
        return [_value(schema.get("items", {}), root, depth + 1) for _ in range(min(count, 20))]
    if kind == "object" or "properties" in schema:
        inner = schema.get("properties") or {}
        return {name: _value(inner.get(name, {}), root, depth + 1) for name in schema.get("required") or list(inner)}
    return {"boolean": True, "null": None}.get(str(kind), "text")


def _number(schema: Json, kind: type[float]) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    number: float = 1 if low is None else low + (1 if "exclusiveMinimum" in schema else 0)
    if high is not None and number > high:
        number = high - (1 if "exclusiveMaximum" in schema else 0)
    return kind(number)


def _text(schema: Json) -> str:
    examples = {
        "date-time": "2024-01-31T12:00:00Z",
        "date": "2024-01-31",
        "time": "12:00:00",
        "email": "a@example.org",
        "uri": "https://example.org/",
        "uuid": "018f2b5e-0000-7000-8000-000000000000",
        "path": ".",
    }
    text = examples.get(str(schema.get("format")), "text")
    least = int(schema.get("minLength", 0))
    if isinstance(schema.get("pattern"), str):
        usual = (text, "", "1", *examples.values())
        longer = (text_for(schema["pattern"], more=more) for more in (0, 1, 3, 8, 20, least))
        keywords = ("pattern", "minLength", "maxLength")
        with suppress(InvalidTool):
            validator = compile_schema({key: value for key, value in schema.items() if key in keywords})
            for choice in (*usual, *longer):
                if choice is not None and validator.is_valid(choice):
                    return choice
    return (text + "x" * least)[: schema.get("maxLength")] if len(text) < least else text[: schema.get("maxLength")]


def _edge(node: object, root: Mapping[str, object]) -> Any:
    """An unusual but valid value: empty text, zero, an empty list."""
    schema = resolve(node, root)
    if any(key in schema for key in ("enum", "const", "anyOf", "oneOf", "allOf", "pattern", "format")):
        options = schema.get("enum")
        return options[-1] if isinstance(options, list) and options else _value(schema, root, 0)
    kind = schema.get("type")
    if kind == "string" and not schema.get("minLength"):
        return ""
    if kind == "array" and not schema.get("minItems"):
        return []
    if kind == "boolean":
        return False
    if kind in ("integer", "number") and not {"minimum", "exclusiveMinimum"} & set(schema):
        return 0
    return _value(schema, root, 0)
