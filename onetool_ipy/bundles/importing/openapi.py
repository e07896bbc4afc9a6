"""An OpenAPI 3 or Swagger 2.0 document -> the draft of a bundle and its tools. Pure; what is not imported is noted.

`operation` makes the request of an operation, `security` its auth, `schemas` its schemas; Swagger is converted by
`swagger` first. The draft has names of secrets, never values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from onetool_ipy.base.errors import InvalidRequest, InvalidTool
from onetool_ipy.base.printable import printable
from onetool_ipy.bundles.http.template import placeholders_in
from onetool_ipy.bundles.importing.document import (
    ImportNotes,
    OpenApiDocument,
    as_dict,
    as_list,
    as_text,
)
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest, OfferedOperations, host_of
from onetool_ipy.bundles.importing.labels import common_prefix, slug, version
from onetool_ipy.bundles.importing.operation import Operation
from onetool_ipy.bundles.importing.schemas import SchemaTranslator, text_of
from onetool_ipy.bundles.importing.security import RequiredAuth, SecuritySchemes
from onetool_ipy.bundles.importing.swagger import to_openapi
from onetool_ipy.schema.check import compile_schema

__all__ = ["import_openapi"]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_MAX_WORDS = 7
_MAX_OUTPUT = 16_000
"""A longer outputSchema is left out: it would be most of the record, and break at the next change of the API."""

_VARIABLE = re.compile(r"\{([^{}]*)\}")


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
    return BundleDraft(kind, bundle, tools, secrets, sorted(maker.hosts), notes.list(), maker.offered.count)


class _Maker:
    """Makes tools of the operations of one document."""

    def __init__(self, api: OpenApiDocument, name: str, request: ImportRequest) -> None:
        self._api = api
        self._asked = request
        self._known = frozenset(request.secrets)
        self._schemas = SchemaTranslator(api)
        self._prefix = common_prefix([str(path) for path in api.part("paths")])
        self._sound: set[bytes] = set()
        self.offered = OfferedOperations(request.choice)
        self.security = SecuritySchemes(api, name)
        self.hosts: set[str] = set()

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
                    wanted = _name(operation, method, str(path), self._prefix)
                    name = self.offered.take(wanted, method.upper(), str(path), _tags(operation))
                    if name is not None:
                        yield str(path), method, item, operation, name
            if "trace" in item:
                self._api.notes.add(f"TRACE {path}: a trace cannot be a tool, and is left out")

    def _tool(self, path: str, method: str, item: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
        place = f"{method.upper()} {path}"
        server = self._server(operation, item, place)
        if server is None:
            return None
        wanted = self.security.of(operation, place)
        reserved = self._known | {placeholder.name for placeholder in placeholders_in(_signs(wanted))}
        taken = Operation(self._api, self._schemas, method, path, reserved)
        taken.take(operation, as_list(item.get("parameters")))
        request = self._request(taken, server, method, operation, wanted)
        arguments = self._compiled(taken, place)
        tool: dict[str, Any] = {
            **_words(operation, place),
            "type": "http",
            "argSchema": arguments,
            "http": {"request": request},
        }
        output = self._output(operation, place)
        if output is not None:
            tool |= {"outputSchema": output, "outputSchemaFrom": "document"}
        if as_dict(operation.get("callbacks")):
            self._api.notes.add(f"{place}: its callbacks are left out")
        return tool

    def _request(
        self, taken: Operation, server: str, method: str, operation: dict[str, Any], wanted: RequiredAuth
    ) -> dict[str, Any]:
        target = taken.target()
        named = {name.lower() for name in (*wanted.headers, *_header_of(wanted.auth))}
        request: dict[str, Any] = {"method": method.upper(), "urlTemplate": server + target}
        query = {**taken.query, **wanted.query}
        headers = {n: v for n, v in taken.headers.items() if n.lower() not in named} | wanted.headers
        if accept := self._json_mime(operation):
            headers["Accept"] = accept
        parts = {
            "query": query,
            "headers": headers,
            "body": taken.body,
            "bodyType": taken.body_type,
            "auth": wanted.auth,
        }
        if method == "head" and taken.body is not None:
            self._api.notes.add(f"{taken.place}: a HEAD request has no body, and its is left out")
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

    def _compiled(self, taken: Operation, place: str) -> dict[str, Any]:
        """The schema of the arguments; without any types if theirs cannot be compiled."""
        schema = taken.schema()
        try:
            self._require_sound(schema)
        except InvalidTool as exc:
            self._api.notes.add(f"{place}: the schemas of its arguments are not kept: {exc.message}")
            loose = {
                name: {"description": as_text(as_dict(sub).get("description"))}
                for name, sub in taken.properties.items()
            }
            schema = {"type": "object", "properties": loose, "required": taken.required, "additionalProperties": False}
        return schema

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
        if self._schemas.size(schema, refs, "response") > _MAX_OUTPUT:
            self._api.notes.add(f"{place}: its outputSchema is left out, since it is very large")
            return None
        whole = dict(schema) if isinstance(schema, dict) else {}
        if definitions := self._schemas.definitions(refs, "response"):
            whole["$defs"] = definitions
        try:
            self._require_sound(whole)
        except InvalidTool as exc:
            self._api.notes.add(f"{place}: its outputSchema is left out: {exc.message}")
            return None
        return whole or None

    def _require_sound(self, schema: dict[str, Any]) -> None:
        """Raise InvalidTool for an invalid JSON Schema. Equal schemas of several operations are compiled once."""
        text = text_of(schema)
        if text not in self._sound:
            compile_schema(schema)
            self._sound.add(text)

    def _server(self, operation: dict[str, Any], item: dict[str, Any], place: str) -> str | None:
        """The server URL: of the operation, the path or the document."""
        listed = next(
            (x for x in (operation.get("servers"), item.get("servers"), self._api.root.get("servers")) if x), None
        )
        servers = [as_dict(server) for server in as_list(listed)] or [{"url": "/"}]
        url = self._asked.url_of(_filled(servers[0]))
        host = host_of(url)
        if host is None or any(sign in url for sign in "{}$@?#\\ "):
            self._api.notes.add(f"{place}: '{url[:80]}' cannot be used as a server; the tool is left out")
            return None
        self.hosts.add(host)
        return url.rstrip("/")


def _filled(server: dict[str, Any]) -> str:
    variables = as_dict(server.get("variables"))

    def value(match: re.Match[str]) -> str:
        given = as_dict(variables.get(match[1]))
        return str(given.get("default", match[0]))

    return _VARIABLE.sub(value, as_text(server.get("url")))


def _signs(wanted: RequiredAuth) -> list[Any]:
    """Every text of the auth of a request."""
    return [list(part.values()) for part in (wanted.auth or {}, wanted.headers, wanted.query)]


def _header_of(auth: dict[str, Any] | None) -> list[str]:
    """The header that the auth sets."""
    return [auth["name"]] if auth is not None and auth.get("in") == "header" else []


def _name(operation: dict[str, Any], method: str, path: str, prefix: str) -> str:
    """The name that an operation has by itself: its operationId, its summary, or its method and path."""
    said = as_text(operation.get("operationId"))
    said = said.removesuffix(re.sub(r"\W", "_", path) + f"_{method}") or said  # FastAPI adds path and method
    summary = as_text(operation.get("summary"))
    words = summary if len(summary.split()) <= _MAX_WORDS else ""
    return slug(said, "") or slug(words.lower(), "") or slug(f"{method}-{unquote(path.removeprefix(prefix))}", method)


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
    said = root.get("openapi")
    swagger = root.get("swagger", root.get("swaggerVersion"))
    if swagger is not None and said is None:
        if str(swagger) not in ("2.0", "2"):
            raise InvalidRequest(
                f"This is Swagger {str(swagger)[:10]}; Swagger 2.0 and OpenAPI 3.0 and 3.1 can be imported.",
                hint="Convert it first, for example with swagger2openapi.",
            )
        return OpenApiDocument(to_openapi(root, notes, base_url), notes)
    if not isinstance(said, (str, float)) or not str(said).startswith("3."):
        raise InvalidRequest(
            "This is not an OpenAPI 3 document, a Swagger 2.0 document, a Postman collection or a HAR file."
        )
    if not str(said).startswith(("3.0", "3.1")):
        notes.add(f"the document is of version {str(said)[:10]}, and is read as 3.1")
    return OpenApiDocument(root, notes)
