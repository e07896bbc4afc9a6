"""`%load_ext onetool_ipy`: registers magics, shortcuts, Tab and displays, and offers names.
Unloading removes them all.

`OneTool` has the magics `%tool`, `%%tool`, `%snippet`, `%ask` as IPython sees them, and the
settings of `%config OneTool`. Loading prints nothing, unless the configuration has a fault or the
name of a magic is taken; it runs nothing of the project. If there is no configuration, the first
cell that needs the toolbox opens it, so loading costs next to nothing: this module imports little.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, magics_class, needs_local_scope, no_var_expand
from traitlets import Bool, Float, Int, Unicode

from onetool_ipy.base import forks
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.printable import printable
from onetool_ipy.base.records import collector_paused
from onetool_ipy.config.kept_names import KeptNames, read_names
from onetool_ipy.config.paths import find_config, home_of
from onetool_ipy.core import current
from onetool_ipy.faces.notebook import cell_input
from onetool_ipy.faces.notebook.cell_input import RUNNER, SHOWER
from onetool_ipy.faces.notebook.inspection import Inspector
from onetool_ipy.faces.notebook.names import LazyObject, Namespace
from onetool_ipy.faces.widgets.comms import PanelComms

if TYPE_CHECKING:
    from IPython.core.inputtransformer2 import TokenTransformBase

    from onetool_ipy.faces.notebook.ask import AskMagic
    from onetool_ipy.faces.notebook.host import NotebookHost
    from onetool_ipy.faces.notebook.run import LineRunner
    from onetool_ipy.proxies import PackProxy
    from onetool_ipy.toolbox import Toolbox

_OTHER_NAME = "onetool"
_KEY = "onetool_ipy"
_RESULT = ("onetool_ipy.core.result", "ToolResult")
_LINES = ("onetool_ipy.core.result", "LinePage")
_JOB = ("onetool_ipy.core.jobs", "Job")
_LISTING = ("onetool_ipy.render.views", "Listing")
_RECORD = ("onetool_ipy.render.views", "Record")
_MAX_LINKS = 100
"""Exceptions whose contexts form a ring are looked at so often."""


@magics_class
class OneTool(Magics):
    """The magics of one shell, and the settings of `%config OneTool` for this session."""

    max_lines = Int(60, min=1, help="Lines of a result that a cell shows.").tag(config=True)
    max_chars = Int(20_000, min=100, help="Characters of a result that a cell shows.").tag(
        config=True
    )
    soft = Bool(False, help="Give failed results instead of raising.").tag(config=True)
    timeout = Float(
        None,
        allow_none=True,
        help="Seconds a %tool call may take where neither it nor its tool says.",
    ).tag(config=True)
    magic_name = Unicode("tool", help="The name of the magic; read when the extension loads.").tag(
        config=True
    )

    def __init__(self, shell: Any, host: Callable[[], NotebookHost]) -> None:
        super().__init__(shell, config=shell.config)
        self._shell = shell
        self._host = host
        self._registered: list[str] = []
        self.names: list[str] = []
        self.prompts: list[str] = []

    def install(self) -> None:
        """Register the magics; if another extension has `%tool`, ours is `%onetool`."""
        name = self.magic_name
        if _is_taken(self._shell.magics_manager, name):
            name = _OTHER_NAME
            message = f"onetool_ipy: %{self.magic_name} belongs to another extension; use %{name}."
            print(message)  # noqa: T201 - shown once, if the name is taken
        self.names.append(name)
        self._register(name, "line_cell", self.tool)
        self._register("snippet", "line_cell", self.snippet)
        if self._register("ask", "line_cell", self.ask):
            self.prompts.append("ask")
        self._register(RUNNER, "line", self.shortcut)
        self._register(SHOWER, "line", self.show)

    def remove(self) -> None:
        """Undo `install`."""
        if "_asking" in self.__dict__:
            self._asking.remove()
        for name in self._registered:
            for kind in ("line", "cell"):
                self._shell.magics_manager.magics[kind].pop(name, None)
        self._registered.clear()
        self.names.clear()
        self.prompts.clear()
        configurables = self._shell.configurables
        configurables[:] = [each for each in configurables if each is not self]

    @cached_property
    def runner(self) -> LineRunner:
        # At the first use some 100 modules are loaded. What they define stays, so the collector
        # would look in vain.
        with collector_paused():
            from onetool_ipy.faces.notebook.run import LineRunner

            host = self._host()
        return LineRunner(self._shell, host.box, host.last, self)

    @cached_property
    def _asking(self) -> AskMagic:
        from onetool_ipy.faces.notebook.ask import AskMagic

        host = self._host()
        return AskMagic(self._shell, host.box, host.last, self, self.names[0])

    def _register(self, name: str, kind: str, function: Callable[..., Any]) -> bool:
        if name not in self.names and _is_taken(self._shell.magics_manager, name):
            return False
        self._shell.magics_manager.register_function(function, magic_kind=kind, magic_name=name)
        self._registered.append(name)
        return True

    @no_var_expand
    @needs_local_scope
    def tool(
        self, line: str, cell: str | None = None, local_ns: dict[str, object] | None = None
    ) -> object:
        """Find and call tools.

        %tool                       what there is
        %tool list [TEXT]           all tools, or those with TEXT in their name
        %tool search WORDS          find by words; typos are forgiven
        %tool info NAME             what a tool does and takes (also: %tool NAME?)
        %tool NAME key=value ...    call it; {expression} passes an object of yours
        x = %tool NAME ...          keep the result: x.data, x.df, x[0]
        %%tool NAME                 the cell's body is the text argument
        %tool help                  everything else
        """
        with _stopped_in_a_line(f"%{self.names[0]} {_first(line)}"):
            return self.runner.tool(line, cell, local_ns or {})

    @no_var_expand
    @needs_local_scope
    def snippet(
        self, line: str, cell: str | None = None, local_ns: dict[str, object] | None = None
    ) -> object:
        """Make a snippet of a cell, and run it.

        %%snippet NAME param=default    the body is kept; {{ param }} in it is filled; --save \
