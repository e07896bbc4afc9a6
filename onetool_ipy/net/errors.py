"""Translates exceptions of httpx and the system into those of `base.errors`, with secrets masked.

A `ConnectionFailed` is transient. A translated error is raised without its cause: the cause holds the request with
its URL and headers.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, CallTimeout, ExecutionFailed, chain
from onetool_ipy.core import current

Mask = Callable[[str], str]

_MAX_WORDS = 300
_TIMEOUTS = (httpx.TimeoutException, TimeoutError)
_REFUSED = (httpx.ConnectError, socket.gaierror)
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError, OSError)
_QUERY = re.compile(r"(?i)(https?://)(?:[^\s/?#@]*@)?([^\s?#'\"]*+)(?:[?#][^\s'\"]*)?")
_USER = re.compile(r"(?i)(https?://)[^\s/?#@]*@")


class ConnectionFailed(ExecutionFailed):
    """A connection that could not be made, or broke."""

    transient = True


def timeout_error(place: object, limit_s: float) -> CallTimeout:
    """The error of a request that ran past its limit."""
    return CallTimeout(
        f"'{place}' did not respond completely within {round(limit_s, 3):g} s.",
        hint="Raise http.timeout_s, or the tool's timeoutMs.",
    )


def translated(exc: BaseException, place: object, limit_s: float, mask: Mask) -> CallFailure:
    """Translate a foreign exception into one of ours."""
    if isinstance(exc, CallFailure):
        return masked(exc, mask)
    # The reason is in the system's words if it has some. asyncio writes words of its own there, so the system is asked
    # where there is a number.
    system = next((link for link in chain(exc) if isinstance(link, OSError) and link.strerror), None)
    if system is not None:
        number = system.errno or 0
        words = mask(os.strerror(number) if number > 0 else str(system.strerror))
    else:
        try:
            text = str(exc).strip()
        except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
            text = ""
        words = values.cut(mask(_without_query(text or type(exc).__name__)), _MAX_WORDS)
    if isinstance(exc, _TIMEOUTS):
        return masked(timeout_error(place, limit_s), mask)
    if any(isinstance(link, ssl.SSLCertVerificationError) for link in chain(exc)):
        return ExecutionFailed(mask(f"The certificate of '{place}' is not valid: {words}"))
    if isinstance(exc, _REFUSED):
        return ConnectionFailed(mask(f"Cannot connect to '{place}': {words}"))
    if isinstance(exc, _BROKEN):
        return ConnectionFailed(mask(f"The connection to '{place}' broke: {words}"))
    return ExecutionFailed(mask(f"Cannot send to '{place}': {words}"))


def masked(exc: CallFailure, mask: Mask) -> CallFailure:
    """Mask the secrets in an error."""
    exc.message, exc.hint = mask(exc.message), mask(exc.hint)
    exc.args = (exc.message,)
    exc.__cause__ = exc.__context__ = None
    return exc


@contextmanager
def masking(mask: Mask) -> Iterator[None]:
    """Mask the secrets in a failure of the block, and drop its cause: that holds the request with its headers."""
    try:
        yield
    except CallFailure as exc:
        masked(exc, mask)
        raise


def mask_httpx_logs() -> None:
    """Mask what httpx logs: it writes every URL, with the secrets in it."""
    # A filter that is there already is not added again.
    logging.getLogger("httpx").addFilter(_mask_record)


def _mask_record(record: logging.LogRecord) -> bool:
    box = current.toolbox()
    mask = box.mask if box is not None else str
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg if isinstance(arg, (int, float)) else mask(_without_query(str(arg))) for arg in record.args
        )
    return True


def _without_query(text: str) -> str:
    return _USER.sub(r"\1", _QUERY.sub(r"\1\2", text))
