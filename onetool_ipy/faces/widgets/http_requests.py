"""What the HTTP tool editor asks for: bundles and secrets to choose from, a curl command as a
draft, send, save.

A draft is a tool's record as `box.bundles` takes it. What needs a yes (a write, a new host, a
secret that goes to another host) is returned as `questions`; the same request with their keys in
`agreed` goes on. Wrong fields are returned as `errors` with JSON pointers. The value of a secret
comes in and is stored; it never leaves.
"""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    CallFailure,
    Conflict,
    InvalidArgs,
    MissingSecret,
    NotFound,
    OneToolError,
    UsageProblem,
)
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.http.template import SECRET_NAME, compile_selector
from onetool_ipy.config.edit import allow_host, save_secret
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces import creation
from onetool_ipy.faces.environments import (
    active_environment,
    environments_of,
    in_environment,
    needs_approval,
    save_environment,
    switch_notes,
)
from onetool_ipy.faces.new_packs import require_free_name
from onetool_ipy.faces.secret_hosts import (
    Sending,
    environment_hosts,
    new_sendings,
    sendings_of,
    unconfirmed,
)
from onetool_ipy.faces.widgets.viewer import ResultViewer
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle

_READING = ("GET", "HEAD")
_EVERY_STATUS = [f"{hundred}xx" for hundred in range(1, 6)]
_NUMBERED = re.compile(r"(v?)(\d{1,6})")
_MOST_EDITORS = 8


