"""`python -m tests.faults.calling FOLDER COUNT`: interrupts at chance moments during every kind of
call and write.

In this one process, with the handler of interrupts and the watching that a notebook has, but
nothing is drawn. A timer calls that handler as Ctrl-C would; where it does not stop the work, a
second one follows a second later. Prints a JSON object: per kind how many landed and how long
control took to come back; and what was wrong afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.config.edit import save_snippet
from onetool_ipy.faces.notebook.running_cell import CellProgress
from onetool_ipy.host import Host
from onetool_ipy.sdk import batch_execute, call_tool, progress, safe_request
from onetool_ipy.snippets.definition import Snippet
from tests.harness.patience import HANG_S, until

_dice = random.Random(11)
_saved: list[str] = []
_acknowledged: list[str] = []


class Shell:
    """As much of a shell as watching needs: one whose output goes nowhere."""

    display_pub = None
    kernel = None


def nap(s: float) -> str:
    """Wait in C."""
    progress(1, 2, "half")
    time.sleep(s)
    return "rested"


def spin(s: float) -> int:
    """Never wait."""
    end = time.monotonic() + s
    turns = 0
    while time.monotonic() < end:
        turns += 1
    return turns


async def anap(s: float) -> str:
    """Wait on the loop."""
    await asyncio.sleep(s)
    return "rested"


def outer(s: float) -> str:
    """Wait for another tool."""
    return str(call_tool("nb.anap", s=s))


def batch(s: float) -> str:
    """Wait in many threads."""
    return batch_execute([s] * 8, time.sleep)


def fetch(url: str) -> str:
    """Wait for a server.

    An interrupt closes the client while its request waits in another thread. Linux wakes that
    thread for the closed socket only if nothing else has its number by then; else the request goes
    on until its limit.
    """
    with httpx.Client(trust_env=False, timeout=15) as client:
        return str(safe_request(client, "GET", url))


class _Slow(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(0.05)
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):  # who asked was interrupted
            self.wfile.write(b"late")

    def log_message(self, *_args: Any) -> None:
        return


def kinds(box: Toolbox, url: str) -> dict[str, tuple[Callable[[], object], float]]:
    """What is interrupted, and how long it takes by itself."""
    text = "some text\n" * 20_000
    saved = _saved
    return {
        "python": (lambda: box.call("nb.nap", {"s": 0.03}), 0.04),
        "spinning": (lambda: box.call("nb.spin", {"s": 0.03}), 0.04),
        "short": (lambda: [_acknowledge(box) for _ in range(100)], 0.005),
        "async": (lambda: box.call("nb.anap", {"s": 0.03}), 0.04),
        "limited": (lambda: box.call("nb.nap", {"s": 0.03}, timeout=60), 0.04),
        "limited short": (
            lambda: [box.call("nb.nap", {"s": 0}, timeout=60) for _ in range(20)],
            0.005,
        ),
        "limited async": (lambda: box.call("nb.anap", {"s": 0.03}, timeout=60), 0.04),
        "nested": (lambda: box.call("nb.outer", {"s": 0.03}), 0.04),
        "batch": (lambda: box.call("nb.batch", {"s": 0.03}), 0.05),
        "http": (lambda: box.call("nb.fetch", {"url": url}), 0.1),
        "job": (lambda: box.start("nb.nap", {"s": 0.03}).result(), 0.04),
        "put": (lambda: box.results.put(text), 0.01),
        "notify": (lambda: box.call("ot.notify", {"topic": "notes", "message": "m" * 2000}), 0.005),
        "snippet": (lambda: saved.append(_save(box)), 0.01),
        "reload": (box.reload, 0.02),
        "stats": (lambda: box.call("ot.stats"), 0.01),
    }


def _acknowledge(box: Toolbox) -> None:
    """Call, and keep the id of a call whose result came back."""
    _acknowledged.append(box.call("nb.nap", {"s": 0}).meta["call_id"])


def _save(box: Toolbox) -> str:
    name = f"s{_dice.randrange(10**12)}"
    save_snippet(box.config.paths, Snippet(name, "says hello", "print('hello')"))
    return name


def struck(cells: CellProgress, work: Callable[[], object], longest_s: float) -> float | None:
    """Do the work in a cell with interrupts from a chance moment on; the seconds until control was
    back, or None."""
    sent: list[float] = []

    def later(*_: Any) -> None:
        sent.append(time.perf_counter())
        handler(signal.SIGINT, sys._getframe(1))

    cells.before_cell()
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler)
    signal.signal(signal.SIGALRM, later)
    try:
        signal.setitimer(signal.ITIMER_REAL, _dice.uniform(1e-5, longest_s), 1.0)
        try:
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        cells.after_cell()
    return None


def rounds(count: int, landed: Callable[[], int]) -> Iterator[None]:
    for _ in range(40 * count):
        if landed() >= count:
            return
        yield None


class _Host(Host):
    """Lets cells watch the calls."""

    def __init__(self, cells: CellProgress) -> None:
        self.listen = cells


def main(folder: Path, count: int) -> dict[str, Any]:
    # A shell's background process would ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / ".onetool").mkdir(parents=True)
    (folder / ".onetool" / "onetool.yaml").write_text(
        "version: 1\ntopics: [{pattern: notes, file: notes.yaml}]\n"
    )
    box = open_toolbox(folder, env={**os.environ, "ONETOOL_STATE": str(folder / "state")})
    for fn in (nap, spin, anap, outer, batch, fetch):
        box.adopt(fn)
    cells = CellProgress(Shell(), box.workers, box.mask)
    box.host = _Host(cells)
    report: dict[str, Any] = {}
    broken: list[str] = []
    slow_ms = 0.0
    for name, (work, longest_s) in kinds(box, f"http://127.0.0.1:{server.server_port}/").items():
        work()
        took: list[float] = []
        for _ in rounds(count, lambda took=took: len(took)):  # type: ignore[misc]
            back_s = struck(cells, work, 1.2 * longest_s)
            if back_s is not None:
                took.append(back_s)
        report[name] = {"landed": len(took), "worst_ms": round(1000 * max(took, default=0), 1)}
        slow_ms = max(slow_ms, report[name]["worst_ms"])
        after = work()  # it works as before, or raises
        if name == "http" and "late" not in str(after):
            broken.append(f"a request after the interrupts: {after}")
    report["worst_ms"] = slow_ms
    report["wrong"] = [*broken, *wrong(box, folder)]
    box.close()
    server.shutdown()
    return report


def wrong(box: Toolbox, folder: Path) -> list[str]:
    """What is not as it should be after all that."""
    import yaml

    found: list[str] = [
        f"{p.where}: {p.message}" for p in box.problems() if "docstring" not in p.message
    ]
    notes = yaml.safe_load_all((folder / ".onetool" / "notes.yaml").read_text(encoding="utf-8"))
    found += ["a torn note" for note in notes if note is not None and len(note["message"]) != 2000]
    lost = set(_saved) - set(
        yaml.safe_load((folder / ".onetool" / "snippets.yaml").read_text(encoding="utf-8"))
    )
    found += [f"a lost snippet: {name}" for name in lost]
    found += [f"a half result: {row}" for row in box.results.list() if row["lines"] != 20_000]
    left = [str(path) for path in folder.rglob("*.tmp")]
    found += [f"left behind: {path}" for path in left]
    rows = box.log.history(limit=100_000)
    unrecorded = set(_acknowledged) - {row.call_id for row in rows}
    found += [f"acknowledged, and not in the log: {call_id}" for call_id in unrecorded]
    if len({row.call_id for row in rows}) != len(rows):
        found.append("a call twice in the log")
    odd = {
        (row.tool, row.code, row.reason, row.message)
        for row in rows
        if not row.ok and row.reason != "cancelled"
    }
    if odd:
        found.append(f"odd ends: {odd}")
    if not until(lambda: not box.workers.abandoned()):
        found.append(f"{box.workers.abandoned()} calls never end")
    if threading.active_count() > 40:
        found.append(f"{threading.active_count()} threads")
    asyncio.run(_at_once(box))
    return found


async def _at_once(box: Toolbox) -> None:
    results = await asyncio.gather(
        *(box.acall("nb.nap", {"s": 0.001}, timeout=HANG_S) for _ in range(50))
    )
    assert all(result.ok for result in results), "every lane is free"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))) + "\n")
