"""Shift-Tab on a `%tool` line and behind `$`: the page of the tool that stands there, whatever the cursor is at.

IPython looks the word at the cursor up among Python's names, and is asked first; most tools are no such name.

Tab completion for `%tool` lines, `$` shortcuts and the names inside `ot.*("...")`. Never raises.

Reads the text left of the cursor with the same `words` as the grammar, so that what is offered is what would be read.
Offers are typed, in the order a user needs them: required arguments first; a mistyped name gets the nearest ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from onetool_ipy.base.search import suggest
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.line.grammar import FLAGS
from onetool_ipy.faces.line.tokenizer import words
from onetool_ipy.schema.read import params as schema_params
from onetool_ipy.schema.read import resolve
from onetool_ipy.toolbox import Toolbox

__all__ = ["ASSIGNED", "NAMED", "Completions", "Offer", "Sight", "answer", "complete"]


ASSIGNED = r"^\s*(?:[^=!%$#\n]+?(?:[-+*/|&^@%]|//|\*\*)?=\s*)?"
_SHORTCUT = re.compile(ASSIGNED + r"\$(?P<rest>[^$]*)$")
_ASK = re.compile(ASSIGNED + r"%{1,2}ask\s")
_INSIDE_OT = re.compile(
    r"\bot\.(?P<function>\w+)\(\s*(?P<more>[^()]*,\s*)?(?:(?P<name>\w+)\s*=\s*)?(?P<quote>[\"'])(?P<typed>[^\"'\n]*)$"
)
_BY_NAME = ("help", "run", "tools", "packs", "result", "map", "stats", "history", "deps", "view", "browser", "usage")
_NAMING = (None, "query", "tool", "pattern", "handle", "name")
_WORDS_OF = {"info": ("list", "min", "full"), "period": ("day", "week", "month", "all"), "engine": ("threads", "dask")}
_PYTHON_CALL = re.compile(r"\s*(?:-\S*\s+)*(?P<name>[^\s(){}=\"'-][^\s(){}=\"']*)\((?P<inside>[^)]*)$")
_SNIPPET = re.compile(ASSIGNED + r"%snippet\s+(?P<rest>.*)$")
NAMED = ("info", "help", "check", "browse")
"""Sub-commands that are about a tool."""
_VERBS = {
    "server": ("list", "add", "import", "start", "stop", "restart", "test", "logs", "remove"),
    "bundle": ("list", "show", "on", "off", "delete"),
    "stats": ("day", "week", "month", "all", "--tool", "--output"),
    "usage": ("day", "week", "month", "all", "--tool"),
    "history": ("rerun", "--failed"),
    "jobs": ("cancel",),
    "serve": ("status", "stop", "--port", "--allow"),
    "replay": ("off", "--only", "--refresh"),
    "import": ("openapi",),
    "new": ("http",),
    "install": ("--lazy", "--always", "--remove"),
}
"""What may stand first behind a sub-command."""
_OF_FILES = re.compile(r"path|file|folder|dir", re.IGNORECASE)
_MAX_FILES = 200
_MAX_OFFERS = 400


class Offer(NamedTuple):
    """One thing to insert; `type` is what the notebook shows beside it."""

    text: str
    type: str


class Completions(NamedTuple):
    """What to offer for the fragment left of the cursor."""

    fragment: str
    offers: list[Offer]


class Sight(NamedTuple):
    """What completion may look at."""

    box: Toolbox
    commands: Collection[str]
    shortcuts: Callable[[], Iterable[tuple[str, str, dict[str, Any]]]]
    handles: Callable[[], Iterable[str]]


def complete(before: str, sight: Sight, magics: Collection[str] = ("tool",), cell: str = "") -> Completions | None:
    """Completions for a line up to the cursor, or None where it is none of ours. `cell` is all of its cell."""
    names = "|".join(re.escape(name) for name in magics)
    on_line = re.match(ASSIGNED + rf"%{{1,2}}(?:{names})\s(?P<rest>.*)$", before)
    if on_line is not None:
        return _tool_line(on_line["rest"], sight)
    if _ASK.match(before) or cell.startswith("%%ask"):
        return _prompt(before, sight)
    snippet = _SNIPPET.match(before)
    if snippet is not None:
        return _shortcut(snippet["rest"], sight, kinds=("snippet",))
    shortcut = _SHORTCUT.match(before)
    if shortcut is not None:
        return _shortcut(shortcut["rest"], sight)
    inside = _INSIDE_OT.search(before)
    if inside is not None and inside["name"] in _WORDS_OF:
        return _picked(inside["typed"], [Offer(word, "value") for word in _WORDS_OF[inside["name"]]])
    is_first = inside is not None and not inside["more"]
    if inside is not None and inside["function"] in _BY_NAME and inside["name"] in _NAMING[not is_first :]:
        return _inside_ot(inside["function"], inside["typed"], sight)
    return None


def answer(before: str, sight: Sight, magics: Collection[str], *, cell: str = "") -> dict[str, Any]:
    """The same as the answer of a matcher of IPython's completer."""
    from IPython.core.completer import SimpleCompletion

    try:
        found = complete(before, sight, magics, cell)
    except Exception:  # noqa: BLE001 - a broken cell or pack must never break Tab
        found = None
    if found is None:
        return {"completions": [], "suppress": False}
    return {
        "completions": [SimpleCompletion(o.text, type=o.type) for o in found.offers],
        "matched_fragment": found.fragment,
        "suppress": True,
        "ordered": True,
    }


