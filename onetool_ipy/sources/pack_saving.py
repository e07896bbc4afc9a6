"""Write the functions of a cell into a pack file (`%%tool save PACK`).

A function of the same name is replaced in place; a new function and its imports are added, also
those of earlier cells that it needs; `__all__` is extended. Text is cut at the offsets of the
syntax tree, in UTF-8: Python ends a line at `\\n`, `\\r\\n` and `\\r` only, `str.splitlines` at
more. Every other byte of the file stays. A function that uses another name of the notebook is
refused, since its first call would fail; so is a file in which the result would not be what the
cell says.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.files import StoreError, Unreadable, newline_of, read, write_whole

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_LINE_END = rb"\r\n|\r|\n"
# What may stand between two statements: blanks, line ends, comments.
_BETWEEN = rb"(?:[ \t\f\r\n\\;]|#[^\r\n]*+)*+"
_REST_OF_LINE = rb"[ \t\f]*+(?:#[^\r\n]*+)?(?=[\r\n]|\Z)"


def save_functions(file: Path, text: str, *, pack: str, cells: Iterable[str] = ()) -> list[str]:
    """Put the functions of `text` into a pack file and return the names of the tools.

    `cells` are what the notebook ran before.
    """
    if not pack.isidentifier():
        raise InvalidTool(f"'{pack}' is not a valid pack name.", hint="Use letters, digits and _.")
    text = text.removeprefix("\ufeff")
    cell = _parse(text, "The cell")
    functions = [node for node in cell.body if isinstance(node, _Function)]
    public = [node.name for node in functions if not node.name.startswith("_")]
    if not public:
        hint = "Write: def my_tool(text: str) ..."
        raise InvalidTool("The cell has no function that could be a tool.", hint=hint)
    if twice := [name for name in dict.fromkeys(public) if public.count(name) > 1]:
        hint = "Keep one of them. Nothing was saved."
        raise InvalidTool(f"The cell defines '{twice[0]}' more than once.", hint=hint)
    old, encoding = _read(file)
    if old is None:
        old = f'pack = "{pack}"\n'
    _parse(old, f"'{file}'")
    new = _merged(old, text, cell)
    _parse(new, f"'{file}' with this cell")
    for statement in _imports_of(cells, _unbound(text) & _unbound(new)):
        new = _with_statements(new, [statement])
    if missing := sorted(_unbound(text) & _unbound(new)):
        raise InvalidTool(
            f"The cell uses '{missing[0]}', which only this notebook has.",
            hint=(
                f"Define or import '{missing[0]}' in the cell, then run it again. Nothing was"
                " saved."
            ),
        )
    new = _with_exports(new, list(dict.fromkeys(public)))
    _require_saved(new, functions, file)
    try:
        data = new.encode(encoding)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, data, mode=0o644)
    except UnicodeEncodeError as exc:
        message = f"'{file}' is written in {encoding}, which has no {exc.object[exc.start]!r}."
        raise InvalidTool(message, hint="Save the file in UTF-8, then run the cell again.") from exc
    except OSError as exc:
        raise InvalidTool(StoreError.of(file, exc).message) from exc
    except StoreError as exc:
        raise InvalidTool(exc.message, hint=exc.hint) from exc
    return public


def _read(file: Path) -> tuple[str | None, str]:
    """Return the text of a file with its own line ends, or None, and its encoding."""
    try:
        content = read(file)
        if content is None:
            return None, "utf-8"
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content.data).readline)
        text = content.data.decode(encoding)
    except Unreadable as exc:
        raise InvalidTool(f"'{file}' {exc}") from exc
    except (SyntaxError, ValueError) as exc:
        raise InvalidTool(f"'{file}' cannot be read as Python text: {exc}.") from exc
    if text.encode(encoding) != content.data:
        raise InvalidTool(f"'{file}' cannot be changed: its {encoding} text has several spellings.")
    return text, encoding


def _parse(text: str, what: str) -> ast.Module:
    try:
        tree = ast.parse(text)
        # The compiler refuses more than the grammar: a `return` or a late `__future__` at the top.
        compile(tree, "<cell>", "exec", dont_inherit=True)
        return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        line = f" (line {exc.lineno}): {exc.msg}" if isinstance(exc, SyntaxError) else f": {exc}"
        hint = "Magics and ! cannot be in a pack file."
        raise InvalidTool(f"{what} is not plain Python{line}.", hint=hint) from exc


def _spans(data: bytes, tree: ast.Module) -> list[tuple[int, int]]:
    """Return where each statement begins, with its decorators, and ends, with its comment."""
    starts = [0, *(match.end() for match in re.finditer(_LINE_END, data))]
    spans: list[tuple[int, int]] = []
    end = 0
    for node in tree.body:
        # A decorator's own place in the tree is behind its `@` and maybe its bracket.
        between = re.compile(_BETWEEN).match(data, end)
        start = end if between is None else between.end()
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        rest = re.compile(_REST_OF_LINE).match(data, end)
        spans.append((start, end if rest is None else rest.end()))
    return spans


def _merged(old: str, text: str, cell: ast.Module) -> str:
    """Return the file's text with the cell's functions and the other statements that it lacks."""
    data = text.encode()
    pieces = [data[start:end].decode() for start, end in _spans(data, cell)]
    present = {ast.dump(node) for node in ast.parse(old).body}
    pairs = list(zip(cell.body, pieces, strict=True))
    others = [
        (node, piece)
        for node, piece in pairs
        if not isinstance(node, _Function) and ast.dump(node) not in present
    ]
    future = [piece for node, piece in others if _is_future(node)]
    new = _with_statements(old, future, is_future=True)
    new = _with_statements(new, [piece for node, piece in others if not _is_future(node)])
    for node, piece in pairs:
        if isinstance(node, _Function):
            new = _with_function(new, node.name, piece)
    return new


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _with_function(text: str, name: str, piece: str) -> str:
    """Put a function in the place of the last one of its name, or at the end."""
    data, tree = text.encode(), ast.parse(text)
    piece = _with_line_ends_of(text, piece)
    for node, (start, end) in reversed(list(zip(tree.body, _spans(data, tree), strict=True))):
        if isinstance(node, _Function) and node.name == name:
            return (data[:start] + piece.encode() + data[end:]).decode()
    newline = newline_of(text)
    blank = len(re.findall(_LINE_END, data[len(data.rstrip(b"\r\n")) :]))
    return f"{text}{newline * max(0, 3 - blank)}{piece}{newline}"


def _with_statements(text: str, pieces: list[str], *, is_future: bool = False) -> str:
    """Add statements behind the file's docstring, imports and constants."""
    if not pieces:
        return text
    data, tree = text.encode(), ast.parse(text)
    # The first lines may say the encoding, so a statement goes behind the comments at the top.
    top = re.match(rb"(?:[ \t\f]*#[^\r\n]*(?:\r\n|\r|\n|\Z))*", data)
    place, newline = 0 if top is None else top.end(), newline_of(text)
    for node, (_, end) in zip(tree.body, _spans(data, tree), strict=True):
        is_doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_import = isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign))
        if not (is_doc or (_is_future(node) if is_future else is_import)):
            break
        # No line is cut in two: another statement may follow on it.
        if line_end := re.compile(_LINE_END + rb"|\Z").match(data, end):
            place = line_end.end()
    lines = "".join(f"{_with_line_ends_of(text, piece)}{newline}" for piece in pieces)
    before = newline if place and data[place - 1 : place] not in (b"\r", b"\n") else ""
    return data[:place].decode() + before + lines + data[place:].decode()


