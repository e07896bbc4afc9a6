"""Fills the placeholders of a request template and encodes the result. Pure.

A template is prepared once: each name is bound to an argument, a secret or a step, so that a call
only looks values up. A value never leaves its place: whatever would end a path segment, a query
value or a header is encoded or refused, and scheme, host and port are never touched. A missing
value, and null in a URL or header, drops its key; if there is no key to drop, the call is refused.

A file among the values is `{base64, filename?, mime?}`, which is also the JSON form of Python's
bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, unquote_plus

from onetool_ipy.base.errors import ExecutionFailed, InvalidArgs, InvalidTool, TooLarge
from onetool_ipy.bundles.http.definition import BAD_IN_HEADER, BodyType, RequestTemplate
from onetool_ipy.bundles.http.template import FORMS, MISSING, Ref, ValueSource, bind, pieces

Piece = str | Ref

BoundTemplate = Any
"""A JSON value with a tuple of pieces in the place of each text."""

_MAX_URL = 32_768
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+(?:; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)
_ORIGIN = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_CONTENT_TYPES: dict[str, str] = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain; charset=utf-8",
    "binary": "application/octet-stream",
}
_BODY_TYPES: dict[str, BodyType] = {
    "json": "json",
    "x-www-form-urlencoded": "form",
    "multipart/form-data": "multipart",
}
"""What the header Content-Type says about the encoding of a body, by a word in it."""


class FilePart(NamedTuple):
    """The content of a file, with its name and media type."""

    content: bytes
    filename: str
    mime: str


def as_file(name: str, value: object) -> FilePart | None:
    """Return the uploaded file in `value`, or None if it is not a file. `name` names the value in
    errors."""
    if not isinstance(value, dict) or not isinstance(value.get("base64"), str):
        return None
    try:
        content = base64.b64decode(value["base64"], validate=True)
    except ValueError:
        raise InvalidArgs(f"The base64 of '{name}' is not valid base64.") from None
    mime = value.get("mime") or "application/octet-stream"
    if not isinstance(mime, str) or not _MIME.fullmatch(mime):
        raise InvalidArgs(f"The mime of '{name}' is not a media type.")
    return FilePart(content, str(value.get("filename") or name), mime)


def multipart(fields: Iterable[tuple[str, object]]) -> tuple[bytes, str]:
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


def text(parts: Sequence[Piece], scope: ValueSource, place: str) -> str:
    """Fill a text; raises InvalidArgs if a value is missing."""
    return "".join(
        part if isinstance(part, str) else _plain(_needed(part, scope, place), part.form)
        for part in parts
    )


def _needed(ref: Ref, scope: ValueSource, place: str) -> object:
    """The value of a reference; raises InvalidArgs if it is missing."""
    value = scope.value(ref)
    if value is MISSING or value is None:
        raise InvalidArgs(f"'{ref}' is needed in the {place}.", hint=f"Give '{ref.name}' a value.")
    return value


def path(parts: Sequence[Piece], scope: ValueSource) -> str:
    """Fill a path with percent-encoded values. No value can add, remove or climb a level."""
    segments: list[str] = []
    for pieces_of_segment in _split(parts, "/"):
        refs = [part for part in pieces_of_segment if isinstance(part, Ref)]
        segment = ""
        for part in pieces_of_segment:
            if isinstance(part, str):
                segment += part
                continue
            value = _needed(part, scope, "path")
            if isinstance(value, (list, dict)) and part.form in ("", "csv"):
                segment += ",".join(_quote(_plain(item)) for item in _flat(value))
            else:
                segment += _quote(_plain(value, part.form))
        if refs and not segment:
            raise InvalidArgs(
                f"'{refs[0]}' must not be empty: it is part of the URL.", hint="Give it a value."
            )
        if refs and unquote(segment) in (".", ".."):
            raise InvalidArgs(
                f"'{refs[0]}' is '{unquote(segment)}', which is not a valid path segment.",
                hint="Give it another value.",
            )
        segments.append(segment)
    return "/".join(segments)


def pairs(name: str, template: BoundTemplate, scope: ValueSource) -> Iterator[tuple[str, str]]:
    """The pairs of one entry of a query or form: none, one, or one for each item of a list."""
    if isinstance(template, list):
        for item in template:
            yield from pairs(name, item, scope)
    elif isinstance(template, tuple) and len(template) == 1 and isinstance(template[0], Ref):
        yield from _spread(name, scope.value(template[0]), template[0].form)
    else:
        yield from _spread(
            name, json_value(template, scope), "json" if isinstance(template, dict) else ""
        )


def encoded(entries: Iterable[tuple[str, str]]) -> str:
    """Encode pairs for a query or form."""
    return "&".join(f"{_quote(name)}={_quote(value)}" for name, value in entries)


def header(name: str, parts: Sequence[Piece], scope: ValueSource) -> str | None:
    """The value of a header, or None if a value is missing. Raises for characters that a header
    cannot hold."""
    value = _joined(parts, scope)
    if value is None:
        return None
    if not BAD_IN_HEADER.search(value):
        return value.strip(" ")
    words = f"The header '{name}' would contain a control character or a character outside Latin-1"
    argument = next(
        (part for part in parts if isinstance(part, Ref) and part.kind == "argument"), None
    )
    if argument is not None:
        raise InvalidArgs(
            f"{words}; it is made from '{argument}'.", hint="Give it plain text in one line."
        )
    raise ExecutionFailed(f"{words}.", hint="Check the secret or step that it is made from.")


def json_value(template: BoundTemplate, scope: ValueSource) -> Any:
    """Fill a JSON value: a placeholder alone keeps its type, one inside a text becomes text. May
    return MISSING."""
    if isinstance(template, tuple):
        if len(template) == 1 and isinstance(template[0], Ref):
            return scope.value(template[0])
        joined = _joined(template, scope)
        return MISSING if joined is None else joined
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
            value = scope.value(part)
            if value is MISSING or value is None:
                return None
            out.append(_plain(value, part.form))
        else:
            out.append(part)
    return "".join(out)


def _spread(name: str, value: object, form: str) -> Iterator[tuple[str, str]]:
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


def _plain(value: object, form: str = "") -> str:
    """A value as text: lists and objects joined as the form says, else as JSON."""
    if isinstance(value, str) and form != "json":
        return value
    if FORMS.get(form) and isinstance(value, (list, dict)):
        return FORMS[form].join(_plain(item) for item in _flat(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _flat(value: list[object] | dict[str, object]) -> list[object]:
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


class OutgoingRequest(NamedTuple):
    """A request, ready to be sent."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None


