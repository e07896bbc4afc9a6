"""One configured MCP server: whether it is connected, what it offers, and calls to it over one link after another.

Its async methods run on the background loop. Starting is shared by all who wait for it; a link that is dead is replaced
before something is sent, never after. What was a server of another process (before a fork) or of a loop that was given
up is not touched: there the server counts as not started.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from onetool_ipy.base.errors import (
    TRUST_IT,
    Unavailable,
    Untrusted,
)
from onetool_ipy.core.tool import Problem
from onetool_ipy.mcp.connection import Connection, NotSent, Progress
from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.mcp.listing import ListingCache, ServerListing
from onetool_ipy.mcp.process import StderrLog

__all__ = ["Server", "State"]

State = Literal["connected", "not started", "failed", "signed out", "untrusted", "disconnected", "disabled"]

"""`failed` did not start, `signed out` answered 401, `disconnected` was connected and died or was stopped."""

_WELL: tuple[State, ...] = ("connected", "disabled", "untrusted")

_QUICK_S = 3.0

_AGAIN_S = 60.0

_SIGNED_OUT = 401

_LAST_LINES = 20

_log = logging.getLogger("onetool_ipy.sources")


class Server:
    """A server by its definition. `listing` is what it is known to offer, None as long as nobody knows."""

    _link: Connection | None
    _starting: asyncio.Task[Connection] | None
    _tried_at: float | None

    def __init__(
        self,
        definition: ServerDefinition,
        surroundings: Mapping[str, str],
        shelf: ListingCache,
        on_change: Callable[[], None],
    ) -> None:
        self.definition = definition
        self._surroundings = surroundings
        self._shelf = shelf
        self._on_change = on_change
        self._spill: StderrLog | None = None
        self._known: ServerListing | None = None
        self._is_looked_up = False
        self._forget()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def listing(self) -> ServerListing | None:
        """The tools as last heard of, by the server itself or by what was kept of it."""
        if self._known is None and not self._is_looked_up:
            self._is_looked_up = True
            self._known = self._shelf.get(self.definition)
        return self._known

    def has_failed_lately(self) -> bool:
        """Whether it did not start a short while ago, here or in another kernel: then a listing does without it."""
        return self._shelf.has_failed(self.definition)

    @property
    def state(self) -> State:
        """How the server is, now."""
        if not self.definition.enabled:
            return "disabled"
        if not self.definition.is_allowed:
            return "untrusted"
        link = self._own_link()
        if link is not None and link.is_good() and not self._is_mute:
            return "connected"
        if self._was_connected:
            return "disconnected"
        if not self._why or self._is_stopped or self._starting is not None:
            return "not started"
        return "signed out" if self._is_signed_out else "failed"

    @property
    def reason(self) -> str:
        """Why the server is not connected; empty where it is, or was never started."""
        if self.state == "connected":
            return ""
        if self.state == "disabled":
            return "It is switched off in the configuration."
        if self.state == "untrusted":
            return f"It is not trusted yet. {TRUST_IT}"
        if self._is_stopped:
            return "It was stopped."
        if self._is_mute:
            return "It does not answer."
        if self._starting is not None:  # for longer than one waits
            return self._why or "It is still starting."
        return self._why or ("It ended." if self._was_connected else "")

    def explanation(self) -> tuple[str, str]:
        """Why it has no tools to call, and what to do, in words; empty where it was not tried."""
        begins = {
            "disabled": f"The server '{self.name}' is switched off.",
            "failed": f"The server '{self.name}' did not start. {self._why}",
            "signed out": f"The server '{self.name}' wants other credentials. {self._why}",
            "disconnected": f"The server '{self.name}' is disconnected. {self.reason}",
        }
        said = begins.get(self.state, f"The server '{self.name}' has not started. {self.reason}" if self.reason else "")
        hints = {"disabled": "Set 'enabled: true' and reload."}
        if self._is_stopped:
            hints[self.state] = f"Start it with: %tool server start {self.name}"
        return said, hints.get(self.state, self._hint or self._advice) if said else ""

    def last_words(self) -> Any:
        """The end of what the server wrote to stderr, as details of a failure."""
        lines = self.logs().splitlines()[-_LAST_LINES:]
        return {"server": self.name, "stderr": lines} if lines else None

    @property
    def _advice(self) -> str:
        if self.definition.type == "http":
            return "Does it run, and are its address and headers right?"
        return f"See what it wrote: %tool server logs {self.name}"

    @property
    def was_tried(self) -> bool:
        """Whether it was started, with or without success, in this process."""
        return self._pid == os.getpid() and self._tried_at is not None

    @property
    def is_begun(self) -> bool:
        """Whether there is something to end."""
        return self._own_link() is not None or self._starting is not None

    @property
    def pid(self) -> int | None:
        """The process id of a stdio server that runs."""
        link = self._own_link()
        return link.child.pid if link is not None and link.child is not None and link.is_good() else None

    def logs(self) -> str:
        """The last of what the server wrote to stderr."""
        return "" if self._spill is None else self._spill.text()

    def problems(self) -> list[Problem]:
        """Why it is not there, if it was tried; and which of its tools cannot be offered."""
        found = []
        if self.was_tried and self.reason and self.state not in _WELL and not self._is_stopped:
            hint = self._hint or self._advice
            found.append(Problem(self.definition.where, f"The server '{self.name}': {self.reason}", hint))
        faults = () if self.listing is None else self.listing.faults
        hint = "Update the server, or tell those who make it."
        found += [Problem(self.definition.where, f"The server '{self.name}': {fault}", hint) for fault in faults]
        return found

    def may_be_tried(self) -> bool:
        """Whether asking for its health should start it: not if it died, was stopped, or just took long to fail."""
        if not self.definition.enabled or self._is_stopped or (self.was_tried and self._was_connected):
            return False
        if not self.was_tried or self._tried_at is None:
            return True
        return self._took_s < _QUICK_S or time.monotonic() - self._tried_at > _AGAIN_S

    async def connect(self) -> Connection:
        """The link to the running server, which is started if need be; raises Unavailable where it does not."""
        link = self._link_here()
        if link is not None and link.is_good() and not self._is_mute:
            return link
        if not self.definition.is_allowed:
            raise Untrusted(f"The server '{self.name}' is not trusted yet.", hint=TRUST_IT, server=self.name)
        if not self.definition.enabled:
            raise Unavailable(f"The server '{self.name}' is switched off.", hint="Set 'enabled: true' and reload.")
        if self._is_stopped:
            raise Unavailable(
                f"The server '{self.name}' was stopped.", hint=f"Start it with: %tool server start {self.name}"
            )
        if self._starting is None:
            task = asyncio.get_running_loop().create_task(self._start(), context=contextvars.Context())
            self._starting = task
            task.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    async def call(self, tool: str, args: dict[str, Any], progress: Progress | None) -> Any:
        """Call one of its tools, once."""
        link = await self.connect()
        try:
            return await link.call(tool, args, progress)
        except NotSent:
            link = await self.connect()
        try:
            return await link.call(tool, args, progress)
        except NotSent:
            raise Unavailable(f"The server '{self.name}' does not take calls. {link.why}".rstrip()) from None

    async def look(self) -> None:
        """Find out whether it answers now; a server that was never started is started."""
        link = self._link_here()
        if link is not None and link.is_good():
            self._is_mute = not await link.answers()
        if link is not None and not link.is_good():
            await link.over()  # it says why
        elif self.may_be_tried():
            await self.connect()

    async def start(self) -> None:
        """Start it, also where it was stopped."""
        self._is_stopped = False
        await self.connect()

    async def stop(self) -> None:
        """End it; it stays so until it is started."""
        self._is_stopped = True
        await self._end_link("It was stopped.")

    async def restart(self) -> None:
        """End it and start it anew."""
        self._is_stopped = False
        await self._end_link("It was stopped.")
        await self.connect()

    def drop(self) -> None:
        """End it without waiting, from any thread."""
        link = self._own_link()
        if link is not None:
            link.drop()

    async def _start(self) -> Connection:
        began = time.monotonic()
        await self._end_link("")
        self._spill = self._spill or StderrLog()
        self._tried_at, self._was_connected, self._is_mute = began, False, False
        link = Connection(self.definition, self._surroundings, self._spill, on_list=self._listed, on_end=self._ended)
        self._link = link
        try:
            await link.ready
        except Unavailable as exc:
            self._why, self._hint = exc.message, exc.hint
            self._is_signed_out = link.status == _SIGNED_OUT
            self._shelf.note_failure(self.definition)
            _log.error("The server '%s' did not start; ot.health() says why.", self.name)
            hint = exc.hint or self._advice
            said = f"The server '{self.name}' did not start. {exc.message}"
            raise Unavailable(said, hint=hint, details=self.last_words()) from None
        finally:
            self._took_s = time.monotonic() - began
        self._was_connected, self._why, self._hint = True, "", ""
        return link

    def _started(self, task: asyncio.Task[Connection]) -> None:
        if self._starting is task:
            self._starting = None
        if not task.cancelled():
            task.exception()  # who waited has heard of it

    def _listed(self, listing: ServerListing) -> None:
        before, self._known = self._known, listing
        if before != listing:
            self._shelf.put(self.definition, listing)
            self._on_change()

    def _ended(self, link: Connection) -> None:
        if self._link is link:
            self._why = link.why or "It ended."

    async def _end_link(self, why: str) -> None:
        link, self._link = self._link_here(), None
        if link is not None:
            await link.stop(why)

    def _own_link(self) -> Connection | None:
        """The link, if it is one of this process and its loop is still there."""
        if self._pid != os.getpid():
            self._forget()
        if self._link is not None and self._link.loop.is_closed():
            self._link = self._starting = None
        return self._link

    def _link_here(self) -> Connection | None:
        """The same, for code on the background loop: a loop that was given up, with what is on it, does not count."""
        link = self._own_link()
        if link is not None and link.loop is not asyncio.get_running_loop():
            link.drop()
            self._link = link = self._starting = None
        return link

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._link = None
        self._starting = None
        self._tried_at = None
        self._took_s = 0.0
        self._was_connected = self._is_stopped = self._is_mute = self._is_signed_out = False
        self._why = self._hint = ""
