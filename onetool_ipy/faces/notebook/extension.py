"""`%load_ext onetool_ipy`: registers magics, shortcuts, Tab and formatters, offers names. Unload takes all back.

Prints nothing, unless the configuration has a fault or a name of ours is taken; runs nothing of the project. Where
there is no configuration the toolbox is opened by the first cell that uses it, so that loading costs next to nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.background import ForkLock
from onetool_ipy.base.printable import printable
from onetool_ipy.core import current
from onetool_ipy.faces.notebook import cell_input
from onetool_ipy.faces.notebook.inspection import Inspector
from onetool_ipy.faces.notebook.magics import OneTool
from onetool_ipy.faces.notebook.namespace import LazyObject, Namespace
from onetool_ipy.faces.widgets.comms import PanelComms
from onetool_ipy.host import Host

if TYPE_CHECKING:
    from onetool_ipy.base.errors import Untrusted
    from onetool_ipy.core.executor import CallListener
    from onetool_ipy.core.jobs import JobListener
    from onetool_ipy.core.tool import ToolCall, ToolSpec
    from onetool_ipy.faces.notebook.errors import LastFailure
    from onetool_ipy.faces.notebook.jobs import JobDisplays
    from onetool_ipy.faces.notebook.progress import CellProgress
    from onetool_ipy.faces.notebook.trust import TrustQuestion
    from onetool_ipy.faces.widgets.widget import NotebookScreens
    from onetool_ipy.toolbox import Toolbox

__all__ = ["Extension", "load", "unload"]

_KEY = "onetool_ipy"
_RESULT = ("onetool_ipy.core.result", "ToolResult")
_JOB = ("onetool_ipy.core.jobs", "Job")
_LISTING = ("onetool_ipy.render.views", "Listing")
_RECORD = ("onetool_ipy.render.views", "Record")


class Extension(Host):
    """Everything that one shell has of us, and the host of its toolbox."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.names = Namespace(shell)
        self.magics = OneTool(shell, self)
        self.input_hooks = InputHooks(shell)
        self.inspector = Inspector(shell)
        self.panels = PanelComms(shell, lambda: self.box)
        self._box: Toolbox | None = None
        self._opening = ForkLock()
        self._last: LastFailure | None = None
        self._cells: CellProgress | None = None
        self._screens: JobDisplays | None = None
        self._views: NotebookScreens | None = None
        self._question: TrustQuestion | None = None
        self._is_in_cell = False

    @property
    def box(self) -> Toolbox:
        """The toolbox of this shell, opened when it is first needed: by a cell, or by a panel while a cell runs."""
        if self._box is None:
            with self._opening.mine():
                if self._box is None:
                    self._box = self._open()
        return self._box

    def _open(self) -> Toolbox:
        from onetool_ipy.assemble import open_leniently

        current.expect(None)
        box = open_leniently()
        self._watch(box)
        box.host = self
        return box

    def listen(self, call: ToolCall) -> CallListener | None:
        return None if self._cells is None else self._cells(call)

    def reloaded(self) -> None:
        self.offer()

    def style_error(self, exc: BaseException) -> None:
        self.last.dress(exc)

    def run_code(self, code: str, name: str, namespace: dict[str, Any]) -> Any:  # noqa: ARG002 - the notebook has its own
        return self.magics.runner.run_code(code, name)

    def ask_for_trust(self, needed: Untrusted) -> None:
        """Let the person say whether what a call needs may run."""
        if self._question is None:
            from onetool_ipy.faces.notebook.trust import TrustQuestion

            self._question = TrustQuestion(self.shell, self.box)
        self._question(needed)

    @property
    def last(self) -> LastFailure:
        """What went wrong last."""
        if self._last is None:
            from onetool_ipy.faces.notebook.errors import LastFailure

            self._last = LastFailure(self.shell, self._mask)
        return self._last

    def _watch(self, box: Toolbox) -> None:
        """Let the cells show what they wait for."""
        from onetool_ipy.faces.notebook.progress import CellProgress

        self._cells = CellProgress(self.shell, box.workers, box.mask)
        box.jobs.listen = self._screen
        if self._is_in_cell and threading.current_thread() is threading.main_thread():
            self._cells.before_cell()

    def _screen(self, call: ToolCall) -> JobListener | None:
        """A place for a job's output in the cell that starts it."""
        if self._screens is None:
            from onetool_ipy.faces.notebook.jobs import JobDisplays

            self._screens = JobDisplays(self.shell, self.box, self.magics)
        return self._screens(call)

    def screens(self) -> NotebookScreens:
        from onetool_ipy.faces.widgets.widget import NotebookScreens

        if self._views is None:
            self._views = NotebookScreens(self.box, self.shell)
            self.box.subscribe(closing=self._views.close)
        return self._views

    def _mask(self, text: str) -> str:
        return self.box.mask(text)

    def start(self) -> None:
        """Put everything in its place."""
        self.magics.install()
        self.input_hooks.install(self.magics)
        self.inspector.install(lambda: self.magics.names, self._page_text)
        self.panels.install()
        self._show_results()
        self.shell.events.register("pre_run_cell", self._before_cell)
        self.shell.events.register("post_run_cell", self._after_cell)
        self._is_in_cell = True  # the one that loads us
        self.names.offer([("ot", LazyObject(lambda: self.box.ot))])
        if _has_project():
            self.offer()
            self._warn()
        else:
            current.expect(lambda: self.box)

    def _page_text(self, name: str, is_shortcut: bool) -> str:
        return self.magics.runner.page_text(name, is_shortcut)

    def stop(self) -> None:
        """Leave nothing behind."""
        self.shell.events.unregister("pre_run_cell", self._before_cell)
        self.shell.events.unregister("post_run_cell", self._after_cell)
        self._after_cell(None)
        for each in (self._cells, self._screens):
            if each is not None:
                each.loop.stop()
        self.names.withdraw()
        _forget(self.shell.display_formatter.mimebundle_formatter, _RESULT)
        _forget(self.shell.display_formatter.ipython_display_formatter, _JOB)
        for name in (_LISTING, _RECORD):
            _forget(self.shell.display_formatter.formatters["text/plain"], name)
        self.input_hooks.remove()
        self.inspector.remove()
        self.panels.remove()
        self.magics.remove()
        current.expect(None)
        if self._box is not None:
            self._box.close()

    def offer(self) -> None:
        """Offer the project's packs as names."""
        from onetool_ipy.schema.read import identifier
        from onetool_ipy.toolbox import PackProxy

        packs = [name for name in self.box.parts.pack_names if name != "ot"]
        self.names.offer([(identifier(name), PackProxy(self.box, name)) for name in packs])

    def adopted(self, spec: ToolSpec) -> None:
        from onetool_ipy.schema.read import identifier

        proxy = self.box.pack(spec.pack)
        if proxy is not None:
            self.names.offer([(identifier(spec.pack), proxy)])

    def _show_results(self) -> None:
        """Register by name, so that nothing is loaded before there is a result to show."""

        def bundle(result: Any, **_kwargs: Any) -> Any:
            from onetool_ipy.faces.notebook import display

            return display.bundle(self.shell, self.box, result, self.magics)

        def show(job: Any) -> None:
            if self._screens is None or not self._screens.show(job):
                self.shell.display_pub.publish({"text/plain": repr(job)})

        if getattr(self.shell, "kernel", None) is None:
            self._show_tables()
        self.shell.display_formatter.mimebundle_formatter.for_type_by_name(*_RESULT, bundle)
        self.shell.display_formatter.ipython_display_formatter.for_type_by_name(*_JOB, show)

    def _show_tables(self) -> None:
        """In a terminal, which has no HTML, what `ot` lists shows as tables of text."""

        def listing(rows: Any, printer: Any, _cycle: bool) -> None:
            from onetool_ipy.render.views import listing_text

            printer.text(listing_text(rows, get_terminal_size().columns))

        def record(found: Any, printer: Any, _cycle: bool) -> None:
            from onetool_ipy.render.views import record_text

            printer.text(record_text(found, get_terminal_size().columns))

        plain = self.shell.display_formatter.formatters["text/plain"]
        plain.for_type_by_name(*_LISTING, listing)
        plain.for_type_by_name(*_RECORD, record)

    def _before_cell(self, _info: Any) -> None:
        self.names.restore()
        self._is_in_cell = True
        if self._cells is not None:
            self._cells.before_cell()

    def _after_cell(self, _result: Any) -> None:
        self._is_in_cell = False
        if self._cells is not None:
            self._cells.after_cell()
        _spare_packs(self.shell)

    def _warn(self) -> None:
        problems = self.box.config.problems
        if problems:
            more = f" (and {len(problems) - 1} more: ot.health())" if len(problems) > 1 else ""
            print(printable(self.box.mask(f"onetool_ipy: {problems[0]}{more}")))  # noqa: T201 - the one line of contract 15


