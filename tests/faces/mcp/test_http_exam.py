"""The official exam's server scenarios, against a project whose tools, prompts and resources are an
ordinary pack.

`NOT_REQUIRED` names what fails of the scenarios that no revision requires, with the reason.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.faces.mcp.http import serve_http
from tests.harness import exam
from tests.harness.surroundings import ROOT

PROJECT = ROOT / "tests" / "data" / "exam_project"
TASKS = (
    "tasks-capability-negotiation",
    "tasks-dispatch-and-envelope",
    "tasks-lifecycle",
    "tasks-mrtr-composition",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-request-state-removal",
    "tasks-required-task-error",
    "tasks-status-notifications",
    "tasks-wire-fields",
)
NOT_REQUIRED: dict[exam.Revision, dict[str, str]] = {
    "2025-11-25": {
        "json-schema-2020-12": "it wants a schema that a Python function cannot have",
        "server-sse-polling": "a stream that was cut is not resumed",
    },
    "2026-07-28": {
        **dict.fromkeys(TASKS, "the tasks extension is not offered"),
        "json-schema-2020-12": "it wants a schema that a Python function cannot have",
    },
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", exam.REVISIONS)
def test_server_passes_the_exam(revision: exam.Revision, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    with open_toolbox(folder, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        serving = serve_http(box, allow=["*"], is_open=True)
        try:
            found = exam.as_server(revision, serving.url, tmp_path / "report")
        finally:
            serving.stop()

    wanted = exam.required(revision, "server")
    assert wanted <= found.keys()
    assert not wanted & NOT_REQUIRED[revision].keys()
    if told := exam.surprises(found, NOT_REQUIRED[revision]):
        pytest.fail(told, pytrace=False)
