"""Which calls need a person's yes, how the question is put, and what was allowed before.

A tool that is not read-only needs a yes; a server's own word that it is counts only where the server is trusted. An
approval holds for a tool as it was: it carries the tool's fingerprint, and a changed tool asks again. "Always" lasts as
long as the toolbox. For `ask.approve` of the user's own settings the fingerprints are kept in the user's own state,
those first seen; naming a tool in `approve=` adds it as it is now. A file of a later format allows nothing and is not
written to.
"""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unicodedata import east_asian_width

from onetool_ipy.base import files, values
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.config.load import Config
from onetool_ipy.core import names
from onetool_ipy.core.tool import ToolSpec

__all__ = [
    "ApprovalReply",
    "Approvals",
    "Pending",
    "ask_person",
    "needs_yes",
    "question",
    "read_reply",
    "visible",
]

_MAX_NAME = 160
_MAX_KEY = 80
_MAX_VALUE = 200
_MAX_BRIEF = 20
_MANY = 20
"""So many arguments of a call are shown on lines of their own; of those after them little more than the name."""
_LINE = 76
_INDENT = "       "
_GOES_ON = "       | "
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}")
_ALL = frozenset(("a", "all", "y", "yes"))
_NONE = frozenset(("", "n", "no", "none"))
_NUMBERS = re.compile(r"[0-9]{1,4}(?: ?- ?[0-9]{1,4})?(?:[ ,]+[0-9]{1,4}(?: ?- ?[0-9]{1,4})?)*")
_PIECE = re.compile(r" {4,}|.", re.DOTALL)
_FORMAT = 2
_RANGE = re.compile(r"([0-9]+)(?: ?- ?([0-9]+))?")


class Pending(NamedTuple):
    """A call that waits for a yes; `changed` says that the tool is another than the one approved before.

    `mark` is the tool's fingerprint when the question was put: a yes is for that one.
    """

    spec: ToolSpec
    args: Mapping[str, Any]
    changed: bool = False
    mark: str = ""


class ApprovalReply(NamedTuple):
    """What the person said: the numbers (from 1) of the calls that may run, and whether for good."""

    chosen: frozenset[int]
    always: bool = False
    understood: bool = True


def needs_yes(spec: ToolSpec, args: Any, config: Config) -> bool:
    """Whether a call may change something, as far as we can believe what is said of its tool."""
    if not spec.read_only or (isinstance(args, dict) and args.get(names.WRITING.get(spec.name, ""))):
        return True
    if not spec.server:
        return False
    server = config.settings.servers.get(spec.server)
    return server is None or server.data.get("trusted") is not True


class Approvals:
    """What was allowed before, by tool and fingerprint."""

    def __init__(self) -> None:
        self._always: dict[str, str] = {}

    def always(self, name: str, mark: str) -> None:
        """Allow a tool with this fingerprint, as long as this lives."""
        self._always[name] = mark

    def given(self, specs: Sequence[ToolSpec], approve: Sequence[str], place: Path) -> dict[str, str]:
        """What the person's own `approve=` allows: these tools as they are now."""
        named = {spec.name: spec.fingerprint for spec in specs if names.allowed(spec.name, approve)}
        known = _read(place) or {}
        anew = {name: mark for name, mark in named.items() if name in known and mark not in known[name]}
        if anew:
            _add(place, anew)
        return named

    def state(
        self, name: str, mark: str, given: Mapping[str, str], settled: Callable[[], Sequence[str]], place: Path
    ) -> Literal["allowed", "unknown", "changed"]:
        """Whether a tool is allowed: by this ask, by an earlier "always", or by the settings and unchanged since."""
        before = {*filter(None, (given.get(name), self._always.get(name)))}
        if mark in before:
            return "allowed"
        if names.allowed(name, settled()) and (known := _read(place)) is not None:
            if name not in known:
                _add(place, {name: mark})
            if mark in known.get(name, [mark]) and not before:
                return "allowed"
            before.add(mark)
        return "changed" if before else "unknown"


def question(pending: Sequence[Pending]) -> str:
    """The one question of a turn: every call with every argument by name.

    All that comes from the model or a tool is escaped, and what is cut says so. Lines are broken here and not by the
    terminal, so that no text of theirs begins a line as ours do.
    """
    what = "a tool that may" if len(pending) == 1 else f"{len(pending)} tools that may"
    lines = [f"The model wants to run {what} change something:"]
    for number, one in enumerate(pending, start=1):
        lines += _call_lines(f"  {number}. ", one)
        if one.changed:
            lines.append("     (this tool has changed since it was approved)")
    numbers = "" if len(pending) == 1 else ", numbers such as 1,3"
    lines.append(f"Run? all, none{numbers}, or always (all, and in this session without asking): ")
    return "\n".join(lines)