class InputHooks:
    """What we add to how a cell is read: shortcuts, `%tool NAME?` and Tab."""

    def __init__(self, shell: Any) -> None:
        self._transformers = shell.input_transformer_manager.token_transformers
        self._matchers = shell.Completer.custom_matchers
        self._ours: list[tuple[list[Any], Any]] = []

    def install(self, magics: OneTool) -> None:
        """Register with IPython's own lists."""
        transformers = [cell_input.Shortcut, *(cell_input.help_on(name) for name in magics.names)]
        transformers += [cell_input.prompt_of(name) for name in magics.prompts]
        transformers += [cell_input.prompt_of(name, only_assigned=True) for name in magics.names]
        self._ours = [*((self._transformers, each) for each in transformers), (self._matchers, _matcher(magics))]
        for registered, ours in self._ours:
            registered.append(ours)

    def remove(self) -> None:
        """Take back what `install` added."""
        for registered, ours in self._ours:
            if ours in registered:
                registered.remove(ours)
        self._ours.clear()


def _matcher(magics: OneTool) -> Any:
    """A matcher that loads completion at the first Tab."""
    from IPython.core.completer import context_matcher

    @context_matcher()  # type: ignore[untyped-decorator]  # IPython has no types here
    def onetool_matcher(context: Any) -> Any:
        from onetool_ipy.faces.notebook import completion

        return completion.answer(
            context.text_until_cursor, magics.runner.completion_context(), magics.names, cell=context.full_text
        )

    return onetool_matcher


