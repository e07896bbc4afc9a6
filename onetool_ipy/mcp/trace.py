"""The messages between us and one server, newest last, for `%tool server trace NAME`. Bounded; kept over its starts.

A message is kept as the beginning of its JSON, and cut for the screen only after secrets are masked, so that no half
of one is shown.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json

_MOST = 300
_MAX_KEPT = 4_096
_MAX_SHOWN = 160
_MAX_WAITING = 1_000


class _Seen(NamedTuple):
    at: float
    is_sent: bool
    method: str
    id: Any
    size: int
    ms: float | None
    start: bytes


class MessageTrace:
    """The last messages. `note` takes one; `rows` are all that are kept, for people."""

    def __init__(self) -> None:
        self._seen: deque[_Seen] = deque(maxlen=_MOST)
        self._waiting: dict[tuple[bool, Any], tuple[float, str]] = {}

    def note(self, message: Any, *, is_sent: bool, data: bytes | None = None) -> None:
        """Keep a message of the SDK; `data` is its JSON, if that is at hand."""
        if data is None:
            data = message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace")
        number, method, now, ms = getattr(message, "id", None), getattr(message, "method", ""), time.time(), None
        if method and number is not None:
            if len(self._waiting) < _MAX_WAITING:
                self._waiting[is_sent, number] = (now, method)
        elif number is not None:
            began, method = self._waiting.pop((not is_sent, number), (now, ""))
            ms = (now - began) * 1000
        self._seen.append(_Seen(now, is_sent, method, number, len(data), ms, data[:_MAX_KEPT]))

    def rows(self, mask: Callable[[str], str]) -> list[Json]:
        """Return the messages as rows: time, direction, method, id, size in bytes, ms until the answer, and text."""
        return [
            {
                "time": datetime.fromtimestamp(seen.at).strftime("%H:%M:%S.%f")[:-3],  # noqa: DTZ006 - for people
                "way": "to the server" if seen.is_sent else "from the server",
                "method": printable_line(values.cut(mask(seen.method), 60)),
                "id": "" if seen.id is None else printable_line(values.cut(str(seen.id), 20)),
                "bytes": seen.size,
                "ms": None if seen.ms is None else round(seen.ms, 1),
                "message": _excerpt(seen.start, mask),
            }
            for seen in list(self._seen)  # the loop goes on noting
        ]


def _excerpt(start: bytes, mask: Callable[[str], str]) -> str:
    """What a message says: its parameters, result or error if all of it is kept, else its beginning."""
    text = start.decode("utf-8", "replace")
    try:
        message = json.loads(text)
        part: Any = next((message[key] for key in ("params", "result", "error") if key in message), {})
        text = json.dumps(values.map_text(part, mask), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        pass
    return printable_line(values.cut(mask(text), _MAX_SHOWN))
