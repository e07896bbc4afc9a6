"""A document of somebody else as plain values, with its local references followed.

Nothing outside of the document is fetched. `ImportNotes` collects everything that is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.printable import printable
from onetool_ipy.config import yaml_text
from onetool_ipy.schema.read import at_ref

__all__ = ["MAX_BYTES", "ImportNotes", "OpenApiDocument", "as_dict", "as_list", "as_text", "parse_document"]

MAX_BYTES = 64 * 1024 * 1024
_MAX_NOTES = 500
_MAX_NOTE = 500
_MAX_HOPS = 50


class ImportNotes:
    """What is not imported, each note once, in order. Very many notes end in a count."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}
        self._more = 0

    def add(self, text: str) -> None:
        text = printable(" ".join(values.cut(text, _MAX_NOTE).split()))
        if text in self._found:
            return
        if len(self._found) >= _MAX_NOTES:
            self._more += 1
            return
        self._found[text] = None

    def list(self) -> list[str]:
        """All notes."""
        return [*self._found, *([f"and {self._more:,} more"] if self._more else [])]


class OpenApiDocument:
    """A document; follows references inside it."""

    def __init__(self, root: Mapping[str, Any], notes: ImportNotes) -> None:
        self.root = root
        self.notes = notes
        self._found: dict[str, Any] = {}

    def part(self, name: str) -> dict[str, Any]:
        """A top-level section; empty if it is missing or not a mapping."""
        return as_dict(self.root.get(name))

    def follow(self, node: Any) -> dict[str, Any]:
        """Follow the `$ref` of a node; empty if it leads nowhere."""
        for _ in range(_MAX_HOPS):
            found = as_dict(node)
            ref = found.get("$ref")
            if not isinstance(ref, str):
                return found
            node = self.at(ref)
        self.notes.add("a $ref refers to itself")
        return {}

    def at(self, ref: str) -> Any:
        """Return the target of a local reference; None, with a note, for any other."""
        if ref not in self._found:
            self._found[ref] = self._look_up(ref)
        return self._found[ref]

    def _look_up(self, ref: str) -> Any:
        found = at_ref(ref, self.root) if ref == "#" or ref.startswith("#/") else None
        if found is None:
            is_local = ref.startswith("#/")
            said = "does not exist in the document" if is_local else "is outside of the document, and is not fetched"
            self.notes.add(f"'{ref[:100]}' {said}")
        return found


def as_dict(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else dict(value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value, stripped, if it is text, else an empty text."""
    return value.strip() if isinstance(value, str) else ""


def parse_document(source: bytes | str | Mapping[str, Any], notes: ImportNotes) -> Mapping[str, Any]:
    """Parse JSON or YAML; raises InvalidRequest if it is neither, or not an object.

    Half a character, which no file can hold, is written out as `\\udXXX`.
    """
    if isinstance(source, Mapping):
        return _require_object(_encodable(source))
    data = source.encode("utf-8", "backslashreplace") if isinstance(source, str) else source
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"The document has {len(data):,} bytes; at most {MAX_BYTES:,} are read.")
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    found = _json(data) if data[:1] == b"{" else None
    if found is None:
        found = _yaml(data, notes)
    return _require_object(found)


def _require_object(document: Any) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise InvalidRequest("The document is not an object.")
    return document


def _encodable(document: Mapping[str, Any]) -> Any:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return values.map_text(document, values.encodable)
    except (TypeError, ValueError, RecursionError):
        pass  # What is not JSON, or too deep, is found where it is read.
    return document


def _json(data: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        # It may be deeper than orjson goes, or have numbers or halves of characters that orjson does not take.
        return values.map_text(json.loads(data), values.encodable)
    except (ValueError, RecursionError):
        return None  # YAML in flow style begins like that too


def _yaml(data: bytes, notes: ImportNotes) -> Any:
    try:
        # Without aliases a text has fewer values than this; what aliases expand to stays in proportion to its length.
        found = yaml_text.parse(data, imported=True, most=max(yaml_text.MAX_VALUES, 2 * len(data)))
    except yaml_text.NotYaml as exc:
        raise InvalidRequest(f"The document is neither JSON nor YAML: line {exc.fault.line}: {exc}") from None
    for fault in found.faults:
        notes.add(f"line {fault.line}: {fault.message}")
    return found.data
