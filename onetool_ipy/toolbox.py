"""Toolbox: the one owner of what lives; everything else is a thin face over it.

Holds one snapshot of its parts and swaps it as a whole on reload, so that a call under way keeps the parts it began
with. PackProxy and ToolProxy make its tools callable as plain Python. Building the parts is `assemble`'s work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from onetool_ipy.config import Config
from onetool_ipy.core import current, schema
from onetool_ipy.core.errors import CallFailure, InvalidConfig, OneToolError, ToolCallError, UsageProblem
from onetool_ipy.core.executor import CallIds, Executor, own_frames
from onetool_ipy.core.loop import Background, GivenUp
from onetool_ipy.core.model import CallSource, Problem, ToolCall, ToolResult, ToolSpec
from onetool_ipy.core.registry import Registry, Session
from onetool_ipy.core.workers import Workers

if TYPE_CHECKING:
    import datetime
    import inspect

    from onetool_ipy.core.jobs import Job
    from onetool_ipy.core.shortcuts import Shortcuts
    from onetool_ipy.core.snippets import Snippet
    from onetool_ipy.stores.calls import Calls
    from onetool_ipy.stores.results import Results
    from onetool_ipy.stores.topics import Topics

__all__ = ["PackProxy", "Parts", "ToolProxy", "Toolbox", "raise_failure"]

_KEPT = "The last good configuration is still in use."


class Stores(NamedTuple):
    """What a toolbox keeps on disk, and the clock it keeps it by."""

    results: Results
    log: Calls
    topics: Topics
    clock: Callable[[], datetime.datetime]


class Parts:
    """All that a reload replaces. Registry and executor are built when they are first asked for, once."""

    def __init__(
        self,
        *,
        config: Config,
        build_registry: Callable[[], Registry],
        build_executor: Callable[[Registry], Executor],
        build_stores: Callable[[], Stores],
        pack_names: Sequence[str] = (),
    ) -> None:
        self.config = config
        self.pack_names = tuple(pack_names)
        self._build_registry = build_registry
        self._build_executor = build_executor
        self._build_stores = build_stores
        self._building = threading.RLock()
        self._registry: Registry | None = None
        self._executor: Executor | None = None
        self._stores: Stores | None = None

    @property
    def stores(self) -> Stores:
        if self._stores is None:
            with self._building:
                if self._stores is None:
                    self._stores = self._build_stores()
        return self._stores

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            with self._building:
                if self._registry is None:
                    self._registry = self._build_registry()
        return self._registry

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            with self._building:
                if self._executor is None:
                    self._executor = self._build_executor(self.registry)
        return self._executor

    def close(self) -> None:
        """Let go of what was built; building nothing for it."""
        if self._registry is not None:
            self._registry.close()
        if self._stores is not None:
            self._stores.log.close()

    def take_over(self, older: Parts) -> None:
        """Go on holding what the parts before held for their users: results kept in memory."""
        if older._stores is not None:
            self.stores.results.take_over(older._stores.results)


class Toolbox:
    """Tools from every source, ready to list, look up and call. Use as a context manager, or `close()` it.

    `dress` and `on_adopt` are for a face: how a tool's own exception is to look, and who hears of a cell's new tool.
    """

    def __init__(self, build: Callable[[Toolbox], Parts], *, session: Session) -> None:
        given_up = GivenUp()
        self.session = session
        self.new_id = CallIds()
        self.background = Background(given_up)
        self.workers = Workers(given_up)
        self.dress: Callable[[BaseException], None] | None = None
        self.on_adopt: Callable[[ToolSpec], None] | None = None
        self.on_reload: Callable[[], None] | None = None
        self._build = build
        self._swap = threading.Lock()
        self._problem: Problem | None = None
        self._is_closed = False
        self._snippets: dict[str, Snippet] = {}
        self._shortcuts: tuple[Config, Shortcuts] | None = None
        self.parts = build(self)
        current.opened(self)

    @property
    def config(self) -> Config:
        return self.parts.config

    @property
    def registry(self) -> Registry:
        return self.parts.registry

    @property
    def executor(self) -> Executor:
        return self.parts.executor

    @property
    def results(self) -> Results:
        """The stored results of the project."""
        return self.parts.stores.results

    @property
    def log(self) -> Calls:
        """The call log of the project."""
        return self.parts.stores.log

    @property
    def topics(self) -> Topics:
        """Where `ot.notify` writes."""
        return self.parts.stores.topics

    def now(self) -> datetime.datetime:
        """The time, by the toolbox's clock."""
        return self.parts.stores.clock()

    def servers(self) -> dict[str, str]:
        """The configured MCP servers, and how each is now."""
        return dict.fromkeys(self.config.settings.servers, "disconnected")

    def abandoned(self) -> int:
        """How many calls past their limit are still running."""
        return self.workers.abandoned()

    @property
    def shortcuts(self) -> Shortcuts:
        """Aliases and snippets: those of the files, and those of this session over them."""
        known = self._shortcuts
        if known is None or known[0] is not self.config:
            from onetool_ipy.core.shortcuts import read_shortcuts

            settings = self.config.settings
            found = read_shortcuts(settings.aliases, settings.snippets)
            for snippet in self._snippets.values():
                found = found.with_snippet(snippet)
            known = self._shortcuts = (self.config, found)
        return known[1]

    def add_snippet(self, snippet: Snippet) -> None:
        """Keep a snippet for this session; it survives a reload."""
        self._snippets[snippet.name] = snippet
        self._shortcuts = None

    @property
    def ot(self) -> OtProxy:
        """The pack about the toolbox itself."""
        return OtProxy(self, "ot")

    def call(
        self,
        tool: str | ToolCall,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
        allow: Sequence[str] | None = None,
    ) -> ToolResult:
        """Call a tool. Its failure is data in the result; this never raises for it."""
        return self.parts.executor.call(self._call(tool, args, source), timeout_s=timeout, allow=allow)

    async def acall(
        self,
        tool: str | ToolCall,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
        allow: Sequence[str] | None = None,
    ) -> ToolResult:
        """`call` without blocking the event loop."""
        return await self.parts.executor.acall(self._call(tool, args, source), timeout_s=timeout, allow=allow)

    def start(
        self,
        tool: str | ToolCall,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
        notify: Callable[[Job], None] | None = None,
    ) -> Job:
        """Call a tool in the background; `notify` hears of its progress and its end."""
        from onetool_ipy.core.jobs import Job

        return Job(self.parts.executor, self._call(tool, args, source), timeout_s=timeout, notify=notify)

    def pack(self, name: str) -> PackProxy | None:
        """The pack of that name as an object with its tools as methods, or None."""
        return None if self.registry.pack(name) is None else PackProxy(self, name)

    def adopt(self, fn: Callable[..., Any]) -> ToolSpec:
        """Register a cell's function as a tool of this session; pack `nb` where it names none."""
        from onetool_ipy.sources.functions import spec_of

        spec = self.registry.register(spec_of(fn, pack="nb", origin="cell"))
        if self.on_adopt is not None:
            self.on_adopt(spec)
        return spec

    def problems(self) -> list[Problem]:
        """Everything that is wrong now and stops nothing else, without secrets."""
        known = self.registry
        found = [*self.config.problems, *known.problems()]
        if self.config.settings.aliases or self.config.settings.snippets:
            names = [spec.name for spec in known.list()]
            found += self.shortcuts.problems(lambda name: known.get(name) is not None, names)
        if self._problem is not None:
            found.append(self._problem)
        found += self.log.problems()
        return [Problem(*(self.mask(text) for text in problem)) for problem in found]

    def mask(self, text: str) -> str:
        """The text with every secret in it replaced."""
        return self.config.secrets.mask(text)

    def reload(self) -> None:
        """Build everything anew from the files; on a failure keep what was good, and raise InvalidConfig.

        The session's own tools stay. Calls under way end with the parts they began with.
        """
        self._require_open()
        with self._swap:
            try:
                fresh = self._build(self)
                fresh.config.raise_if_bad()
            except OneToolError as exc:
                self._problem = Problem("reload", exc.message, _KEPT)
                problems = exc.problems if isinstance(exc, InvalidConfig) else ()
                raise InvalidConfig(exc.message, hint=_KEPT, problems=problems) from exc
            old, self.parts, self._problem = self.parts, fresh, None
        fresh.take_over(old)
        old.close()
        if self.on_reload is not None:
            self.on_reload()

    def close(self) -> None:
        """Let go of threads and sources; may be called twice. A call after it is refused."""
        self._is_closed = True
        current.closed(self)
        self.parts.close()
        self.background.close()
        self.workers.close()

    def __enter__(self) -> Toolbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Toolbox {self.config.paths.project}>"

    def _call(self, tool: str | ToolCall, args: Any, source: CallSource) -> ToolCall:
        if self._is_closed:
            self._require_open()
        if isinstance(tool, ToolCall):
            return tool
        if isinstance(args, Mapping) and type(args) is not dict:
            args = dict(args)
        return ToolCall(self.new_id(), tool, {} if args is None else args, source)

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageProblem("This toolbox is closed.", hint="Open one with open_toolbox().")


