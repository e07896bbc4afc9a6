"""A request with holes, made ready once; then filled for each call into an `Outgoing`. Pure.

Which names are arguments, secrets or steps is settled here, so that a call only looks values up. Scheme, host and port
stand in `origin` and are never touched again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from onetool_ipy.bundles.http import parts, writing
from onetool_ipy.bundles.http.definition import BodyType, Request
from onetool_ipy.bundles.http.scope import MISSING, Scope
from onetool_ipy.bundles.http.template import Ref, bind, pieces
from onetool_ipy.bundles.http.writing import Piece
from onetool_ipy.core.errors import InvalidTool, TooLarge

__all__ = ["Outgoing", "Prepared", "Url", "bound"]

_ORIGIN = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_MAX_URL = 32_768
_TYPES: dict[str, str] = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain; charset=utf-8",
    "binary": "application/octet-stream",
}

_SAID: dict[str, BodyType] = {"json": "json", "x-www-form-urlencoded": "form", "multipart/form-data": "multipart"}


class Outgoing(NamedTuple):
    """A request as it is sent."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None


def bound(text: str, arguments: Set[str], steps: Set[str]) -> list[Piece]:
    """The pieces of a text, with each hole bound to what it means."""
    return [part if isinstance(part, str) else bind(part, arguments=arguments, steps=steps) for part in pieces(text)]


class Url:
    """A URL with holes in its path and query."""

    def __init__(self, template: str, query: dict[str, Any], arguments: Set[str], steps: Set[str]) -> None:
        match = _ORIGIN.match(template)
        assert match is not None  # the definition has checked it
        self._origin = match[0]
        before, after = _cut(bound(template[match.end() :], arguments, steps))
        self._path = before
        self._query: list[tuple[str, list[Any]]] = [
            *_own_pairs(after),
            *((_key(name), _bind_query(value, arguments, steps)) for name, value in query.items()),
        ]

    def fill(self, scope: Scope, extra: list[tuple[str, str]] | None = None) -> str:
        """The URL with its values; `extra` are pairs for the end of the query."""
        found = [pair for name, value in self._query for pair in writing.pairs(name, value, scope)]
        query = writing.encoded([*found, *(extra or ())])
        url = self._origin + (writing.path(self._path, scope) or "/") + (f"?{query}" if query else "")
        if len(url) > _MAX_URL:
            raise TooLarge(f"The URL has {len(url):,} characters; at most {_MAX_URL:,} are sent.", hint="Send less.")
        return url

    def refs(self) -> Iterator[Ref]:
        """Every reference in it."""
        yield from _refs(self._path)
        for _, value in self._query:
            yield from _refs(value)


