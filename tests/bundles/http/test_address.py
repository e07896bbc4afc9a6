"""An address lies below a base URL or it does not: exactly, segment by segment, and both ways
back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.bundles.http.address import below, is_relative, joined, origin, owner

_HOSTS = st.sampled_from(
    ["a.example", "A.Example", "a.example.", "b.example", "[::1]", "[0:0:0:0:0:0:0:1]", "127.0.0.1"]
)
_PORTS = st.sampled_from(["", ":80", ":443", ":8080"])
_SEGMENTS = st.sampled_from(
    ["v1", "v10", "V1", "x", "%7Eme", "~me", "a b".replace(" ", "%20"), "${id}", "${s.a[0]}", ""]
)
_ORIGINS = st.builds(
    "{}://{}{}".format, st.sampled_from(["http", "https", "HTTPS"]), _HOSTS, _PORTS
)
_PATHS = st.lists(_SEGMENTS, max_size=4).map(lambda parts: "".join(f"/{part}" for part in parts))
_QUERIES = st.sampled_from(["", "?", "?q=1", "?q=${q}", "?a=/v1"])
_BASE_PATHS = st.lists(st.sampled_from(["v1", "v10", "x", "~me"]), max_size=2).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)


def _twin(url: str) -> tuple[object, ...]:
    """A naive normal form of an address, by hand."""
    import urllib.parse

    scheme, rest = url.split("://", 1)
    cut = min((rest.index(sign) for sign in "/?" if sign in rest), default=len(rest))
    place, tail = rest[:cut].lower(), rest[cut:]
    path, _, query = tail.partition("?")
    host, port = place, "443" if scheme.lower() == "https" else "80"
    if not place.endswith("]") and ":" in place.rpartition("]")[2]:
        host, _, port = place.rpartition(":")
    host = "[::1]" if host.startswith("[") else host.removesuffix(".")
    return (
        scheme.lower(),
        host,
        port,
        [urllib.parse.unquote(part) for part in path.split("/")[1:]] or [""],
        query,
    )


@given(_ORIGINS, _BASE_PATHS, _ORIGINS, _PATHS, _QUERIES)
def test_an_address_below_a_base_url_is_the_same_address_again(
    base_origin: str, base_path: str, url_origin: str, path: str, query: str
) -> None:
    base, url = base_origin + base_path, url_origin + path + query

    stored = below(url, base)

    lead = _twin(base)[3] if base_path else []
    is_below = _twin(base)[:3] == _twin(url)[:3] and _twin(url)[3][: len(lead)] == lead  # type: ignore[index, arg-type]
    assert (stored is not None) == is_below
    if stored is not None and is_relative(stored):
        assert _twin(joined(base, stored)) == _twin(url)
        assert below(joined(base, stored), base) == stored


@given(
    _ORIGINS,
    _BASE_PATHS,
    _PATHS,
    _QUERIES,
    st.sampled_from(["https://stage.example", "http://10.0.0.1:81/v2"]),
)
def test_a_stored_path_is_always_sent_to_the_host_of_the_other_environment(
    base_origin: str, base_path: str, path: str, query: str, other: str
) -> None:
    stored = below(base_origin + base_path + path + query, base_origin + base_path)

    assert stored is not None
    if is_relative(stored):
        assert origin(joined(other, stored)) == origin(other)
        assert below(joined(other, stored), other) is not None
    else:
        assert stored.startswith("//"), "kept whole: it would read as another host"


@pytest.mark.parametrize(
    ("url", "base", "path"),
    [
        ("https://a/v1/x", "https://a/v1", "/x"),
        ("https://a/v1/x", "https://a/v1/", "/x"),
        ("https://a/v10/x", "https://a/v1", None),
        ("https://a/v1", "https://a/v1", "?"),
        ("https://a/v1/", "https://a/v1", "/"),
        ("https://a/v1?q=1", "https://a/v1", "?q=1"),
        ("https://a", "https://a/", "/"),
        ("https://a:443/x", "https://A", "/x"),
        ("http://a:443/x", "https://a", None),
        ("http://a:80/x", "http://a", "/x"),
        ("https://a.b/x", "https://a", None),
        ("https://a./x", "https://a", "/x"),
        ("https://a/V1/x", "https://a/v1", None),
        ("https://a/v2/../v1/x", "https://a/v1", "/x"),
        ("https://a/v1/../v2/x", "https://a/v1", None),
        ("https://a/v1/%2e%2E/v2", "https://a/v1", None),
        ("https://a/%761/x", "https://a/v1", "/x"),
        ("https://a/v1%2Fx", "https://a/v1", None),
        ("https://a@b/x", "https://a", None),
        ("https://b\u00fccher.example/x", "https://xn--bcher-kva.example", "/x"),
        ("https://[::1]/x", "https://[0:0::1]:443", "/x"),
        ("http://[::ffff:10.0.0.1]:80/x", "http://10.0.0.1", "/x"),
        ("http://[::ffff:a00:1]/x", "http://10.0.0.2", None),
        (
            "https://a/${s.items[?k=='/v1/'].id}/x?${q}",
            "https://a",
            "/${s.items[?k=='/v1/'].id}/x?${q}",
        ),
        ("/x", "https://a", None),
        ("not a url", "https://a", None),
        ("https://a/x", "", None),
    ],
)
def test_an_address_is_compared_exactly(url: str, base: str, path: str | None) -> None:
    assert below(url, base) == path


def test_an_address_belongs_to_the_longest_base_url_and_of_equal_ones_to_the_first() -> None:
    urls = {"own": "https://a", "stage": "https://a/stage", "same": "https://a/"}

    assert owner("https://a/x", urls) == "own"
    assert owner("https://a/stage/x", urls) == "stage"
    assert owner("https://a/stages/x", urls) == "own"
    assert owner("https://b/x", urls) is None
