"""`safe_request` against a real server that behaves badly (spec 000)."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest

from onetool_ipy import Toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.sdk import api_headers, safe_request
from tests.harness.patience import HANG_S, until
from tests.harness.project import Project
from tests.net.loopback import Loopback

SECRET = "sk-live-5f0c8d1e2b7a"


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as opened:
        yield opened


@pytest.fixture
def hidden(project: Project) -> Toolbox:
    """A toolbox that has a secret to hide."""
    project.secrets(API_KEY=SECRET)
    return project.open()


@pytest.mark.spec("000/Safe HTTP Requests/Successful request")
def test_a_reply_that_says_it_is_json_is_parsed(
    box: Toolbox, server: Loopback, client: httpx.Client
) -> None:
    assert safe_request(client, "GET", server.url("/json")) == (
        True,
        {"path": "/json", "n": [1, 2]},
    )


@pytest.mark.spec("000/Safe HTTP Requests/Successful request")
def test_any_other_reply_is_text(box: Toolbox, server: Loopback, client: httpx.Client) -> None:
    found = [
        safe_request(
            client, "GET", server.url("/typed"), params={"kind": kind, "body": '{"a": "ü"}'}
        )
        for kind in (
            "text/plain",
            "text/html; charset=utf-8",
            "application/xml",
            "application/jsonp",
        )
    ]

    assert found == [(True, '{"a": "ü"}')] * 4


@pytest.mark.parametrize("status", [400, 401, 404, 418, 429, 500, 503, 599])
@pytest.mark.spec("000/Safe HTTP Requests/HTTP error")
def test_a_failed_status_gives_the_status_and_the_body(
    box: Toolbox, server: Loopback, client: httpx.Client, status: int
) -> None:
    found = safe_request(client, "GET", server.url(f"/status/{status}?body=what+is+wrong"))

    assert found == (False, f"HTTP error ({status}): what is wrong")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("size", "shown"), [(199, 199), (200, 200), (201, 200), (100_000, 200), (3_000_000, 200)]
)
@pytest.mark.spec("000/Safe HTTP Requests/HTTP error")
def test_the_body_is_cut_at_200_characters(
    box: Toolbox, server: Loopback, client: httpx.Client, size: int, shown: int
) -> None:
    found = safe_request(client, "GET", server.url(f"/status/500?size={size}"))

    assert found == (False, "HTTP error (500): " + "x" * shown + ("..." if size > 200 else ""))


@pytest.mark.spec("000/Safe HTTP Requests/Connection error")
def test_a_connection_that_fails_is_said(box: Toolbox, client: httpx.Client) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        found = safe_request(client, "GET", f"http://127.0.0.1:{port}/")

    assert found == (
        False,
        f"Request failed: Cannot connect to '127.0.0.1:{port}': Connection refused",
    )


def test_an_empty_error_body_is_named_by_its_status(
    box: Toolbox, server: Loopback, client: httpx.Client
) -> None:
    assert safe_request(client, "GET", server.url("/status/404")) == (
        False,
        "HTTP error (404): Not Found",
    )


@pytest.mark.parametrize("body", ["{oops", "NaN", '{"a": }', "[1,"])
def test_json_that_is_declared_but_broken_is_a_failure(
    box: Toolbox, server: Loopback, client: httpx.Client, body: str
) -> None:
    ok, words = safe_request(
        client, "GET", server.url("/typed"), params={"kind": "application/json", "body": body}
    )

    assert not ok
    assert words.startswith("Request failed: The response says it is JSON, but is not")


def test_an_empty_body_is_no_broken_json(
    box: Toolbox, server: Loopback, client: httpx.Client
) -> None:
    url = server.url("/typed?kind=application/json&body=")

    assert safe_request(client, "GET", url) == (True, "")
    assert safe_request(client, "HEAD", url) == (True, "")


@pytest.mark.parametrize("path", ["/hang", "/drip", "/drip-headers"])
def test_one_deadline_holds_for_everything(
    box: Toolbox, server: Loopback, client: httpx.Client, path: str
) -> None:
    found = safe_request(client, "GET", server.url(path), timeout=0.4)

    assert found == (
        False,
        f"Request failed: '127.0.0.1:{server.port}' did not respond completely within 0.4 s.",
    )
    assert path == "/drip-headers" or until(lambda: box.workers.abandoned() == 0), (
        "nothing else needs force"
    )


def test_the_deadline_is_that_of_the_settings(
    project: Project, server: Loopback, client: httpx.Client
) -> None:
    project.settings(http={"timeout_s": 0.3})
    project.open()
    client.timeout = httpx.Timeout(0.1)

    assert "within 0.3 s" in safe_request(client, "GET", server.url("/hang"))[1]


def test_a_client_that_was_given_more_time_has_it(project: Project, server: Loopback) -> None:
    project.settings(http={"timeout_s": 0.1})
    project.open()

    with httpx.Client(timeout=HANG_S) as patient:
        ok, text = safe_request(patient, "GET", server.url("/lines?count=8"))

    assert ok
    assert text.count("\n") == 8


@pytest.mark.posix("the memory of a process, as POSIX counts it")
@pytest.mark.slow
@pytest.mark.parametrize("path", ["/huge", "/claims", "/bomb?mb=100"])
def test_a_body_that_is_too_large_is_not_taken(
    box: Toolbox, server: Loopback, client: httpx.Client, path: str
) -> None:
    import resource

    safe_request(client, "GET", server.url("/json"))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    ok, words = safe_request(client, "GET", server.url(path), timeout=HANG_S)

    assert not ok
    assert "at most 5,242,880 bytes are taken" in words
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_the_size_is_that_of_the_settings_or_of_the_call(
    project: Project, server: Loopback, client: httpx.Client
) -> None:
    project.settings(http={"max_response_bytes": 10})
    project.open()

    assert not safe_request(client, "GET", server.url("/json"))[0]
    assert safe_request(client, "GET", server.url("/json"), max_bytes=1000)[0]


def test_the_clients_own_settings_hold(box: Toolbox, server: Loopback) -> None:
    with httpx.Client(
        base_url=server.url(""),
        headers={"X-A": "1"},
        params={"p": "2"},
        cookies={"c": "3"},
        auth=("user", "word"),
    ) as client:
        ok, seen = safe_request(client, "POST", "/echo", json={"k": 1}, headers={"X-B": "4"})

    assert ok
    assert (seen["method"], seen["body"], seen["query"]) == ("POST", '{"k":1}', {"p": "2"})
    assert seen["headers"]["x-a"] + seen["headers"]["x-b"] == "14"
    assert seen["headers"]["cookie"] == "c=3"
    assert seen["headers"]["authorization"].startswith("Basic ")
    assert seen["headers"]["accept-encoding"] == "gzip, deflate"


def test_a_clients_own_transport_is_used(box: Toolbox) -> None:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, json={"host": request.url.host})
    )

    with httpx.Client(transport=transport) as client:
        assert safe_request(client, "GET", "http://api.test/") == (True, {"host": "api.test"})


def test_the_transport_of_the_toolbox_stands_for_the_network(
    project: Project, client: httpx.Client
) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=dict(request.headers)))
    project.open(transport=transport)
    client.headers["X-A"] = "1"

    ok, seen = safe_request(client, "GET", "http://api.test/")

    assert ok
    assert (seen["host"], seen["x-a"]) == ("api.test", "1")


def test_redirects_are_followed_where_the_client_or_the_call_says_so(
    box: Toolbox, server: Loopback, client: httpx.Client
) -> None:
    url = server.url("/redirect?to=/json/x")

    assert safe_request(client, "GET", url, follow_redirects=True) == (
        True,
        {"path": "/json/x", "n": [1, 2]},
    )
    client.follow_redirects = True
    assert safe_request(client, "GET", url)[0]


def test_a_redirect_that_is_not_followed_is_said(
    box: Toolbox, server: Loopback, client: httpx.Client
) -> None:
    ok, words = safe_request(client, "GET", server.url("/redirect?to=/json"))

    assert not ok
    assert words.startswith("HTTP error (302): it redirects")
    assert "follow_redirects=True" in words


def test_a_redirect_to_another_host_takes_no_secret_along(
    hidden: Toolbox, server: Loopback
) -> None:
    with (
        Loopback() as other,
        httpx.Client(follow_redirects=True, auth=("user", "password")) as client,
    ):
        headers = api_headers("API_KEY", header_name="X-Api-Key", prefix="") | {"X-Plain": "stays"}

        ok, seen = safe_request(
            client, "GET", server.url(f"/redirect?to={other.url('/echo')}"), headers=headers
        )

    assert ok
    assert "x-api-key" not in seen["headers"]
    assert "authorization" not in seen["headers"]
    assert seen["headers"]["x-plain"] == "stays"
    assert server.seen[0].headers["x-api-key"] == SECRET


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/a?key={secret}",
        "http://user:{secret}@127.0.0.1:1/",
        "http://127.0.0.1:1/{secret}",
        "http://{secret}.invalid/",
        "http://127.0.0.1:{secret}/",
        "http://[{secret}",
        "ftp://{secret}/",
        "{secret}",
    ],
)
def test_no_secret_stands_in_an_error_text(hidden: Toolbox, client: httpx.Client, url: str) -> None:
    ok, words = safe_request(client, "GET", url.format(secret=SECRET), timeout=2)

    assert not ok
    assert words.startswith("Request failed: ")
    assert SECRET not in words


@pytest.mark.parametrize("before", [0, 150, 180, 195, 199])
def test_a_secret_that_a_server_sends_back_is_masked_before_the_cut(
    hidden: Toolbox, server: Loopback, client: httpx.Client, before: int
) -> None:
    """Also where it stands across the 200th character: no part of it is left."""
    body = "x" * before + SECRET + "y" * 300

    ok, words = safe_request(client, "GET", server.url("/status/401"), params={"body": body})

    assert not ok
    assert not any(SECRET[:size] in words for size in range(4, len(SECRET)))
    assert len(words) <= len("HTTP error (401): ") + 203


def test_a_secret_in_a_url_does_not_reach_the_log(
    hidden: Toolbox, server: Loopback, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        safe_request(client, "GET", server.url(f"/json/{SECRET}?key={SECRET}"))

    assert "HTTP Request: GET" in caplog.text
    assert SECRET not in caplog.text


def test_only_allowed_hosts_are_reached_where_some_are_named(
    project: Project, server: Loopback, client: httpx.Client
) -> None:
    project.settings(http={"allow_private": True})
    project.open()

    allowed = safe_request(
        client, "GET", server.url("/json"), allowed_hosts=[f"127.0.0.1:{server.port}"]
    )
    with Loopback() as other:
        refused = safe_request(client, "GET", other.url("/json"), allowed_hosts=["api.example.com"])
        moved = safe_request(
            client,
            "GET",
            server.url(f"/redirect?to={other.url('/json')}"),
            allowed_hosts=[f"127.0.0.1:{server.port}"],
            follow_redirects=True,
        )

    assert allowed == (True, {"path": "/json", "n": [1, 2]})
    assert refused[1].endswith("is not allowed.")
    assert moved[1].endswith("is not allowed.")
    assert other.accepts == 0


def test_a_closed_client_is_a_failure_and_no_exception(box: Toolbox, server: Loopback) -> None:
    client = httpx.Client()
    client.close()

    ok, words = safe_request(client, "GET", server.url("/json"))

    assert not ok
    assert "closed" in words


def test_anything_but_a_client_is_a_mistake(box: Toolbox) -> None:
    with pytest.raises(UsageProblem, match=r"takes an httpx\.Client, not a AsyncClient"):
        safe_request(httpx.AsyncClient(), "GET", "http://api.test/")  # type: ignore[arg-type]


def test_it_works_inside_a_tool_and_in_an_async_one(project: Project, server: Loopback) -> None:
    project.pack(
        "web",
        """
        import httpx
        from onetool_ipy.sdk import lazy_client, safe_request
        client = lazy_client(httpx.Client)
        def get(url: str):
            "Get it."
            return safe_request(client(), "GET", url)
        async def aget(url: str):
            "Get it, from an async tool."
            return safe_request(client(), "GET", url)
        """,
    )
    box = project.open()

    for name in ("web.get", "web.aget"):
        assert box.call(name, {"url": server.url("/json")}, timeout=HANG_S).unwrap()[0] is True
