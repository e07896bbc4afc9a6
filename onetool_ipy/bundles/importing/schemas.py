"""The schemas of an OpenAPI document -> JSON Schema 2020-12, with their references in `$defs`.

Each component is translated once per direction (requests leave out read-only properties, responses write-only ones), so
that a large document stays cheap and circular references stay circular.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.bundles.importing.document import ImportNotes, OpenApiDocument, as_dict, as_list
from onetool_ipy.schema.check import compile_schema

__all__ = ["Direction", "SchemaTranslator", "text_of"]

Direction = Literal["request", "response"]

_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_COUNTS = ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties")
_NUMBERS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf")
_PLAIN = ("const", "default", "uniqueItems", "deprecated", "contentEncoding", "contentMediaType")
_WORDS = ("title", "description", "format")
_UNTAKEN = ("$dynamicRef", "$dynamicAnchor", "$anchor", "$id", "unevaluatedProperties", "unevaluatedItems")
_INNER = frozenset((*_ONE, *_MANY, *_NAMED))
_RARE = frozenset((*_PLAIN, *_COUNTS, *_NUMBERS, *_UNTAKEN))
_MAX_DEPTH = 60
_MAX_DESCRIPTION = 2000
_MAX_EXAMPLE = 200
_MAX_OWN_TEXT = 60


class _Made(NamedTuple):
    schema: Any
    refs: frozenset[str]


class SchemaTranslator:
    """Translates the schemas of one document to JSON Schema."""

    def __init__(self, api: OpenApiDocument) -> None:
        self._api = api
        self._notes: ImportNotes = api.notes
        self._is_old = str(api.root.get("openapi", "")).startswith("3.0")
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._made: dict[tuple[str, Direction], _Made] = {}
        self._seen: dict[tuple[int, Direction], _Made] = {}
        self._sizes: dict[tuple[str, Direction], int] = {}
        self._patterns: dict[str, bool] = {}

    def translated(self, schema: Any, direction: Direction) -> tuple[Any, frozenset[str]]:
        """Translate a schema; returns it with its references, which `definitions` resolves."""
        key = (id(schema), direction)  # the document outlives this object, so an id means one schema
        if key not in self._seen:
            refs: set[str] = set()
            self._seen[key] = _Made(self._translate(schema, direction, refs, 0), frozenset(refs))
        return self._seen[key]

    def definitions(self, refs: frozenset[str], direction: Direction) -> dict[str, Any]:
        """The `$defs` for these references, and for the references inside of them."""
        return {self._name(ref): self._component(ref, direction).schema for ref in self._reach(refs, direction)}

    def size(self, schema: Any, refs: frozenset[str], direction: Direction) -> int:
        """The length of a schema with all its definitions, as JSON text."""
        total = len(text_of(schema))
        for ref in self._reach(refs, direction):
            key = (ref, direction)
            if key not in self._sizes:
                self._sizes[key] = len(text_of(self._component(ref, direction).schema))
            total += self._sizes[key]
        return total

    def shape(self, schema: Any) -> dict[str, Any]:
        """The schema behind its references, to look at its type and properties."""
        return self._api.follow(schema)

    def _reach(self, refs: frozenset[str], direction: Direction) -> list[str]:
        found: dict[str, None] = {}
        waiting = sorted(refs)
        while waiting:
            ref = waiting.pop()
            if ref not in found:
                found[ref] = None
                waiting += sorted(self._component(ref, direction).refs)
        return sorted(found)

    def _component(self, ref: str, direction: Direction) -> _Made:
        key = (ref, direction)
        if key not in self._made:
            refs: set[str] = set()
            self._made[key] = _Made(self._translate(self._api.at(ref), direction, refs, 0), frozenset(refs))
        return self._made[key]

    def _name(self, ref: str) -> str:
        if ref not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", ref.rpartition("/")[2]) or "part"
            name, count = plain, 2
            while name in self._taken:
                name, count = f"{plain}_{count}", count + 1
            self._names[ref] = name
            self._taken.add(name)
        return self._names[ref]

    def _translate(self, node: Any, direction: Direction, refs: set[str], depth: int) -> Any:
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
            if depth > _MAX_DEPTH:
                self._notes.add("a schema is nested too deep, and its inside is left out")
            return {}
        ref = node.get("$ref")
        if isinstance(ref, str):
            return self._reference(node, ref, refs)
        out = self._plain(node)

        def inner(sub: Any) -> Any:
            return self._translate(sub, direction, refs, depth + 1)

        self._nested(node, out, inner, direction)
        if self._is_old and (node.get("nullable") is True or node.get("x-nullable") is True):
            return _nullable(out)
        return out

    def _reference(self, node: Mapping[str, Any], ref: str, refs: set[str]) -> dict[str, Any]:
        if not ref.startswith("#/"):
            if ref == "#":
                self._notes.add("a schema refers to the whole document, and takes anything there")
            else:
                self._api.at(ref)  # notes that it is not fetched
            return {}
        if self._api.at(ref) is None:
            return {}
        refs.add(ref)
        out: dict[str, Any] = {"$ref": f"#/$defs/{self._name(ref)}"}
        if not self._is_old and isinstance(node.get("description"), str):
            out["description"] = node["description"][:_MAX_DESCRIPTION]
        return out

    def _plain(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords that hold no other schema."""
        out: dict[str, Any] = {}
        if (kind := _type(node.get("type"))) is not None:
            out["type"] = kind
        elif node.get("type") is not None:
            self._notes.add(f"the type {values.safe_repr(node['type'], 60)} does not exist, and is left out")
        if options := as_list(node.get("enum")):
            out["enum"] = list({json.dumps(option, sort_keys=True, default=str): option for option in options}.values())
        for key in _WORDS:
            if isinstance(node.get(key), str):
                out[key] = node[key][:_MAX_DESCRIPTION]
        if not node.keys().isdisjoint(_RARE):
            out |= {key: node[key] for key in _PLAIN if key in node and values.is_json(node[key])}
            out |= {key: node[key] for key in _COUNTS if _is_count(node.get(key))}
            out |= _numbers(node)
            for key in _UNTAKEN:
                if key in node:
                    self._notes.add(f"'{key}' in a schema is left out")
        if names := [name for name in as_list(node.get("required")) if isinstance(name, str)]:
            out["required"] = list(dict.fromkeys(names))
        pattern = node.get("pattern")
        if isinstance(pattern, str) and self._is_pattern(pattern):
            out["pattern"] = pattern
        return out | _example(node)

    def _nested(
        self, node: Mapping[str, Any], out: dict[str, Any], inner: Callable[[Any], Any], direction: Direction
    ) -> None:
        if node.keys().isdisjoint(_INNER):
            return
        for key in _ONE:
            if key in node and isinstance(node[key], (Mapping, bool)):
                out[key] = inner(node[key])
        for key in _MANY:
            if parts := as_list(node.get(key)):
                out[key] = [inner(part) for part in parts]
        for key in _NAMED:
            named = as_dict(node.get(key))
            if key == "patternProperties":
                named = {pattern: sub for pattern, sub in named.items() if self._is_pattern(pattern)}
            if named:
                out[key] = {str(name): inner(sub) for name, sub in named.items()}
        if "properties" in out:
            hidden = "readOnly" if direction == "request" else "writeOnly"
            gone = {str(name) for name, sub in as_dict(node["properties"]).items() if as_dict(sub).get(hidden) is True}
            if gone:
                out["properties"] = {name: sub for name, sub in out["properties"].items() if name not in gone}
                out["required"] = [name for name in out.get("required", ()) if name not in gone]
                if not out["required"]:
                    del out["required"]

    def _is_pattern(self, pattern: str) -> bool:
        if pattern not in self._patterns:
            try:
                compile_schema({"pattern": pattern})
                self._patterns[pattern] = True
            except InvalidTool:
                self._patterns[pattern] = False
                self._notes.add(f"the pattern '{pattern[:_MAX_OWN_TEXT]}' is not a regular expression, and is left out")
        return self._patterns[pattern]


