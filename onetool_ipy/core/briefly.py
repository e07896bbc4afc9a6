"""The beginning of what `repr` gives of lists, tuples and dicts, at the cost of what is shown.

`repr` writes all of it, however little is wanted: a list that holds the same list twice, and so on for forty levels,
has a repr of a terabyte. Whatever is inside is asked for its own `repr`, which may raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["NESTED", "briefly"]

NESTED: dict[type, str] = {list: "[...]", tuple: "(...)", dict: "{...}"}
"""What is written here, and what stands for one inside itself."""


def briefly(value: Any, limit: int) -> str:
    """`repr(value)` where it has at most `limit` characters, else more than that of its beginning."""
    said: list[str] = []
    size = 0
    above = {id(value): _pieces(value)}
    while above and size <= limit:
        inside = next(reversed(above))
        piece = next(above[inside], None)
        if piece is None:
            del above[inside]
            continue
        if isinstance(piece, tuple):
            (inner,) = piece
            if type(inner) in NESTED and id(inner) not in above:
                above[id(inner)] = _pieces(inner)
                continue
            piece = NESTED.get(type(inner)) or repr(inner)
        said.append(piece)
        size += len(piece)
    return "".join(said)


def _pieces(value: Any) -> Iterator[str | tuple[Any]]:
    """Its text, and each thing inside as a tuple of one. At least one character stands before each of them."""
    if type(value) is dict:
        lead = "{"
        for key, inner in value.items():
            yield lead
            yield (key,)
            yield ": "
            yield (inner,)
            lead = ", "
        yield "{}" if lead == "{" else "}"
        return
    first, last = ("[", "]") if type(value) is list else ("(", ")")
    lead = first
    for inner in value:
        yield lead
        yield (inner,)
        lead = ", "
    if lead == first:
        yield first
    yield ",)" if type(value) is tuple and len(value) == 1 else last
