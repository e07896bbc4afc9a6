"""Tab: completion of `%tool` lines, `$` shortcuts, prompts of `%ask`, `pack.` and `ot.*("...")`.
Never raises.

The text left of the cursor is cut by the tokenizer of the line grammar, so what is offered is what
would be read. Items come in the order a user needs them: required arguments first; a mistyped name
gets the nearest ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.search import suggest
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.commands import Offer
from onetool_ipy.faces.commands.asking import ROW
from onetool_ipy.faces.commands.table import continuation
from onetool_ipy.faces.line.grammar import FLAGS, plain_words
from onetool_ipy.faces.line.tokenizer import Word, words
from onetool_ipy.faces.line.values import Expected
from onetool_ipy.faces.notebook.inspection import ASSIGNED
from onetool_ipy.faces.notebook.names import LazyObject
from onetool_ipy.mcp.resources import resource_rows
from onetool_ipy.packs.ot.sql import table_names
from onetool_ipy.proxies import PackProxy
from onetool_ipy.schema.read import identifier
from onetool_ipy.schema.read import params as schema_params
from onetool_ipy.toolbox import Toolbox

_SHORTCUT = re.compile(ASSIGNED + r"\$(?P<rest>[^$]*)$")
_ASK = re.compile(ASSIGNED + r"%{1,2}ask\s")
_INSIDE_OT = re.compile(
    r"\bot\.(?P<function>\w+)\(\s*+(?P<more>[^()]*,\s*+)?(?:(?P<name>\w++)\s*+=\s*+)?(?P<quote>[\"'])(?P<typed>[^\"'\n]*)$"
)
_INSIDE_READ = re.compile(
    r"\b(?P<pack>\w+)\.(?:read|watch)\(\s*(?:uri\s*=\s*)?[\"'](?P<typed>[^\"'\n]*)$"
)
_BY_NAME = (
    "help",
    "run",
    "tools",
    "packs",
    "result",
    "map",
    "stats",
    "history",
    "deps",
    "view",
    "browser",
    "usage",
)
_NAMING = (None, "query", "tool", "pattern", "handle", "name")
_WORDS_OF = {
    "info": ("list", "min", "full"),
    "period": ("day", "week", "month", "all"),
    "engine": ("threads", "dask"),
}
_PYTHON_CALL = re.compile(
    r"\s*(?:-\S*\s+)*(?P<name>[^\s(){}=\"'-][^\s(){}=\"']*)\((?P<inside>[^)]*)$"
)
_TOOL_CALL = re.compile(
    r"(?<![\w.%$])(?P<name>[^\W\d]\w*\.\w+(?:\.\w+)*)\((?P<inside>(?:[^()\"']|\"[^\"]*\"|'[^']*')*)$"
)
_OF_PACK = re.compile(r"(?:[^\"'#]*[^\w.\"'#%$])?(?P<pack>[^\W\d]\w*)\.(?P<typed>\w*)$")
_SNIPPET = re.compile(ASSIGNED + r"%snippet\s+(?P<rest>.*)$")
_OF_FILES = re.compile(r"path|file|folder|dir", re.IGNORECASE)
_IPYTHON_NAMES = ("In", "Out", "exit", "quit", "get_ipython", "open")
_MAX_FILES = 200
_MAX_OFFERS = 400


class CompletionItem(NamedTuple):
    """A text to insert; `type` is shown beside it."""

    text: str
    type: str


class Completions(NamedTuple):
    """The items for the fragment left of the cursor."""

    fragment: str
    offers: list[CompletionItem]


class CompletionContext(NamedTuple):
    """A toolbox, the sub-commands of `%tool`, and the names of the notebook."""

    box: Toolbox
    commands: Collection[str]
    names: Mapping[str, Any]

    def handles(self) -> list[str]:
        """The handles of stored results."""
        return [str(row["handle"]) for row in self.box.results.list()]

    def tables(self) -> list[str]:
        """The names of tables for SQL."""
        results = [f"r_{handle}" for handle in self.handles()]
        return ["calls", *table_names(self.names), *results]

    def shortcuts(self) -> Iterator[tuple[str, str, Json]]:
        """Snippets and aliases: name, kind and parameters."""
        shortcuts = self.box.shortcuts
        for name, snippet in shortcuts.snippets.items():
            yield name, "snippet", snippet.parameters
        for name in shortcuts.aliases:
            try:
                target = shortcuts.find(name)
            except UsageProblem:  # the alias leads back to itself
                continue
            spec = self.box.registry.get(target) if isinstance(target, str) else None
            yield name, "function", spec.parameters if spec is not None else {}
        for prompt in self.box.registry.prompts():
            yield prompt.name, "snippet", prompt.parameters

    def uris(self, server: str) -> list[CompletionItem]:
        """The known resources and templates of a server, by its name or as Python spells it."""
        name = next((each for each in self.box.servers if server in (each, identifier(each))), None)
        listing = None if name is None else self.box.servers.listing(name)
        return (
            []
            if listing is None
            else [CompletionItem(row["uri"], "value") for row in resource_rows(listing)]
        )

    def from_server(
        self, spec: ToolSpec, argument: str, typed: str, given: Mapping[str, str]
    ) -> list[str]:
        """What a connected server offers for an argument of its prompt, or a variable of its
        template."""
        servers = self.box.servers
        if "resource" in spec.tags:
            return servers.complete(spec.server, argument, typed, {}, template=given.get("uri", ""))
        prompt = servers.prompts().get(spec.name)
        return (
            []
            if prompt is None
            else servers.complete(spec.server, argument, typed, given, prompt=prompt["name"])
        )


def complete(
    before: str, context: CompletionContext, magics: Collection[str] = ("tool",), cell: str = ""
) -> Completions | None:
    """Complete a line up to the cursor; None if the line is not ours. `cell` is the whole cell."""
    names = "|".join(re.escape(name) for name in magics)
    on_line = re.match(ASSIGNED + rf"%{{1,2}}(?:{names})\s(?P<rest>.*)$", before)
    if on_line is not None:
        return _tool_line(on_line["rest"], context)
    if _ASK.match(before) or cell.startswith("%%ask"):
        return _prompt(before, context)
    snippet = _SNIPPET.match(before)
    if snippet is not None:
        return _shortcut(snippet["rest"], context, kinds=("snippet",))
    shortcut = _SHORTCUT.match(before)
    if shortcut is not None:
        return _shortcut(shortcut["rest"], context)
    reading = _INSIDE_READ.search(before)
    if reading is not None and (offers := context.uris(reading["pack"])):
        return _picked(reading["typed"], offers)
    inside = _INSIDE_OT.search(before)
    if inside is not None and inside["name"] in _WORDS_OF:
        return _picked(
            inside["typed"], [CompletionItem(word, "value") for word in _WORDS_OF[inside["name"]]]
        )
    is_first = inside is not None and not inside["more"]
    if (
        inside is not None
        and inside["function"] in _BY_NAME
        and inside["name"] in _NAMING[not is_first :]
    ):
        function, typed = inside["function"], inside["typed"]
        if function in ("result", "view"):
            return _picked(typed, [CompletionItem(handle, "value") for handle in context.handles()])
        packs = [
            CompletionItem(pack, "module") for pack in sorted(context.box.registry.known_packs())
        ]
        if function == "packs":
            return _picked(typed, packs)
        shortcuts = [CompletionItem(label, kind) for label, kind, _ in context.shortcuts()]
        others = _picked(typed, [*packs, *shortcuts]).offers if function in ("help", "run") else []
        return Completions(typed, [*_tools(typed, context), *others])
    call = _TOOL_CALL.search(before)
    if (
        call is not None
        and (completions := _parameters(call["name"], call["inside"], context)) is not None
    ):
        return completions
    member = _OF_PACK.match(before)
    if member is None or not isinstance(
        pack := context.names.get(member["pack"]), PackProxy | LazyObject
    ):
        return None
    return _picked(member["typed"], [CompletionItem(name, "function") for name in dir(pack)])


def answer(
    before: str, context: CompletionContext, magics: Collection[str], *, cell: str = ""
) -> Json:
    """The completions in the form that IPython's completer expects of a matcher."""
    from IPython.core.completer import SimpleCompletion

    try:
        completions = complete(before, context, magics, cell)
    except Exception:  # noqa: BLE001 - a broken cell or pack must never break Tab
        completions = None
    if completions is None:
        return {"completions": [], "suppress": False}
    return {
        "completions": [SimpleCompletion(o.text, type=o.type) for o in completions.offers],
        "matched_fragment": completions.fragment,
        "suppress": True,
        "ordered": True,
    }


