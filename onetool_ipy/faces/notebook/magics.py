"""The magics `%tool`, `%%tool`, `%snippet`, `%ask` as IPython sees them, and the settings of `%config OneTool`.

Every notebook loads this module with the extension, so it imports little: `run` and `ask` are loaded at first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, magics_class, needs_local_scope, no_var_expand
from traitlets import Bool, Float, Int, Unicode

from onetool_ipy.base.records import collector_paused
from onetool_ipy.faces.notebook.cell_input import RUNNER, SHOWER

if TYPE_CHECKING:
    from onetool_ipy.faces.notebook.ask import AskMagic
    from onetool_ipy.faces.notebook.host import NotebookHost
    from onetool_ipy.faces.notebook.run import LineRunner

_OTHER_NAME = "onetool"


@magics_class
class OneTool(Magics):
    """The magics of one shell, and the settings of `%config OneTool` for this session."""

    max_lines = Int(60, min=1, help="Lines of a result that a cell shows.").tag(config=True)
    max_chars = Int(20_000, min=100, help="Characters of a result that a cell shows.").tag(config=True)
    soft = Bool(False, help="Give failed results instead of raising.").tag(config=True)
    timeout = Float(
        None, allow_none=True, help="Seconds a %tool call may take where neither it nor its tool says."
    ).tag(config=True)
    magic_name = Unicode("tool", help="The name of the magic; read when the extension loads.").tag(config=True)

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
        # At the first use some 100 modules are loaded. What they define stays, so the collector would look in vain.
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
    def tool(self, line: str, cell: str | None = None, local_ns: dict[str, object] | None = None) -> object:
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
        return self.runner.tool(line, cell, local_ns or {})

    @no_var_expand
    @needs_local_scope
    def snippet(self, line: str, cell: str | None = None, local_ns: dict[str, object] | None = None) -> object:
        """Make a snippet of a cell, and run it.

        %%snippet NAME param=default    the body is kept; {{ param }} in it is filled; --save keeps it for good
        %snippet NAME param=value       run it, as $NAME param=value does
        %snippet NAME --show            what it expands to
        %snippet                        the snippets there are
        """
        return self.runner.snippet(line, cell, local_ns or {})

    @no_var_expand
    @needs_local_scope
    def ask(self, line: str, cell: str | None = None, local_ns: dict[str, object] | None = None) -> object:
        """Ask a model, which may call tools: %ask PROMPT, a = %ask PROMPT; %ask alone tells more."""
        return self._asking.run(line, cell, local_ns or {})

    @no_var_expand
    @needs_local_scope
    def shortcut(self, line: str, local_ns: dict[str, object] | None = None) -> object:
        """`$name k=v`, as `cell_input` rewrites it."""
        return self.runner.shortcut(line, local_ns or {})

    def show(self, value: object) -> None:
        """Display the value of a line that is not the last of its cell, as `cell_input` rewrites it."""
        if value is not None:
            from IPython.display import display

            display(value)  # type: ignore[no-untyped-call]  # IPython has no types here


def _is_taken(manager: Any, name: str) -> bool:
    """Whether another extension has a magic of that name; our own lazy entry does not count."""
    return name in manager.magics["line"] and manager.lazy_magics.get(name) != "onetool_ipy"
