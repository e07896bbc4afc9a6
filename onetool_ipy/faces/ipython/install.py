"""`%tool install`: have `%tool` in every notebook without typing `%load_ext`. One startup file of ours, nothing else.

`--lazy` loads us at the first `%tool`, `--always` at every start; `--remove` deletes the file. A file that we did not
write is never touched. Where the package is gone, or another environment shares the profile, the file does nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from onetool_ipy.core.errors import UsageProblem

__all__ = ["Mode", "install", "remove", "startup_file"]

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
    """Where the file lies in an IPython profile."""
    return profile / "startup" / "50-onetool_ipy.py"


def install(profile: Path, mode: Mode) -> str:
    """Write the startup file; tells what it wrote and how to undo it."""
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
