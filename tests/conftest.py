"""Fixtures for every test: surroundings of its own, a real kernel, a real JupyterLab.

The session lives in a temporary home, so no test reads or writes the developer's files. Browser
tests run last: Playwright's event loop stays alive in this thread, and async tests must come first.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.harness import specs, surroundings
from tests.harness import wheel as wheels
from tests.harness.kernel import Kernel, private_kernel
from tests.harness.project import project

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.harness.lab import Lab

__all__ = ["FAILED", "MARKED", "QUICK", "FreshKernel", "project"]

FreshKernel = Callable[..., Kernel]

# Limits of the tests that need longer than the others (`timeout` in pyproject.toml). The first test
# with a wheel builds and installs it; a browser's test may be that one.
CAMPAIGN_S = 6 * 3600
INSTALLED_S = 600
# What a test may compute in its own process. A loop without end shows here also where the machine
# is busy.
CPU_S = 120
# How long a forked child of a test's process may live. It shares the pipe of its worker: with a
# child that hangs, pytest-xdist would never notice that the worker has ended.
FORK_S = 240

_FAILURES = surroundings.ROOT / "build" / "failures"

# Folders whose tests seldom start a process.
_QUICK = {"bundles", "config", "core", "llm", "net", "render", "stores"}


def pytest_configure(config: pytest.Config) -> None:
    """Move the whole session, children included, into a temporary home, where an interrupt is
    heard."""
    # A shell's background job, and so each child of it.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A shrinking example may outlive the limit of its test, and would be lost with the worker.
    phases = [phase for phase in Phase if phase is not Phase.shrink]
    examples = int(os.environ.get("ONETOOL_TEST_EXAMPLES", "100"))  # fewer in `make test`
    settings.register_profile(
        "shared",
        deadline=None,  # what is slow is the machine
        suppress_health_check=[HealthCheck.too_slow],
        phases=phases,
        max_examples=examples,
    )
    settings.load_profile("shared")  # before any test is read
    stacks = os.environ.get("ONETOOL_TEST_STACKS")  # of tasks.py, which shows them at its end
    config.stash[_STACKS] = (
        os.open(stacks, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if stacks else os.dup(2)
    )
    if hasattr(faulthandler, "register"):
        # Then it ends: see _limit_cpu.
        faulthandler.register(signal.SIGPROF, file=config.stash[_STACKS], chain=True)
    if hasattr(os, "register_at_fork"):
        faulthandler.register(signal.SIGALRM, file=config.stash[_STACKS], chain=True)
        os.register_at_fork(after_in_child=_begin_child)
    config.stash[_HOME] = Path(tempfile.mkdtemp(prefix="onetool-tests-"))
    surroundings.enter(config.stash[_HOME] / "home")


def _begin_child() -> None:
    """Limit a forked child, and let the garbage of all tests before be: what has threads in the
    parent cannot be destroyed here."""
    signal.alarm(FORK_S)  # it is not inherited, and ends the child: nobody listens to it
    gc.freeze()


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Past its limit a test ends its process, and shows where each thread stood.

    The timer of pytest-timeout would do so too, but not from a worker of a parallel run, whose
    output goes nowhere, nor where C code lets no other thread run; and it starts a thread for each
    test.
    """
    if not item.config.getoption("usepdb"):
        faulthandler.dump_traceback_later(
            settings.timeout, exit=True, file=item.config.stash[_STACKS]
        )
        is_long = item.get_closest_marker("timeout") is not None
        _limit_cpu(max(CPU_S, settings.timeout if is_long else 0))
    return True


def pytest_timeout_cancel_timer() -> bool:
    """A test has ended, and its limits with it."""
    faulthandler.cancel_dump_traceback_later()
    _limit_cpu(0)
    return True


