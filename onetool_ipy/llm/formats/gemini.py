"""JSON Schema cut down to the subset that Gemini's `parameters` take. Pure.

What the subset cannot say is loosened, never tightened, and where it helps said in the description: the executor
checks the real schema anyway. `$ref` is written out; where it leads into itself, any object will do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onetool_ipy.llm.formats.plain import resolved

__all__ = ["subset"]

_DEEPEST = 12
_MOST_SCHEMAS = 2000
_KINDS = ("string", "number", "integer", "boolean", "array", "object")
_TEXT = ("title", "description", "pattern")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_FORMATS = {"string": ("date-time",), "number": ("float", "double"), "integer": ("int32", "int64")}
_MOST_LISTED = 20
_ANY: tuple[dict[str, Any], ...] = (
    *({"type": kind} for kind in ("string", "number", "boolean", "object")),
    {"type": "array", "items": {}},
)

Schema = Mapping[str, Any]


def subset(parameters: Schema) -> dict[str, Any]:
    """The schema of a tool's arguments as Gemini takes it: an object with properties."""
    tree = _Tree(parameters)
    made = _cut(_merged(parameters, tree, ()), tree, (), 0)
    out = {"type": "object", "properties": made.get("properties", {})}
    out |= {key: made[key] for key in ("description", "required") if key in made}
    for branch in made.get("anyOf", ()):  # a choice at the top is loosened to all that its branches name
        out["properties"] = {**branch.get("properties", {}), **out["properties"]}
    return out


