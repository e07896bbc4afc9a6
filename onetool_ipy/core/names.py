"""Canonical names of tools (`pack.tool`), allow-lists, and the wire names that models see. Pure.

A wire name depends on the set of names, never on their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from onetool_ipy.base.errors import InvalidTool

ASK = "ask"
"""What an ask is called in the call log. It has no pack, so no tool has this name."""

PROGRAM = "program"
"""What a program is called in the call log. Its calls have its id as their parent."""

NOT_TOOLS = frozenset((ASK, PROGRAM))
"""Rows of the call log that are no calls of a tool: they do not count as such, and are not called
again."""

BARE_PACK = "config"
"""The pack of definitions that were written without a dot; they are found by their bare name
too."""

FOR_PEOPLE = frozenset(("ot.map", "ot.refresh", "ot.sql"))
"""Tools that models and clients are not told of and may not call: they call any other tool, past an
allow-list, or read what a person has in memory."""

PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""`module:name`, which names something that can be imported."""

TOOLBOX = "ot"
"""The pack of the toolbox's own functions: found by name, but neither counted nor listed among the
tools of a person."""

PAGER = "ot.result"
"""The function that pages through a stored result."""

READERS = frozenset((PAGER, "ot.results"))
"""What a model needs of the toolbox itself: it is offered without an allow-list that names it."""

WRITING = {"ot.stats": "output"}
"""Tools that only read, unless they are given this argument."""

_MAX_NAME = 128
_MAX_WIRE = 63
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def require_name(name: object) -> str:
    """Return the name if it is valid: 1 to 128 printable characters without blanks."""
    if not isinstance(name, str) or not name:
        raise InvalidTool("A tool needs a name.", hint="Give it one such as 'geo.locate'.")
    if len(name) > _MAX_NAME:
        raise InvalidTool(f"The name '{name[:40]}...' is longer than {_MAX_NAME} characters.")
    # The space is the one blank that counts as printable.
    if " " in name or not name.isprintable():
        raise InvalidTool(
            f"The name {name!r} holds blanks or unprintable characters.",
            hint="Write it as in 'geo.locate'.",
        )
    return name


def canonical(name: object, *, pack: str = BARE_PACK) -> str:
    """`pack.tool` for a name with or without its pack."""
    text = require_name(name)
    full = text if "." in text else f"{require_name(pack)}.{text}"
    head, _, tail = full.partition(".")
    if not head or not tail:
        raise InvalidTool(f"The name '{text}' is not of the form 'pack.tool'.")
    return full


def allowed(name: str, allow: Sequence[str] | None) -> bool:
    """Whether an allow-list lets a canonical name through. None lets all through, an empty list
    none."""
    if allow is None:
        return True
    pack, _, tail = name.partition(".")
    is_bare = pack == BARE_PACK and "." not in tail
    ways = (name, tail if is_bare else name, f"{pack}.*", "*")
    return any(entry in ways for entry in ([allow] if isinstance(allow, str) else allow))


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Return canonical name -> the name that models see: `[A-Za-z0-9_-]`, at most 63 characters,
    all different."""
    choices = list(dict.fromkeys(names))
    full = {name: _plain(name) for name in choices}
    wire = dict(full)
    bare = {n: _plain(n.partition(".")[2]) for n in choices if n.startswith(BARE_PACK + ".")}
    others = Counter([w for n, w in full.items() if n not in bare] + list(bare.values()))
    wire.update({name: short for name, short in bare.items() if others[short] == 1})
    while True:
        counts = Counter(wire.values())
        odd = [
            n
            for n, w in wire.items()
            if len(w) > _MAX_WIRE or (counts[w] > 1 and w != _hashed(n, full[n]))
        ]
        if not odd:
            return wire
        for name in odd:
            wire[name] = _hashed(name, full[name])


def _plain(name: str) -> str:
    text = _OTHER.sub("_", name)
    return "_" + text if text[:1].isdigit() or text.startswith("-") else text


def _hashed(name: str, plain: str) -> str:
    import hashlib

    return f"{plain[:54]}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
