"""NotebookHost: the notebook as its toolbox sees it. Made when the toolbox opens.

It shows the progress of calls and jobs in their cells, asks the trust question, opens the screens,
offers packs as names, and gives errors of tools their few lines. `extension` owns loading and
unloading.

The trust question (`TrustQuestion`): may the code, servers and HTTP tools of this project run? It
is asked once for each subject and lists what a yes would let run. It is put on the page, with
buttons, or typed; then a yes is `y` or `yes`. If nobody can be asked, or after a no, the call is
refused with the line to type.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import Untrusted
from onetool_ipy.base.files import Stamp, is_young, stamp_of
from onetool_ipy.base.printable import printable
from onetool_ipy.core import current
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolCall, ToolSpec
from onetool_ipy.faces.notebook.display import CellLimits, LastFailure
from onetool_ipy.faces.notebook.jobs import JobDisplay, JobDisplays
from onetool_ipy.faces.notebook.names import Namespace
from onetool_ipy.faces.notebook.running_cell import CellProgress, cell_output, is_watched
from onetool_ipy.faces.widgets.comms import PanelComms
from onetool_ipy.faces.widgets.questions import MIME, OpenQuestions, outcome_text
from onetool_ipy.host import Host
from onetool_ipy.proxies import PackProxy
from onetool_ipy.render import html
from onetool_ipy.schema.read import identifier
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.faces.widgets.widget import NotebookScreens


class NotebookHost(Host):
    """The host of one toolbox in one shell."""

    def __init__(
        self,
        shell: Any,
        box: Toolbox,
        limits: CellLimits,
        names: Namespace,
        panels: PanelComms,
        run_code: Callable[[str, str], object],
    ) -> None:
        self.box = box
        self.last = LastFailure(shell, box.mask)
        self.progress = CellProgress(shell, box.workers, box.mask)
        self.progress.interrupts.style = self.last.hide_our_frames
        self.listen = self.progress
        self.jobs = JobDisplays(shell, box, limits)
        self.questions = OpenQuestions(panels.send)
        """The questions that stand on the pages of this kernel."""
        self._shell = shell
        self._run_code = run_code
        self._names = names
        self._question = TrustQuestion(box)
        self._offered: set[str] = set()
        self._bundles_folder = box.config.paths.bundles
        self._bundles: tuple[Stamp | None, bool] = (None, False)
        self._screens: NotebookScreens | None = None
        box.host = self
        box.subscribe(changed=self._tools_changed)

    def stop(self) -> None:
        """Stop redrawing outputs."""
        self.progress.loop.stop()
        self.jobs.loop.stop()

    def offer_packs(self) -> None:
        """Offer the project's packs as names in the notebook."""
        self._offered = {"ot"}
        self._offer_new_packs()

    def _offer_new_packs(self) -> None:
        packs = [name for name in self.box.parts.pack_names if name not in self._offered]
        self._offered.update(packs)
        self._names.offer([(identifier(name), PackProxy(self.box, name)) for name in packs])

    def before_cell(self) -> None:
        """Notice what changed in the bundles: other packs from a screen or another process, and
        other switches."""
        before, was_young = self._bundles
        stamp = stamp_of(self._bundles_folder)
        # A second change within one tick of the clock leaves the stamp as it is: look once more
        # when it is over.
        if stamp != before or (was_young and not (stamp is not None and is_young(stamp))):
            self._bundles = (stamp, stamp is not None and is_young(stamp))
            self.box.parts.expire()
            self._offer_new_packs()
        self.progress.before_cell()

    def _tools_changed(self) -> None:
        # Only the main thread may add names: elsewhere the cell's own code may be going through
        # them.
        if threading.current_thread() is threading.main_thread():
            self._offer_new_packs()
        else:
            self._bundles = (None, True)

    def listen_to_job(self, call: ToolCall) -> JobDisplay | None:
        return self.jobs(call)

    def adopted(self, spec: ToolSpec) -> None:
        proxy = self.box.pack(spec.pack)
        if proxy is not None:
            self._names.offer([(identifier(spec.pack), proxy)])

    def reloaded(self) -> None:
        self._bundles_folder = self.box.config.paths.bundles
        self.offer_packs()
        added = self.box.servers.added()
        self._names.offer([(identifier(name), PackProxy(self.box, name)) for name in added])
        packs = {
            "ot",
            *self.box.parts.pack_names,
            *self.box.servers,
            *self.box.registry.known_packs(),
        }
        names = set(map(identifier, packs))
        self._names.withdraw(lambda name, value: isinstance(value, PackProxy) and name not in names)

    def has_name(self, name: str) -> bool:
        return not self._names.is_free(name)

    def _is_persons(self, module: str, names: Mapping[str, object]) -> bool:  # noqa: ARG002 - the signature is the host's
        return names is self._shell.user_ns

    def _program(self) -> Mapping[str, object]:
        names: Mapping[str, object] = self._shell.user_ns
        return names

    def inputs(self) -> Sequence[str]:
        return list(self._shell.history_manager.input_hist_parsed)

    def note(self, text: str) -> None:
        if threading.current_thread() is threading.main_thread():  # a job has its own output
            self.progress.make_way()
            self._shell.display_pub.publish(
                {"text/plain": printable(text), "text/html": html.note(text)}
            )

    def call_failed(self, result: ToolResult) -> None:
        self.last.remember(result)

    def style_error(self, exc: BaseException) -> None:
        self.last.style(exc)

    def run_code(self, code: str, name: str, namespace: dict[str, object]) -> object:  # noqa: ARG002 - the notebook has its own
        return self._run_code(code, name)

    def ask_for_trust(self, needed: Untrusted) -> None:
        self._question(needed)

    def ask(self, question: Question) -> Reply:
        """Ask on the page, in the running cell and in the panel; else as text, where a cell waits
        for the reply."""
        kernel = getattr(self._shell, "kernel", None)
        if kernel is None:
            return super().ask(question)
        is_in_cell = is_watched(self._shell)
        if (
            not is_in_cell
            and kernel.get_parent("shell").get("header", {}).get("msg_type") != "comm_msg"
        ):
            raise NobodyToAsk(
                f"{question.subject} asks a person, and this notebook runs without one."
            )
        here = current.scope()
        # A job's cell may have ended.
        can_type = is_in_cell and (here is None or here.printed is None)
        output, reply = cell_output(self._shell) if is_in_cell else None, None

        def show(key: str) -> None:
            if output is not None:
                text = f"{question.subject} asks you." if question.trust is None else question.text
                output.show({"text/plain": text, MIME: {"id": key}}, is_last=False)

        try:
            can_show = "kernel subshells" in kernel.kernel_info.get("supported_features", ())
            reply = self.questions.ask(question, show) if can_show else None
            if reply is None and not can_type:
                raise NobodyToAsk(
                    f"{question.subject} asks a person, and no page of this notebook shows the"
                    " question."
                )
            reply = reply or super().ask(question)
            return reply
        finally:
            outcome = self.box.mask(outcome_text(question, reply, time.strftime("%H:%M")))
            if output is not None:
                output.show(
                    {"text/plain": printable(outcome), "text/html": html.note(outcome)},
                    is_last=True,
                )

    def screens(self) -> NotebookScreens:
        if self._screens is None:
            # Late: it loads ipywidgets.
            from onetool_ipy.faces.widgets.widget import NotebookScreens

            self._screens = NotebookScreens(self.box, self._shell)
            self.box.subscribe(closing=self._screens.close)
        return self._screens


class TrustQuestion:
    """Asks the person who uses one shell."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._answered: set[tuple[str, str]] = set()

    def __call__(self, needed: Untrusted) -> None:
        """Ask for the trust that a call needs; a yes is recorded and holds from now on."""
        inventory, part = self._box.gate.inventory(), needed.part
        about = (
            inventory.folder,
            repr([each for each in inventory.parts if each.key == part]) if part else "",
        )
        if about in self._answered or threading.current_thread() is not threading.main_thread():
            return
        data = {**inventory.to_dict(), "part": part}
        if part:
            data["parts"] = [each for each in data["parts"] if each["key"] == part]
        text = "\n".join(self._box.gate.question_lines(part))
        question = Question("this project", text, trust=values.map_text(data, self._box.mask))
        try:
            reply = self._box.host.ask(question)
        except NobodyToAsk:
            return
        if reply.action == "accept":
            self._box.gate.grant(part, shown=inventory)
        self._answered.add(about)
