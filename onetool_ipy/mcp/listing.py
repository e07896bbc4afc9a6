"""A server's list of tools as ToolSpecs. A tool that cannot be offered becomes a Problem and costs
no other tool.

The resources, templates and prompts of the server are in the same listing, checked in the same way.

`ListingCache` keeps lists on disk, so that help and Tab work before the server runs: JSON without
secrets, one file per server definition. Nothing here imports the SDK.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidTool, OneToolError
from onetool_ipy.base.files import write_whole
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import ServerFacts, ToolSpec
from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.schema.check import Checker

OfferKind = Literal["resources", "templates", "prompts"]

LISTS: Mapping[OfferKind, tuple[str, str, str]] = {
    "resources": ("resources", "resources/list", "resources"),
    "templates": ("resources", "resources/templates/list", "resourceTemplates"),
    "prompts": ("prompts", "prompts/list", "prompts"),
}
"""For each kind: the capability, the request that lists it, and the key in its result."""

MAX_URI = 8_192
"""The longest uri of a resource that is taken."""

MAX_TOOLS = 5_000
"""The most tools, and the most entries of each other kind, that are taken from one server."""

_KEY: Mapping[OfferKind, str] = {"resources": "uri", "templates": "uriTemplate", "prompts": "name"}
_NOUN: Mapping[OfferKind, str] = {
    "resources": "resource",
    "templates": "template",
    "prompts": "prompt",
}
_MAX_NAME = 128
_MAX_WORDS = 2_000
_MAX_ARGUMENTS = 100
_MAX_OFFER_FAULTS = 10
_SIZES = range(2**63)
_MAX_SHOWN = 80
_MAX_FAULTS = 50
_MAX_TEXT = 20_000
_HINTS = {
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open world": "openWorldHint",
}
_WARNINGS = ("destructive", "open world")
_MAX_META = 4_000
_MAX_ICON = 32_768
_ICON = re.compile(r"data:image/(?:png|jpeg|webp|svg\+xml)(?:;[a-z0-9=-]+)*,[ -~]+")
_MAX_FILE = 32 * 1024 * 1024
_FORMAT = 2
_FAILURE_KEPT_S = 600.0
_EMPTY: Json = {"type": "object", "properties": {}}

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Calls the server's tool with this name."""

HeaderFault = Callable[[Json], str | None]
"""Says what is wrong with the arguments that a schema marks as HTTP headers (`x-mcp-header`)."""


class ServerListing(NamedTuple):
    """What a server offers: its tools, what is wrong with other tools, and what it says about
    itself.

    `capabilities` are those that we ask for: resources, prompts, subscribe, completions.
    """

    tools: tuple[Json, ...] = ()
    faults: tuple[str, ...] = ()
    instructions: str = ""
    about: str = ""
    protocol: str = ""
    resources: tuple[Json, ...] = ()
    templates: tuple[Json, ...] = ()
    prompts: tuple[Json, ...] = ()
    capabilities: tuple[str, ...] = ()
    icon: str = ""


def read_tools(
    raw: Iterable[object], header_fault: HeaderFault = lambda _schema: None
) -> tuple[tuple[Json, ...], tuple[str, ...]]:
    """Return the tools that can be offered, and what is wrong with the others."""
    good: dict[str, Json] = {}
    faults: list[str] = []
    for count, tool in enumerate(raw):
        if count >= MAX_TOOLS:
            faults.append(f"It lists more than {MAX_TOOLS:,} tools; the others are left out.")
            break
        try:
            entry = _checked(tool, header_fault)
        except InvalidTool as exc:
            faults.append(exc.message)
            continue
        if entry["name"] in good:
            faults.append(f"It lists '{_shown(entry['name'])}' twice; the first one counts.")
            continue
        good[entry["name"]] = entry
    return tuple(good.values()), tuple(faults[:_MAX_FAULTS])


def read_offers(kind: OfferKind, raw: Iterable[Any]) -> tuple[tuple[Json, ...], tuple[str, ...]]:
    """Return the entries of a list that can be offered, and what is wrong with the others."""
    key, noun = _KEY[kind], _NOUN[kind]
    good: dict[str, Json] = {}
    faults: list[str] = []
    for count, entry in enumerate(raw):
        if count >= MAX_TOOLS:
            faults.append(f"It lists more than {MAX_TOOLS:,} {kind}; the others are left out.")
            break
        name = entry.get(key) if isinstance(entry, dict) else None
        if (
            not isinstance(name, str)
            or not name.strip()
            or not name.isprintable()
            or len(name) > MAX_URI
        ):
            faults.append(f"A {noun} is left out: its {key} is {values.safe_repr(name, 80)}.")
        elif name in good:
            faults.append(
                f"It lists the {noun} '{values.cut(name, 80)}' twice; the first one counts."
            )
        else:
            offer: Json = {key: name}
            # Words stay on one line and have no control characters. The name of a prompt is its
            # key.
            for word in ("name", "title", "description", "mimeType"):
                text = entry.get(word)
                if isinstance(text, str) and text.strip() and word != key:
                    offer[word] = printable_line(values.cut(" ".join(text.split()), _MAX_WORDS))
            size = entry.get("size")
            if isinstance(size, int) and not isinstance(size, bool) and size in _SIZES:
                offer["size"] = size
            good[name] = {**offer, **_arguments(entry)} if kind == "prompts" else offer
    return tuple(good.values()), tuple(faults[:_MAX_OFFER_FAULTS])


