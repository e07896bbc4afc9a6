"""Tools in the format of each provider: `declare("openai", tools)`. Pure; a tool's schema is never
changed.

OpenAI, Ollama and Anthropic take JSON Schema with an object at the top, no choices there, and
`items` in every array (`object_schema`). Gemini takes a subset (`subset`). What a format cannot say
is loosened, never tightened, and where it helps said in the description: the executor checks
arguments against the tool's own schema anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onetool_ipy.base.errors import UnknownProvider
from onetool_ipy.core import names
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.messages import OfferedTool
from onetool_ipy.schema.read import resolve

PROVIDERS = ("openai", "ollama", "gemini", "anthropic")

_MAX_DESCRIPTION = 1024
_MAX_DEPTH = 100
_MAX_BRANCHES = 200
_CHOICES = ("anyOf", "oneOf", "allOf")
_NOT_AT_TOP = (
    *_CHOICES,
    "enum",
    "const",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$schema",
    "$id",
    "id",
)
_OF_ONE = (
    "items",
    "additionalProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
)
_OF_MANY = ("prefixItems", *_CHOICES)
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_MAX_GEMINI_DEPTH = 12
_MAX_SCHEMAS = 2000
_KINDS = ("string", "number", "integer", "boolean", "array", "object")
_VALUE_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
_TEXT = ("title", "description", "pattern")
_COUNTS = {
    "array": ("minItems", "maxItems"),
    "string": ("minLength", "maxLength"),
    "object": ("minProperties", "maxProperties"),
}
_NUMBER_FORMATS = {
    "string": ("date-time",),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_MAX_LISTED = 20
_ANY: tuple[dict[str, Any], ...] = (
    *({"type": kind} for kind in ("string", "number", "boolean", "object")),
    {"type": "array", "items": {}},
)

Schema = Mapping[str, Any]


def object_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's arguments as an object schema without anything that providers refuse at the
    top."""
    out = {key: value for key, value in parameters.items() if key not in _NOT_AT_TOP}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for branch, required_there in _branches(parameters, _Document(parameters, _MAX_BRANCHES), ()):
        properties |= {name: schema for name, schema in branch.items() if name not in properties}
        required += [name for name in required_there if name not in required]
    out |= {"type": "object", "properties": properties}
    out.pop("required", None)
    if required:
        out["required"] = required
    repaired: dict[str, Any] = _repaired(out, 0)
    return repaired


class _Document:
    """The schema document, and how many more schemas may be visited: `$ref`s can multiply without
    end."""

    def __init__(self, root: Schema, limit: int) -> None:
        self.root = root
        self.left = limit


_Branch = tuple[Schema, Sequence[str]]
"""Properties by name, and the required ones."""


def _branches(schema: object, document: _Document, refs: tuple[str, ...]) -> list[_Branch]:
    """Return the properties that a schema and its choices name, and those that every choice
    requires."""
    document.left -= 1
    if not isinstance(schema, Mapping) or document.left < 0:
        return []
    members, required = schema.get("properties"), schema.get("required")
    branches: list[_Branch] = [
        (
            members if isinstance(members, Mapping) else {},
            required if isinstance(required, Sequence) else (),
        )
    ]
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in refs:
        branches += _branches(resolve({"$ref": ref}, document.root), document, (*refs, ref))
    for part in _listed(schema.get("allOf")):
        branches += _branches(part, document, refs)
    for key in ("anyOf", "oneOf"):
        sides = [_branches(part, document, refs) for part in _listed(schema.get(key))]
        for side in sides:
            branches += [(members, ()) for members, _ in side]
        always = [{name for _, needs in side for name in needs} for side in sides]
        if always:
            branches.append(({}, sorted(set.intersection(*always))))
    return branches


