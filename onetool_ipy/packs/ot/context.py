"""What the `ot` pack may look at and do: a small protocol that the Toolbox fulfils.

The edge of the `ot` pack: errors that 001 wants as text.

Inside, functions raise. Here a OneToolError becomes `Returned`, whose message is the exact text: the executor makes it
`ok: false` with that message, `%tool` raises it, and the `ot` object that Python code holds returns it (ErrorText).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from onetool_ipy.base.errors import CallFailure, ExecutionFailed, OneToolError
from onetool_ipy.config.load import Config
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.tool import Problem
from onetool_ipy.snippets.definition import Shortcuts

if TYPE_CHECKING:
    from onetool_ipy.stores.calls import CallLog
    from onetool_ipy.stores.results import Results
    from onetool_ipy.stores.topics import Topics

__all__ = ["Desk", "Returned", "ServersDesk", "choice", "worded"]


class ServersDesk(Protocol):
    """The MCP servers as `ot` sees them."""

    def check(self) -> Mapping[str, str]:
        """How each server is, asked now."""

    def instructions(self, name: str) -> str:
        """What a server says of how to use it."""


class Desk(Protocol):
    """The toolbox as `ot` sees it."""

    @property
    def registry(self) -> Registry:
        """All tools."""

    @property
    def config(self) -> Config:
        """The configuration in force."""

    @property
    def shortcuts(self) -> Shortcuts:
        """Aliases and snippets: those of the files and those of this session."""

    @property
    def results(self) -> Results:
        """The stored results."""

    @property
    def log(self) -> CallLog:
        """The call log."""

    @property
    def topics(self) -> Topics:
        """Where messages go."""

    @property
    def open_again(self) -> Callable[[], Any] | None:
        """Opens the same project's toolbox in another process."""

    def mask(self, text: str) -> str:
        """The text without secrets."""

    def now(self) -> datetime.datetime:
        """The time, as an aware UTC datetime."""

    @property
    def servers(self) -> ServersDesk:
        """The MCP servers."""

    def heed_trust(self) -> None:
        """Follow what the user said of the project since."""

    def abandoned(self) -> int:
        """How many calls past their limit are still running."""

    def problems(self) -> list[Problem]:
        """What is wrong now and stops nothing else."""

    def reload(self) -> None:
        """Read everything again; raises InvalidConfig and keeps the last good state where that fails."""


_P = ParamSpec("_P")
_T = TypeVar("_T")


class Returned(ExecutionFailed):
    """An error whose text is the answer."""


def worded(fn: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn our own errors into the text that is returned."""

    @wraps(fn)
    def edge(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return fn(*args, **kwargs)
        except CallFailure:
            raise
        except OneToolError as exc:
            raise Returned(f"Error: {exc.message}", hint=exc.hint) from exc

    return edge


def choice(what: str, given: str, valid: tuple[str, ...], example: str) -> None:
    """Refuse a value that is none of the valid ones, listing them."""
    if given not in valid:
        listed = ", ".join(valid)
        raise Returned(f"Error: Invalid {what} '{given}'. Valid: {listed}. Example: {example}")
