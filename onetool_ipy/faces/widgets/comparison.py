"""Compare in the result viewer: the results that one can be compared with, and the difference as
`ot.diff` shows it.

A choice is a stored result, or a recent call whose result is still in memory. The older of two
results is the first one, whichever of them the person looks at.
"""

from __future__ import annotations

import datetime
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.tables import is_frame, tabular
from onetool_ipy.base.values import Json
from onetool_ipy.core.difference import compare
from onetool_ipy.core.names import NOT_TOOLS
from onetool_ipy.core.tool import format_call
from onetool_ipy.faces.widgets.viewer import ResultViewer, result_id
from onetool_ipy.packs.ot.lineage import stored_result
from onetool_ipy.render.difference import Difference
from onetool_ipy.render.views import local_time
from onetool_ipy.stores.calls.query import CallFilter, CallRow
from onetool_ipy.toolbox import Toolbox

_MAX_CALLS = 300
_MAX_CHOICES = 60
_MAX_LINE = 120


def choices(box: Toolbox, payload: Json) -> Json:
    """List what a result can be compared with: results of the same tool first, the newest first."""
    tool, (handle, call) = str(payload.get("tool") or ""), result_id(payload)
    own = {call or (handle and box.results.call_of(handle)), handle}
    listed = (row for row in box.results.list() if row["handle"] != handle)
    stored = {box.results.call_of(row["handle"]) or row["handle"]: row for row in listed}
    held = box.lineage.calls()
    rows: list[tuple[str, datetime.datetime, Json]] = []
    for row in (
        box.log.lines(CallFilter(ok=True, hides_ot=True), limit=_MAX_CALLS)
        if box.log.enabled
        else ()
    ):
        if isinstance(row, CallRow) and row.tool not in NOT_TOOLS:
            result = stored.pop(row.call_id, None)
            if (result or row.call_id in held) and row.call_id not in own:
                text = (
                    format_call(row.tool, row.arguments)
                    if isinstance(row.arguments, dict)
                    else row.args
                )
                text = values.cut(text.removeprefix(f"%tool {row.tool}").strip(), _MAX_LINE)
                about = {"handle": result and result["handle"], "call": row.call_id, "text": text}
                rows.append((row.tool, row.ts, about))
    for key, result in stored.items():
        if key not in own:
            about = {"handle": result["handle"], "call": None, "text": result["handle"]}
            rows.append((result["tool"], result["created"], about))
    rows.sort(key=lambda row: (row[0] == tool, row[1]), reverse=True)
    items = [
        {
            **about,
            "text": box.mask(about["text"]),
            "tool": name,
            "when": local_time(moment),
            "isSame": name == tool,
        }
        for name, moment, about in rows[:_MAX_CHOICES]
    ]
    return {"items": items}


def compared(box: Toolbox, viewer: ResultViewer, payload: Json) -> Json:
    """Compare a result with the one that was chosen: the sentence, the table of the changes, and
    what was compared."""
    this, chosen = _Side(box, payload), _Side(box, payload.get("other") or {})
    this_value, chosen_value = viewer.value(payload), chosen.value()
    is_newer = bool(this.moment and chosen.moment and chosen.moment > this.moment)
    before, after = (this_value, chosen_value) if is_newer else (chosen_value, this_value)
    changes = compare(before, after, list(payload.get("key") or ()) or None)
    words = {str: "text", list: "a list or table", dict: "an object", type(None): "empty"}
    types = [
        list if is_frame(tabular(side)) else type(values.to_json(side)) for side in (before, after)
    ]
    kinds = [words.get(kind, "a single value") for kind in types]
    if changes.kind == "data" and kinds[0] != kinds[1]:
        raise UsageProblem(
            f"The first result is {kinds[0]} and the second is {kinds[1]}, so they cannot be"
            " compared."
        )
    about = [
        {"when": local_time(side.moment) if side.moment else "", "isThis": side is this}
        for side in (this, chosen)
    ]
    return {
        "text": Difference(changes, mask=box.mask).summary()[0],
        "kind": changes.kind,
        "key": [box.mask(str(name)) for name in changes.key],
        "columns": [
            name for name in changes.shared if isinstance(name, str) and box.mask(name) == name
        ],
        "sides": about if is_newer else about[::-1],
        "result": viewer.add(changes.rows, f"{this.tool or 'result'}-changes"),
    }


class _Side:
    """One of two results: the call that gave it, if that is known, and when."""

    def __init__(self, box: Toolbox, payload: Json) -> None:
        handle, call = result_id(payload)
        self._box = box
        self._handle = handle
        call = call or (box.results.call_of(handle) if handle else "")
        self._row = box.log.family(call).calls.get(call) if call and box.log.enabled else None
        self.tool = self._row.tool if self._row else ""
        self.moment: datetime.datetime | None = self._row.ts if self._row else None
        if self.moment is None and handle:
            self.moment = box.results.describe(handle)["created"]

    def value(self) -> Any:
        """Return the value. Raises UsageProblem for one that is gone."""
        if self._handle:
            return self._box.results.value(self._handle)
        if self._row is None:
            raise UsageProblem("That result is no longer available.", hint="Run the tool again.")
        return stored_result(self._box, self._row)
