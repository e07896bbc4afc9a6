"""JSON that others wrote -> plain values, or NotJson with the reason in words: the one reader.

Files of a project, of another client, of a recording, a notebook or an archive come through here.
What passes can be written again: it is bounded in size and depth, its numbers are finite and its
texts are text. `NotJson` is a ValueError; its message completes "the file ...".
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_BYTES = 64 << 20
MAX_DEPTH = 200


class NotJson(ValueError):
    """The text is not JSON that can be used."""


def parse_json(text: str | bytes, *, limit: int = MAX_BYTES, depth: int = MAX_DEPTH) -> Any:
    """Parse JSON text of at most `limit` bytes and `depth` levels; it may have a byte order mark.

    Raises NotJson.
    """
    if len(text) > limit:
        raise NotJson(f"is larger than {limit:,} bytes")
    try:
        decoded = text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as exc:
        raise NotJson(f"is not UTF-8 text (byte {exc.start:,})") from None
    try:
        value = json.loads(decoded.removeprefix("\ufeff"), parse_constant=_refuse)
    except json.JSONDecodeError as exc:
        raise NotJson(f"is not JSON: line {exc.lineno}, column {exc.colno}: {exc.msg}") from None
    except RecursionError:
        raise NotJson(f"is nested deeper than {depth} levels") from None
    except NotJson:
        raise
    except ValueError:
        # Python refuses to read a number of more than 4,300 digits.
        raise NotJson("has a number that is too long") from None
    _require_plain(value, depth)
    return value


def _refuse(word: str) -> NoReturn:
    raise NotJson(f"is not JSON: '{word}' is not a number")


def _require_plain(value: Any, most: int) -> None:
    """Raise NotJson for what could not be written again: too deep, infinite, half a character."""
    level = [value]
    for depth in range(most + 1):
        following: list[Any] = []
        for each in level:
            kind = type(each)
            if depth == most and kind in (dict, list):
                raise NotJson(f"is nested deeper than {most} levels")
            if kind is dict:
                following.extend(each)
                following.extend(each.values())
            elif kind is list:
                following.extend(each)
            elif kind is str and not each.isascii():
                _require_text(each)
            elif kind is float and each in (float("inf"), float("-inf")):
                raise NotJson("has a number that is too large")
        if not following:
            return
        level = following


def _require_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        char = text[exc.start].encode("unicode_escape").decode()
        raise NotJson(f"has half of a character ({char}) in a text") from None
