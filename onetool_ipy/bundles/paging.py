"""Pages by keyset: a token says behind which row the next page begins, so that rows added or gone shift nothing. Pure.

A token holds the row's sort key and is signed over the store and the query it belongs to: one that was made up, cut, or
given out for another list is refused. It is no secret: there is nothing in it but what the page before it showed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from onetool_ipy.core import values
from onetool_ipy.core.errors import InvalidRequest

__all__ = ["DEFAULT_SIZE", "MAX_SIZE", "Key", "page_of", "require_size"]

DEFAULT_SIZE = 25
MAX_SIZE = 256
_MAX_TOKEN = 2000
_MAC_BYTES = 16
_AGAIN = "Ask for the first page again, without a token."

Key = tuple[Any, ...]
"""What rows are sorted by: numbers and texts, different for every row."""

Row = TypeVar("Row")


def require_size(size: Any) -> int:
    """The number of rows to give: at least 1, at most 256 whatever is asked for."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        shown = values.safe_repr(size, 40)
        raise InvalidRequest(f"pageSize: {shown} is not a number from 1 to {MAX_SIZE}.")
    return min(size, MAX_SIZE)


def page_of(
    rows: Sequence[Row], key: Callable[[Row], Key], *, size: Any, token: Any, query: Sequence[Any], store: str
) -> tuple[list[Row], str | None]:
    """The rows behind the token's, and the token for what comes after; `rows` are sorted by `key`."""
    wanted = require_size(size)
    start = 0
    if token is not None:
        after = _opened(token, query, store)
        start = next((i for i, row in enumerate(rows) if _is_behind(key(row), after)), len(rows))
    chosen = list(rows[start : start + wanted])
    more = start + wanted < len(rows)
    return chosen, _token(key(chosen[-1]), query, store) if more and chosen else None


def _is_behind(key: Key, after: Key) -> bool:
    try:
        return key > after
    except TypeError:
        raise InvalidRequest("pageToken: it is not of this list.", hint=_AGAIN) from None


def _token(key: Key, query: Sequence[Any], store: str) -> str:
    said = json.dumps(list(key), separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_mac(said, query, store) + said).decode().rstrip("=")


def _opened(token: Any, query: Sequence[Any], store: str) -> Key:
    try:
        if not isinstance(token, str) or not 0 < len(token) <= _MAX_TOKEN:
            raise ValueError("no token")
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        mac, said = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if mac != _mac(said, query, store) or _token(tuple(json.loads(said)), query, store) != token:
            raise ValueError("another list's")
        return tuple(json.loads(said))
    except (ValueError, TypeError):
        shown = values.safe_repr(token, 60)
        raise InvalidRequest(f"pageToken: {shown} is not one of this list.", hint=_AGAIN) from None


def _mac(said: bytes, query: Sequence[Any], store: str) -> bytes:
    about = json.dumps([store, list(query)], ensure_ascii=True, default=str).encode()
    return hashlib.blake2b(said, digest_size=_MAC_BYTES, key=hashlib.sha256(about).digest()).digest()
