"""Parsed files -> Settings and prompts: which keys exist, what each may hold, and a Problem for everything wrong.

A faulty value is reported with file, line and key, and its default is used; a faulty server, model, snippet or topic
is left out. Values of packs, servers, models and http are filled (`${NAME}`) before they are checked. In a project
that is not trusted nothing is filled. What reaches out of a project and is not approved (`withheld`) is left out.

Checked by hand, not by pydantic: the values are checked at every load, because secrets and environment are not
cached, and importing pydantic alone takes longer than the whole start may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.config.settings import (
    AskSettings,
    Definition,
    FsSettings,
    HttpSettings,
    Model,
    Models,
    OutputSettings,
    Provider,
    Settings,
    StatsSettings,
    TimeoutSettings,
    Topic,
)
from onetool_ipy.config.trust import NO_PINS, Pins
from onetool_ipy.config.yaml_text import Document, Packed, quoted
from onetool_ipy.core.tool import Problem

__all__ = [
    "AUTH_KEYS",
    "MODEL_KEYS",
    "PARAM_KEYS",
    "SERVER_KEYS",
    "SNIPPET_KEYS",
    "BadTemplate",
    "ConfigFile",
    "LoadProblems",
    "UnknownName",
    "check_prompts",
    "check_server",
    "check_settings",
    "fill",
]

Kind = Callable[[Any], Any]
"""Takes a plain value and returns the checked one, or raises InvalidValue."""
Get = Callable[[str], str | None]
"""Returns the value of a `${NAME}`, or None."""

_SERVER_COMMON = ("enabled", "trusted", "sampling", "log_level", "timeout_s", "idle_s")
SERVER_KEYS: Mapping[str, tuple[str, ...]] = {
    "stdio": ("type", "command", "args", "env", "cwd", "inherit", "protocol", *_SERVER_COMMON),
    "http": ("type", "url", "headers", "auth", "protocol", *_SERVER_COMMON),
    "sse": ("type", "url", "headers", *_SERVER_COMMON),
}
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PROTOCOLS = ("auto", "legacy", "2026-07-28")
AUTH_KEYS = (
    *("grant", "client_id", "client_secret", "private_key", "signing_algorithm"),
    *("client_metadata_url", "issuer", "redirect_uri", "scopes"),
)
MODEL_KEYS = ("provider", "model", "base_url", "key", "options")
SNIPPET_KEYS = ("description", "params", "body")
PARAM_KEYS = ("description", "default", "example", "type")

_RESERVED_OPTIONS = frozenset(
    ("model", "messages", "system", "contents", "systemInstruction", "tools", "stream", "stream_options")
)
_YES = frozenset(("true", "yes", "on"))
_NO = frozenset(("false", "no", "off"))
_HOST = r"(?:(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
_TEMPLATE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?"
_MAX_PROBLEMS = 200
_LEFT_OUT = object()


class InvalidValue(ValueError):
    """Why a value is wrong; the reason follows the value in a message. `hint` says what to write instead."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def _text(value: Any) -> str:
    """Check for text that is not empty."""
    if not isinstance(value, str):
        raise InvalidValue("is not text", "Put it in quotes." if _is_number(value) else "")
    if not value.strip():
        raise InvalidValue("is empty")
    return value


def _scalar_text(value: Any) -> str:
    """Return text, or a number or boolean as text: for arguments and environment of a command."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidValue("is not text")


def _header(value: Any) -> str:
    """Check for the value of an HTTP header: one line of Latin-1."""
    found = _scalar_text(value)
    if not found.isprintable() or any(ord(c) > 255 for c in found):
        raise InvalidValue("is not a header's value", "Use one line of plain letters.")
    return found


def _variable(value: Any) -> str:
    """Check for the name of an environment variable."""
    found = _text(value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", found):
        raise InvalidValue("is not the name of an environment variable", "Write only the name, such as HTTP_PROXY.")
    return found


def _texts(value: Any) -> tuple[str, ...]:
    """Check for a list of texts. A single text counts as a list of one."""
    if isinstance(value, str):
        return (_text(value),)
    if not isinstance(value, list):
        raise InvalidValue("is not a list of texts")
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise InvalidValue("is not a list of texts")
    return tuple(value)


def _boolean(value: Any) -> bool:
    """Check for true or false. Accepts yes, no, on and off too, as other YAML readers do."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if word in _YES or word in _NO:
        return word in _YES
    raise InvalidValue("is not true or false")


