"""A REST request decoded, and the response to it: status and JSON body.

A query is read by a model, like a body. An exception becomes `{ok: false, error: {code, message,
details?}}` with the status and code of its class. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, InvalidRequest, OneToolError, RequestRefused
from onetool_ipy.base.files import StoreError
from onetool_ipy.bundles.model import WireModel
from onetool_ipy.bundles.validation import of_validation, whole
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.toolbox import Toolbox

MAX_BODY = 1024 * 1024
MAX_DOCUMENT = 16 * MAX_BODY
"""Bytes of a body; more is refused with 413."""

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
_UPSTREAM_REASONS = frozenset((None, "too_large", "recursion", "cancelled"))
"""Reasons of a failure inside the tool itself, or in the API behind an HTTP tool."""


_Query = TypeVar("_Query", bound="Query")


class Query(WireModel):
    """What every route reads of a query. Other parameters are ignored: JupyterLab adds a number of
    its own."""

    model_config = ConfigDict(extra="ignore", strict=False)

    project: Annotated[
        str,
        Field(
            description=(
                "The project's folder, inside the folder that the server serves; by default that"
                " one."
            )
        ),
    ] = ""


class RestRequest(NamedTuple):
    """A decoded request; `path` is keyed by the names on the wire. `base_url` is the server's
    path."""

    box: Toolbox
    path: Mapping[str, str]
    query: Any
    body: Any
    base_url: str = "/"


class RestResponse(NamedTuple):
    """A status, and a body if there is one."""

    status: int
    body: Any = None


def read_query(kind: type[_Query], arguments: Mapping[str, Sequence[bytes]]) -> _Query:
    """Read a query as the route declares it. Raises InvalidRequest, naming the parameter."""
    try:
        texts = {name: [each.decode("utf-8") for each in data] for name, data in arguments.items()}
        query = {name: each[0] if len(each) == 1 else each for name, each in texts.items()}
        return kind.model_validate(query, by_alias=True, by_name=False)
    except UnicodeError:
        raise InvalidRequest("The query is not UTF-8 text.") from None
    except ValidationError as exc:
        raise InvalidRequest(of_validation(exc, kind, query).message) from None


def decode_body(data: bytes) -> Any:
    """Decode a JSON body. Raises InvalidRequest if it is not JSON."""
    try:
        text = data.decode("utf-8")
        value = values.from_json(text)
        if "\\u" in text:  # JSON can write half a surrogate pair, which UTF-8 cannot
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise whole("The body is not UTF-8 text.") from None
    except RecursionError:
        raise whole("The body is nested too deeply.") from None
    except ValueError as exc:
        raise whole(f"The body is not JSON: {values.cut(str(exc), 120)}.") from None
    return value


def refused(exc: OneToolError) -> RestResponse:
    """Turn an exception into a response, with the status of its class."""
    if isinstance(exc, CallFailure):
        return _failed(Failure.of(exc, ""), is_http=True)
    message = " ".join(line for line in exc.lines() if line)
    if isinstance(exc, RequestRefused):
        extra = {"details": exc.details, "reason": exc.reason}
        error = {
            "code": exc.code,
            "message": message,
            **{key: value for key, value in extra.items() if value},
        }
        return RestResponse(exc.status, {"ok": False, "error": error})
    return of_status(507 if isinstance(exc, StoreError) else 400, message)


def of_status(status: int, message: str = "") -> RestResponse:
    """Make the response to a request that the web server itself refused."""
    try:
        usual = HTTPStatus(status).phrase
    except ValueError:
        usual = "Refused"
    code = _CODES.get(status, "internal" if status >= 500 else "invalid_request")
    return RestResponse(
        status, {"ok": False, "error": {"code": code, "message": message or f"{usual}."}}
    )


def invoked(result: ToolResult, value: object, *, is_http: bool) -> RestResponse:
    """Make the response to an invoke; `value` is the data as it is sent. `meta` is there only on a
    schema mismatch."""
    if result.error is not None:
        return _failed(result.error, is_http=is_http)
    mismatch = result.meta.get("mismatch")
    return RestResponse(
        200, {"ok": True, "value": value, **({"meta": {"mismatch": mismatch}} if mismatch else {})}
    )


def _failed(failure: Failure, *, is_http: bool) -> RestResponse:
    """A failed call. A tool that fails by itself was still invoked, so that is a 200; an upstream
    failure is a 502."""
    error = {key: value for key, value in failure.to_dict().items() if key != "tool" or value}
    status = failure.status
    if failure.code == "execution_error" and failure.reason in _UPSTREAM_REASONS:
        status = 502 if is_http else 200
    return RestResponse(status, {"ok": False, "error": error})
