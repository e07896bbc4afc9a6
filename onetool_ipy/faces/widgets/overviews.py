"""The data of the screens that only show: health, history, stored results and usage. Everything is
masked.

Health is the state of the project, and its problems with what can be done about each. Lines are
shown only of files that a present problem names, and never of a secrets file: what is wrong there
may be a secret that no mask knows.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path
from typing import Any

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import TRUST_IT, UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.core.names import NOT_TOOLS, TOOLBOX
from onetool_ipy.core.tool import Problem, format_call
from onetool_ipy.faces.line.values import read_since
from onetool_ipy.packs.ot.health import PATIENCE_S, missing
from onetool_ipy.packs.ot.usage import OT_LEFT_OUT
from onetool_ipy.render.views import local_time, span_labels
from onetool_ipy.stores.calls.query import CallFilter, CallRow, RunRow
from onetool_ipy.toolbox import Toolbox

_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<line>\d{1,7}))?", re.DOTALL)
_COMMAND = re.compile(r"Run: (.+)")
_MAX_FILE = 1 << 20
_AROUND = 3
_SECRETS = "secrets.yaml"
_MAX_WORDS = 60
_MAX_CALLS = 5_000
_MAX_RESULTS = 200
_PERIODS = ("day", "week", "month", "all")
_MAX_FAILURES = 50
_MAX_TOOLS = 200


def problem_rows(box: Toolbox) -> list[Json]:
    """Every problem: `{where, message, hint, action}`. The action does what the hint says; None if
    a person must."""
    return [_problem_row(box, problem) for problem in box.problems()]


def health_report(box: Toolbox) -> Json:
    """The state of the project, as far as it is known; no server is started for it."""
    box.gate.refresh()
    box.registry.refresh()
    specs = box.registry.known()
    names = repr([(spec.name, bool(spec.disabled)) for spec in specs])
    servers = {
        name: {"state": state, "reason": box.servers.reason(name)}
        for name, state in box.servers.items()
    }
    return {
        "version": __version__,
        "project": str(box.config.paths.project),
        "trust": box.gate.state(),
        "tools": sum(not spec.is_toolbox for spec in specs),
        "own": sum(spec.origin != "builtin" for spec in specs),
        "fingerprint": blake2b(names.encode()).hexdigest()[:16],
        "problems": problem_rows(box),
        "servers": servers,
    }


def python_packs(box: Toolbox) -> Json:
    """The packs of Python that are the person's own: of pack files, of packages and of cells."""
    rows = [
        {
            "name": name,
            "tools": len(specs),
            "disabled": all(spec.disabled for spec in specs),
            "where": printable_line(box.mask(specs[0].where)),
            "action": _action(box, Problem(specs[0].where, "")),
        }
        for name, specs in box.registry.known_packs().items()
        if specs[0].origin not in ("builtin", "bundle", "mcp")
    ]
    return {"items": rows}


def check_health(box: Toolbox) -> Json:
    """Start and test every server, for a few seconds, and list what tools need and is not
    installed: `{missing}`."""
    box.gate.refresh()
    box.servers.check(PATIENCE_S)
    return {"missing": [_problem_row(box, problem) for problem in missing(box)]}


def lines_around(box: Toolbox, where: str) -> Json:
    """The lines of the file that a present problem names, around its line: `{first, line,
    lines}`."""
    if where not in {problem.where for problem in box.problems()}:
        raise UsageProblem("This problem is gone.", hint="Refresh the list.")
    path, line = _place_of(box, where) or (None, None)
    if path is None or line is None or path.name == _SECRETS or path.stat().st_size > _MAX_FILE:
        return {"first": 1, "line": 0, "lines": []}
    text = path.read_text(encoding="utf-8", errors="replace").split("\n")
    first = max(1, line - _AROUND)
    lines = [
        printable_line(values.cut(box.mask(text_line), 300))
        for text_line in text[first - 1 : line + _AROUND]
    ]
    return {"first": first, "line": line, "lines": lines}


def _problem_row(box: Toolbox, problem: Problem) -> Json:
    return {
        "where": problem.where,
        "message": problem.message,
        "hint": problem.hint,
        "action": _action(box, problem),
    }


def _action(box: Toolbox, problem: Problem) -> Json | None:
    if problem.hint == TRUST_IT:
        return {"kind": "trust", "label": "Trust"}
    if problem.server and problem.server in box.servers:
        state = dict(box.servers.items())[problem.server]
        if state == "signed out":
            return {
                "kind": "server",
                "label": "Sign in",
                "server": problem.server,
                "action": "signIn",
            }
        if state == "untrusted":
            return {"kind": "trust", "label": "Trust"}
        if state != "connected":
            return {
                "kind": "server",
                "label": "Restart",
                "server": problem.server,
                "action": "restart",
            }
    if problem.secret:
        return {"kind": "secret", "label": "Save", "name": problem.secret}
    if command := _COMMAND.fullmatch(problem.hint):
        return {"kind": "copy", "label": "Copy", "text": command[1]}
    if place := _place_of(box, problem.where):
        return {"kind": "open", "label": "Open", "path": str(place[0]), "line": place[1]}
    return None


