"""The REST routes: each function decodes a request, calls the toolbox once and encodes the result.

`@route` declares verb, path, query, bodies and statuses beside the function. `ROUTES` is the one
table of all of them; the handlers (`extension`), the OpenAPI document and the tests are made from
it. A route runs in a worker thread, so it may read files and wait for an API. The models of bodies
that only REST has are here; those of bundles and tools are in `bundles.model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema, models_json_schema

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import (
    Conflict,
    Disabled,
    InvalidRequest,
    NotFound,
    RequestRefused,
    ToolNotFound,
    Unavailable,
    UsageProblem,
)
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.importing.draft import (
    BundleDraft,
    ImportRequest,
    MissingServer,
    OperationChoice,
)
from onetool_ipy.bundles.importing.formats import import_document as read_document
from onetool_ipy.bundles.model import (
    Bundle,
    BundleBody,
    Slug,
    Switch,
    Tool,
    ToolBody,
    WireModel,
    read,
)
from onetool_ipy.bundles.validation import beneath, fault
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.faces import creation
from onetool_ipy.faces.rest.request import (
    MAX_BODY,
    MAX_DOCUMENT,
    Query,
    RestRequest,
    RestResponse,
    invoked,
)
from onetool_ipy.faces.secret_hosts import new_sendings, require_known
from onetool_ipy.toolbox import Toolbox

Confirmed = Annotated[
    list[str],
    Field(
        description="NAME=HOST for each secret that may go to a host that did not get it before.",
        max_length=256,
    ),
]

PREFIX = "/onetool"
_BUNDLES = f"{PREFIX}/tools/bundles"
_BUNDLE = f"{_BUNDLES}/{{bundleID}}"
_TOOL = f"{_BUNDLE}/tools/{{toolSlug}}/version/{{version}}"

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
        "paths": {
            "/users": {
                "get": {"operationId": "listUsers", "responses": {"200": {"description": "ok"}}}
            }
        },
    },
    "bundle": {"slug": "users-import", "displayName": "Users"},
}
_IN_KERNEL = "It runs in the kernel: call it from a notebook."

Verb = Literal["GET", "PUT", "PATCH", "DELETE", "POST"]
Action = Literal["read", "write", "execute"]
Run = Callable[[RestRequest], RestResponse]

_Document = bytes | str | Json
_Refs = dict[Any, Json]
"""A reference to the schema of each model."""

_REF = "#/components/schemas/{model}"
_ALWAYS = {
    400: "The request is not valid.",
    403: (
        "Not allowed: not signed in, outside of the root, switched off, read-only, or a host that"
        " is not allowed."
    ),
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
    "bundleID": {
        "description": "The bundle's UUIDv7.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "toolSlug": {
        "description": _LABEL,
        "schema": {"type": "string", "minLength": 1, "maxLength": 64},
    },
    "version": {
        "description": f"{_LABEL} Dots are allowed.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 64},
    },
}


def _split(texts: str | list[str]) -> list[str]:
    return [
        part
        for text in ([texts] if isinstance(texts, str) else texts)
        for part in text.split(",")
        if part
    ]


Words = Annotated[list[str], BeforeValidator(_split)]
Size = Annotated[int, Field(ge=1, json_schema_extra={"maximum": 256})] | SkipJsonSchema[None]


class Paged(Query):
    """The query of a list, page by page."""

    include_disabled: Annotated[bool, Field(description="Include what is switched off.")] = False
    page_size: Annotated[Size, Field(description="Rows per page: 25 by default, at most 256.")] = (
        None
    )
    page_token: Annotated[
        str | SkipJsonSchema[None], Field(description="The nextPageToken of the previous page.")
    ] = None

    def paging(self, **sizes: int | None) -> dict[str, Any]:
        """Return the paging arguments of the service. Of several page sizes the first that was sent
        counts."""
        size = next((each for each in (*sizes.values(), self.page_size) if each is not None), None)
        options = {"include_disabled": self.include_disabled, "page_token": self.page_token}
        return options if size is None else {**options, "page_size": size}


class BundleQuery(Paged):
    """The query of a list of bundles."""

    bundle_ids: Annotated[
        Words,
        Field(
            alias="bundleIDs",
            description="Only these bundles; separated by commas, or given several times.",
        ),
    ] = Field(default_factory=list)


class ToolQuery(BundleQuery):
    """The query of a list of tools."""

    tags: Annotated[
        Words,
        Field(
            description=(
                "Only tools with one of these tags; separated by commas, or given several times."
            )
        ),
    ] = Field(default_factory=list)
    recommended_page_size: Annotated[
        Size, Field(description="Same as pageSize, which is accepted too.")
    ] = None


class SearchQuery(Paged):
    """The query of a search."""

    q: Annotated[str, Field(description="The words to search for; typos are forgiven.")]


class SecretQuery(Query):
    """Whether a new tool may send a secret to a new host."""

    check_secrets: Annotated[
        bool,
        Field(
            description="Refuse a tool that sends a secret to a host that did not get it before."
        ),
    ] = False
    confirm_secrets: Annotated[
        Words,
        Field(description="NAME=HOST for each secret that may go there; separated by commas."),
    ] = Field(default_factory=list)


class InvokeBody(WireModel):
    """The body of POST .../invoke."""

    args: Annotated[
        Json | SkipJsonSchema[Any], Field(description="The arguments, as argSchema has them.")
    ] = Field(default_factory=dict)


class DraftTool(ToolBody):
    """A tool that is not stored. Fields that only the store sets are accepted and ignored."""

    model_config = ConfigDict(extra="ignore")


class TestBody(WireModel):
    """The body of POST /onetool/tools/test."""

    tool: DraftTool
    args: Json = Field(default_factory=dict)
    confirm_secrets: Confirmed = Field(default_factory=list)


class NewBundle(WireModel):
    """The bundle that an import creates."""

    slug: Slug
    display_name: Annotated[str, Field(max_length=256)] = ""


class ChosenOperations(WireModel):
    """Which operations of a document become tools; patterns match a name, a path or `GET /path`."""

    tags: list[str] = Field(default_factory=list)
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    names: list[str] | None = None
    read_only: bool = False


class PreviewBody(WireModel):
    """The body of POST /onetool/tools/import/preview: a document of another format or its
    address."""

    document: Json | str = Field(
        validation_alias=AliasChoices("document", "openapi"),
        description=(
            "OpenAPI 3, Swagger 2.0 or a Postman collection, or its address; also as `openapi`."
        ),
    )
    server: Annotated[
        str,
        Field(
            max_length=2000,
            description="The server to call, where the document names none or another.",
        ),
    ] = ""
    choose: ChosenOperations = Field(default_factory=ChosenOperations)


class ImportBody(PreviewBody):
    """The body of POST /onetool/tools/import: a document or its address, and the bundle to
    create."""

    bundle: NewBundle
    auth: Annotated[
        str,
        Field(
            max_length=500,
            description=(
                "The auth of tools for which the document has none, with a secret by its name."
            ),
            examples=[
                "bearer:API_TOKEN",
                "basic:USER:SECRET",
                "header:X-Api-Key:API_KEY",
                "query:key:API_KEY",
            ],
        ),
    ] = ""
    confirm_secrets: Confirmed = Field(default_factory=list)


class TrustBody(WireModel):
    """The body of POST /onetool/trust: a yes or a no to the project, or a yes to one part of it."""

    is_trusted: bool
    would_run: Annotated[
        Json | None,
        Field(description="With a yes: what the person was shown, as GET gave it in wouldRun."),
    ] = None
    part: Annotated[
        str,
        Field(
            max_length=1000, description="Say yes to this part alone: its `key` in wouldRun.parts."
        ),
    ] = ""


class TrustState(WireModel):
    """Whether a project is trusted, why, and what a yes would cover."""

    folder: str
    is_trusted: bool
    how: Literal["no project", "home", "named", "environment", "listed", "untrusted"]
    would_run: Json


class BundlePage(WireModel):
    """One page of bundles."""

    items: list[Bundle]
    next_page_token: str | None = None


class ToolPage(WireModel):
    """One page of tools."""

    items: list[Tool]
    next_page_token: str | None = None


class ImportedTools(WireModel):
    """What an import created, which secrets and hosts its tools need, and what of the document was
    left out."""

    bundle: Bundle
    tools: list[Tool]
    secrets: list[Json] = Field(default_factory=list)
    hosts: list[str] = Field(default_factory=list)
    blocked_hosts: list[str] = Field(
        default_factory=list, description="Hosts that HTTP tools may not reach yet."
    )
    notes: list[str] = Field(default_factory=list)


class OfferedOperation(WireModel):
    """An operation that can be imported, by the name that its tool would have."""

    name: str
    method: str
    url: str
    tags: list[str]
    description: str


class ImportPreview(WireModel):
    """What an import would make of a document."""

    kind: str
    bundle: Json
    operations: list[OfferedOperation]
    secrets: list[Json]
    hosts: list[str]
    notes: list[str]


class ErrorDetail(WireModel):
    """What is wrong at one place in the body."""

    model_config = ConfigDict(extra="allow")

    pointer: Annotated[
        str,
        Field(
            description=(
                "JSON Pointer into the body, or into args with the code `invalid_args`; empty for"
                " the whole of it. Values from the path are `/slug` and `/version`."
            ),
            examples=["/http/request/urlTemplate"],
        ),
    ]
    message: str


class ErrorBody(WireModel):
    """What went wrong. For an invoke, `code` is that of spec 004 and `reason` is more specific."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    tool: str | None = None
    reason: str | None = None
    details: Annotated[
        list[ErrorDetail] | Json | None,
        Field(description="For an invalid body or invalid arguments: every error with its place."),
    ] = None


