"""Flags of a call and options of a sub-command: `--soft`, `--timeout 5`, `--timeout=5`, `-o x`.

Owns which flags a call has and how an option is read; a table says what stands behind each. Does
not know what they do. An option is taken once; a word in quotes is never one; behind a lone `--`
there are none.
"""

from __future__ import annotations

import difflib
import keyword
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython.words import Word, require_quotes, show, words

__all__ = [
    "FLAGS",
    "Flags",
    "OptionKind",
    "Options",
    "read_options",
    "skip_options",
    "take_options",
]

OptionKind = Literal["switch", "text", "number", "seconds", "variable"]
"""What stands behind an option: nothing, a word, a whole number, a number above 0, a variable."""

FLAGS: Mapping[str, OptionKind] = {
    "--args": "switch",
    "--bg": "switch",
    "--body": "text",
    "--dry": "switch",
    "--help": "switch",
    "--save": "text",
    "--soft": "switch",
    "--timeout": "seconds",
    "--unchecked": "switch",
    "-o": "variable",
}
"""The flags of a call, before or after the tool's name."""

_OPTION = re.compile(r"--.|-[^\W\d]", re.DOTALL)
_WANTED: Mapping[OptionKind, str] = {
    "text": "a word",
    "number": "a whole number",
    "seconds": "a number of seconds above 0",
    "variable": "the name of a variable",
}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a call; `output` is the variable of `-o`, `timeout` is in seconds."""

    soft: bool = False
    timeout: float | None = None
    bg: bool = False
    dry: bool = False
    help: bool = False
    output: str | None = None
    body: str | None = None
    args: bool = False
    save: str | None = None
    unchecked: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Flags:
        """Take flags by their name as typed."""
        return cls(**{"output" if name == "-o" else name[2:]: value for name, value in given.items()})


@dataclass(frozen=True, slots=True)
class Options:
    """The words of a sub-command, and its options by name as typed (`--json`); a switch is True."""

    words: list[str]
    given: dict[str, Any]


def read_options(text: str, known: Mapping[str, OptionKind]) -> Options:
    """Split the text behind a sub-command into its words and options."""
    found = words(text)
    for word in found:
        require_quotes(text, word)
    given: dict[str, Any] = {}
    kept = take_options(text, found, known, given)
    return Options([word.text for word in kept], given)


def take_options(
    text: str, found: Sequence[Word], known: Mapping[str, OptionKind], given: dict[str, Any]
) -> list[Word]:
    """Read every option up to a lone `--` into `given`; return the words that are none."""
    kept: list[Word] = []
    index = 0
    while (index := skip_options(text, found, index, known, given)) < len(found):
        word = found[index]
        index += 1
        if text[word.start : word.end] == "--":
            return [*kept, *found[index:]]
        kept.append(word)
    return kept


def skip_options(
    text: str,
    found: Sequence[Word],
    index: int,
    known: Mapping[str, OptionKind],
    given: dict[str, Any],
) -> int:
    """Read the options from word `index` on; return the index of the first word that is none."""
    while index < len(found) and _OPTION.match(text, found[index].start, found[index].end):
        word = found[index]
        index += 1
        name = word.key if word.equals >= 0 else word.text
        kind = _require_known(name, known)
        if name in given and kind != "switch":
            raise UsageProblem(f"{show(name)} is given twice.", hint="Keep one of them.")
        if kind == "switch":
            if word.equals >= 0:
                raise UsageProblem(f"{show(name)} takes no value: {show(word.text)}.", hint=f"Write just {name}.")
            given[name] = True
            continue
        value = word.value if word.equals >= 0 else ""
        if word.equals < 0 and index < len(found) and not _is_dashed(text, found[index]):
            word = found[index]
            value = word.text
            index += 1
        require_quotes(text, word)
        given[name] = _read_option(name, value, kind)
    return index


def _is_dashed(text: str, word: Word) -> bool:
    return bool(_OPTION.match(text, word.start, word.end)) or text[word.start : word.end] == "--"


def _require_known(name: str, known: Mapping[str, OptionKind]) -> OptionKind:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name[:40], known, n=1)
    listed = f"Flags: {', '.join(known)}." if known else "There are none here."
    word = name.lstrip("-")[:40]
    if known is FLAGS and word.isidentifier() and not difflib.get_close_matches(word, [f.lstrip("-") for f in known]):
        listed = f"An argument has no dashes: {word}=value. {listed}"
    raise UsageProblem(
        f"No flag {show(name)}." + (f" Did you mean '{near[0]}'?" if near else ""),
        hint=f"{listed} After -- come only arguments.",
    )


def _read_option(name: str, value: str, kind: OptionKind) -> Any:
    if kind == "text" and value:
        return value
    if kind == "number" and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    if kind == "seconds" and (seconds := _read_seconds(value)) is not None:
        return seconds
    if kind == "variable" and value.isidentifier() and not keyword.iskeyword(value):
        return value
    got = f"got {show(value)}" if value else "got nothing"
    example = {"text": "WORD", "number": "10", "seconds": "5", "variable": "x"}[kind]
    raise UsageProblem(f"{show(name)} wants {_WANTED[kind]}, {got}.", hint=f"Write {name} {example}.")


def _read_seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
