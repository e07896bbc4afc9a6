"""A text that matches a regular expression of somebody else's schema, short and always the same; None if none is found.

The text is written from the parse tree of Python's `re`, which reads most of what JSON Schema's (ECMAScript's)
expressions are made of. Look-aheads and anchors inside are passed over, so whoever uses the text checks it. No
expression is run here: a bad one would take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_LONGEST = 500
_LETTERS = "abcxyz0123456789ABC_-. /:@#,+" + "".join(map(chr, range(33, 127))) + " é\n"


def text_for(pattern: str, *, more: int = 0) -> str | None:
    """A text that the expression likely matches; each part that may repeat does so `more` times beyond its least."""
    # A named group is (?<name>...) in ECMAScript, and (?P<name>...) in Python.
    written = re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern)
    try:
        parser = re._parser  # type: ignore[attr-defined]  # it has no public name since Python 3.11
        return _Writer(more).text(parser.parse(written))
    except (re.error, RecursionError, OverflowError, _TooLong):
        return None


class _TooLong(Exception):
    """The shortest text is longer than a sample should be."""


class _Writer:
    def __init__(self, more: int) -> None:
        self._more = more
        self._groups: dict[int, str] = {}

    def text(self, tree: Iterable[Any]) -> str:
        out = ""
        for code, value in tree:
            out += self._piece(str(code), value)
            if len(out) > _LONGEST:
                raise _TooLong
        return out

    def _piece(self, code: str, value: Any) -> str:
        if code == "LITERAL":
            return chr(value)
        if code in ("NOT_LITERAL", "ANY", "IN"):
            choices = [("NEGATE", None), ("LITERAL", value)] if code == "NOT_LITERAL" else value or [("NEGATE", None)]
            return next((letter for letter in _LETTERS if _is_in(letter, choices)), "")
        if code in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inside = value
            count = min(int(least) + self._more, int(most), _LONGEST + 1)
            once = self.text(inside)
            if count * len(once) > _LONGEST:
                raise _TooLong
            return once * count
        if code == "SUBPATTERN":
            group, inside = value[0], value[-1]
            self._groups[group] = self.text(inside)
            return self._groups[group]
        if code == "BRANCH":
            return self.text(value[1][0])
        if code == "ATOMIC_GROUP":
            return self.text(value)
        return self._groups.get(value, "") if code == "GROUPREF" else ""


def _is_in(letter: str, choices: Iterable[Any]) -> bool:
    """Whether a character is in a set such as `[^a-z\\d]`."""
    tests = [(str(code), value) for code, value in choices]
    plain = {"DIGIT": letter.isdigit(), "SPACE": letter.isspace(), "WORD": letter.isalnum() or letter == "_"}
    categories = {f"CATEGORY_{name}" if is_one else f"CATEGORY_NOT_{name}" for name, is_one in plain.items()}
    is_hit = any(
        (kind == "LITERAL" and ord(letter) == value)
        or (kind == "RANGE" and value[0] <= ord(letter) <= value[1])
        or (kind == "CATEGORY" and str(value) in categories)
        for kind, value in tests
    )
    return is_hit != (("NEGATE", None) in tests)
