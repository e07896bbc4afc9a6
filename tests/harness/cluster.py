"""A Dask cluster of two processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["cluster"]


@contextmanager
def cluster() -> Iterator[Client]:
    """Start the cluster, and yield a client of it, which is no other code's default."""
    # This loads Dask, which few tests need.
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        LocalCluster(**options) as workers,  # type: ignore[no-untyped-call]  # it has no types
        Client(workers, set_as_default=False) as client,  # type: ignore[no-untyped-call]
    ):
        yield client
