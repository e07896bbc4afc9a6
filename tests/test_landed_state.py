"""A project that the landed version (git tag `landed`) wrote opens without loss; its state is left where it is.

The archive and how it was made: `tests/fixtures/landed/`. `facts.json` in it is what the landed version said of it.
These tests use the public API, the command line and a kernel only, so that they hold whatever stands below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from onetool_ipy import Toolbox
from tests.fixtures.landed import state
from tests.fixtures.landed.state import SECRETS, Landed
from tests.harness.kernel import Kernel

HELLO = '{"message":"hello"}'


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


# --- reports, topics -----------------------------------------------------------------------------


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


# --- the project ----------------------------------------------------------------------------------


def test_every_configured_tool_is_there_with_its_schema(landed: Landed, box: Toolbox) -> None:
    assert state.schemas(box) == landed.facts["schemas"]


def test_every_bundle_and_version_is_there(landed: Landed, box: Toolbox) -> None:
    found = state.bundles(box)

    assert _without_counts(found) == _without_counts(landed.facts["bundles"])
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


# --- trust ----------------------------------------------------------------------------------------


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
    command = [sys.executable, "-m", "onetool_ipy", "trust"]
    listed = _run(landed, *command, "--list")
    assert str(landed.project) in listed.stdout + listed.stderr

    assert _run(landed, *command, "--remove").returncode == 0

    with landed.open() as box:
        assert box.call("shop.price", {"item": "tea"}).error is not None


# --- what a notebook wrote ------------------------------------------------------------------------


def test_notebook_finds_snippets_and_its_startup_file(landed: Landed, fresh_kernel: Callable[..., Kernel]) -> None:
    kernel = fresh_kernel(cwd=landed.project, env={**landed.env, "IPYTHONDIR": str(landed.home / ".ipython")})
    kernel.execute("import os; os.environ.pop('ONETOOL_TRUST')")

    assert "5.0" in kernel.execute("%tool shop.price item=tea count=2").text, "the startup file gives %tool"
    assert "10.0" in kernel.execute("$twice item='tea'").text
    assert "Removed" in kernel.execute("%tool install --remove").text


def test_exported_script_runs(landed: Landed) -> None:
    done = _run(landed, sys.executable, "shop.py")

    assert done.stdout == "10.0 2.5\n", done.stderr


def _run(landed: Landed, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **landed.env}
    return subprocess.run(command, cwd=landed.project, env=env, capture_output=True, text=True, check=False)


def _without_counts(value: Any) -> Any:
    """What is counted by the call log, which begins anew."""
    counted = ("callCount", "lastCalledAt")
    return json.loads(json.dumps(value), object_hook=lambda one: {k: v for k, v in one.items() if k not in counted})
