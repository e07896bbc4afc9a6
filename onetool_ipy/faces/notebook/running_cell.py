"""The running cell: what its calls show while they run, and how Stop reaches them.

A tool, `ot.map` or a batch calls `sdk.progress(done, total, text)`; the report reaches the
`ProgressArea` of the cell in which the person made the call. It has a row
per tool, drawn by the `RefreshLoop` at most 10 times a second. The saved notebook keeps one line
per tool without a bar; short calls leave nothing.

`CellOutput` is one replaceable output of one cell, from any thread, also after that cell has ended.
In a kernel each message carries the header of its cell and a display id; in a terminal it is one
line that is overwritten. Nothing is shown where nobody watches: nbclient and papermill (they take
no input), scripts, captured output.

`Interrupts` is the signal handler of the cell. The first Stop of a call is Python's own
KeyboardInterrupt. A tool may catch it and go on; the second Stop of the same call raises
`Abandoned`, which `except KeyboardInterrupt` does not catch. While our own bookkeeping runs, Stop
waits for its end (`base.interrupts`). In a cell with `await` ipykernel cancels the cell's task; a
blocking sync call does not notice that, so the interrupt is raised there too. Where no call runs,
the handler that was there before decides.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from onetool_ipy.base import forks
from onetool_ipy.base.background import SIGNAL_CHECK_S, Workers, is_cancellation
from onetool_ipy.base.exits import before_exit
from onetool_ipy.base.interrupts import Abandoned, deferred
from onetool_ipy.base.printable import printable
from onetool_ipy.core.current import TYPED
from onetool_ipy.render.html import AS_TEXT, EDGE, escape
from onetool_ipy.render.views import counted

if TYPE_CHECKING:
    import asyncio

    from onetool_ipy.core.resolve import ResolvedCall

PATIENCE_S = 0.5
"""How long a call may take before its cell shows it."""

_TICK_S = 0.1
_ELAPSED_S = 1.0
_IDLE_TICKS = 5
_MAX_TEXT = 80
_MAX_ROWS = 5
_LONG_NUMBER = 1e15
_EXECUTOR = "onetool_ipy.core.executor"
_TRACK = (
    "display:inline-block;width:12em;height:.6em;margin-right:.8em;vertical-align:baseline;overflow:hidden;"
    "border-radius:.3em;background:var(--jp-layout-color3,rgba(128,128,128,.35))"
)
_FILL = "display:block;height:100%;background:var(--jp-brand-color1,#1976d2)"
_ROW = (
    f"{EDGE};color:var(--jp-ui-font-color2,#777);font-size:90%;line-height:1.6;"
    "font-variant-numeric:tabular-nums"
)

Mask = Callable[[str], str]
Report = tuple[float | None, float | None, str]
MimeBundle = Mapping[str, Any]

_NOTHING: Report = (None, None, "")


class CellOutput(Protocol):
    """One output that can be replaced."""

    key: str

    def show(self, bundle: MimeBundle, *, is_last: bool) -> None:
        """Replace the output; `is_last` marks the one that stays."""

    def make_way(self) -> None:
        """Other text follows, and says what the last output would."""


class _Kernel:
    """A display of the running cell. A client without a person (nbclient) reads messages of the
    latest cell only."""

    def __init__(self, shell: Any, publisher: Any) -> None:
        self.key = os.urandom(8).hex()
        self._shell = shell
        self._publisher = publisher
        self._header = dict(publisher.parent_header)
        self._is_shown = False
        self._is_watched = is_watched(shell)

    def show(self, bundle: MimeBundle, *, is_last: bool) -> None:  # noqa: ARG002 - a display is always replaced
        before_exit.send(lambda: self._send(bundle))

    def make_way(self) -> None:
        """Stay: the other text has an output of its own."""

    def _send(self, bundle: MimeBundle) -> None:
        publisher = self._publisher
        if not self._is_shown and self._shell.display_pub is not publisher:
            return  # `%%capture` has begun
        if not self._is_shown:
            with suppress(Exception):  # earlier prints come first; a broken stream must not stop us
                sys.stdout.flush()
        kind, header = "display_data", self._header
        if self._is_shown:
            kind = "update_display_data"
            header = (
                header if self._is_watched else Context().run(getattr, publisher, "parent_header")
            )
        self._is_shown = True
        content = {
            "data": {**bundle, "text/plain": printable(bundle["text/plain"])},
            "metadata": {},
            "transient": {"display_id": self.key},
        }
        message = publisher.session.msg(kind, content, parent=header)
        publisher.session.send(publisher.pub_socket, message, ident=publisher.topic)


class _Terminal:
    """One line of a terminal, overwritten until the last one. Other text takes its place."""

    def __init__(self) -> None:
        self.key = ""
        self._is_replaced = False

    def show(self, bundle: MimeBundle, *, is_last: bool) -> None:
        lines = printable(bundle["text/plain"]).splitlines() or [""]
        text = "\n".join(lines) + "\n" if is_last else lines[0]
        if is_last and self._is_replaced:
            self._is_replaced, text = False, ""
        self._write(text)

    def make_way(self) -> None:
        """Leave the line to text that is printed now."""
        self._is_replaced = True
        self._write("")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone
            sys.stdout.write(f"\r\x1b[K{text}")
            sys.stdout.flush()


def cell_output(shell: Any) -> CellOutput | None:
    """A new output of the running cell; None if output is captured. Call it in the cell's own
    thread."""
    publisher = shell.display_pub
    if getattr(publisher, "pub_socket", None) is not None:
        return _Kernel(shell, publisher)
    return _Terminal() if _is_terminal(shell) else None


def is_watched(shell: Any) -> bool:
    """Whether a person watches the running cell: its client takes input."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return _is_terminal(shell)
    content = kernel.get_parent("shell").get("content") or {}
    return bool(content.get("allow_stdin"))


