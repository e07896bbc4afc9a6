"""Read the JSON Schema of a tool's arguments: references, parameters, types, signature, argument
lines.

Does not make schemas from Python (`core.describe`) and does not check arguments (`check`). Reading
never fails and never takes long, however odd, deep, wide or circular a schema is. `signature_of`
makes an `inspect.Signature`, so that `?`, Shift-Tab and editors show a tool's arguments as Python's
own.
"""

from __future__ import annotations

import inspect
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import unquote

from onetool_ipy.base import values
from onetool_ipy.base.values import Json

Schema = Mapping[str, Any]
"""A JSON Schema, or a part of one."""

NO_DEFAULT: Any = object()
"""Stands for a default that there is not."""

ANNOTATION = "x-annotation"
"""The key of a type as a pack file writes it, in the loose schema of a tool that is not
imported."""

DEFAULT = "x-default"
"""The key of a default as a pack file writes it, where it is no constant."""

_PYTHON_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}
_KINDS = (
    ("bool", bool),
    ("int", int),
    ("float", float),
    ("str", str),
    ("list", (list, tuple)),
    ("dict", Mapping),
)
_MAX_SHOWN = 120
_MAX_USAGE = 120
_MAX_TYPE_DEPTH = 4
_MAX_OPTIONS = 20
_MAX_NODES = 400


class Param(NamedTuple):
    """One argument as a schema describes it. `schema` is already resolved. What has a default need
    not be given."""

    name: str
    schema: dict[str, Any]
    required: bool
    description: str

    @property
    def has_default(self) -> bool:
        return "default" in self.schema


def params(parameters: object) -> list[Param]:
    """The arguments that a schema names, required ones first, else in its order."""
    root = parameters if isinstance(parameters, Mapping) else {}
    reader = _Reader(root)
    reader.collect(root, must=True, depth=0)
    properties = {
        **reader.found,
        **{name: {} for name in reader.required if name not in reader.found},
    }
    arguments = []
    for name, sub in properties.items():
        schema = resolve(sub, root)
        text, title = schema.get("description") or "", str(schema.get("title") or "")
        # A title that only repeats the name says nothing.
        if not text and title.lower().replace(" ", "_") != name.lower():
            text = title
        is_required = name in reader.required and "default" not in schema
        arguments.append(Param(name, schema, is_required, " ".join(str(text).split())))
    return sorted(arguments, key=lambda p: not p.required)


def default_of(node: object, name: str, root: Mapping[str, object]) -> Any:
    """The default of one property of an object's schema, or NO_DEFAULT."""
    reader = _Reader(root)
    reader.collect(node, must=True, depth=0)
    return resolve(reader.found.get(name), root).get("default", NO_DEFAULT)


def resolve(schema: object, root: Mapping[str, object]) -> Json:
    """Follow local `$ref`s. Siblings of a `$ref` win; a `$ref` that leads nowhere is an empty
    schema."""
    seen: set[str] = set()
    merged: dict[str, Any] = {}
    while isinstance(schema, Mapping):
        merged = {**schema, **merged}
        ref = merged.pop("$ref", None)
        if not isinstance(ref, str) or ref in seen or not ref.startswith("#"):
            return merged
        seen.add(ref)
        schema = at_ref(ref, root)
    return merged


def at_ref(ref: str, root: Mapping[str, object]) -> Any:
    """Return what a local `$ref` leads to (the root, a JSON pointer, an anchor among the
    definitions), or None."""
    if ref == "#":
        return root
    if not ref.startswith("#/"):
        defs = root.get("$defs") if ref.startswith("#") else None
        named = defs.values() if isinstance(defs, Mapping) else ()
        return next(
            (d for d in named if isinstance(d, Mapping) and d.get("$anchor") == ref[1:]), None
        )
    node: Any = root
    for part in unquote(ref[2:]).split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and len(key) < 10 and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def type_text(schema: object, root: object) -> str:
    """The Python type a schema stands for, as text that Python can parse."""
    return _Reader(root).type(schema, 0)


def signature_text(name: str, parameters: object, *, unknown: str = "...") -> str:
    """`pack.tool(query: str, count: int = 5)`: required without defaults, optional with theirs or
    `unknown`."""
    return f"{name}{_signature(parameters, lambda param: _Shown(_default_text(param) or unknown))}"


def usage_text(name: str, parameters: object) -> str:
    """The signature beside an error: where it is long, its first arguments, all required ones among
    them, and `...`."""
    signature = _signature(parameters, lambda param: _Shown(_default_text(param) or "..."))
    texts = [str(argument) for argument in signature.parameters.values()]
    needed = sum(param.required for param in params(parameters))
    ends = accumulate((len(text) + len(", ") for text in texts), initial=len(name))
    count = max(needed, sum(end <= _MAX_USAGE for end in ends) - 1)
    rest = ["..."] if count < len(texts) else []
    return f"{name}({', '.join([*texts[:count], *rest])})"


def argument_lines(parameters: object) -> list[str]:
    """`name: description` for each argument; its type stands in for a missing description."""
    return [
        f"{p.name}: {p.description or type_text(p.schema, parameters)}" for p in params(parameters)
    ]


def python_names(known: Iterable[Param]) -> dict[str, str]:
    """Argument name -> the name Python gives it; those that are identifiers keep theirs, all are
    different."""
    names = [param.name for param in known]
    taken = {name for name in names if identifier(name) == name}
    labels = {name: name for name in taken}
    for name in names:
        if name not in labels:
            labels[name] = identifier(name, taken)
            taken.add(labels[name])
    return labels


