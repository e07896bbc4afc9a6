"""What one value of the settings may be: each kind takes a plain value and gives the checked one, or raises Wrong.

Pure, and without knowledge of files: the words of a Wrong follow the value in a message ("'abc' is not a number").
Text that came out of `${NAME}` is read as a number or boolean where one is wanted, since a template is always text.

The faults found while one load goes on, each as a Problem with file, line and key.

Two weights: an error is something `open_toolbox(path)` must raise; any other problem costs only its own entry.

`${NAME}`: find it and fill it. `$${` is a literal `${`. Pure text in, text out.

A NAME is letters, digits and `_`, not beginning with a digit. Anything else after `${` is a fault, so that a typing
error never travels on as text.

Looking at the values of one file: fill `${NAME}`, check a kind, complain with file, line and key.

What `check` and `entries` share. A message shows the template that was written, never what it was filled with.

What one server, model, snippet or topic must hold. A faulty one is None, after a complaint for each fault.

The keys of a server are those of its type; the command, arguments and environment of a stdio server are texts, so
numbers and booleans become text here.

Parsed files -> Settings and prompts. Every key is checked; a wrong one is noted and its default stands.

Owns which keys there are and what each may hold. Values of packs, servers, models and http are filled (`${NAME}`)
before they are looked at: a name that is missing leaves out the server or model that needs it; in packs and http it
leaves out that one value. In a project that is not trusted nothing is filled, and `_restrained` says what of it does
not count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.config.paths import FOLDER
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
from onetool_ipy.config.yaml_text import Document, Packed, quoted
from onetool_ipy.core.tool import Problem

__all__ = [
    "MODEL_KEYS",
    "PARAM_KEYS",
    "SERVER_KEYS",
    "SNIPPET_KEYS",
    "BadTemplate",
    "ConfigFile",
    "Get",
    "InvalidValue",
    "Kind",
    "LoadProblems",
    "UnknownName",
    "ValueReader",
    "boolean",
    "check_prompts",
    "check_server",
    "check_settings",
    "choice",
    "fill",
    "header",
    "host",
    "model",
    "number",
    "scalar_text",
    "server",
    "server_as_written",
    "snippet",
    "text",
    "texts",
    "topic",
    "variable",
    "whole",
]

Kind = Callable[[Any], Any]

_YES = frozenset(("true", "yes", "on"))
_NO = frozenset(("false", "no", "off"))
_HOST = r"(?:(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"


class InvalidValue(ValueError):
    """Why a value does not fit; `hint` says what to write instead."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def text(value: Any) -> str:
    """Text that is not empty."""
    if not isinstance(value, str):
        raise InvalidValue("is not text", "Put it in quotes." if _is_number(value) else "")
    if not value.strip():
        raise InvalidValue("is empty")
    return value


def scalar_text(value: Any) -> str:
    """Text, or a number or boolean as text: arguments and environment of a command."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidValue("is not text")


def header(value: Any) -> str:
    """The value of an HTTP header: one line of Latin-1."""
    found = scalar_text(value)
    if not found.isprintable() or any(ord(c) > 255 for c in found):
        raise InvalidValue("is not a header's value", "Use one line of plain letters.")
    return found


def variable(value: Any) -> str:
    """The name of an environment variable."""
    found = text(value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", found):
        raise InvalidValue("is not the name of an environment variable", "Write only the name, such as HTTP_PROXY.")
    return found


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; one text alone is a list of one."""
    if isinstance(value, str):
        return (text(value),)
    if not isinstance(value, list):
        raise InvalidValue("is not a list of texts")
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise InvalidValue("is not a list of texts")
    return tuple(value)


def boolean(value: Any) -> bool:
    """true or false; yes, no, on and off are understood too, since other YAML readers do."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if word in _YES or word in _NO:
        return word in _YES
    raise InvalidValue("is not true or false")


def number(*, least: float = 0, most: float = 1e15, above: bool = False) -> Kind:
    """A number from `least` (or `above` it) to `most`."""

    def check(value: Any) -> float:
        found = _from_text(value, float)
        if not _is_number(found):
            raise InvalidValue("is not a number")
        return _ranged(found, least, most, above)

    return check


def whole(*, least: int = 0, most: int = 10**15) -> Kind:
    """A whole number from `least` to `most`."""

    def check(value: Any) -> int:
        found = _from_text(value, int)
        if not _is_number(found) or found != int(found):
            raise InvalidValue("is not a whole number")
        return int(_ranged(found, least, most, above=False))

    return check


def choice(*words: str) -> Kind:
    """One of these words."""

    def check(value: Any) -> str:
        if value in words and isinstance(value, str):
            return value
        from onetool_ipy.base.search import did_you_mean

        near = did_you_mean(value, words) if isinstance(value, str) else ""
        raise InvalidValue(f"is not one of {', '.join(words)}", near)

    return check


def host(value: Any) -> str:
    """`name`, `*.domain` or `[ipv6]`, each with an optional port."""
    found = text(value)
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


_MOST = 200


class LoadProblems:
    """Collects problems in the order they are found."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.problems = list(problems)
        self.errors: list[Problem] = []

    def add(self, problem: Problem, *, error: bool) -> None:
        """Note a problem; an error is also one that a strict caller raises."""
        self.problems.append(problem)
        if error:
            self.errors.append(problem)


