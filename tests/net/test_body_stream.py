"""Replies that are read as they come."""

from __future__ import annotations

import asyncio

import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import CallCancelled, CallTimeout, ExecutionFailed, HostNotAllowed, TooLarge, UsageProblem
from onetool_ipy.net.client import HttpClient, Rules
from tests.harness.patience import HANG_S
from tests.net.conftest import HERE
from tests.net.loopback import Loopback

LINES = [f"line {i}: grü" for i in range(3)]


def test_lines_come_one_by_one_whole(server: Loopback, client: HttpClient) -> None:
    with client.stream("GET", server.url("/lines"), rules=HERE) as reply:
        assert reply.status == 200
        assert list(reply.lines()) == LINES


async def test_lines_come_to_async_readers_of_any_loop(server: Loopback, client: HttpClient) -> None:
    async with client.stream("GET", server.url("/lines"), rules=HERE) as reply:
        assert [line async for line in reply.alines()] == LINES


def test_async_readers_on_the_background_loop_are_served(server: Loopback) -> None:
    background = Background()
    client = HttpClient(background, Workers())

    async def read() -> list[str]:
        async with client.stream("GET", server.url("/lines"), rules=HERE) as reply:
            return [line async for line in reply.alines()]

    async def block() -> None:
        with client.stream("GET", server.url("/lines"), rules=HERE):
            pass

    assert background.run(read) == LINES
    with pytest.raises(UsageProblem) as caught:
        background.run(block)
    assert "async with" in caught.value.hint
    client.close()
    background.close()


def test_the_first_piece_is_there_before_the_last_one_was_sent(server: Loopback, client: HttpClient) -> None:
    with client.stream("GET", server.url("/drip"), rules=HERE) as reply:
        assert next(iter(reply)).startswith(b".")


def test_leaving_early_hangs_up(server: Loopback, client: HttpClient) -> None:
    with client.stream("GET", server.url("/drip"), rules=HERE.replace(timeout_s=60)) as reply:
        next(iter(reply))

    assert server.hung_up.wait(HANG_S)


def test_reading_after_the_end_says_that_it_was_closed(server: Loopback, client: HttpClient) -> None:
    with client.stream("GET", server.url("/drip"), rules=HERE) as reply:
        next(iter(reply))

    with pytest.raises(CallCancelled):
        list(reply)


@pytest.mark.parametrize("path", ["/hang", "/drip-headers"])
def test_the_deadline_holds_before_the_reply_begins(server: Loopback, client: HttpClient, path: str) -> None:
    with (
        pytest.raises(CallTimeout),
        client.stream("GET", server.url(path), rules=HERE.replace(timeout_s=0.3)),
    ):
        pytest.fail("nothing came")


def test_the_deadline_holds_for_the_whole(server: Loopback, client: HttpClient) -> None:
    with (
        pytest.raises(CallTimeout, match=r"within 0\.4 s"),
        client.stream("GET", server.url("/drip"), rules=HERE.replace(timeout_s=0.4)) as reply,
    ):
        list(reply)


@pytest.mark.parametrize("path", ["/huge", "/bomb?mb=64"])
def test_the_size_holds_for_the_whole(server: Loopback, client: HttpClient, path: str) -> None:
    read: list[bytes] = []
    with (
        pytest.raises(TooLarge),
        client.stream("GET", server.url(path), rules=HERE.replace(max_bytes=1 << 20)) as reply,
    ):
        read.extend(reply)

    assert sum(map(len, read)) <= 1 << 20


def test_a_stream_that_breaks_is_not_begun_again(server: Loopback, client: HttpClient) -> None:
    pieces: list[bytes] = []
    with (
        pytest.raises(ExecutionFailed, match="broke"),
        client.stream("GET", server.url("/cut"), rules=HERE) as reply,
    ):
        pieces.extend(reply)

    assert len(server.seen) == 1


def test_the_rules_hold(server: Loopback, client: HttpClient) -> None:
    with pytest.raises(HostNotAllowed), client.stream("GET", server.url("/json"), rules=Rules()):
        pytest.fail("it was reached")

    assert server.accepts == 0


def test_the_rest_can_be_read_whole(server: Loopback, client: HttpClient) -> None:
    with client.stream("GET", server.url("/status/500?body=oh+no"), rules=HERE) as reply:
        rest = reply.read()

    assert (rest.status, rest.text) == (500, "oh no")


async def test_cancelling_an_async_reader_hangs_up(server: Loopback, client: HttpClient) -> None:
    async def read() -> None:
        async with client.stream("GET", server.url("/drip"), rules=HERE.replace(timeout_s=60)) as reply:
            async for _ in reply:
                pass

    reading = asyncio.create_task(read())
    assert await asyncio.to_thread(server.begun.wait, HANG_S)

    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await asyncio.to_thread(server.hung_up.wait, HANG_S)


def test_a_stream_is_read_once(server: Loopback, client: HttpClient) -> None:
    stream = client.stream("GET", server.url("/json"), rules=HERE)
    with stream:
        pass

    with pytest.raises(UsageProblem, match="once"), stream:
        pass
