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
    [("x = 1", "geo", "defines no function"), ("def f(:", "geo", "not Python"), (CELL, "a b", "not a valid pack name")],
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
    with pytest.raises(InvalidTool, match=r"geo\.py' is not Python"):
        save_functions(file, CELL, pack="geo")
    assert file.read_text(encoding="utf-8") == "def broken(:\n"