def _tool_line(rest: str, context: CompletionContext) -> Completions:
    """After `%tool`: a name, a sub-command, an argument, a value or a flag."""
    in_python = _PYTHON_CALL.match(rest)
    if in_python is not None:
        spec = context.box.registry.find(in_python["name"])
        parts = re.split(r",\s*", in_python["inside"])
        args = {part.partition("=")[0].strip(): "" for part in parts[:-1]}
        return (
            Completions("", [])
            if spec is None
            else _argument(parts[-1].lstrip(), spec.parameters, args, context)
        )
    done, last = _split_last(rest)
    plain = plain_words(rest[: len(rest) - len(last)])
    first = plain[0].text if plain else ""
    if first in context.commands:
        return _of_command([word.text for word in done], last, context)
    if last.startswith("-"):
        return _picked(last, [CompletionItem(flag, "keyword") for flag in FLAGS])
    if not plain:
        # One's own packs and tools come first; once a letter is typed, the sub-commands come before
        # what we ship.
        words = [CompletionItem(word, "keyword") for word in sorted(context.commands)]
        names = sorted(context.box.registry.known_packs(), key=lambda pack: (pack == "ot", pack))
        packs = _picked(last, [CompletionItem(f"{pack}.", "module") for pack in names]).offers
        tools = _tools(last, context)
        named = tools if "." in last else [*packs, *tools]
        commands = _picked(last, words).offers
        shipped = {
            spec.pack for spec in context.box.registry.known() if last and spec.origin == "builtin"
        }
        named.sort(key=lambda item: item.text.partition(".")[0] in shipped)
        own = sum(item.text.partition(".")[0] not in shipped for item in named)
        completions = Completions(last, [*named[:own], *commands, *named[own:]])
        if completions.offers or not last:
            return completions
        near = suggest(last, (spec.name for spec in context.box.registry.known()))
        return Completions(last, [CompletionItem(name, "function") for name in near])
    spec = context.box.registry.find(first)
    if spec is None:
        return Completions(last, [])
    return _argument(
        last, spec.parameters, {word.key: word.value for word in plain[1:]}, context, spec
    )


