"""What the tools of jobs print goes to their own cells.

A kernel would put the print of a thread into the latest cell, or drop it when its cell has ended. While a job runs,
`sys.stdout` and `sys.stderr` are streams that look whose code prints: that of a job has a listener in its scope, all
else goes where it went. Threads that a tool starts by itself do not carry its scope and are not told apart.
"""

from __future__ import annotations

import sys
from typing import Any

from onetool_ipy.core import current

__all__ = ["Prints"]

_NAMES = ("stdout", "stderr")


class Prints:
    """Stands before the streams as long as somebody needs it."""

    def __init__(self) -> None:
        self._users = 0

    def begin(self) -> None:
        """One more job runs."""
        self._users += 1
        for name in _NAMES:
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, _Split):
                setattr(sys, name, _Split(stream))

    def end(self) -> None:
        """One job less; after the last the streams are as they were, unless someone else has put his own there."""
        self._users -= 1
        if self._users > 0:
            return
        for name in _NAMES:
            stream = getattr(sys, name)
            if isinstance(stream, _Split):
                setattr(sys, name, stream.stream)


class _Split:
    """A stream that sends what a job prints to who listens to that job."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        here = current.scope()
        if here is not None and here.printed is not None and isinstance(text, str):
            here.printed(text)
            return len(text)
        return int(self.stream.write(text) or 0)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        here = current.scope()
        if here is None or here.printed is None:
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __iter__(self) -> Any:
        return iter(self.stream)
