"""Text on its way to the disk, with every secret hidden, in pieces of bounded size.

Owns where a stream of text may be cut: a secret that lies across a cut would be missed in both parts. What a secret
looks like is known by `mask` alone; a form of one is taken to be at most 16 KiB long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

__all__ = ["Mask", "masked"]

Mask = Callable[[str], str]

_REACH = 16 * 1024
_ENOUGH = 256 * 1024
_TOO_MUCH = 4 * 1024 * 1024
_TRIES = 16
_STEP = 997


def masked(pieces: Iterable[str | bytes], mask: Mask) -> Iterator[bytes]:
    """The same text as UTF-8, masked. Lone surrogates, which UTF-8 cannot hold, are written out as `\\udXXX`."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece if isinstance(piece, str) else piece.decode("utf-8"))
        size += len(piece)
        if size < _ENOUGH:
            continue
        ready, rest = _cut("".join(held), mask)
        yield _encode(ready)
        held, size = [rest], len(rest)
        if size > _TOO_MUCH:  # one secret after the other, without a gap
            yield _encode(mask(rest))
            held, size = [], 0
    yield _encode(mask("".join(held)))


def _cut(text: str, mask: Mask) -> tuple[str, str]:
    """A masked beginning of the text, and the rest that has to wait for what follows."""
    hidden = mask(text)
    if hidden is text or hidden == text:
        return text[:-_REACH], text[-_REACH:]
    at = len(text) - _REACH
    for _ in range(_TRIES):
        at = text.rfind("\n", 0, at - 1) + 1 or at - _STEP
        if at <= 0:
            break
        before, after = text[max(0, at - _REACH) : at], text[at : at + _REACH]
        if mask(before + after) == mask(before) + mask(after):
            return mask(text[:at]), text[at:]
    return "", text


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")