def _arguments(entry: Json) -> Json:
    """The arguments of a prompt; one without a usable name is left out, so that the rest can be
    used."""
    entries = entry.get("arguments")
    arguments: dict[str, Json] = {}
    for one in entries[:_MAX_ARGUMENTS] if isinstance(entries, list) else ():
        name = one.get("name") if isinstance(one, dict) else None
        if (
            isinstance(name, str)
            and name
            and name.isprintable()
            and " " not in name
            and len(name) <= _MAX_NAME
        ):
            description = one.get("description") or one.get("title")
            words = (
                printable_line(values.cut(description, _MAX_WORDS))
                if isinstance(description, str)
                else ""
            )
            arguments.setdefault(
                name, {"name": name, "description": words, "required": one.get("required") is True}
            )
    return {"arguments": list(arguments.values())}


def to_specs(
    definition: ServerDefinition,
    listing: ServerListing,
    call: Call,
    mask: Callable[[str], str] = str,
) -> list[ToolSpec]:
    """Return the tools of a server, ready to be called. `mask` keeps secrets out of their
    fingerprints."""
    specs: dict[str, ToolSpec] = {}
    here = definition.identity(mask)
    for tool in listing.tools:
        wire = tool["name"]
        name = f"{definition.name}.{'_'.join(wire.split())}"
        # Two names of the server may differ in their blanks only, and ours have a limit: a hash
        # tells them apart.
        if len(name) > _MAX_NAME or name in specs:
            digest = hashlib.sha256(wire.encode("utf-8", "surrogatepass")).hexdigest()
            name = f"{name[: _MAX_NAME - 9]}_{digest[:8]}"
        hints = tool.get("annotations") or {}
        identity = {key: value for key, value in tool.items() if key not in ("icon", "_meta")}
        specs[name] = ToolSpec(
            name=name,
            description=tool["description"],
            parameters=tool["inputSchema"],
            run=partial(call, wire),
            is_async=True,
            origin="mcp",
            read_only=definition.trusted and hints.get("readOnlyHint") is True,
            server_facts=ServerFacts(
                server=definition.name,
                definition=here,
                title=tool.get("title", ""),
                hints=_hints(hints, is_trusted=definition.trusted),
                icon=tool.get("icon", listing.icon),
                meta=tool.get("_meta", {}),
            ),
            timeout_s=definition.timeout_s,
            output_schema=tool.get("outputSchema"),
            where=definition.where,
            identity=partial(dict, identity),
        )
    return list(specs.values())


def _hints(annotations: Mapping[str, object], *, is_trusted: bool) -> dict[str, bool]:
    """What the server says of a tool. Only a trusted server may say what makes a tool look
    harmless."""
    values_by_name = {name: annotations.get(key) for name, key in _HINTS.items()}
    if annotations.get("readOnlyHint") is True and is_trusted:
        # The other hints mean nothing for a tool that only reads.
        values_by_name = {"open world": values_by_name["open world"]}
    hints = {name: hint for name, hint in values_by_name.items() if isinstance(hint, bool)}
    return hints if is_trusted else {name: True for name in _WARNINGS if hints.get(name)}


def _checked(tool: object, header_fault: HeaderFault) -> Json:
    """Return the part of a tool's description that we keep. Raises InvalidTool if it cannot be
    offered."""
    if (
        not isinstance(tool, dict)
        or not isinstance(tool.get("name"), str)
        or not tool["name"].strip()
    ):
        raise InvalidTool(
            f"A tool without a name is left out: {values.safe_repr(tool, _MAX_SHOWN)}"
        )
    name = tool["name"]
    if not all(c.isprintable() or c.isspace() for c in name):
        raise InvalidTool(
            f"The tool {values.safe_repr(name, _MAX_SHOWN)} is left out: its name is not printable."
        )
    schema = tool.get("inputSchema", _EMPTY)
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise InvalidTool(
            f"The tool '{_shown(name)}' is left out: its inputSchema is not a schema of an object."
        )
    schema = {**schema, "type": "object"}
    _require_schema(name, "inputSchema", schema)
    fault = header_fault(schema)
    if fault is not None:
        raise InvalidTool(
            f"The tool '{_shown(name)}' is left out: {values.cut(fault, 2 * _MAX_SHOWN)}."
        )
    hints = tool.get("annotations")
    titles = (tool.get("title"), hints.get("title") if isinstance(hints, dict) else None)
    title = next(
        (
            " ".join(one.split())[:_MAX_NAME]
            for one in titles
            if isinstance(one, str) and one.strip()
        ),
        "",
    )
    texts = (tool.get("description"), title, name)
    description = next(text for text in texts if isinstance(text, str) and text.strip())[:_MAX_TEXT]
    entry: Json = {"name": name, "description": description, "inputSchema": schema}
    output = tool.get("outputSchema")
    if isinstance(output, dict):
        _require_schema(name, "outputSchema", output)
        entry["outputSchema"] = output
    if isinstance(hints, dict):
        entry["annotations"] = {
            key: hint for key, hint in hints.items() if isinstance(hint, (bool, str))
        }
    if title:
        entry["title"] = title
    if icon := read_icon(tool.get("icons")):
        entry["icon"] = icon
    meta = tool.get("_meta")
    if isinstance(meta, dict) and meta and len(json.dumps(meta)) <= _MAX_META:
        entry["_meta"] = meta
    return entry


