"""Row 21: an HTTP tool invoked over REST by 1 and by 16 clients, beside Jupyter's own listing of a
folder.

Jupyter Server and the API that the tool calls are processes of their own; each client is a thread
with a connection that it keeps. Times are on the wall for each request, of all clients' requests
together. The CPU that the server takes for a request says how much faster many clients can be than
one at most: one Python process serves all of them.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import uuid_utils

from tests.benchmarks.http_calls import loopback
from tests.benchmarks.timing import Rounds, at_least, at_most, line, note, say, take_turns, times
from tests.faces.rest.serving import Server, http_tool

__all__ = ["ROWS", "run"]

ROWS = (21,)

_MANY, _REQUESTS, _ROUNDS = 16, 160, 5
_INVOKE, _LISTING = "REST invoke of an HTTP tool", "GET /api/contents"


def run() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory() as place,
        loopback() as port,
        _server(Path(place), port) as server,
    ):
        bundle = str(uuid_utils.uuid7())
        tool = f"onetool/tools/bundles/{bundle}/tools/get/version/1"
        record = http_tool(f"http://127.0.0.1:{port}/x?id=${{id}}")
        fields = {"slug": "api", "displayName": "API"}
        server.client.put(f"onetool/tools/bundles/{bundle}", json=fields).raise_for_status()
        server.client.put(tool, json=record).raise_for_status()
        requests = {
            _INVOKE: ("POST", f"{tool}/invoke", {"args": {"id": 1}}),
            _LISTING: ("GET", "api/contents", None),
        }
        note(f"  {_MANY} clients and one ...")
        cpu: dict[str, float] = {}
        contenders = {
            f"{name} {clients}": partial(
                _counted, cpu, f"{name} {clients}", server, request, clients
            )
            for name, request in requests.items()
            for clients in (1, _MANY)
        }
        found = take_turns(contenders, _ROUNDS)
        return list(_lines(found, {name: spent / _ROUNDS for name, spent in cpu.items()}))


@contextmanager
def _server(folder: Path, port: int) -> Iterator[Server]:
    root = folder / "root"
    (root / ".onetool").mkdir(parents=True)
    settings = f"version: 1\nhttp: {{allowed_hosts: ['127.0.0.1:{port}'], allow_private: true}}\n"
    (root / ".onetool" / "onetool.yaml").write_text(settings, encoding="utf-8")
    server = Server(folder, env={"ONETOOL_TRUST": str(root)}, root=root, python=())
    try:
        yield server
    finally:
        server.close()


def _counted(
    cpu: dict[str, float], name: str, server: Server, request: tuple[str, str, Any], clients: int
) -> float:
    """What `_burst` says; the CPU seconds of the server for each request are added to `cpu`."""
    process = psutil.Process(server.pid)
    began = process.cpu_times()
    spent = _burst(server, *request, clients)
    ended = process.cpu_times()
    used = ended.user + ended.system - began.user - began.system
    cpu[name] = cpu.get(name, 0.0) + used / ((_REQUESTS // clients + 1) * clients)
    return spent


def _burst(server: Server, verb: str, path: str, body: Any, clients: int) -> float:
    """Seconds on the wall for each request; every client has a warm connection before the clock
    starts."""
    with ExitStack() as stack:
        own = [
            stack.enter_context(server.anyone(headers={"Authorization": f"token {server.token}"}))
            for _ in range(clients)
        ]
        ready = threading.Barrier(clients + 1)

        def work(client: httpx.Client) -> None:
            client.request(verb, path, json=body).raise_for_status()
            ready.wait()
            for _ in range(_REQUESTS // clients):
                client.request(verb, path, json=body).raise_for_status()

        threads = [threading.Thread(target=work, args=(client,)) for client in own]
        for thread in threads:
            thread.start()
        ready.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - began) / (_REQUESTS // clients * clients)


def _lines(found: Rounds, cpu: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    one, many = f"{_INVOKE} 1", f"{_INVOKE} {_MANY}"
    gain, most = found.mean_ratio(one, many), found.mean(one) / cpu[many]
    for clients in (1, _MANY):
        ours, peer = found.mean(f"{_INVOKE} {clients}"), found.mean(f"{_LISTING} {clients}")
        said = (
            f"{_INVOKE}, {clients} clients, on the wall ({1 / ours:.0f} against {1 / peer:.0f} a"
            " second)"
        )
        ratio = found.mean_ratio(f"{_LISTING} {clients}", f"{_INVOKE} {clients}")
        yield line(21, said, ours, peer, name=_LISTING, ratio=ratio)
    cost = cpu[many] / cpu[f"{_LISTING} {_MANY}"]
    target = at_most(cost, 2.0, 1.5, show=lambda value: f"{times(value)} the listing")
    what = f"the server's CPU for it, {_MANY} clients"
    yield line(21, what, cpu[many], cpu[f"{_LISTING} {_MANY}"], name=_LISTING, **target)
    peer_gain = times(found.mean_ratio(f"{_LISTING} 1", f"{_LISTING} {_MANY}"))
    why = (
        f"Row 21: one Python process serves all clients, and takes {say(cpu[many])} of CPU for an"
        f" invoke, so {_MANY} clients can be at most {times(most)} faster than one. Of that,"
        f" {say(cpu[f'{_LISTING} {_MANY}'])} are Jupyter Server's own (tornado, sign-in, the log),"
        " as for its listing; the rest is the worker thread, the look at the project's files, and"
        " httpx. On two cores the clients and the API take their share, too."
    )
    target = at_least(gain, 2)
    yield line(
        21,
        f"{_MANY} clients against one",
        times(gain),
        peer_gain,
        name=_LISTING,
        note=why,
        **target,
    )
