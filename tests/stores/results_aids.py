"""What the tests of stored results share: a clock that is set by hand, and a store on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onetool_ipy.stores.results import Results

START = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SECRET = "sk-7Hq2-tops3cret"
NUMBERED = "".join(f"line {number}\n" for number in range(1, 501))


class Clock:
    """Gives the time it was set to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **how_far: float) -> None:
        self.now += timedelta(**how_far)


def hide(text: str) -> str:
    """A mask as the product has one: it gives the same object where there is nothing to hide."""
    return text.replace(SECRET, "***") if SECRET in text else text


def open_results(folder: Path, clock: Clock | None = None, **options: Any) -> Results:
    return Results(folder / "results", **{"clock": clock or Clock(), "mask": hide, **options})


def names(results: Results) -> list[str]:
    """Every file of the store, temp files too."""
    return sorted(path.name for path in results.folder.iterdir()) if results.folder.exists() else []


def lines(results: Results, handle: str, **how: Any) -> list[str]:
    found: list[str] = results.query(handle, **how)["lines"]
    return found
