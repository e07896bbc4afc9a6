"""What a parsed file is: plain values, the line of each key, the faults. Knows nothing of YAML.

Apart from `yaml_text`, so that a load from the warm cache needs neither that module nor the library behind it.
"""

from __future__ import annotations

from typing import Any

from onetool_ipy.config.value import Value

__all__ = ["Document", "Fault", "NotYaml", "Packed", "quoted"]


class Fault(Value):
    """Something wrong at a line; `key` is its dotted path, empty for the whole document."""

    line: int
    key: str
    message: str
    hint: str = ""


class Document(Value):
    """A mapping, the line of each of its keys by dotted path, and what was left out of it."""

    data: dict[str, Any]
    lines: dict[str, int]
    faults: list[Fault]


class Packed:
    """A mapping that is still JSON text, part of a larger one; `name` is what it holds under that key, if text."""

    __slots__ = ("_end", "_start", "_text", "name")

    def __init__(self, text: bytes, name: str, start: int, end: int) -> None:
        self.name, self._text, self._start, self._end = name, text, start, end

    def unpack(self) -> dict[str, Any]:
        """The mapping."""
        import orjson

        found: dict[str, Any] = orjson.loads(self._text[self._start : self._end])
        return found


class NotYaml(Exception):
    """Text that cannot be used at all."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.fault = Fault(line, "", message, hint)


def quoted(value: object) -> str:
    """A value as it is named in a message: quoted, on one line, cut at 60 characters."""
    text = value if isinstance(value, str) else str(value)
    text = "".join(c if c.isprintable() else "?" for c in text[:200])
    return f"'{text[:57]}...'" if len(text) > 60 else f"'{text}'"
