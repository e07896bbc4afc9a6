"""The REST routes: each function decodes a request, calls the toolbox once and encodes the result.

`@route` declares verb, path, query, bodies and statuses beside the function. `ROUTES` is the one table of all of them;
the handlers (`extension`), the OpenAPI document (`openapi`) and the tests are made from it. A plain function runs in a
worker thread. A coroutine waits for something outside and leaves file access to `request.work`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.errors import Conflict, InvalidRequest, NotFound, ToolNotFound, Unavailable, UsageProblem
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest, MissingServer, OperationChoice
from onetool_ipy.bundles.importing.formats import import_document as read_document
from onetool_ipy.bundles.model import Bundle, BundleBody, Switch, Tool, ToolBody, read
from onetool_ipy.bundles.validation import beneath, fault
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.faces import creation
from onetool_ipy.faces.rest.bodies import (
    BundlePage,
    ImportBody,
    ImportedTools,
    ImportPreview,
    InvokeBody,
    Invoked,
    PreviewBody,
    TestBody,
    Tested,
    ToolPage,
    TrustBody,
    TrustState,
)
from onetool_ipy.faces.rest.openapi import openapi
from onetool_ipy.faces.rest.request import MAX_BODY, MAX_DOCUMENT, QueryParam, RestRequest, RestResponse, invoked
from onetool_ipy.faces.secret_hosts import new_sendings, require_known
from onetool_ipy.faces.trust_text import trust_state
from onetool_ipy.toolbox import Toolbox

__all__ = ["PREFIX", "PROJECT", "ROUTES", "Route"]

PREFIX = "/onetool"
PROJECT = QueryParam(
    "project", "text", "The project's folder, inside the folder that the server serves; by default that one."
)

_BUNDLES = f"{PREFIX}/tools/bundles"
_BUNDLE = f"{_BUNDLES}/{{bundleID}}"
_TOOL = f"{_BUNDLE}/tools/{{toolSlug}}/version/{{version}}"

_DISABLED = QueryParam("includeDisabled", "switch", "Include what is switched off.")
_SIZE = QueryParam("pageSize", "number", "Rows per page: 25 by default, at most 256.")
_TOKEN = QueryParam("pageToken", "text", "The nextPageToken of the previous page.")
_IDS = QueryParam("bundleIDs", "list", "Only these bundles; separated by commas, or given several times.")
_TAGS = QueryParam("tags", "list", "Only tools with one of these tags; separated by commas, or given several times.")
_CHECK = QueryParam("checkSecrets", "switch", "Refuse a tool that sends a secret to a host that did not get it before.")
_CONFIRM = QueryParam("confirmSecrets", "list", "NAME=HOST for each secret that may go there; separated by commas.")
_RECOMMENDED = QueryParam("recommendedPageSize", "number", "Same as pageSize, which is accepted too.")
_Q = QueryParam("q", "text", "The words to search for; typos are forgiven.", is_required=True)

_HTTP_TOOL = {
    "displayName": "Get a user",
    "description": "One user by number.",
    "type": "http",
    "argSchema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    "http": {"request": {"method": "GET", "urlTemplate": "https://api.example.com/users/${id}"}},
}
_OPENAPI_IMPORT = {
    "openapi": {
        "openapi": "3.1.0",
        "info": {"title": "Users", "version": "1"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/users": {"get": {"operationId": "listUsers", "responses": {"200": {"description": "ok"}}}}},
    },
    "bundle": {"slug": "users-import", "displayName": "Users"},
}
_IN_KERNEL = "It runs in the kernel: call it from a notebook."

Verb = Literal["GET", "PUT", "PATCH", "DELETE", "POST"]
Action = Literal["read", "write", "execute"]
Finish = Callable[[], RestResponse]
"""What is left to do in a worker after an async route has waited."""
Run = Callable[[RestRequest], RestResponse] | Callable[[RestRequest], Awaitable[Finish]]


class Route(NamedTuple):
    """One verb on one path. `success` maps good statuses to bodies; `failures` are its own other statuses."""

    verb: Verb
    path: str
    operation: str
    about: str
    run: Run
    success: dict[int, Any]
    query: tuple[QueryParam, ...]
    body: Any
    action: Action
    failures: tuple[int, ...]
    example: Any
    max_body: int


def route(
    verb: Verb,
    path: str,
    success: dict[int, Any],
    *,
    query: tuple[QueryParam, ...] = (),
    body: Any = None,
    action: Action = "write",
    failures: tuple[int, ...] = (),
    example: Any = None,
    max_body: int = MAX_BODY,
) -> Callable[[Run], Route]:
    """Make a Route of a function: its name becomes the operation id, its docstring the summary."""

    def make(run: Run) -> Route:
        first, *others = run.__name__.split("_")
        operation = first + "".join(word.capitalize() for word in others)
        about = (run.__doc__ or "").partition("\n")[0]
        return Route(verb, path, operation, about, run, success, query, body, action, failures, example, max_body)

    return make


@route("GET", _BUNDLES, {200: BundlePage}, query=(_IDS, _DISABLED, _SIZE, _TOKEN), action="read")
def list_bundles(request: RestRequest) -> RestResponse:
    """List the bundles."""
    found = request.box.bundles.list_bundles(ids=request.query.get("bundleIDs"), **_paging(request, "pageSize"))
    return RestResponse(200, found.to_dict())


@route(
    "PUT",
    _BUNDLE,
    {200: Bundle, 201: Bundle},
    body=BundleBody,
    failures=(409,),
    example={"slug": "users-api", "displayName": "Users", "description": "", "isEnabled": True},
)
def put_bundle(request: RestRequest) -> RestResponse:
    """Create a bundle, or replace one."""
    body = read(BundleBody, request.body)
    bundle = request.box.bundles.put_bundle(
        request.path["bundleID"],
        slug=body.slug,
        display_name=body.display_name,
        description=body.description,
        enabled=body.is_enabled,
        base_url=body.base_url,
        auth=None if body.auth is None else body.auth.model_dump(mode="json", by_alias=True, exclude_none=True),
    )
    return RestResponse(201 if bundle.was_created else 200, bundle.to_dict())


@route("PATCH", _BUNDLE, {200: Bundle}, body=Switch, failures=(404, 409), example={"isEnabled": True})
def patch_bundle(request: RestRequest) -> RestResponse:
    """Switch a bundle on or off."""
    enabled = read(Switch, request.body).is_enabled
    return RestResponse(200, request.box.bundles.patch_bundle(request.path["bundleID"], enabled=enabled).to_dict())


@route("DELETE", _BUNDLE, {204: None}, failures=(404, 409))
def delete_bundle(request: RestRequest) -> RestResponse:
    """Delete an empty bundle; it is forgotten after two days."""
    request.box.bundles.delete_bundle(request.path["bundleID"])
    return RestResponse(204)


@route(
    "PUT",
    _TOOL,
    {201: Tool},
    query=(_CHECK, _CONFIRM),
    body=ToolBody,
    failures=(404, 409),
    example=_HTTP_TOOL,
)
def put_tool(request: RestRequest) -> RestResponse:
    """Create a version of a tool; an existing version is never changed.

    A program means what it puts. A screen sets `checkSecrets` and asks the person.
    """
    if request.query.get("checkSecrets", False) and isinstance(request.body, Mapping):
        known = request.box.bundles.find_bundle(request.path["bundleID"])
        found = new_sendings(request.box, [request.body], base_url=None if known is None else known.base_url)
        require_known(found, request.query.get("confirmSecrets", ()))
    return RestResponse(201, request.box.bundles.put_tool(*_tool_key(request), request.body).to_dict())


@route("GET", _TOOL, {200: Tool}, action="read", failures=(404,))
def get_tool(request: RestRequest) -> RestResponse:
    """Get one version of a tool."""
    return RestResponse(200, request.box.bundles.get_tool(*_tool_key(request)).to_dict())


@route("PATCH", _TOOL, {200: Tool}, body=Switch, failures=(404, 409), example={"isEnabled": True})
def patch_tool(request: RestRequest) -> RestResponse:
    """Switch a version of a tool on or off."""
    enabled = read(Switch, request.body).is_enabled
    return RestResponse(200, request.box.bundles.patch_tool(*_tool_key(request), enabled=enabled).to_dict())


@route("DELETE", _TOOL, {204: None}, failures=(404, 409))
def delete_tool(request: RestRequest) -> RestResponse:
    """Delete a version of a tool for good."""
    request.box.bundles.delete_tool(*_tool_key(request))
    return RestResponse(204)


@route(
    "POST",
    f"{_TOOL}/invoke",
    {200: Invoked},
    body=InvokeBody,
    action="execute",
    failures=(404, 409, 429, 502, 504),
    example={"args": {"id": 3}},
)
async def invoke_tool(request: RestRequest) -> Finish:
    """Call a tool: an HTTP tool or a built-in one. Others run in a kernel, and are `unavailable` here.

    The call runs on the toolbox's own loop, so that neither its files nor its waiting hold up the server.
    """
    args = read(InvokeBody, request.body).args
    box, key = request.box, _tool_key(request)
    try:
        tool = await request.work(lambda: box.bundles.find_tool(*key))
    except NotFound as exc:
        raise ToolNotFound(exc.message, hint=exc.hint) from exc
    if not _runs_here(box, tool):
        failure = Unavailable(f"'{tool.slug}' calls the Python function '{tool.go_tool.func}'. {_IN_KERNEL}")
        return partial(_response_of, box, ToolResult(False, error=Failure.of(failure, tool.slug)), tool)
    running = box.background.submit(lambda: box.bundles.ainvoke(*key, args, source="rest"))
    result = await box.background.wait(running)
    return partial(_response_of, box, result, tool)


@route(
    "GET",
    f"{PREFIX}/tools/tools",
    {200: ToolPage},
    query=(_TAGS, _IDS, _DISABLED, _RECOMMENDED, _SIZE, _TOKEN),
    action="read",
)
def list_tools(request: RestRequest) -> RestResponse:
    """List the tools of all bundles."""
    found = request.box.bundles.list_tools(
        tags=request.query.get("tags"),
        bundle_ids=request.query.get("bundleIDs"),
        **_paging(request, "recommendedPageSize", "pageSize"),
    )
    return RestResponse(200, found.to_dict())


@route("GET", f"{PREFIX}/tools/tools/search", {200: ToolPage}, query=(_Q, _DISABLED, _SIZE, _TOKEN), action="read")
def search_tools(request: RestRequest) -> RestResponse:
    """Find tools by words."""
    return RestResponse(200, request.box.bundles.search(request.query["q"], **_paging(request, "pageSize")).to_dict())


@route(
    "POST",
    f"{PREFIX}/tools/test",
    {200: Tested},
    body=TestBody,
    action="execute",
    failures=(409, 429, 502, 504),
    example={"tool": _HTTP_TOOL, "args": {"id": 3}},
)
async def test_tool(request: RestRequest) -> Finish:
    """Call an HTTP tool that is not stored, and return what it sent and received, without secrets."""
    body = read(TestBody, request.body)
    request.box.gate.require()
    if body.tool.http is None:
        why = "Only a tool of type 'http' can be tested here."
        raise InvalidRequest(f"tool: {why}", hint=_IN_KERNEL, details=[fault("/tool/type", why, _IN_KERNEL)])
    try:
        runner = await request.work(lambda: request.box.bundles.draft(request.body["tool"]))
    except InvalidRequest as exc:
        raise beneath(exc, "/tool") from exc
    await request.work(lambda: require_known(new_sendings(request.box, [request.body["tool"]]), body.confirm_secrets))
    return partial(RestResponse, 200, await runner.atrace(body.args))


@route(
    "POST",
    f"{PREFIX}/tools/import/preview",
    {200: ImportPreview},
    body=PreviewBody,
    failures=(502, 504),
    example={"document": _OPENAPI_IMPORT["openapi"]},
    max_body=MAX_DOCUMENT,
)
async def preview_import(request: RestRequest) -> Finish:
    """Say what an import of a document would make. Nothing is stored."""
    body = read(PreviewBody, request.body)
    source, base_url = await _fetched(request, body)

    def look() -> RestResponse:
        draft = _draft(request, body, source, ImportRequest(None, base_url))
        found = {"secrets": draft.secrets, "hosts": draft.hosts, "notes": draft.notes}
        return RestResponse(200, {"kind": draft.kind, "bundle": draft.bundle, "operations": draft.rows(), **found})

    return look


@route(
    "POST",
    f"{PREFIX}/tools/import",
    {201: ImportedTools},
    body=ImportBody,
    failures=(409, 502, 504),
    example=_OPENAPI_IMPORT,
    max_body=MAX_DOCUMENT,
)
async def import_document(request: RestRequest) -> Finish:
    """Make a bundle of an OpenAPI or Swagger document, a Postman collection or a HAR file.

    The document is in the body, or is fetched from its address by the rules of `http`.
    """
    body = read(ImportBody, request.body)
    source, base_url = await _fetched(request, body)

    def store() -> RestResponse:
        draft = _draft(request, body, source, ImportRequest(body.bundle.slug, base_url))
        require_known(new_sendings(request.box, draft.tools, made_up=None), body.confirm_secrets)
        made = creation.store_draft(request.box, draft, slug=body.bundle.slug, display_name=body.bundle.display_name)
        tools = [tool.to_dict() for tool in made.tools]
        found = {"secrets": draft.secrets, "hosts": draft.hosts, "notes": draft.notes}
        return RestResponse(201, {"bundle": made.bundle.to_dict(), "tools": tools, **found})

    return store


@route("GET", f"{PREFIX}/trust", {200: TrustState}, action="read")
def get_trust(request: RestRequest) -> RestResponse:
    """Whether the project is trusted, and what a yes would let run."""
    return RestResponse(200, trust_state(request.box))


@route("POST", f"{PREFIX}/trust", {200: TrustState}, body=TrustBody, failures=(404, 409), example={"isTrusted": False})
def set_trust(request: RestRequest) -> RestResponse:
    """Trust the project, or trust it no longer."""
    box, body = request.box, read(TrustBody, request.body)
    if body.server and body.server not in box.config.settings.servers:
        raise NotFound(f"server: there is no server '{body.server}'.")
    try:
        if body.is_trusted:
            _require_shown(box, body)
            box.trust(body.server)
        else:
            box.distrust()
    except UsageProblem as exc:
        raise InvalidRequest(exc.message, hint=exc.hint) from exc
    return RestResponse(200, trust_state(box))


@route("GET", f"{PREFIX}/openapi.json", {200: dict[str, Any]}, action="read")
def get_description(request: RestRequest) -> RestResponse:  # noqa: ARG001 - every route takes the request
    """This description."""
    return RestResponse(200, openapi(ROUTES, PROJECT))


ROUTES: tuple[Route, ...] = (
    list_bundles,
    put_bundle,
    patch_bundle,
    delete_bundle,
    put_tool,
    get_tool,
    patch_tool,
    delete_tool,
    invoke_tool,
    list_tools,
    search_tools,
    test_tool,
    preview_import,
    import_document,
    get_trust,
    set_trust,
    get_description,
)


async def _fetched(request: RestRequest, body: PreviewBody) -> tuple[bytes | str | dict[str, Any], str | None]:
    """The document of an import, and the address that it was fetched from."""
    if not isinstance(body.document, str) or not creation.is_url(body.document):
        return body.document, None
    request.box.gate.require()
    return await creation.afetch(request.box, body.document)


def _draft(
    request: RestRequest, body: PreviewBody, source: bytes | str | dict[str, Any], asked: ImportRequest
) -> BundleDraft:
    chosen = body.choose
    choice = OperationChoice(
        tags=tuple(chosen.tags),
        include=tuple(chosen.include),
        exclude=tuple(chosen.exclude),
        names=None if chosen.names is None else tuple(chosen.names),
        read_only=chosen.read_only,
    )
    known = request.box.config.secrets.names()
    try:
        return read_document(source, asked.replace(server=body.server or None, secrets=known, choice=choice))
    except MissingServer as exc:
        raise beneath(exc, "/server") from exc
    except InvalidRequest as exc:
        raise beneath(exc, "/openapi" if "openapi" in request.body else "/document") from exc


def _require_shown(box: Toolbox, body: TrustBody) -> None:
    """Refuse a yes to anything but what the person was shown."""
    if body.would_run is None:
        why = "A yes needs what the person was shown."
        hint = "Send wouldRun back as GET /onetool/trust gave it."
        raise InvalidRequest(f"wouldRun: {why}", hint=hint, details=[fault("/wouldRun", why, hint)])
    box.follow_trust()
    if body.would_run != box.would_run().to_dict():
        raise Conflict("The project has changed since it was shown; nothing was trusted.", hint="Show it again.")


def _response_of(box: Toolbox, result: ToolResult, tool: Tool) -> RestResponse:
    return invoked(result, box.outgoing(result), is_http=tool.type == "http")


def _runs_here(box: Toolbox, tool: Tool) -> bool:
    """Whether the server process may run a tool: an HTTP tool, a built-in one, or one that does not exist."""
    if tool.go_tool is None:
        return True
    spec = box.registry.get(tool.go_tool.func)
    return spec is None or (spec.origin == "builtin" and spec.pack != "ot")


def _tool_key(request: RestRequest) -> tuple[str, str, str]:
    return request.path["bundleID"], request.path["toolSlug"], request.path["version"]


def _paging(request: RestRequest, *sizes: str) -> dict[str, Any]:
    """The paging arguments; of several names for the page size the first that was given counts."""
    given: dict[str, Any] = {"include_disabled": request.query.get("includeDisabled", False)}
    for name in sizes:
        if name in request.query:
            given.setdefault("page_size", request.query[name])
    if "pageToken" in request.query:
        given["page_token"] = request.query["pageToken"]
    return given
