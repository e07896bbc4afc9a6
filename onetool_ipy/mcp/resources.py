"""What a server offers besides tools: resources, resource templates and prompts.

`listing` checks and caches the lists. Reading a resource and getting a prompt are calls of tools
that are found by name and not listed: they take the same way as any call (trust, limits, log,
Stop). The functions that take the SDK's client run on the background loop, where the SDK is loaded.
`Watch` follows one resource.
"""

from __future__ import annotations

import base64
import binascii
import contextvars
import json
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidArgs, InvalidOutput, Unavailable
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.core.tool import ServerFacts, ToolSpec
from onetool_ipy.mcp.content import block_of
from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.mcp.listing import MAX_URI, ServerListing
from onetool_ipy.render.media import Audio, Blocks, Image, PromptMessage, PromptMessages, Resource

if TYPE_CHECKING:
    import asyncio

_MAX_TEXT = 2_000
_MAX_NAME = 128
_MAX_JSON = 64 * 1024 * 1024
_MAX_COMPLETIONS = 100
_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_READ_DOC = """\
Read a resource of the server, by its uri or by a template with the values of its variables.

Text comes as text, JSON as data, an image as an image, anything else as bytes."""
_READ: Json = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "The uri of a resource, or a template"}
    },
    "required": ["uri"],
    "additionalProperties": {
        "type": ["string", "number", "boolean"],
        "description": "A variable of the template",
    },
}

Send = Callable[[Callable[[Any], Awaitable[Any]]], Awaitable[Any]]
"""Sends a request by the SDK's client, on the background loop; starts the server if needed."""


def resource_rows(listing: ServerListing) -> list[Json]:
    """The resources and templates of a server as rows."""
    return [_row(entry, "uri") for entry in listing.resources] + [
        _row(entry, "uriTemplate") for entry in listing.templates
    ]


def _row(entry: Json, key: str) -> Json:
    return {
        "uri": entry[key],
        "name": entry.get("name", ""),
        "title": entry.get("title", ""),
        "type": entry.get("mimeType", ""),
        "size": entry.get("size"),
        "template": key == "uriTemplate",
        "description": entry.get("description", ""),
    }


def prompt_names(server: str, listing: ServerListing) -> dict[str, Json]:
    """The prompts of a server by the name that they are called by: `server.prompt`, where no tool
    has that name."""
    taken = {f"{server}.{'_'.join(tool['name'].split())}" for tool in listing.tools}
    prompts: dict[str, Json] = {}
    for prompt in listing.prompts:
        name = f"{server}.{'_'.join(prompt['name'].split())}"[:_MAX_NAME]
        while name in taken or name in prompts:
            name += "_prompt"
        prompts[name] = prompt
    return prompts


def reader_name(server: str, listing: ServerListing) -> str:
    """The name of the tool that reads resources: `server.read`, if no tool or prompt of the server
    has that name."""
    taken = {tool["name"] for tool in listing.tools} | {
        prompt["name"] for prompt in listing.prompts
    }
    return f"{server}.{'resources/read' if 'read' in taken else 'read'}"


def offer_specs(
    definition: ServerDefinition, listing: ServerListing, send: Send, mask: Callable[[str], str]
) -> list[ToolSpec]:
    """Return what reads the resources of a server and gets its prompts, as tools that are not
    listed."""

    def spec(
        name: str, description: str, parameters: Json, run: Callable[[Json], object], tag: str
    ) -> ToolSpec:
        return ToolSpec(
            name=name,
            description=description,
            parameters=parameters,
            run=run,
            is_async=True,
            origin="mcp",
            server_facts=ServerFacts(server=definition.name, definition=definition.identity(mask)),
            read_only=definition.trusted,
            timeout_s=definition.timeout_s,
            tags=(tag,),
            where=definition.where,
            identity=lambda: [name, parameters],
            is_listed=False,
        )

    def getter(prompt: str) -> Callable[[Json], Any]:
        server = definition.name
        return lambda args: send(lambda client: get_prompt(client, prompt, args, server))

    def read(args: Json) -> Any:
        variables = {key: value for key, value in args.items() if key != "uri"}
        return send(lambda client: read_resource(client, args["uri"], variables))

    specs = []
    if "resources" in listing.capabilities:
        specs.append(
            spec(reader_name(definition.name, listing), _READ_DOC, _READ, read, "resource")
        )
    for name, prompt in prompt_names(definition.name, listing).items():
        text = prompt.get("description") or prompt.get("title") or f"The prompt '{prompt['name']}'."
        arguments = prompt["arguments"]
        schema = {
            "type": "object",
            "properties": {
                one["name"]: {"type": "string", "description": one["description"]}
                for one in arguments
            },
            "required": [one["name"] for one in arguments if one["required"]],
            "additionalProperties": False,
        }
        specs.append(spec(name, text, schema, getter(prompt["name"]), "prompt"))
    return specs


