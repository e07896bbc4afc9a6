"""`%tool stats | history | results`: what was called, how it went, what is kept."""

from __future__ import annotations

from typing import Any, ClassVar

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.consent import answered
from onetool_ipy.faces.ipython.commands.group import Bench, Command, shown
from onetool_ipy.faces.ipython.errors import raise_result

__all__ = ["Usage"]


class Usage:
    """The sub-commands that look back."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool history [N] [--failed]   the newest calls; %tool history rerun [N or id] calls again",
        "%tool stats [day|week|month]   how the tools are used; --tool NAME, --output FILE.html",
        "%tool results [TEXT]           stored results; ot.result(handle=...) pages through one",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._last = bench.last

    def table(self) -> dict[str, Command]:
        return {"stats": self._stats, "history": self._history, "results": self._results}

    def _stats(self, rest: str) -> Any:
        asked = parse.read_options(rest, {"--tool": "text", "--output": "text"})
        period = asked.words[0] if asked.words else "all"
        given = {name[2:]: value for name, value in asked.given.items()}
        return shown(self._box.ot.stats(period=period, **given))

    def _history(self, rest: str) -> Any:
        asked = parse.read_options(rest, {"--tool": "text", "--failed": "switch"})
        if asked.words[:1] == ["rerun"]:
            return self._rerun(asked.words[1:])
        given = {name[2:]: value for name, value in asked.given.items()}
        if asked.words:
            given["limit"] = _count(asked.words[0])
        return shown(self._box.ot.history(**given))

    def _rerun(self, words: list[str]) -> Any:
        """Call again what was called: by the id of a call, or how many calls ago (1 is the last)."""
        wanted = words[0] if words else "1"
        rows = [row for row in self._box.log.history(limit=1000) if not row.tool.startswith("ot.")]
        if wanted.isdecimal() and len(wanted) < 5:
            found = rows[int(wanted) - 1] if 0 < int(wanted) <= len(rows) else None
        else:
            found = next((row for row in rows if row.call_id == wanted), None)
        if found is None:
            raise UsageProblem(f"No call '{wanted}' in the history.", hint="See: %tool history")
        if found.arguments is None:
            raise UsageProblem(
                f"The arguments of that call of '{found.tool}' were masked or cut in the log.",
                hint="Type the call again.",
            )
        self._require_yes(found.tool, found.arguments)
        result = self._box.call(found.tool, found.arguments, source="magic")
        if not result.ok:
            raise_result(result, self._last)
        return result

    def _require_yes(self, tool: str, arguments: dict[str, Any]) -> None:
        """Ask before a call is repeated that may change something."""
        spec = self._box.registry.find(tool)
        if spec is None or spec.read_only:
            return
        line = self._box.mask(parse.format_call(tool, arguments))
        reply = answered(f"'{tool}' may change something. Call it again?\n  {line}\n[y/N] ")
        if reply is None:
            raise UsageProblem(
                f"'{tool}' may change something, and nobody can be asked here whether to repeat it.",
                hint=f"Type the call itself: {line}",
            )
        if not reply:
            raise UsageProblem(f"'{tool}' was not called again.")

    def _results(self, rest: str) -> Any:
        asked = parse.read_options(rest, {})
        return shown(self._box.ot.results(pattern=" ".join(asked.words)))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 10**6):
        raise UsageProblem(f"'{text[:40]}' is no number of calls.", hint="For example: %tool history 20")
    return int(text)
