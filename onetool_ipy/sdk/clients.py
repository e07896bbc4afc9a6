"""Clients that are made when first needed, and the headers that carry a secret."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from onetool_ipy.sdk.tools import get_secret

__all__ = ["api_headers", "lazy_client"]

_T = TypeVar("_T")


def api_headers(secret_name: str, *, header_name: str = "Authorization", prefix: str = "Bearer ") -> dict[str, str]:
    """The header that authenticates with a secret; empty where there is no such secret."""
    secret = get_secret(secret_name)
    return {} if secret is None else {header_name: f"{prefix}{secret}"}


def lazy_client(factory: Callable[[], _T], *, secret_name: str | None = None) -> Callable[[], _T | None]:
    """A function that makes the client once, at its first call, whichever thread is first.

    Where `secret_name` names a secret that is not there, it gives None and makes nothing; once the secret has another
    value, the client is made anew. After a factory that raised, the next call tries again.
    """
    making = threading.RLock()  # a factory that asks for its own client fails; it does not wait for ever
    made: list[tuple[str | None, _T]] = []

    def get() -> _T | None:
        secret = None
        if secret_name is not None and (secret := get_secret(secret_name)) is None:
            return None
        if not made or made[0][0] != secret:
            with making:
                if not made or made[0][0] != secret:
                    made[:] = [(secret, factory())]
                return made[0][1]
        return made[0][1]

    return get