class Refusal(WireModel):
    """The body of every response that is not a success."""

    ok: Literal[False]
    error: ErrorBody


class Meta(WireModel):
    """Where a value does not fit the schema of the imported document."""

    mismatch: list[ErrorDetail]


class Invoked(WireModel):
    """The result of an invoke: `value`, or the tool's own `error`."""

    ok: bool
    value: Any = None
    error: ErrorBody | None = None
    meta: Meta | None = None


class Tested(WireModel):
    """What a draft sent and received, without secrets; `steps` if it has several."""

    model_config = ConfigDict(extra="allow")

    request: Json | None
    response: Json | None
    result: Invoked
    steps: list[Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One verb on one path. `success` maps good statuses to bodies; `failures` are its own other
    statuses."""

    verb: Verb
    path: str
    success: dict[int, type | None]
    run: Run
    query: type[Query] = Query
    body: type[BaseModel] | None = None
    action: Action = "write"
    failures: tuple[int, ...] = ()
    example: object = None
    max_body: int = MAX_BODY

    @property
    def operation(self) -> str:
        """The function's name, as an operation id."""
        return to_camel(self.run.__name__)

    @property
    def about(self) -> str:
        """The first line of the function's docstring."""
        return " ".join((self.run.__doc__ or "").partition("\n\n")[0].split())


def route(
    verb: Verb, path: str, success: dict[int, type | None], **options: Any
) -> Callable[[Run], Route]:
    """Make a Route of a function; `options` are its other fields."""
    return lambda run: Route(verb=verb, path=path, success=success, run=run, **options)


@route("GET", _BUNDLES, {200: BundlePage}, query=BundleQuery, action="read")
def list_bundles(request: RestRequest) -> RestResponse:
    """List the bundles."""
    page = request.box.bundles.list_bundles(
        ids=request.query.bundle_ids or None, **request.query.paging()
    )
    return RestResponse(200, page.to_dict())


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
        auth=None
        if body.auth is None
        else body.auth.model_dump(mode="json", by_alias=True, exclude_none=True),
        environment=None if body.environment is None else body.environment.model_dump(mode="json"),
    )
    return RestResponse(201 if bundle.was_created else 200, bundle.to_dict())


