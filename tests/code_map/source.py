"""Read a package's source: its modules, lines, imports, class names and functions, and the figures
made of them.

Reads text only and imports nothing of the package. A module that a package's `__init__` gives on is
found where the import statement names it: `from shop import prices` imports `shop.prices` if there
is such a module.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FUNCTION_LINES = 60

PARTICIPLES = frozenset(
    ("found", "said", "told", "made", "given", "known", "shown", "wanted", "asked")
)
"""Words that do not say what a variable holds."""

_NO_CODE = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
)

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
    """One file of the package. `name` is its full dotted name, a package's own for an
    `__init__`."""

    name: str
    path: Path
    lines: int
    classes: tuple[tuple[str, int], ...]
    functions: tuple[tuple[str, int, int], ...]
    imports: tuple[Import, ...]
    private_functions: tuple[tuple[str, int, int], ...]
    """Private functions at the top of the module: name, line, and how often the module uses it."""

    signatures: int
    signatures_with_any: tuple[tuple[str, int], ...]
    participles: tuple[tuple[str, int], ...]


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
    return {
        name: found.copy().pop() for name, found in sorted(importers.items()) if len(found) == 1
    }


def long_functions(modules: list[Module]) -> list[str]:
    """Functions of more than MAX_FUNCTION_LINES lines."""
    return [
        f"{module.path}:{line} {name} ({lines} lines)"
        for module in modules
        for name, line, lines in module.functions
        if lines > MAX_FUNCTION_LINES
    ]


def helpers_with_one_use(modules: list[Module]) -> list[str]:
    """Private functions of a module that one place of it uses."""
    return [
        f"{module.path}:{line} {name}"
        for module in modules
        for name, line, uses in module.private_functions
        if uses == 1
    ]


def variables_named_by_a_participle(modules: list[Module]) -> list[str]:
    """Places where a variable gets a value under a name such as `found`."""
    return [
        f"{module.path}:{line} {name}" for module in modules for name, line in module.participles
    ]


def largest_circle(modules: list[Module]) -> list[str]:
    """The largest set of modules that import each other in a circle, imports for annotations
    included.

    The package's own face, which hands on names from everywhere, is left out.
    """
    face = min(module.name for module in modules)
    targets = {
        module.name: {one.module for one in module.imports} - {module.name, face}
        for module in modules
    }
    circles = sorted(_strong_components(targets), key=lambda names: (len(names), sorted(names)))
    return sorted(circles[-1]) if circles else []


def _strong_components(targets: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in sorted(targets.get(name, ())):
            if target not in order:
                visit(target)
            if target in stack:
                low[name] = min(low[name], low[target])
        if low[name] == order[name]:
            cut = stack.index(name)
            component = stack[cut:]
            del stack[cut:]
            if len(component) > 1:
                components.append(component)

    for name in sorted(targets):
        if name not in order:
            visit(name)
    return components


def modules_without_tests(modules: list[Module], package: Path, tests: Path) -> list[str]:
    """Modules `a/b.py` for which there is neither `a/test_b.py` nor a part of it, `a/test_b_*.py`,
    below the tests."""
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
    functions = [
        node for node, _, _ in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    uses = Counter(node.id for node in names)
    return Module(
        name=name,
        path=path,
        lines=len(text.splitlines()),
        classes=tuple(
            (node.name, node.lineno)
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ),
        functions=tuple((node.name, node.lineno, _length(node)) for node in functions),
        private_functions=tuple(
            (node.name, node.lineno, uses[node.name])
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("_")
        ),
        signatures=len(functions),
        signatures_with_any=tuple((node.name, node.lineno) for node in functions if _has_any(node)),
        participles=tuple(
            (node.id, node.lineno)
            for node in names
            if isinstance(node.ctx, ast.Store) and node.id in PARTICIPLES
        ),
        imports=tuple(
            Import(module, node.lineno, is_late and not is_for_types, is_for_types)
            for node, is_late, is_for_types in found
            if isinstance(node, ast.Import | ast.ImportFrom)
            for target in _targets(node, package)
            if (module := _module_of(target, known))
        ),
    )


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of what a function does: its parameters and docstring are not counted."""
    body = function.body
    if len(body) > 1 and ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return (function.end_lineno or 0) - body[0].lineno + 1


def comments(module: Module) -> int:
    """Count the comments that have a line of their own."""
    return sum(
        token.type == tokenize.COMMENT and token.line.strip().startswith("#")
        for token in _tokens(module)
    )


def code_lines(module: Module) -> int:
    """Count the lines of code proper: no blank line, docstring, comment, import or `__all__`."""
    lines = {
        line
        for token in _tokens(module)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(module.path.read_text(encoding="utf-8"))):
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        is_docstring = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        is_all = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        if (is_import or is_docstring or is_all) and isinstance(node, ast.stmt):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _tokens(module: Module) -> Iterator[tokenize.TokenInfo]:
    text = module.path.read_text(encoding="utf-8")
    return tokenize.generate_tokens(io.StringIO(text).readline)


def _has_any(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether an annotation of a function's signature holds `Any`."""
    arguments = function.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    annotations = [function.returns, *(each.annotation for each in every if each is not None)]
    return any(
        isinstance(node, ast.Name) and node.id == "Any"
        for annotation in annotations
        if annotation is not None
        for node in ast.walk(annotation)
    )


def _statements(
    parent: ast.AST, is_late: bool = False, is_for_types: bool = False
) -> Iterator[tuple[ast.stmt, bool, bool]]:
    """Every statement below a node, whether a function holds it, and whether only type checkers
    read it."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.stmt):
            yield node, is_late, is_for_types
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_guard = isinstance(node, ast.If) and "TYPE_CHECKING" in (
            getattr(node.test, "id", ""),
            getattr(node.test, "attr", ""),
        )
        yield from _statements(node, is_late or is_function, is_for_types or is_guard)


def _module_of(target: str, known: set[str]) -> str:
    """The module that a dotted name means, or that it is a name in; empty for one of another
    package."""
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