def _number(*, least: float = 0, most: float = 1e15, above: bool = False) -> Kind:
    """A kind: a number from `least` (or `above` it) to `most`. Text counts, since a filled template is text."""

    def check(value: Any) -> float:
        found = _from_text(value, float)
        if not _is_number(found):
            raise InvalidValue("is not a number")
        return _ranged(found, least, most, above)

    return check


def _whole(*, least: int = 0, most: int = 10**15) -> Kind:
    """A kind: a whole number from `least` to `most`."""

    def check(value: Any) -> int:
        found = _from_text(value, int)
        if not _is_number(found) or found != int(found):
            raise InvalidValue("is not a whole number")
        return int(_ranged(found, least, most, above=False))

    return check


def _choice(*words: str) -> Kind:
    """A kind: one of these words."""

    def check(value: Any) -> str:
        if value in words and isinstance(value, str):
            return value
        near = did_you_mean(value, words) if isinstance(value, str) else ""
        raise InvalidValue(f"is not one of {', '.join(words)}", near)

    return check


def _host(value: Any) -> str:
    """Check for `name`, `*.domain` or `[ipv6]`, each with an optional port."""
    found = _text(value)
    match = re.fullmatch(_HOST, found)
    if match is None or int(match["port"] or 0) > 65535:
        raise InvalidValue("is not a host", "Write only the host, such as api.example.com or *.example.org:8443.")
    return found.lower()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _from_text(value: Any, make: Callable[[str], Any]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return make(value)
    except ValueError:
        return value


def _ranged(value: float, least: float, most: float, above: bool) -> float:
    if not value >= least or (above and value == least):
        raise InvalidValue(f"is too small; it must be {'more than' if above else 'at least'} {least:g}")
    if value > most:
        raise InvalidValue(f"is too large; it may be at most {most:g}")
    return value


class LoadProblems:
    """The problems found during one load, in order. `errors` are those that a strict caller raises."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems = list(problems)
        self.errors: list[Problem] = []

    def add(self, problem: Problem, *, error: bool) -> None:
        """Add a problem."""
        self.problems.append(problem)
        if error:
            self.errors.append(problem)


class ConfigFile:
    """One parsed file: its values, their lines, and the way to report a problem with one of them."""

    def __init__(self, shown: str, document: Document, problems: LoadProblems, *, strict: bool) -> None:
        self.shown, self.data, self.lines = shown, document.data, document.lines
        self._problems, self._strict = problems, strict
        self._count = 0
        self.faulty = {fault.key for fault in document.faults}
        self._around_faults = {part for key in self.faulty for part in _prefixes(key)}
        for fault in document.faults:
            self._note(fault.line, fault.key, fault.message, fault.hint, self._is_error(fault.key))

    def where(self, key: str) -> str:
        """Return `file:line` of a dotted key, or of the nearest enclosing key that has a line."""
        return f"{self.shown}:{self._line(key)}"

    def report(self, key: str, message: str, hint: str = "", *, error: bool | None = None) -> None:
        """Report a problem with a key. Unless `error` is given, the key's section decides whether it is an error."""
        is_error = self._is_error(key) if error is None else error
        self._note(self._line(key), key, message, hint, is_error)

    def has_fault_in(self, key: str) -> bool:
        """Whether the parser left out something at or below the key."""
        return key in self._around_faults

    @property
    def is_full(self) -> bool:
        """Whether the file has so many problems that no more are listed."""
        return self._count > _MAX_PROBLEMS

    def _is_error(self, key: str) -> bool:
        """Whether a problem is an error: anything wrong in the main file but a tool, server or snippet (contract 3)."""
        head, dot, _ = key.replace("[", ".", 1).partition(".")
        return self._strict and not (dot and head in ("tools", "servers", "snippets"))

    def _note(self, line: int, key: str, message: str, hint: str, error: bool) -> None:
        self._count += 1
        shown = "".join(c if c.isprintable() else "?" for c in key[:120])
        text = f"{shown}: {message}" if shown else message
        if self.is_full and not (error and not self._problems.errors):  # the first error is always listed
            if self._count > _MAX_PROBLEMS + 1:
                return
            text, hint = f"has more than {_MAX_PROBLEMS} problems; the others are not listed.", ""
        self._problems.add(Problem(f"{self.shown}:{line}", text, hint), error=error)

    def _line(self, key: str) -> int:
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return 1


def _prefixes(key: str) -> Iterator[str]:
    """Yield the key and every enclosing key."""
    yield key
    for index, char in enumerate(key):
        if char in ".[":
            yield key[:index]


class BadTemplate(ValueError):
    """Text with a `${` that is not followed by `NAME}`."""


class UnknownName(LookupError):
    """A name that is neither in the secrets nor in the environment."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def fill(text: str, get: Get) -> str:
    """Replace every `${NAME}` with `get(NAME)`; `$${` is a literal `${`. Raises UnknownName or BadTemplate."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name = match[1]
        if name is None:
            raise BadTemplate(text)
        found = get(name)
        if found is None:
            raise UnknownName(name)
        return found

    return re.sub(_TEMPLATE, value, text)


class ValueReader:
    """Reads values of one file by dotted key, fills `${NAME}` with `get`, and reports what is wrong.

    A message shows the template as written, never the filled value.
    """

    def __init__(self, file: ConfigFile, get: Get) -> None:
        self.file, self._get = file, get
        self._templates: dict[str, str] = {}

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return the section under a key; empty if it is missing, empty or not a mapping."""
        raw = self.file.data if not key else self.file.data.get(key)
        if isinstance(raw, dict):
            return raw
        if raw is not None:
            self.file.report(key, f"{quoted(raw)} is not 'key: value' lines.", error=True)
        return {}

    def items(self, key: str) -> list[Any]:
        """Return the list under a key; empty if it is missing, empty or not a list."""
        raw = self.file.data.get(key)
        if raw is None or isinstance(raw, list):
            return raw or []
        self.file.report(key, f"{quoted(raw)} is not a list.", "Begin each entry with '- '.", error=True)
        return []

    def value(self, key: str, raw: Any, kind: Kind) -> Any:
        """Return the checked value, or None if it is missing or wrong."""
        if raw is None:
            return None
        try:
            return kind(raw)
        except InvalidValue as exc:
            self.file.report(key, f"{self.shown(key, raw)} {exc.reason}.", exc.hint)
            return None

    def shown(self, key: str, raw: Any) -> str:
        """Return a value as a message may show it: its template, or "the value" if a template is inside it.

        List items change their index when an earlier one is left out, so a template anywhere in the list counts.
        """
        if key in self._templates:
            return quoted(self._templates[key])
        if self.file.is_full:
            return "the value"
        around = key[: key.rfind("[") + 1] if key.endswith("]") else key
        return "the value" if any(k.startswith(around) for k in self._templates) else quoted(raw)

    def is_template(self, key: str) -> bool:
        """Whether the value under a key was written as a `${NAME}`."""
        return key in self._templates

    def allow_keys(self, known: Iterable[str]) -> None:
        """Report every top-level key that is not known."""
        for key in self.file.data:
            if key not in known:
                self.unknown(key, key, known)

    def unknown(self, key: str, name: str, known: Iterable[str], what: str = "unknown key.") -> None:
        """Report a name that is not known, with the nearest known name as the hint."""
        near = "" if self.file.is_full else did_you_mean(name, known)
        listed = ", ".join(sorted(known))
        hint = near or (f"Known: {listed}." if listed and len(listed) < 300 else "")
        self.file.report(key, what, hint)

    def filled(self, value: Any, key: str) -> tuple[Any, bool]:
        """Return the value with every `${NAME}` filled, and whether nothing was missing.

        A part that cannot be filled is left out of its mapping or list. If that is the whole value, it is None.
        """
        missing: list[str] = []
        found = self._fill(value, key, missing)
        return (None if found is _LEFT_OUT else found), not missing

    def _fill(self, value: Any, key: str, missing: list[str]) -> Any:
        if isinstance(value, str):
            return self._fill_text(value, key, missing) if "${" in value else value
        if isinstance(value, dict):
            made = {k: self._fill(v, f"{key}.{k}", missing) for k, v in value.items()}
            return {k: v for k, v in made.items() if v is not _LEFT_OUT} if missing else made
        if isinstance(value, list):
            items = [self._fill(v, f"{key}[{i}]", missing) for i, v in enumerate(value)]
            return [v for v in items if v is not _LEFT_OUT] if missing else items
        return value

    def _fill_text(self, text: str, key: str, missing: list[str]) -> Any:
        self._templates[key] = text
        try:
            return fill(text, self._get)
        except UnknownName as exc:
            message = f"${{{exc.name}}} is neither in secrets.yaml nor in the environment."
            self.file.report(key, message, f"Add {exc.name} to one of them.", error=False)
        except BadTemplate:
            hint = "Write ${NAME}, or $${ for a literal '${'."
            self.file.report(key, f"{quoted(text)} has a '${{' without 'NAME}}'.", hint)
        missing.append(key)
        return _LEFT_OUT


def _server(reader: ValueReader, key: str, name: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check an MCP server. Without `type`, a `command` means stdio and a `url` means http."""
    form = _Form(reader, key, data)
    if not _is_server_name(name):
        form.wrong("", f"{quoted(name)} is not a server's name.", "Use no blanks and no dots.")
    kind = form.get("type", _choice(*SERVER_KEYS), default="http" if "url" in form.data else "stdio")
    if kind is None:
        return None
    form.only(SERVER_KEYS[kind])
    out: dict[str, Any] = {"type": kind}
    if kind == "stdio":
        out["command"] = form.get("command", _text, required=True)
        out["args"] = form.list_of("args", _scalar_text)
        out["env"] = form.mapping_of("env", _scalar_text)
        out["cwd"] = form.get("cwd", _text)
        out["inherit"] = form.list_of("inherit", _variable)
    else:
        out["url"] = form.get("url", _server_url, required=True)
        out["headers"] = form.mapping_of("headers", _header)
        out["auth"] = _server_auth(form)
    out["enabled"] = form.get("enabled", _boolean, default=True)
    out["trusted"] = form.get("trusted", _boolean, default=False)
    out["sampling"] = form.get("sampling", _boolean, default=False)
    out["log_level"] = form.get("log_level", _choice(*LOG_LEVELS), default="info")
    if "protocol" in SERVER_KEYS[kind]:
        out["protocol"] = form.get("protocol", _choice(*PROTOCOLS), default="auto")
    for limit in ("timeout_s", "idle_s"):
        out[limit] = form.get(limit, _SECONDS)
    return out if form.good else None


def _server_auth(server: _Form) -> dict[str, Any]:
    """Check how to sign in to a server. What is secret has to be a `${NAME}`."""
    form = _Form(server.reader, f"{server.key}.auth", server.data.get("auth"))
    form.only(AUTH_KEYS)
    kinds: dict[str, Kind] = {
        "grant": _choice("authorization_code", "client_credentials"),
        "signing_algorithm": _choice("RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "EdDSA"),
        "client_metadata_url": _document_url,
        "issuer": _server_url,
        "redirect_uri": _server_url,
    }
    out = {name: form.get(name, kinds.get(name, _text)) for name in AUTH_KEYS if name != "scopes"}
    out["scopes"] = tuple(form.list_of("scopes", _scope))
    for name in ("client_secret", "private_key"):
        if out[name] is not None and not form.reader.is_template(f"{form.key}.{name}"):
            form.wrong(name, "is written out here.", "Put it into secrets.yaml, and write its name: ${NAME}.")
    if out["grant"] == "client_credentials":
        for name in ("client_id", "issuer"):
            form.get(name, _text, required=True)
        if (out["client_secret"] is None) == (out["private_key"] is None):
            form.wrong("", "needs a 'client_secret' or a 'private_key'.")
    elif out["client_id"] is None and out["client_secret"] is not None:
        form.wrong("", "has a 'client_secret' and no 'client_id'.")
    server.good = server.good and form.good
    return {name: value for name, value in out.items() if value}


def _server_as_written(name: str, raw: Any) -> dict[str, Any] | None:
    """Return a server that is shown but not started: nothing is filled or checked. None if it is not a mapping."""
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
    """Check a server that was typed, not read from a file. Raises InvalidConfig with every fault."""
    found = LoadProblems()
    file = ConfigFile("servers", Document({}, {}, []), found, strict=False)
    reader = ValueReader(file, get)
    filled, complete = reader.filled(data, name)
    made = _server(reader, name, name, filled) if complete else None
    if made is None:
        said = [f"{problem.message} {problem.hint}".rstrip() for problem in found.problems]
        raise InvalidConfig("\n".join(said) or f"{quoted(name)} is not a server.", problems=found.problems)
    return made


def _model(reader: ValueReader, key: str, name: str, data: Mapping[str, Any]) -> Model | None:
    """Check a language model."""
    form = _Form(reader, key, data)
    form.only(MODEL_KEYS)
    options = form.mapping_of("options", _json)
    for option in options.keys() & _RESERVED_OPTIONS:
        form.wrong(f"options.{option}", f"'{option}' is set by %ask itself and cannot be an option.")
    made = Model(
        name=name,
        provider=form.get("provider", _choice(*get_args(Provider)), required=True),
        model=form.get("model", _text, required=True),
        base_url=form.get("base_url", _url),
        key=form.get("key", _text),
        where=reader.file.where(key),
        options=options,
    )
    return made if form.good else None


def _snippet(reader: ValueReader, key: str, name: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check a snippet. Its body is a Jinja2 template, which is checked when it is expanded."""
    form = _Form(reader, key, data)
    if not name.isidentifier():
        form.wrong("", f"{quoted(name)} is not a name.", "Use letters, digits and '_'.")
    form.only(SNIPPET_KEYS)
    out = {
        "description": form.get("description", _text, default=""),
        "params": {},
        "body": form.get("body", _text, required=True),
    }
    for param, given in form.mapping("params").items():
        inner = _Form(reader, f"{key}.params.{param}", given)
        if not param.isidentifier():
            inner.wrong("", f"{quoted(param)} is not a parameter's name.")
        inner.only(PARAM_KEYS)
        inner.get("description", _text)
        out["params"][param] = dict(inner.data)
        form.good = form.good and inner.good
    return out if form.good else None


def _topic(reader: ValueReader, key: str, data: Any) -> Topic | None:
    """Check a topic."""
    form = _Form(reader, key, data)
    form.only(Topic.fields())
    made = Topic(form.get("pattern", _text, required=True), form.get("file", _text, required=True))
    return made if form.good else None


def _is_server_name(name: str) -> bool:
    return name.isprintable() and not any(c.isspace() or c == "." for c in name)


def _json(value: Any) -> Any:
    if not values.is_json(value):
        raise InvalidValue("is not JSON", "Put it in quotes.")
    return value


def _url(value: Any) -> str:
    found = _text(value).strip()
    if not found.lower().startswith(("http://", "https://")):
        raise InvalidValue("is not an http:// or https:// address")
    return found


def _server_url(value: Any) -> str:
    """Check for the address of a server: https, or plain http on this machine."""
    found = _url(value)
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(found)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host:
        raise InvalidValue("is not an http:// or https:// address")
    if parts.scheme.lower() == "http" and not _is_loopback(host):
        raise InvalidValue("is plain http to another machine", "Use https://; http:// is for 127.0.0.1 and localhost.")
    return found


def _document_url(value: Any) -> str:
    """Check for the address of a client id metadata document."""
    found = _server_url(value)
    if not found.startswith("https://") or "/" not in found.removeprefix("https://").rstrip("/"):
        raise InvalidValue("is not the address of a document", "Write https:// with a path.")
    return found


def _scope(value: Any) -> str:
    """Check for one scope, as OAuth spells it."""
    found = _text(value)
    if not re.fullmatch(r"[!#-\[\]-~]+", found):
        raise InvalidValue("is not a scope", "Write each scope as an entry of the list.")
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
    """One entry while it is read. `good` is True as long as nothing is wrong with it."""

    def __init__(self, reader: ValueReader, key: str, data: Any) -> None:
        self.reader, self.key, self.good = reader, key, True
        self.data: Mapping[str, Any] = {}
        if isinstance(data, dict):
            self.data = data
        elif data is not None:
            self.wrong("", f"{reader.shown(key, data)} is not 'key: value' lines.")

    def wrong(self, name: str, message: str, hint: str = "") -> None:
        self.good = False
        self.reader.file.report(self._inner(name), message, hint)

    def only(self, known: Iterable[str]) -> None:
        for name in self.data:
            if name not in known:
                self.good = False
                self.reader.unknown(self._inner(name), name, known)

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
            self.wrong(name, f"{self.reader.shown(self._inner(name), raw)} is not a list.")
            raw = None
        return [self._checked(f"{self._inner(name)}[{i}]", v, kind) for i, v in enumerate(raw or [])]

    def mapping(self, name: str) -> Mapping[str, Any]:
        raw = self.data.get(name)
        if isinstance(raw, dict):
            return raw
        if raw is not None:
            self.wrong(name, f"{self.reader.shown(self._inner(name), raw)} is not 'key: value' lines.")
        return {}

    def mapping_of(self, name: str, kind: Kind) -> dict[str, Any]:
        inner = self._inner(name)
        return {k: self._checked(f"{inner}.{k}", v, kind) for k, v in self.mapping(name).items()}

    def _checked(self, key: str, raw: Any, kind: Kind) -> Any:
        value = self.reader.value(key, raw, kind)
        self.good = self.good and value is not None
        return value

    def _inner(self, name: str) -> str:
        return f"{self.key}.{name}" if name else self.key


_Section = TypeVar("_Section", HttpSettings, FsSettings, OutputSettings, StatsSettings, AskSettings, TimeoutSettings)
_Build = Callable[[ValueReader, str, str, Mapping[str, Any]], Any]

_SECONDS = _number(above=True, most=7 * 86_400)
_KINDS: Mapping[type, Mapping[str, Kind]] = {
    HttpSettings: {
        "allowed_hosts": _texts,
        "timeout_s": _SECONDS,
        "max_response_bytes": _whole(least=1),
        "allow_private": _boolean,
    },
    FsSettings: {"roots": _texts},
    OutputSettings: {
        "max_inline_bytes": _whole(),
        "preview_lines": _whole(),
        "result_ttl_s": _number(above=True),
        "max_store_bytes": _whole(),
    },
    StatsSettings: {
        "enabled": _boolean,
        "context_per_call": _whole(),
        "time_overhead_per_call_ms": _whole(),
        "chars_per_token": _number(above=True),
    },
    AskSettings: {
        "with_tools": _boolean,
        "tool_allow": _texts,
        "max_steps": _whole(least=1, most=1000),
        "approve": _texts,
        "max_calls": _whole(least=1, most=100_000),
        "max_tokens": _whole(least=1),
        "max_seconds": _SECONDS,
        "context_tokens": _whole(least=1),
        "stream": _boolean,
    },
    TimeoutSettings: {"local_s": _SECONDS, "mcp_s": _SECONDS},
}


def check_settings(
    main: ConfigFile | None,
    snippets: ConfigFile | None,
    get: Get,
    *,
    is_trusted: bool = True,
    withheld: Pins = NO_PINS,
) -> Settings:
    """Build the Settings from onetool.yaml and snippets.yaml; `get` returns the value of a `${NAME}`.

    `withheld` is what the user has not approved: it is left out, but for servers, which are shown and not started.
    """
    settings = Settings()
    if main is not None:
        reader = ValueReader(main, get)
        settings = _settings(reader, withheld) if is_trusted else _untrusted_settings(reader, withheld)
    if snippets is None:
        return settings
    found = dict(settings.snippets)
    section = _snippet_section(snippets)
    reader = ValueReader(snippets, get)
    if section:
        _version(reader)
        reader.allow_keys(("snippets", "version"))
    for name, definition in _entries(reader, section, _snippet).items():
        if name in found:
            key = f"{section}.{name}" if section else name
            snippets.report(key, f"is ignored, since {found[name].where} has this name.")
        else:
            found[name] = definition
    return settings.replace(snippets=MappingProxyType(found))


def check_prompts(file: ConfigFile) -> Mapping[str, str]:
    """Return the instructions by pack, from `packs:` in prompts.yaml."""
    reader = ValueReader(file, lambda _name: None)
    reader.allow_keys(("packs",))
    checked = {n: reader.value(f"packs.{n}", v, _text) for n, v in reader.mapping("packs").items()}
    return MappingProxyType({name: found for name, found in checked.items() if found is not None})


def _settings(reader: ValueReader, withheld: Pins) -> Settings:
    state_dir = reader.value("state_dir", reader.file.data.get("state_dir"), _text)
    return _plain_settings(reader, withheld).replace(
        packs=_packs(reader),
        servers=_entries(reader, "servers", _server, filled=True),
        http=_http(reader, withheld),
        models=_models(reader, withheld),
        state_dir=None if state_dir in withheld.get("state folder", ()) else state_dir,
    )


def _plain_settings(reader: ValueReader, withheld: Pins) -> Settings:
    """The sections in which no `${NAME}` is filled."""
    reader.allow_keys((*Settings.fields(), "alias"))
    tools_dir = reader.value("tools_dir", reader.file.data.get("tools_dir"), _texts)
    fs, topics = _section(reader, "fs", FsSettings), _topics(reader)
    return Settings(
        version=_version(reader),
        tools_dir=Settings().tools_dir if tools_dir is None else tools_dir,
        tools=_tools(reader.file, reader.items("tools")),
        recommended=reader.value("recommended", reader.file.data.get("recommended"), _texts) or (),
        aliases=_aliases(reader),
        snippets=_entries(reader, "snippets", _snippet),
        topics=tuple(topic for topic in topics if topic.file not in withheld.get("file", ())),
        fs=fs.replace(roots=tuple(root for root in fs.roots if root not in withheld.get("folder", ()))),
        output=_section(reader, "output", OutputSettings),
        stats=_section(reader, "stats", StatsSettings),
        ask=_section(reader, "ask", AskSettings),
        timeouts=_section(reader, "timeouts", TimeoutSettings),
    )


def _untrusted_settings(reader: ValueReader, withheld: Pins) -> Settings:
    """The settings of an untrusted project: nothing is filled, and nothing reaches out of its folder.

    Its models, pack settings, hosts and `state_dir` do not count, nor does what limits or hides calls: `ask`, `stats`
    and `output`. Its servers are only shown.
    """
    settings = _plain_settings(reader, withheld)
    written = reader.file.data.get("servers")
    named = written.items() if isinstance(written, dict) else ()
    servers = {
        name: Definition(data, reader.file.where(f"servers.{name}"), raw)
        for name, raw in named
        if not reader.file.has_fault_in(f"servers.{name}") and (data := _server_as_written(name, raw)) is not None
    }
    return settings.replace(
        servers=MappingProxyType(servers), ask=AskSettings(), stats=StatsSettings(), output=OutputSettings()
    )


def _version(reader: ValueReader) -> int:
    found = reader.file.data.get("version", 1)
    if found != 1 or isinstance(found, bool):
        message = f"{quoted(found)} is not a version this release knows."
        reader.file.report("version", message, "Update onetool-ipy, or write 1.")
    return 1


def _packs(reader: ValueReader) -> Mapping[str, Definition]:
    """Each pack's own settings, unchecked. A value that cannot be filled is left out."""
    out = {}
    for name, raw in reader.mapping("packs").items():
        key = f"packs.{name}"
        if isinstance(raw, dict):
            out[name] = Definition(reader.filled(raw, key)[0], reader.file.where(key))
        elif raw is not None:
            reader.file.report(key, f"{quoted(raw)} is not 'key: value' lines.")
    return MappingProxyType(out)


def _tools(file: ConfigFile, items: list[Any]) -> tuple[Definition, ...]:
    """The tool definitions as written; `sources.declared` checks them."""
    out = []
    for index, data in enumerate(items):
        key = f"tools[{index}]"
        if isinstance(data, dict | Packed):
            out.append(Definition(data, f"{file.shown}:{file.lines.get(key, 1)}"))
        elif key not in file.faulty:
            file.report(key, f"{quoted(data)} is not 'key: value' lines.")
    return tuple(out)


def _aliases(reader: ValueReader) -> Mapping[str, str]:
    out: dict[str, str] = {}
    for section in ("aliases", "alias"):
        for name, raw in reader.mapping(section).items():
            key = f"{section}.{name}"
            if not name.isidentifier():
                reader.file.report(key, "is not a name.", "Use letters, digits and '_'.")
            elif name in out:
                reader.file.report(key, "is ignored, since 'aliases' has this name.")
            elif (target := reader.value(key, raw, _text)) is not None:
                out[name] = target.strip()
            elif raw is None and key not in reader.file.faulty:
                reader.file.report(key, "names no tool.")
    return MappingProxyType(out)


def _topics(reader: ValueReader) -> tuple[Topic, ...]:
    keyed = ((f"topics[{i}]", data) for i, data in enumerate(reader.items("topics")))
    found = (_topic(reader, key, data) for key, data in keyed if not reader.file.has_fault_in(key))
    return tuple(t for t in found if t is not None)


def _http(reader: ValueReader, withheld: Pins) -> HttpSettings:
    # Hosts are withheld as they are written, before a `${NAME}` in them is filled.
    left_out = withheld.get("host", {})
    written = {
        name: raw for name, raw in reader.mapping("http").items() if f"http.{name}" not in withheld.get("setting", ())
    }
    hosts = written.get("allowed_hosts")
    if left_out and isinstance(hosts, (str, list)):
        listed = [hosts] if isinstance(hosts, str) else hosts
        written["allowed_hosts"] = [host for host in listed if not isinstance(host, str) or host not in left_out]
    settings = _section(reader, "http", HttpSettings, filled=True, written=written)
    keyed = ((f"http.allowed_hosts[{i}]", name) for i, name in enumerate(settings.allowed_hosts))
    checked = (reader.value(key, name, _host) for key, name in keyed)
    return settings.replace(allowed_hosts=tuple(host for host in checked if host is not None))


def _models(reader: ValueReader, withheld: Pins) -> Models:
    """The models that count. The default may be a withheld one, so that the user is asked for it."""
    raw = {name: data for name, data in reader.mapping("models").items() if name != "default"}
    left_out = withheld.get("model", {})
    default = reader.value("models.default", reader.mapping("models").get("default"), _text)
    counted = {name: data for name, data in raw.items() if name not in left_out}
    named: Mapping[str, Model] = _entries(reader, "models", _model, raw=counted, filled=True)
    if default is not None and default not in raw:
        reader.unknown("models.default", default, raw, f"there is no model {quoted(default)}.")
    if default is None and len(named) + len(left_out) == 1:
        (default,) = (*named, *left_out)
    return Models(default if default in named or default in left_out else None, named)


def _section(
    reader: ValueReader,
    key: str,
    make: type[_Section],
    *,
    filled: bool = False,
    written: Mapping[str, Any] | None = None,
) -> _Section:
    """A section of single values. A missing, empty or wrong value becomes the default."""
    kinds = _KINDS[make]
    good: dict[str, Any] = {}
    for name, raw in (reader.mapping(key) if written is None else written).items():
        inner = f"{key}.{name}"
        if name not in kinds:
            reader.unknown(inner, name, kinds)
            continue
        value = reader.filled(raw, inner)[0] if filled else raw
        checked = reader.value(inner, value, kinds[name])
        if checked is not None:
            good[name] = checked
    return make(**good)


def _entries(
    reader: ValueReader,
    section: str,
    build: _Build,
    *,
    raw: Mapping[str, Any] | None = None,
    filled: bool = False,
) -> Mapping[str, Any]:
    """The valid entries by name. Every other entry is reported and left out."""
    out: dict[str, Any] = {}
    for name, written in (reader.mapping(section) if raw is None else raw).items():
        key = f"{section}.{name}" if section else name
        if reader.file.has_fault_in(key):
            continue
        data, complete = reader.filled(written, key) if filled else (written, True)
        made = build(reader, key, name, data) if complete else None
        if made is not None:
            out[name] = made if isinstance(made, Model) else Definition(made, reader.file.where(key), written)
    return MappingProxyType(out)


def _snippet_section(file: ConfigFile) -> str:
    """The key that holds the snippets: `snippets`, or empty if their names are at the top of the file."""
    inner = file.data.get("snippets")
    return "snippets" if isinstance(inner, dict) and not isinstance(inner.get("body"), str) else ""
