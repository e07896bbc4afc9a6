"""Calls: the one call log. It feeds usage, history, recents, provenance and the bundles' counters.

The caller's side is one line appended to this process's own file: no lock, no thread, no flush, some microseconds; the
line is in the system's hands when `record` returns, so a killed process loses nothing. Reading adds up the database
and the lines that are not in it yet, and folds them in where they have become many. Recording never raises: what cannot
be kept is counted and is a problem.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.core.model import Problem, Record, ToolResult, Trip
from onetool_ipy.stores.calls.append import FOLD_BYTES, Appender
from onetool_ipy.stores.calls.excerpt import MAX_ARGS_BYTES, excerpt, measure, short_text
from onetool_ipy.stores.calls.line import FIELDS

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.stores.calls.fold import Keep
    from onetool_ipy.stores.calls.rows import CallRow
    from onetool_ipy.stores.calls.snapshot import Snapshot
    from onetool_ipy.stores.calls.usage import Period, Span, Usage

__all__ = ["Calls", "StatsDisabled", "recorder"]

_MAX_NAME = 200
_AT_ONCE = 2 << 20
_LONGEST = 3 * MAX_ARGS_BYTES
_ARGS = FIELDS.index("args")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

Answer = TypeVar("Answer")


class StatsDisabled(OneToolError):
    """Usage was asked for while `stats.enabled` is off."""

    def __init__(self) -> None:
        super().__init__("Statistics are disabled.", hint="Set `stats: {enabled: true}` in onetool.yaml.")


class Calls:
    """The log of one project. Threads and forked children may share it; `close` may be called twice.

    Without a `clock` the system's time is taken by a shorter way.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime.datetime] | None = None,
        mask: Callable[[str], str] = str,
        enabled: bool = True,
        keep: Keep | None = None,
        fold_bytes: int = FOLD_BYTES,
    ) -> None:
        self.folder = folder
        self.enabled = enabled
        self.mask = mask
        self._clock = clock
        self._now = clock or _now
        self._keep = keep
        self._file = Appender(folder, fold_bytes=fold_bytes)
        self._fault: OneToolError | None = None
        self._dumps: Callable[..., bytes] | None = None
        self._newline = 0

    def record(
        self,
        call_id: str,
        tool: str,
        source: str,
        args: Any,
        ok: bool,
        ms: float,
        code: str = "",
        reason: str = "",
        size: int = 0,
        handle: str = "",
    ) -> None:
        """Note a call that ended now. It is on disk when this returns; never raises for a disk."""
        if not self.enabled:
            return
        text, is_whole = excerpt(args, self.mask, self._dumps or self._load())
        clock = self._clock
        ts = time.time_ns() // 1000 if clock is None else (clock() - _EPOCH) // _MICROSECOND
        self._append((ts, call_id, tool, source, text, is_whole, ok, code, reason, ms, size, handle))
        if self._file.left < 0:
            self._fold_own()

    def attach(self, call_id: str, handle: str) -> None:
        """Note that the result of a recorded call was stored after all."""
        if self.enabled:
            self._append((call_id, handle))

    def usage(self, *, period: Period = "all", tool: str | None = None, now: datetime.datetime | None = None) -> Usage:
        """What the calls of a period add up to. Raises InvalidPeriod, StatsDisabled."""
        from onetool_ipy.stores.calls import usage as calls_usage

        moment = now or self._now()
        calls_usage.since(period, moment)
        self._require_enabled()
        return self._ask(lambda found: calls_usage.usage_of(found, period=period, tool=tool, now=moment))

    def series(
        self, *, period: Period = "all", tool: str | None = None, now: datetime.datetime | None = None
    ) -> tuple[Span, ...]:
        """The calls over time, for plots. Raises InvalidPeriod, StatsDisabled."""
        from onetool_ipy.stores.calls import usage as calls_usage

        moment = now or self._now()
        calls_usage.since(period, moment)
        self._require_enabled()
        return self._ask(lambda found: calls_usage.series_of(found, period=period, tool=tool, now=moment))

    def history(
        self,
        *,
        limit: int | None = 100,
        tool: str | None = None,
        ok: bool | None = None,
        since: datetime.datetime | None = None,
    ) -> list[CallRow]:
        """The newest calls, newest first. Raises StatsDisabled."""
        from onetool_ipy.stores.calls.rows import Wanted, history_of

        self._require_enabled()
        return self._ask(lambda found: history_of(found, Wanted(limit, tool, ok, since)))

    def frame(
        self,
        *,
        limit: int | None = None,
        tool: str | None = None,
        ok: bool | None = None,
        since: datetime.datetime | None = None,
    ) -> pd.DataFrame:
        """The calls as a DataFrame, newest first. Raises StatsDisabled."""
        from onetool_ipy.stores.calls.rows import Wanted, frame_of

        self._require_enabled()
        return self._ask(lambda found: frame_of(found, Wanted(limit, tool, ok, since)))

    def counts(self) -> dict[str, tuple[int, datetime.datetime]]:
        """How often each tool was ever called, and when last."""
        from onetool_ipy.stores.calls.usage import counts_of

        return self._ask(counts_of)

    def count_of(self, tool: str) -> tuple[int, datetime.datetime | None]:
        """How often a tool was ever called, and when last."""
        return self.counts().get(tool, (0, None))

    def recent_tools(self, limit: int = 10) -> list[str]:
        """The tools called last, the newest first."""
        last = self.counts()
        return sorted(last, key=lambda tool: last[tool][1], reverse=True)[:limit]

    def problems(self) -> list[Problem]:
        """What is wrong with the log now."""
        found = list(self._file.problems())
        if not self.enabled or not self.folder.exists():
            return found
        from onetool_ipy.stores.calls import ask as calls_ask

        return [*found, *calls_ask.faults(self.folder, self._fault)]

    def fold(self) -> None:
        """Bring what was appended into the database now; that also happens by itself. Never raises for a disk."""
        self._fold(at_most=None)

    def close(self) -> None:
        """Let go of this process's file."""
        self._file.release()

    def _append(self, row: tuple[Any, ...]) -> None:
        dumps = self._dumps or self._load()
        try:
            line = dumps(row, option=self._newline)
        except TypeError:  # a lone surrogate in a name
            line = b""
        if not line or len(line) > _LONGEST:
            cut = [_short(cell) if isinstance(cell, str) and place != _ARGS else cell for place, cell in enumerate(row)]
            line = dumps(cut, option=self._newline)
        self._file.append(line)

    def _load(self) -> Callable[..., bytes]:
        import orjson

        self._newline = orjson.OPT_APPEND_NEWLINE
        self._dumps = orjson.dumps
        return orjson.dumps

    def _require_enabled(self) -> None:
        if not self.enabled:
            raise StatsDisabled

    def _ask(self, question: Callable[[Snapshot], Answer]) -> Answer:
        from onetool_ipy.stores.calls import ask as calls_ask

        if self._file.is_gone():
            self._file.release()
        return calls_ask.ask(self.folder, question, keep=self._kept())

    def _fold_own(self) -> None:
        """Leave the file of this process, which nobody writes to from now on, and fold it."""
        self._file.release()
        self._fold(at_most=_AT_ONCE)

    def _fold(self, *, at_most: int | None) -> None:
        from onetool_ipy.stores.calls import ask as calls_ask

        self._fault = calls_ask.try_fold(self.folder, keep=self._kept(), at_most=at_most)

    def _kept(self) -> Keep:
        from onetool_ipy.stores.calls.fold import KEEP

        return self._keep or KEEP


def recorder(calls: Calls) -> Record | None:
    """Record every trip in the log: also those that were refused, failed to find their tool, or were stopped."""
    record, mask = calls.record, calls.mask

    def note(trip: Trip, result: ToolResult) -> None:
        call_id, _, args, source = trip.call
        error, meta = result.error, result.meta
        tool = trip.tool if trip.spec is not None else short_text(trip.tool, mask, _MAX_NAME)
        ms = meta["duration_ms"]
        if error is None:
            record(call_id, tool, source, args, True, ms, "", "", measure(result.data), meta.get("handle") or "")
        else:
            record(call_id, tool, source, args, False, ms, error.code, error.reason or "", len(error.message))

    return note if calls.enabled else None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _short(name: str) -> str:
    return short_text(name, str, _MAX_NAME)
