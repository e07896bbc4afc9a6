"""One JSON line for each test that ended, so that a run that is cut off has told what it saw."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _add(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _add(report)


def pytest_sessionfinish() -> None:
    _write({"id": "", "outcome": "finished", "text": ""})


def _add(report: pytest.TestReport | pytest.CollectReport) -> None:
    text = report.longreprtext[-4000:] if report.failed else ""
    _write({"id": report.nodeid, "outcome": report.outcome, "text": text})


def _write(line: dict[str, str]) -> None:
    with Path(os.environ["WINREPORT"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