def _is_terminal(shell: Any) -> bool:
    if getattr(shell, "kernel", None) is not None:
        return False
    with suppress(ValueError, AttributeError, OSError):
        return bool(sys.stdout.isatty())
    return False


class ProgressRow(NamedTuple):
    """A tool, its elapsed time and progress. `total` is None if unknown; `state` is empty unless it
    failed."""

    name: str
    elapsed_s: float
    done: float | None = None
    total: float | None = None
    text: str = ""
    state: str = ""
    calls: int = 1
    is_over: bool = False


class ProgressArea:
    """The rows of one cell: running calls, and ended ones that took long enough to be shown.

    It listens to the calls that a person makes in the cell. A call has a row when it has taken half
    a second; until then it is one entry in `running`.
    """

    def __init__(self, out: CellOutput | None, mask: Mask, interrupts: Interrupts) -> None:
        self.running: dict[ResolvedCall, None] = {}
        self.has_news = False
        self.is_refreshed = False
        self.interrupts = interrupts
        self._out = out
        self._mask = mask
        self._reports: dict[ResolvedCall, Report] = {}
        self._over: dict[str, ProgressRow] = {}
        self._ended_at: dict[str, float] = {}
        self._drawn_at = 0.0
        self._idle = 0
        self._drawing = threading.Lock()

    def make_way(self) -> None:
        """A note is printed now."""
        with self._drawing:
            if self._out is not None and self._drawn_at:
                self._out.make_way()

    def leave_to_parent(self) -> None:
        """Draw nothing more: this is a forked child, and the cell belongs to its parent."""
        self._out = None

    def refresh(self, now: float) -> bool:
        """Draw what is new; False if nothing has run for a while."""
        running = self._long_running(now)
        is_due = running and now - self._drawn_at >= _ELAPSED_S
        if is_due or (self.has_news and (running or self._over)):
            self._draw(now)
        self._idle = 0 if self.running else self._idle + 1
        if self._idle < _IDLE_TICKS:
            return True
        self.is_refreshed = False
        # A call may have begun at this moment, and have seen True.
        self.is_refreshed = bool(self.running)
        return self.is_refreshed

    def heard(
        self, call: ResolvedCall, done: float, total: float | None = None, text: str = ""
    ) -> None:
        """A running call reports its progress."""
        if call in self.running:
            self._reports[call] = (done, total, text)
            self.has_news = True

    def ended(self, call: ResolvedCall, ok: bool) -> None:
        """A call has ended."""
        if self._over or call.took_s >= PATIENCE_S:
            self._add(call, "" if ok else "failed")
        else:
            self.running.pop(call, None)

    def stopped(self, call: ResolvedCall, exc: BaseException) -> BaseException:
        """A call was stopped; return the exception that the cell shows."""
        self._add(call, "stopped")
        return self.interrupts.to_show(exc, call.name, perf_counter() - call.began)

    def close(self) -> None:
        """The cell was stopped: calls that have not reported their end have ended too."""
        for call in tuple(self.running):
            self._add(call, "stopped")

    def _add(self, call: ResolvedCall, state: str) -> None:
        """Add a call that has ended to its tool's row, if it took long. Parallel calls count the
        time once."""
        self.running.pop(call, None)
        report = self._reports.pop(call, _NOTHING)
        now = perf_counter()
        if now - call.began >= PATIENCE_S:
            name = str(call.name)
            row = self._over.pop(name, ProgressRow(self._mask(name), 0.0, calls=0))
            done, total, _ = report if row.calls == 0 else _NOTHING
            elapsed_s = row.elapsed_s + now - max(call.began, self._ended_at.get(name, 0.0))
            self._ended_at[name] = now
            self._over[name] = ProgressRow(
                row.name, elapsed_s, done, total, "", state, row.calls + 1, True
            )
            self.has_news = True
        elif self.running or not self._over:
            return
        if self.has_news and (not self.running or now - self._drawn_at >= _TICK_S):
            self._draw(now)

    def _long_running(self, now: float) -> list[ResolvedCall]:
        return [call for call in tuple(self.running) if now - call.began >= PATIENCE_S]

    def _draw(self, now: float) -> None:
        """Draw the ended calls, and a row for each running tool: its oldest call, and the number of
        its calls."""
        if self._out is None:
            return
        # One at a time, or an older state could be drawn last.
        with self._drawing:
            self.has_news = False
            self._drawn_at = now
            rows: dict[str, ProgressRow] = {}
            for call in self._long_running(now):
                name = str(call.name)
                if name in rows:
                    rows[name] = rows[name]._replace(
                        calls=rows[name].calls + 1, done=None, total=None, text=""
                    )
                    continue
                done, total, text = self._reports.get(call, _NOTHING)
                text = self._mask(" ".join(text.split()))[:_MAX_TEXT]
                rows[name] = ProgressRow(self._mask(name), now - call.began, done, total, text)
            everything = [*self._over.values(), *rows.values()]
            newest = everything[-_MAX_ROWS:]
            more = (
                [f"... {len(everything) - _MAX_ROWS} more"] if len(everything) > _MAX_ROWS else []
            )
            text = "\n".join([*more, *map(text_of, newest)])
            html = "".join([*map(_div, more), *map(html_of, newest)])
            self._out.show({"text/plain": text, "text/html": html}, is_last=not rows)


