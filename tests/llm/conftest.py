"""The double of the model APIs, a server that misbehaves, and clients that talk to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.masking import Secrets
from onetool_ipy.config.settings import Model
from onetool_ipy.llm.client import HttpModelClient
from onetool_ipy.net.client import HttpClient, Retry
from tests.harness.models import ModelDouble

KEY = "sk-secret-of-the-tests-0123456789"

MakeClient = Callable[..., HttpModelClient]


@pytest.fixture(scope="session")
def _double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelDouble]:
    with ModelDouble(tmp_path_factory.mktemp("aimock")) as running:
        yield running


@pytest.fixture
def double(_double: ModelDouble) -> Iterator[ModelDouble]:
    """The double, which behaves again afterwards."""
    yield _double
    _double.behave()


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    """`make_client("openai", url)`: a client with a key, that waits for nothing between two
    tries."""
    with ExitStack() as stack:

        def make(
            provider: str,
            url: str | None,
            *,
            model: str = "m-1",
            key: str | None = "KEY",
            secrets: Mapping[str, str] | None = None,
            waits: list[float] | None = None,
            background: Background | None = None,
            options: Mapping[str, Any] | None = None,
            **parts: Any,
        ) -> HttpModelClient:
            background, workers = background or Background(), Workers()
            known = Secrets({"KEY": KEY} if secrets is None else secrets, {})
            client = HttpClient(background, workers, mask=known.mask, **parts)
            for part in (background, client):
                stack.callback(part.close)

            async def note(wait_s: float) -> None:
                if waits is not None:
                    waits.append(wait_s)

            config = Model(
                name="local",
                provider=provider,
                model=model,
                base_url=url,
                key=key,
                where="onetool.yaml:3",
                options=options or {},
            )
            return HttpModelClient(
                config,
                secrets=known,
                http_client=client,
                background=background,
                retry=Retry(asleep=note, chance=lambda: 0.0),
            )

        yield make
