"""The favourite tools of a project: a small file in its state, shared by all its notebooks.

`{"format": 1, "tools": [names]}`; a plain list, as it was before there were formats, is read, too. A file of a later
format is neither read nor written to.

What the usage view shows, from the call log: totals, calls and latency over time, the tools. Nothing is kept.

A form's arguments as values, and a call as code: `%tool`, Python, curl.

In a form any text of the shape `=name` stands for a notebook variable (also `=df.column` or `=rows[0]`); `==text` is
the text `=text`. What a browser cannot hold exactly, such as a large integer, arrives as text and is read by the
schema.

What the `ui` module asks, answered from a toolbox: one method per kind of request, plain JSON in and out.

Knows nothing of widgets or comms: messages come in by `receive`, from any thread, and go out by `send`. Calls run as
jobs; what may take long is answered from a thread. Everything that leaves is masked.
"""

from __future__ import annotations

import ast
import asyncio
import datetime
import json
import keyword
import shlex
import time
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, OneToolError, UsageProblem
from onetool_ipy.base.files import StoreError, locked, write_whole
from onetool_ipy.base.search import Index
from onetool_ipy.core.registry import entry_of
from onetool_ipy.core.result import Json, ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.line.grammar import format_call
from onetool_ipy.faces.trust_text import trust_of
from onetool_ipy.faces.widgets.viewer import Viewing
from onetool_ipy.proxies import PackProxy

if TYPE_CHECKING:
    from onetool_ipy.core.jobs import Job
    from onetool_ipy.sources.inventory import Inventory
    from onetool_ipy.toolbox import Toolbox

__all__ = ["Desk", "Favourites", "Variable", "as_code", "as_curl", "resolved", "usage_shown", "with_variables"]

_FORMAT = 1
_MOST = 500


class Favourites:
    """Names of tools, in the order they were chosen. A damaged file is an empty one, and is replaced."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def names(self) -> list[str]:
        found = self._read()
        names = found.get("tools") if isinstance(found, dict) and not _is_newer(found) else found
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def set(self, name: str, *, is_on: bool) -> list[str]:
        """Add a name or take it out; gives all of them. Raises StoreError where a later version wrote the file."""
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


_HIDDEN = "***"


class Variable:
    """A notebook variable in a form: its expression, which is also how it reads in code."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def with_variables(args: Any, parameters: Mapping[str, Any] | None = None) -> Any:
    """The arguments with every `=name` as a Variable and every `==text` as its text."""
    if isinstance(args, str):
        return _text(args, parameters or {})
    if isinstance(args, list):
        items = (parameters or {}).get("items")
        return [with_variables(each, items if isinstance(items, dict) else None) for each in args]
    if isinstance(args, dict):
        known = (parameters or {}).get("properties")
        inner = known if isinstance(known, dict) else {}
        return {key: with_variables(each, inner.get(key)) for key, each in args.items()}
    return args


def resolved(args: Any, namespace: Mapping[str, Any]) -> Any:
    """The arguments with every Variable as the object it names. Raises UsageProblem where there is none."""
    if isinstance(args, Variable):
        return _look_up(args.text, namespace)
    if isinstance(args, list):
        return [resolved(each, namespace) for each in args]
    if isinstance(args, dict):
        return {key: resolved(each, namespace) for key, each in args.items()}
    return args


def as_code(spec: ToolSpec, args: dict[str, Any], namespace: Mapping[str, Any]) -> Json:
    """How the call is typed: as `%tool`, and as Python that runs in this notebook as it stands."""
    return {"tool": _tool_line(spec.name, args), "python": _python(spec, args, namespace)}


def as_curl(requests: Sequence[Mapping[str, Any]]) -> str:
    """What an HTTP tool sends, as curl commands; each secret is a variable of the shell."""
    return "\n".join(_curl(request, list(request.get("secrets") or ())) for request in requests)


