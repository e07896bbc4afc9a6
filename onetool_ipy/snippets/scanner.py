"""Tell what surrounds a position in a cell's text: code, a string (of which kind), a comment, or a magic's line.

The scanner accepts any text, also text that is not valid Python. It only finds where strings and comments begin and
end, exactly as this Python's own tokenizer does (since 3.12 the fields of an f-string may hold any string). Lines that
IPython reads before Python does (`%magic`, `!command`, `$shortcut`, `%%cell` bodies) are `magic`. Pure, linear time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

__all__ = ["CodeContext", "ContextKind", "contexts_at"]

ContextKind = Literal["code", "string", "field", "spec", "comment", "magic", "inside_token"]
"""`field` and `spec` are inside the braces of an f-string; `inside_token` is in the middle of a quote or an escape."""

_NESTS = sys.version_info >= (3, 12)
"""Whether a string in a field of an f-string may use the f-string's own quotes."""
_FIELDS = frozenset("ft" if sys.version_info >= (3, 14) else "f")

_CODE = re.compile(
    r"""
    (?P<comment>\#[^\n\r]*)
  | (?P<string>(?P<prefix>[rRbBuUfFtT]|[rR][bBfFtT]|[bBfFtT][rR])?(?P<quote>\"{3}|'{3}|"|'))
  | (?P<continued>\\(?:\r\n|\n|\r))
  | (?P<newline>\r\n|\n|\r)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<colon>:)
  | (?P<other>\w+|[^\w\s"'\#()\[\]{}\\:]+|[^\S\r\n]+|\\)
    """,
    re.VERBOSE,
)
_MAGIC = re.compile(
    r"""
    [ \t]*
    (?: [%!$?,;/] | (?:[\w.]|\[[\w.'" -]*\]|,[ \t]*)+ [ \t]* [-+*/@&|^%]?=[ \t]* [%!$] )
    (?: \\(?:\r\n|\n|\r) | [^\n\r] )*
    """,
    re.VERBOSE,
)
_CELL_MAGIC = re.compile(r"\s*%%\S")
_RUN = re.compile(r"""[^"'\\{}\n\r]+""")
_NAMED_LETTER = re.compile(r"\\N\{[^}\n]*\}")


class CodeContext(NamedTuple):
    """What surrounds a position. `prefix` (in lower case) and `quote` are those of the innermost string."""

    kind: ContextKind
    prefix: str = ""
    quote: str = ""
    around: str = ""
    """The quotes of all strings around the position, outermost first."""


def contexts_at(text: str, positions: Sequence[int]) -> list[CodeContext]:
    """Return the context of each position. Positions are in rising order; the last may be the end of the text."""
    found: list[CodeContext] = []
    scanner = _Scanner(text)
    for start, end, kind, is_solid in scanner.tokens():
        runs_on = kind in ("comment", "magic")  # a position at the very end still belongs to it
        while len(found) < len(positions):
            position = positions[len(found)]
            if position > end or (position == end and not runs_on):
                break
            inside = position > start
            here = scanner.before.kind if runs_on and not inside else kind
            found.append(scanner.before.context("inside_token" if is_solid and inside else here))
    last = scanner.frames[-1]
    return found + [last.context(last.kind)] * (len(positions) - len(found))


class _Frame(NamedTuple):
    """An open construct: the code itself, a string, a field of an f-string, or its format spec."""

    kind: ContextKind
    prefix: str = ""
    quote: str = ""
    around: str = ""
    brackets: int = 0

    def context(self, kind: ContextKind) -> CodeContext:
        return CodeContext(kind, self.prefix, self.quote, self.around)


_Token = tuple[int, int, ContextKind, bool]
"""Start, end, the kind of its inside, and whether it is a token that must not be split."""