class Prepared:
    """A request with holes; `fill` makes one to send."""

    def __init__(self, request: Request, arguments: Set[str], steps: Set[str]) -> None:
        self.method = request.method
        self.url = Url(request.url_template, request.query, arguments, steps)
        self._headers = {name: bound(value, arguments, steps) for name, value in request.headers.items()}
        self._kind, template = _body(request)
        self._body = _bind_body(template, self._kind, arguments, steps)

    def fill(self, scope: Scope, *, headers: dict[str, str], query: list[tuple[str, str]], room: int) -> Outgoing:
        """The request with its values; `headers` and `query` are those of the auth, and win."""
        found = {name: writing.header(name, text, scope) for name, text in self._headers.items()}
        sent = {name: value for name, value in found.items() if value is not None}
        content, mime = self._content(scope)
        if content is not None:
            if len(content) > room:
                raise TooLarge(f"The request has {len(content):,} bytes; at most {room:,} are sent.", hint="Send less.")
            if self._kind == "multipart":
                sent = {name: value for name, value in sent.items() if name.lower() != "content-type"}
            if not any(name.lower() == "content-type" for name in sent):
                sent["Content-Type"] = mime or _TYPES[self._kind]
        taken = {name.lower() for name in headers}
        sent = {name: value for name, value in sent.items() if name.lower() not in taken} | headers
        return Outgoing(self.method, self.url.fill(scope, query), sent, content)

    def refs(self) -> Iterator[Ref]:
        """Every reference in it."""
        yield from self.url.refs()
        yield from _refs([*self._headers.values(), self._body])

    def _content(self, scope: Scope) -> tuple[bytes | None, str]:
        """The body, and what it is where that is not said by its kind."""
        if self._body is None:
            return None, ""
        if self._kind == "form":
            found = [pair for name, value in self._body.items() for pair in writing.pairs(name, value, scope)]
            return writing.encoded(found).encode("ascii"), ""
        if self._kind == "multipart":
            return parts.multipart(_fields(writing.json_value(self._body, scope)))
        if self._kind == "json":
            value = writing.json_value(self._body, scope)
            return (None if value is MISSING else _json(value)), ""
        value = scope.value(self._body[0]) if len(self._body) == 1 and isinstance(self._body[0], Ref) else ""
        if value is MISSING:
            return None, ""
        if self._kind == "binary" and (file := parts.as_file("body", value)) is not None:
            return file.content, file.mime
        return writing.text(self._body, scope, "body").encode("utf-8", "surrogatepass"), ""


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _fields(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a multipart form: a list is its field again and again, null is none."""
    for name, inner in value.items():
        for item in inner if isinstance(inner, list) else [inner]:
            if item is not None:
                yield name, item


def _body(request: Request) -> tuple[BodyType, Any]:
    """How a body is written, and its template as JSON, fields or text."""
    body, kind = request.body, request.body_type
    said = next((value.lower() for name, value in request.headers.items() if name.lower() == "content-type"), "")
    if kind is None:
        kind = next((kind for word, kind in _SAID.items() if word in said), None)
    if kind is None and not isinstance(body, str):
        kind = "json"
    if not isinstance(body, str):
        if kind in ("form", "multipart") and body is not None and not isinstance(body, dict):
            raise InvalidTool("A form's body is an object of its fields.")
        return kind or "json", body
    if kind == "form":
        fields: dict[str, list[str]] = {}
        for name, value in parse_qsl(body, keep_blank_values=True):
            fields.setdefault(name, []).append(value)
        return "form", fields
    if kind == "multipart":
        raise InvalidTool("A multipart body is an object of its fields.")
    if kind in ("text", "binary") or (kind is None and said):
        return kind or "text", body
    parsed = _parsed(body)
    if parsed is not None:
        return "json", parsed
    if kind == "json":
        raise InvalidTool("The body says it is JSON, but is not.", hint='Write {"name": "${name}"}.')
    return "text", body


def _parsed(body: str) -> Any:
    """The JSON that a text is once its holes stand in quotes; a lone hole is JSON too."""
    out: list[str] = []
    quoted = False
    for part in pieces(body):
        if isinstance(part, str):
            for char in re.findall(r"\\.|[^\\]", part, re.DOTALL):
                quoted ^= char == '"'
            out.append(part if part != "${" else "$${")
        else:
            written = "${" + part.name + (f"|{part.form}" if part.form else "") + "}"
            out.append(written if quoted else json.dumps(written))
    text = "".join(out).strip()
    if text[:1] not in ("{", "[", '"'):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _bind_body(template: Any, kind: BodyType, arguments: Set[str], steps: Set[str]) -> Any:
    if template is None:
        return None
    if kind in ("text", "binary"):
        return bound(template, arguments, steps)
    if kind == "form":
        return {_key(name): _bind_query(value, arguments, steps) for name, value in template.items()}
    return _bind_json(template, arguments, steps)


def _bind_json(template: Any, arguments: Set[str], steps: Set[str]) -> Any:
    if isinstance(template, str):
        return tuple(bound(template, arguments, steps)) or ("",)
    if isinstance(template, dict):
        return {_key(name): _bind_json(inner, arguments, steps) for name, inner in template.items()}
    if isinstance(template, list):
        return [_bind_json(inner, arguments, steps) for inner in template]
    return template


def _bind_query(value: Any, arguments: Set[str], steps: Set[str]) -> list[Any]:
    """Pieces for `writing.pairs`; nothing for null, a list of pieces for each item of a list."""
    if isinstance(value, list):
        return [_bind_query(item, arguments, steps) for item in value]
    if value is None:
        return []
    text = value if isinstance(value, str) else json.dumps(value)
    return list(bound(text, arguments, steps)) or [""]


def _key(name: str) -> str:
    """A key as it is sent; the definition has seen to it that no hole stands in it."""
    return "".join(map(str, pieces(name))) if "${" in name else name


def _cut(parts: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """The pieces of the path, and those of the query."""
    for index, part in enumerate(parts):
        if isinstance(part, str) and "?" in part:
            before, _, after = part.partition("?")
            return [*parts[:index], before], [after, *parts[index + 1 :]]
    return parts, []


def _own_pairs(parts: list[Piece]) -> Iterator[tuple[str, list[Piece]]]:
    """The pairs of a query that is written in the URL: its literal text is already percent-encoded."""
    entries: list[list[Piece]] = [[]]
    for part in parts:
        if isinstance(part, Ref):
            entries[-1].append(part)
            continue
        first, *rest = part.split("&")
        entries[-1].append(first)
        entries += [[literal] for literal in rest]
    for entry in entries:
        if not any(entry):
            continue
        head = entry[0]
        if not isinstance(head, str) or ("=" not in head and len(entry) > 1):
            raise InvalidTool("A key of the query cannot be a ${name}.", hint="Write ?key=${name}.")
        name, _, value = head.partition("=")
        parts = [value, *entry[1:]]
        said: list[Piece] = [unquote_plus(part) if isinstance(part, str) else part for part in parts]
        yield unquote_plus(name), [part for part in said if part != ""] or [""]


def _refs(value: Any) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _refs(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _refs(inner)
