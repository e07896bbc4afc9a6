"""The standard steps around a call, one concern each. A step is a generator: before, the result, after.

`span`, one log record per call, stands here; other rooms have theirs in the same form: replay, what a tool needs. The
call log hears of the end only, and is no step (`model.Record`). Allow-list, arguments and limits are the executor's
own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.model import Step, ToolResult, ToolSpec, Trip

__all__ = ["SPAN_LOGGER", "span"]

SPAN_LOGGER = "onetool_ipy.span"
_MAX_VALUE = 200


def span(mask: Callable[[str], str]) -> Step:
    """One record per call on logger `onetool_ipy.span`: the tool's name, its arguments, duration and outcome."""
    logger = logging.getLogger(SPAN_LOGGER)

    def step(trip: Trip) -> Generator[None, ToolResult, ToolResult | None] | None:
        return told(trip) if logger.isEnabledFor(logging.INFO) else None

    def told(trip: Trip) -> Generator[None, ToolResult, ToolResult | None]:
        result = yield
        args: Any = trip.call.args
        given = args if isinstance(args, dict) else {}
        taken = {k: v for k, v in _defaults(trip.spec).items() if k not in given}
        fields = {mask(str(k)): _short(v, mask) for k, v in {**given, **taken}.items()}
        tool, duration_ms = mask(trip.tool), result.meta.get("duration_ms")
        logger.info(
            "%s ok=%s duration_ms=%s %s",
            tool,
            result.ok,
            duration_ms,
            " ".join(f"{k}={v}" for k, v in fields.items()),
            extra={
                "span": tool,
                "fields": fields,
                "ok": result.ok,
                "duration_ms": duration_ms,
                "call_id": mask(str(trip.call.id)),
            },
        )
        return result

    return step


def _defaults(spec: ToolSpec | None) -> dict[str, Any]:
    """What our own tools took as given (001 wants it in the span); an empty default says nothing."""
    if spec is None or spec.origin != "builtin":
        return {}
    known = spec.parameters.get("properties", {}).items()
    return {name: about["default"] for name, about in known if about.get("default") not in ("", None)}


def _short(value: object, mask: Callable[[str], str]) -> str:
    """A value in a few words; masked before it is cut, so that no part of a secret is left."""
    return values.cut(mask(values.safe_repr(value, _MAX_VALUE * 50)), _MAX_VALUE)
