"""Lines of a streamed reply -> the JSON objects in it: server-sent events, or one object per line. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from onetool_ipy.core.errors import InvalidOutput

__all__ = ["Pieces"]

_END = "[DONE]"


class Pieces:
    """Fed with lines; gives objects. `is_over` once the server said that no more will come."""

    def __init__(self, *, is_sse: bool) -> None:
        self.is_over = False
        self._is_sse = is_sse
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[dict[str, Any]]:
        """Take a line, without its end."""
        if not self._is_sse:
            yield from self._objects(line)
        elif not line:
            yield from self.finish()
        elif line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Take the end of an event, or of all."""
        text, self._data = "\n".join(self._data), []
        yield from self._objects(text)

    def _objects(self, text: str) -> Iterator[dict[str, Any]]:
        if not text.strip() or self.is_over:
            return
        if text.strip() == _END:
            self.is_over = True
            return
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidOutput("A part of the model's reply is not JSON.", hint="Ask again.") from None
        if not isinstance(found, dict):
            raise InvalidOutput("A part of the model's reply is not a JSON object.", hint="Ask again.")
        yield found
