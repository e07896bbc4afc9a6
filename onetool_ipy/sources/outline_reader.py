"""Read the outline of a pack file from its text: its pack, its tools, their docs and arguments. Nothing is run.

Constants are taken from the syntax tree as written. Annotations are looked up in a table of known types, by the names
that the file's own imports give them (`import typing as t` -> `t.Optional`). If the text alone does not tell (a type
defined in the file, a function made by another function), the tool is `exact=False` until the file is imported at its
first call. A file that is too deep, too large or odd in any other way has an `error` and affects no other file.
"""

from __future__ import annotations

import ast
import collections.abc
import datetime
import decimal
import inspect
import json
import math
import pathlib
import re
import types
import typing
import uuid
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import decode_source
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.syntax import constant, dotted, is_within, last_name, printable, source
from onetool_ipy.core import describe, names
from onetool_ipy.core.tool import Dep
from onetool_ipy.schema.check import Converter
from onetool_ipy.sdk.requirements import merge_deps, read_declared, read_decorated
from onetool_ipy.sources.outline import OutlineFault, PackOutline, ToolOutline

__all__ = [
    "MAX_BYTES",
    "Types",
    "Unknown",
    "read_outline",
    "schema_of",
]

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
"""The meaning of names that the file does not bind: builtins, and names that often come from `import *`."""
_ARRAYS = (list, tuple, set, frozenset, *(getattr(collections.abc, name) for name in _ONE))
_UNIQUE = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_OBJECTS = (dict, *(getattr(collections.abc, name) for name in _TWO))
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Unknown(Exception):
    """The table does not have the type of an annotation."""


class _Description(NamedTuple):
    """The description in a `pydantic.Field(...)` annotation."""

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
        """Return the type of an annotation of a function on `line`. `hidden` are the function's own type parameters."""
        if not is_within(node, nodes=_MAX_NODES, depth=_MAX_DEPTH):
            raise Unknown
        return _Annotation(self, line, frozenset(hidden)).type(node, 0)

    def path_of(self, node: ast.expr, line: int, hidden: frozenset[str]) -> str:
        """Return the key of a dotted name in the table."""
        names = dotted(node)
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
    """Converts one annotation to a type."""

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
            return _built(lambda: self.type(node.left, depth + 1) | self.type(node.right, depth + 1))
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
        if not is_within(inner, nodes=_MAX_NODES, depth=_MAX_DEPTH):
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
            return _built(lambda: Literal[options])
        if known is Annotated:
            said = tuple(self._said(each) for each in given[1:])
            base = self.type(given[0], depth + 1)
            return _built(lambda: Annotated[(base, *said)])
        if (typing.get_origin(known) or known) is tuple:
            return self._tuple(known, given, depth)
        inner = tuple(self.type(each, depth + 1) for each in given)
        if known is Union:
            return _built(lambda: Union[inner])  # noqa: UP007 - as it is written in the file
        return self._generic(known, inner)

    def _generic(self, known: Any, inner: tuple[Any, ...]) -> Any:
        kind = typing.get_origin(known) or known
        takes = 2 if kind in _OBJECTS else 1 if kind in _ARRAYS or known is Optional else 0
        if len(inner) != takes:
            raise Unknown
        return _built(lambda: known[inner if takes == 2 else inner[0]])

    def _tuple(self, known: Any, given: list[ast.expr], depth: int) -> Any:
        if len(given) == 2 and isinstance(given[1], ast.Constant) and given[1].value is ...:
            item = self.type(given[0], depth + 1)
            return _built(lambda: known[item, ...])
        inner = tuple(self.type(each, depth + 1) for each in given)
        return _built(lambda: known[inner])

    def _options(self, node: ast.expr) -> Iterator[Any]:
        """Yield the options of a Literal: plain constants, and those of nested Literals."""
        if isinstance(node, ast.Subscript):
            if _TABLE.get(self._types.path_of(node.value, self._line, self._hidden)) is not Literal:
                raise Unknown
            for each in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
                yield from self._options(each)
            return
        value = constant(node, otherwise=Unknown)
        if type(value) not in (str, int, bool, type(None)):
            raise Unknown
        yield value

    def _said(self, node: ast.expr) -> Any:
        """The metadata of an Annotated type: a plain constant, or the description in `Field(...)`."""
        if isinstance(node, ast.Constant):
            return node.value
        if not isinstance(node, ast.Call) or node.args or len(node.keywords) != 1:
            raise Unknown
        (word,) = node.keywords
        is_field = self._types.path_of(node.func, self._line, self._hidden) == "pydantic.Field"
        text = constant(word.value)
        if not is_field or word.arg != "description" or not isinstance(text, str):
            raise Unknown
        return _Description(text)


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type from the table, as pydantic writes it. Raises Unknown for other types."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        schema = schema_of(inner[0])
        for said in hint.__metadata__:
            schema = {**schema, "description": said.description} if isinstance(said, _Description) else schema
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
    """A union of these schemas without duplicates; a nested union counts as its options."""
    flat: list[dict[str, Any]] = []
    for option in options:
        for each in option["anyOf"] if option.keys() == {"anyOf"} else [option]:
            if each not in flat:
                flat.append(each)
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _built(make: Any) -> Any:
    """Build a type; raise Unknown if Python refuses it."""
    try:
        return make()
    except (TypeError, ValueError, RecursionError):
        raise Unknown from None