def _limit_cpu(seconds: float) -> None:
    """End this process after CPU seconds of its own; 0 for never. Windows has no such clock."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """Name the machine's load beside a test that ended its worker: most likely it was past its
    limit."""
    load = (
        ", ".join(f"{one:.1f}" for one in os.getloadavg())
        if hasattr(os, "getloadavg")
        else "not known"
    )
    report.longrepr = (
        f"{crashitem} ended its worker: past its limit of time or CPU, or it crashed.\nThe load of"
        f" this machine was {load} on {os.cpu_count()} cores. Where its threads stood is shown at"
        " the end."
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the temporary home and delete it."""
    surroundings.leave()
    shutil.rmtree(config.stash[_HOME], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option for tests/test_specs.py, which looks at all tests from a process of its own."""
    parser.addoption("--marked-to", type=Path, help="write the spec markers of all tests to a file")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m browser` or `-m screen`, import only the files that have such tests."""
    marker = config.getoption("markexpr")
    if marker not in ("browser", "screen") or not collection_path.match("test_*.py"):
        return None
    return f"mark.{marker}" not in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the spec markers, leave `soak` tests to `make soak`, order the rest, limit the long
    ones."""
    config.stash[MARKED] = specs.marked(items)
    config.stash[QUICK] = specs.marked(item for item in items if specs.is_quick(item))
    if listing := config.getoption("--marked-to"):
        listing.write_text(
            json.dumps([config.stash[MARKED], config.stash[QUICK]]), encoding="utf-8"
        )
    if not os.environ.get("ONETOOL_SOAK"):
        items[:] = [item for item in items if item.get_closest_marker("soak") is None]
    for item in items:
        _leave_to_its_system(item)
    items.sort(key=_turn)
    for item in items:
        if item.get_closest_marker("soak") is not None:
            item.add_marker(pytest.mark.timeout(CAMPAIGN_S), append=False)
        elif item.get_closest_marker("timeout") is None and _takes_long(item):
            item.add_marker(pytest.mark.timeout(INSTALLED_S))


def _leave_to_its_system(item: pytest.Item) -> None:
    """Skip a test that is about another system; its marker says what there is only there."""
    here = {
        "linux": sys.platform == "linux",
        "posix": os.name == "posix",
        "macos": sys.platform == "darwin",
        "windows": os.name == "nt",
    }
    for name, is_here in here.items():
        for marker in item.iter_markers(name):
            (reason,) = marker.args
            if not is_here:
                item.add_marker(pytest.mark.skip(reason=f"{name} only: {reason}"))


def _turn(item: pytest.Item) -> int:
    """What waits for kernels and servers first, so that the workers end together; browsers last."""
    if item.get_closest_marker("browser") is not None:
        return 2
    return int(item.path.relative_to(surroundings.ROOT).parts[1] in _QUICK)


def pytest_collection_finish() -> None:
    """Ten thousand collected tests stay until the end: no garbage collection looks at them
    again."""
    gc.collect()
    gc.freeze()


def _takes_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("browser") is not None or "wheel" in getattr(
        item, "fixturenames", ()
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """After a run of everything, say how many scenarios have a test and where some have none; and
    what the guard's benchmark measured, wherever it ran."""
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == "guard" and report.when == "call":
                terminalreporter.write_line(f"Guard: {value}")
    programs: dict[str, list[float]] = {"questions": [], "bits": []}
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == "guard of programs" and report.when == "call":
                programs[value[0]].append(value[1])
    if asked := programs["questions"]:
        attacks = programs["bits"]
        terminalreporter.write_line(
            f"Guard of programs: {len(attacks)} attacks stopped, of which {attacks.count(0)} carried"
            f" nothing and the others at most {max(attacks, default=0):.1f} bits,"
            f" {sum(asked) / len(asked):.2f} questions per benign program ({len(asked)} programs)"
        )
    # With these markers most files are not read: see pytest_ignore_collect.
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.getoption(
        "markexpr"
    ) not in ("browser", "screen")
    if not is_whole or MARKED not in config.stash:
        return
    terminalreporter.section("scenarios")
    found = specs.coverage(config.stash[MARKED])
    for line in specs.report(found, is_verbose=terminalreporter.verbosity > 0):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def _shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with private_kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


@pytest.fixture
def kernel(_shared_kernel: Kernel, tmp_path: Path) -> Kernel:
    """The session's kernel, emptied: own working directory (`kernel.cwd`), own state."""
    _shared_kernel.reset(tmp_path / "work", tmp_path / "state")
    return _shared_kernel


@pytest.fixture
def loaded(kernel: Kernel) -> Kernel:
    """The session's kernel, emptied, with the extension."""
    kernel.execute("%load_ext onetool_ipy")
    return kernel


@pytest.fixture
def fresh_kernel(tmp_path: Path) -> Iterator[FreshKernel]:
    """Start kernels of one's own: `fresh_kernel(cwd=..., env=...)`; all are stopped at the end."""
    kernels: list[Kernel] = []

    def start(*, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Kernel:
        home = tmp_path / f"kernel-{len(kernels)}"
        own = surroundings.private(home / "home")
        kernels.append(Kernel(cwd or home / "work", env={**own, **(env or {})}))
        return kernels[-1]

    yield start
    for started in kernels:
        started.close()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return wheels.build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> wheels.Installed:
    """A venv outside the checkout with the wheel in it and no Node on its PATH."""
    return wheels.install(wheel, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture(scope="session")
def shared_lab(
    installed_wheel: wheels.Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """JupyterLab from the installed wheel, for those who keep a notebook open over several
    tests."""
    from tests.harness.lab import Lab  # Playwright is only for those who need a browser

    server = Lab(installed_wheel, tmp_path_factory.mktemp("lab"))
    yield server
    server.close()


@pytest.fixture
def page(shared_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Page]:
    """An empty page of the one browser, for pages that are no JupyterLab. A failed test shows its
    text; its picture goes to build/failures."""
    context = shared_lab.browser.new_context()
    empty = context.new_page()
    yield empty
    if request.node.stash.get(FAILED, False):
        text = f"{empty.url}\n{empty.locator('body').inner_text()}"
        request.node.add_report_section("teardown", "page", text)
        empty.screenshot(
            path=_FAILURES / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', request.node.name)}.png"
        )
    context.close()


@pytest.fixture
def lab(shared_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """JupyterLab from the installed wheel; pictures of a failed test go to build/failures."""
    yield shared_lab
    if request.node.stash.get(FAILED, False):
        shared_lab.screenshot(request.node.name, _FAILURES)
    shared_lab.close_notebooks()
    if request.node.stash.get(FAILED, False):
        shared_lab.forget_pages()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know whether their test failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


_HOME: pytest.StashKey[Path] = pytest.StashKey()
_STACKS: pytest.StashKey[int] = pytest.StashKey()
"""The file that the stacks of a test past its limit go to; stderr, before anything is captured."""
FAILED: pytest.StashKey[bool] = pytest.StashKey()
MARKED: pytest.StashKey[Mapping[str, tuple[str, ...]]] = pytest.StashKey()
"""The tests of each scenario, among those that were collected, also if this run leaves them out."""
QUICK: pytest.StashKey[Mapping[str, tuple[str, ...]]] = pytest.StashKey()
"""Those of them that `make test` runs."""
