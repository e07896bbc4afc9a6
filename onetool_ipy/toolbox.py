"""Toolbox: the one owner of what lives; everything else is a thin face over it.

Holds one frozen snapshot of its parts and swaps it as a whole on reload, so that a call under way keeps the parts it
began with. PackProxy and ToolProxy make its tools callable as plain Python. Building the parts is `assemble`'s work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from onetool_ipy.config import Config
from onetool_ipy.core import current, schema
from onetool_ipy.core.errors import InvalidConfig, OneToolError, ToolCallError, UsageProblem
from onetool_ipy.core.executor import CallIds, Executor, own_frames
from onetool_ipy.core.jobs import Job
from onetool_ipy.core.loop import Background
from onetool_ipy.core.workers import Workers
from onetool_ipy.core.model import CallSource, Problem, ToolCall, ToolResult, ToolSpec
from onetool_ipy.core.registry import Registry, Session

__all__ = ["PackProxy", "Parts", "ToolProxy", "Toolbox", "raise_failure"]


@dataclass(frozen=True, eq=False)
class Parts:
    """All that a reload replaces. The registry is built when it is first asked for."""

    config: Config
    build_registry: Callable[[], Registry]
    build_executor: Callable[[Registry], Executor]
    pack_names: tuple[str, ...] = ()

    @cached_property
    def registry(self) -> Registry:
        return self.build_registry()

    @cached_property
    def executor(self) -> Executor:
        return self.build_executor(self.registry)

    def close(self) -> None:
        """Let go of what was built; building nothing for it."""
        built = self.__dict__.get("registry")
        if built is not None:
            built.close()


class Toolbox:
    """Tools from every source, ready to list, look up and call. Use as a context manager, or `close()` it."""

    def __init__(self, build: Callable[[Toolbox], Parts], *, session: Session) -> None:
        self.session = session
        self.new_id = CallIds()
        self.background = Background()
        self.workers = Workers()
        self.dress: Callable[[BaseException], None] | None = None
        self.on_adopt: Callable[[ToolSpec], None] | None = None
        self._build = build
        self._swap = threading.Lock()
        self._problem: Problem | None = None
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
    def ot(self) -> PackProxy:
        """The pack about the toolbox itself."""
        return PackProxy(self, "ot")

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
    ) -> Job:
        """Call a tool in the background."""
        return Job(self.parts.executor, self._call(tool, args, source), timeout_s=timeout)

    def pack(self, name: str) -> PackProxy | None:
        """The pack of that name as an object with its tools as methods, or None."""
        known = self.registry.packs()
        if name not in known and not (self.registry.refresh() and name in self.registry.packs()):
            return None
        return PackProxy(self, name)

    def adopt(self, fn: Callable[..., Any]) -> ToolSpec:
        """Register a cell's function as a tool of this session; pack `nb` where it names none."""
        from onetool_ipy.sources.functions import spec_of

        spec = self.registry.register(spec_of(fn, pack="nb", origin="cell"))
        if self.on_adopt is not None:
            self.on_adopt(spec)
        return spec

    def problems(self) -> list[Problem]:
        """Everything that is wrong now and stops nothing else."""
        found = [*self.config.problems, *self.registry.problems()]
        return found if self._problem is None else [*found, self._problem]

    def mask(self, text: str) -> str:
        """The text with every secret in it replaced."""
        return self.config.secrets.mask(text)

    def reload(self) -> None:
        """Build everything anew from the files; on a failure keep what was good, and raise InvalidConfig."""
        with self._swap:
            try:
                fresh = self._build(self)
                fresh.config.raise_if_bad()
            except OneToolError as exc:
                self._problem = Problem("reload", exc.message, "The last good configuration is still in use.")
                raise InvalidConfig(exc.message, hint="The last good configuration is still in use.") from exc
            old, self.parts, self._problem = self.parts, fresh, None
        del old

    def close(self) -> None:
        """Let go of threads and sources; may be called twice."""
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
        if isinstance(tool, ToolCall):
            return tool
        if isinstance(args, Mapping) and type(args) is not dict:
            args = dict(args)
        return ToolCall(self.new_id(), tool, {} if args is None else args, source)


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
            raise AttributeError(f"{self._box.registry.missing(f'{self._name}.{attribute}').message}")
        return found

    def __getitem__(self, tool: str) -> ToolProxy:
        found = self._find(tool)
        if found is None:
            raise KeyError(self._box.registry.missing(f"{self._name}.{tool}").message)
        return found

    def __dir__(self) -> list[str]:
        return sorted(schema.identifier(spec.short_name) for spec in self._specs())

    def __repr__(self) -> str:
        return f"<pack {self._name}: {', '.join(self.__dir__())}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackProxy) and other._name == self._name and other._box is self._box

    def __hash__(self) -> int:
        return hash((id(self._box), self._name))

    def _specs(self) -> list[ToolSpec]:
        return self._box.registry.packs().get(self._name, [])

    def _find(self, tool: str) -> ToolProxy | None:
        spec = self._box.registry.find(f"{self._name}.{tool}")
        if spec is None:
            spelled = (s for s in self._specs() if schema.identifier(s.short_name) == tool)
            spec = next(spelled, None)
        return None if spec is None else ToolProxy(self._box, spec)


