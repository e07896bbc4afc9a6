"""Moments as a person types them: `today`, `2h`, a date. Owns the words of `--since`; does no I/O."""

from __future__ import annotations

import datetime
import re

from onetool_ipy.base.errors import UsageProblem

_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_since(text: str, now: datetime.datetime) -> datetime.datetime:
    """Read `today`, `yesterday`, `2h`, `3d`, a date or an ISO time, in the person's time zone. Raises UsageProblem."""
    here = now.astimezone()
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return midnight - datetime.timedelta(days=text == "yesterday")
    try:
        if ago := _AGO.fullmatch(text):
            return here - datetime.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageProblem(
            f"--since does not understand '{text[:40]}'.",
            hint="For example: today, yesterday, 2h, 3d, 2026-11-15 or 2026-11-15T09:30",
        ) from None
    return moment.astimezone() if moment.tzinfo is None else moment
