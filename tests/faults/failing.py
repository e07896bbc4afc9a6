"""Commands whose system calls fail, by strace. It is our own calls that fail, and strace's log
proves that they did."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["run_failing"]

# arm64 has only the second form of these calls, x86-64 has both. "?" tells strace to accept a name
# that is not there.
FORMS = {
    "link": "?link,?linkat",
    "mkdir": "?mkdir,?mkdirat",
    "rename": "?rename,?renameat,?renameat2",
    "unlink": "?unlink,?unlinkat",
}


def run_failing(
    fault: str, command: Sequence[str], log: Path, **options: Any
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a command with a fault such as `write,mkdir:error=EIO:when=3`. Also say how many calls
    failed by it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("strace is needed to make system calls fail: apt-get install strace")
    names, colon, what = fault.partition(":")
    calls = ",".join(FORMS.get(name, name) for name in names.split(","))
    traced = [
        strace,
        "-f",
        "-qq",
        "-o",
        str(log),
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={calls}{colon}{what}",
    ]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **options.pop("env", {})}

    done = subprocess.run(
        [*traced, *command], env=env, capture_output=True, text=True, check=False, **options
    )

    assert "strace: " not in done.stderr, done.stderr
    return done, len(re.findall(r"\(INJECTED", log.read_text(encoding="utf-8", errors="replace")))
