"""The screens by themselves: node's test runner over their own tests, and what Python relies on in the built file."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.harness.surroundings import ROOT

SOURCE = ROOT / "labextension" / "ui"
BUILT = ROOT / "onetool_ipy" / "ui" / "screens.js"
STYLE = ROOT / "onetool_ipy" / "ui" / "style.css"
TESTS = ROOT / "tests" / "node" / "ui"
pytestmark = pytest.mark.timeout(600)  # Node starts slowly beside others


@pytest.mark.slow
def test_the_module_passes_its_own_tests() -> None:
    """Form, browser and viewer in jsdom; all files in one process, since loading jsdom takes most of the time."""
    files = [file.as_uri() for file in sorted(TESTS.glob("*.test.mjs"))]
    code = f"for (const file of {files}) await import(file);"
    command = ["node", "--test-reporter=tap", "--test-force-exit", "--input-type=module", "-e", code]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    passed = re.search(r"^# pass (\d+)", ran.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 119


def test_built_module_is_whole() -> None:
    """What a widget is given imports nothing, loads nothing, and has the licence of the library in it."""
    text = BUILT.read_text(encoding="utf-8")
    code = re.sub(r"/\*.*?\*/", "", text, count=1, flags=re.DOTALL)
    assert not re.search(r"\bimport\b|https?://(?!www\.w3\.org|api\.example\.com)", code)
    assert "Luca Ongaro" in text
    assert "Permission is hereby granted, free of charge" in text
    said = subprocess.run(
        [
            "node",
            "--input-type=module",
            "-e",
            f"const m = await import({BUILT.as_uri()!r}); console.log(typeof m.default.render)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "function"


def test_no_way_to_hand_over_markup() -> None:
    """The source has none of the doors by which text becomes markup or code; the style loads nothing."""
    doors = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    for file in (*SOURCE.glob("*.js"), BUILT):
        assert not re.search(doors, file.read_text(encoding="utf-8")), file.name
    style = STYLE.read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
