"""The call log: `CallLog`, which records every call.

The truth is in the journals, one JSON object for each call. The database is made from them and can be deleted at any
time: the next question makes it again.

log         CallLog, what the rest of the package uses     record    what of a call is recorded
journal     files of calls, one line per call              rollup    sums and percentiles
database    the SQLite tables, and how calls get in        query     usage, series, history, DataFrames
compaction  journals -> database; what is closed, what expires
"""
