"""Parsed files -> Settings and prompts. Every key is checked; a wrong one is noted and its default stands.

Owns which keys there are and what each may hold. Values of packs, servers, models and http are filled (`${NAME}`)
before they are looked at: a name that is missing leaves out the server or model that needs it; in packs and http it
leaves out that one value. In a project that is not trusted nothing is filled, and `_restrained` says what of it does
not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from onetool_ipy.config.document import Packed, quoted
from onetool_ipy.config.entries import model, server, server_as_written, snippet, topic
from onetool_ipy.config.kinds import Kind, boolean, host, number, text, texts, whole
from onetool_ipy.config.look import Get, Look
from onetool_ipy.config.notes import File
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.config.settings import (
    Ask,
    Definition,
    Fs,
    Http,
    Model,
    Models,
    Output,
    Settings,
    Stats,
    Timeouts,
    Topic,
)

__all__ = ["check_prompts", "check_settings"]

Section = TypeVar("Section", Http, Fs, Output, Stats, Ask, Timeouts)
Build = Callable[[Look, str, str, Mapping[str, Any]], Any]

_SECONDS = number(above=True, most=7 * 86_400)
_KINDS: Mapping[type, Mapping[str, Kind]] = {
    Http: {
        "allowed_hosts": texts,
        "timeout_s": _SECONDS,
        "max_response_bytes": whole(least=1),
        "allow_private": boolean,
    },
    Fs: {"roots": texts},
    Output: {
        "max_inline_bytes": whole(),
        "preview_lines": whole(),
        "result_ttl_s": number(above=True),
        "max_store_bytes": whole(),
    },
    Stats: {
        "enabled": boolean,
        "context_per_call": whole(),
        "time_overhead_per_call_ms": whole(),
        "chars_per_token": number(above=True),
    },
    Ask: {
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
    Timeouts: {"local_s": _SECONDS, "mcp_s": _SECONDS},
}


def check_settings(main: File | None, snippets: File | None, get: Get, *, untrusted: Path | None = None) -> Settings:
    """Build the Settings from onetool.yaml and snippets.yaml; `get` gives the value of a `${NAME}`.

    `untrusted` is the project's folder, where the user does not trust it.
    """
    settings = Settings()
    if main is not None:
        look = Look(main, get)
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


def check_prompts(file: File) -> Mapping[str, str]:
    """The instructions by pack, from `packs:` of prompts.yaml."""
    look = Look(file, lambda _name: None)
    for key in file.data:
        if key != "packs":
            look.unknown(key, key, ("packs",))
    checked = {n: look.value(f"packs.{n}", v, text) for n, v in look.mapping("packs").items()}
    return MappingProxyType({name: found for name, found in checked.items() if found is not None})


def _settings(look: Look) -> Settings:
    return _plain_settings(look).replace(
        packs=_packs(look),
        servers=_entries(look, "servers", server, filled=True),
        http=_http(look),
        models=_models(look),
        state_dir=look.value("state_dir", look.file.data.get("state_dir"), text),
    )


def _plain_settings(look: Look) -> Settings:
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
        fs=_section(look, "fs", Fs),
        output=_section(look, "output", Output),
        stats=_section(look, "stats", Stats),
        ask=_section(look, "ask", Ask),
        timeouts=_section(look, "timeouts", Timeouts),
    )


def _restrained(look: Look, project: Path) -> Settings:
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


def _version(look: Look) -> int:
    found = look.file.data.get("version", 1)
    if found != 1 or isinstance(found, bool):
        message = f"{quoted(found)} is not a version this release knows."
        look.file.complain("version", message, "Update onetool-ipy, or write 1.")
    return 1


def _packs(look: Look) -> Mapping[str, Definition]:
    """A pack's own settings, whatever they are; one that cannot be filled is missing from them."""
    out = {}
    for name, raw in look.mapping("packs").items():
        key = f"packs.{name}"
        if isinstance(raw, dict):
            out[name] = Definition(look.filled(raw, key)[0], look.file.where(key))
        elif raw is not None:
            look.file.complain(key, f"{quoted(raw)} is not 'key: value' lines.")
    return MappingProxyType(out)


def _tools(file: File, items: list[Any]) -> tuple[Definition, ...]:
    """The definitions as written; what one must hold is judged where they become tools."""
    out = []
    for index, data in enumerate(items):
        key = f"tools[{index}]"
        if isinstance(data, dict | Packed):
            out.append(Definition(data, f"{file.shown}:{file.lines.get(key, 1)}"))
        elif key not in file.faulty:
            file.complain(key, f"{quoted(data)} is not 'key: value' lines.")
    return tuple(out)


def _aliases(look: Look) -> Mapping[str, str]:
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


def _topics(look: Look) -> tuple[Topic, ...]:
    keyed = ((f"topics[{i}]", data) for i, data in enumerate(look.items("topics")))
    found = (topic(look, key, data) for key, data in keyed if not look.file.has_fault_in(key))
    return tuple(t for t in found if t is not None)


def _http(look: Look) -> Http:
    found = _section(look, "http", Http, filled=True)
    keyed = ((f"http.allowed_hosts[{i}]", name) for i, name in enumerate(found.allowed_hosts))
    hosts = (look.value(key, name, host) for key, name in keyed)
    return found.replace(allowed_hosts=tuple(h for h in hosts if h is not None))


def _models(look: Look) -> Models:
    raw = {name: data for name, data in look.mapping("models").items() if name != "default"}
    default = look.value("models.default", look.mapping("models").get("default"), text)
    named: Mapping[str, Model] = _entries(look, "models", model, raw=raw, filled=True)
    if default is not None and default not in raw:
        look.unknown("models.default", default, raw, f"there is no model {quoted(default)}.")
    if default is None and len(named) == 1:
        (default,) = named
    return Models(default if default in named else None, named)


def _section(look: Look, key: str, make: type[Section], *, filled: bool = False) -> Section:
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
    look: Look,
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


def _snippet_section(file: File) -> str:
    """`snippets` where the names stand under it, empty where they stand at the top of the file."""
    inner = file.data.get("snippets")
    return "snippets" if isinstance(inner, dict) and not isinstance(inner.get("body"), str) else ""


def _snippet_look(file: File, get: Get, section: str) -> Look:
    look = Look(file, get)
    known = ("snippets", "version")
    if section:
        _version(look)
    for key in file.data if section else ():
        if key not in known:
            look.unknown(key, key, known)
    return look
