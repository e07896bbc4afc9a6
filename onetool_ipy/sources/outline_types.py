"""The types that annotations name, found by a table of known names. Nothing of the file is evaluated.

A name counts as what the file's own import statements make of it (`import typing as t` -> `t.Optional`). Whatever is
not in the table, is bound otherwise in the file, or is too large raises Unknown: the file's import will tell it.
"""

from __future__ import annotations

import ast
import collections.abc
import datetime
import decimal
import pathlib
import types
import typing
import uuid
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

from onetool_ipy.core import syntax

__all__ = ["Types", "Unknown", "schema_of"]

_MAX_NODES = 500
_MAX_DEPTH = 20
_MAX_TEXT = 2_000

_BUILTINS = (str, int, float, bool, list, dict, tuple, set, frozenset, bytes, object)
_ONE = ("Sequence", "MutableSequence", "Iterable", "Set", "MutableSet")
_TWO = ("Mapping", "MutableMapping")
_TYPING = ("Any", "Literal", "Optional", "Union", "Annotated", "List", "Dict", "Tuple", "Set", "FrozenSet")
_TYPING_ABC = ("Sequence", "MutableSequence", "Iterable", "Mapping", "MutableMapping")
_SCALARS: dict[Any, dict[str, Any]] = {
    bytes: {"type": "string", "format": "binary"},
    pathlib.Path: {"type": "string", "format": "path"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"anyOf": [{"type": "number"}, {"type": "string"}]},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    object: {},
    Any: {},
}
_TABLE: dict[str, Any] = {
    **{f"builtins.{kind.__name__}": kind for kind in _BUILTINS},
    **{f"typing.{name}": getattr(typing, name) for name in (*_TYPING, *_TYPING_ABC)},
    **{f"collections.abc.{name}": getattr(collections.abc, name) for name in (*_ONE, *_TWO)},
    **{f"datetime.{kind.__name__}": kind for kind in _SCALARS if getattr(kind, "__module__", "") == "datetime"},
    "pathlib.Path": pathlib.Path,
    "decimal.Decimal": decimal.Decimal,
    "uuid.UUID": uuid.UUID,
}
_TABLE |= {f"typing_extensions.{name}": _TABLE[f"typing.{name}"] for name in _TYPING}
_UNBOUND = {
    **{kind.__name__: f"builtins.{kind.__name__}" for kind in _BUILTINS},
    **{name: f"typing.{name}" for name in ("Any", "Literal", "Optional", "Union", "List", "Dict")},
    "typing": "typing",
    "pathlib": "pathlib",
    "Path": "pathlib.Path",
    "datetime": "datetime.datetime",
    "date": "datetime.date",
}
"""What a name stands for that the file does not bind: builtins, and those that a file often gets by `import *`."""
_ARRAYS = (list, tuple, set, frozenset, *(getattr(collections.abc, name) for name in _ONE))
_UNIQUE = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_OBJECTS = (dict, *(getattr(collections.abc, name) for name in _TWO))
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Unknown(Exception):
    """The table does not tell what an annotation stands for."""


class Field(NamedTuple):
    """What `pydantic.Field(...)` says in an annotation, as far as it is kept."""

    description: str


class Types:
    """The types of one file's annotations."""

    def __init__(self, tree: ast.Module) -> None:
        self._bound: dict[str, str] = {}
        self._lines: dict[str, int] = {}
        self._postponed = False
        for name, path, line in _bindings(tree):
            self._postponed = self._postponed or path == "__future__.annotations"
            if self._bound.setdefault(name, path) != path:
                self._bound[name] = ""
            self._lines[name] = min(line, self._lines.get(name, line)) if not path else 0

    def of(self, node: ast.expr, *, line: int, hidden: Iterable[str] = ()) -> Any:
        """The type of an annotation of a function that begins on `line`; `hidden` are its own type parameters."""
        if not syntax.is_within(node, nodes=_MAX_NODES, depth=_MAX_DEPTH):
            raise Unknown
        return _Annotation(self, line, frozenset(hidden)).type(node, 0)

    def path_of(self, node: ast.expr, line: int, hidden: frozenset[str]) -> str:
        """What a dotted name stands for, as the table writes it."""
        names = syntax.dotted(node)
        if not names or names[0] in hidden:
            raise Unknown
        head = names[0]
        if head in self._bound and (self._postponed or self._lines[head] < line):
            start = self._bound[head]
        else:
            start = _UNBOUND.get(head, "")
        if not start:
            raise Unknown
        return ".".join((start, *names[1:]))


