"""The side panel's connection to this kernel: one comm, listed so that a panel finds it without running code here.

A panel asks the kernel for the comms of our target (`comm_info_request`), which costs a kernel without us nothing and
prints nothing. All panels share the comm; each knows its answers by the ids of its requests. It is not a `Comm` of
ipykernel, which sends a request to the shell that published last: ours are answered in the shell that received them,
also while a cell runs. `ScreenRequests` is loaded by the first request.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.core.result import Json
    from onetool_ipy.faces.notebook.host import NotebookHost
    from onetool_ipy.faces.widgets.requests import ScreenRequests

__all__ = ["TARGET", "PanelComms"]


TARGET = "onetool_ipy.panel"


class PanelComms:
    """The comm of all panels with one shell."""

    def __init__(self, shell: Any, host: Callable[[], NotebookHost]) -> None:
        self._shell = shell
        self._host = host
        self._comm: _PanelComm | None = None

    def install(self) -> None:
        """List the comm, so that panels find it."""
        kernel = getattr(self._shell, "kernel", None)
        if getattr(kernel, "comm_manager", None) is not None:
            self._comm = _PanelComm(kernel, self._shell, self._host)
            self._comm.list()

    def send(self, message: Json) -> None:
        """Send an event to every panel, if this kernel can have one."""
        if self._comm is not None:
            self._comm.send(message)

    def remove(self) -> None:
        """Remove the comm and tell the panels; may be called twice."""
        comm, self._comm = self._comm, None
        if comm is not None:
            comm.close()


class _PanelComm:
    """A comm as ipykernel expects it: an id, a target, and `handle_msg`."""

    target_name = TARGET

    def __init__(self, kernel: Any, shell: Any, host: Callable[[], NotebookHost]) -> None:
        self.comm_id = os.urandom(16).hex()
        self._kernel = kernel
        self._shell = shell
        self._host = host
        self._requests: dict[str, ScreenRequests] = {}

    def list(self) -> None:
        """Add the comm to the kernel's list."""
        self._kernel.comm_manager.register_comm(self)

    def close(self) -> None:
        """Remove the comm from the list, and tell the panels."""
        self._kernel.comm_manager.comms.pop(self.comm_id, None)
        for requests in self._requests.values():
            requests.close()
        self._publish("comm_close", {})

    def handle_msg(self, message: Any) -> None:
        """Answer a panel's request, in the shell that received it."""
        self._screen_requests().receive(message["content"]["data"])

    def handle_close(self, _message: Any) -> None:
        """One panel closed its end, as other front ends may do; the comm stays for the others."""
        self.list()

    def _screen_requests(self) -> ScreenRequests:
        """Made by the first request; if two arrive at once, one of them makes it."""
        if not self._requests:
            from onetool_ipy.faces.widgets.requests import ScreenRequests

            shell = self._shell
            host = self._host()
            made = ScreenRequests(
                host.box, send=self.send, namespace=lambda: shell.user_ns, questions=host.open_questions()
            )
            if self._requests.setdefault(self.comm_id, made) is not made:
                made.close()
        return self._requests[self.comm_id]

    def send(self, message: Json) -> None:
        """Send a reply or an event to every panel."""
        self._publish("comm_msg", message)

    def _publish(self, kind: str, data: Json) -> None:
        """Send a message to every panel; it belongs to no cell."""
        kernel = self._kernel
        content = {"comm_id": self.comm_id, "data": data}
        kernel.session.send(kernel.iopub_socket, kind, content, parent=None, ident=f"comm-{self.comm_id}".encode())
