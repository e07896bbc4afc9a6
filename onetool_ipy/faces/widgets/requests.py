"""The requests of the screens, answered from a toolbox: one method per kind, plain JSON in and out.

`ScreenRequests` knows nothing of widgets or comms: messages come in by `receive`, from any thread,
and leave by `send`. Calls run as jobs; a request that may take long is answered from a thread.
Everything that leaves is masked. The tool browser's requests are answered here, with its
favourites; those of the other screens by the modules beside this one.
"""

from __future__ import annotations

import json
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, OneToolError, Unavailable, UsageProblem
from onetool_ipy.base.files import StoreError, locked, read_object, write_whole
from onetool_ipy.base.search import Index
from onetool_ipy.base.tables import is_foreign, is_frame
from onetool_ipy.base.values import Json
from onetool_ipy.config.load import all_labels
from onetool_ipy.core.jobs import Job, Progress
from onetool_ipy.core.registry import entry_of
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import BADGES, ToolSpec
from onetool_ipy.faces.bundle_run import run_bundle
from onetool_ipy.faces.commands.catalog import begin_lines
from onetool_ipy.faces.new_packs import save_new_pack
from onetool_ipy.faces.widgets import text_in
from onetool_ipy.faces.widgets.ask_requests import AskRequests
from onetool_ipy.faces.widgets.comparison import choices, compared
from onetool_ipy.faces.widgets.forms import as_code, as_curl, resolved, with_variables
from onetool_ipy.faces.widgets.http_requests import HttpToolRequests
from onetool_ipy.faces.widgets.overviews import (
    check_health,
    health_report,
    history_page,
    lines_around,
    python_packs,
    stored_results,
    usage_data,
)
from onetool_ipy.faces.widgets.server_requests import ServerRequests
from onetool_ipy.faces.widgets.viewer import ResultViewer
from onetool_ipy.proxies import PackProxy
from onetool_ipy.render.views import counted
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.faces.widgets.questions import OpenQuestions

MAX_SENT = 2_000
"""The page searches up to this number of tools itself; beyond, it asks."""

_RECOMMENDED = "recommended"
_SHELL_NAMES = frozenset(("In", "Out", "exit", "quit", "open", "get_ipython", "ot"))
_MAX_ICONS = 64
_MAX_NAMES = 200
_EVERY_S = 0.1
_FAVOURITES_FORMAT = 1
_MAX_FAVOURITES = 500


