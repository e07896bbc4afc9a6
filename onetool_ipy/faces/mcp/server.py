"""ToolboxServer: a toolbox as an MCP server: its tools, prompts and resources.

It offers what its allow-list names, and without one the tools that only read: no person is asked
here. Tools have their wire names, since many clients accept no others; a canonical name works too.
Everything sent is masked; a result larger than `output.max_inline_bytes` is sent as a handle.
`ot.result` and `onetool://result/HANDLE` read the handles that were sent to clients here, whatever
the allow-list; the tool is listed after the first one.

    onetool://result/HANDLE{?offset,limit,search}    lines of a stored result
    onetool://docs/PACK                              the tools of a pack, in Markdown
    any other                                        what the tool with that address gives, or with
                                                     a template of it

A resource is bounded, and values for a template are refused where they lead out of a folder.
Prompts are the tools marked `prompt`, the snippets, and the instructions in prompts.yaml. A
snippet's prompt is its code with the arguments filled in; nothing of it runs. Snippets of an
untrusted project are left out, as are those that an allow-list does not name: `$name`, `$*` or `*`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.path_security import contains_path_traversal, is_absolute_path
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import NotAllowed, OneToolError, TooLarge, UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.base.values import Json
from onetool_ipy.core import current, names
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.resolve import Allow, ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.line.values import Expected, read_plain
from onetool_ipy.faces.mcp.content import (
    DeclaredOutput,
    call_result,
    content_blocks,
    medium_of,
    result_uri,
)
from onetool_ipy.faces.mcp.rounds import WAIT_S, ServedRequest, WaitingRequests
from onetool_ipy.packs.ot.catalog import pack_text
from onetool_ipy.render.media import Audio, Blocks, Image, Resource
from onetool_ipy.render.views import counted
from onetool_ipy.snippets.definition import Bare, Snippet, expand
from onetool_ipy.stores.results import HandleNotFound
from onetool_ipy.toolbox import Toolbox

_NAME = "onetool_ipy"
_DOCS = "onetool://docs/"
MAX_LINES = 1_000
"""How many lines of a stored result are read at a time."""
RESULT_TEMPLATE = "onetool://result/{handle}{?offset,limit,search}"
_MAX_PAGE = 1_000_000
_RESULT = UriTemplate.parse(RESULT_TEMPLATE)
_PAGE_KEY = "onetool_ipy/page"
_MAX_TEXT = 1_000_000
_PAGE = 250
_MAX_HANDLES = 10_000
_MAX_WATCHED = 1_000
_MAX_COMPLETIONS = 100
_STORED_MS = 60_000
_INSTRUCTIONS = (
    "Tools of a onetool_ipy project. A large result comes as {handle, total_lines, preview}: "
    "read more of it with the tool %s (handle, offset, limit, search) or the resource "
    + RESULT_TEMPLATE
    + "."
)
_T = TypeVar("_T")
Context = ServerRequestContext[Any]
Paging = types.PaginatedRequestParams | None

logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it prints tracebacks of client errors


class _Listed(NamedTuple):
    """What clients may have seen: tools by wire name with their fingerprints, prompts,
    addresses."""

    tools: frozenset[tuple[str, str]]
    prompts: frozenset[str]
    resources: frozenset[str]


class _Catalog(NamedTuple):
    """The tools that are switched on in one generation of a registry, and the wire names of all its
    tools.

    Tools and names are of the same moment: each tool here has its wire name here.
    """

    registry: Registry
    generation: int
    specs: list[ToolSpec]
    wire: dict[str, str]
    names: dict[str, str]

    @classmethod
    def of(cls, box: Toolbox) -> _Catalog:
        """Return what the registry has now."""
        registry = box.registry
        # The generation is read first: what changes meanwhile makes this catalog out of date, not
        # wrong for ever.
        generation = registry.generation
        specs = registry.known()
        wire = names.wire_names(spec.name for spec in specs)
        enabled = [spec for spec in specs if not spec.disabled]
        return cls(registry, generation, enabled, wire, {each: name for name, each in wire.items()})

    def holds_for(self, registry: Registry) -> bool:
        """Whether the registry is still the same: a reload makes another one."""
        return self.registry is registry and self.generation == registry.generation


class ToolboxServer:
    """One toolbox as an MCP server. `allow` is an allow-list; None offers the tools that only
    read."""

    def __init__(self, box: Toolbox, *, allow: Sequence[str] | None = None) -> None:
        self._box = box
        self._allow = allow
        self._handles: dict[str, None] = {}
        self._prompts = _PromptOffers(box, allow)
        self._waiting = WaitingRequests()
        self._tasks: set[asyncio.Task[None]] = set()
        self._bus = InMemorySubscriptionBus()
        self._clients: weakref.WeakSet[Any] = weakref.WeakSet()
        self._log_levels: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._watched: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._listed: _Listed | None = None
        self._will_notify = False
        self._catalog = _Catalog.of(box)
        self._outputs: dict[str, DeclaredOutput] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        reader = self._catalog.wire.get(names.PAGER, names.PAGER)
        self.server: Server[Any] = Server(
            _NAME,
            version=__version__,
            instructions=_INSTRUCTIONS % reader,
            cache_hints={
                "tools/list": CacheHint(),
                "prompts/list": CacheHint(),
                "resources/list": CacheHint(),
            },
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list,
            on_call_tool=self._served(self._run_tool),
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._served(self._run_prompt),
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._served(self._run_resource),
            on_subscribe_resource=self._watch,
            on_unsubscribe_resource=self._unwatch,
            on_completion=self._complete,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self.server.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, self._set_level
        )
        security = RequestStateSecurity.ephemeral(ttl=WAIT_S)
        self.server.middleware.append(RequestStateBoundary(security, default_audience=_NAME))
        self._unsubscribe = box.subscribe(changed=self._changed)

    def options(self) -> InitializationOptions:
        """Return the options of the handshake."""
        return self.server.create_initialization_options(
            NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        )

    def offer(self, flag: str) -> str:
        """Say how many tools are offered, how many are not, and how to offer others with that
        flag."""
        specs = [spec for spec in self._box.registry.known() if not spec.disabled]
        offered = sum(map(self._is_listed, specs))
        text = f"Offering {counted(offered, 'tool')}"
        unknown = "".join(
            f" The tools of the server '{name}' are not offered: it has not been started yet. "
            f"Start it with: %tool server start {name}"
            for name in self._box.servers.unlisted()
        )
        if self._allow is None:
            left = sum(not spec.read_only and spec.is_for_models for spec in specs)
            others = f" Left out, since they may change something: {left}." if left else ""
            return (
                f"{text} that only read.{others} Name what to offer instead with {flag}; '*' is"
                f" all.{unknown}"
            )
        snippets = {"$*", *(f"${name}" for name in self._box.shortcuts.snippets)}
        tools = [entry for entry in self._allow if entry not in snippets]
        lost = [
            entry for entry in tools if not any(names.allowed(spec.name, [entry]) for spec in specs)
        ]
        return (
            text + (f". No tool is named {', '.join(map(repr, lost))}." if lost else ".") + unknown
        )

    def close(self) -> None:
        """Stop watching the toolbox, and the requests that wait for answers. May be called
        twice."""
        self._unsubscribe()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._waiting.close)

    async def _list(self, context: Context, params: Paging) -> types.ListToolsResult:
        tools = await self._look(context)
        page, more = _page([(wire, spec) for wire, spec in tools if self._is_listed(spec)], params)
        return types.ListToolsResult(
            tools=[self._tool(spec, wire) for wire, spec in page], next_cursor=more
        )

    async def _look(self, context: Context) -> list[tuple[str, ToolSpec]]:
        """Return the tools that may be listed now by wire name, with their schemas: imports the
        packs they are from."""

        def look() -> list[tuple[str, ToolSpec]]:
            catalog = self._current(is_fresh=True)
            specs = [
                spec for spec in catalog.specs if self._is_offered(spec) or self._is_listed(spec)
            ]
            wire = [catalog.wire[spec.name] for spec in specs]
            return list(zip(wire, catalog.registry.loaded(specs), strict=True))

        tools = await asyncio.to_thread(look)
        self._note_client(context)
        return tools

    def _tool(self, spec: ToolSpec, wire: str) -> types.Tool:
        return types.Tool(
            name=wire,
            title=spec.name,
            description=self._box.mask(spec.description),
            input_schema=values.map_text(values.to_json(spec.parameters), self._box.mask),
            output_schema=self._declared(spec).schema,
            annotations=types.ToolAnnotations(
                title=spec.server_facts.title or spec.name,
                read_only_hint=spec.read_only,
                destructive_hint=spec.server_facts.hints.get("destructive"),
                idempotent_hint=spec.server_facts.hints.get("idempotent"),
                open_world_hint=spec.server_facts.hints.get("open world"),
            ),
        )

    def _declared(self, spec: ToolSpec | None) -> DeclaredOutput:
        """Return the output schema of a tool: its own, or that of what its function returns."""
        if spec is None:
            return DeclaredOutput(None, str)
        source = spec.output_schema or (
            None if spec.function.returned is None else spec.function.returned()
        )
        declared = self._outputs.get(spec.name)
        if declared is None or declared.source is not source:
            declared = self._outputs[spec.name] = DeclaredOutput(source, self._box.mask)
        return declared

    def _input_schema(self, name: str) -> Any:
        """Return the schema by which the SDK compares the headers of a call with its arguments."""
        spec = self._box.registry.get(self._current().names.get(name, name))
        return None if spec is None else spec.parameters

    async def _run_tool(
        self, params: types.CallToolRequestParams, request: ServedRequest
    ) -> types.CallToolResult:
        # A client may use the wire name of a tool or its own name.
        name, args = self._current().names.get(params.name, params.name), params.arguments or {}
        resolved = await self._box.aresolve(
            name, args, source="mcp", allow=self._allow_for(name, args)
        )
        resolved.has_yes = self._allow is not None
        result = await self._run(resolved, request)
        answer = await asyncio.to_thread(
            call_result, self._box, result, self._declared(resolved.spec)
        )
        self._note_handle(result, (answer.structured_content or {}).get("handle"))
        return answer

    async def _list_prompts(self, context: Context, params: Paging) -> types.ListPromptsResult:
        await self._look(context)
        prompts = self._prompts.all(self._offered())
        page, more = _page(sorted(prompts), params)
        return types.ListPromptsResult(
            prompts=[self._prompts.describe(name, prompts[name]) for name in page], next_cursor=more
        )

    async def _run_prompt(
        self, params: types.GetPromptRequestParams, request: ServedRequest
    ) -> types.GetPromptResult:
        prompt, args = self._prompts.all(self._offered()).get(params.name), params.arguments or {}
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"No prompt '{printable(params.name[:80])}'.")
        try:
            if not isinstance(prompt, ToolSpec):
                return await asyncio.to_thread(self._prompts.text, prompt, args)
            resolved = await self._box.aresolve(
                prompt.name, partial(_typed_arguments, args), source="mcp", allow=(prompt.name,)
            )
            result = await self._run(resolved, request)
            return await asyncio.to_thread(_prompt_result, result.unwrap(), self._box.mask)
        except OneToolError as exc:
            raise MCPError(types.INVALID_PARAMS, self._say(exc)) from exc

    async def _list_resources(self, context: Context, params: Paging) -> types.ListResourcesResult:
        await self._look(context)
        offered = self._offered()
        resources = [
            types.Resource(
                uri=spec.resource,
                name=name,
                title=spec.name,
                description=self._box.mask(spec.summary) or None,
            )
            for name, spec in offered.items()
            if spec.resource and not UriTemplate.is_template(spec.resource)
        ]
        resources += [
            types.Resource(
                uri=_DOCS + pack, name=pack, title=f"Docs of {pack}", mime_type="text/markdown"
            )
            for pack in dict.fromkeys(spec.pack for spec in offered.values())
        ]
        page, more = _page(resources, params)
        return types.ListResourcesResult(resources=page, next_cursor=more)

    async def _list_templates(
        self, context: Context, params: Paging
    ) -> types.ListResourceTemplatesResult:
        self._note_client(context)
        description = (
            "Lines of a stored result: offset counts from 1, search is a regular expression (RE2)."
        )
        templates = [
            types.ResourceTemplate(
                uri_template=RESULT_TEMPLATE, name="result", description=description
            )
        ]
        templates += [
            types.ResourceTemplate(
                uri_template=spec.resource,
                name=name,
                title=spec.name,
                description=self._box.mask(spec.summary) or None,
            )
            for name, spec in self._offered().items()
            if UriTemplate.is_template(spec.resource)
        ]
        page, more = _page(templates, params)
        return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=more)

    async def _run_resource(
        self, params: types.ReadResourceRequestParams, request: ServedRequest
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            page = _ResultPage.of(uri)
            if page is not None:
                return await self._read_page(page, request)
            specs = [spec for spec in self._offered().values() if _DOCS + spec.pack == uri]
            if specs:
                text = await asyncio.to_thread(_docs_text, self._box, specs[0].pack, specs)
                docs = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
                return types.ReadResourceResult(contents=[docs])
            match = _match_tool(uri, [spec for spec in self._offered().values() if spec.resource])
            if match is None:
                raise ValueError(f"No resource '{uri[:200]}'.")
            spec, args = match
            resolved = await self._box.aresolve(
                spec.name, partial(_typed_arguments, args), source="mcp", allow=(spec.name,)
            )
            result = await self._run(resolved, request)
            contents = await asyncio.to_thread(_resource_contents, self._box, uri, result)
            self._note_handle(result, result.meta.get("handle"))
            return types.ReadResourceResult(contents=contents)
        except (OneToolError, ValueError) as exc:
            raise MCPError(types.INVALID_PARAMS, self._say(exc), {"uri": uri[:2000]}) from exc

    async def _read_page(
        self, page: _ResultPage, request: ServedRequest
    ) -> types.ReadResourceResult:
        args = {
            "handle": page.handle,
            "offset": page.offset,
            "limit": page.limit,
            "search": page.search,
        }
        allow = self._allow_for(names.PAGER, args)
        resolved = await self._box.aresolve(names.PAGER, args, source="mcp", allow=allow)
        # A client that may not call `ot.result` reads the results that it was given. For it there
        # are no others.
        if isinstance(resolved.failure, NotAllowed):
            raise HandleNotFound(page.handle)
        result = await self._run(resolved, request)
        answer = result.unwrap()
        if isinstance(answer, str):  # how `ot.result` words its errors
            raise ValueError(answer)
        return types.ReadResourceResult(
            contents=[page.contents(answer)], ttl_ms=_STORED_MS, cache_scope="private"
        )

    async def _complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        self._note_client(context)
        ref, argument = params.ref, params.argument
        offered = self._offered()
        if isinstance(ref, types.PromptReference):
            prompt = self._prompts.all(offered).get(ref.name, "")
        elif ref.uri == RESULT_TEMPLATE:
            prompt = ""
        else:
            prompt = next((spec for spec in offered.values() if spec.resource == ref.uri), "")
        choices = [
            each for each in _choices_for(prompt, argument.name) if each.startswith(argument.value)
        ]
        texts = [self._box.mask(printable(each)) for each in choices[:_MAX_COMPLETIONS]]
        more = len(choices) > len(texts)
        return types.CompleteResult(
            completion=types.Completion(values=texts, total=len(choices), has_more=more)
        )

    async def _watch(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        watched = self._watched.setdefault(self._note_client(context), set())
        if len(watched) >= _MAX_WATCHED:
            raise MCPError(
                types.INVALID_PARAMS, f"A client watches at most {_MAX_WATCHED} resources."
            )
        watched.add(str(params.uri)[:2000])
        return types.EmptyResult()

    async def _unwatch(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._watched.get(self._note_client(context), set()).discard(str(params.uri)[:2000])
        return types.EmptyResult()

    async def _set_level(
        self, context: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._log_levels[self._note_client(context)] = params.level
        return types.EmptyResult()

    def _served(
        self, run: Callable[[Any, ServedRequest], Awaitable[types.Result]]
    ) -> Callable[[Context, Any], Any]:
        """Return the handler of a request that may ask its client."""

        async def serve(context: Context, params: Any) -> Any:
            level = self._log_levels.get(self._note_client(context), "info")
            return await self._waiting.serve(context, params, partial(run, params), log_level=level)

        return serve

    async def _run(self, resolved: ResolvedCall, request: ServedRequest) -> ToolResult:
        """Run a call of a client, which the tool may ask."""
        scope = current.Scope(self._box, progress=request.report, ask=request.put, client=request)
        token = current.enter(scope)
        try:
            result = await self._box.acall(resolved)
        finally:
            current.leave(token)
        request.require_capable(result)
        return result

    def _say(self, exc: Exception) -> str:
        return self._box.mask(printable(str(getattr(exc, "message", exc))))

    def _offered(self) -> dict[str, ToolSpec]:
        """Return the tools that are offered, by wire name."""
        catalog = self._current(is_fresh=True)
        return {catalog.wire[spec.name]: spec for spec in catalog.specs if self._is_offered(spec)}

    def _is_offered(self, spec: ToolSpec) -> bool:
        if spec.name in names.FOR_PEOPLE or not spec.is_listed:
            return False
        if self._allow is not None:
            return names.allowed(spec.name, self._allow)
        return spec.read_only and names.allowed(spec.name, self._box.config.settings.ask.tool_allow)

    def _is_listed(self, spec: ToolSpec) -> bool:
        if spec.prompt or spec.resource:
            return False
        is_named = not (self._allow is None and self._box.config.settings.ask.tool_allow is None)
        if not is_named and not spec.is_for_models:
            return False  # may be called, as it only reads
        return self._is_offered(spec) or (spec.name == names.PAGER and bool(self._handles))

    def _allow_for(self, name: str, args: object) -> Allow:
        """Return what decides whether a client may make one call: an allow-list, or a function of
        the tool."""
        handle = args.get("handle") if name == names.PAGER and isinstance(args, dict) else None
        if isinstance(handle, str) and handle in self._handles:
            return (names.PAGER,)
        if self._allow is not None:
            return self._allow

        def is_allowed(spec: ToolSpec) -> bool:
            writes = isinstance(args, dict) and bool(args.get(names.WRITING.get(spec.name, "")))
            return self._is_offered(spec) and not writes

        return is_allowed

    def _note_handle(self, result: ToolResult, handle: object) -> None:
        """Remember a handle that is sent to a client. After the first one `ot.result` is listed."""
        if not isinstance(handle, str) or result.meta.get("handle") != handle:
            return
        is_first = not self._handles
        self._handles[handle] = None
        if len(self._handles) > _MAX_HANDLES:
            self._handles.pop(next(iter(self._handles)))
        reader = self._box.registry.get(names.PAGER)
        if is_first and reader is not None and not self._is_offered(reader):
            self._changed()

    def _current(self, *, is_fresh: bool = False) -> _Catalog:
        """Return the tools and their wire names as they are now. With `is_fresh`, sources are asked
        for news."""
        if is_fresh:
            self._box.registry.refresh()
        catalog = self._catalog
        if not catalog.holds_for(self._box.registry):
            # Another thread may do the same. What it finds is as true as this, and is found out of
            # date as this is.
            catalog = self._catalog = _Catalog.of(self._box)
        return catalog

    def _note_client(self, context: Context) -> object:
        """Remember the client of a request, to tell it of changes; return its connection."""
        self._loop = asyncio.get_running_loop()
        # The SDK's session lives for one request only; the connection behind it has no public name.
        connection = getattr(context.session, "_connection", context.session)
        self._clients.add(connection)
        if self._listed is None:
            self._listed = self._what_is_listed()
        return connection

    def _changed(self) -> None:
        """The tools of the registry changed. Called in any thread."""
        self._outputs = {}
        loop = self._loop
        # Changes in quick succession are told once: a notification that has not begun will see this
        # one, too.
        if loop is not None and not loop.is_closed() and not self._will_notify:
            self._will_notify = True
            asyncio.run_coroutine_threadsafe(self._notify_all(), loop)

    def _what_is_listed(self) -> _Listed:
        """Return what clients may have seen, to tell what changed."""
        offered = self._offered()
        # The import of a pack file changes the schemas, and not the fingerprint: every list has the
        # schemas of the code, so there is nothing to tell a client whose own call imported it.
        tools = {(wire, spec.fingerprint) for wire, spec in offered.items()}
        tools |= {(names.PAGER, "")} if self._handles else set()
        resources = (spec.resource or _DOCS + spec.pack for spec in offered.values())
        return _Listed(
            frozenset(tools), frozenset(self._prompts.all(offered)), frozenset(resources)
        )

    async def _notify_all(self) -> None:
        self._will_notify = False
        before, now = self._listed, self._what_is_listed()
        self._listed = now
        if before is None or before == now:
            return
        events: list[Any] = [ToolsListChanged()] if before.tools != now.tools else []
        events += [PromptsListChanged()] if before.prompts != now.prompts else []
        events += [ResourcesListChanged()] if before.resources != now.resources else []
        watched = {uri for uris in self._watched.values() for uri in uris}
        for event in (
            *events,
            *(ResourceUpdated(uri=uri) for uri in sorted(now.resources | watched)),
        ):
            await self._bus.publish(event)
        for client in list(self._clients):
            try:
                if ToolsListChanged() in events:
                    await client.send_tool_list_changed()
                if PromptsListChanged() in events:
                    await client.send_prompt_list_changed()
                if ResourcesListChanged() in events:
                    await client.send_resource_list_changed()
                for uri in sorted(self._watched.get(client, ())):
                    await client.send_resource_updated(uri)
            except Exception:  # noqa: BLE001 - the client is gone; the SDK raises many kinds for that
                self._clients.discard(client)


def _page(items: Sequence[_T], params: Paging) -> tuple[list[_T], str | None]:
    """Return the page that a cursor names, and the cursor of the next one."""
    cursor = "0" if params is None or params.cursor is None else params.cursor
    start = int(cursor) if cursor.isascii() and cursor.isdecimal() and len(cursor) < 10 else -1
    if not 0 <= start <= len(items):
        raise MCPError(
            types.INVALID_PARAMS,
            f"The cursor '{printable(cursor[:40])}' is not one of this server's.",
        )
    return list(items[start : start + _PAGE]), str(start + _PAGE) if start + _PAGE < len(
        items
    ) else None


class _ResultPage(NamedTuple):
    """Which lines of which stored result are asked for."""

    uri: str
    handle: str
    offset: int
    limit: int
    search: str

    @classmethod
    def of(cls, uri: str) -> _ResultPage | None:
        """Return the page that an address names; None for another address. Raises ValueError for
        wrong numbers."""
        variables = _RESULT.match(uri)
        if variables is None:
            return None
        text = {name: value for name, value in variables.items() if isinstance(value, str)}
        numbers = {"offset": text.get("offset", "1"), "limit": text.get("limit", "100")}
        for name, number in numbers.items():
            if not (
                number.isascii() and number.isdecimal() and len(number) < 16 and int(number) > 0
            ):
                raise ValueError(
                    f"{name} must be a whole number from 1 on, not '{printable(number[:40])}'."
                )
        limit = min(int(numbers["limit"]), MAX_LINES)
        return cls(
            uri, text.get("handle", ""), int(numbers["offset"]), limit, text.get("search", "")
        )

    def contents(self, answer: Mapping[str, Any]) -> types.TextResourceContents:
        """Return the lines of an answer of `ot.result`, and where to read on."""
        lines: list[str] = []
        size = 0
        for line in answer["lines"]:
            size += len(line) + 1
            if lines and size > _MAX_PAGE:
                break
            lines.append(line[:_MAX_PAGE])
        page = {
            key: answer[key]
            for key in ("total_lines", "matched", "searched", "offset")
            if key in answer
        }
        has_more = answer["has_more"] or len(lines) < len(answer["lines"])
        page |= {"returned": len(lines), "has_more": has_more}
        if has_more:
            at = {
                "handle": self.handle,
                "offset": str(self.offset + len(lines)),
                "limit": str(self.limit),
            }
            page["next"] = _RESULT.expand(at | ({"search": self.search} if self.search else {}))
        return types.TextResourceContents(
            uri=self.uri, mime_type="text/plain", text="\n".join(lines), _meta={_PAGE_KEY: page}
        )


def _match_tool(uri: str, specs: Iterable[ToolSpec]) -> tuple[ToolSpec, dict[str, str]] | None:
    """Return the tool that an address belongs to, and the values that its template takes from the
    address."""
    for spec in specs:
        if spec.resource == uri:
            return spec, {}
        if not UriTemplate.is_template(spec.resource):
            continue
        try:
            variables = UriTemplate.parse(spec.resource).match(uri)
        except InvalidUriTemplate:
            continue
        if variables is not None and all(
            isinstance(value, str)
            and "\0" not in value
            and not contains_path_traversal(value)
            and not is_absolute_path(value)
            for value in variables.values()
        ):
            return spec, {name: str(value) for name, value in variables.items()}
    return None


def _resource_contents(box: Toolbox, uri: str, result: ToolResult) -> list[Any]:
    """Return what a tool gave as contents of its resource. Raises TooLarge, with the address of its
    pages."""
    medium = medium_of(result.unwrap())
    if isinstance(medium, (Image, Audio)):
        medium = Resource(uri, medium.mime, medium.data)
    if isinstance(medium, Resource):
        address = uri if medium.uri == "onetool://bytes" else medium.uri
        (block,) = content_blocks(medium._replace(uri=address), box.mask)
        return [block.resource] if isinstance(block, types.EmbeddedResource) else []
    outgoing = box.outgoing(result)
    if isinstance(outgoing, dict) and outgoing.keys() == {"handle", "total_lines", "preview"}:
        raise TooLarge(
            f"'{printable(uri)}' is large. Read its {outgoing['total_lines']:,} lines in pages: "
            f"{result_uri(outgoing['handle'])}?offset=1&limit=100"
        )
    is_text = isinstance(outgoing, str)
    text = box.mask(outgoing if is_text else json.dumps(outgoing, ensure_ascii=False))
    return [
        types.TextResourceContents(
            uri=uri, mime_type="text/plain" if is_text else "application/json", text=text
        )
    ]


def _docs_text(box: Toolbox, pack: str, specs: list[ToolSpec]) -> str:
    """Return the documentation of the tools of a pack that are offered, in Markdown."""
    parts = [pack_text(box, pack, specs)]
    for spec in specs:
        lines = [f"### {spec.name}", "", f"    {spec.signature}", "", spec.description]
        lines += ["", *(f"- {arg}" for arg in spec.args)] if spec.args else []
        lines += ["", f"Returns: {spec.returns}"] if spec.returns else []
        lines += (
            ["", *(f"    {line}" for line in spec.example.splitlines())] if spec.example else []
        )
        parts.append("\n".join(lines))
    return box.mask(printable("\n\n".join(parts)))


class _PromptOffers:
    """The prompts of a toolbox, by the names that clients use."""

    def __init__(self, box: Toolbox, allow: Sequence[str] | None) -> None:
        self._box = box
        self._allow = allow

    def all(self, offered: Mapping[str, ToolSpec]) -> dict[str, ToolSpec | Snippet | str]:
        """Return all prompts; `offered` are the tools that are offered, by wire name. A text is a
        pack's own."""
        config = self._box.config
        packs = {spec.pack for spec in offered.values()}
        prompts: dict[str, Any] = {
            pack: text for pack, text in config.prompts.items() if pack in packs and text
        }
        for name, snippet in self._box.shortcuts.snippets.items():
            is_known = config.trust.how != "untrusted" or name in self._box.session_snippets
            if is_known and (self._allow is None or {"*", "$*", f"${name}"} & set(self._allow)):
                prompts[name] = snippet
        return prompts | {name: spec for name, spec in offered.items() if spec.prompt}

    def describe(self, name: str, prompt: ToolSpec | Snippet | str) -> types.Prompt:
        """Return a prompt as it is listed."""
        if isinstance(prompt, str):
            return types.Prompt(name=name, description=f"How to use the tools of '{name}'.")
        schema = prompt.parameters
        needed = schema.get("required", ())
        arguments = [
            types.PromptArgument(
                name=key, description=self._text(about.get("description")), required=key in needed
            )
            for key, about in schema.get("properties", {}).items()
        ]
        title = prompt.name if isinstance(prompt, ToolSpec) else f"${name}"
        description = self._text(prompt.description) or f"The snippet ${name}"
        return types.Prompt(name=name, title=title, description=description, arguments=arguments)

    def text(self, prompt: Snippet | str, args: Mapping[str, str]) -> types.GetPromptResult:
        """Return a snippet with its arguments, or a pack's instructions. Raises UsageProblem."""
        if isinstance(prompt, str) and args:
            raise UsageProblem("This prompt takes no arguments.")
        body = (
            prompt
            if isinstance(prompt, str)
            else expand(prompt, {k: Bare(v) for k, v in args.items()})
        )
        return _prompt_result(printable(body[:_MAX_TEXT]), self._box.mask)

    def _text(self, text: object) -> str | None:
        return self._box.mask(printable(str(text))) if text else None


