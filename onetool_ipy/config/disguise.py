"""The forms in which a secret may stand in a text, and where they do. Pure.

Letters and digits are written the same everywhere; every other character has several spellings (`%2F`, `\\u002f`,
`&amp;`), so a form is a pattern in which each of those is a choice. `probe` is the longest run that is the same in all
of them: text that does not hold it holds no secret, and costs one `in`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

__all__ = ["Form", "forms", "spans"]

_Spellings = Callable[[str], str]

_LONG_LINE = 16
_RUN = re.compile(r"[A-Za-z0-9]+")
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_SHORT_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_HTML = {
    "&": ("&amp;", "&#38;", "&#x26;"),
    "<": ("&lt;", "&#60;", "&#x3c;"),
    ">": ("&gt;", "&#62;", "&#x3e;"),
    '"': ("&quot;", "&#34;", "&#x22;"),
    "'": ("&#39;", "&#x27;", "&apos;"),
}


class Form(NamedTuple):
    """A spelling of a secret; `grow` takes in the neighbours that hold a part of it (base64)."""

    probe: str
    pattern: re.Pattern[str]
    grow: bool = False

    def __repr__(self) -> str:
        return "Form(***)"


def forms(value: str) -> Iterator[Form]:
    """Every form of one value; of one with several lines, also of each long line."""
    whole = value.strip()
    lines = [part.strip() for part in whole.splitlines()]
    parts = [whole, *(p for p in lines if len(p) >= _LONG_LINE and p != whole)]
    for part in dict.fromkeys(parts):
        yield Form(_probe(part), _pattern(part, _spellings))
        for core in _base64_cores(part.encode("utf-8", "surrogatepass")):
            yield Form(_probe(core), _pattern(core, _base64_spellings), grow=True)


def spans(text: str, hits: Iterable[Form]) -> list[tuple[int, int]]:
    """Where these forms stand: disjoint, in order; what overlaps or touches is one."""
    found = sorted(span for form in hits for span in _occurrences(text, form))
    merged: list[tuple[int, int]] = []
    for start, stop in found:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _occurrences(text: str, form: Form) -> Iterator[tuple[int, int]]:
    position = 0
    while match := form.pattern.search(text, position):
        start, stop = match.span()
        if form.grow:
            start -= start > 0 and text[start - 1] in _BASE64
            stop += stop < len(text) and text[stop] in _BASE64
            while stop < len(text) and text[stop] == "=":
                stop += 1
        yield start, stop
        position = match.start() + 1


def _probe(text: str) -> str:
    return max(_RUN.findall(text), key=len, default="")


def _pattern(text: str, spellings: _Spellings) -> re.Pattern[str]:
    return re.compile("".join(c if c.isascii() and c.isalnum() else spellings(c) for c in text))


def _spellings(char: str) -> str:
    """One character as itself and as URLs, JSON (also JSON in JSON), Python and HTML write it."""
    percent = "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    ways = [re.escape(char), f"(?i:{percent})", rf"\\{{1,8}}(?i:{_unicode_escape(char)})"]
    if char == " ":
        ways.append(r"\+")
    if char == "\\":
        ways = [r"\\{1,8}", *ways[1:]]
    elif char in "\"'/":
        ways.append(rf"\\{{1,8}}{re.escape(char)}")
    if char in _SHORT_ESCAPES:
        ways.append(rf"\\{{1,8}}{_SHORT_ESCAPES[char]}")
    ways += [f"(?i:{re.escape(entity)})" for entity in _HTML.get(char, ())]
    return f"(?:{'|'.join(ways)})"


def _unicode_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    pairs = [units[i : i + 2].hex() for i in range(0, len(units), 2)]
    escaped = r"\\{1,8}".join(f"u{pair}" for pair in pairs)
    code = ord(char)
    python = f"x{code:02x}" if code < 256 else f"u{code:08x}"
    return f"(?:{escaped}|{python})"


def _base64_spellings(char: str) -> str:
    return r"(?:[+-]|%2[bB])" if char == "+" else r"(?:[/_]|%2[fF]|\\{1,8}/)"


def _base64_cores(data: bytes) -> Iterator[str]:
    """What of its base64 text does not depend on the bytes around, for each of the three positions in a group."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode("ascii")
        first = (0, 2, 3)[before]
        last = (before + len(data)) * 8 // 6
        yield encoded[first:last]
