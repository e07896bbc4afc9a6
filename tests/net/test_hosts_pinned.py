"""Hosts that must not be reached are not reached: zero connections, counted at the socket.

Nothing here can leave the machine: where a name or a form of an address would lead outside,
dialling is replaced.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpcore
import pytest

from onetool_ipy.base.errors import ExecutionFailed, HostNotAllowed
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.hosts import Hosts
from tests.net.conftest import BOTH_SIDES, HERE, MakeClient
from tests.net.loopback import Loopback

pytestmark = BOTH_SIDES

DATA = Path(__file__).parent / "data"
ANY = Rules(timeout_s=60, tries=1)
"""Any host, if it is public: what holds where nothing was set."""

PUBLIC = "93.184.216.34"
UNKNOWN = ("0177.0.0.1", "localhost.")
"""Not a URL for httpx, and not a name for every resolver."""


class Network(httpcore.SyncBackend):
    """Notes where a connection would have gone, and connects to a place on this machine instead."""

    def __init__(self, server: Loopback | None) -> None:
        self.dialled: list[str] = []
        self._server = server

    def place(self, host: str) -> tuple[str, int]:
        self.dialled.append(host)
        if self._server is None:
            raise httpcore.ConnectError("not in a test")
        return "127.0.0.1", self._server.port

    def connect_tcp(self, host: str, *_args: Any, **_options: Any) -> httpcore.NetworkStream:
        return super().connect_tcp(*self.place(host))


class AsyncNetwork(httpcore.AnyIOBackend):
    """The same for async callers."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def connect_tcp(
        self, host: str, *_args: Any, **_options: Any
    ) -> httpcore.AsyncNetworkStream:
        return await super().connect_tcp(*self._network.place(host))


def through(network: Network) -> dict[str, Any]:
    return {"network": network, "async_network": AsyncNetwork(network)}


class Names(dict[str, list[list[str]]]):
    """A resolver: name -> its addresses at the first look-up, at the second, ...; the last ones
    stay."""

    def __call__(self, host: str, port: int) -> list[str]:
        known = self[host]
        return known.pop(0) if len(known) > 1 else known[0]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "127.1",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "127。0。0。1",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "user@127.0.0.1",
        "api.example.com@127.0.0.1",
        "api.example.com:80@127.0.0.1",
        "127.0.0.1\\@api.example.com",
        "0.0.0.0",
        "[::]",
        "0x7f000001",
        "0",
        "[::1]",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00::1]",
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
    ],
)
@pytest.mark.parametrize("listed", [False, True], ids=["no list", "listed"])
def test_loopback_is_not_reached_by_any_spelling(
    make_client: MakeClient, host: str, listed: bool
) -> None:
    """Real sockets on both loopback addresses; an allow-list that names the host does not help
    it."""
    with Loopback() as server, Loopback("::1") as six:
        network = Network(server)
        hosts = (
            Hosts(["127.0.0.1", "[::1]", "localhost", "api.example.com", "[::ffff:7f00:1]"])
            if listed
            else None
        )
        for port in (server.port, six.port):
            with pytest.raises(ExecutionFailed) as caught:
                make_client(**through(network)).request(
                    "GET", f"http://{host}:{port}/json", rules=replace(ANY, hosts=hosts)
                )
            assert isinstance(caught.value, HostNotAllowed) or host in UNKNOWN

        assert (server.accepts, six.accepts, network.dialled) == (0, 0, [])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        pytest.param(
            "[::ffff:127.0.0.1]", marks=pytest.mark.posix("sockets for IPv6 that reach IPv4 too")
        ),
    ],
)
def test_the_same_is_reached_where_private_addresses_are_allowed(
    server: Loopback, client: HttpClient, host: str
) -> None:
    """The pair of the test above: it is the rule that stops those requests."""
    assert client.request("GET", server.url("/json", host=host), rules=HERE).status == 200
    assert server.accepts == 1


@pytest.mark.parametrize(
    "rules", [replace(HERE, hosts=Hosts([])), replace(HERE, hosts=Hosts(["api.example.com"]))]
)
def test_a_host_that_is_not_listed_is_not_reached(
    server: Loopback, client: HttpClient, rules: Rules
) -> None:
    with pytest.raises(HostNotAllowed, match="not allowed"):
        client.request("GET", server.url("/json"), rules=rules)

    assert server.accepts == 0


def test_a_listed_address_with_another_port_is_not_reached(
    server: Loopback, client: HttpClient
) -> None:
    rules = replace(HERE, hosts=Hosts([f"127.0.0.1:{server.port}"]))

    assert client.request("GET", server.url("/json"), rules=rules).status == 200
    with Loopback() as other, pytest.raises(HostNotAllowed):
        client.request("GET", other.url("/json"), rules=rules)
    assert other.accepts == 0


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        [PUBLIC, "127.0.0.1"],
        ["::1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["::ffff:127.0.0.1"],
        ["169.254.169.254"],
        ["fe80::1%lo"],
    ],
)
def test_a_name_that_resolves_to_a_private_address_is_not_reached(
    server: Loopback, make_client: MakeClient, addresses: list[str]
) -> None:
    network = Network(server)
    client = make_client(resolve=Names({"api.example.com": [addresses]}), **through(network))

    with pytest.raises(HostNotAllowed, match="public"):
        client.request("GET", f"http://api.example.com:{server.port}/json", rules=ANY)

    assert (server.accepts, network.dialled) == (0, [])


