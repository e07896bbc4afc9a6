"""Row 33: the difference of two tables of 1 M rows by key, beside pandas' outer merge of the same
tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

from onetool_ipy.core.difference import compare
from tests.benchmarks.timing import at_most, line, note, take_turns, timed

__all__ = ["ROWS", "run"]

ROWS = (33,)

_COUNT = 1_000_000


def run() -> list[dict[str, Any]]:
    note(f"  two tables of {_COUNT:,} rows ...")
    dice = np.random.default_rng(1)
    before = pd.DataFrame(
        {
            "id": np.arange(_COUNT),
            "name": dice.choice(["tea", "milk", "salt"], _COUNT),
            "price": dice.random(_COUNT),
            "count": dice.integers(0, 100, _COUNT),
            "when": pd.date_range("2026-01-01", periods=_COUNT, freq="s"),
        }
    )
    after = before.sample(frac=0.99, random_state=1)
    after.loc[after.index[:5_000], "price"] += 1
    merge = timed(
        lambda: before.merge(after, on="id", how="outer", indicator=True, suffixes=("_a", "_b"))
    )
    times = take_turns({"ours": timed(lambda: compare(before, after, "id")), "merge": merge}, 5)
    what = "the difference of two tables of 1 M x 5 by key, on the wall"
    return [
        line(
            33,
            what,
            times["ours"],
            times["merge"],
            name="pandas merge",
            **at_most(times["ours"], 2.0, 1.0),
        )
    ]
