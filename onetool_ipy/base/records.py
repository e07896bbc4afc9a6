"""Value: a frozen class with slots, made from its annotations. To readers and type checkers a frozen dataclass.

`%load_ext` pays for each class that is defined. A frozen dataclass with slots compiles its methods anew and takes
some 0.3 ms; this one shares them and takes a fiftieth, which for the dozen of this room is most of its start-up.

`once`: a property that is worked out at its first use and kept on the object.

As functools.cached_property is from Python 3.12 on. In 3.11 that one has a lock for all objects of a class: a process
that is forked while another thread works one out would wait for it for ever. Two threads may work it out at once.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform, overload

__all__ = ["Value", "once"]


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
