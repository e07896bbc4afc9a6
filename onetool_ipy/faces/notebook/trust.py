"""The trust question: may the code, servers and HTTP tools of this project run? Asked in a cell, once for each subject.

The question lists what a yes would let run. It is put on the page, with buttons, or typed; then a yes is `y` or `yes`.
If nobody can be asked, or after a no, the call is refused with the line to type.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import Untrusted
from onetool_ipy.base.printable import printable_line
from onetool_ipy.toolbox import Toolbox

__all__ = ["TrustQuestion", "can_ask", "question_lines"]


class TrustQuestion:
    """Asks the person who uses one shell."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._answered: set[tuple[str, str]] = set()

    def __call__(self, needed: Untrusted) -> None:
        """Ask for the trust that a call needs; a yes is recorded and holds from now on."""
        found = self._box.would_run()
        about = (found.folder, repr([s for s in found.servers if s.name == needed.server]) if needed.server else "")
        if about in self._answered or threading.current_thread() is not threading.main_thread():
            return
        from onetool_ipy.core.question import NobodyToAsk, Question  # late: most notebooks need no yes

        lines = question_lines(self._box, needed.server)
        data = {**found.to_dict(), "server": needed.server}
        if needed.server:
            data["servers"] = [server for server in data["servers"] if server["name"] == needed.server]
        asked = Question("this project", "\n".join(lines), trust=values.map_text(data, self._box.mask))
        try:
            reply = self._box.host.ask(asked)
        except NobodyToAsk:
            return
        if reply.action == "accept":
            self._box.trust(needed.server, shown=found)
        self._answered.add(about)


def question_lines(box: Toolbox, server: str = "") -> list[str]:
    """The question as lines: what a yes would let run."""
    found = box.would_run()
    if server:
        entries = [entry for entry in found.servers if entry.name == server]
        how = "has changed since you trusted it" if any(e.changes for e in entries) else "is new"
        shown = [line for entry in entries for line in entry.lines()]
        return [box.mask(line) for line in [f"A server of this project {how}:", *(f"  {line}" for line in shown)]]
    head = [f"This project is not trusted yet: {printable_line(found.folder)}", "If you trust it, it may run:"]
    return [box.mask(line) for line in [*head, *(f"  {line}" for line in found.lines())]]


def can_ask(shell: Any) -> bool:
    """Whether a person may answer: a front end that takes input, or a terminal."""
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        return bool(getattr(kernel, "_allow_stdin", False))
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
