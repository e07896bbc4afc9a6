"""The bodies that only REST has. Those of bundles and tools are `bundles.model`'s; the description is made of both.

The OpenAPI 3.1 document of the REST API, made from the table of routes and the models of its bodies. Pure.

The one table of what the REST API has. Handlers and the OpenAPI document are made from it, and so are the tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from onetool_ipy._version import __version__
from onetool_ipy.bundles.model import Bundle, BundleBody, Switch, Tool, ToolBody
from onetool_ipy.faces.rest import operations as do
from onetool_ipy.faces.rest.bodies import (
    BundlePage,
    ImportBody,
    ImportedTools,
    InvokeBody,
    Invoked,
    Json,
    Refusal,
    TestBody,
    Tested,
    ToolPage,
    TrustBody,
    TrustState,
)
from onetool_ipy.faces.rest.request import QueryParam, RestRequest, RestResponse

__all__ = ["PREFIX", "PROJECT", "ROUTES", "Route", "by_path", "openapi"]


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


def openapi(routes: Iterable[Route], project: QueryParam) -> Json:
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


def _operation(route: Route, project: QueryParam, refs: _Refs) -> Json:
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


def _query_parameter(param: QueryParam) -> Json:
    found: Json = {"name": param.name, "in": "query", "description": param.about, "schema": _SCHEMAS[param.kind]}
    return {**found, "required": True} if param.is_required else found


def _schema(model: Any, refs: _Refs) -> Json | None:
    return None if model is None else refs.get(model, {"type": "object"})


def _content(schema: Json | None) -> Json:
    return {} if schema is None else {"content": {"application/json": {"schema": schema}}}


PREFIX = "/onetool"
PROJECT = QueryParam(
    "project", "text", "The project's folder, inside the folder that the server serves; by default that one."
)

Action = Literal["read", "write", "execute"]


class Route(NamedTuple):
    """One verb on one path. `success` are its good answers, `failures` what else it answers by its own rules."""

    verb: Literal["GET", "PUT", "PATCH", "DELETE", "POST"]
    path: str
    operation: str
    about: str
    run: Callable[[RestRequest], RestResponse] | Callable[[RestRequest], Awaitable[RestResponse]]
    success: dict[int, Any]
    query: tuple[QueryParam, ...] = ()
    body: Any = None
    action: Action = "write"
    failures: tuple[int, ...] = ()
    example: Any = None


def by_path() -> dict[str, dict[str, Route]]:
    """The routes of each path, by verb."""
    found: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        found.setdefault(route.path, {})[route.verb] = route
    return found


def _document(asked: RestRequest) -> RestResponse:  # noqa: ARG001 - the shape of every operation
    return RestResponse(200, openapi(ROUTES, PROJECT))


_BUNDLES = f"{PREFIX}/tools/bundles"
_BUNDLE = f"{_BUNDLES}/{{bundleID}}"
_TOOL = f"{_BUNDLE}/tools/{{toolSlug}}/version/{{version}}"

_DISABLED = QueryParam("includeDisabled", "switch", "Also what is switched off.")
_SIZE = QueryParam("pageSize", "number", "Rows of a page: 25 where none is given, at most 256.")
_TOKEN = QueryParam("pageToken", "text", "The nextPageToken of the page before.")
_IDS = QueryParam("bundleIDs", "list", "Only these bundles; separated by commas, or given several times.")
_TAGS = QueryParam("tags", "list", "Only tools with one of these tags; separated by commas, or given several times.")
_CHECK = QueryParam("checkSecrets", "switch", "Refuse a tool that sends a secret to a host that did not get it before.")
_CONFIRM = QueryParam("confirmSecrets", "list", "NAME=HOST for each secret that may go there; separated by commas.")
_RECOMMENDED = QueryParam("recommendedPageSize", "number", "As pageSize, which is taken too.")
_Q = QueryParam("q", "text", "What to look for; typos are forgiven.", is_required=True)

_HTTP_TOOL = {
    "displayName": "Get a user",
    "description": "One user by number.",
    "type": "http",
    "argSchema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    "http": {"request": {"method": "GET", "urlTemplate": "https://api.example.com/users/${id}"}},
}

ROUTES: tuple[Route, ...] = (
    Route(
        verb="GET",
        path=_BUNDLES,
        operation="listBundles",
        about="List the bundles.",
        run=do.list_bundles,
        success={200: BundlePage},
        query=(_IDS, _DISABLED, _SIZE, _TOKEN),
        action="read",
    ),
    Route(
        verb="PUT",
        path=_BUNDLE,
        operation="putBundle",
        about="Create a bundle, or replace one.",
        run=do.put_bundle,
        success={200: Bundle, 201: Bundle},
        body=BundleBody,
        failures=(409,),
        example={"slug": "users-api", "displayName": "Users", "description": "", "isEnabled": True},
    ),
    Route(
        verb="PATCH",
        path=_BUNDLE,
        operation="patchBundle",
        about="Switch a bundle on or off.",
        run=do.patch_bundle,
        success={200: Bundle},
        body=Switch,
        failures=(404, 409),
        example={"isEnabled": True},
    ),
    Route(
        verb="DELETE",
        path=_BUNDLE,
        operation="deleteBundle",
        about="Delete an empty bundle; it is forgotten after two days.",
        run=do.delete_bundle,
        success={204: None},
        failures=(404, 409),
    ),
    Route(
        verb="PUT",
        path=_TOOL,
        operation="putTool",
        about="Create a version of a tool; one that is there is never changed.",
        run=do.put_tool,
        success={201: Tool},
        query=(_CHECK, _CONFIRM),
        body=ToolBody,
        failures=(404, 409),
        example=_HTTP_TOOL,
    ),
    Route(
        verb="GET",
        path=_TOOL,
        operation="getTool",
        about="One version of a tool.",
        run=do.get_tool,
        success={200: Tool},
        action="read",
        failures=(404,),
    ),
    Route(
        verb="PATCH",
        path=_TOOL,
        operation="patchTool",
        about="Switch a version of a tool on or off.",
        run=do.patch_tool,
        success={200: Tool},
        body=Switch,
        failures=(404, 409),
        example={"isEnabled": True},
    ),
    Route(
        verb="DELETE",
        path=_TOOL,
        operation="deleteTool",
        about="Delete a version of a tool for good.",
        run=do.delete_tool,
        success={204: None},
        failures=(404, 409),
    ),
    Route(
        verb="POST",
        path=f"{_TOOL}/invoke",
        operation="invokeTool",
        about="Call a tool: an HTTP tool or a built-in one. Others run in a kernel, and are `unavailable` here.",
        run=do.invoke,
        success={200: Invoked},
        body=InvokeBody,
        action="execute",
        failures=(404, 409, 429, 502, 504),
        example={"args": {"id": 3}},
    ),
    Route(
        verb="GET",
        path=f"{PREFIX}/tools/tools",
        operation="listTools",
        about="List the tools of all bundles.",
        run=do.list_tools,
        success={200: ToolPage},
        query=(_TAGS, _IDS, _DISABLED, _RECOMMENDED, _SIZE, _TOKEN),
        action="read",
    ),
    Route(
        verb="GET",
        path=f"{PREFIX}/tools/tools/search",
        operation="searchTools",
        about="Find tools by words.",
        run=do.search_tools,
        success={200: ToolPage},
        query=(_Q, _DISABLED, _SIZE, _TOKEN),
        action="read",
    ),
    Route(
        verb="POST",
        path=f"{PREFIX}/tools/test",
        operation="testTool",
        about="Call an HTTP tool that is not stored, and tell what it sent and got, without secrets.",
        run=do.test,
        success={200: Tested},
        body=TestBody,
        action="execute",
        failures=(409, 429, 502, 504),
        example={"tool": _HTTP_TOOL, "args": {"id": 3}},
    ),
    Route(
        verb="POST",
        path=f"{PREFIX}/tools/import",
        operation="importOpenapi",
        about="Make a bundle of an OpenAPI 3 document.",
        run=do.import_openapi,
        success={201: ImportedTools},
        body=ImportBody,
        failures=(409, 502, 504),
        example={
            "openapi": {
                "openapi": "3.1.0",
                "info": {"title": "Users", "version": "1"},
                "servers": [{"url": "https://api.example.com"}],
                "paths": {"/users": {"get": {"operationId": "listUsers", "responses": {"200": {"description": "ok"}}}}},
            },
            "bundle": {"slug": "users-import", "displayName": "Users"},
        },
    ),
    Route(
        verb="GET",
        path=f"{PREFIX}/trust",
        operation="getTrust",
        about="Whether the project is trusted, and what a yes would let run.",
        run=do.trust,
        success={200: TrustState},
        action="read",
    ),
    Route(
        verb="POST",
        path=f"{PREFIX}/trust",
        operation="setTrust",
        about="Trust the project, or trust it no longer.",
        run=do.set_trust,
        success={200: TrustState},
        body=TrustBody,
        failures=(404, 409),
        example={"isTrusted": False},
    ),
    Route(
        verb="GET",
        path=f"{PREFIX}/openapi.json",
        operation="getDescription",
        about="This description.",
        run=_document,
        success={200: dict[str, Any]},
        action="read",
    ),
)
