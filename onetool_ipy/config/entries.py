"""What one server, model, snippet or topic must hold. A faulty one is None, after a complaint for each fault.

The keys of a server are those of its type; the command, arguments and environment of a stdio server are texts, so
numbers and booleans become text here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from onetool_ipy.config.document import Document, quoted
from onetool_ipy.config.kinds import Kind, Wrong, boolean, choice, header, number, scalar_text, text, variable
from onetool_ipy.config.look import Get, Look
from onetool_ipy.config.notes import File, Notes
from onetool_ipy.config.settings import Model, Provider, Topic
from onetool_ipy.core import values
from onetool_ipy.core.errors import InvalidConfig

__all__ = [
    "MODEL_KEYS",
    "PARAM_KEYS",
    "SERVER_KEYS",
    "SNIPPET_KEYS",
    "check_server",
    "model",
    "server",
    "server_as_written",
    "snippet",
    "topic",
]

SERVER_KEYS: Mapping[str, tuple[str, ...]] = {
    "stdio": ("type", "command", "args", "env", "cwd", "inherit", "enabled", "trusted", "timeout_s", "idle_s"),
    "http": ("type", "url", "headers", "enabled", "trusted", "timeout_s", "idle_s"),
}
MODEL_KEYS = ("provider", "model", "base_url", "key", "options")
_NO_OPTIONS = frozenset(
    ("model", "messages", "system", "contents", "systemInstruction", "tools", "stream", "stream_options")
)
SNIPPET_KEYS = ("description", "params", "body")
PARAM_KEYS = ("description", "default", "example", "type")


def server(look: Look, key: str, name: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """An MCP server; `type` may be left out, `command` means stdio and `url` means http."""
    form = _Form(look, key, data)
    if not _is_server_name(name):
        form.wrong("", f"{quoted(name)} is not a server's name.", "Use no blanks and no dots.")
    kind = form.get("type", choice(*SERVER_KEYS), default="http" if "url" in form.data else "stdio")
    if kind is None:
        return None
    form.only(SERVER_KEYS[kind])
    out: dict[str, Any] = {"type": kind}
    if kind == "stdio":
        out["command"] = form.get("command", text, required=True)
        out["args"] = form.list_of("args", scalar_text)
        out["env"] = form.mapping_of("env", scalar_text)
        out["cwd"] = form.get("cwd", text)
        out["inherit"] = form.list_of("inherit", variable)
    else:
        out["url"] = form.get("url", _server_url, required=True)
        out["headers"] = form.mapping_of("headers", header)
    out["enabled"] = form.get("enabled", boolean, default=True)
    out["trusted"] = form.get("trusted", boolean, default=False)
    for limit in ("timeout_s", "idle_s"):
        out[limit] = form.get(limit, number(above=True, most=7 * 86_400))
    return out if form.good else None


def server_as_written(name: str, raw: Any) -> dict[str, Any] | None:
    """A server to be shown and not started: nothing in it is filled or judged. None where it is none at all."""
    if not isinstance(raw, dict) or not _is_server_name(name):
        return None
    kind = raw.get("type") if raw.get("type") in SERVER_KEYS else "http" if "url" in raw else "stdio"
    args, env, headers = raw.get("args"), raw.get("env"), raw.get("headers")
    return {
        "type": kind,
        "command": str(raw.get("command") or ""),
        "args": [str(word) for word in args] if isinstance(args, list) else [],
        "env": {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else {},
        "url": str(raw.get("url") or ""),
        "headers": {str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {},
        "enabled": raw.get("enabled") is not False,
        "trusted": False,
    }


def check_server(name: str, data: Any, get: Get) -> dict[str, Any]:
    """A server that was typed, not read from a file: the checked entry, or InvalidConfig with every fault."""
    notes = Notes()
    file = File("servers", Document({}, {}, []), notes, strict=False)
    look = Look(file, get)
    filled, complete = look.filled(data, name)
    made = server(look, name, name, filled) if complete else None
    if made is None:
        said = [f"{problem.message} {problem.hint}".rstrip() for problem in notes.problems]
        raise InvalidConfig("\n".join(said) or f"{quoted(name)} is not a server.", problems=notes.problems)
    return made


def model(look: Look, key: str, name: str, data: Mapping[str, Any]) -> Model | None:
    """A model and how to reach it."""
    form = _Form(look, key, data)
    form.only(MODEL_KEYS)
    options = form.mapping_of("options", _json)
    for option in options.keys() & _NO_OPTIONS:
        form.wrong(f"options.{option}", f"'{option}' is no option: it is what is asked.")
    made = Model(
        name=name,
        provider=form.get("provider", choice(*get_args(Provider)), required=True),
        model=form.get("model", text, required=True),
        base_url=form.get("base_url", _url),
        key=form.get("key", text),
        where=look.file.where(key),
        options=options,
    )
    return made if form.good else None


def snippet(look: Look, key: str, name: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """A snippet: its body is text for Jinja2, judged when it is expanded."""
    form = _Form(look, key, data)
    if not name.isidentifier():
        form.wrong("", f"{quoted(name)} is not a name.", "Use letters, digits and '_'.")
    form.only(SNIPPET_KEYS)
    out = {
        "description": form.get("description", text, default=""),
        "params": {},
        "body": form.get("body", text, required=True),
    }
    for param, given in form.mapping("params").items():
        inner = _Form(look, f"{key}.params.{param}", given)
        if not param.isidentifier():
            inner.wrong("", f"{quoted(param)} is not a parameter's name.")
        inner.only(PARAM_KEYS)
        inner.get("description", text)
        out["params"][param] = dict(inner.data)
        form.good = form.good and inner.good
    return out if form.good else None


def topic(look: Look, key: str, data: Any) -> Topic | None:
    """Where messages of a topic go."""
    form = _Form(look, key, data)
    form.only(Topic.fields())
    made = Topic(form.get("pattern", text, required=True), form.get("file", text, required=True))
    return made if form.good else None


def _is_server_name(name: str) -> bool:
    return name.isprintable() and not any(c.isspace() or c == "." for c in name)


def _json(value: Any) -> Any:
    if not values.is_json(value):
        raise Wrong("is not JSON", "Put it in quotes.")
    return value


def _url(value: Any) -> str:
    found = text(value).strip()
    if not found.lower().startswith(("http://", "https://")):
        raise Wrong("is not an http:// or https:// address")
    return found


def _server_url(value: Any) -> str:
    """The address of a server: https, or plain http where nothing leaves this machine."""
    found = _url(value)
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(found)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host:
        raise Wrong("is not an http:// or https:// address")
    if parts.scheme.lower() == "http" and not _is_loopback(host):
        raise Wrong("is plain http to another machine", "Use https://; http:// is for 127.0.0.1 and localhost.")
    return found


def _is_loopback(host: str) -> bool:
    if host.lower().rstrip(".") == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Form:
    """One entry while it is read; `good` stays True as long as nothing is wrong with it."""

    def __init__(self, look: Look, key: str, data: Any) -> None:
        self.look, self.key, self.good = look, key, True
        self.data: Mapping[str, Any] = {}
        if isinstance(data, dict):
            self.data = data
        elif data is not None:
            self.wrong("", f"{look.shown(key, data)} is not 'key: value' lines.")

    def wrong(self, name: str, message: str, hint: str = "") -> None:
        self.good = False
        self.look.file.complain(self._inner(name), message, hint)

    def only(self, known: Iterable[str]) -> None:
        for name in self.data:
            if name not in known:
                self.good = False
                self.look.unknown(self._inner(name), name, known)

    def get(self, name: str, kind: Kind, *, required: bool = False, default: Any = None) -> Any:
        raw = self.data.get(name)
        if raw is None:
            if required:
                self.wrong("", f"has no '{name}'.")
            return default
        return self._checked(self._inner(name), raw, kind)

    def list_of(self, name: str, kind: Kind) -> list[Any]:
        raw = self.data.get(name)
        if raw is not None and not isinstance(raw, list):
            self.wrong(name, f"{self.look.shown(self._inner(name), raw)} is not a list.")
            raw = None
        return [self._checked(f"{self._inner(name)}[{i}]", v, kind) for i, v in enumerate(raw or [])]

    def mapping(self, name: str) -> Mapping[str, Any]:
        raw = self.data.get(name)
        if isinstance(raw, dict):
            return raw
        if raw is not None:
            self.wrong(name, f"{self.look.shown(self._inner(name), raw)} is not 'key: value' lines.")
        return {}

    def mapping_of(self, name: str, kind: Kind) -> dict[str, Any]:
        inner = self._inner(name)
        return {k: self._checked(f"{inner}.{k}", v, kind) for k, v in self.mapping(name).items()}

    def _checked(self, key: str, raw: Any, kind: Kind) -> Any:
        value = self.look.value(key, raw, kind)
        self.good = self.good and value is not None
        return value

    def _inner(self, name: str) -> str:
        return f"{self.key}.{name}" if name else self.key
