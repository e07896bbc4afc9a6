"""Fills the placeholders of a request template and encodes the result. Pure.

A template is prepared once: each name is bound to an argument, a secret or a step, so that a call only looks values up.
A value never leaves its place: whatever would end a path segment, a query value or a header is encoded or refused, and
scheme, host and port are never touched. A missing value, and null in a URL or header, drops its key; if there is no key
to drop, the call is refused.

A file among the values is `{base64, filename?, mime?}`, which is also the JSON form of Python's bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, unquote_plus

from onetool_ipy.base.errors import ExecutionFailed, InvalidArgs, InvalidTool, TooLarge
from onetool_ipy.bundles.http.definition import BAD_IN_HEADER, BodyType, RequestTemplate
from onetool_ipy.bundles.http.template import FORMS, MISSING, Ref, ValueSource, bind, pieces

__all__ = [
    "FilePart",
    "OutgoingRequest",
    "Piece",
    "PreparedRequest",
    "UrlWriter",
    "as_file",
    "bound",
    "encoded",
    "header",
    "json_value",
    "multipart",
    "pairs",
    "path",
    "text",
]

_MIME = re.compile(r"[\w.+-]+/[\w.+-]+(?:; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)


class FilePart(NamedTuple):
    """The content of a file, with its name and media type."""

    content: bytes
    filename: str
    mime: str


def as_file(name: str, value: Any) -> FilePart | None:
    """Return the uploaded file in `value`, or None if it is not a file. `name` names the value in errors."""
    if not isinstance(value, dict) or not isinstance(value.get("base64"), str):
        return None
    try:
        content = base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgs(f"The base64 of '{name}' is not valid base64.") from None
    mime = value.get("mime") or "application/octet-stream"
    if not isinstance(mime, str) or not _MIME.fullmatch(mime):
        raise InvalidArgs(f"The mime of '{name}' is not a media type.")
    return FilePart(content, str(value.get("filename") or name), mime)


def multipart(fields: Iterable[tuple[str, Any]]) -> tuple[bytes, str]:
    """Encode a multipart form; returns the body and its Content-Type."""
    parts: list[bytes] = []
    for name, value in fields:
        file = as_file(name, value)
        head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
        if file is None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            content = text.encode("utf-8", "surrogatepass")
        else:
            head += f'; filename="{_quoted(file.filename)}"\r\nContent-Type: {file.mime}'
            content = file.content
        parts.append(f"{head}\r\n\r\n".encode("utf-8", "surrogatepass") + content + b"\r\n")
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    boundary = whole.hexdigest()[:40]  # no content can hold the hash of itself
    begin = f"--{boundary}\r\n".encode("ascii")
    body = b"".join(begin + part for part in parts) + f"--{boundary}--\r\n".encode("ascii")
    return body, f"multipart/form-data; boundary={boundary}"


def _quoted(text: str) -> str:
    """Escape a name inside quotes, as browsers do."""
    for sign, written in (('"', "%22"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(sign, written)
    return text


Piece = str | Ref

_DOTS = (".", "..")


def text(parts: Sequence[Piece], scope: ValueSource, place: str) -> str:
    """Fill a text; raises InvalidArgs if a value is missing."""
    found = _joined(parts, scope)
    if found is None:
        missing = next(part for part in parts if isinstance(part, Ref) and scope.value(part) in (MISSING, None))
        raise InvalidArgs(f"'{missing}' is needed in the {place}.", hint=f"Give '{missing.name}' a value.")
    return found


def path(parts: Sequence[Piece], scope: ValueSource) -> str:
    """Fill a path with percent-encoded values. No value can add, remove or climb a level."""
    out: list[str] = []
    for segment in _split(parts, "/"):
        if not any(isinstance(part, Ref) for part in segment):
            out.append("".join(map(str, segment)))
            continue
        written = "".join(_in_path(part, scope) if isinstance(part, Ref) else part for part in segment)
        if unquote(written) in ("", *_DOTS):
            ref = next(part for part in segment if isinstance(part, Ref))
            if not written:
                raise InvalidArgs(f"'{ref}' must not be empty: it is part of the URL.", hint="Give it a value.")
            raise InvalidArgs(
                f"'{ref}' is '{unquote(written)}', which is not a valid path segment.", hint="Give it another value."
            )
        out.append(written)
    return "/".join(out)


def pairs(name: str, value: Any, scope: ValueSource) -> Iterator[tuple[str, str]]:
    """The pairs of one entry of a query or form: none, one, or one for each item of a list.

    `value` is a list of pieces, or a list of such lists.
    """
    if not value:
        return
    if isinstance(value[0], list):
        for item in value:
            yield from pairs(name, item, scope)
        return
    if len(value) == 1 and isinstance(value[0], Ref):
        ref = value[0]
        yield from _spread(name, scope.value(ref), ref.form)
        return
    found = _joined(value, scope)
    if found is not None:
        yield name, found


def encoded(found: Iterable[tuple[str, str]]) -> str:
    """Encode pairs for a query or form."""
    return "&".join(f"{_quote(name)}={_quote(value)}" for name, value in found)


def header(name: str, parts: Sequence[Piece], scope: ValueSource) -> str | None:
    """The value of a header, or None if a value is missing. Raises for characters that a header cannot hold."""
    found = _joined(parts, scope)
    if found is None:
        return None
    if not BAD_IN_HEADER.search(found):
        return found.strip(" ")
    words = f"The header '{name}' would contain a control character or a character outside Latin-1"
    given = [part for part in parts if isinstance(part, Ref) and part.kind == "argument"]
    if given:
        raise InvalidArgs(f"{words}; it is made from '{given[0]}'.", hint="Give it plain text in one line.")
    raise ExecutionFailed(f"{words}.", hint="Look at the secret or step that it is made from.")


def json_value(template: Any, scope: ValueSource) -> Any:
    """Fill a JSON value: a placeholder alone keeps its type, one inside a text becomes text.

    `template` has tuples of pieces in the place of texts. Returns MISSING if all of it is missing.
    """
    if isinstance(template, tuple):
        if len(template) == 1 and isinstance(template[0], Ref):
            return scope.value(template[0])
        found = _joined(template, scope)
        return MISSING if found is None else found
    if isinstance(template, dict):
        filled = {name: json_value(inner, scope) for name, inner in template.items()}
        return {name: inner for name, inner in filled.items() if inner is not MISSING}
    if isinstance(template, list):
        items = (json_value(inner, scope) for inner in template)
        return [item for item in items if item is not MISSING]
    return template


def _joined(parts: Iterable[Piece], scope: ValueSource) -> str | None:
    out: list[str] = []
    for part in parts:
        if isinstance(part, Ref):
            found = scope.value(part)
            if found is MISSING or found is None:
                return None
            out.append(_plain(found, part.form))
        else:
            out.append(part)
    return "".join(out)


def _in_path(ref: Ref, scope: ValueSource) -> str:
    found = scope.value(ref)
    if found is MISSING or found is None:
        raise InvalidArgs(f"'{ref}' is needed in the path.", hint=f"Give '{ref.name}' a value.")
    if isinstance(found, (list, dict)) and ref.form in ("", "csv"):
        return ",".join(_quote(_plain(item)) for item in _flat(found))
    return _quote(_plain(found, ref.form))


def _spread(name: str, value: Any, form: str) -> Iterator[tuple[str, str]]:
    if value is MISSING or value is None:
        return
    if isinstance(value, list) and form in ("", "deep", "spread"):
        for item in value:
            if item is not None:
                yield name, _plain(item)
    elif isinstance(value, dict) and form == "deep":
        for key, inner in value.items():
            yield from _spread(f"{name}[{key}]", inner, "deep")
    elif isinstance(value, dict) and form == "spread":
        for key, inner in value.items():
            yield from _spread(str(key), inner, "")
    else:
        yield name, _plain(value, form)


def _plain(value: Any, form: str = "") -> str:
    """A value as text: lists and objects joined as the form says, else as JSON."""
    if isinstance(value, str) and form != "json":
        return value
    if FORMS.get(form) and isinstance(value, (list, dict)):
        return FORMS[form].join(_plain(item) for item in _flat(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return list(value)


def _quote(value: str) -> str:
    return quote(value.encode("utf-8", "surrogatepass"), safe="")


def _split(parts: Iterable[Piece], sign: str) -> Iterator[list[Piece]]:
    """Split the text in pieces at a sign."""
    current: list[Piece] = []
    for part in parts:
        if isinstance(part, Ref):
            current.append(part)
            continue
        first, *rest = part.split(sign)
        current.append(first)
        for literal in rest:
            yield current
            current = [literal]
    yield current


_ORIGIN = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_MAX_URL = 32_768
_TYPES: dict[str, str] = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain; charset=utf-8",
    "binary": "application/octet-stream",
}

_SAID: dict[str, BodyType] = {"json": "json", "x-www-form-urlencoded": "form", "multipart/form-data": "multipart"}


class OutgoingRequest(NamedTuple):
    """A request, ready to be sent."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None


