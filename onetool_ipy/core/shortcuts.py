"""Aliases and snippets, both written `$name`: what there is, what a name stands for, and the arguments behind it.

Pure text -> text; knows nothing of cells or calls. What is wrong with one (a cycle, an unknown target, a bad body) is a
Problem and stops no other. A name that is both is the snippet's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from onetool_ipy.core import match
from onetool_ipy.core.errors import OneToolError, UsageProblem
from onetool_ipy.core.model import Problem
from onetool_ipy.core.snippets import Bare, Snippet, expand, faults_of, read_snippet

__all__ = ["Bare", "Shortcuts", "Snippet", "expand", "parse_arguments", "read_shortcuts", "read_snippet", "resolve"]

_KEY = re.compile(r"\s*([^\W\d]\w*)=")
_QUOTED = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"(?=\s|\Z)', re.DOTALL),
    "'": re.compile(r"'([^']*)'(?=\s|\Z)"),
}
_ESCAPED = re.compile(r'\\(["\\])')
_BARE = re.compile(r"\S*")
_INSIDE = re.compile(r"""[^"'()\[\]{}]+|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[()\[\]{}]|["']""", re.DOTALL)
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """All aliases (name -> target as written) and snippets; `faults` are those that could not be read."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    snippets: Mapping[str, Snippet] = field(default_factory=dict)
    faults: tuple[Problem, ...] = ()

    def find(self, name: str) -> Snippet | str | None:
        """What `$name` stands for: a snippet, the name of a tool, or None. Raise UsageProblem for a cycle."""
        if name in self.snippets:
            return self.snippets[name]
        return resolve(name, self.aliases) if name in self.aliases else None

    def with_snippet(self, snippet: Snippet) -> Shortcuts:
        """The same with one snippet more, or in place of its namesake."""
        return replace(self, snippets={**self.snippets, snippet.name: snippet})

    def problems(self, is_tool: Callable[[str], bool], tools: Collection[str] = ()) -> list[Problem]:
        """What is wrong with aliases and bodies; `tools` are the names to propose for a target that is none."""
        found = list(self.faults)
        for name in self.aliases:
            if name in self.snippets:
                found.append(Problem(f"alias '{name}'", "A snippet has this name too, and wins.", "Rename one."))
            try:
                target = resolve(name, self.aliases)
            except UsageProblem as exc:
                found.append(Problem(f"alias '{name}'", exc.message, exc.hint))
                continue
            if not is_tool(target):
                near = match.did_you_mean(target, tools) or "See all with: ot.tools()"
                found.append(Problem(f"alias '{name}'", f"There is no tool '{target}'.", near))
        for snippet in self.snippets.values():
            where = snippet.where or f"snippet '{snippet.name}'"
            found += [Problem(where, f"Snippet '{snippet.name}': {fault}") for fault in faults_of(snippet)]
        return found


def read_shortcuts(aliases: Mapping[str, str], snippets: Mapping[str, Any]) -> Shortcuts:
    """Read aliases, and snippets given as definitions with `data` and `where`; a bad one becomes a fault."""
    good: dict[str, Snippet] = {}
    faults: list[Problem] = []
    for name, definition in snippets.items():
        try:
            good[name] = read_snippet(name, definition.data, definition.where)
        except OneToolError as exc:
            faults.append(Problem(definition.where, exc.message, exc.hint))
    return Shortcuts(dict(aliases), good, tuple(faults))


def resolve(name: str, aliases: Mapping[str, str]) -> str:
    """Follow an alias, and the aliases it stands for, to the name of a tool. Raise UsageProblem for a cycle."""
    seen = [name]
    while True:
        target = aliases[seen[-1]].removeprefix("$")
        if target in seen:
            chain = " -> ".join([*seen, target])
            raise UsageProblem(f"The alias '{name}' leads back to itself: {chain}.", hint="Point it at a tool.")
        if target not in aliases:
            return target
        seen.append(target)


def parse_arguments(text: str) -> dict[str, str]:
    """Read `key=value ...` behind a shortcut; values typed without quotes are `Bare`.

    The first `=` ends the key, so values may hold more of them. Quoted values may hold anything, also line breaks
    (`\\"` and `\\\\` escape in double quotes, nothing does in single ones); brackets keep their blanks.
    """
    found: dict[str, str] = {}
    text = text.rstrip()
    end = 0
    while end < len(text):
        key = _KEY.match(text, end)
        if key is None:
            word = text[end:].split()[0]
            raise UsageProblem(f"{_shown(word)} is not of the form name=value.", hint="Write it as name=value.")
        if key[1] in found:
            raise UsageProblem(f"The parameter '{key[1]}' was given twice.")
        found[key[1]], end = _value(text, key.end())
    return found


def _value(text: str, start: int) -> tuple[str, int]:
    first = text[start : start + 1]
    if first in _QUOTED:
        quoted = _QUOTED[first].match(text, start)
        if quoted is None:
            raise UsageProblem(
                f"The quote at character {start + 1} is never closed: {_shown(text[start:])}.",
                hint="Close it, or put the whole value in the other kind of quotes.",
            )
        inner = _ESCAPED.sub(r"\1", quoted[1]) if first == '"' else quoted[1]
        return inner, quoted.end()
    end = _group_end(text, start) if first in _CLOSERS else None
    bare = _BARE.match(text, end or start)
    stop = bare.end() if bare else len(text)
    return Bare(text[start:stop]), stop


def _group_end(text: str, start: int) -> int | None:
    """Where the bracket that opens here is closed, or None."""
    waiting: list[str] = []
    for part in _INSIDE.finditer(text, start):
        if part[0] in _CLOSERS:
            waiting.append(_CLOSERS[part[0]])
        elif waiting and part[0] == waiting[-1]:
            waiting.pop()
            if not waiting:
                return part.end()
    return None


def _shown(text: str) -> str:
    cut = text if len(text) <= 40 else text[:37] + "..."
    return f"'{''.join(c if c.isprintable() else '?' for c in cut)}'"
