"""Where the output of one cell goes, from any thread, also when the cell has ended or another one runs.

In a kernel each message carries the header of the cell it was made in, and its display id: a thread's own idea of the
cell would be the latest one. In a terminal it is one line that is written over. Quiet where nobody looks: nbclient and
papermill (they ask for no input), scripts, output that is captured or goes to a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol

from onetool_ipy.core.printable import printable

__all__ = ["Outlet", "is_looked_at", "outlet"]

Bundle = Mapping[str, str]


class Outlet(Protocol):
    """One piece of output that can be replaced."""

    key: str

    def show(self, bundle: Bundle, *, is_last: bool) -> None:
        """Show this in place of what was shown before; `is_last` is what stays."""


class _Kernel:
    """A display of the running cell. Where nobody looks, a client (nbclient) hears only what the latest cell says."""

    def __init__(self, shell: Any, publisher: Any) -> None:
        self.key = os.urandom(8).hex()
        self._shell = shell
        self._publisher = publisher
        self._header = dict(publisher.parent_header)
        self._is_shown = False
        self._is_looked_at = is_looked_at(shell)

    def show(self, bundle: Bundle, *, is_last: bool) -> None:  # noqa: ARG002 - a display is always replaced
        publisher = self._publisher
        if not self._is_shown and self._shell.display_pub is not publisher:
            return  # a `%%capture` has begun
        if not self._is_shown:
            with suppress(Exception):  # what was printed before stands before; a broken stream is no reason to stop
                sys.stdout.flush()
        kind, header = "display_data", self._header
        if self._is_shown:
            kind = "update_display_data"
            header = header if self._is_looked_at else Context().run(getattr, publisher, "parent_header")
        self._is_shown = True
        content = {
            "data": {**bundle, "text/plain": printable(bundle["text/plain"])},
            "metadata": {},
            "transient": {"display_id": self.key},
        }
        message = publisher.session.msg(kind, content, parent=header)
        publisher.session.send(publisher.pub_socket, message, ident=publisher.topic)


class _Terminal:
    """One line of a terminal, written over until it is the last."""

    def __init__(self) -> None:
        self.key = ""

    def show(self, bundle: Bundle, *, is_last: bool) -> None:
        lines = printable(bundle["text/plain"]).splitlines() or [""]
        text = "\n".join(lines) + "\n" if is_last else lines[0]
        with suppress(OSError, ValueError):  # the terminal is gone
            sys.stdout.write(f"\r\x1b[K{text}")
            sys.stdout.flush()


def outlet(shell: Any) -> Outlet | None:
    """A new piece of output of the running cell; None where output is captured. Call it in the cell's own thread."""
    publisher = shell.display_pub
    if getattr(publisher, "pub_socket", None) is not None:
        return _Kernel(shell, publisher)
    return _Terminal() if _is_terminal(shell) else None


def is_looked_at(shell: Any) -> bool:
    """Whether a person waits for the running cell: one who could be asked for input."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return _is_terminal(shell)
    content = kernel.get_parent("shell").get("content") or {}
    return bool(content.get("allow_stdin"))


def _is_terminal(shell: Any) -> bool:
    if getattr(shell, "kernel", None) is not None:
        return False
    with suppress(ValueError, AttributeError, OSError):
        return bool(sys.stdout.isatty())
    return False