class CellProgress:
    """Follows the calls of the running cell; costs next to nothing for a short call."""

    def __init__(self, shell: Any, workers: Workers, mask: Mask) -> None:
        self.loop = RefreshLoop(workers)
        self.interrupts = Interrupts()
        self._shell = shell
        self._mask = mask
        self._area: ProgressArea | None = None
        self._thread = 0
        self._publisher: Any = None
        self._header: Any = None
        forks.register(self)

    def after_fork(self) -> None:
        """Follow no calls: the cell belongs to the parent."""
        if self._area is not None:
            self._area.leave_to_parent()
        self._area, self._thread = None, 0

    def __call__(self, call: ResolvedCall) -> ProgressArea | None:
        """The area of the running cell, if a person made the call in it."""
        if self._thread != get_ident() or call.source not in TYPED:
            return None
        if self._publisher is not None and self._publisher.parent_header is not self._header:
            return None  # a task left over from an earlier cell
        area = self._area
        if area is None:
            out = cell_output(self._shell) if is_watched(self._shell) else None
            area = self._area = ProgressArea(out, self._mask, self.interrupts)
        area.running[call] = None
        if not area.is_refreshed:
            area.is_refreshed = True
            self.loop.add(area.refresh)
        return area

    def make_way(self) -> None:
        """A note of the running call is printed now."""
        if self._area is not None:
            self._area.make_way()

    def before_cell(self) -> None:
        """A cell begins in this thread."""
        self._area = None
        self._thread = get_ident()
        publisher = self._shell.display_pub
        self._publisher = publisher if hasattr(publisher, "parent_header") else None
        self._header = None if self._publisher is None else self._publisher.parent_header
        self.interrupts.begin(self._current_call)

    def after_cell(self) -> None:
        """The cell has ended; its calls that still run in the event loop keep their rows."""
        area, self._area, self._thread = self._area, None, 0
        if area is not None and self.interrupts.is_interrupted:
            area.close()
        self.interrupts.end()

    def _current_call(self) -> ResolvedCall | None:
        area = self._area
        return next(reversed(area.running), None) if area is not None else None


