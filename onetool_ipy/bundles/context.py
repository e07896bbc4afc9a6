"""BundleKit: what the registry and the service of one project share, so that both see the same files and runners.

Light: it loads no pydantic. The runners, which do, are made when something is called.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.bundles.builtins import BuiltInSwitches
from onetool_ipy.bundles.store import BundleStore

if TYPE_CHECKING:
    from onetool_ipy.bundles.runners import Runners
    from onetool_ipy.net.client import HttpClient
    from onetool_ipy.net.rules import Rules

__all__ = ["BundleContext", "RunnerDependencies"]

_FOLDER = "bundles"


class RunnerDependencies(NamedTuple):
    """What runners reach out with; asked for when something is called, not before.

    `secret` looks into the secrets file only. `call` runs a tool of the registry, gives its value or raises its error.
    `hide` makes `mask` know a token that was fetched.
    """

    http_client: Callable[[], HttpClient]
    rules: Callable[[], Rules]
    secret: Callable[[str], str | None]
    mask: Callable[[str], str]
    hide: Callable[[str], None]
    clock: Callable[[], datetime.datetime]
    call: Callable[[str, Mapping[str, Any]], Any]


class BundleContext:
    """The store, the switches of the built-ins, and the runners, of the bundles in one `.onetool`."""

    def __init__(
        self,
        home: Path,
        outside: RunnerDependencies,
        *,
        is_found: bool = True,
        on_made: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = BundleStore(home / _FOLDER, is_found=is_found, on_made=on_made)
        self.overlay = BuiltInSwitches(home / _FOLDER)
        self._outside = outside
        self._runners: Runners | None = None

    def runners(self) -> Runners:
        """The runners, made at the first call."""
        if self._runners is None:
            from onetool_ipy.bundles.runners import Runners

            self._runners = Runners(self._outside)
        return self._runners