def read_icon(icons: object) -> str:
    """Return the first picture that comes as data, or "". One at another address does not count:
    nothing is fetched."""
    sources = (
        [icon.get("src") for icon in icons if isinstance(icon, dict)]
        if isinstance(icons, list)
        else []
    )
    return next((str(source) for source in sources if _is_icon(source)), "")


def _is_icon(src: object) -> bool:
    return isinstance(src, str) and len(src) <= _MAX_ICON and _ICON.fullmatch(src) is not None


def _require_schema(name: str, key: str, schema: Json) -> None:
    try:
        Checker(schema)
    except InvalidTool as exc:
        raise InvalidTool(
            f"The tool '{_shown(name)}' is left out: its {key} is wrong. {exc.message}"
        ) from exc


def _shown(name: str) -> str:
    return values.cut(name, _MAX_SHOWN)


class ListingCache:
    """The last known lists of servers, in one folder. A damaged or missing file is a cache miss."""

    def __init__(self, folder: Path, mask: Callable[[str], str]) -> None:
        self._folder = folder
        self._mask = mask

    def get(self, definition: ServerDefinition) -> ServerListing | None:
        """Return the cached list for this definition, or None."""
        try:
            with open(self._path(definition), "rb") as file:
                text = file.read(_MAX_FILE + 1)
            return _read(json.loads(text)) if len(text) <= _MAX_FILE else None
        except (OSError, ValueError, RecursionError):
            return None

    def put(self, definition: ServerDefinition, listing: ServerListing) -> None:
        """Cache a list. A failed write only costs time later."""
        plain = values.map_text({**listing._asdict(), "version": _FORMAT}, self._mask)
        data = json.dumps(plain, ensure_ascii=False).encode("utf-8", "backslashreplace")
        path = self._path(definition)
        path.with_suffix(".failed").unlink(missing_ok=True)
        if len(data) > _MAX_FILE:
            return
        # An unchanged file is left alone: every start of a server comes here, and a write waits for
        # the disk.
        with suppress(OSError), open(path, "rb") as file:
            if file.read(len(data) + 1) == data:
                return
        with suppress(OneToolError):
            write_whole(path, data)

    def note_failure(self, definition: ServerDefinition) -> None:
        """Note that a server did not start, so that other kernels do not wait for it when they list
        tools."""
        path = self._path(definition).with_suffix(".failed")
        with suppress(OneToolError, OSError):
            write_whole(path, b"")
            os.utime(path)

    def has_failed(self, definition: ServerDefinition) -> bool:
        """Whether a server failed to start in the last minutes."""
        try:
            when = os.stat(self._path(definition).with_suffix(".failed")).st_mtime
        except OSError:
            return False
        return 0 <= time.time() - when < _FAILURE_KEPT_S

    def _path(self, definition: ServerDefinition) -> Path:
        return self._folder / f"{definition.fingerprint(self._mask)}.{_FORMAT}.json"


def _read(document: object) -> ServerListing | None:
    if not isinstance(document, dict) or document.get("version") != _FORMAT:
        return None
    tools, faults = document.get("tools"), document.get("faults")
    if not isinstance(tools, list) or not all(_is_checked(tool) for tool in tools):
        return None
    words = [document.get(key) for key in ("instructions", "about", "protocol")]
    able = document.get("capabilities")
    if not isinstance(faults, list) or not isinstance(able, list):
        return None
    if not all(isinstance(word, str) for word in [*faults, *words, *able]):
        return None
    offers = (read_offers(kind, document.get(kind) or ())[0] for kind in LISTS)
    icon = document.get("icon")
    fields: Any = (
        tuple(tools),
        tuple(faults),
        *words,
        *offers,
        tuple(able),
        icon if _is_icon(icon) else "",
    )
    return ServerListing(*fields)


def _is_checked(tool: object) -> bool:
    return (
        isinstance(tool, dict)
        and all(isinstance(tool.get(key), str) for key in ("name", "description"))
        and all(isinstance(tool.get(key, {}), dict) for key in ("inputSchema", "_meta"))
        and "inputSchema" in tool
    )
