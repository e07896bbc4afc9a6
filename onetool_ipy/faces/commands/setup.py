"""`%tool install`, `trust` and `adopt`: have `%tool` in every notebook, say which projects may run,
adopt tools.

`install` writes one startup file into the IPython profile and nothing else: `--lazy` loads us at
the first `%tool`, `--always` at every start, `--remove` deletes the file. A file that we did not
write is never touched. If the package is gone, or another environment shares the profile, the file
does nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import visible
from onetool_ipy.config.paths import home_of
from onetool_ipy.config.trust import TrustList
from onetool_ipy.core.names import PLACE
from onetool_ipy.faces import new_packs
from onetool_ipy.faces.commands import CommandContext, Page, WrongWords, one_word
from onetool_ipy.faces.line.grammar import Options

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
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    return f"Wrote {file}:\n{lines}Undo it with: %tool install --remove"


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
        raise UsageProblem(
            f"'{file}' was not written by %tool install, so it was not changed.",
            hint="Move it away and try again.",
        )


def install_startup(context: CommandContext, options: Options) -> Page:
    """`%tool install --lazy|--always|--remove`."""
    if options.words or len(options.values) != 1:
        raise WrongWords(
            "%tool install needs one of --lazy, --always, --remove.",
            hint="--lazy loads onetool_ipy at the first %tool, --always at every start.",
        )
    from IPython.paths import get_ipython_dir

    profile = context.profile or Path(get_ipython_dir()) / "profile_default"
    if "--remove" in options.values:
        return Page(remove(profile))
    return Page(install(profile, "lazy" if "--lazy" in options.values else "always"))


def trust(context: CommandContext, options: Options) -> Page:
    """`%tool trust`: the line itself is the yes."""
    if options.words:
        raise UsageProblem(
            f"%tool trust does not know '{options.words[0][:40]}'.",
            hint="It knows: list, --remove.",
        )
    if options.values:
        was_listed = context.box.gate.revoke()
        return context.page(*context.box.gate.removal_lines(was_listed=was_listed))
    context.box.gate.follow()
    lines, inventory = context.box.gate.covered_lines(), context.box.gate.inventory()
    context.box.gate.grant(shown=inventory)
    return context.page(*lines)


def list_trusted(_context: CommandContext, _options: Options) -> Page:
    """`%tool trust list`."""
    folders = TrustList.of(os.environ, home_of(os.environ)).folders()
    return Page(
        "\n".join(visible(str(folder)) for folder in folders) or "You trust no project yet."
    )


def save_cell(context: CommandContext, options: Options) -> Page:
    """`%%tool save PACK`: write the functions of the cell to a pack file of the project."""
    pack = one_word(
        options,
        "save",
        what="pack",
        hint="For example: %%tool save geo, and the functions below it.",
    )
    if not options.body.strip():
        raise UsageProblem(
            "There are no functions to save.",
            hint=f"Write %%tool save {pack} as the first line of their cell.",
        )
    tools = new_packs.save_cell(context.box, pack, options.body)
    return context.page(
        f"{', '.join(tools)} saved to {new_packs.pack_file(context.box, pack)}",
        f"Try it with: %tool check {tools[0]}",
    )


def adopt(context: CommandContext, options: Options) -> Page:
    """`%tool adopt EXPR`: make tools of what an expression of the notebook, or `module:name`,
    gives."""
    text = " ".join(options.words)
    if not text:
        raise WrongWords(
            "%tool adopt needs something to adopt.",
            hint="For example: %tool adopt my_toolkit --pack shop",
        )
    thing: object = text
    if not PLACE.fullmatch(text):
        try:
            thing = eval(text, context.shell.user_ns)  # noqa: S307 - the user's own expression
        except (NameError, SyntaxError) as exc:
            raise UsageProblem(
                f"'{text}' is not a value of this notebook: {exc}.",
                hint="Define it first, or name a module and what is in it: module:name",
            ) from exc
    values = options.values
    adopted = context.box.adopt(
        thing, values.get("--pack", ""), read_only=values.get("--read-only", ())
    )
    return context.page(f"Adopted: {', '.join(adopted)}", f"See one with: %tool info {adopted[0]}")
