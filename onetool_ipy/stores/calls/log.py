"""CallLog: the one call log. It feeds usage, history, recent tools, provenance and the counters of
bundles.

A caller pays for one line appended to this process's journal, some microseconds. The system has the
line when `record` returns, so a killed process loses nothing. Full journals become Parquet parts in
another thread (see `closing`). Every question is SQL over all that is on disk (see `database`);
where DuckDB cannot be loaded, history is still read from the journals.

Recording never raises: a call that cannot be written is counted and reported. What is told of a
call beside its row (arguments, size, inputs, lineage) may fail: that is reported, and the row is
written without it.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, TypeVar

from onetool_ipy.base import forks, values
from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.base.files import StoreError
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.core import current
from onetool_ipy.core.resolve import Record, ResolvedCall
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import Problem
from onetool_ipy.stores.calls import query
from onetool_ipy.stores.calls.database import CallDatabase, Calls, DatabaseMissing
from onetool_ipy.stores.calls.journal import (
    ROTATE_BYTES,
    ROTATE_CALLS,
    ContextKey,
    Journal,
    files_in,
)
from onetool_ipy.stores.calls.record import (
    MAX_ARGS_BYTES,
    NUMBERS,
    encode_inputs,
    excerpt,
    measure,
    short_text,
)

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.core.lineage import Lineage
    from onetool_ipy.stores.calls.closing import Retention
    from onetool_ipy.stores.calls.query import (
        CallFamily,
        CallFilter,
        CallRow,
        Period,
        RunRow,
        Timeline,
        UsageOverview,
        UsagePeriod,
    )

Answer = TypeVar("Answer")

_log = logging.getLogger("onetool_ipy.calls")
_MAX_NAME = 200
_MAX_MESSAGE = 300
_NO_NAME, _NO_ARGS = "(no name)", "(not recorded)"
_MAX_LINE_BYTES = 3 * MAX_ARGS_BYTES
_CLOSE_CALLS = 500
"""A journal that nobody owns is made a part if it has so many calls; a shorter one is gone on
with."""
_CLOSE_BYTES = 32_000
"""A question that meets such a journal has it closed, in another thread."""

_PLAIN_META = 4
"""How much of a result's `meta` every call has: tool, id, source and duration."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class StatsDisabled(UsageProblem, reason="stats_disabled"):
    """Usage was asked for while `stats.enabled` is off."""

    def __init__(self) -> None:
        super().__init__(
            "Statistics are disabled.", hint="Set `stats: {enabled: true}` in onetool.yaml."
        )