def bound(text: str, arguments: Set[str], steps: Set[str]) -> list[Piece]:
    """The pieces of a text, with each placeholder bound."""
    return [part if isinstance(part, str) else bind(part, arguments=arguments, steps=steps) for part in pieces(text)]


class UrlWriter:
    """A URL with placeholders in its path and query."""

    def __init__(self, template: str, query: dict[str, Any], arguments: Set[str], steps: Set[str]) -> None:
        match = _ORIGIN.match(template)
        if match is None:  # the definition has checked whole URLs
            raise InvalidTool(
                f"The URL '{template}' is relative, and the bundle has no base URL.",
                hint="Write the whole URL, or set one: %tool bundle set NAME --base-url https://...",
            )
        self._origin = match[0]
        before, after = _cut(bound(template[match.end() :], arguments, steps))
        self._path = before
        self._query: list[tuple[str, list[Any]]] = [
            *_own_pairs(after),
            *((_key(name), _bind_query(value, arguments, steps)) for name, value in query.items()),
        ]

    def fill(self, scope: ValueSource, extra: list[tuple[str, str]] | None = None) -> str:
        """The URL with its values. `extra` pairs are added at the end of the query."""
        found = [pair for name, value in self._query for pair in pairs(name, value, scope)]
        query = encoded([*found, *(extra or ())])
        url = self._origin + (path(self._path, scope) or "/") + (f"?{query}" if query else "")
        if len(url) > _MAX_URL:
            raise TooLarge(f"The URL has {len(url):,} characters; at most {_MAX_URL:,} are sent.", hint="Send less.")
        return url

    def refs(self) -> Iterator[Ref]:
        """Every reference in it."""
        yield from _refs(self._path)
        for _, value in self._query:
            yield from _refs(value)


