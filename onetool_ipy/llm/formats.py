"""JSON Schemas as OpenAI, Ollama and Anthropic accept them. Pure; the schema given is never changed.

They take JSON Schema 2020-12, but at the top an object with `properties` and no choices, every array with `items`, and
no tuples of draft-07. A choice at the top is loosened to the properties of all its branches.

JSON Schema cut down to the subset that Gemini's `parameters` take. Pure.

What the subset cannot say is loosened, never tightened, and where it helps said in the description: the executor
checks the real schema anyway. `$ref` is written out; where it leads into itself, any object will do.

Tools in the words of each provider: `declare("openai", offers)`. Pure.

An `Offer` is a tool as one model sees it: under its wire name, which depends on all registered tools. Nothing here
checks arguments: a schema that is cut down for a provider may let more through than the tool, and the executor says no.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onetool_ipy.base.errors import UnknownProvider
from onetool_ipy.base.records import Value
from onetool_ipy.core import names
from onetool_ipy.core.tool import ToolSpec

__all__ = ["PROVIDERS", "OfferedTool", "declare", "function", "object_schema", "offers", "resolved", "subset"]

_MAX_DESCRIPTION = 1024
_DEEPEST = 100
_MOST_BRANCHES = 200
_CHOICES = ("anyOf", "oneOf", "allOf")
_NOT_AT_TOP = (*_CHOICES, "enum", "const", "not", "if", "then", "else", "$ref", "$schema", "$id", "id")
_OF_ONE = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_OF_MANY = ("prefixItems", *_CHOICES)
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def function(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A function as OpenAI writes it; it refuses a description of more than 1024 characters."""
    if len(description) > _MAX_DESCRIPTION:
        description = description[: _MAX_DESCRIPTION - 3] + "..."
    return {"name": name, "description": description, "parameters": object_schema(parameters)}


def object_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, with an object at its top and nothing that providers refuse there."""
    out = {key: value for key, value in parameters.items() if key not in _NOT_AT_TOP}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for named, needed in _branches(parameters, parameters, set()):
        properties |= {name: schema for name, schema in named.items() if name not in properties}
        required += [name for name in needed if name not in required]
    out |= {"type": "object", "properties": properties}
    out.pop("required", None)
    if required:
        out["required"] = required
    mended: dict[str, Any] = _mended(out, 0)
    return mended


def resolved(ref: Any, root: Mapping[str, Any]) -> Any:
    """What a `$ref` within a document stands for, or None."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    found: Any = root
    for step in ref[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, Sequence) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


_Side = tuple[Mapping[str, Any], Sequence[str]]


def _branches(schema: Any, root: Mapping[str, Any], seen: set[int]) -> list[_Side]:
    """The properties that a schema and its choices name, and those that are needed whichever way is chosen."""
    if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > _MOST_BRANCHES:
        return []
    seen.add(id(schema))
    named, needed = schema.get("properties"), schema.get("required")
    found: list[_Side] = [(named if isinstance(named, Mapping) else {}, needed if isinstance(needed, Sequence) else ())]
    if "$ref" in schema:
        found += _branches(resolved(schema["$ref"], root), root, seen)
    for part in _listed(schema.get("allOf")):
        found += _branches(part, root, seen)
    for key in ("anyOf", "oneOf"):
        sides = [_branches(part, root, seen) for part in _listed(schema.get(key))]
        for side in sides:
            found += [(named, ()) for named, _ in side]
        always = [{name for _, needs in side for name in needs} for side in sides]
        if always:
            found.append(({}, sorted(set.intersection(*always))))
    return found


def _mended(schema: Any, depth: int) -> Any:
    """A schema and all within it, arrays with their items; what lies too deep to matter may be anything."""
    if not isinstance(schema, Mapping):
        return schema
    if depth > _DEEPEST:
        return {}
    out = dict(schema)
    if isinstance(out.get("items"), list):
        out["prefixItems"] = out.pop("items")
        if "additionalItems" in out:
            out["items"] = out.pop("additionalItems")
    kinds = out.get("type")
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        out.setdefault("items", {})
    for key in _OF_ONE:
        if key in out:
            out[key] = _mended(out[key], depth + 1)
    for key in _OF_MANY:
        if key in out:
            out[key] = [_mended(part, depth + 1) for part in _listed(out[key])]
    for key in _BY_NAME:
        if isinstance(out.get(key), Mapping):
            known = {name: {} if part is True else part for name, part in out[key].items() if part is not False}
            out[key] = {name: _mended(part, depth + 1) for name, part in known.items()}
    return out


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


_DEEPEST_GEMINI = 12
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
    if not isinstance(schema, Mapping) or depth > _DEEPEST_GEMINI or tree.left < 0:
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
            out = _joined(out, _merged(part, tree, (*path, *_refs(part))) if len(path) <= _DEEPEST_GEMINI else {})
    return out


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    out = {**second, **first}
    if isinstance(first.get("properties"), Mapping) and isinstance(second.get("properties"), Mapping):
        out["properties"] = {**second["properties"], **first["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        out["required"] = [*first["required"], *(n for n in second["required"] if n not in first["required"])]
    return out


class OfferedTool(Value):
    """One tool as a model is told of it. `name` is its wire name, `tool` its canonical one."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    tool: str


def offers(specs: Iterable[ToolSpec], *, among: Iterable[str] | None = None) -> list[OfferedTool]:
    """The tools as a model is told of them, in their order. `among` are the names of all registered tools."""
    known = list(specs)
    wire = names.wire_names([*(among or ()), *(spec.name for spec in known)])
    return [OfferedTool(wire[spec.name], spec.description, spec.parameters, spec.name) for spec in known]


def declare(provider: str, tools: Sequence[OfferedTool]) -> list[dict[str, Any]]:
    """The tools in a provider's format. Raises UnknownProvider."""
    write = _FORMATS_FORMATS.get(provider) if isinstance(provider, str) else None
    if write is None:
        raise UnknownProvider(
            f"The provider {provider!r} is not supported.", hint=f"Supported: {', '.join(sorted(_FORMATS_FORMATS))}."
        )
    return [write(tool) for tool in tools]


def _openai(tool: OfferedTool) -> dict[str, Any]:
    return {"type": "function", "function": function(tool.name, tool.description, tool.parameters)}


def _anthropic(tool: OfferedTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": object_schema(tool.parameters),
    }


def _gemini(tool: OfferedTool) -> dict[str, Any]:
    return {
        "functionDeclarations": [
            {"name": tool.name, "description": tool.description, "parameters": subset(tool.parameters)}
        ]
    }


_FORMATS_FORMATS: Mapping[str, Callable[[OfferedTool], dict[str, Any]]] = {
    "openai": _openai,
    "ollama": _openai,
    "gemini": _gemini,
    "anthropic": _anthropic,
}

PROVIDERS = tuple(_FORMATS_FORMATS)
