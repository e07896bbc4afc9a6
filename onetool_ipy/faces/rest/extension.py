"""The handlers of Jupyter Server, made from the table of routes: one class for each path, one method for each verb.

Whoever asks is known to Jupyter, on every path and verb, also on those that do not exist; what changes something
carries the XSRF token. A body is read as it comes and dropped beyond 1 MiB. When the client goes away, what it waited
for is cancelled.

`_load_jupyter_server_extension`: put the routes into a running Jupyter Server, and close everything with it.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from onetool_ipy.base.errors import BodyTooLarge, OneToolError
from onetool_ipy.bundles.problems import fault, whole
from onetool_ipy.faces.rest.projects import Projects
from onetool_ipy.faces.rest.request import (
    MAX_BODY,
    RestRequest,
    RestResponse,
    decode_body,
    of_status,
    read_query,
    refused,
)
from onetool_ipy.faces.rest.routes import PREFIX, PROJECT, Route, by_path

__all__ = ["load", "rules"]

_log = logging.getLogger("ServerApp.onetool_ipy")

_MAX_DRAINED = 16 * MAX_BODY
"""A larger body is not even read to its end: the connection is closed."""


def rules(base_url: str, projects: Projects) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """What to add to the server's web application; the last one answers for every path that is none."""
    given = {"projects": projects}
    found: list[tuple[str, type[web.RequestHandler], dict[str, Any]]] = []
    for path, routes in by_path().items():
        pattern = "/".join("([^/]+)" if part.startswith("{") else part for part in path.split("/"))
        found.append((url_path_join(base_url, f"{pattern}$"), _handler(path, routes), given))
    found.append((url_path_join(base_url, f"{PREFIX}(?:/.*)?$"), _Nothing, given))
    return found


