"""Lines of a cell that IPython cannot read by itself: `$name k=v`, `x = $name k=v`, `%tool NAME?`,
`%ask ...?`.

Also `LoneLines`: a `%tool` or `$name` line shows itself wherever it is in its cell, and not only as
the last line.

The transformers work on tokens, so strings, comments, `!echo $HOME` and the bodies of other cell
magics are never changed, and any valid Python file passes byte-identical. A `$` counts only at the
start of a statement, or after an assignment whose left side Python could assign to, with a name
right after it. The rest of the line is argument text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from tokenize import COMMENT, DEDENT, ERRORTOKEN, INDENT, NEWLINE, NL, OP, TokenInfo
from typing import Any

from IPython.core.inputtransformer2 import (
    TokenTransformBase,
    assemble_continued_line,
    find_end_of_continued_line,
)

RUNNER = "onetool_run"
"""The line magic that replaces a `$`; not meant to be typed."""
SHOWER = "onetool_show"
"""The line magic that displays the value of a line; not meant to be typed."""
_SILENT = ", _stack_depth=1"
"""Marks a `$name ...;` for `LoneLines`: the parsed cell has no `;` any more. The argument is
IPython's default."""

# Patterns are texts, which `re` compiles at their first use: most notebooks load us and have many
# cells without a line of ours.
_NAME = r"\$([^\W\d][\w.\-]*)"
_SPACE = (INDENT, DEDENT, NL, NEWLINE, COMMENT)
_ASSIGN = frozenset(
    ("=", "+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", ">>=", "<<=", "@=")
)


