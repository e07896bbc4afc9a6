"""What each route does: one call into `box.bundles`, or one tool run. Decoding is `request`'s, statuses are `answers`'.

A plain function is run in a worker; a coroutine waits for something outside and leaves files to `request.work`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onetool_ipy.base.errors import Conflict, InvalidRequest, NotFound, ToolNotFound, Unavailable, UsageProblem
from onetool_ipy.bundles.model import BundleBody, Switch, Tool, read
from onetool_ipy.bundles.problems import beneath, fault
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.faces import creation
from onetool_ipy.faces.rest.bodies import ImportBody, InvokeBody, TestBody, TrustBody
from onetool_ipy.faces.rest.request import RestRequest, RestResponse, invoked
from onetool_ipy.faces.secret_hosts import new_sendings, require_known
from onetool_ipy.faces.trust_text import trust_of
from onetool_ipy.toolbox import Toolbox

__all__ = [
    "delete_bundle",
    "delete_tool",
    "get_tool",
    "import_openapi",
    "invoke",
    "list_bundles",
    "list_tools",
    "patch_bundle",
    "patch_tool",
    "put_bundle",
    "put_tool",
    "search_tools",
    "set_trust",
    "test",
    "trust",
]

_IN_KERNEL = "It runs in the kernel: call it from a notebook."


def list_bundles(asked: RestRequest) -> RestResponse:
    query = asked.query
    found = asked.box.bundles.list_bundles(ids=query.get("bundleIDs"), **_paging(asked, "pageSize"))
    return RestResponse(200, found.to_dict())


def put_bundle(asked: RestRequest) -> RestResponse:
    body = read(BundleBody, asked.body)
    bundle = asked.box.bundles.put_bundle(
        asked.path["bundleID"],
        slug=body.slug,
        display_name=body.display_name,
        description=body.description,
        enabled=body.is_enabled,
    )
    return RestResponse(201 if bundle.was_created else 200, bundle.to_dict())


def patch_bundle(asked: RestRequest) -> RestResponse:
    enabled = read(Switch, asked.body).is_enabled
    return RestResponse(200, asked.box.bundles.patch_bundle(asked.path["bundleID"], enabled=enabled).to_dict())


def delete_bundle(asked: RestRequest) -> RestResponse:
    asked.box.bundles.delete_bundle(asked.path["bundleID"])
    return RestResponse(204)


def put_tool(asked: RestRequest) -> RestResponse:
    """Create a tool. What a program puts is meant; a screen has `checkSecrets` set, and asks the person."""
    if asked.query.get("checkSecrets", False) and isinstance(asked.body, Mapping):
        require_known(new_sendings(asked.box, [asked.body]), asked.query.get("confirmSecrets", ()))
    return RestResponse(201, asked.box.bundles.put_tool(*_place(asked), asked.body).to_dict())


def get_tool(asked: RestRequest) -> RestResponse:
    return RestResponse(200, asked.box.bundles.get_tool(*_place(asked)).to_dict())


def patch_tool(asked: RestRequest) -> RestResponse:
    enabled = read(Switch, asked.body).is_enabled
    return RestResponse(200, asked.box.bundles.patch_tool(*_place(asked), enabled=enabled).to_dict())


def delete_tool(asked: RestRequest) -> RestResponse:
    asked.box.bundles.delete_tool(*_place(asked))
    return RestResponse(204)


def list_tools(asked: RestRequest) -> RestResponse:
    query = asked.query
    found = asked.box.bundles.list_tools(
        tags=query.get("tags"),
        bundle_ids=query.get("bundleIDs"),
        **_paging(asked, "recommendedPageSize", "pageSize"),
    )
    return RestResponse(200, found.to_dict())


def search_tools(asked: RestRequest) -> RestResponse:
    return RestResponse(200, asked.box.bundles.search(asked.query["q"], **_paging(asked, "pageSize")).to_dict())


async def invoke(asked: RestRequest) -> RestResponse:
    """Call a tool, on the toolbox's own loop: neither its files nor its waiting hold up the server."""
    args = read(InvokeBody, asked.body).args
    box, place = asked.box, _place(asked)
    try:
        tool = await asked.work(lambda: box.bundles.get_tool(*place))
    except NotFound as exc:
        raise ToolNotFound(exc.message, hint=exc.hint) from exc
    if not _runs_here(box, tool):
        said = Unavailable(f"'{tool.slug}' calls the Python function '{tool.go_tool.func}'. {_IN_KERNEL}")
        return _outgoing(box, ToolResult(False, error=Failure.of(said, tool.slug)), tool)
    running = box.background.submit(lambda: box.bundles.ainvoke(*place, args, source="rest"))
    result = await box.background.wait(running)
    return await asked.work(lambda: _outgoing(box, result, tool))  # type: ignore[no-any-return]  # it gives what the function gives


