"""`%load_ext onetool_ipy`: opens the toolbox, registers magics and formatters, offers names. Unload takes all back.

Prints nothing, unless the configuration has a fault or a name of ours is taken. Runs nothing of the project.
"""

from __future__ import annotations

from typing import Any

from onetool_ipy.assemble import open_leniently
from onetool_ipy.core.model import ToolResult, ToolSpec
from onetool_ipy.faces.ipython import complete, display, transform
from onetool_ipy.faces.ipython.errors import LastFailure
from onetool_ipy.faces.ipython.magics import OneTool
from onetool_ipy.faces.ipython.namespace import Names

__all__ = ["Extension", "load", "unload"]

_KEY = "onetool_ipy"


class Typing:
    """What we add to how a cell is read: shortcuts, `%tool NAME?` and Tab."""

    def __init__(self, shell: Any) -> None:
        self._transformers = shell.input_transformer_manager.token_transformers
        self._matchers = shell.Completer.custom_matchers
        self._ours: list[tuple[list[Any], Any]] = []

    def install(self, magics: OneTool) -> None:
        """Register with IPython's own lists."""
        transformers = [transform.Shortcut, *(transform.help_on(name) for name in magics.names)]
        self._ours = [
            *((self._transformers, each) for each in transformers),
            (self._matchers, complete.matcher(magics.sight(), magics.names)),
        ]
        for registered, ours in self._ours:
            registered.append(ours)

    def remove(self) -> None:
        """Take back what `install` added."""
        for registered, ours in self._ours:
            if ours in registered:
                registered.remove(ours)
        self._ours.clear()


class Extension:
    """Everything that one shell has of us."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.box = open_leniently()
        self.last = LastFailure(shell, self.box.mask)
        self.names = Names(shell)
        self.magics = OneTool(shell, self.box, self.last, self._offer)
        self.typing = Typing(shell)

    def start(self) -> None:
        self.box.dress = self.last.dress
        self.box.on_adopt = self._adopted
        self.magics.install()
        display.register(self.shell, ToolResult, self.box.mask, self.magics)
        self.typing.install(self.magics)
        self._offer()
        self.shell.events.register("pre_run_cell", self._before_cell)
        self._warn()

    def stop(self) -> None:
        self.shell.events.unregister("pre_run_cell", self._before_cell)
        self.names.withdraw()
        display.unregister(self.shell, ToolResult)
        self.typing.remove()
        self.magics.remove()
        self.box.close()

    def _offer(self) -> None:
        self.names.offer(self._offers())

    def _offers(self) -> list[tuple[str, Any]]:
        from onetool_ipy.toolbox import PackProxy

        packs = [name for name in self.box.parts.pack_names if name != "ot"]
        return [("ot", self.box.ot), *((name, PackProxy(self.box, name)) for name in packs)]

    def _adopted(self, spec: ToolSpec) -> None:
        proxy = self.box.pack(spec.pack)
        if proxy is not None:
            self.names.offer([(spec.pack, proxy)])

    def _before_cell(self, _info: Any) -> None:
        self.names.restore()

    def _warn(self) -> None:
        problems = self.box.config.problems
        if problems:
            more = f" (and {len(problems) - 1} more: ot.health())" if len(problems) > 1 else ""
            print(self.box.mask(f"onetool_ipy: {problems[0]}{more}"))  # noqa: T201 (the one line of contract 15)


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