def _split_last(text: str) -> tuple[list[Word], str]:
    """The finished words, and the last one as typed so far; empty after a blank."""
    typed = words(text)
    if not typed or text[-1].isspace():
        return typed, ""
    return typed[:-1], text[typed[-1].start :]


def _of_command(done: Sequence[str], last: str, context: CompletionContext) -> Completions:
    """After a command: its verbs, options and words, then the names it takes."""
    if done == ["help"]:
        return Completions(last, _tools(last, context))
    _, listed, names = continuation(done, last, "notebook")
    offers = _picked(last, [CompletionItem(word, "keyword") for word in listed]).offers
    sources: dict[Offer, Callable[[], list[CompletionItem]]] = {
        "tool": lambda: _tools(last, context),
        "bundle": lambda: _tools(last, context),
        "server": lambda: [CompletionItem(name, "module") for name in context.box.servers],
        "handle": lambda: [CompletionItem(handle, "value") for handle in context.handles()],
        "table": lambda: [CompletionItem(name, "value") for name in context.tables()],
        "uri": lambda: context.uris(done[-1]),
        "file": lambda: [CompletionItem(path, "value") for path in _files(last)],
    }
    for kind in names:
        items = sources[kind]() if kind in sources else []
        offers = [*(items if kind in ("tool", "bundle") else _picked(last, items).offers), *offers]
    return Completions(last, offers)


def _tools(typed: str, context: CompletionContext) -> list[CompletionItem]:
    """Tools whose name, or whose part after the pack, begins as typed."""
    lower = typed.lower()
    specs = context.box.registry.unlisted() if "@" in typed else context.box.registry.known()
    first = [
        s.name
        for s in sorted(specs, key=context.box.registry.place_of)
        if s.name.lower().startswith(lower)
    ]
    second = sorted(s.name for s in specs if lower and s.short_name.lower().startswith(lower))
    return [CompletionItem(name, "function") for name in dict.fromkeys([*first, *second])][
        :_MAX_OFFERS
    ]


def _argument(
    last: str,
    parameters: Json,
    given: Mapping[str, str],
    context: CompletionContext,
    spec: ToolSpec | None = None,
) -> Completions:
    key, equals, value = last.partition("=")
    params = schema_params(parameters)
    if not equals:
        return _picked(
            last, [CompletionItem(f"{p.name}=", "param") for p in params if p.name not in given]
        )
    typed = value[1:] if value[:1] in ('"', "'") else value
    if spec is not None and not spec.is_listed and spec.server and key != "uri":
        values = context.from_server(spec, key, typed, given)
        return Completions(
            typed, [CompletionItem(v, "value") for v in values if not any(c.isspace() for c in v)]
        )
    param = next((p for p in params if p.name == key), None)
    if param is None:
        return Completions(value, [])
    expected = Expected(param.schema, parameters)
    values = [str(choice) for choice in expected.choices]
    if "boolean" in expected.kinds and not expected.takes_text:
        values += ["true", "false"]
    if spec is not None and "resource" in spec.tags and spec.server:
        return _picked(typed, context.uris(spec.server))
    if param.name == "handle":
        values += context.handles()
    if not values and _OF_FILES.search(param.name):
        values = _files(typed)
    return _picked(typed, [CompletionItem(v, "value") for v in values])


