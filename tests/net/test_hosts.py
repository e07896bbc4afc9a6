"""The allow-list, and what a URL must be before its host is looked up."""

from __future__ import annotations

import ipaddress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import CallFailure, ExecutionFailed, HostNotAllowed, InvalidConfig
from onetool_ipy.net.hosts import Hosts, UrlOrigin, is_public, origin_of


@pytest.mark.parametrize(
    ("patterns", "url", "allowed"),
    [
        ([], "https://example.com/", False),
        (["example.com"], "https://example.com/", True),
        (["example.com"], "http://example.com:8080/", True),
        (["EXAMPLE.com."], "https://Example.COM/", True),
        (["example.com"], "https://example.com./", True),
        (["example.com"], "https://a.example.com/", False),
        (["example.com"], "https://example.com.evil.test/", False),
        (["example.com"], "https://notexample.com/", False),
        (["example.com:8443"], "https://example.com:8443/", True),
        (["example.com:8443"], "https://example.com/", False),
        (["example.com:443"], "https://example.com/", True),
        (["example.com:80"], "http://example.com/", True),
        (["*.example.org"], "https://a.example.org/", True),
        (["*.example.org"], "https://a.b.example.org/", True),
        (["*.example.org"], "https://example.org/", False),
        (["*.example.org"], "https://badexample.org/", False),
        (["*.example.org:8443"], "https://a.example.org:8443/", True),
        (["*.example.org:8443"], "https://a.example.org/", False),
        (["*.0.0.1"], "http://127.0.0.1/", False),
        (["127.0.0.1"], "http://127.0.0.1:9/", True),
        (["127.0.0.1"], "http://127.0.0.2/", False),
        (["[::1]"], "http://[::1]:9/", True),
        (["[::1]:8443"], "https://[::1]:8443/", True),
        (["[::1]:8443"], "https://[::1]/", False),
        (["[0:0:0:0:0:0:0:1]"], "http://[::1]/", True),
        (["bücher.example"], "https://xn--bcher-kva.example/", True),
        (["*.bücher.example"], "https://a.bücher.example/", True),
    ],
)
def test_a_host_is_allowed_by_its_name_its_domain_and_its_port(
    patterns: list[str], url: str, allowed: bool
) -> None:
    try:
        hosts = Hosts(patterns)
    except InvalidConfig:
        assert not allowed
        return

    assert hosts.allow(origin_of(httpx.URL(url))) is allowed


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "*",
            "*.",
            "a/b",
            "http://a.com",
            "a.com:",
            "a.com:0",
            "a.com:70000",
            "::1",
            "[::1",
            "a@b.com",
            "a b",
        ),
        *("*.*.com", "2130706433", "127.1", "[zz]", "a.com?x", 5, None),
    ],
)
def test_a_pattern_that_is_no_host_is_refused(pattern: object) -> None:
    with pytest.raises(InvalidConfig):
        Hosts([pattern])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "url",
    [
        "http://user@example.com/",
        "http://user:word@example.com/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1\\@example.com/",
        "http://2130706433/",
        "http://127.1/",
        "http://0x7f.0.0.1/",
        "http://127%2e0.0.1/",
        "http://exa mple.com/",
        "http://example.com%2f.test/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "//example.com/",
        "http:///path",
        "http://example.com:99999/",
    ],
)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises((HostNotAllowed, ExecutionFailed)) as caught:
        origin_of(httpx.URL(url))

    assert isinstance(caught.value, CallFailure)


def test_a_refusal_names_the_host_and_what_is_allowed() -> None:
    with pytest.raises(HostNotAllowed, match=r"'evil\.test:8080' is not allowed") as caught:
        Hosts(["example.com"]).require(UrlOrigin("http", "evil.test", 8080))

    assert "example.com" in caught.value.hint


def test_a_place_is_written_with_its_port_where_that_is_not_the_usual_one() -> None:
    shown = [
        str(UrlOrigin("https", "a.com", 443)),
        str(UrlOrigin("http", "a.com", 443)),
        str(UrlOrigin("http", "::1", 8443)),
    ]

    assert shown == ["a.com", "a.com:443", "[::1]:8443"]


@given(st.ip_addresses())
def test_no_address_of_a_private_network_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """Against the tables of the standard library, also where an IPv4 address is written inside an
    IPv6 one."""
    if not address.is_global or address.is_multicast:
        assert not is_public(str(address))
    if address.version == 4 and not is_public(str(address)):
        assert not is_public(f"::ffff:{address}")
        assert not is_public(str(ipaddress.IPv6Address((0x2002 << 112) | int(address) << 80)))
