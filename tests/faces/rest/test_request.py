"""A query and a body as they arrive; an exception and a result as they are sent."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import (
    CallTimeout,
    Conflict,
    ExecutionFailed,
    InvalidRequest,
    NotFound,
    OneToolError,
    ToolNotFound,
    UsageProblem,
)
from onetool_ipy.base.files import StoreError
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.faces.rest.request import (
    Query,
    decode_body,
    invoked,
    of_status,
    read_query,
    refused,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner)
    ),
    max_leaves=8,
)


class Page(Query):
    size: int = 10


@given(value=JSON, is_ascii=st.booleans())
def test_body_is_what_json_reads(value: Any, is_ascii: bool) -> None:
    assert decode_body(json.dumps(value, ensure_ascii=is_ascii).encode()) == value


@given(
    data=st.binary(max_size=40)
    | st.text(alphabet='{}[]",:0123456789.e\\uD8 ', max_size=30).map(str.encode)
)
def test_any_body_is_read_or_refused(data: bytes) -> None:
    with suppress(InvalidRequest):
        json.dumps(decode_body(data), ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "not UTF-8"),
        (b'"\\ud800"', "not UTF-8"),
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
    ],
)
def test_wrong_body_is_refused_in_words(data: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        decode_body(data)


def test_query_is_read_by_the_names_of_the_wire_and_ignores_others() -> None:
    query = read_query(Page, {"size": [b"3"], "project": ["é".encode()], "17": [b"x"]})

    assert (query.size, query.project) == (3, "é")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": [b"x"]}, "size"),
        ({"size": [b"1", b"2"]}, "size"),
        ({"project": [b"\xff"]}, "UTF-8"),
    ],
)
def test_wrong_query_names_its_parameter(arguments: dict[str, list[bytes]], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read_query(Page, arguments)


@pytest.mark.parametrize(
    ("exc", "status", "code"),
    [
        (InvalidRequest("x"), 400, "invalid_request"),
        (NotFound("x"), 404, "not_found"),
        (Conflict("x"), 409, "conflict"),
        (StoreError("x", "full"), 507, "storage"),
        (UsageProblem("x", hint="y"), 400, "invalid_request"),
        (ToolNotFound("x"), 404, "tool_not_found"),
        (ExecutionFailed("x"), 502, "execution_error"),
    ],
)
def test_exception_has_the_status_of_its_class(exc: OneToolError, status: int, code: str) -> None:
    response = refused(exc)

    assert (response.status, response.body["ok"], response.body["error"]["code"]) == (
        status,
        False,
        code,
    )
    assert "x" in response.body["error"]["message"]


@pytest.mark.parametrize(
    ("status", "message", "code", "words"),
    [
        (404, "", "not_found", "Not Found."),
        (404, "There is no x.", "not_found", "There is no x."),
        (418, "", "invalid_request", "I'm a Teapot."),
        (500, "", "internal", "Internal Server Error."),
        (507, "", "storage", "Insufficient Storage."),
        (499, "", "invalid_request", "Refused."),
        (599, "", "internal", "Refused."),
    ],
)
def test_refusal_of_the_web_server_has_our_shape(
    status: int, message: str, code: str, words: str
) -> None:
    assert of_status(status, message) == (
        status,
        {"ok": False, "error": {"code": code, "message": words}},
    )


def _failed(exc: Any) -> ToolResult:
    return ToolResult(ok=False, error=Failure.of(exc, "a.b"))


@pytest.mark.parametrize(
    ("exc", "is_http", "status"),
    [
        (ExecutionFailed("x"), True, 502),
        (ExecutionFailed("x"), False, 200),
        (CallTimeout("x"), False, CallTimeout.status),
        (ToolNotFound("x"), False, 404),
    ],
)
def test_tool_that_fails_by_itself_was_invoked(exc: Any, is_http: bool, status: int) -> None:
    response = invoked(_failed(exc), None, is_http=is_http)

    assert (response.status, response.body["ok"]) == (status, False)


def test_mismatch_is_sent_beside_the_value() -> None:
    plain = ToolResult(ok=True, data=1)
    other = ToolResult(ok=True, data=1, meta={"mismatch": "not so", "other": 1})

    assert invoked(plain, 1, is_http=True) == (200, {"ok": True, "value": 1})
    assert invoked(other, 1, is_http=True) == (
        200,
        {"ok": True, "value": 1, "meta": {"mismatch": "not so"}},
    )
