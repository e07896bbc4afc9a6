"""What went wrong -> status and `{ok: false, error: {code, message, details?}}`. The status comes from its class."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

from onetool_ipy.core.errors import CallFailure, OneToolError, RequestRefused
from onetool_ipy.core.model import Failure, ToolResult
from onetool_ipy.stores.files import StoreError

__all__ = ["Answer", "invoked", "of_failure", "of_status", "refused"]

_CODES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    429: "rate_limited",
    507: "storage",
}
_FROM_OUTSIDE = frozenset((None, "too_large", "recursion", "cancelled"))
"""Reasons by which a tool fails by itself, or, if it is an HTTP tool, its upstream."""


class Answer(NamedTuple):
    """A status, and a body where there is one."""

    status: int
    body: Any = None


def refused(exc: OneToolError) -> Answer:
    """What an exception of ours says to a client."""
    if isinstance(exc, RequestRefused):
        answer = _error(exc.code, _said(exc))
        if exc.details:
            answer["error"]["details"] = exc.details
        if exc.reason:
            answer["error"]["reason"] = exc.reason
        return Answer(exc.status, answer)
    if isinstance(exc, CallFailure):
        return of_failure(Failure.of(exc, ""), is_http=True)
    if isinstance(exc, StoreError):  # a full or broken disk is nobody's bad request
        return of_status(507, _said(exc))
    return of_status(400, _said(exc))


def of_status(status: int, message: str = "") -> Answer:
    """The answer to what the server itself refused."""
    try:
        usual = HTTPStatus(status).phrase
    except ValueError:
        usual = "Refused"
    code = _CODES.get(status, "internal" if status >= 500 else "invalid_request")
    return Answer(status, _error(code, message or f"{usual}."))


def invoked(result: ToolResult, value: Any, *, is_http: bool) -> Answer:
    """What an invoke gave, `value` being the data as it leaves; `meta` is there only where it breaks its schema."""
    if result.error is None:
        found = result.meta.get("mismatch")
        return Answer(200, {"ok": True, "value": value, **({"meta": {"mismatch": found}} if found else {})})
    return of_failure(result.error, is_http=is_http)


def of_failure(failure: Failure, *, is_http: bool) -> Answer:
    """A failed call: refused by us, failed upstream, or failed by itself, which is an answer like any other."""
    error = {key: value for key, value in failure.to_dict().items() if key != "tool" or value}
    if failure.code == "execution_error" and failure.reason in _FROM_OUTSIDE:
        return Answer(502 if is_http else 200, {"ok": False, "error": error})
    return Answer(failure.status, {"ok": False, "error": error})


def _error(code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "message": message}}


def _said(exc: OneToolError) -> str:
    return " ".join(line for line in exc.lines() if line)