@route(
    "PATCH", _BUNDLE, {200: Bundle}, body=Switch, failures=(404, 409), example={"isEnabled": True}
)
def patch_bundle(request: RestRequest) -> RestResponse:
    """Switch a bundle on or off."""
    enabled = read(Switch, request.body).is_enabled
    return RestResponse(
        200, request.box.bundles.patch_bundle(request.path["bundleID"], enabled=enabled).to_dict()
    )


@route("DELETE", _BUNDLE, {204: None}, failures=(404, 409))
def delete_bundle(request: RestRequest) -> RestResponse:
    """Delete an empty bundle; it is forgotten after two days."""
    request.box.bundles.delete_bundle(request.path["bundleID"])
    return RestResponse(204)


@route(
    "PUT",
    _TOOL,
    {201: Tool},
    query=SecretQuery,
    body=ToolBody,
    failures=(404, 409),
    example=_HTTP_TOOL,
)
def put_tool(request: RestRequest) -> RestResponse:
    """Create a version of a tool; an existing version is never changed.

    A program means what it puts. A screen sets `checkSecrets` and asks the person.
    """
    if request.query.check_secrets and isinstance(request.body, Mapping):
        bundle = request.box.bundles.find_bundle(request.path["bundleID"])
        sendings = new_sendings(request.box, [request.body], bundle=bundle)
        require_known(sendings, request.query.confirm_secrets)
    return RestResponse(
        201, request.box.bundles.put_tool(*_tool_key(request), request.body).to_dict()
    )


