"""The requests of the screens, answered from a toolbox: one method per kind, plain JSON in and out.

`ScreenRequests` knows nothing of widgets or comms: messages come in by `receive`, from any thread, and leave by `send`.
Calls run as jobs; a request that may take long is answered from a thread. Everything that leaves is masked. Also here:
the usage view's data, the favourites of a project (a small file in its state folder), and saving a cell as a pack file.

`ServerRequests` are those of the servers screen. The health screen shows the lines of a file around a problem: only of
files that a problem names, never of a secrets file, since what is wrong there may be a secret that no mask knows.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import time
import types
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import TRUST_IT, CallFailure, OneToolError, Unavailable, UsageProblem
from onetool_ipy.base.files import StoreError, locked, make_folder, write_whole
from onetool_ipy.base.frames import is_frame
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.search import Index
from onetool_ipy.core.registry import entry_of
from onetool_ipy.core.result import Json, ToolResult
from onetool_ipy.core.tool import BADGES, Problem, ToolSpec
from onetool_ipy.faces.server_setup import ServerSetup, read_pasted
from onetool_ipy.faces.widgets.forms import as_code, as_curl, resolved, with_variables
from onetool_ipy.faces.widgets.http_requests import HttpToolRequests
from onetool_ipy.faces.widgets.table import TableQuery, query_of
from onetool_ipy.faces.widgets.viewer import ResultViewer
from onetool_ipy.packs.ot.health import PATIENCE_S, missing
from onetool_ipy.proxies import PackProxy
from onetool_ipy.render.views import duration, local_time, span_labels
from onetool_ipy.stores.calls.query import CallFilter, CallRow, RunRow, UsageSpan
from onetool_ipy.trust_gate import trust_state

if TYPE_CHECKING:
    from onetool_ipy.core.jobs import Job
    from onetool_ipy.faces.widgets.questions import OpenQuestions
    from onetool_ipy.toolbox import Toolbox
    from onetool_ipy.trust_gate import Inventory

__all__ = [
    "MOST_SENT",
    "Favourites",
    "ScreenRequests",
    "ServerRequests",
    "check_health",
    "lines_around",
    "problems_shown",
    "report",
    "save_tool",
    "usage_shown",
]


_FORMAT = 1
_MOST = 500
_MOST_ICONS = 64


class Favourites:
    """The favourite tools of a project, in the order they were chosen: `{"format": 1, "tools": [names]}` in its state.

    A plain list, as first versions wrote it, is read too. A damaged file counts as empty and is replaced; a file of a
    later format is neither read nor written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def names(self) -> list[str]:
        found = self._read()
        names = found.get("tools") if isinstance(found, dict) and not _is_newer(found) else found
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def set(self, name: str, *, is_on: bool) -> list[str]:
        """Add or remove a name; return all of them. Raises StoreError if a later version wrote the file."""
        with locked(self._file.with_suffix(".lock")):
            if _is_newer(self._read()):
                why = "a later version wrote it in a format that this one does not know"
                raise StoreError(self._file, why, hint="Update onetool-ipy, or delete the file.")
            names = [known for known in self.names() if known != name]
            names += [name] if is_on else []
            text = json.dumps({"format": _FORMAT, "tools": names[-_MOST:]}, ensure_ascii=False)
            write_whole(self._file, text.encode())
        return names

    def _read(self) -> Any:
        try:
            return json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None


def _is_newer(found: Any) -> bool:
    number = found.get("format") if isinstance(found, dict) else None
    return isinstance(number, int) and number > _FORMAT


_PERIODS = ("day", "week", "month", "all")


