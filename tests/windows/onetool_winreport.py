"""JSON lines about each test that began and ended, in the file $WINREPORT.

A run that is cut off has told what it saw: the next one leaves those tests out, and also the test
in whose middle it ended.
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    file = Path(os.environ["WINREPORT"])
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    over = {json.loads(line)["id"] for line in lines}
    hanging = _hanging(config.rootpath / "tests" / "windows" / "cannot.txt")
    for item in items:
        name = item.nodeid.replace("[", "(")
        if item.nodeid not in over and any(fnmatchcase(name, each) for each in hanging):
            over.add(item.nodeid)
            _write(item.nodeid, "failed", "E hung", 0)
    items[:] = [item for item in items if item.nodeid not in over]


def _hanging(file: Path) -> list[str]:
    """Return the patterns of tests that are known to hang: they are not begun."""
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return [line[0].replace("[", "(") for line in lines if line[1:2] == ["hung"]]


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(nodeid, "began", "", 0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _write(report.nodeid, report.outcome, _text_of(report), report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(report.nodeid, report.outcome, _text_of(report), 0)


def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        _write("", "finished", "", 0)


def _text_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longreprtext[-6000:] if report.failed else ""


def _write(name: str, outcome: str, text: str, duration_s: float) -> None:
    line = {"id": name, "outcome": outcome, "text": text, "s": round(duration_s, 2)}
    with Path(os.environ["WINREPORT"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
