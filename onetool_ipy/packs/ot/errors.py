"""Errors of the `ot` pack that spec 001 wants as text.

Inside, functions raise. Here a OneToolError becomes `Returned`, whose message is the exact text:
the executor makes it `ok: false` with that message, `%tool` raises it, and the `ot` object that
Python code holds returns it (ErrorText).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from onetool_ipy.base.errors import CallFailure, OneToolError, Returned

_P = ParamSpec("_P")
_T = TypeVar("_T")


def worded(fn: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn our own errors into Returned."""

    @wraps(fn)
    def edge(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return fn(*args, **kwargs)
        except CallFailure:
            raise
        except OneToolError as exc:
            raise Returned(f"Error: {exc.message}", hint=exc.hint) from exc

    return edge


def choice(what: str, value: str, valid: tuple[str, ...], example: str) -> None:
    """Raise Returned, with the list of valid values, if the value is not one of them."""
    if value not in valid:
        listed = ", ".join(valid)
        raise Returned(f"Error: Invalid {what} '{value}'. Valid: {listed}. Example: {example}")
