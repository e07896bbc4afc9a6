"""Rows 4, 5, 6, 26 and a part of 13: a stored result of 1 M lines / 114 MB - to store, to page, to
search, in memory.

Beside ours stand a plain write, `read().splitlines()`, an offset per line in a file of its own,
ripgrep, grep, and rapidfuzz over every line. Searches are timed by the wall, since their peers are
other programs; the file is in the page cache for all. Our answer to a search holds line numbers,
the number of matches and 100 lines; ripgrep prints them all.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onetool_ipy.core.result import ToolResult
from onetool_ipy.stores.results import Results
from tests.benchmarks.timing import Rounds, at_most, line, note, once, race, take_turns

__all__ = ["ROWS", "run"]

ROWS = (4, 5, 6, 13, 26)

_LINES = 1_000_000
_FIRST, _COUNT = 900_001, 100
_WORDS = (
    *("alpha", "beta", "gamma", "delta", "error", "warning", "info", "configuration"),
    *("request", "response", "timeout", "connection", "database"),
)
_PATTERNS = {
    "few hits": r"id=ffff",
    "a class": r"id=[a-f]{6}",
    "no case": r"(?i)ID=FFFF",
    "two words": r"error .*timeout",
    "evil": r"(a+)+$",
    "every line": r"value=[0-9]",
    "nothing": r"zzzqqq",
    "nothing, a common letter first": r"id=zzzz",
    "nothing, no case": r"(?i)zzzqqq",
}
_WHY = (
    "Row 5: a text that is not there costs what ripgrep pays if its first letter is rare. Else, and"
    " without regard to case, three quarters of the time are RE2's own automaton; reading the file"
    " is 17 ms."
)
_CHILD = """if True:
    import json, sys
    from pathlib import Path
    from onetool_ipy.stores.results import Results
    def now(key):
        return int(Path("/proc/self/status").read_text().partition(key)[2].split()[0]) / 1024
    results = Results(Path(sys.argv[1]))
    before = now("VmRSS:")
    if sys.argv[2] == "keep":
        for number in range(1_000):
            results.keep([{"id": number, "text": "x" * 100, "n": n} for n in range(500)])
        print(now("VmRSS:") - before)
    else:
        results.query(sys.argv[2], **json.loads(sys.argv[3]))
        print(now("VmHWM:") - before)
    """


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        note(f"  a text of {_LINES:,} lines ...")
        text = _text()
        plain = folder / "plain.txt"
        plain.write_text(text, encoding="utf-8")
        results = Results(folder / "results", max_bytes=1 << 40)
        found = [*_storing(results, folder, text)]
        handle = results.put(text)
        small = results.put("".join(text.splitlines(keepends=True)[: _LINES // 10]))
        del text
        found += _paging(results, handle, plain)
        found += _searching(results, handle, plain)
        found += _likeness(results, handle, small, plain)
        found += _memory(results, handle, folder)
        found += _frame(results)
        found += _tables(results)
        return found


def _text() -> str:
    dice = random.Random(1)
    pick = dice.choice
    return "".join(
        f"{number:07d} 2026-11-15T02:{number % 60:02d}:00 {pick(_WORDS)} {pick(_WORDS)}"
        f" {pick(_WORDS)} id={dice.getrandbits(64):016x} value={number * 7919 % 100_003:06d} and"
        " some more of it, as it is\n"
        for number in range(_LINES)
    )


def _storing(results: Results, folder: Path, text: str) -> Iterator[dict[str, Any]]:
    note("  storing ...")
    place = folder / "written"

    def put() -> None:
        results.delete(results.put(text))

    def write() -> None:
        place.write_text(text, encoding="utf-8")

    def write_synced() -> None:
        with place.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    times = take_turns(
        {"put": _timed(put), "write": _timed(write), "synced": _timed(write_synced)}, 9
    )
    for name, said in (("write", "write_text, not synced"), ("synced", "write_text + fsync")):
        cost = times.ratio("put", name)
        target, met = ("<= 1.5x a plain write", cost <= 1.5) if name == "write" else ("", None)
        yield line(
            4,
            "store 114 MB, synced",
            times["put"],
            times[name],
            name=said,
            ratio=1 / cost,
            reach=target,
            met=met,
        )


def _paging(results: Results, handle: str, plain: Path) -> Iterator[dict[str, Any]]:
    note("  paging ...")
    fresh = Results(results.folder)

    def cold() -> None:
        fresh.close()
        (fresh.folder / f"{handle}.npy").unlink(missing_ok=True)
        fresh.query(handle, offset=_FIRST, limit=_COUNT)

    offsets = _OffsetFile(plain)
    contenders = [
        once("warm", lambda: results.query(handle, offset=_FIRST, limit=_COUNT), before=_nothing),
        once("cold", cold, before=_nothing),
        once("offsets", lambda: offsets.lines(_FIRST, _COUNT), before=_nothing),
    ]
    times = race(contenders, rounds=101)
    whole = race(
        [once("splitlines", lambda: plain.read_text().split("\n")[_FIRST - 1 : _FIRST + 99])],
        rounds=3,
    )
    peer = times["offsets"]
    for name, said in (("warm", "100 lines of 1 M"), ("cold", "the same, first time in a process")):
        ours = times[name]
        target = at_most(ours, 0.001, 0.0001) if name == "warm" else at_most(ours, 0.3, 0.005)
        yield line(4, said, ours, peer, name="offset per line", **target)
    yield line(4, "100 lines of 1 M", times["warm"], whole["splitlines"], name="read().split()")


class _OffsetFile:
    """The plainest index there is: eight bytes for each line, in memory, and the file open."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        self._offsets = array("Q", [0])
        position = 0
        while (position := data.find(b"\n", position) + 1) > 0:
            self._offsets.append(position)
        self._file = path.open("rb", buffering=0)

    def lines(self, first: int, count: int) -> list[str]:
        start, end = self._offsets[first - 1], self._offsets[first + count - 1]
        return os.pread(self._file.fileno(), end - start, start).decode().split("\n")[:-1]


