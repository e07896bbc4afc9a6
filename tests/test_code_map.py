"""`make map` counts what it says: on a small tree whose figures are known, and on this one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.code_map.call_paths import LINES
from tests.code_map.source import MAX_FUNCTION_LINES
from tests.harness.programs import python
from tests.harness.surroundings import ROOT

PACKAGE = ROOT / "onetool_ipy"
LONG = "def long():\n" + "    x = 1\n" * (MAX_FUNCTION_LINES + 1)
NOT_LONG = "def not_long():\n" + "    x = 1\n" * MAX_FUNCTION_LINES

SMALL: Mapping[str, str] = {
    "shop/__init__.py": '"""A shop."""\n',
    "shop/counter.py": (
        "from typing import Any\n"
        "import shop.bell\n"
        "# The counter is in the shop.\n"
        "def _once(a: dict[str, Any]) -> int:\n"
        '    """Use it once."""\n'
        "    found = 1  # found\n"
        "    return found\n"
        "def _twice(a: int) -> str: ...\n"
        "def ring() -> None:\n"
        "    _twice(_once({})); _twice(1)\n"
    ),
    "shop/bell.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop import counter\n"
    ),
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
        f"{NOT_LONG}"
    ),
    "tests/test_prices.py": "",
    "tests/till/test_cash_coins.py": "",
}

FIGURES = {
    "modules": 7,
    "lines": 1 + 10 + 3 + (10 + MAX_FUNCTION_LINES) + 8 + 1 + (7 + MAX_FUNCTION_LINES),
    "lines of code proper": 6 + 1 + (6 + MAX_FUNCTION_LINES) + 4 + (3 + MAX_FUNCTION_LINES),
    "own-line comments per 1,000 lines": 6,
    "signatures with Any, percent": 17,
    "lines of tests": 0,
    "class names defined twice": 1,
    "late imports of own modules": 2,
    "modules with one importer": 3,
    "private functions with one use": 1,
    "variables named by a participle": 1,
    "modules in the largest circle of imports": 2,
    f"functions over {MAX_FUNCTION_LINES} lines": 1,
    "modules without tests of their name": 3,
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in SMALL.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_figures_of_a_small_tree(small: Path) -> None:
    assert (
        _figures(_map("--package", str(small / "shop"), "--tests", str(small / "tests"))) == FIGURES
    )


def test_verbose_names_what_is_counted(small: Path) -> None:
    shown = _map("-v", "--package", str(small / "shop"), "--tests", str(small / "tests"))

    assert _named(shown) == {
        "class names defined twice": ["Row: shop/prices.py:1, shop/stock.py:6"],
        "late imports of own modules": ["shop/till/cash.py:5", "shop/till/cash.py:6"],
        "modules with one importer": [
            "shop.bell <- shop.counter",
            "shop.stock <- shop.till.cash",
            "shop.till.cash <- shop.till",
        ],
        "private functions with one use": ["shop/counter.py:4 _once"],
        "variables named by a participle": ["shop/counter.py:6 found"],
        "modules in the largest circle of imports": ["shop.stock", "shop.till.cash"],
        f"functions over {MAX_FUNCTION_LINES} lines": [
            f"shop/prices.py:9 long ({MAX_FUNCTION_LINES + 1} lines)"
        ],
        "modules without tests of their name": ["shop.bell", "shop.counter", "shop.stock"],
    }


@pytest.mark.slow
def test_calls_of_this_package_are_run_and_their_modules_named() -> None:
    """In a process of its own, since the recorder must be there before a thread of the package
    is."""
    program = (
        "import json, pathlib, tests.code_map.call_paths as c;"
        f" print(json.dumps(c.measure(pathlib.{PACKAGE!r})))"
    )
    done = python(program, check=False, cwd=ROOT)

    assert (done.returncode, done.stderr) == (0, "")
    calls = {name: set(files) for name, files in json.loads(done.stdout).items()}
    assert list(calls) == [*LINES, "REST invoke"]
    assert [title for title, modules in calls.items() if _has("faces/rest/", modules)] == [
        "REST invoke"
    ]
    assert all({"toolbox.py", "core/executor.py"} <= modules for modules in calls.values())
    assert "packs/fs.py" in calls["%tool fs.read_file"]
    assert "packs/fs.py" not in calls["ot.stats()"]
    assert [title for title, modules in calls.items() if _has("net/", modules)] == [
        "HTTP tool",
        "REST invoke",
    ]
    assert [title for title, modules in calls.items() if _has("llm/", modules)] == [
        "%ask with one call"
    ]


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
