"""Row 32: the description of a DataFrame of 1 M rows for a model: time on the wall, and size as
JSON.

Beside ours stands pandas' own `describe(include="all")`, which counts every value of every column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

from onetool_ipy.llm.description import MAX_BYTES, describe
from tests.benchmarks.timing import at_most, line, note, take_turns, timed

__all__ = ["ROWS", "run"]

ROWS = (32,)

_COUNT = 1_000_000


def run() -> list[dict[str, Any]]:
    note(f"  a table of {_COUNT:,} rows ...")
    dice = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "id": np.arange(_COUNT),
            **{f"x{place}": dice.random(_COUNT) for place in range(3)},
            "city": dice.choice(["Lima", "Oslo", "Rome"], _COUNT),
            "mail": [f"person-{number}@example.org" for number in range(_COUNT)],
            "when": pd.date_range("2026-01-01", periods=_COUNT, freq="s"),
            "ok": dice.random(_COUNT) > 0.5,
        }
    )
    size = describe(frame).size
    samples = {
        "ours": timed(lambda: describe(frame)),
        "pandas": timed(lambda: frame.describe(include="all")),
    }
    times = take_turns(samples, 5)
    what = f"a DataFrame of 1 M x {frame.shape[1]} described for a model, on the wall"
    return [
        line(
            32,
            what,
            times["ours"],
            times["pandas"],
            name='describe(include="all")',
            **at_most(times["ours"], 0.5, 0.1),
        ),
        line(
            32,
            "its size as JSON",
            f"{size:,} bytes",
            reach=f"{MAX_BYTES:,} bytes",
            met=size <= MAX_BYTES,
        ),
    ]
