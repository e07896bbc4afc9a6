"""Packs and tools as plain Python objects: `brave.search(query="x")`, `await
brave.search.aio(query="x")`.

Thin over the toolbox they belong to: a call here is like any other. `ot` is a pack too, with two
differences: error texts that spec 001 wants returned are returned, and `ot.run` is the Python twin
of `$`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    OneToolError,
    Returned,
    ToolCallError,
    ToolNotFound,
    UsageProblem,
)
from onetool_ipy.base.printable import printable
from onetool_ipy.core.current import scope
from onetool_ipy.core.result import ToolResult, own_frames
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.core.tool import CallSource, ToolSpec
from onetool_ipy.render.views import ErrorText, Listing
from onetool_ipy.schema.read import identifier, signature_of
from onetool_ipy.stores.replays import Replaying

if TYPE_CHECKING:
    import datetime
    import inspect
    import os

    from onetool_ipy.core.registry import Registry
    from onetool_ipy.core.resolve import Arguments, ResolvedCall
    from onetool_ipy.host import Host, Screens
    from onetool_ipy.mcp.listing import ServerListing
    from onetool_ipy.mcp.resources import Watch
    from onetool_ipy.mcp.servers import Servers
    from onetool_ipy.snippets.definition import Shortcuts
    from onetool_ipy.stores.replays import Replays
    from onetool_ipy.trust_gate import TrustGate


_Function = TypeVar("_Function", bound=Callable[..., Any])


class CallingToolbox(Protocol):
    """What packs and tools as Python objects need of their toolbox. A reload replaces most of
    it."""

    host: Host

    @property
    def gate(self) -> TrustGate: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def servers(self) -> Servers: ...

    @property
    def shortcuts(self) -> Shortcuts: ...

    @property
    def replays(self) -> Replays: ...

    def call(
        self, tool: str, args: Arguments | None = None, *, source: CallSource = ...
    ) -> ToolResult: ...

    def resolve(
        self, tool: str, args: Arguments | None = None, *, source: CallSource = ...
    ) -> ResolvedCall: ...

    async def acall(self, tool: ResolvedCall) -> ToolResult: ...

    def run(self, tool: str, args: Mapping[str, Any] | None = None) -> ToolResult: ...

    def read_resource(self, server: str, uri: str) -> ToolResult: ...

    def adopt(
        self,
        thing: object,
        pack: str = ...,
        *,
        deps: object = ...,
        read_only: Iterable[str] | str = ...,
    ) -> list[str]: ...

    def mask(self, text: str) -> str: ...

    def now(self) -> datetime.datetime: ...


class PackProxy:
    """A pack as an object: `brave.search(query="x")`. Names that Python cannot spell:
    `pack["get-sum"](...)`."""

    def __init__(self, box: CallingToolbox, name: str) -> None:
        self._box = box
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_") and not attribute[1:2].isdigit():
            raise AttributeError(attribute)
        if (
            attribute in _OFFERS
            and self._name in self._box.servers
            and (self._box.registry.get(f"{self._name}.{attribute}") is None)
        ):
            load = partial(_OFFERS[attribute], self._box, self._name)
            is_list = attribute != "watch"
            return (
                UnlistedOffers(self._name, load)
                if is_list and self._box.servers.is_unknown(self._name)
                else load()
            )
        proxy = self[attribute]
        if type(proxy) is not UnlistedTool:
            self.__dict__[attribute] = (
                proxy  # it looks its tool up by itself, whatever becomes of it
            )
        return proxy

    def __getitem__(self, tool: str) -> ToolProxy:
        proxy = self._find(tool)
        if proxy is None:
            error = self._box.registry.missing(f"{self._name}.{tool}")
            raise ToolNotFound(self._box.mask(error.message), hint=error.hint)
        return proxy

    def __dir__(self) -> list[str]:
        names = {identifier(spec.short_name) for spec in self._specs()}
        return sorted({*names, *_OFFERS, "read"} if self._name in self._box.servers else names)

    def __repr__(self) -> str:
        return self._box.mask(f"<pack {self._name}: {', '.join(self.__dir__())}>")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PackProxy) and other._name == self._name and other._box is self._box
        )

    def __hash__(self) -> int:
        return hash((id(self._box), self._name))

    def getdoc(self) -> str:
        """The tools of the pack with their summaries.

        IPython calls `getdoc` of any object for `?` and Shift-Tab. A tool of that name would be
        called by looking, so it is reached by `pack["getdoc"]` only.
        """
        if self._box.servers.is_unknown(self._name):
            return (
                f"The server '{self._name}' has not been started yet, so its tools are not known."
            )
        lines = [f"{spec.signature}\n    {spec.summary}" for spec in self._specs()]
        return printable(self._box.mask("\n".join(lines)))

    def _ipython_key_completions_(self) -> list[str]:
        return [spec.short_name for spec in self._specs()]

    def _specs(self) -> list[ToolSpec]:
        return self._box.registry.pack(self._name) or []

    def _find(self, tool: str) -> ToolProxy | None:
        spec = self._box.registry.find(f"{self._name}.{tool}")
        if spec is None:
            specs = (*self._specs(), *self._box.registry.unlisted(self._name))
            spelled = (s for s in specs if identifier(s.short_name) == tool)
            spec = next(spelled, None)
        if spec is not None:
            return self._proxy(spec)
        return (
            UnlistedTool(self._box, self._name, tool)
            if self._box.servers.is_unknown(self._name)
            else None
        )

    def _proxy(self, spec: ToolSpec) -> ToolProxy:
        return ToolProxy(self._box, spec)


@without_secrets
class UnlistedOffers:
    """The resources or prompts of a server that has not been listed yet. Using the rows starts the
    server.

    A look starts nothing. Shift-Tab asks for the length of an object, so this has none.
    """

    def __init__(self, server: str, load: Callable[[], Listing]) -> None:
        self._server = server
        self._load = load

    def __iter__(self) -> Iterator[object]:
        return iter(self._load())

    def __getitem__(self, index: int) -> object:
        return self._load()[index]

    def __repr__(self) -> str:
        return printable(
            f"<not known yet: the server '{self._server}' tells them when they are used>"
        )

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        rows = self._load()
        return {"text/plain": repr(rows), "text/html": rows._repr_html_()}


def _listing_of(box: CallingToolbox, server: str) -> ServerListing:
    """Return what a server offers; starts it if that is not known yet. Raises ToolNotFound with the
    reason."""
    listing = box.servers.listing(server)
    if listing is None:
        box.gate.require_server(server)
        box.servers.seek(f"{server}.")
        listing = box.servers.listing(server)
    if listing is None:
        raise box.registry.missing(f"{server}.resources")
    return listing


def resources_of(box: CallingToolbox, server: str) -> Listing:
    """The resources and templates of a server as a table. Starts the server if they are not known
    yet."""
    from onetool_ipy.mcp.resources import resource_rows

    return Listing(values.map_text(resource_rows(_listing_of(box, server)), box.mask))


def prompts_of(box: CallingToolbox, server: str) -> Listing:
    """The prompts of a server as a table, each with the line that uses it."""
    _listing_of(box, server)
    prompts = [spec for spec in box.registry.prompts() if spec.server == server]
    rows = [{"prompt": usage_of(spec), "description": spec.summary} for spec in prompts]
    return Listing(values.map_text(rows, box.mask))


def usage_of(prompt: ToolSpec) -> str:
    """The line that uses a prompt: `$server.prompt city=... [state=...]`."""
    arguments = [f"{p.name}=..." if p.required else f"[{p.name}=...]" for p in prompt.params]
    return " ".join([f"${prompt.name}", *arguments])


def _watch(box: CallingToolbox, server: str) -> Callable[[str], Watch]:
    def watch(uri: str) -> Watch:
        """Follow a resource: `.changed` says whether it changed since `.value` was last read."""
        box.gate.require_server(server)
        return box.servers.watch(server, uri, read=lambda: box.read_resource(server, uri).unwrap())

    return watch


_OFFERS: Mapping[str, Callable[[CallingToolbox, str], Any]] = {
    "prompts": prompts_of,
    "resources": resources_of,
    "watch": _watch,
}
"""What a server's pack has besides its tools; a tool of the same name wins."""


