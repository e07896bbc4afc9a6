"""Row 1: one call of a trivial Python tool through the executor, whatever `Toolbox.call` does on
the way.

The figure is the mean of 100,000 calls, with all that they cause: the call log, the closing of
its journals, the collector. The lines about the size of a toolbox compare medians of slices, since they ask for a
difference only.

Four more lines are taken in a cell of a shell, where a person's calls are watched and recorded with
their cell: a cell's tool by its name, `box.call`, a pack file's tool, a result of three rows.

The tool is a cell's function, and once more a function of a pack file; beside it stand 1, 1,000 and
10,000 tools of pack files, since a call must not cost more where there are more of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.current import require
from tests.benchmarks import projects
from tests.benchmarks.peers.workers import PeerMissing, Worker, python_with
from tests.benchmarks.timing import (
    Contender,
    Rounds,
    at_least,
    at_most,
    line,
    note,
    per_run,
    race,
    runs_in,
    statement,
    take_turns,
)
from tests.benchmarks.trivial import ARGS, SCHEMA, add

__all__ = ["ROWS", "run"]

ROWS = (1,)

_DIRECT, _CELL, _FILE = "direct call", "cell's tool", "file's tool"
_REACH_S, _MOONSHOT_S, _AT_DIRECT_S = 25e-6, 10e-6, 0.3e-6
_CALLS, _ROUNDS = 100_000, 50
_IN_CELL_S = (15e-6, 16e-6, 18e-6, 25e-6)
_FLAT = 0.8
"""The ratio between a small and a large toolbox that still counts as flat on a shared machine."""

_SIZES = ((1, 1), (100, 10), (1000, 10))
"""Packs, and tools in each."""

_WORKERS = (
    ("langchain-core invoke", "langchain_tool", ("langchain_core", "langchain-core")),
    ("fastmcp client", "fastmcp_client", ("fastmcp", "fastmcp")),
    ("mcp in memory", "mcp_memory", ("mcp", "mcp")),
)
"""Name, program, (module, distribution)."""


def run() -> list[dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        boxes = {
            size: stack.enter_context(_toolbox(folder / str(size[0]), *size)) for size in _SIZES
        }
        contenders = [*_ours(boxes), *_in_process()]
        missing: dict[str, str] = {}
        contenders += _started(stack, missing)
        note(f"  {_CALLS:,} calls ...")
        means = _means(contenders)
        note("  in a cell ...")
        in_cell = [*_in_cell(stack, folder, means)]
        note("  racing ...")
        sizes = [one for one in contenders if one.name.startswith((_CELL, _FILE))]
        return [*_lines(means, missing), *in_cell, *_flat_lines(race(sizes, least=5))]


def _means(contenders: Sequence[Contender]) -> Rounds:
    """Calls in long turns, 100,000 of each of ours; a peer that is slow has turns of 20 ms."""
    chosen = [
        one
        for one in contenders
        if one.name in (f"{_CELL} 1", f"{_FILE} 1") or not one.name[-1].isdigit()
    ]
    each = {
        one.name: _CALLS // _ROUNDS if one.name[-1].isdigit() else runs_in(one, 0.02)
        for one in chosen
    }
    return take_turns({one.name: partial(per_run, one, each[one.name]) for one in chosen}, _ROUNDS)


def three(n: int) -> list[dict[str, Any]]:
    """Give rows.

    Args:
        n: How many.
    """
    return [{"id": number, "name": "x" * 10} for number in range(n)]


def _in_cell(stack: ExitStack, folder: Path, means: Rounds) -> Iterator[dict[str, Any]]:
    """Calls in a running cell, each against its target, and beside the peers of row 1."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    stack.callback(InteractiveShell.clear_instance)
    before = Path.cwd()
    stack.callback(os.chdir, before)
    os.chdir(folder / "1")
    shell.run_line_magic("load_ext", "onetool_ipy")
    stack.callback(shell.run_line_magic, "unload_ext", "onetool_ipy")
    box = require()
    box.gate.grant()
    for function in (add, three):
        box.adopt(function)
    packs = {pack: box.pack(pack) for pack in ("nb", "pack0")}
    contenders = [
        statement("nb.add(2, b=3)", "pack.add(2, b=3)", pack=packs["nb"]),
        statement("box.call", "call(name, args)", call=box.call, name="nb.add", args=ARGS),
        statement("a file's tool", "pack.add(2, b=3)", pack=packs["pack0"]),
        statement("a result of three rows", "pack.three(3)", pack=packs["nb"]),
    ]
    rounds: list[Rounds] = []
    shell.push({"race_them": lambda: rounds.append(race(contenders, least=50))})
    shell.run_cell("race_them()", store_history=False).raise_error()
    reach = dict(zip((one.name for one in contenders), _IN_CELL_S, strict=True))
    peers = [name for name in means.seconds if name.startswith(("langchain", "fastmcp"))]
    for name, target in reach.items():
        ours = rounds[0][name]
        yield line(1, f"in a cell: {name}", ours, **at_most(ours, target, _MOONSHOT_S))
    for peer in peers:
        ours = rounds[0]["nb.add(2, b=3)"]
        yield line(1, "in a cell: nb.add(2, b=3)", ours, means.mean(peer), name=peer)


