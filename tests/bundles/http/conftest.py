"""HTTP tools made ready against a real server on this machine."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy.base.masking import Secrets
from onetool_ipy.bundles.http.definition import HttpDefinition, ToolLimits
from onetool_ipy.bundles.http.runner import HttpRunner
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.hosts import Hosts
from tests.net.conftest import client, make_client, server

__all__ = ["client", "make_client", "server"]

Make = Callable[..., HttpRunner]


class Clock:
    """Stands still until it is told to go."""

    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += datetime.timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(client: HttpClient, clock: Clock) -> Make:
    """`make({request: ...} or steps, args={name: schema}, required=[...], secrets={...}, ...) ->
    HttpRunner`"""

    def made(
        definition: dict[str, Any],
        *,
        args: dict[str, Any] | None = None,
        required: list[str] | None = None,
        secrets: dict[str, str] | None = None,
        output: Any = None,
        limits: dict[str, Any] | None = None,
        hosts: tuple[str, ...] = ("127.0.0.1",),
        on: HttpClient | None = None,
        schema: dict[str, Any] | None = None,
        **rules: Any,
    ) -> HttpRunner:
        named = {
            "type": "object",
            "properties": args or {},
            "required": required or [],
            "additionalProperties": False,
        }
        kept = Secrets(secrets or {}, {})
        return HttpRunner(
            HttpDefinition.model_validate(definition),
            arg_schema=schema or named,
            output_schema=output,
            limits=ToolLimits.model_validate(limits or {}),
            name="api.tool",
            client=on or client,
            rules=Rules(**{"hosts": Hosts(hosts), "allow_private": True, "timeout_s": 60, **rules}),
            secret=kept.get,
            mask=kept.mask,
            clock=clock,
        )

    return made
