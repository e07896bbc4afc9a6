"""Swagger 2.0 -> OpenAPI 3.0.

Schemas stay under `#/definitions/`; parameters and responses are written out, since OpenAPI 3 has bodies, forms and
media types elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from onetool_ipy.bundles.importing.document import ImportNotes, OpenApiDocument, as_dict, as_list, as_text

__all__ = ["to_openapi"]

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
