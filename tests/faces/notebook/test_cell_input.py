"""`$name` in a cell: what is taken, and above all what is not."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager, make_tokens_by_line

from onetool_ipy.faces.notebook.cell_input import (
    RUNNER,
    Shortcut,
    help_on,
    look_once,
    prompt_of,
)


@pytest.fixture
def transform() -> TransformerManager:
    manager = TransformerManager()
    manager.token_transformers += [look_once([Shortcut, help_on("tool")], ["tool"], [])]
    return manager


def run(text: str) -> str:
    return f"get_ipython().run_line_magic('{RUNNER}', {text!r})"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("$ws", run("ws")),
        ("$ws query=x", run("ws query=x")),
        ("x = $ws query=x", f"x = {run('ws query=x')}"),
        ("x=$ws", f"x={run('ws')}"),
        ("a.b[0] += $ws q=1", f"a.b[0] += {run('ws q=1')}"),
        ("a, b = $ws", f"a, b = {run('ws')}"),
        ("x: int = $ws", f"x: int = {run('ws')}"),
        ("x = y = $ws", f"x = y = {run('ws')}"),
        ("if 1:\n    $ws a=1\n    z = 2", f"if 1:\n    {run('ws a=1')}\n    z = 2"),
        ("x = $ws q=don't stop", f"x = {run(chr(39).join(['ws q=don', 't stop']))}"),
        ('$ws q="a (b"', run('ws q="a (b"')),
        ("$ws url=https://x.org/?a=1&b=2#c", run("ws url=https://x.org/?a=1&b=2#c")),
        ("$fs.list_dir path=.", run("fs.list_dir path=.")),
        ("$my-alias q=1", run("my-alias q=1")),
        ("$ws;", f"get_ipython().run_line_magic('{RUNNER}', 'ws', _stack_depth=1);"),
        ("$ws?", run("ws?")),
        ("$ws a=1 \\\n    b=2", run("ws a=1      b=2")),
        ("$a\n$b\nx = $c", f"{run('a')}\n{run('b')}\nx = {run('c')}"),
        ("%tool time.now?", "get_ipython().run_line_magic('tool', 'time.now?')"),
    ],
)
def test_a_shortcut_becomes_a_call(transform: TransformerManager, cell: str, expected: str) -> None:
    assert transform.transform_cell(cell) == expected + "\n"


@pytest.mark.parametrize(
    "cell",
    [
        "s = '''\n$ws\nx = $ws q=1\n'''",
        'print("$ws")\n# $ws\n',
        "f'{x=}$y' + f'''\n$y\n'''",
        "x = 5  # $ws",
        "f(x=$y)",
        "x == $ws",
        "x = $5",
        "x = [1,\n $ws]",
        "lambda $x: 1",
        "return $ws",
        "$",
        "x = $",
        "x = $ ws",
        "1 = $ws",
    ],
)
def test_everything_else_is_left_alone(transform: TransformerManager, cell: str) -> None:
    assert transform.transform_cell(cell) == cell.rstrip("\n") + "\n"


@pytest.mark.parametrize(
    "cell",
    [
        "!echo $HOME",
        "!export A=$HOME",
        "x = !echo A=$B",
        "%env A=$B",
        "%%bash\nA=$B\n$ws",
        "%%writefile f\nx = $y",
    ],
)
def test_commands_and_bodies_of_other_magics_keep_their_dollars(
    transform: TransformerManager, cell: str
) -> None:
    assert RUNNER not in transform.transform_cell(cell)


def _standard_library(holding: str) -> Iterator[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    wanted = re.compile(holding, re.MULTILINE)
    for file in sorted(root.rglob("*.py")):
        if "site-packages" in file.parts or "lib2to3" in file.parts or "bad" in file.name:
            continue
        try:
            found = wanted.search(file.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        if found:
            yield file


def _is_untouched(file: Path) -> bool:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return Shortcut.find(make_tokens_by_line(lines)) is None


@pytest.mark.slow
def test_the_standard_library_passes_byte_identical() -> None:
    """Every file with a `$` and a letter where a shortcut could stand (in strings and comments)."""
    files = list(_standard_library(r"(^|=)\s*\$[A-Za-z_]"))
    assert len(files) >= 3
    assert [file for file in files if not _is_untouched(file)] == []


@pytest.mark.soak
def test_every_file_of_the_standard_library_passes_byte_identical() -> None:
    assert [file for file in _standard_library("") if not _is_untouched(file)] == []


_PIECES = st.sampled_from(
    [
        *("$ws", "$ws a=1;", "x = $ws?", "%tool t.f a=1", "%tool t.f?", "x = %tool t.f a=1;"),
        *("%ask why?", "a = %ask why;", "%%tool t.f", "print('$x')", "# $ws?", "if 1:", "    $ws"),
        *("    x = %tool t.f a=1;", "y = 3", "\\", "'''", "(", ")", "", "def f():", "    pass"),
        *("x = %tool t.f \\", "    b=1;", "?x", "x?", "%other a?", "x = a %tool;", "\tz = $ws"),
    ]
)


@given(pieces=st.lists(_PIECES, max_size=8))
def test_one_look_gives_what_each_transformer_by_itself_gives(pieces: list[str]) -> None:
    """IPython asks each of them in turn; we look once whether there is anything for them."""
    each = [Shortcut, help_on("tool"), prompt_of("ask"), prompt_of("tool", only_assigned=True)]
    cell = "\n".join(pieces)
    transformed = []
    for transformers in (each, [look_once(each, ["tool"], ["ask"])]):
        manager = TransformerManager()
        manager.token_transformers += transformers
        try:
            transformed.append(manager.transform_cell(cell))
        except (SyntaxError, RuntimeError) as exc:
            transformed.append(repr(exc))

    assert transformed[0] == transformed[1]
