"""`save_functions`: a cell's functions into a pack file, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.sources.pack_files import save_functions

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
        '"""Doc."""\nimport os\npack = "geo"\n__all__ = ["area", "first"]\n\n'
        "def first(): ...\n\n@cached\ndef area(radius):\n    return 1  # old\n\ndef last(): ...\n# tail\n",
        encoding="utf-8",
    )
    save_functions(file, CELL + "\ndef fresh(): ...\n", pack="geo")
    text = file.read_text(encoding="utf-8")
    assert "# old" not in text
    assert "@cached" not in text
    assert text.index("def first") < text.index("def area") < text.index("def last") < text.index("def fresh")
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
def test_what_cannot_be_saved_changes_nothing(tmp_path: Path, cell: str, pack: str, said: str) -> None:
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
    cells = ["import math, json", "%time broken(", "from os import path as place\nimport math as m", "import os.path"]
    cell = "def area(r: float = m.pi) -> str:\n    return math.inf, place, os.sep, [x for x in range(3)], __name__\n"

    save_functions(tmp_path / "geo.py", cell, pack="geo", cells=cells)

    text = (tmp_path / "geo.py").read_text(encoding="utf-8")
    assert {*text.splitlines()[1:5]} == {
        "import os.path",
        "import math as m",
        "import math",
        "from os import path as place",
    }
    compile(text, "geo.py", "exec")


def test_a_name_that_only_the_notebook_has_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidTool, match="The cell uses 'rate', which only this notebook has") as refused:
        save_functions(tmp_path / "geo.py", "def price(n):\n    return n * rate\n", pack="geo", cells=["rate = 3"])

    assert "Define or import 'rate' in the cell" in refused.value.hint
    assert not (tmp_path / "geo.py").exists()


@pytest.mark.parametrize(
    "cell",
    [
        "rate = 3\ndef price(n):\n    return n * rate\n",
        "from shop import *\ndef price(n):\n    return n * rate\n",
        "def price(n):\n    global rate\n    rate = n\n    return rate\n",
        "def price(n, *rest, **more):\n    def in_():\n        return n, rest\n    return [in_() for k in more]\n",
        "class Rate: ...\ndef price(n: Rate) -> Rate:\n    return __file__, Rate\n",
        "def price(n):\n    import math\n    return math.floor(n)\n",
        "def low(n):\n    return n\ndef price(n):\n    return low(n)\n",
    ],
)
def test_a_cell_that_has_all_that_it_uses_is_saved(tmp_path: Path, cell: str) -> None:
    assert "price" in save_functions(tmp_path / "geo.py", cell, pack="geo")
    assert "price" in save_functions(tmp_path / "geo.py", cell, pack="geo")
