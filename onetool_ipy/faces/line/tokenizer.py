"""Cut a line into words: where each starts and ends, which part was quoted, which bracket is still
open.

Owns blanks, quotes and brackets for `%tool`, `$`, sub-commands and completion. Knows nothing of
tools, flags or schemas. `words` never raises and takes time linear in the text.

    blanks      end a word, also no-break spaces, but not inside quotes or brackets
    "a b"       text; `\\"` and `\\\\` are the only escapes, so "C:\\temp" stays as typed
    'a b'       text, without escapes
    foo" bar"   one word, `foo bar`, as in a shell
    don't       `'` between two letters or digits is an apostrophe, never a quote
    [1, 2]      one word as typed, with Python's strings in it; also in the middle: a[? b == 'c']
    :(          a bracket that nothing closes is an ordinary character; `Word.unclosed` is its place
    a\\b         a backslash outside quotes is an ordinary character
"""

from __future__ import annotations

import re
from typing import NamedTuple

from onetool_ipy.base.errors import UsageProblem

_BLANKS = re.compile(r"\s*+")

_SPECIAL = re.compile(r"""["'(\[{]""")
_PLAIN = re.compile(r"\S++")
_RUN_TO_EQUALS = re.compile(r"""[^\s"'(\[{=]++""")
_RUN = re.compile(r"""[^\s"'(\[{]++""")
_DOUBLE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SINGLE = re.compile(r"'[^']*+'")

# Inside brackets the rules are Python's: strings with prefixes and escapes, and triple quotes.
_IN_BRACKETS = re.compile(
    r"""
    (?:
        [^"'()\[\]{}\\]++
      | \\.
      | (?<=\w)(?<!\b[rRbBfFuU])(?<!\b[rRbBfFuU]{2})'(?=\w)
      | \"{3}(?:[^"\\]|\\.|"(?!""))*+\"{3}
      | '{3}(?:[^'\\]|\\.|'(?!''))*+'{3}
      | "[^"\\]*+(?:\\.[^"\\]*+)*+"
      | '[^'\\]*+(?:\\.[^'\\]*+)*+'
      | ["'\\]
    )++
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSER = {"(": ")", "[": "]", "{": "}"}
_SHOWN = 40


class Word(NamedTuple):
    """One word: `source[start:end]` as typed, `text` without its quotes.

    `equals` is the place in `text` of the first `=` outside quotes and brackets, or -1.
    `value_start` is the place in the source where the value begins (the start of the word if there
    is no `=`). `quoted`: a part of the value was in quotes. `group`: the whole value is one closed
    bracket. `unclosed` is the place in the source of a quote or bracket that nothing closes, or -1.
    """

    start: int
    end: int
    text: str
    equals: int = -1
    value_start: int = 0
    quoted: bool = False
    group: bool = False
    unclosed: int = -1

    @property
    def key(self) -> str:
        """The text before `=`; empty if there is none."""
        return self.text[: max(self.equals, 0)]

    @property
    def value(self) -> str:
        """The text after `=`; all of it if there is none."""
        return self.text[self.equals + 1 :]


def words(text: str) -> list[Word]:
    """Split any text into words, also a broken one."""
    tokens: list[Word] = []
    if not _SPECIAL.search(text):
        # Nearly every line is like this, and each of its words is one run of characters.
        for match in _PLAIN.finditer(text):
            run, start = match[0], match.start()
            equals = run.find("=")
            value_start = start if equals < 0 else start + equals + 1
            tokens.append(Word(start, match.end(), run, equals, value_start))
        return tokens
    brackets = _Brackets(text)
    pos = _skip_blanks(text, 0)
    while pos < len(text):
        word = _read_word(text, pos, brackets)
        tokens.append(word)
        pos = _skip_blanks(text, word.end)
    return tokens


def closed_words(text: str) -> list[Word]:
    """Split a text into words; raise UsageProblem for a quote that is never closed."""
    tokens = words(text)
    for word in tokens:
        require_quotes(text, word)
    return tokens


def require_quotes(source: str, word: Word) -> None:
    """Raise UsageProblem if a quote opens in this word and nothing closes it."""
    if word.unclosed < 0 or source[word.unclosed] not in "\"'":
        return
    opened = show(source[word.start :])
    raise UsageProblem(
        f"The quote at character {word.unclosed + 1} is never closed: {opened}.",
        hint="Close it, or put the whole value in the other kind of quotes.",
    )


def bracket_end(text: str, start: int) -> int:
    """Return the offset after the bracket that closes the one at `start`, or -1."""
    return _Brackets(text).end_of(start)


def show(text: str) -> str:
    """Quote a piece of a line for a message, cut and on one line."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    if not cut.isprintable():
        cut = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut)
    return f"'{cut}'"


class _Brackets:
    """Where each bracket of a text closes. At most one scan finds nothing, so the whole is
    linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._closed_at: dict[int, int] = {}
        self._saw_all = False

    def end_of(self, start: int) -> int:
        if start not in self._closed_at and not self._saw_all:
            self._scan(start)
        return self._closed_at.get(start, -1)

    def _scan(self, start: int) -> None:
        text = self._text
        stack: list[int] = []
        for match in _IN_BRACKETS.finditer(text, start):
            kind = match.lastgroup
            if kind == "open":
                stack.append(match.start())
            elif kind == "close" and _CLOSER[text[stack[-1]]] == match.group():
                self._closed_at[stack.pop()] = match.end()
                if not stack:
                    return
        self._saw_all = True


def _skip_blanks(text: str, pos: int) -> int:
    match = _BLANKS.match(text, pos)
    return match.end() if match else pos


def _read_word(text: str, start: int, brackets: _Brackets) -> Word:
    parts: list[str] = []
    pos = value_start = start
    equals = unclosed = group_end = -1
    quoted = False
    while pos < len(text) and not text[pos].isspace():
        char = text[pos]
        end, part = pos + 1, char
        is_apostrophe = (
            char == "'"
            and pos > start
            and text[pos - 1].isalnum()
            and text[pos + 1 : pos + 2].isalnum()
        )
        if char in "\"'" and not is_apostrophe:
            quoted = True
            end, part = _read_quoted(text, pos)
            if end < 0:
                end, unclosed = len(text), pos
        elif char in _CLOSER:
            closed = brackets.end_of(pos)
            if closed >= 0:
                end, part = closed, text[pos:closed]
                group_end = end if pos == value_start else group_end
            elif unclosed < 0:
                unclosed = pos
        elif char == "=" and equals < 0:
            equals = sum(map(len, parts))
            value_start, quoted, group_end = end, False, -1
        elif match := (_RUN_TO_EQUALS if equals < 0 else _RUN).match(text, pos):
            end, part = match.end(), match.group()
        parts.append(part)
        pos = end
    is_group = group_end == pos
    return Word(start, pos, "".join(parts), equals, value_start, quoted, is_group, unclosed)


def _read_quoted(text: str, pos: int) -> tuple[int, str]:
    """Return the end of the quoted part, or -1, and its text."""
    if text[pos] == "'":
        match = _SINGLE.match(text, pos)
        return (match.end(), match.group()[1:-1]) if match else (-1, text[pos + 1 :])
    match = _DOUBLE.match(text, pos)
    inner = match.group()[1:-1] if match else text[pos + 1 :]
    unescaped = "\\".join(part.replace('\\"', '"') for part in inner.split("\\\\"))
    return match.end() if match else -1, unescaped
