"""Row 20: an HTTP tool on loopback beside httpx and requests: CPU of a call, and calls a second
from eight threads.

The server is a process of its own, so its work counts for nobody. The peers send the same request
over a kept connection and parse the JSON; ours also checks the arguments and the host, masks, and
writes the call log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from onetool_ipy import Toolbox, open_toolbox
from tests.benchmarks.timing import at_least, at_most, line, note, take_turns, times

__all__ = ["ROWS", "loopback", "run"]

ROWS = (20,)

_CALLS, _ROUNDS = 100, 10
_THREADS, _EACH, _BURSTS = 8, 30, 4
_SERVER = r"""
import asyncio
BODY = b'{"n": [1, 2, 3, 4]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
async def answer(reader, writer):
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(HEAD + BODY)
    except asyncio.IncompleteReadError:
        writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, loopback() as port:
        url = f"http://127.0.0.1:{port}/x?q=a"
        with _toolbox(Path(folder), port) as box:
            contenders = {"ours": lambda: box.call("api.get", {"q": "a"}).unwrap(), **_peers(url)}
            for call in contenders.values():
                assert call() == {"n": [1, 2, 3, 4]}
            return [*_single(contenders), *_threaded(contenders)]


def _single(contenders: dict[str, Callable[[], Any]]) -> Iterator[dict[str, Any]]:
    note("  calls from one thread ...")
    found = take_turns({name: partial(_cpu, call) for name, call in contenders.items()}, _ROUNDS)
    for name in contenders.keys() - {"ours"}:
        cost = found.mean_ratio("ours", name)
        target = (
            at_most(cost, 1.5, 1.1, show=lambda value: f"{times(value)} httpx")
            if name == "httpx"
            else {}
        )
        headline = "call an HTTP tool on this machine, CPU" if name == "httpx" else ""
        what = f"HTTP tool on loopback, CPU ({cost:.2f}x {name})"
        yield line(
            20, what, found.mean("ours"), found.mean(name), name=name, headline=headline, **target
        )


def _threaded(contenders: dict[str, Callable[[], Any]]) -> Iterator[dict[str, Any]]:
    note("  calls from eight threads ...")
    found = take_turns(
        {name: partial(_burst, contenders[name]) for name in ("ours", "httpx")}, _BURSTS
    )
    ratio = found.mean_ratio("httpx", "ours")
    what = f"HTTP tool, {_THREADS} threads, on the wall ({1 / found.mean('ours'):.0f} against"
    said = f"{what} {1 / found.mean('httpx'):.0f} calls a second)"
    target = at_least(ratio, 0.7, 0.9)
    yield line(
        20, said, found.mean("ours"), found.mean("httpx"), name="httpx", ratio=ratio, **target
    )


@contextmanager
def loopback() -> Iterator[int]:
    """An API on loopback in a process of its own; gives its port."""
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def _toolbox(folder: Path, port: int) -> Toolbox:
    (folder / ".onetool").mkdir()
    settings = "version: 1\nhttp: {allowed_hosts: ['127.0.0.1'], allow_private: true}\n"
    (folder / ".onetool" / "onetool.yaml").write_text(settings, encoding="utf-8")
    env = {**os.environ, "ONETOOL_STATE": str(folder / "state"), "ONETOOL_TRUST": str(folder)}
    box = open_toolbox(folder, env=env)
    bundle = box.bundles.put_bundle(box.bundles.new_id(), slug="api", display_name="API")
    request = {"method": "GET", "urlTemplate": f"http://127.0.0.1:{port}/x?q=${{q}}"}
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    record = {
        "type": "http",
        "http": {"request": request},
        "argSchema": schema,
        "description": "Get it.",
    }
    box.bundles.put_tool(bundle.bundle_id, "get", "1", record)
    return box


def _peers(url: str) -> dict[str, Callable[[], Any]]:
    import httpx
    import requests

    client, session = httpx.Client(trust_env=False), requests.Session()
    session.trust_env = False
    return {
        "httpx": lambda: client.get(url).json(),
        "requests": lambda: session.get(url, timeout=10).json(),
    }


def _cpu(call: Callable[[], Any]) -> float:
    began = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - began) / _CALLS


def _burst(call: Callable[[], Any]) -> float:
    """Seconds on the wall for each call, of all the threads' calls together."""

    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(_EACH):
                call()
        except Exception as exc:  # a thread that ended early would make its side look faster
            failed.append(exc)

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = (time.perf_counter() - began) / (_THREADS * _EACH)
    if failed:
        raise failed[0]
    return spent
