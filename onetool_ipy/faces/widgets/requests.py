"""The requests of the screens, answered from a toolbox: one method per kind, plain JSON in and out.

`ScreenRequests` knows nothing of widgets or comms: messages come in by `receive`, from any thread, and leave by `send`.
Calls run as jobs; a request that may take long is answered from a thread. Everything that leaves is masked. The tool
browser's requests are answered here, those of the other screens by the modules beside this one.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, OneToolError, Unavailable, UsageProblem
from onetool_ipy.base.frames import is_frame
from onetool_ipy.base.search import Index
from onetool_ipy.core.names import ASK
from onetool_ipy.core.registry import entry_of
from onetool_ipy.core.result import Json, ToolResult
from onetool_ipy.core.tool import BADGES, ToolSpec
from onetool_ipy.faces.widgets.cell_saving import save_tool
from onetool_ipy.faces.widgets.favourites import Favourites
from onetool_ipy.faces.widgets.forms import as_code, as_curl, resolved, with_variables
from onetool_ipy.faces.widgets.health import check_health, lines_around, problem_rows
from onetool_ipy.faces.widgets.http_requests import HttpToolRequests
from onetool_ipy.faces.widgets.server_requests import ServerRequests
from onetool_ipy.faces.widgets.table import TableQuery, query_of
from onetool_ipy.faces.widgets.usage import usage_data
from onetool_ipy.faces.widgets.viewer import ResultViewer
from onetool_ipy.proxies import PackProxy
from onetool_ipy.render.views import local_time
from onetool_ipy.stores.calls.query import CallFilter, CallRow, RunRow
from onetool_ipy.trust_gate import trust_state

if TYPE_CHECKING:
    from onetool_ipy.core.jobs import Job
    from onetool_ipy.faces.widgets.questions import OpenQuestions
    from onetool_ipy.toolbox import Toolbox
    from onetool_ipy.trust_gate import Inventory

MAX_SENT = 2_000
"""Up to so many tools the page searches itself; beyond, it asks."""
_RECOMMENDED = "recommended"
_MAX_ICONS = 64
_MAX_NAMES = 200
_MAX_CALLS = 5_000
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
            "usage": lambda p: usage_data(self._box, p),
        }

    def show_first(self, result: ToolResult) -> None:
        """Set the result that a viewer without a handle shows."""
        self._first = result

    def receive(self, message: Any) -> None:
        """Handle a message; its answer is sent now, or when it is ready."""
        if not isinstance(message, Mapping) or not isinstance(message.get("kind"), str):
            return
        request_id, kind, payload = message.get("id"), message["kind"], message.get("payload")
        options = payload if isinstance(payload, dict) else {}
        if kind in self._slow:
            self._run_later(partial(self._answer, request_id, self._slow[kind], options))
        else:
            self._answer(request_id, self._quick.get(kind, partial(_unknown, kind)), options)

    def _run_later(self, work: Callable[[], None]) -> None:
        """Run work in a thread that ends when it is idle; in this one, where stuck calls leave no room."""
        try:
            self._box.workers.submit(work)
        except Unavailable:
            work()

    def close(self) -> None:
        """Stop answering and cancel running jobs; may be called twice."""
        self._unsubscribe()
        for job in self._jobs.values():
            job.cancel()
        self._jobs.clear()

    def _answer(self, request_id: Any, answer: Callable[[Json], Any], payload: Json) -> None:
        """Send the value or the error of `answer` as the reply to a request."""
        try:
            value = answer(payload)
        except OneToolError as exc:
            message = self._box.mask(f"{exc.message} {exc.hint}".strip())
            self._send({"id": request_id, "error": {"message": message}})
        except Exception as exc:  # noqa: BLE001 - the boundary of this face: the screen must get an answer
            self._send({"id": request_id, "error": {"message": self._box.mask(f"{type(exc).__name__}: {exc}")}})
        else:
            self._send({"id": request_id, "value": value})

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
        names = {spec.name for spec in specs}
        badges = {badge for spec in specs for badge in spec.badges}
        recommended = [_RECOMMENDED] if any(map(self._box.is_recommended, specs)) else []
        return {
            "version": __version__,
            "trust": self._standing(),
            "tools": len(specs),
            "packs": [{"name": name, "count": len(tools)} for name, tools in packs],
            "sources": sorted({spec.source for spec in specs}),
            "tags": [*recommended, *sorted({tag for spec in specs for tag in spec.tags} - {*recommended})],
            "badges": [badge for badge in BADGES if badge in badges],
            "favourites": [name for name in self._favourites.names() if name in names],
            "recent": [name for name in self._box.log.recent_tools(8) if name in names],
        }

    def _trust(self, payload: Json) -> Json:
        """Record the person's yes to the project or to one part of it; return the state of its trust."""
        if payload.get("isTrusted") is True:
            self._box.trust(str(payload.get("part") or ""), shown=self._shown)
        return self._standing()

    def _standing(self) -> Json:
        """The state of the project's trust, to be shown; a yes counts for what was shown last."""
        self._shown = self._box.would_run()
        return trust_state(self._box)

    def _entries(self, _payload: Json) -> Json:
        specs = self._specs()
        if len(specs) > MAX_SENT:
            return {"items": [], "icons": [], "isPartial": True}
        return {**self._listed(specs), "isPartial": False}

    def _listed(self, specs: Iterable[ToolSpec]) -> Json:
        """Entries, and the icons that they name by number: each icon is sent once."""
        items: list[Json] = []
        icons: dict[str, int] = {}
        for spec in specs:
            items.append(self._entry(spec))
            if spec.icon in icons or (spec.icon and len(icons) < _MAX_ICONS):
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
        favourites = set(self._favourites.names())
        specs = [hit.item.value for hit in self._engine().search(query, limit=None)] if query.strip() else self._specs()
        matches = [spec for spec in specs if _fits(spec, self._badges(spec), filters, favourites)]
        return {**self._listed(matches[:limit]), "total": len(matches)}

    def _engine(self) -> Index:
        specs = self._box.registry.known()
        if self._index is None or self._index[0] != len(specs):
            self._index = (len(specs), Index(entry_of(spec) for spec in specs))
        return self._index[1]

    def _spec(self, payload: Json) -> ToolSpec:
        """Return the tool that a form is for, with the schema of its code: the pack is imported."""
        (spec,) = self._box.registry.loaded([self._box.registry.require(_text(payload, "name"))])
        return spec

    def _tool(self, payload: Json) -> Json:
        spec = self._spec(payload)
        row = next((r for r in self._box.log.usage(period="all", tool=spec.name).tools), None)
        page = {
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
        masked: Json = values.map_text(page, self._box.mask)
        return masked

    def _check(self, payload: Json) -> Json:
        spec, args = self._call_of(payload)
        code = {kind: self._box.mask(text) for kind, text in as_code(spec, args, self._namespace()).items()}
        try:
            arguments = spec.checker.check(resolved(args, self._namespace()), spec.name)
            if spec.preview is not None:
                code["curl"] = self._box.mask(as_curl(spec.preview(arguments)))
        except CallFailure as exc:
            details = exc.details if isinstance(exc.details, list) else [{"pointer": "", "message": exc.message}]
            errors = values.map_text(values.to_json(details), self._box.mask)
            return {"errors": errors, "code": code}
        except UsageProblem as exc:
            return {"errors": [{"pointer": "", "message": f"{exc.message} {exc.hint}"}], "code": code}
        return {"errors": [], "code": code}

    def _call_of(self, payload: Json) -> tuple[ToolSpec, Json]:
        spec = self._spec(payload)
        args = payload.get("args")
        if not isinstance(args, dict):
            raise UsageProblem("The arguments are an object.")
        return spec, with_variables(args, spec.parameters)

    def _variables(self, _payload: Json) -> Json:
        """The notebook's variables for `=name` in a field, newest first."""
        items = [
            {"name": name, "kind": type(value).__name__}
            for name, value in reversed(tuple(self._namespace().items()))
            if not name.startswith("_") and _is_datum(name, value)
        ]
        return {"items": items[:_MAX_NAMES]}

    def _run(self, payload: Json) -> Json:
        spec, args = self._call_of(payload)
        job = self._box.start(spec.name, resolved(args, self._namespace()), source="widget", notify=self._on_job)
        self._jobs[job.call.id] = job
        # A job that ended before it was stored here was not reported.
        if job.status not in ("queued", "running"):
            self._on_job(job)
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
            progress = {"done": done, "total": total, "text": self._box.mask(values.cut(text, 200))}
            self._send({"event": "job", "job": key, "status": status, "progress": progress})
            return
        if self._jobs.pop(key, None) is None:
            return
        self._sent_at.pop(key, None)
        self._run_later(partial(self._send_result, job))

    def _send_result(self, job: Job) -> None:
        result = self._viewer.show(job.result(0))
        self._send({"event": "job", "job": job.call.id, "status": job.status, "result": result})

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
        offset, limit = max(0, int(payload.get("offset") or 0)), min(int(payload.get("limit") or 100), _MAX_CALLS)
        query = CallFilter(
            ok=False if payload.get("isFailed") else None,
            text=str(payload.get("query") or "")[:200],
            run=str(payload["run"]) if payload.get("run") else None,
            hides_ot=True,
        )
        rows = self._box.log.lines(query, offset=offset, limit=limit + 1)
        return {"items": [self._past(row) for row in rows[:limit]], "hasMore": len(rows) > limit}

    def _past(self, row: CallRow | RunRow) -> Json:
        if isinstance(row, RunRow):
            duration_ms = (row.ts - row.began).total_seconds() * 1000
            run = {"id": row.run, "run": row.run, "tool": row.tool, "rows": row.rows, "failures": row.failures}
            return {**run, "ok": not row.failures, "ms": duration_ms, "when": local_time(row.ts)}
        spec = self._box.registry.find(row.tool)
        summary = row.args if row.ok else f"{row.message or row.code} · {row.args}"
        return {
            "id": row.call_id,
            "tool": row.tool,
            "isAsk": row.tool == ASK,
            "readOnly": spec is not None and spec.read_only,
            "ok": row.ok,
            "ms": row.ms,
            "when": local_time(row.ts),
            "summary": self._box.mask(values.cut(summary, 200)),
            "args": None if row.arguments is None else values.map_text(values.to_json(row.arguments), self._box.mask),
        }

    def _results(self, _payload: Json) -> Json:
        items = []
        for row in self._box.results.list()[:200]:
            size = "in memory" if row["bytes"] is None else f"{row['lines']:,} lines, {row['bytes']:,} bytes"
            items.append(
                {"handle": row["handle"], "tool": row["tool"], "when": local_time(row["created"]), "summary": size}
            )
        return {"items": items}


def report(box: Toolbox) -> Json:
    """The state of the project, as far as it is known; no server is started for it."""
    box.gate.refresh()
    box.registry.refresh()
    specs = box.registry.known()
    names = repr([(spec.name, bool(spec.disabled)) for spec in specs])
    servers = {name: {"state": state, "reason": box.servers.reason(name)} for name, state in box.servers.items()}
    return {
        "version": __version__,
        "project": str(box.config.paths.project),
        "trust": trust_state(box),
        "tools": len(specs),
        "fingerprint": blake2b(names.encode()).hexdigest()[:16],
        "problems": problem_rows(box),
        "servers": servers,
    }


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
    is_rows = isinstance(value, list) or is_frame(value)
    noun = "row" if is_rows else "character" if isinstance(value, str) else "item"
    return f", {len(value):,} {noun}{'' if len(value) == 1 else 's'}"


def _columns(payload: Json) -> list[int]:
    """The visible columns of a table, by their places."""
    return [int(column) for column in payload["visible"]]


def _fits(spec: ToolSpec, badges: Iterable[str], filters: Mapping[str, Any], favourites: set[str]) -> bool:
    return (
        (not filters.get("pack") or spec.pack == filters["pack"])
        and (not filters.get("source") or spec.source == filters["source"])
        and (not filters.get("tag") or filters["tag"] in (*spec.tags, *badges))
        and (not filters.get("isFavourite") or spec.name in favourites)
    )
