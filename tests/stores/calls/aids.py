"""What the tests of the call log share: a clock that stands still, a log on it, and calls to
note."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.calls.log import CallLog

START = datetime.datetime(2026, 3, 4, 10, 20, 30, 123456, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)

Settle = Callable[[CallLog], None]


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime.datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def calls(tmp_path: Path, clock: Clock) -> Iterator[CallLog]:
    log = CallLog(tmp_path / "calls", clock=clock, close_calls=1)
    yield log
    log.close()


@pytest.fixture(params=["journal", "closed", "half"])
def settle(request: pytest.FixtureRequest) -> Settle:
    """The same calls in a journal, in parts, and in both: no answer may differ."""
    state = {"notes": 0}

    def settled(log: CallLog) -> None:
        state["notes"] += 1
        if request.param == "closed" or (request.param == "half" and state["notes"] % 2):
            log.close()
            log.tidy()

    return settled


def note(log: CallLog, tool: str = "a.b", number: int = 0, **changes: Any) -> None:
    """Record a call."""
    fields: dict[str, Any] = {"ok": True, "ms": 0.0, "size": 0, "args_size": 1, **changes}
    source = fields.pop("source", "python")
    log.record(f"id{number}", tool, source, {"n": number}, **fields)
