"""Where the output of one cell goes, from any thread, also when the cell has ended or another one runs.

In a kernel each message carries the header of the cell it was made in, and its display id: a thread's own idea of the
cell would be the latest one. In a terminal it is one line that is written over. Quiet where nobody looks: nbclient and
papermill (they ask for no input), scripts, output that is captured or goes to a file.

What a cell shows of the calls it waits for: elapsed time after 0.5 s, a bar where the tool tells its progress.

A tool (also `ot.map`, a batch, a tool that calls tools) just says `sdk.progress(done, total, text)`: it reaches the
`Line` of the call that the person made, in that call's own cell. `Cells` is `Toolbox.watch`: it makes a `Line` for each
such call. All lines of a cell are one `Area`: a row per tool, drawn by the `Ticker` at most 10 times a second, and what
stays in the saved notebook is a line per tool without a bar. Shorter calls leave nothing; where nobody looks (nbclient,
papermill, scripts) nothing is shown.

For output of one's own: `Area(outlet, mask)`, `line = Line(area, "name")`, `line.heard(done, total, text)`,
`line.ended(True)`; `row_of(...)` gives the text and HTML of one row.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from os import getpid
from threading import get_ident
from time import monotonic
from typing import Any, NamedTuple, Protocol

from onetool_ipy.base.background import Workers
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.printable import printable
from onetool_ipy.core.tool import CallSource, ToolCall
from onetool_ipy.faces.notebook.interrupt import Interrupts
from onetool_ipy.render.html import escape
from onetool_ipy.render.views import counted

__all__ = [
    "PATIENCE_S",
    "Area",
    "Cells",
    "Line",
    "Outlet",
    "Row",
    "Ticker",
    "bar",
    "html_of",
    "is_looked_at",
    "outlet",
    "seconds",
]

Bundle = Mapping[str, str]


class Outlet(Protocol):
    """One piece of output that can be replaced."""

    key: str

    def show(self, bundle: Bundle, *, is_last: bool) -> None:
        """Show this in place of what was shown before; `is_last` is what stays."""


class _Kernel:
    """A display of the running cell. Where nobody looks, a client (nbclient) hears only what the latest cell says."""

    def __init__(self, shell: Any, publisher: Any) -> None:
        self.key = os.urandom(8).hex()
        self._shell = shell
        self._publisher = publisher
        self._header = dict(publisher.parent_header)
        self._is_shown = False
        self._is_looked_at = is_looked_at(shell)

    def show(self, bundle: Bundle, *, is_last: bool) -> None:  # noqa: ARG002 - a display is always replaced
        publisher = self._publisher
        if not self._is_shown and self._shell.display_pub is not publisher:
            return  # a `%%capture` has begun
        if not self._is_shown:
            with suppress(Exception):  # what was printed before stands before; a broken stream is no reason to stop
                sys.stdout.flush()
        kind, header = "display_data", self._header
        if self._is_shown:
            kind = "update_display_data"
            header = header if self._is_looked_at else Context().run(getattr, publisher, "parent_header")
        self._is_shown = True
        content = {
            "data": {**bundle, "text/plain": printable(bundle["text/plain"])},
            "metadata": {},
            "transient": {"display_id": self.key},
        }
        message = publisher.session.msg(kind, content, parent=header)
        publisher.session.send(publisher.pub_socket, message, ident=publisher.topic)


class _Terminal:
    """One line of a terminal, written over until it is the last."""

    def __init__(self) -> None:
        self.key = ""

    def show(self, bundle: Bundle, *, is_last: bool) -> None:
        lines = printable(bundle["text/plain"]).splitlines() or [""]
        text = "\n".join(lines) + "\n" if is_last else lines[0]
        with suppress(OSError, ValueError):  # the terminal is gone
            sys.stdout.write(f"\r\x1b[K{text}")
            sys.stdout.flush()


def outlet(shell: Any) -> Outlet | None:
    """A new piece of output of the running cell; None where output is captured. Call it in the cell's own thread."""
    publisher = shell.display_pub
    if getattr(publisher, "pub_socket", None) is not None:
        return _Kernel(shell, publisher)
    return _Terminal() if _is_terminal(shell) else None


