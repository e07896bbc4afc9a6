"""`ot.health`, `ot.deps`, `ot.reload`, `ot.notify`: the state of the toolbox (spec 001)."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import InvalidConfig
from onetool_ipy.base.printable import printable_line
from onetool_ipy.config.load import all_labels
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.core.tool import Problem
from onetool_ipy.packs.ot.errors import worded
from onetool_ipy.render.pages import Heading, Note, Part, Row, Rows, Status, to_html, to_text
from onetool_ipy.render.views import Record, Text, counted
from onetool_ipy.sdk.requirements import check_deps, is_installed

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

_MOST_PLACES = 20
PATIENCE_S = 8.0
"""How long servers that do not answer are waited for."""
_STATUS: Mapping[str, Status] = {
    "connected": "good",
    **dict.fromkeys(
        ("not started", "starting", "stopped", "disabled", "untrusted", "signed out"), "warning"
    ),
}
"""How a state of a server is marked; any other is bad."""


@without_secrets
class Health(Record):
    """The state of a toolbox, shown as a list with a mark for each part."""

    about = ""
    """The project in words."""

    tools = 0
    """How many tools people have: those of the registry without the toolbox's own functions."""

    reach = ""
    """In words, the places that tools can send to."""

    def parts(self) -> list[Part]:
        """The page for people: tools, each server, then the problems and what to do about them."""
        problems = list(self["problems"])
        rows = [
            Row(
                "tools",
                counted(self.tools, "tool"),
                self["registry"]["status"],
                "good",
            )
        ]
        for name, state in self["proxy"]["states"].items():
            begin = f"The server '{name}': "
            own = [problem for problem in problems if problem["message"].startswith(begin)]
            problems = [problem for problem in problems if problem not in own]
            text = " ".join(_advice(problem).removeprefix(begin) for problem in own)
            rows.append(Row(f"server {name}", text, state, _STATUS.get(state, "bad")))
        if left := self.get("abandoned_calls"):
            rows.append(
                Row(
                    "calls",
                    f"{counted(left, 'call')} past the time limit",
                    "still running",
                    "warning",
                )
            )
        rows += [Row(problem["where"], _advice(problem), "problem", "bad") for problem in problems]
        well = [] if any(row.status != "good" for row in rows) else [Note("Nothing is wrong.")]
        title = Heading(f"onetool_ipy {self['version']}", f"Python {self['python']}, {self['cwd']}")
        reach = [Note(printable_line(self.reach))] if self.reach else []
        return [title, Rows(tuple(rows)), *well, *reach, Note(printable_line(self.about))]

    def _repr_html_(self) -> str:
        return to_html(self.parts())

    def to_text(self, width: int) -> str:
        """The same for a terminal of this width."""
        return to_text(self.parts(), width)


def _advice(problem: Mapping[str, str]) -> str:
    return Problem(problem["where"], problem["message"], problem["hint"]).text


class HealthTools:
    """The functions about the toolbox's state, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark(read_only=True)
    @worded
    def health(self) -> Any:
        """Check every component, now.

        Returns:
            {version, python, cwd, registry, proxy, problems}. proxy says of each MCP server whether
            it is connected, and in states why not: starting, failed, signed out, ... Each problem
            says where, what, and what to do.

        Example:
            ot.health()
        """
        self._box.gate.refresh()
        states = dict(self._box.servers.check(PATIENCE_S))
        is_connected = {name: state == "connected" for name, state in states.items()}
        proxy = {
            "status": "ok" if all(is_connected.values()) else "degraded",
            "server_count": len(states),
            "servers": {
                name: "connected" if up else "disconnected" for name, up in is_connected.items()
            },
            "states": states,
        }
        try:
            cwd = os.getcwd()
        except FileNotFoundError:
            cwd = "(deleted)"
        record = Health(
            version=__version__,
            python=sys.version.split()[0],
            cwd=cwd,
            registry={"status": "ok", "tool_count": len(self._box.registry.list())},
            proxy=proxy,
            problems=[
                {"where": p.where, "message": p.message, "hint": p.hint}
                for p in (*self._box.problems(), *missing(self._box))
            ],
        )
        if left := self._box.workers.abandoned():
            record["abandoned_calls"] = left
        record.about = self._box.config.paths.about
        record.tools = sum(not spec.is_toolbox for spec in self._box.registry.known())
        places = Counter(
            labels.sends
            for labels in all_labels(self._box.registry.known(), self._box.config)
            if labels.sends
        )
        if places:
            listed = [f"{place} ({counted(n, 'tool')})" for place, n in sorted(places.items())]
            more = f", and {len(listed) - _MOST_PLACES} more" if listed[_MOST_PLACES:] else ""
            record.reach = f"Tools can send to {', '.join(listed[:_MOST_PLACES])}{more}."
        return record

    @mark(read_only=True)
    @worded
    def deps(self, tool: str = "") -> Any:
        """List what tools need besides Python, and whether it is installed.

        Args:
            tool: Only this tool, or the tools of this pack.

        Returns:
            Rows {tool, kind, name, status, version, install}; status is ok or missing.

        Example:
            ot.deps()
        """
        return check_deps(tool or None)

    @mark()
    @worded
    def reload(self) -> Any:
        """Read configuration, secrets, prompts, pack files, aliases and snippets again; tools of
        cells stay.

        Returns:
            "OK: Configuration reloaded"; on a failure the reason, and the last good state stays.

        Example:
            ot.reload()
        """
        try:
            self._box.reload()
        except InvalidConfig as exc:  # the hint says what became of the old configuration
            raise InvalidConfig(
                f"{exc.message}\n{exc.hint}".rstrip(), problems=exc.problems
            ) from exc
        return Text("OK: Configuration reloaded")

    @mark()
    @worded
    def notify(self, topic: str, message: str) -> Any:
        """Append a message to the file of a configured topic.

        Args:
            topic: Its name; the first pattern that matches decides where it goes.
            message: Any text.

        Returns:
            "OK: topic -> file" once it is on disk, or "SKIP: no matching topic".

        Example:
            ot.notify(topic="notes", message="Remember to review PR #123")
        """
        return Text(self._box.topics.notify(topic, message))


def missing(box: Toolbox) -> list[Problem]:
    """List what tools need and is not installed. Runs nothing."""
    needs = [(spec.name, dep) for spec in box.registry.known() for dep in spec.deps]
    absent = {dep for dep in {dep for _, dep in needs} if not is_installed(dep)}
    return [
        Problem(name, f"needs the {dep.kind} '{dep.name}'.", dep.install or "Install it.")
        for name, dep in needs
        if dep in absent
    ]
