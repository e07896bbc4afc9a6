"""Rows 18, 19 and 22: what people do every day beside a plain call.

The Python proxy against `box.call`, arguments that are wrong or nested, a `%tool` line in a cell
against a no-op magic of one's own, and a row of `ot.map`. Both sides run in this process and take
turns; times are CPU of the process.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.current import require
from tests.benchmarks import projects
from tests.benchmarks.timing import at_most, line, note, once, race, statement, take_turns
from tests.benchmarks.trivial import add

__all__ = ["ROWS", "run"]

ROWS = (18, 19, 22, 30)

_MAPPED = 2000
_WHY_MAP = (
    "Row 22: a third of a row is its recorded call, as in row 1, a quarter the finished row on disk"
    " (encoded, masked, one write), so that a stopped run can be resumed, a tenth its key. Quick"
    " rows share one thread; the others start once rows wait for something."
)


def run() -> list[dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        projects.with_packs(folder, 1, 1)
        env = {**os.environ, "ONETOOL_STATE": str(folder / "state")}
        box = stack.enter_context(open_toolbox(folder, env=env))
        for function in (add, total, same):
            box.adopt(function)
        return [*_proxies(box), *_arguments(box), *_cell(stack), *_map(stack, box)]


def total(rows: list[list[int]]) -> int:
    """Add up all numbers.

    Args:
        rows: The numbers.
    """
    return sum(map(sum, rows))


def same(x: int) -> int:
    """Give the number back.

    Args:
        x: The number.
    """
    return x


def _proxies(box: Toolbox) -> Iterator[dict[str, Any]]:
    note("  proxies ...")
    for pack in ("nb", "pack0"):
        found = race(
            [
                statement("proxy", "pack.add(2, b=3)", pack=box.pack(pack)),
                statement(
                    "call", "call(name, {'a': 2, 'b': 3})", call=box.call, name=f"{pack}.add"
                ),
            ],
            least=20,
        )
        over = 1 / found.ratio("call", "proxy")
        what = f"{pack}.add(2, b=3)" + (" of a pack file" if pack != "nb" else "")
        met = at_most(over, 1.3, 1.1, show=lambda ratio: f"{ratio:.3g}x of the call")
        yield line(18, what, found["proxy"], found["call"], name="box.call", ratio=1 / over, **met)


def _arguments(box: Toolbox) -> Iterator[dict[str, Any]]:
    import pydantic

    note("  arguments ...")
    checked, summed = pydantic.validate_call(add), pydantic.validate_call(total)
    wrong: dict[str, Any] = {"a": "x", "b": 2}
    rows = {"rows": [[row * 20 + column for column in range(20)] for row in range(50)]}

    def refuse() -> None:
        with contextlib.suppress(pydantic.ValidationError):
            checked(**wrong)

    found = race(
        [
            statement("wrong", "call('nb.add', args)", call=box.call, args=wrong),
            statement("wrong, pydantic", "refuse()", refuse=refuse),
            statement("nested", "call('nb.total', args)", call=box.call, args=rows),
            statement("nested, pydantic", "call(**args)", call=summed, args=rows),
        ],
        least=5,
    )
    for row, name, reach, moonshot in ((1, "wrong", 60e-6, 30e-6), (19, "nested", 200e-6, 60e-6)):
        what = (
            "a call with a wrong argument"
            if name == "wrong"
            else "nested arguments, 50 rows x 20 ints"
        )
        ours, peer = found[name], found[f"{name}, pydantic"]
        yield line(
            row, what, ours, peer, name="pydantic validate_call", **at_most(ours, reach, moonshot)
        )


def _cell(stack: ExitStack) -> Iterator[dict[str, Any]]:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    note("  cells ...")
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    stack.callback(InteractiveShell.clear_instance)
    shell.run_line_magic("load_ext", "onetool_ipy")
    stack.callback(shell.run_line_magic, "unload_ext", "onetool_ipy")
    shell.register_magic_function(lambda _line: 3, "line", "nothing")
    shell.run_cell("%tool time.now;", store_history=False)  # opens the toolbox of the shell
    require().adopt(add)

    def cell(text: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            done = shell.run_cell(text, store_history=False)
        assert done.success

    found = race(
        [
            statement("%tool", "cell('%tool nb.add a=1 b=2')", cell=cell),
            statement("%nothing", "cell('%nothing nb.add a=1 b=2')", cell=cell),
        ],
        least=5,
    )
    over = 1 / found.ratio("%nothing", "%tool")
    met = at_most(over, 1.5, 1.2, show=lambda ratio: f"{ratio:.3g}x of it")
    yield line(
        30,
        "a cell %tool nb.add a=1 b=2",
        found["%tool"],
        found["%nothing"],
        name="a no-op magic's cell",
        **met,
    )


def _map(stack: ExitStack, box: Toolbox) -> Iterator[dict[str, Any]]:
    note("  ot.map ...")
    pool = stack.enter_context(ThreadPool(8))
    parts = count()

    def mapped() -> None:
        first = next(parts) * _MAPPED
        frame = box.ot.map("nb.same", range(first, first + _MAPPED), fresh=True)
        assert frame["ok"].all()

    mapped()
    ours = once("ot.map", mapped)
    plain = once("ThreadPool.map", lambda: pool.map(same, range(_MAPPED), chunksize=1))
    found = take_turns(
        {each.name: lambda each=each: each.time(1) / _MAPPED for each in (ours, plain)}, 7
    )
    row = found["ot.map"]
    peer, target = found["ThreadPool.map"], at_most(row, 150e-6, 60e-6)
    yield line(
        22, "a no-op row of ot.map", row, peer, name="ThreadPool.map", note=_WHY_MAP, **target
    )
