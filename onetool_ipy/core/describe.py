"""A Python function -> ToolSpec: its schema from annotations, its words from a Google-style
docstring.

pydantic makes the schema of every type, and converts arguments to those types that JSON does not
have (datetime, Path, Enum, dataclasses, models, tuples). It is imported with the first argument
that is described, not at `%load_ext`. A type that pydantic does not know is checked by
`isinstance`: only Python code can pass such an object. A docstring is read as far as possible; the
rest of it is description.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, Union

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import FunctionFacts, Origin, ToolSpec
from onetool_ipy.schema.check import Converter, accepts
from onetool_ipy.schema.read import ANNOTATION

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_SECTIONS = {
    **dict.fromkeys(("args", "arguments", "parameters", "params"), "args"),
    **dict.fromkeys(("returns", "return", "yields"), "returns"),
    **dict.fromkeys(("example", "examples"), "example"),
}
_OTHER = {
    "raises",
    "note",
    "notes",
    "see also",
    "todo",
    "warning",
    "warnings",
    "attributes",
    "references",
}
_HEADER = re.compile(r"^(\w[\w ]*)::?\s*$")
_INLINE = re.compile(r"^(returns|return|yields|example|examples):\s+(\S.*)$", re.IGNORECASE)
_ARG = re.compile(r"^(\*{0,2}[\w.-]+)\s*+(?:\(.*?\)\s*+)?:(?:\s+(.*))?$")
_OWN_LINE = re.compile(r"^(\s|[-*+] |\d+[.)] )")

_Param = inspect.Parameter
_BY_POSITION = (_Param.POSITIONAL_ONLY, _Param.POSITIONAL_OR_KEYWORD)
_JSON_TYPES = (str, int, float, bool, None, type(None), list, dict, Any, object)
_PLAIN_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

TypeSchema = Callable[[Any, str, Json], tuple[Json, Converter | None]]
"""Gives the JSON Schema of an argument's type, and what converts its values; adds definitions to
the last argument."""


class Docstring(NamedTuple):
    """What a docstring says, by section."""

    description: str
    args: dict[str, str]
    returns: str
    example: str


def read(text: str | None) -> Docstring:
    """Split a docstring into its sections. Half a character, which no protocol can send, is written
    out."""
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in inspect.cleandoc(values.encodable(text or "")).splitlines():
        header, inline = _HEADER.match(line), _INLINE.match(line)
        word = header.group(1).lower() if header else ""
        if word in _SECTIONS or word in _OTHER:
            current = _SECTIONS.get(word, word)
            sections.setdefault(current, [])
        elif inline:
            current = _SECTIONS[inline.group(1).lower()]
            sections.setdefault(current, []).append(inline.group(2))
        else:
            sections[current].append(line)
    return Docstring(
        description=_paragraphs(sections[""]),
        args=_arguments(sections.get("args", [])),
        returns=_paragraphs(_dedent(sections.get("returns", []))),
        example="\n".join(_dedent(sections.get("example", []))).strip("\n"),
    )


def _paragraphs(lines: list[str]) -> str:
    """Join each paragraph into one line. List items and indented lines keep their own lines."""
    blocks = []
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        text = ""
        for line in block.split("\n"):
            text += (("\n" if _OWN_LINE.match(line) else " ") if text else "") + line.rstrip()
        blocks += [text] if block.strip() else []
    return "\n\n".join(blocks)


def _arguments(lines: list[str]) -> dict[str, str]:
    descriptions: dict[str, str] = {}
    name = ""
    for line in _dedent(lines):
        match = _ARG.match(line)
        if match:
            name = match.group(1).lstrip("*")
            descriptions[name] = (match.group(2) or "").strip()
        elif name and line.strip():
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
    return descriptions


def _dedent(lines: list[str]) -> list[str]:
    widths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(widths, default=0)
    return [line[margin:].rstrip() for line in lines]


def from_function(
    fn: Callable[..., Any],
    *,
    name: str,
    description: str = "",
    example: str = "",
    origin: Origin = "cell",
    cache_key: Callable[..., Any] | None = None,
    type_schema: TypeSchema | None = None,
    **fields: Any,
) -> ToolSpec:
    """Describe a function as a tool; these arguments replace what the function says of itself.

    By default pydantic makes the schemas of types, as every call needs them. `written_type` is for
    lists.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as exc:
        raise InvalidTool(
            f"'{name}': the arguments of {values.safe_repr(fn, 80)} are not known."
        ) from exc
    # The function whose code runs is that of a partial, the `__call__` of an object, else the
    # function itself.
    inner = fn
    while isinstance(inner, partial):
        inner = inner.func
    if not inspect.isroutine(inner):
        inner = getattr(inner, "__init__" if inspect.isclass(inner) else "__call__", inner)
    hints = _hints_of(inner)
    sections = read(_doc(fn, inner))
    try:
        parameters, converters = _schema(signature, hints, sections.args, type_schema or _typed)
    except InvalidTool as exc:
        raise InvalidTool(f"'{name}': {exc.message}", hint=exc.hint) from exc
    hint = hints.get("return", signature.return_annotation)
    if hint is inspect.Signature.empty or hint is None or hint is type(None):
        returned = ""
    elif isinstance(hint, type) and not typing.get_args(hint):
        returned = hint.__name__
    else:
        returned = hint if isinstance(hint, str) else str(hint).replace("typing.", "")
    kinds = signature.parameters.values()
    positional = [param.name for param in kinds if param.kind in _BY_POSITION]
    positional += [f"*{param.name}" for param in kinds if param.kind is _Param.VAR_POSITIONAL]
    return ToolSpec(
        name=name,
        description=values.encodable(description)
        or sections.description
        or name.rpartition(".")[2],
        parameters=parameters,
        run=_runner(fn, signature),
        is_async=inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner),
        returns=sections.returns or returned,
        example=example or sections.example,
        origin=origin,
        function=FunctionFacts(
            converters=converters,
            positional=tuple(positional),
            cache_key=cache_key,
            returned=cache(partial(_returned, hints.get("return", Any))),
        ),
        **fields,
    )


