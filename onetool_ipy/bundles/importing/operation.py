"""One operation of an OpenAPI document -> arguments, path, query, headers and body of a request.

Parameters and the fields of a JSON or form body become arguments; a body that is not a plain object is the one argument
`body`. A server's defaults are described, not sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from onetool_ipy.bundles.http.definition import HEADER_NAME, OWN_HEADERS
from onetool_ipy.bundles.importing.document import OpenApiDocument, as_dict, as_list, as_text
from onetool_ipy.bundles.importing.labels import UniqueNames, argument, literal
from onetool_ipy.bundles.importing.schemas import SchemaTranslator

__all__ = ["Operation"]

_IN_PATH = re.compile(r"\{([^{}]*)\}")
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
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for node in (*shared, *as_list(operation.get("parameters"))):
            parameter = self._api.follow(node)
            found[as_text(parameter.get("in")), as_text(parameter.get("name"))] = parameter
        for (where, name), parameter in found.items():
            self._parameter(where, name, parameter)
        if "requestBody" in operation:
            self._request_body(self._api.follow(operation["requestBody"]))

    def schema(self) -> dict[str, Any]:
        """The schema of the arguments, self-contained."""
        out: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            out["required"] = self.required
        out["additionalProperties"] = False
        if definitions := self._schemas.definitions(frozenset(self._refs), "request"):
            out["$defs"] = definitions
        return out

    def target(self) -> str:
        """The path with its placeholders."""
        out, end = "", 0
        for match in _IN_PATH.finditer(self._path):
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
        self._refs |= refs
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
        wanted = as_list(shape.get("required")) if is_needed else []
        styles = as_dict(media.get("encoding"))
        self.body = {}
        for name, source in names.items():
            is_file = kind == "multipart" and _is_file(self._schemas.shape(source))
            argument = self._argument(name, _FILE if is_file else source, required=name in wanted)
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
        kept = {
            name: sub for name, sub in names.items() if as_dict(self._schemas.shape(sub)).get("readOnly") is not True
        }
        return shape, kept


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
