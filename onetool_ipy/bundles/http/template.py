"""`${name}` in a text: find it, and cut the text into its pieces. Pure; knows nothing of where a value comes from.

`$${` stands for `${` itself. `${ids|csv}` names a form: how a list or an object is written in a URL
(`FORMS`). Whether a name is an argument, a secret or an earlier step is told by `bind`, once for a definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Any, Literal, NamedTuple

from onetool_ipy.core.errors import InvalidTool

__all__ = ["FORMS", "SECRET_NAME", "Hole", "Kind", "Ref", "bind", "holes", "holes_in", "pieces"]

Kind = Literal["argument", "secret", "step"]

FORMS = {
    "csv": ",",
    "space": " ",
    "pipe": "|",
    "json": "",
    "deep": "",
    "spread": "",
}
"""How a list or an object is written: joined by a character, as JSON text, as `name[key]=...`, or as `key=...`."""

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

_HOLE = re.compile(r"\$\$\{|\$\{(?P<inside>[^{}\r\n]{1,200})\}|\$\{")
_PATH = re.compile(r"(?P<head>[A-Za-z_][\w-]*)(?P<rest>(?:\.[\w$@-]+|\[\d{1,9}\])*)")
_PART = re.compile(r"\.([\w$@-]+)|\[(\d+)\]")


class Hole(NamedTuple):
    """A `${...}` as it is written."""

    name: str
    form: str = ""


class Ref(NamedTuple):
    """What a hole means: the argument, secret or step, and the way into its value."""

    kind: Kind
    name: str
    path: tuple[str | int, ...] = ()
    form: str = ""

    def __str__(self) -> str:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return self.name + path


def pieces(text: str) -> list[str | Hole]:
    """The text in its pieces; raises ValueError for a `${` that never ends or names nothing."""
    found: list[str | Hole] = []
    end = 0
    for match in _HOLE.finditer(text):
        found.append(text[end : match.start()])
        end = match.end()
        if match[0] == "$${":
            found.append("${")
        elif match["inside"] is None:
            raise ValueError(f"'{text[match.start() : match.start() + 40]}' is no ${{name}}; write $${{ for the signs")
        else:
            found.append(_hole(match["inside"]))
    found.append(text[end:])
    return [piece for piece in found if piece != ""]


def holes(text: str) -> list[Hole]:
    """The holes of a text, in order."""
    return [piece for piece in pieces(text) if isinstance(piece, Hole)]


def holes_in(value: Any) -> Iterator[Hole]:
    """The holes of every text in a JSON value; those in the keys of objects are refused."""
    if isinstance(value, str):
        yield from holes(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if holes(key):
                raise ValueError(f"'{key}' is a key, and a key cannot be a ${{name}}")
            yield from holes_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from holes_in(inner)


def bind(hole: Hole, *, arguments: Set[str], steps: Set[str]) -> Ref:
    """What a hole means: declared names are arguments, then come earlier steps; any other is a secret."""
    if hole.name in arguments:
        return Ref("argument", hole.name, (), hole.form)
    match = _PATH.fullmatch(hole.name)
    if match is not None:
        head, path = match["head"], tuple(_parts(match["rest"]))
        if head in arguments:
            return Ref("argument", head, path, hole.form)
        if head in steps:
            return Ref("step", head, path, hole.form)
        if not path and SECRET_NAME.fullmatch(head):
            return Ref("secret", head, (), hole.form)
    raise InvalidTool(
        f"'${{{hole.name}}}' is no argument of argSchema, no earlier step and no name of a secret.",
        hint="Declare it in argSchema, or write the secret's name in letters, digits and underscores.",
    )


def _hole(inside: str) -> Hole:
    name, bar, form = inside.rpartition("|")
    if bar and form.strip() in FORMS:
        inside, form = name, form.strip()
    else:
        form = ""
    if not inside.strip():
        raise ValueError("'${}' names nothing")
    return Hole(inside.strip(), form)


def _parts(rest: str) -> Iterator[str | int]:
    for match in _PART.finditer(rest):
        yield match[1] if match[1] is not None else int(match[2])
