"""Pack files that a stranger wrote: outlining them runs nothing, never raises, and each costs only
itself."""

from __future__ import annotations

import ast
import gc
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy import Toolbox
from onetool_ipy.sources.outline_reader import MAX_BYTES, read_outline
from tests.core.support import short
from tests.harness.project import Project

GOOD = 'def fine(x: int) -> int:\n    """Give it back."""\n    return x\n'


class _Watch:
    """Hears, by Python's audit events, whether code was run, a module imported or a file opened."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.heard: list[str] = []

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.thread is None or threading.get_ident() != self.thread or args[:1] == ("",):
            return  # nobody listens, or Python looks for the line of a SyntaxError in the file ""
        if event.partition(".")[0] in (
            "exec",
            "import",
            "open",
            "os",
            "subprocess",
            "ctypes",
            "socket",
        ):
            self.heard.append(f"{event} {str(args)[:200]}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        self.heard.clear()
        gc.disable()  # what others left behind may open files when it is collected
        self.thread = threading.get_ident()
        try:
            yield
        finally:
            self.thread = None
            gc.enable()


WATCH = _Watch()


@pytest.fixture(scope="module", autouse=True)
def _watched() -> None:
    read_outline("import typing\n@tool('a', tags=['b'])\n" + GOOD + "def bad(:", pack="p")
    read_outline(b"# coding: latin-1\n" + GOOD.encode(), pack="p")
    read_outline("requires = {'cli': ['a']}\n" + GOOD, pack="p")
    sys.addaudithook(WATCH)


def _quietly(text: str | bytes) -> Any:
    with WATCH.listening():
        outline = read_outline(text, pack="p")
    assert WATCH.heard == []
    json.dumps(outline.to_json())
    return outline


IMPORTS = "import typing, pathlib, datetime, pydantic\n"
RUNS = "__import__('pathlib').Path(MARKER).touch()"
HOSTILE = [
    "x: RUNS",
    "x: 'RUNS'",
    "x: Annotated[int, RUNS]",
    "x: typing.Annotated[int, print('x')]",
    "x: Literal[RUNS]",
    "x: Literal[pathlib.os.environ['HOME']]",
    "x: typing.sys.modules['pathlib'].Path(MARKER).touch()",
    "x: typing.sys.modules['ctypes'].cdll['./lib.so']",
    "x: typing.__builtins__['exec']('1')",
    "x: typing.Optional['RUNS']",
    "x: list[RUNS]",
    "x: list['RUNS']",
    "x: dict[str, RUNS] = None",
    "x: Optional[(y := RUNS)]",
    "x: (lambda: RUNS)()",
    "x: [RUNS for _ in (1,)]",
    "x: {RUNS for _ in (1,)}",
    "x: f'''{RUNS}'''",
    "x: list[f'''{RUNS}''']",
    "x: int if RUNS else str",
    "x: RUNS or int",
    "x: typing.Union[int, *[RUNS]]",
    "x: typing.ForwardRef('RUNS')",
    "x: typing.NamedTuple('N', [('a', RUNS)])",
    "x: typing.get_type_hints(RUNS)",
    "x: pathlib.Path(MARKER).touch()",
    "x: datetime.__class__",
    "x: type('T', (), {'__class_getitem__': lambda *_: RUNS})[int]",
    "x: Annotated[int, pydantic.Field(default_factory=lambda: RUNS)]",
    "x: Annotated[int, pydantic.Field(description=RUNS)]",
    "x=RUNS",
    "x=f'''{RUNS}'''",
    "x=[RUNS]",
    "x={'a': RUNS}",
    "*x: RUNS",
    "**x: RUNS",
    "x, /, *, y: RUNS = RUNS",
]
ELSEWHERE = [
    "@RUNS\ndef f(x): ...",
    "@tool(name=RUNS)\ndef f(x): ...",
    "@tool(f'''{RUNS}''')\ndef f(x): ...",
    "@tool(tags=[RUNS])\ndef f(x): ...",
    "@tool(**RUNS)\ndef f(x): ...",
    "@requires_cli(RUNS)\ndef f(x): ...",
    "@requires_cli('a', version_flag=RUNS)\ndef f(x): ...",
    "@tool(timeout=RUNS)\ndef f(x): ...",
    "def f(x) -> RUNS: ...",
    "def f(x) -> 'RUNS': ...",
    "def f(x):\n    f'''{RUNS}'''",
    (
        "class A:\n    x = RUNS\n    y: RUNS\n    def __class_getitem__(cls, key): RUNS\ndef f(x:"
        " A[int]): ..."
    ),
    "class A(RUNS): ...\ndef f(x: A): ...",
    "__all__ = [RUNS]\ndef f(x): ...",
    "__all__ = ['f', f'''{RUNS}''']\ndef f(x): ...",
    "__all__ = ['f']\n__all__ += [RUNS]\ndef f(x): ...",
    "pack = RUNS",
    "pack = f'''{RUNS}'''",
    "requires = RUNS\ndef f(x): ...",
    "requires = {'cli': RUNS}\ndef f(x): ...",
    "RUNS\ndef f(x): ...",
    "if RUNS:\n    def f(x): ...",
    "import this, antigravity\ndef f(x: this.s): ...",
    "def f(x: int = (RUNS, 1)[1]): ...",
]


@pytest.mark.parametrize(
    "text",
    [f"import typing, pathlib, datetime, pydantic\ndef f({each}): ..." for each in HOSTILE]
    + ELSEWHERE,
    ids=short,
)
def test_outlining_runs_nothing_of_the_text(text: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    runs = RUNS.replace("MARKER", ascii(str(marker)))
    text = (
        text.replace("'RUNS'", repr(runs))
        .replace("RUNS", runs)
        .replace("MARKER", ascii(str(marker)))
    )
    ast.parse(text)

    _quietly(text)

    assert not marker.exists()
    for name in ("this", "antigravity"):
        assert name not in sys.modules


def test_a_variable_of_the_environment_reaches_no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", "s3cret-value")

    outline = _quietly(
        "import pathlib\ndef f(x: Literal[pathlib.os.environ['TOKEN_OF_MINE']]): ..."
    )

    assert "s3cret-value" not in json.dumps(outline.to_json())


_names = st.sampled_from(
    [
        *(
            "int",
            "str",
            "list",
            "dict",
            "tuple",
            "typing",
            "t",
            "Optional",
            "Literal",
            "Annotated",
            "Union",
        ),
        *("os", "sys", "pathlib", "Path", "datetime", "f", "x", "open", "exec"),
    ]
)
_leaves = st.one_of(
    _names.map(lambda name: ast.Name(name, ast.Load())),
    st.one_of(
        *(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.binary(max_size=5),
            st.text(max_size=5),
        ),
        st.sampled_from(
            ["int", "list[str]", "__import__('os')", "print(1)", "Optional['int']", ...]
        ),
    ).map(ast.Constant),
)


def _grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, max_size=3)
    load = ast.Load()
    generators = st.builds(
        lambda over: [ast.comprehension(ast.Name("x", ast.Store()), over, [], 0)],
        inner,
    )
    return st.one_of(
        st.builds(
            lambda value, name: ast.Attribute(value, name.id, load),
            inner,
            _names.map(lambda n: ast.Name(n, load)),
        ),
        st.builds(lambda value, index: ast.Subscript(value, index, load), inner, inner),
        st.builds(lambda items: ast.Tuple(items, load), many),
        st.builds(lambda items: ast.List(items, load), many),
        st.builds(lambda left, right: ast.BinOp(left, ast.BitOr(), right), inner, inner),
        st.builds(lambda left, right: ast.BinOp(left, ast.Pow(), right), inner, inner),
        st.builds(lambda fn, args: ast.Call(fn, args, []), inner, many),
        st.builds(
            lambda fn, value: ast.Call(fn, [], [ast.keyword("description", value)]), inner, inner
        ),
        st.builds(lambda value: ast.NamedExpr(ast.Name("x", ast.Store()), value), inner),
        st.builds(
            lambda body: ast.Lambda(ast.arguments([], [], None, [], [], None, []), body), inner
        ),
        st.builds(lambda element, over: ast.ListComp(element, over), inner, generators),
        st.builds(lambda a, b, c: ast.IfExp(a, b, c), inner, inner, inner),
        _names.map(lambda name: ast.JoinedStr([ast.FormattedValue(ast.Name(name, load), -1)])),
        st.builds(lambda value: ast.Starred(value, load), inner),
        st.builds(lambda value: ast.Await(value), inner),
        st.builds(lambda value: ast.UnaryOp(ast.USub(), value), inner),
    )


_expressions = st.recursive(_leaves, _grow, max_leaves=12).map(
    lambda node: ast.unparse(ast.fix_missing_locations(node))
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_expressions, _expressions, _expressions)
def test_whatever_an_expression_is_it_is_only_read(
    annotation: str, default: str, word: str
) -> None:
    text = (
        "import typing as t\nfrom typing import *\nimport os, sys, pathlib\n"
        f"@tool({word}, description={word})\n"
        f"def f(x: {annotation} = {default}, *, y: t.Optional[{annotation}]) -> {word}: ...\n"
        f"__all__ = [{word}, 'f']\nrequires = {default}\n"
    )

    outline = _quietly(text)

    assert not outline.error or "Error" in outline.error


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_whatever_a_text_is_outlining_never_raises(text: str | bytes) -> None:
    _quietly(text)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="()[]{}:=,'\"\\\n \tdefclaspk_01*@#f.", max_size=300))
def test_whatever_a_text_of_pythons_signs_is_outlining_never_raises(text: str) -> None:
    _quietly(text)


# --- files that are deep, large or odd: each is a problem of its own, and the others load


def _deep(head: str, piece: str, tail: str = "", times: int = 1_200, end: str = "") -> str:
    return head + piece * times + tail + end * times + "): ...\n"


ODD: dict[str, str | bytes] = {
    "deep annotation": _deep("def f(x: ", "list[", "int", end="]"),
    "deep union": _deep("def f(x: ", "int | ", "int", times=5_000),
    "deep attribute": _deep("def f(x: a", ".b", times=5_000),
    "deep default": _deep("def f(x=", "[", "1", end="]"),
    "deep decorator": "@a" + "()" * 1_200 + "\ndef f(x): ...\n",
    "deep decorator word": "@tool(" + "-" * 1_200 + "1)\ndef f(x): ...\n",
    "deep return": "def f(x) -> " + "list[" * 1_200 + "]" * 1_200 + ": ...\n",
    "deep text annotation": "def f(x: '" + "int | " * 300 + "int'): ...\n",
    "deep parentheses": "(" * 2_000,
    "deep minus": "x = " + "-" * 50_000 + "1",
    "deep sum": "x = " + "1 + " * 100_000 + "1\n" + GOOD,
    "long elif": "if a: ...\n" + "elif a: ...\n" * 3_000 + GOOD,
    "deep pack": "pack = " + "-" * 1_200 + "1",
    "deep exports": "__all__ = " + "[" * 1_200 + "]" * 1_200 + "\n" + GOOD,
    "deep requires": "requires = " + "[" * 1_200 + "]" * 1_200 + "\n" + GOOD,
    "large literal": "__all__ = [" + "'a'," * 100_000 + "]\n" + GOOD,
    "large default": "def f(x=[" + "1," * 100_000 + "]): ...\n",
    "large choice": "def f(x: Literal[" + ",".join(map(str, range(100_000))) + "]): ...\n",
    "large number": "def f(x=0x"
    + "f" * 100_000
    + ", y: Literal[0x"
    + "f" * 100_000
    + "] = 1): ...\n",
    "large power": "def f(x=10**10**9, y='a' * 10**10): ...\n",
    "large time limit": "@tool(timeout=0x" + "f" * 2_000 + ")\ndef f(x): ...\n",
    "endless time limit": "@tool(timeout=1e999)\ndef f(x): ...\n",
    "many tools": "".join(f"def t{i}(): ...\n" for i in range(5_000)),
    "many arguments": "def f(" + ", ".join(f"a{i}" for i in range(5_000)) + "): ...\n",
    "same argument twice": "def f(x, x): ...\n" + GOOD,
    "requires no list": "requires = {'cli': 5}\n" + GOOD,
    "requires no name": "requires = {'cli': [[], {}, {'name': 5}]}\n" + GOOD,
    "name no text": "@tool(5, pack=[1])\ndef f(x): ...\n" + GOOD,
    "name of controls": "@tool('a\\x1b[2J')\ndef f(x): ...\n@tool('b\\u202e')\ndef g(x): ...\n"
    + GOOD,
    "export of controls": "__all__ = ['\\x1b[2J', 'fine', '\\ud800']\n" + GOOD,
    "star of controls": "from os import *\n__all__ = ['\\x1b[2J', '\\ud800', 'a b', 'fine']\n"
    + GOOD,
    "lone surrogate": "def f(x='\\ud800'):\n    '''\\udcff'''\n",
    "null byte": "x = 1\0\n",
    "unknown encoding": b"# coding: no-such-code\n",
    "encoding that is no text": b"# coding: rot13\nx = 1\n",
    "encoding that unpacks": b"# coding: zlib\n" + b"x",
    "slow encoding": b"# coding: punycode\n" + b"a" * 100_000,
    "wrong bytes": b"x = '\xff'\n",
    "utf-16": "x = 1\n".encode("utf-16"),
    "too large": b"#" * (MAX_BYTES + 1),
}


def _problems(box: Toolbox) -> str:
    return "\n".join(str(problem) for problem in box.problems())


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_costs_only_itself(project: Project, name: str) -> None:
    odd = ODD[name]
    (project.home / "tools").mkdir()
    (project.home / "tools" / "odd.py").write_bytes(odd if isinstance(odd, bytes) else odd.encode())
    project.write("tools/good.py", GOOD)

    box = project.open()

    assert box.call("good.fine", {"x": 1}).data == 1
    listed = [spec.signature for spec in box.registry.list()] + [
        spec.summary for spec in box.registry.list()
    ]
    for text in (*listed, _problems(box)):
        text.encode("utf-8")
        assert text.replace("\n", "").isprintable()
    assert len(box.registry.list()) < 1_100
    assert len(box.problems()) < 1_200


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deep parentheses", "odd.py: line 1: SyntaxError: too many nested parentheses."),
        ("deep minus", "Error: the text is nested too deeply or too large to be read."),
        (
            "many tools",
            "the file has more than 1,000 tools. The others are not offered: split the file.",
        ),
        ("many arguments", "'f' is not a tool: it has more than 500 arguments."),
        ("same argument twice", "'f' is not a tool: the argument 'x' is there twice"),
        ("requires no list", "requires: cli must be a list."),
        ("null byte", "odd.py: SyntaxError: source code string cannot contain null bytes."),
        ("encoding that is no text", "odd.py: SyntaxError: unknown encoding: rot13."),
        ("slow encoding", "odd.py: SyntaxError: unknown encoding: punycode."),
        (
            "too large",
            "odd.py: The file has 1,000,001 bytes; a pack file has at most 1,000,000.",
        ),
        ("export of controls", "__all__ names '\\x1b[2J', which the file does not define."),
        ("endless time limit", "timeout=inf is not a number of seconds above 0."),
    ],
)
def test_an_odd_file_is_a_problem_that_says_why(project: Project, name: str, said: str) -> None:
    odd = ODD[name]
    (project.home / "tools").mkdir()
    (project.home / "tools" / "odd.py").write_bytes(odd if isinstance(odd, bytes) else odd.encode())

    assert said in _problems(project.open())