def _hints_of(fn: Callable[..., object]) -> Json:
    """Return the annotations as types. An annotation that cannot be resolved counts as Any; the
    others still count."""
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001 - a foreign annotation may name anything and raise anything
        inner = inspect.unwrap(fn)
    hints: dict[str, Any] = {}
    for name, annotation in getattr(inner, "__annotations__", {}).items():
        try:
            if isinstance(annotation, str):
                # The annotation is the author's own code.
                hints[name] = eval(annotation, getattr(inner, "__globals__", {}))  # noqa: S307
            else:
                hints[name] = annotation
        except Exception:  # noqa: BLE001 - as above
            hints[name] = Any
    return hints


def _doc(fn: Callable[..., object], inner: Callable[..., object]) -> str | None:
    """Return the docstring; for an object that of its `__call__`, else of its class."""
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return inspect.getdoc(fn)
    doc = (
        inspect.getdoc(inner) if isinstance(inner, types.FunctionType | types.MethodType) else None
    )
    return doc or (None if isinstance(fn, partial) else inspect.getdoc(type(fn)))


def _runner(fn: Callable[..., object], signature: inspect.Signature) -> Callable[[Json], Any]:
    """How to call the function with a dict: by keyword, unless it has positional-only or starred
    arguments."""
    kinds = {p.name: p.kind for p in signature.parameters.values()}
    order, positional_only = list(kinds), (_Param.POSITIONAL_ONLY, _Param.VAR_POSITIONAL)
    if not any(kind in positional_only for kind in kinds.values()):
        return lambda args: fn(**args)

    def run(args: Json) -> Any:
        rest = dict(args)
        positional: list[Any] = []
        by_position = True
        for name, kind in kinds.items():
            if kind is _Param.VAR_POSITIONAL:
                positional.extend(rest.pop(name, ()))
            elif kind in _BY_POSITION and by_position:
                # An argument without a value must be passed too if a later one can be given by
                # position only.
                later = order[order.index(name) + 1 :]
                by_position = name in rest or any(
                    kinds[one] in positional_only and one in rest for one in later
                )
                if by_position:
                    positional.append(rest.pop(name, signature.parameters[name].default))
        return fn(*positional, **rest)

    return run