def _searching(results: Results, handle: str, plain: Path) -> Iterator[dict[str, Any]]:
    peers = {name: found for name in ("rg", "grep") if (found := shutil.which(name))}
    if "rg" not in peers:
        yield line(
            5,
            "regex, 1 M lines",
            "",
            "ripgrep is missing: apt-get install ripgrep",
            reach="<= 4x ripgrep",
        )
    for what, pattern in _PATTERNS.items():
        note(f"  searching: {what} ...")
        samples = {"ours": _timed(lambda pattern=pattern: results.query(handle, search=pattern))}
        for name, program in peers.items():
            if name == "grep" and pattern.startswith("(?"):
                continue
            command = [program, "-n", *(["-E"] if name == "grep" else []), pattern, str(plain)]
            samples[name] = _timed(
                lambda command=command: subprocess.run(command, capture_output=True, check=False)
            )
        times = take_turns(samples, 5)
        for name in samples.keys() - {"ours"}:
            yield _search_line(what, pattern, times, name)


def _search_line(what: str, pattern: str, times: Rounds, name: str) -> dict[str, Any]:
    cost = times.ratio("ours", name)
    limits = (2.0, 1.5) if what.startswith("nothing") else (4.0, 2.0)
    target = at_most(cost, *limits, show=lambda over: f"{over:g}x ripgrep") if name == "rg" else {}
    said = f"regex {pattern}  ({what}), 114 MB, on the wall"
    why = _WHY if what.startswith("nothing") and name == "rg" else ""
    return line(5, said, times["ours"], times[name], name=name, ratio=1 / cost, note=why, **target)


