"""The exception tree: which failures are transient."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from onetool_ipy import ToolCallError, ToolResult
from onetool_ipy.base import errors
from onetool_ipy.base.errors import (
    CallCancelled,
    CallTimeout,
    ExecutionFailed,
    InvalidArgs,
    RateLimited,
    Unavailable,
    is_transient,
)
from onetool_ipy.core.result import Failure
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


def test_every_exception_is_one_of_the_three_that_people_meet() -> None:
    """Whichever module it is of: only they are made of `OneToolError` itself."""
    folder = Path(errors.__file__).parents[1]
    classes = [
        name
        for file in folder.rglob("*.py")
        for name in re.findall(
            r"^class (\w+)\([^)]*\bOneToolError\b", file.read_text("utf-8"), re.M
        )
    ]

    assert sorted(classes) == ["AskFailed", "ToolCallError", "UsageProblem"]
    assert {errors.InvalidTool.shown_as, errors.NotFound.shown_as} == {"UsageProblem"}
    assert errors.Untrusted("no")._render_traceback_() == ["ToolCallError: no"]


def test_no_such_tool_is_one_class_and_has_the_name_of_earlier_versions() -> None:
    assert errors.NoSuchTool is errors.ToolNotFound
    missing = errors.ToolNotFound("No tool 'a.b'.")
    assert isinstance(missing, (ToolCallError, AttributeError, KeyError))
    assert (missing.error.code, missing.result, str(missing)) == (
        "tool_not_found",
        None,
        "No tool 'a.b'.",
    )
