"""The one call log: `Calls`, and the recorder of every trip. See `log` for how it is kept.

log        Calls: what the outside uses          line, excerpt, append   the caller's side: one line per call
fold, database, chunk, tally, mend               the lines in one SQLite file, with rollups
snapshot, ask, usage, rows                       reading: usage, series, history, frames
"""

from onetool_ipy.stores.calls.log import Calls, StatsDisabled, recorder

__all__ = ["Calls", "StatsDisabled", "recorder"]