class Shortcut(TokenTransformBase):
    """One `$name` of a cell."""

    priority = 1  # before `?`: we answer `$name?`

    def __init__(self, start: tuple[int, int], statement: tuple[int, int]) -> None:
        super().__init__(start)  # type: ignore[no-untyped-call]  # IPython has no types here
        self._statement = statement

    @classmethod
    def find(cls, tokens_by_line: list[list[TokenInfo]]) -> Shortcut | None:
        """The first shortcut of a cell, or None."""
        for tokens in tokens_by_line:
            dollar = _find(tokens)
            if dollar is not None:
                return cls(dollar.start, _first(tokens).start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Replace the line, with its `\\` continuations, by a call of the line magic."""
        begin, column = self.start_line, self.start_col
        end = find_end_of_continued_line(lines, begin)
        text = assemble_continued_line(lines, (begin, column), end)
        is_silent = text.rstrip().endswith(";")
        arguments = f"{RUNNER!r}, {text[1:].rstrip().rstrip(';')!r}{_SILENT if is_silent else ''}"
        end_of_line = ";\n" if is_silent else "\n"
        new = f"{lines[begin][:column]}get_ipython().run_line_magic({arguments}){end_of_line}"
        return [*lines[:begin], new, *lines[end + 1 :]]


def help_on(magic: str) -> type[TokenTransformBase]:
    """A transformer that passes `%magic NAME?` to the magic; IPython would look up NAME as a
    variable."""

    class Help(TokenTransformBase):
        priority = 1

        @classmethod
        def find(cls, tokens_by_line: list[list[TokenInfo]]) -> Help | None:
            for tokens in tokens_by_line:
                if tokens and tokens[0].line.lstrip().startswith("%"):
                    first = _first(tokens)
                    if first.string == "%" and re.match(
                        rf"\s*%{magic}\s+\S.*\?\s*$", _physical_line(first)
                    ):
                        return cls(first.start)
            return None

        def transform(self, lines: list[str]) -> list[str]:
            line = lines[self.start_line]
            text = line[self.start_col + 1 :].strip().removeprefix(magic).strip()
            new = f"{line[: self.start_col]}get_ipython().run_line_magic({magic!r}, {text!r})\n"
            return [*lines[: self.start_line], new, *lines[self.start_line + 1 :]]

    return Help


def prompt_of(magic: str, *, only_assigned: bool = False) -> type[TokenTransformBase]:
    """A transformer for `%magic ...` and `x = %magic ...`: a prompt may end in `?`, which means
    help to IPython.

    With `only_assigned` only for `x = %magic ...;`: its `;` hides the output, and the variable
    still gets the value.
    """

    class Prompt(TokenTransformBase):
        priority = 1

        @classmethod
        def find(cls, tokens_by_line: list[list[TokenInfo]]) -> Prompt | None:
            for tokens in tokens_by_line:
                first = _first(tokens) if tokens else None
                if first is None:
                    continue
                hit = re.match(rf"(?P<target>\s*|[^=%!$#\n]+=\s*)%{magic}[ \t]+\S", first.line)
                if hit is None or first.line[: first.start[1]].strip():
                    continue
                target = hit["target"].rstrip().removesuffix("=")
                if only_assigned and not (target.strip() and first.line.rstrip().endswith(";")):
                    continue
                if not target or _is_target(target, "="):
                    return cls(first.start)  # where `?` would begin too; the priority decides
            return None

        def transform(self, lines: list[str]) -> list[str]:
            begin = self.start_line
            column = lines[begin].index(f"%{magic}", self.start_col)
            end = find_end_of_continued_line(lines, begin)
            text = (
                assemble_continued_line(lines, (begin, column), end)
                .strip()
                .removeprefix(f"%{magic}")
                .strip()
            )
            silenced = ";" if text.endswith(";") else ""
            call = (
                f"get_ipython().run_line_magic({magic!r},"
                f" {text.removesuffix(';').rstrip()!r}){silenced}"
            )
            return [*lines[:begin], f"{lines[begin][:column]}{call}\n", *lines[end + 1 :]]

    return Prompt


def look_once(
    transformers: Sequence[type[TokenTransformBase]], magics: Iterable[str], prompts: Iterable[str]
) -> type[TokenTransformBase]:
    """One transformer for all of these, which looks at a cell once: most have nothing for them.

    IPython asks each transformer again and again until none has anything to do.
    """
    # More than the transformers take, and never less.
    marks = ("$", *(f"%{name}" for name in prompts))
    names = tuple(f"%{name}" for name in magics)

    class Lines(TokenTransformBase):
        @classmethod
        def find(cls, tokens_by_line: list[list[TokenInfo]]) -> TokenTransformBase | None:
            # The token of an end of a block may have no line.
            lines = (tokens[0].line + tokens[-1].line for tokens in tokens_by_line if tokens)
            text = "".join(lines)
            has_end = "?" in text or ";" in text
            if not any(mark in text for mark in (*marks, *(names if has_end else ()))):
                return None
            candidates = (each.find(tokens_by_line) for each in transformers)  # type: ignore[no-untyped-call]  # IPython has no types here
            return min(
                (each for each in candidates if each is not None),
                key=TokenTransformBase.sortby,
                default=None,
            )

    return Lines


class LoneLines:
    """An AST transformer of IPython: a line of one of these magics that is not the last of its cell
    displays itself.

    The last one is displayed by IPython. Lines in functions and classes stay as they are: they run
    at another time.
    """

    def __init__(self, shell: Any, magics: Iterable[str]) -> None:
        self._shell = shell
        self._magics = frozenset(magics)

    def visit(self, module: ast.Module) -> ast.Module:
        """Change the statements of a cell in place."""
        # With `all` IPython displays every line itself, with `none` not even the last.
        if self._shell.ast_node_interactivity in ("all", "none"):
            return module
        self._show(module.body[:-1])
        if module.body and not isinstance(module.body[-1], ast.Expr):
            self._show(module.body[-1:])
        return module

    def _show(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.Expr) and self._is_ours(statement.value):
                shower = ast.parse(f"get_ipython().find_line_magic({SHOWER!r})", mode="eval").body
                statement.value = ast.copy_location(
                    ast.Call(shower, [statement.value], []), statement.value
                )
            elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                blocks = [
                    statement,
                    *getattr(statement, "handlers", ()),
                    *getattr(statement, "cases", ()),
                ]
                for block in blocks:
                    for name in ("body", "orelse", "finalbody"):
                        self._show(getattr(block, name, ()))

    def _is_ours(self, value: ast.expr) -> bool:
        match value:
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic"),
                args=[ast.Constant(value=magic), ast.Constant(value=str(line))],
                keywords=[],
            ):
                return magic in self._magics and not line.rstrip().endswith(";")
        return False


def _find(tokens: list[TokenInfo]) -> TokenInfo | None:
    """The `$` of a statement that is a shortcut, or None."""
    before: TokenInfo | None = None
    for token in tokens:
        if token.type in _SPACE or not token.string.strip():
            continue
        if token.string == "$" and token.type in (OP, ERRORTOKEN):
            return token if _is_shortcut(token, before, tokens) else None
        before = token
    return None


def _is_shortcut(token: TokenInfo, before: TokenInfo | None, tokens: list[TokenInfo]) -> bool:
    row, column = token.start
    line = _physical_line(token)
    if re.match(_NAME, line[column:]) is None:
        return False
    if before is None:
        return True
    if before.string not in _ASSIGN:
        return False
    start = _first(tokens).start
    if start[0] != row:
        return False
    return _is_target(line[start[1] : before.start[1]], before.string)


def _is_target(text: str, operator: str) -> bool:
    try:
        ast.parse(f"{text.strip()} {operator} 0")
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _first(tokens: list[TokenInfo]) -> TokenInfo:
    solid = (t for t in tokens if t.type not in _SPACE and t.string.strip())
    return next(solid, tokens[0])


def _physical_line(token: TokenInfo) -> str:
    """The token's own line; `token.line` may have several."""
    lines = token.line.splitlines(keepends=True)
    return lines[0] if len(lines) == 1 else next((t for t in lines if "$" in t), token.line)
