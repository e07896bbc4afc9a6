"""The outline of a pack file: its pack, its tools, their docs and arguments, as far as its text
tells; and their cache.

The cache is one JSON file, keyed by path and time of change, so that a start parses no pack file
that it knows. A damaged cache is ignored and written again. `outline_reader` makes outlines from
text; it is imported only for files that are not in the cache.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from onetool_ipy._version import __version__
from onetool_ipy.base.files import StoreError, read_own, write_whole
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import Dep

_NUMBER = 7
FILE = f"packs.{_NUMBER}.json"
"""The name holds the format, so that releases with different formats do not overwrite each other's
cache."""

_FORMAT = f"{_NUMBER} {__version__}"
_MAX_BYTES = 64 * 1024 * 1024


class ToolOutline(NamedTuple):
    """One tool as far as its text tells. `parameters` are for people: no call is checked by
    them."""

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
    line: int = 1
    deps: tuple[Dep, ...] = ()
    resource: str = ""
    prompt: bool = False
    reads: str = ""
    sends: str = ""


class OutlineFault(NamedTuple):
    """A fault on one line of a pack file."""

    line: int
    message: str
    hint: str = ""


class PackOutline(NamedTuple):
    """One pack file as far as its text tells. `error` says why it has no tools at all."""

    pack: str
    tools: tuple[ToolOutline, ...] = ()
    faults: tuple[OutlineFault, ...] = ()
    error: str = ""

    def to_json(self) -> Json:
        return {
            "pack": self.pack,
            "tools": [tool._asdict() for tool in self.tools],
            "faults": [list(fault) for fault in self.faults],
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Any) -> PackOutline:
        """Undo `to_json`; raise TypeError, ValueError or KeyError for anything else. `data` is used
        up."""
        tools = []
        for tool in data["tools"]:
            tool["tags"] = tuple(tool["tags"])
            tool["deps"] = tuple(Dep(*dep) for dep in tool["deps"])
            if tool["positional"] is not None:
                tool["positional"] = tuple(tool["positional"])
            tools.append(ToolOutline(**tool))
        faults = tuple(OutlineFault(*fault) for fault in data["faults"])
        if not isinstance(data["pack"], str) or not isinstance(data["error"], str):
            raise TypeError("not an outline")
        return cls(data["pack"], tuple(tools), faults, data["error"])


class OutlineCache:
    """Outlines by key. The file is read once, and written when something is new; unused entries are
    dropped then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: Json | None = None
        self._asked: set[str] = set()
        self.is_new = False

    def get(self, key: str) -> PackOutline | None:
        """Return the outline under this key, or None."""
        self._asked.add(key)
        entry = self._read().get(key)
        try:
            return None if entry is None else PackOutline.from_json(entry)
        except (TypeError, ValueError, KeyError, AttributeError):
            return None

    def put(self, key: str, outline: PackOutline) -> None:
        """Add an outline; `save` writes it."""
        self._asked.add(key)
        self._read()[key] = outline.to_json()
        self.is_new = True

    def save(self) -> None:
        """Write the entries that were asked for, if any `is_new`. Failing to do so is not an
        error."""
        self.is_new = False
        entries = {key: value for key, value in self._read().items() if key in self._asked}
        with suppress(StoreError, ValueError, TypeError, RecursionError):
            # A number beyond 64 bits is a TypeError: such a project is read anew at each start.
            data = orjson.dumps({"format": _FORMAT, "entries": entries}, default=list)
            write_whole(self._path, data, nofollow=True)

    def _read(self) -> Json:
        if self._entries is None:
            self._entries = {}
            # A file that is damaged, or of another format, is as good as none.
            with suppress(ValueError, RecursionError, TypeError, KeyError):
                data = orjson.loads(read_own(self._path, _MAX_BYTES) or b"")
                if data["format"] == _FORMAT and isinstance(data["entries"], dict):
                    self._entries = data["entries"]
        return self._entries
