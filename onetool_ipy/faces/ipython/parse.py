"""The grammar of `%tool`: a line -> what is asked, and a call -> its line.

Owns the line as a whole: flags, name, sub-command, argument text. Words and quotes are `words`,
flags `flags`, arguments `arguments`, values `values`, a cell's body `body`; what a caller needs of
them is imported from here. Pure: the one thing run is the `evaluate` that is handed in. Whatever
the text, the answer is a value or a UsageProblem, in time linear in the text.

    %tool                              empty
    %tool list --json PATTERN          command; the words are its own, see `read_options`
    %tool NAME                         call (or a pack's page)
    %tool NAME key=value key={expr}    call; flags stand before or after NAME
    %tool NAME(a=expr, ...)            call
    %tool NAME {"a": 1}                call
    %tool NAME?   %tool NAME --help    help

A name ends at a blank, `(` or `{`; in quotes it is taken as it is, and is no sub-command. Behind a
lone `--` there are no flags. A `;` at the end hides the output, as everywhere in IPython, and is no
part of the arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.values import to_json
from onetool_ipy.faces.ipython.arguments import read_arguments
from onetool_ipy.faces.ipython.body import read_body
from onetool_ipy.faces.ipython.flags import (
    FLAGS,
    Flags,
    OptionKind,
    Options,
    read_options,
    skip_options,
    take_options,
)
from onetool_ipy.faces.ipython.values import MISSING, Evaluate, read_literal
from onetool_ipy.faces.ipython.words import Word, require_quotes, show, split_words, words

__all__ = [
    "FLAGS",
    "Evaluate",
    "Flags",
    "Kind",
    "Line",
    "OptionKind",
    "Options",
    "Word",
    "format_call",
    "is_silenced",
    "read_arguments",
    "read_body",
    "read_options",
    "split_line",
    "split_words",
    "words",
]

Kind = Literal["empty", "command", "call", "help"]
"""What a line asks for."""

_NAME_END = re.compile(r"[({]")
_BARE_NAME = re.compile(r"""(?!-)[^\s"'({=?;]+""")
_BARE_KEY = re.compile(r"[^\W\d][\w.]*")
_BARE_TEXT = re.compile(r"[^\W\d_](?:[\w./:@+-]*\w)?")


@dataclass(frozen=True, slots=True)
class Line:
    """What a line asks for.

    `rest` is the argument text in the columns of the line: all else before it is blanked.
    """

    kind: Kind
    name: str = ""
    rest: str = ""
    flags: Flags = field(default_factory=Flags)


def split_line(line: str, commands: Collection[str]) -> Line:
    """Tell what the text behind `%tool` asks for, by which name, with which flags."""
    line = _without_semicolon(line)
    found = words(line)
    given: dict[str, Any] = {}
    index = skip_options(line, found, 0, FLAGS, given)
    no_more_flags = index < len(found) and line[found[index].start : found[index].end] == "--"
    index += no_more_flags
    if index == len(found):
        flags = Flags.of(given)
        return Line("help" if flags.help else "empty", flags=flags)
    word, after = found[index], found[index + 1 :]
    name, name_end = _read_name(line, word)
    if name in commands and line[word.start : word.end] == name:
        return Line("command", name, _keep(line, [(word.end, len(line))]), Flags.of(given))
    kept = after if no_more_flags else take_options(line, after, FLAGS, given)
    rest = _keep(line, [(name_end, word.end), *((each.start, each.end) for each in kept)])
    flags = Flags.of(given)
    if flags.help or rest.strip() in ("?", "??") or (line[name_end - 1] == "?" and not rest.strip()):
        return Line("help", name.rstrip("?"), flags=flags)
    return Line("call", name, rest, flags)


def format_call(name: str, args: Mapping[str, Any]) -> str:
    """Write the `%tool` line of a call; where the arguments fit the schema it reads back to them.

    What JSON cannot hold is written as `core.values.to_json` makes it.
    """
    shown = name if _BARE_NAME.fullmatch(name) else _double(name)
    plain = to_json(dict(args))
    if all(_BARE_KEY.fullmatch(key) for key in plain):
        return " ".join(["%tool", shown, *(f"{key}={_write(plain[key])}" for key in plain)])
    return f"%tool {shown} {_dump(plain)}"


def is_silenced(line: str) -> bool:
    """Whether a line ends in a `;` that is no part of a value: what it gives is not to be shown."""
    return _without_semicolon(line) != line


def _without_semicolon(line: str) -> str:
    if not line.rstrip().endswith(";"):
        return line
    last = words(line)[-1]
    in_quotes = last.unclosed >= 0 and line[last.unclosed] in "\"'"
    return line if in_quotes else line.rstrip()[:-1]


def _read_name(line: str, word: Word) -> tuple[str, int]:
    """Give the tool's name and where it ends: arguments may stand right behind it."""
    require_quotes(line, word)
    raw = line[word.start : word.end]
    if raw[0] in "\"'" and word.text:
        return word.text, word.end
    match = _NAME_END.search(raw)
    name = raw[: match.start()] if match else raw
    if not word.text or not name or "=" in name:
        raise UsageProblem(
            f"{show(raw)} stands where a tool's name should be (character {word.start + 1}).",
            hint="Write the name first: %tool NAME key=value. %tool list shows the names.",
        )
    return name, word.start + len(name)


def _keep(line: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    place = 0
    for start, end in spans:
        pieces += " " * (start - place), line[start:end]
        place = end
    return "".join(pieces)


def _write(value: Any) -> str:
    if not isinstance(value, str):
        return _dump(value)
    if not value.isprintable():
        return "{" + repr(value) + "}"
    is_bare = _BARE_TEXT.fullmatch(value) and read_literal(value) is MISSING
    return value if is_bare else _double(value)


def _double(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _dump(value: Any) -> str:
    found = json.dumps(value, ensure_ascii=False)
    return found if found.isprintable() else json.dumps(value)
