"""What a response means: success or not, its body as a value, what of it is taken, and whether that is as promised."""

from __future__ import annotations

import base64
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from onetool_ipy.bundles.http.definition import Response
from onetool_ipy.bundles.http.selector import compile_selector
from onetool_ipy.core import values
from onetool_ipy.core.checker import compile_schema, pointer
from onetool_ipy.core.errors import ExecutionFailed, InvalidOutput
from onetool_ipy.core.violations import said_of
from onetool_ipy.net.reply import Reply

__all__ = ["Answer", "Output", "body_text", "decoded"]

Mask = Callable[[str], str]

_MAX_SAID = 300
_MAX_LISTED = 20
_TEXT = frozenset(
    (
        *("application/xml", "application/javascript", "application/x-www-form-urlencoded", "application/x-ndjson"),
        *("application/yaml", "application/x-yaml", "application/graphql", "application/sql", "image/svg+xml"),
    )
)


class Answer:
    """Reads the responses of one request."""

    def __init__(self, response: Response) -> None:
        codes = response.success_codes or ["2xx"]
        self._codes = {code for code in codes if isinstance(code, int)}
        self._hundreds = {int(code[0]) for code in codes if isinstance(code, str)}
        self._is_lenient = response.error_mode == "empty"
        self._encoding = response.encoding
        chosen = response.chosen()
        self._select = compile_selector(chosen) if chosen is not None else None

    def is_success(self, status: int) -> bool:
        """Whether a status is one of those that the tool expects."""
        return status in self._codes or status // 100 in self._hundreds

    def read(self, reply: Reply, mask: Mask) -> tuple[Any, bool]:
        """The value, and whether there is one; raises ExecutionFailed for a failure, unless that means nothing."""
        if not self.is_success(reply.status):
            if self._is_lenient:
                return None, False
            raise _failed(reply, mask)
        value = decoded(reply, self._encoding)
        if self._select is not None:
            value = self._select(value, reply.text)
        return value, True


class Output:
    """The compiled check of a tool's value; without a schema anything will do."""

    def __init__(self, schema: dict[str, Any] | bool | None, *, is_strict: bool = True) -> None:
        self._schema = {} if schema is None or schema is True else _as_object(schema)
        self._validator = compile_schema(self._schema) if self._schema else None
        self._is_strict = is_strict

    def check(self, value: Any, tool: str, mask: Mask) -> list[dict[str, str]]:
        """What does not fit: `[{pointer, message}]`. Where the schema is strict it raises InvalidOutput instead.

        Its details have all that does not fit as `mismatch`, and the value: what was made by a POST must not be lost.
        """
        if self._validator is None:
            return []
        found = self._found(value, mask)
        if found and self._is_strict:
            first = found[0]
            raise InvalidOutput(
                f"What '{tool}' got does not fit outputSchema at '{first['pointer']}': {first['message']}",
                hint="Its value is in error.details. Correct outputSchema, or the selector.",
                details={"mismatch": found, "value": value},
            )
        return found

    def _found(self, value: Any, mask: Mask) -> list[dict[str, str]]:
        assert self._validator is not None
        if not values.is_json(value):
            return [{"pointer": "", "message": "It is nested too deep to be checked."}]
        return [
            {"pointer": pointer(list(error.instance_path)), "message": said_of(error, value, self._schema, mask)}
            for error, _ in zip(self._validator.iter_errors(value), range(_MAX_LISTED), strict=False)
        ]


def decoded(reply: Reply, encoding: str) -> Any:
    """The body as a value: JSON, text, or `{mime, base64, size}`."""
    if encoding == "auto":
        encoding = _kind(reply)
    if encoding == "json":
        return reply.json() if reply.body.strip() else None
    if encoding == "text":
        return reply.text
    written = base64.b64encode(reply.body).decode("ascii")
    return {"mime": reply.mime or "application/octet-stream", "base64": written, "size": len(reply.body)}


def body_text(reply: Reply) -> str | None:
    """The body as text for people; None where it is none."""
    return reply.text if _kind(reply) in ("json", "text") else None


def _kind(reply: Reply) -> str:
    if reply.is_json or not reply.body:
        return "json"
    mime = reply.mime
    if (
        mime.startswith("text/")
        or mime in _TEXT
        or mime.endswith("+xml")
        or "charset=" in reply.headers.get("content-type", "")
    ):
        return "text"
    if mime:
        return "binary"
    try:
        reply.body.decode("utf-8")
    except UnicodeDecodeError:
        return "binary"
    return "text"


def _failed(reply: Reply, mask: Mask) -> ExecutionFailed:
    """The failure that a status means, with what the server said."""
    said = " ".join((body_text(reply) or "").split())
    words = f": {values.cut(mask(said[:20_000]), _MAX_SAID)}" if said else "."
    after = reply.headers.get("retry-after", "")
    hint = f"It asks to wait: Retry-After {mask(after[:40])}." if after else ""
    return ExecutionFailed(
        f"HTTP {reply.status} {_phrase(reply.status)}".rstrip() + words,
        hint=hint,
        details={"status": reply.status, "attempts": reply.attempts},
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _as_object(schema: dict[str, Any] | bool) -> dict[str, Any]:
    return {"not": {}} if schema is False else dict(schema)  # type: ignore[arg-type]  # True was dealt with