class PackProxy:
    """A pack as an object: `brave.search(query="x")`. Names that Python cannot spell: `pack["get-sum"](...)`."""

    def __init__(self, box: Toolbox, name: str) -> None:
        self._box = box
        self._name = name

    def __getattr__(self, attribute: str) -> ToolProxy:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        found = self._find(attribute)
        if found is None:
            raise AttributeError(self._missing(attribute), name=attribute, obj=None)
        return found

    def __getitem__(self, tool: str) -> ToolProxy:
        found = self._find(tool)
        if found is None:
            raise KeyError(self._missing(tool))
        return found

    def __dir__(self) -> list[str]:
        return sorted({schema.identifier(spec.short_name) for spec in self._specs()})

    def __repr__(self) -> str:
        return f"<pack {self._name}: {', '.join(self.__dir__())}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackProxy) and other._name == self._name and other._box is self._box

    def __hash__(self) -> int:
        return hash((id(self._box), self._name))

    def _ipython_key_completions_(self) -> list[str]:
        return [spec.short_name for spec in self._specs()]

    def _specs(self) -> list[ToolSpec]:
        return self._box.registry.pack(self._name) or []

    def _find(self, tool: str) -> ToolProxy | None:
        spec = self._box.registry.find(f"{self._name}.{tool}")
        if spec is None:
            spelled = (s for s in self._specs() if schema.identifier(s.short_name) == tool)
            spec = next(spelled, None)
        return None if spec is None else ToolProxy(self._box, spec)

    def _missing(self, tool: str) -> str:
        return self._box.mask(self._box.registry.missing(f"{self._name}.{tool}").message)


