"""`make map` counts what it says: on a small tree whose figures are known, and on this one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT

LONG = "def long():\n" + "    x = 1\n" * 50
FIFTY = "def fifty():\n" + "    x = 1\n" * 49

SMALL: Mapping[str, str] = {
    "shop/__init__.py": '"""A shop."""\n',
    "shop/prices.py": f"class Row:\n    pass\n\n\nclass _Own:\n    pass\n\n\n{LONG}",
    "shop/stock.py": (
        "from typing import TYPE_CHECKING\n"
        "from shop.prices import Row as Price\n"
        "from shop import prices\n"
        "if TYPE_CHECKING:\n"
        "    from shop.till.cash import Coin\n"
        "class Row:\n    class Inner: ...\n"
        "class _Own: ...\n"
    ),
    "shop/till/__init__.py": "from .cash import Coin\n",
    "shop/till/cash.py": (
        "import json\n"
        "class Coin: ...\n"
        "def count():\n"
        "    import decimal\n"
        "    from shop import stock, prices\n"
        "    from ..prices import Row\n"
        f"{FIFTY}"
    ),
    "tests/test_prices.py": "",
    "tests/till/test_cash_coins.py": "",
}

FIGURES = {
    "modules": 5,
    "lines": 1 + 59 + 8 + 1 + 56,
    "class names defined twice": 1,
    "late imports of own modules": 2,
    "modules with one importer": 2,
    "functions over 50 lines": 1,
    "modules without tests of their name": 1,
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in SMALL.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_figures_of_a_small_tree(small: Path) -> None:
    assert _figures(_map("--package", str(small / "shop"), "--tests", str(small / "tests"))) == FIGURES


def test_verbose_names_what_is_counted(small: Path) -> None:
    shown = _map("-v", "--package", str(small / "shop"), "--tests", str(small / "tests"))

    assert _named(shown) == {
        "class names defined twice": ["Row: shop/prices.py:1, shop/stock.py:6"],
        "late imports of own modules": ["shop/till/cash.py:5", "shop/till/cash.py:6"],
        "modules with one importer": ["shop.stock <- shop.till.cash", "shop.till.cash <- shop.till"],
        "functions over 50 lines": ["shop/prices.py:9 long (51 lines)"],
        "modules without tests of their name": ["shop.stock"],
    }


def test_calls_of_this_package_are_run_and_their_modules_named() -> None:
    named = _named(_map("-v"))

    calls = {title.removeprefix("modules run by "): set(names) for title, names in named.items() if " run " in title}
    assert list(calls) == ["%tool fs.read_file", "ot.stats()", "HTTP tool", "MCP tool", "%ask with one call"]
    assert all({"toolbox.py", "core/executor.py"} <= modules for modules in calls.values())
    assert "packs/fs.py" in calls["%tool fs.read_file"]
    assert "packs/fs.py" not in calls["ot.stats()"]
    assert [title for title, modules in calls.items() if _has("net/", modules)] == ["HTTP tool"]
    assert [title for title, modules in calls.items() if _has("llm/", modules)] == ["%ask with one call"]


def _has(folder: str, modules: set[str]) -> bool:
    return any(name.startswith(folder) for name in modules)


def _map(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.code_map", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _figures(shown: str) -> dict[str, int]:
    rows = re.findall(r"^(\S.*?) +([\d,]+)$", shown, re.MULTILINE)
    return {title: int(count.replace(",", "")) for title, count in rows}


def _named(shown: str) -> dict[str, list[str]]:
    """The names below each figure; a figure counts its names."""
    title, found = "", dict[str, list[str]]()
    for line in shown.splitlines():
        if line.startswith("    "):
            found.setdefault(title, []).append(line.strip())
        else:
            (title,) = _figures(line)
    figures = _figures(shown)
    assert all(len(names) == figures[title] for title, names in found.items())
    return found
