"""`once`: a property that is worked out at its first use and kept on the object.

As functools.cached_property is from Python 3.12 on. In 3.11 that one has a lock for all objects of a class: a process
that is forked while another thread works one out would wait for it for ever. Two threads may work it out at once.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar, cast, overload

__all__ = ["once"]

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