class PreparedRequest:
    """A request with placeholders, prepared once; `fill` makes a request to send."""

    def __init__(self, request: RequestTemplate, arguments: Set[str], steps: Set[str]) -> None:
        self.method = request.method
        self.url = UrlWriter(request.url_template, request.query, arguments, steps)
        self._headers = {name: bound(value, arguments, steps) for name, value in request.headers.items()}
        self._kind, template = _body(request)
        self._body = _bind_body(template, self._kind, arguments, steps)

    def fill(
        self, scope: ValueSource, *, headers: dict[str, str], query: list[tuple[str, str]], room: int
    ) -> OutgoingRequest:
        """Fill the request. `headers` and `query` come from the auth and override its own."""
        found = {name: header(name, text, scope) for name, text in self._headers.items()}
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
        return OutgoingRequest(self.method, self.url.fill(scope, query), sent, content)

    def refs(self) -> Iterator[Ref]:
        """Every reference in it."""
        yield from self.url.refs()
        yield from _refs([*self._headers.values(), self._body])

    def _content(self, scope: ValueSource) -> tuple[bytes | None, str]:
        """The body, and its media type if `bodyType` does not say it."""
        if self._body is None:
            return None, ""
        if self._kind == "form":
            found = [pair for name, value in self._body.items() for pair in pairs(name, value, scope)]
            return encoded(found).encode("ascii"), ""
        if self._kind == "multipart":
            return multipart(_fields(json_value(self._body, scope)))
        if self._kind == "json":
            value = json_value(self._body, scope)
            return (None if value is MISSING else _plain(value, "json").encode("utf-8", "surrogatepass")), ""
        value = scope.value(self._body[0]) if len(self._body) == 1 and isinstance(self._body[0], Ref) else ""
        if value is MISSING:
            return None, ""
        if self._kind == "binary" and (file := as_file("body", value)) is not None:
            return file.content, file.mime
        return text(self._body, scope, "body").encode("utf-8", "surrogatepass"), ""


def _fields(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a multipart form: one for each item of a list, none for null."""
    for name, inner in value.items():
        for item in inner if isinstance(inner, list) else [inner]:
            if item is not None:
                yield name, item


def _body(request: RequestTemplate) -> tuple[BodyType, Any]:
    """How the body is encoded, and its template as JSON, fields or text."""
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
    """Parse a text as JSON, with quotes added around bare placeholders. Returns None if it is not JSON."""
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
    """Pieces for `pairs`: none for null, a list of pieces for each item of a list."""
    if isinstance(value, list):
        return [_bind_query(item, arguments, steps) for item in value]
    if value is None:
        return []
    text = value if isinstance(value, str) else json.dumps(value)
    return list(bound(text, arguments, steps)) or [""]


def _key(name: str) -> str:
    """A key as it is sent. The definition has checked that it holds no placeholder."""
    return "".join(map(str, pieces(name))) if "${" in name else name


def _cut(parts: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Split pieces into those of the path and those of the query."""
    for index, part in enumerate(parts):
        if isinstance(part, str) and "?" in part:
            before, _, after = part.partition("?")
            return [*parts[:index], before], [after, *parts[index + 1 :]]
    return parts, []


def _own_pairs(parts: list[Piece]) -> Iterator[tuple[str, list[Piece]]]:
    """The pairs of a query that is part of the URL. Its literal text is already percent-encoded."""
    for entry in _split(parts, "&"):
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
