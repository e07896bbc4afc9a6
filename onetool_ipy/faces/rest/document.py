"""The OpenAPI 3.1 document of the REST API, made from the table of routes and the models of its bodies. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from onetool_ipy._version import __version__
from onetool_ipy.faces.rest.bodies import Refusal
from onetool_ipy.faces.rest.request import Param

if TYPE_CHECKING:
    from onetool_ipy.faces.rest.routes import Route

__all__ = ["openapi"]

Json = dict[str, Any]
_Refs = dict[Any, Json]
"""Where the document has the schema of each model."""

_REF = "#/components/schemas/{model}"
_ALWAYS = {
    400: "The request cannot be right.",
    403: "Not allowed: not signed in, outside of the root, switched off, read-only, or a host that is not allowed.",
    404: "No such thing, or no such project.",
    413: "The body has more than 1 MiB.",
}
_SOMETIMES = {
    409: "It conflicts with what is there, or cannot be called here, or a secret is missing.",
    429: "Too many calls in this minute.",
    502: "The API behind the tool failed, or its answer does not fit.",
    504: "The API behind the tool took too long.",
}
_LABEL = "Letters, digits and dashes; at most 64."
_PLACES: dict[str, Json] = {
    "bundleID": {"description": "The bundle's UUIDv7.", "schema": {"type": "string", "format": "uuid"}},
    "toolSlug": {"description": _LABEL, "schema": {"type": "string", "minLength": 1, "maxLength": 64}},
    "version": {
        "description": f"{_LABEL} Dots are allowed.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 64},
    },
}
_SCHEMAS: dict[str, Json] = {
    "text": {"type": "string"},
    "list": {"type": "array", "items": {"type": "string"}},
    "switch": {"type": "boolean"},
    "number": {"type": "integer", "minimum": 1, "maximum": 256},
}


def openapi(routes: Iterable[Route], project: Param) -> Json:
    """The document."""
    listed = list(routes)
    models = _models(listed)
    mapping, schemas = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    refs: _Refs = {model: ref for (model, _), ref in mapping.items()}
    paths: Json = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, project, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onetool_ipy",
            "version": __version__,
            "description": "Bundles and HTTP tools of a project, served by Jupyter Server with its own sign-in.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "token <token>"}
            },
        },
        "security": [{"token": []}],
    }


def _models(routes: Iterable[Route]) -> list[type[BaseModel]]:
    found = [Refusal, *(route.body for route in routes)]
    found += [model for route in routes for model in route.success.values()]
    return list(dict.fromkeys(model for model in found if isinstance(model, type) and issubclass(model, BaseModel)))


def _operation(route: Route, project: Param, refs: _Refs) -> Json:
    statuses = _ALWAYS | {
        status: _SOMETIMES.get(status, "Refused.") for status in route.failures if status not in _ALWAYS
    }
    responses: Json = {
        str(status): {"description": "Done." if model is None else "As asked.", **_content(_schema(model, refs))}
        for status, model in route.success.items()
    }
    responses |= {str(s): {"description": said, **_content(refs[Refusal])} for s, said in sorted(statuses.items())}
    found: Json = {
        "operationId": route.operation,
        "summary": route.about,
        "parameters": [*_path_parameters(route.path), *(_query_parameter(p) for p in (*route.query, project))],
        "responses": responses,
    }
    if route.body is not None:
        content = {"schema": refs[route.body], **({"example": route.example} if route.example is not None else {})}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    return found


def _path_parameters(path: str) -> list[Json]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, **_PLACES[name]} for name in names]


def _query_parameter(param: Param) -> Json:
    found: Json = {"name": param.name, "in": "query", "description": param.about, "schema": _SCHEMAS[param.kind]}
    return {**found, "required": True} if param.is_required else found


def _schema(model: Any, refs: _Refs) -> Json | None:
    return None if model is None else refs.get(model, {"type": "object"})


def _content(schema: Json | None) -> Json:
    return {} if schema is None else {"content": {"application/json": {"schema": schema}}}
