"""What a pack file runs, as text: its own file, and the modules beside it that it imports.

Approvals, the lock file and `verify` all take a pack's code from here: one changed byte of it is a
changed tool. Imports are read from the syntax tree, also those inside functions, those of the
imported modules, and `import_module("name")`; nothing is imported. A module beside the file counts
wherever Python would find one of its name, since the file itself may change where Python looks.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import machinery
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

from onetool_ipy.base.files import names_in
from onetool_ipy.base.syntax import last_name
from onetool_ipy.core.labels import imports_network

_SUFFIXES = tuple(machinery.all_suffixes())
_SEPARATORS = frozenset("/\\:\0")
_IMPORTERS = ("import_module", "__import__")


class _Import(NamedTuple):
    """One imported module: `level` counts the leading dots; `*` is every module of a package."""

    level: int
    parts: tuple[str, ...]


class PackCode:
    """The code of one pack file. `module` is its module name in an installed package."""

    def __init__(self, path: Path, module: str = "") -> None:
        self._path = path
        depth = module.count(".") + (path.name == "__init__.py") if module else 0
        # Modules of an installed package are found from the folder that the package is in.
        self._root = path.parents[depth]
        self._outer = tuple(module.split("."))
        # Beside an installed package there are those of others.
        self._home = self._root / self._outer[0]
        self._imports: dict[str, tuple[_Import, ...]] = {}

    def identity(self) -> str | list[object]:
        """Return the hash of the file, with those of its imports; empty if it cannot be read."""
        modules = self.modules()
        own = modules.pop(self._path, "")
        names = {
            path.relative_to(self._root).as_posix(): digest for path, digest in modules.items()
        }
        return [own, names] if names else own

    def has_network(self) -> bool:
        """Whether the file, or a module of its folder that it imports, imports a network library.

        A file that is not Python says nothing, so it does.
        """
        return any(
            path.suffix != ".py"
            or imports_network({".".join(one.parts): one.parts for one in self._imports[digest]})
            for path, digest in self.modules().items()
        )

    def helpers(self) -> dict[Path, str]:
        """Return the hashes of the modules that the file imports, by their files."""
        modules = self.modules()
        modules.pop(self._path, None)
        return modules

    def forget(self) -> None:
        """Let the next import run these modules again, and not their bytecode, which may be old."""
        files = {os.path.realpath(path) for path in self.helpers()}
        outer = {".".join(self._outer[:depth]) for depth in range(len(self._outer) + 1)}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            # A package that the pack itself is in stays: a module is reloaded inside its package.
            if isinstance(file, str) and name not in outer and os.path.realpath(file) in files:
                sys.modules.pop(name, None)
                with suppress(OSError, NotImplementedError, ValueError):
                    os.unlink(cache_from_source(file))

    def modules(self) -> dict[Path, str]:
        """Return the hashes of the file and of the modules that it imports, by their files."""
        modules: dict[Path, str] = {}
        waiting = [self._path, *self._found(self._root, self._outer[:-1])]
        for path in waiting:
            digest = None if path in modules else self._hash(path)
            if digest is not None:
                modules[path] = digest
                waiting += self._beside(path, self._imports[digest])
        return modules

    def _hash(self, path: Path) -> str | None:
        # A FIFO or a device in the file's place is not read: it might never end.
        if not os.path.isfile(path):
            return None
        try:
            text = path.read_bytes()
        except OSError:
            return None
        digest = hashlib.sha256(text).hexdigest()
        if digest not in self._imports:
            self._imports[digest] = _imports_in(text) if path.suffix == ".py" else ()
        return digest

    def _beside(self, path: Path, imports: tuple[_Import, ...]) -> Iterator[Path]:
        """Yield the files of these imports in the pack file's folder, or in its package."""
        for level, parts in imports:
            places = (
                {self._root, path.parent}
                if level == 0
                else {path.parents[min(level, len(path.parents)) - 1]}
            )
            for place in places:
                if place.is_relative_to(self._root):
                    yield from (
                        file
                        for file in self._found(place, parts)
                        if file.is_relative_to(self._home)
                    )

    def _found(self, place: Path, parts: tuple[str, ...]) -> Iterator[Path]:
        """Yield the files of a module in a folder, and those of the packages that it is in."""
        for part in parts:
            if _SEPARATORS & set(part):  # a name that `import_module` is given may be a path
                return
            if part == "*":
                stems = {name.partition(".")[0] for name in names_in(place)}
                for stem in sorted(stems):
                    yield from self._found(place, (stem,))
                return
            yield from _files(place, part)
            place /= part
            if not os.path.isdir(place):
                return
            yield from _files(place, "__init__")


def _files(place: Path, name: str) -> Iterator[Path]:
    return (file for suffix in _SUFFIXES if os.path.isfile(file := place / f"{name}{suffix}"))


def _imports_in(text: bytes) -> tuple[_Import, ...]:
    """Return what a module's text imports; nothing for a text that is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the import will show them
            nodes = list(ast.walk(ast.parse(text, "")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    imports: dict[_Import, None] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            imports.update({_Import(0, tuple(alias.name.split("."))): None for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            imports.update(
                {_Import(node.level, (*module, alias.name)): None for alias in node.names}
            )
        elif isinstance(node, ast.Call) and last_name(node.func) in _IMPORTERS and node.args:
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if isinstance(name, str) and (plain := name.lstrip(".")):
                imports[_Import(len(name) - len(plain), tuple(plain.split(".")))] = None
    return tuple(imports)
