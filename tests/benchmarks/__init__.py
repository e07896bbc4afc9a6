"""Our speed beside the peers': `make bench`, or `python -m tests.benchmarks [row or module ...]`.

Never a test: nothing fails because a machine is slow. Ours and the peer run in the same minute,
taking turns in short rounds, so that what disturbs one disturbs the other.

How to read the table, `row | what | ours | peer | ratio | reach | moonshot | met`:

- `row` is the row of the project's targets; a row has one line per peer or per part of its target.
- `ratio` is the peer's time over ours: above 1 we are faster, below 1 slower. It holds on any machine; times do not.
- `reach` is the target and `moonshot` the next one, scaled to this machine where it was given for a certain speed of a
  direct call; empty where a line is there to compare only. `met` is `yes`, `yes, moonshot`, `NO`,
  or empty.
- The clock is the CPU time of the process, on both sides: a shared machine makes a mess of the clock on the wall. Where
  the work is waiting, or that of another process, both sides are on the wall and the line says so.
- What a user does many times is a mean over all of them (`Rounds.mean`), with everything switched on. What is paid once
  in a process has a line of its own, each time measured in a fresh process (`timing.fresh`).
- A peer that could not be installed says so in a line of its own, and its ratio is empty.

Every module of this package that has `run() -> list[dict]` is found and run; `timing.line` makes
such a dict, with `**at_most(...)` or `**at_least(...)` for its target. `ROWS`, where a module has
it, says which rows it gives, so that it need not run for others. `page` writes
`docs/benchmarks.md`. A peer that does not fit our Python or our dependencies gets an environment of
its own below `build/bench/` and runs there as a worker (`peers/`), taking turns like the rest.
"""