def _bindings(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield every name that the module binds, the dotted path it imports (else empty), and the line."""
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
    """Yield the names that a single statement, handler or case binds."""
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


MAX_BYTES = 1_000_000
_MAX_TOOLS = 1_000
_MAX_FAULTS = 50
_MAX_ARGUMENTS = 500
_MAX_EXPORTS = 20_000
_SHOWN = 80

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_WORDS = ("name", "pack", "description", "tags", "read_only", "timeout", "examples", "resource", "prompt")
_HARMLESS = ("requires_cli", "requires_lib")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_ENCODING = re.compile(
    r"utf-?8(-sig)?|ascii|us-ascii|latin-?1|iso-?8859-?\d+|(cp|windows-)125\d|koi8-[ru]"
    r"|gbk|gb2312|gb18030|big5|shift-?jis|euc-(jp|kr)"
)
"""Encodings that only map bytes to characters. Python knows others that decompress or transform the text."""


def read_outline(text: str | bytes, *, pack: str) -> PackOutline:
    """Outline a pack file's text. `pack` is the name to use if the file does not set one. Never raises."""
    if len(text) > MAX_BYTES:
        return PackOutline(pack, error=f"The file has {len(text):,} bytes; a pack file has at most {MAX_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the import will show them
            # Python opens the file of this name for the line of a SyntaxError; no file has an empty name.
            tree = ast.parse(_decoded(text) if isinstance(text, bytes) else text, "")
            return _OutlineReader(tree, pack).outline()
    except (SyntaxError, ValueError) as exc:
        line = getattr(exc, "lineno", None)
        place = f"line {line}: " if line else ""
        said = printable(str(getattr(exc, "msg", None) or exc), 200)
        return PackOutline(pack, error=f"{place}{type(exc).__name__}: {said}")
    except (RecursionError, MemoryError) as exc:
        return PackOutline(pack, error=f"{type(exc).__name__}: the text is nested too deeply or too large to be read")
    except Exception as exc:  # noqa: BLE001 - untrusted text: whatever it breaks affects only this file
        return PackOutline(pack, error=f"the text cannot be read ({type(exc).__name__})")


def _decoded(text: bytes) -> str:
    """Decode a file by the encoding that its first lines declare. Raises SyntaxError."""
    for line in text.split(b"\n", 2)[:2]:
        found = _COOKIE.match(line)
        if found is None:
            continue
        name = found[1].decode("ascii", "replace")
        if _ENCODING.fullmatch(name.lower().replace("_", "-")) is None:
            raise SyntaxError(f"unknown encoding: {name}")
        break
    return decode_source(text)


class _OutlineReader:
    """Reads the outline of one parsed file."""

    def __init__(self, tree: ast.Module, pack: str) -> None:
        self._pack = pack
        self._faults: list[OutlineFault] = []
        self._deps: tuple[Dep, ...] = ()
        self._types = Types(tree)
        self._statements = list(_top_level(tree.body))
        self._functions = {node.name: node for node in self._statements if isinstance(node, _Function)}

    def outline(self) -> PackOutline:
        said = self._assigned("pack")
        if said is not None:
            name = constant(said.value)
            if not isinstance(name, str) or not name.isidentifier():
                shown = source(said.value)[:40]
                return PackOutline(
                    self._pack, error=f'line {said.lineno}: pack = {shown} is not a name; write e.g. pack = "brave"'
                )
            self._pack = name
        self._read_requires()
        tools: dict[str, ToolOutline] = {}
        for tool in self._tools():
            if len(tools) == _MAX_TOOLS:
                hint = "The others are not offered: split the file."
                self._faults.insert(0, OutlineFault(tool.line, f"the file has more than {_MAX_TOOLS:,} tools.", hint))
                break
            if tool.name in tools:
                self._faults.append(OutlineFault(tool.line, f"'{tool.name}' is defined twice; the first one counts."))
            tools.setdefault(tool.name, tool)
        return PackOutline(self._pack, tuple(tools.values()), tuple(self._faults[:_MAX_FAULTS]))

    def _tools(self) -> Iterator[ToolOutline]:
        for name in self._wanted():
            node = self._functions.get(name)
            if node is None:
                yield from self._elsewhere(name)
                continue
            try:
                yield self._outline(node)._replace(deps=merge_deps(self._deps, read_decorated(node)))
            except InvalidTool as exc:
                self._fault(node, f"'{name}' is not a tool: {exc.message}", exc.hint)
            except (ValueError, TypeError, OverflowError, RecursionError) as exc:  # arguments named twice, and the like
                self._fault(node, f"'{name}' is not a tool: {printable(str(exc), 200)}")

    def _elsewhere(self, name: str) -> Iterator[ToolOutline]:
        """Yield a tool that `__all__` names but the text does not define as a function: the import will tell more."""
        try:
            yield ToolOutline(name, names.canonical(name, pack=self._pack), name, exact=False)
        except InvalidTool as exc:
            self._faults.append(OutlineFault(1, f"__all__: {printable(exc.message, 200)}", exc.hint))

    def _fault(self, node: _Function, message: str, hint: str = "") -> None:
        self._faults.append(OutlineFault(node.lineno, printable(message, 400), hint))

    def _outline(self, node: _Function) -> ToolOutline:
        words, plain = _decorations(node)
        full = names.canonical(words.get("name") or node.name, pack=words.get("pack") or self._pack)
        found = _Signature(node, self._types)
        doc = ast.get_docstring(node)
        described = words.get("description")
        resource, prompt = "".join(_texts(words.get("resource"))[:1]), words.get("prompt") is True
        spec = describe.from_signature(found.signature, found.hints, doc, name=full, run=_never, rich=_schema_or_empty)
        return ToolOutline(
            function=node.name,
            name=full,
            description=values.encodable(described if isinstance(described, str) and described else spec.description),
            documented=bool(doc or described),
            parameters=values.map_text(spec.parameters, values.encodable),
            positional=spec.positional,
            returns=values.encodable(spec.returns),
            example="\n".join(_texts(words.get("examples"))) or values.encodable(spec.example),
            tags=tuple(_texts(words.get("tags"))),
            read_only=words.get("read_only") is True or prompt or bool(resource),
            timeout_s=_timeout(words.get("timeout")),
            is_async=isinstance(node, ast.AsyncFunctionDef),
            exact=found.exact and plain,
            line=node.lineno,
            resource=resource,
            prompt=prompt,
            returned=_returned_schema(found.hints["return"]),
        )

    def _read_requires(self) -> None:
        """Read `requires = {...}`: what the whole pack needs."""
        said = self._assigned("requires")
        if said is None:
            return
        try:
            self._deps = read_declared(constant(said.value))
        except InvalidTool as exc:
            self._faults.append(OutlineFault(said.lineno, exc.message, exc.hint))

    def _wanted(self) -> list[str]:
        """Return the names in `__all__` that may be functions; without `__all__`, the public functions."""
        public = [name for name in self._functions if not name.startswith("_")]
        said = self._assigned("__all__")
        if said is None:
            return public
        exported = constant(said.value, nodes=_MAX_EXPORTS)
        if not isinstance(exported, (list, tuple)) or not all(isinstance(name, str) for name in exported):
            self._faults.append(
                OutlineFault(said.lineno, "__all__ is not a plain list of names.", "Every public function is offered.")
            )
            return public
        more = [n for node in self._statements if isinstance(node, ast.AugAssign) for n in _added(node)]
        bound = self._bound()
        wanted = list(dict.fromkeys([*exported, *more]))
        for name in wanted:
            if name not in bound and "*" not in bound and len(self._faults) < _MAX_FAULTS:
                shown = printable(name, _SHOWN)
                self._faults.append(
                    OutlineFault(said.lineno, f"__all__ names '{shown}', which the file does not define.")
                )
        return [name for name in wanted if bound.get(name, "*" in bound)]

    def _bound(self) -> dict[str, bool]:
        """Map every name that the file binds to whether it may be a function."""
        bound: dict[str, bool] = {}
        for node in self._statements:
            if isinstance(node, _Function):
                bound[node.name] = True
            elif isinstance(node, ast.ClassDef):
                bound[node.name] = False
            elif isinstance(node, ast.Import):
                bound.update({(a.asname or a.name).partition(".")[0]: False for a in node.names})
            elif isinstance(node, ast.ImportFrom):
                bound.update({a.asname or a.name: True for a in node.names})
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                made = isinstance(node.value, (ast.Call, ast.Name, ast.Attribute, ast.Lambda))
                bound.update({t.id: made for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)})
        return bound

    def _assigned(self, name: str) -> ast.Assign | ast.AnnAssign | None:
        found: ast.Assign | ast.AnnAssign | None = None
        for node in self._statements:
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                found = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                found = node if node.value is not None else found
        return found


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module in order, also those inside `if`, `try` and `with`."""
    waiting = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.If, ast.Try, ast.With)):
            continue
        inner = [each for field in ("body", "orelse", "finalbody") for each in getattr(node, field, [])]
        if isinstance(node, ast.Try):
            inner += [each for handler in node.handlers for each in handler.body]
        waiting.extend(reversed(inner))


def _added(node: ast.AugAssign) -> list[str]:
    if not isinstance(node.target, ast.Name) or node.target.id != "__all__":
        return []
    found = constant(node.value, nodes=_MAX_EXPORTS)
    return [name for name in found if isinstance(name, str)] if isinstance(found, (list, tuple)) else []


def _never(args: dict[str, Any]) -> Any:  # noqa: ARG001 - the signature of every `run`
    raise RuntimeError("an outline cannot run")


def _schema_or_empty(hint: Any, name: str, defs: dict[str, Any]) -> tuple[dict[str, Any], Converter | None]:  # noqa: ARG001
    """Return the schema of a type without pydantic; empty if it is unknown."""
    try:
        return schema_of(hint), None
    except Unknown:
        return {}, None


def _returned_schema(hint: Any) -> dict[str, Any] | None:
    """Return the schema of what a function returns; None if its text does not tell, or for bytes."""
    schema, _ = _schema_or_empty(hint, "", {})
    return None if hint is type(None) or "binary" in json.dumps(schema) else schema or None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [values.encodable(value)]
    return [values.encodable(str(item)) for item in value] if isinstance(value, (list, tuple, set)) else []


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidTool(f"timeout={value!r} is not a number of seconds above 0.")
    return float(value)


def _decorations(node: _Function) -> tuple[dict[str, Any], bool]:
    """Return the constant arguments of `@tool(...)`, and whether the decorators keep the function's parameters."""
    words: dict[str, Any] = {}
    plain = True
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        label = last_name(decorator)
        if label != "tool":
            plain = plain and label in _HARMLESS
            continue
        if call is None:
            continue
        said = [("name", value) for value in call.args[:1]] + [(k.arg or "", k.value) for k in call.keywords]
        for word, value in said:
            found = constant(value)
            if found is not None:
                words[word] = found
            elif word in _WORDS and not isinstance(value, ast.Constant):
                plain = False
    return words, plain


class _Signature:
    """The parameters of one function: names, types and defaults. `exact` means that all are fully known."""

    def __init__(self, node: _Function, types: Types) -> None:
        self._node = node
        self._types = types
        self._hidden = [each.name for each in getattr(node, "type_params", ())]
        self.exact = True
        self.hints: dict[str, Any] = {}
        found = [inspect.Parameter(*each[:2], default=each[2]) for each in self._parameters()]
        self.signature = inspect.Signature(found)
        self.hints["return"] = self._returned()

    def _parameters(self) -> Iterator[tuple[str, Any, Any]]:
        spec = self._node.args
        positional = [*spec.posonlyargs, *spec.args]
        if len(positional) + len(spec.kwonlyargs) > _MAX_ARGUMENTS:
            raise InvalidTool(f"it has more than {_MAX_ARGUMENTS} arguments.")
        kinds = inspect.Parameter
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults)) + [*spec.defaults]
        for i, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
            first = i < len(spec.posonlyargs)
            yield self._parameter(arg, kinds.POSITIONAL_ONLY if first else kinds.POSITIONAL_OR_KEYWORD, default)
        if spec.vararg:
            yield self._parameter(spec.vararg, kinds.VAR_POSITIONAL)
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            yield self._parameter(arg, kinds.KEYWORD_ONLY, default)
        if spec.kwarg:
            yield self._parameter(spec.kwarg, kinds.VAR_KEYWORD)

    def _parameter(self, arg: ast.arg, kind: Any, default: ast.expr | None = None) -> tuple[str, Any, Any]:
        hint, known = self._annotation(arg.annotation)
        value: Any = inspect.Parameter.empty
        if default is not None:
            value = constant(default, otherwise=...)
        self.exact = self.exact and known and value is not ...
        self.hints[arg.arg] = hint
        return arg.arg, kind, value

    def _annotation(self, node: ast.expr | None) -> tuple[Any, bool]:
        """Return the type of an annotation and True, or (Any, False) if only the import can tell."""
        if node is None:
            return Any, True
        try:
            hint = self._types.of(node, line=self._node.lineno, hidden=self._hidden)
            schema_of(hint)
        except Unknown:
            return Any, False
        return hint, True

    def _returned(self) -> Any:
        node = self._node.returns
        if node is None:
            return inspect.Signature.empty
        try:
            return self._types.of(node, line=self._node.lineno, hidden=self._hidden)
        except Unknown:
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
            return source(node) if text is None else printable(text, 500)