class ConfigFile:
    """One parsed file: its values, where each stands, and a way to complain about one."""

    def __init__(self, shown: str, document: Document, notes: LoadProblems, *, strict: bool) -> None:
        self.shown, self.data, self.lines = shown, document.data, document.lines
        self._notes, self._strict = notes, strict
        self._noted = 0
        self.faulty = {fault.key for fault in document.faults}
        self._around_faults = {part for key in self.faulty for part in _prefixes(key)}
        for fault in document.faults:
            self._note(fault.line, fault.key, fault.message, fault.hint, self._weight(fault.key))

    def where(self, key: str) -> str:
        """`file:line` of a dotted key, or of the nearest thing around it that has a line."""
        return f"{self.shown}:{self._line(key)}"

    def complain(self, key: str, message: str, hint: str = "", *, error: bool | None = None) -> None:
        """Note what is wrong with a key; without `error`, the section it stands in decides the weight."""
        weight = self._weight(key) if error is None else error
        self._note(self._line(key), key, message, hint, weight)

    def has_fault_in(self, key: str) -> bool:
        """Whether something at or below the key was left out when the text was parsed."""
        return key in self._around_faults

    @property
    def is_full(self) -> bool:
        """Whether so much is wrong that no more is listed."""
        return self._noted > _MOST

    def _weight(self, key: str) -> bool:
        """One bad tool, server or snippet stops nothing (contract 3); anything else of the main file is an error."""
        head, dot, _ = key.replace("[", ".", 1).partition(".")
        return self._strict and not (dot and head in ("tools", "servers", "snippets"))

    def _note(self, line: int, key: str, message: str, hint: str, error: bool) -> None:
        self._noted += 1
        shown = "".join(c if c.isprintable() else "?" for c in key[:120])
        text = f"{shown}: {message}" if shown else message
        if self.is_full and not (error and not self._notes.errors):  # the first error is told, come what may
            if self._noted > _MOST + 1:
                return
            text, hint = f"has more than {_MOST} problems; the others are not listed.", ""
        self._notes.add(Problem(f"{self.shown}:{line}", text, hint), error=error)

    def _line(self, key: str) -> int:
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return 1


def _prefixes(key: str) -> Iterator[str]:
    """The key itself and the key of everything around it."""
    yield key
    for index, char in enumerate(key):
        if char in ".[":
            yield key[:index]


_PLACE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?"


class BadTemplate(ValueError):
    """Text whose `${` is not followed by `NAME}`."""