keeps it for good
        %snippet NAME param=value       run it, as $NAME param=value does
        %snippet NAME --show            what it expands to
        %snippet                        the snippets there are
        """
        with _stopped_in_a_line(f"%snippet {_first(line)}"):
            return self.runner.snippet(line, cell, local_ns or {})

    @no_var_expand
    @needs_local_scope
    def ask(
        self, line: str, cell: str | None = None, local_ns: dict[str, object] | None = None
    ) -> object:
        """Ask a model, which may call tools: %ask PROMPT, a = %ask PROMPT; %ask alone tells
        more."""
        with _stopped_in_a_line("%ask"):
            return self._asking.run(line, cell, local_ns or {})

    @no_var_expand
    @needs_local_scope
    def shortcut(self, line: str, local_ns: dict[str, object] | None = None) -> object:
        """`$name k=v`, as `cell_input` rewrites it."""
        with _stopped_in_a_line(f"${_first(line)}"):
            return self.runner.shortcut(line, local_ns or {})

    def show(self, value: object) -> None:
        """Display the value of a line that is not the last of its cell, as `cell_input` rewrites
        it."""
        if value is not None:
            from IPython.display import display

            display(value)  # type: ignore[no-untyped-call]  # IPython has no types here


@contextmanager
def _stopped_in_a_line(what: str) -> Iterator[None]:
    """Show a Stop as one line, not as the frames of our own files. One of a call names the call
    already."""
    try:
        yield
    except KeyboardInterrupt as exc:
        if not hasattr(exc, "stopped_call"):
            line = f"KeyboardInterrupt: {what.rstrip()} was stopped."
            exc._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]  # IPython's protocol
        raise


def _first(line: str) -> str:
    return line.split(maxsplit=1)[0] if line.strip() else ""


def _is_taken(manager: Any, name: str) -> bool:
    """Whether another extension has a magic of that name; our own lazy entry does not count."""
    return name in manager.magics["line"] and manager.lazy_magics.get(name) != "onetool_ipy"


class Extension:
    """Everything that we add to one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.names = Namespace(shell)
        self.magics = OneTool(shell, lambda: self.host)
        self.input_hooks = InputHooks(shell)
        self.inspector = Inspector(shell)
        self.panels = PanelComms(shell, lambda: self.host)
        self._host: NotebookHost | None = None
        self._start: Path | None = None
        self._kept: KeptNames | None = None
        """The names that are offered while their packs are not."""
        self._names_of_ipython = ExitStack()
        self.after_fork()
        forks.register(self)
        self._is_in_cell = False

    def after_fork(self) -> None:
        """Take a lock of this process's own."""
        self._opening = threading.RLock()

    @property
    def box(self) -> Toolbox:
        """The toolbox of this shell, opened at its first use: by a cell, or by a panel while a cell
        runs."""
        return self.host.box

    @property
    def is_open(self) -> bool:
        """Whether the toolbox has been opened."""
        return self._host is not None

    @property
    def host(self) -> NotebookHost:
        """The host of the toolbox, made with it."""
        if self._host is None:
            with self._opening:
                if self._host is None:
                    self._host = self._open()
        return self._host

    def _open(self) -> NotebookHost:
        from onetool_ipy.assemble import open_leniently
        from onetool_ipy.faces.notebook.host import NotebookHost

        def run_code(code: str, name: str) -> object:
            return self.magics.runner.run_code(code, name)

        box = open_leniently(start=self._start)
        host = NotebookHost(self.shell, box, self.magics, self.names, self.panels, run_code)
        host.notebook = _notebook(self.shell)
        # Not before: a panel may open it while a cell registers a tool, which must wait for it.
        current.expect(None)
        if self._is_in_cell and threading.current_thread() is threading.main_thread():
            host.progress.before_cell()
        return host

    def _offer_packs(self) -> None:
        """Offer the packs of the project, if there is one. It is opened for that unless they are
        known from the last time."""
        project = _project()
        if project is None:
            current.expect(lambda: self.box)
            return
        self._start, self._kept = project
        if self._kept is None:
            self._offer_opened(self.host)
            self.box.parts.keep_pack_names()
            return
        current.expect(lambda: self.box)
        packs = self._kept.packs.items()
        self.names.offer([(name, LazyObject(partial(self._pack, pack))) for name, pack in packs])

    def _pack(self, name: str) -> PackProxy:
        from onetool_ipy.proxies import PackProxy

        return PackProxy(self.box, name)

    def _offer_opened(self, host: NotebookHost) -> None:
        """Offer the packs of the opened toolbox, and tell its first problem."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self.names.withdraw(lambda name, _value: name in kept.packs)
        host.offer_packs()
        problems = host.box.config.problems
        if problems:
            more = f" (and {len(problems) - 1} more: ot.health())" if len(problems) > 1 else ""
            print(printable(host.box.mask(f"onetool_ipy: {problems[0]}{more}")))  # noqa: T201 - the one line that loading prints

    def start(self) -> None:
        """Install everything."""
        # pandas looks once, at its import, for the builtin `get_ipython`, to know how wide a table
        # may be. IPython has it while a cell runs; a job or a panel may import pandas between two
        # cells.
        self._names_of_ipython.enter_context(self.shell.builtin_trap)
        self.magics.install()
        self.input_hooks.install(self.magics)
        # The runner is made at its first use, which opens the toolbox.
        self.inspector.install(
            lambda: self.magics.names,
            lambda *line: self.magics.runner.page_text(*line),  # noqa: PLW0108
        )
        self.panels.install()
        self._show_results()
        self._shows = partial(self._show_traceback, self.shell.showtraceback)
        self.shell.showtraceback = self._shows
        self.shell.events.register("pre_run_cell", self._before_cell)
        self.shell.events.register("post_run_cell", self._after_cell)
        self._is_in_cell = True  # the cell that loads us
        count = len(self.shell.history_manager.input_hist_parsed)
        current.enter_cell(str(count - 1), _cell_id(self.shell))
        self.names.offer([("ot", LazyObject(lambda: self.box.ot))])
        self._offer_packs()
        # Cells may have marked functions with `@tool` before they loaded us.
        for fn in current.waiting_functions():
            try:
                self.box.adopt(fn)
            except OneToolError as exc:
                message = f"onetool_ipy: {exc.message}"
                print(printable(self.box.mask(message)))  # noqa: T201 - loading goes on without this one

    def serve_to(self, project: str, pid: int) -> str:
        """Serve the tools to a process of the same user (`onetool-ipy mcp --attach`) until it ends.

        Returns, as JSON, what it needs; an empty text if the toolbox is of another project.
        """
        if str(self.box.config.paths.project) != project:
            return ""
        from onetool_ipy.faces.mcp.http import serve_to_process  # late: it loads the MCP SDK

        return json.dumps(serve_to_process(self.box, pid).client())

    def stop(self) -> None:
        """Remove everything."""
        self.shell.events.unregister("pre_run_cell", self._before_cell)
        self.shell.events.unregister("post_run_cell", self._after_cell)
        self._after_cell(None)
        if self._host is not None:
            self._host.stop()
        self.names.withdraw()
        if self.shell.showtraceback is self._shows:  # nobody else wrapped it since
            (self.shell.showtraceback,) = self._shows.args
        for name in (_RESULT, _LINES):
            _forget(self.shell.display_formatter.mimebundle_formatter, name)
        _forget(self.shell.display_formatter.ipython_display_formatter, _JOB)
        for name in (_LISTING, _RECORD, _LINES):
            _forget(self.shell.display_formatter.formatters["text/plain"], name)
        self.input_hooks.remove()
        self.inspector.remove()
        self.panels.remove()
        self.magics.remove()
        self._names_of_ipython.close()
        current.enter_cell("")
        current.expect(None)
        if self._host is not None:
            self._host.box.close()

    def _show_traceback(self, show: Any, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Show what has lines of its own by these, also with an exception group in it, which
        IPython prints as Python does: with secrets and the escapes of a server."""
        exc = sys.exc_info()[1] if exc_tuple is None else exc_tuple[1]
        links = [exc]
        while links[-1] is not None and len(links) < _MAX_LINKS:
            links.append(links[-1].__context__)
        lines = getattr(exc, "_render_traceback_", None)
        if lines is None or not any(isinstance(link, BaseExceptionGroup) for link in links):
            show(exc_tuple, *args, **kwargs)
        else:
            self.shell._get_exc_info(exc_tuple)  # for %debug
            self.shell._showtraceback(type(exc), exc, lines())

    def _show_results(self) -> None:
        """Register the display of results and jobs by name, so that nothing is loaded before there
        is one."""

        def bundle(result: Any, **_kwargs: Any) -> Any:
            from onetool_ipy.faces.notebook import display

            return display.bundle(self.shell, self.box, result, self.magics)

        def lines(page: Any, **_kwargs: Any) -> Any:
            from onetool_ipy.faces.notebook import display

            return display.page_bundle(page)

        def lines_text(page: Any, printer: Any, _cycle: bool) -> None:
            printer.text(lines(page)["text/plain"])

        def show(job: Any) -> None:
            if self._host is None or not self._host.jobs.show(job):
                self.shell.display_pub.publish({"text/plain": repr(job)})

        def table(rows: Any, printer: Any, _cycle: bool) -> None:
            printer.text(rows.to_text(get_terminal_size().columns))

        # A terminal has no HTML, so listings and records are text tables there.
        for name in (_LISTING, _RECORD) if getattr(self.shell, "kernel", None) is None else ():
            self.shell.display_formatter.formatters["text/plain"].for_type_by_name(*name, table)
        self.shell.display_formatter.mimebundle_formatter.for_type_by_name(*_RESULT, bundle)
        self.shell.display_formatter.mimebundle_formatter.for_type_by_name(*_LINES, lines)
        self.shell.display_formatter.formatters["text/plain"].for_type_by_name(*_LINES, lines_text)
        self.shell.display_formatter.ipython_display_formatter.for_type_by_name(*_JOB, show)

    def _before_cell(self, _info: object) -> None:
        # `%reset` has emptied it, or the name is the user's.
        if "ot" not in self.shell.user_ns_hidden:
            self.names.restore()
        self._is_in_cell = True
        count = len(self.shell.history_manager.input_hist_parsed)
        current.enter_cell(str(count), _cell_id(self.shell))
        if self._host is not None:
            self._host.notebook = _notebook(self.shell)
            self._host.before_cell()
            if self._kept is not None:
                # It was opened meanwhile: by a call, or by a panel in another thread.
                self._offer_opened(self._host)
        elif self._kept is None or not self._kept.is_current():
            # A project was made or changed. Where it cannot be opened, its first use says why.
            project = _project()
            if project is not None:
                self._start = project[0]
                with suppress(OneToolError):
                    self._offer_opened(self.host)

    def _after_cell(self, _result: object) -> None:
        self._is_in_cell = False
        if self._host is not None:
            self._host.progress.after_cell()
        # Keep `%autoreload` away from our modules of pack files: the next call loads an edited file
        # anyway.
        autoreload = self.shell.magics_manager.registry.get("AutoreloadMagics")
        if autoreload is not None:
            for name in [name for name in sys.modules if name.startswith("onetool_pack_")]:
                autoreload._reloader.mark_module_skipped(name)


