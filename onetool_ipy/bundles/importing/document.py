"""An OpenAPI document as plain values, with its local references followed; Swagger 2.0 is converted to OpenAPI 3.0.

Nothing outside of the document is fetched. `ImportNotes` collects everything that is not imported. A converted document
keeps its schemas under `#/definitions/`; parameters and responses are written out, since OpenAPI 3 has bodies, forms
and media types elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.printable import printable
from onetool_ipy.schema.read import at_ref

__all__ = [
    "MAX_BYTES",
    "ImportNotes",
    "OpenApiDocument",
    "as_dict",
    "as_list",
    "as_text",
    "read_document",
    "to_openapi",
]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
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
_FILE = {"type": "string", "format": "binary"}


def to_openapi(root: Mapping[str, Any], notes: ImportNotes, base_url: str | None) -> dict[str, Any]:
    """Convert a Swagger document to OpenAPI 3.0. A missing scheme is taken from `base_url`, where the document came
    from.
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
        known = [scheme for scheme in schemes if scheme in ("https", "http")]
        came_by = urlsplit(base_url).scheme if base_url is not None else ""
        scheme = "https" if "https" in known or not known else "http"
        if not known and came_by in ("https", "http"):
            scheme = came_by
        return f"{scheme}://{host}{path}"

    def _item(self, item: dict[str, Any]) -> dict[str, Any]:
        shared = as_list(item.get("parameters"))
        return {
            method: self._operation(self._api.follow(item[method]), shared) for method in _METHODS if method in item
        }

    def _operation(self, operation: dict[str, Any], shared: list[Any]) -> dict[str, Any]:
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for node in (*shared, *as_list(operation.get("parameters"))):
            parameter = self._api.follow(node)
            where = as_text(parameter.get("in"))
            found[where, "" if where == "body" else as_text(parameter.get("name"))] = parameter
        listed = list(found.values())
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
            return {**out, "content": {"application/octet-stream": {"schema": _FILE}}}
        is_json = [mime for mime in produced if "json" in mime.lower()] if produced else [_JSON]
        return {**out, "content": {mime: {"schema": schema} for mime in is_json[:1] or produced}}


def _schema(parameter: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that is not a body."""
    if parameter.get("type") == "file":
        return dict(_FILE)
    return {key: value for key, value in parameter.items() if key in _OF_SCHEMA}


def _security(scheme: dict[str, Any]) -> dict[str, Any]:
    kind = scheme.get("type")
    if kind == "basic":
        return {**scheme, "type": "http", "scheme": "basic"}
    if kind == "oauth2":
        flow = as_text(scheme.get("flow"))
        kept = {key: scheme[key] for key in ("authorizationUrl", "tokenUrl", "scopes") if key in scheme}
        return {**scheme, "flows": {_FLOWS.get(flow, flow): kept}}
    return scheme


MAX_BYTES = 64 * 1024 * 1024
_MAX_NOTES = 500
_MAX_HOPS = 50


class ImportNotes:
    """What is not imported, each note once, in order. Very many notes end in a count."""

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


def read_document(
    source: bytes | str | Mapping[str, Any], notes: ImportNotes, base_url: str | None = None
) -> OpenApiDocument:
    """Read a document in JSON or YAML; raises InvalidRequest if it is neither OpenAPI 3 nor Swagger 2.0."""
    root = source if isinstance(source, Mapping) else _parsed(source, notes)
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


def as_dict(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else dict(value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value, stripped, if it is text, else an empty text."""
    return value.strip() if isinstance(value, str) else ""


def _parsed(source: bytes | str, notes: ImportNotes) -> Mapping[str, Any]:
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"The document has {len(data):,} bytes; at most {MAX_BYTES:,} are read.")
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    found = _json(data) if data[:1] == b"{" else None
    if found is None:
        found = _yaml(data, notes)
    if not isinstance(found, Mapping):
        raise InvalidRequest("The document is not an object.")
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


def _yaml(data: bytes, notes: ImportNotes) -> Any:
    from onetool_ipy.config import yaml_text
    from onetool_ipy.config.yaml_text import NotYaml

    try:
        found = yaml_text.parse(data)
    except NotYaml as exc:
        raise InvalidRequest(f"The document is neither JSON nor YAML: line {exc.fault.line}: {exc}") from None
    for fault in found.faults:
        notes.add(f"line {fault.line}: {fault.message}")
    return found.data