class UnknownName(LookupError):
    """A name that neither the secrets nor the environment have."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def fill(text: str, get: Callable[[str], str | None]) -> str:
    """Replace every `${NAME}` by `get(NAME)`; raise UnknownName or BadTemplate."""

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

    return re.sub(_PLACE, value, text)


Get = Callable[[str], str | None]

_LEFT_OUT = object()


class ValueReader:
    """Reads values of one file by dotted key; `get` gives the value of a `${NAME}`."""

    def __init__(self, file: ConfigFile, get: Get) -> None:
        self.file, self._get = file, get
        self._templates: dict[str, str] = {}

    def mapping(self, key: str) -> Mapping[str, Any]:
        """The section under a key; empty where it is missing, empty or no mapping."""
        raw = self.file.data if not key else self.file.data.get(key)
        if isinstance(raw, dict):
            return raw
        if raw is not None:
            self.file.complain(key, f"{quoted(raw)} is not 'key: value' lines.", error=True)
        return {}

    def items(self, key: str) -> list[Any]:
        """The list under a key; empty where it is missing, empty or no list."""
        raw = self.file.data.get(key)
        if raw is None or isinstance(raw, list):
            return raw or []
        self.file.complain(key, f"{quoted(raw)} is not a list.", "Begin each entry with '- '.", error=True)
        return []

    def value(self, key: str, raw: Any, kind: Kind) -> Any:
        """The checked value, or None where nothing was written or it was wrong."""
        if raw is None:
            return None
        try:
            return kind(raw)
        except InvalidValue as exc:
            self.file.complain(key, f"{self.shown(key, raw)} {exc.reason}.", exc.hint)
            return None

    def shown(self, key: str, raw: Any) -> str:
        """A value as a message may name it: the template where there is one, no value where one is inside.

        Items of a list lose their number when one before them was left out, so the whole list counts.
        """
        if key in self._templates:
            return quoted(self._templates[key])
        if self.file.is_full:
            return "the value"
        around = key[: key.rfind("[") + 1] if key.endswith("]") else key
        return "the value" if any(k.startswith(around) for k in self._templates) else quoted(raw)

    def unknown(self, key: str, name: str, known: Iterable[str], what: str = "unknown key.") -> None:
        """Complain about a name that is not among the known, with the nearest of them."""
        from onetool_ipy.base.search import did_you_mean

        near = "" if self.file.is_full else did_you_mean(name, known)
        listed = ", ".join(sorted(known))
        hint = near or (f"Known: {listed}." if listed and len(listed) < 300 else "")
        self.file.complain(key, what, hint)

    def filled(self, value: Any, key: str) -> tuple[Any, bool]:
        """The value with every `${NAME}` in it filled, and whether nothing was missing.

        What cannot be filled is left out of its mapping or list; the whole is None when it is that.
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
            self.file.complain(key, message, f"Add {exc.name} to one of them.", error=False)
        except BadTemplate:
            hint = "Write ${NAME}, or $${ for a literal '${'."
            self.file.complain(key, f"{quoted(text)} has a '${{' without 'NAME}}'.", hint)
        missing.append(key)
        return _LEFT_OUT


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