def is_looked_at(shell: Any) -> bool:
    """Whether a person waits for the running cell: one who could be asked for input."""
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


PATIENCE_S = 0.5
"""How long a call may take before its cell shows that it runs."""

_TICK_S = 0.1
_ELAPSED_S = 1.0
_IDLE_TICKS = 5
_MAX_TEXT = 80
_MAX_ROWS = 5
_PERSON: frozenset[CallSource] = frozenset(("python", "magic", "shortcut"))

Mask = Callable[[str], str]
Told = tuple[float | None, float | None, str]

_NOTHING: Told = (None, None, "")


class Row(NamedTuple):
    """One row: what runs or ran, how long, how far. `total` None is unknown; `state` is empty while it runs well."""

    name: str
    elapsed_s: float
    done: float | None = None
    total: float | None = None
    text: str = ""
    state: str = ""
    calls: int = 1
    is_over: bool = False


class Line:
    """One call under way, as its cell shows it."""

    __slots__ = ("_area", "began", "name", "told")

    def __init__(self, area: Area, name: str) -> None:
        self._area = area
        self.name = name
        self.told: Told = _NOTHING
        self.began = monotonic()
        area.running[self] = None

    def heard(self, done: float, total: float | None = None, text: str = "") -> None:
        """The call says how far it is."""
        self.told = (done, total, text)
        self._area.has_news = True

    def ended(self, ok: bool) -> None:
        """The call has ended."""
        area = self._area
        if monotonic() - self.began < PATIENCE_S and not area.has_rows:
            area.running.pop(self, None)
        else:
            area.over(self, "" if ok else "failed")

    def stopped(self, exc: BaseException) -> BaseException:
        """The call was stopped; gives what the cell is to show of it."""
        self._area.over(self, "stopped")
        return self._area.interrupts.seen(exc, self.name, monotonic() - self.began)


class Area:
    """The rows of one cell: calls that run, and those that took long enough to be told of."""

    def __init__(self, out: Outlet | None, mask: Mask, interrupts: Interrupts | None = None) -> None:
        self.running: dict[Line, None] = {}
        self.has_news = False
        self.is_watched = False
        self.has_rows = False
        self.interrupts = interrupts or Interrupts()
        self._out = out
        self._mask = mask
        self._over: dict[str, Row] = {}
        self._ended_at: dict[str, float] = {}
        self._drawn_at = 0.0
        self._idle = 0
        self._drawing = threading.Lock()
        self._pid = getpid()

    def tick(self, now: float) -> bool:
        """Draw what is new; False when nothing has run for a while."""
        if self.running:
            self.interrupts.look()
        running = self._long_running(now)
        is_due = running and now - self._drawn_at >= _ELAPSED_S
        if is_due or (self.has_news and (running or self._over)):
            self._draw(now)
        self._idle = 0 if self.running else self._idle + 1
        if self._idle < _IDLE_TICKS:
            return True
        self.is_watched = False
        if self.running:  # one has begun in this moment, and may have seen that it is watched
            self.is_watched = True
        return self.is_watched

    def over(self, line: Line, state: str) -> None:
        """A call has ended; where it took long, its row stays."""
        self.running.pop(line, None)
        now = monotonic()
        if now - line.began >= PATIENCE_S:
            self._keep(line, state, now)
        elif self.running or not self._over:
            return
        if not self.has_news:
            return
        if not self.running or now - self._drawn_at >= _TICK_S:
            self._draw(now)

    def close(self) -> None:
        """The cell has been stopped: whatever did not say so has ended too."""
        for line in tuple(self.running):
            self.over(line, "stopped")

    def _keep(self, line: Line, state: str, now: float) -> None:
        """The row of a tool whose call has ended; calls that ran at once count as the time that was waited."""
        name = str(line.name)
        known = self._over.pop(name, None)
        calls, before_s = (known.calls, known.elapsed_s) if known is not None else (0, 0.0)
        done, total, _ = line.told if calls == 0 else _NOTHING
        took_s = now - max(line.began, self._ended_at.get(name, 0.0))
        self._ended_at[name] = now
        self._over[name] = Row(self._mask(name), before_s + took_s, done, total, "", state, calls + 1, True)
        self.has_news = self.has_rows = True

    def _long_running(self, now: float) -> list[Line]:
        return [line for line in tuple(self.running) if now - line.began >= PATIENCE_S]

    def _draw(self, now: float) -> None:
        if self._out is None or self._pid != getpid():
            return
        with self._drawing:  # what is drawn later is newer, or a line that has ended would run on
            self._draw_rows(self._out, now, self._long_running(now))

    def _draw_rows(self, out: Outlet, now: float, running: list[Line]) -> None:
        self.has_news = False
        self._drawn_at = now
        rows = [*self._over.values(), *_rows(running, now, self._mask)]
        shown = rows[-_MAX_ROWS:]
        more = len(rows) - len(shown)
        text = "\n".join([*([f"... {more} more"] if more else []), *(text_of(row) for row in shown)])
        html = "".join([*([_div(f"... {more} more")] if more else []), *(html_of(row) for row in shown)])
        out.show({"text/plain": text, "text/html": html}, is_last=not running)


