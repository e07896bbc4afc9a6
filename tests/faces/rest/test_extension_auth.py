"""Who may ask, and in which form everything is answered: made from the table of routes, so that
none is forgotten."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import uuid_utils

from onetool_ipy.faces.rest.routes import ROUTES
from tests.faces.rest.conftest import Api
from tests.faces.rest.serving import Server
from tests.harness.patience import HANG_S

BUNDLE = "019b7730-2000-7000-8000-0000000000a1"
PATHS = sorted({route.path for route in ROUTES})
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EVERYTHING = [
    (verb, path) for path in [*PATHS, "/onetool", "/onetool/nothing/here"] for verb in VERBS
]
CHANGES = [(route.verb, route.path) for route in ROUTES if route.verb != "GET"]


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[httpx.Client]:
    client = server.browser()
    yield client
    client.close()


def _url(path: str) -> str:
    for name, value in (("bundleID", BUNDLE), ("toolSlug", "x"), ("version", "1")):
        path = path.replace(f"{{{name}}}", value)
    return path.lstrip("/")


def _is_refusal(answer: httpx.Response) -> bool:
    told = answer.json()
    return (
        told["ok"] is False
        and set(told["error"]) >= {"code", "message"}
        and bool(told["error"]["message"])
    )


@pytest.mark.parametrize(("verb", "path"), EVERYTHING)
def test_nobody_unknown_gets_in(server: Server, verb: str, path: str) -> None:
    with server.anyone() as stranger:
        answer = stranger.request(verb, _url(path))
        wrong = stranger.request(verb, _url(path), headers={"Authorization": "token wrong"})

    assert answer.status_code in (401, 403)
    assert wrong.status_code in (401, 403)
    if verb != "HEAD":
        assert _is_refusal(answer)
        assert answer.json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(("verb", "path"), CHANGES)
def test_a_browser_needs_its_xsrf_token_for_every_change(
    browser: httpx.Client, verb: str, path: str
) -> None:
    known = {"X-XSRFToken": browser.cookies["_xsrf"]}

    without = browser.request(verb, _url(path), json={})
    forged = browser.request(
        verb, _url(path), json={}, headers={"X-XSRFToken": "2|forged|forged|1"}
    )
    good = browser.request(verb, _url(path), json={}, headers=known)
    elsewhere = browser.request(
        verb, _url(path), json={}, headers={**known, "Origin": "http://evil.example"}
    )

    assert without.status_code == forged.status_code == 403
    assert _is_refusal(without)
    assert good.status_code not in (401, 403), good.text
    assert elsewhere.status_code in (403, 404)


def test_a_browser_reads_without_a_token(browser: httpx.Client) -> None:
    assert browser.get("onetool/tools/bundles").status_code == 200


@pytest.mark.parametrize(
    ("verb", "path", "status", "code"),
    [
        ("GET", "onetool/tools/nothing", 404, "not_found"),
        ("GET", "onetool/tools/bundles/", 404, "not_found"),
        ("GET", f"onetool/tools/bundles/{BUNDLE}", 405, "method_not_allowed"),
        ("POST", "onetool/tools/bundles", 405, "method_not_allowed"),
        ("DELETE", "onetool/openapi.json", 405, "method_not_allowed"),
        ("TRACE", "onetool/tools/bundles", 405, "method_not_allowed"),
        ("BREW", "onetool/tools/bundles", 405, "method_not_allowed"),
        ("GET", "onetool/tools/bundles/%ff/tools/x/version/1", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?tags=%ff", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?pageSize=x", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?pageSize=0", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?recommendedPageSize=-1", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?includeDisabled=maybe", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?bundleIDs=abc", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?pageToken=forged", 400, "invalid_request"),
        ("GET", "onetool/tools/tools?pageToken=", 400, "invalid_request"),
        ("GET", "onetool/tools/tools/search", 400, "invalid_request"),
        ("GET", "onetool/tools/bundles/abc/tools/x/version/1", 400, "invalid_request"),
        ("GET", f"onetool/tools/bundles/{BUNDLE}/tools/a_b/version/1", 400, "invalid_request"),
        ("GET", f"onetool/tools/bundles/{BUNDLE}/tools/a%2Fb/version/1", 400, "invalid_request"),
        (
            "GET",
            f"onetool/tools/bundles/{BUNDLE}/tools/{'a' * 65}/version/1",
            400,
            "invalid_request",
        ),
        ("GET", f"onetool/tools/bundles/{BUNDLE}/tools/x/version/v%201", 400, "invalid_request"),
        ("GET", f"onetool/tools/bundles/{BUNDLE}/tools/x/version/%2E%2E", 400, "invalid_request"),
        ("GET", f"onetool/tools/bundles/{BUNDLE}/tools/x/version/1", 404, "not_found"),
    ],
)
def test_everything_that_is_wrong_is_answered_in_one_form(
    server: Server, verb: str, path: str, status: int, code: str
) -> None:
    answer = _exactly(server, verb, path)

    assert answer.status_code == status, answer.text
    assert _is_refusal(answer)
    assert answer.json()["error"]["code"] == code
    assert answer.headers["Content-Type"] == "application/json"


def test_a_path_that_is_none_is_named_as_it_was_asked(server: Server) -> None:
    assert (
        "/onetool/tools/50%25/x."
        in _exactly(server, "GET", "onetool/tools/50%25/x").json()["error"]["message"]
    )


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"{",
            b"\xff\xfe",
            b"[]",
            b"null",
            b"3",
            b'"text"',
            b'{"isEnabled": NaN}',
            b'{"isEnabled": "\\ud800"}',
        ),
        *(
            b"[" * 100_000,
            b'{"a":' * 5_000,
            b"9" * 5_000,
            b'{"isEnabled": 1}',
            b'{"isEnabled": true, "slug": "x"}',
        ),
    ],
    ids=lambda body: repr(body[:30]),
)
@pytest.mark.parametrize(
    ("verb", "path"), [(verb, path) for verb, path in CHANGES if verb != "DELETE"]
)
def test_a_bad_body_is_a_bad_request(server: Server, verb: str, path: str, body: bytes) -> None:
    answer = server.client.request(verb, _url(path), content=body)

    assert answer.status_code == 400, answer.text
    assert _is_refusal(answer)


@pytest.mark.parametrize("kib", [1025, 5000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_a_mebibyte_is_too_large(server: Server, kib: int, is_chunked: bool) -> None:
    pieces = (b"x" * 1024 * 25 for _ in range(kib // 25))

    answer = server.client.post(
        "onetool/tools/test", content=pieces if is_chunked else b"".join(pieces)
    )

    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"
    assert server.client.get("api/status").status_code == 200


def test_a_body_of_a_gigabyte_is_refused_before_it_is_sent(server: Server) -> None:
    place = urlsplit(server.address)
    raw = http.client.HTTPConnection(place.hostname or "", place.port, timeout=HANG_S)
    raw.putrequest("POST", f"{place.path}onetool/tools/test")
    raw.putheader("Authorization", f"token {server.token}")
    raw.putheader("Content-Length", str(400 * 1024 * 1024))
    raw.endheaders()

    answer = raw.getresponse()

    assert answer.status == 413
    assert json.loads(answer.read())["ok"] is False
    raw.close()


def test_a_body_just_below_the_limit_is_read(api: Api) -> None:
    answer = api.call(
        "PUT", f"tools/bundles/{uuid_utils.uuid7()}", content=b" " * (1024 * 1024 - 2) + b"{}"
    )

    assert answer.status_code == 400
    assert "'slug' is missing" in answer.json()["error"]["message"]


def test_the_server_has_nothing_to_complain_about(server: Server) -> None:
    """With allow_unauthenticated_access=False Jupyter warns of every method without a rule."""
    assert "onetool_ipy | extension was successfully loaded" in server.log
    warned = [
        line for line in server.log.splitlines() if "registered for" in line and "/onetool" in line
    ]
    assert warned == []
    assert "was never awaited" not in server.log


@pytest.mark.slow
def test_nobody_unknown_gets_in_with_jupyters_default_settings(tmp_path: Path) -> None:
    """By default Jupyter lets strangers reach methods without a rule; ours have none such, whatever
    the verb."""
    flags = (
        "--ServerApp.allow_unauthenticated_access=True",
        "--ServerApp.allow_origin=https://lab.example",
    )
    server = Server(tmp_path, *flags)
    try:
        with server.anyone() as stranger:
            statuses = {
                stranger.request(verb, _url(path)).status_code
                for verb, path in EVERYTHING
                if verb != "OPTIONS"
            }
            asked = {"Origin": "https://lab.example", "Access-Control-Request-Method": "PUT"}
            preflight = stranger.options("onetool/tools/bundles", headers=asked)
    finally:
        server.close()

    assert statuses == {403}
    # A browser asks this without signing in, where another origin is allowed.
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == "https://lab.example"


def _exactly(server: Server, verb: str, path: str) -> httpx.Response:
    """Send the path as it is written: a client that tidies it up would hide what is asked."""
    place = urlsplit(server.address)
    raw = http.client.HTTPConnection(place.hostname or "", place.port, timeout=HANG_S)
    raw.request(verb, f"{place.path}{path}", headers={"Authorization": f"token {server.token}"})
    got = raw.getresponse()
    body = got.read()
    raw.close()
    return httpx.Response(got.status, headers=list(got.getheaders()), content=body)