def server(look: ValueReader, key: str, name: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
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
    notes = LoadProblems()
    file = ConfigFile("servers", Document({}, {}, []), notes, strict=False)
    look = ValueReader(file, get)
    filled, complete = look.filled(data, name)
    made = server(look, name, name, filled) if complete else None
    if made is None:
        said = [f"{problem.message} {problem.hint}".rstrip() for problem in notes.problems]
        raise InvalidConfig("\n".join(said) or f"{quoted(name)} is not a server.", problems=notes.problems)
    return made


def model(look: ValueReader, key: str, name: str, data: Mapping[str, Any]) -> Model | None:
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


def snippet(look: ValueReader, key: str, name: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
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


def topic(look: ValueReader, key: str, data: Any) -> Topic | None:
    """Where messages of a topic go."""
    form = _Form(look, key, data)
    form.only(Topic.fields())
    made = Topic(form.get("pattern", text, required=True), form.get("file", text, required=True))
    return made if form.good else None


def _is_server_name(name: str) -> bool:
    return name.isprintable() and not any(c.isspace() or c == "." for c in name)


def _json(value: Any) -> Any:
    if not values.is_json(value):
        raise InvalidValue("is not JSON", "Put it in quotes.")
    return value


def _url(value: Any) -> str:
    found = text(value).strip()
    if not found.lower().startswith(("http://", "https://")):
        raise InvalidValue("is not an http:// or https:// address")
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
        raise InvalidValue("is not an http:// or https:// address")
    if parts.scheme.lower() == "http" and not _is_loopback(host):
        raise InvalidValue("is plain http to another machine", "Use https://; http:// is for 127.0.0.1 and localhost.")
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

    def __init__(self, look: ValueReader, key: str, data: Any) -> None:
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


Section = TypeVar("Section", HttpSettings, FsSettings, OutputSettings, StatsSettings, AskSettings, TimeoutSettings)
Build = Callable[[ValueReader, str, str, Mapping[str, Any]], Any]

_SECONDS = number(above=True, most=7 * 86_400)
_KINDS: Mapping[type, Mapping[str, Kind]] = {
    HttpSettings: {
        "allowed_hosts": texts,
        "timeout_s": _SECONDS,
        "max_response_bytes": whole(least=1),
        "allow_private": boolean,
    },
    FsSettings: {"roots": texts},
    OutputSettings: {
        "max_inline_bytes": whole(),
        "preview_lines": whole(),
        "result_ttl_s": number(above=True),
        "max_store_bytes": whole(),
    },
    StatsSettings: {
        "enabled": boolean,
        "context_per_call": whole(),
        "time_overhead_per_call_ms": whole(),
        "chars_per_token": number(above=True),
    },
    AskSettings: {
        "with_tools": boolean,
        "tool_allow": texts,
        "max_steps": whole(least=1, most=1000),
        "approve": texts,
        "max_calls": whole(least=1, most=100_000),
        "max_tokens": whole(least=1),
        "max_seconds": _SECONDS,
        "context_tokens": whole(least=1),
        "stream": boolean,
    },
    TimeoutSettings: {"local_s": _SECONDS, "mcp_s": _SECONDS},
}


def check_settings(
    main: ConfigFile | None, snippets: ConfigFile | None, get: Get, *, untrusted: Path | None = None
) -> Settings:
    """Build the Settings from onetool.yaml and snippets.yaml; `get` gives the value of a `${NAME}`.

    `untrusted` is the project's folder, where the user does not trust it.
    """
    settings = Settings()
    if main is not None:
        look = ValueReader(main, get)
        settings = _settings(look) if untrusted is None else _restrained(look, untrusted)
    if snippets is None:
        return settings
    found = dict(settings.snippets)
    section = _snippet_section(snippets)
    for name, definition in _entries(_snippet_look(snippets, get, section), section, snippet).items():
        if name in found:
            key = f"{section}.{name}" if section else name
            snippets.complain(key, f"is ignored, since {found[name].where} has this name.")
        else:
            found[name] = definition
    return settings.replace(snippets=MappingProxyType(found))


def check_prompts(file: ConfigFile) -> Mapping[str, str]:
    """The instructions by pack, from `packs:` of prompts.yaml."""
    look = ValueReader(file, lambda _name: None)
    for key in file.data:
        if key != "packs":
            look.unknown(key, key, ("packs",))
    checked = {n: look.value(f"packs.{n}", v, text) for n, v in look.mapping("packs").items()}
    return MappingProxyType({name: found for name, found in checked.items() if found is not None})


def _settings(look: ValueReader) -> Settings:
    return _plain_settings(look).replace(
        packs=_packs(look),
        servers=_entries(look, "servers", server, filled=True),
        http=_http(look),
        models=_models(look),
        state_dir=look.value("state_dir", look.file.data.get("state_dir"), text),
    )


def _plain_settings(look: ValueReader) -> Settings:
    """The sections in which no `${NAME}` is filled."""
    data, default = look.file.data, Settings()
    known = (*Settings.fields(), "alias")
    for key in data:
        if key not in known:
            look.unknown(key, key, known)
    tools_dir = look.value("tools_dir", data.get("tools_dir"), texts)
    return Settings(
        version=_version(look),
        tools_dir=default.tools_dir if tools_dir is None else tools_dir,
        tools=_tools(look.file, look.items("tools")),
        aliases=_aliases(look),
        snippets=_entries(look, "snippets", snippet),
        topics=_topics(look),
        fs=_section(look, "fs", FsSettings),
        output=_section(look, "output", OutputSettings),
        stats=_section(look, "stats", StatsSettings),
        ask=_section(look, "ask", AskSettings),
        timeouts=_section(look, "timeouts", TimeoutSettings),
    )


def _restrained(look: ValueReader, project: Path) -> Settings:
    """The settings of a project that is not trusted: nothing is filled, and nothing reaches out of its folder.

    Its models, pack settings, hosts, approvals and `state_dir` do not count. Its servers are there to be shown.
    """
    found = _plain_settings(look)
    written = look.file.data.get("servers")
    named = written.items() if isinstance(written, dict) else ()
    servers = {
        name: Definition(data, look.file.where(f"servers.{name}"), raw)
        for name, raw in named
        if not look.file.has_fault_in(f"servers.{name}") and (data := server_as_written(name, raw)) is not None
    }
    roots = tuple(root for root in found.fs.roots if _is_inside(project, Path(root)))
    topics = tuple(topic for topic in found.topics if _is_inside(project, Path(FOLDER, topic.file)))
    return found.replace(
        servers=MappingProxyType(servers),
        fs=found.fs.replace(roots=roots),
        topics=topics,
        ask=found.ask.replace(approve=()),
    )


def _is_inside(project: Path, path: Path) -> bool:
    """Whether a path of the project stays in its folder, links resolved; `~` leads out of it."""
    if path.parts[:1] and path.parts[0].startswith("~"):
        return False
    return Path(os.path.realpath(project / path)).is_relative_to(os.path.realpath(project))


def _version(look: ValueReader) -> int:
    found = look.file.data.get("version", 1)
    if found != 1 or isinstance(found, bool):
        message = f"{quoted(found)} is not a version this release knows."
        look.file.complain("version", message, "Update onetool-ipy, or write 1.")
    return 1


def _packs(look: ValueReader) -> Mapping[str, Definition]:
    """A pack's own settings, whatever they are; one that cannot be filled is missing from them."""
    out = {}
    for name, raw in look.mapping("packs").items():
        key = f"packs.{name}"
        if isinstance(raw, dict):
            out[name] = Definition(look.filled(raw, key)[0], look.file.where(key))
        elif raw is not None:
            look.file.complain(key, f"{quoted(raw)} is not 'key: value' lines.")
    return MappingProxyType(out)


def _tools(file: ConfigFile, items: list[Any]) -> tuple[Definition, ...]:
    """The definitions as written; what one must hold is judged where they become tools."""
    out = []
    for index, data in enumerate(items):
        key = f"tools[{index}]"
        if isinstance(data, dict | Packed):
            out.append(Definition(data, f"{file.shown}:{file.lines.get(key, 1)}"))
        elif key not in file.faulty:
            file.complain(key, f"{quoted(data)} is not 'key: value' lines.")
    return tuple(out)


def _aliases(look: ValueReader) -> Mapping[str, str]:
    out: dict[str, str] = {}
    for section in ("aliases", "alias"):
        for name, raw in look.mapping(section).items():
            key = f"{section}.{name}"
            if not name.isidentifier():
                look.file.complain(key, "is not a name.", "Use letters, digits and '_'.")
            elif name in out:
                look.file.complain(key, "is ignored, since 'aliases' has this name.")
            elif (target := look.value(key, raw, text)) is not None:
                out[name] = target.strip()
            elif raw is None and key not in look.file.faulty:
                look.file.complain(key, "names no tool.")
    return MappingProxyType(out)


def _topics(look: ValueReader) -> tuple[Topic, ...]:
    keyed = ((f"topics[{i}]", data) for i, data in enumerate(look.items("topics")))
    found = (topic(look, key, data) for key, data in keyed if not look.file.has_fault_in(key))
    return tuple(t for t in found if t is not None)


def _http(look: ValueReader) -> HttpSettings:
    found = _section(look, "http", HttpSettings, filled=True)
    keyed = ((f"http.allowed_hosts[{i}]", name) for i, name in enumerate(found.allowed_hosts))
    hosts = (look.value(key, name, host) for key, name in keyed)
    return found.replace(allowed_hosts=tuple(h for h in hosts if h is not None))


def _models(look: ValueReader) -> Models:
    raw = {name: data for name, data in look.mapping("models").items() if name != "default"}
    default = look.value("models.default", look.mapping("models").get("default"), text)
    named: Mapping[str, Model] = _entries(look, "models", model, raw=raw, filled=True)
    if default is not None and default not in raw:
        look.unknown("models.default", default, raw, f"there is no model {quoted(default)}.")
    if default is None and len(named) == 1:
        (default,) = named
    return Models(default if default in named else None, named)


def _section(look: ValueReader, key: str, make: type[Section], *, filled: bool = False) -> Section:
    """A section of single values; what is missing, empty or wrong is the default."""
    kinds = _KINDS[make]
    good: dict[str, Any] = {}
    for name, raw in look.mapping(key).items():
        inner = f"{key}.{name}"
        if name not in kinds:
            look.unknown(inner, name, kinds)
            continue
        value = look.filled(raw, inner)[0] if filled else raw
        checked = look.value(inner, value, kinds[name])
        if checked is not None:
            good[name] = checked
    return make(**good)


def _entries(
    look: ValueReader,
    section: str,
    build: Build,
    *,
    raw: Mapping[str, Any] | None = None,
    filled: bool = False,
) -> Mapping[str, Any]:
    """The named entries that are good; each of the others was complained about and is left out."""
    out: dict[str, Any] = {}
    for name, written in (look.mapping(section) if raw is None else raw).items():
        key = f"{section}.{name}" if section else name
        if look.file.has_fault_in(key):
            continue
        data, complete = look.filled(written, key) if filled else (written, True)
        made = build(look, key, name, data) if complete else None
        if made is not None:
            out[name] = made if isinstance(made, Model) else Definition(made, look.file.where(key), written)
    return MappingProxyType(out)


def _snippet_section(file: ConfigFile) -> str:
    """`snippets` where the names stand under it, empty where they stand at the top of the file."""
    inner = file.data.get("snippets")
    return "snippets" if isinstance(inner, dict) and not isinstance(inner.get("body"), str) else ""


def _snippet_look(file: ConfigFile, get: Get, section: str) -> ValueReader:
    look = ValueReader(file, get)
    known = ("snippets", "version")
    if section:
        _version(look)
    for key in file.data if section else ():
        if key not in known:
            look.unknown(key, key, known)
    return look
