"""Responses that are read as they arrive: the rules hold, and leaving hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import httpx
import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import HostNotAllowed, TooLarge
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.response import ConnectionFailed
from tests.harness.patience import HANG_S
from tests.net.conftest import HERE
from tests.net.loopback import Loopback

Read = Callable[[httpx.Response], Awaitable[object]]
Stream = Callable[..., object]


@pytest.fixture
def stream() -> Iterator[Stream]:
    """`stream(url, read)`: what `read` makes of the open response, on the background loop."""
    background, workers = Background(), Workers()
    client = HttpClient(background, workers)

    def run(url: str, read: Read, rules: Rules = HERE) -> object:
        async def work() -> object:
            async with client.stream("GET", url, rules=rules) as response:
                return await read(response)

        return background.run(work, HANG_S)

    yield run
    client.close()
    background.close()


async def _text(response: httpx.Response) -> str:
    return "".join([text async for text in response.aiter_text()])


async def _first(response: httpx.Response) -> bytes:
    return await anext(response.aiter_bytes())


def test_text_comes_whole_wherever_its_pieces_end(server: Loopback, stream: Stream) -> None:
    assert stream(server.url("/lines"), _text) == "".join(f"line {i}: grü\r\n" for i in range(3))


@pytest.mark.parametrize("kind", ["gzip", "deflate", "raw"])
def test_a_compressed_body_is_decompressed_once(
    server: Loopback, stream: Stream, kind: str
) -> None:
    assert "packed" in str(stream(server.url(f"/packed/{kind}"), _text))


def test_the_first_piece_is_there_before_the_last_was_sent_and_leaving_hangs_up(
    server: Loopback, stream: Stream
) -> None:
    assert str(stream(server.url("/drip"), _first)).startswith("b'.")
    assert server.hung_up.wait(HANG_S)


@pytest.mark.parametrize("path", ["/huge", "/bomb?mb=64"])
def test_no_more_than_the_limit_is_in_memory(server: Loopback, stream: Stream, path: str) -> None:
    pieces: list[int] = []

    async def count(response: httpx.Response) -> None:
        async for piece in response.aiter_bytes():
            pieces.append(len(piece))  # noqa: PERF401 - what came before the failure counts

    with pytest.raises(TooLarge):
        stream(server.url(path), count, replace(HERE, max_bytes=1 << 20))

    assert sum(pieces) <= 1 << 20


def test_a_body_that_breaks_off_is_a_failure_of_ours_without_its_request(
    server: Loopback, stream: Stream
) -> None:
    with pytest.raises(ConnectionFailed, match="broke") as caught:
        stream(server.url("/cut"), _text)

    assert caught.value.__context__ is None
    assert len(server.seen) == 1


def test_an_error_of_the_reader_is_its_own(server: Loopback, stream: Stream) -> None:
    async def fail(_response: httpx.Response) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stream(server.url("/drip"), fail)

    assert server.hung_up.wait(HANG_S)


def test_a_host_that_is_not_allowed_is_not_reached(server: Loopback, stream: Stream) -> None:
    with pytest.raises(HostNotAllowed):
        stream(server.url("/json"), _text, Rules())

    assert server.accepts == 0


def test_a_redirect_is_returned_and_not_followed(server: Loopback, stream: Stream) -> None:
    async def status(response: httpx.Response) -> int:
        return response.status_code

    assert stream(server.url("/redirect?to=/json"), status) in (301, 302, 303, 307, 308)
    assert len(server.seen) == 1


def test_cancelling_hangs_up(server: Loopback, stream: Stream) -> None:
    async def read_for_a_while(response: httpx.Response) -> None:
        async with asyncio.timeout(0.2):
            await _text(response)

    with pytest.raises(TimeoutError):
        stream(server.url("/drip"), read_for_a_while)

    assert server.hung_up.wait(HANG_S)


def test_only_the_caller_holds_a_deadline(server: Loopback, stream: Stream) -> None:
    """A model may think for longer than a request of a tool may take."""

    async def some(response: httpx.Response) -> int:
        pieces = response.aiter_bytes()
        return len([await anext(pieces) for _ in range(3)])

    assert stream(server.url("/drip"), some, replace(HERE, timeout_s=0.005)) == 3
