"""The data of the history and results screens: pages of earlier calls, and the stored results. Everything is masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onetool_ipy.base import values
from onetool_ipy.base.values import Json
from onetool_ipy.core.names import ASK
from onetool_ipy.faces.line.moments import read_since
from onetool_ipy.render.views import local_time
from onetool_ipy.stores.calls.query import CallFilter, CallRow, RunRow

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

_MAX_CALLS = 5_000
_MAX_RESULTS = 200


def history_page(box: Toolbox, payload: Json) -> Json:
    """A page of the calls; those of one run, if it is named."""
    offset, limit = max(0, int(payload.get("offset") or 0)), min(int(payload.get("limit") or 100), _MAX_CALLS)
    since = str(payload.get("since") or "")
    query = CallFilter(
        since=read_since(since, box.now()) if since else None,
        ok=False if payload.get("isFailed") else None,
        text=str(payload.get("query") or "")[:200],
        run=str(payload["run"]) if payload.get("run") else None,
        hides_ot=True,
    )
    # One row more than the page says whether there is a next page.
    rows = box.log.lines(query, offset=offset, limit=limit + 1)
    return {"items": [_item(box, row) for row in rows[:limit]], "hasMore": len(rows) > limit}


def stored_results(box: Toolbox) -> Json:
    """The stored results, newest first."""
    items = []
    for row in box.results.list()[:_MAX_RESULTS]:
        size = "in memory" if row["bytes"] is None else f"{row['lines']:,} lines, {row['bytes']:,} bytes"
        items.append(
            {"handle": row["handle"], "tool": row["tool"], "when": local_time(row["created"]), "summary": size}
        )
    return {"items": items}


def _item(box: Toolbox, row: CallRow | RunRow) -> Json:
    if isinstance(row, RunRow):
        duration_ms = (row.ts - row.began).total_seconds() * 1000
        run = {"id": row.run, "run": row.run, "tool": row.tool, "rows": row.rows, "failures": row.failures}
        return {**run, "ok": not row.failures, "ms": duration_ms, "when": local_time(row.ts)}
    spec = box.registry.find(row.tool)
    summary = row.args if row.ok else f"{row.message or row.code} · {row.args}"
    return {
        "id": row.call_id,
        "tool": row.tool,
        "isAsk": row.tool == ASK,
        "readOnly": spec is not None and spec.read_only,
        "ok": row.ok,
        "ms": row.ms,
        "when": local_time(row.ts),
        "summary": box.mask(values.cut(summary, 200)),
        "args": None if row.arguments is None else values.map_text(values.to_json(row.arguments), box.mask),
    }
