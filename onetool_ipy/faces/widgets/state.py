"""A cell that becomes a pack file of the project: `.onetool/tools/NAME.py`. Nothing that is there is written over."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import make_folder, write_whole
from onetool_ipy.core.result import Json
from onetool_ipy.toolbox import Toolbox

__all__ = ["keep_tool"]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def keep_tool(box: Toolbox, name: str, source: str) -> Json:
    """Write a cell's functions as the pack `name`, and load it; the pack's tools are told."""
    if not _NAME.fullmatch(name):
        raise UsageProblem(f"'{name[:40]}' is no name for a pack.", hint="Use small letters, digits and _.")
    public = _functions(source)
    paths = box.config.paths
    folder = (paths.onetool_dir or paths.project / ".onetool") / "tools"
    file = folder / f"{name}.py"
    if os.path.lexists(file) or box.registry.pack(name) is not None:
        raise UsageProblem(f"There is a pack '{name}' already.", hint="Choose another name.")
    make_folder(folder)
    write_whole(file, (source.rstrip() + "\n").encode(), mode=0o644)
    box.reload()
    found = [spec.name for spec in box.registry.pack(name) or ()]
    if not found:
        problems = [each for each in box.problems() if Path(each.where).name.startswith(file.name)]
        said = problems[0].message if problems else f"it has no tool; its functions: {', '.join(public)}"
        raise UsageProblem(f"The file {file} was written, but {said}", hint="Edit the file, then: %tool reload")
    return {"tools": found, "file": str(file)}


def _functions(source: str) -> list[str]:
    """The public functions of a cell, which must be plain Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        line = f" (line {exc.lineno})" if isinstance(exc, SyntaxError) and exc.lineno else ""
        said = f"The cell is no plain Python{line}: magics and ! cannot be saved."
        raise UsageProblem(said, hint="Keep only imports and functions in it.") from None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    if not found:
        raise UsageProblem("The cell has no function that could be a tool.", hint="Write: def my_tool(text: str) ...")
    return found
