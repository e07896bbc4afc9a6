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

__all__ = ["OutlineCache"]

_FORMAT = f"1 {__version__}"


class OutlineCache:
    """Outlines by key; read once, written once when something is new. Old entries of the same path give way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Any] | None = None
        self._asked: set[str] = set()
        self._is_new = False

    def get(self, key: str) -> Any | None:
        self._asked.add(key)
        return self._read().get(key)

    def put(self, key: str, value: Any) -> None:
        self._asked.add(key)
        self._read()[key] = value
        self._is_new = True

    def save(self) -> None:
        """Write what was asked for; where that cannot be, there is no cache."""
        if not self._is_new:
            return
        self._is_new = False
        entries = {key: value for key, value in self._read().items() if key in self._asked}
        temp = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temp.write_text(json.dumps({"format": _FORMAT, "entries": entries}), encoding="utf-8")
            temp.replace(self._path)
        except (OSError, ValueError):
            with suppress(OSError):
                temp.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def _load(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            return {}
        entries = found.get("entries")
        return entries if isinstance(entries, dict) else {}
