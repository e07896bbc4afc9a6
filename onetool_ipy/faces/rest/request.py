"""A request as the operations see it: the toolbox, the names in the path, the query read, the body decoded. Pure.

What cannot be read is an InvalidRequest that names the parameter. A parameter that a route does not have is left
alone: JupyterLab adds a number of its own to what it fetches.

What went wrong -> status and `{ok: false, error: {code, message, details?}}`. The status comes from its class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, NoReturn, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, InvalidRequest, OneToolError, RequestRefused
from onetool_ipy.base.files import StoreError
from onetool_ipy.bundles.problems import whole
from onetool_ipy.core.tool import Failure, ToolResult
from onetool_ipy.toolbox import Toolbox

__all__ = [
    "MAX_BODY",
    "QueryParam",
    "RestRequest",
    "RestResponse",
    "Work",
    "decode_body",
    "invoked",
    "of_failure",
    "of_status",
    "read_query",
    "refused",
]

MAX_BODY = 1024 * 1024
"""Bytes of a body; more is refused with 413."""

ParamKind = Literal["text", "list", "switch", "number"]


class QueryParam(NamedTuple):
    """One parameter of a query: its name on the wire, how it is read, and what it is for."""

    name: str
    kind: ParamKind
    about: str
    is_required: bool = False


class Work(Protocol):
    """Do in a worker what may block, and wait for it."""

    async def __call__(self, do: Callable[[], Any], /) -> Any: ...


class RestRequest(NamedTuple):
    """What was asked: `path` and `query` by their names on the wire."""

    box: Toolbox
    work: Work
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any


def read_query(params: Sequence[QueryParam], given: Mapping[str, Sequence[bytes]]) -> dict[str, Any]:
    """The parameters that were given, read as the route declares them."""
    found: dict[str, Any] = {}
    for param in params:
        texts = [_text(param.name, each) for each in given.get(param.name, ())]
        if texts:
            found[param.name] = _read(param, texts)
        elif param.is_required:
            raise InvalidRequest(f"{param.name}: it is missing from the query.")
    return found


def decode_body(data: bytes) -> Any:
    """The JSON of a body; InvalidRequest for what is none."""
    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant)
        if "\\u" in text:  # half a surrogate pair can be written in JSON, and nowhere else
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise whole("The body is not UTF-8 text.") from None
    except RecursionError:
        raise whole("The body is nested too deeply.") from None
    except ValueError as exc:
        raise whole(f"The body is not JSON: {values.cut(str(exc), 120)}.") from None
    return value


def _read(param: QueryParam, texts: list[str]) -> Any:
    last = texts[-1]
    if param.kind == "list":
        return [part for text in texts for part in text.split(",") if part]
    if param.kind == "switch":
        known = {"true": True, "1": True, "false": False, "0": False}
        if last.lower() not in known:
            raise InvalidRequest(f"{param.name}: {values.safe_repr(last, 80)} is neither 'true' nor 'false'.")
        return known[last.lower()]
    if param.kind == "number":
        if not (last.isascii() and last.isdecimal() and len(last) < 10):
            raise InvalidRequest(f"{param.name}: {values.safe_repr(last, 80)} is no whole number.")
        return int(last)
    return last


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeError:
        raise InvalidRequest(f"{name}: this is not UTF-8 text.") from None


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"'{word}' is no JSON")


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


class RestResponse(NamedTuple):
    """A status, and a body where there is one."""

    status: int
    body: Any = None


def refused(exc: OneToolError) -> RestResponse:
    """What an exception of ours says to a client."""
    if isinstance(exc, RequestRefused):
        answer = _error(exc.code, _said(exc))
        if exc.details:
            answer["error"]["details"] = exc.details
        if exc.reason:
            answer["error"]["reason"] = exc.reason
        return RestResponse(exc.status, answer)
    if isinstance(exc, CallFailure):
        return of_failure(Failure.of(exc, ""), is_http=True)
    if isinstance(exc, StoreError):  # a full or broken disk is nobody's bad request
        return of_status(507, _said(exc))
    return of_status(400, _said(exc))


def of_status(status: int, message: str = "") -> RestResponse:
    """The answer to what the server itself refused."""
    try:
        usual = HTTPStatus(status).phrase
    except ValueError:
        usual = "Refused"
    code = _CODES.get(status, "internal" if status >= 500 else "invalid_request")
    return RestResponse(status, _error(code, message or f"{usual}."))


def invoked(result: ToolResult, value: Any, *, is_http: bool) -> RestResponse:
    """What an invoke gave, `value` being the data as it leaves; `meta` is there only where it breaks its schema."""
    if result.error is None:
        found = result.meta.get("mismatch")
        return RestResponse(200, {"ok": True, "value": value, **({"meta": {"mismatch": found}} if found else {})})
    return of_failure(result.error, is_http=is_http)


def of_failure(failure: Failure, *, is_http: bool) -> RestResponse:
    """A failed call: refused by us, failed upstream, or failed by itself, which is an answer like any other."""
    error = {key: value for key, value in failure.to_dict().items() if key != "tool" or value}
    if failure.code == "execution_error" and failure.reason in _FROM_OUTSIDE:
        return RestResponse(502 if is_http else 200, {"ok": False, "error": error})
    return RestResponse(failure.status, {"ok": False, "error": error})


def _error(code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "message": message}}


def _said(exc: OneToolError) -> str:
    return " ".join(line for line in exc.lines() if line)
