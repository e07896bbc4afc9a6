"""Exceptions of httpx and of the system become errors of ours, in the system's words and without
secrets."""

from __future__ import annotations

import socket
import ssl

import httpx
import pytest

from onetool_ipy.base.errors import CallFailure, CallTimeout, ExecutionFailed, NotAllowed
from onetool_ipy.net.response import ConnectionFailed, masking, translated


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def caused(exc: Exception, cause: BaseException) -> Exception:
    exc.__cause__ = cause
    return exc


REFUSED = OSError(111, "words of asyncio")


@pytest.mark.parametrize(
    ("exc", "kind", "message"),
    [
        (httpx.ReadTimeout("x"), CallTimeout, "'h' did not respond completely within 2.5 s."),
        pytest.param(
            caused(httpx.ConnectError("x"), REFUSED),
            ConnectionFailed,
            "Cannot connect to 'h': Connection refused",
            marks=pytest.mark.posix("numbers and words of errors"),
        ),
        (
            socket.gaierror(-2, "No such name"),
            ConnectionFailed,
            "Cannot connect to 'h': No such name",
        ),
        (OSError(None, "odd words"), ConnectionFailed, "The connection to 'h' broke: odd words"),
        (httpx.ReadError(" cut "), ConnectionFailed, "The connection to 'h' broke: cut"),
        (httpx.ReadError(""), ConnectionFailed, "The connection to 'h' broke: ReadError"),
        (
            caused(httpx.ConnectError("x"), ssl.SSLCertVerificationError(1, "self-signed")),
            ExecutionFailed,
            "The certificate of 'h' is not valid: ",
        ),
        (Mute(), ExecutionFailed, "Cannot send to 'h': Mute"),
        (
            httpx.InvalidURL("bad https://u:p@a.test/x?key=1#f"),
            ExecutionFailed,
            "'h': bad https://a.test/x",
        ),
        (httpx.InvalidURL("pw-1"), ExecutionFailed, "Cannot send to 'h': ***"),
    ],
    ids=[
        "time",
        "refused",
        "name",
        "words",
        "broken",
        "mute",
        "certificate",
        "no text",
        "address",
        "secret",
    ],
)
def test_an_exception_is_said_in_the_systems_words(
    exc: Exception, kind: type[CallFailure], message: str
) -> None:
    error = translated(exc, "h", 2.5, lambda text: text.replace("pw-1", "***"))

    assert type(error) is kind
    assert message in error.message
    assert "key=1" not in error.message


def test_a_failure_of_ours_is_masked_and_loses_its_cause() -> None:
    failure = NotAllowed("no pw-1", hint="try pw-1")

    with pytest.raises(NotAllowed) as caught, masking(lambda text: text.replace("pw-1", "***")):
        raise failure from ValueError("pw-1")

    assert (caught.value.message, caught.value.hint, str(caught.value)) == (
        "no ***",
        "try ***",
        "no ***",
    )
    assert caught.value.__cause__ is caught.value.__context__ is None
