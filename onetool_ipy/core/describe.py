"""Python function -> ToolSpec: its schema from annotations, its words from the docstring.

Plain types (str, int, float, bool, None, Any, list, dict, Literal and unions of them) are turned into JSON Schema
here, since every start needs them; everything richer (datetime, Path, Enum, dataclasses, pydantic models, tuples,
Annotated) is pydantic's work, imported when first met. A type that neither knows is checked by `isinstance`.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, Union

from onetool_ipy.core import docstring, values
from onetool_ipy.core.errors import InvalidTool
from onetool_ipy.core.model import Json, Origin, ToolSpec
from onetool_ipy.core.schema import Converter

__all__ = ["from_function", "from_signature", "hints_of"]

_PLAIN: dict[Any, Json] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
    object: {},
    inspect.Parameter.empty: {},
}
_Param = inspect.Parameter


def from_function(fn: Callable[..., Any], *, name: str, **words: Any) -> ToolSpec:
    """Describe a function as a tool; `words` are ToolSpec fields that replace what the function says."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as exc:
        raise InvalidTool(f"'{name}': the arguments of {values.safe_repr(fn, 80)} are not known.") from exc
    call = fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004 (the bound method itself)
    return from_signature(
        signature,
        hints_of(call),
        inspect.getdoc(fn.func if isinstance(fn, partial) else fn),
        name=name,
        run=_runner(fn, signature),
        is_async=inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call),
        **words,
    )


