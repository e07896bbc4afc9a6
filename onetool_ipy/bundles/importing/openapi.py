"""An OpenAPI 3 or Swagger 2.0 document -> the draft of a bundle and its tools. Pure; what is not
imported is noted.

`_ToolMaker` makes a tool of each chosen operation: `Operation` its request, `SecuritySchemes` its
auth, `SchemaTranslator` its schemas. A Swagger document is converted to OpenAPI 3.0 first
(`SwaggerConverter`).

Parameters and the fields of a JSON or form body become arguments; a body that is not a plain object
is the one argument `body`. A server's defaults are described, not sent. Of several alternatives of
auth the first that we support is used. The draft has names of secrets, never values.

Schemas become JSON Schema 2020-12 with their references in `$defs`. Each component is translated
once per direction (requests leave out read-only properties, responses write-only ones), so that a
large document stays cheap and circular references stay circular.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest, InvalidTool
from onetool_ipy.base.printable import printable
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.http.definition import (
    HEADER_NAME,
    OWN_HEADERS,
    ApiKey,
    OAuth2,
    is_sendable,
)
from onetool_ipy.bundles.http.template import placeholders_in
from onetool_ipy.bundles.importing.document import (
    ImportNotes,
    OpenApiDocument,
    as_dict,
    as_list,
    as_text,
)
from onetool_ipy.bundles.importing.draft import (
    BundleDraft,
    ImportRequest,
    OfferedOperations,
    host_of,
)
from onetool_ipy.bundles.importing.labels import (
    FILE_SCHEMA,
    UniqueNames,
    argument,
    common_prefix,
    literal,
    secret,
    slug,
    version,
)
from onetool_ipy.schema.check import FEW_REFS, MOST, branch_count, compile_schema

Direction = Literal["request", "response"]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_MAX_WORDS = 7
_MAX_OUTPUT = 16_000
"""A longer outputSchema is left out: it would be most of the record, and break at the next change
of the API."""
_MAX_FIELDS = 100
_MAX_DEPTH = 60
_MAX_DESCRIPTION = 2000
_MAX_EXAMPLE = 200
_MAX_PATTERN = 4000

_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_JSON_MIME = re.compile(r"application/(?:[\w.+-]+\+)?json")
_JSON, _FORM, _MULTIPART = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)
_DELIMITERS = {"spaceDelimited": "space", "pipeDelimited": "pipe"}
_BAD_IN_SERVER = frozenset("{}$@?#\\ ")
_SAFE = "/:@!&'()*+,;=-._~%"
_DESCRIBED_ELSEWHERE = ("accept", "content-type", "authorization")
"""Headers that a document describes elsewhere; as parameters they are ignored."""

_TEXT = {"type": "string"}
_BINARY = {"type": "string", "format": "binary"}
_COLLECTION_FORMATS = {
    "csv": {"style": "form", "explode": False},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
    "multi": {"style": "form", "explode": True},
}
_FLOWS = {"application": "clientCredentials", "accessCode": "authorizationCode"}

_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_ONE = frozenset(
    ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
)
_MANY = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas"))
_INNER = _ONE | _MANY | _NAMED
_COMBINED = ("allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "discriminator")
_UNTAKEN = frozenset(
    ("$dynamicRef", "$dynamicAnchor", "$anchor", "$id", "unevaluatedProperties", "unevaluatedItems")
)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and values.is_json(value)


_PLAIN: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("title", "description", "format"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("uniqueItems", "deprecated"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("const", "default"), values.is_json),
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _is_number),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
        lambda value: type(value) is int and value >= 0,
    ),
    "multipleOf": lambda value: isinstance(value, (int, float)) and _is_number(value) and value > 0,
}
"""Keywords that are copied where their value fits this check."""


def import_openapi(
    root: Mapping[str, object], notes: ImportNotes, request: ImportRequest
) -> BundleDraft:
    """Import a document; raises InvalidRequest if it is not one, or has no usable server."""
    api = _as_openapi_3(root, notes, request.server or request.base_url)
    info = api.part("info")
    title = printable(as_text(info.get("title")))
    name = request.slug or slug(title.lower(), "api")
    maker = _ToolMaker(api, name, request)
    tools = list(maker.tools(version(str(info.get("version", "")))))
    maker.offered.require_some(tools, notes)
    if api.part("webhooks"):
        notes.add("'webhooks' are calls that a server makes, and are left out")
    about = printable(as_text(info.get("description")) or as_text(info.get("summary")))
    return BundleDraft(
        kind="OpenAPI document" if "openapi" in root else "Swagger 2.0 document",
        bundle={
            "slug": name,
            "displayName": (title or name)[:256],
            "description": about[:2000],
            "isEnabled": True,
        },
        tools=tools,
        secrets=[
            {"name": key, "description": words}
            for key, words in sorted(maker.security.secrets.items())
        ],
        hosts=sorted({host for _, host in maker.servers.values() if host is not None}),
        notes=notes.list(),
        offered=maker.offered.count,
        base_url=maker.uses.most_common(1)[0][0],
    )


def _as_openapi_3(
    root: Mapping[str, object], notes: ImportNotes, base_url: str | None
) -> OpenApiDocument:
    """The document as OpenAPI 3; raises InvalidRequest if it is neither OpenAPI 3 nor Swagger
    2.0."""
    version = root.get("openapi")
    swagger = root.get("swagger", root.get("swaggerVersion"))
    if swagger is not None and version is None:
        if str(swagger) not in ("2.0", "2"):
            raise InvalidRequest(
                f"This is Swagger {str(swagger)[:10]}; Swagger 2.0 and OpenAPI 3.0 and 3.1 can be"
                " imported.",
                hint="Convert it first, for example with swagger2openapi.",
            )
        return OpenApiDocument(
            SwaggerConverter(OpenApiDocument(root, notes)).document(base_url), notes
        )
    if not isinstance(version, (str, float)) or not str(version).startswith("3."):
        raise InvalidRequest(
            "This is not an OpenAPI 3 document, a Swagger 2.0 document or a Postman collection.",
            hint="Save the description itself: it has a key 'openapi', 'swagger' or 'info'.",
        )
    if not str(version).startswith(("3.0", "3.1")):
        notes.add(f"the document is of version {str(version)[:10]}, and is read as 3.1")
    return OpenApiDocument(root, notes)


class _ToolMaker:
    """Makes tools of the operations of one document. `servers` are the URL and host of each server
    that it names.

    `uses` says how many tools each of them has.
    """

    def __init__(self, api: OpenApiDocument, name: str, request: ImportRequest) -> None:
        self._api = api
        self._request = request
        self._schemas = SchemaTranslator(api)
        self.offered = OfferedOperations(request.choice)
        self.security = SecuritySchemes(api, name)
        self.servers: dict[str, tuple[str, str | None]] = {}
        self.uses: Counter[str] = Counter()

    def tools(self, version: str) -> Iterator[Json]:
        """Name all operations first, so that a name does not depend on what is left out later; then
        make the tools."""
        prefix = common_prefix([str(path) for path in self._api.part("paths")])
        operations = []
        for path, node in self._api.part("paths").items():
            item = self._api.follow(node)
            for method in _METHODS:
                operation = self._api.follow(item.get(method)) if method in item else {}
                if operation:
                    proposal = _name(operation, method, str(path), prefix)
                    name = self.offered.take(proposal, method.upper(), str(path), _tags(operation))
                    if name is not None:
                        operations.append((name, method, str(path), item, operation))
            if "trace" in item:
                self._api.notes.add(f"TRACE {path}: a trace cannot be a tool, and is left out")
        for name, method, path, item, operation in operations:
            place = f"{method.upper()} {path}"
            server = self._server(operation, item, place)
            if server is not None:
                tool = self._tool(path, method, as_list(item.get("parameters")), operation, server)
                yield {"slug": name, "version": version, **tool}

    def _tool(
        self, path: str, method: str, shared: list[object], operation: Json, server: str
    ) -> Json:
        place = f"{method.upper()} {path}"
        auth = self.security.of(operation, place)
        credentials = [
            list(part.values()) for part in (auth.scheme or {}, auth.headers, auth.query)
        ]
        reserved = {
            *self._request.secrets,
            *(placeholder.name for placeholder in placeholders_in(credentials)),
        }
        request = Operation(self._api, self._schemas, place, path, reserved)
        request.read(operation, shared)
        responses = [
            self._api.follow(node)
            for code, node in as_dict(operation.get("responses")).items()
            if str(code).startswith("2")
        ]
        summary, about = (
            printable(as_text(operation.get(key))) for key in ("summary", "description")
        )
        is_deprecated = operation.get("deprecated") is True
        texts = [summary, about if about != summary else "", "Deprecated." if is_deprecated else ""]
        tool: Json = {
            "displayName": (summary or printable(as_text(operation.get("operationId")) or place))[
                :256
            ],
            "description": "\n\n".join(filter(None, texts))[:4000] or printable(place),
            "tags": _tags(operation),
            "type": "http",
            "http": {"request": self._http_request(request, server, method, responses, auth)},
            "argSchema": request.schema(),
        }
        output = self._output(responses, place)
        if output:
            tool |= {"outputSchema": output, "outputSchemaFrom": "document"}
        if as_dict(operation.get("callbacks")):
            self._api.notes.add(f"{place}: its callbacks are left out")
        return tool

    def _http_request(
        self,
        request: Operation,
        server: str,
        method: str,
        responses: list[Json],
        auth: RequiredAuth,
    ) -> Json:
        names = {name.lower() for name in auth.headers}
        if auth.scheme is not None and auth.scheme.get("in") == "header":
            names.add(auth.scheme["name"].lower())
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in names
        } | auth.headers
        mimes = (str(mime) for response in responses for mime in as_dict(response.get("content")))
        if accepted := next(filter(_JSON_MIME.fullmatch, mimes), None):
            headers["Accept"] = accepted
        if method == "head" and request.body is not None:
            self._api.notes.add(
                f"{request.place}: a HEAD request has no body; the given one is left out"
            )
            request.body = request.body_type = None
        parts = {
            "query": {**request.query, **auth.query},
            "headers": headers,
            "body": request.body,
            "bodyType": request.body_type,
            "auth": auth.scheme,
        }
        used = {key: value for key, value in parts.items() if value not in (None, {})}
        return {"method": method.upper(), "urlTemplate": server + request.target(), **used}

    def _output(self, responses: list[Json], place: str) -> Json:
        """The schema of the successful response, if there is exactly one, in JSON and of a
        reasonable size."""
        content = as_dict(responses[0].get("content")) if len(responses) == 1 else {}
        (mime, media), *more = content.items() or [("", None)]
        source = as_dict(media).get("schema")
        if more or "json" not in str(mime).lower() or not as_dict(source):
            return {}
        schema, refs = self._schemas.translated(source, "response")
        plain = schema if isinstance(schema, dict) else {}
        whole, count = self._schemas.with_definitions(plain, refs, "response")
        if len(text_of(whole)) > _MAX_OUTPUT:
            self._api.notes.add(f"{place}: its outputSchema is left out, since it is very large")
            return {}
        if count >= FEW_REFS and branch_count(whole) > MOST:
            self._api.notes.add(f"{place}: its outputSchema is left out: its references multiply")
            return {}
        return whole

    def _server(self, operation: Json, item: Json, place: str) -> str | None:
        """The server URL: of the operation, the path or the document."""
        lists = (part.get("servers") for part in (operation, item, self._api.root))
        server = as_dict(next(iter(as_list(next(filter(None, lists), None))), {"url": "/"}))
        variables = as_dict(server.get("variables"))

        def default(match: re.Match[str]) -> str:
            return str(as_dict(variables.get(match[1])).get("default", match[0]))

        text = _IN_BRACES.sub(default, as_text(server.get("url")))
        if text not in self.servers:
            url = self._request.url_of(text)
            self.servers[text] = url, host_of(url) if _BAD_IN_SERVER.isdisjoint(url) else None
        url, host = self.servers[text]
        if host is None:
            self._api.notes.add(
                f"{place}: '{url[:80]}' cannot be used as a server; the tool is left out"
            )
            return None
        self.uses[url.rstrip("/")] += 1
        return url.rstrip("/")


def _name(operation: Json, method: str, path: str, prefix: str) -> str:
    """The name that an operation has by itself: its operationId, its summary, or its method and
    path."""
    label = as_text(operation.get("operationId"))
    # FastAPI adds the path and the method to an id.
    label = label.removesuffix(re.sub(r"\W", "_", path) + f"_{method}") or label
    summary = as_text(operation.get("summary"))
    words = summary if len(summary.split()) <= _MAX_WORDS else ""
    return (
        slug(label, "")
        or slug(words.lower(), "")
        or slug(f"{method}-{unquote(path.removeprefix(prefix))}", method)
    )


def _tags(operation: Json) -> list[str]:
    tags = [
        re.sub(r"[\x00-\x1f\x7f,]", " ", as_text(tag))[:64].strip()
        for tag in as_list(operation.get("tags"))
    ]
    return list(dict.fromkeys(filter(None, tags)))[:64]


class Operation:
    """The arguments, path, query, headers and body of one operation. `place` names it in notes.

    `reserved` are names that no argument may have: those of secrets. A `#...` at the end of the
    path only tells operations apart and is not sent.
    """

    def __init__(
        self,
        api: OpenApiDocument,
        schemas: SchemaTranslator,
        place: str,
        path: str,
        reserved: Collection[str],
    ) -> None:
        self._api = api
        self._schemas = schemas
        self.place = place
        self._path = path.partition("#")[0]
        self._arguments = UniqueNames(mark="_", longest=120, taken=reserved)
        self._refs: list[str] = []
        self._in_path: dict[str, str] = {}
        self._properties: Json = {}
        self._required: list[str] = []
        self.query: Json = {}
        self.headers: dict[str, str] = {}
        self.body: Json | str | None = None
        self.body_type: str | None = None

    def read(self, operation: Json, shared: list[object]) -> None:
        """Read the parameters and the body."""
        nodes = map(self._api.follow, (*shared, *as_list(operation.get("parameters"))))
        parameters = {(as_text(node.get("in")), as_text(node.get("name"))): node for node in nodes}
        for (where, name), parameter in parameters.items():
            if not name or where not in ("path", "query", "header", "cookie"):
                self._note(f"a parameter in '{where[:40]}' named '{name[:40]}' is left out")
            elif where == "cookie":
                self._note(f"the cookie parameter '{name}' is left out")
            elif where == "header" and name.lower() in _DESCRIBED_ELSEWHERE:
                continue
            elif where == "header" and (
                name.lower() in OWN_HEADERS or not HEADER_NAME.fullmatch(name)
            ):
                self._note(f"the header '{name[:60]}' cannot be set, and is left out")
            else:
                self._add_parameter(where, name, parameter)
        if "requestBody" in operation:
            self._add_body(self._api.follow(operation["requestBody"]))

    def schema(self) -> Json:
        """The schema of the arguments, self-contained. Schemas whose references multiply beyond all
        use are left out.

        Call it last: `target` may add arguments.
        """
        out: Json = {"type": "object", "properties": self._properties}
        if self._required:
            out["required"] = self._required
        out["additionalProperties"] = False
        whole, count = self._schemas.with_definitions(out, self._refs, "request")
        if count < FEW_REFS or branch_count(whole) <= MOST:
            return whole
        self._note("the schemas of its arguments are not kept: their references multiply")
        loose = {
            name: {"description": as_text(as_dict(sub).get("description"))}
            for name, sub in self._properties.items()
        }
        return {**out, "properties": loose}

    def target(self) -> str:
        """The path with its placeholders. One that does not begin with a slash would go on with the
        host."""
        safe = _SAFE + "?" if "?" in self._path else _SAFE
        out, end = "/" if self._path and not self._path.startswith("/") else "", 0
        for match in _IN_BRACES.finditer(self._path):
            if match[1] not in self._in_path:
                self._note(f"the path's '{match[1]}' is not a parameter, and is taken as text")
                self._in_path[match[1]] = f"${{{self._argument(match[1], _TEXT, required=True)}}}"
            out += quote(self._path[end : match.start()], safe=safe) + self._in_path[match[1]]
            end = match.end()
        return out + quote(self._path[end:], safe=safe)

    def _note(self, text: str) -> None:
        self._api.notes.add(f"{self.place}: {text}")

    def _add_parameter(self, where: str, name: str, parameter: Json) -> None:
        content = as_dict(parameter.get("content"))
        source = (
            as_dict(next(iter(content.values()), None)).get("schema")
            if content
            else parameter.get("schema")
        )
        required = parameter.get("required") is True or where == "path"
        label = self._argument(
            name, source, required=required, about=as_text(parameter.get("description"))
        )
        form = "json" if content else self._form(where, name, parameter, source)
        placeholder = f"${{{label}|{form}}}" if form else f"${{{label}}}"
        if parameter.get("allowReserved") is True:
            self._note(
                f"'{name}' allows reserved characters; they are percent-encoded all the same"
            )
        if where == "path":
            style = as_text(parameter.get("style"))
            if style in ("label", "matrix") and parameter.get("explode") is True:
                self._note(f"'{name}': {style} with explode is written without it")
            lead = {"label": ".", "matrix": f";{quote(name, safe='')}="}.get(style, "")
            self._in_path[name] = lead + placeholder
        elif where == "query":
            self.query[literal(name)] = placeholder
        else:
            self.headers[name] = placeholder

    def _form(self, where: str, name: str, parameter: Json, source: object) -> str:
        """The form in which a list or an object of this parameter is written."""
        style = parameter.get("style") or ("form" if where == "query" else "simple")
        explode = parameter.get("explode", style in ("form", "deepObject"))
        shape = self._api.follow(source)
        is_object = shape.get("type", "object" if "properties" in shape else None) == "object"
        if shape.get("type") in ("string", "integer", "number", "boolean"):
            return ""
        if where != "query":
            if is_object and explode:
                self._note(f"'{name}': an object with explode in a {where} is written key,value")
            return "csv" if where == "header" else ""
        if style == "deepObject":
            return "deep"
        if explode:
            return "spread" if is_object else ""
        return _DELIMITERS.get(str(style), "csv")

    def _argument(self, name: str, source: object, *, required: bool, about: str = "") -> str:
        """Add an argument with its schema, which has its default in words."""
        label = self._arguments.take(argument(name))
        if label != name:
            self._note(f"'{name}' is the argument '{label}'")
        schema, refs = self._schemas.translated({} if source is None else source, "request")
        self._refs += refs
        if isinstance(schema, dict):
            schema = dict(schema)
            words = about or as_text(schema.get("description"))
            if "default" in schema:
                default = json.dumps(schema.pop("default"), ensure_ascii=False)
                words = f"{words} (default: {default[:100]})".strip()
            if words:
                schema["description"] = words[:_MAX_DESCRIPTION]
        elif about and schema is True:
            schema = {"description": about}
        self._properties[label] = schema
        if required:
            self._required.append(label)
        return label

    def _add_body(self, body: Json) -> None:
        content = as_dict(body.get("content"))
        if not content:
            return
        mime, kind = _media_type(content)
        media = as_dict(content[mime])
        shape = self._api.follow(media.get("schema"))
        is_plain = kind in ("json", "form", "multipart") and self._is_plain_object(shape)
        if kind is None:
            self._note(f"a body of '{', '.join(map(str, content))[:80]}' is not imported")
            return
        if kind == "multipart" and not is_plain:
            self._note("a multipart body that is not a plain object is not imported")
            return
        self.body_type = kind
        if kind in ("text", "binary") or (kind == "json" and "json" in mime and mime != _JSON):
            self.headers["Content-Type"] = (
                literal(mime) if "*" not in mime else "application/octet-stream"
            )
        if is_plain:
            # Many documents do not say whether a body is required: its fields then decide.
            required = (
                as_list(shape.get("required")) if body.get("required", True) is not False else []
            )
            encodings = as_dict(media.get("encoding")) if kind == "form" else {}
            self.body = {
                literal(name): self._field(
                    kind, name, source, as_dict(encodings.get(name)), required=name in required
                )
                for name, source in shape["properties"].items()
                if self._api.follow(source).get("readOnly") is not True
            }
            return
        source = {"text": _TEXT, "binary": FILE_SCHEMA}.get(kind, media.get("schema"))
        about, is_required = as_text(body.get("description")), body.get("required") is True
        label = self._argument("body", source, required=is_required, about=about)
        self.body = f"${{{label}}}" if kind != "form" else {"body": f"${{{label}|spread}}"}

    def _field(
        self, kind: str, name: str, source: object, encoding: Json, *, required: bool
    ) -> str:
        """Add the argument of one field of a body; returns its placeholder."""
        shape = self._api.follow(source)
        is_file = shape.get("format") in ("binary", "base64") or "contentMediaType" in shape
        label = self._argument(
            name, FILE_SCHEMA if kind == "multipart" and is_file else source, required=required
        )
        if encoding.get("style") == "deepObject":
            return f"${{{label}|deep}}"
        if encoding.get("explode") is False:
            return f"${{{label}|{_DELIMITERS.get(as_text(encoding.get('style')), 'csv')}}}"
        return f"${{{label}}}"

    def _is_plain_object(self, shape: Json) -> bool:
        """Whether each field of a body can be an argument of its own."""
        names = as_dict(shape.get("properties"))
        return (
            0 < len(names) <= _MAX_FIELDS
            and not any(key in shape for key in _COMBINED)
            and shape.get("additionalProperties", False) is False
            and shape.get("type", "object")
            in ("object", ["object"], ["object", "null"], ["null", "object"])
            and not any(name in self._properties or argument(name) != name for name in names)
        )


def _media_type(content: Json) -> tuple[str, str | None]:
    """The media type to send, and how its body is encoded."""
    names = {str(mime).partition(";")[0].strip().lower(): str(mime) for mime in content}
    kinds: list[tuple[str, Callable[[str], bool]]] = [
        ("json", lambda mime: mime in (_JSON, "*/*", "application/*")),
        ("json", lambda mime: "json" in mime),
        ("form", lambda mime: mime == _FORM),
        ("multipart", lambda mime: mime == _MULTIPART),
        (
            "text",
            lambda mime: (
                mime.startswith("text/") or mime.endswith(("/xml", "+xml", "/graphql", "/yaml"))
            ),
        ),
        ("binary", lambda mime: not mime.startswith("multipart/")),
    ]
    options = (
        (written, kind) for kind, fits in kinds for mime, written in names.items() if fits(mime)
    )
    return next(options, (next(iter(content)), None))


class RequiredAuth(NamedTuple):
    """The auth of a request: one scheme, and keys in headers and query."""

    scheme: Json | None
    headers: dict[str, str]
    query: dict[str, str]


class SecuritySchemes:
    """The security schemes of one document. `secrets` are those used so far, by name."""

    def __init__(self, api: OpenApiDocument, prefix: str) -> None:
        self._api = api
        self._prefix = prefix
        self._names: dict[tuple[str, ...], str] = {}
        self._unique = UniqueNames(mark="_", longest=120)
        self.secrets: dict[str, str] = {}

    def of(self, operation: Json, place: str) -> RequiredAuth:
        """The auth of an operation: its own security, else that of the document. The first way that
        we know is used."""
        ways = [
            as_dict(way)
            for way in as_list(operation.get("security", self._api.root.get("security")))
        ]
        if any(not way for way in ways):
            self._api.notes.add(f"{place}: auth is optional, and is left out")
            return RequiredAuth(None, {}, {})
        for way in ways:
            auths = [
                self._auth(name, [str(scope) for scope in as_list(scopes)])
                for name, scopes in way.items()
            ]
            parts = [auth for auth in auths if auth is not None]
            if len(parts) < len(auths):
                continue
            # Only API keys can be combined with another scheme.
            keys = [auth for auth in parts if auth["type"] == "apiKey"]
            others = [auth for auth in parts if auth["type"] != "apiKey"]
            if len(others) > 1:
                self._api.notes.add(
                    f"{place}: of several kinds of auth at once only the first is imported"
                )
            first = others[0] if others else keys.pop(0)
            headers = {key["name"]: key["value"] for key in keys if key["in"] == "header"}
            query = {literal(key["name"]): key["value"] for key in keys if key["in"] == "query"}
            return RequiredAuth(first, headers, query)
        if ways:
            self._api.notes.add(
                f"{place}: none of its kinds of auth can be imported:"
                f" {', '.join(map(str, ways[0]))}"
            )
        return RequiredAuth(None, {}, {})

    def _auth(self, name: str, scopes: list[str]) -> Json | None:
        """The auth that a scheme means; None, with a note, if it cannot be imported."""
        scheme = self._api.follow(
            as_dict(self._api.part("components").get("securitySchemes")).get(name)
        )
        kind, about = as_text(scheme.get("type")), as_text(scheme.get("description"))
        if kind == "http":
            method = as_text(scheme.get("scheme")).lower()
            if method == "bearer":
                return {"type": "bearer", "value": self._secret(about or "A bearer token.", name)}
            if method == "basic":
                user = self._secret(about or "The user name.", name, "USERNAME")
                return {
                    "type": "basic",
                    "username": user,
                    "password": self._secret("The password.", name, "PASSWORD"),
                }
            problem = f"uses HTTP {method!r}, which is not imported"
        elif kind == "apiKey":
            where, header = scheme.get("in"), as_text(scheme.get("name"))
            if where in ("header", "query") and header:
                if where == "header" and header.lower() == "authorization":
                    about = (
                        about
                        or "The whole value of the header Authorization,"
                        " such as 'Bearer ...' or 'Token ...'."
                    )
                key = {"type": "apiKey", "in": where, "name": header, "value": ""}
                if is_sendable(ApiKey, key):
                    return {**key, "value": self._secret(about or "An API key.", name)}
            problem = f"has its key in a {where} {header!r}, which is not imported"
        elif kind in ("oauth2", "openIdConnect"):
            url = as_text(
                as_dict(as_dict(scheme.get("flows")).get("clientCredentials")).get("tokenUrl")
            )
            grant = {"type": "oauth2", "tokenUrl": url, "clientId": "", "clientSecret": ""}
            is_url = url.startswith(("http://", "https://")) and "{" not in url
            if is_url and is_sendable(OAuth2, grant):
                grant["clientId"] = self._secret(about or "The client's id.", name, "CLIENT_ID")
                grant["clientSecret"] = self._secret("The client's secret.", name, "CLIENT_SECRET")
                return {**grant, "scope": literal(" ".join(scopes))} if scopes else grant
            note = (
                f"the security scheme '{name}' needs a person to log in: put an access token into"
                " its secret"
            )
            self._api.notes.add(note)
            return {
                "type": "bearer",
                "value": self._secret(about or "An access token.", name, "TOKEN"),
            }
        else:
            problem = f"is {f'of type {kind!r}' if kind else 'not there'}"
        self._api.notes.add(f"the security scheme '{name}' {problem}")
        return None

    def _secret(self, about: str, *names: str) -> str:
        if names not in self._names:
            self._names[names] = self._unique.take(secret(self._prefix, *names))
            self.secrets[self._names[names]] = " ".join(about.split())[:300]
        return f"${{{self._names[names]}}}"


class SwaggerConverter:
    """Converts a Swagger 2.0 document to OpenAPI 3.0.

    Schemas stay under `#/definitions/`; parameters and responses are written out, since OpenAPI 3
    has bodies, forms and media types elsewhere.
    """

    def __init__(self, api: OpenApiDocument) -> None:
        self._api = api
        self._root = api.root

    def document(self, base_url: str | None) -> Json:
        """The converted document. A missing scheme is taken from `base_url`, the document's own
        address."""
        security = {
            name: dict(as_dict(node))
            for name, node in self._api.part("securityDefinitions").items()
        }
        for scheme in security.values():
            if scheme.get("type") == "basic":
                scheme |= {"type": "http", "scheme": "basic"}
            elif scheme.get("type") == "oauth2":
                flow = as_text(scheme.get("flow"))
                details = {
                    key: scheme[key]
                    for key in ("authorizationUrl", "tokenUrl", "scopes")
                    if key in scheme
                }
                scheme["flows"] = {_FLOWS.get(flow, flow): details}
        paths: dict[str, Json] = {}
        for path, node in self._api.part("paths").items():
            item = self._api.follow(node)
            shared = as_list(item.get("parameters"))
            paths[path] = {
                method: self._operation(self._api.follow(item[method]), shared)
                for method in _METHODS
                if method in item
            }
        host, url = (
            as_text(self._root.get("host")),
            "/" + as_text(self._root.get("basePath")).strip("/"),
        )
        if host:
            schemes = as_list(self._root.get("schemes")) or [urlsplit(base_url or "").scheme]
            url = f"{'http' if 'http' in schemes and 'https' not in schemes else 'https'}://{host}{url}"
        return {
            **self._root,
            "openapi": "3.0.3",
            "servers": [{"url": url}],
            "components": {"securitySchemes": security},
            "paths": paths,
        }

    def _operation(self, operation: Json, shared: list[object]) -> Json:
        body: Json = {}
        fields: dict[str, Json] = {}
        others: dict[tuple[str, str], Json] = {}
        for node in (*shared, *as_list(operation.get("parameters"))):
            parameter = self._api.follow(node)
            where, name = as_text(parameter.get("in")), as_text(parameter.get("name"))
            if where == "body":
                body = parameter
            elif where == "formData":
                fields[name] = parameter
            else:
                kept: Json = {
                    k: parameter[k]
                    for k in ("name", "in", "description", "required")
                    if k in parameter
                }
                others[where, name] = {
                    **kept,
                    "schema": _parameter_schema(parameter),
                    **self._style(parameter),
                }
        out = {
            key: value
            for key, value in operation.items()
            if key not in ("parameters", "responses", "schemes")
        }
        out["parameters"] = list(others.values())
        consumed, produced = (
            [
                mime
                for mime in as_list(operation.get(key, self._root.get(key)))
                if isinstance(mime, str)
            ]
            for key in ("consumes", "produces")
        )
        if body:
            out["requestBody"] = {
                "description": as_text(body.get("description")),
                "required": body.get("required") is True,
                "content": {
                    mime: {"schema": body.get("schema", {})} for mime in consumed or [_JSON]
                },
            }
        elif fields:
            out["requestBody"] = self._form(fields, consumed)
        responses = as_dict(operation.get("responses"))
        out["responses"] = {
            code: _response(self._api.follow(node), produced) for code, node in responses.items()
        }
        return out

    def _style(self, parameter: Json) -> Json:
        """How a list is written."""
        if parameter.get("type") != "array":
            return {}
        kind = str(parameter.get("collectionFormat", "csv"))
        if kind not in _COLLECTION_FORMATS:
            self._api.notes.add(
                f"'{as_text(parameter.get('name'))[:40]}': a list as {kind[:20]} is written as csv"
            )
        return _COLLECTION_FORMATS.get(kind, _COLLECTION_FORMATS["csv"])

    def _form(self, fields: Mapping[str, Json], consumed: list[str]) -> Json:
        has_file = any(field.get("type") == "file" for field in fields.values())
        mimes = {mime.partition(";")[0].strip().lower() for mime in consumed}
        mime = _MULTIPART if has_file or (_MULTIPART in mimes and _FORM not in mimes) else _FORM
        schema = {
            "type": "object",
            "properties": {
                name: {**_parameter_schema(field), "description": as_text(field.get("description"))}
                for name, field in fields.items()
            },
            "required": [name for name, field in fields.items() if field.get("required") is True],
        }
        encoding = {name: self._style(field) for name, field in fields.items()}
        return {"required": True, "content": {mime: {"schema": schema, "encoding": encoding}}}


def _response(response: Json, produced: list[str]) -> Json:
    schema = as_dict(response.get("schema"))
    if not schema:
        return {}
    if schema.get("type") == "file":
        return {"content": {"application/octet-stream": {"schema": _BINARY}}}
    json_mimes = [mime for mime in produced if "json" in mime.lower()] if produced else [_JSON]
    return {"content": {mime: {"schema": schema} for mime in json_mimes[:1] or produced}}


def _parameter_schema(parameter: Json) -> Json:
    """The schema of a parameter that is not a body: Swagger has its keywords beside the name."""
    if parameter.get("type") == "file":
        return dict(_BINARY)
    other = ("name", "in", "description", "required", "collectionFormat", "allowEmptyValue")
    return {key: value for key, value in parameter.items() if key not in other}


class SchemaTranslator:
    """Translates the schemas of one document to JSON Schema."""

    def __init__(self, api: OpenApiDocument) -> None:
        self._api = api
        self._notes = api.notes
        self._is_old = str(api.root.get("openapi", "")).startswith("3.0")
        self._names: dict[str, str] = {}
        self._unique = UniqueNames(mark="_", longest=sys.maxsize)
        self._translations: dict[tuple[str | int, Direction], tuple[Json | bool, list[str]]] = {}
        self._patterns: dict[str, bool] = {}

    def translated(
        self, schema: object, direction: Direction, key: str | None = None
    ) -> tuple[Json | bool, list[str]]:
        """Translate a schema; returns it with its references, which `with_definitions` resolves.

        It is translated once under its `key`. The document outlives this object, so that an id
        means one schema.
        """
        place = (id(schema) if key is None else key, direction)
        if place not in self._translations:
            refs: list[str] = []
            self._translations[place] = self._translate(schema, direction, refs, 0), refs
        return self._translations[place]

    def with_definitions(
        self, schema: Json, refs: list[str], direction: Direction
    ) -> tuple[Json, int]:
        """The schema with the `$defs` of these references and of those inside of them, and how many
        these are."""
        components: dict[str, Json | bool] = {}
        uses = list(refs)
        for ref in uses:
            if ref not in components:
                components[ref], inner = self.translated(self._api.at(ref), direction, ref)
                # The loop goes on with these.
                uses += inner
        definitions = {self._name(ref): components[ref] for ref in sorted(components)}
        return {**schema, "$defs": definitions} if definitions else schema, len(uses)

    def _name(self, ref: str) -> str:
        if ref not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", ref.rpartition("/")[2]) or "part"
            self._names[ref] = self._unique.take(plain)
        return self._names[ref]

    def _translate(
        self, node: object, direction: Direction, refs: list[str], depth: int
    ) -> Json | bool:
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
            if depth > _MAX_DEPTH:
                self._notes.add("a schema is nested too deep, and its inside is left out")
            return {}
        if isinstance(node.get("$ref"), str):
            return self._reference(node, refs)
        out = self._plain(node)
        # Most schemas of a large document hold no other schema.
        for key in filter(_INNER.__contains__, node):
            part = node[key]
            if key in _ONE and isinstance(part, (Mapping, bool)):
                out[key] = self._translate(part, direction, refs, depth + 1)
            elif key in _MANY and isinstance(part, list) and part:
                out[key] = [self._translate(each, direction, refs, depth + 1) for each in part]
            elif key in _NAMED and as_dict(part):
                kept = {
                    str(name): self._translate(each, direction, refs, depth + 1)
                    for name, each in part.items()
                    if not self._is_left_out(key, name, each, direction)
                }
                out |= {key: kept} if kept or key == "properties" else {}
        gone = as_dict(node.get("properties")).keys() - out.get("properties", {}).keys()
        if gone and (required := [name for name in out.pop("required", ()) if name not in gone]):
            out["required"] = required
        if self._is_old and (node.get("nullable") is True or node.get("x-nullable") is True):
            return _nullable(out)
        return out

    def _is_left_out(self, key: str, name: str, schema: object, direction: Direction) -> bool:
        """Whether a property is hidden in this direction, or a pattern of properties is not one."""
        if key == "patternProperties":
            return not self._is_pattern(name)
        hidden = "readOnly" if direction == "request" else "writeOnly"
        return key == "properties" and as_dict(schema).get(hidden) is True

    def _reference(self, node: Mapping[str, Any], refs: list[str]) -> Json:
        ref = node["$ref"]
        if ref == "#":
            self._notes.add("a schema refers to the whole document, and takes anything there")
            return {}
        # Of a reference that leads nowhere or out of the document, `at` notes that it is left out.
        if self._api.at(ref) is None:
            return {}
        refs.append(ref)
        out: Json = {"$ref": f"#/$defs/{self._name(ref)}"}
        if not self._is_old and isinstance(node.get("description"), str):
            out["description"] = node["description"][:_MAX_DESCRIPTION]
        return out

    def _plain(self, node: Mapping[str, Any]) -> Json:
        """The keywords that hold no other schema."""
        out: Json = {key: node[key] for key in node if key in _PLAIN and _PLAIN[key](node[key])}
        out |= {
            key: out[key][:_MAX_DESCRIPTION]
            for key in ("title", "description", "format")
            if key in out
        }
        # In 3.0 `exclusiveMinimum: true` changes the meaning of `minimum`.
        for plain, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if node.get(strict) is True and plain in out:
                out[strict] = out.pop(plain)
        if (kind := node.get("type")) is not None:
            listed = [kind] if isinstance(kind, str) else as_list(kind)
            kinds = list(
                dict.fromkeys(one for one in listed if isinstance(one, str) and one in _TYPES)
            )
            if kinds:
                out["type"] = kinds[0] if isinstance(kind, str) else kinds
            else:
                self._notes.add(
                    f"the type {values.safe_repr(kind, 60)} does not exist, and is left out"
                )
        if options := as_list(node.get("enum")):
            out["enum"] = list(
                {
                    json.dumps(option, sort_keys=True, default=str): option for option in options
                }.values()
            )
        if names := [name for name in as_list(node.get("required")) if isinstance(name, str)]:
            out["required"] = list(dict.fromkeys(names))
        if isinstance(node.get("pattern"), str) and self._is_pattern(node["pattern"]):
            out["pattern"] = node["pattern"]
        for key in filter(_UNTAKEN.__contains__, node):
            self._notes.add(f"'{key}' in a schema is left out")
        example = node.get("example", next(iter(as_list(node.get("examples"))), None))
        is_plain = (
            example is not None and "$ref" not in as_dict(example) and values.is_json(example)
        )
        return (
            {**out, "examples": [example]}
            if is_plain and len(json.dumps(example)) <= _MAX_EXAMPLE
            else out
        )

    def _is_pattern(self, pattern: str) -> bool:
        if pattern not in self._patterns:
            try:
                if len(pattern) > _MAX_PATTERN:
                    raise InvalidTool("It is too long.")
                compile_schema({"pattern": pattern})
                self._patterns[pattern] = True
            except InvalidTool:
                self._patterns[pattern] = False
                self._notes.add(
                    f"the pattern '{pattern[:60]}' is not a regular expression, and is left out"
                )
        return self._patterns[pattern]


def text_of(schema: object) -> bytes:
    """A schema as JSON text."""
    import orjson

    try:
        return orjson.dumps(schema)
    except TypeError:
        # A number of more than 64 bits, half a character, more levels than orjson goes.
        return json.dumps(schema).encode()


def _nullable(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, str):
        out = {**schema, "type": [kind, "null"]}
        if "enum" in out and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
        return out
    if isinstance(kind, list):
        return {**schema, "type": list(dict.fromkeys([*kind, "null"]))}
    if not any(key in schema for key in ("allOf", "anyOf", "oneOf", "enum", "not")):
        return schema
    words: Json = {key: schema.pop(key) for key in ("title", "description") if key in schema}
    return {**words, "anyOf": [schema, {"type": "null"}]}
