"""The favourite tools of a project: a small file in its state, shared by all its notebooks."""

from __future__ import annotations

import json
from pathlib import Path

from onetool_ipy.stores.files import locked, write_whole

__all__ = ["Favourites"]

_MOST = 500


class Favourites:
    """Names of tools, in the order they were chosen. A damaged file is an empty one, and is replaced."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def names(self) -> list[str]:
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    def set(self, name: str, *, is_on: bool) -> list[str]:
        """Add a name or take it out; gives all of them."""
        with locked(self._file.with_suffix(".lock")):
            names = [known for known in self.names() if known != name]
            names += [name] if is_on else []
            write_whole(self._file, json.dumps(names[-_MOST:], ensure_ascii=False).encode())
        return names