class CallLog:
    """The log of one project. Threads and forked children may share it; `close` may be called
    twice.

    Without a `clock` the system's time is taken in a cheaper way. `run_later` runs a function in
    another thread; without it journals are closed by whoever asks. `notebook` gives the
    notebook of this process, if it has one: it is part of the record of every call.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime.datetime] | None = None,
        mask: Callable[[str], str] = str,
        enabled: bool = True,
        retention: Retention | None = None,
        rotate_calls: int = ROTATE_CALLS,
        rotate_bytes: int = ROTATE_BYTES,
        close_calls: int = _CLOSE_CALLS,
        run_later: Callable[[Callable[[], None]], object] | None = None,
        notebook: Callable[[], str] = str,
    ) -> None:
        self.folder = folder
        self.enabled = enabled
        self.mask = mask
        self._clock = clock
        self._retention = retention
        self._close_calls = close_calls
        self._journal = Journal(
            folder,
            describe=self._context,
            rotate_calls=rotate_calls,
            rotate_bytes=rotate_bytes,
        )
        self._run_later = run_later
        self._is_closing = False
        self._tried: set[str] = set()
        self._database: CallDatabase | None = None
        self._fault: OneToolError | None = None
        self._incomplete, self._incomplete_by = 0, ""
        self._incomplete_id: object = None
        self._find_notebook = notebook
        self._session: dict[str, str] = {}
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

        `args_size` is the length of arguments that are plain JSON. Without it they are recorded for
        people to read, and not to call again. `more` is other fields of a journal's line, such as
        code, message, size, handle, inputs.
        """
        if self.enabled:
            extra: dict[str, object] = {} if ok else {"ok": False}
            extra |= more
            fingerprint, size = str(extra.pop("fingerprint", "")), extra.pop("size", 0)
            line = self._encode(self._now_us(), call_id, args, args_size, ms, size, extra)
            key = (tool, source, fingerprint, current.cell(), self._notebook(call_id))
            if self._journal.add(key, line):
                self._close_later()

    def attach(self, call_id: str, handle: str) -> None:
        """Record that the result of a recorded call was stored after all."""
        if self.enabled:
            line = (self._dumps or self._load())({"id": _fit(call_id), "handle": handle})
            self._journal.append(line + b"\n")

    def recorder(self, lineage: Lineage | None = None) -> Record | None:
        """Give the function that records every call: also those that were refused, not found, or
        stopped.

        `lineage` is told what each call gave.
        """
        cell, add = current.cell, self._journal.add
        mask, clock = self.mask, self._clock
        dumps = self._dumps or self._load()

        @deferred.during
        def record_call(resolved: ResolvedCall, result: ToolResult) -> None:
            try:
                call_id, args, args_size = resolved.id, resolved.given, resolved.args_size
                data, meta, tool = result.data, result.meta, resolved.tool
                extra = line = None
                size = 0
                # What is told of few calls: a straight one has no other call around it, and
                # arguments from nowhere.
                is_odd = not resolved.is_straight or len(meta) != _PLAIN_META or not result.ok
                if is_odd:
                    tool, extra = self._describe(resolved, result)
                try:
                    size = measure(data) if result.error is None else len(result.error.message)
                except Exception as exc:  # noqa: BLE001 - what is beside a call may not cost its row
                    self._note_fault(call_id, exc)
                # A number that a call gave is nobody's: two are the same object by chance.
                if (is_odd or type(data) not in NUMBERS) and lineage is not None:
                    try:
                        lineage.end(resolved, result, size)
                    except Exception as exc:  # noqa: BLE001 - the same
                        self._note_fault(call_id, exc)
                ts = time_ns() // 1000 if clock is None else (clock() - _EPOCH) // _MICROSECOND
                ms = meta["duration_ms"]
                is_fit = call_id.isascii() and len(call_id) <= _MAX_NAME
                if is_fit and 0 <= args_size <= MAX_ARGS_BYTES:
                    # What is plain, short and without secrets is encoded once, in one piece.
                    # Whatever else it is, or if the mask breaks, comes to light again below.
                    try:
                        row = (ts, call_id, args, ms, size)
                        raw = dumps((*row, extra) if extra else row)
                        text = raw.decode()
                        # NaN is null in JSON, so arguments with a null are looked at more closely.
                        if (
                            len(text) <= MAX_ARGS_BYTES
                            and mask(text) == text
                            and ("null" not in text or values.is_json(args))
                        ):
                            line = raw
                    except Exception:  # noqa: BLE001 - see above
                        pass
                if line is None:
                    line = self._encode(ts, call_id, args, args_size, ms, size, extra)
                fingerprint = "" if resolved.spec is None else resolved.spec.first_fingerprint
                if add((tool, resolved.source, fingerprint, cell(), self._notebook(call_id)), line):
                    self._close_later()
            finally:
                if deferred.has_stop:
                    deferred.release()

        return record_call if self.enabled else None

    def _describe(
        self, resolved: ResolvedCall, result: ToolResult
    ) -> tuple[str, dict[str, object]]:
        """Return the tool's name as the log has it, and what is not the same for every good
        call."""
        error, spec, mask, outer = result.error, resolved.spec, self.mask, resolved.outer
        tool, extra = _NO_NAME if spec is None else resolved.tool, dict[str, object]()
        if error is not None:
            extra = {"ok": False, "code": error.code, "reason": error.reason or ""}
        if handle := result.meta.get("handle"):
            extra["handle"] = handle
        if outer is not None and outer.call is not None:
            extra["parent"] = outer.call.id
        try:
            if spec is None:
                tool = short_text(resolved.tool, mask, _MAX_NAME) or _NO_NAME
            # Of a good call it says why a model could make it without a question.
            if message := result.meta.get("guard") if error is None else error.message:
                extra["message"] = short_text(message, mask, _MAX_MESSAGE)
            if resolved.inputs:
                extra["inputs"] = encode_inputs(resolved.inputs)
        except Exception as exc:  # noqa: BLE001 - what is beside a call may not cost its row
            self._note_fault(resolved.id, exc)
        return tool, extra

    def _notebook(self, call_id: str) -> str:
        """Return the notebook that a call is made in."""
        try:
            return self._find_notebook()
        except Exception as exc:  # noqa: BLE001 - whoever knows the notebook may break; the row is written
            self._note_fault(call_id, exc)
            return ""

    def usage(
        self,
        *,
        period: Period = "all",
        tool: str | None = None,
        now: datetime.datetime | None = None,
    ) -> UsagePeriod:
        """Add up the calls of a period. Raises InvalidPeriod, StatsDisabled."""
        moment = self._require_period(period, now)
        return self._ask(lambda calls: query.usage_of(calls, period=period, tool=tool, now=moment))

    def overview(
        self,
        *,
        period: Period = "all",
        tool: str | None = None,
        now: datetime.datetime | None = None,
        start: datetime.datetime | None = None,
        hides_ot: bool = False,
    ) -> UsageOverview:
        """Sum up a period, or the time since `start`; `hides_ot` leaves out calls of `ot` itself.
        Raises InvalidPeriod, StatsDisabled."""
        moment = self._require_period(period, now)
        return self._ask(
            lambda calls: query.overview_of(
                calls, period=period, tool=tool, now=moment, start=start, hides_ot=hides_ot
            )
        )

    def timeline(
        self,
        *,
        tool: str | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        hides_ot: bool = False,
    ) -> Timeline:
        """Give the calls over time for a plot. Raises StatsDisabled."""
        self._require_enabled()
        return self._ask(
            lambda calls: query.timeline_of(
                calls, tool=tool, since=since, until=until, hides_ot=hides_ot
            )
        )

    def history(
        self,
        *,
        limit: int | None = 100,
        tool: str | None = None,
        ok: bool | None = None,
        since: datetime.datetime | None = None,
        text: str = "",
    ) -> list[CallRow]:
        """Give the newest calls, newest first; with `text` those with its words. Raises
        StatsDisabled."""
        self._require_enabled()
        chosen = query.CallFilter(limit=limit, tool=tool, ok=ok, since=since, text=text)
        try:
            return self._ask(lambda calls: query.history_of(calls, chosen))
        except DatabaseMissing as exc:
            _log.warning("%s Calls of closed journals are left out.", exc.message)
            return query.history_in(self.folder, chosen)

    def family(self, call_id: str) -> CallFamily:
        """Give a call, the calls that its arguments came from, and those that each of them made.

        Raises StatsDisabled.
        """
        self._require_enabled()
        return self._ask(lambda calls: query.family_of(calls, call_id))

    def lines(
        self, chosen: CallFilter, *, offset: int = 0, limit: int = 100
    ) -> list[CallRow | RunRow]:
        """Give a page of the calls as a person reads them, newest first: a run of `ot.map` is one
        line.

        Within a run its calls are the lines, those that failed first. Raises StatsDisabled.
        """
        self._require_enabled()
        page = query.failures_first if chosen.run else query.lines_of
        return self._ask(lambda calls: [*page(calls, chosen, offset=offset, limit=limit)])

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
        chosen = query.CallFilter(limit=limit, tool=tool, ok=ok, since=since)
        return self._ask(lambda calls: query.frame_of(calls, chosen))

    def ask_apart(self, question: Callable[[Calls], Answer]) -> Answer:
        """Answer a question about all calls by a connection of its own. Raises StatsDisabled."""
        self._require_enabled()
        self._journal.release_deleted()
        return self._open_database().ask_apart(question)

    def counts(self) -> dict[str, tuple[int, datetime.datetime]]:
        """Give how often each tool was ever called, and when last."""
        if not self.enabled or not self.folder.exists():
            return {}
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
        problems = self._journal.problems()
        if self._incomplete:
            message = (
                f"{self._incomplete:,} calls of this process were recorded without all there is to"
                " know of them"
            )
            problems.append(
                Problem(
                    str(self.folder), f"{message}: {self._incomplete_by}.", "Please report this."
                )
            )
        if not self.enabled or not self.folder.exists():
            return problems
        try:
            damaged = self._ask(lambda calls: list(calls.damaged))
        except OneToolError as exc:
            return [*problems, Problem(str(self.folder), exc.message, exc.hint)]
        if self._fault is not None:
            message = f"journals of the call log cannot be closed: {self._fault.message}"
            problems.append(Problem(str(self.folder), message, self._fault.hint))
        message = "{} lines could not be read and are left out of the call log; all others count."
        whole = "It cannot be read and is left out of the call log; all other calls count."
        return problems + [
            Problem(str(self.folder / name), message.format(lines) if lines else whole)
            for name, lines in damaged
        ]

    def tidy(self) -> None:
        """Close journals, join parts and let old ones expire; that also happens by itself. Never
        raises for a disk."""
        from onetool_ipy.stores.calls import closing

        try:
            with self._open_database().writing() as connection:
                closing.tidy(
                    connection,
                    self.folder,
                    retention=self._retention or closing.Retention(),
                    least_calls=self._close_calls,
                )
            self._fault = None
        except OSError as exc:
            self._fault = StoreError.of(self.folder, exc)
        except OneToolError as exc:
            self._fault = exc

    def close(self) -> None:
        """Leave this process's journal."""
        self._journal.release()

    def _open_database(self) -> CallDatabase:
        if self._database is None:
            self._database = CallDatabase(self.folder)
        return self._database

    def _ask(self, question: Callable[[Calls], Answer]) -> Answer:
        self._journal.release_deleted()
        answer = self._open_database().ask(question)
        if self.enabled:
            self._close_forgotten()
        return answer

    def _close_forgotten(self) -> None:
        """Have journals closed that dead processes left, each tried once."""
        left = {
            file.name
            for file in files_in(self.folder)
            if file.state == "closed" or (file.state == "open" and file.size >= _CLOSE_BYTES)
        }
        if not left <= self._tried:
            self._tried |= left
            self._close_later()

    def _close_later(self) -> None:
        if self._run_later is None or self._is_closing:
            return

        def work() -> None:
            try:
                self.tidy()
            finally:
                self._is_closing = False

        try:
            self._is_closing = True
            self._run_later(work)
        except OneToolError:  # no worker is free: the next full journal asks again
            self._is_closing = False

    def _encode(
        self,
        ts: int,
        call_id: str,
        args: object,
        args_size: int,
        ms: float,
        size: object,
        extra: Mapping[str, object] | None,
    ) -> bytes:
        """Encode a call of which something may be long, secret, or not plain JSON.

        `extra` is what is not the same for every good call: ok, code, reason, message, handle,
        parent, inputs; all of it is masked already.
        """
        from orjson import Fragment

        dumps, call_id = self._dumps or self._load(), _fit(call_id)
        shown_args: object = _NO_ARGS
        try:
            text, is_whole = excerpt(args, self.mask, dumps, args_size)
            shown_args = Fragment(text) if is_whole and text[:1] != '"' else text
        except Exception as exc:  # noqa: BLE001 - what is beside a call may not cost its row
            self._note_fault(call_id, exc)
        try:
            row = (ts, call_id, shown_args, ms, size)
            line = dumps((*row, extra) if extra else row)
            if len(line) <= _MAX_LINE_BYTES:
                return line
        except TypeError:  # a lone surrogate in a name
            pass
        short = {
            name: short_text(value, str, _MAX_NAME) if isinstance(value, str) else value
            for name, value in (extra or {}).items()
        }
        return dumps((ts, call_id, shown_args, ms, size, short))

    def _context(self, key: ContextKey) -> dict[str, str]:
        """Describe who calls from where. It is asked once for many calls."""
        tool, source, fingerprint, cell, notebook = key
        self._session = self._session or _session()
        about = {"tool": tool, "source": source, **self._session, "session": self._session_id}
        more = {"notebook": notebook, "cell": cell, "fingerprint": fingerprint}
        about |= {name: text for name, text in more.items() if text}
        return {name: short_text(text, str, 4 * _MAX_NAME) for name, text in about.items()}

    def _note_fault(self, call_id: object, exc: Exception) -> None:
        """Count a call that is recorded without all of its facts. Of the exception only the class
        is safe to tell."""
        if not self._incomplete_by:
            _log.error(
                "A call was recorded without all there is to know of it: %s.", type(exc).__name__
            )
        self._incomplete += call_id is not self._incomplete_id
        self._incomplete_by, self._incomplete_id = type(exc).__name__, call_id

    def _now_us(self) -> int:
        clock = self._clock
        return time_ns() // 1000 if clock is None else (clock() - _EPOCH) // _MICROSECOND

    def _load(self) -> Callable[..., bytes]:
        import orjson

        self._dumps = orjson.dumps
        return orjson.dumps

    def after_fork(self) -> None:
        """Forget what belongs to the process that this one was forked from."""
        self._journal.restart()
        if self._database is not None:
            self._database.forget()
        self._session_id = os.urandom(4).hex()
        self._is_closing = False
        self._incomplete, self._incomplete_by = 0, ""

    def _require_enabled(self) -> None:
        if not self.enabled:
            raise StatsDisabled

    def _require_period(self, period: Period, now: datetime.datetime | None) -> datetime.datetime:
        moment = now or (
            datetime.datetime.now(datetime.UTC) if self._clock is None else self._clock()
        )
        query.since(period, moment)
        self._require_enabled()
        return moment


def _fit(call_id: str) -> str:
    """Return a call's id as the log has it: a foreign one may be long, or not be text for UTF-8."""
    is_fit = call_id.isascii() and len(call_id) <= _MAX_NAME
    return call_id if is_fit else short_text(call_id, str, _MAX_NAME)


def _session() -> dict[str, str]:
    """Say who calls, on which machine."""
    import getpass
    import socket

    try:
        user = os.environ.get("JUPYTERHUB_USER") or getpass.getuser()
    except (ImportError, KeyError, OSError):  # an account without a name, as in some containers
        user = ""
    return {"user": user, "host": socket.gethostname()}
