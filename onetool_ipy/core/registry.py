"""Tools by canonical name, from all sources. Owns uniqueness; knows nothing of how a tool runs.

Sources are read in order: the first keeps a name, a later one becomes a Problem. The tools of this
session are the last source; they stay when the rest is read again. A look-up reads one index, which
is replaced as a whole. The lock is for those who build the index, so that no registration is lost.
"""

from __future__ import annotations

import copy
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from onetool_ipy.base import forks, values
from onetool_ipy.base.errors import CallFailure, DuplicateTool, InvalidTool, ToolNotFound
from onetool_ipy.base.records import collector_paused
from onetool_ipy.base.search import Entry, did_you_mean
from onetool_ipy.core import names
from onetool_ipy.core.tool import Problem, Source, ToolSpec
from onetool_ipy.schema.read import identifier

ReadDefinition = Callable[[Mapping[str, Any]], ToolSpec]
Specs = list[ToolSpec]

_log = logging.getLogger("onetool_ipy.core")


class SessionTools:
    """The tools registered in this session, by cells and by `registry.register`; outlives a
    reload."""

    def __init__(self) -> None:
        self.specs: dict[str, ToolSpec] = {}

    def tools(self) -> Iterable[ToolSpec]:
        return tuple(self.specs.values())

    def problems(self) -> Iterable[Problem]:
        undescribed = [spec.name for spec in self.tools() if spec.description == spec.short_name]
        return [
            Problem(name, "has no docstring.", "Describe it in a docstring.")
            for name in undescribed
        ]

    refresh = None


class _Index(NamedTuple):
    """The tables for look-ups: tools by each of their names, in order of registration, and by
    pack."""

    ordered: dict[str, ToolSpec]
    packs: dict[str, list[ToolSpec]]
    problems: tuple[Problem, ...]
    unlisted: dict[str, ToolSpec]
    lookup: dict[str, ToolSpec]


