"""The OpenAPI 3.1 document of the REST API, made from the routes and the models of their bodies. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from onetool_ipy._version import __version__
from onetool_ipy.faces.rest.bodies import Json, Refusal
from onetool_ipy.faces.rest.request import QueryParam

if TYPE_CHECKING:
    from onetool_ipy.faces.rest.routes import Route

__all__ = ["openapi"]

_Refs = dict[Any, Json]
"""A reference to the schema of each model."""

_REF = "#/components/schemas/{model}"
_ALWAYS = {
    400: "The request is not valid.",
    403: "Not allowed: not signed in, outside of the root, switched off, read-only, or a host that is not allowed.",
    404: "No such thing, or no such project.",
    413: "The body has more than 1 MiB.",
}
_SOMETIMES = {
    409: "It conflicts with what is stored, or cannot be called here, or a secret is missing.",
    429: "Too many calls in this minute.",
    502: "The API behind the tool failed, or its response does not fit.",
    504: "The API behind the tool took too long.",
}
_LABEL = "Letters, digits and dashes; at most 64."
_PATH_PARAMETERS: dict[str, Json] = {
    "bundleID": {"description": "The bundle's UUIDv7.", "schema": {"type": "string", "format": "uuid"}},
    "toolSlug": {"description": _LABEL, "schema": {"type": "string", "minLength": 1, "maxLength": 64}},
    "version": {
        "description": f"{_LABEL} Dots are allowed.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 64},
    },
}
_QUERY_SCHEMAS: dict[str, Json] = {
    "text": {"type": "string"},
    "list": {"type": "array", "items": {"type": "string"}},
    "switch": {"type": "boolean"},
    "number": {"type": "integer", "minimum": 1, "maximum": 256},
}


def openapi(routes: Iterable[Route], project: QueryParam) -> Json:
    """Write the document. Every route also takes the query parameter `project`."""
    listed = list(routes)
    models = [Refusal, *(model for route in listed for model in (route.body, *route.success.values()))]
    distinct = dict.fromkeys(m for m in models if isinstance(m, type) and issubclass(m, BaseModel))
    mapping, schemas = models_json_schema([(model, "validation") for model in distinct], ref_template=_REF)
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


def _operation(route: Route, project: QueryParam, refs: _Refs) -> Json:
    failures = _ALWAYS | {status: _SOMETIMES[status] for status in route.failures if status not in _ALWAYS}
    responses: Json = {
        str(status): {"description": "Done."} if model is None else _response("Success.", refs.get(model))
        for status, model in route.success.items()
    }
    responses |= {str(status): _response(text, refs[Refusal]) for status, text in sorted(failures.items())}
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
    return [{"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]} for name in names]


def _query_parameter(param: QueryParam) -> Json:
    found: Json = {"name": param.name, "in": "query", "description": param.about, "schema": _QUERY_SCHEMAS[param.kind]}
    return {**found, "required": True} if param.is_required else found


def _response(description: str, schema: Json | None) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema or {"type": "object"}}}}