def _spare_packs(shell: Any) -> None:
    """Keep `%autoreload` from our modules of pack files: an edited one is used by its next call anyway."""
    autoreload = shell.magics_manager.registry.get("AutoreloadMagics")
    if autoreload is not None:
        for name in [name for name in sys.modules if name.startswith("onetool_pack_")]:
            autoreload._reloader.mark_module_skipped(name)


def _has_project() -> bool:
    """Whether a configuration is to be read; looks for it as `load_config` does."""
    from onetool_ipy.config.paths import find_config

    found = find_config(None, env=os.environ, cwd=Path.cwd(), home=Path.home())
    return found.onetool_dir is not None or found.config_file is not None or bool(found.problems)


def _forget(formatter: Any, name: tuple[str, str]) -> None:
    formatter.deferred_printers.pop(name, None)
    for kind in [k for k in formatter.type_printers if (k.__module__, k.__name__) == name]:
        del formatter.type_printers[kind]


def load(shell: Any) -> None:
    """Load into a shell; loading twice is loading anew."""
    unload(shell)
    extension = Extension(shell)
    extension.start()
    shell.magics_manager.registry[_KEY] = extension


def unload(shell: Any) -> None:
    """Leave nothing behind."""
    extension = shell.magics_manager.registry.pop(_KEY, None)
    if extension is not None:
        extension.stop()
