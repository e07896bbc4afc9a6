"""Servers: owns all MCP servers of a toolbox; a mapping from name to state. It survives a reload.

    servers["git"]                     its state now; starts nothing
    servers.check()                    {name: state} after starting what was never started and
                                       probing the rest
    servers.start/stop/restart("git")  wait; Unavailable says why a server does not start
    servers.test("git")                {server, ok, ms, tools, about, protocol}, and
                                       {reason, stderr} if not ok
    servers.sign_in("notion")          the link for a person; `await_sign_in` waits for the end,
                                       `sign_out` undoes it
    servers.add(definition)            adds a server for this session; `remove` takes it out again

Thread-safe: everything that touches a running server happens on the background loop, and callers
wait for it. Creating `Servers` starts nothing. On the loop's own thread nothing waits: methods use
what is known.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.background import Background
from onetool_ipy.base.errors import (
    CallFailure,
    OneToolError,
    ToolNotFound,
    Unavailable,
    UsageProblem,
)
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.values import Json
from onetool_ipy.core import current
from onetool_ipy.core.tool import Problem, ToolSpec
from onetool_ipy.mcp.definition import SIGN_IN_S, ServerDefinition, State
from onetool_ipy.mcp.listing import ListingCache, ServerListing, to_specs
from onetool_ipy.mcp.resources import Send, Watch, complete_argument, offer_specs, prompt_names
from onetool_ipy.stores.tasks import SavedTask, TaskStore
from onetool_ipy.stores.tokens import TokenStore

if TYPE_CHECKING:
    from onetool_ipy.mcp.auth import SignInLink
    from onetool_ipy.mcp.server import Server
    from onetool_ipy.mcp.session import ServerSession


_MORE_S = 5.0
_CLOSE_S = 1.5
_COMPLETE_S = 1.0
_DISCOVERY_S = 30.0

Work = Callable[[], Awaitable[Any]]


class Servers(Mapping[str, State]):
    """The MCP servers by name, each with its state now.

    `unknown` says that the tools of some server may not be known yet. `on_change` is told of other
    tools, `on_state` of each server that has started or ended.
    """

    def __init__(
        self,
        definitions: Iterable[ServerDefinition],
        background: Background,
        *,
        cache: Path,
        tokens: TokenStore,
        tasks: TaskStore,
        environ: Mapping[str, str] | None = None,
        mask: Callable[[str], str] = str,
        wait_s: float = 30,
        on_change: Callable[[], None] = lambda: None,
        on_state: Callable[[], None] = lambda: None,
    ) -> None:
        self.unknown = False
        # The first servers are no change, so nobody is told of them.
        self._on_change: Callable[[], None] = lambda: None
        self._on_state = on_state
        self._background = background
        self._environ = os.environ if environ is None else environ
        self._mask = mask
        self._cache = ListingCache(cache, mask)
        self._tokens = tokens
        self._tasks = tasks
        self._wait_s = wait_s
        self._servers: dict[str, Server] = {}
        self._added: dict[str, ServerDefinition] = {}
        self._is_prepared = False
        self._unwaited: list[Server] = []
        self._is_closed = False
        self._set(definitions)
        self._on_change = on_change

    def __getitem__(self, name: str) -> State:
        return self._servers[name].state

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)

    def __repr__(self) -> str:
        return (
            f"<Servers {', '.join(f'{name}: {state}' for name, state in self.items()) or 'none'}>"
        )

    def reason(self, name: str) -> str:
        """Return why a server is not connected; empty if it is, or was never started."""
        return self._mask(self._require(name).reason)

    def advice(self, name: str) -> str:
        """Return what to do about a server that is not connected; empty if it is, or was never
        started."""
        return self._mask(self._require(name).explanation()[1])

    def logs(self, name: str) -> str:
        """Return the end of a server's stderr output, secrets masked."""
        return self._mask(self._require(name).logs())

    def trace(self, name: str) -> list[Json]:
        """Return the last messages between us and a server as rows, secrets masked. Starts
        nothing."""
        return self._require(name).trace.rows(self._mask)

    def message(self, name: str, number: int) -> str | None:
        """Return one traced message whole, secrets masked; None if it is no longer kept."""
        return self._require(name).trace.message(number, self._mask)

    def pid(self, name: str) -> int | None:
        """Return the process id of a running stdio server."""
        return self._require(name).pid

    def definition(self, name: str) -> ServerDefinition:
        """Return a server's definition. It holds secrets."""
        return self._require(name).definition

    def instructions(self, name: str) -> str:
        """Return a server's instructions, if they are known."""
        server = self._servers.get(name)
        return (
            ""
            if server is None or server.listing is None
            else self._mask(server.listing.instructions)
        )

    def listing(self, name: str) -> ServerListing | None:
        """Return what a server offers, if that is known. Starts nothing."""
        server = self._servers.get(name)
        return None if server is None or not server.definition.enabled else server.listing

    def prompts(self) -> dict[str, Json]:
        """Return the known prompts of all servers by the name that they are called by. Starts
        nothing."""
        listings = ((name, self.listing(name)) for name in self._servers)
        return {
            tool: prompt
            for name, listing in listings
            if listing
            for tool, prompt in prompt_names(name, listing).items()
        }

    def complete(
        self,
        name: str,
        argument: str,
        typed: str,
        others: Mapping[str, str],
        *,
        prompt: str = "",
        template: str = "",
    ) -> list[str]:
        """Ask a connected server how an argument may go on, within a second. Starts nothing; empty
        on any failure."""
        server = self._servers.get(name)
        if server is None or server.state != "connected" or self._background.is_here():
            return []

        def ask(client: object) -> Awaitable[list[str]]:
            return complete_argument(client, prompt, argument, typed, others, template=template)

        try:
            texts = self._background.run(
                lambda: server.complete(lambda session: session.request(ask)),
                _COMPLETE_S,
            )
        except Exception:  # noqa: BLE001 - whatever a server does, Tab gives what else is known
            return []
        return [self._mask(text) for text in texts or ()]

    def watch(self, name: str, uri: str, *, read: Callable[[], object]) -> Watch:
        """Follow a resource; starts the server if needed. `read` reads the resource."""
        server = self._require(name)

        def follow(watch: Watch) -> None:
            self._run(
                lambda: server.request(lambda session: session.watch(watch)),
                server.definition.timeout_s,
            )

        watch = Watch(name, uri, read=read, follow=follow)
        follow(watch)
        return watch

    def tasks(self) -> list[SavedTask]:
        """Return the tasks that earlier calls, maybe of other kernels, have left at servers. Asks
        no server."""
        fingerprints = {
            name: server.definition.fingerprint(self._mask)
            for name, server in self._servers.items()
        }
        return [
            task for task in self._tasks.list() if fingerprints.get(task.server) == task.definition
        ]

    def task(self, word: str) -> SavedTask:
        """Return such a task by its id. Raises UsageProblem if there is none."""
        saved = next((task for task in self.tasks() if task.id == word), None)
        if saved is None:
            raise UsageProblem(f"No job '{values.cut(word, 40)}'.", hint="See: %tool jobs")
        return saved

    def resume(self, task: SavedTask) -> Awaitable[Any]:
        """Wait for the result of a task, in a call of its tool. Starts its server if needed."""
        here = current.scope()
        progress = None if here is None else here.progress
        return self._sender(task.server)(lambda session: session.resume(task, progress))

    def cancel_task(self, word: str) -> SavedTask:
        """Cancel a task and forget it. Starts its server if needed."""
        task = self.task(word)
        server = self._require(task.server)
        if not self._run(
            lambda: server.request(lambda session: session.cancel(task)),
            server.definition.timeout_s,
        ):
            raise Unavailable(
                f"The server '{task.server}' did not confirm the cancellation.", hint="Try again."
            )
        self._tasks.remove(task)
        return task

    def leave_tasks(self) -> None:
        """The kernel ends: tasks of servers at an address go on there, whatever happens to their
        calls."""
        self._tasks.is_closed = True

    def check(self, limit_s: float = math.inf) -> dict[str, State]:
        """Probe every server now, all at once, within `timeouts.mcp_s`. Starts those that were
        never started.

        Leaves out servers that are switched off. A server that died stays `disconnected` until
        something needs it. One that takes longer than `limit_s` goes on starting.
        """
        enabled = [server for server in self._servers.values() if server.definition.enabled]
        allowed = [server for server in enabled if server.definition.is_allowed]
        self._all(allowed, lambda server: server.probe(), min(limit_s, self._wait_s))
        self._is_prepared = True
        return {server.name: server.state for server in enabled}

    def start(self, name: str) -> State:
        """Start a server and wait for it. Raises Unavailable with the reason if it does not
        start."""
        server = self._require(name)
        self._run(server.start, server.definition.timeout_s)
        return server.state

    def stop(self, name: str) -> State:
        """End a server. It stays stopped until it is started."""
        server = self._require(name)
        self._run(server.stop, _MORE_S)
        return server.state

    def restart(self, name: str) -> State:
        """End a server and start it again."""
        server = self._require(name)
        self._run(server.restart, server.definition.timeout_s + _MORE_S)
        return server.state

    def test(self, name: str) -> Json:
        """Start a server if needed and probe it: {server, ok, ms, tools, about, protocol} or {...,
        reason, stderr}."""
        server = self._require(name)
        began, why = time.perf_counter(), ""
        try:
            self._run(server.start, server.definition.timeout_s)
            self._run(server.probe, _MORE_S)
            why = server.reason
        except CallFailure as exc:
            why = exc.message
        listing = server.listing
        report: dict[str, Any] = {
            "server": name,
            "ok": not why,
            "ms": round((time.perf_counter() - began) * 1000),
            "tools": 0 if listing is None else len(listing.tools),
            "about": "" if listing is None else self._mask(listing.about),
            "protocol": "" if listing is None else listing.protocol,
        }
        if why:
            report["reason"] = self._mask(why)
            report["stderr"] = "\n".join(self.logs(name).splitlines()[-20:])
        return report

    def sign_in(self, name: str, *, issuer: str = "") -> SignInLink:
        """Start a sign-in to a server and return the link to show. One that is under way goes on.

        The server starts by itself when the person is done. Raises Unavailable if the server offers
        no sign-in, and UnconfirmedIssuer where a person has to say first that the `issuer` may get
        the secret of their client.
        """
        server = self._require(name)
        link: SignInLink = self._run(
            lambda: server.sign_in(issuer), server.definition.timeout_s + _DISCOVERY_S
        )
        return link

    def await_sign_in(self, name: str, answer: str = "") -> State:
        """Wait for the end of a sign-in; `answer` is the address or code that a person pasted."""
        server = self._require(name)
        self._run(lambda: server.signed_in(answer), SIGN_IN_S + server.definition.timeout_s)
        return server.state

    def sign_out(self, name: str) -> None:
        """Forget the tokens for a server, in all kernels, and revoke them if it can be done."""
        server = self._require(name)
        self._run(server.sign_out, _DISCOVERY_S)
        self._on_change()

    def add(self, definition: ServerDefinition) -> None:
        """Add a server for this session; it survives a reload. Raises UsageProblem if the name is
        taken."""
        if definition.name in self._servers:
            raise UsageProblem(
                f"There is a server '{definition.name}' already.", hint="Give it another name."
            )
        self._added[definition.name] = definition
        self._set([*(server.definition for server in self._servers.values()), definition])

    def added(self) -> list[str]:
        """The names of the servers that were added in this session."""
        return list(self._added)

    def remove(self, name: str) -> None:
        """End and forget a server that was added in this session."""
        if name not in self._added:
            self._require(name)
            raise UsageProblem(
                f"The server '{name}' is in the configuration.",
                hint="Remove it there, then: %tool reload",
            )
        del self._added[name]
        self._set(server.definition for server in self._servers.values() if server.name != name)

    def update(
        self,
        definitions: Iterable[ServerDefinition],
        *,
        wait_s: float,
        hide: Callable[[str], None] | None = None,
    ) -> None:
        """After a reload: end the servers that are gone or changed, keep the others and those added
        in this session.

        `hide` masks a secret in the new configuration.
        """
        self._wait_s = wait_s
        if hide is not None:
            self._tokens.hide_with(hide)
        fresh = {definition.name: definition for definition in definitions}
        self._set({**self._added, **fresh}.values())

    def prepare(self, *, wait: bool = True) -> None:
        """Before a listing: start the servers whose tools are not known yet, ask those whose list
        is stale, and wait.

        Without `wait` the listing comes first; `on_change` reports the tools that are found later.
        """
        if self._background.is_here() or self._is_closed:
            return
        servers = [server for server in self._servers.values() if server.is_stale]
        if wait:
            # A screen that did not wait has begun to start these, or is about to.
            begun = (s for s in self._unwaited if self._servers.get(s.name) is s)
            servers += [s for s in begun if s.listing is None and not s.has_failed_lately()]
            self._unwaited = []
        if not self._is_prepared:
            self._is_prepared = True
            servers += [
                s
                for s in self._servers.values()
                if self._is_unknown(s) and not s.has_failed_lately()
            ]
        if servers and wait:
            self._all(servers, lambda server: server.list_again())
        elif servers:
            self._unwaited = servers
            self._background.submit(
                lambda: _together(servers, lambda server: server.list_again(), self._wait_s)
            )

    def seek(self, tool: object) -> None:
        """Before a call: start the server that its tool name names, if its tools are not known, and
        wait for it."""
        name = tool.partition(".")[0] if isinstance(tool, str) else ""
        server = self._servers.get(name)
        if server is not None and self._is_unknown(server):
            self._all([server], lambda server: server.connect())
        self.unknown = any(server.listing is None for server in self._servers.values())

    def is_unknown(self, name: str) -> bool:
        """Whether there is such a server and its tools are not known yet."""
        server = self._servers.get(name)
        return server is not None and server.definition.enabled and server.listing is None

    def unlisted(self) -> list[str]:
        """Return the servers that could start now, and whose tools are not known yet."""
        return [name for name, server in self._servers.items() if self._is_unknown(server)]

    def is_allowed(self, name: str) -> bool:
        """Whether the user's trust covers a server. An unknown name needs no trust."""
        server = self._servers.get(name)
        return server is None or server.definition.is_allowed

    def tools(self) -> list[ToolSpec]:
        """Return the known tools of all servers. Starts nothing."""
        specs: list[ToolSpec] = []
        for server in self._servers.values():
            if server.definition.enabled and server.listing is not None:
                specs += to_specs(
                    server.definition, server.listing, self._caller(server.name), self._mask
                )
                specs += offer_specs(
                    server.definition, server.listing, self._requester(server.name), self._mask
                )
        return specs

    def explain(self, tool: str) -> ToolNotFound | None:
        """Return the failure of a look-up of a tool that is unknown because its server does not
        run; else None."""
        server = self._servers.get(tool.partition(".")[0])
        if server is None or server.listing is not None or server.state == "untrusted":
            return None
        why, hint = server.explanation()
        if not why:
            return ToolNotFound(
                f"The tool '{values.cut(tool, 80)}' is not known: the server '{server.name}' has"
                " not been started yet.",
                hint=f"Start it with: %tool server start {server.name}",
            )
        message = f"No tool '{values.cut(tool, 80)}'. {why}"
        if server.state not in ("signed out", "starting"):
            hint = f"{hint}\nTry it with: %tool server test {server.name}".lstrip()
        return ToolNotFound(
            self._mask(message),
            hint=self._mask(hint),
            details=values.map_text(server.stderr_details(), self._mask),
        )

    def problems(self) -> list[Problem]:
        """Return what is wrong with servers that were tried, and with tools that cannot be
        offered."""
        return [problem for server in self._servers.values() for problem in server.problems()]

    def clashes(self, packs: Mapping[str, Iterable[ToolSpec]]) -> list[Problem]:
        """Return a problem for each server that shares its name with a pack from another source."""
        problems = []
        for server in self._servers.values():
            others = [spec for spec in packs.get(server.name, ()) if spec.server != server.name]
            if others and server.definition.enabled:
                kind = others[0].origin
                message = (
                    f"The server '{server.name}' has the name of a {kind} pack; their tools are"
                    " mixed under it."
                )
                hint = "Give the server another name to keep them apart."
                problems.append(Problem(server.definition.where, message, hint, server.name))
        return problems

    def close(self) -> None:
        """End all servers. Waits only a moment: their watchdogs do the rest. May be called
        twice."""
        running = [server for server in self._servers.values() if server.is_running]
        if running and not self._is_closed and not self._background.is_here():
            self._all(running, lambda server: server.stop(), _CLOSE_S)
        self._is_closed = True
        for server in running:
            server.drop()

    def _caller(self, name: str) -> Callable[[str, Json], Awaitable[Any]]:
        async def call(tool: str, args: Json) -> Any:
            here = current.scope()
            progress = None if here is None else here.progress
            return await self._sender(name)(lambda session: session.call(tool, args, progress))

        return call

    def _sender(
        self, name: str
    ) -> Callable[[Callable[[ServerSession], Awaitable[Any]]], Awaitable[Any]]:
        return lambda work: self._on_loop(lambda: self._here(name).request(work))

    def _requester(self, name: str) -> Send:
        return lambda request: self._sender(name)(lambda session: session.request(request))

    def _here(self, name: str) -> Server:
        server = self._servers.get(name)
        if server is None or self._is_closed:
            raise Unavailable(
                f"The server '{name}' is gone.",
                hint="Reload, or see what there is: %tool server list",
            )
        return server

    def _is_unknown(self, server: Server) -> bool:
        return server.listing is None and server.definition.is_allowed and server.may_be_tried()

    async def _on_loop(self, work: Work) -> Any:
        """Run work on the background loop, from any loop."""
        if self._background.is_here():
            return await work()
        return await self._background.wait(self._background.submit(work))

    def _run(self, work: Work, limit_s: float) -> Any:
        """Run work on the background loop and wait for it in this thread."""
        if self._background.is_here():
            raise UsageProblem("Servers cannot be waited for on their own event loop.")
        if self._is_closed:
            raise UsageProblem("This toolbox is closed.", hint="Open one with open_toolbox().")
        return self._background.run(work, limit_s + _MORE_S)

    def _all(
        self,
        servers: list[Server],
        work: Callable[[Server], Awaitable[object]],
        wait_s: float | None = None,
    ) -> None:
        """Run work for many servers at once. A failure is in the reason of its server."""
        if not servers or self._background.is_here() or self._is_closed:
            return
        limit_s = self._wait_s if wait_s is None else wait_s
        try:
            self._run(lambda: _together(servers, work, limit_s), limit_s)
        except OneToolError:
            # The loop is stuck; the states are as last known.
            return

    def _set(self, definitions: Iterable[ServerDefinition]) -> None:
        by_name = {definition.name: definition for definition in definitions}
        servers: dict[str, Server] = {}
        for name, server in self._servers.items():
            if name in by_name and by_name[name].runs_like(server.definition):
                server.definition = by_name[name]
                servers[name] = server
            else:
                server.drop()
        if by_name:
            from onetool_ipy.mcp.server import Server

            for name, definition in by_name.items():
                if name not in servers:
                    servers[name] = Server(
                        definition,
                        self._environ,
                        self._cache,
                        self._tokens,
                        self._tasks,
                        on_change=lambda: self._on_change(),  # noqa: PLW0108 - set after the first servers
                        on_state=self._on_state,
                    )
        self._servers = {name: servers[name] for name in by_name}
        self._is_prepared = False
        self.unknown = bool(by_name)
        self._on_change()

    def _require(self, name: str) -> Server:
        server = self._servers.get(name)
        if server is None:
            near = (
                did_you_mean(name, self._servers)
                or f"There are: {', '.join(self._servers) or 'none'}."
            )
            raise UsageProblem(f"No server '{name}'. {near}")
        return server


async def _together(
    servers: list[Server], work: Callable[[Server], Awaitable[object]], limit_s: float
) -> None:
    """Run work for many servers at once, and wait for it up to a limit."""
    import asyncio

    tasks = [asyncio.ensure_future(work(server)) for server in servers]
    await asyncio.wait(tasks, timeout=limit_s)
    for task in tasks:
        if task.done() and not task.cancelled():
            # The server keeps the reason; here the exception is only taken, so that asyncio does
            # not print it.
            task.exception()
        else:
            # Only the wait ends: the start of a server goes on.
            task.cancel()


class ServerTools:
    """The servers as a source of tools for a registry, which their `on_change` tells of news."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def tools(self) -> Iterable[ToolSpec]:
        return self._servers.tools()

    def problems(self) -> Iterable[Problem]:
        return self._servers.problems()

    refresh = None
