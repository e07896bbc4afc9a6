"""Row 1: one call of a trivial Python tool through the executor, whatever `Toolbox.call` does on the way.

The tool is a cell's function, and once more a function of a pack file; beside it stand 1, 1,000 and 10,000 tools of
pack files, since a call must not cost more where there are more of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from onetool_ipy import Toolbox, open_toolbox
from tests.benchmarks import projects
from tests.benchmarks.peers.workers import PeerMissing, Worker, python_with
from tests.benchmarks.timing import Contender, Rounds, line, note, race, statement
from tests.benchmarks.trivial import ARGS, SCHEMA, add

__all__ = ["ROWS", "run"]

ROWS = (1,)

_DIRECT, _CELL, _FILE = "direct call", "cell's tool", "file's tool"
_TARGET_S, _AT_DIRECT_S = 25e-6, 0.7e-6
_FLAT = 0.8
"""The ratio between a small and a large toolbox that still counts as flat on a shared machine."""

_SIZES = ((1, 1), (100, 10), (1000, 10))
"""Packs, and tools in each."""

_WORKERS = (
    ("langchain-core invoke", "langchain_tool", ("langchain_core", "langchain-core"), 40),
    ("fastmcp client", "fastmcp_client", ("fastmcp", "fastmcp"), 250),
    ("mcp in memory", "mcp_memory", ("mcp", "mcp"), None),
)
"""Name, program, (module, distribution), how many times faster we want to be."""


def run() -> list[dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        boxes = {size: stack.enter_context(_toolbox(folder / str(size[0]), *size)) for size in _SIZES}
        contenders = [*_ours(boxes), *_in_process()]
        missing: dict[str, str] = {}
        contenders += _started(stack, missing)
        note("  racing ...")
        return list(_lines(race(contenders, least=5), missing))


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
        yield statement(f"{_FILE} {packs * each}", code, call=box.call, name=f"pack{packs // 2}.add", args=ARGS)


def _in_process() -> Iterator[Contender]:
    import jsonschema
    import jsonschema_rs
    import pydantic

    yield statement(_DIRECT, "tool(**args)", tool=add, args=ARGS)
    compiled = jsonschema_rs.validator_for(SCHEMA)
    yield statement(
        "jsonschema-rs check + call", "check(args); tool(**args)", check=compiled.validate, tool=add, args=ARGS
    )
    yield statement("pydantic validate_call", "tool(**args)", tool=pydantic.validate_call(add), args=ARGS)
    prebuilt = jsonschema.Draft202012Validator(SCHEMA)
    yield statement(
        "jsonschema, prebuilt, + call", "check(args); tool(**args)", check=prebuilt.validate, tool=add, args=ARGS
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
    for name, program, needs, _ in _WORKERS:
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
    for name in list(found.seconds)[len(_SIZES) * 2 + 1 :]:
        times = next((times for known, _, _, times in _WORKERS if known == name), None)
        yield _beside_peer(found, name, times)
    for name, reason in missing.items():
        text = f"No peer '{name}': {reason}"
        yield line(1, f"box.call, {_CELL}", found[f"{_CELL} 1"], "not there", name=name, note=text)
    for kind in (_CELL, _FILE):
        for packs, each in _SIZES[1:]:
            yield _beside_one(found, kind, packs * each)


def _beside_direct(found: Rounds, kind: str) -> dict[str, Any]:
    """The target in µs, moved to the speed of this machine by its direct call."""
    ours, direct = found[f"{kind} 1"], found[_DIRECT]
    ratio = found.ratio(_DIRECT, f"{kind} 1")
    target = f"<= {_TARGET_S / _AT_DIRECT_S * direct * 1e6:.3g} µs (25 at direct 0.7)"
    met = ratio >= _AT_DIRECT_S / _TARGET_S
    return line(1, f"box.call, {kind}", ours, direct, name=_DIRECT, ratio=ratio, target=target, met=met)


def _beside_peer(found: Rounds, name: str, times: int | None) -> dict[str, Any]:
    ratio = found.ratio(name, f"{_CELL} 1")
    target, met = ("", None) if times is None else (f">= {times}x", ratio >= times)
    return line(
        1, f"box.call, {_CELL}", found[f"{_CELL} 1"], found[name], name=name, ratio=ratio, target=target, met=met
    )


def _beside_one(found: Rounds, kind: str, count: int) -> dict[str, Any]:
    one, many = f"{kind} 1", f"{kind} {count}"
    ratio = found.ratio(one, many)
    what, target = f"box.call, {kind} among {count:,}", f">= {_FLAT}x (flat)"
    return line(1, what, found[many], found[one], name="with 1 tool", ratio=ratio, target=target, met=ratio >= _FLAT)