def _prompt_result(value: object, mask: Callable[[str], str]) -> types.GetPromptResult:
    """Return what a prompt gave as messages of the user: one for each part. Raises TooLarge."""
    parts = (
        Blocks(value)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
        else value
    )
    blocks = content_blocks(parts, mask)
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=block) for block in blocks]
    )


def _typed_arguments(args: Mapping[str, object], spec: ToolSpec) -> Json:
    """Return texts as the values that a tool's schema wants."""
    expected = Expected.of(spec.parameters)
    return {
        key: read_plain(value, expected.at(key)) if isinstance(value, str) else value
        for key, value in args.items()
    }


def _choices_for(prompt: ToolSpec | Snippet | str, argument: str) -> list[str]:
    """Return the values that an argument is known to take: its choices, true and false, its
    default."""
    if isinstance(prompt, str):
        return []
    about = prompt.parameters.get("properties", {}).get(argument)
    if about is None:
        return []
    expected = Expected.of(prompt.parameters).at(argument)
    choices = [*expected.choices, *(["true", "false"] if expected.kinds == {"boolean"} else [])]
    if isinstance(about, dict) and about.get("default") not in (None, ""):
        choices.append(about["default"])
    return list(
        dict.fromkeys(
            each if isinstance(each, str) else str(each) for each in choices if each is not None
        )
    )
