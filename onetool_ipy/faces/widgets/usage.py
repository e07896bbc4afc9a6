"""What the usage view shows, from the call log: totals, calls and latency over time, the tools. Nothing is kept."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.core.model import Json

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["usage_shown"]

_PERIODS = ("day", "week", "month", "all")
_HOURS = {"day": 24, "week": 168}
"""The periods that are shown by the hour."""


def usage_shown(box: Toolbox, payload: Json) -> Json:
    """Totals, one step per hour or day, and the tools of a period."""
    from onetool_ipy.stores.calls.query import savings

    period: Any = payload.get("period") if payload.get("period") in _PERIODS else "week"
    tool = str(payload.get("tool") or "")
    log = box.log
    used = log.usage(period=period, tool=tool or None)
    saved = savings(used, box.config.settings.stats)
    rate = "–" if used.success_rate is None else f"{used.success_rate:.1f} %"
    form = "%m-%d %H:%M" if period in _HOURS else "%Y-%m-%d"
    totals = [
        {"label": "calls", "value": f"{used.total_calls:,}"},
        {"label": "success", "value": rate},
        {"label": "tokens saved", "value": f"{saved.context_saved:,}", "help": "an estimate"},
        {"label": "hours saved", "value": f"{saved.time_saved_ms / 3_600_000:,.1f}", "help": "an estimate"},
    ]
    spans = {span.start.strftime(form): span for span in log.series(period=period, tool=tool or None)}
    series = [_step(label, spans.get(label)) for label in _labels(period, form, spans, box.now())]
    rows = [
        {
            "tool": row.tool,
            "calls": row.calls,
            "failures": row.failures,
            "avg_ms": row.avg_ms,
            "p95_ms": row.p95_ms,
            "last_called": row.last_called.astimezone().strftime("%Y-%m-%d %H:%M"),
        }
        for row in used.tools[:200]
    ]
    known = sorted(log.counts())
    return {"period": period, "tool": tool, "totals": totals, "series": series, "tools": rows, "known": known}


def _step(label: str, span: Any) -> Json:
    if span is None or not span.calls:
        return {"label": label, "ok": 0, "failed": 0, "p50": None, "p95": None}
    ok = span.calls - span.failures
    return {"label": label, "ok": ok, "failed": span.failures, "p50": span.p50_ms, "p95": span.p95_ms}


def _labels(period: str, form: str, spans: Mapping[str, Any], now: datetime.datetime) -> list[str]:
    """Every hour or day of the period in order, also those without a call."""
    if period in _HOURS:
        hour = now.replace(minute=0, second=0, microsecond=0)
        steps = [hour - datetime.timedelta(hours=back) for back in range(_HOURS[period], -1, -1)]
    else:
        first = min((span.start for span in spans.values()), default=now)
        known = 31 if period == "month" else min((now - first).days + 1, 400)
        steps = [now - datetime.timedelta(days=back) for back in range(max(known, 2) - 1, -1, -1)]
    labels = [step.strftime(form) for step in steps]
    return [*sorted(label for label in spans if label not in labels and label < labels[0]), *labels]
