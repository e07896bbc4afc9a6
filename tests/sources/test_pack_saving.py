"""`save_functions`: a cell's functions into a pack file, nothing lost."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.sources.pack_saving import save_functions

CELL = '''import math

def area(radius: float) -> float:
    """Area of a circle."""
    return math.pi * radius**2
'''


def test_a_new_file_has_pack_import_and_function(tmp_path: Path) -> None:
    file = tmp_path / "tools" / "geo.py"
    assert save_functions(file, CELL, pack="geo") == ["area"]
    space: dict[str, object] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), space)
    assert space["pack"] == "geo"
    assert callable(space["area"])


def test_a_function_of_the_same_name_is_replaced_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "geo.py"
    file.write_text(
        '"""Doc."""\nimport os\npack = "geo"\n__all__ = ["area", "first"]\n\ndef first():'
        " ...\n\n@cached\ndef area(radius):\n    return 1  # old\n\ndef last(): ...\n# tail\n",
        encoding="utf-8",
    )
    save_functions(file, CELL + "\ndef fresh(): ...\n", pack="geo")
    text = file.read_text(encoding="utf-8")
    assert "# old" not in text
    assert "@cached" not in text
    assert (
        text.index("def first")
        < text.index("def area")
        < text.index("def last")
        < text.index("def fresh")
    )
    assert "# tail" in text
    assert '__all__ = ["area", "first", "fresh"]' in text
    assert text.count("import math") == 1
    save_functions(file, CELL, pack="geo")
    assert file.read_text(encoding="utf-8").count("import math") == 1


@pytest.mark.parametrize(
    ("cell", "pack", "said"),
    [
        ("x = 1", "geo", "no function that could be a tool"),
        ("def _f(): ...", "geo", "no function that could be a tool"),
        ("def f(:", "geo", r"The cell is not plain Python \(line 1\): invalid syntax"),
        (CELL, "a b", "not a valid pack name"),
    ],
)
def test_what_cannot_be_saved_changes_nothing(
    tmp_path: Path, cell: str, pack: str, said: str
) -> None:
    file = tmp_path / "geo.py"
    file.write_text("pack = 'geo'\n", encoding="utf-8")
    with pytest.raises(InvalidTool, match=said):
        save_functions(file, cell, pack=pack)
    assert file.read_text(encoding="utf-8") == "pack = 'geo'\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_broken_file_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "geo.py"
    file.write_text("def broken(:\n", encoding="utf-8")
    with pytest.raises(InvalidTool, match=r"geo\.py' is not plain Python"):
        save_functions(file, CELL, pack="geo")
    assert file.read_text(encoding="utf-8") == "def broken(:\n"


def test_an_import_of_an_earlier_cell_goes_along(tmp_path: Path) -> None:
    cells = [
        "import math, json",
        "%time broken(",
        "from os import path as place\nimport math as m",
        "import os.path",
    ]
    cell = (
        "def area(r: float = m.pi) -> str:\n    return math.inf, place, os.sep, [x for x in"
        " range(3)], __name__\n"
    )

    save_functions(tmp_path / "geo.py", cell, pack="geo", cells=cells)

    text = (tmp_path / "geo.py").read_text(encoding="utf-8")
    assert {*text.splitlines()[1:5]} == {
        "import os.path",
        "import math as m",
        "import math",
        "from os import path as place",
    }
    compile(text, "geo.py", "exec")


def test_a_name_that_only_the_notebook_has_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        InvalidTool, match="The cell uses 'rate', which only this notebook has"
    ) as refused:
        save_functions(
            tmp_path / "geo.py",
            "def price(n):\n    return n * rate\n",
            pack="geo",
            cells=["rate = 3"],
        )

    assert "Define or import 'rate' in the cell" in refused.value.hint
    assert not (tmp_path / "geo.py").exists()


@pytest.mark.parametrize(
    "cell",
    [
        "rate = 3\ndef price(n):\n    return n * rate\n",
        "from shop import *\ndef price(n):\n    return n * rate\n",
        "def price(n):\n    global rate\n    rate = n\n    return rate\n",
        (
            "def price(n, *rest, **more):\n    def in_():\n        return n, rest\n    return"
            " [in_() for k in more]\n"
        ),
        "class Rate: ...\ndef price(n: Rate) -> Rate:\n    return __file__, Rate\n",
        "def price(n):\n    import math\n    return math.floor(n)\n",
        "def low(n):\n    return n\ndef price(n):\n    return low(n)\n",
    ],
)
def test_a_cell_that_has_all_that_it_uses_is_saved(tmp_path: Path, cell: str) -> None:
    assert "price" in save_functions(tmp_path / "geo.py", cell, pack="geo")
    assert "price" in save_functions(tmp_path / "geo.py", cell, pack="geo")


# Characters at which `str.splitlines` ends a line and Python does not, and some of several bytes.
ODD = st.text(st.sampled_from("\f\v\x1c\x1d\x1e\x85\u2028\u2029\t é𝄞a"), max_size=6)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
SHAPES = (
    'def {name}(x="{odd}"):\n    """Doc{odd}\n\n    {odd}."""\n    return "é{odd}"',
    "@(\n    lambda fn: fn)\n# {odd}\nasync def {name}(x):\n\treturn x  # {odd}",
    "@staticmethod\ndef {name}(): return '{odd}';",
    "def {name}(x):\n    if x:\n        return (1,\n  2)\n    return {{'a': '''{odd}\n{odd}'''}}",
)
GAPS = (
    "",
    "\n\n",
    "# note {odd}\n",
    "X_{number} = '{odd}'; Y = 1 # {odd}\n",
    "\f\n",
    "\f",
    "if True:\n    Z = 1\n",
    "class C: ...\n",
)


@st.composite
def functions(draw: st.DrawFn, number: int) -> str:
    return draw(st.sampled_from(SHAPES)).format(name=f"f{number}", odd=draw(ODD))


@st.composite
def gaps(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(GAPS)).format(odd=draw(ODD), number=draw(st.integers(0, 3)))


def _dumps(text: str) -> dict[str, str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: ast.dump(node) for node in ast.parse(text).body if isinstance(node, kinds)}


@pytest.mark.slow
@given(data=st.data(), file_end=LINE_ENDS, cell_end=LINE_ENDS, mark=st.sampled_from(["", "\ufeff"]))
def test_functions_are_saved_whole_and_every_other_byte_of_the_file_stays(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    file_end: str,
    cell_end: str,
    mark: str,
) -> None:
    """The naive twin knows the file as a list of parts and puts the cell's parts into it."""
    file = tmp_path_factory.mktemp("saved") / "geo.py"
    parts: list[tuple[int | None, str]] = [(None, "pack = 'geo'\n")]
    for number in data.draw(st.lists(st.integers(0, 3), unique=True)):
        parts += [(None, data.draw(gaps())), (number, data.draw(functions(number))), (None, "\n")]
    parts.append((None, data.draw(gaps())))
    parts = [(number, part.replace("\n", file_end)) for number, part in parts]
    old = mark + "".join(part for _, part in parts)
    file.write_bytes(old.encode())
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=1, unique=True))
    new = {number: data.draw(functions(number)) for number in numbers}
    cell = "\n\n".join(new.values()).replace("\n", cell_end)

    save_functions(file, cell, pack="geo")

    text = file.read_bytes().decode()
    assert _dumps(text.removeprefix(mark)) == _dumps(old.removeprefix(mark)) | _dumps(cell)
    own = {
        number: part.replace("\n", "\r\n" if "\r\n" in old else "\n")
        for number, part in new.items()
    }
    expected = mark + "".join(
        own.get(number, part) if number is not None else part for number, part in parts
    )
    assert text.startswith(expected)
    added = [own[number] for number in numbers if number not in dict(parts)]
    assert text[len(expected) :].split() == " ".join(added).split()


