"""Bodies are counted as they are unpacked, and never more than allowed is held."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import ExecutionFailed, TooLarge
from onetool_ipy.net.response import BodyDecoder, ConnectionFailed, HttpResponse
from tests.net.loopback import bomb

BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def pack(data: bytes, bits: int) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


@given(
    st.binary(max_size=3000),
    st.sampled_from(
        [("", 0), ("identity", 0), ("gzip", 31), ("GZIP", 31), ("deflate", 15), ("deflate", -15)]
    ),
    st.integers(1, 50),
)
def test_what_was_packed_comes_out_however_it_is_cut(
    data: bytes, way: tuple[str, int], step: int
) -> None:
    encoding, bits = way
    sent = pack(data, bits) if bits else data
    intake = BodyDecoder({"content-encoding": encoding}, 3000)

    out = b"".join(intake.feed(sent[i : i + step]) for i in range(0, len(sent), step))
    intake.finish()

    assert out == data


@given(
    st.binary(max_size=300),
    st.sampled_from([b"\0" * 512, b"\r\n", b"\n", b"trailer", b"\x1f\x00", b"\x00\x1f\x8b\x08"]),
    st.sampled_from([1, 2]),
    st.integers(1, 50),
)
def test_bytes_behind_gzip_are_not_part_of_the_body(
    data: bytes, behind: bytes, members: int, step: int
) -> None:
    sent = pack(data, 31) * members + behind
    intake = BodyDecoder({"content-encoding": "gzip"}, 3000)

    out = b"".join(intake.feed(sent[i : i + step]) for i in range(0, len(sent), step))
    intake.finish()

    assert out == data * members


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_second_member_that_is_cut_off_is_no_whole_body(cut: int) -> None:
    intake = BodyDecoder({"content-encoding": "gzip"}, 3000)
    intake.feed(pack(b"first", 31) + pack(b"second", 31)[:cut])

    with pytest.raises(ConnectionFailed, match="cut off"):
        intake.finish()


@given(
    st.binary(min_size=1, max_size=2000),
    st.integers(0, 2000),
    st.sampled_from(["", "gzip", "deflate"]),
)
def test_the_limit_holds_to_the_byte(data: bytes, limit: int, encoding: str) -> None:
    sent = pack(data, BITS[encoding]) if encoding else data
    intake = BodyDecoder({"content-encoding": encoding}, limit)

    if len(data) <= limit:
        assert intake.feed(sent) == data
    else:
        with pytest.raises(TooLarge):
            intake.feed(sent)


@pytest.mark.slow
def test_a_bomb_costs_no_more_memory_than_the_limit() -> None:
    packed = bomb(256 << 20)
    intake = BodyDecoder({"content-encoding": "gzip"}, 1 << 20)

    tracemalloc.start()
    with pytest.raises(TooLarge):
        intake.feed(packed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 8 << 20


def test_a_length_that_is_said_is_believed_before_anything_is_read() -> None:
    with pytest.raises(TooLarge, match="10,737,418,240 bytes"):
        BodyDecoder({"content-length": "10737418240"}, 1000)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "x" * 500])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(ExecutionFailed, match="not asked for"):
        BodyDecoder({"content-encoding": encoding}, 1000)


def test_several_gzip_members_are_one_body() -> None:
    intake = BodyDecoder({"content-encoding": "gzip"}, 1000)

    assert intake.feed(pack(b"one ", 31) + pack(b"two", 31)) == b"one two"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_packed_data_that_is_cut_off_is_broken(encoding: str) -> None:
    intake = BodyDecoder({"content-encoding": encoding}, 10_000)
    intake.feed(pack(b"text " * 500, BITS[encoding])[:-6])

    with pytest.raises(ConnectionFailed, match="cut off"):
        intake.finish()


def test_damaged_data_is_an_error() -> None:
    with pytest.raises(ExecutionFailed, match="damaged"):
        BodyDecoder({"content-encoding": "gzip"}, 1000).feed(b"\x1f\x8bnot gzip at all")


def test_a_sip_is_cut_where_the_limit_is() -> None:
    intake = BodyDecoder({"content-encoding": "gzip"}, 10)
    packed = pack(b"0123456789ABCDEF", 31)

    sipped = [intake.feed_some(packed[:4]), intake.feed_some(packed[4:]), intake.feed_some(b"more")]

    assert b"".join(sipped) == b"0123456789"
    assert intake.is_full()


def test_a_response_prints_under_its_own_name() -> None:
    response = HttpResponse(
        status=200, headers={"content-type": "text/plain"}, body=b"hi", url="https://a.test/"
    )

    assert repr(response) == "<HttpResponse 200 text/plain 2 bytes>"
