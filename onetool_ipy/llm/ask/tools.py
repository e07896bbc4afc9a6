"""Which tools are offered to a model: those that are allowed and switched on, fewer if the prompt
names some.

Above 96 tools, the best matches for the prompt are offered with a tool that searches all of them;
what it finds is offered from then on. A request repeats the tools of the one before, in the same
order, and appends new ones: providers cache what requests have in common from their beginning.
Offering starts no server.

Nothing here runs a tool or protects one: the executor has its own allow-list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.base.search import Index, did_you_mean
from onetool_ipy.core import names
from onetool_ipy.core.registry import Registry, entry_of
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.llm.messages import OfferedTool, Turn
from onetool_ipy.snippets.definition import Shortcuts

MAX_FIRST = 96
"""The most tools of the first request."""

MAX_OFFERED = 128
"""The most tools of a later request, with what was found meanwhile."""

"""The functions of the toolbox itself that a model needs; the others are offered where they are
named."""
_MAX_HITS = 12
_MAX_LATER_MATCHES = 16
_MAX_WORDS = 24
_MENTION = re.compile(r"(?<![^\s(\[{,;:\"'])\+(?P<name>[^\W\d][\w./@-]*+)(?!:[A-Za-z][\w.+-]*:\S)")
_SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What the tool should do, in a few words."}
    },
    "required": ["query"],
    "additionalProperties": False,
}


def allow_list(allow: Sequence[str] | str | None, shortcuts: Shortcuts) -> tuple[str, ...] | None:
    """Return an allow-list (a list, or names separated by commas) with aliases replaced by their
    targets."""
    if allow is None:
        return None
    listed = allow.split(",") if isinstance(allow, str) else list(allow)
    if not all(isinstance(entry, str) for entry in listed):
        raise UsageProblem(f"An allow-list holds names, not {values.safe_repr(allow, 80)}.")
    return tuple(_target(entry.strip(), shortcuts) for entry in listed if entry.strip())


def mentioned(prompt: str, registry: Registry, shortcuts: Shortcuts) -> list[str] | None:
    """Return the tools that `+pack.tool`, `+pack` or `+alias` in a prompt name; None if nothing is
    named.

    A name that is not there is an error: as text it would offer every tool instead of one. A line
    of several may begin with a plus of its own, as those of a diff do: it is an error only if it
    comes close to one of ours.
    """
    mentions = [
        (hit["name"].rstrip("./-"), _begins_a_line(prompt, hit.start()))
        for hit in _MENTION.finditer(prompt)
    ]
    listing = registry.known() if mentions else []
    tools: dict[str, None] = {}
    for name, may_be_text in mentions:
        # A mention stands for the tool of that name, those of a pack, or those called so.
        spec = registry.find(_target(name, shortcuts))
        spellings = (name, name.replace("-", "_"))
        matches = [spec.name] if spec is not None and spec.is_listed else []
        matches = matches or [spec.name for spec in listing if spec.pack in spellings]
        matches = matches or [spec.name for spec in listing if spec.short_name in spellings]
        if not matches:
            candidates = [
                *(spec.name for spec in listing),
                *(spec.pack for spec in listing),
                *shortcuts.aliases,
            ]
            near = did_you_mean(name, dict.fromkeys(candidates))
            if may_be_text and not near and "." not in name:
                continue
            missing = registry.missing(name)
            raise UsageProblem(
                f"The prompt names a tool '+{name}' that is not there. {near or missing.message}",
                hint="" if near else missing.hint,
            )
        tools.update(dict.fromkeys(matches))
    return list(tools) or None


def _begins_a_line(prompt: str, start: int) -> bool:
    """Whether a place is the beginning of a line in a text of several lines."""
    return "\n" in prompt.strip() and (start == 0 or prompt[start - 1] == "\n")


def _target(name: str, shortcuts: Shortcuts) -> str:
    """Return the target of an alias, or the name itself."""
    plain = name.removeprefix("$")
    if plain not in shortcuts.aliases:
        return name
    try:
        target = shortcuts.find(plain)
    except OneToolError:  # a circular alias
        return name
    return target if isinstance(target, str) else name


class ToolSelection:
    """The tools of one ask: those offered in each request, and the search among the others.

    What is offered has the schema of its code: the packs of a trusted project are imported for it.
    An offer is kept for as long as the registry, the hits and the session's tools stay what they
    were; a file that changes during an ask is seen by the next ask, or by a call.
    """

    def __init__(
        self,
        registry: Registry,
        session: Session,
        *,
        allow: Sequence[str] | None,
        prompt: str,
        is_on: bool,
    ) -> None:
        self.is_on = is_on
        self.allow: Sequence[str] | None = allow if is_on else ()
        self._registry = registry
        self._session = session
        self._prompt = prompt
        self.packs: tuple[str, ...] = ()
        self._hits: dict[str, None] = {}
        self._matches: list[str] | None = None
        self._search_name = ""
        self._kept: tuple[tuple[object, ...], list[OfferedTool]] | None = None

    def offer(self) -> list[OfferedTool]:
        """Return the tools to offer now, under their wire names: those of the request before, then
        new ones."""
        generation = self._registry.latest()
        if self._kept is None or self._kept[0] != self._key(generation):
            offered = self._new_offer()
            # Importing a pack for its schemas may change the registry. The generation is that of
            # before, so the next request then has an offer of its own.
            self._kept = self._key(generation), offered
        return self._kept[1].copy()

    def _key(self, generation: int) -> tuple[object, ...]:
        """All that an offer depends on, and that can change during an ask."""
        session = self._session
        return (
            generation,
            tuple(self._hits),
            bool(session.handles),
            tuple(session.offered),
        )

    def _new_offer(self) -> list[OfferedTool]:
        listing = self._registry.known()
        specs = {spec.name: spec for spec in self._visible(listing)}
        self.packs = tuple(dict.fromkeys([spec.pack for spec in specs.values()]))
        self._search_name = ""
        chosen: Collection[str] = list(specs)
        if len(specs) > MAX_FIRST:
            chosen = self._best(list(specs.values()))
            search = self._search_tool()
            specs = {search.name: search, **specs}
        # A session with large results can page them, whatever its allow-list says.
        pager = self._registry.get(names.PAGER) if self._session.handles else None
        if pager is not None:
            specs.setdefault(names.PAGER, pager)
            chosen = {*chosen, names.PAGER}
        before = [name for name in self._session.offered if name in specs]
        offered = [*before, *(name for name in specs if name in chosen and name not in before)]
        # What was found first makes room for what was found last; the beginning stays.
        offered[MAX_FIRST:] = offered[MAX_FIRST:][MAX_FIRST - MAX_OFFERED :]
        self._session.offered = offered
        return self._session.offers(
            self._registry.loaded([specs[name] for name in offered]),
            [spec.name for spec in listing],
        )

    @property
    def guide(self) -> str:
        """What the instructions say besides: nothing, unless the model writes programs."""
        return ""

    def read(self, turn: Turn) -> Turn:
        """Return a reply as the calls that it means."""
        return turn

    def is_direct(self, name: str) -> bool:  # noqa: ARG002 - programs allow only some
        """Whether the model may call a tool itself."""
        return True

    def is_search(self, name: str) -> bool:
        """Whether a name is that of the search tool."""
        return bool(self._search_name) and name == self._search_name

    def search(self, query: str) -> list[dict[str, Any]]:
        """Return the matching tools with their schemas. They are offered from now on."""
        listing = self._registry.known()
        hits = Index(map(entry_of, self._visible(listing))).search(query, limit=_MAX_HITS)
        specs = self._registry.loaded(hit.item.value for hit in hits)
        for spec in reversed(specs):
            self._hits.pop(spec.name, None)
            self._hits[spec.name] = None
        offered = self._session.offers(specs, (spec.name for spec in listing))
        return [
            {"name": o.name, "description": o.description, "parameters": o.parameters}
            for o in offered
        ]

    def may_page(self, name: str, args: Any) -> bool:
        """Whether a call reads more of a large result of this session, which gives nothing new
        away."""
        handle = args.get("handle") if name == names.PAGER and isinstance(args, dict) else None
        return isinstance(handle, str) and handle in self._session.handles

    def _visible(self, listing: Sequence[ToolSpec]) -> list[ToolSpec]:
        return [
            spec
            for spec in listing
            if spec.is_offered
            and (spec.is_for_models if self.allow is None else names.allowed(spec.name, self.allow))
        ]

    def _best(self, specs: Sequence[ToolSpec]) -> set[str]:
        """Return the names of those that were searched for, used, or match the prompt, and of the
        search."""
        if self._matches is None:
            limit = _MAX_LATER_MATCHES if self._session.offered else MAX_FIRST
            self._matches = [*self._session.used, *_best_matches(self._prompt, specs, limit)][
                : MAX_FIRST - 1
            ]
        self._search_name = "ask.search_tools"
        while self._registry.get(self._search_name) is not None:
            self._search_name += "_"
        return {self._search_name, *self._matches, *self._hits}

    def _search_tool(self) -> ToolSpec:
        return ToolSpec(
            name=self._search_name,
            description="Search all tools by what they do. What is found can be called afterwards.",
            parameters=_SEARCH,
            run=lambda args: args,
            read_only=True,
        )


def _best_matches(prompt: str, specs: Sequence[ToolSpec], limit: int) -> list[str]:
    """Return the names of the tools that match a prompt best: by all of it, and by each of its
    words."""
    index = Index(map(entry_of, specs))
    words = list(dict.fromkeys(word for word in re.findall(r"[^\W_]{3,}", prompt.lower())))[
        :_MAX_WORDS
    ]
    scores: dict[str, float] = {}
    for weight, query in [(2.0, prompt), *((1.0, word) for word in words)]:
        # With a limit, a word that all tools have would count for some of them only.
        for hit in index.search(query, limit=None):
            scores[hit.item.name] = scores.get(hit.item.name, 0.0) + weight * hit.score
    return sorted(scores, key=lambda name: (-scores[name], name))[:limit]
