"""How often a mistyped name puts the tool first: single edits in the pack, in the function, in both.

Every real name, every kind of edit, twice, with a fixed seed. The peers see the same queries:
rapidfuzz's WRatio over the names, which is what one would write first, and the standard library's
`difflib`.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onetool_ipy.base.search import Index
from tests.benchmarks import corpus
from tests.benchmarks.timing import line

__all__ = ["ROWS", "queries", "run"]

ROWS = (7,)

_TRIES = 2
_WHERE = ("pack", "function", "both", "function alone")
_DIFFLIB_STEP = 20
"""It takes half a second for each query, so it gets every twentieth."""

First = Callable[[str], str | None]


def run() -> list[dict[str, Any]]:
    """One line for each place of the typo, and one for the same among 10,000 tools."""
    from rapidfuzz import fuzz, process

    tools = corpus.real_tools()
    names = [tool.name for tool in tools]
    index = Index(tools)
    lines = []
    for where in _WHERE:
        asked = list(queries(names, where))
        ours = _rate(asked, _first_of(index))
        wratio = _rate(asked, lambda q: process.extractOne(q, names, scorer=fuzz.WRatio)[0])
        closest = _rate(
            asked[::_DIFFLIB_STEP],
            lambda q: next(iter(difflib.get_close_matches(q, names, 1)), None),
        )
        lines.append(
            _line(f"one typo in {where}, {len(names)} names", ours, wratio, closest, len(asked))
        )
    many = corpus.many_tools(10_000)
    picked = random.Random(2).sample([tool.name for tool in many], 500)
    asked = [pair for where in ("pack", "function") for pair in queries(picked, where)]
    lines.append(
        _line(
            "one typo, 10,000 names", _rate(asked, _first_of(Index(many))), None, None, len(asked)
        )
    )
    return lines


def queries(names: Sequence[str], where: str) -> Iterator[tuple[str, str]]:
    """(what is typed, what is meant) for every name and every kind of edit."""
    chance = random.Random(3)
    for name in names:
        pack, _, tool = name.partition(".")
        for edit in corpus.EDITS:
            for _ in range(_TRIES):
                typed_pack = (
                    corpus.mistype(pack, edit, chance) if where in ("pack", "both") else pack
                )
                typed_tool = corpus.mistype(tool, edit, chance) if where != "pack" else tool
                yield (
                    (typed_tool if where == "function alone" else f"{typed_pack}.{typed_tool}"),
                    name,
                )


def _first_of(index: Index) -> First:
    def first(query: str) -> str | None:
        hits = index.search(query, limit=1)
        return hits[0].item.name if hits else None

    return first


def _rate(asked: Sequence[tuple[str, str]], first: First) -> float:
    """Per cent of queries whose first hit is the tool; alone, a function of that name in any pack
    counts."""
    good = 0
    for query, meant in asked:
        found = first(query)
        is_alone = "." not in query
        good += found is not None and (
            found == meant or (is_alone and _tail(found) == _tail(meant))
        )
    return 100 * good / len(asked)


def _tail(name: str) -> str:
    return name.partition(".")[2]


def _line(
    what: str, ours: float, wratio: float | None, closest: float | None, count: int
) -> dict[str, Any]:
    peers = [f"{wratio:.1f} % WRatio"] if wratio is not None else []
    peers += [f"{closest:.1f} % difflib"] if closest is not None else []
    shown = f"{ours:.2f} % of {count:,}"
    return line(7, what, shown, ", ".join(peers) or None, reach=">= 95 % first", met=ours >= 95)
