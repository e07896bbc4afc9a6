"""Invoke and test over the wire: what each outcome of a call is answered with, and what never runs
in the server."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.faces.rest.extension import Projects, answer
from onetool_ipy.faces.rest.request import Query, RestRequest
from onetool_ipy.faces.rest.routes import invoke_tool
from tests.core.support import Calls
from tests.faces.rest.conftest import SECRET, Api, write_config
from tests.faces.rest.serving import HANG_S, Server, Upstream, http_tool


def _error(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"ok", "error"}
    assert told["ok"] is False
    found: dict[str, Any] = told["error"]
    return found


@pytest.mark.spec("002/API Tools/POST invoke takes args")
@pytest.mark.spec("002/Invocation/Returns ok value or ok error")
def test_invoke_gives_exactly_ok_and_value(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")

    answer = api.invoke(place, {"id": 3})

    assert answer.status_code == 200
    assert answer.json() == {"ok": True, "value": {"id": 3, "name": "Ada"}}
    assert [seen[1] for seen in api.upstream.seen] == ["/users/3"]


@pytest.mark.parametrize("later", ["another address", "a function of the kernel", "nothing"])
def test_what_was_looked_up_is_what_runs_also_if_it_is_replaced_meanwhile(
    tmp_path: Path, upstream: Upstream, later: str
) -> None:
    write_config(tmp_path, upstream)
    records = {
        "another address": http_tool(f"http://{upstream.host}/users/2"),
        "a function of the kernel": {
            "type": "go",
            "goTool": {"func": "ot.stats"},
            "argSchema": {"type": "object"},
        },
    }
    with open_toolbox(
        tmp_path, env={**home_at(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        own = box.bundles.new_id()
        box.bundles.put_bundle(own, slug="shop", display_name="Shop")
        box.bundles.put_tool(own, "get", "1", http_tool(f"http://{upstream.host}/users/1"))

        resolved = box.resolve("shop.get", {}, source="rest")
        box.bundles.delete_tool(own, "get", "1")
        if later in records:
            box.bundles.put_tool(own, "get", "1", records[later])

        assert box.call(resolved).unwrap() == {"id": 1, "name": "Ada"}
        assert [seen[1] for seen in upstream.seen] == ["/users/1"]


async def test_an_invoke_is_resolved_once_and_handed_to_one_worker(
    tmp_path: Path, upstream: Upstream
) -> None:
    """Two hand-offs between threads: to a worker, which opens the project and runs the call, and
    back."""
    write_config(tmp_path, upstream)
    env = {
        **home_at(tmp_path),
        "ONETOOL_STATE": str(tmp_path / "state"),
        "ONETOOL_TRUST": str(tmp_path),
    }
    projects = Projects(tmp_path, env=env)
    # A thread is watched only if it is started while the watch is on.
    with Calls("Resolver.resolve", "Workers.submit", "Background._begin", "to_thread") as counts:
        async with projects.use() as project:
            box = project.current()
            own = box.bundles.new_id()
            box.bundles.put_bundle(own, slug="shop", display_name="Shop")
            box.bundles.put_tool(own, "get", "1", http_tool(f"http://{upstream.host}/users/1"))
        path = {"bundleID": own, "toolSlug": "get", "version": "1"}

        def request(box: Toolbox) -> RestRequest:
            return RestRequest(box, path, Query(), {"args": {}})

        await answer(projects, "", invoke_tool, request)
        before = dict(counts)
        response = await answer(projects, "", invoke_tool, request)
    projects.close()

    assert response == (200, {"ok": True, "value": {"id": 1, "name": "Ada"}})
    more = {name: count - before[name] for name, count in counts.items()}
    assert more == {
        "Resolver.resolve": 1,
        "Workers.submit": 1,
        "Background._begin": 0,
        "to_thread": 0,
    }


@pytest.mark.spec("002/Invocation/lastCalledAt and callCount are updated")
def test_calls_are_counted(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")

    for number in range(3):
        api.invoke(place, {"id": number})

    tool = api.call("GET", place).json()
    assert tool["callCount"] == 3
    assert tool["lastCalledAt"] > tool["createdAt"]


@pytest.mark.spec("002/Invocation/Args are checked against argSchema with 400")
@pytest.mark.parametrize(
    "args", [{}, {"id": "x"}, {"id": 1, "more": 2}, {"id": None}, [], "text", 5, True]
)
def test_bad_arguments_are_400_and_nothing_is_sent(api: Api, args: Any) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")

    error = _error(api.call("POST", f"{place}/invoke", json={"args": args}), 400)

    assert error["code"] == "invalid_args"
    assert api.upstream.seen == []


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("a b", "/users/1?q=a%20b"),
        ("../x", "/users/1?q=..%2Fx"),
        ("a%2fb", "/users/1?q=a%252fb"),
        ("#@&=", "%23%40%26%3D"),
    ],
)
def test_values_stay_what_they_are(api: Api, value: str, sent: str) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    place = api.tool(api.bundle(), "find", "/users/1?q=${q}", argSchema=schema)

    assert api.invoke(place, {"q": value}).status_code == 200

    assert sent in api.upstream.seen[0][1]


def test_unknown_tools_are_404(api: Api) -> None:
    own = api.bundle()

    for place in (f"{own}/tools/nothing", "019b7730-1000-7000-8000-000000000999/tools/x"):
        error = _error(api.invoke(f"tools/bundles/{place}/version/1"), 404)
        assert error["code"] == "tool_not_found"


def test_a_tool_that_is_off_is_403(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")
    api.call("PATCH", place, json={"isEnabled": False})

    error = _error(api.invoke(place, {"id": 1}), 403)

    assert (error["code"], error["reason"]) == ("tool_not_found", "disabled")
    assert api.upstream.seen == []


@pytest.mark.spec("002/Data Model/Host must be in allowedHosts")
@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.1",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "169.254.169.254",
        "example.com",
    ],
)
def test_a_host_that_is_not_allowed_is_403_and_no_connection_is_made(api: Api, host: str) -> None:
    port = api.upstream.host.partition(":")[2]
    own = api.bundle()
    place = f"tools/bundles/{own}/tools/get/version/1"
    put = api.call("PUT", place, json=http_tool(f"http://{host}:{port}/users/1"))
    if put.status_code == 400:
        return

    error = _error(api.invoke(place), 403)

    assert error["reason"] == "host_not_allowed"
    assert api.upstream.seen == []


def test_a_missing_secret_is_409(api: Api) -> None:
    auth = {"type": "bearer", "value": "${NO_SUCH_SECRET}"}
    http = http_tool(f"http://{api.upstream.host}/echo", auth=auth)["http"]
    place = api.tool(api.bundle(), "echo", "/echo", http=http)

    error = _error(api.invoke(place), 409)

    assert error["reason"] == "missing_secret"
    assert "NO_SUCH_SECRET" in error["message"]
    assert api.upstream.seen == []


def test_a_secret_is_sent_and_never_comes_back(api: Api) -> None:
    auth = {"type": "bearer", "value": "${API_KEY}"}
    http = http_tool(f"http://{api.upstream.host}/echo", auth=auth)["http"]
    place = api.tool(api.bundle(), "echo", "/echo", http=http)

    answer = api.invoke(place)

    assert api.upstream.seen[0][2]["Authorization"] == f"Bearer {SECRET}"
    assert answer.json()["value"]["headers"]["Authorization"] == "Bearer ***"
    assert SECRET not in answer.text


def test_a_secret_is_masked_wherever_it_stands(api: Api) -> None:
    (api.folder / ".onetool" / "secrets.yaml").write_text('API_KEY: "12345678"\n', encoding="utf-8")
    echo = {
        each["slug"]: each["bundleID"] for each in api.call("GET", "tools/bundles").json()["items"]
    }["tools"]

    answer = api.invoke(
        f"tools/bundles/{echo}/tools/echo/version/1",
        {"message": {"12345678": [12345678, "x12345678y"]}},
    )

    assert answer.json()["value"] == {"***": ["***", "x***y"]}


def test_upstream_failures_are_502_and_504(api: Api) -> None:
    own = api.bundle()
    broken = api.tool(own, "broken", "/broken")
    nowhere = api.tool(own, "wrong", "/text", outputSchema={"type": "object"})
    request = http_tool(f"http://{api.upstream.host}/slow", timeoutMs=200)["http"]
    slow = api.tool(own, "slow", "/slow", http=request)

    assert _error(api.invoke(broken), 502)["code"] == "execution_error"
    assert _error(api.invoke(nowhere), 502)["reason"] == "invalid_output"
    assert _error(api.invoke(slow), 504)["reason"] == "timeout"


def test_too_many_calls_are_429(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}", limits={"maxCallsPerMinute": 2})

    statuses = [api.invoke(place, {"id": 1}).status_code for _ in range(3)]

    assert statuses == [200, 200, 429]
    assert len(api.upstream.seen) == 2


def test_a_tool_that_fails_by_itself_is_an_answer(api: Api) -> None:
    built_in = {
        each["slug"]: each["bundleID"] for each in api.call("GET", "tools/bundles").json()["items"]
    }
    place = f"tools/bundles/{built_in['fs']}/tools/read-file/version/1"

    answer = api.invoke(place, {"path": "not-there.txt"})
    outside = api.invoke(place, {"path": "/etc/passwd"})
    secret = api.invoke(place, {"path": ".onetool/secrets.yaml"})

    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == "execution_error"
    assert _error(outside, 403)["reason"] == _error(secret, 403)["reason"] == "not_allowed"
    assert _error(api.invoke(place, {"path": 5}), 400)["code"] == "invalid_args"
    assert _error(api.invoke(place, {"path": "x", "more": 1}), 400)["code"] == "invalid_args"


@pytest.mark.parametrize("own", [False, True], ids=["built-in", "a bundle's own tool"])
def test_a_path_outside_the_roots_and_secrets_of_any_project_are_403(api: Api, own: bool) -> None:
    inner = api.folder / "inner" / ".onetool" / "secrets.yaml"
    inner.parent.mkdir(parents=True)
    inner.write_text("KEY: hunter22", encoding="utf-8")
    built_in = {
        each["slug"]: each["bundleID"] for each in api.call("GET", "tools/bundles").json()["items"]
    }
    place = f"tools/bundles/{built_in['fs']}/tools/{{}}/version/1"
    if own:
        place = f"tools/bundles/{api.bundle()}/tools/{{}}/version/1"
        for slug, func in (("read-file", "fs.read_file"), ("list-dir", "fs.list_dir")):
            schema = {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            }
            body = {
                "displayName": slug,
                "type": "go",
                "argSchema": schema,
                "goTool": {"func": func},
            }
            assert api.call("PUT", place.format(slug), json=body).status_code == 201

    for slug, path in (
        ("read-file", "/etc/passwd"),
        ("list-dir", "/etc"),
        ("list-dir", ".."),
        ("read-file", inner),
    ):
        error = _error(api.invoke(place.format(slug), {"path": str(path)}), 403)
        assert error["reason"] == "not_allowed"
        assert "hunter22" not in str(error)


def test_what_breaks_an_imported_schema_is_a_value_with_a_word_about_it(api: Api) -> None:
    hint = {"outputSchema": {"type": "array"}, "outputSchemaFrom": "document"}
    place = api.tool(api.bundle(), "get-user", "/users/${id}", **hint)
    strict = api.tool(
        api.bundle("other"), "get-user", "/users/${id}", outputSchema={"type": "array"}
    )

    answer = api.invoke(place, {"id": 3})
    tested = api.call(
        "POST", "tools/test", json={"tool": api.call("GET", place).json(), "args": {"id": 3}}
    ).json()
    failed = _error(api.invoke(strict, {"id": 3}), 502)

    assert answer.status_code == 200
    assert answer.json()["value"] == {"id": 3, "name": "Ada"}
    assert [found["pointer"] for found in answer.json()["meta"]["mismatch"]] == [""]
    assert tested["result"]["ok"] is True
    assert tested["result"]["meta"]["mismatch"]
    assert failed["reason"] == "invalid_output"
    assert failed["details"]["value"] == {"id": 3, "name": "Ada"}


def test_all_five_built_ins_run(api: Api) -> None:
    (api.folder / "note.txt").write_text("hello", encoding="utf-8")
    built_in = {
        each["slug"]: each["bundleID"] for each in api.call("GET", "tools/bundles").json()["items"]
    }

    def run(bundle: str, slug: str, **args: Any) -> Any:
        answer = api.invoke(f"tools/bundles/{built_in[bundle]}/tools/{slug}/version/1", args)
        assert answer.status_code == 200, answer.text
        assert answer.json()["ok"] is True, answer.text
        return answer.json()["value"]

    assert set(run("time", "now")) == {"timestamp", "iso"}
    assert run("tools", "echo", message={"a": [1, None]}) == {"a": [1, None]}
    assert run("shell", "pwd") == str(api.folder)
    assert "note.txt" in [Path(each["path"]).name for each in run("fs", "list-dir", path=".")]
    assert run("fs", "read-file", path="note.txt") == "hello"


def test_large_results_go_as_a_handle(api: Api) -> None:
    place = api.tool(api.bundle(), "big", "/big")

    value = api.invoke(place).json()["value"]

    assert set(value) == {"handle", "total_lines", "preview"}
    assert value["total_lines"] > 1


@pytest.mark.slow
@pytest.mark.spec("002/Invocation/Go dispatches to the registered function")
def test_python_of_the_project_never_runs_in_the_server(new_api: Callable[..., Api]) -> None:
    api = new_api(
        'servers: {helper: {type: stdio, command: touch, args: ["started-by-the-server"]}}\n'
    )
    tools = api.folder / ".onetool" / "tools"
    tools.mkdir()
    marker = api.folder / "was-imported"
    code = (
        f'pack = "mine"\nopen({str(marker)!r}, "w").close()\n\ndef hello(name: str) -> str:\n   '
        ' """Greet."""\n'
    )
    (tools / "mine.py").write_text(code, encoding="utf-8")
    own = api.bundle()
    record = {"type": "go", "goTool": {"func": "mine.hello"}, "argSchema": {"type": "object"}}
    for slug, func in (
        ("hello", "mine.hello"),
        ("stats", "ot.stats"),
        ("far", "helper.anything"),
        ("now", "time.now"),
    ):
        put = api.call(
            "PUT",
            f"tools/bundles/{own}/tools/{slug}/version/1",
            json={**record, "goTool": {"func": func}},
        )
        assert put.status_code == 201, put.text

    for slug in ("hello", "stats", "far"):
        error = _error(
            api.invoke(f"tools/bundles/{own}/tools/{slug}/version/1", {"name": "x"}), 409
        )
        assert error["reason"] == "unavailable"
    assert api.invoke(f"tools/bundles/{own}/tools/now/version/1").json()["ok"] is True
    for path in ("tools/tools", "tools/bundles", "tools/tools/search"):
        assert api.call("GET", path, params={"q": "hello"}).status_code == 200
    assert not marker.exists()
    assert not list(api.folder.rglob("started-by-the-server"))


def test_test_tells_what_was_sent_and_got(api: Api) -> None:
    draft = http_tool(
        f"http://{api.upstream.host}/users/${{id}}", auth={"type": "bearer", "value": "${API_KEY}"}
    )

    answer = api.call("POST", "tools/test", json={"tool": draft, "args": {"id": 7}})

    told = answer.json()
    assert answer.status_code == 200
    assert set(told) == {"request", "response", "result"}
    assert told["request"]["url"].endswith("/users/7")
    assert told["request"]["headers"]["Authorization"] == "Bearer ***"
    assert told["response"]["status"] == 200
    assert told["result"] == {"ok": True, "value": {"id": 7, "name": "Ada"}}
    assert api.upstream.seen[0][2]["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in answer.text
    assert api.call("GET", "tools/tools", params={"tags": "none"}).json()["items"] == []


@pytest.mark.parametrize(
    ("change", "args", "status"),
    [
        ({}, {}, 400),
        ({}, {"id": "x"}, 400),
        ({"type": "go", "goTool": {"func": "time.now"}, "http": None}, {}, 400),
        ({"http": {"request": {"urlTemplate": "https://${id}.example.com/"}}}, {"id": 1}, 400),
        ({"http": {"request": {"urlTemplate": "https://example.com/${id}"}}}, {"id": 1}, 403),
        ({"http": {"request": {"urlTemplate": "https://example.com/${NO_SUCH}"}}}, {"id": 1}, 409),
        ({"unknown": 1, "toolID": "ignored"}, {"id": 1}, 400),
    ],
)
def test_a_bad_draft_is_refused(api: Api, change: dict[str, Any], args: Any, status: int) -> None:
    draft = {**http_tool(f"http://{api.upstream.host}/users/${{id}}"), **change}
    draft = {key: value for key, value in draft.items() if value is not None}

    _error(api.call("POST", "tools/test", json={"tool": draft, "args": args}), status)

    assert api.upstream.seen == []


def test_a_draft_whose_upstream_fails_still_tells(api: Api) -> None:
    draft = http_tool(f"http://{api.upstream.host}/broken")

    told = api.call("POST", "tools/test", json={"tool": draft, "args": {}}).json()

    assert told["response"]["status"] == 500
    assert told["result"]["ok"] is False


@pytest.mark.slow
def test_ten_slow_invokes_do_not_hold_up_the_server(
    server: Server, api: Api, upstream: Upstream
) -> None:
    request = http_tool(f"http://{upstream.host}/slow", timeoutMs=60_000)["http"]
    place = api.tool(api.bundle(), "slow", "/slow", http=request)
    quick = api.tool(api.bundle("other"), "get-user", "/users/${id}")
    answers: list[httpx.Response] = []
    threads = [
        threading.Thread(target=lambda: answers.append(api.invoke(place))) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert upstream.waiting.acquire(timeout=HANG_S)

    status = server.client.get("api/status")
    listed = api.call("GET", "tools/tools")
    other = api.invoke(quick, {"id": 1})
    still_waiting = not answers
    upstream.release.set()
    for thread in threads:
        thread.join(HANG_S)

    assert (status.status_code, listed.status_code, other.status_code) == (200, 200, 200)
    assert still_waiting, "blocked, these would have waited for the slow ones"
    assert [answer.json() for answer in answers] == [{"ok": True, "value": {"slow": True}}] * 10


def test_a_client_that_leaves_cancels_its_call(
    server: Server, api: Api, upstream: Upstream
) -> None:
    request = http_tool(f"http://{upstream.host}/slow", timeoutMs=600_000)["http"]
    place = api.tool(api.bundle(), "slow", "/slow", http=request)
    address = urlsplit(server.address)
    leaving = http.client.HTTPConnection(address.hostname or "", address.port, timeout=HANG_S)
    path = f"{address.path}onetool/{place}/invoke?project={api.project}"
    leaving.request("POST", path, body="{}", headers={"Authorization": f"token {server.token}"})
    assert upstream.waiting.acquire(timeout=HANG_S)

    leaving.close()

    assert upstream.gone.wait(HANG_S), "the upstream request outlived its client"
    assert server.client.get("api/status").status_code == 200
