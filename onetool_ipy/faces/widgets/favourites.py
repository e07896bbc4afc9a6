"""The favourite tools of a project: a small file in its state, shared by all its notebooks.

`{"format": 1, "tools": [names]}`; a plain list, as it was before there were formats, is read, too. A file of a later
format is neither read nor written to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onetool_ipy.stores.files import StoreError, locked, write_whole

__all__ = ["Favourites"]

_FORMAT = 1
_MOST = 500


class Favourites:
    """Names of tools, in the order they were chosen. A damaged file is an empty one, and is replaced."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def names(self) -> list[str]:
        found = self._read()
        names = found.get("tools") if isinstance(found, dict) and not _is_newer(found) else found
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def set(self, name: str, *, is_on: bool) -> list[str]:
        """Add a name or take it out; gives all of them. Raises StoreError where a later version wrote the file."""
        with locked(self._file.with_suffix(".lock")):
            if _is_newer(self._read()):
                why = "a later version wrote it in a format that this one does not know"
                raise StoreError(self._file, why, hint="Update onetool-ipy, or delete the file.")
            names = [known for known in self.names() if known != name]
            names += [name] if is_on else []
            text = json.dumps({"format": _FORMAT, "tools": names[-_MOST:]}, ensure_ascii=False)
            write_whole(self._file, text.encode())
        return names

    def _read(self) -> Any:
        try:
            return json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None


def _is_newer(found: Any) -> bool:
    number = found.get("format") if isinstance(found, dict) else None
    return isinstance(number, int) and number > _FORMAT
