"""Row 9: first use after `%load_ext`, in a real kernel, on the clock of the one who waits.

Each first needs a kernel of its own. Beside them stands a kernel without us: its first cell and its
first completion cost something too, and that is not ours.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.timing import Rounds, line, note, take_turns
from tests.harness import surroundings
from tests.harness.kernel import Kernel, private_kernel

__all__ = ["ROWS", "run"]

ROWS = (9,)

_ROUNDS = 5
_RESULT_S, _COMPLETION_S, _FRAME_S = 0.300, 0.200, 1.2
_RESULT, _COMPLETION = "first %tool time.now", "first completion after %tool"
_FRAME, _PLAIN_FRAME = "first .df", "import pandas without us"
_PLAIN_CELL, _PLAIN_COMPLETION = "first cell without us", "first completion without us"


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        firsts = _Firsts(Path(place))
        note("  compiling ...")
        firsts.result()
        note(f"  {_ROUNDS} rounds of 6 fresh kernels ...")
        found = take_turns(
            {
                _PLAIN_CELL: firsts.plain_cell,
                _RESULT: firsts.result,
                _PLAIN_COMPLETION: firsts.plain_completion,
                _COMPLETION: firsts.completion,
                _PLAIN_FRAME: firsts.plain_frame,
                _FRAME: firsts.frame,
            },
            _ROUNDS,
        )
        return list(_lines(found, offered=firsts.offered))


class _Firsts:
    """Seconds of each first, each in a fresh kernel."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.offered: tuple[str, ...] = ()
        _silence(place)

    def result(self) -> float:
        with self._kernel() as kernel:
            _load(kernel)
            return _seconds(lambda: kernel.execute("%tool time.now"))

    def completion(self) -> float:
        with self._kernel() as kernel:
            _load(kernel)
            began = time.perf_counter()
            self.offered = kernel.complete("%tool time.n").matches
            return time.perf_counter() - began

    def plain_cell(self) -> float:
        with self._kernel() as kernel:
            return _seconds(lambda: kernel.execute("__import__('time').time()"))

    def plain_completion(self) -> float:
        with self._kernel() as kernel:
            kernel.execute("import time")
            return _seconds(lambda: kernel.complete("time.n"))

    def frame(self) -> float:
        with self._kernel() as kernel:
            _load(kernel)
            kernel.execute("x = %tool fs.list_dir path=.")
            return _seconds(lambda: kernel.execute("x.df"))

    def plain_frame(self) -> float:
        with self._kernel() as kernel:
            return _seconds(lambda: kernel.execute("import pandas"))

    def _kernel(self) -> Kernel:
        return private_kernel(self._place)


def _silence(place: Path) -> None:
    """Twenty kernels would say twenty times that they talk over TCP."""
    profile = Path(surroundings.private(place / "home")["IPYTHONDIR"]) / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_kernel_config.py").write_text(
        "get_config().IPKernelApp.log_level = 40\n", encoding="utf-8"
    )


def _load(kernel: Kernel) -> None:
    kernel.execute("%load_ext onetool_ipy")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _lines(found: Rounds, *, offered: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for first, plain, limit_s in (
        (_RESULT, _PLAIN_CELL, _RESULT_S),
        (_COMPLETION, _PLAIN_COMPLETION, _COMPLETION_S),
    ):
        what, met = first, found[first] <= limit_s
        if first == _COMPLETION and not any("now" in text for text in offered):
            what = f"{first} (offers nothing of ours yet)"
        yield line(
            9,
            what,
            found[first],
            found[plain],
            name=plain,
            reach=f"<= {limit_s * 1e3:g} ms",
            met=met,
        )
    yield line(
        9,
        _FRAME,
        found[_FRAME],
        found[_PLAIN_FRAME],
        name=_PLAIN_FRAME,
        reach="<= 1.2 s",
        met=found[_FRAME] <= _FRAME_S,
    )
