"""CallLog: the one call log. It feeds usage, history, recent tools, provenance and the counters of bundles.

A caller pays for one line appended to this process's journal, some microseconds. The system has the
line when `record` returns, so a killed process loses nothing. Questions are answered from a
database that is made from the journals (see `compaction`). A question waits until all that is on
disk is in the database; after half a minute its answer says how many calls are pending.

Recording never raises: a call that cannot be written is counted and reported. What is told of a
call beside its row (arguments, size, inputs, lineage) may fail: that is reported, and the row is
written without it.
"""

from __future__ import annotations

import datetime
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, TypeVar

from onetool_ipy.base import forks
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.core import current
from onetool_ipy.core.resolve import Record, ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import Problem
from onetool_ipy.stores.calls.journal import ROTATE_BYTES, Journal
from onetool_ipy.stores.calls.record import MAX_ARGS_BYTES, encode_inputs, excerpt, measure, short_text

if TYPE_CHECKING:
    import sqlite3

    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.core.lineage import Lineage
    from onetool_ipy.stores.calls.compaction import Compactor, Retention
    from onetool_ipy.stores.calls.query import (
        CallFamily,
        CallFilter,
        CallRow,
        Period,
        RunRow,
        UsageOverview,
        UsagePeriod,
    )

Answer = TypeVar("Answer")

_log = logging.getLogger("onetool_ipy.calls")
_MAX_NAME = 200
_MAX_MESSAGE = 300
_NO_NAME, _NO_ARGS = "(no name)", "(not recorded)"
_MAX_LINE_BYTES = 3 * MAX_ARGS_BYTES
_STEP_BYTES = 2 << 20
"""How much is brought into the database at once: some thousand calls, a fraction of a second."""
_PATIENCE_S = 30.0
"""How long a question waits for calls to be brought into the database: enough for hundreds of thousands.

What is left is pending, and is added in the background.
"""
_GLANCE_S = 1.0
"""How long a look at the log waits that needs no figure: the recent tools of a list, the health of the log."""

