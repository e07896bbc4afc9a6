"""The side panel's line to this kernel: a comm target, and a desk behind each comm that is opened on it.

Registered when the extension loads, which costs nothing: everything is made when a panel opens its line. The panel asks
what the widgets ask, and a little more: what is wrong, and where the project is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__

if TYPE_CHECKING:
    from onetool_ipy.core.model import Json
    from onetool_ipy.toolbox import Toolbox

__all__ = ["TARGET", "PanelComms"]

TARGET = "onetool_ipy.panel"


class PanelComms:
    """The lines of all panels to one shell."""

    def __init__(self, shell: Any, box: Callable[[], Toolbox]) -> None:
        self._shell = shell
        self._box = box
        self._lines: list[_Line] = []

    def install(self) -> None:
        """Let panels open a line."""
        manager = self._manager()
        if manager is not None:
            manager.register_target(TARGET, self._opened)

    def remove(self) -> None:
        """Close every line, and take no more."""
        manager = self._manager()
        if manager is not None and TARGET in manager.targets:
            manager.unregister_target(TARGET, manager.targets[TARGET])
        while self._lines:
            self._lines.pop().close()

    def _manager(self) -> Any:
        return getattr(getattr(self._shell, "kernel", None), "comm_manager", None)

    def _opened(self, comm: Any, _message: Any) -> None:
        self._lines.append(_Line(comm, self._box(), self._shell))


class _Line:
    """One comm, and the desk that answers on it."""

    def __init__(self, comm: Any, box: Toolbox, shell: Any) -> None:
        from onetool_ipy.faces.ipython.display import keep
        from onetool_ipy.faces.widgets.desk import Desk

        self._comm = comm
        self._box = box
        self._desk = Desk(box, send=self._send, namespace=lambda: shell.user_ns, keep=lambda result: keep(box, result))
        comm.on_msg(self._received)
        comm.on_close(lambda _message: self._desk.close())

    def close(self) -> None:
        self._desk.close()
        self._comm.close()

    def _send(self, message: Json) -> None:
        self._comm.send(message)

    def _received(self, message: Any) -> None:
        asked = message["content"]["data"]
        if isinstance(asked, dict) and asked.get("kind") == "about":
            self._send({"id": asked.get("id"), "value": self._about()})
            return
        self._desk.receive(asked)

    def _about(self) -> Json:
        """How the project is, as far as it is known: no server is started for it."""
        box = self._box
        paths = box.config.paths
        problems = [{"where": p.where, "message": p.message, "hint": p.hint} for p in box.problems()]
        states = dict(box.servers)
        return {
            "version": __version__,
            "project": str(paths.project),
            "tools": len(box.registry.list()),
            "problems": problems,
            "servers": states,
        }
