"""`ot.help`: help on tools, packs, snippets and aliases (spec 001).

An exact name returns its page, in the order tool, pack, `$snippet`, alias. Anything else is a search; the hits are
grouped by kind, best first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.search import Entry, Hit, Index
from onetool_ipy.base.values import cut
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.registry import entry_of
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.packs.ot.catalog import INFO, Info, as_written, pack_text, snippet_page
from onetool_ipy.packs.ot.errors import choice, worded
from onetool_ipy.render.views import Text, counted
from onetool_ipy.schema.read import params, type_text

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["HelpTools", "documentation_url"]

_URL = "https://onetool.beycom.online/reference/tools/{slug}/"
_SLUGS = {
    "brave": "brave-search",
    "code": "code-search",
    "db": "database",
    "ground": "grounding-search",
    "llm": "transform",
    "web": "web-fetch",
}
_LIMIT = 10
_OVERVIEW = """# onetool_ipy

## Discovery
- ot.tools() - tools; ot.tools(pattern="search")
- ot.packs() - packs; ot.packs(pattern="fs", info="full")
- ot.aliases() - other names for tools
- ot.snippets() - parameterised pieces of code
- ot.help(query="...") - a page, or a search that forgives typos

## Info levels
- list - names only
- min - name and description (default)
- full - everything there is

## Examples
- ot.help(query="fs.read_file")
- ot.help(query="read a file")
- %tool fs.read_file path=README.md
- x = %tool time.now

## Tips
- %tool alone shows the packs and what to type next.
- A result is an object: x.data, x.ok, x.error, x.meta.
- Tab completes names, arguments and values; %tool NAME? shows a tool's page."""


class HelpTools:
    """The help function, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._cached: tuple[Any, Mapping[str, Index]] | None = None

    @mark(read_only=True)
    @worded
    def help(self, query: str = "", info: Info | str = "min") -> Any:
        """Find out how to use something: a tool, a pack, a $snippet, an alias, or anything you can describe.

        Args:
            query: A name, or words; typos are forgiven. Empty gives an overview.
            info: list (names), min (names and descriptions, or an exact hit's page) or full (every field).

        Returns:
            A page of text.

        Example:
            ot.help(query="read file")
        """
        choice("info", info, INFO, "ot.help(query='brave', info='min')")
        asked = query.strip()
        if not asked:
            return Text(_OVERVIEW)
        page = self._exact(asked, info)
        return Text(page if page is not None else self._search(asked, info))

    def _exact(self, query: str, info: str) -> str | None:
        registry, shortcuts = self._box.registry, self._box.shortcuts
        spec = registry.find(query)
        if spec is not None:
            return spec.name if info == "list" else _tool_page(as_written(spec), info)
        packs = registry.packs()
        if query in packs:
            names = "\n".join(s.name for s in packs[query])
            return names if info == "list" else self._pack_page(query, packs[query])
        name = query.removeprefix("$")
        if query.startswith("$") and name in shortcuts.snippets:
            return name if info == "list" else snippet_page(shortcuts.snippets[name])
        if name in shortcuts.aliases:
            return name if info == "list" else _alias_page(name, shortcuts.aliases[name])
        return None

    def _pack_page(self, name: str, specs: list[ToolSpec]) -> str:
        page = pack_text(self._box, name, specs).replace("## ", "# ", 1)
        return f"{page}\n\nDocs: {documentation_url(name)}"

    def _search(self, query: str, info: str) -> str:
        """Return the best hits of each group; no group displaces another."""
        groups = {title: index.search(query, limit=_LIMIT) for title, index in self._indexes().items()}
        if not any(groups.values()):
            return f"No matches found for '{cut(query, 80)}'. Browse with ot.tools() or ot.packs()."
        if info == "list":
            return "\n".join(hit.item.name for group in groups.values() for hit in group)
        lines = [f"# Results for '{cut(query, 80)}'"]
        for title, group in groups.items():
            if group:
                lines += ["", f"## {title}", *(self._hit(hit, info) for hit in group)]
        return "\n".join(lines)

    def _hit(self, hit: Hit, info: str) -> str:
        if info == "full" and isinstance(hit.item.value, ToolSpec):
            return _tool_page(as_written(hit.item.value), "full").replace("# ", "### ", 1)
        return f"- {hit.item.name}: {hit.item.description.partition(chr(10))[0]}".rstrip(": ")

    def _indexes(self) -> Mapping[str, Index]:
        """Return a search index for each group, rebuilt when anything has changed."""
        stamp = (self._box.registry.list(), self._box.shortcuts, self._box.config.prompts)
        if self._cached is None or self._cached[0] != stamp:
            groups = {"Tools": self._tools, "Packs": self._packs, "Snippets": self._snippets, "Aliases": self._aliases}
            self._cached = (stamp, {title: Index(entries()) for title, entries in groups.items()})
        return self._cached[1]

    def _tools(self) -> Iterable[Entry]:
        return map(entry_of, self._box.registry.list())

    def _packs(self) -> Iterable[Entry]:
        prompts = self._box.config.prompts
        for name, specs in self._box.registry.packs().items():
            said = prompts.get(name) or f"{counted(len(specs), 'tool')}: {', '.join(s.short_name for s in specs[:8])}"
            yield Entry(name, said)

    def _snippets(self) -> Iterable[Entry]:
        for name, snippet in self._box.shortcuts.snippets.items():
            yield Entry(f"${name}", snippet.description, tuple(param.name for param in snippet.params))

    def _aliases(self) -> Iterable[Entry]:
        for name, target in self._box.shortcuts.aliases.items():
            yield Entry(name, f"alias of {target}")


def documentation_url(pack: str) -> str:
    """Return the address of a pack's documentation."""
    return _URL.format(slug=_SLUGS.get(pack, pack))


def _tool_page(spec: ToolSpec, info: str) -> str:
    lines = [f"# {spec.name}", "", spec.description, "", f"Signature: {spec.signature}"]
    if spec.args:
        lines += ["", "Args:", *(f"- {line}" for line in _typed_args(spec))]
    if spec.returns:
        lines += ["", f"Returns: {spec.returns}"]
    if spec.example:
        lines += ["", "Example:", *(f"  {line}" for line in spec.example.splitlines())]
    if info == "full":
        facts: Mapping[str, Any] = {
            "Source": spec.source,
            "Tags": ", ".join(spec.tags),
            "Title": spec.title,
            "Read-only": "yes" if spec.read_only else "no",
            "Hints": ", ".join(f"{'' if is_so else 'not '}{hint}" for hint, is_so in spec.hints.items()),
            "Meta": spec.meta_text,
            "Time limit": f"{spec.timeout_s:g} s" if spec.timeout_s is not None else "",
            "Defined in": spec.where,
        }
        lines += ["", *(f"{key}: {value}" for key, value in facts.items() if value)]
    return "\n".join([*lines, "", f"Docs: {documentation_url(spec.pack)}"])


def _typed_args(spec: ToolSpec) -> Iterable[str]:
    for param in params(spec.parameters):
        kind = type_text(param.schema, spec.parameters)
        yield f"{param.name} ({kind}{'' if param.required else ', optional'}): {param.description}".rstrip(": ")


def _alias_page(name: str, target: str) -> str:
    return f"# {name}\n\nAlias of {target}\n\nUse: ${name} key=value, or ot.help(query='{target}') for its arguments."
