"""An OpenAPI 3 or Swagger 2.0 document -> the draft of a bundle and its tools. Pure; what is not imported is noted.

`operation` makes the request of an operation, `security` its auth, `schemas` its schemas; Swagger is converted by
`swagger` first. The draft has names of secrets, never values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from onetool_ipy.base.errors import InvalidRequest, InvalidTool
from onetool_ipy.base.garbage import set_aside
from onetool_ipy.base.printable import printable
from onetool_ipy.base.records import Value
from onetool_ipy.bundles.http.template import placeholders_in
from onetool_ipy.bundles.importing.document import (
    ImportNotes,
    OpenApiDocument,
    as_dict,
    as_list,
    as_text,
    parse_document,
)
from onetool_ipy.bundles.importing.labels import UniqueNames, common_prefix, slug, version
from onetool_ipy.bundles.importing.operation import Operation
from onetool_ipy.bundles.importing.schemas import SchemaTranslator, text_of
from onetool_ipy.bundles.importing.security import RequiredAuth, SecuritySchemes
from onetool_ipy.bundles.importing.swagger import to_openapi
from onetool_ipy.net.hosts import pattern_of
from onetool_ipy.schema.check import compile_schema

__all__ = ["BundleDraft", "import_openapi"]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_MAX_TOOLS = 20_000
_MAX_OUTPUT = 16_000
"""A longer outputSchema is left out: it would be most of the record, and break at the next change of the API."""

_VARIABLE = re.compile(r"\{([^{}]*)\}")


class BundleDraft(Value):
    """The result of an import: a bundle, its tools, the secrets and hosts they need, and what was not imported."""

    bundle: dict[str, Any]
    tools: list[dict[str, Any]]
    secrets: list[dict[str, str]]
    hosts: list[str]
    notes: list[str]


def import_openapi(
    source: bytes | str | Mapping[str, Any],
    *,
    slug: str | None = None,
    base_url: str | None = None,
    secrets: Collection[str] = (),
) -> BundleDraft:
    """Import a document; raises InvalidRequest if it is not one, or has no usable server.

    `secrets` are the names of existing secrets: an argument of such a name is renamed.
    """
    with set_aside():
        return _import(source, slug, base_url, secrets)


def _import(
    source: bytes | str | Mapping[str, Any], given: str | None, base_url: str | None, known: Collection[str]
) -> BundleDraft:
    notes = ImportNotes()
    api = _read_document(source, notes, base_url)
    info = api.part("info")
    title = printable(as_text(info.get("title")))
    name = given or slug(title.lower(), "api")
    maker = _Maker(api, name, base_url, known)
    tools = list(maker.tools(version(str(info.get("version", "")))))
    if not tools:
        raise InvalidRequest("The document has no operation that can be a tool.", hint="; ".join(notes.list()[:3]))
    for section in ("webhooks",):
        if api.part(section):
            notes.add(f"'{section}' are calls that a server makes, and are left out")
    about = printable(as_text(info.get("description")) or as_text(info.get("summary")))
    bundle = {"slug": name, "displayName": (title or name)[:256], "description": about[:2000], "isEnabled": True}
    secrets = [{"name": key, "description": words} for key, words in sorted(maker.security.secrets.items())]
    return BundleDraft(bundle, tools, secrets, sorted(maker.hosts), notes.list())


class _Maker:
    """Makes tools of the operations of one document."""

    def __init__(self, api: OpenApiDocument, name: str, base_url: str | None, known: Collection[str]) -> None:
        self._api = api
        self._known = frozenset(known)
        self._schemas = SchemaTranslator(api)
        self._base_url = base_url
        self._slugs = UniqueNames()
        self._prefix = common_prefix([str(path) for path in api.part("paths")])
        self._sound: set[bytes] = set()
        self.security = SecuritySchemes(api, name)
        self.hosts: set[str] = set()

    def tools(self, version: str) -> Iterator[dict[str, Any]]:
        count = 0
        for path, node in self._api.part("paths").items():
            item = self._api.follow(node)
            count += len(item.keys() & set(_METHODS))
            if count > _MAX_TOOLS:
                raise InvalidRequest(
                    f"The document has more than {_MAX_TOOLS:,} operations.", hint="Import a part of it."
                )
            for method in _METHODS:
                operation = self._api.follow(item.get(method)) if method in item else {}
                if operation:
                    yield from self._tool(str(path), method, item, operation, version)
            if "trace" in item:
                self._api.notes.add(f"TRACE {path}: a trace cannot be a tool, and is left out")

    def _tool(
        self, path: str, method: str, item: dict[str, Any], operation: dict[str, Any], version: str
    ) -> Iterator[dict[str, Any]]:
        place = f"{method.upper()} {path}"
        server = self._server(operation, item, place)
        if server is None:
            return
        wanted = self.security.of(operation, place)
        reserved = self._known | {placeholder.name for placeholder in placeholders_in(_signs(wanted))}
        taken = Operation(self._api, self._schemas, method, path, reserved)
        taken.take(operation, as_list(item.get("parameters")))
        request = self._request(taken, server, method, operation, wanted)
        arguments = self._compiled(taken, place)
        tool: dict[str, Any] = {
            "slug": self._slugs.take(_slug(operation, method, path.removeprefix(self._prefix))),
            "version": version,
            **_words(operation, place),
            "type": "http",
            "argSchema": arguments,
            "http": {"request": request},
        }
        output = self._output(operation, place)
        if output is not None:
            tool |= {"outputSchema": output, "outputSchemaFrom": "document"}
        for part in ("callbacks",):
            if as_dict(operation.get(part)):
                self._api.notes.add(f"{place}: its {part} are left out")
        yield tool

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
        url = _filled(servers[0])
        if not url.lower().startswith(("http://", "https://")):
            if self._base_url is None:
                raise InvalidRequest(
                    f"{place}: the document has only a relative server URL ('{url[:80]}').",
                    hint="Give the server's URL, such as https://api.example.com.",
                )
            url = urljoin(self._base_url, url)
        host = _host_of(url)
        if host is None or any(sign in url for sign in "{}$@?#\\ "):
            self._api.notes.add(f"{place}: '{url[:80]}' cannot be used as a server; the tool is left out")
            return None
        self.hosts.add(host)
        return url.rstrip("/")


def _host_of(url: str) -> str | None:
    """The host of a server as a pattern of `http.allowed_hosts`, or None if it is not a URL."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    if not host or not url.isprintable() or parts.scheme.lower() not in ("http", "https"):
        return None
    return pattern_of(parts.scheme.lower(), host, port)


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