class Registry:
    """All tools of a toolbox: `get` by name in one dict access, `list` in order of registration.

    `generation` is another number whenever the index was built or may have to be: what was found
    out about a tool holds as long as it is the same.
    """

    def __init__(
        self,
        sources: Sequence[Source] = (),
        *,
        session: SessionTools | None = None,
        read_definition: ReadDefinition | None = None,
        changed: Callable[[], None] | None = None,
        before_list: Callable[[], None] = lambda: None,
        explain: Callable[[str], ToolNotFound | None] = lambda _name: None,
        recommended: Sequence[str] = (),
    ) -> None:
        self.session = session if session is not None else SessionTools()
        self._sources: tuple[Source, ...] = tuple(sources)
        self._read_definition = read_definition
        self.after_fork()
        forks.register(self)
        self._is_stale = False
        self._before_list = before_list
        self._explain = explain
        self._recommended = recommended
        # The first tools are no change, so nobody is told of them.
        self._changed: Callable[[], None] | None = None
        self._generations = itertools.count()
        self.generation = next(self._generations)
        self._index = _Index({}, {}, (), {}, {})
        self.rebuild()
        self._changed = changed

    def after_fork(self) -> None:
        """Take a lock of this process's own."""
        self._building = threading.RLock()

    def get(self, name: str) -> ToolSpec | None:
        """The tool of that name, or None."""
        if self._is_stale:
            self.refresh()
        return self._index.lookup.get(name)

    def latest(self) -> int:
        """Return the generation, after reading the sources again if one of them has news."""
        if self._is_stale:
            self.refresh()
        return self.generation

    def find(self, name: str) -> ToolSpec | None:
        """Return the tool of that name, or None. On a miss, check whether a source has something
        new."""
        if self._is_stale:
            self.refresh()
        spec = self._index.lookup.get(name)
        if spec is None:
            # Another thread's look may have found the tool: what counts is what is there now.
            self.refresh()
            spec = self._index.lookup.get(name)
        return spec

    def require(self, name: str) -> ToolSpec:
        """The tool of that name as it is known now, or ToolNotFound with the nearest names. Imports
        nothing."""
        self.refresh()
        spec = self._index.lookup.get(name)
        if spec is None:
            raise self.missing(name)
        return spec

    def load(self, name: str) -> ToolSpec:
        """The tool of that name as its own code has it, for a call: this imports a pack file."""
        spec = self.find(name)
        if spec is None:
            raise self.missing(name)
        return spec.load() if spec.load is not None else spec

    def loaded(self, specs: Iterable[ToolSpec]) -> Specs:
        """The tools with the schemas of their code: this imports the packs they are from, where the
        user trusts them.

        A tool that cannot be loaded stays as its text describes it; a call says what is wrong.
        """
        loaded = []
        for spec in specs:
            try:
                loaded.append(spec.load() if spec.load is not None else spec)
            except CallFailure:
                loaded.append(spec)
        return loaded

    def missing(self, name: str) -> ToolNotFound:
        """Return the error for an unknown name: why its source does not have it, or the nearest
        names."""
        explained = self._explain(name)
        if explained is not None:
            return explained
        offered = self._index.lookup
        near = did_you_mean(
            name, offered if "@" in name else [one for one in offered if "@" not in one]
        )
        return ToolNotFound(
            f"No tool '{values.cut(name, 80)}'." + (f" {near}" if near else ""),
            hint=f"See all with: %tool {'ot' if name.startswith('ot.') else 'list'}",
        )

    def list(self, allow: Sequence[str] | None = None) -> Specs:
        """All tools in order of registration, or those that an allow-list lets through.

        In a trusted project this starts the servers whose tools are not known yet; `known` starts
        nothing.
        """
        self._before_list()
        return self.known(allow)

    def known(self, allow: Sequence[str] | None = None) -> Specs:
        """The tools that are known without starting anything."""
        self.refresh()
        specs = self._index.ordered.values()
        return [s for s in specs if allow is None or names.allowed(s.name, allow)]

    def unlisted(self, pack: str = "") -> Specs:
        """Return what is found by name but not listed, of all packs or one: versions of tools,
        prompts of servers."""
        self.refresh()
        return [spec for spec in self._index.unlisted.values() if not pack or spec.pack == pack]

    def prompts(self) -> Specs:
        """The known prompts of servers, by name: `$server.prompt k=v`. Starts nothing."""
        prompts = (spec for spec in self.unlisted() if spec.server and "prompt" in spec.tags)
        return sorted(prompts, key=lambda spec: spec.name)

    def is_recommended(self, spec: ToolSpec) -> bool:
        """Whether the project's `recommended` names a tool or its pack."""
        return spec.name in self._recommended or spec.pack in self._recommended

    def place_of(self, spec: ToolSpec) -> tuple[Any, ...]:
        """The sort key of a tool in a list: recommended ones first, in their order, then as
        `ToolSpec.place` says."""
        places = [
            self._recommended.index(name)
            for name in (spec.name, spec.pack)
            if name in self._recommended
        ]
        return (min(places, default=len(self._recommended)), *spec.place)

    def packs(self) -> dict[str, Specs]:
        """Pack name -> its tools, in order of registration; starts what `list` starts."""
        self._before_list()
        return self.known_packs()

    def known_packs(self) -> dict[str, Specs]:
        """The packs that are known without starting anything."""
        self.refresh()
        return {pack: specs.copy() for pack, specs in self._index.packs.items()}

    def pack(self, name: str) -> Specs | None:
        """The tools of one pack, or None. On a miss, check whether a source has something new.

        A pack whose name Python cannot spell is found by how Python spells it too: `my_api` for
        `my-api`.
        """
        if self._is_stale or name not in self._index.packs:
            self.refresh()
        packs = self._index.packs
        specs = packs.get(name) or next(
            (s for pack, s in packs.items() if identifier(pack) == name), None
        )
        return None if specs is None else specs.copy()

    def problems(self) -> tuple[Problem, ...]:
        """Return what the sources could not offer, and the names that were refused."""
        problems = [
            p
            for source in (*self._sources, self.session)
            for p in _guarded(source, source.problems)[0]
        ]
        return (*problems, *self._index.problems)

    def register(self, tool: ToolSpec | Mapping[str, object]) -> ToolSpec:
        """Add a tool to this session. Raises InvalidTool or DuplicateTool; only a cell's tool
        replaces a cell's.

        A definition replaces nothing (spec 003). What is given is copied: changing it later changes
        no tool.
        """
        if not isinstance(tool, ToolSpec):
            return self._add([_validated(self._from_definition(tool))], are_definitions=True)[0]
        return self.register_all([tool])[0]

    def register_all(self, tools: Iterable[ToolSpec], *, replacing: Collection[str] = ()) -> Specs:
        """Add tools to this session, all or none. `replacing` names tools of it that go then.

        Raises InvalidTool or DuplicateTool, as `register` does.
        """
        return self._add([_validated(_copied(tool)) for tool in tools], replacing=replacing)

    def _add(
        self, specs: Specs, *, replacing: Collection[str] = (), are_definitions: bool = False
    ) -> Specs:
        with self._building:
            session, fresh = self.session.specs, {spec.name: spec for spec in specs}
            before = {name: session[name] for name in {*replacing, *fresh} if name in session}
            for spec in specs:
                holder = self._index.ordered.get(spec.name)
                is_replaced = spec.name in replacing and before.get(spec.name) is holder
                if holder is None or is_replaced:
                    continue
                if are_definitions or not holder.origin == spec.origin == "cell":
                    raise _duplicate(spec, holder)
            try:
                for name in replacing:
                    session.pop(name, None)
                session.update(fresh)
                # Nobody sees the tools before this: a look-up reads the index.
                self.rebuild()
            except BaseException:
                for name in fresh:
                    session.pop(name, None)
                session.update(before)
                self.expire()
                raise
        return specs

    def expire(self) -> None:
        """Make the next look-up read the sources again. Can be called from any thread; does not
        wait."""
        self._is_stale = True
        self.generation = next(self._generations)

    def refresh(self) -> bool:
        """Ask every source to look again. Rebuild the index if one has other tools than those
        listed."""
        with self._building:
            is_changed, self._is_stale = self._is_stale, False
            try:
                for source in self._sources:
                    if source.refresh is None:
                        continue
                    try:
                        is_changed |= source.refresh()
                    except Exception:  # noqa: BLE001 - a source runs foreign code, and one that fails may have changed
                        is_changed = True
                if is_changed:
                    self.rebuild()
            except BaseException:
                # After a Stop, a source that was already read would say that it has no news.
                self.expire()
                raise
            return is_changed

    def rebuild(self) -> None:
        """Build the index from the sources, first come first served."""
        with self._building, collector_paused():
            ordered: dict[str, ToolSpec] = {}
            packs: dict[str, list[ToolSpec]] = {}
            unlisted: dict[str, ToolSpec] = {}
            problems: list[Problem] = []
            for source in (*self._sources, self.session):
                specs, faults = _guarded(source, source.tools)
                problems += faults
                for spec in specs:
                    if spec.version or not spec.is_listed:
                        unlisted.setdefault(spec.name, spec)
                        continue
                    holder = ordered.setdefault(spec.name, spec)
                    if holder is spec:
                        packs.setdefault(spec.pack, []).append(spec)
                    else:
                        failure = _duplicate(spec, holder)
                        problems.append(
                            Problem(spec.where or spec.name, failure.message, failure.hint)
                        )
            for problem in problems:
                if problem not in self._index.problems:
                    _log.error("%s: %s", problem.where, problem.message)
            # Tools of the bare pack are also found by their bare name.
            lookup = {**unlisted, **ordered}
            for spec in packs.get(names.BARE_PACK, ()):
                if "." not in spec.short_name and spec.short_name not in ordered:
                    lookup[spec.short_name] = spec
            self._index = _Index(ordered, packs, tuple(problems), unlisted, lookup)
            self.generation = next(self._generations)
        if self._changed is not None:
            self._changed()

    def _from_definition(self, definition: object) -> ToolSpec:
        if self._read_definition is None or not isinstance(definition, Mapping):
            label = values.safe_repr(definition, 80)
            raise InvalidTool(f"A tool is a ToolSpec or a definition (spec 003), not {label}.")
        try:
            own = copy.deepcopy(dict(definition))
        except Exception as exc:  # a value may refuse to be copied in any way
            raise InvalidTool(
                f"A definition holds plain values only: {type(exc).__name__}: {exc}"
            ) from exc
        return self._read_definition(own)