@web.stream_request_body
class _Handler(APIHandler):
    """What all paths share."""

    auth_resource = "onetool"
    names: ClassVar[tuple[str, ...]] = ()
    _running: asyncio.Future[RestResponse] | None = None
    _refusal: web.HTTPError | None = None
    _is_gone = False
    _is_read = False

    def initialize(self, projects: Projects) -> None:
        """Tornado's own place for what a handler is given."""
        self._projects = projects
        self._body = bytearray()
        self._received = 0

    async def prepare(self) -> None:  # type: ignore[override]  # as Jupyter's own API handler does
        """Let nobody in that Jupyter does not know, whatever its settings say of paths without a rule.

        Who is refused is told so when all was read: an answer before that would cost a good client its connection.
        """
        try:
            await super().prepare()
            if not self.current_user and not self._is_preflight():
                raise web.HTTPError(403)
            self.look_up()
        except web.HTTPError as exc:
            self._refusal = exc
            for verb in self.SUPPORTED_METHODS:
                setattr(self, verb.lower(), self._refuse)
        if _length(self.request.headers.get("Content-Length")) > _MAX_DRAINED:
            raise web.HTTPError(413)

    def look_up(self) -> None:
        """Raise where there is nothing at this path."""

    def data_received(self, chunk: bytes) -> None:
        """Keep what may be kept; the rest is read, so that the client gets to read its answer, and dropped."""
        self._received += len(chunk)
        if self._received > _MAX_DRAINED:
            raise web.HTTPError(413)
        if self._received > MAX_BODY or self._refusal is not None:
            self._body.clear()
        else:
            self._body += chunk

    def on_connection_close(self) -> None:
        """The client is gone: so is what it waited for."""
        super().on_connection_close()
        self._is_gone = True
        if self._running is not None:
            self._running.cancel()

    @allow_unauthenticated
    def options(self, *args: str, **kwargs: str) -> None:
        """A browser's question before a request from another origin, where this server allows one."""
        self._is_read = True
        super().options(*args, **kwargs)
        self.set_status(204)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """What the server refused by itself, in our shape."""
        exc = kwargs.get("exc_info", (None, None, None))[1]
        said = exc.log_message or "" if isinstance(exc, web.HTTPError) and status_code < 500 else ""
        answer = of_status(status_code, said.replace("%%", "%"))
        if status_code == 403 and getattr(self, "_jupyter_current_user", None) is None:
            answer.body["error"]["code"] = "unauthorized"
        self._send(answer)

    def _refuse(self, *args: str) -> None:  # noqa: ARG002 - stands for every verb
        assert self._refusal is not None
        self._is_read = True
        raise self._refusal

    async def answer(self, route: Route, args: tuple[str, ...]) -> None:
        """Decode, run, encode."""
        self._is_read = True
        self._running = asyncio.ensure_future(self._answered(route, dict(zip(self.names, args, strict=True))))
        try:
            answer = await self._running
        except asyncio.CancelledError:
            if self._is_gone:
                return
            raise
        self._send(answer)

    async def _answered(self, route: Route, path: Mapping[str, str]) -> RestResponse:
        try:
            query = read_query((*route.query, PROJECT), self.request.query_arguments)
            body = self._decoded(route)
            async with self._projects.use(query.pop(PROJECT.name, None)) as box:
                return await _masked(RestRequest(box, self._projects.work, path, query, body), route)
        except OneToolError as exc:
            return refused(exc)

    def _decoded(self, route: Route) -> Any:
        if self._received > MAX_BODY:
            said = f"The body has {self._received:,} bytes; at most {MAX_BODY:,} are taken."
            raise BodyTooLarge(said, details=[fault("", said)])
        if route.body is None:
            return None
        if not self._body:
            raise whole("The body is missing: a JSON object is needed.")
        return decode_body(bytes(self._body))

    def _is_preflight(self) -> bool:
        return self.request.method == "OPTIONS" and bool(self.allow_origin or self.allow_origin_pat)

    def _send(self, answer: RestResponse) -> None:
        self.set_status(answer.status)
        self.set_header("Cache-Control", "no-store")
        if not self._is_read:
            self.set_header("Connection", "close")
        if answer.body is None:
            self.finish()
            return
        self.finish(json.dumps(answer.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


class _Nothing(_Handler):
    """Every path below ours that there is not."""

    def look_up(self) -> None:
        raise web.HTTPError(404, f"There is no {self.request.path}.")


async def _masked(request: RestRequest, route: Route) -> RestResponse:
    """The answer without secrets; also where it is a refusal."""
    box = request.box
    try:
        if asyncio.iscoroutinefunction(route.run):
            answer = await route.run(request)
        else:
            answer = await request.work(lambda: route.run(request))
    except OneToolError as exc:
        answer = refused(exc)
    except Exception as exc:  # noqa: BLE001 - the REST boundary: what is wrong with us is logged without secrets
        _log.error("%s %s: %s", route.verb, route.path, box.mask("".join(traceback.format_exception(exc))))
        answer = of_status(500)
    masked: RestResponse = await request.work(
        lambda: RestResponse(answer.status, box.config.secrets.mask_value(answer.body))
    )
    return masked


def _handler(path: str, routes: Mapping[str, Route]) -> type[_Handler]:
    """The handler of one path."""
    names = tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))
    methods = {verb.lower(): _method(route) for verb, route in routes.items()}
    return type(f"{next(iter(routes.values())).operation}_handler", (_Handler,), {"names": names, **methods})


def _method(route: Route) -> Callable[..., Any]:
    @web.authenticated
    @authorized(action=route.action, resource="onetool")  # type: ignore[untyped-decorator]  # Jupyter's has no types
    async def verb(self: _Handler, *args: str) -> None:
        await self.answer(route, args)

    return verb


def _length(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 20 else 0


def load(server: Any) -> None:
    """Add our routes to a server."""
    from onetool_ipy.faces.rest.projects import Projects

    projects = Projects(Path(server.root_dir))
    atexit.register(projects.close)
    server.web_app.add_handlers(".*$", rules(server.web_app.settings["base_url"], projects))
    server.log.info("onetool_ipy: the REST API is at onetool/tools, its description at onetool/openapi.json")