class _Scanner:
    """Reads token by token. `before` is the innermost frame at the start of the last token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.frames = [_Frame("code")]
        self.before = self.frames[0]
        self.is_line_start = True

    def tokens(self) -> Iterator[_Token]:
        if _CELL_MAGIC.match(self.text):
            yield 0, len(self.text), "magic", False
            self.frames = [_Frame("magic")]
            return
        pos = 0
        while pos < len(self.text):
            self.before = self.frames[-1]
            if self.before.kind in ("code", "field"):
                end, kind, is_solid = self._in_code(pos)
            else:
                end, kind, is_solid = self._in_string(pos)
            yield pos, end, kind, is_solid
            pos = end

    def _in_code(self, pos: int) -> tuple[int, ContextKind, bool]:
        frame = self.before
        if self.is_line_start:
            self.is_line_start = False
            magic = _MAGIC.match(self.text, pos)
            if magic:
                return magic.end(), "magic", False
        closing = self._closing(pos) if frame.kind == "field" and not _NESTS else None
        if closing is not None:
            return closing, frame.kind, True
        match = _CODE.match(self.text, pos)
        token = match.lastgroup if match else None
        if match is None or token == "other":
            return match.end() if match else pos + 1, frame.kind, False
        if token == "comment":
            return self._comment(match)
        if match["string"] is not None:
            prefix = (match["prefix"] or "").lower()
            self.frames.append(_Frame("string", prefix, match["quote"], frame.around + match["quote"]))
        elif token == "newline":
            self._newline()
        elif token != "continued":
            self._bracket(match[0])
        return match.end(), frame.kind, True

    def _comment(self, match: re.Match[str]) -> tuple[int, ContextKind, bool]:
        if self.before.kind == "field" and not _NESTS:  # no comments there, so the field goes on
            return match.start() + 1, "field", False
        return match.end(), "comment", False

    def _newline(self) -> None:
        frame = self.frames[-1]
        if frame.kind == "code":
            self.is_line_start = not frame.brackets
        elif len(frame.quote) == 1 and not _NESTS:
            self._recover()

    def _bracket(self, char: str) -> None:
        frame = self.frames[-1]
        if char in "([{":
            self.frames[-1] = frame._replace(brackets=frame.brackets + 1)
        elif char == ":":
            if frame.kind == "field" and not frame.brackets:
                self.frames[-1] = frame._replace(kind="spec")
        elif frame.brackets:
            self.frames[-1] = frame._replace(brackets=frame.brackets - 1)
        elif frame.kind == "field" and char == "}":
            self.frames.pop()

    def _in_string(self, pos: int) -> tuple[int, ContextKind, bool]:
        frame = self.before
        kind = frame.kind
        run = _RUN.match(self.text, pos)
        if run:
            return run.end(), kind, False
        closing = self._closing(pos)
        if closing is not None:
            return closing, kind, True
        char = self.text[pos]
        has_fields = bool(_FIELDS & set(frame.prefix))
        if char == "\\":
            end = self._backslash(pos, has_fields)
            return end, kind, "r" not in frame.prefix or self.text[end - 1] in "\"'\\"
        if char in "\n\r" and len(frame.quote) == 1:
            self._recover()
            return pos + 1, kind, True
        if char in "{}" and has_fields:
            return self._brace(pos, char)
        return pos + 1, kind, False

    def _backslash(self, pos: int, has_fields: bool) -> int:
        """Return where an escape ends. In a raw string the backslash stays, but a quote after it does not close."""
        letter = _NAMED_LETTER.match(self.text, pos) if has_fields and "r" not in self.before.prefix else None
        if letter:
            return letter.end()
        is_before_brace = has_fields and self.text[pos + 1 : pos + 2] in ("{", "}")
        return pos + 1 if is_before_brace else min(pos + 2, len(self.text))

    def _brace(self, pos: int, char: str) -> tuple[int, ContextKind, bool]:
        frame = self.before
        if frame.kind == "string" and self.text.startswith(char * 2, pos):
            return pos + 2, frame.kind, True
        if char == "{":
            self.frames.append(frame._replace(kind="field", brackets=0))
        elif frame.kind == "spec":
            self.frames.pop()
        return pos + 1, frame.kind, True

    def _closing(self, pos: int) -> int | None:
        """If a quote here closes an open string, close it with everything in it. Return where the quote ends."""
        first = 0 if not _NESTS else self._innermost()
        for level in range(first, len(self.frames)):
            frame = self.frames[level]
            if frame.kind == "string" and self.text.startswith(frame.quote, pos):
                del self.frames[level:]
                return pos + len(frame.quote)
        return None

    def _innermost(self) -> int:
        return max((i for i, frame in enumerate(self.frames) if frame.kind == "string"), default=0)

    def _recover(self) -> None:
        """Continue with the next line as code after a string that its line does not close, which Python refuses."""
        del self.frames[1:]
        self.frames[0] = _Frame("code")
        self.is_line_start = True