def usage_shown(box: Toolbox, payload: Json) -> Json:
    """Totals, the calls over time in steps that suit them, the tools and the failures of a period."""
    period: Any = payload.get("period") if payload.get("period") in _PERIODS else "week"
    tool = str(payload.get("tool") or "")
    seen = box.log.overview(period=period, tool=tool or None)
    used, saved = seen.usage, seen.savings(box.config.settings.stats)
    rate = "–" if used.success_rate is None else f"{used.success_rate:.1f} %"
    totals = [
        {"label": "call" if used.total_calls == 1 else "calls", "value": f"{used.total_calls:,}"},
        {"label": "failed", "value": f"{used.failures:,}"},
        {"label": "succeeded", "value": rate},
    ]
    if saved.formula:
        totals.append({"label": "tokens saved (estimate)", "value": f"{saved.context_saved:,}"})
        totals.append({"label": "time saved (estimate)", "value": duration(saved.time_saved_ms)})
    failures = [
        {
            "tool": group.tool,
            "message": box.mask(group.message),
            "calls": group.calls,
            "last_called": local_time(group.last_called),
        }
        for group in seen.failures[:50]
    ]
    labels = span_labels([span.start for span in seen.timeline.spans], seen.timeline.step_s)
    series = [_step(label, span) for label, span in zip(labels, seen.timeline.spans, strict=True)]
    rows = [
        {
            "tool": row.tool,
            "calls": row.calls,
            "failures": row.failures,
            "avg_ms": row.avg_ms,
            "p95_ms": row.p95_ms,
            "last_called": local_time(row.last_called),
        }
        for row in used.tools[:200]
    ]
    known = sorted(box.log.counts())
    shown = {"period": period, "tool": tool, "totals": totals, "formula": saved.formula, "series": series}
    return {**shown, "tools": rows, "failures": failures, "known": known}


def _step(label: str, span: UsageSpan) -> Json:
    if not span.calls:
        return {"label": label, "ok": 0, "failed": 0, "p50": None, "p95": None}
    ok = span.calls - span.failures
    return {"label": label, "ok": ok, "failed": span.failures, "p50": span.p50_ms, "p95": span.p95_ms}


MOST_SENT = 2_000
"""Up to so many tools the module searches itself; beyond, it asks."""
_RECOMMENDED = "recommended"
_MOST_NAMES = 200
_MOST_CALLS = 5_000
_EVERY_S = 0.1


