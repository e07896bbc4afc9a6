"""Which addresses are public, in whatever form they come."""

from __future__ import annotations

import pytest

from onetool_ipy.base.errors import HostNotAllowed
from onetool_ipy.net.hosts import is_odd_address, is_public, is_this_machine, require_public

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",
    "2606:4700::5efe:7f00:1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fd00:ec2::254",
    "ff02::1",
    "5f00::1",
    "2001:db8::1",
]
PUBLIC = [
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_known_in_every_form(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


def test_one_private_address_among_public_ones_spoils_them_all() -> None:
    with pytest.raises(HostNotAllowed, match=r"'api\.test' is at '127\.0\.0\.1'"):
        require_public("api.test", ["8.8.8.8", "127.0.0.1"], allow_private=False)


def test_addresses_are_given_once_each_in_order() -> None:
    found = require_public("api.test", ["8.8.8.8", "1.1.1.1", "8.8.8.8"], allow_private=False)

    assert found == ["8.8.8.8", "1.1.1.1"]


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "1.2.3.4.5",
        "a.b.1",
        "127.1.",
    ],
)
def test_numbers_that_only_some_programs_read_are_odd(host: str) -> None:
    assert is_odd_address(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "example.com", "1.example.com", "::1", "a1", "x0x1"])
def test_names_and_plain_addresses_are_not_odd(host: str) -> None:
    assert not is_odd_address(host)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"],
)
def test_addresses_that_lead_to_this_machine(address: str) -> None:
    assert is_this_machine(address)


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "1.1.1.1", "fe80::1", "::ffff:10.0.0.1", "2606:4700::1111"]
)
def test_addresses_that_lead_elsewhere(address: str) -> None:
    assert not is_this_machine(address)
