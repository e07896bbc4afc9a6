"""What each test costs in CPU, so that `slow` is a measured fact. A pytest plugin, and a judge of
what it wrote.

`pytest -p tests.harness.cost --costs FILE` appends a line of JSON for each test: its own CPU
seconds, those of its children and of the processes below it that still live. A fixture of a module
is charged to each test that uses it, one of the session to none. `python -m tests.harness.cost
FILE` holds the lines against the marker `slow`, and exits with 1 where a function that is not
marked is far over the limit. CPU seconds depend little on how busy a machine is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

__all__ = ["Cost", "costs_of", "cpu_s", "judge"]

SLOW_S = 0.5
"""A function with a case over this is marked `slow`."""
FAILS_S = 1.5
"""An unmarked function over this fails the run: machines differ by less than the factor between the
two."""
QUICK_S = 0.2
"""A marked function whose cases all stay under this needs no marker."""

# The first test that imports one of these would pay for it, in each worker another one.
_HEAVY = (
    "mcp",
    "mcp.server",
    "pandas",
    "ipywidgets",
    "jinja2",
    "pyarrow",
    "pydantic_monty",
    "distributed",
    "openai.types.chat",
    "anthropic.types",
    "google.genai.types",
    "duckdb",
)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The dearest case of a test function."""

    function: str
    cpu_s: float
    is_slow: bool


def cpu_s() -> float:
    """CPU seconds of this process, of its ended children, and of all that live below it."""
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    return total + sum(_ticks(pid) for pid in _below(os.getpid())) / _TICKS


def _below(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text(encoding="ascii").split()):
                yield child
                yield from _below(child)


def _ticks(pid: int) -> int:
    """Clock ticks of a process and of its ended children; 0 for one that is gone."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The name in brackets may hold blanks; utime is the twelfth field behind it.
    return sum(map(int, line.rpartition(")")[2].split()[11:15]))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the lines go."""
    parser.addoption("--costs", type=Path, help="append the CPU seconds of each test to a file")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the processes that run tests: a worker, or a run without workers."""
    path = config.getoption("--costs")
    if path is None or (
        config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    ):
        return
    for module in _HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    config.pluginmanager.register(_Meter(path))


@dataclass(slots=True, eq=False)
class _Meter:
    """Measures test by test. `shared` has the cost of the fixtures that outlive a test, by their
    name and place."""

    path: Path
    shared: dict[tuple[str, str], float] = field(default_factory=dict)
    outside_s: float = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before_s, before_outside_s = cpu_s(), self.outside_s
        try:
            return (yield)
        finally:
            spent_s = cpu_s() - before_s
            self.shared[fixturedef.argname, fixturedef.baseid] = spent_s - (
                self.outside_s - before_outside_s
            )
            self.outside_s = before_outside_s + spent_s

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before_s, self.outside_s = cpu_s(), 0.0
        try:
            return (yield)
        finally:
            line = {
                "test": item.nodeid,
                "cpu_s": round(cpu_s() - before_s - self.outside_s + self._of_module(item), 3),
                "slow": item.get_closest_marker("slow") is not None,
                "browser": item.get_closest_marker("browser") is not None,
            }
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _of_module(self, item: pytest.Item) -> float:
        """What the fixtures cost that this test shares with others of its module."""
        info = getattr(item, "_fixtureinfo", None)
        if info is None:
            return 0.0
        definitions = [
            one for many in info.name2fixturedefs.values() for one in many if one.scope != "session"
        ]
        return sum(self.shared.get((one.argname, one.baseid), 0.0) for one in definitions)


def costs_of(lines: Iterator[str]) -> list[Cost]:
    """The dearest case of each function, the dearest function first. A browser's tests have a rule
    of their own."""
    dearest: dict[str, Cost] = {}
    for line in lines:
        row = json.loads(line)
        function = row["test"].partition("[")[0]
        known = dearest.get(function)
        if not row["browser"] and (known is None or row["cpu_s"] > known.cpu_s):
            dearest[function] = Cost(function=function, cpu_s=row["cpu_s"], is_slow=row["slow"])
    return sorted(dearest.values(), key=lambda cost: -cost.cpu_s)


def judge(costs: list[Cost]) -> tuple[list[str], bool]:
    """The lines to print, and whether no unmarked function is far over the limit."""
    unmarked = [cost for cost in costs if cost.cpu_s > SLOW_S and not cost.is_slow]
    needless = [cost for cost in costs if cost.cpu_s < QUICK_S and cost.is_slow]
    lines = [
        f"slow and not marked ({len(unmarked)}; over {SLOW_S} s of CPU, over {FAILS_S} s it fails):"
    ]
    lines += [f"    {cost.cpu_s:6.2f} s  {cost.function}" for cost in unmarked]
    lines += [f"marked and quick ({len(needless)}; under {QUICK_S} s):"]
    lines += [f"    {cost.cpu_s:6.2f} s  {cost.function}" for cost in needless]
    return lines, all(cost.cpu_s <= FAILS_S for cost in unmarked)


def main(path: Path) -> int:
    """Print the judgement about a file of costs."""
    with path.open(encoding="utf-8") as lines:
        text, is_good = judge(costs_of(lines))
    sys.stdout.write("\n".join(text) + "\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
