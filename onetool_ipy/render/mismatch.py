"""What an answer does not fit of an imported tool's outputSchema, in one line for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["mismatch_line"]


def mismatch_line(meta: Mapping[str, Any]) -> str:
    """The line for the `meta` of a result; empty where all fits, or nothing was promised."""
    found = meta.get("mismatch")
    if not found:
        return ""
    first = found[0]
    more = f" (and {len(found) - 1} more in .meta['mismatch'])" if len(found) > 1 else ""
    where = f" at '{first['pointer']}'" if first["pointer"] else ""
    return f"The answer does not fit the schema of the imported document{where}: {first['message']}{more}"
