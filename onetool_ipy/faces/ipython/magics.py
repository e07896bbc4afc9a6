"""`%tool` and `%%tool`: parse, call, display. What a line means is `parse`; what a call does is the Toolbox's.

Sub-commands are the methods named `do_<word>`; their words win over packs and tools.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.magic import Magics, magics_class, needs_local_scope, no_var_expand, output_can_be_silenced
from traitlets import Bool, Float, Int, Unicode

from onetool_ipy.core.errors import CallFailure, OneToolError, UsageProblem
from onetool_ipy.core.model import ToolResult, ToolSpec
from onetool_ipy.faces.ipython import commands, complete, parse
from onetool_ipy.faces.ipython.errors import LastFailure, raise_result
from onetool_ipy.toolbox import Toolbox

__all__ = ["OneTool"]

_OTHER_NAME = "onetool"


@magics_class
class OneTool(Magics):
    """The magics of one shell, and what `%config OneTool` sets for this session."""

    max_lines = Int(60, min=1, help="Lines of a result that a cell shows.").tag(config=True)
    max_chars = Int(20_000, min=100, help="Characters of a result that a cell shows.").tag(config=True)
    soft = Bool(False, help="Give failed results instead of raising.").tag(config=True)
    timeout = Float(
        None, allow_none=True, help="Seconds a %tool call may take where neither it nor its tool says."
    ).tag(config=True)
    magic_name = Unicode("tool", help="The name of the magic; read when the extension loads.").tag(config=True)

    def __init__(self, shell: Any, box: Toolbox, last: LastFailure, after_reload: Callable[[], None]) -> None:
        super().__init__(shell, config=shell.config)
        self._shell = shell
        self.box = box
        self.last = last
        self.names: list[str] = []
        self._desk = commands.Commands(box, last, after_reload, Path(shell.profile_dir.location))

    def install(self) -> None:
        """Register the magic; a foreign `%tool` is left alone, and ours is then `%onetool`."""
        manager = self._shell.magics_manager
        name = self.magic_name
        if _is_taken(manager, name):
            name = _OTHER_NAME
            print(f"onetool_ipy: %{self.magic_name} belongs to another extension; use %{_OTHER_NAME}.")  # noqa: T201 (said once)
        manager.register_function(self._magic(), magic_kind="line_cell", magic_name=name)
        self.names.append(name)

    def sight(self) -> complete.Sight:
        """What completion may look at."""
        return complete.Sight(self.box, self._desk.words(), self._shortcuts, lambda: ())

    def remove(self) -> None:
        """Take back what `install` registered."""
        for name in self.names:
            for kind in ("line", "cell"):
                self._shell.magics_manager.magics[kind].pop(name, None)
        self.names.clear()
        known = self._shell.configurables
        known[:] = [each for each in known if each is not self]

    def _magic(self) -> Callable[..., Any]:
        @no_var_expand
        @needs_local_scope
        @output_can_be_silenced
        def tool(line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
            """Find and call tools: %tool, %tool list, %tool info NAME, %tool NAME key=value."""
            try:
                return self._run(line, cell, local_ns or {})
            except OneToolError as exc:
                if exc.__traceback__ is not None and not hasattr(exc, "result"):
                    self.last.keep(exc)
                raise

        return tool

    def _run(self, line: str, cell: str | None, local_ns: dict[str, Any]) -> Any:
        asked = parse.split_line(line, self._desk.words())
        if asked.kind == "empty":
            return self._desk.overview()
        if asked.kind == "command":
            return self._desk.run(asked.name, asked.rest)
        if asked.kind == "help":
            return self._desk.usage(asked.name)
        return self._call(asked, cell, local_ns)

    def _call(self, asked: parse.Line, cell: str | None, local_ns: dict[str, Any]) -> Any:
        spec = self._find(asked)
        if spec is None and asked.name in self.box.registry.packs():
            return self._pack(asked)
        if spec is None:  # a miss is a failed call, and counts as one
            return self._finish(asked, self.box.call(asked.name, {}, source="magic"))
        args = parse.read_arguments(asked.rest, spec.parameters, self._evaluator(local_ns))
        if cell is not None:
            args = parse.read_body(cell, args, spec.parameters, body_arg=asked.flags.body, as_args=asked.flags.args)
        if asked.flags.dry:
            return self._desk.dry(spec, args)
        if asked.flags.bg:
            return self.box.start(spec.name, args, source="magic", timeout=asked.flags.timeout)
        timeout = asked.flags.timeout
        if timeout is None and spec.timeout_s is None:
            timeout = self.timeout
        return self._finish(asked, self.box.call(spec.name, args, source="magic", timeout=timeout))

    def _find(self, asked: parse.Line) -> ToolSpec | None:
        try:
            return self.box.registry.require(asked.name)
        except CallFailure:
            return None

    def _pack(self, asked: parse.Line) -> Any:
        if asked.rest.strip():
            raise UsageProblem(
                f"'{asked.name}' is a pack, not a tool.",
                hint=f"See its tools with: %tool {asked.name}",
            )
        return self._desk.pack_page(asked.name)

    def _finish(self, asked: parse.Line, result: ToolResult) -> Any:
        if not result.ok and not (asked.flags.soft or self.soft):
            raise_result(result, self.last)
        if asked.flags.output is None:
            return result
        self._shell.user_ns[asked.flags.output] = result
        return None

    def _shortcuts(self) -> list[tuple[str, str, dict[str, Any]]]:
        found = []
        for name, target in self.box.config.settings.aliases.items():
            spec = self.box.registry.get(target)
            found.append((name, "function", spec.parameters if spec is not None else {}))
        return found

    def _evaluator(self, local_ns: dict[str, Any]) -> Callable[[str], Any]:
        def evaluate(source: str) -> Any:
            return eval(source, {**self._shell.user_ns, **local_ns})  # noqa: S307 (the user's own expression)

        return evaluate


def _is_taken(manager: Any, name: str) -> bool:
    """Whether another extension has a magic of that name; our own lazy entry is none of another's."""
    return name in manager.magics["line"] and manager.lazy_magics.get(name) != "onetool_ipy"
