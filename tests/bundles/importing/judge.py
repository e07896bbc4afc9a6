"""Judges a request by an OpenAPI document: path, method, parameters, body. Shares no code with the
importer.

What it wants is read from the document again, by plain look-ups, and judged by jsonschema-rs with
the document itself as the root of every reference.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema_rs

from tests.harness.stub import Asked

__all__ = ["Judge"]

_ANY: dict[str, Any] = {}


@dataclass
class Judge:
    """Finds what is wrong with a request."""

    document: dict[str, Any]

    def __post_init__(self) -> None:
        self._validators: dict[int, Any] = {}
        self._is_old = self.document["openapi"].startswith("3.0")
        prefixes = {
            urlsplit(server["url"]).path.rstrip("/") for server in self.document.get("servers", [])
        } or {""}
        self._prefixes = sorted(prefixes, key=len, reverse=True)
        self._paths = [
            (
                re.compile(re.sub(r"\\\{[^{}]*?\\\}", "([^/]+)", re.escape(path))),
                re.findall(r"\{([^{}]*)\}", path),
                item,
            )
            for path, item in sorted(
                self.document["paths"].items(), key=lambda pair: pair[0].count("{")
            )
        ]

    def faults(self, asked: Asked) -> list[str]:
        """What is wrong, in words; empty for a good request."""
        found = self._operation(asked)
        if found is None:
            return [f"no operation for {asked.method} {asked.path}"]
        operation, item, in_path = found
        listed = [
            self._at(node)
            for node in (*item.get("parameters", []), *operation.get("parameters", []))
        ]
        return [
            *self._parameter_faults(asked, listed, in_path),
            *self._body_faults(asked, operation),
        ]

    def _operation(
        self, asked: Asked
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]] | None:
        for prefix in self._prefixes:
            if not asked.path.startswith(prefix):
                continue
            for pattern, names, item in self._paths:
                match = pattern.fullmatch(asked.path[len(prefix) :])
                if match is not None and asked.method.lower() in item:
                    values = dict(zip(names, map(unquote, match.groups()), strict=True))
                    return item[asked.method.lower()], item, values
        return None

    def _parameter_faults(
        self, asked: Asked, listed: list[dict[str, Any]], in_path: dict[str, str]
    ) -> list[str]:
        faults: list[str] = []
        query: dict[str, list[str]] = {}
        for name, value in asked.query:
            query.setdefault(name, []).append(value)
        known: set[str] = set()
        for parameter in listed:
            where, name, schema = parameter["in"], parameter["name"], parameter.get("schema", _ANY)
            if where == "header" and name.lower() in ("accept", "content-type", "authorization"):
                continue  # the standard says that such parameters are to be ignored
            if where == "query":
                names = [n for n in query if n == name or n.startswith(f"{name}[")]
                known.update(names)
                values = [value for n in names for value in query[n]]
            else:
                held = in_path.get(name) if where == "path" else asked.headers.get(name.lower())
                values = [] if held is None else [held]
            if parameter.get("required") and not values and where != "cookie":
                faults.append(f"{where} parameter '{name}' is missing")
            if values and not any(n.startswith(f"{name}[") for n in query):
                faults += self._value_faults(
                    f"{where} parameter '{name}'", values, schema, parameter
                )
        faults += [
            f"query parameter '{name}' is not in the document" for name in query.keys() - known
        ]
        return faults

    def _value_faults(
        self, what: str, values: list[str], schema: Any, parameter: dict[str, Any]
    ) -> list[str]:
        shape = self._at(schema)
        if shape.get("type") == "array":
            explode = parameter.get(
                "explode", parameter.get("style", "form") == "form" and parameter["in"] == "query"
            )
            items = values if explode else [part for value in values for part in value.split(",")]
            return self._schema_faults(
                what, [self._read(item, shape.get("items", _ANY)) for item in items], schema
            )
        if len(values) > 1:
            return [f"{what} comes {len(values)} times"]
        return self._schema_faults(what, self._read(values[0], schema), schema)

    def _read(self, text: str, schema: Any) -> Any:
        """The value that a text stands for: whatever of its readings fits the schema."""
        for read in (str, json.loads):
            try:
                value = read(text)
            except ValueError:
                continue
            if not self._schema_faults("", value, schema):
                return value
        return text

    def _body_faults(self, asked: Asked, operation: dict[str, Any]) -> list[str]:
        body = self._at(operation.get("requestBody", {}))
        if not asked.body:
            return ["the body is missing"] if body.get("required") else []
        mime = asked.headers.get("content-type", "").split(";")[0]
        if mime not in body.get("content", {}):
            return [f"a body of '{mime}' is not in the document"]
        schema = body["content"][mime].get("schema", _ANY)
        return (
            self._schema_faults("the body", json.loads(asked.body), schema)
            if mime.endswith("json")
            else []
        )

    def _schema_faults(self, what: str, value: Any, schema: Any) -> list[str]:
        return [
            f"{what}: {error.message[:200]}" for error in self._validator(schema).iter_errors(value)
        ]

    def _validator(self, schema: Any) -> Any:
        if id(schema) not in self._validators:
            needed: dict[str, Any] = {}
            top = self._gathered(schema, needed)
            kind = (
                jsonschema_rs.Draft4Validator
                if self._is_old
                else jsonschema_rs.Draft202012Validator
            )
            self._validators[id(schema)] = kind({"allOf": [top], "$defs": needed}, offline=True)
        return self._validators[id(schema)]

    def _gathered(self, node: Any, needed: dict[str, Any]) -> Any:
        """The schema with what it refers to gathered in `needed`; what is read-only need not be
        sent."""
        if isinstance(node, list):
            return [self._gathered(item, needed) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$ref"), str):
            key = node["$ref"].replace("/", ".").replace("#", "")
            if key not in needed:
                needed[key] = True
                needed[key] = self._gathered(self._at({"$ref": node["$ref"]}), needed)
            return {"$ref": f"#/$defs/{key}"}
        out = {
            key: self._gathered(value, needed)
            for key, value in node.items()
            if key not in ("example", "examples")
        }
        if isinstance(out.get("required"), list) and isinstance(out.get("properties"), dict):
            kept = [
                n
                for n in out["required"]
                if not self._at(node["properties"].get(n, {})).get("readOnly")
            ]
            out = (
                {**out, "required": kept}
                if kept
                else {k: v for k, v in out.items() if k != "required"}
            )
        if out.get("nullable") is True and isinstance(out.get("type"), str):
            out = {**out, "type": [out["type"], "null"]}
        return out

    def _at(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            found: Any = self.document
            for part in node["$ref"][2:].split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            node = found
        return node
