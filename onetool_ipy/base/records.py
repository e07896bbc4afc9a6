"""`Value`: the one kind of frozen record, made from annotations. `once`: a property that is computed at its first use.

To readers and type checkers a `Value` is a frozen dataclass with slots. A real one compiles its methods anew for each
class, some 0.3 ms, which `%load_ext` pays for every class; these share theirs and cost a fiftieth.

`once` is functools.cached_property as Python 3.12 has it. In 3.11 that one holds a lock for all objects of a class: a
process that is forked while another thread computes one would wait for ever. Two threads may compute a value at the
same time.

`collector_paused` is for building many records at once.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform, overload


@dataclass_transform(frozen_default=True)
class _ValueType(type):
    """Turns annotated names into slots, and their values into defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _ValueType:
        annotations = namespace.get("__annotations__", {})
        fields = tuple(name for name in annotations if not name.startswith("_"))
        namespace["_fields"] = fields
        namespace["_defaults"] = {field: namespace.pop(field) for field in fields if field in namespace}
        namespace["__slots__"] = fields
        return super().__new__(cls, name, bases, namespace)


class Value(metaclass=_ValueType):
    """Base of a frozen value; change one with `replace`."""

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = {**self._defaults, **dict(zip(self._fields, args, strict=False)), **kwargs}
        if len(args) > len(self._fields) or given.keys() != set(self._fields):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields)}; it was given {', '.join(given)}.")
        for name in self._fields:
            object.__setattr__(self, name, given[name])

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return cls._fields

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed."""
        return type(self)(**{**{name: getattr(self, name) for name in self._fields}, **changes})

    __replace__ = replace

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; make a changed one with replace({name}=...).")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen.")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({', '.join(shown)})"


T = TypeVar("T")


class once(functools.cached_property[T]):  # noqa: N801 - it reads as the decorator it is
    """A property that is worked out once for each object."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> once[T] | T:
        if instance is None:
            return self
        name = cast(str, self.attrname)
        found = instance.__dict__
        if name not in found:
            found[name] = self.func(instance)
        return cast(T, found[name])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector. Building many objects that all stay is about a quarter faster without it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
