"""Our speed beside the peers': `make bench`, or `python -m tests.benchmarks [row or module ...]`.

Never a test: nothing fails because a machine is slow. Ours and the peer run in the same minute, taking turns in short
rounds, so that what disturbs one disturbs the other; medians over the rounds are shown and compared.

How to read the table, `row | what | ours | peer | ratio | reach | met`:

- `row` is the row of the project's targets; a row has one line per peer or per part of its target.
- `ratio` is the peer's time over ours: above 1 we are faster, below 1 slower. It is the median of the rounds' ratios,
  so it may differ a little from that of the two times beside it. It holds on any machine; the times do not. A target
  in times the peer's time (`<= 1.2x its time`) is therefore met by a ratio of at least 1/1.2.
- `reach` is the target, scaled to this machine where it was given for a certain speed of a direct call; empty where a
  line is there to compare only. `met` is `yes`, `NO`, or empty.
- Rows 1, 8 and 10 are CPU time of the process, on both sides: a shared machine makes a mess of the clock on the wall,
  and most of it where a peer has a process of its own. Row 9, where one waits for a kernel, is time on the wall.
- A peer that could not be installed says so in a line of its own, and its ratio is empty.

Every module of this package that has `run() -> list[dict]` is found and run; the keys are row, what, ours, peer, ratio,
target, met (`timing.line` makes such a dict). `ROWS`, where a module has it, says which rows it gives, so that it need
not run for others. A peer that does not fit our Python or our dependencies gets an environment of its own below
`build/bench/` and runs there as a worker (`peers/`), taking turns like the rest.
"""
