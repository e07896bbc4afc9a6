"""The report of `make test-windows`: a test that hangs costs itself, and every reason names its
tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT
from tests.windows import summary

HERE = ROOT / "tests" / "windows"
TESTS = """
import os, pytest
def test_passes(): pass
def test_ends_its_process(): os._exit(1)
@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_is_known_to_hang(way): assert way == "fork"
def test_fails_for_a_known_reason(): raise OSError("WinError 1314")
def test_fails(): assert False
"""


@pytest.mark.slow
def test_a_run_goes_on_behind_a_test_that_hangs_and_each_counts_once(tmp_path: Path) -> None:
    (tmp_path / "tests" / "base").mkdir(parents=True)
    (tmp_path / "tests" / "base" / "test_small.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "tests" / "windows").mkdir()
    known = "tests/base/test_small.py::*[spawn]\thung\tno such thing here\n"
    (tmp_path / "tests" / "windows" / "cannot.txt").write_text(known, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    report = tmp_path / "base.jsonl"
    env = {**os.environ, "WINREPORT": str(report), "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "pytest", "-p", "onetool_winreport", "-q", "tests/base"]

    ends = [
        subprocess.run(command, cwd=tmp_path, env=env, check=False, capture_output=True).returncode
        for _ in range(2)
    ]

    assert ends == [1, 1]
    assert {row["id"].rpartition("::")[2]: row["outcome"] for row in summary.rows_of(report)} == {
        "test_passes": "passed",
        "test_ends_its_process": "failed",
        "test_is_known_to_hang[spawn]": "failed",
        "test_is_known_to_hang[fork]": "passed",
        "test_fails_for_a_known_reason": "failed",
        "test_fails": "failed",
        "": "finished",
    }


def test_a_reason_is_for_the_tests_that_its_line_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cannot.txt").write_text(
        "# why\ntests/base/*\tWinError 1314\tno links\ntests/base/b.py::*\thung\tno spawn\n"
    )
    rows = [
        ("tests/base/a.py::one", "failed", "E OSError: WinError 1314"),
        ("tests/base/a.py::two", "failed", "raise WinError 1314\nE assert False"),
        ("tests/base/a.py::three", "began", ""),
        ("", "finished", ""),
    ]
    (tmp_path / "base.jsonl").write_text(
        "".join(
            json.dumps(dict(zip(("id", "outcome", "text"), row, strict=True))) + "\n"
            for row in rows
        )
    )

    assert summary.main(tmp_path, ["base"], tmp_path / "cannot.txt") == 1

    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == [
        "base",
        "0",
        "passed",
        "2",
        "failed",
        "1",
        "by",
        "Wine",
        "0",
        "of",
        "other",
        "systems",
    ]
    assert shown[1:] == [
        "FAILED tests/base/a.py::two",
        "FAILED tests/base/a.py::three",
        "NOT NEEDED in cannot.txt: tests/base/b.py::*",
    ]
