"""What a test may ask about the system that it runs on."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def has_mode(path: Path, mode: int) -> bool:
    """Whether a file or folder has this mode. Modes mean nothing on Windows: docs/limits.md."""
    return os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == mode


def make_pipe(path: Path) -> bool:
    """Make a FIFO; False on Windows, whose folders have none."""
    if os.name == "nt":
        return False
    os.mkfifo(path)
    return True
