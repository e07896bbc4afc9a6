"""Argument text -> arguments by name, in its three forms.

    key=value key={expr}     words; see `words` for quotes and `values` for how a value is read
    (a=expr, *rest, **more)  Python; what has no name goes in the schema's order, required first
    {"a": 1}                 all arguments as JSON, as a Python dict, or as {mapping}

Owns the forms and what they refuse: a key twice, `key==v`, blanks around `=`, a word without a key.
The first word may go without a key, and is then the one required argument, or the only one there
is: `https://x.org?a=1 depth=2`. A text before `=` is a key if the schema knows it or it looks like
a name. `key=` alone is empty text, refused where text does not fit. A value that starts with a
bracket which nothing closes is refused, but for text without quotes. Characters count from 1.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NoReturn

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython.expected import Expected
from onetool_ipy.faces.ipython.values import (
    MISSING,
    Evaluate,
    evaluate_for,
    parse_expression,
    read_expression,
    read_literal,
    read_plain,
    require_arguments,
)
from onetool_ipy.faces.ipython.words import Word, bracket_end, require_quotes, show, words

__all__ = ["read_arguments"]

_ANY_OBJECT = Expected.of({"type": "object"})
_KEY = re.compile(r"[\w$@.\-\[\]]+")
_LISTED = 8


def read_arguments(text: str, schema: Mapping[str, Any], evaluate: Evaluate) -> dict[str, Any]:
    """Read argument text, each value by its schema; what `evaluate` raises is a UsageProblem."""
    start = len(text) - len(text.lstrip())
    expected = Expected.of(schema)
    if text.startswith("(", start):
        return _read_python(_lone_group(text, start), expected, evaluate)
    if text.startswith("{", start):
        group = _lone_group(text, start)
        return require_arguments(read_expression(group, "", _ANY_OBJECT, evaluate), show(group))
    return _read_words(text, expected, evaluate)


def _lone_group(text: str, start: int) -> str:
    """Give the bracket that holds all arguments; nothing may stand behind it."""
    end = bracket_end(text, start)
    if end < 0:
        _refuse_open(text, start)
    behind = text[end:].strip()
    if behind:
        raise UsageProblem(
            f"{show(behind)} stands behind the brackets that hold all arguments "
            f"(character {text.index(behind, end) + 1}).",
            hint="Put every argument inside the brackets, or write each as key=value.",
        )
    return text[start:end]


def _read_python(group: str, expected: Expected, evaluate: Evaluate) -> dict[str, Any]:
    source = "f" + group.replace("\r\n", "\n").replace("\r", "\n")
    call = parse_expression(source)
    if not isinstance(call, ast.Call):
        raise UsageProblem(
            f"{show(group)} are no arguments in Python: {call}",
            hint='Write NAME(key="text", other=5), or NAME key=text other=5.',
        )
    segment = _Segments(source)
    values: list[Any] = []
    for node in call.args:
        if isinstance(node, ast.Starred):
            rest = segment(node.value)
            values += _require_items(evaluate_for("", rest, evaluate), rest)
        else:
            values.append(evaluate_for("", segment(node), evaluate))
    args = _by_order(values, expected)
    for item in call.keywords:
        value = evaluate_for(item.arg or "", segment(item.value), evaluate)
        shown = show("**" + segment(item.value))
        more = {item.arg: value} if item.arg else require_arguments(value, shown)
        for name in more:
            _require_new(name, args)
        args |= more
    return args


class _Segments:
    """The source of each node of a tree. Linear: `ast.get_source_segment` splits all text anew."""

    def __init__(self, source: str) -> None:
        self._data = source.encode()
        self._lines = [0, *(match.end() for match in re.finditer(b"\n", self._data))]

    def __call__(self, node: ast.expr) -> str:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found = self._data[start:end].decode()
        return f"({found})" if isinstance(node, ast.NamedExpr) or "\n" in found else found


def _require_items(value: object, source: str) -> list[Any]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return list(value)
    raise UsageProblem(
        f"{show('*' + source)} is of type {type(value).__name__}, not a list.",
        hint="Write key=value, or **{...} for a dict.",
    )


def _by_order(values: Sequence[Any], expected: Expected) -> dict[str, Any]:
    names = expected.names
    if len(values) > len(names):
        raise UsageProblem(
            f"Arguments without a name: {len(values)}, but at most {len(names)} fit.",
            hint=_listing(names),
        )
    return dict(zip(names, values, strict=False))


def _read_words(text: str, expected: Expected, evaluate: Evaluate) -> dict[str, Any]:
    args: dict[str, Any] = {}
    bare: list[Word] = []
    found = words(text)
    for word, after in zip_longest(found, found[1:]):
        require_quotes(text, word)
        _require_joined(text, word, after)
        if not _has_key(text, word, expected):
            bare.append(word)
            continue
        _require_new(word.key, args)
        args[word.key] = _read_value(text, word, word.key, expected.at(word.key), evaluate)
    if bare:
        name = _name_of_bare(text, found, bare, expected, args)
        is_group = bare[0].group and bare[0].equals < 0
        word = replace(bare[0], equals=-1, value_start=bare[0].start, group=is_group)
        args[name] = _read_value(text, word, name, expected.at(name), evaluate)
    return args


def _has_key(text: str, word: Word, expected: Expected) -> bool:
    if word.equals == 0:
        raise UsageProblem(
            f"{show(word.text)} has no name before '=' (character {word.start + 1}).",
            hint="Write key=value.",
        )
    if word.equals < 0 or not (word.key in expected.names or _KEY.fullmatch(word.key)):
        return False
    if word.value_start < word.end and text[word.value_start] == "=":
        raise UsageProblem(
            f"There is '==' in {show(word.text)} (character {word.value_start}).",
            hint=f"Write {word.key}=value; a value that starts with '=' goes in quotes.",
        )
    return True


def _require_joined(text: str, word: Word, after: Word | None) -> None:
    """Refuse `k = v`, `k =v` and `k= v`."""
    if after is None or (word.equals >= 0 and word.value_start < word.end):
        return
    if word.equals > 0 > after.equals or word.equals < 0 == after.equals:
        raise UsageProblem(
            f"Blanks around '=' in {show(text[word.start : after.end])} (character {word.start + 1}).",
            hint="Write key=value without them, and a value with blanks in quotes.",
        )


def _require_new(name: str, args: Mapping[str, Any]) -> None:
    if name in args:
        raise UsageProblem(f"{show(name)} is given twice.", hint="Keep one of them.")


def _read_value(text: str, word: Word, name: str, expected: Expected, evaluate: Evaluate) -> Any:
    value = word.value
    if word.unclosed == word.value_start and (word.quoted or not expected.takes_text):
        _refuse_open(text, word.unclosed)
    if word.quoted:
        return value
    if word.group and value[0] == "{":
        return read_expression(value, name, expected, evaluate)
    if expected.takes_text:
        return read_plain(value, expected)
    if not value:
        raise UsageProblem(f"{show(name)} has no value.", hint=f"Write {name}=value.")
    if value[0] in "([{" and read_literal(value) is MISSING:
        raise UsageProblem(
            f"{show(value)} for {show(name)} is neither JSON nor a Python literal.",
            hint=f"Put text in quotes; for variables write {name}={{...}}.",
        )
    return read_plain(value, expected)


def _name_of_bare(
    text: str,
    found: Sequence[Word],
    bare: Sequence[Word],
    expected: Expected,
    args: Mapping[str, Any],
) -> str:
    """Give the one argument that the first word can only be, if it alone has no key."""
    wanted = expected.required or expected.names
    name = wanted[0] if len(wanted) == 1 and wanted[0] not in args else ""
    if name and bare == [found[0]]:
        return name
    opened = next((word.unclosed for word in found if word.unclosed >= 0), len(text))
    if opened < bare[-1].start:
        _refuse_open(text, opened)
    word = bare[0]
    before = [other.key for other in found if other.equals > 0 and other.start < word.start]
    meant = before[-1] if before else name
    hint = f"Write key=value. {_listing(expected.names)}"
    if text[word.start] == "#":
        hint = "A %tool line takes no comment; give it a line of its own."
    elif meant and expected.at(meant).takes_text:
        hint = f'Text with blanks goes in quotes: {meant}="...".'
    shown = show(text[word.start : word.end])
    raise UsageProblem(f"{shown} has no name (character {word.start + 1}).", hint=hint)


def _refuse_open(text: str, start: int) -> NoReturn:
    raise UsageProblem(
        f"The '{text[start]}' at character {start + 1} is never closed: {show(text[start:])}.",
        hint="Close it, or put the value in quotes.",
    )


def _listing(names: Sequence[str]) -> str:
    if not names:
        return "No arguments are known."
    end = ", ..." if len(names) > _LISTED else "."
    return f"Arguments: {', '.join(names[:_LISTED])}{end}"
