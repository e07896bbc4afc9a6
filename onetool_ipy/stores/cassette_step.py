"""The step that answers calls from the cassette that is on, and records what it has no answer for.

Only the outermost call of a tool is recorded; what it calls itself is part of its answer. Tools of `ot` are about this
toolbox and always run. Failures of the tool itself are recorded and played as the same failures; passing ones (a
time-out, no network) are not, nor are calls that never began (bad arguments).
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any

from onetool_ipy.core import current, names
from onetool_ipy.core.errors import CallFailure
from onetool_ipy.core.failures import is_passing
from onetool_ipy.core.model import Failure, ToolResult, ToolSpec, Trip, UncheckedCall
from onetool_ipy.stores import signs
from onetool_ipy.stores.cassettes import Cassette, NotRecorded, key_of
from onetool_ipy.stores.faithful import Unfaithful, decode, encode
from onetool_ipy.stores.files import StoreError

__all__ = ["around"]

_OWN = "ot"
Steps = Generator[None, ToolResult, ToolResult | None]


def around(cassette: Cassette, trip: Trip, mask: Callable[[str], str]) -> Steps | None:
    """The step around one call while a cassette is on."""
    return _played(cassette, trip, mask) if _is_kept(trip) else None


def _played(cassette: Cassette, trip: Trip, mask: Callable[[str], str]) -> Steps:
    try:
        key, shown = key_of(trip.tool, trip.call.args, mask)
    except Unfaithful as exc:
        if cassette.mode == "replay":
            raise NotRecorded(f"'{trip.tool}': its arguments cannot be recorded: {exc.message}.") from exc
        _warn(f"'{trip.tool}' was not recorded: in its arguments, {exc.message}.")
        return None
    try:
        found = cassette.find(trip.tool, key, lambda version: _is_current(trip.spec, version))
    except NotRecorded:
        if trip.spec is None:
            return None  # and so the miss is said as one
        if type(trip.call) is not UncheckedCall:
            trip.spec.checker.check(trip.call.args, trip.spec.name, mask)
        raise
    if found is not None:
        meta = {"replayed": True}
        if found.failure is None:
            return ToolResult(True, found.value, None, meta)
        return ToolResult(False, None, _failure(found.failure, trip.tool), meta)
    result = yield
    if result.error is None or _is_worth_it(result):
        _record(cassette, trip, key, shown, result)
    return None


def _record(cassette: Cassette, trip: Trip, key: str, shown: Any, result: ToolResult) -> None:
    failure = None if result.error is None else _form(result.error)
    ms = float(result.meta.get("duration_ms") or 0)
    version = "" if trip.spec is None else signs.of_schema(trip.spec)
    try:
        said = cassette.keep(trip.tool, key, shown, version, value=result.data, failure=failure, ms=ms)
    except StoreError as exc:
        said = exc.message
    if said:
        _warn(f"'{trip.tool}' was not recorded: {said.rstrip('.')}.")


def _is_kept(trip: Trip) -> bool:
    """Whether this is a call whose answer belongs into a cassette."""
    if trip.tool.startswith(f"{_OWN}."):
        return False
    if trip.spec is not None and (trip.spec.disabled or not _is_allowed(trip)):
        return False
    outer = current.scope()
    if outer is None or outer.depth == 0:
        return True
    return outer.depth == 1 and outer.spec is not None and outer.spec.pack == _OWN


def _is_allowed(trip: Trip) -> bool:
    return trip.allow is None or names.allowed(trip.tool, trip.allow)


def _is_current(spec: ToolSpec | None, version: str) -> bool:
    """Whether a tool still is as it was recorded; one that is only known by its text is looked at in full first."""
    if spec is None or not version or version == signs.of_schema(spec):
        return True
    if spec.live is None:
        return False
    try:
        return version == signs.of_schema(spec.live())
    except CallFailure:
        return False


def _is_worth_it(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == "execution_error" and not is_passing(result)


def _form(error: Failure) -> dict[str, Any]:
    form: dict[str, Any] = {"code": error.code, "message": error.message, "reason": error.reason}
    form |= {"hint": error.hint, "status": error.status, "details": error.details}
    own = error.exception
    if own is not None and type(own) is getattr(builtins, type(own).__name__, None):
        try:
            form["exception"] = {"type": type(own).__name__, "args": encode(list(own.args))}
        except Unfaithful:
            form["exception"] = {"type": type(own).__name__, "args": [error.message]}
    return {key: value for key, value in form.items() if value not in (None, "")}


def _failure(form: Mapping[str, Any], tool: str) -> Failure:
    own = form.get("exception") or {}
    kind = getattr(builtins, str(own.get("type")), None)
    exception: BaseException | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            exception = kind(*decode(own.get("args") or []))
        except (TypeError, ValueError, Unfaithful):  # some want arguments of their own
            exception = None
    return Failure(
        form.get("code", "execution_error"),
        str(form.get("message", "")),
        tool,
        form.get("reason"),
        form.get("details"),
        str(form.get("hint", "")),
        int(form.get("status") or 502),
        exception,
    )


def _warn(said: str) -> None:
    warnings.warn(said, stacklevel=2)
