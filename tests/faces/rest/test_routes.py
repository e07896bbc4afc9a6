"""Every route of spec 002 over the wire: what it takes, what it answers, what is there
afterwards."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import uuid_utils

from onetool_ipy.faces.rest.routes import PREFIX, ROUTES
from tests.faces.rest.conftest import SECRET, Api
from tests.faces.rest.serving import Server, http_tool
from tests.harness.patience import HANG_S

FIELDS_OF_A_BUNDLE = {
    *(
        "bundleID",
        "slug",
        "displayName",
        "description",
        "isEnabled",
        "isBuiltIn",
        "createdAt",
        "modifiedAt",
    ),
}
FIELDS_OF_A_TOOL = {
    *(
        "toolID",
        "bundleID",
        "slug",
        "version",
        "displayName",
        "description",
        "tags",
        "type",
        "argSchema",
        "http",
    ),
    *(
        "isEnabled",
        "isBuiltIn",
        "available",
        "createdAt",
        "modifiedAt",
        "callCount",
        "lastCalledAt",
    ),
}


def _code(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert told["ok"] is False
    return str(told["error"]["code"])


def _items(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


@pytest.mark.spec("002/API Bundles/PUT creates or replaces")
def test_put_creates_a_bundle_then_replaces_it(api: Api) -> None:
    own = str(uuid_utils.uuid7())
    body = {"slug": "my-api", "displayName": "Mine", "isEnabled": True, "description": "first"}

    made = api.call("PUT", f"tools/bundles/{own}", json=body)
    replaced = api.call("PUT", f"tools/bundles/{own}", json={**body, "description": "second"})

    assert (made.status_code, replaced.status_code) == (201, 200)
    assert set(made.json()) == FIELDS_OF_A_BUNDLE
    assert (
        made.json() | {"bundleID": own, "description": "first", "isBuiltIn": False} == made.json()
    )
    assert replaced.json()["description"] == "second"
    assert replaced.json()["createdAt"] == made.json()["createdAt"]


@pytest.mark.spec("002/API Bundles/PATCH toggles isEnabled")
def test_patch_turns_a_bundle_off_and_on(api: Api) -> None:
    own = api.bundle()

    off = api.call("PATCH", f"tools/bundles/{own}", json={"isEnabled": False})

    assert off.status_code == 200
    assert off.json()["isEnabled"] is False
    assert off.json()["modifiedAt"] == off.json()["createdAt"]
    assert (
        api.call("PATCH", f"tools/bundles/{own}", json={"isEnabled": True}).json()["isEnabled"]
        is True
    )
    assert _code(
        api.call("PATCH", f"tools/bundles/{own}", json={"isEnabled": False, "slug": "x"}), 400
    )
    assert _code(
        api.call("PATCH", f"tools/bundles/{uuid_utils.uuid7()}", json={"isEnabled": False}), 404
    )


@pytest.mark.spec("002/API Bundles/DELETE soft-deletes")
def test_delete_takes_an_empty_bundle_only(api: Api) -> None:
    own = api.bundle()
    place = api.tool(own, "get-user", "/users/${id}")

    assert _code(api.call("DELETE", f"tools/bundles/{own}"), 409) == "conflict"
    assert api.call("DELETE", place).status_code == 204
    gone = api.call("DELETE", f"tools/bundles/{own}")

    assert (gone.status_code, gone.content) == (204, b"")
    assert own not in [each["bundleID"] for each in _items(api.call("GET", "tools/bundles"))]
    assert _code(api.call("DELETE", f"tools/bundles/{own}"), 404)
    body = {"slug": "other", "displayName": "x"}
    assert _code(api.call("PUT", f"tools/bundles/{own}", json=body), 409) == "conflict"


@pytest.mark.slow
@pytest.mark.spec("002/API Bundles/GET lists with bundleIDs includeDisabled pageSize pageToken")
def test_bundles_are_listed_page_by_page(api: Api) -> None:
    mine = [api.bundle(f"bundle-{n}", isEnabled=n != 3) for n in range(5)]

    shown = _items(api.call("GET", "tools/bundles"))
    every = _items(api.call("GET", "tools/bundles", params={"includeDisabled": "true"}))
    some = _items(api.call("GET", "tools/bundles", params={"bundleIDs": f"{mine[0]},{mine[1]}"}))
    same = _items(api.call("GET", "tools/bundles", params={"bundleIDs": [mine[0], mine[1]]}))

    assert [each["slug"] for each in shown if each["isBuiltIn"]] == ["time", "tools", "shell", "fs"]
    assert {each["bundleID"] for each in every} - {each["bundleID"] for each in shown} == {mine[3]}
    assert [each["bundleID"] for each in some] == [each["bundleID"] for each in same] == mine[:2]
    paged, token = [], None
    while True:
        query = {
            "pageSize": "2",
            "includeDisabled": "true",
            **({"pageToken": token} if token else {}),
        }
        page = api.call("GET", "tools/bundles", params=query)
        paged += _items(page)
        token = page.json().get("nextPageToken")
        if token is None:
            break
        foreign = api.call("GET", "tools/tools", params={"pageSize": "2", "pageToken": token})
        assert _code(foreign, 400) == "invalid_request"
    assert paged == every


@pytest.mark.spec("002/API Tools/PUT conflicts on the same pair")
def test_put_never_changes_a_tool(api: Api) -> None:
    own = api.bundle()
    place = api.tool(own, "get-user", "/users/${id}")
    before = api.call("GET", place).json()

    again = api.call(
        "PUT", place, json={**http_tool("https://example.com/"), "toolID": str(uuid_utils.uuid7())}
    )

    assert _code(again, 409) == "conflict"
    assert api.call("GET", place).json() == before
    assert (
        api.call("PUT", place[:-1] + "2", json=http_tool("https://example.com/")).status_code == 201
    )


@pytest.mark.spec("002/API Tools/GET one tool")
def test_get_gives_what_was_put(api: Api) -> None:
    own = api.bundle()
    place = api.tool(own, "get-user", "/users/${id}", version="1.0-β", tags=["users", "read"])

    tool = api.call("GET", place).json()

    assert set(tool) == FIELDS_OF_A_TOOL
    assert tool["version"] == "1.0-β"
    assert tool["tags"] == ["users", "read"]
    assert (tool["callCount"], tool["lastCalledAt"], tool["available"]) == (0, None, True)
    assert tool["http"]["request"]["urlTemplate"].endswith("/users/${id}")


@pytest.mark.spec("002/API Tools/PATCH only isEnabled")
def test_patch_turns_one_version_off(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")

    off = api.call("PATCH", place, json={"isEnabled": False})

    assert off.json()["isEnabled"] is False
    assert off.json()["modifiedAt"] == api.call("GET", place).json()["createdAt"]
    assert _code(api.call("PATCH", place, json={"isEnabled": True, "description": "x"}), 400)
    assert _code(api.call("PATCH", place, json={"isEnabled": "yes"}), 400)
    assert api.call("GET", place).json()["isEnabled"] is False


@pytest.mark.spec("002/API Tools/DELETE hard-deletes")
def test_delete_removes_a_tool_for_good(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")
    files = set(api.folder.rglob("*.json"))

    assert api.call("DELETE", place).status_code == 204

    assert _code(api.call("GET", place), 404)
    assert _code(api.call("DELETE", place), 404)
    assert len(set(api.folder.rglob("*.json"))) == len(files) - 1


@pytest.mark.slow
@pytest.mark.spec("002/API Tools/GET global list with its filters")
def test_tools_are_listed_over_all_bundles(api: Api) -> None:
    one, two = api.bundle("one"), api.bundle("two")
    for n in range(3):
        api.tool(one, f"tool-{n}", "/users/1", tags=[f"tag-{n}"])
    api.tool(two, "tool-0", "/users/1", isEnabled=False)

    def slugs(**query: Any) -> list[str]:
        return [each["slug"] for each in _items(api.call("GET", "tools/tools", params=query))]

    assert slugs(bundleIDs=one) == ["tool-0", "tool-1", "tool-2"]
    assert slugs(bundleIDs=two) == []
    assert slugs(bundleIDs=two, includeDisabled="true") == ["tool-0"]
    assert slugs(tags="tag-1") == ["tool-1"]
    assert slugs(tags="tag-1,tag-2") == ["tool-1", "tool-2"]
    assert len(slugs(recommendedPageSize="2")) == 2
    assert slugs(bundleIDs=one, pageSize="300") == ["tool-0", "tool-1", "tool-2"]
    assert {"now", "echo", "pwd", "list-dir", "read-file"} <= set(slugs())


@pytest.mark.spec("002/API Tools/GET global search with its filters")
def test_tools_are_found_by_words_and_with_typos(api: Api) -> None:
    own = api.bundle("people")
    api.tool(own, "find-person", "/users/1", description="Look somebody up.")
    api.tool(own, "hidden-person", "/users/1", isEnabled=False)

    def slugs(**query: Any) -> list[str]:
        return [
            each["slug"] for each in _items(api.call("GET", "tools/tools/search", params=query))
        ]

    assert slugs(q="find-person")[0] == "find-person"
    assert slugs(q="find-persn")[0] == "find-person"
    assert slugs(q="somebody") == ["find-person"]
    assert "hidden-person" not in slugs(q="person")
    assert "hidden-person" in slugs(q="person", includeDisabled="true")
    assert len(slugs(q="person", includeDisabled="true", pageSize="1")) == 1
    assert isinstance(slugs(q=""), list)


@pytest.mark.spec("002/Non-functional/Built-ins are served by the normal API")
def test_built_ins_are_on_the_same_routes_and_read_only(api: Api) -> None:
    bundles = {each["slug"]: each for each in _items(api.call("GET", "tools/bundles"))}
    own = bundles["time"]["bundleID"]
    place = f"tools/bundles/{own}/tools/now/version/1"

    assert api.call("GET", place).json()["isBuiltIn"] is True
    assert (
        _code(
            api.call("PUT", f"tools/bundles/{own}", json={"slug": "time", "displayName": "x"}), 403
        )
        == "forbidden"
    )
    assert _code(api.call("DELETE", f"tools/bundles/{own}"), 403)
    assert _code(api.call("PUT", place, json=http_tool("https://example.com/")), 403)
    assert _code(api.call("DELETE", place), 403)
    assert api.invoke(place).json()["ok"] is True
    assert api.call("PATCH", f"tools/bundles/{own}", json={"isEnabled": False}).status_code == 200
    refused = api.invoke(place)
    assert _code(refused, 403) == "tool_not_found"
    assert refused.json()["error"]["reason"] == "disabled"
    assert api.call("PATCH", f"tools/bundles/{own}", json={"isEnabled": True}).status_code == 200
    assert api.invoke(place).status_code == 200


@pytest.mark.spec("002/Behaviour/No PUT or PATCH inside a disabled bundle")
def test_inside_a_disabled_bundle_only_get_and_delete_work(api: Api) -> None:
    own = api.bundle()
    place = api.tool(own, "get-user", "/users/${id}")
    api.call("PATCH", f"tools/bundles/{own}", json={"isEnabled": False})

    assert _code(api.call("PUT", place + "2", json=http_tool("https://example.com/")), 403)
    assert _code(api.call("PATCH", place, json={"isEnabled": False}), 403)
    assert _code(api.invoke(place, {"id": 1}), 403)
    assert api.upstream.seen == []
    assert api.call("GET", place).status_code == 200
    assert api.call("DELETE", place).status_code == 204


@pytest.mark.parametrize(
    "slug",
    ["a_b", "a b", "a/b", "", "a" * 65, "😀" * 64, "a\u0301/" + "x", "a\x00b", "a.b", 5, None],
)
def test_bad_slugs_are_refused(api: Api, slug: Any) -> None:
    answer = api.call(
        "PUT", f"tools/bundles/{uuid_utils.uuid7()}", json={"slug": slug, "displayName": "x"}
    )

    assert _code(answer, 400) == "invalid_request"


def test_slugs_that_look_the_same_are_the_same(api: Api) -> None:
    api.bundle(unicodedata.normalize("NFC", "café"))

    body = {"slug": unicodedata.normalize("NFD", "café"), "displayName": "x"}
    twin = api.call("PUT", f"tools/bundles/{uuid_utils.uuid7()}", json=body)
    longest = api.call(
        "PUT", f"tools/bundles/{uuid_utils.uuid7()}", json={"slug": "𠀀" * 64, "displayName": "x"}
    )

    assert _code(twin, 409) == "conflict"
    assert longest.status_code == 201


@pytest.mark.parametrize("version", ["%2E", "%2E%2E", "v%201", "a_b", "%00", "x" * 65, "a%2Fb"])
def test_bad_versions_are_refused(server: Server, api: Api, version: str) -> None:
    import http.client

    own, place = api.bundle(), urlsplit(server.address)
    raw = http.client.HTTPConnection(place.hostname or "", place.port, timeout=HANG_S)
    path = (
        f"{place.path}onetool/tools/bundles/{own}/tools/x/version/{version}?project={api.project}"
    )
    raw.request("PUT", path, body="{}", headers={"Authorization": f"token {server.token}"})

    assert raw.getresponse().status == 400
    raw.close()


@pytest.mark.parametrize(
    "change",
    [
        {"type": "other"},
        {"type": "go"},
        {"argSchema": {"type": "array"}},
        {
            "argSchema": {
                "type": "object",
                "properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}},
            }
        },
        {"argSchema": {"type": "object", "properties": {"API_KEY": {"type": "string"}}}},
        {"http": {"request": {"urlTemplate": "ftp://example.com/"}}},
        {"http": {"request": {"urlTemplate": "https://${host}/"}}},
        {"http": {"request": {"urlTemplate": "https://user:pass@example.com/"}}},
        {
            "http": {
                "request": {"urlTemplate": "https://example.com/", "headers": {"A": "b\r\nC: d"}}
            }
        },
        {"http": {"request": {"urlTemplate": "https://example.com/"}, "steps": []}},
        {"http": {"steps": []}},
        {
            "http": {
                "request": {"urlTemplate": "https://example.com/"},
                "response": {"selector": "]["},
            }
        },
        {"limits": {"maxCallsPerMinute": 0}},
        {"tags": ["a,b"]},
        {"unknown": 1},
        {"displayName": 5},
        {"description": "x" * 200_000},
    ],
    ids=lambda change: str(change)[:60],
)
def test_records_that_could_not_be_called_are_not_stored(api: Api, change: dict[str, Any]) -> None:
    own = api.bundle()
    place = f"tools/bundles/{own}/tools/x/version/1"

    answer = api.call("PUT", place, json={**http_tool("https://example.com/"), **change})

    assert _code(answer, 400) == "invalid_request"
    assert _code(api.call("GET", place), 404)


def test_every_route_is_in_the_description(server: Server) -> None:
    told = server.client.get("onetool/openapi.json").json()
    assert told["servers"] == [{"url": server.base_url.rstrip("/")}]
    place = urljoin(server.address, told["servers"][0]["url"] + "/onetool/openapi.json")
    assert server.client.get(place).json() == told, (
        "a client that follows servers and paths arrives"
    )

    listed = {(verb.upper(), path) for path, verbs in told["paths"].items() for verb in verbs}
    names = [
        operation["operationId"] for verbs in told["paths"].values() for operation in verbs.values()
    ]
    assert told["openapi"].startswith("3.1")
    assert listed == {(route.verb, route.path) for route in ROUTES}
    assert all(path.startswith(PREFIX) for _, path in listed)
    assert len(set(names)) == len(names)
    for verbs in told["paths"].values():
        for operation in verbs.values():
            assert "project" in [each["name"] for each in operation["parameters"]]
            assert {"400", "403", "413"} <= set(operation["responses"])


def test_the_contract_names_these_routes_and_trust_has_its_own() -> None:
    tool = "/onetool/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}"
    bundle = "/onetool/tools/bundles/{bundleID}"
    wanted = {
        ("GET", "/onetool/tools/bundles"),
        *((verb, bundle) for verb in ("PUT", "PATCH", "DELETE")),
        *((verb, tool) for verb in ("PUT", "PATCH", "DELETE", "GET")),
        ("POST", f"{tool}/invoke"),
        ("GET", "/onetool/tools/tools"),
        ("GET", "/onetool/tools/tools/search"),
        ("POST", "/onetool/tools/test"),
        ("POST", "/onetool/tools/import"),
        ("POST", "/onetool/tools/import/preview"),
        *((verb, "/onetool/trust") for verb in ("GET", "POST")),
        ("GET", "/onetool/openapi.json"),
    }

    assert {(route.verb, route.path) for route in ROUTES} == wanted


def test_nothing_that_leaves_holds_a_secret(api: Api, new_api: Callable[..., Api]) -> None:
    own = api.bundle("leaky", description=f"the key is {SECRET}")
    place = api.tool(own, "leak", "/users/1", description=SECRET)

    for answer in (
        api.call("GET", place),
        api.call("GET", "tools/bundles"),
        api.call("GET", "tools/tools"),
    ):
        assert SECRET not in answer.text
        assert "***" in answer.text
    assert SECRET not in api.call("GET", "tools/tools/search", params={"q": SECRET}).text
    missing = api.call("GET", f"tools/bundles/{own}/tools/{SECRET}/version/1")
    assert SECRET not in missing.text