class ToolProxy:
    """A tool as a function: returns the raw value, raises the tool's own exception; `.aio` is its async twin."""

    def __init__(self, box: Toolbox, spec: ToolSpec) -> None:
        self._box = box
        self._spec = spec
        self.__name__ = spec.short_name
        self.__qualname__ = spec.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]  # each tool has its own
        return _doc(self._spec)

    @property
    def __signature__(self) -> inspect.Signature:
        from onetool_ipy.core.signatures import signature_of

        return signature_of(self._spec.parameters)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = self._box.call(self._spec.name, self._bind(args, kwargs), source=_caller())
        return result.data if result.error is None else self._failed(result)

    async def aio(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call without blocking the event loop."""
        __tracebackhide__ = True
        result = await self._box.acall(self._spec.name, self._bind(args, kwargs), source=_caller())
        return result.data if result.error is None else self._failed(result)

    def __repr__(self) -> str:
        return f"<tool {self._spec.signature}>"

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Name the positional arguments, and give names that Python cannot spell back their own."""
        if not args and not kwargs:
            return {}
        spec = self._current()
        bound = self._by_position(spec, args) if args else {}
        for key, value in kwargs.items():
            name = spec.spelled.get(key, key)
            if name in bound:
                raise _misused(spec, f"the argument '{name}' was given twice")
            bound[name] = value
        return bound

    def _failed(self, result: ToolResult) -> Any:
        __tracebackhide__ = True
        raise_failure(self._box, result)

    def _current(self) -> ToolSpec:
        """The tool as its code has it now, whose order of arguments counts; the call itself says what is wrong."""
        try:
            return self._box.registry.require(self._spec.name)
        except CallFailure:
            return self._spec

    def _by_position(self, spec: ToolSpec, args: tuple[Any, ...]) -> dict[str, Any]:
        names = spec.positional if spec.positional is not None else tuple(p.name for p in spec.params)
        rest = names[-1][1:] if names and names[-1].startswith("*") else None
        fixed = names[:-1] if rest is not None else names
        if rest is None and len(args) > len(fixed):
            raise _misused(spec, f"it takes {len(fixed)} arguments by position, not {len(args)}")
        bound = dict(zip(fixed, args, strict=False))
        if rest is not None and len(args) > len(fixed):
            bound[rest] = list(args[len(fixed) :])
        return bound


class OtProxy(PackProxy):
    """`ot` for Python code: where spec 001 wants an error text returned, it is returned (ErrorText)."""

    def _find(self, tool: str) -> ToolProxy | None:
        found = super()._find(tool)
        return None if found is None else OtTool(self._box, found._spec)


class OtTool(ToolProxy):
    """A tool of the `ot` pack."""

    def _failed(self, result: ToolResult) -> Any:
        from onetool_ipy.packs.ot.edge import Returned
        from onetool_ipy.render.shown import ErrorText

        if result.error is not None and isinstance(result.error.exception, Returned):
            return ErrorText(result.error.message)
        return super()._failed(result)


def raise_failure(box: Toolbox, result: ToolResult) -> NoReturn:
    """Raise what a failed result stands for: the tool's own exception where it has one, else ToolCallError."""
    __tracebackhide__ = True
    assert result.error is not None
    own = result.error.exception
    if own is None or isinstance(own, OneToolError):
        raise ToolCallError(result) from None
    if box.dress is not None:
        box.dress(own)
    raise own.with_traceback(own_frames(own))


def _caller() -> CallSource:
    here = current.scope()
    return "python" if here is None or here.depth == 0 else "tool"


def _misused(spec: ToolSpec, what: str) -> UsageProblem:
    return UsageProblem(f"'{spec.name}': {what}.", hint=f"Usage: {spec.signature}")


def _doc(spec: ToolSpec) -> str:
    parts = [spec.description]
    if spec.args:
        parts.append("Args:\n" + "\n".join(f"    {line}" for line in spec.args))
    if spec.returns:
        parts.append(f"Returns:\n    {spec.returns}")
    if spec.example:
        parts.append("Example:\n" + "\n".join(f"    {line}" for line in spec.example.splitlines()))
    return "\n\n".join(parts)
