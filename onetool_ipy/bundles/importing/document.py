"""A document of somebody else as plain values, with its local references followed.

Nothing outside of the document is fetched. `ImportNotes` collects everything that is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.printable import printable, printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.config import yaml_text
from onetool_ipy.schema.read import at_ref

MAX_BYTES = 64 * 1024 * 1024
_MAX_NOTES = 500
_MAX_NOTE = 500
_MAX_HOPS = 50


class ImportNotes:
    """What is not imported, each note once, in order. Very many notes end in a count."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._more = 0

    def add(self, text: str) -> None:
        text = printable(" ".join(values.cut(text, _MAX_NOTE).split()))
        if text in self._texts:
            return
        if len(self._texts) >= _MAX_NOTES:
            self._more += 1
            return
        self._texts[text] = None

    def list(self) -> list[str]:
        """All notes."""
        return [*self._texts, *([f"and {self._more:,} more"] if self._more else [])]


class OpenApiDocument:
    """A document; follows references inside it."""

    def __init__(self, root: Mapping[str, Any], notes: ImportNotes) -> None:
        self.root = root
        self.notes = notes
        self._targets: dict[str, Any] = {}

    def part(self, name: str) -> Json:
        """A top-level section; empty if it is missing or not a mapping."""
        return as_dict(self.root.get(name))

    def follow(self, node: object) -> Json:
        """Follow the `$ref` of a node; empty if it leads nowhere."""
        for _ in range(_MAX_HOPS):
            target = as_dict(node)
            ref = target.get("$ref")
            if not isinstance(ref, str):
                return target
            node = self.at(ref)
        self.notes.add("a $ref refers to itself")
        return {}

    def at(self, ref: str) -> Any:
        """Return the target of a local reference; None, with a note, for any other."""
        if ref not in self._targets:
            is_local = ref == "#" or ref.startswith("#/")
            target = self._targets[ref] = at_ref(ref, self.root) if is_local else None
            if target is None:
                reason = (
                    "does not exist in the document"
                    if is_local
                    else "is outside of the document, and is not fetched"
                )
                self.notes.add(f"'{ref[:100]}' {reason}")
        return self._targets[ref]


def as_dict(value: object) -> Json:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else dict(value) if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value, stripped, if it is text, else an empty text."""
    return value.strip() if isinstance(value, str) else ""


def parse_document(
    source: bytes | str | Mapping[str, Any], notes: ImportNotes
) -> Mapping[str, Any]:
    """Parse JSON or YAML; raises InvalidRequest if it is neither, or not an object.

    Half a character, which no file can hold, is written out as `\\udXXX`.
    """
    if isinstance(source, Mapping):
        return _encodable(source)
    data = source.encode("utf-8", "backslashreplace") if isinstance(source, str) else source
    if len(data) > MAX_BYTES:
        raise InvalidRequest(
            f"The document has {len(data):,} bytes; at most {MAX_BYTES:,} are read."
        )
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    _refuse_what_is_none(data)
    # YAML in flow style begins with a brace too.
    document = _json(data) if data[:1] == b"{" else None
    if document is not None:
        return document
    try:
        # Without aliases a text has fewer values than this; what aliases expand to stays in
        # proportion to its length.
        text = yaml_text.parse(data, imported=True, most=max(yaml_text.MAX_VALUES, 2 * len(data)))
    except yaml_text.NotYaml as exc:
        raise InvalidRequest(
            "This is not the description of an API: it is neither JSON nor YAML"
            f" (line {exc.fault.line}: {str(exc).rstrip('.')})",
            hint="OpenAPI, Swagger and Postman files are imported.",
        ) from None
    for fault in text.faults:
        notes.add(f"line {fault.line}: {fault.message}")
    if not isinstance(text.data, Mapping):
        raise InvalidRequest("The document is not an object.")
    return text.data


def _refuse_what_is_none(data: bytes) -> None:
    """Raise InvalidRequest for a web page, and for one line of text: a parser's words say nothing
    of these."""
    if data[:1] == b"<":
        raise InvalidRequest(
            "This is a web page or XML, and not the description of an API.",
            hint=(
                "Look on the page for a link to openapi.json, openapi.yaml or swagger.json, and"
                " import that."
            ),
        )
    if data and b"\n" not in data and data[:1] not in b"{[" and b": " not in data:
        try:
            line = printable_line(data.decode("utf-8")[:80])
        except UnicodeDecodeError:
            return
        raise InvalidRequest(
            f"'{line}' is one line of text, and not the description of an API.",
            hint="Paste the whole document, or its address. A file is read by: %tool import FILE",
        )


def _encodable(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write half characters out. A document that is not JSON, or too deep, is judged where it is
    read."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        encodable = values.map_text(document, values.encodable)
    except (TypeError, ValueError, RecursionError):
        return document
    else:
        return document
    if not isinstance(encodable, Mapping):
        raise InvalidRequest(
            "The document is nested too deep to write out the half character (such as '\\ud800')"
            " that it has.",
            hint="Remove that character, then import the document again.",
        )
    return encodable


def _json(data: bytes) -> Mapping[str, Any] | None:
    import orjson

    try:
        document: Mapping[str, Any] = orjson.loads(data)
        return document
    except orjson.JSONDecodeError:
        pass
    # It may be deeper than orjson goes, or have numbers or halves of characters that orjson does
    # not take.
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _encodable(document)