def _likeness(results: Results, handle: str, small: str, plain: Path) -> Iterator[dict[str, Any]]:
    from rapidfuzz import fuzz, process

    note("  fuzzy ...")
    some = plain.read_text().split("\n")[: _LINES // 10]
    partial = race(
        [
            once(
                "partial",
                lambda: process.extract("confguration", some, scorer=fuzz.partial_ratio, limit=100),
            )
        ],
        rounds=3,
    )
    for query in ("config", "confguration", "tiemout"):
        ours = take_turns(
            {"ours": _timed(lambda query=query: results.query(small, search=query, fuzzy=True))}, 5
        )
        found = results.query(small, search=query, fuzzy=True)
        said = (
            f"fuzzy {query}, 100,000 lines: {found['matched']:,} found, best {found['scores'][0]}"
        )
        met = (
            ours["ours"] <= 1.0 and found["searched"] == _LINES // 10 and found["matched"] > 10_000
        )
        peer = partial["partial"]
        yield line(
            6, said, ours["ours"], peer, name="rapidfuzz partial_ratio", reach="<= 1 s", met=met
        )
    some = plain.read_text().split("\n")
    for query in ("config", "confguration", "database conection", "nothing like it"):
        samples = {
            "ours": _timed(lambda query=query: results.query(handle, search=query, fuzzy=True)),
            "peer": _timed(
                lambda query=query: process.extract(
                    query, some, scorer=fuzz.partial_ratio, limit=100
                )
            ),
        }
        times = take_turns(samples, 3)
        searched = results.query(handle, search=query, fuzzy=True)["searched"]
        said = f"fuzzy {query}, 1 M lines, {searched:,} searched, on the wall"
        target = at_most(times["ours"], 4.0, 2.0)
        target["met"] = target["met"] if searched == _LINES else False
        yield line(26, said, times["ours"], times["peer"], name="rapidfuzz partial_ratio", **target)


def _frame(results: Results) -> Iterator[dict[str, Any]]:
    import pandas as pd

    note("  a DataFrame of 1 M x 10 ...")
    dice = random.Random(2)
    number = range(_LINES)
    columns = {
        "id": number,
        **{f"x{place}": [dice.random() for _ in number] for place in range(4)},
        **{f"s{place}": [f"{_WORDS[n % 13]} {n % 1_000}" for n in number] for place in range(3)},
        "time": pd.date_range("2026-01-01", periods=_LINES, freq="s"),
        "ok": [n % 3 == 0 for n in number],
    }
    frame = pd.DataFrame(columns)
    contenders = [
        once("ours", lambda: results.query(results.put(frame))),
        once("pandas", lambda: frame.to_json(orient="records", lines=True, date_format="iso")),
    ]
    times = race(contenders, rounds=3)
    said = "first page of a DataFrame of 1 M x 10, all rows written"
    yield line(
        4,
        said,
        times["ours"],
        times["pandas"],
        name="to_json, rounded, not written",
        reach="not 24 s",
    )


def _tables(results: Results) -> Iterator[dict[str, Any]]:
    import pandas as pd
    import polars as pl

    note("  a list of 1 M dicts, and a frame of polars ...")
    number = range(_LINES)
    rows = [
        {"id": n, "name": f"n{n}", "x": n * 0.5, "ok": n % 2 == 0, "gap": None if n % 3 else "q"}
        for n in number
    ]
    result = ToolResult(True, rows)
    times = race(
        [once("ours", lambda: result.df), once("pandas", lambda: pd.DataFrame(rows))], rounds=3
    )
    reach = at_most(times["ours"] / times["pandas"], 3.0, show=lambda ratio: f"{ratio:g}x")
    yield line(
        4,
        "r.df of a list of 1 M dicts",
        times["ours"],
        times["pandas"],
        name="pandas.DataFrame",
        **reach,
    )
    frame = pl.DataFrame(rows)
    first = race(
        [once("ours", lambda: results.query(results.keep(ToolResult(True, frame).portable)))],
        rounds=3,
    )
    said = "first page of a frame of polars, 1 M x 5"
    yield line(4, said, first["ours"], **at_most(first["ours"], 1.0, 0.3))


def _memory(results: Results, handle: str, folder: Path) -> Iterator[dict[str, Any]]:
    note("  memory ...")
    for what, how in (
        ("100 lines of 1 M", {"offset": _FIRST}),
        ("regex over 1 M lines", {"search": "id=[a-f]{6}"}),
        ("fuzzy over 1 M lines", {"search": "confguration", "fuzzy": True}),
    ):
        grown = _grown(results.folder, handle, json.dumps(how))
        met = grown <= 20 if "offset" in how else None
        yield line(
            4,
            f"memory: {what}",
            f"+{grown:.1f} MB",
            reach="+20 MB" if "offset" in how else "",
            met=met,
        )
    grown = _grown(folder / "kept", "keep")
    yield line(
        13,
        "memory: 1,000 results of 500 rows kept",
        f"+{grown:.1f} MB",
        reach="< +50 MB",
        met=grown < 50,
    )


def _grown(folder: Path, *arguments: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), *arguments], stdout=subprocess.PIPE, check=True
    )
    return float(done.stdout)


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    def sample() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return sample


def _nothing() -> None:
    pass
