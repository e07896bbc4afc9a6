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
    held = ""
    for piece in pieces:
        text = piece if isinstance(piece, str) else piece.decode("utf-8")
        if len(held) < _ENOUGH or len(text) < _REACH:
            held += text
        elif _is_clean(held[-_REACH:] + text[:_REACH], mask):
            yield _encode(mask(held))
            held = text
        else:
            ready, held = _cut(held + text, mask)
            yield _encode(ready)
    yield _encode(mask(held))


def _is_clean(text: str, mask: Mask) -> bool:
    hidden = mask(text)
    return hidden is text or hidden == text


def _cut(text: str, mask: Mask) -> tuple[str, str]:
    """A masked beginning of the text, and the rest that has to wait for what follows."""
    at = len(text) - _REACH
    for _ in range(_TRIES):
        at = text.rfind("\n", 0, at - 1) + 1 or at - _STEP
        if at <= 0:
            break
        before, after = text[max(0, at - _REACH) : at], text[at : at + _REACH]
        if mask(before + after) == mask(before) + mask(after):  # nothing lies across
            return mask(text[:at]), text[at:]
    if len(text) < _TOO_MUCH:
        return "", text
    return mask(text), ""  # one secret after the other, without a gap


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")
