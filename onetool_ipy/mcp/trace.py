"""The messages between us and one server, newest last, for `%tool server trace NAME` and the tab of
a server.

Bounded; kept over its starts. A message is kept whole up to a size, and cut for the screen only
after secrets are masked, so that no half of one is shown.
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
_MAX_KEPT = 256 * 1024
_MAX_TOTAL = 8 * 1024 * 1024
_MAX_EDGE = 4_096
"""The longest secret that can be cut in two at the end of a message that is not kept whole."""
_MAX_SHOWN = 160
_MAX_WAITING = 1_000


class _Seen(NamedTuple):
    number: int
    at: float
    is_sent: bool
    method: str
    id: Any
    size: int
    ms: float | None
    start: bytes


class MessageTrace:
    """The last messages. `note` takes one; `rows` are all that are kept, for people; `message` is
    one of them whole."""

    def __init__(self) -> None:
        self._seen: deque[_Seen] = deque()
        self._size = 0
        self._count = 0
        self._waiting: dict[tuple[bool, Any], tuple[float, str]] = {}

    def note(self, message: Any, *, is_sent: bool, data: bytes | None = None) -> None:
        """Keep a message of the SDK; `data` is its JSON, if that is at hand."""
        if data is None:
            data = message.model_dump_json(by_alias=True, exclude_unset=True).encode(
                "utf-8", "replace"
            )
        number, method, now, ms = (
            getattr(message, "id", None),
            getattr(message, "method", ""),
            time.time(),
            None,
        )
        if method and number is not None:
            if len(self._waiting) < _MAX_WAITING:
                self._waiting[is_sent, number] = (now, method)
        elif number is not None:
            began, method = self._waiting.pop((not is_sent, number), (now, ""))
            ms = (now - began) * 1000
        self._count += 1
        start = data[:_MAX_KEPT]
        self._seen.append(_Seen(self._count, now, is_sent, method, number, len(data), ms, start))
        self._size += len(start)
        while self._size > _MAX_TOTAL or len(self._seen) > _MOST:
            self._size -= len(self._seen.popleft().start)

    def message(self, number: int, mask: Callable[[str], str]) -> str | None:
        """Return one message as indented JSON, or None if it is no longer kept."""
        seen = next((seen for seen in list(self._seen) if seen.number == number), None)
        if seen is None:
            return None
        text = seen.start.decode("utf-8", "replace")
        try:
            return json.dumps(values.map_text(json.loads(text), mask), ensure_ascii=False, indent=2)
        except (ValueError, TypeError, RecursionError):
            more = seen.size - len(seen.start)
            return (
                mask(text)
                if more <= 0
                else f"{mask(text)[:-_MAX_EDGE]}… ({seen.size:,} bytes in all)"
            )

    def rows(self, mask: Callable[[str], str]) -> list[Json]:
        """Return the messages as rows: number, time, direction, method, id, bytes, ms until the
        answer, and text."""
        return [
            {
                "number": seen.number,
                "time": datetime.fromtimestamp(seen.at).strftime("%H:%M:%S.%f")[:-3],  # noqa: DTZ006 - for people
                "way": "→" if seen.is_sent else "←",
                "method": printable_line(values.cut(mask(seen.method), 60)),
                "id": "" if seen.id is None else printable_line(values.cut(str(seen.id), 20)),
                "bytes": seen.size,
                "ms": None if seen.ms is None else round(seen.ms, 1),
                "message": _excerpt(seen.start, mask),
            }
            for seen in list(self._seen)  # the loop goes on noting
        ]


def _excerpt(start: bytes, mask: Callable[[str], str]) -> str:
    """What a message says: its parameters, result or error if all of it is kept, else its
    beginning."""
    text = start.decode("utf-8", "replace")
    try:
        message = json.loads(text)
        part: Any = next(
            (message[key] for key in ("params", "result", "error") if key in message), {}
        )
        text = json.dumps(values.map_text(part, mask), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        pass
    return printable_line(values.cut(mask(text), _MAX_SHOWN))
