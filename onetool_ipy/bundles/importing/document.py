"""An OpenAPI document as plain values, with its local references followed. Nothing outside it is ever fetched.

`Notes` collects what is not taken over: nothing is dropped without a word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onetool_ipy.core.errors import InvalidRequest
from onetool_ipy.core.printable import printable

__all__ = ["MAX_BYTES", "Notes", "OpenApi", "as_dict", "as_list", "as_text", "read_document"]

MAX_BYTES = 64 * 1024 * 1024
_MAX_NOTES = 500
_MAX_HOPS = 50


class Notes:
    """What is not taken over, each once, in order; very many end in a count."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}
        self._more = 0

    def add(self, text: str) -> None:
        text = printable(" ".join(text.split()))
        if text in self._found:
            return
        if len(self._found) >= _MAX_NOTES:
            self._more += 1
            return
        self._found[text] = None

    def list(self) -> list[str]:
        """All of them."""
        return [*self._found, *([f"and {self._more:,} more"] if self._more else [])]


class OpenApi:
    """The document; follows references inside it."""

    def __init__(self, root: Mapping[str, Any], notes: Notes) -> None:
        self.root = root
        self.notes = notes
        self._found: dict[str, Any] = {}

    def part(self, name: str) -> dict[str, Any]:
        """A section at the top; empty where it is missing or no mapping."""
        return as_dict(self.root.get(name))

    def follow(self, node: Any) -> dict[str, Any]:
        """What a node is, or leads to by its `$ref`; empty where it leads nowhere."""
        for _ in range(_MAX_HOPS):
            found = as_dict(node)
            ref = found.get("$ref")
            if not isinstance(ref, str):
                return found
            node = self.at(ref)
        self.notes.add("a $ref leads round in a circle")
        return {}

    def at(self, ref: str) -> Any:
        """What stands at a local reference; None, and a note, for any other."""
        if ref not in self._found:
            self._found[ref] = self._look_up(ref)
        return self._found[ref]

    def _look_up(self, ref: str) -> Any:
        if ref == "#":
            return self.root
        if not ref.startswith("#/"):
            self.notes.add(f"'{ref[:100]}' is outside of the document, and is not fetched")
            return None
        from urllib.parse import unquote

        node: Any = self.root
        for part in ref[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                self.notes.add(f"'{ref[:100]}' leads nowhere")
                return None
        return node


def read_document(source: bytes | str | Mapping[str, Any], notes: Notes, base_url: str | None = None) -> OpenApi:
    """The document in JSON or YAML, Swagger 2.0 as OpenAPI 3.0; raises InvalidRequest for what is neither."""
    root = source if isinstance(source, Mapping) else _parsed(source, notes)
    said = root.get("openapi")
    swagger = root.get("swagger", root.get("swaggerVersion"))
    if swagger is not None and said is None:
        if str(swagger) not in ("2.0", "2"):
            raise InvalidRequest(
                f"This is Swagger {str(swagger)[:10]}; Swagger 2.0 and OpenAPI 3.0 and 3.1 can be imported.",
                hint="Convert it first, for example with swagger2openapi.",
            )
        from onetool_ipy.bundles.importing.swagger import to_openapi

        return OpenApi(to_openapi(root, notes, base_url), notes)
    if not isinstance(said, (str, float)) or not str(said).startswith("3."):
        raise InvalidRequest("This is no OpenAPI 3 document: 'openapi: 3.x' is missing, and 'swagger: 2.0' too.")
    if not str(said).startswith(("3.0", "3.1")):
        notes.add(f"the document is of version {str(said)[:10]}, and is read as 3.1")
    return OpenApi(root, notes)


def as_dict(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else dict(value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value if it is text, without blanks around it."""
    return value.strip() if isinstance(value, str) else ""


def _parsed(source: bytes | str, notes: Notes) -> Mapping[str, Any]:
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"The document has {len(data):,} bytes; at most {MAX_BYTES:,} are read.")
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    found = _json(data) if data[:1] == b"{" else None
    if found is None:
        found = _yaml(data, notes)
    if not isinstance(found, Mapping):
        raise InvalidRequest("The document is no object.")
    return found


def _json(data: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data)  # deeper than orjson goes, or with numbers that it does not take
    except (ValueError, RecursionError):
        return None  # YAML in flow style begins like that too


def _yaml(data: bytes, notes: Notes) -> Any:
    from onetool_ipy.config import yaml_text
    from onetool_ipy.config.document import NotYaml

    try:
        found = yaml_text.parse(data)
    except NotYaml as exc:
        raise InvalidRequest(f"The document is neither JSON nor YAML: line {exc.fault.line}: {exc}") from None
    for fault in found.faults:
        notes.add(f"line {fault.line}: {fault.message}")
    return found.data
