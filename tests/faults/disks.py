"""A small disk of one's own (tmpfs), to be filled up or made read-only. Mounting takes root; others
skip the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str = "2m") -> Iterator[Path]:
    """A folder that holds no more than `size`."""
    if getattr(os, "geteuid", lambda: -1)() != 0:
        pytest.skip("mounting a small disk takes root")
    place.mkdir()
    _do("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield place
    finally:
        _do("umount", "-l", str(place))


def make_read_only(place: Path) -> None:
    _do("mount", "-o", "remount,ro", str(place))


def make_writable(place: Path) -> None:
    _do("mount", "-o", "remount,rw", str(place))


def fill(place: Path) -> None:
    """Take what is left."""
    with (place / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4_096))
        except OSError:
            return


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"The small disk of this test: {' '.join(command)}: {done.stderr.strip()}")