def identifier(name: str, taken: set[str] | frozenset[str] = frozenset()) -> str:
    """A Python identifier for any name, different from those taken, as Python itself would spell it
    (NFKC)."""
    text = unicodedata.normalize("NFKC", re.sub(r"\W", "_", name)) or "_"
    if not text.isidentifier():
        text = "_" + text
    if not text.isidentifier():
        text = re.sub(r"[^A-Za-z0-9_]", "_", text)
    if keyword.iskeyword(text) or text == "__debug__":
        text += "_"
    plain, count = text, 2
    while text in taken:
        text, count = f"{plain}_{count}", count + 1
    return text


class _Reader:
    """Walks through a schema once, with a budget. What lies beyond it is Any."""

    def __init__(self, root: object) -> None:
        self._root: Mapping[str, Any] = root if isinstance(root, Mapping) else {}
        self._left = _MAX_NODES
        self.found: dict[str, Any] = {}
        self.required: dict[str, None] = {}

    def collect(self, node: object, *, must: bool, depth: int) -> None:
        """Note the properties of a schema and of those it is made from; `required` counts only
        where it must hold."""
        if depth > _MAX_TYPE_DEPTH or not self._afford():
            return
        schema = resolve(node, self._root)
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            for name, sub in properties.items():
                self.found.setdefault(str(name), sub)
        names = schema.get("required")
        if must and isinstance(names, (list, tuple)):
            self.required.update(dict.fromkeys(n for n in names if isinstance(n, str)))
        for key in ("allOf", "anyOf", "oneOf"):
            for option in _listed(schema, key):
                self.collect(option, must=must and key == "allOf", depth=depth + 1)

    def type(self, node: object, depth: int) -> str:
        """The type of one schema: the union of its types, None last."""
        types = list(dict.fromkeys(self._types(node, depth)))
        if not types or "Any" in types or len(types) > _MAX_OPTIONS:
            return "Any"
        return " | ".join(sorted(types, key=lambda text: text == "None"))

    def _types(self, node: object, depth: int) -> list[str]:
        """The types that one schema allows; those of a choice are the types of all its options."""
        if depth > _MAX_TYPE_DEPTH or not self._afford():
            return ["Any"]
        schema = resolve(node, self._root)
        if written := _expression(schema.get(ANNOTATION)):
            return [written]
        options = [schema["const"]] if "const" in schema else _listed(schema, "enum")
        if options:
            return _literal(options)
        kind = schema.get("type")
        choices = _listed(schema, "anyOf") or _listed(schema, "oneOf")
        if not choices and isinstance(kind, (list, tuple)):
            choices = [{**schema, "type": each} for each in kind] or [{}]
        if choices:
            return [text for choice in choices for text in self._types(choice, depth + 1)]
        if kind == "array" and schema.get("items") is not None:
            return [f"list[{self.type(schema['items'], depth + 1)}]"]
        if isinstance(kind, str):
            return [_PYTHON_TYPES.get(kind, "Any")]
        parts = [self.type(part, depth + 1) for part in _listed(schema, "allOf")]
        return [
            next(
                (part for part in parts if part != "Any"),
                "dict" if "properties" in schema else "Any",
            )
        ]

    def _afford(self) -> bool:
        self._left -= 1
        return self._left > 0


def _listed(schema: Mapping[str, object], key: str) -> list[Any]:
    items = schema.get(key)
    return list(items) if isinstance(items, (list, tuple)) else []


def _literal(options: list[object]) -> list[str]:
    """`Literal[...]` of simple options, cut where there are many; of others the types they have."""
    if not all(isinstance(o, (str, int)) or o is None for o in options):
        return [
            "None" if o is None else next((n for n, k in _KINDS if isinstance(o, k)), "Any")
            for o in options
        ]
    texts: list[str] = []
    for option in options:
        text = values.safe_repr(option, _MAX_SHOWN)
        if len(texts) == _MAX_OPTIONS or len(text) == _MAX_SHOWN or text.startswith("<"):
            texts.append("...")
            break
        texts.append(text)
    return [f"Literal[{', '.join(texts)}]"]


def _expression(text: object) -> str:
    """The text of a short Python expression; empty for anything else, which a foreign schema may
    hold."""
    import ast

    if not isinstance(text, str) or len(text) > _MAX_SHOWN or "\n" in text:
        return ""
    try:
        ast.parse(text, mode="eval")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    return text


def _default_text(param: Param) -> str:
    """The default as Python writes it; empty if there is no default, or it is long or not plain."""
    if written := _expression(param.schema.get(DEFAULT)):
        return written
    default = param.schema.get("default", ...)
    if default is ... or (isinstance(default, float) and not math.isfinite(default)):
        return ""
    text = values.safe_repr(default, _MAX_SHOWN + 1)
    if len(text) > _MAX_SHOWN:
        return ""
    import ast

    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ""
    return text


class _Shown:
    """An annotation or a default that prints as the text it was given."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def signature_of(parameters: object) -> inspect.Signature:
    """The signature that calling the tool from Python has; required arguments first."""
    return _signature(
        parameters,
        lambda param: (
            param.schema["default"] if param.has_default else _Shown(_default_text(param) or "...")
        ),
    )


def _signature(parameters: object, default: Callable[[Param], object]) -> inspect.Signature:
    arguments = params(parameters)
    labels = python_names(arguments)
    signature = [
        inspect.Parameter(
            labels[param.name],
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if param.required else default(param),
            annotation=_Shown(type_text(param.schema, parameters)),
        )
        for param in arguments
    ]
    if isinstance(parameters, Mapping) and parameters.get("additionalProperties"):
        rest = identifier("arguments", set(labels.values()))
        signature.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(signature)
