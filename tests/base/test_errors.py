"""The exception tree: which failures are transient."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import httpx
import pytest

from onetool_ipy import ToolResult
from onetool_ipy.base.errors import (
    CallCancelled,
    CallTimeout,
    ExecutionFailed,
    InvalidArgs,
    RateLimited,
    Unavailable,
    is_transient,
)
from onetool_ipy.core.result import Failure, ToolCallError
from onetool_ipy.net.response import ConnectionFailed


@pytest.fixture
def refused() -> Iterator[str]:
    """The address of a port where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (CallTimeout("late"), True),
        (CallCancelled("stopped"), True),
        (Unavailable("away"), True),
        (RateLimited("slow down"), True),
        (ConnectionFailed("refused"), True),
        (ConnectionResetError("reset"), True),
        (TimeoutError("late"), True),
        (socket.gaierror("no such host"), True),
        (httpx.RemoteProtocolError("cut"), True),
        (ExecutionFailed("HTTP 404"), False),
        (InvalidArgs("no"), False),
        (ValueError("no"), False),
        (FileNotFoundError("no"), False),
        (None, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failure_is_transient_by_its_class(exc: BaseException | None, expected: bool) -> None:
    assert is_transient(exc) is expected


def test_a_subclass_is_as_transient_as_its_class() -> None:
    """A pack author's own error."""

    class ServiceAway(Unavailable):
        pass

    assert is_transient(ServiceAway("away"))


def test_a_librarys_own_error_is_transient_by_its_cause(refused: str) -> None:
    """`urllib` wraps the system's exception in one of its own."""
    with pytest.raises(urllib.error.URLError) as caught:
        urllib.request.urlopen(refused)

    assert is_transient(caught.value)


@pytest.mark.parametrize(
    "inner", [ConnectionFailed("refused"), ValueError("no")], ids=lambda exc: type(exc).__name__
)
def test_a_failed_call_inside_a_tool_is_as_transient_as_that_call(inner: Exception) -> None:
    failure = Failure("execution_error", "It failed.", "a.b", exception=inner)

    assert is_transient(ToolCallError(ToolResult(False, error=failure))) is is_transient(inner)
