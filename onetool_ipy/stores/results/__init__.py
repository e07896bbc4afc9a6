"""Stored results: `Results`, and what can be wrong with a handle. See `store` for how they are kept.

store      Results: what the outside uses        rows, masked            what becomes a line
lines      one file with its line index          shelf, kept             the folder; objects kept in memory
search, fuzzy                                    finding lines
"""

from onetool_ipy.stores.results.store import (
    DamagedResult,
    HandleExpired,
    HandleNotFound,
    InvalidPattern,
    Results,
    StoreError,
)

__all__ = ["DamagedResult", "HandleExpired", "HandleNotFound", "InvalidPattern", "Results", "StoreError"]