class ScreenRequests:
    """Answers the requests of one screen. `first` is its first state, `namespace` returns the notebook's variables."""

    def __init__(
        self,
        box: Toolbox,
        *,
        send: Callable[[Json], None],
        namespace: Callable[[], dict[str, Any]],
        first: Json | None = None,
        questions: OpenQuestions | None = None,
    ) -> None:
        self._box = box
        self._send = send
        self._namespace = namespace
        self._viewer = ResultViewer(box)
        self._servers = ServerRequests(box)
        self._http = HttpToolRequests(box, self._viewer)
        self._favourites = Favourites(box.config.paths.state / "favourites.json")
        self._jobs: dict[str, Job] = {}
        self._sent_at: dict[str, float] = {}
        self._index: tuple[Any, Index] | None = None
        self._opening = first or {"view": "browser", "options": {}}
        self._quick: dict[str, Callable[[Json], Any]] = {
            "view": lambda _payload: values.map_text(values.to_json(self._opening), self._box.mask),
            "variables": self._variables,
            "overview": self._overview,
            "entries": self._entries,
            "search": self._search,
            "tool": self._tool,
            "check": self._check,
            "run": self._run,
            "cancel": self._cancel,
            "favourite": self._favourite,
            "trust": self._trust,
            "report": lambda _payload: {**report(self._box), "questions": questions.listed() if questions else []},
            "saveTool": lambda p: save_tool(self._box, str(p.get("name") or ""), str(p.get("source") or "")),
        }
        if questions is not None:
            self._quick |= {"questionSeen": questions.seen, "answer": questions.answer}
        self._slow = self._slow_kinds()
        self._first: ToolResult | None = None
        self._shown: Inventory | None = None
        self._unsubscribe = box.subscribe(changed=self._changed)

    def _slow_kinds(self) -> dict[str, Callable[[Json], Any]]:
        """The requests that are answered from a thread."""
        return {
            "open": lambda p: self._viewer.open(_text(p, "handle")) if p.get("handle") else self._open_first(),
            "page": lambda p: self._viewer.page(**_result_id(p), offset=int(p["offset"]), limit=int(p["limit"])),
            "find": lambda p: self._viewer.find(
                **_result_id(p), pattern=_text(p, "pattern"), is_fuzzy=bool(p.get("isFuzzy"))
            ),
            "table": lambda p: self._viewer.table(
                query_of(p), **_result_id(p), offset=int(p["offset"]), limit=int(p["limit"])
            ),
            "summary": lambda p: self._viewer.summary(query_of(p), **_result_id(p), column=int(p["column"])),
            "copied": lambda p: self._viewer.copied(
                query_of(p), **_result_id(p), first=int(p["first"]), last=int(p["last"]), columns=_columns(p)
            ),
            "download": lambda p: self._viewer.download(
                query_of(p), **_result_id(p), columns=_columns(p), kind=_text(p, "format")
            ),
            "part": lambda p: self._viewer.part(**_result_id(p), offset=int(p["offset"])),
            "tree": lambda p: self._viewer.tree(
                **_result_id(p), path=list(p.get("path") or []), offset=int(p["offset"]), limit=int(p["limit"])
            ),
            "image": lambda p: self._viewer.image(**_result_id(p)),
            "assign": self._assign,
            "servers": lambda _payload: self._servers.list(),
            "server": lambda p: self._servers.act(_text(p, "name"), _text(p, "action")),
            "serverLogs": lambda p: self._servers.logs(_text(p, "name")),
            "addServer": lambda p: self._servers.add(
                _text(p, "text"), str(p.get("name") or "").strip(), is_saved=bool(p.get("isSaved"))
            ),
            "problemLines": lambda p: lines_around(self._box, _text(p, "where")),
            "health": lambda _payload: check_health(self._box),
            "httpTool": self._http.start,
            "httpCurl": self._http.read_curl,
            "httpSecret": self._http.keep_secret,
            "httpSend": self._http.send,
            "httpSelect": self._http.select,
            "httpSave": self._http.save,
            "history": self._history,
            "results": self._results,
            "usage": lambda p: usage_shown(self._box, p),
        }

    def show_first(self, result: ToolResult) -> None:
        """Set the result that a viewer without a handle shows."""
        self._first = result

    def receive(self, message: Any) -> None:
        """Handle a message; its answer is sent now, or when it is ready."""
        if not isinstance(message, Mapping) or not isinstance(message.get("kind"), str):
            return
        asked, kind, payload = message.get("id"), message["kind"], message.get("payload")
        given = payload if isinstance(payload, dict) else {}
        if kind in self._slow:
            self._run_later(partial(self._answer, asked, self._slow[kind], given))
        else:
            self._answer(asked, self._quick.get(kind, partial(_unknown, kind)), given)

    def _run_later(self, work: Callable[[], None]) -> None:
        """Run work in a thread that ends when it is idle; in this one, where stuck calls leave no room."""
        try:
            self._box.workers.submit(work, "free")
        except Unavailable:
            work()

    def close(self) -> None:
        """Stop answering and cancel running jobs; may be called twice."""
        self._unsubscribe()
        for job in self._jobs.values():
            job.cancel()
        self._jobs.clear()

    def _answer(self, asked: Any, answer: Callable[[Json], Any], payload: Json) -> None:
        """Send the value or the error of `answer` as the reply to the message with the id `asked`."""
        try:
            value = answer(payload)
        except OneToolError as exc:
            said = self._box.mask(f"{exc.message} {exc.hint}".strip())
            self._send({"id": asked, "error": {"message": said}})
        except Exception as exc:  # noqa: BLE001 - the boundary of this face: the screen must get an answer
            self._send({"id": asked, "error": {"message": self._box.mask(f"{type(exc).__name__}: {exc}")}})
        else:
            self._send({"id": asked, "value": value})

    def _changed(self) -> None:
        self._index = None
        self._send({"event": "changed"})

    def _specs(self) -> list[ToolSpec]:
        return sorted(self._box.registry.known(), key=self._box.place_of)

    def _overview(self, _payload: Json) -> Json:
        self._box.gate.refresh()
        self._box.servers.prepare(wait=False)
        self._box.registry.refresh()
        packs = sorted(self._box.registry.known_packs().items(), key=lambda pack: min(map(self._box.place_of, pack[1])))
        specs = self._specs()
        known = {spec.name for spec in specs}
        badges = {badge for spec in specs for badge in spec.badges}
        recommended = [_RECOMMENDED] if any(map(self._box.is_recommended, specs)) else []
        return {
            "version": __version__,
            "trust": self._standing(),
            "tools": len(specs),
            "packs": [{"name": name, "count": len(found)} for name, found in packs],
            "sources": sorted({spec.source for spec in specs}),
            "tags": [*recommended, *sorted({tag for spec in specs for tag in spec.tags} - {*recommended})],
            "badges": [badge for badge in BADGES if badge in badges],
            "favourites": [name for name in self._favourites.names() if name in known],
            "recent": [name for name in self._box.log.recent_tools(8) if name in known],
        }

    def _trust(self, payload: Json) -> Json:
        """Record the person's yes to the project or to one server; return the state of its trust."""
        if payload.get("isTrusted") is True:
            self._box.trust(str(payload.get("server") or ""), shown=self._shown)
        return self._standing()

    def _standing(self) -> Json:
        """The state of the project's trust, to be shown; a yes counts for what was shown last."""
        self._shown = self._box.would_run()
        return trust_state(self._box)

    def _entries(self, _payload: Json) -> Json:
        specs = self._specs()
        if len(specs) > MOST_SENT:
            return {"items": [], "icons": [], "isPartial": True}
        return {**self._listed(specs), "isPartial": False}

    def _listed(self, specs: Iterable[ToolSpec]) -> Json:
        """Entries, and the icons that they name by number: each icon is sent once."""
        items: list[Json] = []
        icons: dict[str, int] = {}
        for spec in specs:
            items.append(self._entry(spec))
            if spec.icon in icons or (spec.icon and len(icons) < _MOST_ICONS):
                items[-1]["icon"] = icons.setdefault(spec.icon, len(icons))
        return {"items": items, "icons": list(icons)}

    def _entry(self, spec: ToolSpec) -> Json:
        entry = entry_of(spec)
        mask = self._box.mask
        return {
            "name": spec.name,
            "pack": spec.pack,
            "source": spec.source,
            "tags": list(spec.tags),
            "badges": self._badges(spec),
            "summary": mask(values.cut(spec.summary, 200)),
            "description": mask(spec.description[:600]),
            "arguments": list(entry.arguments),
            "disabled": bool(spec.disabled),
        }

    def _badges(self, spec: ToolSpec) -> list[str]:
        return [_RECOMMENDED, *spec.badges] if self._box.is_recommended(spec) else list(spec.badges)

    def _search(self, payload: Json) -> Json:
        query, limit = str(payload.get("query") or ""), int(payload.get("limit") or 100)
        filters = payload.get("filters") or {}
        starred = set(self._favourites.names())
        found = [hit.item.value for hit in self._engine().search(query, limit=None)] if query.strip() else self._specs()
        fitting = [spec for spec in found if _fits(spec, self._badges(spec), filters, starred)]
        return {**self._listed(fitting[:limit]), "total": len(fitting)}

    def _engine(self) -> Index:
        specs = self._box.registry.known()
        if self._index is None or self._index[0] != len(specs):
            self._index = (len(specs), Index(entry_of(spec) for spec in specs))
        return self._index[1]

    def _tool(self, payload: Json) -> Json:
        spec = self._box.registry.require(_text(payload, "name"))
        row = next((r for r in self._box.log.usage(period="all", tool=spec.name).tools), None)
        found = {
            "name": spec.name,
            "signature": spec.signature,
            "description": spec.description,
            "parameters": values.to_json(spec.parameters),
            "returns": spec.returns,
            "example": spec.example,
            "source": spec.source,
            "tags": list(spec.tags),
            "title": spec.title,
            "icon": spec.icon,
            "readOnly": spec.read_only,
            "badges": self._badges(spec),
            "disabled": spec.disabled,
            "where": spec.where,
            "usage": {"calls": row.calls, "failures": row.failures, "avgMs": row.avg_ms} if row else {"calls": 0},
            "isFavourite": spec.name in self._favourites.names(),
        }
        masked: Json = values.map_text(found, self._box.mask)
        return masked

    def _check(self, payload: Json) -> Json:
        spec, args = self._asked(payload)
        code = {kind: self._box.mask(text) for kind, text in as_code(spec, args, self._namespace()).items()}
        try:
            given = resolved(args, self._namespace())
            checked = spec.checker.check(given, spec.name)
            if spec.preview is not None:
                code["curl"] = self._box.mask(as_curl(spec.preview(checked)))
        except CallFailure as exc:
            details = exc.details if isinstance(exc.details, list) else [{"pointer": "", "message": exc.message}]
            errors = values.map_text(values.to_json(details), self._box.mask)
            return {"errors": errors, "code": code}
        except UsageProblem as exc:
            return {"errors": [{"pointer": "", "message": f"{exc.message} {exc.hint}"}], "code": code}
        return {"errors": [], "code": code}

    def _asked(self, payload: Json) -> tuple[ToolSpec, Json]:
        spec = self._box.registry.require(_text(payload, "name"))
        args = payload.get("args")
        if not isinstance(args, dict):
            raise UsageProblem("The arguments are an object.")
        return spec, with_variables(args, spec.parameters)

    def _variables(self, _payload: Json) -> Json:
        """The notebook's variables for `=name` in a field, newest first."""
        found = [
            {"name": name, "kind": type(value).__name__}
            for name, value in reversed(tuple(self._namespace().items()))
            if not name.startswith("_") and _is_datum(name, value)
        ]
        return {"items": found[:_MOST_NAMES]}

    def _run(self, payload: Json) -> Json:
        spec, args = self._asked(payload)
        given = resolved(args, self._namespace())
        job = self._box.start(spec.name, given, source="widget", notify=self._on_job)
        self._jobs[job.call.id] = job
        if job.status not in ("queued", "running"):
            self._on_job(job)  # it ended before we stored it
        return {"job": job.call.id}

    def _on_job(self, job: Job) -> None:
        """Send progress at most ten times a second, and the end."""
        key = job.call.id
        status = job.status
        if status in ("queued", "running"):
            now = time.monotonic()
            if now - self._sent_at.get(key, 0.0) < _EVERY_S:
                return
            self._sent_at[key] = now
            done, total, text = job.progress
            said = {"done": done, "total": total, "text": self._box.mask(values.cut(text, 200))}
            self._send({"event": "job", "job": key, "status": status, "progress": said})
            return
        if self._jobs.pop(key, None) is None:
            return
        self._sent_at.pop(key, None)
        self._run_later(partial(self._ended, job))

    def _ended(self, job: Job) -> None:
        shown = self._viewer.show(job.result(0))
        self._send({"event": "job", "job": job.call.id, "status": job.status, "result": shown})

    def _cancel(self, payload: Json) -> Json:
        job = self._jobs.get(_text(payload, "job"))
        if job is None:
            return {"isCancelled": False}
        return {"isCancelled": job.cancel()}

    def _favourite(self, payload: Json) -> Json:
        return {"favourites": self._favourites.set(_text(payload, "name"), is_on=bool(payload.get("isOn")))}

    def _assign(self, payload: Json) -> Json:
        name = _text(payload, "variable")
        if not name.isidentifier():
            raise UsageProblem(f"'{name[:40]}' is not a valid variable name.", hint="Use letters, digits and _.")
        result_id = _result_id(payload)
        value = self._viewer.value(**result_id)
        query = query_of(payload)
        if query != TableQuery():
            value = self._viewer.found(query, **result_id)
        self._namespace()[name] = value
        return {"said": f"{name}: {type(value).__name__}{_length(value)}"}

    def _open_first(self) -> Json:
        if self._first is None:
            raise UsageProblem("There is no result to show.")
        return self._viewer.show(self._first)

    def _history(self, payload: Json) -> Json:
        """A page of the calls; those of one run, if it is named."""
        offset, limit = max(0, int(payload.get("offset") or 0)), min(int(payload.get("limit") or 100), _MOST_CALLS)
        wanted = CallFilter(
            ok=False if payload.get("isFailed") else None,
            text=str(payload.get("query") or "")[:200],
            run=str(payload["run"]) if payload.get("run") else None,
            hides_ot=True,
        )
        found = self._box.log.lines(wanted, offset=offset, limit=limit + 1)
        return {"items": [self._past(row) for row in found[:limit]], "hasMore": len(found) > limit}

    def _past(self, row: CallRow | RunRow) -> Json:
        if isinstance(row, RunRow):
            took = (row.ts - row.began).total_seconds() * 1000
            told = {"id": row.run, "run": row.run, "tool": row.tool, "rows": row.rows, "failures": row.failures}
            return {**told, "ok": not row.failures, "ms": took, "when": local_time(row.ts)}
        spec = self._box.registry.find(row.tool)
        said = row.args if row.ok else f"{row.message or row.code} · {row.args}"
        return {
            "id": row.call_id,
            "tool": row.tool,
            "readOnly": spec is not None and spec.read_only,
            "ok": row.ok,
            "ms": row.ms,
            "when": local_time(row.ts),
            "summary": self._box.mask(values.cut(said, 200)),
            "args": None if row.arguments is None else values.map_text(values.to_json(row.arguments), self._box.mask),
        }

    def _results(self, _payload: Json) -> Json:
        found = []
        for row in self._box.results.list()[:200]:
            size = "in memory" if row["bytes"] is None else f"{row['lines']:,} lines, {row['bytes']:,} bytes"
            told = {"handle": row["handle"], "tool": row["tool"], "when": local_time(row["created"]), "summary": size}
            found.append(told)
        return {"items": found}


