"""OpenTelemetry: the spans of every kind of call, their parents, and that nothing is in them that
should not leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.core.tracing import CAPTURE, traced
from tests.core.support import MakeBench
from tests.harness.surroundings import ROOT

Report = Callable[[str], dict[str, Any]]
SECRET = "hunter-22-hunter"

# The first test with a report waits for the worker, which imports all of a framework.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the spans of the worker process, by the value of the capture variable; each runs
    once."""
    reports: dict[str, dict[str, Any]] = {}

    def run(capture: str) -> dict[str, Any]:
        if capture not in reports:
            worker = Path(__file__).with_name("tracing_worker.py")
            env = {**os.environ, "PYTHONPATH": str(ROOT), CAPTURE: capture}
            command = [sys.executable, str(worker), str(tmp_path_factory.mktemp("traced")), SECRET]
            ended = subprocess.run(
                command, capture_output=True, text=True, env=env, timeout=280, check=False
            )
            assert ended.returncode == 0, ended.stderr[-3000:]
            reports[capture] = json.loads(ended.stdout)
        return reports[capture]

    return run


def add(a: int) -> int:
    """Add one."""
    return a + 1


def _below(report: Report, top: str, capture: str = "") -> list[dict[str, Any]]:
    return [span for span in report(capture)["spans"] if span["path"][:1] == [top]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("top", "paths"),
    [
        ("nested", ["nb.outer", "nb.outer > nb.inner"]),
        ("async", ["nb.later", "nb.later > nb.inner"]),
        ("async caller", ["nb.later", "nb.later > nb.inner"]),
        ("limited", ["nb.outer", "nb.outer > nb.inner"]),
        ("mapped", ["ot.map", "ot.map > nb.inner", "ot.map > nb.inner"]),
        ("parallel", ["nb.parallel", "nb.parallel > nb.inner", "nb.parallel > nb.inner"]),
        ("job", ["nb.outer", "nb.outer > nb.inner"]),
        ("http", ["web.get", "web.get", "web.get > GET", "web.get > GET"]),
        ("program", ["nb.inner"]),
    ],
)
def test_each_span_is_inside_that_of_its_caller(report: Report, top: str, paths: list[str]) -> None:
    """The user's own span, the outer call, the inner one; in threads, on loops, in the
    background."""
    spans = [[*span["path"][1:], span["name"]] for span in _below(report, top)]
    assert (
        sorted(" > ".join(name.removeprefix("execute_tool ") for name in path) for path in spans)
        == paths
    )


def test_a_span_says_what_the_conventions_want(report: Report) -> None:
    (span,) = (span for span in _below(report, "nested") if span["name"] == "execute_tool nb.outer")
    attributes = dict(span["attributes"])
    assert len(attributes.pop("gen_ai.tool.call.id")) > 10
    assert attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "nb.outer",
        "gen_ai.tool.type": "function",
    }
    assert (span["kind"], span["status"]) == ("INTERNAL", "UNSET")
    calls = [span for span in _below(report, "http") if span["name"].startswith("execute_tool ")]
    assert {span["attributes"]["gen_ai.tool.type"] for span in calls} == {"extension"}


def test_a_failure_has_its_type_and_no_words(report: Report) -> None:
    spans = _below(report, "failed")
    assert [(span["status"], span["attributes"]["error.type"]) for span in spans] == [
        ("ERROR", "KeyError"),
        ("ERROR", "invalid_args"),
    ]
    assert all(span["events"] == 0 for span in report("")["spans"])


def test_an_ask_has_its_requests_and_calls_inside(report: Report) -> None:
    spans = {" > ".join([*span["path"][1:], span["name"]]): span for span in _below(report, "ask")}
    assert set(spans) == {
        "invoke_agent ask",
        "invoke_agent ask > chat m-1",
        "invoke_agent ask > execute_tool nb.inner",
    }
    request = spans["invoke_agent ask > chat m-1"]
    assert request["kind"] == "CLIENT"
    assert request["attributes"] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.response.finish_reasons": ["done"],
    }
    assert spans["invoke_agent ask"]["attributes"]["gen_ai.usage.input_tokens"] == 14


def test_a_request_carries_the_id_of_its_client_span(report: Report) -> None:
    """An HTTP tool's that of its own span, a model's that of its `chat` span; the user's own header
    stays."""
    spans = {span["id"]: span for span in report("")["spans"]}
    sent = [(row["path"], row["traceparent"].split("-")) for row in report("")["sent"]]

    assert [path for path, _ in sent] == [
        "/things",
        "/things",
        "/own",
        *["/v1/chat/completions"] * 2,
    ]
    assert [spans[parts[2]]["name"] for path, parts in sent if path != "/own"] == [
        "GET",
        "GET",
        "chat m-1",
        "chat m-1",
    ]
    assert [parts for path, parts in sent if path == "/own"] == [["mine"]]
    request = next(
        span for span in spans.values() if span["name"] == "GET" and span["path"][:1] == ["http"]
    )
    assert request["kind"] == "CLIENT"
    assert request["attributes"].pop("server.port") > 0
    assert request["attributes"] == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
    }


def test_arguments_and_results_stay_here(report: Report) -> None:
    text = json.dumps(report(""))
    assert SECRET not in text
    assert "bread" not in text
    assert "What is" not in text


@pytest.mark.slow
def test_the_capture_variable_lets_them_out_masked(report: Report) -> None:
    text = json.dumps(report("SPAN_ONLY"))
    give = next(
        span
        for span in _below(report, "secret", "SPAN_ONLY")
        if span["name"] == "execute_tool nb.give"
    )
    inner = next(
        span
        for span in _below(report, "nested", "SPAN_ONLY")
        if span["name"] == "execute_tool nb.inner"
    )
    assert SECRET not in text
    assert "bread" in give["attributes"]["gen_ai.tool.call.result"]
    assert json.loads(inner["attributes"]["gen_ai.tool.call.arguments"]) == {"a": 1}


def test_a_real_receiver_gets_every_span(report: Report) -> None:
    assert sorted(report("")["received"]) == sorted(span["name"] for span in report("")["spans"])


def test_a_process_without_a_provider_makes_no_span(bench: MakeBench) -> None:
    """No provider is set in this process: the step is not there at all."""
    step = traced(str)
    table = bench(add, steps=[step])
    assert step(table.resolve("t.add", {"a": 1})) is None
    assert table.call("t.add", {"a": 1}).ok
