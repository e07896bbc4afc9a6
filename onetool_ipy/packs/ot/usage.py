"""`ot.stats` and `ot.history`: usage of the tools, from the call log (spec 001)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import OneToolError, Returned
from onetool_ipy.base.files import write_whole
from onetool_ipy.core.current import is_from_outside
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.packs.ot.errors import worded
from onetool_ipy.render import html, report
from onetool_ipy.render.views import Listing, Record, counted, people_rows, span_labels

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.stores.calls.query import Timeline
    from onetool_ipy.toolbox import Toolbox

OT_LEFT_OUT = "Calls of ot itself are left out; ot.stats() has them."
"""What stands beside the numbers where people look; a tool that is named counts whatever it is."""

_TEXT_ROWS = 12
_TEXT_BAR = 40
_HEAD = 2000
_MAX_GROUPS = 50
_ORIGIN = ("user", "host", "notebook", "cell", "session", "parent", "fingerprint")


@without_secrets
class UsagePlot:
    """Plots of usage: inline SVG in a notebook, bars of text in a terminal."""

    def __init__(self, stats: UsageStats) -> None:
        self._stats, self._steps = stats, stats.steps

    def _repr_html_(self) -> str:
        style = report.STYLE + report.CELL_STYLE
        plots = report.plots(self._stats["tools"], self._steps, self._stats["failures"])
        return f"<style>{style}</style><div class='ot-usage {html.AS_TEXT}'>{plots}</div>"

    def __repr__(self) -> str:
        """Show the tools called most, as bars of text."""
        tools = self._stats["tools"]
        total = sum(row["calls"] for row in tools)
        lines = [f"{counted(total, 'call')} of {counted(len(tools), 'tool')}"]
        most = tools[:_TEXT_ROWS]
        width = max((len(str(row["tool"])) for row in most), default=0)
        for row in most:
            bar = "█" * max(1, round(_TEXT_BAR * row["calls"] / most[0]["calls"]))
            failed = f", {row['failures']:,} failed" if row["failures"] else ""
            lines.append(f"  {row['tool']:<{width}}  {bar} {row['calls']:,}{failed}")
        return "\n".join(lines)


@without_secrets
class UsageStats(Record):
    """Usage of a period. `.df` has a row per tool; `.plot()` draws it.

    `timeline` gives the calls over time. It is asked when they are drawn for the first time: to add
    them up takes as long as all else.
    """

    timeline: Callable[[], Timeline] | None = None

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """The calls over time as plots show them: in seconds, minutes, hours or days, whichever
        suits the calls there are."""
        if self.timeline is None:
            return []
        timeline = self.timeline()
        labels = span_labels([span.start for span in timeline.spans], timeline.step_s)
        spans = zip(timeline.spans, labels, strict=True)
        return [{**span._asdict(), "start": label} for span, label in spans]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has: it may be in another process, which has no such log."""
        return {"steps": self.steps}

    def plot(self) -> Any:
        """Draw calls over time with failures, and latency: a matplotlib figure where that is
        installed, else SVG."""
        try:
            figures = import_module("matplotlib.figure")  # never a dependency of ours
        except ImportError:
            return UsagePlot(self)
        return _figure(
            figures.Figure(figsize=(9, 5), layout="constrained"), self["tools"], self.steps
        )

    def _repr_html_(self) -> str:
        tables = ("tools", "failures")
        facts = {key: value for key, value in self._measured().items() if key not in tables}
        facts["total_calls"] = f"{facts['total_calls']:,}"
        parts = [
            html.table(people_rows([facts]), numbers=[key for key in facts if key != "period"])
        ]
        parts += [html.table(people_rows(self["tools"]))] if self["tools"] else []
        if self.get("failures"):
            parts.append(
                html.note("Failed calls by message:") + html.table(people_rows(self["failures"]))
            )
        return "".join(parts)

    def to_text(self, width: int) -> str:
        """The record for a terminal of this width, without estimates."""
        return Record(self._measured()).to_text(width)

    def _measured(self) -> dict[str, Any]:
        """Return what is shown. The estimates are keys that spec 001 fixes, and no measurements;
        without calls there is no share of those that went well."""
        return {
            key: value
            for key, value in self.items()
            if value is not None and key not in ("estimates", *self["estimates"])
        }