def bound(text: str, arguments: Set[str], steps: Set[str]) -> list[Piece]:
    """The pieces of a text, with each placeholder bound."""
    return [
        part if isinstance(part, str) else bind(part, arguments=arguments, steps=steps)
        for part in pieces(text)
    ]


class UrlWriter:
    """A URL with placeholders in its path and query."""

    def __init__(
        self, template: str, query: Mapping[str, object], arguments: Set[str], steps: Set[str]
    ) -> None:
        match = _ORIGIN.match(template)
        if match is None:  # the definition has checked whole URLs
            raise InvalidTool(
                f"The URL '{template}' is relative, and the bundle has no base URL.",
                hint="Write the whole URL, or set one: %tool bundle set NAME --base-url https://...",
            )
        self._origin = match[0]
        self._path, own_query = _split_once(bound(template[match.end() :], arguments, steps), "?")
        self._query: list[tuple[str, BoundTemplate]] = []
        # The literal text of a query that is part of the URL is percent-encoded already.
        for entry in _split(own_query, "&"):
            if not any(entry):
                continue
            key, value = _split_once(entry, "=")
            if any(isinstance(part, Ref) for part in key):
                raise InvalidTool(
                    "A key of the query cannot be a ${name}.", hint="Write ?key=${name}."
                )
            plain = [unquote_plus(part) if isinstance(part, str) else part for part in value]
            self._query.append(
                (unquote_plus("".join(map(str, key))), tuple(filter(None, plain)) or ("",))
            )
        self._query += [
            (_key(name), _bind_json(value, arguments, steps)) for name, value in query.items()
        ]

    def fill(self, scope: ValueSource, extra: list[tuple[str, str]] | None = None) -> str:
        """The URL with its values. `extra` pairs are added at the end of the query."""
        query = encoded(
            [*(pair for entry in self._query for pair in pairs(*entry, scope)), *(extra or ())]
        )
        url = self._origin + (path(self._path, scope) or "/") + (f"?{query}" if query else "")
        if len(url) > _MAX_URL:
            raise TooLarge(
                f"The URL has {len(url):,} characters; at most {_MAX_URL:,} are sent.",
                hint="Send less.",
            )
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
        self._headers = {
            name: bound(value, arguments, steps) for name, value in request.headers.items()
        }
        self._kind, template = _body_template(request)
        self._body = None if template is None else _bind_json(template, arguments, steps)

    def fill(
        self,
        scope: ValueSource,
        *,
        headers: dict[str, str],
        query: list[tuple[str, str]],
        room: int,
    ) -> OutgoingRequest:
        """Fill the request. `headers` and `query` come from the auth and override its own."""
        filled = {name: header(name, parts, scope) for name, parts in self._headers.items()}
        sent = {name: value for name, value in filled.items() if value is not None}
        content, mime = self._content(scope)
        if content is not None:
            if len(content) > room:
                raise TooLarge(
                    f"The request has {len(content):,} bytes; at most {room:,} are sent.",
                    hint="Send less.",
                )
            if self._kind == "multipart":
                sent = {
                    name: value for name, value in sent.items() if name.lower() != "content-type"
                }
            if not any(name.lower() == "content-type" for name in sent):
                sent["Content-Type"] = mime or _CONTENT_TYPES[self._kind]
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
            entries = [
                pair for name, value in self._body.items() for pair in pairs(name, value, scope)
            ]
            return encoded(entries).encode("ascii"), ""
        if self._kind == "multipart":
            # A list is one field for each of its items, and null is none.
            filled = json_value(self._body, scope).items()
            items = (
                (name, value if isinstance(value, list) else [value]) for name, value in filled
            )
            return multipart(
                (name, item) for name, listed in items for item in listed if item is not None
            )
        if self._kind == "json":
            value = json_value(self._body, scope)
            return (
                None if value is MISSING else _plain(value, "json").encode("utf-8", "surrogatepass")
            ), ""
        value = (
            scope.value(self._body[0])
            if len(self._body) == 1 and isinstance(self._body[0], Ref)
            else ""
        )
        if value is MISSING:
            return None, ""
        if self._kind == "binary" and (file := as_file("body", value)) is not None:
            return file.content, file.mime
        return text(self._body, scope, "body").encode("utf-8", "surrogatepass"), ""


