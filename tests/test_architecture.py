"""docs/architecture.md is the map of the package: it lists every file, and no file that is not
there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_PAGE = _ROOT / "docs" / "architecture.md"


def test_the_map_lists_every_module() -> None:
    """A file that is added, moved or deleted changes the map in the same commit."""
    there = {path.relative_to(_ROOT).as_posix() for path in (_ROOT / "onetool_ipy").rglob("*.py")}
    there = {
        path
        for path in there
        if path.count("/") == 1 or not path.endswith(("/__init__.py", "/__main__.py"))
    }
    listed = set(_listed(_PAGE.read_text(encoding="utf-8")))
    assert sorted(there - listed) == []
    assert sorted(listed - there) == []


def test_every_file_of_the_map_has_its_words() -> None:
    """One line says what each file owns."""
    tree = _tree(_PAGE.read_text(encoding="utf-8"))
    assert [line for line in tree if line.strip() and len(line.split(None, 1)) < 2] == [
        "onetool_ipy/"
    ]


@pytest.mark.parametrize("heading", ["The tree", "Five calls, step by step", "The words"])
def test_the_map_has_its_sections(heading: str) -> None:
    """A newcomer finds the tree, the walks and the glossary."""
    assert f"\n## {heading}\n" in _PAGE.read_text(encoding="utf-8")


def _listed(page: str) -> Iterator[str]:
    """The Python files of the tree, as paths from the root."""
    folders: list[str] = []
    for line in _tree(page):
        if not line.strip():
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        del folders[depth:]
        if name.endswith("/"):
            folders.append(name)
        elif name.endswith(".py"):
            yield "".join(folders) + name


def _tree(page: str) -> list[str]:
    found = re.search(r"## The tree\n\n```\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1].splitlines()
