"""A request as the operations see it: the toolbox, the names in the path, the query read, the body decoded. Pure.

What cannot be read is an InvalidRequest that names the parameter. A parameter that a route does not have is left
alone: JupyterLab adds a number of its own to what it fetches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, Protocol

from onetool_ipy.bundles.faults import whole
from onetool_ipy.core import values
from onetool_ipy.core.errors import InvalidRequest
from onetool_ipy.toolbox import Toolbox

__all__ = ["MAX_BODY", "Param", "Request", "Work", "decode_body", "read_query"]

MAX_BODY = 1024 * 1024
"""Bytes of a body; more is refused with 413."""

ParamKind = Literal["text", "list", "switch", "number"]


class Param(NamedTuple):
    """One parameter of a query: its name on the wire, how it is read, and what it is for."""

    name: str
    kind: ParamKind
    about: str
    is_required: bool = False


class Work(Protocol):
    """Do in a worker what may block, and wait for it."""

    async def __call__(self, do: Callable[[], Any], /) -> Any: ...


class Request(NamedTuple):
    """What was asked: `path` and `query` by their names on the wire."""

    box: Toolbox
    work: Work
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any


def read_query(params: Sequence[Param], given: Mapping[str, Sequence[bytes]]) -> dict[str, Any]:
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


def _read(param: Param, texts: list[str]) -> Any:
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
