"""The side panel's connection to this kernel: one comm, listed so that a panel finds it without
running code here.

A panel asks the kernel for the comms of our target (`comm_info_request`), which costs a kernel
without us nothing and prints nothing. All panels share the comm; each knows its answers by the ids
of its requests. It is not a `Comm` of ipykernel, which sends a request to the shell that published
last: ours are answered in the shell that received them, also while a cell runs. `ScreenRequests` is
loaded by the first request.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from onetool_ipy.base.exits import before_exit

if TYPE_CHECKING:
    from onetool_ipy.base.values import Json
    from onetool_ipy.faces.widgets.questions import OpenQuestions
    from onetool_ipy.faces.widgets.requests import ScreenRequests
    from onetool_ipy.toolbox import Toolbox


TARGET = "onetool_ipy.panel"


class PanelHost(Protocol):
    """What the panels need of the notebook they belong to."""

    box: Toolbox
    questions: OpenQuestions


class PanelComms:
    """The comm of all panels with one shell, as ipykernel expects it: an id, a target, and
    `handle_msg`."""

    target_name = TARGET

    def __init__(self, shell: Any, host: Callable[[], PanelHost]) -> None:
        self.comm_id = os.urandom(16).hex()
        self._shell = shell
        self._kernel: Any = getattr(shell, "kernel", None)
        self._host = host
        self._is_installed = False
        self._requests: dict[str, ScreenRequests] = {}

    def install(self) -> None:
        """List the comm, so that panels find it, if this kernel can have one."""
        if getattr(self._kernel, "comm_manager", None) is not None:
            self._is_installed = True
            self._list()

    def send(self, message: Json) -> None:
        """Send an event to every panel, if there can be one."""
        if self._is_installed:
            self._reply(message)

    def remove(self) -> None:
        """Remove the comm and tell the panels; may be called twice."""
        if not self._is_installed:
            return
        self._is_installed = False
        self._kernel.comm_manager.comms.pop(self.comm_id, None)
        for requests in self._requests.values():
            requests.close()
        self._publish("comm_close", {})

    def handle_msg(self, message: Any) -> None:
        """Answer a panel's request, in the shell that received it."""
        self._host().questions.expect_page()
        self._screen_requests().receive(message["content"]["data"])

    def handle_close(self, _message: object) -> None:
        """One panel closed its end, as other front ends may do; the comm stays for the others."""
        self._list()

    def _list(self) -> None:
        """Add the comm to the kernel's list."""
        self._kernel.comm_manager.register_comm(self)

    def _screen_requests(self) -> ScreenRequests:
        """Made by the first request; if two arrive at once, one of them makes it."""
        if not self._requests:
            from onetool_ipy.faces.widgets.requests import ScreenRequests

            shell = self._shell
            host = self._host()
            requests = ScreenRequests(
                host.box,
                send=self._reply,
                namespace=lambda: shell.user_ns,
                questions=host.questions,
            )
            if self._requests.setdefault(self.comm_id, requests) is not requests:
                requests.close()
        return self._requests[self.comm_id]

    def _reply(self, message: Json) -> None:
        """Send the reply or event of a request to every panel; it may still come after `remove`."""
        self._publish("comm_msg", message)

    def _publish(self, kind: str, data: Json) -> None:
        """Send a message to every panel; it belongs to no cell."""
        kernel = self._kernel
        content = {"comm_id": self.comm_id, "data": data}
        ident = f"comm-{self.comm_id}".encode()
        before_exit.send(
            lambda: kernel.session.send(
                kernel.iopub_socket, kind, content, parent=None, ident=ident
            )
        )