class HttpToolRequests:
    """Answers the HTTP tool editors of one screen. Keeps the last response of each, by its id, for
    its selector."""

    def __init__(self, box: Toolbox, viewer: ResultViewer) -> None:
        self._box = box
        self._viewer = viewer
        self._responses: OrderedDict[str, tuple[Any, str]] = OrderedDict()

    def start(self, payload: Json) -> Json:
        """What an editor opens with: the bundles, the names of the secrets, and the tool to
        edit."""
        bundles = [
            {
                "slug": one.slug,
                "baseUrl": one.base_url,
                "auth": creation.wire_auth(one),
                "variables": values.map_text(one.environment.variables, self._box.mask)
                if one.environment
                else {},
                "environments": list(environments_of(self._box, one.slug)),
                "environment": active_environment(self._box, one),
            }
            for one in self._box.bundles.all_bundles()
            if not one.is_built_in
        ]
        state: Json = {"bundles": bundles, "secrets": self._secrets(), "tool": None}
        if payload.get("tool"):
            bundle = self._bundle(payload)
            if bundle is None:
                raise UsageProblem(f"There is no bundle '{payload.get('bundle')}'.")
            tool = self._box.bundles.get_tool(
                bundle.bundle_id, str(payload["tool"]), str(payload.get("version"))
            )
            parts = _NUMBERED.fullmatch(tool.version)
            state |= {
                "tool": values.map_text(tool.to_dict(), self._box.mask),
                "version": f"{parts[1]}{int(parts[2]) + 1}" if parts else f"{tool.version}-2",
            }
        return state

    def read_curl(self, payload: Json) -> Json:
        """A pasted curl command as a draft. With `isKept` the credentials in it become secrets of
        the project."""
        from onetool_ipy.bundles.importing.curl import import_curl

        draft = import_curl(str(payload.get("text") or "").strip())
        if payload.get("isKept"):
            for name, value in draft.secrets.items():
                if name not in self._box.config.secrets.names():
                    self._store_secret(name, value)
        missing = [name for name in (*draft.secrets, *draft.missing) if name not in self._secrets()]
        return {
            "tool": draft.tool,
            "notes": draft.notes,
            "missing": missing,
            "secrets": self._secrets(),
        }

    def keep_secret(self, payload: Json) -> Json:
        """Store a new secret; returns the names of all. With `isOwn` it is the key of a model, and
        goes into the user's own file."""
        name, value = str(payload.get("name") or "").strip(), str(payload.get("value") or "")
        if not SECRET_NAME.fullmatch(name):
            return _wrong("/secret", "Use letters, digits and _ for the name, as in API_TOKEN.")
        if name in self._box.config.secrets.names():
            return _wrong(
                "/secret", f"There is a secret '{name}' already. Choose it, or take another name."
            )
        if not value:
            return _wrong("/secret", "Type its value.")
        if payload.get("isOwn") and name in self._box.config.secrets.own_names():
            return _wrong("/secret", f"There is a key '{name}' already. Take another name.")
        self._store_secret(name, value, is_own=bool(payload.get("isOwn")))
        return {"secrets": self._secrets()}

    def allow_hosts(self, payload: Json) -> Json:
        """Let HTTP tools reach hosts: the button under an import."""
        hosts = payload.get("hosts")
        if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
            raise UsageProblem("The hosts are a list of names.")
        self._require_trust()
        self._allow(creation.unreached(self._box, hosts))
        return {}

    def send(self, payload: Json) -> Json:
        """Send a draft once; returns its response, or what is wrong or needs a yes."""
        bundle = self._bundle(payload)
        draft = _record(payload)
        # The editor reads every status, and shows the whole body.
        encoding = (draft["http"].get("response") or {}).get("encoding", "auto")
        http = {**draft["http"], "response": {"successCodes": _EVERY_STATUS, "encoding": encoding}}
        record = {
            key: value for key, value in draft.items() if not key.startswith("outputSchema")
        } | {"http": http}
        try:
            self._require_trust()
            runner = self._box.bundles.draft(record, bundle=bundle)
            sent = runner.preview(payload.get("args") or {})[0]
            questions = [
                *self._writes(record, sent, payload),
                *self._sendings(record, bundle, payload),
            ]
            questions += self._hosts(sent["url"], payload)
            if questions:
                return {"questions": questions}
            # The yes may have changed the rules.
            runner = self._box.bundles.draft(record, bundle=bundle)
            trace = runner.trace(payload.get("args") or {})
        except MissingSecret as exc:
            return _wrong("/http/request/auth", _message(exc))
        except InvalidArgs as exc:
            return {
                "errors": [{**one, "pointer": f"/args{one['pointer']}"} for one in _details(exc)]
            }
        except OneToolError as exc:
            return {"errors": _details(exc)}
        return self._reply(trace, payload)

    def environments(self, _payload: Json) -> Json:
        """The environments of each bundle that has some, and which of them it uses."""
        bundles = [one for one in self._box.bundles.all_bundles() if not one.is_built_in]
        return {
            one.slug: {"names": list(names), "active": active_environment(self._box, one)}
            for one in bundles
            if (names := environments_of(self._box, one.slug))
        }

    def switch(self, payload: Json) -> Json:
        """Let a bundle use another environment; returns what needs a yes first: a host, a secret
        that goes there."""
        bundle, name = self._bundle(payload), str(payload.get("name"))
        chosen = None if bundle is None else environments_of(self._box, bundle.slug).get(name)
        if bundle is None or chosen is None:
            raise UsageProblem(f"There is no environment '{name[:40]}'.")
        self._require_trust()
        changed = in_environment(bundle, name, chosen)
        # Nobody typed the secrets of an environment that a file has.
        is_new = needs_approval(self._box, bundle.slug, name, chosen)
        sendings = sendings_of(self._box, changed, made_up=None if is_new else ())
        questions = self._asked(sendings, payload, changed)
        questions += self._hosts(changed.base_url or "", payload)
        if questions:
            return {"questions": questions}
        if is_new:
            save_environment(self._box, bundle.slug, name, chosen)
        creation.store_bundle(self._box, changed)
        self._box.registry.refresh()
        notes = switch_notes(self._box, changed)
        return {"notes": notes} if notes else {}

    def select(self, payload: Json) -> Json:
        """The part of the editor's last response that a JMESPath expression takes. Nothing is
        sent."""
        response = self._responses.get(str(payload.get("editor")))
        if response is None:
            raise UsageProblem("There is no response yet.", hint="Press Send first.")
        value, text = response
        expr = str(payload.get("selector") or "").strip()
        if expr:
            try:
                value = compile_selector("jmespath", expr)(value, text)
            except (ValueError, CallFailure) as exc:
                return _wrong("/http/response/selector", str(exc))
        return {"view": self._viewed(value, 0.0)}

    def save(self, payload: Json) -> Json:
        """Store a draft as a tool, with its bundle; returns how to call it, or what is wrong or
        needs a yes."""
        bundle, record = self._bundle(payload), _record(payload)
        names = {key: str(payload.get(key) or "").strip() for key in ("bundle", "slug", "version")}
        lacking = [key for key in ("bundle", "slug") if not names[key]]
        if lacking:
            return {
                "errors": [
                    {"pointer": f"/{key}", "message": "This field is required."} for key in lacking
                ]
            }
        try:
            shared = self._shared(bundle, record, payload)
            questions = self._sendings(record, bundle, payload)
            if bundle is not None and shared:
                changed = creation.changed_bundle(
                    bundle, **{"auth": creation.wire_auth(bundle), **shared}
                )
                questions += self._asked(sendings_of(self._box, changed), payload, changed)
            if questions:
                return {"questions": list({one["key"]: one for one in questions}.values())}
            return self._stored(
                bundle, names, record, shared, is_replaced=bool(payload.get("isReplaced"))
            )
        except OneToolError as exc:
            return {"errors": _details(exc)}

    def _stored(
        self, bundle: Bundle | None, names: Json, record: Json, shared: Json, *, is_replaced: bool
    ) -> Json:
        bundles, was_there = self._box.bundles, bundle is not None
        version = names["version"] or "1"
        if bundle is None:
            bundles.draft(record)  # an invalid tool leaves no empty bundle behind
            slug = names["bundle"]
            try:
                require_free_name(self._box, slug, creation.NEW_BUNDLE)
                bundle = bundles.put_bundle(
                    bundles.new_id(), slug=slug, display_name=slug, **shared
                )
            except OneToolError as exc:
                return {"errors": [{"pointer": "/bundle", "message": _message(exc)}]}
        elif shared:
            bundles.draft(record, bundle=bundle)
            whole = {"auth": creation.wire_auth(bundle), **shared}
            bundle = creation.store_bundle(self._box, creation.changed_bundle(bundle, **whole))
        creation.lean_on(bundle, record)
        place = (bundle.bundle_id, names["slug"], version)
        try:
            if is_replaced:
                bundles.draft(record, bundle=bundle)
                with suppress(NotFound):
                    bundles.delete_tool(*place)
            tool = bundles.put_tool(*place, record)
        except Conflict as exc:
            if names["version"]:
                return _wrong("/version", _message(exc))
            message = (
                f"The bundle '{bundle.slug}' has a tool '{names['slug']}'. Take another name, or"
                " edit that one."
            )
            return _wrong("/slug", message)
        except OneToolError:
            if not was_there:
                bundles.delete_bundle(bundle.bundle_id)
            raise
        self._box.registry.refresh()
        arguments = [f"{name}=" for name in (tool.arg_schema.get("required") or [])]
        line = " ".join([f"%tool {bundle.slug}.{tool.slug}", *arguments])
        return {
            "said": f"Saved. Call it: {line}",
            "name": f"{bundle.slug}.{tool.slug}",
            "version": tool.version,
        }

    def _shared(self, bundle: Bundle | None, record: Json, payload: Json) -> Json:
        """The base URL and auth that the bundle gets by this save; empty if it stays as it is."""
        base_url = creation.base_url_for(self._box, bundle, [record])
        if base_url is None:
            return {}
        auth = creation.shared_of(record) if payload.get("isShared") else {}
        is_same = bundle is not None and bundle.base_url == base_url and not auth
        return {} if is_same else {"base_url": base_url, **auth}

    def _reply(self, trace: Json, payload: Json) -> Json:
        """The response for the screen, and its body as the viewer shows it."""
        from onetool_ipy.bundles.http.definition import ResponseOptions
        from onetool_ipy.bundles.http.runner import ResponseReader, phrase_of

        response, result = trace["response"], trace["result"]
        response["phrase"] = phrase_of(response["status"])
        text = response.pop("body", "")
        value = result["value"] if result["ok"] else text
        editor = str(payload.get("editor"))
        self._responses[editor] = (value, text)
        self._responses.move_to_end(editor)
        if len(self._responses) > _MOST_EDITORS:
            self._responses.popitem(last=False)
        options = _record(payload)["http"].get("response") or {}
        codes = ResponseOptions.model_validate({"successCodes": options.get("successCodes")})
        is_ok = ResponseReader(codes).is_success(response["status"])
        chosen = self.select(payload) if is_ok else {}
        view = chosen.get("view") or self._viewed(value, response["durationMs"])
        reply = {"request": trace["request"], "response": response, "isOk": is_ok, "view": view}
        return {**reply, **({"selectorErrors": chosen["errors"]} if "errors" in chosen else {})}

    def _viewed(self, value: object, duration_ms: float) -> Json:
        meta = {"call_id": f"draft-{uuid.uuid4().hex[:12]}", "tool": "", "duration_ms": duration_ms}
        return self._viewer.show(ToolResult(True, data=value, meta=meta))

    def _writes(self, record: Json, sent: Json, payload: Json) -> list[Json]:
        is_read_only = record.get("readOnly", sent["method"] in _READING)
        if is_read_only or "write" in _agreed(payload):
            return []
        return [
            {
                "key": "write",
                "text": f"{sent['method']} may change data at {urlsplit(sent['url']).netloc}.",
            }
        ]

    def _sendings(self, record: Json, bundle: Bundle | None, payload: Json) -> list[Json]:
        return self._asked(new_sendings(self._box, [record], bundle=bundle), payload, bundle)

    def _asked(
        self, sendings: Sequence[Sending], payload: Json, bundle: Bundle | None
    ) -> list[Json]:
        names = environment_hosts(self._box, bundle)
        left = unconfirmed(sendings, _agreed(payload))
        return [{"key": one.word, "text": one.said_with(names)} for one in left]

    def _hosts(self, url: str, payload: Json) -> list[Json]:
        """Ask for hosts that HTTP tools may not reach; allow those that were agreed to."""
        parts = urlsplit(url)
        hosts = creation.unreached(
            self._box, creation.own_host(f"{parts.scheme}://{parts.netloc}/")
        )
        blocked = [host for host in hosts if f"host:{host}" not in _agreed(payload)]
        if blocked or not hosts:
            return [
                {"key": f"host:{host}", "text": f"Allow requests to {host}?"} for host in blocked
            ]
        self._allow(hosts)
        return []

    def _allow(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            with self._box.gate.saving(f"host {host}"):
                allow_host(self._box.config.paths, host)
        self._box.reload()

    def _store_secret(self, name: str, value: str, *, is_own: bool = False) -> None:
        self._require_trust()
        config = self._box.config
        with self._box.gate.saving():
            own = config.home / FOLDER if is_own else None
            save_secret(config.paths, name, value, folder=own)
        self._box.reload()

    def _require_trust(self) -> None:
        self._box.gate.refresh()
        trust = self._box.config.trust
        if not trust.is_given and trust.how != "no project":
            raise UsageProblem(
                "This project is not trusted.",
                hint="Trust it in the Tools view, or run: %tool trust",
            )

    def _bundle(self, payload: Json) -> Bundle | None:
        return self._box.bundles.named(str(payload.get("bundle") or "").strip())

    def _secrets(self) -> list[str]:
        return sorted(self._box.config.secrets.names())


def _record(payload: Json) -> Json:
    record = payload.get("tool")
    if not isinstance(record, dict) or not isinstance(record.get("http"), dict):
        raise UsageProblem("There is no HTTP tool in this request.")
    return {
        **record,
        "http": {**record["http"], "request": dict(record["http"].get("request") or {})},
    }


def _agreed(payload: Json) -> list[str]:
    keys = payload.get("agreed")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _details(exc: OneToolError) -> list[Json]:
    details = getattr(exc, "details", None)
    if isinstance(details, list) and details:
        return [
            {"pointer": str(one["pointer"]), "message": str(one["message"])}
            for one in details
            if isinstance(one, Mapping) and "pointer" in one and "message" in one
        ]
    return [{"pointer": "", "message": _message(exc)}]


def _message(exc: OneToolError) -> str:
    return f"{exc.message} {exc.hint}".strip().removeprefix("slug: ")


def _wrong(pointer: str, message: str) -> Json:
    return {"errors": [{"pointer": pointer, "message": message}]}
