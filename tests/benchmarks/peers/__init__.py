"""Peers that run in a process, and where needed an environment, of their own.

`workers` is our side: it finds or makes the environment and talks to the worker. `serve` is the
worker's side. They speak lines of JSON: the worker says `{"ready": "fastmcp 4.1"}` once, then
answers each `{"n": 20}` with `{"seconds": 0.11}`, timed by itself, so that the talking is not in
it. All other modules here are workers or programs for a fresh process, and import nothing of ours
but `serve` and `trivial`.
"""
