"""Write functions from a cell into a pack file: `%%tool --save PACK`.

A function of the same name is replaced in place; a new function and its imports are added; `__all__` is updated. The
result is parsed before the file is replaced.
"""

from __future__ import annotations

import ast
from pathlib import Path

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.files import StoreError, write_whole

__all__ = ["save_functions"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def save_functions(file: Path, text: str, *, pack: str) -> list[str]:
    """Put the functions of `text` into a pack file and return their names."""
    if not pack.isidentifier():
        raise InvalidTool(f"'{pack}' is not a valid pack name.", hint="Use letters, digits and _.")
    cell = _parse(text, "The cell")
    functions = [node for node in cell.body if isinstance(node, _Function)]
    if not functions:
        raise InvalidTool("The cell defines no function.", hint="Write `def name(...): ...` below.")
    old = file.read_text(encoding="utf-8") if file.exists() else f'pack = "{pack}"\n'
    _parse(old, f"'{file}'")
    new = old
    for node in cell.body:
        piece = _source(text, node)
        new = _replace(new, node, piece) if isinstance(node, _Function) else _add_line(new, piece)
    new = _export(new, [node.name for node in functions])
    _parse(new, "The result")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, new.encode("utf-8"), mode=0o644)
    except OSError as exc:
        raise InvalidTool(StoreError.of(file, exc).message) from exc
    except StoreError as exc:
        raise InvalidTool(exc.message, hint=exc.hint) from exc
    return [node.name for node in functions]


def _parse(text: str, what: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as exc:
        line = getattr(exc, "lineno", None)
        raise InvalidTool(f"{what} is not Python (line {line}): {exc}") from exc


def _source(text: str, node: ast.stmt) -> str:
    start, end = _span(node)
    return "".join(text.splitlines(keepends=True)[start:end]).rstrip("\n") + "\n"


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return first - 1, node.end_lineno or node.lineno


def _replace(text: str, node: _Function, piece: str) -> str:
    for known in ast.parse(text).body:
        if isinstance(known, _Function) and known.name == node.name:
            lines = text.splitlines(keepends=True)
            start, end = _span(known)
            return "".join([*lines[:start], piece, *lines[end:]])
    return f"{text.rstrip()}\n\n\n{piece}"


def _add_line(text: str, piece: str) -> str:
    """Add an import or another statement after the file's docstring and imports, unless the file has it."""
    tree = ast.parse(text)
    wanted = ast.dump(ast.parse(piece))
    if any(ast.dump(ast.Module([node], [])) == wanted for node in tree.body):
        return text
    last = 0
    for node in tree.body:
        is_doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_doc or isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign))):
            break
        last = node.end_lineno or node.lineno
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:last], piece, *lines[last:]])


def _export(text: str, names: list[str]) -> str:
    """Add names to a literal `__all__`, if the file has one."""
    for node in ast.parse(text).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        if node.targets[0].id != "__all__" or not isinstance(node.value, (ast.List, ast.Tuple)):
            continue
        known = [e.value for e in node.value.elts if isinstance(e, ast.Constant)]
        listed = ", ".join(f'"{name}"' for name in dict.fromkeys([*map(str, known), *names]))
        lines = text.splitlines(keepends=True)
        start, end = _span(node)
        return "".join([*lines[:start], f"__all__ = [{listed}]\n", *lines[end:]])
    return text
