"""Which tools are offered to a model: those that are allowed and switched on, fewer if the prompt names some.

Above 128 tools, the best matches for the prompt are offered with a tool that searches all of them; what it finds is
offered from then on. Nothing here runs a tool or protects one: the executor has its own allow-list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.base.search import Index, did_you_mean
from onetool_ipy.core.registry import Registry, entry_of
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.ask.session import Session
from onetool_ipy.llm.messages import OfferedTool
from onetool_ipy.snippets.definition import Shortcuts

__all__ = ["MAX_OFFERED", "PAGER", "Offering", "allow_list", "mentioned"]

MAX_OFFERED = 128
PAGER = "ot.result"
_MAX_FOUND = 12
_MAX_WORDS = 24
_MENTION = re.compile(r"(?<![^\s(\[{,;:\"'])\+(?P<name>[^\W\d][\w./@-]*+)(?!:[A-Za-z][\w.+-]*:\S)")
_SEARCH = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
    "required": ["query"],
    "additionalProperties": False,
}


def allow_list(allow: Sequence[str] | str | None, shortcuts: Shortcuts) -> tuple[str, ...] | None:
    """Return an allow-list (a list, or names separated by commas) with aliases replaced by their targets."""
    if allow is None:
        return None
    listed = allow.split(",") if isinstance(allow, str) else list(allow)
    if not all(isinstance(entry, str) for entry in listed):
        raise UsageProblem(f"An allow-list holds names, not {values.safe_repr(allow, 80)}.")
    return tuple(_target(entry.strip(), shortcuts) for entry in listed if entry.strip())


def mentioned(prompt: str, registry: Registry, shortcuts: Shortcuts) -> list[str] | None:
    """Return the tools that `+pack.tool`, `+pack` or `+alias` in a prompt name; None if nothing is named.

    A name that is close to one of ours is an error: as text it would offer every tool instead of one.
    """
    found: dict[str, None] = {}
    for hit in _MENTION.finditer(prompt):
        name = hit["name"].rstrip("./-")
        named = _named(name, registry, shortcuts)
        if not named:
            known = [*(spec.name for spec in registry.list()), *registry.packs(), *shortcuts.aliases]
            near = did_you_mean(name, known)
            if near or "." in name:
                raise UsageProblem(f"The prompt names a tool '+{name}' that is not there. {near}".strip())
        found.update(dict.fromkeys(named))
    return list(found) or None


def _named(name: str, registry: Registry, shortcuts: Shortcuts) -> list[str]:
    spec = registry.find(_target(name, shortcuts))
    if spec is not None and spec.is_listed:
        return [spec.name]
    plain = name.replace("-", "_")
    specs = registry.list()
    in_pack = [s.name for s in specs if s.pack in (name, plain)]
    return in_pack or [s.name for s in specs if s.short_name in (name, plain)]


def _target(name: str, shortcuts: Shortcuts) -> str:
    """Return the target of an alias, or the name itself."""
    plain = name.removeprefix("$")
    if plain not in shortcuts.aliases:
        return name
    try:
        found = shortcuts.find(plain)
    except OneToolError:  # a circular alias
        return name
    return found if isinstance(found, str) else name


class Offering:
    """The tools of one ask: those offered in each request, and the search among the others.

    What is offered has the schema of its code: the packs of a trusted project are imported for it.
    """

    def __init__(
        self, registry: Registry, session: Session, *, allow: Sequence[str] | None, prompt: str, is_on: bool
    ) -> None:
        self.allow: Sequence[str] | None = allow if is_on else ()
        self._registry = registry
        self._session = session
        self._prompt = prompt
        self._found: dict[str, None] = {}
        self._search_name = ""

    def specs(self) -> list[ToolSpec]:
        """Return the tools to offer now, in order of registration."""
        visible = self._visible()
        if len(visible) <= MAX_OFFERED:
            self._search_name = ""
            return self._with_pager(self._registry.loaded(visible))
        self._search_name = self._free_name()
        room = MAX_OFFERED - 2
        wanted = [*reversed(self._found), *self._session.used, *_best_matches(self._prompt, visible, room)]
        chosen = set(list(dict.fromkeys(wanted))[:room])
        listed = self._registry.loaded(spec for spec in visible if spec.name in chosen)
        return self._with_pager([*listed, self._search_spec(len(visible))])

    def offers(self, specs: Sequence[ToolSpec]) -> list[OfferedTool]:
        """Return the tools under their wire names."""
        return self._session.offers(specs, (spec.name for spec in self._registry.list()))

    def is_search(self, name: str) -> bool:
        """Whether a name is that of the search tool."""
        return bool(self._search_name) and name == self._search_name

    def search(self, query: str) -> list[dict[str, Any]]:
        """Return the matching tools with their schemas. They are offered from now on."""
        visible = self._visible()
        hits = Index(map(entry_of, visible)).search(query, limit=_MAX_FOUND)
        specs = self._registry.loaded(hit.item.value for hit in hits)
        for spec in reversed(specs):
            self._found.pop(spec.name, None)
            self._found[spec.name] = None
        offered = self.offers(specs)
        return [{"name": o.name, "description": o.description, "parameters": o.parameters} for o in offered]

    def may_page(self, name: str, args: Any) -> bool:
        """Whether a call reads more of a large result of this session, which gives nothing new away."""
        handle = args.get("handle") if name == PAGER and isinstance(args, dict) else None
        return isinstance(handle, str) and handle in self._session.handles

    def _visible(self) -> list[ToolSpec]:
        return self._registry.offered(self.allow)

    def _with_pager(self, specs: list[ToolSpec]) -> list[ToolSpec]:
        pager = self._registry.get(PAGER) if self._session.handles else None
        return specs if pager is None or any(s.name == PAGER for s in specs) else [*specs, pager]

    def _free_name(self) -> str:
        name = "ask.search_tools"
        while self._registry.get(name) is not None:
            name += "_"
        return name

    def _search_spec(self, count: int) -> ToolSpec:
        return ToolSpec(
            name=self._search_name,
            description=f"Search all {count:,} tools by what they do. What is found can be called afterwards.",
            parameters=_SEARCH,
            run=lambda args: args,
            read_only=True,
        )


def _best_matches(prompt: str, specs: Sequence[ToolSpec], limit: int) -> list[str]:
    """Return the names of the tools that match a prompt best: by all of it, and by each of its words."""
    index = Index(map(entry_of, specs))
    words = list(dict.fromkeys(word for word in re.findall(r"[^\W_]{3,}", prompt.lower())))[:_MAX_WORDS]
    scores: dict[str, float] = {}
    for weight, query in [(2.0, prompt), *((1.0, word) for word in words)]:
        for hit in index.search(query, limit=None):  # with a limit, a word of all tools would count for some
            scores[hit.item.name] = scores.get(hit.item.name, 0.0) + weight * hit.score
    return sorted(scores, key=lambda name: (-scores[name], name))[:limit]
