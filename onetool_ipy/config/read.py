"""Bytes of one file, safely: no FIFO or device is waited on, no size beyond the cap is read.

The only place of this room that opens files for reading. What goes wrong is an Unreadable with one sentence.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from onetool_ipy.config.value import Value

__all__ = ["MAX_BYTES", "Content", "Unreadable", "read"]

MAX_BYTES = 8 * 1024 * 1024
"""A thousand tools are under 1 MB."""

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOCTTY", 0)
)


class Content(Value):
    """What the file held, and what it looked like (mode, size, time) at that moment."""

    data: bytes
    stat: os.stat_result

    def __repr__(self) -> str:
        return f"Content({len(self.data)} bytes)"


class Unreadable(Exception):
    """A file that is there and cannot be used; the message is the reason."""


def read(path: Path) -> Content | None:
    """The content, or None where there is no such file; raise Unreadable for anything else."""
    try:
        _check(os.stat(path))
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        if path.is_symlink():
            raise Unreadable("is a link to a file that does not exist.") from None
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as exc:
        raise Unreadable(f"cannot be read: {_reason(exc)}.") from exc
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _check(found)
        try:
            data = file.read(MAX_BYTES + 1)
        except OSError as exc:
            raise Unreadable(f"cannot be read: {_reason(exc)}.") from exc
    if len(data) > MAX_BYTES:
        raise Unreadable(_too_large(len(data)))
    return Content(data, found)


def _check(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise Unreadable("is a directory, not a file.")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("is not a regular file.")
    if found.st_size > MAX_BYTES:
        raise Unreadable(_too_large(found.st_size))


def _too_large(size: int) -> str:
    return f"is too large: {size:,} bytes; the limit is {MAX_BYTES:,}."


def _reason(exc: OSError | ValueError) -> str:
    return (getattr(exc, "strerror", None) or str(exc)).lower()