def _slug(operation: dict[str, Any], method: str, path: str) -> str:
    return slug(as_text(operation.get("operationId")), "") or slug(f"{method}-{unquote(path)}", method)


def _words(operation: dict[str, Any], place: str) -> dict[str, Any]:
    """Display name, description and tags of a tool."""
    summary, about = (printable(as_text(operation.get(key))) for key in ("summary", "description"))
    parts = [summary, about if about != summary else "", "Deprecated." if operation.get("deprecated") is True else ""]
    tags = [re.sub(r"[\x00-\x1f\x7f,]", " ", as_text(tag))[:64].strip() for tag in as_list(operation.get("tags"))]
    return {
        "displayName": (summary or printable(as_text(operation.get("operationId")) or place))[:256],
        "description": "\n\n".join(part for part in parts if part)[:4000] or printable(place),
        "tags": list(dict.fromkeys(tag for tag in tags if tag))[:64],
    }


def _read_document(
    source: bytes | str | Mapping[str, Any], notes: ImportNotes, base_url: str | None = None
) -> OpenApiDocument:
    """Read a document in JSON or YAML; raises InvalidRequest if it is neither OpenAPI 3 nor Swagger 2.0."""
    root = source if isinstance(source, Mapping) else parse_document(source, notes)
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
        raise InvalidRequest("This is not an OpenAPI 3 document: it has neither 'openapi: 3.x' nor 'swagger: 2.0'.")
    if not str(said).startswith(("3.0", "3.1")):
        notes.add(f"the document is of version {str(said)[:10]}, and is read as 3.1")
    return OpenApiDocument(root, notes)
