"""The Jupyter Server extension: one Tornado handler class for each path of the routes, one method
for each verb.

Every path and verb requires a user that Jupyter has authenticated, also paths that do not exist;
changing verbs also require the XSRF token. A body is read as it arrives and refused beyond 1 MiB.
When the client disconnects, its request is cancelled. `load` adds the handlers to a running server.

`Projects` keeps one toolbox for each project folder: opened on demand, reloaded when its files
change, a few open at a time. A folder must lie inside Jupyter's root after links are resolved. A
request is handed to a worker thread once, which opens the project and runs the route. None of a
project's Python runs here: its pack files are read as text.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import urlsplit

from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.background import Workers
from onetool_ipy.base.errors import (
    BodyTooLarge,
    Forbidden,
    InvalidConfig,
    InvalidRequest,
    NotFound,
    OneToolError,
)
from onetool_ipy.base.files import Stamp, Unreadable, is_young, read, stamp_of
from onetool_ipy.bundles.validation import fault, whole
from onetool_ipy.config.paths import find_config, home_of, state_base
from onetool_ipy.faces.rest.request import (
    MAX_BODY,
    MAX_DOCUMENT,
    RestRequest,
    RestResponse,
    decode_body,
    of_status,
    read_query,
    refused,
)
from onetool_ipy.faces.rest.routes import PREFIX, ROUTES, Route
from onetool_ipy.mcp.callback import CALLBACK_ENV, Mailbox, is_loopback, read_answer
from onetool_ipy.render.html import answer_page
from onetool_ipy.toolbox import Toolbox

CALLBACK = f"{PREFIX}/callback"

_log = logging.getLogger("ServerApp.onetool_ipy")

_MAX_DRAINED = MAX_DOCUMENT
"""A larger body is not read to its end: the connection is closed."""

MAX_OPEN = 16
"""Toolboxes that stay open at once; the least recently used one is closed first."""

_READ_TOO = ("secrets.yaml", "prompts.yaml", "snippets.yaml")
_REAP_EVERY_S = 3600.0
_T = TypeVar("_T")


def rules(
    base_url: str, projects: Projects
) -> list[tuple[str, type[web.RequestHandler], dict[str, Any]]]:
    """Return the URL rules for the web application. The last one answers for every unknown path
    below ours."""
    arguments = {"projects": projects}
    handlers: list[tuple[str, type[web.RequestHandler], dict[str, Any]]] = []
    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.verb] = route
    for path, routes in by_path.items():
        pattern = "/".join("([^/]+)" if part.startswith("{") else part for part in path.split("/"))
        handlers.append((url_path_join(base_url, f"{pattern}$"), _handler(path, routes), arguments))
    handlers.append((url_path_join(base_url, f"{PREFIX}(?:/.*)?$"), _UnknownPath, arguments))
    return handlers


@web.stream_request_body
class _Handler(APIHandler):
    """What all paths share. `names` are the parameters in the path."""

    auth_resource = "onetool"
    names: ClassVar[tuple[str, ...]] = ()
    max_body: ClassVar[int] = MAX_BODY
    verbs: ClassVar[str] = ""
    _running: asyncio.Future[RestResponse] | None = None
    _refusal: web.HTTPError | None = None
    _is_gone = False
    _is_read = False

    def initialize(self, projects: Projects) -> None:
        """Take the arguments of the URL rule. Tornado calls this for each request."""
        self._projects = projects
        self._body = bytearray()
        self._received = 0

    async def prepare(self) -> None:  # type: ignore[override]  # as Jupyter's own API handler does
        """Refuse users that Jupyter has not authenticated, whatever its settings say about other
        paths.

        The refusal is sent after the body was read: an earlier response would break the client's
        connection.
        """
        try:
            await super().prepare()
            is_preflight = self.request.method == "OPTIONS" and bool(
                self.allow_origin or self.allow_origin_pat
            )
            if not self.current_user and not is_preflight:
                raise web.HTTPError(403)
            self.check_path()
        except web.HTTPError as exc:
            self._refusal = exc
            for verb in self.SUPPORTED_METHODS:
                setattr(self, verb.lower(), self._refuse)
        length = self.request.headers.get("Content-Length", "")
        if length.isascii() and length.isdecimal() and int(length[:20]) > _MAX_DRAINED:
            raise web.HTTPError(413)

    def check_path(self) -> None:
        """Raise HTTPError if this path does not exist."""

    def data_received(self, chunk: bytes) -> None:
        """Keep the body up to its limit. The rest is read and dropped, so that the client can read
        the response."""
        self._received += len(chunk)
        if self._received > _MAX_DRAINED:
            raise web.HTTPError(413)
        if self._received > self.max_body or self._refusal is not None:
            self._body.clear()
        else:
            self._body += chunk

    def on_connection_close(self) -> None:
        """Cancel the request of a client that disconnected."""
        super().on_connection_close()
        self._is_gone = True
        if self._running is not None:
            self._running.cancel()

    @allow_unauthenticated
    def options(self, *args: str, **kwargs: str) -> None:
        """Answer a browser's preflight request, if this server allows other origins."""
        self._is_read = True
        super().options(*args, **kwargs)
        self.set_status(204)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send what the web server itself refused, in our shape."""
        exc = kwargs.get("exc_info", (None, None, None))[1]
        message = (
            exc.log_message or "" if isinstance(exc, web.HTTPError) and status_code < 500 else ""
        )
        if status_code == 405 and self.verbs:
            message = f"{self.request.method[:40]} is not possible here. Possible: {self.verbs}."
            self.set_header("Allow", self.verbs)
        response = of_status(status_code, message.replace("%%", "%"))
        if status_code == 403 and getattr(self, "_jupyter_current_user", None) is None:
            response.body["error"]["code"] = "unauthorized"
        self._send(response)

    def _refuse(self, *args: str) -> None:  # noqa: ARG002 - replaces every verb
        assert self._refusal is not None
        self._is_read = True
        raise self._refusal

    async def serve(self, route: Route, args: tuple[str, ...]) -> None:
        """Run a route and send its response."""
        self._is_read = True
        self._running = asyncio.ensure_future(
            self._respond(route, dict(zip(self.names, args, strict=True)))
        )
        try:
            response = await self._running
        except asyncio.CancelledError:
            if self._is_gone:
                return
            raise
        self._send(response)

    async def _respond(self, route: Route, path: Mapping[str, str]) -> RestResponse:
        try:
            query = read_query(route.query, self.request.query_arguments)
            if self._received > self.max_body:
                message = (
                    f"The body has {self._received:,} bytes; at most {self.max_body:,} are taken."
                )
                raise BodyTooLarge(message, details=[fault("", message)])
            if route.body is not None and not self._body:
                raise whole("The body is missing: a JSON object is needed.")
            body = None if route.body is None else decode_body(bytes(self._body))
            return await answer(
                self._projects,
                query.project,
                route,
                lambda box: RestRequest(box, path, query, body, self.base_url),
            )
        except OneToolError as exc:
            return refused(exc)

    def _send(self, response: RestResponse) -> None:
        self.set_status(response.status)
        self.set_header("Cache-Control", "no-store")
        if not self._is_read:
            self.set_header("Connection", "close")
        if response.body is None:
            self.finish()
            return
        self.finish(
            json.dumps(response.body, ensure_ascii=False, separators=(",", ":")).encode(
                "utf-8", "replace"
            )
        )


class _UnknownPath(_Handler):
    """Answers 404 for every other path below ours."""

    def check_path(self) -> None:
        about = "All paths are in onetool/openapi.json."
        raise web.HTTPError(404, f"There is no {self.request.path}. {about}")


class _Callback(JupyterHandler):
    """Where a browser brings the answer of a sign-in to an MCP server. A kernel of this user waits
    for it."""

    auth_resource = "onetool"

    def initialize(self, mailbox: Mailbox) -> None:
        """Take the arguments of the URL rule."""
        self._mailbox = mailbox

    @web.authenticated
    @authorized(action="execute", resource="onetool")  # type: ignore[untyped-decorator]  # Jupyter's has no types
    def get(self) -> None:
        """Deliver the answer, once, to the kernel that waits for its `state`."""
        answer = read_answer(self.request.query)
        is_taken = answer is not None and self._mailbox.deliver(answer)
        self.set_status(200 if is_taken else 400)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        message = "You may close this page and go back to your notebook."
        self.finish(
            answer_page(message if is_taken else "This sign-in is not known here, or is over.")
        )


async def answer(
    projects: Projects, project: str, route: Route, request: Callable[[Toolbox], RestRequest]
) -> RestResponse:
    """Answer a request. A refusal is masked like a response, and so is the log of an error of
    ours."""
    async with projects.use(project) as opened:
        try:
            outcome = await projects.work(opened, lambda: route.run(request(opened.current())))
        except OneToolError as exc:
            outcome = refused(exc)
        except Exception as exc:  # noqa: BLE001 - the REST boundary
            text = "".join(traceback.format_exception(exc))
            _log.error("%s %s: %s", route.verb, route.path, opened.mask(text))
            outcome = of_status(500)
        return RestResponse(outcome.status, opened.mask(outcome.body))


def _handler(path: str, routes: Mapping[str, Route]) -> type[_Handler]:
    """Make the handler class of one path."""

    def method(route: Route) -> Callable[..., Any]:
        @web.authenticated
        @authorized(action=route.action, resource="onetool")  # type: ignore[untyped-decorator]  # Jupyter's has no types
        async def verb(self: _Handler, *args: str) -> None:
            await self.serve(route, args)

        return verb

    names = tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))
    limits = {
        "names": names,
        "max_body": max(route.max_body for route in routes.values()),
        "verbs": ", ".join(routes),
    }
    methods = {verb.lower(): method(route) for verb, route in routes.items()}
    return type(
        f"{next(iter(routes.values())).operation}_handler", (_Handler,), {**limits, **methods}
    )


def callback_url(server: Any, env: Mapping[str, str]) -> str:
    """Return where a browser reaches our call-back, as far as this server knows; empty if it does
    not.

    Under JupyterHub only the Hub knows the public address. Plain http counts on this machine only:
    authorization servers refuse to send a browser elsewhere without encryption.
    """
    public = env.get("JUPYTERHUB_PUBLIC_URL") or (
        "" if "JUPYTERHUB_SERVICE_PREFIX" in env else server.public_url
    )
    parts = urlsplit(public)
    base = server.web_app.settings["base_url"]
    url = f"{parts.scheme}://{parts.netloc}{url_path_join(base, CALLBACK)}"
    return url if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url)) else ""


def load(server: Any) -> None:
    """Add our routes to a Jupyter server, and close the projects with it. Its kernels inherit the
    call-back."""
    projects = Projects(Path(server.root_dir))
    atexit.register(projects.close)
    base = server.web_app.settings["base_url"]
    home = home_of(os.environ)
    mailbox = Mailbox(state_base(os.environ, home) / "tokens")
    rule = (url_path_join(base, f"{CALLBACK}$"), _Callback, {"mailbox": mailbox})
    server.web_app.add_handlers(".*$", [rule, *rules(base, projects)])

    def offer() -> None:  # the port is known only once the server listens
        os.environ.pop(CALLBACK_ENV, None)
        if url := callback_url(server, os.environ):
            os.environ[CALLBACK_ENV] = url

    server.io_loop.add_callback(offer)
    server.log.info(
        "onetool_ipy: the REST API is at onetool/tools, its description at onetool/openapi.json"
    )


class Projects:
    """The toolboxes of one server by folder. Belongs to the event loop of the server; files are
    read in workers."""

    def __init__(
        self, root: Path, *, env: Mapping[str, str] | None = None, max_open: int = MAX_OPEN
    ) -> None:
        self._root = Path(os.path.realpath(root))
        self._env = os.environ if env is None else env
        self._max_open = max_open
        self._workers = Workers()
        self._open: dict[Path, _OpenProject] = {}

    @asynccontextmanager
    async def use(self, named: str = "") -> AsyncIterator[_OpenProject]:
        """Give the project of a folder, and keep its toolbox open while it is in use."""
        folder = _folder(self._root, named)
        # The one that was used last is the last in the dict, and closed last.
        project = self._open.pop(folder, None) or _OpenProject(folder, self._env)
        self._open[folder] = project
        project.users += 1
        try:
            yield project
        finally:
            self._release(project)

    def _release(self, project: _OpenProject) -> None:
        """End one use of a project. Those that nobody uses are closed if too many are open."""
        project.users -= 1
        idle = [each for each in self._open.values() if not each.users]
        for each in idle[: max(0, len(self._open) - self._max_open)]:
            del self._open[each.folder]
            self._workers.submit(each.close)

    async def work(self, project: _OpenProject, do: Callable[[], _T]) -> _T:
        """Run a blocking function in a worker thread and wait for it. A client that leaves ends its
        wait for an API."""
        loop = asyncio.get_running_loop()

        def over(_done: object) -> None:
            with suppress(RuntimeError):  # the loop is closed, and the server with it
                loop.call_soon_threadsafe(self._release, project)

        # The worker uses the project until it is done, also when its client left before: no toolbox
        # is closed under a call that runs.
        project.users += 1
        task = self._workers.submit(do)
        task.future.add_done_callback(over)
        try:
            done: _T = await asyncio.wrap_future(task.future)
            return done
        except asyncio.CancelledError:
            # No exception is thrown into the thread: it may hold a lock of the project.
            task.is_abandoned = True
            raise

    def boxes(self) -> list[Toolbox]:
        """Return the open toolboxes."""
        return [project.box for project in self._open.values() if project.box is not None]

    def close(self) -> None:
        """Close all; may be called twice."""
        for project in self._open.values():
            project.close()
        self._open.clear()


class _OpenProject:
    """One folder's toolbox, its files as they were read, and the number of its users."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.box: Toolbox | None = None
        self.users = 0
        self._env = env
        self._lock = threading.Lock()
        self._is_closed = False
        self._files = _Files((), is_sure=False, contents=[])
        self._next_reap = 0.0

    def current(self) -> Toolbox:
        """Return the toolbox, reloaded if a file changed. A faulty file leaves the last good
        configuration."""
        with self._lock:
            # The client of this request has left, and its project was closed before a worker came
            # to it.
            if self._is_closed:
                raise NotFound("The project was closed.")
            before, files = self._files, self._read_files()
            if self.box is None:
                self.box = open_leniently(env=self._env, cwd=self.folder)
                # The project's programs are started by its kernels, never here.
                self.box.servers.close()
            elif files.contents != before.contents:
                # It keeps the last good configuration, and says so among its problems.
                with suppress(InvalidConfig):
                    self.box.reload()
            self._files = files
            self.box.gate.refresh()
            if time.monotonic() >= self._next_reap:
                # Every write removes what was deleted long ago, but a project may only be read.
                self._next_reap = time.monotonic() + _REAP_EVERY_S
                with suppress(OneToolError):  # the next request for a bundle reports a broken store
                    self.box.bundles.reap()
            return self.box

    def mask(self, value: _T) -> _T:
        """Return text or JSON without the secrets of the project."""
        masked: _T = value if self.box is None else self.box.config.secrets.mask_value(value)
        return masked

    def close(self) -> None:
        """Close the toolbox; it is not opened again."""
        with self._lock:
            self._is_closed = True
            if self.box is not None:
                self.box.close()

    def _read_files(self) -> _Files:
        """Return the configuration files as they are now. They are read only if a stamp changed, or
        is so young that it may hide a change."""
        home = home_of(self._env)
        config = find_config(None, env=self._env, cwd=self.folder, home=home)
        files = [] if config.config_file is None else [config.config_file]
        if config.onetool_dir is not None:
            files += [config.onetool_dir / name for name in _READ_TOO]
        # The stamps are those of before the reading: a change meanwhile is seen by the next look.
        stamps = tuple((file, stamp_of(file) or file.is_symlink()) for file in files)
        if self._files.is_sure and stamps == self._files.stamps:
            return self._files
        is_sure = not any(isinstance(stamp, tuple) and is_young(stamp) for _, stamp in stamps)
        contents: list[object] = []
        for file in files:
            try:
                content = read(file)
                contents.append((file, None if content is None else content.data))
            except Unreadable as exc:
                contents.append((file, str(exc)))
        return _Files(stamps, is_sure=is_sure, contents=contents)


class _Files(NamedTuple):
    """Configuration files with their stamps and contents. `is_sure` says that equal stamps mean
    equal contents. A file that is missing has a stamp too: whether a link stands there."""

    stamps: tuple[tuple[Path, Stamp | bool], ...]
    is_sure: bool
    contents: list[object]


def _folder(top: Path, named: str) -> Path:
    """Return the folder that `project=` names. It must be inside the top one, also after following
    links."""
    if not named:
        return top
    if "\0" in named or len(named) > 4096:
        raise InvalidRequest("project: this is not a path.")
    folder = Path(os.path.realpath(top / named))
    if not folder.is_relative_to(top):
        raise Forbidden(
            "This project is outside of the folder that Jupyter serves, so its bundles are not"
            " listed here.",
            hint="Its tools work in the notebook. To list them, start Jupyter in a folder above.",
        )
    try:
        is_folder, is_there = folder.is_dir(), os.path.lexists(folder)
    except OSError as exc:
        raise InvalidRequest(f"project: '{named}': {exc.strerror}.") from None
    if not is_there:
        raise NotFound(f"project: there is no folder '{named}'.")
    if not is_folder:
        raise InvalidRequest(f"project: '{named}' is not a folder.")
    return folder