class CallHistory(Listing):
    """The newest calls. Their table is short; `.df` also has where each came from."""

    origins: Sequence[Mapping[str, Any]] = ()

    @property
    def df(self) -> pd.DataFrame:
        """The calls as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(
            [{**row, **origin} for row, origin in zip(self, self.origins, strict=True)]
        )


class UsageTools:
    """The functions about usage, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark(read_only=True)
    @worded
    def stats(self, period: str = "all", tool: str = "", output: str = "") -> Any:
        """Add up all calls of a period, those of `ot` too: how many, how many went well, how long
        they took. `%tool stats` leaves out those of `ot`.

        Args:
            period: day, week, month or all (the last 24 hours, 7 days, 30 days).
            tool: Only this tool.
            output: Also write an HTML report to this path.

        Returns:
            {total_calls, success_rate, context_saved, time_saved_ms, tools, failures}. The two
            savings are estimates for calls by models and MCP clients; no screen shows them.
            `failures` counts the failed calls by tool and message: the 50 most frequent messages.

        Example:
            ot.stats(period='day')
        """
        return self.sums(period, tool, output)

    @mark(read_only=True)
    @worded
    def history(
        self, limit: int = 20, tool: str = "", failed: bool = False, search: str = ""
    ) -> Any:
        """List the newest calls, newest first.

        Args:
            limit: How many.
            tool: Only calls of this tool.
            failed: Only calls that failed.
            search: Only calls with these words in the tool's name, the arguments or the error.

        Returns:
            Rows {ts, tool, ok, ms, args, error, code, source, handle, call_id}. `.df` also has
            user, host, notebook, cell, session, parent (the call that made this one) and
            fingerprint (of the tool as it was).

        Example:
            ot.history(limit=5)
        """
        if limit < 1:
            raise ValueError(f"limit must be >= 1, got {limit}")
        calls = self._box.log.history(
            limit=limit, tool=tool or None, ok=False if failed else None, text=search
        )
        history = CallHistory(
            {
                "ts": call.ts.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "tool": call.tool,
                "ok": call.ok,
                "ms": call.ms,
                "args": call.args,
                "error": call.message,
                "code": call.code,
                "source": call.source,
                "handle": call.handle,
                "call_id": call.call_id,
            }
            for call in calls
        )
        history.origins = [{name: getattr(call, name) for name in _ORIGIN} for call in calls]
        return history

    def sums(
        self, period: str, tool: str = "", output: str = "", *, hides_ot: bool = False
    ) -> UsageStats:
        """What `stats` returns; `hides_ot` leaves out the calls of `ot` itself."""
        log, settings = self._box.log, self._box.config.settings.stats
        chosen: Any = period
        overview = log.overview(period=chosen, tool=tool or None, hides_ot=hides_ot)
        used, (model_calls, model_chars) = overview.usage, overview.by_models
        rows = [
            {**row._asdict(), "last_called": row.last_called.isoformat(timespec="seconds")}
            for row in used.tools
        ]
        record = UsageStats(
            period=period,
            total_calls=used.total_calls,
            success_rate=used.success_rate,
            context_saved=max(
                0,
                round(
                    model_calls * settings.context_per_call - model_chars / settings.chars_per_token
                ),
            ),
            time_saved_ms=model_calls * settings.time_overhead_per_call_ms,
            estimates=["context_saved", "time_saved_ms"],
            tools=rows,
            failures=[
                {**group._asdict(), "last_called": group.last_called.isoformat(timespec="seconds")}
                for group in overview.failures[:_MAX_GROUPS]
            ],
        )
        if tool:
            record["tool"] = tool
        if until := used.last_called:  # so that a plot shows no later calls than the sums
            record.timeline = lambda: log.timeline(
                tool=tool or None, since=used.since, until=until, hides_ot=hides_ot
            )
        if output:
            record["html_report"] = str(self._write(output, record))
        return record

    def _write(self, output: str, record: UsageStats) -> Path:
        """Write the report; never through a link, never over a file that is not a report."""
        moment = self._box.now().astimezone().strftime("%Y-%m-%d %H:%M")
        page = report.usage_page(record, record["tools"], record.steps, made=moment)
        try:
            path = Path(output).expanduser().absolute()
            self._require_place(path)
            write_whole(path, page.encode("utf-8", "replace"), nofollow=True, mode=0o644)
        except Returned:
            raise
        except OneToolError as exc:
            raise Returned(
                f"Error: Cannot write to '{output}': {getattr(exc, 'reason', exc.message)}"
            ) from exc
        except (OSError, ValueError, RuntimeError) as exc:
            # The path has a NUL, or names the home of an unknown user.
            raise Returned(
                f"Error: Cannot write to '{output}': it is not a path that can be used"
            ) from exc
        return path

    def _require_place(self, path: Path) -> None:
        """Refuse a path where no report may be written. Opens only plain files."""
        if is_from_outside() and not self._is_inside(path):
            message = "it is outside the allowed folders"
        else:
            message = _obstacle(path)
        if message:
            raise Returned(f"Error: Cannot write to '{path}': {message}")

    def _is_inside(self, path: Path) -> bool:
        config = self._box.config
        roots = [
            Path(config.paths.project, Path(root).expanduser()).resolve()
            for root in config.settings.fs.roots
        ]
        return any(path.resolve().is_relative_to(root) for root in roots)


