"""What the text of a pack file tells: its pack, its tools, their docs and arguments. Plain JSON, so it can be cached.

Reading the text is `outline_text`'s work; it is loaded only for files that are not in the cache.

The outlines of pack files as they were at the last start, so that a start reads none of them again.

One JSON file, never pickle, keyed by path and time of change; whatever is odd about it is ignored and made anew.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy._version import __version__
from onetool_ipy.base.files import make_private
from onetool_ipy.core.tool import Dep

__all__ = ["FILE", "OutlineCache", "OutlineFault", "PackOutline", "ToolOutline"]


class ToolOutline(NamedTuple):
    """One tool as far as its text tells; `exact` says that importing the file will tell nothing else."""

    function: str
    name: str
    description: str
    documented: bool = True
    parameters: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}  # noqa: RUF012
    positional: tuple[str, ...] | None = None
    returns: str = ""
    example: str = ""
    tags: tuple[str, ...] = ()
    read_only: bool = False
    timeout_s: float | None = None
    is_async: bool = False
    exact: bool = True
    line: int = 1
    deps: tuple[Dep, ...] = ()


class OutlineFault(NamedTuple):
    """Something wrong in one place of a file."""

    line: int
    message: str
    hint: str = ""


class PackOutline(NamedTuple):
    """One pack file as far as its text tells; `error` says why it has no tools at all."""

    pack: str
    tools: tuple[ToolOutline, ...] = ()
    faults: tuple[OutlineFault, ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "pack": self.pack,
            "tools": [tool._asdict() for tool in self.tools],
            "faults": [list(fault) for fault in self.faults],
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Any) -> PackOutline:
        """What `to_json` gave; TypeError, ValueError or KeyError for anything else."""
        tools = tuple(_tool(tool) for tool in data["tools"])
        faults = tuple(OutlineFault(*fault) for fault in data["faults"])
        if not isinstance(data["pack"], str) or not isinstance(data["error"], str):
            raise TypeError("not an outline")
        return cls(data["pack"], tools, faults, data["error"])


def _tool(data: dict[str, Any]) -> ToolOutline:
    positional = data["positional"]
    fields = {**data, "tags": tuple(data["tags"]), "positional": None if positional is None else tuple(positional)}
    fields["deps"] = tuple(Dep(*dep) for dep in data["deps"])
    texts = (data["function"], data["name"], data["description"], *data["tags"])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("not a tool's outline")
    if not isinstance(data["parameters"], dict) or not isinstance(data["line"], int):
        raise TypeError("not a tool's outline")
    return ToolOutline(**fields)


_NUMBER = 3
FILE = f"packs.{_NUMBER}.json"
"""Named by the format, so that versions of this package with other formats do not meet in it."""
_FORMAT = f"{_NUMBER} {__version__}"
_MAX_BYTES = 64 * 1024 * 1024


class OutlineCache:
    """Outlines by key; read once, written once when something is new. Entries nobody asked for give way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Any] | None = None
        self._asked: set[str] = set()
        self._is_new = False

    def get(self, key: str) -> PackOutline | None:
        """The outline under this key, or None."""
        self._asked.add(key)
        known = self._read().get(key)
        try:
            return None if known is None else PackOutline.from_json(known)
        except (TypeError, ValueError, KeyError, AttributeError):
            return None

    def put(self, key: str, outline: PackOutline) -> None:
        """Keep an outline, until `save` writes it."""
        self._asked.add(key)
        self._read()[key] = outline.to_json()
        self._is_new = True

    def save(self) -> None:
        """Write what was asked for; where that cannot be, there is no cache. No fsync: a torn file is made anew."""
        if not self._is_new:
            return
        self._is_new = False
        entries = {key: value for key, value in self._read().items() if key in self._asked}
        temp = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            text = json.dumps({"format": _FORMAT, "entries": entries})
            make_private(self._path.parent)
            with open(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            temp.replace(self._path)
        except (OSError, ValueError, TypeError, RecursionError):
            with suppress(OSError):
                temp.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def _load(self) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_size > _MAX_BYTES or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
                    return {}
                data = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            return {}
        entries = data.get("entries")
        return entries if isinstance(entries, dict) else {}