def _repaired(schema: object, depth: int) -> Any:
    """Return a schema with `items` in all its arrays and no draft-07 tuples; what lies too deep may
    be anything."""
    if not isinstance(schema, Mapping):
        return schema
    if depth > _MAX_DEPTH:
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
            out[key] = _repaired(out[key], depth + 1)
    for key in _OF_MANY:
        if key in out:
            out[key] = [_repaired(part, depth + 1) for part in _listed(out[key])]
    for key in _BY_NAME:
        if isinstance(out.get(key), Mapping):
            parts = {
                name: {} if part is True else part
                for name, part in out[key].items()
                if part is not False
            }
            out[key] = {name: _repaired(part, depth + 1) for name, part in parts.items()}
    return out


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def subset(parameters: Schema) -> dict[str, Any]:
    """Return the schema of a tool's arguments in Gemini's subset: an object with properties."""
    tree = _Document(parameters, _MAX_SCHEMAS)
    reduced = _cut(_merged(parameters, tree, ()), tree, (), 0)
    out = {"type": "object", "properties": reduced.get("properties", {})}
    out |= {key: reduced[key] for key in ("description", "required") if key in reduced}
    # Gemini has no choice at the top, so all properties of its branches are there.
    for branch in reduced.get("anyOf", ()):
        out["properties"] = {**branch.get("properties", {}), **out["properties"]}
    return out


def _cut(schema: object, tree: _Document, path: tuple[str, ...], depth: int) -> dict[str, Any]:
    tree.left -= 1
    if not isinstance(schema, Mapping) or depth > _MAX_GEMINI_DEPTH or tree.left < 0:
        return {}
    path = (*path, *_refs(schema))
    schema = _merged(schema, tree, path)
    kinds, nullable = _kinds(schema)
    out: dict[str, Any] = {key: schema[key] for key in _TEXT if isinstance(schema.get(key), str)}
    if nullable:
        out["nullable"] = True
    if schema.get("default") is not None:
        out["default"] = schema["default"]
    choices: list[Any] = next(
        (schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)), []
    )
    options = [_cut(option, tree, path, depth + 1) for option in choices if not _is_null(option)]
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
    allowed = _values(schema)
    if allowed and "enum" not in out and "anyOf" not in out:
        # The subset cannot express these values, so the description lists them.
        examples = ", ".join(
            json.dumps(value, ensure_ascii=False, default=str) for value in allowed[:_MAX_LISTED]
        )
        note = f"One of: {examples}{', ...' if len(allowed) > _MAX_LISTED else ''}."
        out["description"] = f"{out['description']} {note}" if out.get("description") else note
    return out


def _of_kind(
    kind: str, schema: Schema, tree: _Document, path: tuple[str, ...], depth: int
) -> dict[str, Any]:
    out: dict[str, Any] = {"type": kind}
    if schema.get("format") in _NUMBER_FORMATS.get(kind, ()):
        out["format"] = schema["format"]
    if kind == "string":
        words = [word for word in _values(schema) if isinstance(word, str) and word]
        if words and len(words) == len(_values(schema)):
            out["enum"] = list(dict.fromkeys(words))
    out |= {key: schema[key] for key in _COUNTS.get(kind, ()) if isinstance(schema.get(key), int)}
    if kind in ("number", "integer"):
        # Only inclusive bounds are known, so an exclusive one is loosened.
        for name in ("exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum"):
            if type(schema.get(name)) in (int, float):
                out[name.removeprefix("exclusive").lower()] = schema[name]
    if kind == "array":
        places = schema.get("prefixItems") if "prefixItems" in schema else schema.get("items")
        if isinstance(places, list):
            # A tuple holds what any of its places may hold.
            choices = [_cut(place, tree, path, depth + 1) for place in places]
            distinct = [choice for i, choice in enumerate(choices) if choice not in choices[:i]]
            out["items"] = _one_of(distinct) if distinct and {} not in distinct else {}
        else:
            out["items"] = _cut(schema.get("items"), tree, path, depth + 1)
    if kind == "object":
        out |= _members(schema, tree, path, depth)
    return out


def _members(schema: Schema, tree: _Document, path: tuple[str, ...], depth: int) -> dict[str, Any]:
    """Return the properties of an object; Gemini refuses a required property that is not
    declared."""
    members = schema.get("properties")
    if not isinstance(members, Mapping):
        return {}
    properties: dict[str, Any] = {}
    for name, part in members.items():
        if part is not False:
            member = _cut(part, tree, path, depth + 1)
            # Gemini wants a type for every property, so one that may be anything names them all.
            is_typed = "type" in member or "anyOf" in member
            properties[name] = (
                member if is_typed else {**member, "anyOf": [dict(kind) for kind in _ANY]}
            )
    needs = schema.get("required")
    required = [name for name in needs if name in properties] if isinstance(needs, list) else []
    out: dict[str, Any] = {"properties": properties} if properties else {}
    return {**out, "required": required} if required else out


