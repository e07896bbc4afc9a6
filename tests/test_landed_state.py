"""A project and a state directory that the landed version (git tag `landed`) wrote open without loss.

The archive and how it was made: `tests/fixtures/landed/`. `facts.json` in it is what the landed version said of it.
These tests use the public API, the command line and a kernel only, so that they hold whatever stands below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from onetool_ipy import Toolbox
from onetool_ipy.llm import ScriptedModel
from tests.fixtures.landed import state
from tests.fixtures.landed.state import PERIODS, SECRETS, Landed
from tests.harness.kernel import Kernel

HELLO = '{"message":"hello"}'
PERCENTILES = ("p50_ms", "p95_ms")
PERCENTILE_TOLERANCE = 0.07
LAST_DIGIT = 0.0011
"""Sums of floats depend on their order: an average may differ in its last digit."""
"""Both versions estimate percentiles, each within 3.2 %."""


@pytest.fixture
def landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Landed:
    unpacked = state.unpack(tmp_path / "landed")
    monkeypatch.delenv("ONETOOL_TRUST")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(unpacked.project)
    with unpacked.open() as opened:
        assert opened.config.trust.how == "untrusted", "a record of that version did not show all that a yes covers"
        opened.trust()
    return unpacked


@pytest.fixture
def box(landed: Landed) -> Iterator[Toolbox]:
    with landed.open() as opened:
        yield opened


# --- the call log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("period", PERIODS)
def test_usage_of_every_period_adds_up_to_the_same(landed: Landed, box: Toolbox, period: str) -> None:
    found, expected = state.usage(box, period), dict(landed.facts[f"usage-{period}"])
    assert sum(row["calls"] for row in found.pop("failures")) == sum(row["failures"] for row in expected["tools"])
    for estimate in ("context_saved", "time_saved_ms"):  # the landed version counted all calls for these
        assert found.pop(estimate) <= expected.pop(estimate)

    assert _without_percentiles(found) == _without_percentiles(expected)
    assert list(_percentiles(found)) == pytest.approx(list(_percentiles(expected)), rel=PERCENTILE_TOLERANCE)
    averages = [[row["avg_ms"] for row in one["tools"]] for one in (found, expected)]
    assert averages[0] == pytest.approx(averages[1], abs=LAST_DIGIT)


@pytest.mark.parametrize(
    ("fact", "options"),
    [("history", {}), ("failed", {"failed": True}), ("of_price", {"tool": "shop.price"})],
    ids=["all", "failed", "one-tool"],
)
def test_history_has_every_row(landed: Landed, box: Toolbox, fact: str, options: dict[str, Any]) -> None:
    rows = state.history(box, **options)

    assert {row.pop("error") for row in rows} == {None}, "the landed version kept no messages"
    assert rows == landed.facts[fact]


def test_calls_of_many_threads_add_to_what_was_there_and_stay_after_a_restart(landed: Landed, box: Toolbox) -> None:
    threads = [threading.Thread(target=_call_often, args=(box, 25)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    box.close()

    with landed.open() as again:
        found = again.ot.stats(period="all")["total_calls"]
        oldest = state.history(again)[-1]
    oldest.pop("error")
    assert found == landed.facts["usage-all"]["total_calls"] + 100
    assert oldest == landed.facts["history"][-1]


def test_a_second_process_reads_the_log_and_adds_to_it(landed: Landed, box: Toolbox) -> None:
    done = _command(landed, "tools", "invoke", "tools.echo", "--args", '{"message": "hello"}')

    assert done.returncode == 0, done.stderr
    assert box.ot.stats(period="all")["total_calls"] == landed.facts["usage-all"]["total_calls"] + 1
    assert "cli" in {row["source"] for row in state.history(box, tool="tools.echo") if row["args"] == HELLO}


def test_nothing_is_reported_as_damaged(box: Toolbox) -> None:
    box.ot.stats()

    assert [str(problem) for problem in box.problems()] == []


# --- topics ---------------------------------------------------------------------------------------


def test_report_is_known_as_ours_and_written_anew(landed: Landed, box: Toolbox) -> None:
    before = (landed.project / "report.html").read_bytes()

    box.ot.stats(output="report.html")

    assert (landed.project / "report.html").read_bytes() != before


def test_topics_keep_their_messages_and_take_more(landed: Landed, box: Toolbox) -> None:
    assert state.topic_files(landed.project) == landed.facts["topics"]

    box.ot.notify(topic="notes:later", message="third")

    text = state.topic_files(landed.project)["notes.yaml"]
    assert text.startswith(landed.facts["topics"]["notes.yaml"])
    assert [found["message"] for found in yaml.safe_load_all(text)] == [
        'first\nsecond: [ü] "quoted" \\ # no comment\n',
        "---\n...\n",
        "third",
    ]


# --- ot.map ---------------------------------------------------------------------------------------


def test_map_calls_only_the_rows_that_are_not_done(
    landed: Landed, box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress of a tool with Python code of its own is kept under a hash of its bytecode."""
    note = tmp_path / "called.txt"
    monkeypatch.setenv("SHOP_NOTE", str(note))
    items = [f"item {number}" for number in range(22)]

    frame = box.ot.map("shop.price", items, count=2)

    assert list(frame["price"]) == [5.0] * 22
    called = sorted(note.read_text(encoding="utf-8").split("\n")[:-1])
    is_same_python = list(sys.version_info[:2]) == landed.facts["python"]
    assert called == (["item 20", "item 21"] if is_same_python else sorted(items))


