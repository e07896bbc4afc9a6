"""What the `ui` module asks, answered from a toolbox: one method per kind of request, plain JSON in and out.

Knows nothing of widgets or comms: messages come in by `receive`, from any thread, and go out by `send`. Calls run as
jobs; what may take long is answered from a thread. Everything that leaves is masked.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__
from onetool_ipy.core import values
from onetool_ipy.core.errors import CallFailure, OneToolError, UsageProblem
from onetool_ipy.core.match import Index, entry_of
from onetool_ipy.core.model import Json, ToolResult, ToolSpec
from onetool_ipy.faces.trust_words import trust_of
from onetool_ipy.faces.widgets.favourites import Favourites
from onetool_ipy.faces.widgets.usage import usage_shown
from onetool_ipy.faces.widgets.viewing import Viewing
from onetool_ipy.faces.widgets.wording import as_code, as_curl, resolved, with_variables
from onetool_ipy.proxies import PackProxy

if TYPE_CHECKING:
    from onetool_ipy.core.jobs import Job
    from onetool_ipy.sources.inventory import Inventory
    from onetool_ipy.toolbox import Toolbox

__all__ = ["Desk"]

_MOST_FOUND = 500
"""A query gives at most this many tools."""
_MOST_NAMES = 200
_EVERY_S = 0.1


class Desk:
    """Answers one view of a toolbox, which begins with `first`. `namespace` gives the notebook's variables."""

    def __init__(
        self,
        box: Toolbox,
        *,
        send: Callable[[Json], None],
        namespace: Callable[[], dict[str, Any]],
        keep: Callable[[ToolResult], str],
        first: Json | None = None,
    ) -> None:
        self._box = box
        self._send = send
        self._namespace = namespace
        self._viewing = Viewing(box, keep)
        self._favourites = Favourites(box.config.paths.state / "favourites.json")
        self._jobs: dict[str, Job] = {}
        self._told: dict[str, float] = {}
        self._typed: dict[str, str] = {}
        self._index: tuple[Any, Index] | None = None
        self._opening = first or {"view": "browser", "options": {}}
        self._quick: dict[str, Callable[[Json], Any]] = {
            "first": lambda _payload: values.map_text(values.to_json(self._opening), self._box.mask),
            "variables": self._variables,
            "hello": self._hello,
            "search": self._search,
            "tool": self._tool,
            "check": self._check,
            "run": self._run,
            "cancel": self._cancel,
            "favourite": self._favourite,
            "assign": self._assign,
            "trust": self._trust,
        }
        self._slow: dict[str, Callable[[Json], Any]] = {
            "open": lambda p: self._viewing.open(_text(p, "handle")) if p.get("handle") else self._viewing_of(p),
            "page": lambda p: self._viewing.page(**_whose(p), offset=int(p["offset"]), limit=int(p["limit"])),
            "find": lambda p: self._viewing.find(
                **_whose(p), pattern=_text(p, "pattern"), is_fuzzy=bool(p.get("isFuzzy"))
            ),
            "table": lambda p: self._viewing.table(
                **_whose(p),
                offset=int(p["offset"]),
                limit=int(p["limit"]),
                sort=p.get("sort"),
                filter_text=str(p.get("filter") or ""),
            ),
            "tree": lambda p: self._viewing.tree(
                **_whose(p), path=list(p.get("path") or []), offset=int(p["offset"]), limit=int(p["limit"])
            ),
            "image": lambda p: self._viewing.image(**_whose(p)),
            "history": self._history,
            "results": self._results,
            "usage": self._usage,
        }
        self._first: ToolResult | None = None
        self._shown: Inventory | None = None
        box.watchers.append(self._changed)

    def show_first(self, result: ToolResult) -> None:
        """What a viewer that names no handle is to show."""
        self._first = result

    def receive(self, message: Any) -> None:
        """Take a message; its answer goes out now, or when it is ready."""
        if not isinstance(message, Mapping) or not isinstance(message.get("kind"), str):
            return
        asked, kind, payload = message.get("id"), message["kind"], message.get("payload")
        given = payload if isinstance(payload, dict) else {}
        if kind in self._slow:
            self._box.background.submit(lambda: asyncio.to_thread(self.answer, asked, self._slow[kind], given))
        else:
            self.answer(asked, self._quick.get(kind, partial(_unknown, kind)), given)

    def close(self) -> None:
        """Let go; jobs under way are given up. May be called twice."""
        if self._changed in self._box.watchers:
            self._box.watchers.remove(self._changed)
        for job in self._jobs.values():
            job.cancel()
        self._jobs.clear()

    def answer(self, asked: Any, answer: Callable[[Json], Any], payload: Any) -> None:
        """Send what `answer` gives to the question `asked`, or what it refuses."""
        try:
            value = answer(payload if isinstance(payload, dict) else {})
        except OneToolError as exc:
            said = self._box.mask(f"{exc.message} {exc.hint}".strip())
            self._send({"id": asked, "error": {"message": said}})
        except (KeyError, TypeError, ValueError) as exc:
            self._send({"id": asked, "error": {"message": self._box.mask(f"{type(exc).__name__}: {exc}")}})
        except Exception as exc:  # noqa: BLE001 - the boundary of this face: the page must get an answer
            self._send({"id": asked, "error": {"message": self._box.mask(f"{type(exc).__name__}: {exc}")}})
        else:
            self._send({"id": asked, "value": value})

    def _changed(self) -> None:
        self._index = None
        self._send({"event": "changed"})

    def _specs(self) -> list[ToolSpec]:
        return sorted(self._box.registry.known(), key=lambda spec: spec.name)

    def _hello(self, _payload: Json) -> Json:
        self._box.heed_trust()
        self._box.servers.prepare(wait=False)
        self._box.registry.refresh()
        packs = self._box.registry.known_packs()
        specs = self._specs()
        known = {spec.name for spec in specs}
        return {
            "version": __version__,
            "trust": self._standing(),
            "tools": len(specs),
            "packs": [{"name": name, "count": len(found)} for name, found in sorted(packs.items())],
            "sources": sorted({spec.source for spec in specs}),
            "tags": sorted({tag for spec in specs for tag in spec.tags}),
            "favourites": [name for name in self._favourites.names() if name in known],
        }

    def _trust(self, payload: Json) -> Json:
        """Take the person's yes to the project, or to one server of it; without one, tell how it stands."""
        if payload.get("isTrusted") is True:
            self._box.trust(str(payload.get("server") or ""), shown=self._shown)
        return self._standing()

    def _standing(self) -> Json:
        """How the project stands, to be shown; a yes is to what was shown last."""
        self._shown = self._box.would_run()
        return trust_of(self._box)

    def _search(self, payload: Json) -> Json:
        """One page of the tools that match: best first, or without a query as `_usual_first` orders them."""
        query, filters = str(payload.get("query") or "").strip(), payload.get("filters") or {}
        offset, limit = int(payload.get("offset") or 0), int(payload.get("limit") or 100)
        starred = set(self._favourites.names())
        if not query:
            specs = [spec for spec in self._specs() if _fits(spec, filters, starred)]
            page = self._usual_first(specs, starred)[offset : offset + limit]
            return {"items": [self._row(spec, ()) for spec in page], "total": len(specs)}
        hits = self._engine().search(query, limit=None if any(filters.values()) else _MOST_FOUND)
        fitting = [hit for hit in hits if _fits(hit.item.value, filters, starred)][:_MOST_FOUND]
        rows = [self._row(hit.item.value, hit.spans) for hit in fitting[offset : offset + limit]]
        return {"items": rows, "total": len(fitting)}

    def _usual_first(self, specs: list[ToolSpec], starred: set[str]) -> list[ToolSpec]:
        """Favourites, then the tools used most recently, then the rest by name."""
        recent = {name: place for place, name in enumerate(self._box.log.recent_tools(8))}
        return sorted(specs, key=lambda spec: -1 if spec.name in starred else recent.get(spec.name, len(recent)))

    def _row(self, spec: ToolSpec, spans: tuple[tuple[int, int], ...]) -> Json:
        """One tool in the list; `spans` are the letters of its name that match the query."""
        return {
            "name": spec.name,
            "summary": self._box.mask(values.cut(spec.summary, 200)),
            "disabled": bool(spec.disabled),
            "spans": [list(span) for span in spans],
        }

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
            "readOnly": spec.read_only,
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
            spec.checker.check(given, spec.name)
            if spec.preview is not None:
                code["curl"] = self._box.mask(as_curl(spec.preview(given)))
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
        """What a field can take as `=name`: the notebook's variables, the newest first."""
        found = [
            {"name": name, "kind": type(value).__name__}
            for name, value in reversed(tuple(self._namespace().items()))
            if not name.startswith("_") and _is_datum(name, value)
        ]
        return {"items": found[:_MOST_NAMES]}

    def _run(self, payload: Json) -> Json:
        spec, args = self._asked(payload)
        given = resolved(args, self._namespace())
        job = self._box.start(spec.name, given, source="widget", notify=self._heard)
        self._jobs[job.call.id] = job
        self._typed[job.call.id] = as_code(spec, args, self._namespace())["python"]
        if job.status not in ("queued", "running"):
            self._heard(job)  # it was faster than we
        return {"job": job.call.id}

    def _heard(self, job: Job) -> None:
        """Tell of progress ten times a second at most, and of the end."""
        key = job.call.id
        status = job.status
        if status in ("queued", "running"):
            now = time.monotonic()
            if now - self._told.get(key, 0.0) < _EVERY_S:
                return
            self._told[key] = now
            done, total, text = job.progress
            said = {"done": done, "total": total, "text": self._box.mask(values.cut(text, 200))}
            self._send({"event": "job", "job": key, "status": status, "progress": said})
            return
        if self._jobs.pop(key, None) is None:
            return
        self._told.pop(key, None)
        self._box.background.submit(lambda: asyncio.to_thread(self._ended, job))

    def _ended(self, job: Job) -> None:
        shown = self._viewing.show(job.result(0))
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
            raise UsageProblem(f"'{name[:40]}' is no name for a variable.", hint="Letters, digits and _.")
        whose = _whose(payload)
        self._namespace()[name] = self._viewing.value(**whose)
        typed = self._typed.get(whose["call"] or "")
        if typed is None:
            return {"code": f"{name} = ot.result(handle={whose['handle']!r}, limit=1_000_000)['lines']"}
        return {"code": self._box.mask(f"{name} = {typed}{'.data' if typed.startswith('ot.run(') else ''}")}

    def _viewing_of(self, _payload: Json) -> Json:
        if self._first is None:
            raise UsageProblem("There is no result to show.")
        return self._viewing.show(self._first)

    def _history(self, _payload: Json) -> Json:
        rows = [row for row in self._box.log.history(limit=100) if not row.tool.startswith("ot.")]
        return {"items": [self._past(row) for row in rows]}

    def _past(self, row: Any) -> Json:
        spec = self._box.registry.find(row.tool)
        return {
            "tool": row.tool,
            "readOnly": spec is not None and spec.read_only,
            "ok": row.ok,
            "ms": row.ms,
            "when": row.ts.astimezone().strftime("%b %d %H:%M:%S"),
            "said": self._box.mask(values.cut(row.args if row.ok else f"{row.code} {row.args}", 160)),
            "args": None if row.arguments is None else values.map_text(values.to_json(row.arguments), self._box.mask),
        }

    def _results(self, _payload: Json) -> Json:
        found = []
        for row in self._box.results.list()[:200]:
            size = "in memory" if row["bytes"] is None else f"{row['lines']:,} lines, {row['bytes']:,} bytes"
            when = row["created"].astimezone().strftime("%b %d %H:%M:%S")
            found.append({"handle": row["handle"], "tool": row["tool"], "when": when, "said": size})
        return {"items": found}

    def _usage(self, payload: Json) -> Json:
        return usage_shown(self._box, payload)


def _is_datum(name: str, value: Any) -> bool:
    is_shells = name in ("In", "Out", "exit", "quit", "open", "get_ipython", "ot")
    return not is_shells and not callable(value) and not isinstance(value, (types.ModuleType, PackProxy))


def _unknown(kind: str, _payload: Json) -> Json:
    raise UsageProblem(f"Nobody knows what '{kind[:40]}' is.")


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    if not isinstance(value, str):
        raise UsageProblem(f"'{key}' is missing.")
    return value


def _whose(payload: Json) -> dict[str, str | None]:
    handle, call = payload.get("handle"), payload.get("call")
    return {"handle": handle if isinstance(handle, str) else None, "call": call if isinstance(call, str) else None}


def _fits(spec: ToolSpec, filters: Mapping[str, Any], starred: set[str]) -> bool:
    return (
        (not filters.get("pack") or spec.pack == filters["pack"])
        and (not filters.get("source") or spec.source == filters["source"])
        and (not filters.get("tag") or filters["tag"] in spec.tags)
        and (not filters.get("isFavourite") or spec.name in starred)
    )