def _guarded(
    source: Source, ask: Callable[[], Iterable[object]]
) -> tuple[list[Any], list[Problem]]:
    """Call a source. If it raises, although it must not, that is a problem and does not affect the
    other sources."""
    try:
        return list(ask()), []
    except Exception as exc:  # noqa: BLE001 - a source runs foreign code
        return [], [Problem(type(source).__name__, f"failed with {type(exc).__name__}: {exc}")]


def _copied(tool: ToolSpec) -> ToolSpec:
    """Return the tool with schemas of its own: its author may still hold and change those."""
    # A subclass is read when it is looked at.
    if type(tool) is ToolSpec:
        # The check of the schema reports what cannot be copied.
        with suppress(Exception):
            parameters, output_schema = copy.deepcopy((tool.parameters, tool.output_schema))
            return tool.replace(parameters=parameters, output_schema=output_schema)
    return tool


def _validated(spec: ToolSpec) -> ToolSpec:
    name = names.canonical(spec.name)
    description: Any = spec.description
    parameters: Any = spec.parameters
    if not isinstance(description, str) or not description.strip():
        raise InvalidTool(f"The tool '{name}' needs a description.")
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        raise InvalidTool(f"'{name}': parameters must be a JSON Schema of type \"object\".")
    if name != spec.name:
        spec = spec.replace(name=name)
    try:
        spec.checker  # noqa: B018 - compiles the schema, or raises
    except InvalidTool as exc:
        raise InvalidTool(f"'{name}': parameters: {exc.message}") from exc
    return spec


def _duplicate(spec: ToolSpec, holder: ToolSpec) -> DuplicateTool:
    place = f" ({holder.where})" if holder.where else ""
    return DuplicateTool(
        f"The name '{spec.name}' is taken by a {holder.origin} tool{place}.",
        hint="Give one of them another name.",
    )


def entry_of(spec: ToolSpec) -> Entry:
    """The entry of a tool."""
    properties = spec.parameters.get("properties")
    arguments = tuple(properties) if isinstance(properties, dict) else ()
    return Entry(spec.name, spec.description, arguments, spec.tags, spec)
