"""A command line as a shell reads it: words, quotes, line ends, variables. Pure; nothing is ever expanded or run.

A variable stays in its word as a mark (`mark`), since what it holds is the caller's to say. Command substitution and
the like are refused: they mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from onetool_ipy.core.errors import InvalidRequest

__all__ = ["MARKED", "mark", "marks", "unmarked", "words"]

_OPEN, _CLOSE = "\ue000", "\ue001"
MARKED = re.compile(f"{_OPEN}([A-Za-z_][A-Za-z0-9_]*){_CLOSE}")
"""A variable inside a word."""

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_ANSI = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_ENDS = frozenset("|;&<>")


def mark(name: str) -> str:
    """A variable as it stands in a word."""
    return f"{_OPEN}{name}{_CLOSE}"


def marks(text: str) -> list[str]:
    """The variables in a word."""
    return MARKED.findall(text)


def unmarked(text: str, write: Callable[[str], str]) -> str:
    """The word with each variable written by a function."""
    return MARKED.sub(lambda match: write(match[1]), text)


def words(text: str) -> list[str]:
    """The words of one command; raises InvalidRequest for a quote without its end, or for more than one command."""
    return _Reader(re.sub(f"[{_OPEN}{_CLOSE}]", "?", text)).words()


class _Reader:
    """Reads a command from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n").strip()
        self._at = 0

    def words(self) -> list[str]:
        found: list[str] = []
        word: str | None = None
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\n":
                found += [] if word is None else [word]
                word = None
                self._at += 1
                if char == "\n" and found:
                    self._require_end()
                continue
            if char == "\\" and self._text[self._at : self._at + 2] == "\\\n":
                self._at += 2
                continue
            if char in _ENDS:
                raise InvalidRequest(
                    f"'{self._text[self._at : self._at + 20]}': one curl command is wanted, nothing more."
                )
            word = (word or "") + self._piece(char)
        return found + ([] if word is None else [word])

    def _require_end(self) -> None:
        rest = self._text[self._at :].strip()
        if rest and not rest.startswith("-"):
            raise InvalidRequest(f"'{rest[:40]}': a second line begins; end the line before it with a backslash.")

    def _piece(self, char: str) -> str:
        if char == "'":
            return self._until("'")
        if char == '"':
            return self._double()
        if char == "$":
            return self._dollar(in_quotes=False)
        if char == "`":
            raise InvalidRequest("A command inside the command (`...`) cannot be run here.")
        if char == "\\":
            self._at += 2
            return self._text[self._at - 1 : self._at]
        self._at += 1
        return char

    def _until(self, end: str) -> str:
        stop = self._text.find(end, self._at + 1)
        if stop < 0:
            raise InvalidRequest(f"The quote {end} that begins at '{self._text[self._at : self._at + 20]}' has no end.")
        found = self._text[self._at + 1 : stop]
        self._at = stop + 1
        return found

    def _double(self) -> str:
        start = self._at
        self._at += 1
        out = ""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return out
            if char == "\\":
                following = self._text[self._at + 1 : self._at + 2]
                out += "" if following == "\n" else following if following in '"\\$`' else "\\" + following
                self._at += 2
            elif char == "$":
                out += self._dollar(in_quotes=True)
            elif char == "`":
                raise InvalidRequest("A command inside the command (`...`) cannot be run here.")
            else:
                out += char
                self._at += 1
        raise InvalidRequest(f"The quote \" that begins at '{self._text[start : start + 20]}' has no end.")

    def _dollar(self, *, in_quotes: bool) -> str:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "(":
            raise InvalidRequest("A command inside the command $(...) cannot be run here.")
        if following == "'" and not in_quotes:
            return self._ansi()
        if following == '"' and not in_quotes:
            self._at += 1
            return self._double()
        match = _VARIABLE.match(self._text, self._at)
        if match is None:
            self._at += 1
            return "$"
        self._at = match.end()
        return mark(match[1] or match[2])

    def _ansi(self) -> str:
        """`$'...'`, as browsers write it."""
        stop = self._at + 2
        while stop < len(self._text) and self._text[stop] != "'":
            stop += 2 if self._text[stop] == "\\" else 1
        if stop >= len(self._text):
            raise InvalidRequest("The quote $' has no end.")
        inside = self._text[self._at + 2 : stop]
        self._at = stop + 1
        return _ANSI.sub(_unescaped, inside)


def _unescaped(match: re.Match[str]) -> str:
    for digits, base in ((match[1], 16), (match[2], 16), (match[3], 16), (match[4], 8)):
        if digits:
            number = int(digits, base)
            return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "?"
    return _ANSI_LETTERS.get(match[5], match[5])
