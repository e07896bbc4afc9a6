"""An OpenAPI 3 or Swagger 2.0 document -> the draft of a bundle and its tools. Pure; what is not imported is noted.

`_Maker` makes a tool of each chosen operation: `Operation` its request, `SecuritySchemes` its auth, `SchemaTranslator`
its schemas. A Swagger document is converted to OpenAPI 3.0 first (`to_openapi`).

Parameters and the fields of a JSON or form body become arguments; a body that is not a plain object is the one argument
`body`. A server's defaults are described, not sent. Of several alternatives of auth the first that we support is used.
The draft has names of secrets, never values.

Schemas become JSON Schema 2020-12 with their references in `$defs`. Each component is translated once per direction
(requests leave out read-only properties, responses write-only ones), so that a large document stays cheap and circular
references stay circular.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest, InvalidTool
from onetool_ipy.base.printable import printable
from onetool_ipy.base.records import once
from onetool_ipy.bundles.http.definition import HEADER_NAME, OWN_HEADERS
from onetool_ipy.bundles.http.template import placeholders_in
from onetool_ipy.bundles.importing.document import ImportNotes, OpenApiDocument, as_dict, as_list, as_text
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest, OfferedOperations, host_of
from onetool_ipy.bundles.importing.labels import UniqueNames, argument, common_prefix, literal, secret, slug, version
from onetool_ipy.schema.check import MOST, branch_count, compile_schema

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_MAX_WORDS = 7
_MAX_OUTPUT = 16_000
"""A longer outputSchema is left out: it would be most of the record, and break at the next change of the API."""

_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_SAFE = "/:@!&'()*+,;=-._~%"
_SPOKEN = frozenset(("accept", "content-type", "authorization"))
"""Headers that a document describes elsewhere; as parameters they are ignored."""

_COMBINED = ("allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "discriminator")
_MAX_FIELDS = 100
_ANY: dict[str, Any] = {}
_TEXT = {"type": "string"}
_FILE = {
    "anyOf": [
        {"type": "string", "description": "The content, where it is text."},
        {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("base64", "filename", "mime")},
            "required": ["base64"],
        },
    ]
}
"""The schema of an argument that is a file."""
_JSON, _FORM, _MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_OF_SCHEMA = frozenset(
    (
        *("type", "format", "items", "default", "enum", "pattern", "uniqueItems", "multipleOf", "x-nullable"),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "maxItems", "minItems"),
    )
)
_STYLES = {
    "csv": {"style": "form", "explode": False},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
    "multi": {"style": "form", "explode": True},
}
_FLOWS = {"application": "clientCredentials", "accessCode": "authorizationCode"}
_BINARY = {"type": "string", "format": "binary"}
Direction = Literal["request", "response"]
_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_COUNTS = ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties")
_NUMBERS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf")
_PLAIN = ("const", "default", "uniqueItems", "deprecated", "contentEncoding", "contentMediaType")
_WORDS = ("title", "description", "format")
_UNTAKEN = ("$dynamicRef", "$dynamicAnchor", "$anchor", "$id", "unevaluatedProperties", "unevaluatedItems")
_INNER = frozenset((*_ONE, *_MANY, *_NAMED))
_RARE = frozenset((*_PLAIN, *_COUNTS, *_NUMBERS, *_UNTAKEN))
_MAX_DEPTH = 60
_MAX_DESCRIPTION = 2000
_MAX_EXAMPLE = 200
_MAX_PATTERN = 4000
_MAX_OWN_TEXT = 60


def import_openapi(root: Mapping[str, Any], notes: ImportNotes, request: ImportRequest) -> BundleDraft:
    """Import a document; raises InvalidRequest if it is not one, or has no usable server."""
    api = _converted(root, notes, request.server or request.base_url)
    info = api.part("info")
    title = printable(as_text(info.get("title")))
    name = request.slug or slug(title.lower(), "api")
    maker = _Maker(api, name, request)
    tools = list(maker.tools(version(str(info.get("version", "")))))
    maker.offered.require_some(tools, notes)
    if api.part("webhooks"):
        notes.add("'webhooks' are calls that a server makes, and are left out")
    about = printable(as_text(info.get("description")) or as_text(info.get("summary")))
    bundle = {"slug": name, "displayName": (title or name)[:256], "description": about[:2000], "isEnabled": True}
    secrets = [{"name": key, "description": words} for key, words in sorted(maker.security.secrets.items())]
    kind = "OpenAPI document" if "openapi" in root else "Swagger 2.0 document"
    return BundleDraft(kind, bundle, tools, secrets, maker.hosts(), notes.list(), maker.offered.count)


class _Maker:
    """Makes tools of the operations of one document."""

    def __init__(self, api: OpenApiDocument, name: str, request: ImportRequest) -> None:
        self._api = api
        self._asked = request
        self._known = frozenset(request.secrets)
        self._schemas = SchemaTranslator(api)
        self._prefix = common_prefix([str(path) for path in api.part("paths")])
        self.offered = OfferedOperations(request.choice)
        self.security = SecuritySchemes(api, name)
        self._hosts: dict[str, str | None] = {}

    def hosts(self) -> list[str]:
        """The hosts of the servers that the tools call, sorted."""
        return sorted({host for host in self._hosts.values() if host is not None})

    def tools(self, version: str) -> Iterator[dict[str, Any]]:
        for path, method, item, operation, name in list(self._chosen()):
            tool = self._tool(path, method, item, operation)
            if tool is not None:
                yield {"slug": name, "version": version, **tool}

    def _chosen(self) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any], str]]:
        for path, node in self._api.part("paths").items():
            item = self._api.follow(node)
            for method in _METHODS:
                operation = self._api.follow(item.get(method)) if method in item else {}
                if operation:
                    proposal = _name(operation, method, str(path), self._prefix)
                    name = self.offered.take(proposal, method.upper(), str(path), _tags(operation))
                    if name is not None:
                        yield str(path), method, item, operation, name
            if "trace" in item:
                self._api.notes.add(f"TRACE {path}: a trace cannot be a tool, and is left out")

    def _tool(self, path: str, method: str, item: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
        place = f"{method.upper()} {path}"
        server = self._server(operation, item, place)
        if server is None:
            return None
        required = self.security.of(operation, place)
        reserved = self._known | {placeholder.name for placeholder in placeholders_in(_signs(required))}
        taken = Operation(self._api, self._schemas, method, path, reserved)
        taken.take(operation, as_list(item.get("parameters")))
        request = self._request(taken, server, method, operation, required)
        tool: dict[str, Any] = {
            **_words(operation, place),
            "type": "http",
            "argSchema": self._arguments(taken, place),
            "http": {"request": request},
        }
        output = self._output(operation, place)
        if output is not None:
            tool |= {"outputSchema": output, "outputSchemaFrom": "document"}
        if as_dict(operation.get("callbacks")):
            self._api.notes.add(f"{place}: its callbacks are left out")
        return tool

    def _request(
        self, taken: Operation, server: str, method: str, operation: dict[str, Any], required: RequiredAuth
    ) -> dict[str, Any]:
        target = taken.target()
        named = {name.lower() for name in (*required.headers, *_header_of(required.auth))}
        request: dict[str, Any] = {"method": method.upper(), "urlTemplate": server + target}
        query = {**taken.query, **required.query}
        headers = {n: v for n, v in taken.headers.items() if n.lower() not in named} | required.headers
        if accept := self._json_mime(operation):
            headers["Accept"] = accept
        parts = {
            "query": query,
            "headers": headers,
            "body": taken.body,
            "bodyType": taken.body_type,
            "auth": required.auth,
        }
        if method == "head" and taken.body is not None:
            self._api.notes.add(f"{taken.place}: a HEAD request has no body; the given one is left out")
            parts["body"] = parts["bodyType"] = None
        return request | {key: value for key, value in parts.items() if value not in (None, {})}

    def _json_mime(self, operation: dict[str, Any]) -> str:
        """The JSON media type of a successful response, or an empty text."""
        for code, node in as_dict(operation.get("responses")).items():
            if str(code)[:1] == "2":
                for mime in as_dict(self._api.follow(node).get("content")):
                    if re.fullmatch(r"application/(?:[\w.+-]+\+)?json", str(mime)):
                        return str(mime)
        return ""

    def _arguments(self, taken: Operation, place: str) -> dict[str, Any]:
        """The schema of the arguments. A translated schema is valid, but its references may multiply beyond all use."""
        schema = taken.schema()
        if branch_count(schema) <= MOST:
            return schema
        self._api.notes.add(f"{place}: the schemas of its arguments are not kept: their references multiply")
        loose = {
            name: {"description": as_text(as_dict(sub).get("description"))} for name, sub in taken.properties.items()
        }
        return {"type": "object", "properties": loose, "required": taken.required, "additionalProperties": False}

    def _output(self, operation: dict[str, Any], place: str) -> Any:
        """The schema of the successful response, if there is exactly one, in JSON and of a reasonable size."""
        responses = as_dict(operation.get("responses"))
        good = [self._api.follow(node) for code, node in responses.items() if str(code)[:1] == "2"]
        if len(good) != 1:
            return None
        content = as_dict(good[0].get("content"))
        medias = [as_dict(media) for mime, media in content.items() if "json" in str(mime).lower()]
        if len(medias) != 1 or len(content) != 1 or not as_dict(medias[0].get("schema")):
            return None
        schema, refs = self._schemas.translated(medias[0]["schema"], "response")
        components = self._schemas.reachable(refs, "response")
        if len(text_of(schema)) + sum(component.size for component in components.values()) > _MAX_OUTPUT:
            self._api.notes.add(f"{place}: its outputSchema is left out, since it is very large")
            return None
        whole = dict(schema) if isinstance(schema, dict) else {}
        if components:
            whole["$defs"] = {name: component.schema for name, component in components.items()}
        if branch_count(whole) > MOST:
            self._api.notes.add(f"{place}: its outputSchema is left out: its references multiply")
            return None
        return whole or None

    def _server(self, operation: dict[str, Any], item: dict[str, Any], place: str) -> str | None:
        """The server URL: of the operation, the path or the document."""
        listed = next(
            (x for x in (operation.get("servers"), item.get("servers"), self._api.root.get("servers")) if x), None
        )
        servers = [as_dict(server) for server in as_list(listed)] or [{"url": "/"}]
        url = self._asked.url_of(_filled(servers[0]))
        if url not in self._hosts:
            self._hosts[url] = None if any(sign in url for sign in "{}$@?#\\ ") else host_of(url)
        if self._hosts[url] is None:
            self._api.notes.add(f"{place}: '{url[:80]}' cannot be used as a server; the tool is left out")
            return None
        return url.rstrip("/")


def _filled(server: dict[str, Any]) -> str:
    variables = as_dict(server.get("variables"))

    def value(match: re.Match[str]) -> str:
        variable = as_dict(variables.get(match[1]))
        return str(variable.get("default", match[0]))

    return _IN_BRACES.sub(value, as_text(server.get("url")))


def _signs(required: RequiredAuth) -> list[Any]:
    """Every text of the auth of a request."""
    return [list(part.values()) for part in (required.auth or {}, required.headers, required.query)]


def _header_of(auth: dict[str, Any] | None) -> list[str]:
    """The header that the auth sets."""
    return [auth["name"]] if auth is not None and auth.get("in") == "header" else []


def _name(operation: dict[str, Any], method: str, path: str, prefix: str) -> str:
    """The name that an operation has by itself: its operationId, its summary, or its method and path."""
    label = as_text(operation.get("operationId"))
    label = label.removesuffix(re.sub(r"\W", "_", path) + f"_{method}") or label  # FastAPI adds path and method
    summary = as_text(operation.get("summary"))
    words = summary if len(summary.split()) <= _MAX_WORDS else ""
    return slug(label, "") or slug(words.lower(), "") or slug(f"{method}-{unquote(path.removeprefix(prefix))}", method)


def _tags(operation: dict[str, Any]) -> list[str]:
    tags = [re.sub(r"[\x00-\x1f\x7f,]", " ", as_text(tag))[:64].strip() for tag in as_list(operation.get("tags"))]
    return list(dict.fromkeys(tag for tag in tags if tag))[:64]


def _words(operation: dict[str, Any], place: str) -> dict[str, Any]:
    """Display name, description and tags of a tool."""
    summary, about = (printable(as_text(operation.get(key))) for key in ("summary", "description"))
    parts = [summary, about if about != summary else "", "Deprecated." if operation.get("deprecated") is True else ""]
    return {
        "displayName": (summary or printable(as_text(operation.get("operationId")) or place))[:256],
        "description": "\n\n".join(part for part in parts if part)[:4000] or printable(place),
        "tags": _tags(operation),
    }


def _converted(root: Mapping[str, Any], notes: ImportNotes, base_url: str | None) -> OpenApiDocument:
    """The document as OpenAPI 3; raises InvalidRequest if it is neither OpenAPI 3 nor Swagger 2.0."""
    version = root.get("openapi")
    swagger = root.get("swagger", root.get("swaggerVersion"))
    if swagger is not None and version is None:
        if str(swagger) not in ("2.0", "2"):
            raise InvalidRequest(
                f"This is Swagger {str(swagger)[:10]}; Swagger 2.0 and OpenAPI 3.0 and 3.1 can be imported.",
                hint="Convert it first, for example with swagger2openapi.",
            )
        return OpenApiDocument(to_openapi(root, notes, base_url), notes)
    if not isinstance(version, (str, float)) or not str(version).startswith("3."):
        raise InvalidRequest("This is not an OpenAPI 3 document, a Swagger 2.0 document or a Postman collection.")
    if not str(version).startswith(("3.0", "3.1")):
        notes.add(f"the document is of version {str(version)[:10]}, and is read as 3.1")
    return OpenApiDocument(root, notes)


class Operation:
    """The arguments, path, query, headers and body of one operation. `method` and `path` name it in notes.

    `reserved` are names that no argument may have: those of secrets. A `#...` at the end of the path only tells
    operations apart and is not sent.
    """

    def __init__(
        self, api: OpenApiDocument, schemas: SchemaTranslator, method: str, path: str, reserved: Collection[str] = ()
    ) -> None:
        self._api = api
        self._schemas = schemas
        self.place = f"{method.upper()} {path}"
        self._path = path.partition("#")[0]
        self._arguments = UniqueNames(mark="_", longest=120, taken=reserved)
        self._refs: set[str] = set()
        self._in_path: dict[str, str] = {}
        self.properties: dict[str, Any] = {}
        self.required: list[str] = []
        self.query: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.body: Any = None
        self.body_type: str | None = None

    def take(self, operation: dict[str, Any], shared: list[Any]) -> None:
        """Read the parameters and the body."""
        parameters: dict[tuple[str, str], dict[str, Any]] = {}
        for node in (*shared, *as_list(operation.get("parameters"))):
            parameter = self._api.follow(node)
            parameters[as_text(parameter.get("in")), as_text(parameter.get("name"))] = parameter
        for (where, name), parameter in parameters.items():
            self._parameter(where, name, parameter)
        if "requestBody" in operation:
            self._request_body(self._api.follow(operation["requestBody"]))

    def schema(self) -> dict[str, Any]:
        """The schema of the arguments, self-contained."""
        out: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            out["required"] = self.required
        out["additionalProperties"] = False
        if components := self._schemas.reachable(self._refs, "request"):
            out["$defs"] = {name: component.schema for name, component in components.items()}
        return out

    def target(self) -> str:
        """The path with its placeholders."""
        out, end = "", 0
        for match in _IN_BRACES.finditer(self._path):
            out += _literal(self._path[end : match.start()])
            if match[1] not in self._in_path:
                self._note(f"the path's '{match[1]}' is not a parameter, and is taken as text")
                self._in_path[match[1]] = f"${{{self._argument(match[1], _TEXT, required=True)}}}"
            out += self._in_path[match[1]]
            end = match.end()
        return out + _literal(self._path[end:])

    def _note(self, text: str) -> None:
        self._api.notes.add(f"{self.place}: {text}")

    def _parameter(self, where: str, name: str, parameter: dict[str, Any]) -> None:
        if not name or where not in ("path", "query", "header", "cookie"):
            self._note(f"a parameter in '{where[:40]}' named '{name[:40]}' is left out")
        elif where == "cookie":
            self._note(f"the cookie parameter '{name}' is left out")
        elif where == "header" and name.lower() in _SPOKEN:
            return
        elif where == "header" and (name.lower() in OWN_HEADERS or not HEADER_NAME.fullmatch(name)):
            self._note(f"the header '{name[:60]}' cannot be set, and is left out")
        else:
            self._placed(where, name, parameter)

    def _placed(self, where: str, name: str, parameter: dict[str, Any]) -> None:
        content = as_dict(parameter.get("content"))
        source = as_dict(next(iter(content.values()), None)).get("schema") if content else parameter.get("schema")
        about = as_text(parameter.get("description"))
        required = parameter.get("required") is True or where == "path"
        argument = self._argument(name, source, required=required, about=about)
        form = "json" if content else self._form(where, name, parameter, source)
        placeholder = f"${{{argument}|{form}}}" if form else f"${{{argument}}}"
        if parameter.get("allowReserved") is True:
            self._note(f"'{name}' allows reserved characters; they are percent-encoded all the same")
        if where == "path":
            self._in_path[name] = self._in_style(name, parameter) + placeholder
        elif where == "query":
            self.query[literal(name)] = placeholder
        else:
            self.headers[name] = placeholder

    def _form(self, where: str, name: str, parameter: dict[str, Any], source: Any) -> str:
        """The form in which a list or an object of this parameter is written."""
        style = parameter.get("style") or ("form" if where == "query" else "simple")
        explode = parameter.get("explode", style in ("form", "deepObject"))
        shape = self._schemas.shape(source)
        is_object = _is_object(shape)
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
        return {"spaceDelimited": "space", "pipeDelimited": "pipe"}.get(str(style), "csv")

    def _in_style(self, name: str, parameter: dict[str, Any]) -> str:
        """The text before a value in the path."""
        style = as_text(parameter.get("style"))
        if style in ("label", "matrix") and parameter.get("explode") is True:
            self._note(f"'{name}': {style} with explode is written without it")
        return {"label": ".", "matrix": f";{quote(name, safe='')}="}.get(style, "")

    def _argument(self, name: str, source: Any, *, required: bool, about: str = "") -> str:
        """Add an argument with its schema."""
        taken = self._arguments.take(argument(name))
        if taken != name:
            self._note(f"'{name}' is the argument '{taken}'")
        schema, refs = self._schemas.translated(_ANY if source is None else source, "request")
        self._refs.update(refs)
        self.properties[taken] = _told(schema, about)
        if required:
            self.required.append(taken)
        return taken

    def _request_body(self, body: dict[str, Any]) -> None:
        content = as_dict(body.get("content"))
        if not content:
            return
        mime, kind = _chosen(content)
        if kind is None:
            self._note(f"a body of '{', '.join(map(str, content))[:80]}' is not imported")
            return
        media = as_dict(content[mime])
        required = body.get("required") is True
        self.body_type = kind
        if kind in ("text", "binary") or (kind == "json" and "json" in mime and mime != "application/json"):
            self.headers["Content-Type"] = literal(mime) if "*" not in mime else "application/octet-stream"
        fields = self._fields(media.get("schema")) if kind in ("json", "form", "multipart") else None
        if fields is None:
            self._whole_body(kind, media, required=required, about=as_text(body.get("description")))
            return
        shape, names = fields
        is_needed = body.get("required", True) is not False  # many documents do not say
        required_names = as_list(shape.get("required")) if is_needed else []
        styles = as_dict(media.get("encoding"))
        self.body = {}
        for name, source in names.items():
            is_file = kind == "multipart" and _is_file(self._schemas.shape(source))
            argument = self._argument(name, _FILE if is_file else source, required=name in required_names)
            form = _field_form(kind, as_dict(styles.get(name)))
            self.body[literal(name)] = f"${{{argument}{form}}}"

    def _whole_body(self, kind: str, media: dict[str, Any], *, required: bool, about: str) -> None:
        """Make the whole body one argument."""
        if kind == "multipart":
            self._note("a multipart body that is not a plain object is not imported")
            self.body_type = None
            return
        source = {"text": _TEXT, "binary": _FILE}.get(kind, media.get("schema"))
        argument = self._argument("body", source, required=required, about=about)
        self.body = f"${{{argument}}}" if kind != "form" else {"body": f"${{{argument}|spread}}"}

    def _fields(self, source: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The fields of a body that is a plain object, or None."""
        shape = self._schemas.shape(source)
        names = as_dict(shape.get("properties"))
        open_ = shape.get("additionalProperties", False)
        if not names or len(names) > _MAX_FIELDS or any(key in shape for key in _COMBINED) or open_ is not False:
            return None
        if shape.get("type", "object") not in ("object", ["object"], ["object", "null"], ["null", "object"]):
            return None
        taken = set(self.properties)
        if any(name in taken or argument(name) != name for name in names):
            return None
        fields = {
            name: sub for name, sub in names.items() if as_dict(self._schemas.shape(sub)).get("readOnly") is not True
        }
        return shape, fields


