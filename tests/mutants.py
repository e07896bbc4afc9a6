"""Change the package at random places, one at a time, and see whether the tests of the changed
module's name notice.

`make mutants` takes 100 places with a fixed seed: a call that is left out, a function that returns
None, a comparison turned round, `and` for `or`, a dropped `not`, another returned constant. A place
is drawn by its own text, so a change of one file leaves the places of the others as they were. Each
change is written into the working tree, which must be clean, and taken back afterwards. What the
tests of the module's name do not notice, those of its room may: both are counted. A test that fails
without the change as well judges nothing, and the others are asked. `ARGS="--count 20 --seed 3"`
takes other places, `--only stores/` those below a folder or in a file, `--part 2/3` a third of
them, so that several machines share the work. Every survivor is printed, and every module without
a test of its name.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import inspect
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from tests.harness.surroundings import ROOT

PACKAGE = ROOT / "onetool_ipy"
LIMIT_S = 300
_MAX_BROKEN = 5

_WORD = re.compile(r"[A-Za-z_]{4,}")
_SLOW = re.compile(r"kernel|server|lab|wheel|page")
Verdict = Literal["died", "room", "SURVIVED", "UNJUDGED"]
"""`room`: only the tests of the other modules in its room noticed."""

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change: the text between two places of a file is replaced."""

    path: Path
    line: int
    words: frozenset[str]
    start: int
    end: int
    before: str
    after: str

    def apply(self) -> None:
        """Write the changed file."""
        data = self.path.read_bytes()
        self.path.write_bytes(data[: self.start] + self.after.encode() + data[self.end :])


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change that can be made in a file."""
    data = path.read_bytes()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(data)
    words = _words_by_line(tree, data.decode().splitlines())
    parents = {
        node.value: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Return | ast.Expr) and node.value
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        for changed in _changes(node, parents.get(node)):
            yield Mutant(
                path=path,
                line=node.lineno,
                words=words.get(node.lineno, frozenset()),
                start=start,
                end=end,
                before=data[start:end].decode(),
                # Brackets keep the change one expression, whatever stands around it.
                after=f"({ast.unparse(changed)})",
            )


def _words_by_line(tree: ast.Module, lines: list[str]) -> dict[int, frozenset[str]]:
    """The words of the innermost function or class around each line."""
    words: dict[int, frozenset[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            end = node.end_lineno or node.lineno
            own = frozenset(_WORD.findall("\n".join(lines[node.lineno - 1 : end])))
            words.update(dict.fromkeys(range(node.lineno, end + 1), own))
    return words


def _changes(node: ast.expr, parent: ast.Return | ast.Expr | None) -> Iterator[ast.expr]:
    """The expressions that may take the place of a node; `parent` is the statement that it is all
    of."""
    if isinstance(node, ast.Compare):
        turned = copy.copy(node)
        turned.ops = [_OPPOSITES[type(node.ops[0])](), *node.ops[1:]]
        yield turned
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    if isinstance(parent, ast.Return):
        yield from _other_constant(node) if isinstance(node, ast.Constant) else [ast.Constant(None)]
    elif isinstance(parent, ast.Expr) and isinstance(node, ast.Call):
        yield ast.Constant(None)


def _other_constant(node: ast.Constant) -> Iterator[ast.expr]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str):
        yield ast.Constant(f"{value}x")


def tests_of(path: Path) -> list[str]:
    """The test files that have the name of a module; test_init.py is that of `__init__.py`."""
    folder, stem = ROOT / "tests" / path.relative_to(PACKAGE).parent, path.stem.strip("_")
    return [
        str(file)
        for file in (folder / f"test_{stem}.py", *sorted(folder.glob(f"test_{stem}_*.py")))
        if file.exists()
    ]


def tests_of_room(path: Path) -> list[str]:
    """The other test files of the module's room: its folder in tests/."""
    folder = ROOT / "tests" / path.relative_to(PACKAGE).parent
    own = set(tests_of(path))
    return [str(file) for file in sorted(folder.glob("test_*.py")) if str(file) not in own]


