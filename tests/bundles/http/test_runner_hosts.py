"""Allowed hosts: on every hop and at the address really connected to. Nothing is ever dialled that
is not allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import httpcore
import httpx
import pytest

from onetool_ipy.base.errors import ExecutionFailed, HostNotAllowed
from onetool_ipy.net.client import HttpClient
from tests.bundles.http.conftest import Make
from tests.net.conftest import MakeClient
from tests.net.loopback import Loopback


class Dialled(Exception):
    """A connection was tried."""


@pytest.fixture
def dialled() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def closed(make_client: MakeClient, dialled: list[tuple[str, int]]) -> Callable[..., HttpClient]:
    """A client that notes whom it would connect to, and connects to no one."""

    class Network(httpcore.SyncBackend):
        def connect_tcp(self, host: str, port: int, *_args: Any, **_options: Any) -> NoReturn:
            dialled.append((host, port))
            raise Dialled

    def build(resolve: Callable[[str, int], list[str]] | None = None) -> HttpClient:
        return make_client(
            network=Network(), resolve=resolve or (lambda host, port: ["93.184.216.34"])
        )

    return build


def get(url: str) -> dict[str, Any]:
    return {"request": {"urlTemplate": url}}


@pytest.mark.spec("002/Data Model/Host must be in allowedHosts")
@pytest.mark.parametrize(
    "url",
    [
        "http://b.test/",
        "http://a.test.b.test/",
        "http://xa.test/",
        "http://sub.a.test/",
        "http://c.test/",
        "http://a.test:8080/",
        "https://xn--80ak6aa92e.com/",
        "http://[2606:4700::1111]/",
        "http://1.1.1.1/",
    ],
)
def test_a_host_that_is_not_listed_is_never_dialled(
    make: Make, closed: Callable[..., HttpClient], dialled: list[Any], url: str
) -> None:
    runner = make(get(url), hosts=("a.test:80", "*.c.test"), on=closed(), allow_private=False)

    with pytest.raises(HostNotAllowed, match="is not allowed") as caught:
        runner.run({})
    assert (caught.value.code, caught.value.reason, caught.value.status) == (
        "execution_error",
        "host_not_allowed",
        403,
    )
    assert dialled == []


def test_a_listed_host_is_dialled_at_its_address(
    make: Make, closed: Callable[..., HttpClient], dialled: list[Any]
) -> None:
    for url in ("http://a.test/", "http://A.TEST./x", "http://deep.c.test/"):
        with pytest.raises(ExecutionFailed):
            make(
                get(url), hosts=("a.test:80", "*.c.test"), on=closed(), allow_private=False, tries=1
            ).run({})

    assert dialled == [("93.184.216.34", 80)] * 3


def test_an_empty_list_allows_nothing(server: Loopback, make: Make) -> None:
    with pytest.raises(HostNotAllowed):
        make(get(server.url("/json")), hosts=()).run({})
    assert server.accepts == 0


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"]])
def test_a_name_that_leads_to_a_private_address_is_refused(
    make: Make, closed: Callable[..., HttpClient], dialled: list[Any], addresses: list[str]
) -> None:
    on = closed(lambda host, port: addresses)

    with pytest.raises(HostNotAllowed, match="is not a public address"):
        make(get("http://a.test/"), hosts=("a.test",), on=on, allow_private=False).run({})
    assert dialled == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_not_followed(
    server: Loopback, make: Make, status: int
) -> None:
    with Loopback() as other:
        target = httpx.QueryParams({"to": other.url("/json"), "status": str(status)})
        runner = make(get(server.url(f"/redirect?{target}")), hosts=(f"127.0.0.1:{server.port}",))

        with pytest.raises(HostNotAllowed, match=f"'127.0.0.1:{other.port}' is not allowed"):
            runner.run({})
        assert other.accepts == 0


@pytest.mark.parametrize(
    "to", ["http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "//127.1/"]
)
def test_a_redirect_to_a_metadata_address_is_not_followed(
    server: Loopback, make: Make, to: str
) -> None:
    with pytest.raises(HostNotAllowed):
        make(get(server.url(f"/redirect?{httpx.QueryParams({'to': to})}"))).run({})
    assert len(server.seen) == 1


def test_redirects_in_a_loop_end(server: Loopback, make: Make) -> None:
    with pytest.raises(ExecutionFailed, match="More than 10 redirects"):
        make(get(server.url("/loop"))).run({})


def test_a_redirect_to_another_port_gets_no_secret(server: Loopback, make: Make) -> None:
    with Loopback() as other:
        request = {
            "urlTemplate": server.url(f"/redirect?{httpx.QueryParams({'to': other.url('/echo')})}"),
            "headers": {"X-Own": "${KEY}"},
            "auth": {"type": "apiKey", "in": "header", "name": "X-Key", "value": "${KEY}"},
        }

        make({"request": request}, secrets={"KEY": "key-of-the-first"}).run({})

        assert server.seen[0].headers["x-key"] == "key-of-the-first"
        assert "key-of-the-first" not in str(other.seen)


def test_a_step_and_a_token_are_held_to_the_same_hosts(server: Loopback, make: Make) -> None:
    with Loopback() as other:
        here = (f"127.0.0.1:{server.port}",)
        with pytest.raises(HostNotAllowed):
            make({"steps": [get(server.url("/json")), get(other.url("/json"))]}, hosts=here).run({})
        auth = {
            "type": "oauth2",
            "tokenUrl": other.url("/json"),
            "clientId": "a",
            "clientSecret": "b",
        }
        with pytest.raises(HostNotAllowed):
            make({"request": {"urlTemplate": server.url("/json"), "auth": auth}}, hosts=here).run(
                {}
            )
        assert other.accepts == 0
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("host", "listed", "said"),
    [
        ("127.0.0.1", "127.0.0.1:{port}", ""),
        ("localhost", "localhost:{port}", ""),
        ("127.0.0.1", "127.0.0.1", "not a public address"),
        ("localhost", "localhost", "not a public address"),
        ("127.0.0.1", "127.0.0.1:1", "is not allowed"),
        ("inside.test", "inside.test:{port}", "not a public address"),
        ("127.0.0.1", "localhost:{port}", "is not allowed"),
    ],
)
def test_a_private_address_is_reached_where_it_is_named_with_its_port(
    make: Make, make_client: MakeClient, server: Loopback, host: str, listed: str, said: str
) -> None:
    client = make_client(resolve=lambda name, port: ["127.0.0.1"])
    runner = make(
        get(server.url("/json", host=host)),
        hosts=(listed.format(port=server.port),),
        on=client,
        allow_private=False,
    )

    if said:
        with pytest.raises(HostNotAllowed, match=said):
            runner.run({})
        assert server.seen == []
    else:
        runner.run({})
        assert [seen.path for seen in server.seen] == ["/json"]


def test_a_named_private_address_lets_no_redirect_reach_another(
    make: Make, server: Loopback
) -> None:
    with Loopback() as other:
        target = server.url("/redirect?to=" + other.url("/json"))
        listed = (f"127.0.0.1:{server.port}", "127.0.0.1")
        runner = make(get(target), hosts=listed, allow_private=False)

        with pytest.raises(HostNotAllowed, match="not a public address"):
            runner.run({})

        assert len(server.seen) == 1
        assert other.seen == []