def _obstacle(path: Path) -> str:
    """Return why no report can be written to this path, or ""."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return "" if path.parent.is_dir() else "its folder does not exist"
    except NotADirectoryError:
        return "its folder does not exist"
    if stat.S_ISLNK(mode):
        return "it is a symbolic link"
    if stat.S_ISDIR(mode):
        return "it is a folder"
    if not stat.S_ISREG(mode):
        return "it is not a plain file"
    # The flags keep the opening from blocking if the file has become a FIFO.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        return (
            "" if report.MARK.encode() in file.read(_HEAD) else "it is a file that is not a report"
        )


def _figure(
    figure: Any, tools: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]
) -> Any:
    over_time, latency = figure.subplots(2, 1)
    places, labels = range(len(steps)), [row["start"] for row in steps]
    failed = [row["failures"] for row in steps]
    over_time.bar(places, [row["calls"] for row in steps], label="calls")
    over_time.bar(places, failed, color="tab:red", label="failed")
    over_time.set_title("Calls")
    over_time.legend()
    points = [(place, row) for place, row in enumerate(steps) if row["calls"]]
    plots = [over_time]
    if len(points) >= report.FEW_STEPS:
        low, high = ([row[key] for _, row in points] for key in ("p50_ms", "p95_ms"))
        at = [place for place, _ in points]
        latency.fill_between(at, low, high, alpha=0.25, step="mid")
        latency.step(at, low, where="mid", label="median")
        latency.step(at, high, where="mid", linewidth=1, label="p95")
        latency.set_title("Latency in ms")
        plots.append(latency)
    else:
        most = list(reversed(tools[:8]))
        latency.barh(
            [row["tool"] for row in most], [row["p95_ms"] for row in most], alpha=0.25, label="p95"
        )
        latency.barh([row["tool"] for row in most], [row["avg_ms"] for row in most], label="mean")
        latency.set_title("Latency by tool in ms")
    latency.legend()
    every = max(1, -(-len(steps) // 8))
    for plot in plots:
        plot.set_xticks(list(places)[::every], labels[::every])
    return figure
