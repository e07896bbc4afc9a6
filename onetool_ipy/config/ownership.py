"""Whose a file of `.onetool/` is: one that another user may have written is a problem and does not count.

Written once for configuration, secrets, pack files and bundles. It looks at what `stat` said; it opens nothing.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

__all__ = ["Fault", "Owners"]

_IS_POSIX = hasattr(os, "geteuid")


class Fault(NamedTuple):
    """Why a file or folder does not count, and what to do."""

    message: str
    hint: str


class Owners:
    """The users whose files count: this one, root, and whoever owns the folder of a configuration that was named."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._uids = {os.geteuid(), 0} if _IS_POSIX else set()
        if folder is not None and _IS_POSIX:
            try:
                self._uids.add(os.stat(folder).st_uid)
            except (OSError, ValueError):
                return

    def fault(self, found: os.stat_result, shown: str) -> Fault | None:
        """What is wrong with a file or folder, if anything; `shown` is its name in the command that mends it."""
        if not _IS_POSIX:
            return None
        if fault := self.owner_fault(found, shown):
            return fault
        is_sticky_folder = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_mode & stat.S_IWOTH and not is_sticky_folder:
            hint = f"Look at what it holds, then run: chmod o-w {_quoted(shown)}"
            return Fault("may be written by every user of this machine, so it does not count.", hint)
        return None

    def owner_fault(self, found: os.stat_result, shown: str) -> Fault | None:
        """What is wrong with who owns it; all that counts for a symbolic link."""
        if not _IS_POSIX or found.st_uid in self._uids:
            return None
        hint = f"If you trust it, make yourself its owner: chown {os.geteuid()} {_quoted(shown)}"
        return Fault("belongs to another user, so it does not count.", hint)


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)
