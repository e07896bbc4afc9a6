"""A pack author's own httpx.Client against a real server: its settings, under our limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from onetool_ipy.base.background import Workers
from onetool_ipy.base.errors import (
    CallTimeout,
    ExecutionFailed,
    HostNotAllowed,
    TooLarge,
    UsageProblem,
)
from onetool_ipy.config.settings import HttpSettings
from onetool_ipy.net.client import HttpClient
from onetool_ipy.net.custom_client import send
from onetool_ipy.net.response import HttpResponse
from tests.net.loopback import Loopback

SECRET = "tok-4f9a7c21d0"
Send = Callable[..., HttpResponse]


def mask(text: str) -> str:
    return text.replace(SECRET, "***")


@pytest.fixture
def sent(client: HttpClient) -> Send:
    """`sent(httpx.Client(), "GET", url)`: within 20 s, and 10,000 bytes."""

    def go(own: Any, method: str, url: str, **options: Any) -> HttpResponse:
        http = HttpSettings(timeout_s=20, max_response_bytes=10_000, allow_private=True)
        return send(
            own, method, url, http_client=client, http=http, workers=Workers(), mask=mask, **options
        )

    return go


def test_settings_of_the_client_are_used(server: Loopback, sent: Send) -> None:
    own = httpx.Client(
        headers={"X-Mine": "1"}, params={"q": "2"}, cookies={"c": "3"}, auth=("u", "p")
    )

    reply = sent(own, "POST", server.url("/echo"), json={"a": 1})

    (seen,) = server.seen
    assert reply.status == 200
    assert (seen.headers["x-mine"], seen.headers["cookie"], seen.query) == ("1", "c=3", {"q": "2"})
    assert seen.headers["authorization"].startswith("Basic ")
    assert (seen.method, seen.body) == ("POST", b'{"a":1}')


@pytest.mark.parametrize("own", [httpx.AsyncClient(), None, "client"])
def test_other_clients_are_refused(sent: Send, own: Any) -> None:
    with pytest.raises(UsageProblem, match=r"takes an httpx\.Client, not a"):
        sent(own, "GET", "http://127.0.0.1:1/")


def test_body_beyond_the_limit_is_refused_and_that_of_an_error_is_cut(
    server: Loopback, sent: Send
) -> None:
    with pytest.raises(TooLarge):
        sent(httpx.Client(), "GET", server.url("/status/200?size=10001"))

    assert len(sent(httpx.Client(), "GET", server.url("/status/200?size=10000")).body) == 10_000
    assert (
        len(sent(httpx.Client(), "GET", server.url("/status/200?size=300"), max_bytes=300).body)
        == 300
    )
    reply = sent(httpx.Client(), "GET", server.url("/status/500?size=200000"))
    assert reply.status == 500
    assert 0 < len(reply.body) <= 64 * 1024


def test_time_limit_holds(server: Loopback, sent: Send) -> None:
    with pytest.raises(CallTimeout, match=r"127\.0\.0\.1:\d+"):
        sent(httpx.Client(), "GET", server.url("/hang"), timeout=0.3)


@pytest.mark.parametrize(
    "timeout", [None, 3, httpx.Timeout(None, connect=2)], ids=["none", "seconds", "parts"]
)
def test_client_may_have_no_time_limit_of_its_own(
    server: Loopback, sent: Send, timeout: Any
) -> None:
    assert sent(httpx.Client(timeout=timeout), "GET", server.url("/echo")).status == 200


@pytest.mark.parametrize(("client_follows", "status"), [(False, 302), (True, 200)])
def test_redirects_are_followed_if_they_are_wanted(
    server: Loopback, sent: Send, client_follows: bool, status: int
) -> None:
    url = server.url(f"/redirect?to={server.url('/echo')}")

    assert sent(httpx.Client(follow_redirects=client_follows), "GET", url).status == status
    other = sent(
        httpx.Client(follow_redirects=client_follows),
        "GET",
        url,
        follow_redirects=not client_follows,
    )
    assert other.status == (200 if status == 302 else 302)


def test_redirects_are_counted(server: Loopback, sent: Send) -> None:
    with pytest.raises(ExecutionFailed, match="More than 3 redirects"):
        sent(httpx.Client(follow_redirects=True, max_redirects=3), "GET", server.url("/loop"))


def test_header_with_a_secret_is_not_sent_to_another_host(server: Loopback, sent: Send) -> None:
    own = httpx.Client(follow_redirects=True, headers={"X-Key": SECRET, "X-Other": "1"})
    with Loopback() as other:
        sent(own, "GET", server.url(f"/redirect?to={other.url('/echo')}"))
        sent(own, "GET", server.url(f"/redirect?to={server.url('/echo')}"))

        (elsewhere,) = other.seen
    assert "x-key" not in elsewhere.headers
    assert elsewhere.headers["x-other"] == "1"
    assert [seen.headers.get("x-key") for seen in server.seen] == [SECRET] * 3


def test_only_allowed_hosts_are_reached(server: Loopback, sent: Send) -> None:
    with pytest.raises(HostNotAllowed):
        sent(httpx.Client(), "GET", server.url("/echo"), allowed_hosts=["api.example.com"])

    assert server.seen == []
    assert (
        sent(httpx.Client(), "GET", server.url("/echo"), allowed_hosts=["127.0.0.1"]).status == 200
    )


def test_failure_holds_no_secret(sent: Send) -> None:
    with pytest.raises(ExecutionFailed) as caught:
        sent(httpx.Client(), "GET", f"http://{SECRET}.invalid/")

    assert SECRET not in str(caught.value)
