"""Reply: what came back, whole, within its limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from onetool_ipy.config.value import Value
from onetool_ipy.core.errors import InvalidOutput

__all__ = ["Reply", "charset_of", "mime_of"]

_NOT_OF_A_BODY = frozenset(("idna", "punycode", "undefined"))
"""Python's codecs for names and tests: they take minutes for a few megabytes, or fail whatever they are given."""


class Reply(Value):
    """What came back. Header names are in lower case; `url` is where the last redirect led."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    attempts: int = 1

    @property
    def mime(self) -> str:
        return mime_of(self.headers)

    @property
    def is_json(self) -> bool:
        """Whether the response says that it is JSON."""
        return self.mime in ("application/json", "text/json") or self.mime.endswith("+json")

    @property
    def text(self) -> str:
        """The body as text, in the charset it names, else UTF-8; what is no text becomes U+FFFD."""
        return self.body.decode(charset_of(self.headers), "replace").removeprefix("\ufeff")

    def json(self) -> Any:
        """The body as JSON; InvalidOutput where it is none."""
        try:
            charset = charset_of(self.headers)
            source = self.body if charset == "utf-8" else self.text  # of bytes json finds UTF-16 by itself
            return json.loads(source, parse_constant=_no_number)
        except RecursionError:
            raise InvalidOutput("The response says it is JSON, but is nested too deep.") from None
        except ValueError as exc:
            raise InvalidOutput(f"The response says it is JSON, but is not: {exc}") from None

    def __repr__(self) -> str:
        return f"<Reply {self.status} {self.mime} {len(self.body):,} bytes>"


def mime_of(headers: Mapping[str, str]) -> str:
    """The media type, in lower case, without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def charset_of(headers: Mapping[str, str]) -> str:
    """The charset that a response names, if Python knows it; else UTF-8."""
    import codecs

    for part in headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            try:
                found = codecs.lookup(value.strip().strip("\"'"))
            except (LookupError, ValueError):
                return "utf-8"
            is_text = getattr(found, "_is_text_encoding", True) and found.name not in _NOT_OF_A_BODY
            return found.name if is_text else "utf-8"
    return "utf-8"


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"'{word}' is not JSON")
