"""Results larger than one likes to hold in memory: what they cost to store, to page and to search.

Each step runs in a process of its own and tells the most memory it ever had above what it started
with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.programs import python
from tests.harness.surroundings import ROOT

MB = 1024 * 1024
HUGE = pytest.mark.soak

STEP = """if True:
    import collections.abc, json, sys
    from pathlib import Path
    import numpy, orjson, rapidfuzz.fuzz, rapidfuzz.process, re2
    from onetool_ipy.stores.results import Results

    def most():
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    folder, step, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    results = Results(folder, max_bytes=10**11)
    results.query(results.put("warm\\n"), search="w.rm")
    found = {}
    if step == "put line":
        value = "ab" * (size // 2 - 10) + " needle " + "y" * 9
        before = most()
        found["handle"] = results.put(value)
    elif step == "put stream":
        before = most()
        line = "2026-11-15 some text that is like a line of a log, number %09d, and some more to fill it up to here."

        class Log(collections.abc.Mapping):
            def __len__(self): return size // 106
            def __iter__(self): return iter(range(len(self)))
            def __getitem__(self, number): return line % number

        found["handle"] = results.put(Log().values())
    else:
        before = most()
        found = results.query(step, **json.loads(sys.argv[4]))
    print(json.dumps({**found, "grown": most() - before}))
    """


def run(folder: Path, step: str, size: int = 0, **how: Any) -> dict[str, Any]:
    done = python(STEP, folder, step, size, json.dumps(how), cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", [50 * MB, pytest.param(500 * MB, marks=HUGE)])
def test_one_huge_line_is_stored_shown_and_searched(tmp_path: Path, size: int) -> None:
    stored = run(tmp_path, "put line", size)
    assert stored["grown"] < 32 * MB

    shown = run(tmp_path, stored["handle"])
    assert len(shown["lines"][0]) < 17_000
    assert shown["lines"][0].endswith("bytes]")
    assert (shown["total_lines"], shown["has_more"]) == (1, False)
    for how, matched in [
        ({"search": "needle"}, 1),
        ({"search": "(?i)NEE.LE y+$"}, 1),
        ({"search": "(a+)+$"}, 0),
        ({"search": "nedle", "fuzzy": True}, 1),
    ]:
        found = run(tmp_path, stored["handle"], **how)
        # More than it can do in its 1.5 s, and it says so.
        is_cut_short = "fuzzy" in how and found["searched"] == 0
        assert found["matched"] == matched or is_cut_short, how
        assert max(found["grown"], shown["grown"]) < 32 * MB


@pytest.mark.slow
@pytest.mark.parametrize("size", [60 * MB, pytest.param(2048 * MB, marks=HUGE)])
def test_large_result_stays_usable_with_little_memory(tmp_path: Path, size: int) -> None:
    stored = run(tmp_path, "put stream", size)
    count = size // 106
    assert stored["grown"] < 32 * MB

    last = run(tmp_path, stored["handle"], offset=count - 4, limit=10)
    assert last["returned"] == 5
    assert f"number {count - 1:09d}" in last["lines"][-1]
    assert last["total_lines"] == count
    for how in (
        {"search": f"number {count // 2:09d}"},
        {"search": "numbr", "fuzzy": True},
        {"limit": 10**9},
    ):
        found = run(tmp_path, stored["handle"], **how)
        assert found["returned"] > 0
        assert found["grown"] < (100 if "limit" in how or size > 100 * MB else 32) * MB, how
