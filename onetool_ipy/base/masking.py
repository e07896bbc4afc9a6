"""Secrets: look one up by name, and mask every one of them in text that is shown, logged, stored or sent.

A value is found as it is and as URLs, JSON, Python's repr, HTML, hex and base64 write it, also inside a longer base64
text. Values from the environment count once their name was looked up, and values got at run time, such as tokens,
once they were given to `hide`. No `repr` shows a value.

A secret becomes one pattern, in which each character that has several spellings (`%2F`, `\\u002f`, `&amp;`) is a
choice. The longest run without such a choice is its probe: text without the probe holds no secret, and costs one
`in`.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from onetool_ipy.base.records import once

__all__ = ["MASK", "SHORTEST", "Form", "Secrets", "forms", "spans"]

_LONG_LINE = 16
_ROUNDS = 3
_LONGEST_WRAPPED = 1 << 16
_ESCAPE = re.compile(
    r"""
    &\#(?: [0-9]{1,9} | [xX][0-9a-fA-F]{1,8} ) ;?
  | &(?: amp(?=;[\#a-z]) | sol | bsol | lowbar | plus | equals | colon | commat | num | period | comma | dollar | percnt
       | excl | quest | semi | lpar | rpar | ast | Hat | grave | lcub | rcub | lsqb | rsqb | verbar ) ;
  | %(?: 2[356] | 3[0-9bB] | [46][1-9a-fA-F] | [57][0-9aA] | 5[cC] )
  | \\\\{0,7}(?: u00[2-7][0-9a-fA-F] | u\{[0-9a-fA-F]{1,6}\} | U000000[2-7][0-9a-fA-F] | x[2-7][0-9a-fA-F] )
    """,
    re.VERBOSE,
)
"""Escapes of what needs none. Those of other characters are choices of the forms' own patterns."""
_WRAP = re.compile(r"(?:\\{1,2}r)?\\{1,2}n[ \t]*|\\?\r?\n[ \t]*\\?")
_CHUNK = 4096
_SHORT_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_HTML = {
    "&": ("&amp;", "&#38;", "&#x26;"),
    "<": ("&lt;", "&#60;", "&#x3c;"),
    ">": ("&gt;", "&#62;", "&#x3e;"),
    '"': ("&quot;", "&#34;", "&#x22;"),
    "'": ("&#39;", "&#x27;", "&apos;"),
}


class Form:
    """A spelling of a secret; text without `probe` does not hold it. The pattern is made when it is first needed."""

    def __init__(self, text: str, *, is_base64: bool = False) -> None:
        self.probe = max(re.findall("[A-Za-z0-9]+", text), key=len, default="")
        self._text, self._is_base64 = text, is_base64

    @once
    def pattern(self) -> re.Pattern[str]:
        """What to search for."""
        return re.compile((_base64_pattern if self._is_base64 else _pattern)(self._text))

    def __repr__(self) -> str:
        return "Form(***)"


def forms(value: str) -> Iterator[Form]:
    """Return every form of a value; for text of several lines, also the forms of each long line."""
    whole = value.strip()
    lines = (line.strip() for line in whole.splitlines())
    parts = [whole, *(line for line in lines if len(line) >= _LONG_LINE)]
    for text in dict.fromkeys(chunk for part in parts for chunk in _chunks(part)):
        yield Form(text)
        data = text.encode("utf-8", "surrogatepass")
        for core in _base64_cores(data):
            yield Form(core, is_base64=True)
        yield from map(Form, {data.hex(), data.hex().upper()})


def spans(text: str, forms: Sequence[Form]) -> list[tuple[int, int]]:
    """Return where these forms stand in the text, in order. Spans that overlap or touch are joined."""
    found = [*_found(text, forms)]
    if "&" in text or "%" in text or "\\u" in text or "\\x" in text or "\\U" in text:
        found += _in_escapes(text, forms)
    if len(text) <= _LONGEST_WRAPPED and ("\n" in text or "\\n" in text):
        found += _across_lines(text, forms)
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _found(text: str, forms: Sequence[Form]) -> Iterator[tuple[int, int]]:
    return (span for form in forms if form.probe in text for span in _occurrences(text, form))


def _in_escapes(text: str, forms: Sequence[Form]) -> Iterator[tuple[int, int]]:
    """Return where a form stands once escapes are undone. An escape may be escaped itself."""
    ways_back: list[_WayBack] = []
    for _ in range(_ROUNDS):
        text, way_back = _replaced(text, _ESCAPE, _meaning)
        if way_back is None:
            return
        ways_back.insert(0, way_back)
        for span in _found(text, forms):
            yield reduce(lambda found, back: back(*found), ways_back, span)


def _across_lines(text: str, forms: Sequence[Form]) -> Iterator[tuple[int, int]]:
    """Return where a form stands once wrapped lines are joined, if its probe is found that way."""
    squeezed = "".join(text.replace("\\n", "").replace("\\r", "").split()).replace("\\", "")
    forms = [form for form in forms if form.probe in squeezed]
    if not forms:
        return
    joined, way_back = _replaced(text, _WRAP, lambda _: "")
    if way_back is not None:
        yield from (way_back(*span) for span in _found(joined, forms))


_WayBack = Callable[[int, int], tuple[int, int]]
"""Where a span of the new text stood in the old one."""


def _replaced(text: str, pattern: re.Pattern[str], meaning: Callable[[str], str]) -> tuple[str, _WayBack | None]:
    """Return the text with each match replaced and the map back to the original, or None without a match."""
    pieces: list[str] = []
    new, old, length, end = [0], [0], 0, 0
    for match in pattern.finditer(text):
        pieces += (text[end : match.start()], meaning(match[0]))
        length += match.start() - end
        new.append(length)
        old.append(match.start())
        length += len(pieces[-1])
        end = match.end()
        new.append(length)
        old.append(end)
    if not pieces:
        return text, None

    def back(start: int, stop: int) -> tuple[int, int]:
        first, last = bisect_right(new, start) - 1, bisect_left(new, stop) - 1
        is_replaced = last % 2 == 1
        return (
            old[first] + (0 if first % 2 == 1 else start - new[first]),
            old[last + 1] if is_replaced else old[last] + stop - new[last],
        )

    return "".join((*pieces, text[end:])), back


def _meaning(escape: str) -> str:
    """Return what an escape stands for, or the escape itself if it stands for nothing."""
    if escape[0] == "&":
        from html import unescape  # late: it takes 3 ms, and few texts have such escapes

        return unescape(escape)
    digits = escape[1:] if escape[0] == "%" else escape.lstrip("\\")[1:].strip("{}")
    code = int(digits, 16)
    return chr(code) if code < 0x110000 else escape


def _occurrences(text: str, form: Form) -> Iterator[tuple[int, int]]:
    position = 0
    while match := form.pattern.search(text, position):
        yield match.span()
        position = match.start() + 1


def _chunks(text: str) -> Iterator[str]:
    """Pieces that a pattern can be made of; the last one is never too short to be told from innocent text."""
    end = 0
    while len(text) - end > 2 * _CHUNK:
        yield text[end : end + _CHUNK]
        end += _CHUNK
    yield text[end:]


def _pattern(text: str) -> str:
    """One choice per character. A run of backslashes is taken whole, else the ways to share them out explode."""
    out: list[str] = []
    escapes = r"\\{1,8}"
    for run in re.findall(r"\\+|[^\\]", text, re.DOTALL):
        if run[0] == "\\":
            out.append(_backslashes(len(run)))
            escapes = r"\\{0,8}"
        else:
            out.append(run if run.isascii() and run.isalnum() else _spellings(run, escapes))
            escapes = r"\\{1,8}"
    return "".join(out)


def _backslashes(count: int) -> str:
    spelled = rf"(?:%5c){{{count}}}|(?:\\{{1,8}}(?:u005c|x5c)){{{count}}}"
    return rf"(?:\\{{{count},{8 * count}}}+|(?i:{spelled}))"


def _spellings(char: str, escapes: str) -> str:
    """One character as itself and as URLs, JSON (also JSON in JSON), Python and HTML write it."""
    percent = "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    ways = [f"(?i:{percent})", f"{escapes}(?i:{_unicode_escape(char)})"]
    ways += [f"(?i:{re.escape(entity)})" for entity in _HTML.get(char, ())]
    if char == " ":
        ways.append(r"\+")
    if char in _SHORT_ESCAPES:
        ways.append(escapes + _SHORT_ESCAPES[char])
    ways.append(rf"\\{{0,8}}{char}" if char in "\"'/" else re.escape(char))
    return f"(?:{'|'.join(ways)})"


def _unicode_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    pairs = [units[i : i + 2].hex() for i in range(0, len(units), 2)]
    escaped = r"\\{1,8}".join(f"u{pair}" for pair in pairs)
    code = ord(char)
    python = f"x{code:02x}" if code < 256 else f"u{code:08x}"
    return f"(?:{escaped}|{python})"


def _base64_pattern(core: str) -> str:
    """The core, and on both sides the character that holds a few bits of the secret."""
    spelled = core.replace("+", r"(?:[+-]|%2[bB])").replace("/", r"(?:[/_]|%2[fF]|\\{1,8}/)")
    edge = "(?:[A-Za-z0-9+/_-]|%2[bBfF])?"
    return f"{edge}{spelled}{edge}(?:=|%3[dD]){{0,2}}"


def _base64_cores(data: bytes) -> Iterator[str]:
    """Return the part of its base64 text that its neighbours do not change, for each position in a group of three."""
    for before in range(3):
        encoded = binascii.b2a_base64(bytes(before) + data, newline=False).decode("ascii")
        first = (0, 2, 3)[before]
        last = (before + len(data)) * 8 // 6
        yield encoded[first:last]


MASK = "***"
_GAP = r"(?<=\S)(?<!\\n)[ \t]+"
_LONGER = 16
_SLACK = 64
SHORTEST = 6
"""A shorter value would be found in innocent text; it is not masked, and is a problem."""

_MOST_LIVE = 64

_PUBLIC = frozenset(
    (
        *("HOME", "HOSTNAME", "LANG", "LC_ALL", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL"),
        *("TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "USERNAME", "USERPROFILE"),
    )
)
"""Names of the environment whose values are no secrets: masking them would hide half of every path."""


class Secrets:
    """The values of secrets.yaml, then those of the environment, by name."""

    __slots__ = ("_env", "_forms", "_hidden", "_live", "_values")

    def __init__(self, values: Mapping[str, str], env: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._env = env
        self._hidden: set[str] = set()
        self._forms: list[Form] = []  # only ever replaced or appended to, so that threads need no lock
        self._live: dict[str, list[Form]] = {}
        for value in self._values.values():
            self._hide(value)

    def get(self, name: str) -> str | None:
        """Return the value from the secrets, else from the environment, which makes it a secret from then on."""
        found = self._values.get(name)
        if found is not None:
            return found
        found = self._env.get(name)
        if found is not None and name not in _PUBLIC:
            self._hide(found)
        return found

    def names(self) -> list[str]:
        """The names in secrets.yaml, sorted; never a value."""
        return sorted(self._values)

    def mask(self, text: str) -> str:
        """Replace every secret in the text, in any of its forms, by `***`."""
        forms = self._forms
        if not forms:
            return text
        if not ("&" in text or "%" in text or "\n" in text or "\\" in text):
            forms = [form for form in forms if form.probe in text]
            if not forms:
                return text
        out: list[str] = []
        end = 0
        for start, stop in spans(text, forms):
            out += (text[end:start], MASK)
            end = stop
        return "".join((*out, text[end:])) if out else text

    def settled(self, text: str) -> int:
        """Return how much of a growing text can be masked and shown: no secret that may continue begins in it.

        No secret goes on over a blank in a line, unless it has one itself; nor is any form of it longer by far.
        """
        forms = self._forms
        if not forms:
            return len(text)
        known = [*self._hidden, *self._live]
        end = max(len(text) - _LONGER * max(map(len, known)) - _SLACK, 0)
        blanks = max(value.count(" ") + value.count("\t") for value in known)
        gaps = [gap.end() for gap in re.finditer(_GAP, text)]
        if len(gaps) > blanks:
            end = max(end, gaps[-1 - blanks])
        return next((start for start, stop in spans(text, forms) if start < end < stop), end)

    def mask_value(self, value: Any) -> Any:
        """Mask text in dicts (keys too), lists and tuples. A number that is a secret becomes `***`."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask_value(k): self.mask_value(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.mask_value(v) for v in value]
        if isinstance(value, tuple):
            return tuple(self.mask_value(v) for v in value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            masked = self.mask(str(value))
            return value if masked == str(value) else masked
        return value

    def hide(self, value: str) -> None:
        """Mask a value obtained at run time, such as a token, from now on. The newest 64 are kept."""
        if value in self._hidden or value in self._live or len(value.strip()) < SHORTEST:
            return
        self._live[value] = list(forms(value))
        self._forms.extend(self._live[value])
        while len(self._live) > _MOST_LIVE:
            gone = {id(form) for form in self._live.pop(next(iter(self._live)))}
            self._forms = [form for form in self._forms if id(form) not in gone]

    def _hide(self, value: str) -> None:
        if value in self._hidden or len(value.strip()) < SHORTEST:
            return
        self._forms.extend(forms(value))
        self._hidden.add(value)

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} names)"

    def __reduce__(self) -> Any:
        raise TypeError("Secrets cannot be pickled: they never leave this process.")
