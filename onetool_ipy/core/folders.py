"""Folders for their owner alone: the state of a project holds arguments and results of calls."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["make_private", "tighten"]


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, each with mode 0700. One that is there stays as it is."""
    try:
        os.mkdir(folder, 0o700)
    except FileNotFoundError:
        make_private(folder.parent)
        with suppress(FileExistsError):  # another process was quicker
            os.mkdir(folder, 0o700)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def tighten(folder: Path) -> None:
    """Take a folder away from others, where it is there, is ours and is no link; never raises for a disk."""
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or not stat.S_IMODE(found.st_mode) & 0o077:
            return
        if hasattr(os, "geteuid") and found.st_uid == os.geteuid():
            os.chmod(folder, stat.S_IMODE(found.st_mode) & 0o700)
    except (OSError, ValueError):
        return