class Interrupts:
    """The interrupts of one cell of the main thread, which alone gets signals; a cell of a subshell
    changes nothing."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self.style: Callable[[BaseException], object] = lambda _exc: None
        """How a Stop outside of a call is shown: without the frames of this handler."""
        self._current_call: Callable[[], object | None] = lambda: None
        self._interrupted_call: object | None = None
        self._previous: Callable[[int, types.FrameType | None], object] | None = None
        self._task: asyncio.Task[object] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def begin(self, current_call: Callable[[], object | None]) -> None:
        """Install the handler for a cell; `current_call` returns the call that the cell waits for,
        or None."""
        if threading.current_thread() is not threading.main_thread():
            return
        self.is_interrupted, self._interrupted_call, self._current_call = False, None, current_call
        deferred.forget_stop()
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler != self._on_interrupt:
            self._previous = handler
            signal.signal(signal.SIGINT, self._on_interrupt)
        self._task = _current_task()
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Wake the event loop of the cell a little later, again and again until the cell ends.

        A signal that comes just before a loop goes to sleep does not wake it, nor does the callback
        that ipykernel's handler schedules: Stop would be heard when the tool ends.
        """
        if self._alarm is not None:
            self._alarm.cancel()
        if self._task is not None:
            self._alarm = self._task.get_loop().call_later(SIGNAL_CHECK_S, self._set_alarm)

    def end(self) -> None:
        """Restore the previous handler after the cell, unless the cell has set another one."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._interrupted_call, self._task = None, None
        self._set_alarm()
        if self._previous is None:
            return
        if signal.getsignal(signal.SIGINT) == self._on_interrupt:
            signal.signal(signal.SIGINT, self._previous)
        # Last, since an interrupt may arrive before the handler is replaced.
        self._previous = None

    def to_show(self, exc: BaseException, name: str, after_s: float) -> BaseException:
        """Return the exception that the cell shows for a stopped call: a KeyboardInterrupt of one
        line."""
        # ipykernel cancels the task of a cell with `await`; the person pressed Stop all the same.
        is_cell = self._task is not None and _current_task() is self._task
        if isinstance(exc, Abandoned) or (is_cell and self.is_interrupted and is_cancellation(exc)):
            exc = KeyboardInterrupt()
        if isinstance(exc, KeyboardInterrupt) or (self.is_interrupted and is_cancellation(exc)):
            words = f" {exc}" if str(exc) else ""
            line = f"{type(exc).__name__}: '{name}' was stopped after {after_s:.1f} s.{words}"
            with suppress(AttributeError, TypeError):
                exc.stopped_call = name  # type: ignore[attr-defined]  # for a line around the call
                exc._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]  # IPython's protocol
        return exc

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        if deferred.note_stop(frame):
            return
        self.is_interrupted = True
        call = self._current_call()
        if call is None or not _is_in_sync_call(frame):
            self._pass_on(number, frame)
        elif call is self._interrupted_call:
            raise Abandoned
        else:
            self._interrupted_call = call
            raise KeyboardInterrupt

    def _pass_on(self, number: int, frame: types.FrameType | None) -> None:
        try:
            (self._previous or signal.default_int_handler)(number, frame)
        except KeyboardInterrupt as exc:
            self.style(exc)
            raise


class RefreshLoop:
    """Refreshes outputs ten times a second, in one worker, as long as there are any."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        """Begin without outputs: those of the parent are its own, and so is the thread that draws
        them."""
        self._lock = threading.Lock()
        self._outputs: list[Callable[[float], bool]] = []
        self._is_on = False
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Stop at once."""
        with self._lock:
            self._outputs.clear()
            self._stopped.set()

    def add(self, refresh: Callable[[float], bool]) -> None:
        """Call this with the time, too, until it returns False."""
        with self._lock, deferred:
            self._outputs.append(refresh)
            if not self._is_on:
                self._is_on = True
                self._stopped.clear()
                self._workers.submit(self._run)

    def _run(self) -> None:
        while self._is_on:
            self._stopped.wait(_TICK_S)
            now = perf_counter()
            over = [refresh for refresh in tuple(self._outputs) if not refresh(now)]
            with self._lock:
                self._outputs = [refresh for refresh in self._outputs if refresh not in over]
                self._is_on = bool(self._outputs)


