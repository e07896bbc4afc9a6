"""Read a package's source: its modules, lines, imports, class names and functions.

Reads text only and imports nothing of the package. A module that a package's `__init__` gives on is found where the
import statement names it: `from shop import prices` imports `shop.prices` if there is such a module.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MAX_FUNCTION_LINES",
    "Import",
    "Module",
    "class_names_defined_twice",
    "late_imports",
    "long_functions",
    "modules_with_one_importer",
    "modules_without_tests",
    "read_package",
]

MAX_FUNCTION_LINES = 50

_UNTESTED = ("__init__", "__main__", "_version")
"""Modules that need no tests of their own name."""


@dataclass(frozen=True, slots=True)
class Import:
    """An import of one of the package's own modules. It is late if a function makes it."""

    module: str
    line: int
    is_late: bool
    is_for_types: bool


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package. `name` is its full dotted name, a package's own for an `__init__`."""

    name: str
    path: Path
    lines: int
    classes: tuple[tuple[str, int], ...]
    functions: tuple[tuple[str, int, int], ...]
    imports: tuple[Import, ...]


def read_package(folder: Path) -> list[Module]:
    """Read every Python file below the folder of a package."""
    paths = sorted(folder.rglob("*.py"))
    known = {_name(folder, path) for path in paths}
    return [_read(folder, path, known) for path in paths]


def class_names_defined_twice(modules: list[Module]) -> dict[str, list[str]]:
    """Public names of classes that stand at the top of more than one module, with their places."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name, line in module.classes:
            places[name].append(f"{module.path}:{line}")
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def late_imports(modules: list[Module]) -> list[str]:
    """Import statements of the package's own modules inside functions."""
    found = {(module.path, one.line) for module in modules for one in module.imports if one.is_late}
    return [f"{path}:{line}" for path, line in sorted(found)]


def modules_with_one_importer(modules: list[Module]) -> dict[str, str]:
    """Modules that only one other module imports at run time, and that other module."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for one in module.imports:
            if not one.is_for_types and one.module != module.name:
                importers[one.module].add(module.name)
    return {name: found.copy().pop() for name, found in sorted(importers.items()) if len(found) == 1}


def long_functions(modules: list[Module]) -> list[str]:
    """Functions of more than MAX_FUNCTION_LINES lines."""
    return [
        f"{module.path}:{line} {name} ({lines} lines)"
        for module in modules
        for name, line, lines in module.functions
        if lines > MAX_FUNCTION_LINES
    ]


def modules_without_tests(modules: list[Module], package: Path, tests: Path) -> list[str]:
    """Modules `a/b.py` for which there is neither `a/test_b.py` nor a part of it, `a/test_b_*.py`, below the tests."""
    found = []
    for module in modules:
        place = tests / module.path.relative_to(package).parent
        stem = module.path.stem
        has_tests = (place / f"test_{stem}.py").exists() or any(place.glob(f"test_{stem}_*.py"))
        if stem not in _UNTESTED and not has_tests:
            found.append(module.name)
    return found


def _name(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(folder: Path, path: Path, known: set[str]) -> Module:
    text = path.read_text(encoding="utf-8")
    name = _name(folder, path)
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    tree = ast.parse(text)
    found = list(_statements(tree))
    return Module(
        name=name,
        path=path,
        lines=len(text.splitlines()),
        classes=tuple(
            (node.name, node.lineno)
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ),
        functions=tuple(
            (node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
            for node, _, _ in found
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        imports=tuple(
            Import(module, node.lineno, is_late and not is_for_types, is_for_types)
            for node, is_late, is_for_types in found
            if isinstance(node, ast.Import | ast.ImportFrom)
            for target in _targets(node, package)
            if (module := _module_of(target, known))
        ),
    )


def _statements(
    parent: ast.AST, is_late: bool = False, is_for_types: bool = False
) -> Iterator[tuple[ast.stmt, bool, bool]]:
    """Every statement below a node, whether a function holds it, and whether only type checkers read it."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.stmt):
            yield node, is_late, is_for_types
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        yield from _statements(node, is_late or is_function, is_for_types or is_guard)


def _module_of(target: str, known: set[str]) -> str:
    """The module that a dotted name means, or that it is a name in; empty for one of another package."""
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target


def _targets(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """The dotted names that an import statement may mean, each as long as it can be."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    parts = package.split(".")
    above = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    start = ".".join(filter(None, (above, node.module)))
    return [f"{start}.{alias.name}" for alias in node.names]
