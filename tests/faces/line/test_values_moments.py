"""Times as a person types them: a while ago, a day, a date."""

from __future__ import annotations

import datetime

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.values import read_since

NOW = datetime.datetime(2026, 11, 17, 15, 30, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "ago"),
    [("2h", {"hours": 2}), ("3d", {"days": 3}), ("90m", {"minutes": 90}), ("1w", {"weeks": 1})],
)
def test_since_takes_a_while_ago(text: str, ago: dict[str, int]) -> None:
    assert read_since(text, NOW) == NOW - datetime.timedelta(**ago)


def test_since_takes_days_dates_and_times() -> None:
    """A day begins at the person's own midnight."""
    today, yesterday = read_since("today", NOW), read_since("yesterday", NOW)
    assert today.astimezone().time() == datetime.time()
    assert today - yesterday == datetime.timedelta(days=1)
    assert today <= NOW < today + datetime.timedelta(days=1)
    assert read_since("2026-11-15", NOW).astimezone().date() == datetime.date(2026, 11, 15)
    assert read_since("2026-11-15T09:30Z", NOW) == datetime.datetime(
        2026, 11, 15, 9, 30, tzinfo=datetime.UTC
    )


@pytest.mark.parametrize("text", ["", "soon", "-1h", "999999w", "2026-13-01", "2h2h", "2 h"])
def test_since_says_what_it_takes(text: str) -> None:
    with pytest.raises(UsageProblem, match="--since does not understand"):
        read_since(text, NOW)
