"""The screens by themselves: node's test runner over their own tests, and what Python relies on in
the built file."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT

SOURCE = ROOT / "labextension" / "src"
BUILT = ROOT / "onetool_ipy" / "ui" / "screens.js"
STYLE = ROOT / "onetool_ipy" / "ui" / "style.css"
TESTS = ROOT / "tests" / "node" / "ui"
pytestmark = pytest.mark.timeout(600)  # Node starts slowly beside others


@pytest.mark.slow
@pytest.mark.screen
def test_the_module_passes_its_own_tests() -> None:
    """Every screen in jsdom, in `make test` too; all files in one process, since loading jsdom
    takes most of the time."""
    assert _passed(sorted(TESTS.glob("*.test.mjs")), storms=1) >= 440


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_hundred_storms_of_clicks_end_in_what_was_asked_last() -> None:
    """A kernel that answers in any order, late and with refusals; a hundred for each screen."""
    assert _passed([TESTS / "storm.test.mjs"], storms=100) == 1201


def _passed(files: list[Path], *, storms: int) -> int:
    """Run tests of the screens in Node; return how many passed."""
    # Node ends once no known test is left. The first test waits until every file has told its own.
    code = f"""
        import test from 'node:test';
        let done;
        test('every file is loaded', () => new Promise(resolve => (done = resolve)));
        for (const file of {[file.as_uri() for file in files]}) await import(file);
        done();
    """
    command = [
        "node",
        "--test-reporter=tap",
        "--test-force-exit",
        "--input-type=module",
        "-e",
        code,
    ]
    env = {**os.environ, "ONETOOL_STORMS": str(storms)}
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    failed = "\n".join(re.findall(r"^not ok.*?^  \.\.\.$", ran.stdout, re.MULTILINE | re.DOTALL))
    assert ran.returncode == 0, (failed or ran.stdout[-8000:]) + ran.stderr[-2000:]
    passed = re.search(r"^# pass (\d+)", ran.stdout, re.MULTILINE)
    assert passed is not None
    return int(passed[1])


def test_every_request_goes_through_the_one_place() -> None:
    """Replies that come late, fail or find their view gone are handled in requests.ts, so nothing
    else asks a transport or the server. `KernelConnection` is what `Requests` of the panel ask."""
    ways = r"(transport|source)\W{0,3}\.request\b|this\.request\(|(?<![.\w])fetch\(|makeRequest\(|XMLHttp"
    homes = {"requests.ts", "transport.ts", "kernelConnection.ts", "restClient.ts"}
    others = [file for file in _sources() if file.name not in homes]
    assert len(others) > 20
    for file in others:
        code = re.sub(r"//.*|/\*[\s\S]*?\*/", "", file.read_text(encoding="utf-8"))
        assert not re.search(ways, code), file.name


def test_the_screens_are_typed_and_no_text_made_of_json_is_a_key() -> None:
    """All sources are TypeScript. What is compared is compared by `isEqual`."""
    assert {file.suffix for file in SOURCE.rglob("*") if file.is_file()} == {".ts", ".tsx"}
    keys = (
        r"[!=]== *JSON\.stringify|JSON\.stringify\([^;\n]*?\) *[!=]=="
        r"|\b(get|set|has|add|delete)\(JSON\.stringify|key=\{JSON\.stringify"
        r"|\b\w*(key|drawn|fingerprint)\w* = JSON\.stringify|return JSON\.stringify\(\["
    )
    for file in _sources():
        assert not re.search(keys, file.read_text(encoding="utf-8"), re.IGNORECASE), file.name


def test_a_line_of_the_screens_has_at_most_140_columns() -> None:
    """The path of a drawing is no line to read."""
    for file in _sources():
        lines = file.read_text(encoding="utf-8").splitlines()
        long = [line for line in lines if len(line) > 140 and "<path " not in line]
        assert not long, f"{file.name}: {long[0]}"


def _sources() -> list[Path]:
    return [file for file in SOURCE.rglob("*") if file.suffix in {".ts", ".tsx"}]


def test_built_module_is_whole() -> None:
    """What a widget is given imports nothing, loads nothing, and has the licence of the library in
    it."""
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
    """The source has none of the doors by which text becomes markup or code; the style loads
    nothing."""
    doors = (
        r"inner_?HTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new"
        r" Function|srcdoc|DOMParser"
    )
    for file in _sources():
        assert not re.search(doors, file.read_text(encoding="utf-8"), re.IGNORECASE), file.name
    # Preact has two lines for its `dangerouslySetInnerHTML`, which no source names.
    built = re.sub(r"\.innerHTML\b", "", BUILT.read_text(encoding="utf-8"), count=2)
    assert not re.search(doors, built.replace("dangerouslySetInnerHTML", ""))
    style = STYLE.read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
