"""A function and its item on their way to another process or machine, and back. Half of it runs there.

Functions of a pack file have no module that could be imported elsewhere: they travel as the file's path and their
name, or by value where cloudpickle is at hand (Dask). What fails there comes back as words, since an exception that
cannot be unpickled would break the pool. There is no toolbox there, and whoever asks for it is told so.
"""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from onetool_ipy.core import current, values
from onetool_ipy.core.errors import Unavailable, UsageProblem

__all__ = ["Outcome", "Parcel", "finish", "pack_function", "pack_value", "run", "unpack", "words"]

Outcome = tuple[bool, Any]
"""Whether it went well, and the value or the words of the failure."""

Parcel = tuple[bytes, bytes]
"""The function and the value, each pickled."""

_HINT = "Define it at the top of a module or pack file, and give it what it needs with each item."


class _Away:
    """Stands for the toolbox where there is none."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unavailable(
            "This code runs in another process: no toolbox, settings or secrets are at hand there.",
            hint="Read them before the batch, and pass them along with each item.",
        )


class _Located(NamedTuple):
    """A function of a pack file, by the file it stands in."""

    module: str
    file: str
    name: str


def pack_function(func: Callable[..., Any], *, by_value: bool) -> bytes:
    """The function, ready to travel; UsageProblem where it cannot."""
    module = sys.modules.get(getattr(_inner(func), "__module__", None) or "")
    homeless = module is not None and module.__spec__ is None and module.__name__ != "__main__"
    try:
        if by_value:
            return _by_value(func, module if homeless else None)
        if module is not None and homeless and func is _find(module, func):
            return pickle.dumps(_Located(module.__name__, str(module.__file__), func.__qualname__))
        return pickle.dumps(func)
    except Exception as exc:  # pickling runs foreign code
        raise UsageProblem(
            f"{values.safe_repr(func, 80)} cannot be sent to another process: {exc}",
            hint=f"{_HINT} Secrets and open connections do not travel.",
        ) from exc


def pack_value(value: Any, *, by_value: bool) -> bytes:
    """The item, ready to travel."""
    if by_value:
        packed: bytes = _cloudpickle().dumps(value)
        return packed
    return pickle.dumps(value)


def run(parcel: Parcel) -> tuple[bool, bytes]:
    """There: unpack, call, and pack what it gives, or say in words what failed."""
    token = current.enter(current.Scope(_Away()))
    try:
        func = _unpacked(parcel[0])
        value = pickle.loads(parcel[1])  # noqa: S301 - packed by the batch that sent it
        return True, _packed(finish(func(value)))
    except BaseException as exc:  # noqa: BLE001 - whatever a function raises is its item's failure
        return False, pickle.dumps(words(exc))
    finally:
        current.leave(token)


def unpack(sent: tuple[bool, bytes]) -> Outcome:
    """Here: what `run` gave there."""
    ok, data = sent
    try:
        return ok, pickle.loads(data)  # noqa: S301 - packed by `run`
    except Exception as exc:  # noqa: BLE001 - unpickling runs foreign code
        return False, f"The result cannot be read here: {words(exc)}"


def finish(value: Any) -> Any:
    """The value itself; of a coroutine what it gives."""
    if not isinstance(value, types.CoroutineType):
        return value
    import asyncio

    return asyncio.run(value)


def words(exc: BaseException) -> str:
    """What an exception says; its class where it says nothing."""
    try:
        text = str(exc).strip()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    hint = getattr(exc, "hint", "")
    return f"{text or type(exc).__name__}{f' {hint}' if hint and isinstance(exc, Unavailable) else ''}"


def _packed(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as exc:
        raise TypeError(f"The result, a {type(value).__name__}, cannot be sent back: {exc}") from exc


def _inner(func: Any) -> Any:
    while isinstance(func, partial):
        func = func.func
    return func


def _find(module: types.ModuleType, func: Any) -> Any:
    found: Any = module
    for part in func.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def _by_value(func: Callable[..., Any], module: types.ModuleType | None) -> bytes:
    cloudpickle = _cloudpickle()
    if module is None:
        packed: bytes = cloudpickle.dumps(func)
        return packed
    cloudpickle.register_pickle_by_value(module)
    try:
        packed = cloudpickle.dumps(func)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return packed


def _cloudpickle() -> Any:
    """It comes with Dask; nobody else is asked to have it."""
    return import_module("cloudpickle")


def _unpacked(data: bytes) -> Callable[..., Any]:
    found = pickle.loads(data)  # noqa: S301 - packed by the batch that sent it
    if not isinstance(found, _Located):
        return found  # type: ignore[no-any-return]  # what was packed is a function
    module = sys.modules.get(found.module) or _load(found)
    func: Any = module
    for part in found.name.split("."):
        func = getattr(func, part)
    return func  # type: ignore[no-any-return]


def _load(place: _Located) -> types.ModuleType:
    """Run a pack file in this process; its tools are registered nowhere."""
    module = types.ModuleType(place.module)
    module.__file__ = place.file
    with open(place.file, "rb") as file:
        text = file.read()
    token = current.enter(current.Scope(_Away(), importing=True))
    sys.modules[place.module] = module
    try:
        exec(compile(text, place.file, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[place.module]
        raise
    finally:
        current.leave(token)
    return module