def _with_exports(text: str, names: list[str]) -> str:
    """Add names to a literal `__all__`, if the file has one."""
    data, tree = text.encode(), ast.parse(text)
    starts = [0, *(match.end() for match in re.finditer(_LINE_END, data))]
    for node, (start, end) in zip(tree.body, _spans(data, tree), strict=True):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        if node.targets[0].id != "__all__" or not isinstance(node.value, (ast.List, ast.Tuple)):
            continue
        exports = [each.value for each in node.value.elts if isinstance(each, ast.Constant)]
        added = [f'"{name}"' for name in names if name not in exports]
        if not added:
            return text
        if not node.value.elts:
            whole = f"__all__ = [{', '.join(added)}]".encode()
            return (data[:start] + whole + data[end:]).decode()
        last = node.value.elts[-1]
        place = starts[(last.end_lineno or 1) - 1] + (last.end_col_offset or 0)
        more = "".join(f", {name}" for name in added).encode()
        return (data[:place] + more + data[place:]).decode()
    return text


def _with_line_ends_of(text: str, piece: str) -> str:
    # Python reads every line end as `\n`, inside a text too, so this changes no meaning.
    return re.sub("\r\n|\r|\n", newline_of(text), piece)


def _require_saved(new: str, functions: list[_Function], file: Path) -> None:
    """Raise InvalidTool unless the new text is Python and its functions are those of the cell."""
    tree = _parse(new, f"'{file}' with this cell")
    saved = {node.name: ast.dump(node) for node in tree.body if isinstance(node, _Function)}
    cell = {node.name: ast.dump(node) for node in functions}
    if any(saved.get(name) != dump for name, dump in cell.items()):
        hint = "Put it there by hand. Nothing was saved."
        raise InvalidTool(f"The cell cannot be put into '{file}'.", hint=hint)


def _unbound(text: str) -> set[str]:
    """Return the global names that a module's text reads and does not bind; none if it imports
    `*`."""
    import symtable  # late: few sessions save a cell

    tables = [module := symtable.symtable(text, "<cell>", "exec")]
    names: set[str] = set()
    bound = set(vars(builtins)) | {"__file__", "__name__"}
    for table in tables:
        tables += table.get_children()
        for symbol in table.get_symbols():
            is_here = table is module or symbol.is_declared_global()
            if is_here and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
            elif symbol.is_referenced() and (symbol.is_global() or table is module):
                names.add(symbol.get_name())
    imports_all = any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for node in ast.parse(text).body
    )
    return set() if imports_all else names - bound


def _imports_of(cells: Iterable[str], names: set[str]) -> list[str]:
    """Return the statements by which the cells imported these names; of several the last."""
    statements: dict[str, str] = {}
    for cell in cells:
        with suppress(SyntaxError, ValueError):
            for node in ast.parse(cell).body:
                for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
                    name = alias.asname or alias.name.partition(".")[0]
                    if name in names:
                        module = node.module if isinstance(node, ast.ImportFrom) else ""
                        alone = (
                            ast.ImportFrom(module, [alias], 0) if module else ast.Import([alias])
                        )
                        statements[name] = ast.unparse(alone)
    return sorted(statements.values())