class Cells:
    """Watches the calls of the running cell. Begins and ends with it; costs next to nothing for a short call."""

    def __init__(self, shell: Any, workers: Workers, mask: Mask) -> None:
        self.ticker = Ticker(workers)
        self.interrupts = Interrupts()
        self._shell = shell
        self._mask = mask
        self._pid = getpid()
        self._area: Area | None = None
        self._thread = 0
        self._publisher: Any = None
        self._header: Any = None

    def __call__(self, call: ToolCall) -> Line | None:
        """A line for a call, if it is a person's, in the running cell."""
        if self._thread != get_ident() or call.source not in _PERSON or self._pid != getpid():
            return None
        if self._publisher is not None and self._publisher.parent_header is not self._header:
            return None  # a task that an earlier cell has left behind
        area = self._area
        if area is None:
            area = self._area = self._new_area()
            self.interrupts.listen()
        line = Line(area, call.name)
        if not area.is_watched:
            area.is_watched = True
            self.ticker.watch(area)
        return line

    def before_cell(self) -> None:
        """A cell begins, in this thread."""
        self._area = None
        self._thread = get_ident()
        publisher = self._shell.display_pub
        self._publisher = publisher if hasattr(publisher, "parent_header") else None
        self._header = None if self._publisher is None else self._publisher.parent_header
        self.interrupts.begin(self._is_waiting)

    def after_cell(self) -> None:
        """The cell has ended; calls that it left behind in tasks of the event loop keep their lines."""
        area, self._area, self._thread = self._area, None, 0
        if area is not None and self.interrupts.has_struck:
            area.close()
        self.interrupts.end()

    def _new_area(self) -> Area:
        out = outlet(self._shell) if is_looked_at(self._shell) else None
        return Area(out, self._mask, self.interrupts)

    def _is_waiting(self) -> Line | None:
        area = self._area
        return next(reversed(area.running), None) if area is not None else None


class Ticked(Protocol):
    """What the ticker looks at."""

    def tick(self, now: float) -> bool:
        """Draw what is new; False when there is no more to come."""