def _place_of(box: Toolbox, where: str) -> tuple[Path, int | None] | None:
    """The file and the line in `where`; None if it names no plain file."""
    parts = _PLACE.fullmatch(where)
    if parts is None:
        return None
    try:
        path = box.config.paths.project / Path(parts["path"]).expanduser()
        if not path.is_file():
            return None
    except (OSError, ValueError, RuntimeError):  # such as a NUL, or an unknown user's home
        return None
    return path, int(parts["line"]) if parts["line"] else None


def history_page(box: Toolbox, payload: Json) -> Json:
    """A page of the calls; those of one tool or one run, if it is named."""
    offset, limit = (
        max(0, int(payload.get("offset") or 0)),
        min(int(payload.get("limit") or 100), _MAX_CALLS),
    )
    since, tool = str(payload.get("since") or ""), str(payload.get("tool") or "")
    query = CallFilter(
        tool=tool or None,
        since=read_since(since, box.now()) if since else None,
        ok=False if payload.get("isFailed") else None,
        text=str(payload.get("query") or "")[:200],
        run=str(payload["run"]) if payload.get("run") else None,
        hides_ot=not tool,
    )
    # One row more than the page says whether there is a next page.
    rows = box.log.lines(query, offset=offset, limit=limit + 1)
    return {"items": [_call_item(box, row) for row in rows[:limit]], "hasMore": len(rows) > limit}


def stored_results(box: Toolbox) -> Json:
    """The stored results, newest first."""
    items = []
    for row in box.results.list()[:_MAX_RESULTS]:
        size = (
            "in memory"
            if row["bytes"] is None
            else f"{row['lines']:,} lines, {row['bytes']:,} bytes"
        )
        items.append(
            {
                "handle": row["handle"],
                "tool": row["tool"],
                "when": local_time(row["created"]),
                "summary": size,
            }
        )
    return {"items": items}


def _call_item(box: Toolbox, row: CallRow | RunRow) -> Json:
    if isinstance(row, RunRow):
        duration_ms = (row.ts - row.began).total_seconds() * 1000
        run = {
            "id": row.run,
            "run": row.run,
            "tool": row.tool,
            "rows": row.rows,
            "failures": row.failures,
        }
        return {**run, "ok": not row.failures, "ms": duration_ms, "when": local_time(row.ts)}
    spec = box.registry.find(row.tool)
    summary = _words_of(row)
    if not row.ok:
        # What tells the failed rows of a run apart stands before what they have in common.
        summary = f"{values.cut(summary, _MAX_WORDS)} · {row.message or row.code}"
    return {
        "id": row.call_id,
        "tool": row.tool,
        "isAsk": row.tool in NOT_TOOLS,
        "readOnly": spec is not None and spec.read_only,
        "ok": row.ok,
        "ms": row.ms,
        "when": local_time(row.ts),
        "summary": box.mask(values.cut(summary, 200)),
        "noArgs": row.why_no_arguments,
        "args": None
        if row.arguments is None
        else values.map_text(values.to_json(row.arguments), box.mask),
    }


def _words_of(row: CallRow) -> str:
    """The arguments of a call as a `%tool` line has them."""
    if not isinstance(row.arguments, dict):
        return row.args
    return format_call("t", row.arguments).removeprefix("%tool t").lstrip() or "no arguments"


def usage_data(box: Toolbox, payload: Json) -> Json:
    """Totals, calls over time in steps that suit them, the tools and the failures of a period, or
    since a time. Calls of `ot` are the toolbox's own: they count where one of them is asked for."""
    period: Any = payload.get("period") if payload.get("period") in _PERIODS else "week"
    tool = str(payload.get("tool") or "")
    since = str(payload.get("since") or "")
    start = read_since(since, box.now()) if since else None
    chosen: dict[str, Any] = {"tool": tool or None, "hides_ot": not tool}
    overview = box.log.overview(period=period, start=start, **chosen)
    usage = overview.usage
    timeline = box.log.timeline(since=usage.since, until=usage.last_called, **chosen)
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
    labels = span_labels([span.start for span in timeline.spans], timeline.step_s)
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
    for label, span in zip(labels, timeline.spans, strict=True):
        latency = (
            {"p50": span.p50_ms, "p95": span.p95_ms} if span.calls else {"p50": None, "p95": None}
        )
        series.append(
            {"label": label, "ok": span.calls - span.failures, "failed": span.failures, **latency}
        )
    return {
        "period": period,
        "since": since,
        "start": "" if start is None else local_time(start),
        "tool": tool,
        "note": "" if tool else OT_LEFT_OUT,
        "totals": totals,
        "series": series,
        "tools": rows,
        "failures": failures,
        "known": sorted(
            name for name in box.log.counts() if name == tool or not name.startswith(f"{TOOLBOX}.")
        ),
    }
