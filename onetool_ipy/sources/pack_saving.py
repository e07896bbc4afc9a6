"""Write the functions of a cell into a pack file (`%%tool save PACK`).

A statement that binds the same names, such as a function or a class, is replaced in place; what is
new is added, also the imports of earlier cells that it needs; `__all__` is extended. What a
statement reads when the file is imported stands before it. Text is cut at the offsets of the
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
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.files import StoreError, Unreadable, newline_of, read, write_whole

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Import = ast.Import | ast.ImportFrom
_Simple = _Function | ast.ClassDef | ast.Assign | ast.AnnAssign | ast.AugAssign | _Import
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
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
    _require_saved(new, cell, file)
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
    """Return the file's text with the statements of the cell, each as the last of its names."""
    data = text.encode()
    pieces = [data[start:end].decode() for start, end in _spans(data, cell)]
    kept = {ast.dump(node) for node in cell.body}
    # A statement is there already if no other one of its names follows.
    present, taken = set[str](), set[str]()
    for node in reversed(ast.parse(old).body):
        if ast.dump(node) not in kept:
            taken |= _bound(node)
        elif not _bound(node) & taken:
            present.add(ast.dump(node))
    pairs = [
        (node, piece)
        for node, piece in zip(cell.body, pieces, strict=True)
        if isinstance(node, _Function) or ast.dump(node) not in present
    ]
    future = [piece for node, piece in pairs if _is_future(node)]
    new = _with_statements(old, future, is_future=True)
    for node, piece in pairs:
        if not _is_future(node):
            new = _with_statement(new, node, piece, kept)
    return new


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _with_statement(text: str, node: ast.stmt, piece: str, kept: set[str]) -> str:
    """Put a statement in the place of the one that binds its names, or else where all is bound that
    it reads.

    `kept` are the statements of the cell, of which none takes the place of another. No `if` and the
    like is replaced: it may hold more.
    """
    data, tree = text.encode(), ast.parse(text)
    piece, reads = _with_line_ends_of(text, piece), _reads(node)
    bound = [_bound(each) for each in tree.body]
    same = [
        place
        for place, each in enumerate(tree.body)
        if bound[place] == _bound(node)
        and isinstance(node, _Simple)
        and isinstance(each, _Simple)
        and (ast.dump(each) == ast.dump(node) or ast.dump(each) not in kept)
    ]
    same.sort(key=lambda place: type(tree.body[place]) is type(node))
    late = set().union(*bound) & reads
    if same:
        start, end = _spans(data, tree)[same[-1]]
        if late <= set().union(*bound[: same[-1] + 1]):
            return (data[:start] + piece.encode() + data[end:]).decode()
        data = data[:start] + data[end:]
        text = data.decode()
    body = ast.parse(text).body
    first = len([*_head(body, kept)])
    behind = set().union(*map(_bound, body[first:]))
    before = set().union(*map(_bound, body[:first]))
    is_free = late <= before and not _bound(node) & behind
    if not isinstance(node, _Function) and is_free:
        return _with_statements(text, [piece], kept)
    newline = newline_of(text)
    blank = len(re.findall(_LINE_END, data[len(data.rstrip(b"\r\n")) :]))
    return f"{text}{newline * max(0, 3 - blank)}{piece}{newline}"


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names of the module that a statement binds or deletes."""
    names: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (_Function, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif not isinstance(node, _INNER):
            waiting += ast.iter_child_nodes(node)
    return names


def _reads(statement: ast.stmt) -> set[str]:
    """Return the names that a statement reads when it runs, without what its functions read when
    they are called."""
    names: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if isinstance(node, _Function):
            waiting += [*node.decorator_list, node.args, *filter(None, [node.returns])]
        else:
            waiting += [node.args] if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)
    return names


def _head(
    body: Sequence[ast.stmt], kept: Collection[str] = (), *, is_future: bool = False
) -> Iterator[ast.stmt]:
    """Yield the docstring, imports and constants that a file begins with, and what of the cell was
    put behind them."""
    for node in body:
        is_doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_plain = isinstance(node, (_Import, ast.Assign, ast.AnnAssign))
        is_plain = is_plain or (not isinstance(node, _Function) and ast.dump(node) in kept)
        if not (is_doc or (_is_future(node) if is_future else is_plain)):
            return
        yield node


def _with_statements(
    text: str, pieces: list[str], kept: Collection[str] = (), *, is_future: bool = False
) -> str:
    """Add statements behind the file's docstring, imports and constants."""
    if not pieces:
        return text
    data, tree = text.encode(), ast.parse(text)
    # The first lines may say the encoding, so a statement goes behind the comments at the top.
    top = re.match(rb"(?:[ \t\f]*#[^\r\n]*(?:\r\n|\r|\n|\Z))*", data)
    place, newline = 0 if top is None else top.end(), newline_of(text)
    head = _head(tree.body, kept, is_future=is_future)
    for _, (_, end) in zip(head, _spans(data, tree), strict=False):
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
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or _bound(node) != {"__all__"}:
            continue
        if not isinstance(node.value, (ast.List, ast.Tuple)):
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


def _require_saved(new: str, cell: ast.Module, file: Path) -> None:
    """Raise InvalidTool unless the new text is Python, and each name is in it what the cell says.

    A later statement of the file may still wrap it: `f = cached(f)`.
    """
    tree = _parse(new, f"'{file}' with this cell")
    kept = {ast.dump(node) for node in cell.body}
    saved, own = (
        [(_bound(node), _reads(node), ast.dump(node)) for node in each.body]
        for each in (tree, cell)
    )
    definitions = [node for node in cell.body if not isinstance(node, _Import)]
    for name in set().union(*map(_bound, definitions)):
        wanted = [dump for bound, _, dump in own if name in bound]
        found = [
            dump
            for bound, reads, dump in saved
            if name in bound and (dump in kept or name not in reads)
        ]
        if not found or found[-1] != wanted[-1]:
            hint = f"Put '{name}' there by hand. Nothing was saved."
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