def _example(node: Mapping[str, Any]) -> dict[str, Any]:
    example = node.get("example", next(iter(as_list(node.get("examples"))), None))
    if (
        example is None
        or "$ref" in as_dict(example)
        or not values.is_json(example)
        or len(json.dumps(example)) > _MAX_EXAMPLE
    ):
        return {}
    return {"examples": [example]}


def _type(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind if kind in _TYPES else None
    kinds = [one for one in as_list(kind) if isinstance(one, str) and one in _TYPES]
    return list(dict.fromkeys(kinds)) or None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def text_of(schema: Any) -> bytes:
    """A schema as JSON text."""
    import orjson

    try:
        return orjson.dumps(schema)
    except TypeError:  # a number of more than 64 bits, half a character, more levels than orjson goes
        return json.dumps(schema).encode()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and values.is_json(value)


def _numbers(node: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of numbers; in 3.0 `exclusiveMinimum: true` changes the meaning of `minimum`."""
    out = {key: node[key] for key in _NUMBERS if _is_number(node.get(key))}
    if out.get("multipleOf", 1) <= 0:
        del out["multipleOf"]
    for plain, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.get(strict) is True and plain in out:
            out[strict] = out.pop(plain)
    return out


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str):
        out = {**schema, "type": [kind, "null"]}
        if "enum" in out and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
        return out
    if isinstance(kind, list):
        return {**schema, "type": list(dict.fromkeys([*kind, "null"]))}
    if not any(key in schema for key in ("allOf", "anyOf", "oneOf", "enum", "not")):
        return schema
    words: dict[str, Any] = {key: schema.pop(key) for key in ("title", "description") if key in schema}
    return {**words, "anyOf": [schema, {"type": "null"}]}