def seconds(elapsed_s: float, *, is_over: bool = False) -> str:
    """A duration in a few characters."""
    if elapsed_s >= 3600:
        return f"{int(elapsed_s // 3600)} h {int(elapsed_s % 3600 // 60):02d} min"
    if elapsed_s >= 60:
        return f"{int(elapsed_s // 60)} min {int(elapsed_s % 60):02d} s"
    return f"{elapsed_s:.1f} s" if is_over or elapsed_s < 1 else f"{elapsed_s:.0f} s"


def text_of(row: ProgressRow) -> str:
    """A row as one line of text."""
    parts = [row.name]
    if row.calls > 1:
        parts.append(counted(row.calls, "call"))
    parts.append(seconds(row.elapsed_s, is_over=row.is_over))
    if row.done is not None:
        far = (
            _number(row.done) if row.total is None else f"{_number(row.done)}/{_number(row.total)}"
        )
        parts.append(f"{far} done" if row.is_over else far)
    if row.state:
        parts.append(row.state)
    if row.text and not row.is_over:
        parts.append(row.text)
    return " · ".join(parts)


def html_of(row: ProgressRow) -> str:
    """A row as HTML: the same words, and a bar while it runs and if its total is known."""
    bar = ""
    # A tool may report anything as its numbers.
    with suppress(TypeError, ValueError, ZeroDivisionError, OverflowError):
        if not row.is_over and row.done is not None and row.total is not None:
            percent = f"{100 * min(max(float(row.done) / float(row.total), 0.0), 1.0):.0f}"
            bar = (
                f'<span role="progressbar" aria-valuenow="{percent}" aria-valuemin="0"'
                f' aria-valuemax="100" style="{_TRACK}"><span'
                f' style="{_FILL};width:{percent}%"></span></span>'
            )
    return _div(f"{bar}{escape(text_of(row))}")


def _div(inner: str) -> str:
    return f'<div class="{AS_TEXT}" style="{_ROW}">{inner}</div>'


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)[:12]
    return f"{value:,.1f}".removesuffix(".0") if abs(value) < _LONG_NUMBER else f"{value:.3g}"


def _is_in_sync_call(frame: types.FrameType | None) -> bool:
    """Whether the executor waits for a sync call in this thread. Elsewhere an exception would hit
    an event loop."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _EXECUTOR and frame.f_code.co_name == "call":
            return True
        frame = frame.f_back
    return False


def _current_task() -> asyncio.Task[object] | None:
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        with suppress(RuntimeError):
            return asyncio.current_task()  # type: ignore[no-any-return]  # the module is looked up at run time
    return None
