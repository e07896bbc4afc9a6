"""A question about calls, drawn: every call with every argument by name, as lines of text and as
HTML.

Text from models, tools and servers is escaped, and lines are broken here and not by the terminal,
so that no foreign text can look like one of our lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from unicodedata import east_asian_width

from onetool_ipy.base.printable import visible
from onetool_ipy.core.question import ProposedCall, Question
from onetool_ipy.render import html

_MAX_NAME = 160
_MAX_KEY = 80
_MAX_VALUE = 200
_MAX_BRIEF = 20
_MAX_TEXT = 4_100
_MAX_DETAIL = 100_000
_MANY = 20
"""How many arguments of a call are shown on their own lines; the others are shortened and
joined."""
_MAX_COLUMNS = 12
_LINE = 76
_INDENT = "       "
_MAX_INDENT = 40
_GOES_ON = "       | "
_LINE_END = re.compile(r"\r\n|\r|\n")
"""Where a line of Python ends; `str.splitlines` splits at more places."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}")


def program_lines(question: Question) -> list[str]:
    """Return the writes of a program as lines: its text, the first writes, and what was read."""
    # The indentation of a line has a meaning, so its blanks stay blanks.
    code = [
        line
        for each in _LINE_END.split(question.program)
        for line in broken(
            f"  | {each[: _indent(each)]}{visible(each[_indent(each) :], _MAX_DETAIL)}"
        )
    ]
    lines = [visible(question.text, _MAX_TEXT), *code, "", *_table(question.calls[:_MANY]), ""]
    return [
        *lines,
        *(line for each in question.details for line in broken(visible(each, _MAX_DETAIL))),
    ]


def program_html(question: Question) -> str:
    """Return the same for a notebook: a row for each of the first writes, a column for each
    argument."""
    calls = question.calls[:_MANY]
    names = list(dict.fromkeys(key for one in calls for key, _ in one.args))
    rows = []
    for number, one in enumerate(calls, start=1):
        cells = {key: visible(text, _MAX_VALUE) for key, text in one.args}
        if len(names) > _MAX_COLUMNS:
            cells = {
                "arguments": visible(
                    ", ".join(f"{key}={text}" for key, text in one.args), 5 * _MAX_VALUE
                )
            }
        # The blank keeps our own columns apart from an argument of the same name.
        rows.append({" ": f"{number}.", "tool ": visible(one.tool, _MAX_NAME), **cells})
    columns = [" ", "tool ", *(["arguments"] if len(names) > _MAX_COLUMNS else names)]
    code = "\n".join(
        f"{each[: _indent(each)]}{visible(each[_indent(each) :], _MAX_DETAIL)}"
        for each in _LINE_END.split(question.program)
    )
    parts = [
        html.note(visible(question.text, _MAX_TEXT)),
        html.pre(code),
        html.table(rows, columns),
    ]
    return "".join([*parts, *(html.note(visible(each, _MAX_DETAIL)) for each in question.details)])


def call_lines(head: str, one: ProposedCall) -> list[str]:
    """Return a call on one line if it fits; else a line for each argument, and one paragraph for
    the last of many."""
    name = visible(one.tool, _MAX_NAME)
    arguments = [
        f"{_key(key)}={visible(text, _MAX_VALUE if place < _MANY else _MAX_BRIEF)}"
        for place, (key, text) in enumerate(one.args)
    ]
    whole = head + " ".join([name, *arguments])
    if _width(whole) <= _LINE:
        return [whole]
    rest = [" ".join(arguments[_MANY:])] if arguments[_MANY:] else []
    return [
        *broken(head + name),
        *(line for each in (*arguments[:_MANY], *rest) for line in broken(_INDENT + each)),
    ]


def _table(calls: Sequence[ProposedCall]) -> list[str]:
    """Return calls as a table with a column for each argument; as a list if they do not fit into
    one."""
    names = dict.fromkeys(key for one in calls for key, _ in one.args)
    heads = ["", "tool", *map(_key, names)]
    rows = [
        [
            f"{number}.",
            visible(one.tool, _MAX_NAME),
            *(visible(dict(one.args).get(key, ""), _MAX_VALUE) for key in names),
        ]
        for number, one in enumerate(calls, start=1)
    ]
    widths = [max(map(_width, column)) for column in zip(heads, *rows, strict=True)]
    marks = [", ".join(filter(None, (*one.badges, one.note))) for one in calls]
    if not any(marks) and sum(widths) + 2 * len(widths) <= _LINE:
        return [
            "  "
            + "  ".join(
                cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in [heads, *rows]
        ]
    lines = []
    for number, (one, mark) in enumerate(zip(calls, marks, strict=True), start=1):
        lines += [*call_lines(f"  {number}. ", one), *([f"     ({mark})"] if mark else [])]
    return lines


def _indent(line: str) -> int:
    return min(len(line) - len(line.lstrip(" ")), _MAX_INDENT)


def _key(key: str) -> str:
    """Return an argument's name, in quotes if it could look like something else."""
    return key if _NAME.fullmatch(key) else visible(json.dumps(key, ensure_ascii=False), _MAX_KEY)


def broken(text: str) -> list[str]:
    """Break text into lines of bounded width, at a blank where one is near; continuation lines are
    marked."""
    lines, line, width = [], "", 0
    for char in text:
        if width + _width(char) > _LINE:
            end = line.rfind(" ", _LINE // 2) + 1 or len(line)
            lines.append(line[:end])
            line = _GOES_ON + line[end:]
            width = _width(line)
        line += char
        width += _width(char)
    return [*lines, line]


def _width(text: str) -> int:
    """Return how many terminal columns the text takes."""
    return (
        len(text)
        if text.isascii()
        else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)
    )
