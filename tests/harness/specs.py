"""The list of scenarios and which tests prove them.

Reads the two data files and the collected tests; judges nothing else. `coverage` is what both the
gate in `tests/test_specs.py` and the report at the end of a run are made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = [
    "Coverage",
    "coverage",
    "is_quick",
    "marked",
    "read_required",
    "read_scenarios",
    "report",
]

DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How well scenarios are proven; `unknown` maps an id that is not listed to its tests."""

    scenarios: tuple[str, ...]
    proven: frozenset[str]
    unknown: Mapping[str, tuple[str, ...]]
    missing_required: tuple[str, ...]

    @property
    def open(self) -> tuple[str, ...]:
        """Scenarios without a test, in the order of the list."""
        return tuple(scenario for scenario in self.scenarios if scenario not in self.proven)


def read_scenarios(path: Path = DATA / "scenarios.txt") -> tuple[str, ...]:
    """Every scenario id, in order."""
    return tuple(_lines(path))


def read_required(
    scenarios: Iterable[str], path: Path = DATA / "required_specs.txt"
) -> tuple[str, ...]:
    """The ids that must have a test. A pattern that matches nothing is an error."""
    scenarios = tuple(scenarios)
    chosen: set[str] = set()
    for line in _lines(path):
        pattern = line.removeprefix("-")
        matches = {one for one in scenarios if _matches(pattern, one)}
        if not matches:
            raise ValueError(f"{path.name}: no scenario matches {pattern!r}")
        chosen = chosen - matches if line.startswith("-") else chosen | matches
    return tuple(one for one in scenarios if one in chosen)


def marked(items: Iterable[pytest.Item]) -> dict[str, tuple[str, ...]]:
    """Scenario id -> ids of the tests marked with it."""
    tests: dict[str, tuple[str, ...]] = {}
    for item in items:
        for marker in item.iter_markers("spec"):
            for scenario in marker.args:
                tests[scenario] = (*tests.get(scenario, ()), item.nodeid)
    return tests


def is_quick(item: pytest.Item) -> bool:
    """Whether `make test` runs a test, and not `make test-all` alone."""
    names = {marker.name for marker in item.iter_markers()}
    return "screen" in names or not names & {"slow", "browser", "soak"}


def coverage(tests: Mapping[str, tuple[str, ...]]) -> Coverage:
    """Hold the marked tests against the lists."""
    scenarios = read_scenarios()
    proven = frozenset(tests).intersection(scenarios)
    return Coverage(
        scenarios=scenarios,
        proven=proven,
        unknown={name: tests[name] for name in tests if name not in proven},
        missing_required=tuple(one for one in read_required(scenarios) if one not in proven),
    )


def report(found: Coverage, *, is_verbose: bool) -> list[str]:
    """Lines for the end of a test run: counts by document, and the open ones if asked for."""
    lines: list[str] = []
    for document in sorted({scenario.partition("/")[0] for scenario in found.scenarios}):
        of_document = [one for one in found.scenarios if one.startswith(f"{document}/")]
        still_open = [one for one in of_document if one not in found.proven]
        proven = len(of_document) - len(still_open)
        lines.append(f"spec {document}: {proven} of {len(of_document)} scenarios have a test")
        if is_verbose:
            lines.extend(f"    no test yet: {one}" for one in still_open)
        elif still_open:
            groups = dict.fromkeys(one.split("/")[1] for one in still_open)
            lines.append(f"    none yet in part of: {', '.join(groups)}")
    return lines


def _lines(path: Path) -> Iterable[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if (text := line.strip()) and not text.startswith("#"):
            yield text


def _matches(pattern: str, scenario: str) -> bool:
    return scenario.startswith(pattern) if pattern.endswith("/") else scenario == pattern
