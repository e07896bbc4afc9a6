"""What the `ot` pack may look at and do: a small protocol that the Toolbox fulfils."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Protocol

from onetool_ipy.config import Config
from onetool_ipy.core.model import Problem
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.shortcuts import Shortcuts

if TYPE_CHECKING:
    from onetool_ipy.stores.calls import Calls
    from onetool_ipy.stores.results import Results
    from onetool_ipy.stores.topics import Topics

__all__ = ["Desk"]


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
    def log(self) -> Calls:
        """The call log."""

    @property
    def topics(self) -> Topics:
        """Where messages go."""

    def now(self) -> datetime.datetime:
        """The time, as an aware UTC datetime."""

    def servers(self) -> dict[str, str]:
        """MCP servers by name, and how each is now."""

    def abandoned(self) -> int:
        """How many calls past their limit are still running."""

    def problems(self) -> list[Problem]:
        """What is wrong now and stops nothing else."""

    def reload(self) -> None:
        """Read everything again; raises InvalidConfig and keeps the last good state where that fails."""
