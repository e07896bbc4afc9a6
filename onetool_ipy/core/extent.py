"""How much a JSON Schema multiplies: how many schemas stand for one value at most. Pure.

`a2 = anyOf [a1, a1]`, `a1 = anyOf [a0, a0]`, ... is short to write and takes for ever to judge: each level doubles the
work, and no Stop reaches the validator meanwhile. Where a schema goes down into the value, the value is the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

__all__ = ["MOST", "extent"]

MOST = 20_000
"""More than any schema that a person means; judged in some milliseconds."""

_FEW = 12
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def extent(schema: Mapping[str, Any]) -> int:
    """The largest number of schemas that one value is judged by, where it may be many; counting ends beyond `MOST`."""
    if _refers_little(schema):
        return 1
    return _Count(schema, list(_nodes(schema))).largest()


def _refers_little(schema: Mapping[str, Any]) -> bool:
    """Whether there are so few references that it cannot be much more than what is written."""
    count = 0
    for node in _nodes(schema):
        count += "$ref" in node
        if count >= _FEW:
            return False
    return True


class _Count:
    """Counts each schema once, however often it is referred to."""

    def __init__(self, root: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> None:
        self._root = root
        self._nodes = nodes
        self._named = {f"#{node['$anchor']}": node for node in nodes if isinstance(node.get("$anchor"), str)}
        self._named |= {node["$id"]: node for node in nodes if isinstance(node.get("$id"), str)}
        self._known: dict[int, int] = {}

    def largest(self) -> int:
        try:
            return max(map(self._of, self._nodes), default=1)
        except RecursionError:  # a chain of references of that length is no schema that a person means
            return MOST + 1

    def _of(self, node: Mapping[str, Any]) -> int:
        known = self._known.get(id(node))
        if known is not None:
            return known
        self._known[id(node)] = 1  # while it is counted: one that leads back to itself is not followed twice
        total = 1
        for inner in self._same_value(node):
            total = min(MOST + 1, total + self._of(inner))
        self._known[id(node)] = total
        return total

    def _same_value(self, node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The schemas inside that judge the same value."""
        found: list[Any] = [node.get(key) for key in _SINGLE]
        for key in _LISTS:
            listed = node.get(key)
            found += listed if isinstance(listed, list) else ()
        dependent = node.get("dependentSchemas")
        found += dependent.values() if isinstance(dependent, Mapping) else ()
        found.append(self._referred(node.get("$ref")))
        return (inner for inner in found if isinstance(inner, Mapping))

    def _referred(self, ref: Any) -> Any:
        if not isinstance(ref, str):
            return None
        if ref in self._named:
            return self._named[ref]
        if not ref.startswith("#"):
            return None
        node: Any = self._root
        for part in ref[1:].split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(key)
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return node


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in it, schema or not, once: Python's own may hold itself."""
    waiting, seen = [schema], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            yield node
            waiting += [inner for inner in node.values() if isinstance(inner, (dict, list))]
        elif isinstance(node, list):
            waiting += [inner for inner in node if isinstance(inner, (dict, list))]
