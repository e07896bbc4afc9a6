"""The ui module by itself: node's test runner over its own tests, and what Python relies on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from onetool_ipy.faces.widgets.widget import linked, style
from tests.harness.surroundings import ROOT

SOURCE = ROOT / "onetool_ipy" / "ui" / "src"
TESTS = ROOT / "tests" / "node" / "ui"

pytestmark = pytest.mark.timeout(600)  # Node starts slowly beside others


def test_the_module_passes_its_own_tests() -> None:
    """Form, browser and viewer in jsdom."""
    files = sorted(str(file) for file in TESTS.glob("*.test.mjs"))
    bounds = ("--test-timeout=100000", "--test-force-exit")
    ran = subprocess.run(["node", "--test", *bounds, *files], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-8000:]
    passed = re.search(r"^# pass (\d+)", ran.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 35


def test_the_files_become_one_module_that_node_reads(tmp_path: Path) -> None:
    """What a widget is given is whole: no import is left, nothing comes from another place."""
    text = linked()
    assert not re.search(r"^import |https?://(?!www\.w3\.org)", text, re.MULTILINE)
    file = tmp_path / "module.mjs"
    file.write_text(text)
    said = subprocess.run(
        [
            "node",
            "--input-type=module",
            "-e",
            f"const m = await import({file.as_uri()!r}); console.log(typeof m.default.render)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "function"


def test_no_way_to_hand_over_markup() -> None:
    """The source has none of the doors by which text becomes markup or code; the style loads nothing."""
    doors = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    for file in SOURCE.glob("*.js"):
        assert not re.search(doors, file.read_text(encoding="utf-8")), file.name
    assert "url(" not in style()
    assert "@import" not in style()


def test_files_are_short() -> None:
    for file in SOURCE.glob("*.js"):
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 400, file.name