def report(box: Toolbox) -> Json:
    """The state of the project, as far as it is known; no server is started for it."""
    box.gate.refresh()
    box.registry.refresh()
    specs = box.registry.known()
    listed = repr([(spec.name, bool(spec.disabled)) for spec in specs])
    servers = {name: {"state": state, "reason": box.servers.reason(name)} for name, state in box.servers.items()}
    return {
        "version": __version__,
        "project": str(box.config.paths.project),
        "trust": trust_state(box),
        "tools": len(specs),
        "fingerprint": blake2b(listed.encode()).hexdigest()[:16],
        "problems": problems_shown(box),
        "servers": servers,
    }


_PACK_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def save_tool(box: Toolbox, name: str, source: str) -> Json:
    """Write a cell as the pack file `name` of the project, and load it; a file that exists is never overwritten."""
    if not _PACK_NAME.fullmatch(name):
        raise UsageProblem(f"'{name[:40]}' is not a valid pack name.", hint="Use small letters, digits and _.")
    public = _functions(source)
    paths = box.config.paths
    folder = (paths.onetool_dir or paths.project / ".onetool") / "tools"
    file = folder / f"{name}.py"
    if os.path.lexists(file) or box.registry.pack(name) is not None:
        raise UsageProblem(f"There is a pack '{name}' already.", hint="Choose another name.")
    make_folder(folder)
    write_whole(file, (source.rstrip() + "\n").encode(), mode=0o644)
    box.reload()
    found = [spec.name for spec in box.registry.pack(name) or ()]
    if not found:
        problems = [each for each in box.problems() if Path(each.where).name.startswith(file.name)]
        said = problems[0].message if problems else f"it has no tool; its functions: {', '.join(public)}"
        raise UsageProblem(f"The file {file} was written, but {said}", hint="Edit the file, then: %tool reload")
    return {"tools": found, "file": str(file)}