def test_a_file_in_another_encoding_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "geo.py"
    file.write_bytes('# coding: latin-1\nNAME = "é"\n'.encode("latin-1"))
    save_functions(file, 'import os\ndef area():\n    return "ü" + os.sep\n', pack="geo")
    text = file.read_bytes().decode("latin-1")
    assert text.startswith('# coding: latin-1\nNAME = "é"\nimport os\n')
    before = file.read_bytes()
    with pytest.raises(InvalidTool, match="written in iso-8859-1, which has no '𝄞'"):
        save_functions(file, 'def area():\n    return "𝄞"\n', pack="geo")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe\x00", "cannot be read as Python text"),
        (b"x = '\xff'\n", "cannot be read as Python text"),
        (b"# coding: nonsense\n", "cannot be read as Python text"),
        (b"return 1\n", "is not plain Python"),
        (b"(" * 3_000, "is not plain Python"),
    ],
)
def test_a_file_that_cannot_be_read_is_not_written(
    tmp_path: Path, data: bytes, message: str
) -> None:
    file = tmp_path / "geo.py"
    file.write_bytes(data)
    with pytest.raises(InvalidTool, match=message):
        save_functions(file, CELL, pack="geo")
    assert file.read_bytes() == data


@pytest.mark.parametrize(
    ("old", "cell", "expected"),
    [
        (
            "#!/usr/bin/python\nimport os; print()\n",
            "import re; import json\ndef f(): ...",
            "#!/usr/bin/python\nimport re\nimport json\nimport os; print()\n\n\ndef f(): ...\n",
        ),
        (
            '"""Doc."""\nimport os',
            "from __future__ import annotations\nclass A: ...\nclass B(A): ...\ndef f(): ...",
            (
                '"""Doc."""\nfrom __future__ import annotations\nimport os\nclass A: ...\n'
                "class B(A): ...\n\n\ndef f(): ...\n"
            ),
        ),
        (
            "def f(): return 1\n\ndef f(): return 2  # second\n# end",
            "def f(): return 3  # third",
            "def f(): return 1\n\ndef f(): return 3  # third\n# end",
        ),
        (
            '__all__ = [\n    "a",  # first\n    "b"  # last\n]\n',
            "def f(): ...\ndef _g(): ...",
            (
                '__all__ = [\n    "a",  # first\n    "b", "f"  # last\n]\n\n\ndef f(): ...\n\n\ndef'
                " _g(): ...\n"
            ),
        ),
        ("__all__ = []\n", "def f(): ...", '__all__ = ["f"]\n\n\ndef f(): ...\n'),
    ],
    ids=["two on a line", "order", "the last of its name", "exports", "no exports"],
)
def test_where_statements_go(tmp_path: Path, old: str, cell: str, expected: str) -> None:
    file = tmp_path / "geo.py"
    file.write_bytes(old.encode())
    save_functions(file, cell, pack="geo")
    assert file.read_bytes().decode() == expected