def test_a_name_that_changes_its_address_is_dialled_where_it_was_checked(
    server: Loopback, make_client: MakeClient
) -> None:
    """Looked up once for each connection, and that address is used: a second look-up would have
    found loopback."""
    names = Names({"rebind.test": [[PUBLIC], ["127.0.0.1"]]})
    network = Network(server)
    client = make_client(resolve=names, **through(network))

    reply = client.request("GET", "http://rebind.test/json", rules=ANY)

    assert reply.status == 200
    assert network.dialled == [PUBLIC]
    assert names["rebind.test"] == [["127.0.0.1"]]


def test_a_kept_connection_needs_no_second_look_up(
    server: Loopback, make_client: MakeClient
) -> None:
    names = Names({"api.test": [["127.0.0.1"], []]})
    client = make_client(resolve=names)

    statuses = [
        client.request("GET", server.url("/json", host="api.test"), rules=HERE).status
        for _ in range(2)
    ]

    assert (statuses, server.accepts) == ([200, 200], 1)


def test_a_name_that_has_changed_is_refused_at_its_next_connection(
    server: Loopback, make_client: MakeClient
) -> None:
    network = Network(None)
    client = make_client(
        resolve=Names({"rebind.test": [[PUBLIC], ["127.0.0.1"]]}), **through(network)
    )
    with pytest.raises(ExecutionFailed, match="Cannot connect"):
        client.request("GET", f"http://rebind.test:{server.port}/json", rules=ANY)

    with pytest.raises(HostNotAllowed):
        client.request("GET", f"http://rebind.test:{server.port}/json", rules=ANY)

    assert (server.accepts, network.dialled) == (0, [PUBLIC])


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.1:{port}/json",
        "http://2130706433:{port}/json",
        "http://[::ffff:127.0.0.1]:{port}/json",
        "http://inner.test:{port}/json",
        "http://169.254.169.254/latest/meta-data/",
        "http://open.test@127.0.0.1:{port}/",
        "//127.0.0.1:{port}/json",
    ],
)
def test_a_redirect_to_a_private_place_is_not_followed(make_client: MakeClient, to: str) -> None:
    with Loopback() as front, Loopback() as hidden:
        network = Network(front)
        names = Names({"open.test": [[PUBLIC]], "inner.test": [["10.0.0.1"]]})
        client = make_client(resolve=names, **through(network))

        with pytest.raises(HostNotAllowed):
            client.request(
                "GET",
                "http://open.test/redirect",
                params={"to": to.format(port=hidden.port)},
                rules=ANY,
            )

        assert (front.accepts, hidden.accepts, network.dialled) == (1, 0, [PUBLIC])


def test_a_redirect_to_a_host_that_is_not_listed_is_not_followed(make_client: MakeClient) -> None:
    with Loopback() as front:
        network = Network(front)
        client = make_client(
            resolve=Names({"open.test": [[PUBLIC]], "else.test": [["8.8.8.8"]]}), **through(network)
        )
        rules = replace(ANY, hosts=Hosts(["open.test"]))

        with pytest.raises(HostNotAllowed, match=r"'else\.test'"):
            client.request("GET", "http://open.test/redirect?to=http://else.test/", rules=rules)

        assert network.dialled == [PUBLIC]


def test_a_connection_made_for_private_addresses_is_not_used_by_others(
    server: Loopback, client: HttpClient
) -> None:
    client.request("GET", server.url("/json", host="localhost"), rules=HERE)

    with pytest.raises(HostNotAllowed):
        client.request("GET", server.url("/json", host="localhost"), rules=ANY)

    assert len(server.seen) == 1


def test_proxies_of_the_environment_are_not_used(
    server: Loopback, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Loopback() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())

        assert client.request("GET", server.url("/json"), rules=HERE).status == 200
        assert proxy.accepts == 0


def test_the_next_address_is_tried_where_one_does_not_answer(
    server: Loopback, make_client: MakeClient
) -> None:
    client = make_client(resolve=Names({"two.test": [["127.0.0.9", "127.0.0.1"]]}))

    assert client.request("GET", server.url("/json", host="two.test"), rules=HERE).status == 200


@pytest.fixture
def secure() -> Iterator[Loopback]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "server.pem")
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    with Loopback(tls=context) as running:
        running.asked = asked  # type: ignore[attr-defined]
        yield running


def test_host_header_sni_and_certificate_stay_on_the_name(
    secure: Loopback, make_client: MakeClient
) -> None:
    trusting = ssl.create_default_context(cafile=str(DATA / "ca.pem"))
    client = make_client(resolve=Names({"api.example.test": [["127.0.0.1"]]}), tls=trusting)

    reply = client.request("GET", secure.url("/echo", host="api.example.test"), rules=HERE)

    assert reply.json()["headers"]["host"] == f"api.example.test:{secure.port}"
    assert secure.asked == ["api.example.test"]  # type: ignore[attr-defined]


def test_a_certificate_for_another_name_is_refused(
    secure: Loopback, make_client: MakeClient
) -> None:
    trusting = ssl.create_default_context(cafile=str(DATA / "ca.pem"))
    client = make_client(resolve=Names({"other.test": [["127.0.0.1"]]}), tls=trusting)

    with pytest.raises(ExecutionFailed, match=r"certificate of 'other\.test:\d+' is not valid"):
        client.request("GET", secure.url("/json", host="other.test"), rules=HERE)

    assert secure.seen == []
    assert secure.accepts == 1  # and not tried again


def test_a_certificate_nobody_vouches_for_is_refused(
    secure: Loopback, make_client: MakeClient
) -> None:
    client = make_client(resolve=Names({"api.example.test": [["127.0.0.1"]]}))

    with pytest.raises(ExecutionFailed, match="certificate"):
        client.request("GET", secure.url("/json", host="api.example.test"), rules=HERE)

    assert secure.seen == []