@route("GET", _TOOL, {200: Tool}, action="read", failures=(404,))
def get_tool(request: RestRequest) -> RestResponse:
    """Get one version of a tool."""
    return RestResponse(200, request.box.bundles.get_tool(*_tool_key(request)).to_dict())


@route("PATCH", _TOOL, {200: Tool}, body=Switch, failures=(404, 409), example={"isEnabled": True})
def patch_tool(request: RestRequest) -> RestResponse:
    """Switch a version of a tool on or off."""
    enabled = read(Switch, request.body).is_enabled
    return RestResponse(
        200, request.box.bundles.patch_tool(*_tool_key(request), enabled=enabled).to_dict()
    )


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
def invoke_tool(request: RestRequest) -> RestResponse:
    """Call a tool: an HTTP tool or a built-in one. Others run in a kernel, and are `unavailable`
    here."""
    args = read(InvokeBody, request.body).args
    box = request.box
    try:
        tool, name = box.bundles.find_tool(*_tool_key(request))
    except NotFound as exc:
        raise ToolNotFound(exc.message, hint=exc.hint) from exc
    resolved = box.resolve(name, args, source="rest")
    spec = resolved.spec
    # The name stands for one record, and what runs has to be that one.
    if spec is not None and not tool.is_built_in and spec.record[1] != tool.tool_id:
        raise Conflict(f"'{name}' was changed in this moment.", hint="Send the request again.")
    failure = None if isinstance(resolved.failure, Disabled) else _not_here(box, tool)
    if failure is not None:
        return _response_of(box, ToolResult(False, error=Failure.of(failure, tool.slug)), tool)
    return _response_of(box, box.call(resolved), tool)


@route("GET", f"{PREFIX}/tools/tools", {200: ToolPage}, query=ToolQuery, action="read")
def list_tools(request: RestRequest) -> RestResponse:
    """List the tools of all bundles."""
    query: ToolQuery = request.query
    page = request.box.bundles.list_tools(
        tags=query.tags or None,
        bundle_ids=query.bundle_ids or None,
        **query.paging(recommended=query.recommended_page_size),
    )
    return RestResponse(200, page.to_dict())


@route("GET", f"{PREFIX}/tools/tools/search", {200: ToolPage}, query=SearchQuery, action="read")
def search_tools(request: RestRequest) -> RestResponse:
    """Find tools by words."""
    return RestResponse(
        200, request.box.bundles.search(request.query.q, **request.query.paging()).to_dict()
    )


@route(
    "POST",
    f"{PREFIX}/tools/test",
    {200: Tested},
    body=TestBody,
    action="execute",
    failures=(409, 429, 502, 504),
    example={"tool": _HTTP_TOOL, "args": {"id": 3}},
)
def test_tool(request: RestRequest) -> RestResponse:
    """Call an HTTP tool that is not stored, and return what it sent and received, without
    secrets."""
    body = read(TestBody, request.body)
    request.box.gate.require()
    if body.tool.http is None:
        why = "Only a tool of type 'http' can be tested here."
        raise InvalidRequest(
            f"tool: {why}", hint=_IN_KERNEL, details=[fault("/tool/type", why, _IN_KERNEL)]
        )
    try:
        runner = request.box.bundles.draft(request.body["tool"])
    except InvalidRequest as exc:
        raise beneath(exc, "/tool") from exc
    require_known(new_sendings(request.box, [request.body["tool"]]), body.confirm_secrets)
    return RestResponse(200, runner.trace(body.args))


