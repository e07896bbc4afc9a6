"""Which calls need a person's approval, how the question is asked, and what was approved before.

A tool that is not read-only needs approval; a server's own hint that it is counts only if the server is trusted. An
approval holds for a tool as it was: it carries the tool's fingerprint, and a changed tool asks again. "Always" lasts as
long as the toolbox. For `ask.approve` in the user's own settings the fingerprints are kept in the user's state folder,
as first seen; naming a tool in `approve=` adds its current one. A file of a later format approves nothing and is not
changed.
"""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    "needs_approval",
    "question",
    "read_reply",
    "visible",
]

_MAX_NAME = 160
_MAX_KEY = 80
_MAX_VALUE = 200
_MAX_BRIEF = 20
_MANY = 20
"""How many arguments of a call are shown on their own lines; the others are shortened and joined."""
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
    """A call that waits for approval; `changed` says that the tool has changed since it was approved.

    `fingerprint` is the tool's fingerprint at the time of the question: a yes is for that one.
    """

    spec: ToolSpec
    args: Mapping[str, Any]
    changed: bool = False
    fingerprint: str = ""


class ApprovalReply(NamedTuple):
    """The person's reply: the numbers (from 1) of the approved calls, and whether to always approve them."""

    chosen: frozenset[int]
    always: bool = False
    understood: bool = True


def needs_approval(spec: ToolSpec, args: Any, config: Config) -> bool:
    """Whether a call may change something, as far as its tool's annotations can be trusted."""
    if not spec.read_only or (isinstance(args, dict) and args.get(names.WRITING.get(spec.name, ""))):
        return True
    if not spec.server:
        return False
    server = config.settings.servers.get(spec.server)
    return server is None or server.data.get("trusted") is not True


class Approvals:
    """What one ask may run without a question.

    `always` is shared by all asks of a toolbox. `by_settings` returns what the user's settings approve; `place` is the
    file with the fingerprints of those tools. `named` are the tools that the person named in `approve=`.
    """

    def __init__(
        self,
        always: dict[str, str],
        by_settings: Callable[[], Sequence[str]],
        place: Path,
        named: Iterable[ToolSpec] = (),
    ) -> None:
        self._always = always
        self._by_settings = by_settings
        self._place = place
        self._named = {spec.name: spec.fingerprint for spec in named}
        known = (_read(place) or {}) if self._named else {}
        new = {name: mark for name, mark in self._named.items() if name in known and mark not in known[name]}
        if new:
            _add(place, new)

    def always(self, name: str, fingerprint: str) -> None:
        """Approve a tool with this fingerprint for the life of the toolbox."""
        self._always[name] = fingerprint

    def state(self, name: str, fingerprint: str) -> Literal["allowed", "unknown", "changed"]:
        """Whether a tool is approved: by this ask, by an earlier "always", or by the settings and unchanged since."""
        before = {*filter(None, (self._named.get(name), self._always.get(name)))}
        if fingerprint in before:
            return "allowed"
        if names.allowed(name, self._by_settings()) and (known := _read(self._place)) is not None:
            if name not in known:
                _add(self._place, {name: fingerprint})
            if fingerprint in known.get(name, [fingerprint]) and not before:
                return "allowed"
            before.add(fingerprint)
        return "changed" if before else "unknown"


def question(pending: Sequence[Pending]) -> str:
    """Write the one question of a turn: every call with every argument by name.

    Text from the model or a tool is escaped, and cut text says so. Lines are broken here and not by the terminal, so
    that no foreign text can look like one of our lines.
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
    """Read the typed reply. A reply that is not understood approves nothing."""
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
    """Ask with `input()`. Returns None if nobody can answer."""
    is_own = isinstance(input, types.BuiltinFunctionType)  # a notebook replaces it, to ask the browser
    if is_own and (sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty()):
        return None
    try:
        return input(text)
    except (EOFError, OSError, NotImplementedError, RuntimeError, ValueError):
        return None  # no terminal, a closed one, or a notebook that runs without a person


def visible(text: str, limit: int) -> str:
    """Return text on one line in which every character is visible: no line ends, colours, controls or long gaps."""
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
    """Return a call on one line if it fits; else a line for each argument, and one paragraph for the last of many."""
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
    """Return an argument's name, in quotes if it could look like something else."""
    return key if isinstance(key, str) and _NAME.fullmatch(key) else visible(_written(str(key)), _MAX_KEY)


def _written(value: Any) -> str:
    return json.dumps(values.to_json(value), ensure_ascii=False)


def _broken(text: str) -> list[str]:
    """Break text into lines of bounded width; continuation lines are marked."""
    lines, line, width = [], "", 0
    for char in text:
        if width + _width(char) > _LINE:
            lines.append(line)
            line, width = _GOES_ON, len(_GOES_ON)
        line += char
        width += _width(char)
    return [*lines, line]


def _width(text: str) -> int:
    """Return how many terminal columns the text takes."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _escaped(char: str) -> str:
    if len(char) > 1:
        return f"[{len(char)} blanks]"
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    code = ord(char)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")


def _read(place: Path) -> dict[str, list[str]] | None:
    """Read the fingerprints of each tool. Returns None for a file of a later version.

    Older versions wrote one of words and schema only; it matches no tool, so the tool asks again.
    """
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    number = found.get("format") if isinstance(found, dict) else None
    if isinstance(number, int) and number > _FORMAT:
        return None
    fingerprints = found.get("tools") if number is not None else found
    if not isinstance(fingerprints, dict):
        return {}
    return {
        str(k): [str(fingerprint) for fingerprint in (v if isinstance(v, list) else [v])]
        for k, v in fingerprints.items()
    }


def _add(place: Path, fingerprints: Mapping[str, str]) -> None:
    """Add a fingerprint for each tool. A failed write only means that they are seen as new again."""
    try:
        files.make_folder(place.parent)
        with files.locked(place):
            known = _read(place)
            if known is not None:
                for name, fingerprint in fingerprints.items():
                    known[name] = [*known.get(name, ()), fingerprint]
                text = json.dumps({"format": _FORMAT, "tools": known}, indent=1)
                files.write_whole(place, text.encode("utf-8"))
    except OneToolError:
        return
