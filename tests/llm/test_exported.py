"""Our tools for other frameworks: called by LangChain, pydantic-ai, OpenAI Agents and smolagents
themselves."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy.base.errors import ToolNotFound, Unavailable, UsageProblem
from onetool_ipy.core.result import ToolResult
from onetool_ipy.llm.exported import ExportedTool, ModelCalls
from onetool_ipy.toolbox import Toolbox
from tests.harness.project import Project
from tests.harness.servers import others_python
from tests.harness.surroundings import ROOT

FRAMEWORKS = ("langchain", "pydantic-ai", "openai-agents", "smolagents")
_ERROR = {
    "langchain": "error",
    "pydantic-ai": True,
    "openai-agents": "",
    "smolagents": "ToolCallError",
}
"""How a framework marks the message of a failure."""

Report = Callable[[str], dict[str, Any]]

# The first test with a report waits for the worker, which imports all of a framework: any of them
# may be the first, so each is marked `slow`. `make test` has no environment of frameworks.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return what the worker process of a framework reports; each runs once."""
    reports: dict[str, dict[str, Any]] = {}

    def run(framework: str) -> dict[str, Any]:
        if framework not in reports:
            worker = Path(__file__).with_name("export_worker.py")
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            command = [
                others_python("frameworks"),
                str(worker),
                framework,
                str(tmp_path_factory.mktemp(framework)),
            ]
            ended = subprocess.run(
                command, capture_output=True, text=True, env=env, timeout=280, check=False
            )
            assert ended.returncode == 0, ended.stderr[-3000:]
            reports[framework] = json.loads(ended.stdout.splitlines()[-1])
        return reports[framework]

    return run


@pytest.fixture
def box(project: Project) -> Toolbox:
    return project.open(clock=None)


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.slow
def test_only_reading_tools_are_exported_by_themselves(framework: str, report: Report) -> None:
    exported = report(framework)["default"]
    assert {"nb_look", "nb_much", "fs_read_file", "ot_result"} <= set(exported)
    assert "nb_send" not in exported
    assert "ot_map" not in exported
    assert "ot_stats" not in exported, "it writes a report where it is told to"


@pytest.mark.slow
def test_the_others_carry_the_mark_of_the_framework(framework: str, report: Report) -> None:
    """smolagents has none."""
    marks = {"nb_look": False, "nb_much": False, "nb_odd": False, "nb_send": True}
    assert report(framework)["approval"] == (None if framework == "smolagents" else marks)


@pytest.mark.slow
def test_pydantic_ai_asks_before_a_tool_that_writes(report: Report) -> None:
    assert report("pydantic-ai")["deferred"] == ["nb_send"]


@pytest.mark.slow
def test_the_schema_is_whole(framework: str, report: Report) -> None:
    properties = report(framework)["schema"]["properties"]
    assert properties["city"] == {"type": "string", "description": "Where."}
    assert {"enum": ["brief", "full"], "type": "string", "default": "brief"}.items() <= properties[
        "mode"
    ].items()


@pytest.mark.slow
def test_a_call_gives_content_and_our_result(framework: str, report: Report) -> None:
    """The content has no secrets; the result goes along where the framework has a place for it."""
    assert json.loads(report(framework)["good"]) == {"city": "Oslo", "days": 1, "key": "***"}
    assert json.loads(report(framework)["async"])["city"] == "Rome"
    has_place = framework in ("langchain", "pydantic-ai")
    artifact = report(framework)["artifact"]
    assert (artifact is not None) == has_place
    if has_place:
        assert (artifact["ok"], artifact["error"], artifact["meta"]["source"]) == (
            True,
            None,
            "model",
        )
        assert artifact["data"] == {"city": "Oslo", "days": 1, "key": "***"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "ways"),
    [
        ("langchain", {"messages_to_dict", "checkpoint", "model_dump_json"}),
        ("pydantic-ai", {"all_messages_json"}),
    ],
)
def test_messages_can_be_kept_and_loaded_again(
    framework: str, ways: set[str], report: Report
) -> None:
    """A result with a table, a date, a huge number and half a character in it, a failure, and a
    large result."""
    assert report(framework)["kept"] == dict.fromkeys(ways, True)
    odd = {
        "big": str(2**70),
        "frame": [{"at": "2026-01-02T00:00:00"}, {"at": None}],
        "key": "***",
        "nan": None,
    }
    assert report(framework)["odd"]["data"] == {**odd, "half": "\\ud800"}