def _one_of(options: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a choice between options; a single option is itself."""
    return dict(options[0]) if len(options) == 1 else {"anyOf": options}


def _is_null(option: object) -> bool:
    return isinstance(option, Mapping) and option.get("type") == "null"


def _kinds(schema: Schema) -> tuple[list[str], bool]:
    """Return the types that a schema allows, and whether null is one of them."""
    declared_type = schema.get("type")
    types = declared_type if isinstance(declared_type, list) else [declared_type]
    choices = [option for key in ("anyOf", "oneOf") for option in (schema.get(key) or ())]
    nullable = (
        "null" in types
        or any(_is_null(option) for option in choices)
        or schema.get("nullable") is True
    )
    kinds = [kind for kind in types if kind in _KINDS]
    if not kinds:
        # A schema without `type` implies one by its values or its parts.
        allowed = [value for value in _values(schema) if value is not None]
        kinds = list(dict.fromkeys(_VALUE_KINDS.get(type(value), "object") for value in allowed))
        if not kinds and isinstance(schema.get("properties"), Mapping):
            kinds = ["object"]
        elif not kinds and ("items" in schema or "prefixItems" in schema):
            kinds = ["array"]
    return kinds, nullable


def _values(schema: Schema) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else []


def _refs(schema: Schema) -> tuple[str, ...]:
    return (schema["$ref"],) if isinstance(schema.get("$ref"), str) else ()


def _merged(schema: Schema, tree: _Document, path: tuple[str, ...]) -> dict[str, Any]:
    """Return a schema with its `$ref` and `allOf` merged in; its own keys win. A recursive `$ref`
    allows any object."""
    out = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    ref = schema.get("$ref")
    parts = list(schema["allOf"]) if isinstance(schema.get("allOf"), list) else []
    if isinstance(ref, str) and path.count(ref) <= 1:
        parts.insert(0, resolve({"$ref": ref}, tree.root))
    elif isinstance(ref, str):
        parts.append({"type": "object"})
    for part in parts:
        if isinstance(part, Mapping) and len(path) <= _MAX_GEMINI_DEPTH:
            first, second = out, _merged(part, tree, (*path, *_refs(part)))
            out = {**second, **first}
            if isinstance(first.get("properties"), Mapping) and isinstance(
                second.get("properties"), Mapping
            ):
                out["properties"] = {**second["properties"], **first["properties"]}
            if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
                out["required"] = [
                    *first["required"],
                    *(n for n in second["required"] if n not in first["required"]),
                ]
    return out


def offers(specs: Iterable[ToolSpec], *, among: Iterable[str] | None = None) -> list[OfferedTool]:
    """Return tools as they are offered to a model, in their order. `among` are the names of all
    registered tools."""
    listing = list(specs)
    wire = names.wire_names([*(among or ()), *(spec.name for spec in listing)])
    return [
        OfferedTool(wire[spec.name], spec.description, spec.parameters, spec.name)
        for spec in listing
    ]


def declare(provider: str, tools: Sequence[OfferedTool]) -> list[dict[str, Any]]:
    """Return tools in a provider's format. Raises UnknownProvider."""
    if provider not in PROVIDERS:
        raise UnknownProvider(
            f"The provider {provider!r} is not supported.",
            hint=f"Supported: {', '.join(sorted(PROVIDERS))}.",
        )
    return [_declaration(provider, tool) for tool in tools]


def _declaration(provider: str, tool: OfferedTool) -> dict[str, Any]:
    name, description = tool.name, tool.description
    if provider == "anthropic":
        return {
            "name": name,
            "description": description,
            "input_schema": object_schema(tool.parameters),
        }
    if provider == "gemini":
        function = {"name": name, "description": description, "parameters": subset(tool.parameters)}
        return {"functionDeclarations": [function]}
    # OpenAI refuses a longer description.
    if len(description) > _MAX_DESCRIPTION:
        description = description[: _MAX_DESCRIPTION - 3] + "..."
    function = {
        "name": name,
        "description": description,
        "parameters": object_schema(tool.parameters),
    }
    return {"type": "function", "function": function}