def _literal(text: str) -> str:
    return quote(text, safe=_SAFE + "?") if "?" in text else quote(text, safe=_SAFE)


def _is_file(shape: dict[str, Any]) -> bool:
    return shape.get("format") in ("binary", "base64") or "contentMediaType" in shape


def _is_object(shape: dict[str, Any]) -> bool:
    kind = shape.get("type")
    return kind == "object" or (kind is None and "properties" in shape)


def _told(schema: Any, about: str) -> Any:
    """The schema of an argument, with its description and its default in words."""
    if not isinstance(schema, dict):
        return {"description": about} if about and schema is True else schema
    out = dict(schema)
    words = about or as_text(out.get("description"))
    if "default" in out:
        default = json.dumps(out.pop("default"), ensure_ascii=False)
        words = f"{words} (default: {default[:100]})".strip()
    if words:
        out["description"] = words[:2000]
    return out


def _field_form(kind: str, encoding: dict[str, Any]) -> str:
    if kind != "form":
        return ""
    if encoding.get("style") == "deepObject":
        return "|deep"
    style = {"spaceDelimited": "|space", "pipeDelimited": "|pipe"}.get(as_text(encoding.get("style")), "|csv")
    return style if encoding.get("explode") is False else ""


def _chosen(content: dict[str, Any]) -> tuple[str, str | None]:
    """The media type to send, and how its body is encoded."""
    plain = {str(mime).partition(";")[0].strip().lower(): str(mime) for mime in content}
    for mime, written in plain.items():
        if mime in ("application/json", "*/*", "application/*"):
            return written, "json"
    for mime, written in plain.items():
        if mime.endswith("+json") or "json" in mime:
            return written, "json"
    if "application/x-www-form-urlencoded" in plain:
        return plain["application/x-www-form-urlencoded"], "form"
    if "multipart/form-data" in plain:
        return plain["multipart/form-data"], "multipart"
    for mime, written in plain.items():
        if mime.startswith("text/") or mime.endswith(("/xml", "+xml", "/graphql", "/yaml")):
            return written, "text"
    whole = next((written for mime, written in plain.items() if not mime.startswith("multipart/")), None)
    return (whole, "binary") if whole is not None else (next(iter(content)), None)