def _functions(source: str) -> list[str]:
    """The public functions of a cell, which must be plain Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        line = f" (line {exc.lineno})" if isinstance(exc, SyntaxError) and exc.lineno else ""
        said = f"The cell is not plain Python{line}: magics and ! cannot be saved."
        raise UsageProblem(said, hint="Keep only imports and functions in it.") from None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    if not found:
        raise UsageProblem("The cell has no function that could be a tool.", hint="Write: def my_tool(text: str) ...")
    return found


def _is_datum(name: str, value: Any) -> bool:
    is_shells = name in ("In", "Out", "exit", "quit", "open", "get_ipython", "ot")
    return not is_shells and not callable(value) and not isinstance(value, (types.ModuleType, PackProxy))


def _unknown(kind: str, _payload: Json) -> Json:
    raise UsageProblem(f"Unknown request '{kind[:40]}'.")


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    if not isinstance(value, str):
        raise UsageProblem(f"'{key}' is missing.")
    return value


def _result_id(payload: Json) -> dict[str, str | None]:
    handle, call = payload.get("handle"), payload.get("call")
    return {"handle": handle if isinstance(handle, str) else None, "call": call if isinstance(call, str) else None}


def _length(value: Any) -> str:
    """The length of a value in words, or an empty text."""
    if not hasattr(value, "__len__"):
        return ""
    noun = "row" if is_frame(value) or isinstance(value, list) else "character" if isinstance(value, str) else "item"
    return f", {len(value):,} {noun}{'' if len(value) == 1 else 's'}"


def _columns(payload: Json) -> list[int]:
    """The visible columns of a table, by their places."""
    return [int(column) for column in payload["visible"]]


def _fits(spec: ToolSpec, badges: Iterable[str], filters: Mapping[str, Any], starred: set[str]) -> bool:
    return (
        (not filters.get("pack") or spec.pack == filters["pack"])
        and (not filters.get("source") or spec.source == filters["source"])
        and (not filters.get("tag") or filters["tag"] in (*spec.tags, *badges))
        and (not filters.get("isFavourite") or spec.name in starred)
    )


# --- the servers screen ---------------------------------------------------------------------------


_MOST_LOGS = 100_000
_STARTING = ("start", "restart", "signIn")


class ServerRequests:
    """Answers the servers screen of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._setup = ServerSetup(box)

    def list(self) -> Json:
        """Every server: what it is, how it is, why, and how many tools it has. Starts nothing."""
        servers, packs = self._box.servers, self._box.registry.known_packs()
        added = servers.added()
        items = []
        for name, state in servers.items():
            definition = servers.definition(name)
            listing = servers.listing(name)
            address = definition.url or shlex.join((definition.command, *definition.args))
            items.append(
                {
                    "name": name,
                    "type": definition.type,
                    "state": state,
                    "reason": self._box.mask(servers.reason(name)),
                    "address": values.cut(self._box.mask(address), 300),
                    "tools": [spec.name for spec in packs.get(name, ()) if spec.server == name],
                    "isSaved": name not in added,
                    "signsIn": definition.signs_in,
                    "icon": "" if listing is None else listing.icon,
                }
            )
        return {"items": items}

    def act(self, name: str, action: str) -> Json:
        """Do one thing with a server; says what was done. A sign-in gives the address to visit."""
        servers = self._box.servers
        self._require(name)
        if action in _STARTING and not servers.is_allowed(name):
            raise UsageProblem(f"'{name}' is not trusted yet.", hint="Trust it in the Tools view, or run: %tool trust")
        if action == "signIn":
            link = servers.sign_in(name)
            return {"url": self._box.mask(link.url)}
        if action == "signOut":
            servers.sign_out(name)
            return {"said": f"You are signed out of {name}, in all notebooks."}
        if action == "remove":
            return {"said": self._setup.remove(name)}
        if action not in ("start", "stop", "restart"):
            raise UsageProblem(f"A server cannot '{action[:40]}'.")
        state = getattr(servers, action)(name)
        return {"said": f"{name} is {state}."}

    def logs(self, name: str) -> Json:
        """What a server wrote to stderr, the last of it."""
        self._require(name)
        return {"text": self._box.mask(self._box.servers.logs(name))[-_MOST_LOGS:]}

    def add(self, text: str, name: str, *, is_saved: bool) -> Json:
        """Add what a person pasted: a command line, an address, or JSON."""
        return {"said": "\n".join(self._setup.add(read_pasted(text, name), is_saved=is_saved))}

    def _require(self, name: str) -> None:
        if name not in self._box.servers:
            raise UsageProblem(f"No server '{name[:40]}'.", hint="Refresh the list.")