@route(
    "POST",
    f"{PREFIX}/tools/import/preview",
    {200: ImportPreview},
    body=PreviewBody,
    failures=(502, 504),
    example={"document": _OPENAPI_IMPORT["openapi"]},
    max_body=MAX_DOCUMENT,
)
def preview_import(request: RestRequest) -> RestResponse:
    """Say what an import of a document would make. Nothing is stored."""
    body = read(PreviewBody, request.body)

    def look(source: _Document, base_url: str | None) -> RestResponse:
        draft = _draft(request, body, source, ImportRequest(base_url=base_url))
        draft.notes.extend(creation.name_bundle(request.box, draft, None))
        about = {"secrets": draft.secrets, "hosts": draft.hosts, "notes": draft.notes}
        return RestResponse(
            200, {"kind": draft.kind, "bundle": draft.bundle, "operations": draft.rows(), **about}
        )

    return _with_document(request, body, look)


@route(
    "POST",
    f"{PREFIX}/tools/import",
    {201: ImportedTools},
    body=ImportBody,
    failures=(409, 502, 504),
    example=_OPENAPI_IMPORT,
    max_body=MAX_DOCUMENT,
)
def import_document(request: RestRequest) -> RestResponse:
    """Make a bundle of an OpenAPI or Swagger document or a Postman collection.

    The document is in the body, or is fetched from its address by the rules of `http`.
    """
    body = read(ImportBody, request.body)

    def store(source: _Document, base_url: str | None) -> RestResponse:
        draft = _draft(
            request, body, source, ImportRequest(slug=body.bundle.slug, base_url=base_url)
        )
        try:
            if body.auth:
                creation.add_auth(draft, body.auth)
        except UsageProblem as exc:
            details = [fault("/auth", exc.message, exc.hint)]
            raise InvalidRequest(f"auth: {exc.message}", hint=exc.hint, details=details) from exc
        require_known(new_sendings(request.box, draft.tools, made_up=None), body.confirm_secrets)
        stored = creation.store_draft(
            request.box, draft, slug=body.bundle.slug, display_name=body.bundle.display_name
        )
        tools = [tool.to_dict() for tool in stored.tools]
        blocked = creation.unreached(request.box, draft.hosts)
        about = {
            "secrets": draft.secrets,
            "hosts": draft.hosts,
            "blockedHosts": blocked,
            "notes": draft.notes,
        }
        return RestResponse(201, {"bundle": stored.bundle.to_dict(), "tools": tools, **about})

    return _with_document(request, body, store)


@route("GET", f"{PREFIX}/trust", {200: TrustState}, action="read")
def get_trust(request: RestRequest) -> RestResponse:
    """Whether the project is trusted, and what a yes would cover."""
    return RestResponse(200, request.box.gate.state())


@route(
    "POST",
    f"{PREFIX}/trust",
    {200: TrustState},
    body=TrustBody,
    failures=(404, 409),
    example={"isTrusted": False},
)
def set_trust(request: RestRequest) -> RestResponse:
    """Trust the project, or trust it no longer."""
    box, body = request.box, read(TrustBody, request.body)
    if body.part and body.part not in (part.key for part in box.gate.inventory().parts):
        raise NotFound(f"part: nothing named '{body.part}' waits for a yes.")
    try:
        if body.is_trusted:
            if body.would_run is None:
                why = "A yes needs what the person was shown."
                hint = "Send wouldRun back as GET /onetool/trust gave it."
                raise InvalidRequest(
                    f"wouldRun: {why}", hint=hint, details=[fault("/wouldRun", why, hint)]
                )
            box.gate.follow()
            inventory = box.gate.inventory()
            if body.would_run != inventory.to_dict():
                raise Conflict(
                    "The project has changed since it was shown; nothing was trusted.",
                    hint="Show it again.",
                )
            box.gate.grant(body.part, shown=inventory)
        else:
            box.gate.revoke()
    except RequestRefused:
        raise
    except UsageProblem as exc:
        raise InvalidRequest(exc.message, hint=exc.hint) from exc
    return RestResponse(200, box.gate.state())


@route("GET", f"{PREFIX}/openapi.json", {200: dict[str, Any]}, action="read")
def get_description(request: RestRequest) -> RestResponse:
    """This description."""
    return RestResponse(200, openapi(ROUTES, request.base_url))


ROUTES = tuple(each for each in tuple(globals().values()) if isinstance(each, Route))