async def read_resource(client: Any, uri: str, variables: Mapping[str, Any]) -> Any:
    """Read a resource and return its value."""
    address = _address(uri, variables)
    if client.server_capabilities.resources is None:
        raise Unavailable("The server has no resources.")
    result = await client.read_resource(address)
    contents = [_content(item) for item in result.contents]
    return (
        contents[0].value
        if len(contents) == 1
        else Blocks(part.block for part in contents)
        if contents
        else None
    )


def _address(uri: str, variables: Mapping[str, object]) -> str:
    """The uri to read. Raises InvalidArgs for a bad uri, or values that do not fit the template."""
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    if not uri.strip() or not uri.isprintable() or len(uri) > MAX_URI:
        raise InvalidArgs(f"This is not a URI: {values.safe_repr(uri, 80)}")
    if not variables and "{" not in uri:
        return uri
    try:
        template = UriTemplate.parse(uri)
    except InvalidUriTemplate as exc:
        raise InvalidArgs(f"'{values.cut(uri, 80)}' is not a template: {exc}") from exc
    names = list(template.variable_names)
    wrong = [f"it needs '{name}'" for name in names if name not in variables]
    wrong += [f"it has no variable '{name}'" for name in variables if name not in names]
    if wrong:
        raise InvalidArgs(f"The template '{values.cut(uri, 80)}': {'; '.join(wrong)}.")
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in variables.items()
    }
    for name, text in texts.items():
        if (
            any(part in (".", "..") for part in re.split(r"[/\\]", unquote(text)))
            or not text.isprintable()
        ):
            raise InvalidArgs(f"The value of '{name}' may hold no '..' and no control characters.")
    return template.expand(texts)


class _Content(NamedTuple):
    """One part of a resource: its value, and how it is shown beside others."""

    value: object
    block: object


