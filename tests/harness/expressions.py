"""Every regular expression of the package, and the texts that make a bad one slow.

`collect` finds the expressions in the source, with the methods they are used by. `slow_text` runs
one over texts that are made of its own parts, and names a text that costs far more than its length.
Only CPU time counts, so a busy machine changes nothing; what costs much is held against a quarter
of its text, so a slow machine changes nothing either.

`python -m tests.harness.expressions` prints each expression as it begins, and a line `slow: ...`
for each bad one.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # the parser of `re` has no public name
from re import _parser as parser  # type: ignore[attr-defined]  # the same
from types import SimpleNamespace
from typing import Any, NamedTuple

import onetool_ipy
from onetool_ipy.base.masking import forms_of
from onetool_ipy.faces.notebook.inspection import ASSIGNED

__all__ = ["Expression", "collect", "cost", "is_slow", "slow_text"]

_PACKAGE = Path(onetool_ipy.__file__).parent
_METHODS = ("match", "search", "sub", "subn", "fullmatch", "finditer", "split", "findall")
# What stands for a local name in an expression that is put together where it is used.
_LOCALS: dict[str, Any] = {
    "ASSIGNED": ASSIGNED,
    "bundle_id": "id",
    "magic": "tool",
    "magics": ("tool", "pack"),
    "name": "tool",
    "names": "tool|ask",
    "pack": "pack",
    "prompts": ("ask",),
    "self": SimpleNamespace(_head="\ue000", pattern=next(forms_of('a"\\b/c d')).pattern),
    "word": "word",
}
_COMMON = tuple(" \n\taA0.\"'\\()[]{}$`<>-/,=:#é")


class Expression(NamedTuple):
    """One expression: where it stands, its text, its flags, and the methods of `re` it is used
    by."""

    place: str
    pattern: str | bytes
    flags: int
    methods: frozenset[str]


def collect() -> list[Expression]:
    """Every expression in the package. Raises NameError for one that `_LOCALS` cannot complete."""
    trees = {
        path: list(ast.walk(ast.parse(path.read_text("utf-8"))))
        for path in sorted(_PACKAGE.rglob("*.py"))
    }
    uses = {path: set(_uses(tree)) for path, tree in trees.items()}
    public = {use for each in uses.values() for use in each if not use[0].startswith("_")}
    return [
        each for path, tree in trees.items() for each in _of_module(path, tree, uses[path] | public)
    ]


def _uses(tree: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """Every `NAME.method`, as a pair."""
    for node in tree:
        if isinstance(node, ast.Attribute) and node.attr in _METHODS:
            yield ast.unparse(node.value).rpartition(".")[2], node.attr


def _of_module(path: Path, tree: list[ast.AST], uses: set[tuple[str, str]]) -> Iterator[Expression]:
    names = {id(node.value): node.targets[0] for node in tree if isinstance(node, ast.Assign)}
    for node in tree:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method = node.func.attr
        if method not in (*_METHODS, "compile") or ast.unparse(node.func.value) != "re":
            continue
        module = ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        space = {**_LOCALS, **vars(importlib.import_module(module))}
        at = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(method, 2)
        flags = [word.value for word in node.keywords if word.arg == "flags"] or node.args[
            at : at + 1
        ]
        pattern, flag = (
            eval(ast.unparse(each), space) for each in (node.args[0], *(flags or [ast.Constant(0)]))
        )
        name = ast.unparse(names[id(node)]) if id(node) in names else ""
        # An expression that is only handed on is handed on for a full match.
        own = {each for owner, each in uses if owner == name} or {"fullmatch"}
        methods = own if method == "compile" else {method}
        place = f"{path.relative_to(_PACKAGE)}:{node.lineno} {name}".rstrip()
        yield Expression(place, pattern, int(flag), frozenset(methods))


def slow_text(expression: Expression) -> str:
    """Name a text that the expression is slow on; empty if there is none."""
    compiled = re.compile(expression.pattern, expression.flags)
    for method in sorted(expression.methods):
        work = _work(compiled, method)
        for start, part, end in _texts(expression):
            if is_slow(work, start, part, end):
                return f"{method} of {start!r} + {part!r} * n + {end!r}"
    return ""


def is_slow(work: Callable[[str], object], start: str, part: str, end: str) -> bool:
    """Whether the work on a long text takes far more time than its length explains.

    A cubic one shows at the first length. Only what may be bad is tried at the next one: a
    quadratic one that takes 0.5 s for 60,000 letters takes 14 ms for 10,000.
    """
    for length, may_be_bad_s, is_bad_s in (
        (500, 0.00005, 0.05),
        (10_000, 0.012, 0.1),
        (60_000, 0.5, 0.5),
    ):
        # The best of three: the collector, or another process that empties the caches, costs some
        # time now and then.
        if cost(work, start, part, end, length) < may_be_bad_s:
            return False
        least = min(cost(work, start, part, end, length) for _ in range(2))
        if least < may_be_bad_s:
            return False
        # A slow machine takes longer for what is linear, too: four times the text then costs four
        # times as much.
        if least > is_bad_s:
            return least > 9 * min(cost(work, start, part, end, length // 4) for _ in range(3))
    return False


def cost(work: Callable[[str], object], start: str, part: str, end: str, length: int) -> float:
    """The CPU time of the work on a text of this length, in seconds."""
    text = start + part * (length // len(part)) + end
    begin = time.process_time()
    work(text)
    return time.process_time() - begin


def _work(compiled: re.Pattern[Any], method: str) -> Callable[[str], object]:
    def work(text: str) -> None:
        data: Any = text.encode() if isinstance(compiled.pattern, bytes) else text
        if method in ("sub", "subn"):
            compiled.sub(data[:0], data)
        elif method == "finditer":
            for _ in compiled.finditer(data):
                pass
        else:
            getattr(compiled, method)(data)

    return work


class _Parts:
    """What an expression is made of: letters it matches, words of its literals, and texts that lead
    to a repetition."""

    def __init__(self, tree: Any) -> None:
        self.letters: dict[str, None] = {}
        self.words: dict[str, None] = {}
        self.starts: dict[str, None] = {"": None}
        self.words[self.walk(tree, "")[:200] or "a"] = None

    def walk(self, tree: Any, before: str) -> str:
        """Collect from a parse tree; returns a text that the tree matches, more or less."""
        text = ""
        for code, value in tree:
            piece = self._piece(code, value, before + text)
            text += piece
        return text

    def _piece(self, code: Any, value: Any, before: str) -> str:
        if code in (codes.LITERAL, codes.IN, codes.NOT_LITERAL, codes.ANY):
            samples = _samples(code, value)
            self.letters.update(dict.fromkeys(samples[:2]))
            return samples[0] if samples else ""
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            # The text so far is a way to begin, and may itself stand there many times.
            self.starts[before[:200]] = None
            self.words[before[:200] or "a"] = None
            once: str = self.walk(value[2], before)
            self.words[once[:200] or "a"] = None
            return once * min(int(value[0]), 200)
        if code is codes.BRANCH:
            ways = [self.walk(way, before) for way in value[1]]
            self.words.update(dict.fromkeys(way[:200] or "a" for way in ways))
            return ways[0]
        if code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            return self.walk(value[-1] if code is codes.SUBPATTERN else value, before)
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            self.walk(value[1], before)
        return ""


def _samples(code: Any, value: Any) -> list[str]:
    if code is codes.LITERAL:
        return [chr(value)]
    tree = parser.SubPattern(parser.State(), [(code, value)])
    tree.state.str = ""
    matching = re._compiler.compile(tree)  # type: ignore[attr-defined]  # a tree has no other compiler
    return [each for each in (*_COMMON, *map(chr, range(33, 127))) if matching.fullmatch(each)]


def _texts(expression: Expression) -> Iterator[tuple[str, str, str]]:
    """Beginnings, repeated parts and ends, made of what the expression matches itself."""
    parts = _Parts(parser.parse(expression.pattern, expression.flags))
    letters = list(parts.letters)[:6]
    pairs = (first + second for first in letters for second in letters if first != second)
    repeated = dict.fromkeys((*parts.letters, *parts.words, *_COMMON, *pairs))
    for start in parts.starts:
        for part in repeated:
            for end in ("", "\n\0"):
                yield start, part, end


def main() -> None:
    """Print every expression, and what is wrong with it."""
    for expression in collect():
        sys.stdout.write(f"{expression.place}\n")
        sys.stdout.flush()
        if text := slow_text(expression):
            sys.stdout.write(f"slow: {expression.place} | {expression.pattern!r} | {text}\n")


if __name__ == "__main__":
    main()