# --- the health screen ----------------------------------------------------------------------------


_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<line>\d{1,7}))?", re.DOTALL)
_COMMAND = re.compile(r"Run: (.+)")
_MAX_FILE = 1 << 20
_AROUND = 3
_SECRETS = "secrets.yaml"


def problems_shown(box: Toolbox) -> list[Json]:
    """Every problem: `{where, message, hint, action}`. The action does what the hint says; None if a person must."""
    return [_shown(box, each) for each in box.problems()]


def check_health(box: Toolbox) -> Json:
    """Start and test every server, for a few seconds, and list what tools need and is not installed: `{missing}`."""
    box.gate.refresh()
    box.servers.check(PATIENCE_S)
    return {"missing": [_shown(box, each) for each in missing(box)]}


def _shown(box: Toolbox, problem: Problem) -> Json:
    return {
        "where": problem.where,
        "message": problem.message,
        "hint": problem.hint,
        "action": _action(box, problem),
    }


def lines_around(box: Toolbox, where: str) -> Json:
    """The lines of the file that a present problem names, around its line: `{first, line, lines}`."""
    if where not in {each.where for each in box.problems()}:
        raise UsageProblem("This problem is gone.", hint="Refresh the list.")
    path, line = _place_of(box, where) or (None, None)
    if path is None or line is None or path.name == _SECRETS or path.stat().st_size > _MAX_FILE:
        return {"first": 1, "line": 0, "lines": []}
    text = path.read_text(encoding="utf-8", errors="replace").split("\n")
    first = max(1, line - _AROUND)
    shown = text[first - 1 : line + _AROUND]
    return {"first": first, "line": line, "lines": [printable_line(box.mask(values.cut(each, 300))) for each in shown]}