class _Annotation:
    """One annotation on its way to a type."""

    def __init__(self, types_: Types, line: int, hidden: frozenset[str]) -> None:
        self._types = types_
        self._line = line
        self._hidden = hidden
        self._left = _MAX_NODES

    def type(self, node: ast.expr, depth: int) -> Any:
        self._left -= 1
        if depth > _MAX_DEPTH or self._left < 0:
            raise Unknown
        if isinstance(node, ast.Constant):
            return self._constant(node.value, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return _made(lambda: self.type(node.left, depth + 1) | self.type(node.right, depth + 1))
        if isinstance(node, ast.Subscript):
            return self._subscript(node, depth)
        return self._named(node)

    def _constant(self, value: Any, depth: int) -> Any:
        if value is None:
            return type(None)
        if not isinstance(value, str) or len(value) > _MAX_TEXT:
            raise Unknown
        try:
            inner = ast.parse(value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise Unknown from None
        if not syntax.is_within(inner, nodes=_MAX_NODES, depth=_MAX_DEPTH):
            raise Unknown
        return self.type(inner, depth + 1)

    def _named(self, node: ast.expr) -> Any:
        path = self._types.path_of(node, self._line, self._hidden)
        found = _TABLE.get(path, Unknown)
        if found is Unknown or found in (Literal, Optional, Union, Annotated):
            raise Unknown
        return found

    def _subscript(self, node: ast.Subscript, depth: int) -> Any:
        path = self._types.path_of(node.value, self._line, self._hidden)
        known = _TABLE.get(path, Unknown)
        given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if known is Unknown or (not given and known is not tuple):
            raise Unknown
        if known is Literal:
            options = tuple(option for each in given for option in self._options(each))
            return _made(lambda: Literal[options])
        if known is Annotated:
            said = tuple(self._said(each) for each in given[1:])
            base = self.type(given[0], depth + 1)
            return _made(lambda: Annotated[(base, *said)])
        if (typing.get_origin(known) or known) is tuple:
            return self._tuple(known, given, depth)
        inner = tuple(self.type(each, depth + 1) for each in given)
        if known is Union:
            return _made(lambda: Union[inner])  # noqa: UP007 - as it is written in the file
        return self._generic(known, inner)

    def _generic(self, known: Any, inner: tuple[Any, ...]) -> Any:
        kind = typing.get_origin(known) or known
        takes = 2 if kind in _OBJECTS else 1 if kind in _ARRAYS or known is Optional else 0
        if len(inner) != takes:
            raise Unknown
        return _made(lambda: known[inner if takes == 2 else inner[0]])

    def _tuple(self, known: Any, given: list[ast.expr], depth: int) -> Any:
        if len(given) == 2 and isinstance(given[1], ast.Constant) and given[1].value is ...:
            item = self.type(given[0], depth + 1)
            return _made(lambda: known[item, ...])
        inner = tuple(self.type(each, depth + 1) for each in given)
        return _made(lambda: known[inner])

    def _options(self, node: ast.expr) -> Iterator[Any]:
        """The options of a Literal: plain constants, and Literals inside it."""
        if isinstance(node, ast.Subscript):
            if _TABLE.get(self._types.path_of(node.value, self._line, self._hidden)) is not Literal:
                raise Unknown
            for each in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
                yield from self._options(each)
            return
        value = syntax.constant(node, otherwise=Unknown)
        if type(value) not in (str, int, bool, type(None)):
            raise Unknown
        yield value

    def _said(self, node: ast.expr) -> Any:
        """What an annotation says besides its type: a plain constant, or the description in `Field(...)`."""
        if isinstance(node, ast.Constant):
            return node.value
        if not isinstance(node, ast.Call) or node.args or len(node.keywords) != 1:
            raise Unknown
        (word,) = node.keywords
        is_field = self._types.path_of(node.func, self._line, self._hidden) == "pydantic.Field"
        text = syntax.constant(word.value)
        if not is_field or word.arg != "description" or not isinstance(text, str):
            raise Unknown
        return Field(text)


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a type of the table, as pydantic writes it. Raises Unknown where that is not known."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        schema = schema_of(inner[0])
        for said in hint.__metadata__:
            schema = {**schema, "description": said.description} if isinstance(said, Field) else schema
        return schema
    if origin is Literal:
        return _choice(inner)
    if origin in (Union, types.UnionType):
        return _union([schema_of(each) for each in inner])
    kind = origin or hint
    if kind is tuple and inner and inner[-1] is not ...:
        listed = [schema_of(each) for each in inner]
        return {"type": "array", "prefixItems": listed, "minItems": len(listed), "maxItems": len(listed)}
    if kind in _ARRAYS:
        unique: dict[str, Any] = {"uniqueItems": True} if kind in _UNIQUE else {}
        return {"type": "array", "items": schema_of(inner[0]) if inner else {}, **unique}
    if kind in _OBJECTS:
        if inner and inner[0] not in (str, int):
            raise Unknown
        return {"type": "object", "additionalProperties": (schema_of(inner[1]) or True) if inner else True}
    if origin is None and hint in _SCALARS:
        return dict(_SCALARS[hint])
    raise Unknown


def _choice(options: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {type(option) for option in options}
    kind = _SCALARS[kinds.pop()] if len(kinds) == 1 else {}
    return {**kind, **({"const": options[0]} if len(options) == 1 else {"enum": list(options)})}


def _union(options: list[dict[str, Any]]) -> dict[str, Any]:
    """The choice of these, each once; a choice among them counts as its options."""
    flat: list[dict[str, Any]] = []
    for option in options:
        for each in option["anyOf"] if option.keys() == {"anyOf"} else [option]:
            if each not in flat:
                flat.append(each)
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _made(make: Any) -> Any:
    """A type made of types of the table; Unknown where Python refuses that."""
    try:
        return make()
    except (TypeError, ValueError, RecursionError):
        raise Unknown from None


def _bindings(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Every name that the module's statements bind, what an import makes of it (else empty), and the line."""
    waiting: list[Any] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.partition(".")[0]
                yield (alias.asname, alias.name, node.lineno) if alias.asname else (head, head, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, "" if node.level else f"{node.module}.{alias.name}", node.lineno
        elif isinstance(node, _Scope):
            yield node.name, "", node.lineno
        else:
            yield from ((name, "", getattr(node, "lineno", 1)) for name in _targets(node))
            waiting.extend(each for field in _BLOCKS for each in getattr(node, field, ()))


def _targets(node: ast.AST) -> Iterator[str]:
    """The names that one statement, handler or case binds itself."""
    if isinstance(node, ast.ExceptHandler):
        yield from [node.name] if node.name else []
        return
    parts = [*getattr(node, "targets", ()), *(item.optional_vars for item in getattr(node, "items", ()))]
    parts += [getattr(node, field, None) for field in ("target", "name", "pattern")]
    for part in parts:
        for each in ast.walk(part) if isinstance(part, ast.AST) else ():
            found = each.id if isinstance(each, ast.Name) else getattr(each, "name", None)
            if isinstance(found, str):
                yield found