class RequiredAuth(NamedTuple):
    """The auth of a request: one scheme, and keys in headers and query."""

    auth: dict[str, Any] | None
    headers: dict[str, str]
    query: dict[str, str]


_NOTHING = RequiredAuth(None, {}, {})


class SecuritySchemes:
    """The security schemes of one document. `secrets` are those used so far, by name."""

    def __init__(self, api: OpenApiDocument, prefix: str) -> None:
        self._api = api
        self._prefix = prefix
        self._auths: dict[str, dict[str, Any] | None] = {}
        self._named: dict[tuple[str, ...], str] = {}
        self._unique = UniqueNames(mark="_", longest=120)
        self.secrets: dict[str, str] = {}

    def of(self, operation: dict[str, Any], place: str) -> RequiredAuth:
        """The auth of an operation: its own security, else that of the document."""
        listed = operation.get("security", self._api.root.get("security"))
        ways = [as_dict(way) for way in as_list(listed)]
        if not ways:
            return _NOTHING
        if any(not way for way in ways):
            self._api.notes.add(f"{place}: auth is optional, and is left out")
            return _NOTHING
        for way in ways:
            auths = [self._auth(name, [str(scope) for scope in as_list(scopes)]) for name, scopes in way.items()]
            if all(auth is not None for auth in auths):
                return self._together([auth for auth in auths if auth is not None], place)
        self._api.notes.add(f"{place}: none of its kinds of auth can be imported: {', '.join(map(str, ways[0]))}")
        return _NOTHING

    def _together(self, auths: list[dict[str, Any]], place: str) -> RequiredAuth:
        """Combine schemes that are required together. Only API keys can be combined with another scheme."""
        keys = [auth for auth in auths if auth["type"] == "apiKey"]
        others = [auth for auth in auths if auth["type"] != "apiKey"]
        if len(others) > 1:
            self._api.notes.add(f"{place}: of several kinds of auth at once only the first is imported")
        first = others[0] if others else keys.pop(0)
        headers = {key["name"]: key["value"] for key in keys if key["in"] == "header"}
        query = {literal(key["name"]): key["value"] for key in keys if key["in"] == "query"}
        return RequiredAuth(first, headers, query)

    def _auth(self, name: str, scopes: list[str]) -> dict[str, Any] | None:
        key = "\0".join((name, *scopes))
        if key not in self._auths:
            scheme = self._api.follow(as_dict(self._api.part("components").get("securitySchemes")).get(name))
            self._auths[key] = self._made(name, scheme, scopes)
        return self._auths[key]

    def _made(self, name: str, scheme: dict[str, Any], scopes: list[str]) -> dict[str, Any] | None:
        kind, about = as_text(scheme.get("type")), as_text(scheme.get("description"))
        if kind == "http":
            return self._http(name, as_text(scheme.get("scheme")).lower(), about)
        if kind == "apiKey":
            return self._key(name, scheme, about)
        if kind in ("oauth2", "openIdConnect"):
            return self._oauth2(name, scheme, scopes, about)
        self._api.notes.add(f"the security scheme '{name}' is {f'of type {kind!r}' if kind else 'not there'}")
        return None

    def _http(self, name: str, scheme: str, about: str) -> dict[str, Any] | None:
        if scheme == "bearer":
            return {"type": "bearer", "value": self._secret(about or "A bearer token.", name)}
        if scheme == "basic":
            user = self._secret(about or "The user name.", name, "USERNAME")
            return {"type": "basic", "username": user, "password": self._secret("The password.", name, "PASSWORD")}
        self._api.notes.add(f"the security scheme '{name}' uses HTTP {scheme!r}, which is not imported")
        return None

    def _key(self, name: str, scheme: dict[str, Any], about: str) -> dict[str, Any] | None:
        place, label = scheme.get("in"), as_text(scheme.get("name"))
        if place not in ("header", "query") or not label:
            self._api.notes.add(f"the security scheme '{name}' has its key in a {place}, which is not imported")
            return None
        if place == "header" and label.lower() == "authorization":
            words = about or "The whole value of the header Authorization, such as 'Bearer ...' or 'Token ...'."
            return {"type": "apiKey", "in": "header", "name": label, "value": self._secret(words, name)}
        return {"type": "apiKey", "in": place, "name": label, "value": self._secret(about or "An API key.", name)}

    def _oauth2(self, name: str, scheme: dict[str, Any], scopes: list[str], about: str) -> dict[str, Any]:
        flow = as_dict(as_dict(scheme.get("flows")).get("clientCredentials"))
        url = as_text(flow.get("tokenUrl"))
        if url.startswith(("http://", "https://")) and "{" not in url:
            auth = {
                "type": "oauth2",
                "tokenUrl": url,
                "clientId": self._secret(about or "The client's id.", name, "CLIENT_ID"),
                "clientSecret": self._secret("The client's secret.", name, "CLIENT_SECRET"),
            }
            return {**auth, "scope": literal(" ".join(scopes))} if scopes else auth
        self._api.notes.add(
            f"the security scheme '{name}' needs a person to log in: put an access token into its secret"
        )
        return {"type": "bearer", "value": self._secret(about or "An access token.", name, "TOKEN")}

    def _secret(self, about: str, *names: str) -> str:
        if names not in self._named:
            self._named[names] = self._unique.take(secret(self._prefix, *names))
            self.secrets[self._named[names]] = " ".join(about.split())[:300]
        return f"${{{self._named[names]}}}"


