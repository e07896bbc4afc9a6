"""The scenarios of the specs against the tests that are marked with them.

A marker with an id nobody listed is a mistake; a required scenario without a test is a gap. What is
open but not required yet is only reported, at the end of the run (`-v` lists every one).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MARKED, QUICK
from tests.harness import specs
from tests.harness.surroundings import ROOT

pytestmark = pytest.mark.timeout(600)  # the first one collects all tests


Marked = dict[str, tuple[str, ...]]


@pytest.fixture(scope="module")
def all_marked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Marked, Marked]:
    """The tests of each scenario in the repository, whichever were chosen for this run; and the
    quick ones of them."""
    collected = {
        (request.config.invocation_params.dir / arg).resolve() for arg in request.config.args
    }
    if ROOT / "tests" in collected:
        return request.config.stash[MARKED], request.config.stash[QUICK]
    return _marked_in_all_tests(tmp_path_factory.mktemp("specs") / "marked.json")


@pytest.fixture(scope="module")
def found(all_marked: tuple[Marked, Marked]) -> specs.Coverage:
    return specs.coverage(all_marked[0])


def _marked_in_all_tests(listing: Path) -> tuple[Marked, Marked]:
    """Collect all tests in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", f"--marked-to={listing}", "tests"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"some tests cannot be collected:\n{done.stdout}{done.stderr}"
    everything, quick = json.loads(listing.read_text(encoding="utf-8"))
    return everything, quick


def test_every_scenario_with_a_test_has_one_that_make_test_runs(
    all_marked: tuple[Marked, Marked],
) -> None:
    everything, quick = all_marked

    assert {
        scenario: everything[scenario] for scenario in everything if scenario not in quick
    } == {}


def test_every_marker_names_a_listed_scenario(found: specs.Coverage) -> None:
    assert found.unknown == {}


def test_every_required_scenario_has_a_test(found: specs.Coverage) -> None:
    missing = "\n".join(found.missing_required)

    assert not missing, f"required by tests/data/required_specs.txt, without a test:\n{missing}"


def test_scenarios_are_listed_once() -> None:
    scenarios = specs.read_scenarios()

    assert len(scenarios) == len(set(scenarios))
    assert {one.partition("/")[0] for one in scenarios} == {"000", "001", "002", "003", "004"}


def test_unknown_and_missing_scenarios_are_seen() -> None:
    coverage = specs.coverage({"003/Tool Lookup/Get tool by nmae": ("tests/some.py::test_it",)})

    assert coverage.unknown == {"003/Tool Lookup/Get tool by nmae": ("tests/some.py::test_it",)}
    assert "003/Tool Lookup/Get tool by name" in coverage.missing_required
    assert "003/Provider Format Conversion/Convert to OpenAI format" in coverage.missing_required