def _action(box: Toolbox, problem: Problem) -> Json | None:
    if problem.hint == TRUST_IT:
        return {"kind": "trust", "label": "Trust"}
    if problem.server and problem.server in box.servers:
        state = dict(box.servers.items())[problem.server]
        if state == "signed out":
            return {"kind": "server", "label": "Sign in", "server": problem.server, "action": "signIn"}
        if state == "untrusted":
            return {"kind": "trust", "label": "Trust"}
        if state != "connected":
            return {"kind": "server", "label": "Restart", "server": problem.server, "action": "restart"}
    if command := _COMMAND.fullmatch(problem.hint):
        return {"kind": "copy", "label": "Copy", "text": command[1]}
    if place := _place_of(box, problem.where):
        return {"kind": "open", "label": "Open", "path": str(place[0]), "line": place[1]}
    return None


def _place_of(box: Toolbox, where: str) -> tuple[Path, int | None] | None:
    """The file and the line in `where`; None if it names no plain file."""
    found = _PLACE.fullmatch(where)
    try:
        path = box.config.paths.project / Path(found["path"]).expanduser() if found else None
        if found is None or path is None or not path.is_file():
            return None
    except (OSError, ValueError, RuntimeError):  # such as a NUL, or an unknown user's home
        return None
    return path, int(found["line"]) if found["line"] else None