def _files(typed: str) -> list[str]:
    """The entries of the folder being typed; a folder ends in a slash, hidden entries need a
    dot."""
    folder, begun = os.path.split(typed)
    # What was typed stays: on Windows its separator may be either one.
    before = typed.removesuffix(begun)
    try:
        with os.scandir(folder or ".") as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
    visible = [
        entry for entry in entries if begun.startswith(".") or not entry.name.startswith(".")
    ]
    paths = [before + entry.name + "/" * entry.is_dir() for entry in visible[:_MAX_FILES]]
    # A path with blanks needs quotes.
    return [path for path in paths if not any(c.isspace() for c in path)]


def _parameters(name: str, inside: str, context: CompletionContext) -> Completions | None:
    """In Python code, where an argument of a tool begins: the parameters that are not given yet."""
    *done, last = re.split(r",\s*", inside.lstrip())
    if last:  # IPython adds the parameters to the other names that begin so
        return None
    registry = context.box.registry
    spec = registry.find(name) or next(
        (s for s in registry.known() if f"{identifier(s.pack)}.{identifier(s.short_name)}" == name),
        None,
    )
    if spec is None:
        return None
    keywords = {part.partition("=")[0].strip() for part in done if "=" in part}
    names = [param.name for param in schema_params(spec.parameters) if param.name.isidentifier()]
    left = [each for each in names[sum("=" not in part for part in done) :] if each not in keywords]
    return Completions("", [CompletionItem(f"{each}=", "param") for each in left])


def _shortcut(
    rest: str, context: CompletionContext, kinds: Collection[str] = ("snippet", "function")
) -> Completions:
    name, blank, text = rest.partition(" ")
    shortcuts = {
        label: (kind, params) for label, kind, params in context.shortcuts() if kind in kinds
    }
    if not blank:
        offers = [CompletionItem(label, kind) for label, (kind, _) in sorted(shortcuts.items())]
        picked = _picked(name, offers).offers
        return Completions(name, [*picked, *(_tools(name, context) if "function" in kinds else [])])
    spec = context.box.registry.find(name)
    params = (
        shortcuts[name][1] if name in shortcuts else spec.parameters if spec is not None else {}
    )
    done, last = _split_last(text)
    return _argument(last, params, {word.key: word.value for word in done}, context, spec)


def _prompt(before: str, context: CompletionContext) -> Completions:
    """In a prompt: `@name` and `+pack.tool`; before it flags, models and sessions."""
    *done, last = re.split(r"\s+", before)
    server, is_uri, _ = last[1:].partition(":")
    if last.startswith("+") and is_uri:
        return _picked(
            last, [CompletionItem(f"+{server}:{o.text}", o.type) for o in context.uris(server)]
        )
    if last.startswith("$"):
        prompts = context.box.registry.prompts()
        return _picked(last, [CompletionItem(f"${prompt.name}", "snippet") for prompt in prompts])
    if last.startswith("+"):
        packs = [
            CompletionItem(f"+{pack}", "module")
            for pack in sorted(context.box.registry.known_packs())
        ]
        picked = _picked(last, packs).offers if "." not in last else []
        return Completions(
            last,
            [*picked, *(CompletionItem(f"+{o.text}", o.type) for o in _tools(last[1:], context))],
        )
    if (variable := re.search(r"(?<![\w@.])@\w*$", last)) is not None:
        names = [
            name
            for name in context.names
            if not name.startswith("_") and name not in _IPYTHON_NAMES
        ]
        return _picked(
            variable[0], [CompletionItem(f"@{name}", "instance") for name in sorted(names)]
        )
    if last.startswith("-"):
        # An alias is offered where no option begins so.
        options = [*ROW.options_in("notebook"), "--help"]
        aliases = [name for name in ROW.kinds("notebook") if name not in options]
        offers = [
            _picked(last, [CompletionItem(name, "keyword") for name in names])
            for names in (options, aliases)
        ]
        return offers[0] if offers[0].offers else offers[1]
    option = ROW.options_in("notebook").get(done[-1]) if done else None
    if option is not None and option.offers == "tool":
        return Completions(last, _tools(last, context))
    values = {
        "--model": context.box.config.settings.models.named,
        "--session": context.box.ask.session_names(),
    }
    return _picked(
        last, [CompletionItem(name, "value") for name in values.get(done[-1] if done else "", ())]
    )


def _picked(typed: str, offers: list[CompletionItem]) -> Completions:
    lower = typed.lower()
    return Completions(typed, [o for o in offers if o.text.lower().startswith(lower)][:_MAX_OFFERS])
