"""The favourite tools of a project: a small file in its state folder, `{"format": 1, "tools": [names]}`.

A damaged file counts as empty and is replaced; a file of a later format is neither read nor written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onetool_ipy.base.files import StoreError, locked, write_whole

_FORMAT = 1
_MAX_NAMES = 500


class Favourites:
    """The names of the favourite tools, in the order they were chosen."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def names(self) -> list[str]:
        return _names(self._read())

    def set(self, name: str, *, is_on: bool) -> list[str]:
        """Add or remove a name; return all of them. Raises StoreError if a later version wrote the file."""
        with locked(self._file.with_suffix(".lock")):
            content = self._read()
            number = content.get("format") if isinstance(content, dict) else None
            if isinstance(number, int) and number > _FORMAT:
                why = "a later version wrote it in a format that this one does not know"
                raise StoreError(self._file, why, hint="Update onetool-ipy, or delete the file.")
            names = [other for other in _names(content) if other != name] + ([name] if is_on else [])
            text = json.dumps({"format": _FORMAT, "tools": names[-_MAX_NAMES:]}, ensure_ascii=False)
            write_whole(self._file, text.encode())
        return names

    def _read(self) -> Any:
        try:
            return json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None


def _names(content: object) -> list[str]:
    tools = content.get("tools") if isinstance(content, dict) and content.get("format") == _FORMAT else None
    return [name for name in tools if isinstance(name, str)] if isinstance(tools, list) else []
