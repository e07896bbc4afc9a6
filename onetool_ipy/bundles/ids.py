"""Ids of bundles and tools (UUIDv7), slugs and version labels. Pure.

Slugs and versions are compared in Unicode's NFC form, case-sensitive. A version is an opaque label without any order.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.problems import fault

__all__ = ["MAX_RUNES", "is_id", "new_id", "require_id", "require_slug", "require_version"]

MAX_RUNES = 64

_MAX_SHOWN = 80

_SIMPLE = re.compile(r"[A-Za-z0-9-]+")

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def new_id() -> str:
    """Return a new UUIDv7, larger than all that this process made before."""
    import uuid_utils

    return str(uuid_utils.uuid7())


def is_id(text: str) -> bool:
    """Whether a text is a UUIDv7 in canonical form: 36 characters, lower case."""
    return _ID.fullmatch(text) is not None


def require_id(value: Any, field: str = "bundleID") -> str:
    """Return the id in canonical form, or raise InvalidRequest."""
    text = str(value).lower() if isinstance(value, str) or type(value).__name__ == "UUID" else ""
    if is_id(text):
        return text
    shown = values.safe_repr(value, _MAX_SHOWN)
    raise InvalidRequest(f"{field}: {shown} is not a UUIDv7.", hint="Make one with box.bundles.new_id().")


def require_slug(value: Any, field: str = "slug") -> str:
    """Return the slug in NFC, or raise InvalidRequest."""
    return _label(value, field, "")


def require_version(value: Any, field: str = "version") -> str:
    """Return the version in NFC, or raise InvalidRequest."""
    text = _label(value, field, ".")
    if text in (".", ".."):
        raise _refusal(field, f"'{text}' is not a valid version.", "Give it a label such as '1.0.0'.")
    return text


def _label(value: Any, field: str, also: str) -> str:
    if not isinstance(value, str) or not value:
        shown = "it is empty" if value == "" else f"{values.safe_repr(value, _MAX_SHOWN)} is not text"
        raise _refusal(field, f"{shown}.")
    text = unicodedata.normalize("NFC", value[: 4 * MAX_RUNES])
    if len(text) > MAX_RUNES or len(value) > 4 * MAX_RUNES:
        shown = values.safe_repr(value, _MAX_SHOWN)
        raise _refusal(field, f"{shown} is longer than {MAX_RUNES} characters.")
    for rune in text if not _SIMPLE.fullmatch(text) else ():
        if not _is_allowed(rune, also):
            shown, allowed = (
                values.safe_repr(value, _MAX_SHOWN),
                "letters, digits and '-'" + (" and '.'" if also else ""),
            )
            raise _refusal(field, f"{shown} holds {rune!r}.", f"Allowed are {allowed}.")
    return text


def _refusal(field: str, said: str, hint: str = "") -> InvalidRequest:
    return InvalidRequest(f"{field}: {said}", hint=hint, details=[fault(f"/{field}", said, hint)])


def _is_allowed(rune: str, also: str) -> bool:
    return rune == "-" or rune in also or unicodedata.category(rune) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")