class ToolProxy:
    """A tool as a function: returns the raw value, raises the tool's own exception; `.aio` is its async twin."""

    def __init__(self, box: Toolbox, spec: ToolSpec) -> None:
        self._box = box
        self._spec = spec
        self.__name__ = spec.short_name
        self.__qualname__ = spec.name
        self.__doc__ = _doc(spec)

    @property
    def __signature__(self) -> Any:
        from onetool_ipy.core.signatures import signature_of

        return signature_of(self._spec.parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = self._box.call(self._spec.name, self._bind(args, kwargs), source=self._caller())
        if result.error is None:
            return result.data
        raise_failure(self._box, result)

    async def aio(self, *args: Any, **kwargs: Any) -> Any:
        """Call without blocking the event loop."""
        __tracebackhide__ = True
        result = await self._box.acall(self._spec.name, self._bind(args, kwargs), source=self._caller())
        if result.error is None:
            return result.data
        raise_failure(self._box, result)

    def __repr__(self) -> str:
        return f"<tool {self._spec.signature}>"

    def _caller(self) -> CallSource:
        return "python" if current.scope() is None else "tool"

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Name the positional arguments, and give names that Python cannot spell back their own."""
        params = schema.params(self._spec.parameters)
        if len(args) > len(params):
            raise UsageProblem(
                f"'{self._spec.name}' takes {len(params)} arguments, not {len(args)}.",
                hint=f"Usage: {self._spec.signature}",
            )
        spelled = {schema.identifier(p.name): p.name for p in params} if kwargs else {}
        bound = {p.name: value for p, value in zip(params, args, strict=False)}
        for key, value in kwargs.items():
            name = spelled.get(key, key)
            if name in bound:
                raise UsageProblem(
                    f"'{self._spec.name}': the argument '{name}' was given twice.",
                    hint=f"Usage: {self._spec.signature}",
                )
            bound[name] = value
        return bound


def raise_failure(box: Toolbox, result: ToolResult) -> Any:
    """Raise what a failed result stands for: the tool's own exception where it has one, else ToolCallError."""
    __tracebackhide__ = True
    assert result.error is not None
    own = result.error.exception
    if own is None or isinstance(own, OneToolError):
        raise ToolCallError(result) from None
    if box.dress is not None:
        box.dress(own)
    raise own.with_traceback(own_frames(own))


def _doc(spec: ToolSpec) -> str:
    parts = [spec.description]
    if spec.args:
        parts.append("Args:\n" + "\n".join(f"    {line}" for line in spec.args))
    if spec.returns:
        parts.append(f"Returns:\n    {spec.returns}")
    if spec.example:
        parts.append("Example:\n" + "\n".join(f"    {line}" for line in spec.example.splitlines()))
    return "\n\n".join(parts)
