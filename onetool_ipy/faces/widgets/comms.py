"""A cell that becomes a pack file of the project: `.onetool/tools/NAME.py`. Nothing that is there is written over.

The side panel's line to this kernel: listed as a comm, so that a panel finds it without running code here.

A panel asks the kernel for the comms of our target (`comm_info_request`), which costs a kernel without us nothing and
prints nothing there. Listing costs nothing either: the desk behind the line is made by the first question. The line is
one for all panels; each knows its answers by the ids of its questions. It is no `Comm` of ipykernel's, which sends a
question to the shell that published last: ours are answered where they were asked, also while a cell runs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__
from onetool_ipy.faces.trust_text import trust_of

if TYPE_CHECKING:
    from onetool_ipy.core.result import Json
    from onetool_ipy.faces.widgets.requests import Desk
    from onetool_ipy.toolbox import Toolbox

__all__ = ["TARGET", "PanelComms"]


TARGET = "onetool_ipy.panel"


class PanelComms:
    """The line of all panels to one shell."""

    def __init__(self, shell: Any, box: Callable[[], Toolbox]) -> None:
        self._shell = shell
        self._box = box
        self._line: _Line | None = None

    def install(self) -> None:
        """Let panels find the line."""
        kernel = getattr(self._shell, "kernel", None)
        if getattr(kernel, "comm_manager", None) is not None:
            self._line = _Line(kernel, self._shell, self._box)
            self._line.list()

    def remove(self) -> None:
        """Take it back, and tell the panels; may be called twice."""
        line, self._line = self._line, None
        if line is not None:
            line.close()


class _Line:
    """What ipykernel takes for a comm: an id, a target, and `handle_msg`."""

    target_name = TARGET

    def __init__(self, kernel: Any, shell: Any, box: Callable[[], Toolbox]) -> None:
        self.comm_id = uuid.uuid4().hex
        self._kernel = kernel
        self._shell = shell
        self._box = box
        self._desks: dict[str, Desk] = {}

    def list(self) -> None:
        """Stand in the kernel's list of comms."""
        self._kernel.comm_manager.register_comm(self)

    def close(self) -> None:
        """Leave the list, and say so to the panels."""
        self._kernel.comm_manager.comms.pop(self.comm_id, None)
        for desk in self._desks.values():
            desk.close()
        self._publish("comm_close", {})

    def handle_msg(self, message: Any) -> None:
        """A panel asks something; in whichever shell it asked."""
        asked = message["content"]["data"]
        desk = self._desk()
        if isinstance(asked, dict) and asked.get("kind") in ("report", "saveTool"):
            desk.answer(asked.get("id"), self._about if asked["kind"] == "report" else self._keep, asked.get("payload"))
            return
        desk.receive(asked)

    def handle_close(self, _message: Any) -> None:
        """One panel let go, as other front ends may do; the line is there for the next."""
        self.list()

    def _desk(self) -> Desk:
        """The desk, made by the first question; of two first ones, one makes it."""
        if not self._desks:
            from onetool_ipy.faces.notebook.display import keep
            from onetool_ipy.faces.widgets.requests import Desk

            box, shell = self._box(), self._shell
            made = Desk(box, send=self._send, namespace=lambda: shell.user_ns, keep=lambda result: keep(box, result))
            if self._desks.setdefault("desk", made) is not made:
                made.close()
        return self._desks["desk"]

    def _send(self, message: Json) -> None:
        self._publish("comm_msg", message)

    def _publish(self, kind: str, data: Json) -> None:
        """Send to every panel; the message belongs to no cell."""
        kernel = self._kernel
        content = {"comm_id": self.comm_id, "data": data}
        kernel.session.send(kernel.iopub_socket, kind, content, parent=None, ident=f"comm-{self.comm_id}".encode())

    def _about(self, _payload: Json) -> Json:
        """How the project is, as far as it is known: no server is started for it."""
        box = self._box()
        box.gate.refresh()
        box.registry.refresh()
        specs = box.registry.known()
        listed = repr([(spec.name, bool(spec.disabled)) for spec in specs])
        servers = {name: {"state": state, "reason": box.servers.reason(name)} for name, state in box.servers.items()}
        return {
            "version": __version__,
            "project": str(box.config.paths.project),
            "trust": trust_of(box),
            "tools": len(specs),
            "fingerprint": blake2b(listed.encode()).hexdigest()[:16],
            "problems": [{"where": p.where, "message": p.message, "hint": p.hint} for p in box.problems()],
            "servers": servers,
        }

    def _keep(self, payload: Json) -> Json:
        from onetool_ipy.faces.widgets.state import keep_tool

        return keep_tool(self._box(), str(payload.get("name") or ""), str(payload.get("source") or ""))
