"""What a tool declares that it needs, found without running anything of its pack.

A spec that carries `deps` is asked for them; of one that does not yet, the text of its pack file is read, and kept as
long as the file is the same.
"""

from __future__ import annotations

import ast
import os
import warnings
from typing import NamedTuple

from onetool_ipy.core.errors import InvalidTool
from onetool_ipy.core.model import ToolSpec
from onetool_ipy.sdk.declare import Dep, merged, read_declared, read_decorated

__all__ = ["Declarations", "PackDeps", "read_deps"]


class PackDeps(NamedTuple):
    """What a pack file declares: for all its tools, and by the line at which a tool is defined."""

    pack: tuple[Dep, ...] = ()
    by_line: dict[int, tuple[Dep, ...]] = {}  # noqa: RUF012 - never changed

    def at(self, line: int) -> tuple[Dep, ...]:
        """What the tool that is defined at this line needs."""
        return merged(self.pack, self.by_line.get(line, ()))


def read_deps(text: str | bytes) -> PackDeps:
    """What a pack file's text declares; nothing where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the author's text; said when it is imported
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PackDeps()
    own: dict[int, tuple[Dep, ...]] = {}
    pack: tuple[Dep, ...] = ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own[node.lineno] = _tolerant(node)
        elif isinstance(node, ast.Assign) and node in tree.body and _names(node, "requires"):
            pack = _declared(node.value)
    return PackDeps(pack, own)


class Declarations:
    """Finds what tools declare; remembers the files it has read."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[tuple[int, int], PackDeps]] = {}

    def of(self, spec: ToolSpec) -> tuple[Dep, ...]:
        """What this tool needs."""
        carried = getattr(spec, "deps", None)
        if carried is not None:
            return tuple(carried)
        file, _, line = spec.where.rpartition(":")
        if not file or not line.isdigit():
            return ()
        return self._read(file).at(int(line))

    def _read(self, file: str) -> PackDeps:
        try:
            found = os.stat(file)
            stamp = (found.st_mtime_ns, found.st_size)
            known = self._files.get(file)
            if known is None or known[0] != stamp:
                with open(file, "rb") as opened:
                    known = (stamp, read_deps(opened.read()))
                self._files[file] = known
        except OSError:
            return PackDeps()
        return known[1]


def _names(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _declared(node: ast.expr) -> tuple[Dep, ...]:
    try:
        return read_declared(ast.literal_eval(node))
    except (ValueError, InvalidTool):
        return ()


def _tolerant(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[Dep, ...]:
    try:
        return read_decorated(node)
    except InvalidTool:
        return ()