class InputHooks:
    """Our additions to the input of a cell: shortcuts, `%tool NAME?` and Tab."""

    def __init__(self, shell: Any) -> None:
        self._transformers = shell.input_transformer_manager.token_transformers
        self._matchers = shell.Completer.custom_matchers
        self._shell = shell
        self._ours: list[tuple[list[Any], Any]] = []

    def install(self, magics: OneTool) -> None:
        """Add them to IPython's lists."""
        transformers: list[type[TokenTransformBase]] = [cell_input.Shortcut]
        transformers += [cell_input.help_on(name) for name in magics.names]
        transformers += [cell_input.prompt_of(name) for name in magics.prompts]
        transformers += [cell_input.prompt_of(name, only_assigned=True) for name in magics.names]
        lone_lines = cell_input.LoneLines(
            self._shell, [*magics.names, "snippet", cell_input.RUNNER]
        )
        from IPython.core.completer import context_matcher

        @context_matcher()  # type: ignore[untyped-decorator]  # IPython has no types here
        def onetool_matcher(context: Any) -> Any:
            offers = magics.runner.completion_context()
            from onetool_ipy.faces.notebook import completion

            return completion.answer(
                context.text_until_cursor, offers, magics.names, cell=context.full_text
            )

        lines = cell_input.look_once(transformers, magics.names, magics.prompts)
        self._ours = [
            (self._transformers, lines),
            (self._matchers, onetool_matcher),
        ]
        self._ours.append((self._shell.ast_transformers, lone_lines))
        for registered, ours in self._ours:
            registered.append(ours)

    def remove(self) -> None:
        """Undo `install`."""
        for registered, ours in self._ours:
            if ours in registered:
                registered.remove(ours)
        self._ours.clear()