def without_tests(paths: Iterable[Path]) -> list[Path]:
    """The modules that have functions, and no test file of their name."""
    return [
        path
        for path in paths
        if not tests_of(path)
        and re.search(r"^\s*(async )?def ", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def sample(
    paths: list[Path], *, count: int, seed: int, part: tuple[int, int] = (1, 1)
) -> tuple[list[Mutant], int]:
    """Draw `count` mutants or a part of them, and tell how many there are to draw from."""
    ranks: list[tuple[bytes, Mutant]] = []
    for path in paths:
        twins: Counter[tuple[str, str]] = Counter()
        for mutant in mutants_of(path):
            change = mutant.before, mutant.after
            key = (seed, path.relative_to(PACKAGE).as_posix(), *change, twins[change])
            twins[change] += 1
            ranks.append((hashlib.sha256(repr(key).encode()).digest(), mutant))
    ranks.sort(key=lambda rank: rank[0])
    first, parts = part
    return [mutant for _, mutant in ranks[:count][first - 1 :: parts]], len(ranks)


def read_part(text: str) -> tuple[int, int]:
    """Read `2/3` as (2, 3)."""
    if not (match := re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a part such as 2/3.")
    first, parts = int(match[1]), int(match[2])
    if first > parts:
        raise argparse.ArgumentTypeError(f"There is no part {first} of {parts}.")
    return first, parts


def judge(mutant: Mutant) -> Verdict:
    """Whether the tests of the module's name, or else those of its room, fail with the change and
    because of it."""
    original = mutant.path.read_bytes()
    verdict: Verdict = "SURVIVED"
    for tests, dead in ((tests_of(mutant.path), "died"), (tests_of_room(mutant.path), "room")):
        if not tests:
            continue
        without: list[str] = []
        while len(without) < _MAX_BROKEN:
            try:
                mutant.apply()
                outcome = run(tests, mutant.words, without)
            finally:
                mutant.path.write_bytes(original)
            if outcome is None:
                return dead  # type: ignore[return-value]  # one of the two words above
            if outcome.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                break
            failed = re.findall(
                r"^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - |$)", outcome.stdout, re.MULTILINE
            )
            again = run(failed[:1]) if failed else None
            if again is None or not again.returncode:
                return dead  # type: ignore[return-value]
            without += failed[:1]
        else:
            verdict = "UNJUDGED"
    return verdict


def run(
    tests: list[str], words: frozenset[str] = frozenset(), without: Iterable[str] = ()
) -> subprocess.CompletedProcess[str] | None:
    """Run tests up to the first failure, the likely ones first; None where they hang."""
    command = [sys.executable, "-m", "tests.mutants", "--tests", *tests]
    for test in without:
        command += ["--without", test]
    try:
        return subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            input="\n".join(words),
        )
    except subprocess.TimeoutExpired:
        return None


class LikelyFirst:
    """A pytest plugin: tests without a kernel, server or browser first, and those that share words
    with the change."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # A word that most tests have says nothing.
        shared = {
            item: self._words.intersection(_WORD.findall(inspect.getsource(item.function)))
            for item in items
        }  # type: ignore[attr-defined]  # all of ours are functions
        rarity = Counter(word for words in shared.values() for word in words)

        def turn(item: pytest.Item) -> tuple[bool, bool, float]:
            fixtures = " ".join(getattr(item, "fixturenames", ()))
            is_browser = item.get_closest_marker("browser") is not None
            return (
                is_browser,
                _SLOW.search(fixtures) is not None,
                -sum(1 / rarity[word] for word in shared[item]),
            )

        items.sort(key=turn)


def main() -> None:
    """Make the changes one after the other, and print the survivors and the count."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description="Do the tests notice a change?"
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--only", default="", help="take changes below this folder of the package, or in this file"
    )
    parser.add_argument(
        "--part", type=read_part, default=(1, 1), help="take a part of the places, such as 2/3"
    )
    parser.add_argument("--tests", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--without", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tests:
        flags = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not browser"]
        flags += [f"--deselect={test}" for test in options.without]
        sys.exit(
            pytest.main(
                [*flags, *options.tests], plugins=[LikelyFirst(sys.stdin.read().split("\n"))]
            )
        )
    if subprocess.run(
        ["git", "diff", "--quiet", "HEAD", "--", "onetool_ipy"], cwd=ROOT, check=False
    ).returncode:
        sys.exit(
            "The package has changes that are not committed. Commit them first: mutants are written"
            " over its files."
        )
    place = PACKAGE / options.only
    paths = [place] if place.is_file() else sorted(place.rglob("*.py"))
    mutants, places = sample(paths, count=options.count, seed=options.seed, part=options.part)
    verdicts: Counter[Verdict] = Counter()
    for number, mutant in enumerate(mutants, 1):
        start = time.monotonic()
        verdict = judge(mutant)
        verdicts[verdict] += 1
        change = (
            "" if verdict == "died" else f"  {' '.join(mutant.before.split())}  ->  {mutant.after}"
        )
        place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
        print(
            f"{number:>3} {verdict:<8} {time.monotonic() - start:>4.0f} s  {place}{change}",
            flush=True,
        )
    print(
        f"{verdicts['died']} of {len(mutants)} mutants died by the tests of their module's name,"
        f" {verdicts['died'] + verdicts['room']} with those of its room (seed {options.seed},"
        f" {places} places)"
    )
    bare = without_tests(paths)
    print(
        f"{len(bare)} modules have no test of their name:"
        f" {', '.join(str(one.relative_to(PACKAGE)) for one in bare)}"
    )


if __name__ == "__main__":
    main()