AGAIN = {
    "class": "class K:\n    v = N\ndef f():\n    return K.v",
    "decorated class": "def deco(c): return c\n@deco\nclass K:\n    v = N\ndef f():\n    return K.v",
    "annotated": "V: int = N\ndef f():\n    return V",
    "two names": "A, V = 0, N\ndef f():\n    return V",
    "built from another": "A = N\nV = [A][0]\ndef f():\n    return V",
    "added to": "V = [0]\nV += [N]\ndef f():\n    return V[-1]",
    "in an if": "V = 0\nif True:\n    V = N\ndef f():\n    return V",
    "a function's result": "def g(): return N\nV = g()\ndef f():\n    return V",
    "class of a result": "def g(): return N\nclass K:\n    v = g()\ndef f():\n    return K.v",
    "default": "class K:\n    v = N\ndef f(v=K.v):\n    return v",
}


@pytest.mark.parametrize("cell", AGAIN.values(), ids=AGAIN)
def test_a_cell_that_is_saved_again_is_what_the_file_says(tmp_path: Path, cell: str) -> None:
    """Classes and constants of a cell are edited as its functions are."""
    file = tmp_path / "geo.py"
    names: dict[str, Any] = {}
    for number in "121":
        save_functions(file, cell.replace("N", number), pack="geo")
        names = {}
        exec(file.read_text("utf-8"), names)
        assert names["f"]() == int(number)
    assert file.read_text("utf-8").count("def f") == 1


@pytest.mark.parametrize(
    ("old", "cell", "value"),
    [
        ("def f(): return V\nV = 1\n", "V = 2\ndef f(): return V", 2),
        ("def f(): return 1\n", "def deco(g): return g\n@deco\ndef f(): return 2", 2),
        ("def f(): return 1\nf = id(f) and f\n", "def f(): return 2", 2),
        ("def g(): return 1\n", "from math import floor as g\ndef f(): return g(2.5)", 2),
        ("class g: pass\n", "g = 2\ndef f(): return g", 2),
        ("if 1:\n    def f(): return 1\nelse:\n    pass\n", "def f(): return 2", 2),
    ],
    ids=["constant at the end", "new decorator", "wrapped", "import", "other kind", "in an if"],
)
def test_the_file_runs_and_says_what_the_cell_says(
    tmp_path: Path, old: str, cell: str, value: int
) -> None:
    file = tmp_path / "geo.py"
    file.write_text(old, encoding="utf-8")

    save_functions(file, cell, pack="geo")

    names: dict[str, Any] = {}
    exec(file.read_text("utf-8"), names)
    assert names["f"]() == value
    assert ("else:" in old) == ("else:" in file.read_text("utf-8"))


@pytest.mark.parametrize("after", ["del f\n", "f = lambda: 0\n"])
def test_a_function_that_the_file_takes_away_again_is_refused(tmp_path: Path, after: str) -> None:
    file = tmp_path / "geo.py"
    file.write_text(old := f"def f(): return 1\n{after}", encoding="utf-8")

    with pytest.raises(InvalidTool, match="cannot be put into") as refused:
        save_functions(file, "def f(): return 2", pack="geo")

    assert refused.value.hint == "Put 'f' there by hand. Nothing was saved."
    assert file.read_text("utf-8") == old


def test_an_annotated_list_of_exports_is_extended(tmp_path: Path) -> None:
    file = tmp_path / "geo.py"
    file.write_text('__all__: list[str] = ["a"]\ndef a(): ...\n', encoding="utf-8")

    save_functions(file, "def f(): ...", pack="geo")

    assert file.read_text("utf-8").startswith('__all__: list[str] = ["a", "f"]\n')