def _toolbox(folder: Path, packs: int, tools_each: int) -> Toolbox:
    note(f"  a toolbox with {packs * tools_each:,} tools ...")
    projects.with_packs(folder, packs, tools_each)
    box = open_toolbox(folder, env={**os.environ, "ONETOOL_STATE": str(folder / "state")})
    box.adopt(add)
    for name in ("nb.add", f"pack{packs // 2}.add"):
        assert box.call(name, ARGS).unwrap() == add(**ARGS)
    return box


def _ours(boxes: dict[tuple[int, int], Toolbox]) -> Iterator[Contender]:
    for (packs, each), box in boxes.items():
        code = "call(name, args)"
        yield statement(f"{_CELL} {packs * each}", code, call=box.call, name="nb.add", args=ARGS)
        yield statement(
            f"{_FILE} {packs * each}", code, call=box.call, name=f"pack{packs // 2}.add", args=ARGS
        )


def _in_process() -> Iterator[Contender]:
    import jsonschema
    import jsonschema_rs
    import pydantic

    yield statement(_DIRECT, "tool(**args)", tool=add, args=ARGS)
    compiled = jsonschema_rs.validator_for(SCHEMA)
    yield statement(
        "jsonschema-rs check + call",
        "check(args); tool(**args)",
        check=compiled.validate,
        tool=add,
        args=ARGS,
    )
    yield statement(
        "pydantic validate_call", "tool(**args)", tool=pydantic.validate_call(add), args=ARGS
    )
    prebuilt = jsonschema.Draft202012Validator(SCHEMA)
    yield statement(
        "jsonschema, prebuilt, + call",
        "check(args); tool(**args)",
        check=prebuilt.validate,
        tool=add,
        args=ARGS,
    )
    yield statement(
        "jsonschema.validate() + call",
        "check(args, schema); tool(**args)",
        check=jsonschema.validate,
        schema=SCHEMA,
        tool=add,
        args=ARGS,
    )


def _started(stack: ExitStack, missing: dict[str, str]) -> Iterator[Contender]:
    for name, program, needs in _WORKERS:
        try:
            worker = Worker(program, python_with(*needs))
        except PeerMissing as exc:
            missing[name] = str(exc)
            continue
        stack.callback(worker.close)
        yield worker.contender(name)


def _lines(found: Rounds, missing: dict[str, str]) -> Iterator[dict[str, Any]]:
    for kind in (_CELL, _FILE):
        yield _beside_direct(found, kind)
    for name in list(found.seconds)[3:]:
        yield _beside_peer(found, name)
    for name, reason in missing.items():
        text = f"No peer '{name}': {reason}"
        yield line(
            1, f"box.call, {_CELL}", found.mean(f"{_CELL} 1"), "not there", name=name, note=text
        )


def _beside_direct(found: Rounds, kind: str) -> dict[str, Any]:
    """The target in µs, moved to the speed of this machine by its direct call."""
    ours, direct = found.mean(f"{kind} 1"), found.mean(_DIRECT)
    scale = direct / _AT_DIRECT_S
    target = at_most(ours, _REACH_S * scale, _MOONSHOT_S * scale)
    what = f"box.call, {kind}, mean of {_CALLS:,} (target 25 and 10 µs at a direct call of 0.3)"
    return line(1, what, ours, direct, name=_DIRECT, **target)


def _beside_peer(found: Rounds, name: str) -> dict[str, Any]:
    ratio = found.mean_ratio(name, f"{_CELL} 1")
    headline = (
        "call a Python tool: look-up, argument check, record"
        if name.startswith("langchain")
        else ""
    )
    ours, peer = found.mean(f"{_CELL} 1"), found.mean(name)
    return line(1, f"box.call, {_CELL}", ours, peer, name=name, ratio=ratio, headline=headline)


def _flat_lines(found: Rounds) -> Iterator[dict[str, Any]]:
    for kind in (_CELL, _FILE):
        for packs, each in _SIZES[1:]:
            one, many = f"{kind} 1", f"{kind} {packs * each}"
            ratio = found.ratio(one, many)
            what = f"box.call, {kind} among {packs * each:,}"
            yield line(
                1,
                what,
                found[many],
                found[one],
                name="with 1 tool",
                ratio=ratio,
                **at_least(ratio, _FLAT),
            )
