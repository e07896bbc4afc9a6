"""Find names by what a person types. One engine for help, completion, "did you mean" and the screens.

So far: the nearest names to a mistyped one. No I/O, no state; rapidfuzz is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean", "suggest"]

_NEAR = 60.0


def suggest(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """The known names nearest to `name`, best first; none when nothing is near."""
    from rapidfuzz import fuzz, process

    choices = list(known)
    query = name[:200].lower()
    same = [c for c in choices if c.lower() == query]
    tails = [c for c in choices if c.rpartition(".")[2].lower() == query]
    scored = process.extract(query, choices, scorer=fuzz.ratio, processor=str.lower, limit=limit, score_cutoff=_NEAR)
    ranked = dict.fromkeys([*same, *tails, *(choice for choice, _, _ in scored)])
    return list(ranked)[:limit]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean 'a' or 'b'?`, or nothing."""
    near = [f"'{n}'" for n in suggest(name, known)]
    return f"Did you mean {' or '.join(near)}?" if near else ""
