"""What the tools of jobs print goes to their own cells.

A kernel would put the print of a thread into the latest cell, or drop it when its cell has ended. While a job runs,
`sys.stdout` and `sys.stderr` are streams that look whose code prints: that of a job has a listener in its scope, all
else goes where it went. Threads that a tool starts by itself do not carry its scope and are not told apart.

What a cell shows of the jobs it started: a live line, what the tool prints, and at the end the result.

All of it is one display of the cell that started the job, also long after that cell has ended; shown again elsewhere it
is the same display. Where nobody looks (nbclient) it is drawn at the beginning and at the end only. A terminal shows
one line at the beginning; what a tool prints there is not held back.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from onetool_ipy.base.printable import printable
from onetool_ipy.core import current
from onetool_ipy.core.jobs import Job
from onetool_ipy.core.tool import ToolCall
from onetool_ipy.faces.notebook import display
from onetool_ipy.faces.notebook.progress import Outlet, Row, Ticker, html_of, is_looked_at, outlet, text_of
from onetool_ipy.render import html
from onetool_ipy.toolbox import Toolbox

__all__ = ["JobScreens", "Prints"]

_NAMES = ("stdout", "stderr")


class Prints:
    """Stands before the streams as long as somebody needs it."""

    def __init__(self) -> None:
        self._users = 0

    def begin(self) -> None:
        """One more job runs."""
        self._users += 1
        for name in _NAMES:
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, _Split):
                setattr(sys, name, _Split(stream))

    def end(self) -> None:
        """One job less; after the last the streams are as they were, unless someone else has put his own there."""
        self._users -= 1
        if self._users > 0:
            return
        for name in _NAMES:
            stream = getattr(sys, name)
            if isinstance(stream, _Split):
                setattr(sys, name, stream.stream)


class _Split:
    """A stream that sends what a job prints to who listens to that job."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        here = current.scope()
        if here is not None and here.printed is not None and isinstance(text, str):
            here.printed(text)
            return len(text)
        return int(self.stream.write(text) or 0)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        here = current.scope()
        if here is None or here.printed is None:
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __iter__(self) -> Any:
        return iter(self.stream)


_MAX_PRINTED = 20_000
_REDRAW_S = 1.0


class JobScreens:
    """Makes a screen for each job that a cell starts; it is `Jobs.listen`."""

    def __init__(self, shell: Any, box: Toolbox, limits: display.Limits) -> None:
        self.shell = shell
        self.box = box
        self.limits = limits
        self.prints = Prints()
        self.ticker = Ticker(box.workers)
        self._shown: dict[int, JobScreen] = {}

    def __call__(self, _call: ToolCall) -> JobScreen | None:
        here = current.scope()
        if here is not None or threading.current_thread() is not threading.main_thread():
            return None  # a tool's own job, or a widget's: no cell waits for it
        out = outlet(self.shell)
        return None if out is None else JobScreen(self, out, is_live=is_looked_at(self.shell))

    def show(self, job: Job) -> bool:
        """Show a job in the running cell: nothing more in the one that started it, else the same display again."""
        screen = self._shown.get(job.number)
        if screen is None or screen.job is not job:
            return False
        screen.show_here()
        return True

    def keep(self, screen: JobScreen, job: Job) -> None:
        """Remember the screen of a job, as long as the toolbox remembers the job."""
        self._shown[job.number] = screen
        for number in [number for number in self._shown if self.box.jobs.get(number) is None and number != job.number]:
            del self._shown[number]


class JobScreen:
    """One job in its cell."""

    def __init__(self, screens: JobScreens, out: Outlet, *, is_live: bool) -> None:
        self.job: Job | None = None
        self._screens = screens
        self._out = out
        self._is_live = is_live
        self._cell = screens.shell.execution_count
        self._printed: list[str] = []
        self._has_news = True
        self._is_over = False
        self._drawn_at = 0.0
        self._drawn_status = ""
        self._drawing = threading.Lock()
        if out.key:
            screens.prints.begin()

    def told(self, job: Job) -> None:
        """It has begun, got on, or ended."""
        if self.job is None:
            self._begin(job)
        self._has_news = True
        if not job.is_over or not self._out.key:
            return
        was_over, self._is_over = self._is_over, True
        with self._drawing:
            if self._drawn_status != job.status:
                self._draw(job)
        if not was_over:
            self._screens.prints.end()

    def printed(self, text: str) -> None:
        """Its tool has printed this; in a terminal it goes on to where prints go."""
        self._printed.append(text)
        self._has_news = True

    def tick(self, now: float) -> bool:
        """Draw what is new; False when the job is over."""
        job = self.job
        if job is None or self._is_over:
            return job is None
        if self._has_news or now - self._drawn_at >= _REDRAW_S:
            with self._drawing:
                if not self._is_over:  # or what is over would be drawn as running, and stay so
                    self._draw(job)
        return True

    def show_here(self) -> None:
        """Show it in the running cell too, unless it is the one that shows it."""
        shell, job = self._screens.shell, self.job
        if job is None or (self._cell == shell.execution_count and self._out.key):
            return
        shell.display_pub.publish(self._bundle(job), transient={"display_id": self._out.key} if self._out.key else None)

    def _begin(self, job: Job) -> None:
        self.job = job
        self._screens.keep(self, job)
        with self._drawing:
            if not job.is_over:  # or its end, told by another thread meanwhile, would be drawn over
                self._draw(job)
        if self._is_live and self._out.key:
            self._screens.ticker.watch(self)

    def _draw(self, job: Job) -> None:
        self._has_news = False
        self._drawn_status = job.status
        self._drawn_at = time.monotonic()
        self._out.show(self._bundle(job), is_last=True)

    def _bundle(self, job: Job) -> dict[str, str]:
        mask = self._screens.box.mask
        status = job.status
        done, total, text = job.progress
        has_told = (done, total) != (0, None)
        is_over = job.is_over
        name = f"job {job.number} · {job.call.name} · {status}"
        row = Row(name, job.elapsed_s, done if has_told else None, total, _short(text), is_over=is_over)
        texts, looks = [mask(text_of(row))], [mask(html_of(row))]
        printed = mask(_tail("".join(self._printed)))
        if printed:
            texts.append(printed)
            looks.append(html.pre(printed))
        if is_over and status in ("done", "failed") and _has_answer(job):
            text, look = self._result(job)
            texts.append(text)
            looks.append(look)
        return {"text/plain": printable("\n".join(texts)), "text/html": "".join(looks)}

    def _result(self, job: Job) -> tuple[str, str]:
        """The result as a cell would show it, as text and as HTML."""
        screens, result = self._screens, job.result(0)
        bundle, _ = display.bundle(screens.shell, screens.box, result, screens.limits)
        text = str(bundle.get("text/plain", ""))
        look = bundle.get("text/html")
        image = next((mime for mime in bundle if mime.startswith("image/") and mime != "image/svg+xml"), None)
        if image is not None:
            look = f'<img alt="" src="data:{html.escape(image)};base64,{html.escape(bundle[image])}">'
        return text, look if isinstance(look, str) else html.pre(text)


def _has_answer(job: Job) -> bool:
    result = job.result(0)
    return result.error is not None or result.data is not None


def _short(text: str) -> str:
    return " ".join(str(text).split())[:80]


def _tail(text: str) -> str:
    if len(text) <= _MAX_PRINTED:
        return text.rstrip("\n")
    return "...\n" + text[-_MAX_PRINTED:].rstrip("\n")
