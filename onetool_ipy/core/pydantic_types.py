"""Types that only pydantic can describe and convert to: datetime, Path, Enum, dataclasses, models, tuples, Annotated.

Loaded with pydantic, when a function first asks for one of these. A type that pydantic does not know is checked by
`isinstance`: only Python code can pass such an object.
"""

from __future__ import annotations

import json
import typing
import warnings
from typing import Any

from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.schema.check import Converter

__all__ = ["returned_schema", "schema_of"]

_ANY_CLASS = ConfigDict(arbitrary_types_allowed=True)


def schema_of(hint: Any, name: str, defs: dict[str, Any]) -> tuple[dict[str, Any], Converter | None]:
    """The JSON Schema of a type and its converter; definitions it needs are added to `defs`."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema()
        clash = any(key in defs and defs[key] != value for key, value in schema.get("$defs", {}).items())
        if clash:
            schema = adapter.json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    except (PydanticSchemaGenerationError, PydanticUserError):
        return {}, _of_class(hint)
    except Exception as exc:  # pydantic runs the author's own classes
        raise InvalidTool(f"argument '{name}': {type(exc).__name__}: {exc}") from exc
    for key, value in schema.pop("$defs", {}).items():
        defs[f"{name}.{key}" if clash else key] = value
    return schema, _Typed(adapter)


def returned_schema(hint: Any) -> dict[str, Any] | None:
    """The JSON Schema of the values of a type as they are sent; None if it has no JSON form, or is binary."""
    try:
        found = TypeAdapter(hint).json_schema(mode="serialization", by_alias=False)
    except Exception:  # noqa: BLE001 - pydantic runs the author's own classes
        return None
    return None if '"format": "binary"' in json.dumps(found) else found


def _of_class(hint: Any) -> Converter | None:
    """How to check a type that has no JSON form; None where that cannot be told."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about annotations that are no types: anything goes there
            return _Class(TypeAdapter(hint, config=_ANY_CLASS), hint)
    except Exception:  # noqa: BLE001 - what pydantic cannot take in any way is let through as it is
        return None


class _Typed:
    """Converts by a pydantic TypeAdapter."""

    __slots__ = ("_adapter",)

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter

    def to_python(self, value: Any) -> Any:
        return self._adapter.validate_python(value)

    def accepts(self, value: Any) -> bool:
        self._adapter.validate_python(value, strict=True)
        return not values.is_json(value)


class _Class:
    """Accepts the objects of a class, or of one of several."""

    __slots__ = ("_adapter", "_label")

    def __init__(self, adapter: TypeAdapter[Any], hint: Any) -> None:
        self._adapter = adapter
        self._label = getattr(hint, "__name__", None) if not typing.get_args(hint) else str(hint)

    def to_python(self, value: Any) -> Any:
        try:
            return self._adapter.validate_python(value)
        except ValueError as exc:
            raise TypeError(f"wants a {self._label or 'known type'}, got {values.safe_repr(value, 60)}") from exc

    def accepts(self, value: Any) -> bool:  # noqa: ARG002 - to_python will tell
        return True
