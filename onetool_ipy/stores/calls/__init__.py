"""The call log: `CallLog`, which records every call.

The truth is in the journals, and in the Parquet part that each closed one becomes. Every question
is SQL over all of it; there is no other copy.

log       CallLog, what the rest of the package uses
record    what of a call is recorded
journal   files of calls, one short line per call
closing   journals -> Parquet parts; small ones are joined, old ones expire
database  all that is on disk as one table, in DuckDB
query     usage, series, history, DataFrames
"""