def _body_template(request: RequestTemplate) -> tuple[BodyType, object]:
    """How the body is encoded, and its template as JSON, fields or text."""
    body, kind = request.body, request.body_type
    mime = next(
        (
            value.lower()
            for name, value in request.headers.items()
            if name.lower() == "content-type"
        ),
        "",
    )
    if kind is None:
        kind = next((kind for word, kind in _BODY_TYPES.items() if word in mime), None)
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
    if kind in ("text", "binary") or (kind is None and mime):
        return kind or "text", body
    parsed = _parsed(body)
    if parsed is not None:
        return "json", parsed
    if kind == "json":
        raise InvalidTool(
            "The body says it is JSON, but is not.", hint='Write {"name": "${name}"}.'
        )
    return "text", body


def _parsed(body: str) -> object:
    """Parse a text as JSON, with quotes added around bare placeholders. Returns None if it is not
    JSON."""
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


def _bind_json(template: object, arguments: Set[str], steps: Set[str]) -> BoundTemplate:
    if isinstance(template, str):
        return tuple(bound(template, arguments, steps)) or ("",)
    if isinstance(template, dict):
        return {_key(name): _bind_json(inner, arguments, steps) for name, inner in template.items()}
    if isinstance(template, list):
        return [_bind_json(inner, arguments, steps) for inner in template]
    return template


def _key(name: str) -> str:
    """A key as it is sent. The definition has checked that it holds no placeholder."""
    return "".join(map(str, pieces(name))) if "${" in name else name


def _split_once(parts: Sequence[Piece], sign: str) -> tuple[list[Piece], list[Piece]]:
    """Split pieces in two at the first sign in their text. Without one all are before it."""
    for index, part in enumerate(parts):
        if isinstance(part, str) and sign in part:
            before, _, after = part.partition(sign)
            return [*parts[:index], before], [after, *parts[index + 1 :]]
    return list(parts), []


def _refs(value: object) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _refs(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _refs(inner)