class _Tree:
    """The document that is cut down, and how many more schemas may be written: `$ref`s can multiply without end."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.left = _MOST_SCHEMAS


def _cut(schema: Any, tree: _Tree, path: tuple[str, ...], depth: int) -> dict[str, Any]:
    tree.left -= 1
    if not isinstance(schema, Mapping) or depth > _DEEPEST or tree.left < 0:
        return {}
    path = (*path, *_refs(schema))
    schema = _merged(schema, tree, path)
    kinds, nullable = _kinds(schema)
    out: dict[str, Any] = {key: schema[key] for key in _TEXT if isinstance(schema.get(key), str)}
    if nullable:
        out["nullable"] = True
    if schema.get("default") is not None:
        out["default"] = schema["default"]
    options = [_cut(option, tree, path, depth + 1) for option in _options(schema)]
    if options:
        out |= _one_of(options)
    elif len(kinds) == 1:
        out |= _of_kind(kinds[0], schema, tree, path, depth)
    elif kinds:
        out["anyOf"] = [_of_kind(kind, schema, tree, path, depth) for kind in kinds]
    if options and len(kinds) == 1 and "anyOf" not in out:
        out.setdefault("type", kinds[0])
    if options and kinds == ["object"] and "properties" in schema:
        out |= _members(schema, tree, path, depth)
    return _noted(out, schema)


def _of_kind(kind: str, schema: Schema, tree: _Tree, path: tuple[str, ...], depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {"type": kind}
    if schema.get("format") in _FORMATS.get(kind, ()):
        out["format"] = schema["format"]
    if kind == "string":
        words = [word for word in _values(schema) if isinstance(word, str) and word]
        if words and len(words) == len(_values(schema)):
            out["enum"] = list(dict.fromkeys(words))
    out |= {key: schema[key] for key in _COUNTS if isinstance(schema.get(key), int) and kind in _owner(key)}
    if kind in ("number", "integer"):
        out |= _bounds(schema)
    if kind == "array":
        out["items"] = _items(schema, tree, path, depth)
    if kind == "object":
        out |= _members(schema, tree, path, depth)
    return out


def _members(schema: Schema, tree: _Tree, path: tuple[str, ...], depth: int) -> dict[str, Any]:
    """The properties of an object; Gemini wants every required one to be there."""
    named = schema.get("properties")
    if not isinstance(named, Mapping):
        return {}
    properties = {n: _typed(_cut(part, tree, path, depth + 1)) for n, part in named.items() if part is not False}
    needed = schema.get("required")
    required = [name for name in needed if name in properties] if isinstance(needed, list) else []
    out: dict[str, Any] = {"properties": properties} if properties else {}
    return {**out, "required": required} if required else out


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """Gemini wants a type for every property: one that may be anything names them all."""
    return schema if "type" in schema or "anyOf" in schema else {**schema, "anyOf": [dict(one) for one in _ANY]}


def _items(schema: Schema, tree: _Tree, path: tuple[str, ...], depth: int) -> dict[str, Any]:
    """What an array holds; of a tuple, whatever one of its places may hold."""
    given = schema.get("items")
    places = schema.get("prefixItems") if "prefixItems" in schema else given
    if isinstance(places, list):
        found = [_cut(place, tree, path, depth + 1) for place in places]
        distinct = [one for i, one in enumerate(found) if one not in found[:i]]
        return _one_of(distinct) if distinct and {} not in distinct else {}
    return _cut(given, tree, path, depth + 1)


def _one_of(options: list[dict[str, Any]]) -> dict[str, Any]:
    """A choice; one that leaves just one way open is that way."""
    return dict(options[0]) if len(options) == 1 else {"anyOf": options}


def _options(schema: Schema) -> list[Any]:
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return [option for option in schema[key] if not _is_null(option)]
    return []


def _is_null(option: Any) -> bool:
    return isinstance(option, Mapping) and option.get("type") == "null"


def _kinds(schema: Schema) -> tuple[list[str], bool]:
    """The types that a schema allows, and whether null is one."""
    given = schema.get("type")
    listed = given if isinstance(given, list) else [given]
    choices = [option for key in ("anyOf", "oneOf") for option in (schema.get(key) or ())]
    nullable = "null" in listed or any(_is_null(option) for option in choices) or schema.get("nullable") is True
    kinds = [kind for kind in listed if kind in _KINDS]
    return kinds or _implied(schema), nullable


def _implied(schema: Schema) -> list[str]:
    """The types of a schema that names none, by what else it says."""
    if said := [value for value in _values(schema) if value is not None]:
        return list(dict.fromkeys(_kind_of(value) for value in said))
    if isinstance(schema.get("properties"), Mapping):
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, types in (("integer", int), ("number", float), ("string", str), ("array", list)):
        if isinstance(value, types):
            return kind
    return "object"


def _values(schema: Schema) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else []


def _bounds(schema: Schema) -> dict[str, Any]:
    """Inclusive bounds; an exclusive one is loosened to it."""
    out: dict[str, Any] = {}
    for key, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        for name in (exclusive, key):
            if _is_number(schema.get(name)):
                out[key] = schema[name]
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _owner(key: str) -> tuple[str, ...]:
    return {"Items": ("array",), "Length": ("string",), "Properties": ("object",)}[key[3:]]


def _noted(out: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Say in words which values there are, where the subset has no way to."""
    said = _values(schema)
    if not said or "enum" in out or "anyOf" in out:
        return out
    shown = ", ".join(json.dumps(value, ensure_ascii=False, default=str) for value in said[:_MOST_LISTED])
    note = f"One of: {shown}{', ...' if len(said) > _MOST_LISTED else ''}."
    return {**out, "description": f"{out['description']} {note}" if out.get("description") else note}


def _refs(schema: Schema) -> tuple[str, ...]:
    return (schema["$ref"],) if isinstance(schema.get("$ref"), str) else ()


def _merged(schema: Schema, tree: _Tree, path: tuple[str, ...]) -> dict[str, Any]:
    """A schema with its `$ref` and `allOf` written into it; its own words win."""
    out = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    ref = schema.get("$ref")
    parts = list(schema["allOf"]) if isinstance(schema.get("allOf"), list) else []
    if isinstance(ref, str) and path.count(ref) <= 1:
        parts.insert(0, resolved(ref, tree.root))
    elif isinstance(ref, str):
        parts.append({"type": "object"})
    for part in parts:
        if isinstance(part, Mapping):
            out = _joined(out, _merged(part, tree, (*path, *_refs(part))) if len(path) <= _DEEPEST else {})
    return out


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    out = {**second, **first}
    if isinstance(first.get("properties"), Mapping) and isinstance(second.get("properties"), Mapping):
        out["properties"] = {**second["properties"], **first["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        out["required"] = [*first["required"], *(n for n in second["required"] if n not in first["required"])]
    return out