def to_openapi(root: Mapping[str, Any], notes: ImportNotes, base_url: str | None) -> dict[str, Any]:
    """Convert a Swagger document to OpenAPI 3.0. A missing scheme is taken from `base_url`, the document's own address.

    Schemas stay under `#/definitions/`; parameters and responses are written out, since OpenAPI 3 has bodies, forms and
    media types elsewhere.
    """
    return _Converter(root, notes).document(base_url)


class _Converter:
    def __init__(self, root: Mapping[str, Any], notes: ImportNotes) -> None:
        self._root = root
        self._notes = notes
        self._api = OpenApiDocument(root, notes)

    def document(self, base_url: str | None) -> dict[str, Any]:
        schemes = {name: _security(as_dict(node)) for name, node in self._api.part("securityDefinitions").items()}
        return {
            **self._root,
            "openapi": "3.0.3",
            "servers": [{"url": self._server(as_list(self._root.get("schemes")), base_url)}],
            "components": {"securitySchemes": schemes},
            "paths": {path: self._item(self._api.follow(node)) for path, node in self._api.part("paths").items()},
        }

    def _server(self, schemes: list[Any], base_url: str | None) -> str:
        host = as_text(self._root.get("host"))
        path = "/" + as_text(self._root.get("basePath")).strip("/")
        if not host:
            return path
        usable = [scheme for scheme in schemes if scheme in ("https", "http")]
        came_by = urlsplit(base_url).scheme if base_url is not None else ""
        scheme = "https" if "https" in usable or not usable else "http"
        if not usable and came_by in ("https", "http"):
            scheme = came_by
        return f"{scheme}://{host}{path}"

    def _item(self, item: dict[str, Any]) -> dict[str, Any]:
        shared = as_list(item.get("parameters"))
        return {
            method: self._operation(self._api.follow(item[method]), shared) for method in _METHODS if method in item
        }

    def _operation(self, operation: dict[str, Any], shared: list[Any]) -> dict[str, Any]:
        parameters: dict[tuple[str, str], dict[str, Any]] = {}
        for node in (*shared, *as_list(operation.get("parameters"))):
            parameter = self._api.follow(node)
            where = as_text(parameter.get("in"))
            parameters[where, "" if where == "body" else as_text(parameter.get("name"))] = parameter
        listed = list(parameters.values())
        out = {key: value for key, value in operation.items() if key not in ("parameters", "responses", "schemes")}
        out["parameters"] = [self._parameter(one) for one in listed if one.get("in") not in ("body", "formData")]
        body = next((one for one in listed if one.get("in") == "body"), None)
        fields = [one for one in listed if one.get("in") == "formData"]
        if body is not None:
            out["requestBody"] = self._body(body, self._mimes(operation, "consumes"))
        elif fields:
            out["requestBody"] = self._form(fields, self._mimes(operation, "consumes"))
        produced = self._mimes(operation, "produces")
        answers = as_dict(operation.get("responses"))
        out["responses"] = {code: self._response(self._api.follow(node), produced) for code, node in answers.items()}
        return out

    def _mimes(self, operation: dict[str, Any], key: str) -> list[str]:
        """The media types of an operation, else those of the document."""
        listed = operation.get(key, self._root.get(key))
        return [mime for mime in as_list(listed) if isinstance(mime, str)]

    def _parameter(self, parameter: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {k: parameter[k] for k in ("name", "in", "description", "required") if k in parameter}
        out["schema"] = _schema(parameter)
        if parameter.get("type") == "array" and parameter.get("in") == "query":
            out |= self._style(parameter)
        return out

    def _style(self, parameter: dict[str, Any]) -> dict[str, Any]:
        kind = str(parameter.get("collectionFormat", "csv"))
        if kind not in _STYLES:
            self._notes.add(f"'{as_text(parameter.get('name'))[:40]}': a list as {kind[:20]} is written as csv")
        return _STYLES.get(kind, _STYLES["csv"])

    def _body(self, parameter: dict[str, Any], consumed: list[str]) -> dict[str, Any]:
        media = {"schema": parameter.get("schema", {})}
        return {
            "description": as_text(parameter.get("description")),
            "required": parameter.get("required") is True,
            "content": dict.fromkeys(consumed or [_JSON], media),
        }

    def _form(self, fields: list[dict[str, Any]], consumed: list[str]) -> dict[str, Any]:
        has_file = any(field.get("type") == "file" for field in fields)
        plain = {mime.partition(";")[0].strip().lower() for mime in consumed}
        mime = _MULTIPART if has_file or (_MULTIPART in plain and _FORM not in plain) else _FORM
        names = [as_text(field.get("name")) for field in fields]
        schema = {
            "type": "object",
            "properties": {
                name: {**_schema(field), "description": as_text(field.get("description"))}
                for name, field in zip(names, fields, strict=True)
            },
            "required": [name for name, field in zip(names, fields, strict=True) if field.get("required") is True],
        }
        styles = {n: self._style(f) for n, f in zip(names, fields, strict=True) if f.get("type") == "array"}
        return {"required": True, "content": {mime: {"schema": schema, "encoding": styles}}}

    def _response(self, response: dict[str, Any], produced: list[str]) -> dict[str, Any]:
        out: dict[str, Any] = {key: response[key] for key in ("description", "headers") if key in response}
        schema = as_dict(response.get("schema"))
        if not schema:
            return out
        if schema.get("type") == "file":
            return {**out, "content": {"application/octet-stream": {"schema": _BINARY}}}
        is_json = [mime for mime in produced if "json" in mime.lower()] if produced else [_JSON]
        return {**out, "content": {mime: {"schema": schema} for mime in is_json[:1] or produced}}


def _schema(parameter: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that is not a body."""
    if parameter.get("type") == "file":
        return dict(_BINARY)
    return {key: value for key, value in parameter.items() if key in _OF_SCHEMA}


def _security(scheme: dict[str, Any]) -> dict[str, Any]:
    kind = scheme.get("type")
    if kind == "basic":
        return {**scheme, "type": "http", "scheme": "basic"}
    if kind == "oauth2":
        flow = as_text(scheme.get("flow"))
        details = {key: scheme[key] for key in ("authorizationUrl", "tokenUrl", "scopes") if key in scheme}
        return {**scheme, "flows": {_FLOWS.get(flow, flow): details}}
    return scheme


# --- schemas --------------------------------------------------------------------------------------


class _Translation:
    """A translated schema, and its references to others."""

    def __init__(self, schema: Any, refs: Collection[str]) -> None:
        self.schema = schema
        self.refs = sorted(refs)

    @once
    def size(self) -> int:
        """The length of the schema as JSON text."""
        return len(text_of(self.schema))


class SchemaTranslator:
    """Translates the schemas of one document to JSON Schema."""

    def __init__(self, api: OpenApiDocument) -> None:
        self._api = api
        self._notes: ImportNotes = api.notes
        self._is_old = str(api.root.get("openapi", "")).startswith("3.0")
        self._names: dict[str, str] = {}
        self._unique = UniqueNames(mark="_", longest=sys.maxsize)
        self._components: dict[tuple[str, Direction], _Translation] = {}
        self._seen: dict[tuple[int, Direction], _Translation] = {}
        self._patterns: dict[str, bool] = {}

    def translated(self, schema: Any, direction: Direction) -> tuple[Any, list[str]]:
        """Translate a schema; returns it with its references, which `reachable` resolves."""
        # The document outlives this object, so that an id means one schema.
        key = (id(schema), direction)
        if key not in self._seen:
            refs: set[str] = set()
            self._seen[key] = _Translation(self._translate(schema, direction, refs, 0), refs)
        return self._seen[key].schema, self._seen[key].refs

    def reachable(self, refs: Iterable[str], direction: Direction) -> dict[str, _Translation]:
        """The `$defs` of these references and of the references inside of them, by name."""
        components: dict[str, _Translation] = {}
        waiting = list(refs)
        while waiting:
            ref = waiting.pop()
            if ref not in components:
                components[ref] = self._component(ref, direction)
                waiting += components[ref].refs
        return {self._name(ref): components[ref] for ref in sorted(components)}

    def shape(self, schema: Any) -> dict[str, Any]:
        """The schema behind its references, to look at its type and properties."""
        return self._api.follow(schema)

    def _component(self, ref: str, direction: Direction) -> _Translation:
        key = (ref, direction)
        if key not in self._components:
            refs: set[str] = set()
            self._components[key] = _Translation(self._translate(self._api.at(ref), direction, refs, 0), refs)
        return self._components[key]

    def _name(self, ref: str) -> str:
        if ref not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", ref.rpartition("/")[2]) or "part"
            self._names[ref] = self._unique.take(plain)
        return self._names[ref]

    def _translate(self, node: Any, direction: Direction, refs: set[str], depth: int) -> Any:
        if isinstance(node, bool):
            return node
        if not isinstance(node, (dict, Mapping)) or depth > _MAX_DEPTH:
            if depth > _MAX_DEPTH:
                self._notes.add("a schema is nested too deep, and its inside is left out")
            return {}
        ref = node.get("$ref")
        if isinstance(ref, str):
            return self._reference(node, ref, refs)
        out = self._plain(node)

        def inner(sub: Any) -> Any:
            return self._translate(sub, direction, refs, depth + 1)

        self._nested(node, out, inner, direction)
        if self._is_old and (node.get("nullable") is True or node.get("x-nullable") is True):
            return _nullable(out)
        return out

    def _reference(self, node: Mapping[str, Any], ref: str, refs: set[str]) -> dict[str, Any]:
        if not ref.startswith("#/"):
            if ref == "#":
                self._notes.add("a schema refers to the whole document, and takes anything there")
            else:
                self._api.at(ref)  # notes that it is not fetched
            return {}
        if self._api.at(ref) is None:
            return {}
        refs.add(ref)
        out: dict[str, Any] = {"$ref": f"#/$defs/{self._name(ref)}"}
        if not self._is_old and isinstance(node.get("description"), str):
            out["description"] = node["description"][:_MAX_DESCRIPTION]
        return out

    def _plain(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords that hold no other schema."""
        out: dict[str, Any] = {}
        if (kind := _type(node.get("type"))) is not None:
            out["type"] = kind
        elif node.get("type") is not None:
            self._notes.add(f"the type {values.safe_repr(node['type'], 60)} does not exist, and is left out")
        if options := as_list(node.get("enum")):
            out["enum"] = list({json.dumps(option, sort_keys=True, default=str): option for option in options}.values())
        for key in _WORDS:
            if isinstance(node.get(key), str):
                out[key] = node[key][:_MAX_DESCRIPTION]
        if not node.keys().isdisjoint(_RARE):
            out |= {key: node[key] for key in _PLAIN if key in node and values.is_json(node[key])}
            out |= {key: node[key] for key in _COUNTS if _is_count(node.get(key))}
            out |= _numbers(node)
            for key in _UNTAKEN:
                if key in node:
                    self._notes.add(f"'{key}' in a schema is left out")
        if names := [name for name in as_list(node.get("required")) if isinstance(name, str)]:
            out["required"] = list(dict.fromkeys(names))
        pattern = node.get("pattern")
        if isinstance(pattern, str) and self._is_pattern(pattern):
            out["pattern"] = pattern
        return out | _example(node)

    def _nested(
        self, node: Mapping[str, Any], out: dict[str, Any], inner: Callable[[Any], Any], direction: Direction
    ) -> None:
        if node.keys().isdisjoint(_INNER):
            return
        for key in _ONE:
            if key in node and isinstance(node[key], (Mapping, bool)):
                out[key] = inner(node[key])
        for key in _MANY:
            if parts := as_list(node.get(key)):
                out[key] = [inner(part) for part in parts]
        for key in _NAMED:
            named = as_dict(node.get(key))
            if key == "patternProperties":
                named = {pattern: sub for pattern, sub in named.items() if self._is_pattern(pattern)}
            if named:
                out[key] = {str(name): inner(sub) for name, sub in named.items()}
        if "properties" in out:
            hidden = "readOnly" if direction == "request" else "writeOnly"
            gone = {str(name) for name, sub in as_dict(node["properties"]).items() if as_dict(sub).get(hidden) is True}
            if gone:
                out["properties"] = {name: sub for name, sub in out["properties"].items() if name not in gone}
                out["required"] = [name for name in out.get("required", ()) if name not in gone]
                if not out["required"]:
                    del out["required"]

    def _is_pattern(self, pattern: str) -> bool:
        if pattern not in self._patterns:
            try:
                if len(pattern) > _MAX_PATTERN:
                    raise InvalidTool("It is too long.")
                compile_schema({"pattern": pattern})
                self._patterns[pattern] = True
            except InvalidTool:
                self._patterns[pattern] = False
                self._notes.add(f"the pattern '{pattern[:_MAX_OWN_TEXT]}' is not a regular expression, and is left out")
        return self._patterns[pattern]


def _example(node: Mapping[str, Any]) -> dict[str, Any]:
    example = node.get("example", next(iter(as_list(node.get("examples"))), None))
    if (
        example is None
        or "$ref" in as_dict(example)
        or not values.is_json(example)
        or len(json.dumps(example)) > _MAX_EXAMPLE
    ):
        return {}
    return {"examples": [example]}


def _type(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind if kind in _TYPES else None
    kinds = [one for one in as_list(kind) if isinstance(one, str) and one in _TYPES]
    return list(dict.fromkeys(kinds)) or None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def text_of(schema: Any) -> bytes:
    """A schema as JSON text."""
    import orjson

    try:
        return orjson.dumps(schema)
    except TypeError:  # a number of more than 64 bits, half a character, more levels than orjson goes
        return json.dumps(schema).encode()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and values.is_json(value)


def _numbers(node: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of numbers; in 3.0 `exclusiveMinimum: true` changes the meaning of `minimum`."""
    out = {key: node[key] for key in _NUMBERS if _is_number(node.get(key))}
    if out.get("multipleOf", 1) <= 0:
        del out["multipleOf"]
    for plain, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.get(strict) is True and plain in out:
            out[strict] = out.pop(plain)
    return out


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
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
    words: dict[str, Any] = {key: schema.pop(key) for key in ("title", "description") if key in schema}
    return {**words, "anyOf": [schema, {"type": "null"}]}
