"""The data of the usage screen: totals, calls over time, tools and failures of a period. Everything is masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onetool_ipy.base.values import Json
from onetool_ipy.faces.line.moments import read_since
from onetool_ipy.render.views import local_time, span_labels

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

_PERIODS = ("day", "week", "month", "all")
_MAX_FAILURES = 50
_MAX_TOOLS = 200


def usage_data(box: Toolbox, payload: Json) -> Json:
    """Totals, calls over time in steps that suit them, the tools and the failures of a period, or since a time."""
    period: Any = payload.get("period") if payload.get("period") in _PERIODS else "week"
    tool = str(payload.get("tool") or "")
    since = str(payload.get("since") or "")
    start = read_since(since, box.now()) if since else None
    overview = box.log.overview(period=period, tool=tool or None, start=start)
    usage = overview.usage
    rate = "–" if usage.success_rate is None else f"{usage.success_rate:.1f} %"
    totals = [
        {"label": "call" if usage.total_calls == 1 else "calls", "value": f"{usage.total_calls:,}"},
        {"label": "failed", "value": f"{usage.failures:,}"},
        {"label": "succeeded", "value": rate},
    ]
    failures = [
        {
            "tool": group.tool,
            "message": box.mask(group.message),
            "calls": group.calls,
            "last_called": local_time(group.last_called),
        }
        for group in overview.failures[:_MAX_FAILURES]
    ]
    labels = span_labels([span.start for span in overview.timeline.spans], overview.timeline.step_s)
    rows = [
        {
            "tool": row.tool,
            "calls": row.calls,
            "failures": row.failures,
            "avg_ms": row.avg_ms,
            "p95_ms": row.p95_ms,
            "last_called": local_time(row.last_called),
        }
        for row in usage.tools[:_MAX_TOOLS]
    ]
    series: list[Json] = []
    for label, span in zip(labels, overview.timeline.spans, strict=True):
        latency = {"p50": span.p50_ms, "p95": span.p95_ms} if span.calls else {"p50": None, "p95": None}
        series.append({"label": label, "ok": span.calls - span.failures, "failed": span.failures, **latency})
    return {
        "period": period,
        "since": since,
        "start": "" if start is None else local_time(start),
        "tool": tool,
        "totals": totals,
        "series": series,
        "tools": rows,
        "failures": failures,
        "known": sorted(box.log.counts()),
    }
