"""When to try again, and after how long; and what a client makes of it."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from onetool_ipy.base.errors import CallFailure
from onetool_ipy.net.client import Retry, after_s
from tests.net.conftest import BOTH_SIDES, HERE, MakeClient
from tests.net.loopback import Loopback

NOW = datetime.datetime(2026, 5, 1, 12, 0, 0, tzinfo=datetime.UTC)


class Waits(list[float]):
    """Notes how long it was to sleep, and does not."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)

    async def wait(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


def retry(waits: Waits, chance: float = 1.0) -> Retry:
    return Retry(sleep=waits, asleep=waits.wait, chance=lambda: chance, now=lambda: NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("3", 3.0),
        (" 120 ", 120.0),
        ("1000000000", 1e9),
        ("9" * 400, float("inf")),
        ("Fri, 01 May 2026 12:00:30 GMT", 30.0),
        ("Fri, 01 May 2026 11:00:00 GMT", 0.0),
        ("Friday, 01-May-26 12:00:30 GMT", 30.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("nan", None),
        ("²", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(text: str, seconds: float | None) -> None:
    assert after_s(text, NOW) == seconds


def test_the_wait_doubles_and_is_spread_by_chance(waits: Waits) -> None:
    longest = [retry(waits, 1.0).wait_s(attempt) for attempt in (1, 2, 3)]
    shortest = [retry(waits, 0.0).wait_s(attempt) for attempt in (1, 2, 3)]

    assert longest == [0.4, 0.8, 1.6]
    assert shortest == [0.2, 0.4, 0.8]


@BOTH_SIDES
@pytest.mark.parametrize(
    ("method", "status"),
    [("GET", 500), ("HEAD", 503), ("PUT", 502), ("DELETE", 504), ("OPTIONS", 429), ("GET", 408)],
)
def test_an_idempotent_method_is_tried_twice_more(
    server: Loopback, make_client: MakeClient, waits: Waits, method: str, status: int
) -> None:
    client = make_client(retry=retry(waits))

    reply = client.request(method, server.url(f"/flaky/x?times=2&status={status}"), rules=HERE)

    assert (reply.status, reply.attempts) == (200, 3)
    assert len(server.seen) == 3
    assert waits == [0.4, 0.8]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_other_methods_are_sent_once(
    server: Loopback, make_client: MakeClient, waits: Waits, method: str
) -> None:
    client = make_client(retry=retry(waits))

    reply = client.request(method, server.url("/flaky/x?times=1"), rules=HERE)

    assert (reply.status, reply.attempts) == (503, 1)
    assert len(server.seen) == 1
    assert waits == []


@BOTH_SIDES
def test_after_the_third_try_the_answer_is_given(
    server: Loopback, make_client: MakeClient, waits: Waits
) -> None:
    reply = make_client(retry=retry(waits)).request(
        "GET", server.url("/flaky/x?times=9"), rules=HERE
    )

    assert (reply.status, reply.body, reply.attempts) == (503, b"not yet", 3)


@pytest.mark.parametrize("status", [200, 204, 301, 400, 401, 404, 501])
def test_other_statuses_are_answers(
    server: Loopback, make_client: MakeClient, waits: Waits, status: int
) -> None:
    reply = make_client(retry=retry(waits)).request(
        "GET", server.url(f"/status/{status}"), rules=HERE
    )

    assert (reply.status, reply.attempts) == (status, 1)


@BOTH_SIDES
def test_a_broken_connection_is_tried_again(
    server: Loopback, make_client: MakeClient, waits: Waits
) -> None:
    reply = make_client(retry=retry(waits)).request(
        "GET", server.url("/flaky/x?times=2&status=0"), rules=HERE
    )

    assert (reply.body, reply.attempts) == (b"at last", 3)


@BOTH_SIDES
def test_a_connection_that_stays_broken_is_an_error(
    server: Loopback, make_client: MakeClient, waits: Waits
) -> None:
    with pytest.raises(CallFailure, match="broke") as caught:
        make_client(retry=retry(waits)).request(
            "GET", server.url("/flaky/x?times=9&status=0"), rules=HERE
        )

    assert caught.value.details == {"attempts": 3}
    assert len(server.seen) == 3


@BOTH_SIDES
def test_a_broken_connection_is_said_at_once_where_no_time_is_left(
    server: Loopback, make_client: MakeClient, waits: Waits
) -> None:
    long = retry(waits, chance=1000)  # the first wait is of minutes

    with pytest.raises(CallFailure, match="broke") as caught:
        make_client(retry=long).request("GET", server.url("/flaky/x?times=9&status=0"), rules=HERE)

    assert caught.value.details == {"attempts": 1}
    assert waits == []


@BOTH_SIDES
def test_retry_after_is_honoured(server: Loopback, make_client: MakeClient, waits: Waits) -> None:
    reply = make_client(retry=retry(waits)).request(
        "GET", server.url("/flaky/x?times=1&after=2"), rules=HERE
    )

    assert reply.attempts == 2
    assert waits == [2.0]


@pytest.mark.parametrize("after", ["61", "1000000000", "9" * 400])
def test_a_wait_beyond_the_deadline_is_not_begun(
    server: Loopback, make_client: MakeClient, waits: Waits, after: str
) -> None:
    reply = make_client(retry=retry(waits)).request(
        "GET", server.url(f"/status/429?after={after}"), rules=HERE
    )

    assert (reply.status, reply.attempts) == (429, 1)
    assert waits == []


def test_one_try_can_be_asked_for(server: Loopback, make_client: MakeClient, waits: Waits) -> None:
    rules = replace(HERE, tries=1)

    reply = make_client(retry=retry(waits)).request("GET", server.url("/flaky/x"), rules=rules)

    assert (reply.status, waits) == (503, [])
