"""Jobs in a cell: a live line, the tool's prints, and at the end the result.

All of a job is one display of the cell that started it, also long after that cell has ended;
another cell that shows the job repeats the same display. Where nobody watches (nbclient) it is
drawn only at the beginning and at the end. A terminal shows one line at the beginning, and the
tool's prints go straight to it.

A kernel would put the prints of a thread into the latest cell. While jobs run, `sys.stdout` and
`sys.stderr` are therefore streams that send the prints of a job to its display. They know a job by
its scope (`core.current`); threads that a tool starts itself have no scope, and their prints go
where they always went.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from onetool_ipy.base.printable import printable
from onetool_ipy.core import current
from onetool_ipy.core.jobs import Job
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolCall
from onetool_ipy.faces.notebook import display
from onetool_ipy.faces.notebook.running_cell import (
    CellOutput,
    ProgressRow,
    RefreshLoop,
    cell_output,
    html_of,
    is_watched,
    text_of,
)
from onetool_ipy.render import html
from onetool_ipy.toolbox import Toolbox

_NAMES = ("stdout", "stderr")
_MAX_PRINTED = 20_000
_REDRAW_S = 1.0


class PrintRouter:
    """Replaces the standard streams while jobs run."""

    def __init__(self) -> None:
        self._users = 0

    def begin(self) -> None:
        """A job begins."""
        self._users += 1
        for name in _NAMES:
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, _RoutedStream):
                setattr(sys, name, _RoutedStream(stream))

    def end(self) -> None:
        """A job has ended; after the last one the streams are restored, unless other code has
        replaced them."""
        self._users -= 1
        if self._users > 0:
            return
        for name in _NAMES:
            stream = getattr(sys, name)
            if isinstance(stream, _RoutedStream):
                setattr(sys, name, stream.stream)


class _RoutedStream:
    """A stream that sends the prints of a job to the display of that job."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        here = current.scope()
        if here is not None and here.printed is not None and isinstance(text, str):
            here.printed(text)
            return len(text)
        return int(self.stream.write(text) or 0)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        here = current.scope()
        if here is None or here.printed is None:
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stream)


class JobDisplays:
    """Makes a display for each job that a cell starts."""

    def __init__(self, shell: Any, box: Toolbox, limits: display.CellLimits) -> None:
        self.shell = shell
        self.box = box
        self.limits = limits
        self.prints = PrintRouter()
        self.loop = RefreshLoop(box.workers)
        self._shown: dict[int, JobDisplay] = {}

    def __call__(self, _call: ToolCall) -> JobDisplay | None:
        here = current.scope()
        if here is not None or threading.current_thread() is not threading.main_thread():
            return None  # a job of a tool or a widget: it has no cell
        out = cell_output(self.shell)
        return None if out is None else JobDisplay(self, out, is_live=is_watched(self.shell))

    def show(self, job: Job) -> bool:
        """Show a job in the running cell; False if it has no display."""
        display = self._shown.get(job.number)
        if display is None or display.job is not job:
            return False
        display.show_here()
        return True

    def remember(self, display: JobDisplay, job: Job) -> None:
        """Remember the display of a job as long as the toolbox remembers the job."""
        self._shown[job.number] = display
        for number in [
            number
            for number in self._shown
            if self.box.jobs.get(number) is None and number != job.number
        ]:
            del self._shown[number]


class JobDisplay:
    """One job in its cell."""

    def __init__(self, displays: JobDisplays, out: CellOutput, *, is_live: bool) -> None:
        self.job: Job | None = None
        self._displays = displays
        self._out = out
        self._is_live = is_live
        self._cell = displays.shell.execution_count
        self._printed: list[str] = []
        self._has_news = True
        self._is_over = False
        self._drawn_at = 0.0
        self._drawn_status = ""
        self._drawing = threading.Lock()
        if out.key:
            displays.prints.begin()

    def told(self, job: Job) -> None:
        """The job has begun, progressed or ended."""
        # One report at a time: a short job's end comes from its own thread while the cell still
        # reports its beginning.
        with self._drawing:
            is_new = self.job is None
            if is_new:
                self.job = job
                self._displays.remember(self, job)
            self._has_news = True
            if job.is_over and self._out.key:
                if self._drawn_status != job.status:
                    self._draw(job)
                if not self._is_over:
                    self._is_over = True
                    self._displays.prints.end()
            elif is_new and not job.is_over:
                self._draw(job)
        if is_new and self._is_live and self._out.key:
            self._displays.loop.add(self.refresh)

    def printed(self, text: str) -> None:
        """The tool has printed this."""
        self._printed.append(text)
        self._has_news = True

    def refresh(self, now: float) -> bool:
        """Draw what is new; False if the job is over."""
        job = self.job
        if job is None or self._is_over:
            return job is None
        if self._has_news or now - self._drawn_at >= _REDRAW_S:
            with self._drawing:
                if not self._is_over:  # or an ended job could be drawn as running, and stay so
                    self._draw(job)
        return True

    def show_here(self) -> None:
        """Show it in the running cell too, unless that cell started it."""
        shell, job = self._displays.shell, self.job
        if job is None or (self._cell == shell.execution_count and self._out.key):
            return
        shell.display_pub.publish(
            self._bundle(job), transient={"display_id": self._out.key} if self._out.key else None
        )

    def _draw(self, job: Job) -> None:
        self._has_news = False
        self._drawn_status = job.status
        self._drawn_at = time.perf_counter()
        self._out.show(self._bundle(job), is_last=True)

    def _bundle(self, job: Job) -> dict[str, str]:
        mask = self._displays.box.mask
        status = job.status
        done, total, text = job.progress
        has_told = (done, total) != (0, None)
        is_over = job.is_over
        name = f"job {job.number} · {job.call.name} · {status}"
        row = ProgressRow(
            name,
            job.elapsed_s,
            done if has_told else None,
            total,
            " ".join(text.split())[:80],
            is_over=is_over,
        )
        texts, htmls = [mask(text_of(row))], [mask(html_of(row))]
        printed = "".join(self._printed)
        printed = mask(
            ("...\n" if len(printed) > _MAX_PRINTED else "") + printed[-_MAX_PRINTED:].rstrip("\n")
        )
        if printed:
            texts.append(printed)
            htmls.append(html.pre(printed))
        result = job.result(0) if is_over and status in ("done", "failed") else None
        if result is not None and (result.error is not None or result.data is not None):
            text, result_html = self._result(result)
            texts.append(text)
            htmls.append(result_html)
        return {"text/plain": printable("\n".join(texts)), "text/html": "".join(htmls)}

    def _result(self, result: ToolResult) -> tuple[str, str]:
        """The result as a cell would show it, as text and as HTML."""
        displays = self._displays
        bundle, _ = display.bundle(displays.shell, displays.box, result, displays.limits)
        text = str(bundle.get("text/plain", ""))
        body = bundle.get("text/html")
        image = next(
            (mime for mime in bundle if mime.startswith("image/") and mime != "image/svg+xml"), None
        )
        if image is not None:
            body = (
                f'<img alt="" src="data:{html.escape(image)};base64,{html.escape(bundle[image])}">'
            )
        return text, body if isinstance(body, str) else html.pre(text)
