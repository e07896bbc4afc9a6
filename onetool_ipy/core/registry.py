"""Tool definitions by canonical name. Owns uniqueness; knows nothing of how a tool runs.

It is made from sources in their order: the first keeps a name, a later one is refused and becomes a Problem. What is
registered in this session is a source too, the last one, and stays when the rest is built anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onetool_ipy.core import match, names
from onetool_ipy.core.errors import DuplicateTool, InvalidTool, ToolNotFound
from onetool_ipy.core.model import Problem, Source, ToolSpec

__all__ = ["Registry", "Session"]

ReadDefinition = Callable[[Mapping[str, Any]], ToolSpec]


@dataclass(slots=True)
class Session:
    """The tools registered in this session, by cells and by `registry.register`."""

    specs: dict[str, ToolSpec] = field(default_factory=dict)

    def tools(self) -> Iterable[ToolSpec]:
        return list(self.specs.values())

    def problems(self) -> Iterable[Problem]:
        return ()

    def refresh(self) -> bool:
        return False

    def close(self) -> None:
        self.specs.clear()


@dataclass(frozen=True, slots=True)
class _Index:
    """What look-ups read; replaced as a whole, so that a reader never sees half of a change."""

    lookup: dict[str, ToolSpec] = field(default_factory=dict)
    ordered: dict[str, ToolSpec] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class Registry:
    """All tools of a toolbox: `get` by name in one dict access, `list` in order of registration."""

    def __init__(
        self,
        sources: Sequence[Source] = (),
        *,
        session: Session | None = None,
        read_definition: ReadDefinition | None = None,
    ) -> None:
        self.session = session if session is not None else Session()
        self._sources: tuple[Source, ...] = (*sources, self.session)
        self._read_definition = read_definition
        self._index = _Index()
        self.rebuild()

    def get(self, name: str) -> ToolSpec | None:
        """The tool of that name, or None."""
        return self._index.lookup.get(name)

    def find(self, name: str) -> ToolSpec | None:
        """`get`, and on a miss look whether a source has something new."""
        spec = self._index.lookup.get(name)
        if spec is None and self.refresh():
            spec = self._index.lookup.get(name)
        return spec

    def require(self, name: str) -> ToolSpec:
        """The tool of that name, exact as its own code has it, or ToolNotFound with the nearest names."""
        spec = self.find(name)
        if spec is None:
            raise self.missing(name)
        return spec.live() if spec.live is not None else spec

    def missing(self, name: str) -> ToolNotFound:
        """The error for a name that is not there, with the nearest ones."""
        shown = name if len(name) <= 80 else name[:77] + "..."
        near = match.did_you_mean(name, self._index.lookup)
        return ToolNotFound(f"No tool '{shown}'." + (f" {near}" if near else ""), hint="See all with: %tool list")

    def list(self, allow: Sequence[str] | None = None) -> list[ToolSpec]:
        """All tools in order of registration, or those that an allow-list lets through."""
        return [s for s in self._index.ordered.values() if names.allowed(s.name, allow)]

    def packs(self) -> dict[str, list[ToolSpec]]:
        """Pack name -> its tools, in order of registration."""
        found: dict[str, list[ToolSpec]] = {}
        for spec in self._index.ordered.values():
            found.setdefault(spec.pack, []).append(spec)
        return found

    def problems(self) -> tuple[Problem, ...]:
        """What the sources could not offer, and the names that were refused."""
        return (*(p for source in self._sources for p in source.problems()), *self._index.problems)

    def register(self, tool: ToolSpec | Mapping[str, Any]) -> ToolSpec:
        """Add a tool to this session. Raises InvalidTool or DuplicateTool; only a cell's tool replaces a cell's."""
        spec = tool if isinstance(tool, ToolSpec) else self._from_definition(tool)
        _validate(spec)
        known = self._index.ordered.get(spec.name)
        if known is not None and not (known.origin == spec.origin == "cell"):
            raise _duplicate(spec, known)
        self.session.specs[spec.name] = spec
        self.rebuild()
        return spec

    def refresh(self) -> bool:
        """Ask every source to look again; rebuild where one found something new."""
        changed = [source.refresh() for source in self._sources]
        if any(changed):
            self.rebuild()
        return any(changed)

    def rebuild(self) -> None:
        """Build the index from the sources, first come first served."""
        ordered: dict[str, ToolSpec] = {}
        problems: list[Problem] = []
        for source in self._sources:
            for spec in source.tools():
                if spec.name in ordered:
                    problems.append(_refused(spec, ordered[spec.name]))
                else:
                    ordered[spec.name] = spec
        lookup = dict(ordered)
        for name, spec in ordered.items():
            if name.startswith(names.BARE_PACK + "."):
                lookup.setdefault(spec.short_name, spec)
        self._index = _Index(lookup, ordered, tuple(problems))

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def _from_definition(self, definition: Mapping[str, Any]) -> ToolSpec:
        if self._read_definition is None:
            raise InvalidTool("This registry takes ToolSpec values only.")
        return self._read_definition(definition)


def _validate(spec: ToolSpec) -> None:
    names.canonical(spec.name)
    if not spec.description.strip():
        raise InvalidTool(f"The tool '{spec.name}' needs a description.")
    spec.checker  # noqa: B018 (compiles the schema, or raises InvalidTool)


def _duplicate(spec: ToolSpec, known: ToolSpec) -> DuplicateTool:
    place = f" ({known.where})" if known.where else ""
    return DuplicateTool(
        f"The name '{spec.name}' is taken by a {known.origin} tool{place}.", hint="Give one of them another name."
    )


def _refused(spec: ToolSpec, known: ToolSpec) -> Problem:
    failure = _duplicate(spec, known)
    return Problem(spec.where or spec.name, failure.message, failure.hint)
