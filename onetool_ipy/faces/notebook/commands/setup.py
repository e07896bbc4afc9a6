"""`%tool install` and `%tool trust`: have `%tool` in every notebook, and say which projects may run.

`install` writes one startup file into the IPython profile and nothing else: `--lazy` loads us at the first `%tool`,
`--always` at every start, `--remove` deletes the file. A file that we did not write is never touched. If the package is
gone, or another environment shares the profile, the file does nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.config.trust import TrustList
from onetool_ipy.faces.line.grammar import read_options
from onetool_ipy.faces.notebook.commands import Command, CommandGroup
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.trust_gate import removal_lines, trust_lines

__all__ = ["Mode", "SetupCommands", "install", "remove", "startup_file"]

Mode = Literal["lazy", "always"]
_MARK = "# Written by `%tool install` of onetool_ipy; remove with `%tool install --remove`."
_BODY = """\
def _onetool_startup() -> None:
    from importlib.util import find_spec

    if find_spec("onetool_ipy") is not None:
        {}


_onetool_startup()
del _onetool_startup
"""
_DO = {
    "lazy": 'get_ipython().magics_manager.register_lazy("tool", "onetool_ipy")',
    "always": 'get_ipython().run_line_magic("load_ext", "onetool_ipy")',
}


def startup_file(profile: Path) -> Path:
    """The path of the file in an IPython profile."""
    return profile / "startup" / "50-onetool_ipy.py"


def install(profile: Path, mode: Mode) -> str:
    """Write the startup file; return what it contains and how to undo it."""
    file = startup_file(profile)
    _require_ours(file)
    text = f"{_MARK}\n{_BODY.format(_DO[mode])}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise UsageProblem(f"Cannot write '{file}': {exc.strerror}.") from exc
    shown = "".join(f"  {line}\n" for line in text.splitlines())
    return f"Wrote {file}:\n{shown}Undo it with: %tool install --remove"


def remove(profile: Path) -> str:
    """Delete the startup file."""
    file = startup_file(profile)
    if not file.exists():
        return f"Nothing to remove: there is no {file}."
    _require_ours(file)
    file.unlink()
    return f"Removed {file}."


def _require_ours(file: Path) -> None:
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
        raise UsageProblem(f"'{file}' was not written by us; it is left alone.", hint="Move it away and try again.")


class SetupCommands(CommandGroup):
    """The sub-commands about this profile and this project."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool install --lazy|--always  have %tool in every notebook; --remove undoes it",
        "%tool trust                    let this project run and reach what it names; --remove takes it back",
        "%tool trust list               the projects that you trust",
    )

    def table(self) -> dict[str, Command]:
        return {"install": self._install, "trust": self._trust}

    def _install(self, rest: str) -> Page:
        asked = read_options(rest, {"--lazy": "switch", "--always": "switch", "--remove": "switch"})
        if asked.words or len(asked.given) != 1:
            raise UsageProblem(
                "%tool install needs one of --lazy, --always, --remove.",
                hint="--lazy loads us at the first %tool, --always at every start.",
            )
        profile = self.context.profile
        if "--remove" in asked.given:
            return Page(remove(profile))
        return Page(install(profile, "lazy" if "--lazy" in asked.given else "always"))

    def _trust(self, rest: str) -> Page:
        asked = read_options(rest, {"--remove": "switch"})
        if asked.words == ["list"] and not asked.given:
            folders = TrustList.of(os.environ, Path.home()).folders()
            return self.page(*([printable_line(str(folder)) for folder in folders] or ["You trust no project yet."]))
        if asked.words:
            raise UsageProblem(f"%tool trust does not know '{asked.words[0][:40]}'.", hint="It knows: list, --remove.")
        if asked.given:
            was_listed = self.box.distrust()
            return self.page(*removal_lines(self.box, was_listed=was_listed))
        self.box.follow_trust()
        lines, shown = trust_lines(self.box), self.box.would_run()
        self.box.trust(shown=shown)
        return self.page(*lines)
