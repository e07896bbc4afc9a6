"""REST in a project that the user has not said yes to: nothing is sent, and a write trusts nothing
(contract 16)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.rest.conftest import Api, write_config
from tests.faces.rest.serving import Server, Upstream, http_tool


@pytest.fixture(scope="module")
def wary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("jupyter"), env={"ONETOOL_TRUST": ""})
    yield running
    running.close()


@pytest.fixture
def clone(wary: Server, upstream: Upstream, request: pytest.FixtureRequest) -> Api:
    name = f"clone-{abs(hash(request.node.name))}"
    folder = Path(wary.root) / name
    write_config(folder, upstream)
    return Api(wary.client, folder, name, upstream)


@pytest.mark.slow
def test_a_write_trusts_nothing_and_an_invoke_is_refused_until_the_yes(clone: Api) -> None:
    place = clone.tool(clone.bundle(), "get", "/users/1")
    refused = clone.invoke(place)
    assert refused.status_code == 403, refused.text
    assert refused.json()["error"]["reason"] == "untrusted"
    assert "run: %tool trust" in refused.json()["error"]["message"]
    assert clone.upstream.seen == []
    state = clone.call("GET", "trust").json()
    assert state["isTrusted"] is False
    assert state["how"] == "untrusted"
    assert state["wouldRun"]["hosts"] == [clone.upstream.host]
    yes = clone.call("POST", "trust", json={"isTrusted": True, "wouldRun": state["wouldRun"]})
    assert yes.status_code == 200, yes.text
    assert yes.json()["isTrusted"] is True
    assert clone.invoke(place).status_code == 200
    assert len(clone.upstream.seen) == 1
    clone.call("POST", "trust", json={"isTrusted": False})
    assert clone.invoke(place).status_code == 403


@pytest.mark.slow
def test_a_draft_is_not_sent(clone: Api) -> None:
    tool = http_tool(f"http://{clone.upstream.host}/get")
    answer = clone.call("POST", "tools/test", json={"tool": tool, "args": {}})
    assert answer.status_code == 403, answer.text
    assert clone.upstream.seen == []


@pytest.mark.slow
def test_a_document_is_not_fetched(clone: Api) -> None:
    body = {
        "openapi": f"http://{clone.upstream.host}/openapi.json",
        "bundle": {"slug": "x", "displayName": "X"},
    }
    answer = clone.call("POST", "tools/import", json=body)
    assert answer.status_code == 403, answer.text
    assert clone.upstream.seen == []


@pytest.mark.slow
def test_a_yes_is_to_what_was_shown(clone: Api) -> None:
    shown = clone.call("GET", "trust").json()["wouldRun"]
    (clone.folder / ".onetool" / "tools").mkdir()
    (clone.folder / ".onetool" / "tools" / "late.py").write_text(
        'def go() -> int:\n    "Go."\n    return 1\n'
    )
    late = clone.call("POST", "trust", json={"isTrusted": True, "wouldRun": shown})
    assert late.status_code == 409, late.text
    assert clone.call("GET", "trust").json()["isTrusted"] is False


@pytest.mark.slow
def test_built_ins_work(clone: Api) -> None:
    found = clone.call("GET", "tools/tools").json()["items"]
    now = next(tool for tool in found if tool["slug"] == "now")
    answer = clone.invoke(f"tools/bundles/{now['bundleID']}/tools/now/version/{now['version']}")
    assert answer.status_code == 200, answer.text


@pytest.mark.slow
def test_a_first_bundle_in_an_empty_folder_is_trusted(wary: Server, upstream: Upstream) -> None:
    (Path(wary.root) / "empty").mkdir()
    api = Api(wary.client, Path(wary.root) / "empty", "empty", upstream)
    assert api.call("GET", "trust").json()["how"] == "no project"
    api.bundle()
    assert api.call("GET", "trust").json()["how"] == "listed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"isTrusted": 1}, 400),
        ({"isTrusted": True}, 400),
        ({"isTrusted": True, "part": "server nope"}, 404),
        ([], 400),
        ({"x": 1}, 400),
    ],
)
def test_a_wrong_body_is_refused(clone: Api, body: object, status: int) -> None:
    assert clone.call("POST", "trust", json=body).status_code == status


@pytest.mark.slow
def test_nothing_to_trust_is_said(wary: Server, upstream: Upstream) -> None:
    (Path(wary.root) / "nothing").mkdir()
    api = Api(wary.client, Path(wary.root) / "nothing", "nothing", upstream)
    shown = api.call("GET", "trust").json()["wouldRun"]
    answer = api.call("POST", "trust", json={"isTrusted": True, "wouldRun": shown})
    assert answer.status_code == 400
    assert "There is no project" in answer.json()["error"]["message"]
