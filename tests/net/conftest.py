"""A server to talk to, and a client that leads there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.response import HttpResponse
from tests.net.loopback import Loopback

MakeClient = Callable[..., HttpClient]

HERE = Rules(allow_private=True, timeout_s=60)
"""Lets everything through that this machine can serve."""


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


class AwaitingClient(HttpClient):
    """Sends as async callers do, though a test asks without awaiting."""

    def request(self, *args: Any, **options: Any) -> HttpResponse:
        return asyncio.run(self.arequest(*args, **options))


BOTH_SIDES = pytest.mark.parametrize(
    "make_client", [HttpClient, AwaitingClient], ids=["sync", "async"], indirect=True
)
"""Runs a test with its clients sending as sync callers do, and as async ones do."""


@pytest.fixture
def make_client(request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    client_class = getattr(request, "param", HttpClient)
    with ExitStack() as stack:

        def make(**parts: Any) -> HttpClient:
            background, workers = Background(), Workers()
            client = client_class(background, workers, **parts)
            for part in (background, client):
                stack.callback(part.close)
            return client

        yield make


@pytest.fixture
def client(make_client: MakeClient) -> HttpClient:
    return make_client()