class ToolProxy:
    """A tool as a function: returns the raw value, raises the tool's own exception; `.aio` is its
    async twin."""

    def __init__(self, box: CallingToolbox, spec: ToolSpec) -> None:
        self._box = box
        self._know(spec)
        self.__name__ = spec.short_name
        self.__qualname__ = spec.name

    def _know(self, spec: ToolSpec) -> None:
        self._known = spec
        self._tool = spec.name

    @property
    def _spec(self) -> ToolSpec:
        """The tool as it is known now; as it was, if it is gone."""
        return self._box.registry.get(self._tool) or self._known

    @property
    def __doc__(self) -> str:  # type: ignore[override]  # each tool has its own
        return printable(self._box.mask(self._spec.doc))

    @property
    def __signature__(self) -> inspect.Signature:
        return signature_of(values.map_text(self._spec.parameters, self._box.mask))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        here = scope()
        source: CallSource = "python" if here is None or here.depth == 0 else "tool"
        result = self._box.call(self._tool, (args, kwargs), source=source)
        return result.data if result.error is None else self._failed(result)

    async def aio(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call without blocking the event loop."""
        __tracebackhide__ = True
        # The call belongs to the cell that makes it, so it is resolved before anything is awaited.
        resolved = self._box.resolve(self._tool, (args, kwargs), source=_caller())
        result = await self._box.acall(resolved)
        return result.data if result.error is None else self._failed(result)

    def __repr__(self) -> str:
        return printable(self._box.mask(f"<tool {self._spec.signature}>"))

    def _failed(self, result: ToolResult) -> Any:
        __tracebackhide__ = True
        raise_failure(self._box.host, result)


class UnlistedTool(ToolProxy):
    """A tool of a server whose tools are not listed yet. Looking at it starts nothing; a call
    starts the server."""

    def __init__(self, box: CallingToolbox, server: str, tool: str) -> None:
        description = (
            f"A tool of the server '{server}'. The server lists its tools when one of them is"
            " called."
        )
        empty = {"type": "object"}
        stub = ToolSpec(
            name=f"{server}.{tool}",
            description=description,
            parameters=empty,
            run=lambda _args: None,
        )
        super().__init__(box, stub)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        self._find()
        return super().__call__(*args, **kwargs)

    async def aio(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call without blocking the event loop."""
        __tracebackhide__ = True
        self._find()
        return await super().aio(*args, **kwargs)

    def _find(self) -> None:
        # The name is how Python spells it: the server has to list its tools before theirs is known.
        self._box.gate.prepare(self._spec.name, None, _caller())
        proxy = PackProxy(self._box, self._spec.pack)._find(self._spec.short_name)
        if proxy is not None:
            self._know(proxy._known)


def _of_ot(function: _Function) -> _Function:
    """Give a function of `ot` the name by which people call it, which Python's own errors say."""
    function.__qualname__ = f"ot.{function.__name__}"
    return function


class OtProxy(PackProxy):
    """`ot` for Python code: where spec 001 wants an error text returned, it is returned
    (ErrorText)."""

    def __dir__(self) -> list[str]:
        return sorted(
            {*super().__dir__(), *(name for name in vars(OtProxy) if not name.startswith("_"))}
        )

    @_of_ot
    def run(self, name: str, /, **params: Any) -> Any:
        """Do what `$name` does: run a snippet and give its last value, or call a tool and give its
        ToolResult.

        A snippet runs in the notebook's namespace, outside a notebook in that of the caller's
        module.
        """
        from onetool_ipy.snippets.definition import Snippet, expand

        target = self._box.shortcuts.find(name.removeprefix("$"))
        if not isinstance(target, Snippet):
            return self._box.run(target or name, params)
        self._box.gate.require_snippet(target.name)
        code = expand(target, params)
        return self._box.host.run_code(code, target.name, sys._getframe(1).f_globals)

    @_of_ot
    def sql(self, query: str) -> ToolResult:
        """Answer one SELECT over the calls, stored results and your own tables, by name: `.df`,
        `.handle` and `.view()` as of any result.

        `show tables` lists them: `calls`, `r_HANDLE` and your DataFrames and results. A query only
        reads, and reaches no files and no network.
        """
        __tracebackhide__ = True
        result = self._box.call("ot.sql", {"query": query}, source=_caller())
        if result.error is not None:
            raise_failure(self._box.host, result)
        return result

    @_of_ot
    def replay(self, file: str | os.PathLike[str], *, mode: str | None = None) -> Replaying:
        """Record what calls give the first time, and answer them from the file after: `with
        ot.replay("calls.jsonl"):`.

        The same call again takes the next answer. Secrets are masked in the file. `mode="auto"`
        records what is not in the file; `mode="replay"` only answers, which is the default where
        `$CI` is set; `mode="refresh"` records everything again. `$ONETOOL_REPLAY` names the mode
        where none is given. `.begin()` and `.end()` do without `with`.
        """
        return Replaying(
            self._box.replays, file, mode=mode, mask=self._box.mask, clock=self._box.now
        )

    @_of_ot
    def adopt(
        self,
        thing: object,
        pack: str = "",
        *,
        deps: object = None,
        read_only: Iterable[str] | str = (),
    ) -> list[str]:
        """Make tools of another framework's tools, of objects, modules or "module:name"; see
        `Toolbox.adopt`."""
        return self._box.adopt(thing, pack, deps=deps, read_only=read_only)

    @_of_ot
    def browser(self, tool: str = "", args: dict[str, object] | None = None) -> object:
        """Open the tool browser: search, forms, results; at a tool if one is named."""
        return self._screens().browser(tool, args)

    @_of_ot
    def view(self, result: object) -> object:
        """Open the result viewer on a result, on the stored result with this handle, or on any
        other value."""
        return self._screens().result(result)

    @_of_ot
    def usage(self, period: str = "week", tool: str = "", since: str = "") -> object:
        """Open the usage view: calls over time, latency, failures; `since` is a time such as
        `yesterday` or `3d`."""
        return self._screens().usage(period, tool, since)

    def _screens(self) -> Screens:
        screens = self._box.host.screens()
        if screens is None:
            from onetool_ipy import _host_here

            self._box.host = _host_here(self._box) or self._box.host
            screens = self._box.host.screens()
        if screens is None:
            raise UsageProblem(
                "There is no screen here.", hint="In a notebook: %load_ext onetool_ipy"
            )
        return screens

    def _proxy(self, spec: ToolSpec) -> ToolProxy:
        return OtTool(self._box, spec)


class OtTool(ToolProxy):
    """A tool of the `ot` pack. A tool given to one, as in `ot.map(nb.add, df)`, stands for its
    name."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return super().__call__(*map(_named, args), **_all_named(kwargs))

    async def aio(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call without blocking the event loop."""
        __tracebackhide__ = True
        return await super().aio(*map(_named, args), **_all_named(kwargs))

    def _failed(self, result: ToolResult) -> Any:
        if result.error is not None and isinstance(result.error.exception, Returned):
            return ErrorText(f"{result.error.message} {result.error.hint}".rstrip())
        return super()._failed(result)


def raise_failure(host: Host, result: ToolResult) -> NoReturn:
    """Raise what a failed result stands for: the tool's own exception where it has one, else
    ToolCallError."""
    __tracebackhide__ = True
    assert result.error is not None
    own = result.error.exception
    host.call_failed(result)
    if own is None or isinstance(own, OneToolError):
        raise ToolCallError(result) from None
    host.style_error(own)
    raise own.with_traceback(own_frames(own))


def _named(value: Any) -> Any:
    """Return the name of a tool that was given as an object; any other value as it is."""
    return value._spec.name if isinstance(value, ToolProxy) else value


def _all_named(values_by_name: dict[str, Any]) -> dict[str, Any]:
    return {name: _named(value) for name, value in values_by_name.items()}


def _caller() -> CallSource:
    here = scope()
    return "python" if here is None or here.depth == 0 else "tool"
