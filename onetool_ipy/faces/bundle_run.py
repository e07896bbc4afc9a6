"""Run all tools of a bundle once, with example arguments, and report each. What may change
something is not called.

The arguments are those of `check`: defaults and examples of the schema first. Owns no state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.tool import format_call
from onetool_ipy.schema.sample import samples
from onetool_ipy.toolbox import Toolbox

_LIMIT_S = 30.0
_MAX_MESSAGE = 300


class ToolRun(NamedTuple):
    """How one tool went: `outcome` is ok, failed or skipped; `call` is the line to call it
    again."""

    tool: str
    outcome: str
    ms: float
    message: str
    call: str


def run_bundle(box: Toolbox, slug: str, *, source: Literal["magic", "widget"]) -> Iterator[ToolRun]:
    """Call each tool of a bundle that only reads. Raises UsageProblem for a bundle without
    tools."""
    specs = [spec for spec in box.registry.known() if spec.pack == slug and not spec.disabled]
    if not specs:
        raise UsageProblem(
            f"The bundle '{slug[:60]}' has no tools to run.", hint="See: %tool bundle list"
        )
    for spec in box.registry.loaded(specs):
        _, args = next(samples(spec.parameters))
        call = box.mask(format_call(spec.name, args))
        if not spec.read_only:
            yield ToolRun(spec.name, "skipped", 0.0, "It may change something.", call)
            continue
        result = box.call(spec.name, args, source=source, timeout=_LIMIT_S)
        message = (
            "" if result.error is None else box.mask(values.cut(result.error.message, _MAX_MESSAGE))
        )
        duration_ms = float(result.meta.get("duration_ms") or 0)
        yield ToolRun(spec.name, "ok" if result.ok else "failed", duration_ms, message, call)