@pytest.mark.slow
def test_a_tool_that_keeps_failing_does_not_end_a_run_of_pydantic_ai(report: Report) -> None:
    endured = report("pydantic-ai")["endured"]
    assert endured["output"] == "done"
    *failures, last = endured["replies"]
    assert len(failures) == 4
    assert all("LookupError: no such city, ***" in text for text in failures)
    assert json.loads(last)["city"] == "Oslo"


@pytest.mark.slow
def test_bad_arguments_are_said_to_the_model(framework: str, report: Report) -> None:
    mark, text = report(framework)["bad"]
    assert mark == _ERROR[framework]
    assert "missing argument 'city'" in text


@pytest.mark.slow
def test_a_failure_is_an_error_in_the_framework_s_way(framework: str, report: Report) -> None:
    mark, text = report(framework)["failed"]
    assert mark == _ERROR[framework]
    assert "LookupError: no such city, ***" in text


@pytest.mark.slow
def test_arguments_that_are_not_json_are_said(report: Report) -> None:
    assert report("openai-agents")["not_json"].startswith("Error: The arguments are not JSON")


@pytest.mark.slow
def test_what_is_large_goes_as_a_handle(framework: str, report: Report) -> None:
    assert json.loads(report(framework)["large"])["total_lines"] == 50_000


class Odd:
    """An object without a form in JSON."""


SECRET = "hunter-22-hunter"
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**60, 2**80),
    st.floats(),
    st.text(),
    st.binary(),
    st.datetimes(),
    st.decimals(),
    st.just(SECRET),
    st.builds(lambda text: f"{text} {SECRET}", st.text()),
    st.builds(Odd),
    st.builds(lambda cells: pl.DataFrame({"a": cells}), st.lists(st.integers(-5, 5), max_size=3)),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
        st.tuples(inner),
    ),
    max_leaves=12,
)


def numbers_in(data: Any) -> Iterator[int]:
    for item in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from numbers_in(item)
    if type(data) is int:
        yield data


@pytest.mark.slow
@given(data=VALUES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_tool_gives_goes_into_messages_as_plain_data(box: Toolbox, data: Any) -> None:
    """The twin is JSON itself: what comes back from it is equal. No number is too large for
    MessagePack."""
    calls = ModelCalls(box.call, box.acall, box.outgoing, box.mask)
    spec = box.registry.require("tools.echo")
    exported = ExportedTool(calls, spec, "tools_echo", needs_approval=False)
    exported.mask = lambda text: text.replace(SECRET, "***")

    content, record = exported.kept(ToolResult(True, data, meta={"tool": "nb.odd", "about": data}))

    assert json.loads(json.dumps(record, allow_nan=False).encode()) == record
    assert record.keys() == {"ok", "data", "error", "meta"}
    assert all(-(2**63) <= number < 2**64 for number in numbers_in(record))
    assert SECRET not in content + json.dumps(record)


@pytest.mark.slow
def test_the_calls_are_those_of_a_model(framework: str, report: Report) -> None:
    assert report(framework)["log"] == ["model"]


def test_a_framework_that_is_unknown_or_missing_is_said(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match=r"No framework 'langchian'\. Did you mean 'langchain'"):
        box.export("langchian")
    with pytest.raises(Unavailable, match="smolagents is not installed") as missing:
        box.export("smolagents")
    assert "%pip install smolagents" in str(missing.value.hint)


@pytest.mark.slow
def test_a_name_that_no_tool_has_is_refused(tmp_path: Path) -> None:
    code = f"""
from onetool_ipy import open_toolbox
with open_toolbox({str(tmp_path)!r}, env={{"ONETOOL_STATE": {str(tmp_path / "state")!r}}}) as box:
    try:
        box.export("smolagents", ["time.nov"])
    except Exception as exc:
        print(type(exc).__name__, exc)
    print([tool.name for tool in box.export("smolagents", "time.now")])
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [others_python("frameworks"), "-c", code]
    first, second = subprocess.run(
        command, capture_output=True, text=True, env=env, check=True
    ).stdout.splitlines()
    assert first.startswith(ToolNotFound.__name__)
    assert "time.now" in first
    assert second == "['time_now']"
