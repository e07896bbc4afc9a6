"""Which definitions of the configuration something was wrong with, so that a start need not judge all of them again.

One small file, keyed by the fingerprint of the configuration (its files, our version); whatever is not exactly what
`keep` wrote counts for nothing, and all are judged anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from onetool_ipy.core.folders import make_private

__all__ = ["FILE", "Verdict"]

FILE = "tools.1.json"
"""Named by the format, so that versions of this package with other formats do not meet in it."""
_MAX_BYTES = 1 << 20


class Verdict:
    """The judgement of one configuration, by the places of its definitions in their order."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint

    def doubtful(self, count: int) -> frozenset[int] | None:
        """The places that had a problem, of so many; None where these definitions were not judged yet."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_size > _MAX_BYTES or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
                    return None
                kept = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(kept, list) or len(kept) != 3 or kept[:2] != [self._fingerprint, count]:
            return None
        places = kept[2]
        is_ours = isinstance(places, list) and all(type(place) is int for place in places)
        return frozenset(places) if is_ours else None

    def keep(self, places: Sequence[int], count: int) -> None:
        """Note the places that had a problem; where that cannot be, all are judged at the next start again."""
        temp = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            make_private(self._path.parent)
            with open(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump([self._fingerprint, count, list(places)], file)
            temp.replace(self._path)
        except OSError:
            with suppress(OSError):
                temp.unlink(missing_ok=True)