def _tool_line(rest: str, sight: Sight) -> Completions:
    """Behind `%tool`: a name, a sub-command's name, an argument, a value or a flag."""
    in_python = _PYTHON_CALL.match(rest)
    if in_python is not None:
        return _python_call(in_python["name"], in_python["inside"], sight)
    typed = words(rest)
    at_blank = not rest or rest[-1].isspace()
    done, last = (typed, "") if at_blank or not typed else (typed[:-1], rest[typed[-1].start :])
    plain = [word for word in done if not _is_flag(rest[word.start : word.end])]
    first = plain[0].text if plain else ""
    if first in sight.commands:
        return _of_command(first, [word.text for word in done][1:], last, sight)
    if last.startswith("-"):
        return _picked(last, [Offer(flag, "keyword") for flag in FLAGS])
    if not plain:
        return _name(last, sight)
    spec = sight.box.registry.find(first)
    if spec is None:
        return Completions(last, [])
    given = {word.key for word in plain[1:] if word.key}
    return _argument(last, spec, given, sight)


def _of_command(command: str, done: Sequence[str], last: str, sight: Sight) -> Completions:
    """Behind a sub-command: its own words first, then what they are about."""
    if command in NAMED:
        return Completions(last, _tools(last, sight))
    if command == "view":
        return _picked(last, [Offer(handle, "value") for handle in sight.handles()])
    if not done or last.startswith("-"):
        return _picked(last, [Offer(word, "keyword") for word in _VERBS.get(command, ())])
    if done[-1] == "--tool" or command == "bundle":
        return Completions(last, _tools(last, sight))
    if command == "server" and len(done) == 1:
        return _picked(last, [Offer(name, "module") for name in sight.box.servers])
    return Completions(last, [])


def _name(typed: str, sight: Sight) -> Completions:
    offers = [Offer(word, "keyword") for word in sorted(sight.commands)]
    packs = [Offer(f"{pack}.", "module") for pack in sorted(sight.box.registry.known_packs())]
    picked = _picked(typed, [*offers, *packs]).offers if "." not in typed else []
    found = Completions(typed, [*picked, *_tools(typed, sight)])
    if found.offers or not typed:
        return found
    near = suggest(typed, (spec.name for spec in sight.box.registry.known()))
    return Completions(typed, [Offer(name, "function") for name in near])


def _tools(typed: str, sight: Sight) -> list[Offer]:
    """Tools whose name, or whose part behind the pack, begins as typed."""
    lower = typed.lower()
    specs = sight.box.registry.versions() if "@" in typed else sight.box.registry.known()
    first = sorted(s.name for s in specs if s.name.lower().startswith(lower))
    second = sorted(s.name for s in specs if lower and s.short_name.lower().startswith(lower))
    return [Offer(name, "function") for name in dict.fromkeys([*first, *second])][:_MAX_OFFERS]


def _argument(last: str, spec: ToolSpec, given: set[str], sight: Sight) -> Completions:
    key, equals, value = last.partition("=")
    if not equals:
        params = [p for p in schema_params(spec.parameters) if p.name not in given]
        return _picked(last, [Offer(f"{p.name}=", "param") for p in params])
    wanted = next((p for p in schema_params(spec.parameters) if p.name == key), None)
    if wanted is None:
        return Completions(value, [])
    quote = value[:1] if value[:1] in "\"'" else ""
    values = list(_values(wanted.schema, spec.parameters))
    if wanted.name == "handle":
        values += list(sight.handles())
    if not values and _OF_FILES.search(wanted.name):
        values = _files(value[len(quote) :])
    return _picked(value[len(quote) :], [Offer(v, "value") for v in values])