def _curl(request: Mapping[str, Any], secrets: list[str]) -> str:
    """One command. A preview hides every secret the same way, so only a single one is known by its name."""
    name = "" if not secrets else secrets[0] if len(secrets) == 1 else "SECRET"
    method = [] if request["method"] == "GET" else ["-X", request["method"]]
    words = ["curl", *method, _quoted(str(request["url"]), name)]
    for header, value in request["headers"].items():
        words += ["-H", _quoted(f"{header}: {value}", name)]
    if request.get("body"):
        words += ["--data-raw", _quoted(str(request["body"]), name)]
    wanted = [f"# SECRET stands for: {', '.join(secrets)}"] if len(secrets) > 1 else []
    return "\n".join([*wanted, " ".join(words)])


def _quoted(text: str, secret: str) -> str:
    """A word of a shell's line, in which what is hidden is a variable that the shell fills in."""
    if not secret:
        return shlex.quote(text)
    parts = [shlex.quote(part) if part else "" for part in text.split(_HIDDEN)]
    return f'"${secret}"'.join(parts) or "''"


def _text(text: str, schema: Mapping[str, Any]) -> Any:
    stripped = text.strip()
    if stripped.startswith("=="):
        return text.replace("==", "=", 1)
    if stripped.startswith("=") and _is_path(stripped[1:]):
        return Variable(stripped[1:].strip())
    if schema.get("type") in ("integer", "number"):
        try:
            return json.loads(stripped)
        except ValueError:
            return text
    return text


def _is_path(text: str) -> bool:
    try:
        _parts(text)
    except UsageProblem:
        return False
    return True


def _parts(text: str) -> list[Callable[[Any], Any]]:
    """How to get from the variable to what is meant: attributes and constant subscripts, nothing that runs."""
    problem = UsageProblem(f"'={text[:40]}' is no variable.", hint="Write =name, =name.attribute or =name[0].")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise problem from None
    steps: list[Callable[[Any], Any]] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append(lambda value, name=node.attr: getattr(value, name))  # type: ignore[misc]  # a default argument
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            steps.append(lambda value, key=node.slice.value: value[key])  # type: ignore[misc]  # a default argument
        else:
            raise problem
        node = node.value
    steps.append(lambda namespace, name=node.id: namespace[name])  # type: ignore[misc]  # a default argument
    return steps[::-1]


def _look_up(text: str, namespace: Mapping[str, Any]) -> Any:
    value: Any = namespace
    for step in _parts(text):
        try:
            value = step(value)
        except Exception as exc:  # an attribute or subscript of the user's object may raise anything
            raise UsageProblem(f"The notebook has no '{text}'.", hint="Run the cell that makes it.") from exc
    return value


def _tool_line(name: str, args: dict[str, Any]) -> str:
    nested = [key for key, value in args.items() if _has_variable(value) and not isinstance(value, Variable)]
    if nested or any(isinstance(v, Variable) and not key.isidentifier() for key, v in args.items()):
        return f"%tool {name}({_arguments(args)})" if all(map(_is_name, args)) else f"%tool {name} {args!r}"
    plain = {key: value for key, value in args.items() if not isinstance(value, Variable)}
    variables = [f"{key}={{{value!r}}}" for key, value in args.items() if isinstance(value, Variable)]
    return " ".join([format_call(name, plain), *variables])


def _python(spec: ToolSpec, args: dict[str, Any], namespace: Mapping[str, Any]) -> str:
    """`pack.tool(...)` where the notebook has the pack as a name and Python can spell the rest; else `ot.run`."""
    pack, tool = spec.pack.replace("-", "_"), spec.short_name.replace("-", "_")
    is_here = isinstance(namespace.get(pack), PackProxy) or pack == "ot"
    spelled = {name: label for label, name in spec.spelled.items()}
    given = {spelled.get(key, key): value for key, value in args.items()}
    if is_here and _is_name(tool) and all(map(_is_name, given)):
        return f"{pack}.{tool}({_arguments(given)})"
    if all(map(_is_name, args)):
        return f"ot.run({spec.name!r}{', ' if args else ''}{_arguments(args)})"
    return f"ot.run({spec.name!r}, **{args!r})"


def _arguments(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in args.items())


def _has_variable(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_variable, value))
    if isinstance(value, dict):
        return any(map(_has_variable, value.values()))
    return isinstance(value, Variable)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


