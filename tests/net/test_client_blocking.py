"""Requests of sync callers, sent in their own thread: deadlines, interrupts, kept connections,
checked addresses."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import pytest

from onetool_ipy.base.errors import CallTimeout, ExecutionFailed, TooLarge
from onetool_ipy.net.client import HttpClient
from tests.harness.patience import HANG_S
from tests.harness.programs import python
from tests.harness.surroundings import ROOT
from tests.net.conftest import BOTH_SIDES, HERE
from tests.net.loopback import Loopback


@BOTH_SIDES
def test_a_body_that_the_server_does_not_read_ends_with_the_deadline(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"

        with pytest.raises(CallTimeout, match=r"within 0\.4 s"):
            client.request(
                "POST", url, content=bytes(50_000_000), rules=replace(HERE, timeout_s=0.4)
            )


@BOTH_SIDES
def test_a_body_that_the_server_reads_slowly_ends_with_the_deadline(client: HttpClient) -> None:
    """Each part is taken in time; only all of them together are not."""
    taken, ended = 0, threading.Event()

    def read_slowly() -> None:
        nonlocal taken
        with slow.accept()[0] as connection:
            while not ended.wait(0.005) and (part := connection.recv(65536)):
                taken += len(part)

    with socket.create_server(("127.0.0.1", 0)) as slow:
        reading = threading.Thread(target=read_slowly, daemon=True)
        reading.start()
        url = f"http://127.0.0.1:{slow.getsockname()[1]}/"

        with pytest.raises(CallTimeout, match=r"within 0\.4 s"):
            client.request(
                "POST", url, content=bytes(50_000_000), rules=replace(HERE, timeout_s=0.4)
            )

        ended.set()
        reading.join(HANG_S)
    assert taken < 25_000_000


@BOTH_SIDES
def test_a_handshake_that_is_not_answered_ends_with_the_deadline(client: HttpClient) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        pytest.raises(CallTimeout, match=r"within 0\.4 s"),
    ):
        client.request(
            "GET", f"https://127.0.0.1:{deaf.getsockname()[1]}/", rules=replace(HERE, timeout_s=0.4)
        )


@BOTH_SIDES
def test_waiting_for_a_free_connection_ends_with_the_deadline(
    server: Loopback, client: HttpClient
) -> None:
    threads = [threading.Thread(target=_hang, args=(client, server)) for _ in range(20)]
    for thread in threads:
        thread.start()
    while len(server.seen) < 20:
        server.ended.wait(0.01)

    with pytest.raises(CallTimeout, match=r"within 0\.3 s"):
        client.request("GET", server.url("/json"), rules=replace(HERE, timeout_s=0.3))

    server.ended.set()
    for thread in threads:
        thread.join(HANG_S)
    assert len(server.seen) == 20


def _hang(client: HttpClient, server: Loopback) -> None:
    with pytest.raises(ExecutionFailed):
        client.request(
            "GET", server.url("/hang"), rules=replace(HERE, timeout_s=HANG_S * 10, tries=1)
        )


@BOTH_SIDES
def test_a_connection_that_the_server_closed_is_not_used_again(
    server: Loopback, client: HttpClient
) -> None:
    client.request("POST", server.url("/bye"), rules=HERE)
    assert server.begun.wait(HANG_S)

    assert client.request("POST", server.url("/echo"), rules=HERE).status == 200
    assert server.accepts == 2


@pytest.mark.posix("fork")
def test_a_forked_child_has_connections_of_its_own(server: Loopback) -> None:
    code = (
        "import os, sys\nfrom onetool_ipy.base.background import Background, Workers\nfrom"
        " onetool_ipy.net.client import HttpClient, Rules\nclient = HttpClient(Background(),"
        " Workers())\ndef ask():\n    return client.request('GET', sys.argv[1],"
        " rules=Rules(allow_private=True, timeout_s=60)).status\nask()\nchild = os.fork()\nstatus ="
        " ask()\nif child:\n    print(status, os.waitstatus_to_exitcode(os.waitpid(child,"
        " 0)[1]))\nos._exit(0 if status == 200 else 1) if not child else None\n"
    )
    done = python(code, server.url("/json"), cwd=ROOT)

    assert done.stdout.split() == ["200", "0"]
    assert server.accepts == 2


@pytest.mark.slow
@BOTH_SIDES
@pytest.mark.parametrize("kind", ["headers", "interim", "extensions", "members", "blanks"])
def test_a_server_that_sends_fast_and_says_nothing_ends_with_the_deadline(
    client: HttpClient, kind: str
) -> None:
    """No read ever waits. There is room for more than the server can send in this time."""
    rules = replace(HERE, timeout_s=0.5, max_bytes=1 << 40, tries=1)

    with Loopback() as server:
        # Headers that never end are refused by their size, before the deadline.
        failures = (CallTimeout, ExecutionFailed) if kind == "headers" else CallTimeout
        with pytest.raises(failures):
            client.request("GET", server.url(f"/fast/{kind}"), rules=rules)


@pytest.mark.slow
@BOTH_SIDES
@pytest.mark.parametrize("kind", ["interim", "extensions", "members", "blanks"])
def test_bytes_are_counted_on_the_wire(client: HttpClient, kind: str) -> None:
    """The body stays empty or small; what is read for it does not."""
    rules = replace(HERE, timeout_s=HANG_S, max_bytes=100_000, tries=1)

    with Loopback() as server, pytest.raises(TooLarge):
        client.request("GET", server.url(f"/fast/{kind}"), rules=rules)
