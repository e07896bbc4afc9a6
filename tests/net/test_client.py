"""The client against a real server: replies, limits, redirects, failures, from every kind of
caller."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import (
    CallFailure,
    CallTimeout,
    ExecutionFailed,
    HostNotAllowed,
    InvalidArgs,
    InvalidOutput,
    TooLarge,
)
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.hosts import Hosts
from tests.harness.patience import HANG_S
from tests.harness.programs import python
from tests.harness.surroundings import ROOT
from tests.net.conftest import BOTH_SIDES, HERE, MakeClient
from tests.net.loopback import Loopback

SECRET = "tok-4f9a7c21d0"


def mask(text: str) -> str:
    return text.replace(SECRET, "***")


@BOTH_SIDES
def test_a_reply_is_given_whatever_its_status(server: Loopback, client: HttpClient) -> None:
    reply = client.request("GET", server.url("/status/404?body=nothing+here"), rules=HERE)

    assert (reply.status, reply.text, reply.mime, reply.attempts) == (
        404,
        "nothing here",
        "text/plain",
        1,
    )
    assert reply.url == server.url("/status/404?body=nothing+here")


@BOTH_SIDES
def test_json_is_sent_and_read(server: Loopback, client: HttpClient) -> None:
    reply = client.request(
        "POST",
        server.url("/echo?a=1"),
        params={"b": "x y&z"},
        json={"k": [1, None]},
        headers={"X-A": "é"},
        rules=HERE,
    )

    seen = reply.json()
    assert reply.is_json
    assert seen["body"] == '{"k":[1,null]}'
    assert seen["query"] == {"a": "1", "b": "x y&z"}
    assert seen["headers"]["x-a"] == "é"
    assert seen["headers"]["accept-encoding"] == "gzip, deflate"
    assert seen["headers"]["user-agent"].startswith("onetool-ipy/")
    assert seen["headers"]["host"] == f"127.0.0.1:{server.port}"


@BOTH_SIDES
@pytest.mark.parametrize("kind", ["gzip", "deflate", "raw", "two"])
def test_packed_replies_are_unpacked(server: Loopback, client: HttpClient, kind: str) -> None:
    assert (
        client.request("GET", server.url(f"/packed/{kind}"), rules=HERE).body
        == b"packed text " * 1000
    )


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        ("application/json", "[1]", [1]),
        ("application/problem+json; charset=utf-8", '{"a": "ü"}', {"a": "ü"}),
        ("text/json", "﻿{}", {}),
    ],
)
def test_what_says_it_is_json_is_parsed(
    server: Loopback, client: HttpClient, kind: str, body: str, value: object
) -> None:
    reply = client.request(
        "GET", server.url("/typed"), params={"kind": kind, "body": body}, rules=HERE
    )

    assert reply.is_json
    assert reply.json() == value


@pytest.mark.parametrize("body", ["{oops", "", "NaN", "[" * 200_000, "1" * 5000])
def test_broken_json_is_invalid_output(
    server: Loopback, make_client: MakeClient, body: str
) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body.encode()))

    with pytest.raises(InvalidOutput, match="says it is JSON"):
        make_client(transport=transport).request("GET", "http://a.test/", rules=HERE).json()


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "hex", "no-such"])
def test_a_charset_that_is_none_of_a_body_counts_as_utf_8(
    make_client: MakeClient, charset: str
) -> None:
    body = ("ü" * 50 + "-" + "a" * 2_000_000).encode()  # punycode takes minutes for so much
    headers = {"Content-Type": f"text/plain; charset={charset}"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body, headers=headers))

    reply = make_client(transport=transport).request("GET", "http://a.test/", rules=HERE)

    assert reply.text == body.decode()


@BOTH_SIDES
@pytest.mark.parametrize("path", ["/hang", "/drip", "/drip-headers"])
def test_one_deadline_ends_a_server_that_hangs_or_drips(
    server: Loopback, client: HttpClient, path: str
) -> None:
    with pytest.raises(CallTimeout, match=r"did not respond completely within 0\.4 s"):
        client.request("GET", server.url(path), rules=replace(HERE, timeout_s=0.4))


def test_a_loop_that_does_not_turn_is_a_server_that_did_not_respond(
    server: Loopback,
) -> None:
    """A machine that stands still: the time is over before anything is sent. It is closed all the
    same."""
    background, workers = Background(), Workers()
    client, is_over = HttpClient(background, workers), threading.Event()

    async def ask() -> int:
        reply = await client.arequest("GET", server.url("/json"), rules=HERE)
        return reply.status

    async def block() -> None:
        is_over.wait()

    assert background.run(ask) == 200
    blocking = background.submit(block)
    try:
        with pytest.raises(CallTimeout, match=r"did not respond completely within 0\.1 s"):
            asyncio.run(
                client.arequest("GET", server.url("/json"), rules=replace(HERE, timeout_s=0.1))
            )
        client.close()
    finally:
        is_over.set()
        blocking.future.result(HANG_S)
        background.close()


@BOTH_SIDES
def test_the_deadline_counts_the_look_up_of_a_name(make_client: MakeClient) -> None:
    asked, ended = threading.Event(), threading.Event()

    def stuck(host: str, port: int) -> list[str]:
        asked.set()
        ended.wait()
        return []

    client = make_client(resolve=stuck)
    try:
        # On a machine that stands still, its time may end before the look-up begins.
        while not asked.is_set():
            with pytest.raises(CallTimeout):
                client.request("GET", "http://slow.test/", rules=replace(HERE, timeout_s=0.3))
    finally:
        ended.set()


@BOTH_SIDES
def test_a_connection_that_was_given_up_is_closed(server: Loopback, client: HttpClient) -> None:
    while not server.begun.is_set():
        with pytest.raises(CallTimeout):
            client.request("GET", server.url("/drip"), rules=replace(HERE, timeout_s=0.3))

    assert server.hung_up.wait(HANG_S)


@pytest.mark.posix("the memory of a process, as POSIX counts it")
@pytest.mark.slow
@BOTH_SIDES
@pytest.mark.parametrize("path", ["/huge", "/claims", "/bomb?mb=100"])
def test_a_body_that_is_too_large_ends_at_once_and_costs_little(
    server: Loopback, client: HttpClient, path: str
) -> None:
    import resource

    client.request("GET", server.url("/json"), rules=HERE)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(TooLarge):
        client.request("GET", server.url(path), rules=replace(HERE, timeout_s=60))

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@BOTH_SIDES
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/cut", "broke"),
        ("/cut-gzip", "cut off"),
        ("/packed/br", "'br'"),
        ("/packed/damaged", "dam"),
    ],
)
def test_a_body_that_is_not_whole_is_an_error(
    server: Loopback, client: HttpClient, path: str, words: str
) -> None:
    with pytest.raises(ExecutionFailed, match=words):
        client.request("GET", server.url(path), rules=replace(HERE, tries=1))


@BOTH_SIDES
def test_a_port_where_nobody_listens_is_an_error(client: HttpClient) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"

        with pytest.raises(
            ExecutionFailed, match=r"Cannot connect to '127\.0\.0\.1:\d+': Connection refused"
        ):
            client.request("GET", url, rules=replace(HERE, tries=1))


@BOTH_SIDES
def test_a_name_without_an_address_is_an_error(make_client: MakeClient) -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(ExecutionFailed, match="Name or service not known"):
        make_client(resolve=unknown).request("GET", "http://no.test/", rules=replace(HERE, tries=1))


@pytest.mark.parametrize(
    ("method", "url", "headers"),
    [
        ("GE T", "http://a.test/", {}),
        ("GET\r\nX: 1", "http://a.test/", {}),
        ("GET", "http://a.test/", {"X-A": "a\r\nX-B: b"}),
        ("GET", "http://a.test/", {"X-A": "a\x00"}),
        ("GET", "http://a.test/", {"X-A": "漢"}),
        ("GET", "http://a.test/", {"X A": "a"}),
        ("GET", "http://a.test/", {"X-A": 5}),
    ],
)
def test_a_request_that_cannot_be_written_is_invalid(
    client: HttpClient, method: str, url: str, headers: dict
) -> None:
    with pytest.raises(InvalidArgs):
        client.request(method, url, headers=headers, rules=HERE)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://a.test:x/", "http://①.test/", "http://a\x00b/", "no url"]
)
def test_a_url_that_is_none_is_an_error(client: HttpClient, url: str) -> None:
    with pytest.raises(CallFailure):
        client.request("GET", url, rules=HERE)


@BOTH_SIDES
@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "GET", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
    ],
)
def test_redirects_are_followed_as_browsers_do(
    server: Loopback, client: HttpClient, status: int, method: str, then: str
) -> None:
    url = server.url(f"/redirect?status={status}&to=/echo")

    reply = client.request(
        method, url, content=None if method == "GET" else b"data", headers={"X-A": "1"}, rules=HERE
    )

    seen = reply.json()
    assert reply.url == server.url("/echo")
    assert (seen["method"], seen["body"]) == (then, "data" if then != "GET" else "")
    assert seen["headers"]["x-a"] == "1"
    assert ("content-length" in seen["headers"]) is (then != "GET")


@BOTH_SIDES
def test_a_redirect_loop_ends(server: Loopback, client: HttpClient) -> None:
    with pytest.raises(ExecutionFailed, match="More than 10 redirects"):
        client.request("GET", server.url("/loop"), rules=HERE)

    assert len(server.seen) == 11


@BOTH_SIDES
def test_redirects_may_be_left_alone(server: Loopback, client: HttpClient) -> None:
    reply = client.request("GET", server.url("/loop"), rules=replace(HERE, max_redirects=0))

    assert (reply.status, reply.headers["location"]) == (302, "/loop")


@BOTH_SIDES
def test_another_host_gets_none_of_the_headers(server: Loopback, client: HttpClient) -> None:
    with Loopback() as other:
        url = server.url(f"/redirect?to={other.url('/echo')}")
        headers = {
            "Authorization": "Bearer x",
            "X-Api-Key": "k",
            "Cookie": "c=1",
            "Accept": "text/x",
        }

        seen = client.request("GET", url, headers=headers, rules=HERE).json()["headers"]

    assert {"authorization", "x-api-key", "cookie"} & seen.keys() == set()
    assert seen["accept"] == "text/x"
    assert seen["host"] == f"127.0.0.1:{other.port}"


@BOTH_SIDES
def test_another_host_never_gets_the_body(server: Loopback, client: HttpClient) -> None:
    with Loopback() as other, pytest.raises(HostNotAllowed, match="body"):
        client.request(
            "POST",
            server.url(f"/redirect?status=307&to={other.url('/echo')}"),
            content=b"x",
            rules=HERE,
        )

    assert other.accepts == 0


@BOTH_SIDES
@pytest.mark.parametrize(
    "to", ["http://[::1", "ftp://a.test/", "http://u:p@a.test/", "javascript:alert(1)"]
)
def test_a_redirect_to_nowhere_is_an_error(server: Loopback, client: HttpClient, to: str) -> None:
    with pytest.raises(CallFailure):
        client.request("GET", server.url("/redirect"), params={"to": to}, rules=HERE)


@BOTH_SIDES
@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/{SECRET}?key={SECRET}",
        f"http://{SECRET}.test/x",
        f"http://u:{SECRET}@127.0.0.1/",
        f"http://127.0.0.1:{SECRET}/",
        f"http://[::{SECRET}/",
        f"ftp://{SECRET}/",
    ],
)
def test_no_secret_stands_in_an_error_or_behind_it(make_client: MakeClient, url: str) -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError(-2, f"no {host}")

    client = make_client(mask=mask, resolve=unknown)
    with pytest.raises(CallFailure) as caught:
        client.request("GET", url, rules=replace(HERE, tries=1))

    fault = caught.value
    assert SECRET not in repr(fault) + fault.message + fault.hint + str(fault.details)
    assert fault.__cause__ is None
    assert fault.__context__ is None


@BOTH_SIDES
def test_connections_are_kept_and_shared(server: Loopback, client: HttpClient) -> None:
    for _ in range(5):
        client.request("GET", server.url("/json"), rules=HERE)

    assert (server.accepts, len(server.seen)) == (1, 5)


def test_many_threads_share_a_small_pool(server: Loopback, client: HttpClient) -> None:
    rules = replace(HERE, timeout_s=60)
    with ThreadPoolExecutor(64) as threads:
        replies = list(
            threads.map(
                lambda i: client.request("GET", server.url(f"/json/{i}"), rules=rules), range(200)
            )
        )

    assert [reply.json()["path"] for reply in replies] == [f"/json/{i}" for i in range(200)]
    assert server.accepts <= 20


async def test_async_callers_of_any_loop_do_not_block_it(
    server: Loopback, client: HttpClient
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    replies = await asyncio.gather(
        *(client.arequest("GET", server.url("/lines"), rules=HERE) for _ in range(5))
    )
    ticking.cancel()

    assert [reply.status for reply in replies] == [200] * 5
    assert ticks > 3


async def test_cancelling_an_async_caller_closes_its_connection(
    server: Loopback, client: HttpClient
) -> None:
    asking = asyncio.create_task(
        client.arequest("GET", server.url("/drip"), rules=replace(HERE, timeout_s=HANG_S))
    )
    assert await asyncio.to_thread(server.begun.wait, HANG_S)

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(server.hung_up.wait, HANG_S)


def test_async_and_sync_callers_on_the_background_loop_itself_are_served(
    server: Loopback, make_client: MakeClient
) -> None:
    from onetool_ipy.base.background import Background, Workers

    background, workers = Background(), Workers()
    client = HttpClient(background, workers)

    async def both() -> list[int]:
        awaited = await client.arequest("GET", server.url("/json"), rules=HERE)
        blocking = client.request("GET", server.url("/json"), rules=HERE)
        return [awaited.status, blocking.status]

    assert background.run(both) == [200, 200]
    client.close()
    background.close()


@pytest.mark.posix("Windows sends no SIGINT to another process")
def test_stop_gives_control_back(server: Loopback) -> None:
    """In a process of its own, whose main thread is the one that is stopped."""
    code = (
        "import sys\n"
        "from onetool_ipy.base.background import Background\n"
        "from onetool_ipy.base.background import Workers\n"
        "from onetool_ipy.net.client import HttpClient\n"
        "from onetool_ipy.net.client import Rules\n"
        "client = HttpClient(Background(), Workers())\n"
        "try:\n"
        "    client.request('GET', sys.argv[1], rules=Rules(allow_private=True, timeout_s=600))\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code, server.url("/hang")], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert server.begun.wait(HANG_S)

    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=HANG_S)

    assert out == b"stopped\n", "the request has no end of its own"


@BOTH_SIDES
def test_a_transport_of_ones_own_stands_for_the_network(make_client: MakeClient) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"url": str(request.url), "body": request.content.decode()})

    client = make_client(
        transport=httpx.MockTransport(answer), resolve=lambda host, port: pytest.fail("looked up")
    )

    reply = client.request(
        "POST", "https://api.example.com/x", json=1, rules=Rules(hosts=Hosts(["api.example.com"]))
    )

    assert reply.json() == {"url": "https://api.example.com/x", "body": "1"}


def test_a_transport_of_ones_own_that_hangs_is_left(make_client: MakeClient) -> None:
    ended = threading.Event()

    def hang(_request: httpx.Request) -> httpx.Response:
        ended.wait()
        return httpx.Response(200)

    client = make_client(transport=httpx.MockTransport(hang))
    try:
        with pytest.raises(CallTimeout, match=r"within 0\.3 s"):
            client.request("GET", "http://api.test/", rules=Rules(timeout_s=0.3))
    finally:
        ended.set()


@BOTH_SIDES
def test_the_rules_hold_with_a_transport_of_ones_own(make_client: MakeClient) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers={"location": "http://127.0.0.1/"})

    client = make_client(transport=httpx.MockTransport(answer))
    rules = Rules(hosts=Hosts(["api.example.com", "127.0.0.1"]))
    for url in ("https://evil.test/", "http://127.0.0.1/", "https://api.example.com/"):
        with pytest.raises(HostNotAllowed):
            client.request("GET", url, rules=rules)

    assert asked == ["https://api.example.com/"]


class _SyncTransport(httpx.BaseTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(b"from " + request.url.host.encode()))


@BOTH_SIDES
def test_a_sync_transport_of_ones_own_works_too(make_client: MakeClient) -> None:
    reply = make_client(transport=_SyncTransport()).request(
        "GET", "http://api.test/", rules=Rules()
    )

    assert reply.body == b"from api.test"


def _answer(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=b"from " + request.url.host.encode())


@pytest.mark.parametrize(
    "transport", [_SyncTransport(), httpx.MockTransport(_answer)], ids=["sync", "async"]
)
def test_sync_code_of_an_async_tool_sends_with_a_transport_of_ones_own(transport: Any) -> None:
    """It runs on the loop's own thread, which must not wait for itself."""
    background, workers = Background(), Workers()
    client = HttpClient(background, workers, transport=transport)

    async def tool() -> bytes:
        return client.request("GET", "http://api.test/", rules=Rules()).body

    try:
        assert background.run(tool, HANG_S) == b"from api.test"
    finally:
        for part in (client, background):
            part.close()


def test_nothing_is_loaded_before_something_is_sent(tmp_path: Path) -> None:
    code = (
        "import sys\nimport onetool_ipy.net, onetool_ipy.sdk\nfrom onetool_ipy import"
        " open_toolbox\nfrom onetool_ipy.sdk import safe_request, batch_execute, check_deps\nbox ="
        " open_toolbox(env={'HOME': sys.argv[1]})\nbox.call('time.now')\nprint([m for m in"
        " ('httpx', 'httpcore', 'anyio', 'pandas', 'distributed') if m in sys.modules])"
    )

    done = python(code, tmp_path, cwd=ROOT)

    assert done.stdout.strip() == "[]"


@BOTH_SIDES
def test_closing_twice_and_going_on_is_fine(server: Loopback, client: HttpClient) -> None:
    client.request("GET", server.url("/json"), rules=HERE)
    client.close()
    client.close()

    assert client.request("GET", server.url("/json"), rules=HERE).status == 200