def _schema(
    signature: inspect.Signature,
    hints: Mapping[str, object],
    descriptions: Mapping[str, str],
    type_schema: TypeSchema,
) -> tuple[Json, dict[str, Converter]]:
    properties: Json = {}
    required: list[str] = []
    converters: dict[str, Converter] = {}
    defs: Json = {}
    extra: Any = False
    for param in signature.parameters.values():
        hint = _hint(param, hints)
        if param.kind is _Param.VAR_KEYWORD:
            extra = type_schema(hint, param.name, defs)[0] or True
            continue
        schema, converter = type_schema(hint, param.name, defs)
        if converter is not None:
            converters[param.name] = converter
        if descriptions.get(param.name):
            schema = {**schema, "description": descriptions[param.name]}
        if param.default is not _Param.empty:
            schema = with_default(schema, param.default, converter)
        elif param.kind is not _Param.VAR_POSITIONAL:
            required.append(param.name)
        properties[param.name] = schema
    parameters: Json = {"type": "object", "properties": properties, "additionalProperties": extra}
    if required:
        parameters["required"] = required
    if defs:
        parameters["$defs"] = defs
    return parameters, converters


def _hint(param: inspect.Parameter, hints: Mapping[str, object]) -> Any:
    """Return the type of an argument. None is accepted if it is the default."""
    hint = hints.get(param.name, param.annotation)
    if isinstance(hint, str) or hint is object or hint is _Param.empty:
        hint = Any
    if param.kind is _Param.VAR_POSITIONAL:
        return list if hint is Any else list[hint]  # type: ignore[valid-type]  # a type known at run time
    if param.default is None and hint is not Any:
        try:
            return Union[hint, None]  # noqa: UP007 - `|` is not defined for every annotation
        except TypeError:  # an annotation that is not a type
            return Any
    return hint


def with_default(schema: Json, default: object, converter: Converter | None = None) -> Json:
    """Add a default that JSON can hold to the schema of an argument."""
    is_plain = isinstance(default, (str, int, float, bool, list, tuple, dict, type(None)))
    if not (is_plain or (converter is not None and accepts(converter, default))):
        return schema
    value = values.to_json(default)
    # NaN becomes None, and bytes become a text that the schema does not mean.
    if (value is None) != (default is None) or isinstance(default, (bytes, bytearray)):
        return schema
    return {**schema, "default": value}


def _is_json(hint: object) -> bool:
    """Whether a JSON value that fits the schema of a type already is what the type asks for."""
    from typing_extensions import is_typeddict

    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return all(type(option) in (str, int, bool, type(None)) for option in inner)
    if origin in (Union, types.UnionType, list, dict):
        return all(map(_is_json, inner)) and (origin is not dict or inner[0] is str)
    if is_typeddict(hint):
        return all(map(_is_json, typing.get_type_hints(hint).values()))
    return any(hint is plain for plain in _JSON_TYPES)


def _supported(hint: Any, outer: tuple[Any, ...] = ()) -> Any:
    """Return a type with each `typing.TypedDict` in it as one of typing_extensions: older Pythons'
    are refused."""
    if hint in outer:
        return dict
    if typing.is_typeddict(hint):
        from typing_extensions import TypedDict

        fields = {
            name: _supported(inner, (*outer, hint))
            for name, inner in typing.get_type_hints(hint).items()
        }
        for name in hint.__optional_keys__:
            fields[name] = NotRequired[fields[name]]
        return TypedDict(hint.__name__, fields)  # type: ignore[operator]  # its fields are known at run time
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return Union[tuple(_supported(option, outer) for option in inner)]  # noqa: UP007 - of any number of options
    if origin in (list, dict):
        return origin[tuple(_supported(part, outer) for part in inner)]
    return hint