def from_signature(
    signature: inspect.Signature,
    hints: Mapping[str, Any],
    doc: str | None,
    *,
    name: str,
    run: Callable[[dict[str, Any]], Any],
    description: str = "",
    example: str = "",
    origin: Origin = "cell",
    **fields: Any,
) -> ToolSpec:
    """Describe what has this signature, these type hints and this docstring as a tool."""
    said = docstring.read(doc)
    parameters, converters = _schema(signature, hints, said.args)
    return ToolSpec(
        name=name,
        description=description or said.description or name.rpartition(".")[2],
        parameters=parameters,
        converters=converters,
        run=run,
        returns=said.returns or _type_name(hints.get("return", signature.return_annotation)),
        example=example or said.example,
        origin=origin,
        **fields,
    )


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The annotations as types; one that cannot be resolved counts as Any and harms no other."""
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:  # a foreign annotation may name anything and raise anything
        raw = getattr(inspect.unwrap(fn), "__annotations__", {})
        return {key: _resolve_one(fn, value) for key, value in raw.items()}


def _resolve_one(fn: Callable[..., Any], annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(inspect.unwrap(fn), "__globals__", {}))  # noqa: S307 (the author's own code)
    except Exception:
        return Any


def _runner(fn: Callable[..., Any], signature: inspect.Signature) -> Callable[[dict[str, Any]], Any]:
    """How to call the function with a dict: by keyword, unless it has positional-only or starred arguments."""
    kinds = {p.name: p.kind for p in signature.parameters.values()}
    if not any(k in (_Param.POSITIONAL_ONLY, _Param.VAR_POSITIONAL) for k in kinds.values()):
        return lambda args: fn(**args)

    def run(args: dict[str, Any]) -> Any:
        rest = dict(args)
        positional: list[Any] = []
        for name, kind in kinds.items():
            if kind is _Param.VAR_POSITIONAL:
                positional.extend(rest.pop(name, ()))
            elif kind in (_Param.POSITIONAL_ONLY, _Param.POSITIONAL_OR_KEYWORD) and name in rest:
                positional.append(rest.pop(name))
            elif kind is _Param.POSITIONAL_ONLY and rest:
                positional.append(signature.parameters[name].default)
        return fn(*positional, **rest)

    return run


def _schema(
    signature: inspect.Signature, hints: Mapping[str, Any], said: Mapping[str, str]
) -> tuple[Json, dict[str, Converter]]:
    properties: Json = {}
    required: list[str] = []
    converters: dict[str, Converter] = {}
    defs: Json = {}
    extra: Any = False
    for param in signature.parameters.values():
        hint = hints.get(param.name, param.annotation)
        if isinstance(hint, str):
            hint = Any
        if param.kind is _Param.VAR_KEYWORD:
            extra = True
            continue
        if param.kind is _Param.VAR_POSITIONAL:
            hint = list if hint is _Param.empty else list[hint]  # type: ignore[valid-type]  # a type known at run time
        schema, converter = _of_type(hint, param.name, defs)
        if converter is not None:
            converters[param.name] = converter
        if said.get(param.name):
            schema = {**schema, "description": said[param.name]}
        if param.default is not _Param.empty:
            schema = _with_default(schema, param.default)
        elif param.kind is not _Param.VAR_POSITIONAL:
            required.append(param.name)
        properties[param.name] = schema
    parameters: Json = {"type": "object", "properties": properties, "additionalProperties": extra}
    if required:
        parameters["required"] = required
    if defs:
        parameters["$defs"] = defs
    return parameters, converters


def _with_default(schema: Json, default: Any) -> Json:
    """Add a default that JSON can hold, and let None be passed where it is the default."""
    if default is None and schema.get("type") and schema["type"] != "null":
        described = {k: schema[k] for k in ("description", "title") if k in schema}
        plain = {k: v for k, v in schema.items() if k not in described}
        return {"anyOf": [plain, {"type": "null"}], **described, "default": None}
    shown = values.to_json(default)
    same = shown == default or isinstance(default, (tuple, set, frozenset))
    if not same and isinstance(shown, str) and shown.startswith("<"):
        return schema
    return {**schema, "default": shown}


def _of_type(hint: Any, name: str, defs: Json) -> tuple[Json, Converter | None]:
    plain = _plain_schema(hint)
    if plain is not None:
        return plain, None
    return _rich_schema(hint, name, defs)


def _plain_schema(hint: Any) -> Json | None:
    """The schema of a plain type, or None for one that needs more."""
    try:
        known = _PLAIN.get(hint)
    except TypeError:  # an unhashable annotation
        return {}
    if known is not None:
        return dict(known)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)} if all(type(i) in (str, int, bool, type(None)) for i in inner) else None
    if origin in (Union, types.UnionType):
        options = [_plain_schema(i) for i in inner]
        return None if None in options else {"anyOf": options}
    if origin is list and len(inner) == 1:
        items = _plain_schema(inner[0])
        return None if items is None else {"type": "array", "items": items}
    if origin is dict and len(inner) == 2 and inner[0] is str:
        rest = _plain_schema(inner[1])
        return None if rest is None else {"type": "object", "additionalProperties": rest}
    return None


def _rich_schema(hint: Any, name: str, defs: Json) -> tuple[Json, Converter | None]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError):
        target = typing.get_origin(hint) or hint
        return {}, _InstanceOf(target) if isinstance(target, type) else None
    except Exception as exc:  # pydantic runs the author's own classes
        raise InvalidTool(f"argument '{name}': {type(exc).__name__}: {exc}") from exc
    clash = any(key in defs and defs[key] != value for key, value in schema.get("$defs", {}).items())
    if clash:
        schema = adapter.json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    for key, value in schema.pop("$defs", {}).items():
        defs[f"{name}.{key}" if clash else key] = value
    if "$ref" in schema and "default" not in schema:
        schema = {"$ref": schema["$ref"]}
    return schema, _Typed(adapter)


class _Typed:
    """Converts by a pydantic TypeAdapter."""

    __slots__ = ("_adapter",)

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def to_python(self, value: Any) -> Any:
        return self._adapter.validate_python(value)

    def to_json(self, value: Any) -> Any:
        if isinstance(value, (str, int, float, list, dict, type(None))):
            return values.to_json(value)
        return self._adapter.dump_python(self._adapter.validate_python(value), mode="json")


class _InstanceOf:
    """Accepts the objects of one class, which only Python code can pass."""

    __slots__ = ("_type",)

    def __init__(self, wanted: type) -> None:
        self._type = wanted

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, self._type):
            raise TypeError(f"wants a {self._type.__name__}, got {values.safe_repr(value, 60)}")
        return value

    def to_json(self, value: Any) -> Any:
        return None


def _type_name(hint: Any) -> str:
    if hint is inspect.Signature.empty or hint is None or hint is type(None):
        return ""
    if isinstance(hint, str):
        return hint
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")