def _content(item: Any) -> _Content:
    mime = (item.mime_type or "").partition(";")[0].strip().lower()
    uri = str(item.uri)
    text = getattr(item, "text", None)
    if isinstance(text, str):
        value: object = text
        # Text that only claims to be JSON stays text.
        with suppress(ValueError, RecursionError):
            value = (
                json.loads(text) if _JSON_TYPE.fullmatch(mime) and len(text) <= _MAX_JSON else text
            )
        return _Content(value, Resource(uri, mime, text))
    try:
        data = base64.b64decode(item.blob, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidOutput(
            f"The server sent '{values.cut(uri, 80)}' in a form that is not base64."
        ) from None
    if mime.startswith("image/"):
        return _Content(Image(mime, data), Resource(uri, mime, data))
    if mime.startswith("audio/"):
        return _Content(Audio(mime, data), Resource(uri, mime, data))
    return _Content(data, Resource(uri, mime, data))


async def get_prompt(
    client: Any, name: str, arguments: Mapping[str, str], server: str
) -> PromptMessages:
    """Get a prompt with these arguments: its messages."""
    result = await client.get_prompt(name, dict(arguments))
    return PromptMessages(
        PromptMessage(str(one.role), block_of(one.content, server)) for one in result.messages
    )


async def complete_argument(
    client: Any,
    prompt: str,
    argument: str,
    typed: str,
    others: Mapping[str, str],
    *,
    template: str = "",
) -> list[str]:
    """Ask the server how an argument of a prompt, or a variable of a template, may go on."""
    from mcp_types import PromptReference, ResourceTemplateReference

    if client.server_capabilities.completions is None:
        return []
    ref = ResourceTemplateReference(uri=template) if template else PromptReference(name=prompt)
    result = await client.complete(ref, {"name": argument, "value": typed}, dict(others) or None)
    return [
        text
        for text in result.completion.values[:_MAX_COMPLETIONS]
        if text.isprintable() and len(text) <= _MAX_TEXT
    ]


@without_secrets
class Watch:
    """A resource that is followed: `changed` says whether it changed since `value` was last read.

    `value` reads it, and follows it again where the server has ended meanwhile. `wait(10)` waits
    for a change, `stop()` ends it. It may be used from any thread.
    """

    def __init__(
        self, server: str, uri: str, *, read: Callable[[], object], follow: Callable[[Watch], None]
    ) -> None:
        self.server = server
        self.uri = uri
        self.changes = 0
        self.is_live = False
        self._has_changed = threading.Event()
        self._read, self._follow = read, follow
        self._unfollow: Callable[[], None] = lambda: None

    @property
    def changed(self) -> bool:
        """Whether the server said that the resource changed since `value` was last read."""
        return self._has_changed.is_set()

    @property
    def value(self) -> Any:
        """The resource as it is now."""
        if not self.is_live:
            self._follow(self)
        self._has_changed.clear()
        return self._read()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a change, at most `timeout` seconds. Returns whether there was one."""
        return self._has_changed.wait(timeout)

    def stop(self) -> None:
        """Stop following the resource."""
        self._unfollow()
        self.is_live = False

    def began(self, unfollow: Callable[[], None]) -> None:
        """The server now reports changes of the resource."""
        self.is_live, self._unfollow = True, unfollow

    def heard(self) -> None:
        """The server reported a change."""
        self.changes += 1
        self._has_changed.set()

    def lost(self) -> None:
        """The server ended, so later changes are not known."""
        self.is_live = False

    def __repr__(self) -> str:
        state = (
            "changed" if self.changed else "not changed" if self.is_live else "no longer followed"
        )
        return printable_line(f"<{self.server}: {self.uri}, {state}>")


class Watches:
    """The resources of one session that are followed. All of it runs on the background loop."""

    def __init__(self) -> None:
        self._watched: list[tuple[Watch, asyncio.Task[None] | None]] = []

    async def follow(self, watch: Watch, client: Any) -> None:
        """Ask the server to say when a resource changes."""
        import asyncio

        from mcp_types import (
            EmptyResult,
            SubscribeRequest,
            SubscribeRequestParams,
            UnsubscribeRequest,
            UnsubscribeRequestParams,
        )
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        loop, able = asyncio.get_running_loop(), client.server_capabilities.resources
        if able is None or not able.subscribe:
            raise Unavailable(f"The server '{watch.server}' does not say when a resource changes.")
        task: asyncio.Task[None] | None = None
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            acknowledged: asyncio.Future[None] = loop.create_future()
            task = loop.create_task(
                _listen(client, watch, acknowledged), context=contextvars.Context()
            )
            await acknowledged
        else:
            request = SubscribeRequest(params=SubscribeRequestParams(uri=watch.uri))
            await client.session.send_request(request, EmptyResult)
        self._watched.append((watch, task))

        async def unsubscribe() -> None:
            # The server may be gone, or not know such a request: the resource is not followed here
            # either way.
            with suppress(Exception):
                parameters = UnsubscribeRequestParams(uri=watch.uri)
                await client.session.send_request(
                    UnsubscribeRequest(params=parameters), EmptyResult
                )

        def unfollow() -> None:
            # If the loop is closed, so is the session.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._drop, watch)
                # A server of the older protocol is told.
                if task is None:
                    loop.call_soon_threadsafe(lambda: loop.create_task(unsubscribe()))

        watch.began(unfollow)

    def heard(self, uri: str) -> None:
        """A resource changed, as a server of the older protocol says; it may name a part of what is
        followed."""
        for watch, _task in self._watched:
            if uri == watch.uri or uri.startswith(f"{watch.uri.rstrip('/')}/"):
                watch.heard()

    def end(self) -> None:
        """The session ends."""
        for watch, _task in tuple(self._watched):
            watch.lost()
            self._drop(watch)

    def _drop(self, watch: Watch) -> None:
        for task in [
            task for watched, task in self._watched if watched is watch and task is not None
        ]:
            task.cancel()
        self._watched = [pair for pair in self._watched if pair[0] is not watch]


async def _listen(client: Any, watch: Watch, acknowledged: asyncio.Future[None]) -> None:
    """Pass on the changes of one resource, as a server of the newer protocol sends them."""
    try:
        async with client.listen(resource_subscriptions=[watch.uri]) as subscription:
            acknowledged.set_result(None)
            async for _event in subscription:
                watch.heard()
    except Exception as exc:  # noqa: BLE001 - the stream or the server ended in any way; the watch says so
        if not acknowledged.done():
            acknowledged.set_exception(exc)
    watch.lost()
