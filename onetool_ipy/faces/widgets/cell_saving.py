"""Saving a cell as a pack file of the project. A file that exists is never overwritten."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import make_folder, write_whole
from onetool_ipy.base.values import Json
from onetool_ipy.faces.pack_names import require_free_name

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

_PACK_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def save_tool(box: Toolbox, name: str, source: str) -> Json:
    """Write a cell as the pack file `name` of the project, and load it: `{tools, file}`."""
    if not _PACK_NAME.fullmatch(name):
        raise UsageProblem(f"'{name[:40]}' is not a valid pack name.", hint="Use small letters, digits and _.")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        line = f" (line {exc.lineno})" if isinstance(exc, SyntaxError) and exc.lineno else ""
        message = f"The cell is not plain Python{line}: magics and ! cannot be saved."
        raise UsageProblem(message, hint="Keep only imports and functions in it.") from None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    if not names:
        raise UsageProblem("The cell has no function that could be a tool.", hint="Write: def my_tool(text: str) ...")
    paths = box.config.paths
    folder = (paths.onetool_dir or paths.project / ".onetool") / "tools"
    file = folder / f"{name}.py"
    if os.path.lexists(file):
        raise UsageProblem(f"There is a pack '{name}' already.", hint="Choose another name.")
    require_free_name(box, name, "_tools")
    make_folder(folder)
    write_whole(file, (source.rstrip() + "\n").encode(), mode=0o644)
    box.reload()
    tools = [spec.name for spec in box.registry.pack(name) or ()]
    if not tools:
        problems = [problem for problem in box.problems() if Path(problem.where).name.startswith(file.name)]
        reason = problems[0].message if problems else f"it has no tool; its functions: {', '.join(names)}"
        raise UsageProblem(f"The file {file} was written, but {reason}", hint="Edit the file, then: %tool reload")
    return {"tools": tools, "file": str(file)}