class Ticker:
    """Looks ten times a second at what runs, in one worker, and only as long as something runs."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._watched: list[Ticked] = []
        self._pid = getpid()
        self._is_on = False
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Look no more, now."""
        self._watched.clear()
        self._stopped.set()

    def watch(self, what: Ticked) -> None:
        """Look at this too, until it says that it is over."""
        if self._pid != getpid():
            self._pid, self._is_on, self._watched, self._stopped = getpid(), False, [], threading.Event()
        self._watched.append(what)
        if self._is_on:
            return
        self._is_on = True
        self._stopped.clear()
        try:
            self._workers.submit(self._run, "own")
        except OneToolError:  # no room: too many calls were given up
            self._is_on = False
        except BaseException:
            self._is_on = False
            raise

    def _run(self) -> None:
        try:
            while self._watched:
                self._stopped.wait(_TICK_S)
                now = monotonic()
                for what in tuple(self._watched):
                    if not what.tick(now) and what in self._watched:
                        self._watched.remove(what)
                if not self._watched:
                    self._is_on = False
                if self._watched:  # one came in that moment, and may have seen the ticker on
                    self._is_on = True
        finally:
            self._is_on = False


def seconds(elapsed_s: float, *, is_over: bool = False) -> str:
    """A duration in a few characters."""
    if elapsed_s >= 3600:
        return f"{int(elapsed_s // 3600)} h {int(elapsed_s % 3600 // 60):02d} min"
    if elapsed_s >= 60:
        return f"{int(elapsed_s // 60)} min {int(elapsed_s % 60):02d} s"
    return f"{elapsed_s:.1f} s" if is_over or elapsed_s < 1 else f"{elapsed_s:.0f} s"


def text_of(row: Row) -> str:
    """A row as one line of text."""
    parts = [row.name]
    if row.calls > 1:
        parts.append(counted(row.calls, "call"))
    parts.append(seconds(row.elapsed_s, is_over=row.is_over))
    if row.done is not None:
        far = _number(row.done) if row.total is None else f"{_number(row.done)}/{_number(row.total)}"
        parts.append(f"{far} done" if row.is_over else far)
    if row.state:
        parts.append(row.state)
    if row.text and not row.is_over:
        parts.append(row.text)
    return " · ".join(parts)


def html_of(row: Row) -> str:
    """A row as HTML: the same words, and a bar while it runs and its total is known."""
    text = escape(text_of(row))
    share = None if row.is_over else _share(row)
    return _div(text) if share is None else _div(f"{bar(share)}{text}")


def bar(share: float) -> str:
    """A bar as HTML, filled to a share between 0 and 1, in the colours of the theme."""
    percent = f"{100 * share:.0f}"
    return (
        f'<span role="progressbar" aria-valuenow="{percent}" aria-valuemin="0" aria-valuemax="100" style="{_TRACK}">'
        f'<span style="{_FILL};width:{percent}%"></span></span>'
    )


_TRACK = (
    "display:inline-block;width:12em;height:.6em;margin-right:.8em;vertical-align:baseline;overflow:hidden;"
    "border-radius:.3em;background:var(--jp-layout-color3,rgba(128,128,128,.35))"
)
_FILL = "display:block;height:100%;background:var(--jp-brand-color1,#1976d2)"
_ROW = "color:var(--jp-ui-font-color2,#777);font-size:90%;line-height:1.6;font-variant-numeric:tabular-nums"


def _div(inner: str) -> str:
    return f'<div style="{_ROW}">{inner}</div>'


def _share(row: Row) -> float | None:
    if row.done is None or row.total is None:
        return None
    try:
        return min(max(float(row.done) / float(row.total), 0.0), 1.0)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None


def _rows(running: Iterable[Line], now: float, mask: Mask) -> list[Row]:
    """One row per tool: that of its oldest call, with the number of those that run beside it."""
    rows: dict[str, Row] = {}
    for line in running:
        name = str(line.name)
        known = rows.get(name)
        if known is not None:
            rows[name] = known._replace(calls=known.calls + 1, done=None, total=None, text="")
            continue
        done, total, text = line.told
        text = mask(" ".join(str(text).split()))[:_MAX_TEXT]
        rows[name] = Row(mask(name), now - line.began, done, total, text)
    return list(rows.values())


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)[:12]
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}".removesuffix(".0")