class ScreenRequests:
    """Answers the requests of one screen. `first` is its first state, `namespace` returns the
    notebook's variables."""

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
        self._questions = questions
        self._viewer = ResultViewer(box)
        self._servers = ServerRequests(box)
        self._http = HttpToolRequests(box, self._viewer)
        self._ask = AskRequests(box, send)
        self._favourites = Favourites(box.config.paths.state / "favourites.json")
        self._jobs: dict[str, Job] = {}
        self._delayed: set[str] = set()
        self._reporting = threading.Lock()
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
            "report": self._report,
            "saveTool": lambda p: save_new_pack(
                self._box, str(p.get("name") or ""), str(p.get("source") or "")
            ),
        }
        if questions is not None:
            self._quick |= {"questionSeen": questions.seen, "answer": questions.answer}
        self._slow = self._slow_kinds()
        self._first: ToolResult | None = None
        self._unsubscribe = box.subscribe(changed=self._changed, states=self._changed)

    def _slow_kinds(self) -> dict[str, Callable[[Json], Any]]:
        """The requests that are answered from a thread."""
        box, viewer, servers, http = self._box, self._viewer, self._servers, self._http
        return {
            "open": lambda p: (
                viewer.open(text_in(p, "handle")) if p.get("handle") else self._open_first()
            ),
            "page": viewer.page,
            "find": viewer.find,
            "table": viewer.table,
            "summary": viewer.summary,
            "values": viewer.column_values,
            "copied": viewer.copied,
            "pandasCode": lambda p: viewer.code(p, self._namespace()),
            "download": viewer.download,
            "part": viewer.part,
            "tree": viewer.tree,
            "image": viewer.image,
            "comparable": partial(choices, box),
            "compare": partial(compared, box, viewer),
            "assign": self._assign,
            "servers": servers.list,
            "server": servers.act,
            "serverPage": servers.page,
            "serverMessages": servers.messages,
            "serverMessage": servers.message,
            "serverLogs": servers.logs,
            "packs": lambda _payload: python_packs(box),
            "pasted": servers.pasted,
            "addServer": servers.add,
            "problemLines": lambda p: lines_around(box, text_in(p, "where")),
            "health": lambda _payload: check_health(box),
            "httpTool": http.start,
            "httpCurl": http.read_curl,
            "httpSecret": http.keep_secret,
            "allowHosts": http.allow_hosts,
            "httpSend": http.send,
            "httpSelect": http.select,
            "environments": http.environments,
            "switchEnvironment": http.switch,
            "httpSave": http.save,
            "runBundle": self._run_bundle,
            "history": partial(history_page, box),
            "results": lambda _payload: stored_results(box),
            "usage": partial(usage_data, box),
            "models": self._ask.models,
            "findModels": self._ask.find,
            "modelNames": self._ask.names,
            "testModel": self._ask.test,
            "saveModel": self._ask.save,
            "sessions": self._ask.sessions,
            "conversation": self._ask.conversation,
            "forgetSession": self._ask.forget,
        }

    def show_first(self, result: ToolResult) -> None:
        """Set the result that a viewer without a handle shows."""
        self._first = result

    def receive(self, message: object) -> None:
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
        """Run work in a thread that ends when it is idle; in this one, where stuck calls leave no
        room."""
        try:
            self._box.workers.submit(work)
        except Unavailable:
            work()

    def close(self) -> None:
        """Stop answering and cancel running jobs; may be called twice."""
        self._unsubscribe()
        self._ask.close()
        jobs = tuple(self._jobs.values())
        self._jobs.clear()
        for job in jobs:
            job.cancel()

    def _answer(self, request_id: object, answer: Callable[[Json], Any], payload: Json) -> None:
        """Send the value or the error of `answer` as the reply to a request."""
        try:
            value = answer(payload)
        except OneToolError as exc:
            message = self._box.mask(f"{exc.message} {exc.hint}".strip())
            self._send({"id": request_id, "error": {"message": message}})
        except Exception as exc:  # noqa: BLE001 - the boundary of this face: the screen must get an answer
            self._send(
                {
                    "id": request_id,
                    "error": {"message": self._box.mask(f"{type(exc).__name__}: {exc}")},
                }
            )
        else:
            self._send({"id": request_id, "value": value})

    def _changed(self) -> None:
        self._index = None
        self._send({"event": "changed"})

    def _specs(self) -> list[ToolSpec]:
        return sorted(self._box.registry.known(), key=self._box.registry.place_of)

    def _overview(self, _payload: Json) -> Json:
        self._box.gate.refresh()
        self._box.servers.prepare(wait=False)
        self._box.registry.refresh()
        registry = self._box.registry
        names = {spec.name for spec in registry.known()}
        specs = [spec for spec in self._specs() if not spec.is_toolbox]
        packs = Counter(spec.pack for spec in specs)  # in the order of their first tools
        # Tools that everybody has do not stand above a person's own.
        own = {spec.name for spec in specs if spec.origin != "builtin"}
        badges = {badge for spec in specs for badge in spec.badges}
        recommended = [_RECOMMENDED] if any(map(registry.is_recommended, specs)) else []
        return {
            "version": __version__,
            "trust": self._box.gate.state(),
            "tools": len(specs),
            "begin": [] if own or len(self._box.servers) else list(map(list, begin_lines())),
            "packs": [{"name": name, "count": count} for name, count in packs.items()],
            "sources": sorted(set(map(_made_of, specs))),
            "tags": [
                *recommended,
                *sorted({tag for spec in specs for tag in spec.tags} - {*recommended}),
            ],
            "badges": [badge for badge in BADGES if badge in badges],
            "favourites": [name for name in self._favourites.names() if name in names],
            "recent": [name for name in self._box.log.recent_tools(16) if name in own][:8],
        }

    def _trust(self, payload: Json) -> Json:
        """Record the person's yes to the project or to one part of it; return the state of its
        trust.

        A yes counts for the `wouldRun` that its form was drawn from, which it sends back. A later
        answer may hold more, and nobody has seen it: it went to another page, or was asked for its
        other fields.
        """
        gate = self._box.gate
        if payload.get("isTrusted") is True:
            inventory = gate.inventory()
            if payload.get("wouldRun") != inventory.to_dict():
                message = (
                    "The project has changed since you were shown what it holds; nothing was"
                    " trusted."
                )
                raise UsageProblem(message, hint="Look at the form again.")
            gate.grant(str(payload.get("part") or ""), shown=inventory)
        return gate.state()

    def _report(self, _payload: Json) -> Json:
        """The state of the project. The open questions go to the pages before it: its page may have
        just connected."""
        if self._questions is not None:
            self._questions.publish()
        return health_report(self._box)

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
            if spec.server_facts.icon in icons or (
                spec.server_facts.icon and len(icons) < _MAX_ICONS
            ):
                items[-1]["icon"] = icons.setdefault(spec.server_facts.icon, len(icons))
        return {"items": items, "icons": list(icons)}

    def _entry(self, spec: ToolSpec) -> Json:
        entry = entry_of(spec)
        mask = self._box.mask
        return {
            "name": spec.name,
            "pack": spec.pack,
            "source": _made_of(spec),
            "tags": list(spec.tags),
            "badges": self._badges(spec),
            "summary": mask(values.cut(spec.summary, 200)),
            "description": mask(spec.description[:600]),
            "arguments": list(entry.arguments),
            "disabled": bool(spec.disabled),
        }

    def _badges(self, spec: ToolSpec) -> list[str]:
        return (
            [_RECOMMENDED, *spec.badges]
            if self._box.registry.is_recommended(spec)
            else list(spec.badges)
        )

    def _search(self, payload: Json) -> Json:
        query, limit = str(payload.get("query") or ""), int(payload.get("limit") or 100)
        filters = payload.get("filters") or {}
        favourites = set(self._favourites.names())
        specs = (
            [hit.item.value for hit in self._engine().search(query, limit=None)]
            if query.strip()
            else [
                spec
                for spec in self._specs()
                if not spec.is_toolbox
                or filters.get("pack") == spec.pack
                or spec.name in favourites
            ]
        )
        matches = [
            spec
            for spec in specs
            if (not filters.get("pack") or spec.pack == filters["pack"])
            and (not filters.get("source") or _made_of(spec) == filters["source"])
            and (not filters.get("tag") or filters["tag"] in (*spec.tags, *self._badges(spec)))
            and (not filters.get("isFavourite") or spec.name in favourites)
        ]
        return {**self._listed(matches[:limit]), "total": len(matches)}

    def _engine(self) -> Index:
        specs = self._box.registry.known()
        if self._index is None or self._index[0] != len(specs):
            self._index = (len(specs), Index(entry_of(spec) for spec in specs))
        return self._index[1]

    def _spec(self, payload: Json) -> ToolSpec:
        """Return the tool that a form is for, with the schema of its code: the pack is imported."""
        (spec,) = self._box.registry.loaded([self._box.registry.require(text_in(payload, "name"))])
        return spec

    def _tool(self, payload: Json) -> Json:
        spec = self._spec(payload)
        row = next((r for r in self._box.log.usage(period="all", tool=spec.name).tools), None)
        (labels,) = all_labels([spec], self._box.config)
        page = {
            "name": spec.name,
            "signature": spec.signature,
            "description": spec.description,
            "parameters": values.to_json(spec.parameters),
            "returns": spec.returns,
            "example": spec.example,
            "source": _made_of(spec),
            "tags": list(spec.tags),
            "title": spec.server_facts.title,
            "icon": spec.server_facts.icon,
            "readOnly": spec.read_only,
            "reads": labels.reads_text,
            "sends": labels.sends_text,
            "badges": self._badges(spec),
            "disabled": spec.disabled,
            "where": spec.where,
            "usage": {"calls": row.calls, "failures": row.failures, "avgMs": row.avg_ms}
            if row
            else {"calls": 0},
            "isFavourite": spec.name in self._favourites.names(),
        }
        masked: Json = values.map_text(page, self._box.mask)
        return masked

    def _check(self, payload: Json) -> Json:
        spec, args = self._call_of(payload)
        code = {
            kind: self._box.mask(text)
            for kind, text in as_code(spec, args, self._namespace()).items()
        }
        try:
            arguments = spec.checker.check(resolved(args, self._namespace()), spec.name)
            if spec.http is not None:
                plain = values.map_text(values.to_json(arguments), self._box.mask)
                code["curl"] = self._box.mask(as_curl(spec.http.preview(arguments), plain))
        except CallFailure as exc:
            details = (
                exc.details
                if isinstance(exc.details, list)
                else [{"pointer": "", "message": exc.message}]
            )
            errors = values.map_text(values.to_json(details), self._box.mask)
            return {"errors": errors, "code": code}
        except UsageProblem as exc:
            return {
                "errors": [{"pointer": "", "message": f"{exc.message} {exc.hint}"}],
                "code": code,
            }
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
            if not name.startswith("_")
            and name not in _SHELL_NAMES
            and not callable(value)
            and not isinstance(value, (types.ModuleType, PackProxy))
        ]
        return {"items": items[:_MAX_NAMES]}

    def _run(self, payload: Json) -> Json:
        spec, args = self._call_of(payload)
        job = self._box.start(
            spec.name, resolved(args, self._namespace()), source="widget", notify=self._on_job
        )
        self._jobs[job.call.id] = job
        # What the job reported before it was stored here was not sent.
        if job.is_over or job.progress != Progress():
            self._on_job(job)
        return {"job": job.call.id}

    def _on_job(self, job: Job) -> None:
        """Send the end at once, and progress a tenth of a second later, so that the newest report
        is always seen."""
        key = job.call.id
        with self._reporting:
            if key not in self._jobs:
                return
            if job.is_over:
                del self._jobs[key]
                self._run_later(partial(self._send_result, job))
            elif key not in self._delayed:
                self._delayed.add(key)
                timer = threading.Timer(_EVERY_S, self._send_progress, (job,))
                timer.daemon = True
                timer.start()

    def _send_progress(self, job: Job) -> None:
        key, status = job.call.id, job.status
        with self._reporting:
            self._delayed.discard(key)
            if key in self._jobs and status in ("queued", "running"):
                done, total, text = job.progress
                progress = {
                    "done": done,
                    "total": total,
                    "text": self._box.mask(values.cut(text, 200)),
                }
                self._send({"event": "job", "job": key, "status": status, "progress": progress})

    def _send_result(self, job: Job) -> None:
        result = self._viewer.show(job.result(0))
        self._send({"event": "job", "job": job.call.id, "status": job.status, "result": result})

    def _cancel(self, payload: Json) -> Json:
        job = self._jobs.get(text_in(payload, "job"))
        if job is None:
            return {"isCancelled": False}
        return {"isCancelled": job.cancel()}

    def _favourite(self, payload: Json) -> Json:
        return {
            "favourites": self._favourites.set(
                text_in(payload, "name"), is_on=bool(payload.get("isOn"))
            )
        }

    def _assign(self, payload: Json) -> Json:
        name = text_in(payload, "variable")
        if not name.isidentifier():
            raise UsageProblem(
                f"'{name[:40]}' is not a valid variable name.", hint="Use letters, digits and _."
            )
        value = self._namespace()[name] = self._viewer.found(payload)
        length = ""
        if hasattr(value, "__len__"):
            is_rows = isinstance(value, list) or is_frame(value) or is_foreign(value)
            unit = "row" if is_rows else "character" if isinstance(value, str) else "item"
            length = f", {counted(len(value), unit)}"
        return {"said": f"{name}: {type(value).__name__}{length}"}

    def _run_bundle(self, payload: Json) -> Json:
        runs = run_bundle(self._box, text_in(payload, "bundle"), source="widget")
        return {"runs": [run._asdict() for run in runs]}

    def _open_first(self) -> Json:
        if self._first is None:
            raise UsageProblem("There is no result to show.")
        return self._viewer.show(self._first)


