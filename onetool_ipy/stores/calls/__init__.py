"""The call log: `CallLog`, which records every call.

log        CallLog, what the rest of the package uses      record    what of a call is recorded
journal    append files, one line per call                 database  rows and rollups in SQLite, the fold
snapshot   one moment of the log, and questions to it      query     usage, series, history, DataFrames
rollup     sums and percentiles                            repair    damaged files; landed: the earlier format
"""
