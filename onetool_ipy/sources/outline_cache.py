"""The outlines of pack files as they were at the last start, so that a start reads none of them again.

One JSON file, never pickle, keyed by path and time of change; whatever is odd about it is ignored and made anew.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from onetool_ipy._version import __version__
from onetool_ipy.core.folders import make_private
from onetool_ipy.sources.outline import Outline

__all__ = ["FILE", "OutlineCache"]

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

    def get(self, key: str) -> Outline | None:
        """The outline under this key, or None."""
        self._asked.add(key)
        known = self._read().get(key)
        try:
            return None if known is None else Outline.from_json(known)
        except (TypeError, ValueError, KeyError, AttributeError):
            return None

    def put(self, key: str, outline: Outline) -> None:
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