def _with_document(
    request: RestRequest, body: PreviewBody, use: Callable[[_Document, str | None], RestResponse]
) -> RestResponse:
    """Use the document of an import, and the address that it has to be fetched from first."""
    document = body.document
    if not isinstance(document, str) or not creation.is_url(document):
        return use(document, None)
    request.box.gate.require()
    return use(*creation.fetch(request.box, document))


def _draft(
    request: RestRequest, body: PreviewBody, source: _Document, asked: ImportRequest
) -> BundleDraft:
    chosen: Json = {
        key: tuple(each) if isinstance(each, list) else each for key, each in body.choose
    }
    choice = OperationChoice(**chosen)
    names = request.box.config.secrets.names()
    try:
        return read_document(
            source, replace(asked, server=body.server or None, secrets=names, choice=choice)
        )
    except MissingServer as exc:
        missing = InvalidRequest(exc.message, hint="Name its server, as in https://api.example.com")
        raise beneath(missing, "/server") from exc
    except InvalidRequest as exc:
        raise beneath(exc, "/openapi" if "openapi" in request.body else "/document") from exc


def _response_of(box: Toolbox, result: ToolResult, tool: Tool) -> RestResponse:
    return invoked(result, box.outgoing(result), is_http=tool.type == "http")


def _not_here(box: Toolbox, tool: Tool) -> Unavailable | None:
    """Return why the server process does not run a tool: it runs HTTP tools and built-in functions,
    nothing else."""
    if tool.go_tool is None:
        return None
    function = tool.go_tool.func
    spec = box.registry.get(function)
    if spec is None:
        return Unavailable(
            f"There is no function '{function}' now.", hint="The tool comes back with it."
        )
    if spec.origin == "builtin" and not spec.is_toolbox:
        return None
    return Unavailable(f"'{tool.slug}' calls the Python function '{function}'. {_IN_KERNEL}")


def _tool_key(request: RestRequest) -> tuple[str, str, str]:
    return request.path["bundleID"], request.path["toolSlug"], request.path["version"]


def openapi(routes: Sequence[Route], base_url: str = "/") -> Json:
    """Write the document.

    `base_url` is the path that the server has behind a proxy or a Hub; the host is the one that the
    document is from.
    """
    models = [
        Refusal,
        *(model for route in routes for model in (route.body, *route.success.values())),
    ]
    distinct = dict.fromkeys(m for m in models if isinstance(m, type) and issubclass(m, BaseModel))
    mapping, schemas = models_json_schema(
        [(model, "validation") for model in distinct], ref_template=_REF
    )
    refs: _Refs = {model: ref for (model, _), ref in mapping.items()}
    paths: Json = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onetool_ipy",
            "version": __version__,
            "description": (
                "Bundles and HTTP tools of a project, served by Jupyter Server with its own"
                " sign-in."
            ),
        },
        "servers": [{"url": base_url.rstrip("/") or "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "token <token>",
                }
            },
        },
        "security": [{"token": []}],
    }


def _operation(route: Route, refs: _Refs) -> Json:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]} for name in names
    ]
    query = route.query.model_json_schema()
    for name, schema in query["properties"].items():
        about = {"name": name, "in": "query", "description": schema["description"]}
        about |= {"required": True} if name in query.get("required", ()) else {}
        rest = {
            key: value
            for key, value in schema.items()
            if key not in ("title", "default", "description")
        }
        parameters.append({**about, "schema": rest})

    def response(description: str, schema: Json | None) -> Json:
        return {
            "description": description,
            "content": {"application/json": {"schema": schema or {"type": "object"}}},
        }

    failures = _ALWAYS | {
        status: _SOMETIMES[status] for status in route.failures if status not in _ALWAYS
    }
    responses: Json = {
        str(status): {"description": "Done."}
        if model is None
        else response("Success.", refs.get(model))
        for status, model in route.success.items()
    }
    responses |= {
        str(status): response(text, refs[Refusal]) for status, text in sorted(failures.items())
    }
    operation: Json = {
        "operationId": route.operation,
        "summary": route.about,
        "parameters": parameters,
        "responses": responses,
    }
    if route.body is not None:
        content = {
            "schema": refs[route.body],
            **({"example": route.example} if route.example is not None else {}),
        }
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation
