"""A pack file read as text: what can be told without running it, and a cache that survives
anything."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.schema.read import signature_text
from onetool_ipy.sources.outline import OutlineCache, PackOutline, ToolOutline
from onetool_ipy.sources.outline_reader import read_outline
from tests.core.support import short
from tests.harness.programs import python
from tests.harness.systems import has_mode


def _outline(text: str | bytes, pack: str = "stem") -> PackOutline:
    return read_outline(textwrap.dedent(text) if isinstance(text, str) else text, pack=pack)


def _one(text: str) -> ToolOutline:
    (tool,) = _outline(text).tools
    return tool


def test_a_whole_function_is_outlined() -> None:
    tool = _one('''
        pack = "brave"

        @tool(tags=["web"], read_only=True, timeout=2.5, examples=["search('x')"])
        async def search(query: str, /, count: int = 5, *rest: float, deep: bool = False, **more: int) -> list[str]:
            """Search the web.

            Args:
                query: What.
                count: How many.

            Returns:
                Pages.
            """
        ''')

    assert tool._replace(parameters={}) == ToolOutline(
        function="search",
        name="brave.search",
        description="Search the web.",
        parameters={},
        positional=("query", "count", "*rest"),
        returns="Pages.",
        example="search('x')",
        tags=("web",),
        read_only=True,
        timeout_s=2.5,
        is_async=True,
        line=5,
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "x-annotation": "str", "description": "What."},
            "count": {
                "type": "integer",
                "x-annotation": "int",
                "description": "How many.",
                "default": 5,
            },
            "rest": {"type": "array", "x-annotation": "list[float]"},
            "deep": {"type": "boolean", "x-annotation": "bool", "default": False},
        },
        "required": ["query"],
        "additionalProperties": True,
    }


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("def a(): ...\ndef _b(): ...\nclass C: ...\nimport os\nfrom os import path\nx = 1", ["a"]),
        ("__all__ = ['b']\ndef a(): ...\ndef b(): ...", ["b"]),
        ("__all__ = ('b', 'a', 'b')\ndef a(): ...\ndef b(): ...", ["b", "a"]),
        ("__all__: list[str] = ['_a']\ndef _a(): ...", ["_a"]),
        ("__all__ = ['a']\n__all__ += ['b']\ndef a(): ...\ndef b(): ...", ["a", "b"]),
        ("__all__ = ['C', 'X', 'os', 'a']\nimport os\nclass C: ...\nX = 5\ndef a(): ...", ["a"]),
        (
            (
                "__all__ = ['join', 'made', 'other']\nfrom os.path import join\nmade ="
                " partial(f)\nother = made"
            ),
            ["join", "made", "other"],
        ),
        ("__all__ = []\ndef a(): ...", []),
        (
            (
                "if True:\n  def a(): ...\nelse:\n  def b(): ...\ntry:\n  def c(): ...\nexcept E:\n"
                "  def d(): ..."
            ),
            list("abcd"),
        ),
        ("with x:\n  def a(): ...\nfor i in y:\n  def b(): ...", ["a"]),
        ("def a(): ...\ndef a(x): ...", ["a"]),
        ("", []),
        ("# only a comment", []),
    ],
    ids=short,
)
def test_which_names_are_tools(text: str, tools: list[str]) -> None:
    assert [tool.function for tool in _outline(text).tools] == tools


@pytest.mark.parametrize(
    ("text", "pack"),
    [
        ('pack = "brave"', "brave"),
        ('pack: str = "brave"', "brave"),
        ("", "stem"),
        ('pack = "a"\npack = "b"', "b"),
        ("def pack(): ...", "stem"),
    ],
    ids=short,
)
def test_which_pack_a_file_is(text: str, pack: str) -> None:
    assert _outline(text).pack == pack


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def a(:", "line 1: SyntaxError"),
        ("x = 1\n  y = 2", "line 2: IndentationError"),
        ("pack = 5", "line 1: pack = 5 is not a name"),
        ("\npack = NAME", "line 2: pack = NAME is not a name"),
        ('pack = "no name"', "pack = 'no name' is not a name"),
        ("pack = None", "pack = None is not a name"),
        ("x = '\0'", "SyntaxError"),
        (b"x = '\xff'", "missing encoding declaration"),
        (b"# caf\xe9", "missing encoding declaration"),
        (b"# coding: no-such-code", "SyntaxError: unknown encoding"),
        ("(" * 2_000, "Error"),
        ("x = " + "-" * 50_000 + "1", "Error"),
    ],
    ids=short,
)
def test_a_file_that_cannot_be_used_says_why_and_where(text: str | bytes, error: str) -> None:
    outline = _outline(text)

    assert error in outline.error
    assert outline.tools == ()


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "__all__ = ['a', 'b']\ndef a(): ...",
            1,
            "__all__ names 'b', which the file does not define.",
        ),
        ("\n__all__ = names()\ndef a(): ...", 2, "__all__ is not a plain list of names."),
        ("__all__ = [1]\ndef a(): ...", 1, "__all__ is not a plain list of names."),
        (
            "def a(): ...\n@tool('has blank')\ndef b(): ...",
            3,
            "'b' is not a tool: The name 'has blank' holds blanks",
        ),
        ("def a(): ...\n@tool(timeout=-1)\ndef b(): ...", 3, "'b' is not a tool: timeout=-1"),
        (
            "def a(): ...\n@tool('a')\ndef b(): ...",
            3,
            "'stem.a' is defined twice; the first one counts.",
        ),
    ],
    ids=short,
)
def test_one_bad_place_does_not_cost_the_other_tools(text: str, line: int, message: str) -> None:
    outline = _outline(text)

    assert [tool.name for tool in outline.tools] == ["stem.a"]
    (fault,) = outline.faults
    assert fault.line == line
    assert message in fault.message


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("@tool\ndef f(): ...", "stem.f"),
        ("@tool()\ndef f(): ...", "stem.f"),
        ("@tool('g')\ndef f(): ...", "stem.g"),
        ("@tool('x.g')\ndef f(): ...", "x.g"),
        ("@onetool_ipy.tool(name='g', pack='y')\ndef f(): ...", "y.g"),
        ("@other('g')\ndef f(): ...", "stem.f"),
    ],
    ids=short,
)
def test_the_decorator_is_read_as_text(text: str, name: str) -> None:
    assert _one(text).name == name


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("x", "x: Any"),
        ("x: int", "x: int"),
        ("x: 'int'", "x: int"),
        ("x: Optional[int]", "x: Optional[int]"),
        ("x: dict[str, list[int]] = {}", "x: dict[str, list[int]] = {}"),
        ("x: int | None = None", "x: int | None = None"),
        ("x: Own", "x: Own"),
        ("x: list[Own] = ()", "x: list[Own] = []"),
        ("x: Size = Size.SMALL", "x: Size = Size.SMALL"),
        ("x: Annotated[int, Field(gt=0)] = 1", "x: int = 1"),
        ("x: float = -1.5", "x: float = -1.5"),
        ("*x: int", "x: list[int] = ..."),
        ("x: 'not a type('", "x: Any"),
        ("x: " + "a." * 100 + "b", "x: Any"),
    ],
    ids=short,
)
def test_parameters_are_shown_as_they_are_written(argument: str, shown: str) -> None:
    tool = _one(f"def f({argument}): ...")

    assert signature_text("f", tool.parameters) == f"f({shown})"


@pytest.mark.parametrize(
    ("annotation", "known"),
    [
        ("Literal['a', 'b']", {"enum": ["a", "b"]}),
        ("typing.Literal['a']", {"enum": ["a"]}),
        ("Literal[MADE]", {}),
        ("bool", {"type": "boolean"}),
        ("list[int]", {}),
    ],
    ids=short,
)
def test_tab_knows_options_and_plain_types_from_the_text(
    annotation: str, known: dict[str, Any]
) -> None:
    properties = _one(f"def f(x: {annotation}): ...").parameters["properties"]

    assert properties["x"] == {"x-annotation": annotation, **known}


def test_a_function_without_a_docstring_is_described_by_its_name() -> None:
    tool = _one("def look_up(): ...")

    assert (tool.description, tool.documented) == ("look_up", False)


def test_outlining_runs_nothing_and_loads_nothing_heavy(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = (
        f"import pathlib\npathlib.Path({str(marker)!r}).touch()\ndef f(x: Path, y: datetime, z:"
        " set[int]): ...\n"
    )
    code = (
        "import sys\n"
        "from onetool_ipy.sources.outline_reader import read_outline\n"
        f"assert read_outline({text!r}, pack='p').tools\n"
        "print([m for m in ('pydantic', 'pandas', 'yaml', 'asyncio') if m in sys.modules])"
    )

    done = python(code)

    assert done.stdout.strip() == "[]"
    assert not marker.exists()


def test_a_doubtful_escape_prints_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    assert _outline("x = '\\d'\ndef a(): ...").tools
    assert list(recwarn) == []


# --- the cache


def _full() -> PackOutline:
    return _outline("def a(x: int = 1, *y): ...\n@tool('has blank')\ndef b(): ...")


def test_the_cache_gives_back_what_was_put(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "packs.json"
    cache = OutlineCache(path)
    cache.put("key", _full())
    cache.put("old", _full())
    cache.save()

    again = OutlineCache(path)
    assert again.get("key") == _full()
    assert again.get("other") is None
    again.put("new", _full())
    again.save()
    assert sorted(json.loads(path.read_bytes())["entries"]) == ["key", "new"], (
        "nobody asked for the old one"
    )
    assert has_mode(path, 0o600)
    assert [p.name for p in path.parent.iterdir()] == ["packs.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b'{"format": "other", "entries": {}}',
        b"[" * 100_000,
        b'{"format": "FORMAT", "entries": []}',
        b'{"format": "FORMAT", "entries": {"key": 5}}',
        (
            b'{"format": "FORMAT", "entries": {"key": {"pack": 5, "tools": [], "faults": [],'
            b' "error": ""}}}'
        ),
        (
            b'{"format": "FORMAT", "entries": {"key": {"pack": "p", "tools": [{"name": 5}],'
            b' "faults": [], "error": ""}}}'
        ),
    ],
    ids=range(7),
)
def test_a_damaged_cache_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "packs.json"
    probe = OutlineCache(path)
    probe.put("x", _full())
    probe.save()
    form = json.loads(path.read_bytes())["format"]
    path.write_bytes(content.replace(b"FORMAT", form.encode()))

    cache = OutlineCache(path)

    assert cache.get("key") is None
    cache.put("key", _full())
    cache.save()
    assert OutlineCache(path).get("key") == _full()


def test_a_number_that_the_cache_cannot_hold_is_not_rounded(tmp_path: Path) -> None:
    outline = _outline(f"def a(x: int = {2**70 + 1}): ...")
    cache = OutlineCache(tmp_path / "packs.json")
    cache.put("key", outline)
    cache.save()

    assert OutlineCache(tmp_path / "packs.json").get("key") in (None, outline)


@pytest.mark.parametrize("kind", ["folder is a file", "cache is a folder", "no place"])
def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "sub" / "packs.json"
    if kind == "folder is a file":
        (tmp_path / "sub").write_text("x")
    elif kind == "cache is a folder":
        path.mkdir(parents=True)
        (path / "x").touch()
    else:
        path = Path(os.devnull, "no", "such", "packs.json")

    cache = OutlineCache(path)
    cache.put("key", _full())
    cache.save()

    assert cache.get("key") == _full()
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.skipif(
    getattr(os, "geteuid", lambda: -1)() != 0, reason="only root can give a file away"
)
def test_a_cache_that_belongs_to_another_user_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "packs.json"
    cache = OutlineCache(path)
    cache.put("key", _full())
    cache.save()
    os.chown(path, 12345, 12345)

    assert OutlineCache(path).get("key") is None
