"""The HTTP tool editor's requests, with a real API: read, keep a secret, ask, send, select,
save."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json
from onetool_ipy.faces.environments import Environment, save_environment
from onetool_ipy.faces.widgets.http_requests import HttpToolRequests
from onetool_ipy.faces.widgets.requests import ScreenRequests
from onetool_ipy.faces.widgets.viewer import ResultViewer
from onetool_ipy.toolbox import Toolbox
from tests.harness.patience import until
from tests.harness.stub import Asked, Stub

TOKEN = "tok-1a2b3c4d5e"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def answer(asked: Asked) -> tuple[int, Any]:
    if asked.path == "/pixel":
        return 200, PIXEL
    if asked.headers.get("authorization") != f"Bearer {TOKEN}":
        return 401, {"detail": "no token"}
    return 200, {"path": asked.path, "items": [{"id": 1}, {"id": 2}], "token": TOKEN}


@pytest.fixture
def api() -> Iterator[Stub]:
    with Stub(answer) as stub:
        yield stub


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    opened = open_toolbox(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def editor(box: Toolbox) -> HttpToolRequests:
    return HttpToolRequests(box, ResultViewer(box))


def draft(url: str, **request: Any) -> Json:
    return {
        "type": "http",
        "description": "x",
        "http": {"request": {"urlTemplate": url, **request}},
    }


BEARER = {"type": "bearer", "value": "${API_TOKEN}"}


def test_a_selector_is_tried_on_the_last_response_of_its_own_editor(
    editor: HttpToolRequests, api: Stub
) -> None:
    record, agreed = draft(api.url("/items")), [f"host:127.0.0.1:{api.port}"]
    editor.send({"tool": record, "agreed": agreed, "editor": "first"})

    with pytest.raises(UsageProblem, match="no response yet"):
        editor.select({"selector": "items", "editor": "second"})
    assert "view" in editor.select({"selector": "items", "editor": "first"})


def test_from_a_secret_to_a_saved_tool_and_a_second_one_of_the_bundle(
    box: Toolbox, editor: HttpToolRequests, api: Stub
) -> None:
    assert editor.start({}) == {"bundles": [], "secrets": [], "tool": None}
    record, asked = (
        draft(api.url("/items"), auth=BEARER),
        {"bundle": "shop", "slug": "items", "version": ""},
    )
    assert (
        "API_TOKEN"
        in editor.send({"tool": record, "agreed": [f"host:127.0.0.1:{api.port}"]})["errors"][0][
            "message"
        ]
    )
    assert editor.keep_secret({"name": "API_TOKEN", "value": TOKEN}) == {"secrets": ["API_TOKEN"]}
    assert (
        "already"
        in editor.keep_secret({"name": "API_TOKEN", "value": "other"})["errors"][0]["message"]
    )

    told = editor.send({"tool": record, "selector": "items"})
    assert (told["response"]["status"], told["response"]["phrase"], told["isOk"]) == (
        200,
        "OK",
        True,
    )
    assert (told["view"]["kinds"][0], told["view"]["rows"]) == ("table", 2)
    assert TOKEN not in json.dumps(told)
    whole = editor.select({"selector": ""})["view"]
    assert whole["kinds"][0] == "tree"
    assert "errors" in editor.select({"selector": "items["})
    assert len(api.asked) == 1

    saved = editor.save({**asked, "tool": record, "isShared": True})
    assert saved["said"] == "Saved. Call it: %tool shop.items"
    second = draft(api.url("/users"))
    assert editor.send({"tool": second, "bundle": "shop"})["isOk"]
    assert editor.save({**asked, "slug": "users", "tool": second})["name"] == "shop.users"
    assert box.call("shop.users", {}).data["path"] == "/users"
    (bundle,) = editor.start({})["bundles"]
    assert bundle == {"slug": "shop", "baseUrl": api.url(""), "auth": BEARER} | {
        "variables": {},
        "environments": [],
        "environment": "",
    }
    opened = editor.start({"bundle": "shop", "tool": "items", "version": "1"})
    assert (opened["version"], "auth" in opened["tool"]["http"]["request"]) == ("2", False)
    assert editor.save({**asked, "tool": record})["errors"][0]["pointer"] == "/slug"
    assert (
        editor.save({**asked, "version": "1", "tool": record})["errors"][0]["pointer"] == "/version"
    )
    again = editor.save(
        {**asked, "version": "1", "tool": draft(api.url("/other")), "isReplaced": True}
    )
    assert again["version"] == "1"
    assert box.call("shop.items", {}).data["path"] == "/other"


def test_a_write_a_host_and_a_secret_for_another_host_need_a_yes(
    box: Toolbox, editor: HttpToolRequests, api: Stub
) -> None:
    editor.keep_secret({"name": "API_TOKEN", "value": TOKEN})
    first = {
        "tool": draft("https://first.example.com/", auth=BEARER),
        "bundle": "first",
        "slug": "a",
    }
    assert "said" in editor.save(first)
    record = draft(api.url("/orders"), method="POST", auth=BEARER)

    asked = editor.send({"tool": record})["questions"]
    keys = [one["key"] for one in asked]
    assert keys == ["write", f"API_TOKEN=127.0.0.1:{api.port}", f"host:127.0.0.1:{api.port}"]
    assert [
        one["key"] for one in editor.send({"tool": record, "agreed": keys[:2]})["questions"]
    ] == keys[2:]
    assert api.asked == []
    assert box.config.settings.http.allowed_hosts == ()
    assert editor.send({"tool": record, "agreed": keys})["isOk"]
    shared = {"tool": record, "bundle": "second", "slug": "b", "isShared": True}
    assert [one["key"] for one in editor.save(shared)["questions"]] == keys[1:2]
    assert box.bundles.named("second") is None
    assert "said" in editor.save({**shared, "agreed": keys})


def test_what_is_wrong_is_told_by_field_and_leaves_nothing(
    box: Toolbox, editor: HttpToolRequests
) -> None:
    pointers = {one["pointer"] for one in editor.save({"tool": draft("x")})["errors"]}
    assert pointers == {"/bundle", "/slug"}
    wrong = draft("ftp://x", auth={"type": "magic"}, headers={"Host": "a"})
    found = editor.save({"tool": wrong, "bundle": "shop", "slug": "a b"})["errors"]
    assert {one["pointer"].split("/")[3] for one in found} == {"urlTemplate", "auth", "headers"}
    assert not any("nput should" in one["message"] for one in found)
    assert editor.save({"tool": draft("https://a.test"), "bundle": "my shop", "slug": "a"})[
        "errors"
    ][0]["pointer"] == ("/bundle")
    refused = editor.save({"tool": draft("https://a.test"), "bundle": "shop", "slug": "a b"})[
        "errors"
    ]
    assert refused[0]["pointer"] == "/slug"
    assert box.bundles.named("shop") is None
    needed = draft("https://a.test/${id}") | {
        "argSchema": {"type": "object", "properties": {"id": {}}, "required": ["id"]}
    }
    assert editor.send({"tool": needed})["errors"][0]["pointer"].startswith("/args")


def test_a_curl_command_fills_the_draft_and_keeps_its_token_apart(
    box: Toolbox, editor: HttpToolRequests, api: Stub
) -> None:
    text = f"curl -H 'Authorization: Bearer {TOKEN}' {api.url('/me?limit=5')}"
    shown = editor.read_curl({"text": text})
    assert shown["secrets"] == []
    kept = editor.read_curl({"text": text, "isKept": True})
    (name,) = kept["secrets"]
    assert (shown["missing"], kept["missing"]) == ([name], [])
    assert TOKEN not in json.dumps(kept)
    assert box.config.secrets.get(name) == TOKEN
    assert kept["tool"]["argSchema"]["properties"]["limit"]["default"] == 5
    picture = editor.send(
        {"tool": draft(api.url("/pixel")), "agreed": [f"host:127.0.0.1:{api.port}"]}
    )
    assert picture["response"]["size"] == len(PIXEL)


def test_an_untrusted_project_sends_and_keeps_nothing(
    tmp_path: Path, api: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONETOOL_TRUST", "")
    with open_toolbox() as box:
        editor = HttpToolRequests(box, ResultViewer(box))
        agreed = [f"host:127.0.0.1:{api.port}"]
        told = editor.send({"tool": draft(api.url("/pixel")), "agreed": agreed})["errors"]
        assert "not trusted" in told[0]["message"]
        with pytest.raises(Exception, match="not trusted"):
            editor.keep_secret({"name": "A", "value": "b"})
    assert api.asked == []
    assert not (tmp_path / ".onetool" / "secrets.yaml").exists()


def test_a_bundle_switches_to_an_environment_and_asks_for_what_is_new(
    box: Toolbox, editor: HttpToolRequests, api: Stub
) -> None:
    """A host that was never allowed is asked for, and the secret that it would get; then the draft
    goes there."""
    editor.allow_hosts({"hosts": [f"127.0.0.1:{api.port}"]})
    editor.keep_secret({"name": "API_TOKEN", "value": TOKEN})
    box.bundles.put_bundle(
        box.bundles.new_id(), slug="shop", display_name="shop", base_url=api.url("/live")
    )
    assert editor.environments({}) == {}
    save_environment(
        box,
        "shop",
        "test",
        Environment(base_url=api.url("/test"), auth=BEARER, variables={"region": "eu"}),
    )
    save_environment(
        box, "shop", "far", Environment(base_url="https://far.example.com", auth=BEARER)
    )

    assert editor.environments({}) == {"shop": {"names": ["test", "far"], "active": ""}}
    assert editor.switch({"bundle": "shop", "name": "test"}) == {}
    (bundle,) = editor.start({})["bundles"]
    assert (bundle["environment"], bundle["variables"]) == ("test", {"region": "eu"})
    assert editor.send({"tool": draft("/${region}"), "bundle": "shop"})["isOk"]
    assert api.asked[-1].path == "/test/eu"
    asked = editor.switch({"bundle": "shop", "name": "far"})["questions"]
    assert [one["key"] for one in asked] == [
        "API_TOKEN=far.example.com:443",
        "host:far.example.com",
    ]
    with pytest.raises(UsageProblem, match="no environment 'gone'"):
        editor.switch({"bundle": "shop", "name": "gone"})
    assert editor.environments({})["shop"]["active"] == "test"
    assert (
        editor.switch({"bundle": "shop", "name": "far", "agreed": [one["key"] for one in asked]})
        == {}
    )
    assert editor.environments({})["shop"]["active"] == "far"


def test_the_panel_says_of_a_failure_what_the_cell_says(
    box: Toolbox, editor: HttpToolRequests, api: Stub
) -> None:
    record = draft(api.url("/items"))
    editor.send({"tool": record, "agreed": [f"host:127.0.0.1:{api.port}"]})
    editor.save({"bundle": "shop", "slug": "items", "version": "", "tool": record})

    result = box.call("shop.items", {})
    shown = ResultViewer(box).show(result)["error"]

    assert shown["message"] == result.error.message
    assert shown["hint"].splitlines() == [
        f"It sent GET {api.url('/items')}",
        "This tool sends no auth.",
    ]
    assert "_" not in shown["title"]


def test_a_badge_and_a_filter_say_what_a_tool_is(
    box: Toolbox, editor: HttpToolRequests, api: Stub
) -> None:
    record = draft(api.url("/items"))
    editor.send({"tool": record, "agreed": [f"host:127.0.0.1:{api.port}"]})
    editor.save({"bundle": "shop", "slug": "items", "version": "", "tool": record})
    replies: list[Json] = []
    desk = ScreenRequests(box, send=replies.append, namespace=dict)
    for kind, payload in (
        ("overview", {}),
        ("tool", {"name": "shop.items"}),
        ("tool", {"name": "time.now"}),
        ("search", {"query": "", "filters": {"source": "HTTP"}, "limit": 9}),
    ):
        desk.receive({"id": 1, "kind": kind, "payload": payload})
    assert until(lambda: sum("id" in reply for reply in replies) == 4)
    desk.close()

    overview, http, python, filtered = (reply["value"] for reply in replies if "id" in reply)
    assert overview["sources"] == ["HTTP", "Python"]
    assert (http["source"], python["source"]) == ("HTTP", "Python")
    assert [item["name"] for item in filtered["items"]] == ["shop.items"]