MOST_SENT = 2_000
"""Up to so many tools the module searches itself; beyond, it asks."""
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
            "assign": self._assign,
            "trust": self._trust,
        }
        self._slow: dict[str, Callable[[Json], Any]] = {
            "open": lambda p: self._viewing.open(_text_desk(p, "handle")) if p.get("handle") else self._viewing_of(p),
            "page": lambda p: self._viewing.page(**_whose(p), offset=int(p["offset"]), limit=int(p["limit"])),
            "find": lambda p: self._viewing.find(
                **_whose(p), pattern=_text_desk(p, "pattern"), is_fuzzy=bool(p.get("isFuzzy"))
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
        self._unsubscribe = box.subscribe(changed=self._changed)

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
        self._unsubscribe()
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

    def _overview(self, _payload: Json) -> Json:
        self._box.gate.refresh()
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
            "recent": [name for name in self._box.log.recent_tools(8) if name in known],
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

    def _entries(self, _payload: Json) -> Json:
        specs = self._specs()
        if len(specs) > MOST_SENT:
            return {"items": [], "isPartial": True}
        return {"items": [self._entry(spec) for spec in specs], "isPartial": False}

    def _entry(self, spec: ToolSpec) -> Json:
        entry = entry_of(spec)
        mask = self._box.mask
        return {
            "name": spec.name,
            "pack": spec.pack,
            "source": spec.source,
            "tags": list(spec.tags),
            "summary": mask(values.cut(spec.summary, 200)),
            "description": mask(spec.description[:600]),
            "arguments": list(entry.arguments),
            "disabled": bool(spec.disabled),
        }

    def _search(self, payload: Json) -> Json:
        query, limit = str(payload.get("query") or ""), int(payload.get("limit") or 100)
        filters = payload.get("filters") or {}
        starred = set(self._favourites.names())
        found = [hit.item.value for hit in self._engine().search(query, limit=None)] if query.strip() else self._specs()
        fitting = [spec for spec in found if _fits(spec, filters, starred)]
        return {"items": [self._entry(spec) for spec in fitting[:limit]], "total": len(fitting)}

    def _engine(self) -> Index:
        specs = self._box.registry.known()
        if self._index is None or self._index[0] != len(specs):
            self._index = (len(specs), Index(entry_of(spec) for spec in specs))
        return self._index[1]

    def _tool(self, payload: Json) -> Json:
        spec = self._box.registry.require(_text_desk(payload, "name"))
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
        spec = self._box.registry.require(_text_desk(payload, "name"))
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
        job = self._jobs.get(_text_desk(payload, "job"))
        if job is None:
            return {"isCancelled": False}
        return {"isCancelled": job.cancel()}

    def _favourite(self, payload: Json) -> Json:
        return {"favourites": self._favourites.set(_text_desk(payload, "name"), is_on=bool(payload.get("isOn")))}

    def _assign(self, payload: Json) -> Json:
        name = _text_desk(payload, "variable")
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
            "summary": self._box.mask(values.cut(row.args if row.ok else f"{row.code} {row.args}", 160)),
            "args": None if row.arguments is None else values.map_text(values.to_json(row.arguments), self._box.mask),
        }

    def _results(self, _payload: Json) -> Json:
        found = []
        for row in self._box.results.list()[:200]:
            size = "in memory" if row["bytes"] is None else f"{row['lines']:,} lines, {row['bytes']:,} bytes"
            when = row["created"].astimezone().strftime("%b %d %H:%M:%S")
            found.append({"handle": row["handle"], "tool": row["tool"], "when": when, "summary": size})
        return {"items": found}

    def _usage(self, payload: Json) -> Json:
        return usage_shown(self._box, payload)


def _is_datum(name: str, value: Any) -> bool:
    is_shells = name in ("In", "Out", "exit", "quit", "open", "get_ipython", "ot")
    return not is_shells and not callable(value) and not isinstance(value, (types.ModuleType, PackProxy))


def _unknown(kind: str, _payload: Json) -> Json:
    raise UsageProblem(f"Nobody knows what '{kind[:40]}' is.")


def _text_desk(payload: Mapping[str, Any], key: str) -> str:
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