def _returned(hint: object) -> Json | None:
    """The schema of what a function returns; None if that has no JSON form, or is one of our own
    classes."""
    if (
        str(getattr(hint, "__module__", "")).startswith("onetool_ipy.")
        or hint is None
        or hint is type(None)
    ):
        return None
    from pydantic import TypeAdapter

    try:
        schema = TypeAdapter(_supported(hint)).json_schema(mode="serialization", by_alias=False)
    except Exception:  # noqa: BLE001 - pydantic runs the author's own classes
        return None
    return None if '"format": "binary"' in json.dumps(schema) else schema or None


def written_type(hint: Any, name: str, defs: Json) -> tuple[Json, None]:
    """The type of an argument as it is written, for a tool that is listed. No call is checked by
    it.

    It knows the types that our own packs use. Anything else is shown by its name.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": [*inner], "type": "string"}, None
    if origin in (Union, types.UnionType):
        return {"anyOf": [written_type(option, name, defs)[0] for option in inner]}, None
    if hint in _PLAIN_TYPES:
        return {"type": _PLAIN_TYPES[hint]}, None
    if (origin or hint) is dict:
        return {"type": "object", "additionalProperties": True}, None
    return {} if hint is Any else {ANNOTATION: str(getattr(hint, "__name__", hint))}, None


def _typed(hint: Any, name: str, defs: Json) -> tuple[Json, Converter | None]:
    """The JSON Schema of a type by pydantic, and its converter; definitions it needs are added to
    `defs`."""
    # These need no pydantic, and most arguments are of them.
    for plain, word in _PLAIN_TYPES.items():
        if hint is plain:
            return {"type": word}, None
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        hint = _supported(hint)
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema()
        clash = any(
            key in defs and defs[key] != value for key, value in schema.get("$defs", {}).items()
        )
        if clash:
            schema = adapter.json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    except (PydanticSchemaGenerationError, PydanticUserError):
        return {}, _of_class(hint)
    except Exception as exc:  # pydantic runs the author's own classes
        raise InvalidTool(f"argument '{name}': {type(exc).__name__}: {exc}") from exc
    for key, value in schema.pop("$defs", {}).items():
        defs[f"{name}.{key}" if clash else key] = value
    return schema, None if _is_json(hint) else _Typed(adapter)


def _of_class(hint: Any) -> Converter | None:
    """Return a check for a type that has no JSON form, or None if there is no way to check it."""
    from pydantic import ConfigDict, TypeAdapter

    try:
        with warnings.catch_warnings():
            # pydantic warns of annotations that are not types; such an argument takes anything.
            warnings.simplefilter("ignore")
            return _Class(TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True)), hint)
    except Exception:  # noqa: BLE001 - what pydantic cannot take in any way is let through as it is
        return None


class _Typed:
    """Converts by a pydantic TypeAdapter."""

    __slots__ = ("_adapter",)

    def __init__(self, adapter: TypeAdapter[object]) -> None:
        self._adapter = adapter

    def to_python(self, value: object) -> Any:
        return self._adapter.validate_python(value)

    def accepts(self, value: object) -> bool:
        # JSON is judged by the schema. The adapter may run code of the tool, which nobody has
        # approved yet.
        if values.is_json(value):
            return False
        self._adapter.validate_python(value, strict=True)
        return True


class _Class:
    """Accepts instances of one class, or of one of several."""

    __slots__ = ("_adapter", "_label")

    def __init__(self, adapter: TypeAdapter[object], hint: object) -> None:
        self._adapter = adapter
        self._label = getattr(hint, "__name__", None) if not typing.get_args(hint) else str(hint)

    def to_python(self, value: object) -> Any:
        try:
            return self._adapter.validate_python(value)
        except ValueError as exc:
            label = self._label or "known type"
            article = "an" if label[0] in "AEIOaeio" else "a"
            raise TypeError(f"wants {article} {label}, got {values.safe_repr(value, 60)}") from exc

    def accepts(self, value: object) -> bool:  # noqa: ARG002 - to_python will tell
        return True
