"""The screens in a notebook: the tool browser, the result viewer, the usage view.

A screen sends requests: a kind, and a payload of JSON, which the method that answers it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onetool_ipy.base.errors import UsageProblem

if TYPE_CHECKING:
    from onetool_ipy.base.values import Json


def text_in(payload: Json, key: str) -> str:
    """Return a text that a payload must have. Raises UsageProblem."""
    value = payload.get(key)
    if not isinstance(value, str):
        raise UsageProblem(f"'{key}' is missing.")
    return value
