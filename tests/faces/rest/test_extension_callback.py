"""The call-back of a sign-in at Jupyter Server: who may bring an answer, and what its kernels are
told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from onetool_ipy.faces.rest.extension import callback_url
from tests.faces.rest.serving import Server
from tests.harness.systems import has_mode

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, state: Path) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("callback"), env={"ONETOOL_STATE": str(state)})
    yield found
    found.close()


def _wait_for(state: Path, value: str) -> Path:
    """Do what a kernel does that waits for an answer; gives the file where it arrives."""
    folder = state / "tokens"
    folder.mkdir(exist_ok=True)
    name = sha256(value.encode()).hexdigest()[:40]
    (folder / f"{name}.waiting").write_text(repr(time.time() + 60), encoding="utf-8")
    return folder / f"{name}.answer"


@pytest.mark.slow
def test_an_answer_reaches_the_kernel_once(server: Server, state: Path) -> None:
    arrived = _wait_for(state, "mine")

    page = server.client.get(
        "onetool/callback", params={"state": "mine", "code": "x", "iss": "https://i.example"}
    )

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert arrived.read_text(encoding="utf-8") == '["x", "mine", "https://i.example", ""]'
    assert has_mode(arrived, 0o600)
    again = server.client.get("onetool/callback", params={"state": "mine", "code": "y"})
    assert again.status_code == 400
    assert '"x"' in arrived.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_foreign_state_and_markup_get_nowhere(server: Server, state: Path) -> None:
    before = sorted((state / "tokens").glob("*")) if (state / "tokens").exists() else []
    for given in (
        {"state": "theirs", "code": "x"},
        {"code": "x"},
        {},
        {"state": MARKUP, "error": MARKUP},
    ):
        page = server.client.get("onetool/callback", params=given)
        assert page.status_code == 400
        assert MARKUP not in page.text
    assert (sorted((state / "tokens").glob("*")) if (state / "tokens").exists() else []) == before


@pytest.mark.slow
def test_nobody_unknown_brings_an_answer(server: Server, state: Path) -> None:
    arrived = _wait_for(state, "guarded")
    with server.anyone() as stranger:
        page = stranger.get(
            "onetool/callback", params={"state": "guarded", "code": "x"}, follow_redirects=False
        )
    assert page.status_code == 302
    assert "/login?next=" in page.headers["location"]
    assert not arrived.exists()


@pytest.mark.parametrize(
    ("public", "env", "expected"),
    [
        ("http://127.0.0.1:8888/base/?token=x", {}, "http://127.0.0.1:8888/base/onetool/callback"),
        ("http://localhost:8888/base/", {}, "http://localhost:8888/base/onetool/callback"),
        ("http://node17:8888/base/", {}, ""),
        ("https://lab.example/base/", {}, "https://lab.example/base/onetool/callback"),
        ("http://127.0.0.1:8888/base/", {"JUPYTERHUB_SERVICE_PREFIX": "/base/"}, ""),
        (
            "http://127.0.0.1:8888/base/",
            {
                "JUPYTERHUB_SERVICE_PREFIX": "/base/",
                "JUPYTERHUB_PUBLIC_URL": "https://hub.example/base/",
            },
            "https://hub.example/base/onetool/callback",
        ),
    ],
)
def test_where_a_browser_reaches_the_server(
    public: str, env: dict[str, str], expected: str
) -> None:
    server = SimpleNamespace(
        public_url=public, web_app=SimpleNamespace(settings={"base_url": "/base/"})
    )
    assert callback_url(server, env) == expected