def read_reply(text: str, count: int) -> ApprovalReply:
    """What was typed. What cannot be understood allows nothing."""
    word = " ".join(text.lower().replace("[", " ").replace("]", " ").split())
    always = word.startswith("always")
    rest = word.removeprefix("always").strip(" :,") if always else word
    everything = frozenset(range(1, count + 1))
    if rest in _ALL or (always and not rest):
        return ApprovalReply(everything, always)
    if rest in _NONE:
        return ApprovalReply(frozenset())
    if not _NUMBERS.fullmatch(rest):
        return ApprovalReply(frozenset(), understood=False)
    chosen: set[int] = set()
    for first, last in _RANGE.findall(rest):
        chosen.update(range(int(first), int(last or first) + 1))
    if not chosen or not chosen <= everything:
        return ApprovalReply(frozenset(), understood=False)
    return ApprovalReply(frozenset(chosen), always)


def ask_person(text: str) -> str | None:
    """Put the question with `input()`; None where nobody can answer."""
    is_own = isinstance(input, types.BuiltinFunctionType)  # a notebook has its own, which asks the browser
    if is_own and (sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty()):
        return None
    try:
        return input(text)
    except (EOFError, OSError, NotImplementedError, RuntimeError, ValueError):
        return None  # no terminal, a closed one, or a notebook that is run without a person


def visible(text: str, limit: int) -> str:
    """Text on one line in which every character can be seen: no line ends, colours, directions, controls or gaps."""
    shown: list[str] = []
    length = end = 0
    for piece in _PIECE.finditer(text):
        part = piece[0] if piece[0].isprintable() and len(piece[0]) == 1 else _escaped(piece[0])
        length += len(part)
        if length > limit:
            return f"{''.join(shown)}… ({len(text) - end:,} more characters)"
        shown.append(part)
        end = piece.end()
    return "".join(shown)


def _call_lines(head: str, one: Pending) -> list[str]:
    """A call on one line where it fits; else a line for each argument, and one paragraph for those after many."""
    name = visible(one.spec.name, _MAX_NAME)
    given = [
        f"{_key(key)}={visible(_written(value), _MAX_VALUE if place < _MANY else _MAX_BRIEF)}"
        for place, (key, value) in enumerate(one.args.items())
    ]
    whole = head + " ".join([name, *given])
    if _width(whole) <= _LINE:
        return [whole]
    rest = [" ".join(given[_MANY:])] if given[_MANY:] else []
    return [*_broken(head + name), *(line for each in (*given[:_MANY], *rest) for line in _broken(_INDENT + each))]


def _key(key: Any) -> str:
    """An argument's name; one that could pass for more than a name stands in quotes."""
    return key if isinstance(key, str) and _NAME.fullmatch(key) else visible(_written(str(key)), _MAX_KEY)


def _written(value: Any) -> str:
    return json.dumps(values.to_json(value), ensure_ascii=False)


def _broken(text: str) -> list[str]:
    """The text on lines of bounded width; those after the first are marked as such."""
    lines, line, width = [], "", 0
    for char in text:
        if width + _width(char) > _LINE:
            lines.append(line)
            line, width = _GOES_ON, len(_GOES_ON)
        line += char
        width += _width(char)
    return [*lines, line]


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _escaped(char: str) -> str:
    if len(char) > 1:
        return f"[{len(char)} blanks]"
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    code = ord(char)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")


def _read(place: Path) -> dict[str, list[str]] | None:
    """The fingerprints of each tool; None where a later version wrote them.

    Older versions wrote one for each tool, of its words and schema only; it matches no tool, so the tool asks again.
    """
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    number = found.get("format") if isinstance(found, dict) else None
    if isinstance(number, int) and number > _FORMAT:
        return None
    marks = found.get("tools") if number is not None else found
    if not isinstance(marks, dict):
        return {}
    return {str(k): [str(mark) for mark in (v if isinstance(v, list) else [v])] for k, v in marks.items()}


def _add(place: Path, marks: Mapping[str, str]) -> None:
    """Add a fingerprint for each tool; where that cannot be done they are looked at anew the next time."""
    try:
        files.make_folder(place.parent)
        with files.locked(place):
            known = _read(place)
            if known is not None:
                for name, mark in marks.items():
                    known[name] = [*known.get(name, ()), mark]
                text = json.dumps({"format": _FORMAT, "tools": known}, indent=1)
                files.write_whole(place, text.encode("utf-8"))
    except OneToolError:
        return
