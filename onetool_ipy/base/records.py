"""`once`: a property that is computed at its first use.

`once` is functools.cached_property as Python 3.12 has it. In 3.11 that one holds a lock for all
objects of a class: a process that is forked while another thread computes one would wait for ever.
Two threads may compute a value at the same time.

`collector_paused` is for building many records at once, `models_built_late` for importing many
models of pydantic.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast, overload

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
        attributes = instance.__dict__
        if name not in attributes:
            attributes[name] = self.func(instance)
        return cast(T, attributes[name])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector. Building many objects that all stay is about a quarter faster
    without it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def models_built_late() -> Iterator[None]:
    """Let models of pydantic that are defined meanwhile build their validators at their first use.

    That is most of the time that it takes to import the MCP SDK. A model inherits its settings from
    its base.
    """
    from pydantic import BaseModel

    settings = BaseModel.model_config
    if "defer_build" in settings:
        yield
        return
    settings["defer_build"] = True
    try:
        yield
    finally:
        del settings["defer_build"]
