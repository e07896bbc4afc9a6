"""Parts: everything that a reload replaces, as one snapshot, and the stores of a toolbox.

Each part is built once, when it is first needed, by a function of `assemble`. A Parts object does not know how a part
is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base.background import ForkLock
from onetool_ipy.base.records import once
from onetool_ipy.config.load import Config
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.registry import Registry

if TYPE_CHECKING:
    import datetime

    from onetool_ipy.bundles.service import Bundles
    from onetool_ipy.mcp import Servers
    from onetool_ipy.sources.inventory import Inventory
    from onetool_ipy.stores.calls import CallLog
    from onetool_ipy.stores.results import Results
    from onetool_ipy.stores.topics import Topics

__all__ = ["Parts", "Stores"]


class Stores(NamedTuple):
    """What a toolbox keeps on disk, and the clock it keeps it by."""

    results: Results
    log: CallLog
    topics: Topics
    clock: Callable[[], datetime.datetime]


class Parts:
    """All that a reload replaces. Registry and executor are built when they are first asked for, once."""

    def __init__(
        self,
        *,
        config: Config,
        build_registry: Callable[[], Registry],
        build_executor: Callable[[Registry], Executor],
        build_stores: Callable[[], Stores],
        build_bundles: Callable[[], Bundles],
        pack_names: Sequence[str] = (),
        adopt_servers: Callable[[Servers], None] = lambda _servers: None,
        inventory: Callable[[], Inventory],
        record_trust: Callable[[str], None],
        forget_trust: Callable[[], bool],
        reopen: Callable[[], Any],
    ) -> None:
        self.config = config
        self.pack_names = tuple(pack_names)
        self.adopt_servers = adopt_servers
        self.inventory = inventory
        self.record_trust = record_trust
        self.forget_trust = forget_trust
        self.reopen = reopen
        self._build_registry = build_registry
        self._build_executor = build_executor
        self._build_stores = build_stores
        self._build_bundles = build_bundles
        self._building = ForkLock()
        self._registry: Registry | None = None
        self._executor: Executor | None = None
        self._stores: Stores | None = None
        self._bundles: Bundles | None = None

    @once
    def stores(self) -> Stores:
        with self._building.mine():
            if self._stores is None:
                self._stores = self._build_stores()
            return self._stores

    @once
    def registry(self) -> Registry:
        with self._building.mine():
            if self._registry is None:
                self._registry = self._build_registry()
            return self._registry

    def expire(self) -> None:
        """There may be other tools now; what was not built yet will see them anyway."""
        if self._registry is not None:
            self._registry.expire()

    @once
    def executor(self) -> Executor:
        with self._building.mine():
            if self._executor is None:
                self._executor = self._build_executor(self.registry)
            return self._executor

    @once
    def bundles(self) -> Bundles:
        with self._building.mine():
            if self._bundles is None:
                self._bundles = self._build_bundles()
            return self._bundles

    def close(self) -> None:
        """Let go of what was built; building nothing for it."""
        if self._registry is not None:
            self._registry.close()
        if self._stores is not None:
            self._stores.log.close()

    def take_over(self, older: Parts) -> None:
        """Go on holding what the parts before held for their users: results kept in memory."""
        if older._stores is not None:
            self.stores.results.take_over(older._stores.results)
