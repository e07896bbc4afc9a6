"""JSON Schemas as OpenAI, Ollama and Anthropic accept them. Pure; the schema given is never changed.

They take JSON Schema 2020-12, but at the top an object with `properties` and no choices, every array with `items`, and
no tuples of draft-07. A choice at the top is loosened to the properties of all its branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["function", "object_schema", "resolved"]

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
    for names, needed in _branches(parameters, parameters, set()):
        properties |= {name: schema for name, schema in names.items() if name not in properties}
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
    names, needed = schema.get("properties"), schema.get("required")
    found: list[_Side] = [(names if isinstance(names, Mapping) else {}, needed if isinstance(needed, Sequence) else ())]
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
