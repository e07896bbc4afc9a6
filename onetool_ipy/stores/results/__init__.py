"""Stored results: `Results`, and the errors of a handle."""

from onetool_ipy.stores.results.store import (
    DamagedResult,
    HandleExpired,
    HandleNotFound,
    InvalidPattern,
    Results,
    StoreError,
)

__all__ = ["DamagedResult", "HandleExpired", "HandleNotFound", "InvalidPattern", "Results", "StoreError"]
