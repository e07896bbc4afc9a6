"""One server and one upstream API for all tests here; each test has a project folder of its own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uuid_utils

from tests.faces.rest.serving import Server, Upstream, http_tool

SECRET = "s3cr3t-value-of-the-key"


class Api:
    """The REST API of one project, as one signed-in client sees it."""

    def __init__(
        self, client: httpx.Client, folder: Path, project: str, upstream: Upstream
    ) -> None:
        self.client = client
        self.folder = folder
        self.project = project
        self.upstream = upstream

    def call(self, verb: str, path: str, **options: Any) -> httpx.Response:
        params = {"project": self.project, **options.pop("params", {})}
        return self.client.request(verb, f"onetool/{path}", params=params, **options)

    def bundle(self, slug: str = "my-api", **fields: Any) -> str:
        """A new bundle; gives its id."""
        own = str(uuid_utils.uuid7())
        done = self.call(
            "PUT", f"tools/bundles/{own}", json={"slug": slug, "displayName": slug, **fields}
        )
        assert done.status_code == 201, done.text
        return own

    def tool(self, bundle: str, slug: str, path: str, version: str = "1", **fields: Any) -> str:
        """A new HTTP tool that GETs a path of the upstream; gives the path of its route."""
        place = f"tools/bundles/{bundle}/tools/{slug}/version/{version}"
        record = {**http_tool(f"http://{self.upstream.host}{path}"), **fields}
        done = self.call("PUT", place, json=record)
        assert done.status_code == 201, done.text
        return place

    def invoke(self, place: str, args: Any = None, **options: Any) -> httpx.Response:
        return self.call(
            "POST", f"{place}/invoke", json={"args": {} if args is None else args}, **options
        )


def write_config(folder: Path, upstream: Upstream, extra: str = "") -> None:
    """Configuration that lets HTTP tools reach the upstream, and one secret."""
    place = folder / ".onetool"
    place.mkdir(parents=True, exist_ok=True)
    text = f'version: 1\nhttp: {{allowed_hosts: ["{upstream.host}"], allow_private: true}}\n{extra}'
    (place / "onetool.yaml").write_text(text, encoding="utf-8")
    secrets = place / "secrets.yaml"
    secrets.touch(mode=0o600)
    secrets.write_text(f"API_KEY: {SECRET}\n", encoding="utf-8")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("jupyter"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def _upstream() -> Iterator[Upstream]:
    running = Upstream()
    yield running
    running.close()


@pytest.fixture
def upstream(_upstream: Upstream) -> Upstream:
    _upstream.seen.clear()
    _upstream.release.clear()
    _upstream.gone.clear()
    _upstream.waiting = threading.Semaphore(0)
    return _upstream


@pytest.fixture
def new_api(server: Server, upstream: Upstream) -> Callable[..., Api]:
    """Make a project below the server's root, and give its API."""

    def make(extra: str = "", *, client: httpx.Client | None = None) -> Api:
        name = f"project-{next(_numbers)}"
        folder = server.root / name
        folder.mkdir()
        write_config(folder, upstream, extra)
        return Api(client or server.client, folder, name, upstream)

    return make


@pytest.fixture
def api(new_api: Callable[..., Api]) -> Api:
    return new_api()


_numbers = itertools.count()