async def test(asked: RestRequest) -> RestResponse:
    """Call a tool that is not stored, and tell what it sent and got."""
    body = read(TestBody, asked.body)
    asked.box.gate.require()
    if body.tool.http is None:
        said = "Only a tool of type 'http' can be tested here."
        raise InvalidRequest(f"tool: {said}", hint=_IN_KERNEL, details=[fault("/tool/type", said, _IN_KERNEL)])
    try:
        runner = await asked.work(lambda: asked.box.bundles.draft(asked.body["tool"]))
    except InvalidRequest as exc:
        raise beneath(exc, "/tool") from exc
    await asked.work(lambda: require_known(new_sendings(asked.box, [asked.body["tool"]]), body.confirm_secrets))
    return RestResponse(200, await runner.atrace(body.args))


async def import_openapi(asked: RestRequest) -> RestResponse:
    """Make a bundle of an OpenAPI document, given or fetched by the rules of `http`."""
    from onetool_ipy.bundles.importing.openapi import import_openapi

    body = read(ImportBody, asked.body)
    source: bytes | str | dict[str, Any] = body.openapi
    base_url = None
    if isinstance(source, str) and creation.is_url(source):
        asked.box.gate.require()
        source, base_url = await creation.afetch(asked.box, source)

    def store() -> RestResponse:
        try:
            known = asked.box.config.secrets.names()
            draft = import_openapi(source, slug=body.bundle.slug, base_url=base_url, secrets=known)
        except InvalidRequest as exc:
            raise beneath(exc, "/openapi") from exc
        require_known(new_sendings(asked.box, draft.tools, made_up=None), body.confirm_secrets)
        made = creation.store_draft(asked.box, draft, slug=body.bundle.slug, display_name=body.bundle.display_name)
        tools = [tool.to_dict() for tool in made.tools]
        told = {"secrets": draft.secrets, "hosts": draft.hosts, "notes": draft.notes}
        return RestResponse(201, {"bundle": made.bundle.to_dict(), "tools": tools, **told})

    answer: RestResponse = await asked.work(store)
    return answer


def trust(asked: RestRequest) -> RestResponse:
    """How the project stands with its user."""
    return RestResponse(200, trust_of(asked.box))


def set_trust(asked: RestRequest) -> RestResponse:
    """Take the user's yes or no."""
    body = read(TrustBody, asked.body)
    if body.server and body.server not in asked.box.config.settings.servers:
        raise NotFound(f"server: there is no server '{body.server}'.")
    try:
        if body.is_trusted:
            _require_shown(asked.box, body)
            asked.box.trust(body.server)
        else:
            asked.box.distrust()
    except UsageProblem as exc:
        raise InvalidRequest(exc.message, hint=exc.hint) from exc
    return trust(asked)


def _require_shown(box: Toolbox, body: TrustBody) -> None:
    """A yes is to what the person was shown, and to nothing else."""
    if body.would_run is None:
        said = "A yes needs what the person was shown."
        hint = "Send wouldRun back as GET /onetool/trust gave it."
        raise InvalidRequest(f"wouldRun: {said}", hint=hint, details=[fault("/wouldRun", said, hint)])
    box.follow_trust()
    if body.would_run != box.would_run().to_dict():
        raise Conflict("The project has changed since it was shown; nothing was trusted.", hint="Show it again.")


def _outgoing(box: Toolbox, result: ToolResult, tool: Tool) -> RestResponse:
    return invoked(result, box.outgoing(result), is_http=tool.type == "http")


def _runs_here(box: Toolbox, tool: Tool) -> bool:
    """Whether this process may run it: an HTTP tool, or one of the five built-ins, or one that is not there."""
    if tool.go_tool is None:
        return True
    spec = box.registry.get(tool.go_tool.func)
    return spec is None or (spec.origin == "builtin" and spec.pack != "ot")


def _place(asked: RestRequest) -> tuple[str, str, str]:
    return asked.path["bundleID"], asked.path["toolSlug"], asked.path["version"]


def _paging(asked: RestRequest, *sizes: str) -> dict[str, Any]:
    given: dict[str, Any] = {"include_disabled": asked.query.get("includeDisabled", False)}
    for name in sizes:
        if name in asked.query:
            given.setdefault("page_size", asked.query[name])
    if "pageToken" in asked.query:
        given["page_token"] = asked.query["pageToken"]
    return given
