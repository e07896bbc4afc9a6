"""Row 16: `onetool-ipy import openapi FILE`, a whole process, for every real document the tests
have.

Ours reads the document, judges every tool as a PUT would, stores each as a file of its own and says
what it made. Beside it stands `FastMCP.from_openapi`, which keeps its tools in memory. Both start
Python and take turns. Each run has a new folder: right after many files were deleted, making new
ones is slow, which is nobody's fault here.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.timing import line, note, take_turns
from tests.harness.surroundings import ROOT

__all__ = ["ROWS", "run"]

ROWS = (16,)

_REACH_S = 2.0
_ROUNDS = 5
_DOCUMENTS = ROOT / "tests" / "data" / "openapi"
_OURS = (
    "from onetool_ipy.faces.cli import main; raise SystemExit(main(['import', 'openapi', {file!r},"
    " *{more!r}]))"
)
_PEER = (
    "import pathlib, yaml, httpx, orjson\n"
    "from fastmcp import FastMCP\n"
    "data = pathlib.Path({file!r}).read_bytes()\n"
    "found = orjson.loads(data) if data[:1] == b'{{' else yaml.load(data, yaml.CSafeLoader)\n"
    "FastMCP.from_openapi(openapi_spec=found, client=httpx.AsyncClient(base_url='http://127.0.0.1'))\n"
)


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        return list(_lines(Path(place)))


def _lines(place: Path) -> Iterator[dict[str, Any]]:
    for packed in sorted(_DOCUMENTS.glob("*.xz")):
        file = place / packed.stem
        file.write_bytes(lzma.decompress(packed.read_bytes()))
        note(f"  {file.name} ...")
        ours = _OURS.format(file=str(file), more=["--server", "http://127.0.0.1"])
        contenders = {"ours": ours}
        if _works(_PEER.format(file=str(file)), place):
            contenders["peer"] = _PEER.format(file=str(file))
        for clock, told in ((time.perf_counter, "on the wall"), (_children_s, "CPU")):
            found = take_turns(
                {name: _timed(code, place, clock) for name, code in contenders.items()}, _ROUNDS
            )
            peer = found["peer"] if "peer" in contenders else "not read"
            ratio = found.ratio("peer", "ours") if "peer" in contenders else None
            yield line(
                16,
                f"import {file.name}, {told}",
                found["ours"],
                peer,
                name="FastMCP.from_openapi",
                ratio=ratio,
                reach=f"{_REACH_S:g} s" if told == "on the wall" else "",
                met=found["ours"] < _REACH_S if told == "on the wall" else None,
            )


def _timed(code: str, place: Path, clock: Callable[[], float]) -> Callable[[], float]:
    def sample() -> float:
        folder = tempfile.mkdtemp(dir=place)
        began = clock()
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
        return clock() - began

    return sample


def _works(code: str, place: Path) -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", code], cwd=place, capture_output=True, check=False
        ).returncode
        == 0
    )


def _children_s() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