@pytest.mark.parametrize(
    ("tool", "data", "column", "done", "new"),
    [
        ("tools.echo", [f"message {number}" for number in range(12)], "echo", 10, 2),
        ("pets.find", {"tags": [["dog"], ["cat"], ["cow"]]}, "find", 2, 1),
    ],
)
def test_map_resumes_a_tool_without_code_of_its_own(
    landed: Landed, box: Toolbox, tool: str, data: Any, column: str, done: int, new: int
) -> None:
    before = len(state.history(box, tool=tool))

    frame = box.ot.map(tool, data)

    assert len(frame) == done + new
    assert bool(frame["ok"].all())
    assert len(state.history(box, tool=tool)) == before + new


# --- the project ----------------------------------------------------------------------------------


def test_every_configured_tool_is_there_with_its_schema(landed: Landed, box: Toolbox) -> None:
    assert state.schemas(box) == landed.facts["schemas"]


def test_every_bundle_and_version_is_there(landed: Landed, box: Toolbox) -> None:
    found = state.bundles(box)

    assert found == landed.facts["bundles"]
    assert {bundle["slug"] for bundle in found["bundles"]} == {"pets", "local-tools", "asleep", "my-api"}
    assert {(tool["slug"], tool["version"]) for tool in found["tools"]} == {
        ("find", "1"),
        ("find", "2"),
        ("find", "2-beta"),
        ("say", "1"),
        ("make-user", "1"),
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [("shell.pwd", "disabled"), ("asleep.find", "disabled"), ("pets.find@2-beta", "disabled")],
)
def test_what_was_switched_off_is_off(box: Toolbox, name: str, reason: str) -> None:
    result = box.call(name, {"tags": ["dog"]} if "find" in name else {})

    assert result.error is not None
    assert (result.error.code, result.error.reason) == ("tool_not_found", reason)


def test_http_tool_sends_its_request_with_its_secret(landed: Landed, box: Toolbox) -> None:
    result = box.call("pets.find", {"tags": ["dog", "small"], "limit": 2})

    assert result.data == [{"name": "Rex", "id": 7}]
    (request,) = landed.requests
    assert str(request.url) == "https://pets.example.com/pets?tags=dog%2Csmall&limit=2"
    assert request.headers["authorization"] == f"Bearer {SECRETS['SHOP_TOKEN']}"


def test_http_tool_of_a_curl_command_sends_its_saved_secret(landed: Landed, box: Toolbox) -> None:
    result = box.call("my-api.make-user", {"id": 3})

    assert result.ok
    (request,) = landed.requests
    assert (request.method, request.url.path) == ("POST", "/users/3")
    assert request.headers["authorization"] == f"Bearer {SECRETS['MY_API_TOKEN']}"


def test_secrets_are_masked(box: Toolbox) -> None:
    assert [box.mask(f"a {value} b") for value in SECRETS.values()] == ["a *** b", "a *** b"]


