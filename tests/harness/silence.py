"""Ends a run in which nothing is heard of any test, and names the tests that were running. A pytest
plugin, for the process that hands the tests out: `pytest -p tests.harness.silence -n 3`.

A test past its limit ends its worker (see tests/conftest.py). A worker that is stopped cannot, and
one whose child holds its pipe open ends unseen: pytest-xdist would wait for it for ever, and what
had failed before would never be shown.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading

import psutil  # type: ignore[import-untyped]  # it ships no stubs
import pytest

__all__ = ["pytest_addoption", "pytest_configure"]

SILENT_S = 900.0
"""Longer than any test of such a run may take."""
LAST_WORDS_S = 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--silent-s", type=float, default=SILENT_S, help="end a run that is silent")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Watch(config))


class _Watch:
    """A thread that hears of each test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._running: dict[str, None] = {}
        self._heard = threading.Event()
        self._is_over = False
        threading.Thread(target=self._listen, daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = None
        self._heard.set()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._heard.set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._is_over = True
        self._heard.set()

    def _listen(self) -> None:
        silent_s = SILENT_S
        while self._heard.wait(silent_s):
            self._heard.clear()
            if self._is_over:
                return
            silent_s = self._config.getoption("silent_s")
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert reporter
        reporter.write_line(f"\nNothing was heard of any test for {silent_s:.0f} s. Running were:")
        for name in tuple(self._running) or ("none",):
            reporter.write_line(f"  {name}")
        for worker in psutil.Process().children() if hasattr(signal, "SIGPROF") else ():
            with contextlib.suppress(psutil.Error):
                worker.send_signal(signal.SIGPROF)  # it shows its stacks, and ends
                worker.resume()
        self._heard.clear()
        threading.Event().wait(LAST_WORDS_S)
        if not self._is_over:
            _thread.interrupt_main()  # pytest shows what failed, and ends the workers
