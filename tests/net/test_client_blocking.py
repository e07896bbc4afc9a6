"""Requests of sync callers, sent in their own thread: deadlines, interrupts, kept connections, checked addresses."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading

import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import CallTimeout, ExecutionFailed, HostNotAllowed
from onetool_ipy.net.client import HttpClient, Rules, run_blocking
from tests.harness.patience import HANG_S
from tests.harness.surroundings import ROOT
from tests.net.conftest import HERE, MakeClient
from tests.net.loopback import Loopback


def test_no_other_thread_takes_part(server: Loopback) -> None:
    client = HttpClient(Background(), Workers())
    before = set(threading.enumerate())

    client.request("GET", server.url("/json"), rules=HERE)

    started = {thread.name for thread in set(threading.enumerate()) - before}
    client.close()
    assert {name for name in started if name.startswith("onetool")} == set()


def test_a_body_that_the_server_does_not_read_ends_with_the_deadline(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"

        with pytest.raises(CallTimeout, match=r"within 0\.4 s"):
            client.request("POST", url, content=bytes(50_000_000), rules=HERE.replace(timeout_s=0.4))


def test_a_handshake_that_is_not_answered_ends_with_the_deadline(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(CallTimeout, match=r"within 0\.4 s"):
        client.request("GET", f"https://127.0.0.1:{deaf.getsockname()[1]}/", rules=HERE.replace(timeout_s=0.4))


def test_waiting_for_a_free_connection_ends_with_the_deadline(server: Loopback, client: HttpClient) -> None:
    threads = [threading.Thread(target=_hang, args=(client, server)) for _ in range(20)]
    for thread in threads:
        thread.start()
    while len(server.seen) < 20:
        server.ended.wait(0.01)

    with pytest.raises(CallTimeout, match=r"within 0\.3 s"):
        client.request("GET", server.url("/json"), rules=HERE.replace(timeout_s=0.3))

    server.ended.set()
    for thread in threads:
        thread.join(HANG_S)
    assert len(server.seen) == 20


def _hang(client: HttpClient, server: Loopback) -> None:
    with pytest.raises(ExecutionFailed):
        client.request("GET", server.url("/hang"), rules=HERE.replace(timeout_s=HANG_S * 10, tries=1))


def test_a_connection_that_the_server_closed_is_not_used_again(server: Loopback, client: HttpClient) -> None:
    client.request("POST", server.url("/bye"), rules=HERE)
    assert server.begun.wait(HANG_S)

    assert client.request("POST", server.url("/echo"), rules=HERE).status == 200
    assert server.accepts == 2


def test_connections_to_two_servers_are_kept_side_by_side(server: Loopback, client: HttpClient) -> None:
    with Loopback() as other:
        for _ in range(3):
            for place in (server, other):
                client.request("GET", place.url("/json"), rules=HERE)

        assert (server.accepts, other.accepts) == (1, 1)


def test_a_retry_waits_by_itself(server: Loopback, client: HttpClient) -> None:
    reply = client.request("GET", server.url("/flaky/x?times=2"), rules=HERE)

    assert (reply.body, reply.attempts) == (b"at last", 3)


def test_a_forked_child_has_connections_of_its_own(server: Loopback) -> None:
    code = (
        "import os, sys\n"
        "from onetool_ipy.base.background import Background, Workers\n"
        "from onetool_ipy.net.client import HttpClient, Rules\n"
        "client = HttpClient(Background(), Workers())\n"
        "def ask():\n"
        "    return client.request('GET', sys.argv[1], rules=Rules(allow_private=True, timeout_s=60)).status\n"
        "ask()\n"
        "child = os.fork()\n"
        "status = ask()\n"
        "if child:\n"
        "    print(status, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "os._exit(0 if status == 200 else 1) if not child else None\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, server.url("/json")], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["200", "0"]
    assert server.accepts == 2


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::1"], ["64:ff9b::7f00:1"], ["169.254.169.254"]]
)
def test_a_name_at_a_private_address_is_not_reached(
    server: Loopback, make_client: MakeClient, addresses: list[str]
) -> None:
    client = make_client(resolve=lambda host, port: addresses)

    with pytest.raises(HostNotAllowed, match="public"):
        client.request("GET", server.url("/json", host="api.example.com"), rules=Rules(timeout_s=60))

    assert server.accepts == 0


def test_a_name_is_looked_up_once_for_a_connection(server: Loopback, make_client: MakeClient) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    client = make_client(resolve=resolve)
    for _ in range(2):
        client.request("GET", server.url("/json", host="api.example.com"), rules=HERE)

    assert asked == ["api.example.com"]


def test_a_coroutine_that_waits_for_a_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        run_blocking(asyncio.sleep(1))