def test_aliases_and_snippets_are_there(landed: Landed, box: Toolbox) -> None:
    assert state.shortcuts(box) == landed.facts["shortcuts"]


# --- trust and approvals --------------------------------------------------------------------------


def test_project_is_still_trusted(box: Toolbox) -> None:
    assert box.call("shop.price", {"item": "tea", "count": 2}).data == 5.0


@pytest.mark.parametrize(
    ("tool", "args", "gives"), [("calc.add", {"a": 2, "b": 3}, 5), ("sums.double", {"n": "ab"}, "abab")]
)
def test_pinned_servers_start_without_a_question(box: Toolbox, tool: str, args: dict[str, Any], gives: object) -> None:
    result = box.call(tool, args)

    assert result.error is None
    assert str(gives) in str(result.data)


def test_server_that_changed_is_refused(landed: Landed) -> None:
    file = landed.project / ".onetool" / "onetool.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("return a + b", "return a - b"), encoding="utf-8")

    with landed.open() as box:
        result = box.call("calc.add", {"a": 2, "b": 3})

    assert result.error is not None
    assert result.error.reason == "untrusted"


def test_trust_can_be_taken_back(landed: Landed) -> None:
    listed = _command(landed, "trust", "--list")
    assert str(landed.project) in listed.stdout + listed.stderr

    assert _command(landed, "trust", "--remove").returncode == 0

    with landed.open() as box:
        assert box.call("shop.price", {"item": "tea"}).error is not None


@pytest.mark.parametrize(("tool", "args"), [("shop.order", {"item": "tea"}), ("my-api.make-user", {"id": 3})])
def test_approved_tools_run_without_a_question(box: Toolbox, tool: str, args: dict[str, Any]) -> None:
    answer = box.ask("Do it.", model=ScriptedModel([(tool, args), "Done."]))

    assert [(call.name, call.ok) for call in answer.calls] == [(tool, True)]


def test_approved_tool_that_changed_is_not_run(landed: Landed) -> None:
    file = landed.project / ".onetool" / "tools" / "shop.py"
    file.write_text(file.read_text(encoding="utf-8").replace("ordered", "bought"), encoding="utf-8")

    with landed.open() as box:
        answer = box.ask("Do it.", model=ScriptedModel([("shop.order", {"item": "tea"}), "Done."]))

    assert [call.ok for call in answer.calls] == [False]


# --- what a notebook wrote ------------------------------------------------------------------------


def test_notebook_finds_favourites_snippets_and_its_startup_file(
    landed: Landed, fresh_kernel: Callable[..., Kernel]
) -> None:
    kernel = fresh_kernel(cwd=landed.project, env={**landed.env, "IPYTHONDIR": str(landed.home / ".ipython")})
    kernel.execute("import os; os.environ.pop('ONETOOL_TRUST')")

    assert "5.0" in kernel.execute("%tool shop.price item=tea count=2").text, "the startup file gives %tool"
    assert "10.0" in kernel.execute("$twice item='tea'").text
    assert state.star(kernel) == ["shop.price", "fs.read_file"]
    assert state.star(kernel, "time.now") == ["shop.price", "fs.read_file", "time.now"]
    assert "Removed" in kernel.execute("%tool install --remove").text


def test_exported_script_runs(landed: Landed) -> None:
    done = _run(landed, sys.executable, "shop.py")

    assert done.stdout == "10.0 2.5\n", done.stderr


def _call_often(box: Toolbox, times: int) -> None:
    for _ in range(times):
        box.call("time.now")


def _command(landed: Landed, *words: str) -> subprocess.CompletedProcess[str]:
    return _run(landed, sys.executable, "-m", "onetool_ipy", *words)


def _run(landed: Landed, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **landed.env}
    return subprocess.run(command, cwd=landed.project, env=env, capture_output=True, text=True, check=False)


def _without_percentiles(value: Any) -> Any:
    left_out = (*PERCENTILES, "avg_ms")
    return json.loads(json.dumps(value), object_hook=lambda one: {k: v for k, v in one.items() if k not in left_out})


def _percentiles(value: Any) -> Iterator[float]:
    for row in (*value["tools"], *value["series"]):
        yield from (row[key] for key in PERCENTILES if key in row)
