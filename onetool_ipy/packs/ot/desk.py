"""What the `ot` pack may look at and do: a small protocol that the Toolbox fulfils."""

from __future__ import annotations

from typing import Protocol

from onetool_ipy.config import Config
from onetool_ipy.core.model import Problem
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.shortcuts import Shortcuts

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

    def problems(self) -> list[Problem]:
        """What is wrong now and stops nothing else."""

    def reload(self) -> None:
        """Read everything again; raises InvalidConfig and keeps the last good state where that fails."""