def _cell_id(shell: Any) -> str:
    """Return the id of the cell that runs now; "" where the page gives none."""
    request = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return str(request.get("metadata", {}).get("cellId") or "")


def _notebook(shell: Any) -> str:
    """Return the path of the notebook, which VS Code and Jupyter Server tell in ways of their own;
    "" if none does."""
    return str(shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", ""))


def _project() -> tuple[Path, KeptNames | None] | None:
    """Return the folder of now and what is known of the names of its project, found as
    `load_config` finds it; None where there is no configuration."""
    try:
        cwd = Path.cwd()
    except FileNotFoundError:  # it was deleted under our feet
        return None
    home = home_of(os.environ)
    location = find_config(None, env=os.environ, cwd=cwd, home=home)
    if location.problems:
        return cwd, None
    if location.onetool_dir is None and location.config_file is None:
        return None
    return cwd, read_names(location, env=os.environ, cwd=cwd, home=home)


def _forget(formatter: Any, name: tuple[str, str]) -> None:
    formatter.deferred_printers.pop(name, None)
    for kind in [k for k in formatter.type_printers if (k.__module__, k.__name__) == name]:
        del formatter.type_printers[kind]


def load(shell: Any) -> None:
    """Load into a shell; a second load replaces the first."""
    unload(shell)
    extension = Extension(shell)
    extension.start()
    shell.magics_manager.registry[_KEY] = extension


def unload(shell: Any) -> None:
    """Remove everything."""
    extension = shell.magics_manager.registry.pop(_KEY, None)
    if extension is not None:
        extension.stop()