class Favourites:
    """The favourite tools of a project, in the order they were chosen: a small file in its state
    folder.

    A file that cannot be read, or of a later format, counts as empty and is never written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def names(self) -> list[str]:
        try:
            return _favourites_in(read_object(self._file))
        except StoreError:
            return []

    def set(self, name: str, *, is_on: bool) -> list[str]:
        """Add or remove a name; return all of them. Raises StoreError if the file cannot be
        read."""
        with locked(self._file.with_suffix(".lock")):
            content = read_object(self._file)
            number, tools = content.get("format", _FAVOURITES_FORMAT), content.get("tools", [])
            if isinstance(number, int) and number > _FAVOURITES_FORMAT:
                why = "a later version wrote it in a format that this one does not know"
                raise StoreError(self._file, why, hint="Update onetool-ipy, or delete the file.")
            if number != _FAVOURITES_FORMAT or not isinstance(tools, list):
                raise StoreError(
                    self._file,
                    "it does not hold a list of tools",
                    hint="Correct or delete the file.",
                )
            # An entry that is no name stays as it is.
            kept = [other for other in tools if other != name][-_MAX_FAVOURITES + 1 :]
            content |= {"format": _FAVOURITES_FORMAT, "tools": [*kept, *([name] if is_on else [])]}
            write_whole(self._file, json.dumps(content).encode())
        return _favourites_in(content)


def _favourites_in(content: Mapping[str, Any]) -> list[str]:
    tools = content.get("tools") if content.get("format") == _FAVOURITES_FORMAT else None
    return [name for name in tools if isinstance(name, str)] if isinstance(tools, list) else []


def _made_of(spec: ToolSpec) -> str:
    """Say what a tool is, as a badge and a filter have it: `proxy:<server>`, `HTTP` or `Python`."""
    return spec.source if spec.server else "Python" if spec.http is None else "HTTP"


def _unknown(kind: str, _payload: Json) -> Json:
    raise UsageProblem(f"Unknown request '{kind[:40]}'.")
