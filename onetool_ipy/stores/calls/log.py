"""CallLog: the one call log. It feeds usage, history, recent tools, provenance and the counters of bundles.

A caller pays for one line appended to this process's journal: no lock, no thread, no flush, some microseconds. The
system has the line when `record` returns, so a killed process loses nothing. The journals are folded into the database
in the background once callers pause, when a view reads, or at close. Recording never raises: a call that cannot be
written is counted and reported.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import BoundCall, Problem, Record
from onetool_ipy.stores.calls import query, snapshot
from onetool_ipy.stores.calls.database import KEEP, Keep
from onetool_ipy.stores.calls.journal import FIELDS, FOLD_BYTES, Journal
from onetool_ipy.stores.calls.query import CallFilter, CallRow, Period, RunRow, UsageOverview, UsagePeriod
from onetool_ipy.stores.calls.record import MAX_ARGS_BYTES, excerpt, measure, short_text

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.stores.calls.snapshot import Answer, CallSnapshot

__all__ = ["CallLog", "StatsDisabled"]

_MAX_NAME = 200
_MAX_MESSAGE = 300
_LONGEST = 3 * MAX_ARGS_BYTES
_ARGS = FIELDS.index("args")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

_PAUSE_S = 0.05
_PATIENCE = 256
"""A fold in the background waits for a pause of the callers, but for no more than so many times `fold_bytes`."""

_AT_CLOSE = 2 << 20


class StatsDisabled(OneToolError):
    """Usage was asked for while `stats.enabled` is off."""

    def __init__(self) -> None:
        super().__init__("Statistics are disabled.", hint="Set `stats: {enabled: true}` in onetool.yaml.")


class CallLog:
    """The log of one project. Threads and forked children may share it; `close` may be called twice.

    Without a `clock` the system's time is taken in a cheaper way. `run_later` runs a function in another thread;
    without it nothing is folded in the background.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime.datetime] | None = None,
        mask: Callable[[str], str] = str,
        enabled: bool = True,
        keep: Keep = KEEP,
        fold_bytes: int = FOLD_BYTES,
        run_later: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self.folder = folder
        self.enabled = enabled
        self.mask = mask
        self._clock = clock
        self._keep = keep
        self._fold_bytes = fold_bytes
        self._journal = Journal(folder, fold_bytes=fold_bytes)
        self._run_later = run_later
        self._is_fold_due = False
        self._waiting_pid = 0  # of the process in which a fold waits for a pause: a forked child has none
        self._is_long = False
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
        args_size: int = -1,
    ) -> None:
        """Record a call that ended now. It is on disk when this returns; never raises for a disk.

        `args_size` is what `values.plain_copy` said of the arguments, if they were copied.
        """
        if not self.enabled:
            return
        text, is_whole = excerpt(args, self.mask, self._dumps or self._load(), args_size)
        clock = self._clock
        ts = time.time_ns() // 1000 if clock is None else (clock() - _EPOCH) // _MICROSECOND
        self._append((ts, call_id, tool, source, text, is_whole, ok, code, reason, ms, size, handle))
        if self._journal.left < 0:
            self._fold_later()

    def attach(self, call_id: str, handle: str) -> None:
        """Record that the result of a recorded call was stored after all."""
        if self.enabled:
            self._append((call_id, handle))

    def recorder(self) -> Record | None:
        """Give the function that records every call: also those that were refused, not found, or stopped."""
        record, mask = self.record, self.mask

        def note(bound: BoundCall, result: ToolResult) -> None:
            call_id, _, args, source, _ = bound.call
            error, meta = result.error, result.meta
            tool = bound.tool if bound.spec is not None else short_text(bound.tool, mask, _MAX_NAME)
            ms, handle = meta["duration_ms"], meta.get("handle") or ""
            if error is None:
                code, reason, size = "", "", measure(result.data)
            else:
                said = short_text(error.message, mask, _MAX_MESSAGE)
                code, reason, size = error.code, f"{error.reason or ''}\n{said}", len(error.message)
            record(call_id, tool, source, args, error is None, ms, code, reason, size, handle, bound.args_size)

        return note if self.enabled else None

    def usage(
        self, *, period: Period = "all", tool: str | None = None, now: datetime.datetime | None = None
    ) -> UsagePeriod:
        """Add up the calls of a period. Raises InvalidPeriod, StatsDisabled."""
        moment = self._require_period(period, now)
        return self._ask(lambda found: query.usage_of(found, period=period, tool=tool, now=moment))

    def overview(
        self, *, period: Period = "all", tool: str | None = None, now: datetime.datetime | None = None
    ) -> UsageOverview:
        """Give all there is to say of a period, as of one moment. Raises InvalidPeriod, StatsDisabled."""
        moment = self._require_period(period, now)
        return self._ask(lambda found: query.overview_of(found, period=period, tool=tool, now=moment))

    def history(
        self,
        *,
        limit: int | None = 100,
        tool: str | None = None,
        ok: bool | None = None,
        since: datetime.datetime | None = None,
        text: str = "",
    ) -> list[CallRow]:
        """Give the newest calls, newest first; with `text` those with its words. Raises StatsDisabled."""
        self._require_enabled()
        return self._ask(lambda found: query.history_of(found, CallFilter(limit, tool, ok, since, text)))

    def lines(self, wanted: CallFilter, *, offset: int = 0, limit: int = 100) -> list[CallRow | RunRow]:
        """Give a page of the calls as a person reads them, newest first: a run of `ot.map` is one line.

        Within a run its calls are the lines, those that failed first. Raises StatsDisabled.
        """
        self._require_enabled()
        page = query.failures_first if wanted.run else query.lines_of
        return self._ask(lambda found: [*page(found, wanted, offset=offset, limit=limit)])

    def frame(
        self,
        *,
        limit: int | None = None,
        tool: str | None = None,
        ok: bool | None = None,
        since: datetime.datetime | None = None,
    ) -> pd.DataFrame:
        """Give the calls as a DataFrame, newest first. Raises StatsDisabled."""
        self._require_enabled()
        return self._ask(lambda found: query.frame_of(found, CallFilter(limit, tool, ok, since)))

    def counts(self) -> dict[str, tuple[int, datetime.datetime]]:
        """Give how often each tool was ever called, and when last."""
        return self._ask(query.counts_of)

    def count_of(self, tool: str) -> tuple[int, datetime.datetime | None]:
        """Give how often a tool was ever called, and when last."""
        return self.counts().get(tool, (0, None))

    def recent_tools(self, limit: int = 10) -> list[str]:
        """Give the tools called last, the newest first."""
        last = self.counts()
        return sorted(last, key=lambda tool: last[tool][1], reverse=True)[:limit]

    def problems(self) -> list[Problem]:
        """Report what is wrong with the log now."""
        found = list(self._journal.problems())
        if not self.enabled or not self.folder.exists():
            return found
        return [*found, *snapshot.problems(self.folder, self._fault)]

    def fold(self, *, at_most: int | None = None) -> None:
        """Bring the journals into the database now; that also happens by itself. Never raises for a disk."""
        self._is_fold_due = False
        self._fault = snapshot.try_fold(self.folder, keep=self._keep, at_most=at_most)

    def close(self) -> None:
        """Leave this process's journal, and fold it if a fold is due."""
        self._journal.release()
        if self._is_fold_due:
            self.fold(at_most=_AT_CLOSE)

    def _append(self, row: tuple[Any, ...]) -> None:
        dumps = self._dumps or self._load()
        try:
            line = dumps(row, option=self._newline)
        except TypeError:  # a lone surrogate in a name
            line = b""
        if not line or len(line) > _LONGEST:
            cut = [_short(cell) if isinstance(cell, str) and place != _ARGS else cell for place, cell in enumerate(row)]
            line = dumps(cut, option=self._newline)
        self._journal.append(line)

    def _load(self) -> Callable[..., bytes]:
        import orjson

        self._newline = orjson.OPT_APPEND_NEWLINE
        self._dumps = orjson.dumps
        return orjson.dumps

    def _require_enabled(self) -> None:
        if not self.enabled:
            raise StatsDisabled

    def _require_period(self, period: Period, now: datetime.datetime | None) -> datetime.datetime:
        moment = now or (self._clock or _now)()
        query.since(period, moment)
        self._require_enabled()
        return moment

    def _ask(self, question: Callable[[CallSnapshot], Answer]) -> Answer:
        if self._journal.is_deleted():
            self._journal.release()
        return snapshot.ask(self.folder, question, keep=self._keep)

    def _fold_later(self) -> None:
        """Ask for a fold in the background; if one still waits for a pause, it must not wait any longer."""
        self._is_fold_due = True
        self._journal.left += _PATIENCE * self._fold_bytes
        if self._waiting_pid == os.getpid():
            self._is_long = True
        elif self._run_later is not None:
            try:
                self._waiting_pid = os.getpid()
                self._run_later(self._fold_at_pause)
            except OneToolError:  # no worker is free: it is asked for again when the journal is longer
                self._waiting_pid = 0

    def _fold_at_pause(self) -> None:
        """Fold once no call was recorded for a moment, or the journal has become very long. Runs in another thread.

        It leaves off when a call is recorded, unless it is that long: the rest is folded at the next pause.
        """
        left = self._journal.left + 1
        while self._journal.left < left and not self._is_long:
            left = self._journal.left
            time.sleep(_PAUSE_S)
        is_long = self._is_long
        self._journal.release()
        self._is_fold_due, self._waiting_pid, self._is_long = False, 0, False
        self._fault = snapshot.try_fold(self.folder, keep=self._keep, go_on=lambda: is_long or self._is_idle())

    def _is_idle(self) -> bool:
        """Whether no call was recorded since a fold began; else a fold is due again."""
        self._is_fold_due = not self._journal.is_idle()
        return not self._is_fold_due


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _short(name: str) -> str:
    return short_text(name, str, _MAX_NAME)
