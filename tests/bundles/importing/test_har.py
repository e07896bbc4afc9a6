"""HAR files: which requests of a browser become tools, what these send, and that no credential is kept."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest, OperationChoice
from onetool_ipy.bundles.importing.formats import import_document
from tests.bundles.importing.imported import ImportedTools

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLWl0"
COOKIE = "sid=cookie-value-1; theme=dark"


def entry(url: str, method: str = "GET", *, mime: str = "application/json", **parts: Any) -> dict[str, Any]:
    headers = [{"name": name, "value": value} for name, value in parts.pop("headers", {}).items()]
    response = {"status": 200, "content": {"mimeType": mime, "size": 3}}
    more = {key: parts.pop(key) for key in ("_resourceType",) if key in parts}
    return {"request": {"method": method, "url": url, "headers": headers, **parts}, "response": response, **more}


def har(*entries: Any) -> dict[str, Any]:
    return {"log": {"version": "1.2", "creator": {"name": "WebInspector"}, "entries": list(entries)}}


def body(mime: str, text: str = "", **parts: Any) -> dict[str, Any]:
    return {"mimeType": mime, "text": text, **parts}


BROWSER = {
    ":authority": "a.test",
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "User-Agent": "Mozilla/5.0",
    "sec-ch-ua": "Chromium",
    "Cookie": COOKIE,
    "Authorization": f"Bearer {JWT}",
    "X-Csrf-Token": "csrf-value-1",
    "X-App": "web",
}


def names(draft: BundleDraft) -> list[str]:
    return [tool["slug"] for tool in draft.tools]


LOGIN = {"user": {"name": "ada", "password": "hunter2-literal"}, "device": "a1b2c3d4e5f6a7b8c9d0", "keep": True}
FILE = [{"name": "f", "fileName": "a"}, {"name": "t", "value": "T"}]
BASE = "http://HOST/echo/api"
SESSION = har(
    entry(f"{BASE}/users/7?fields=name&_=123", headers=BROWSER),
    entry(f"{BASE}/users/8?fields=all&verbose=1", headers=BROWSER),
    entry(f"{BASE}/login", "POST", postData=body("application/json", json.dumps(LOGIN))),
    entry(f"{BASE}/search", "POST", postData=body("application/x-www-form-urlencoded", "q=a+b&api_key=key-literal-1")),
    entry(f"{BASE}/note", "POST", postData=body("text/plain", "private words")),
    entry(f"{BASE}/doc", "PUT", postData=body("multipart/form-data; boundary=x", params=FILE)),
)
SECRETS = {
    "WEB_TOKEN": "token-1",
    "WEB_COOKIE": "sid=new-1",
    "WEB_CSRF_TOKEN": "csrf-2",
    "WEB_PASSWORD": "new-pass",
    "WEB_API_KEY": "new-key",
}


def test_requests_are_sent_again_with_arguments_and_our_own_secrets(imported: ImportedTools) -> None:
    draft = imported.store(json.dumps(SESSION), "web", SECRETS)

    assert names(draft) == ["get-users-user-id", "post-login", "post-search", "post-note", "put-doc"]
    seen = imported.sent("web.get-users-user-id", user_id=9)
    assert (seen.path, seen.query) == ("/echo/api/users/9", {"fields": "name"})
    sent = {name: seen.headers.get(name) for name in ("authorization", "cookie", "x-csrf-token", "x-app", "accept")}
    assert sent == {
        "authorization": "Bearer token-1",
        "cookie": "sid=new-1",
        "x-csrf-token": "csrf-2",
        "x-app": "web",
        "accept": "application/json",
    }
    assert not {"sec-ch-ua", ":authority"} & seen.headers.keys()
    assert imported.sent("web.get-users-user-id", user_id=9, verbose=2).query == {"fields": "name", "verbose": "2"}


def test_bodies_are_sent_again_with_arguments_and_our_own_secrets(imported: ImportedTools) -> None:
    imported.store(json.dumps(SESSION), "web", SECRETS)

    login = imported.sent("web.post-login", device="mine")
    assert json.loads(login.body) == {"user": {"name": "ada", "password": "new-pass"}, "device": "mine", "keep": True}
    assert parse_qsl(imported.sent("web.post-search").body.decode()) == [("q", "a b"), ("api_key", "new-key")]
    assert imported.sent("web.post-note", body="hello").body == b"hello"
    assert b"content" in imported.sent("web.put-doc", f="content").body


@pytest.mark.parametrize(
    "value",
    [JWT, "cookie-value-1", "csrf-value-1", "hunter2-literal", "key-literal-1", "private words", LOGIN["device"]],
)
def test_no_credential_and_no_private_text_is_kept(value: str) -> None:
    text = json.dumps(SESSION).replace("HOST", "a.test")
    draft = import_document(text, ImportRequest(slug="web"))

    assert value in text
    assert value not in json.dumps([draft.tools, draft.secrets, draft.bundle, draft.notes])


def test_what_is_no_call_of_an_api_is_counted() -> None:
    draft = import_document(
        har(
            entry("https://a.test/logo.png", mime="image/png"),
            entry("https://a.test/app.js?v=1", mime="application/octet-stream"),
            entry("https://a.test/f", mime="font/woff2"),
            entry("https://a.test/style", _resourceType="stylesheet"),
            entry("https://a.test/api/x", "OPTIONS", _resourceType="preflight"),
            entry("https://a.test/", mime="text/html; charset=utf-8"),
            entry("wss://a.test/socket"),
            entry("data:text/plain,x"),
            entry("https://a.test/api/items"),
            entry("https://a.test/api/items"),
        )
    )

    assert names(draft) == ["get-api-items"]
    assert draft.notes == [
        "5 images, fonts, scripts and styles are left out",
        "1 pages are left out",
        "2 requests without an http address are left out",
    ]
    assert draft.bundle["slug"] == "a-test"
    assert draft.bundle["description"] == "Made of a HAR file with 10 requests."


def test_paths_with_ids_are_one_tool_and_names_are_short() -> None:
    uuid = "0190b5a0-1111-7000-8000-00000000000"
    paths = [f"users/{n}/orders/{uuid}{n}" for n in (1, 2)] + ["categories/abcdef0123456789", "status", "x/ann@b.test"]

    draft = import_document(har(*(entry(f"https://a.test/api/v2/{path}") for path in paths)))

    assert names(draft) == [
        "get-users-user-id-orders-order-id",
        "get-categories-category-id",
        "get-status",
        "get-x-x-id",
    ]
    assert (
        draft.tools[0]["http"]["request"]["urlTemplate"] == "https://a.test/api/v2/users/${user_id}/orders/${order_id}"
    )
    kinds = {name: each["type"] for name, each in draft.tools[0]["argSchema"]["properties"].items()}
    assert kinds == {"user_id": "integer", "order_id": "string"}
    assert [tool["tags"] for tool in draft.tools] == [["users"], ["categories"], ["status"], ["x"]]


def test_operations_of_graphql_are_tools_of_their_own() -> None:
    def ask(name: str) -> dict[str, Any]:
        text = json.dumps({"operationName": name, "query": f"query {name} {{x}}", "variables": {"a": 1}})
        return entry("https://a.test/graphql", "POST", postData=body("application/json", text))

    draft = import_document(har(ask("ListUsers"), ask("GetUser"), ask("ListUsers")))

    assert names(draft) == ["ListUsers", "GetUser"]


def test_hosts_are_tags_with_secrets_of_their_own() -> None:
    def call(host: str) -> dict[str, Any]:
        return entry(f"https://{host}/x", headers={"Cookie": f"sid={host}-1"})

    whole = har(call("a.co.test"), call("b.co.test"))

    draft = import_document(whole)
    assert draft.hosts == ["a.co.test", "b.co.test"]
    assert [each["name"] for each in draft.secrets] == ["A_CO_TEST_COOKIE", "B_CO_TEST_COOKIE"]
    chosen = import_document(whole, ImportRequest(choice=OperationChoice(tags=("b.co.test",))))
    assert [tool["http"]["request"]["urlTemplate"] for tool in chosen.tools] == ["https://b.co.test/x"]


def test_another_server_is_called_where_one_is_given() -> None:
    draft = import_document(har(entry("https://a.test/x/1")), ImportRequest(server="http://localhost:8000/base"))

    assert draft.tools[0]["http"]["request"]["urlTemplate"] == "http://localhost:8000/base/x/${x_id}"


def test_fifty_thousand_entries_are_few_tools() -> None:
    draft = import_document(har(*(entry(f"https://a.test/api/{n % 50}x/{n}?a={n}") for n in range(50_000))))

    assert len(draft.tools) == draft.offered == 50


@pytest.mark.parametrize("entries", [[], [None, 5, {}, {"request": {"url": 3}}], [entry("https://a.test/x.png")]])
def test_a_file_without_calls_is_refused(entries: list[Any]) -> None:
    with pytest.raises(InvalidRequest, match="no operation that can be a tool"):
        import_document(har(*entries))


def test_hostile_entries_cost_a_note() -> None:
    evil = "${SECRET}\x1b[31m"
    deep = "[" * 5000 + "]" * 5000
    draft = import_document(
        har(
            entry(f"https://a.test/{evil}", headers={evil: evil, "X-A": f"{evil}\r\nX-B: 1", "X-Ok": "\ue000x\ue001"}),
            entry("https://a.test/deep", "POST", postData=body("application/json", deep)),
            entry(
                "https://a.test/form", "POST", postData=body("application/json", '{"${A}": "${B}", "\ue000c\ue001": 1}')
            ),
            entry("https://[::1", "GET"),
            entry("https://a.test/brew", "BREW"),
        )
    )

    kept = json.dumps([draft.tools, draft.notes])
    assert "\\u001b" not in kept
    assert "\\ue000" not in json.dumps([tool["http"] for tool in draft.tools])
    assert draft.secrets == []
    assert "BREW /brew is left out: The method 'BREW' cannot be sent." in draft.notes
    form = next(tool for tool in draft.tools if tool["slug"] == "post-form")
    assert form["argSchema"]["properties"]["body"]["default"]["${A}"] == "${B}"