_PAUSE_S, _MAX_WAITS = 0.05, 100
"""A compaction in the background waits for a pause of the callers, for five seconds at most."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class StatsDisabled(OneToolError):
    """Usage was asked for while `stats.enabled` is off."""

    def __init__(self) -> None:
        super().__init__("Statistics are disabled.", hint="Set `stats: {enabled: true}` in onetool.yaml.")


class CallLog:
    """The log of one project. Threads and forked children may share it; `close` may be called twice.

    Without a `clock` the system's time is taken in a cheaper way. `run_later` runs a function in another thread;
    without it everything is compacted by whoever asks. `notebook` gives the notebook of this process, if it has one: it
    is part of the record of every call.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime.datetime] | None = None,
        mask: Callable[[str], str] = str,
        enabled: bool = True,
        retention: Retention | None = None,
        rotate_bytes: int = ROTATE_BYTES,
        step_bytes: int = _STEP_BYTES,
        patience_s: float = _PATIENCE_S,
        run_later: Callable[[Callable[[], None]], object] | None = None,
        notebook: Callable[[], str] = str,
    ) -> None:
        self.folder = folder
        self.enabled = enabled
        self.mask = mask
        self._clock = clock
        self._retention = retention
        self._rotate_bytes, self._step_bytes, self._patience_s = rotate_bytes, step_bytes, patience_s
        self._journal = Journal(folder, rotate_bytes=rotate_bytes)
        self._run_later = run_later
        self._is_compacting = False
        self.pending = 0
        """How many calls on disk the last answer did not cover."""
        self._fault: OneToolError | None = None
        self._incomplete, self._incomplete_by = 0, ""
        self._find_notebook = notebook
        self._notebook = ""
        self._session = b""
        self._dumps: Callable[..., bytes] | None = None
        self._session_id = os.urandom(4).hex()
        forks.register(self)

    def record(
        self,
        call_id: str,
        tool: str,
        source: str,
        args: object,
        ok: bool,
        ms: float,
        *,
        args_size: int = -1,
        **more: str | int,
    ) -> None:
        """Record a call that ended now. It is on disk when this returns; never raises for a disk.

        `args_size` is the length of arguments that are plain JSON. Without it they are recorded for people to read, and
        not to call again. `more` is other fields of a journal's line, such as code, message, size, handle, inputs.
        """
        if self.enabled:
            text, is_whole = excerpt(args, self.mask, self._dumps or self._load(), args_size)
            row = {"ts": self._now_us(), "id": call_id, "tool": tool, "source": source, "args": text, "whole": is_whole}
            self._write(row | {"ok": ok, "ms": ms, "size": 0} | more)

    def attach(self, call_id: str, handle: str) -> None:
        """Record that the result of a recorded call was stored after all."""
        if self.enabled:
            self._journal.append(self._encode({"id": call_id, "handle": handle}) + b"\n")

    def recorder(self, lineage: Lineage | None = None) -> Record | None:
        """Give the function that records every call: also those that were refused, not found, or stopped.

        `lineage` is told what each call gave.
        """
        write, describe, scope, clock = self._write, self._describe, current.scope, self._clock

        def record_call(resolved: ResolvedCall, result: ToolResult) -> None:
            call_id, _, _, source = resolved.call
            error, meta, spec = result.error, result.meta, resolved.spec
            row = {
                "ts": time_ns() // 1000 if clock is None else self._now_us(),
                "id": call_id,
                "tool": _NO_NAME if spec is None else resolved.tool,
                "source": source,
                "args": _NO_ARGS,
                "whole": False,
                "ok": error is None,
                "ms": meta["duration_ms"],
                "size": 0,
            }
            if spec is not None:
                row["fingerprint"] = spec.first_fingerprint
            if error is not None:
                row["code"], row["reason"] = error.code, error.reason or ""
            if handle := meta.get("handle"):
                row["handle"] = handle
            # This call's own scope was left, so the scope is that of the call around it.
            outer = scope()
            if outer is not None and outer.call is not None:
                row["parent"] = outer.call.id
            try:
                describe(row, resolved, result)
            except Exception as exc:  # noqa: BLE001 - what is beside a call may not cost its row
                self._note_fault(exc)
            try:
                if lineage is not None:
                    lineage.end(resolved, result, row["size"])
            except Exception as exc:  # noqa: BLE001 - the same
                self._note_fault(exc)
            write(row)

        return record_call if self.enabled else None

    def usage(
        self, *, period: Period = "all", tool: str | None = None, now: datetime.datetime | None = None
    ) -> UsagePeriod:
        """Add up the calls of a period. Raises InvalidPeriod, StatsDisabled."""
        from onetool_ipy.stores.calls import query

        moment = self._require_period(period, now)
        return self._ask(lambda database: query.usage_of(database, period=period, tool=tool, now=moment))

    def overview(
        self,
        *,
        period: Period = "all",
        tool: str | None = None,
        now: datetime.datetime | None = None,
        start: datetime.datetime | None = None,
    ) -> UsageOverview:
        """Give all there is to say of a period, or of the time since `start`. Raises InvalidPeriod, StatsDisabled."""
        from onetool_ipy.stores.calls import query

        moment = self._require_period(period, now)
        overview = self._ask(
            lambda database: query.overview_of(database, period=period, tool=tool, now=moment, start=start)
        )
        return replace(overview, pending=self.pending)

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
        from onetool_ipy.stores.calls.query import CallFilter, history_of

        self._require_enabled()
        chosen = CallFilter(limit=limit, tool=tool, ok=ok, since=since, text=text)
        return self._ask(lambda database: history_of(database, chosen))

    def family(self, call_id: str) -> CallFamily:
        """Give a call, the calls that its arguments came from, and those that each of them made.

        Raises StatsDisabled.
        """
        from onetool_ipy.stores.calls import query

        self._require_enabled()
        return self._ask(lambda database: query.family_of(database, call_id))

    def lines(self, chosen: CallFilter, *, offset: int = 0, limit: int = 100) -> list[CallRow | RunRow]:
        """Give a page of the calls as a person reads them, newest first: a run of `ot.map` is one line.

        Within a run its calls are the lines, those that failed first. Raises StatsDisabled.
        """
        from onetool_ipy.stores.calls import query

        self._require_enabled()
        page = query.failures_first if chosen.run else query.lines_of
        return self._ask(lambda database: [*page(database, chosen, offset=offset, limit=limit)])

    def frame(
        self,
        *,
        limit: int | None = None,
        tool: str | None = None,
        ok: bool | None = None,
        since: datetime.datetime | None = None,
    ) -> pd.DataFrame:
        """Give the calls as a DataFrame, newest first. Raises StatsDisabled.

        `frame.attrs["pending"]` is how many calls on disk it does not have, if there are any.
        """
        from onetool_ipy.stores.calls.query import CallFilter, frame_of

        self._require_enabled()
        chosen = CallFilter(limit=limit, tool=tool, ok=ok, since=since)
        frame = self._ask(lambda database: frame_of(database, chosen))
        if self.pending:
            frame.attrs["pending"] = self.pending
        return frame

    def counts(self, *, patience_s: float = math.inf) -> dict[str, tuple[int, datetime.datetime]]:
        """Give how often each tool was ever called, and when last."""
        from onetool_ipy.stores.calls import query

        return self._ask(query.counts_of, patience_s)

    def count_of(self, tool: str) -> tuple[int, datetime.datetime | None]:
        """Give how often a tool was ever called, and when last."""
        return self.counts().get(tool, (0, None))

    def recent_tools(self, limit: int = 10) -> list[str]:
        """Give the tools called last, the newest first. Does not wait long for a burst of calls to be counted."""
        last = self.counts(patience_s=_GLANCE_S)
        return sorted(last, key=lambda tool: last[tool][1], reverse=True)[:limit]

    def problems(self) -> list[Problem]:
        """Report what is wrong with the log now."""
        from onetool_ipy.stores.calls import query

        problems = self._journal.problems()
        if self._incomplete:
            message = f"{self._incomplete:,} calls of this process were recorded without all there is to know of them"
            problems.append(Problem(str(self.folder), f"{message}: {self._incomplete_by}.", "Please report this."))
        if not self.enabled or not self.folder.exists():
            return problems
        try:
            damaged = self._ask(query.damaged_of, _GLANCE_S)
        except OneToolError as exc:
            return [*problems, Problem(str(self.folder), exc.message, exc.hint)]
        if self._fault is not None:
            message = f"the call log's database cannot be used: {self._fault.message}"
            problems.append(Problem(str(self.folder), message, self._fault.hint))
        if self.pending:
            problems.append(Problem(str(self.folder), self._line_about_rest(), "Try again in a few seconds."))
        message = "{} lines could not be read and are left out of the call log; all others count."
        return problems + [Problem(str(self.folder / name), message.format(lines)) for name, lines in damaged]

    def compact(self) -> None:
        """Bring the journals into the database now; that also happens by itself. Never raises for a disk."""
        self.pending, self._fault, _ = self._compactor().compact(math.inf)

    def close(self) -> None:
        """Leave this process's journal."""
        self._journal.release()

    def _compactor(self) -> Compactor:
        from onetool_ipy.stores.calls.compaction import Compactor, Retention  # late: it loads sqlite3

        return Compactor(
            folder=self.folder,
            retention=self._retention or Retention(),
            rotate_bytes=self._rotate_bytes,
            step_bytes=self._step_bytes,
        )

    def _ask(self, question: Callable[[sqlite3.Connection], Answer], patience_s: float = math.inf) -> Answer:
        self._journal.release_deleted()
        # Without another thread to add the rest later, a question waits for all of it.
        patience_s = math.inf if self._run_later is None else min(patience_s, self._patience_s)
        answer, (self.pending, self._fault, _) = self._compactor().ask(question, patience_s)
        if self.pending and not self._is_compacting:
            _log.warning("%s", self._line_about_rest())
            self._compact_later()
        return answer

    def _line_about_rest(self) -> str:
        return f"The call log's database is being made: {self.pending:,} calls do not count yet."

    def _compact_later(self) -> None:
        if self._run_later is None or self._is_compacting:
            return

        def work() -> None:
            """Compact once callers pause, since both need the interpreter; but not too late."""
            waits, position = _MAX_WAITS, None
            while waits and position != self._journal.position:
                waits, position = waits - 1, self._journal.position
                time.sleep(_PAUSE_S)
            try:
                self.compact()
            finally:
                self._is_compacting = False

        try:
            self._is_compacting = True
            self._run_later(work)
        except OneToolError:  # no worker is free: the next full journal asks again
            self._is_compacting = False

    def _describe(self, row: dict[str, object], resolved: ResolvedCall, result: ToolResult) -> None:
        """Add to a row what is looked up in foreign values. May raise anything."""
        mask, error = self.mask, result.error
        row["args"], row["whole"] = excerpt(resolved.call.args, mask, self._dumps or self._load(), resolved.args_size)
        row["size"] = measure(result.data) if error is None else len(error.message)
        if resolved.spec is None:
            row["tool"] = short_text(resolved.tool, mask, _MAX_NAME) or _NO_NAME
        if error is not None:
            row["message"] = short_text(error.message, mask, _MAX_MESSAGE)
        if resolved.inputs:
            row["inputs"] = encode_inputs(resolved.inputs)

    def _write(self, row: dict[str, object]) -> None:
        """Append a line to the journal, with the cell and the session that it belongs to."""
        if cell := current.cell():
            row["cell"] = cell
        # What is the same for all calls of a session is encoded once, and put at the end of the line.
        try:
            if not self._session or self._find_notebook() != self._notebook:
                self._describe_session()
        except Exception as exc:  # noqa: BLE001 - whoever knows the notebook may break; the row is written
            self._note_fault(exc)
        if self._journal.append(self._encode(row)[:-1] + (self._session or b"}\n")):
            self._compact_later()

    def _note_fault(self, exc: Exception) -> None:
        """Count a call that is recorded without all of its facts. Of the exception only the class is safe to tell."""
        self._incomplete += 1
        if not self._incomplete_by:
            _log.error("A call was recorded without all there is to know of it: %s.", type(exc).__name__)
        self._incomplete_by = type(exc).__name__

    def _now_us(self) -> int:
        clock = self._clock
        return time_ns() // 1000 if clock is None else (clock() - _EPOCH) // _MICROSECOND

    def _encode(self, row: Mapping[str, object]) -> bytes:
        dumps = self._dumps or self._load()
        try:
            line = dumps(row)
            if len(line) <= _MAX_LINE_BYTES:
                return line
        except TypeError:  # a lone surrogate in a name
            pass
        return dumps(
            {
                name: short_text(value, str, _MAX_NAME) if isinstance(value, str) and name != "args" else value
                for name, value in row.items()
            }
        )

    def _load(self) -> Callable[..., bytes]:
        import orjson

        self._dumps = orjson.dumps
        return orjson.dumps

    def _describe_session(self) -> None:
        """Encode who calls from where; as the end of a line."""
        import getpass
        import socket

        try:
            user = os.environ.get("JUPYTERHUB_USER") or getpass.getuser()
        except (ImportError, KeyError, OSError):  # an account without a name, as in some containers
            user = ""
        about = {"user": user, "host": socket.gethostname(), "session": self._session_id}
        self._notebook = self._find_notebook()
        if self._notebook:
            about["notebook"] = self._notebook
        self._session = b"," + self._encode(about)[1:] + b"\n"

    def after_fork(self) -> None:
        """Forget what belongs to the process that this one was forked from."""
        self._journal.restart()
        self._session_id = os.urandom(4).hex()
        self._session, self._is_compacting = b"", False
        self._incomplete, self._incomplete_by = 0, ""

    def _require_enabled(self) -> None:
        if not self.enabled:
            raise StatsDisabled

    def _require_period(self, period: Period, now: datetime.datetime | None) -> datetime.datetime:
        from onetool_ipy.stores.calls import query

        moment = now or (datetime.datetime.now(datetime.UTC) if self._clock is None else self._clock())
        query.since(period, moment)
        self._require_enabled()
        return moment
