"""A server to talk to, and a road that leads there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.net import Road, Rules
from tests.net.loopback import Loopback

MakeRoad = Callable[..., Road]

HERE = Rules(allow_private=True, timeout_s=60)
"""Lets everything through that this machine can serve."""


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


@pytest.fixture
def make_road() -> Iterator[MakeRoad]:
    with ExitStack() as stack:

        def make(**parts: Any) -> Road:
            background, workers = Background(), Workers()
            road = Road(background, workers, **parts)
            for part in (workers, background, road):
                stack.callback(part.close)
            return road

        yield make


@pytest.fixture
def road(make_road: MakeRoad) -> Road:
    return make_road()
