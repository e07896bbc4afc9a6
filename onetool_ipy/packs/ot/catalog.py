"""`ot.tools`, `ot.packs`, `ot.aliases`, `ot.snippets`, `ot.config`, `ot.version`, `ot.help`: what
there is (spec 001).

`ot.help` returns the page of an exact name, in the order tool, pack, `$snippet`, alias. Anything
else is a search; the hits are grouped by kind, best first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.search import Entry, Hit, Index, contains
from onetool_ipy.base.values import cut, map_text
from onetool_ipy.config.load import all_labels
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.labels import Labels
from onetool_ipy.core.registry import entry_of
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.packs.ot.errors import choice, worded
from onetool_ipy.render.pages import (
    Code,
    Heading,
    Link,
    Note,
    PageText,
    Part,
    Prose,
    Row,
    Rows,
    tool_rows,
)
from onetool_ipy.render.views import Listing, Record, Text, counted
from onetool_ipy.render.yaml_flow import flow, inline
from onetool_ipy.schema.read import params, signature_text, type_text
from onetool_ipy.sdk.requirements import is_installed
from onetool_ipy.snippets.definition import Snippet, SnippetParam, example_of

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

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
Info = Literal["list", "min", "full"]
INFO: tuple[Info, ...] = get_args(Info)
"""The functions accept any text, since spec 001 fixes the error message for a wrong one."""


def snippet_page(snippet: Snippet) -> str:
    """Return one snippet exactly as spec 001 prints it: definition, example call and its
    expansion."""
    lines = [f"name: {flow(snippet.name)}", f"description: {flow(snippet.description)}"]
    lines += (
        ["params:", *(f"  {p.name}: {_param(p)}" for p in snippet.params)]
        if snippet.params
        else ["params: {}"]
    )
    lines += ["body: |", *(f"  {line}".rstrip() for line in snippet.body.rstrip("\n").split("\n"))]
    try:
        line, expansion = example_of(snippet)
        example = [
            "# Example with defaults:",
            f"# {line}",
            "# Expands to:",
            *expansion.rstrip("\n").split("\n"),
        ]
    except OneToolError as exc:
        example = [f"# No example: {exc.message}"]
    return "\n".join([*lines, "", *example])


def _prompt_page(spec: ToolSpec) -> str:
    """Return one prompt of a server in the same form: its text comes from the server when it is
    used."""
    lines = [f"name: {flow(spec.name)}", f"description: {flow(spec.description)}"]
    lines += [
        "params:",
        *(f"  {p.name}: {{description: {flow(p.description)}}}" for p in spec.params),
    ]
    return "\n".join([*lines, f"server: {flow(spec.server)}"])


def _param(param: SnippetParam) -> str:
    facts = {
        "type": param.declared or None,
        **({} if param.is_required else {"default": param.default}),
        "description": param.description or None,
    }
    parts = []
    for key, value in facts.items():
        if value is None and key != "default":
            continue
        text = (
            json.dumps(value, ensure_ascii=False)
            if isinstance(value, str) and key != "type"
            else inline(value)
        )
        parts.append(f"{key}: {text}")
    return "{" + ", ".join(parts) + "}"


class CatalogTools:
    """The listing functions, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark(read_only=True)
    @worded
    def tools(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the tools.

        Args:
            pattern: Only tools with this text in their name, whatever the case.
            info: list (names), min (name and description) or full (signature, args, returns,
                example, source).

        Returns:
            Names or rows, sorted by name.

        Example:
            ot.tools(pattern="search")
        """
        choice("info", info, INFO, "ot.tools(info='min')")
        specs = sorted(
            (s for s in self._box.registry.list() if contains(pattern, s.name)),
            key=lambda s: s.name,
        )
        if info == "list":
            return Listing(spec.name for spec in specs)
        rows = (
            {"name": spec.name, "description": spec.summary} if info == "min" else _tool_row(spec)
            for spec in specs
        )
        return Listing(map_text(list(rows), self._box.mask))

    @mark(read_only=True)
    @worded
    def packs(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the packs.

        Args:
            pattern: Only packs with this text in their name, whatever the case.
            info: list (names), min (name, source, tool_count) or full (instructions and tools, as
                text).

        Returns:
            Names, rows, or text at full.

        Example:
            ot.packs(pattern="brave", info="full")
        """
        choice("info", info, INFO, "ot.packs(info='min')")
        packs = {
            n: s for n, s in sorted(self._box.registry.packs().items()) if contains(pattern, n)
        }
        if info == "list":
            return Listing(packs)
        if info == "min":
            return Listing(
                {"name": n, "source": _kind(s), "tool_count": len(s)} for n, s in packs.items()
            )
        pages = (pack_text(self._box, name, specs) for name, specs in packs.items())
        return Text(self._box.mask("\n\n".join(pages)))

    @mark(read_only=True)
    @worded
    def aliases(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the aliases.

        Args:
            pattern: Only aliases with this text in their name or target.
            info: list (names), min (`name -> target`) or full ({name, target}).

        Returns:
            Names, lines or rows, sorted by name.

        Example:
            ot.aliases()
        """
        choice("info", info, INFO, "ot.aliases(info='min')")
        aliases = sorted(self._box.shortcuts.aliases.items())
        matches = [
            (name, target)
            for name, target in aliases
            if contains(pattern, name) or contains(pattern, target)
        ]
        if info == "list":
            return Listing(name for name, _ in matches)
        if info == "min":
            return Listing(f"{name} -> {target}" for name, target in matches)
        return Listing({"name": name, "target": target} for name, target in matches)

    @mark(read_only=True)
    @worded
    def snippets(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the snippets, and the prompts of MCP servers that are known.

        Args:
            pattern: Only snippets with this text in their name or description.
            info: list (names), min (`name: description`) or full (definition, example and
                expansion, as text).

        Returns:
            Names, lines, or text at full.

        Example:
            ot.snippets(pattern="pkg", info="full")
        """
        choice("info", info, INFO, "ot.snippets(info='min')")
        matches = [
            snippet
            for _, snippet in sorted(self._box.shortcuts.snippets.items())
            if contains(pattern, snippet.name) or contains(pattern, snippet.description)
        ]
        prompts = [
            spec
            for spec in self._box.registry.prompts()
            if contains(pattern, spec.name) or contains(pattern, spec.summary)
        ]
        if info == "list":
            return Listing(
                [*(snippet.name for snippet in matches), *(spec.name for spec in prompts)]
            )
        if info == "min":
            lines = [(snippet.name, snippet.description) for snippet in matches]
            lines += [(spec.name, spec.summary) for spec in prompts]
            return Listing(self._box.mask(f"{name}: {text}".rstrip()) for name, text in lines)
        return Text(
            self._box.mask("\n\n".join([*map(snippet_page, matches), *map(_prompt_page, prompts)]))
        )

    @mark(read_only=True)
    @worded
    def config(self) -> Any:
        """Show the key values of the configuration: aliases, snippets and servers.

        Returns:
            {aliases, snippets, servers}

        Example:
            ot.config()
        """
        shortcuts = self._box.shortcuts
        described = {
            name: {"description": snippet.description}
            for name, snippet in shortcuts.snippets.items()
        }
        return Record(
            aliases=dict(shortcuts.aliases),
            snippets=described,
            servers=list(self._box.config.settings.servers),
        )

    @mark(read_only=True)
    def version(self) -> Any:
        """Tell the version of onetool_ipy.

        Returns:
            The version, such as 1.0.0.

        Example:
            ot.version()
        """
        return Text(__version__)


def _tool_row(spec: ToolSpec) -> Mapping[str, Any]:
    """Return the fields of spec 001 that the tool has."""
    # Spec 001 wants `'...'` instead of `...` for an optional argument of a server's tool.
    row: dict[str, Any] = {
        "name": spec.name,
        "signature": signature_text(spec.name, spec.parameters, unknown="'...'")
        if spec.server
        else spec.signature,
        "description": spec.description,
        "source": spec.source,
    }
    more = {"args": list(spec.args), "returns": spec.returns, "example": spec.example}
    return {**row, **{key: value for key, value in more.items() if value}}


def pack_text(box: Toolbox, name: str, specs: list[ToolSpec]) -> str:
    """Return a pack's page: its name, source, instructions and tools."""
    lines = [f"## {name}", "", f"source: {_kind(specs)}"]
    lines += [line for text in pack_instructions(box, name, specs) for line in ("", text)]
    return "\n".join([*lines, "", *(f"- {spec.name}: {spec.summary}" for spec in specs)])


def pack_instructions(box: Toolbox, name: str, specs: list[ToolSpec]) -> list[str]:
    """Return how to use a pack, by prompts.yaml and by its server."""
    texts = [box.config.prompts.get(name, "")]
    texts += [box.servers.instructions(name)] if any(spec.server == name for spec in specs) else []
    return [text.strip() for text in texts if text.strip()]


def _kind(specs: list[ToolSpec]) -> str:
    return specs[0].source.partition(":")[0]


def page_of(box: Toolbox, query: str, info: str = "min") -> Text | None:
    """Return the page of a tool, a pack, a `$snippet` or an alias of exactly this name; None if
    none is known.

    Starts nothing. The page has no secrets.
    """
    registry, shortcuts = box.registry, box.shortcuts
    spec, specs, name = (
        registry.find(query),
        registry.known_packs().get(query),
        query.removeprefix("$"),
    )
    page: Text | None = None
    if spec is not None:
        (labels,) = all_labels([spec], box.config)
        page = Text(spec.name) if info == "list" else _tool_page(spec, info, labels)
    elif specs is not None and info == "list":
        page = Text("\n".join(s.name for s in specs))
    elif specs is not None:
        docs = f"Docs: {documentation_url(query)}"
        text = pack_text(box, query, specs).replace("## ", "# ", 1)
        page = PageText(f"{text}\n\n{docs}", [*pack_parts(box, query, specs), Note(docs)])
    elif query.startswith("$") and name in shortcuts.snippets:
        page = Text(name if info == "list" else snippet_page(shortcuts.snippets[name]))
    elif name in shortcuts.aliases:
        target = shortcuts.aliases[name]
        use = f"Use: ${name} key=value, or ot.help(query='{target}') for its arguments."
        rows = Rows((Row(target, link="tool"),))
        text = f"# {name}\n\nAlias of {target}\n\n{use}"
        page = (
            Text(name)
            if info == "list"
            else PageText(text, [Heading(name, "alias of"), rows, Note(use)])
        )
    return None if page is None else page.masked(box.mask)


class HelpTools:
    """The help function, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._cached: tuple[Any, Mapping[str, Index]] | None = None

    @mark(read_only=True)
    @worded
    def help(self, query: str = "", info: Info | str = "min") -> Any:
        """Find out how to use something: a tool, a pack, a $snippet, an alias, or anything you can
        describe.

        Args:
            query: A name, or words; typos are forgiven. Empty gives an overview.
            info: list (names), min (names and descriptions, or an exact hit's page) or full (every
                field).

        Returns:
            A page of text.

        Example:
            ot.help(query="read file")
        """
        choice("info", info, INFO, "ot.help(query='brave', info='min')")
        text = query.strip()
        if not text:
            return PageText(_OVERVIEW, _overview_parts())
        page = page_of(self._box, text, info)
        if page is None:
            self._box.registry.list()  # a server that this starts may have the name
            page = page_of(self._box, text, info)
        return page or self._search(text, info).masked(self._box.mask)

    def _search(self, query: str, info: str) -> Text:
        """Return the best hits of each group; no group displaces another."""
        groups = {
            title: index.search(query, limit=_LIMIT) for title, index in self._indexes().items()
        }
        if not any(groups.values()):
            message = (
                f"No matches found for '{cut(query, 80)}'. Browse with ot.tools() or ot.packs()."
            )
            return PageText(message, [Note(message)])
        if info == "list":
            return Text("\n".join(hit.item.name for group in groups.values() for hit in group))
        title = f"Results for '{cut(query, 80)}'"
        lines, parts = [f"# {title}"], list[Part]([Heading(title)])
        for kind, group in groups.items():
            if group:
                lines += ["", f"## {kind}", *(self._hit(hit, info) for hit in group)]
                parts += _group_parts(kind, group, info)
        return PageText("\n".join(lines), parts)

    def _hit(self, hit: Hit, info: str) -> str:
        if info == "full" and isinstance(hit.item.value, ToolSpec):
            return str(_tool_page(hit.item.value, "full")).replace("# ", "### ", 1)
        return f"- {hit.item.name}: {hit.item.description.partition(chr(10))[0]}".rstrip(": ")

    def _indexes(self) -> Mapping[str, Index]:
        """Return a search index for each group, rebuilt when anything has changed."""
        stamp = (self._box.registry.list(), self._box.shortcuts, self._box.config.prompts)
        if self._cached is None or self._cached[0] != stamp:
            groups = {
                "Tools": self._tools,
                "Packs": self._packs,
                "Snippets": self._snippets,
                "Aliases": self._aliases,
            }
            self._cached = (stamp, {title: Index(entries()) for title, entries in groups.items()})
        return self._cached[1]

    def _tools(self) -> Iterable[Entry]:
        return map(entry_of, self._box.registry.list())

    def _packs(self) -> Iterable[Entry]:
        prompts = self._box.config.prompts
        for name, specs in self._box.registry.packs().items():
            text = (
                prompts.get(name)
                or f"{counted(len(specs), 'tool')}: {', '.join(s.short_name for s in specs[:8])}"
            )
            yield Entry(name, text)

    def _snippets(self) -> Iterable[Entry]:
        for name, snippet in self._box.shortcuts.snippets.items():
            yield Entry(
                f"${name}", snippet.description, tuple(param.name for param in snippet.params)
            )

    def _aliases(self) -> Iterable[Entry]:
        for name, target in self._box.shortcuts.aliases.items():
            yield Entry(name, f"alias of {target}")


def documentation_url(pack: str) -> str:
    """Return the address of a pack's documentation."""
    return _URL.format(slug=_SLUGS.get(pack, pack))


def tool_parts(spec: ToolSpec, labels: Labels | None = None) -> list[Part]:
    """Return what a tool does and takes, as parts of a page; with `labels` also what it reads and
    where it sends."""
    parts: list[Part] = [Heading(spec.name, spec.signature.removeprefix(spec.name), link="tool")]
    parts.append(Prose(spec.description))
    rows = []
    for p in params(spec.parameters):
        default = f"default {p.schema['default']!r}" if p.has_default else "optional"
        kind = f"{type_text(p.schema, spec.parameters)}, {'required' if p.required else default}"
        rows.append(Row(p.name, p.description, kind))
    parts += [Heading("Arguments", level=2), Rows(tuple(rows), is_prose=True)] if rows else []
    parts += [Heading("Returns", level=2), Prose(spec.returns)] if spec.returns else []
    parts += [Heading("Example", level=2), Code(spec.example)] if spec.example else []
    needs = [
        Row(dep.name, "", "ok", "good")
        if is_installed(dep)
        else Row(dep.name, dep.install, "missing", "bad")
        for dep in spec.deps
    ]
    parts += [Heading("Needs", level=2), Rows(tuple(needs))] if needs else []
    if spec.origin == "builtin" and not spec.is_toolbox:  # packs that are not names in a notebook
        parts.append(Note(f"In Python: from onetool_ipy.live import {spec.pack}"))
    if labels is not None:
        parts.append(Note(f"Reads: {labels.reads_text}. Sends to: {labels.sends_text}"))
    origin = f"MCP server {spec.server}" if spec.server else spec.origin
    facts = ", ".join([origin, *spec.badges, *spec.tags])
    parts.append(Note(f"Source: {facts}" + (f" ({spec.where})" if spec.where else "")))
    return [*parts, Note(f"Meta: {spec.meta_text}")] if spec.meta_text else parts


def pack_parts(box: Toolbox, name: str, specs: list[ToolSpec]) -> list[Part]:
    """Return a pack with its instructions and tools, as parts of a page."""
    spec = specs[0]
    kind = f"MCP server {spec.server}" if spec.server else "HTTP" if spec.http else "Python"
    instructions = map(Prose, pack_instructions(box, name, specs))
    return [
        Heading(name, f"{kind}, {counted(len(specs), 'tool')}", link="tool"),
        *instructions,
        tool_rows(specs, box.registry.is_recommended),
    ]


def _group_parts(kind: str, group: list[Hit], info: str) -> Iterable[Part]:
    yield Heading(kind, level=2)
    if info == "full" and kind == "Tools":
        for hit in group:
            yield from tool_parts(hit.item.value)
        return
    link: Link = "tool" if kind in ("Tools", "Packs") else "line" if kind == "Snippets" else ""
    rows = ((hit.item.name, hit.item.description.partition("\n")[0]) for hit in group)
    yield Rows(tuple(Row(name, text, link=link) for name, text in rows), is_prose=True)


def _overview_parts() -> Iterable[Part]:
    title, *sections = _OVERVIEW.split("\n\n## ")
    yield Heading(title.removeprefix("# "))
    for section in sections:
        name, *lines = section.split("\n- ")
        yield Heading(name, level=2)
        if name == "Tips":
            yield Prose("- " + "\n- ".join(lines))
            continue
        link: Link = "line" if name == "Examples" else ""
        split = (line.partition(" - ") for line in lines)
        yield Rows(tuple(Row(code, text, link=link) for code, _, text in split))


def _tool_page(spec: ToolSpec, info: str, labels: Labels | None = None) -> PageText:
    lines = [f"# {spec.name}", "", spec.description, "", f"Signature: {spec.signature}"]
    if spec.args:
        lines += ["", "Args:"]
        for param in params(spec.parameters):
            kind = type_text(param.schema, spec.parameters)
            optional = "" if param.required else ", optional"
            lines.append(f"- {param.name} ({kind}{optional}): {param.description}".rstrip(": "))
    if spec.returns:
        lines += ["", f"Returns: {spec.returns}"]
    if spec.example:
        lines += ["", "Example:", *(f"  {line}" for line in spec.example.splitlines())]
    if info == "full":
        facts: Mapping[str, Any] = {
            "Source": spec.source,
            "Tags": ", ".join(spec.tags),
            "Title": spec.server_facts.title,
            "Read-only": "yes" if spec.read_only else "no",
            "Hints": ", ".join(
                f"{'' if is_so else 'not '}{hint}"
                for hint, is_so in spec.server_facts.hints.items()
            ),
            "Meta": spec.meta_text,
            "Reads": "" if labels is None else labels.reads_text,
            "Sends to": "" if labels is None else labels.sends_text,
            "Time limit": f"{spec.timeout_s:g} s" if spec.timeout_s is not None else "",
            "Defined in": spec.where,
        }
        lines += ["", *(f"{key}: {value}" for key, value in facts.items() if value)]
    docs = f"Docs: {documentation_url(spec.pack)}"
    return PageText("\n".join([*lines, "", docs]), [*tool_parts(spec, labels), Note(docs)])
