"""What a JSON Schema expects at a place: the types it takes, its choices, its arguments in order.

Owns the reading of a schema for the sake of reading a value; `core.schema` owns checking. Follows
references inside the schema only, runs no pattern, survives loops and nonsense: where a schema is
silent, broken or contradicts itself, anything may stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from onetool_ipy.core.once import once
from onetool_ipy.core.schema import resolve

__all__ = ["Expected", "kind_of"]

_ALL = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_NOTHING: frozenset[str] = frozenset()
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_MAX_DEPTH = 50
_MAX_PARTS = 500


@dataclass(frozen=True)
class Expected:
    """One place of a schema. `root` is the whole schema, for references."""

    schema: Any
    root: Any

    @classmethod
    def of(cls, schema: Any) -> Expected:
        """Take a whole schema, whose references point into itself."""
        return cls(schema, schema)

    @once
    def kinds(self) -> frozenset[str]:
        """The JSON types that may stand here; where numbers may, integers may."""
        return _kinds(self.schema, self.root, {}, 0) or _ALL

    @property
    def takes_text(self) -> bool:
        """Whether text may stand here."""
        return "string" in self.kinds

    @once
    def choices(self) -> list[Any]:
        """The values of `enum` and `const`, of all alternatives."""
        found: list[Any] = []
        for part in self._all_parts:
            found += _listed(part, "enum")
            found += [part["const"]] if "const" in part else []
        return found

    @once
    def required(self) -> tuple[str, ...]:
        """The arguments that must be given, in the schema's order."""
        parts = self._parts(("allOf",))
        wanted = [name for part in parts for name in _listed(part, "required")]
        wanted = list(dict.fromkeys(name for name in wanted if isinstance(name, str)))
        known = [name for name in self._properties if name in wanted and "default" not in self._resolved(name)]
        return (*known, *(name for name in wanted if name not in self._properties))

    def _resolved(self, name: str) -> dict[str, Any]:
        return resolve(self._properties[name], self.root if isinstance(self.root, dict) else {})

    @once
    def names(self) -> tuple[str, ...]:
        """The arguments there are: required ones first, then the others in the schema's order."""
        return tuple(dict.fromkeys((*self.required, *self._properties)))

    def at(self, name: str) -> Expected:
        """Give the place of one argument or key."""
        if name in self._properties:
            return Expected(self._properties[name], self.root)
        more = (part.get("additionalProperties") for part in self._all_parts)
        return Expected(next((schema for schema in more if isinstance(schema, dict)), {}), self.root)

    def items(self) -> Expected:
        """Give the place of an item of a list."""
        more = (part.get("items") for part in self._all_parts)
        return Expected(next((schema for schema in more if isinstance(schema, dict)), {}), self.root)

    @once
    def _all_parts(self) -> list[dict[str, Any]]:
        return list(self._parts(_ALTERNATIVES))

    @once
    def _properties(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in self._all_parts:
            properties = part.get("properties")
            if isinstance(properties, dict):
                found |= {name: each for name, each in properties.items() if name not in found}
        return found

    def _parts(self, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """Walk the schema, what it refers to, and what it lists under `keys`; each part once."""
        waiting, seen = [self.schema], set[int]()
        for part in waiting:
            if not isinstance(part, dict) or id(part) in seen or len(seen) == _MAX_PARTS:
                continue
            seen.add(id(part))
            yield part
            if isinstance(part.get("$ref"), str):
                waiting.append(_resolve(part["$ref"], self.root))
            for key in keys:
                waiting += _listed(part, key)


def kind_of(value: Any) -> str:
    """Give the JSON type of a value; empty for what JSON does not have."""
    if value is None:
        return "null"
    return "object" if isinstance(value, dict) else _KINDS.get(type(value), "")


def _kinds(schema: Any, root: Any, seen: dict[str, frozenset[str]], depth: int) -> frozenset[str]:
    if schema is False:
        return _NOTHING
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return _ALL
    found = _ALL
    if isinstance(ref := schema.get("$ref"), str):
        if ref not in seen:
            seen[ref] = _NOTHING  # a loop adds nothing
            seen[ref] = _kinds(_resolve(ref, root), root, seen, depth + 1)
        found &= seen[ref]
    if "type" in schema:
        types = {kind for kind in _listed(schema, "type") if isinstance(kind, str)}
        types = {schema["type"]} if isinstance(schema["type"], str) else types
        found &= types | {"integer"} if "number" in types else types
    if isinstance(schema.get("enum"), list):
        found &= {kind_of(value) for value in schema["enum"]}
    if "const" in schema:
        found &= {kind_of(schema["const"])}
    for key in ("anyOf", "oneOf"):
        if options := _listed(schema, key):
            each = (_kinds(option, root, seen, depth + 1) for option in options)
            found &= _NOTHING.union(*each)
    for option in _listed(schema, "allOf"):
        found &= _kinds(option, root, seen, depth + 1)
    return found


def _listed(part: dict[str, Any], key: str) -> list[Any]:
    found = part.get(key)
    return found if isinstance(found, list) else []


def _resolve(ref: str, root: Any) -> Any:
    """Follow a reference inside the schema; anything may stand where it leads nowhere."""
    if ref != "#" and not ref.startswith("#/"):
        return {}
    place = root
    for step in ref.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and key in place:
            place = place[key]
        elif isinstance(place, list) and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        else:
            return {}
    return place
