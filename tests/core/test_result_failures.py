"""The failure of a call: what a tool raised, in words and without secrets."""

from __future__ import annotations

import pytest

from onetool_ipy.base.errors import InvalidArgs
from onetool_ipy.core.result import Failure, ToolCallError, ToolResult, failure_of

INNER = Failure("invalid_args", "no", "t.g")


def mask(text: str) -> str:
    return text.replace("hunter2", "***")


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("exc", "code", "message"),
    [
        (ValueError("hunter2 is wrong"), "execution_error", "ValueError: *** is wrong"),
        (KeyError(), "execution_error", "KeyError"),
        (Silent(), "execution_error", "Silent"),
        (ValueError("no '\udcff'"), "execution_error", r"ValueError: no '\udcff'"),
        (InvalidArgs("'a' is missing."), "invalid_args", "'a' is missing."),
        (
            ToolCallError(ToolResult(False, error=Failure("invalid_args", "no", "t.g"))),
            "execution_error",
            "in 't.g': no",
        ),
    ],
    ids=["secret", "no text", "no words", "half a character", "ours", "inner call"],
)
def test_what_a_tool_raised_is_said_in_masked_words(
    exc: Exception, code: str, message: str
) -> None:
    failure = failure_of(exc, "t.f", mask)

    assert (failure.code, failure.message, failure.tool) == (code, message, "t.f")


def test_secrets_are_masked_in_the_causes_too() -> None:
    cause = OSError(2, "no such file", "/home/hunter2")
    exc = RuntimeError("failed")
    exc.__cause__ = cause

    failure_of(exc, "t.f", mask)

    assert cause.filename == "/home/***"
