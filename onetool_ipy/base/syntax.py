"""Read parts of a syntax tree that a stranger wrote: constants, names, source text. Nothing is
evaluated.

Every function has bounds and never raises: a part that is too deep, too large or no constant gives
the fallback.
"""

from __future__ import annotations

import ast
from typing import Any

from onetool_ipy.base import values

_MAX_NODES = 5_000
_MAX_DEPTH = 50
_MAX_BITS = 1_000
_MAX_SOURCE_NODES = 200
_CONSTANTS = (
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.UnaryOp,
    ast.BinOp,
    ast.UAdd,
    ast.USub,
)
_CONSTANT_NODES = (*_CONSTANTS, ast.Add, ast.Sub, ast.Load)


def _is_within(node: ast.AST, *, nodes: int = _MAX_NODES, depth: int = _MAX_DEPTH) -> bool:
    """Whether a tree has at most this many nodes and levels."""
    level: list[ast.AST] = [node]
    count = 0
    for _ in range(depth):
        following: list[ast.AST] = []
        for each in level:
            following.extend(ast.iter_child_nodes(each))
        count += len(level)
        if count + len(following) > nodes:
            return False
        if not following:
            return True
        level = following
    return False


def constant(node: ast.expr | None, *, otherwise: object = None, nodes: int = _MAX_NODES) -> Any:
    """Return the value of a constant, or of a list, tuple, set or dict of constants; `otherwise`
    for anything else."""
    if node is None or not _is_within(node, nodes=nodes):
        return otherwise
    for part in ast.walk(node):
        if not isinstance(part, _CONSTANT_NODES):
            return otherwise
        if (
            isinstance(part, ast.Constant)
            and isinstance(part.value, int)
            and part.value.bit_length() > _MAX_BITS
        ):
            return otherwise
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, OverflowError):
        return otherwise


def last_name(node: ast.expr) -> str:
    """Return the last name of `a.b.c` or of a call of it; empty if there is none."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def assigned_name(cell: str, function: str, first: str) -> str:
    """Return the name that a cell gives the value of its one call of `function`, if that is a
    statement of its own and its first argument is the text `first`; else nothing."""
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ""
    if not _is_within(tree):
        return ""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and last_name(node) == function
    ]
    if len(calls) != 1 or not calls[0].args or constant(calls[0].args[0]) != first:
        return ""
    targets = [
        target
        for statement in tree.body
        if isinstance(statement, ast.Assign) and statement.value is calls[0]
        for target in statement.targets
    ]
    return next((target.id for target in targets if isinstance(target, ast.Name)), "")


def source(node: ast.expr | None) -> str:
    """Return a short expression as Python text; empty if it is long or deep."""
    if node is None or not _is_within(node, nodes=_MAX_SOURCE_NODES):
        return ""
    try:
        return printable(ast.unparse(node), 500)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ""


def printable(text: str, limit: int) -> str:
    """Return text of a file for a message: on one line, cut, with escapes for characters that do
    not print."""
    excerpt = values.cut(text, limit)
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in excerpt
    )