def _files(typed: str) -> list[str]:
    """What is in the folder that is being typed; a folder ends in a slash, hidden ones are for who asks for them."""
    folder, begun = os.path.split(typed)
    try:
        with os.scandir(folder or ".") as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
    shown = [entry for entry in entries if begun.startswith(".") or not entry.name.startswith(".")]
    paths = [os.path.join(folder, entry.name) + "/" * entry.is_dir() for entry in shown[:_MAX_FILES]]
    return [path for path in paths if not any(c.isspace() for c in path)]  # those want quotes


def _python_call(name: str, inside: str, sight: Sight) -> Completions:
    spec = sight.box.registry.find(name)
    if spec is None:
        return Completions("", [])
    parts = re.split(r",\s*", inside)
    given = {part.partition("=")[0].strip() for part in parts[:-1]}
    return _argument(parts[-1].lstrip(), spec, given, sight)


def _values(node: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    """The values a schema names: its enum, true and false, in whichever option they stand."""
    found = resolve(node, root)
    for option in [*(found.get("enum") or []), *([found["const"]] if "const" in found else [])]:
        yield option if isinstance(option, str) else str(option)
    if found.get("type") == "boolean":
        yield from ("true", "false")
    for option in [*(found.get("anyOf") or []), *(found.get("oneOf") or [])]:
        yield from _values(option, root)


def _shortcut(rest: str, sight: Sight, kinds: Collection[str] = ("snippet", "function")) -> Completions:
    name, blank, text = rest.partition(" ")
    known = {label: (kind, params) for label, kind, params in sight.shortcuts() if kind in kinds}
    if not blank:
        offers = [Offer(label, kind) for label, (kind, _) in sorted(known.items())]
        picked = _picked(name, offers).offers
        return Completions(name, [*picked, *(_tools(name, sight) if name and "function" in kinds else [])])
    spec = sight.box.registry.find(name)
    params = known[name][1] if name in known else spec.parameters if spec is not None else {}
    typed = words(text)
    at_blank = not text or text[-1].isspace()
    last = "" if at_blank or not typed else text[typed[-1].start :]
    given = {word.key for word in (typed if at_blank else typed[:-1]) if word.key}
    shown = ToolSpec(name=name, description=name, parameters=params, run=lambda args: args)
    return _argument(last, shown, given, sight)


def _prompt(before: str, sight: Sight) -> Completions:
    """In a prompt: `+pack.tool`; in front of it flags, models and sessions."""
    from onetool_ipy.faces.notebook.ask import FLAGS as ASK_FLAGS

    *done, last = re.split(r"\s+", before)
    if last.startswith("+"):
        packs = [Offer(f"+{pack}", "module") for pack in sorted(sight.box.registry.known_packs())]
        picked = _picked(last, packs).offers if "." not in last else []
        return Completions(last, [*picked, *(Offer(f"+{o.text}", o.type) for o in _tools(last[1:], sight))])
    if last.startswith("-"):
        return _picked(last, [Offer(flag, "keyword") for flag in ASK_FLAGS])
    known = {"--model": sight.box.config.settings.models.named, "--session": sight.box.ask.sessions}
    return _picked(last, [Offer(name, "value") for name in known.get(done[-1] if done else "", ())])


def _inside_ot(function: str, typed: str, sight: Sight) -> Completions:
    if function in ("result", "view"):
        return _picked(typed, [Offer(handle, "value") for handle in sight.handles()])
    packs = [Offer(pack, "module") for pack in sorted(sight.box.registry.known_packs())]
    if function == "packs":
        return _picked(typed, packs)
    names = [Offer(label, kind) for label, kind, _ in sight.shortcuts()]
    others = _picked(typed, [*packs, *names]).offers if function in ("help", "run") else []
    return Completions(typed, [*_tools(typed, sight), *others])


def _picked(typed: str, offers: list[Offer]) -> Completions:
    lower = typed.lower()
    return Completions(typed, [o for o in offers if o.text.lower().startswith(lower)][:_MAX_OFFERS])


def _is_flag(text: str) -> bool:
    return text.startswith("-") and len(text) > 1
