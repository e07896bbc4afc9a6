"""Calls of HTTP tools: responses, selectors, steps, limits, retries, what is shown of them."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import (
    CallTimeout,
    ExecutionFailed,
    InvalidArgs,
    InvalidOutput,
    InvalidTool,
    RateLimited,
    TooLarge,
)
from onetool_ipy.net.client import HttpClient, Retry, Rules
from tests.bundles.http.conftest import Clock, Make
from tests.harness.patience import until
from tests.net.conftest import MakeClient
from tests.net.loopback import Loopback

SECRET = "s3cret-value-77"
ANY: dict[str, Any] = {}


def get(url: str, **response: Any) -> dict[str, Any]:
    return {"request": {"urlTemplate": url}, "response": response}


def typed(server: Loopback, kind: str, body: str) -> str:
    return server.url(f"/typed?{httpx.QueryParams({'kind': kind, 'body': body})}")


@pytest.mark.spec("002/Invocation/Returns ok value or ok error")
@pytest.mark.spec("002/Objectives/HTTP tools are one or many REST calls")
@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_call_gives_the_value_or_raises_why_not(server: Loopback, make: Make, how: str) -> None:
    def call(runner: Any, note: Any = None) -> Any:
        return runner.run({}, note) if how == "sync" else asyncio.run(runner.arun({}, note))

    notes: list[Any] = []

    assert call(make(get(server.url("/json"))), notes.append) == {"path": "/json", "n": [1, 2]}
    assert [(note["status"], note["attempts"]) for note in notes] == [(200, 1)]
    assert notes[0]["headers"]["content-type"].startswith("application/json")
    with pytest.raises(ExecutionFailed, match=r"^HTTP 404 Not Found: no such page$") as caught:
        call(make(get(server.url("/nothing"))))
    assert (caught.value.code, caught.value.status) == ("execution_error", 502)
    assert caught.value.details == {"status": 404, "attempts": 1}


@pytest.mark.parametrize(
    ("kind", "body", "encoding", "value"),
    [
        ("application/json", '{"a": 1}', "auto", {"a": 1}),
        ("application/problem+json", "[1]", "auto", [1]),
        ("application/json", "", "auto", None),
        ("text/plain", '{"a": 1}', "auto", '{"a": 1}'),
        ("text/plain", '{"a": 1}', "json", {"a": 1}),
        ("application/json", '{"a": 1}', "text", '{"a": 1}'),
        ("application/xml", "<a/>", "auto", "<a/>"),
        ("image/svg+xml", "<svg/>", "auto", "<svg/>"),
        ("application/text", "a", "auto", "a"),
        ("application/plain", "a", "auto", "a"),
        ("application/x-yaml", "a: 1", "auto", "a: 1"),
        ("application/toml", "a = 1", "auto", "a = 1"),
        ("application/vnd.a+yaml", "a: 1", "auto", "a: 1"),
        (
            "application/octet-stream",
            "a",
            "auto",
            {"mime": "application/octet-stream", "base64": "YQ==", "size": 1},
        ),
        (
            "image/png",
            "PNG",
            "auto",
            {"mime": "image/png", "base64": base64.b64encode(b"PNG").decode(), "size": 3},
        ),
        ("text/plain", "hi", "binary", {"mime": "text/plain", "base64": "aGk=", "size": 2}),
    ],
)
def test_a_body_is_read_by_its_type_or_as_the_tool_says(
    server: Loopback, make: Make, kind: str, body: str, encoding: str, value: Any
) -> None:
    assert make(get(typed(server, kind, body), encoding=encoding)).run({}) == value


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("n[0]", 1),
        ("{p: path, last: n[-1]}", {"p": "/json", "last": 2}),
        ("nothing", None),
        ({"type": "jmespath", "expr": "length(n)"}, 2),
        ({"type": "regex", "expr": r'"path": "([^"]+)"'}, "/json"),
        ({"type": "regex", "expr": r"\d", "all": True}, ["1", "2"]),
        ({"type": "regex", "expr": r"(?P<a>\d), (?P<b>\d)"}, {"a": "1", "b": "2"}),
        ({"type": "regex", "expr": r"(\d), (\d)"}, ["1", "2"]),
        ({"type": "regex", "expr": "nothing"}, None),
    ],
)
def test_a_selector_takes_a_part(server: Loopback, make: Make, selector: Any, value: Any) -> None:
    assert make(get(server.url("/json"), selector=selector)).run({}) == value


def test_a_selector_that_does_not_fit_is_invalid_output(server: Loopback, make: Make) -> None:
    with pytest.raises(InvalidOutput, match="does not fit the response"):
        make(get(server.url("/json"), selector="length(`5`)")).run({})


def test_a_pattern_that_would_hang_others_ends_at_once(make: Make, server: Loopback) -> None:
    selector = {"type": "regex", "expr": "(a+)+$"}

    assert (
        make(get(typed(server, "text/plain", "a" * 5000 + "!"), selector=selector)).run({}) is None
    )


@pytest.mark.parametrize(
    ("codes", "status", "good"),
    [
        ([404], 404, True),
        (["4xx"], 410, True),
        ([201], 200, False),
        (None, 204, True),
        (None, 304, False),
    ],
)
def test_success_is_what_the_tool_says(
    server: Loopback, make: Make, codes: list[Any] | None, status: int, good: bool
) -> None:
    more = {} if codes is None else {"successCodes": codes}
    runner = make(get(server.url(f"/status/{status}"), **more))

    if good:
        runner.run({})
    else:
        with pytest.raises(ExecutionFailed, match=f"HTTP {status}"):
            runner.run({})


def test_error_mode_empty_gives_nothing_for_a_failure(server: Loopback, make: Make) -> None:
    definition = get(server.url("/status/500?body=boom"), errorMode="empty", selector="a")

    assert make(definition, output={"type": "object"}).run({}) is None
    with pytest.raises(CallTimeout):
        make(get(server.url("/hang"), errorMode="empty"), timeout_s=0.3).run({})


@pytest.mark.spec("002/Invocation/Response is checked against outputSchema")
def test_the_value_is_checked_against_output_schema(server: Loopback, make: Make) -> None:
    good = {"type": "object", "properties": {"n": {"type": "array"}}, "required": ["path"]}
    bad = {"type": "object", "properties": {"n": {"items": {"type": "string"}}}, "required": ["id"]}

    make(get(server.url("/json")), output=good).run({})
    with pytest.raises(InvalidOutput, match="does not fit outputSchema") as caught:
        make(get(server.url("/json")), output=bad).run({})
    assert (caught.value.reason, caught.value.status) == ("invalid_output", 502)
    assert {found["pointer"] for found in caught.value.details["mismatch"]} == {"", "/n/0", "/n/1"}
    assert caught.value.details["value"]["path"] == "/json"
    with pytest.raises(InvalidTool):
        make(get(server.url("/json")), output={"type": 5})


@pytest.mark.spec("002/Pending/Multi-step tools")
def test_a_later_step_uses_an_earlier_response(server: Loopback, make: Make) -> None:
    steps = [
        {"request": {"urlTemplate": server.url("/json/${who}")}},
        {
            "name": "again",
            "request": {
                "method": "POST",
                "urlTemplate": server.url("/echo/${step1.n[1]}"),
                "query": {"from": "${step1.path}"},
                "body": {"all": "${step1.n}", "one": "${step1.n[0]}", "whole": "${step1}"},
            },
            "response": {"selector": "body"},
        },
        {
            "request": {
                "urlTemplate": server.url("/echo"),
                "query": {"body": "${again}", "who": "${who}"},
            }
        },
    ]

    found = make({"steps": steps}, args={"who": ANY}).run({"who": "a/b"})

    assert [one.target.split("?")[0] for one in server.seen] == ["/json/a%2Fb", "/echo/2", "/echo"]
    assert server.seen[1].query == {"from": "/json/a%2Fb"}
    whole = {"path": "/json/a%2Fb", "n": [1, 2]}
    assert json.loads(server.seen[1].body) == {"all": [1, 2], "one": 1, "whole": whole}
    assert json.loads(found["query"]["body"]) == {"all": [1, 2], "one": 1, "whole": whole}


def test_a_step_that_gave_nothing_ends_the_call(server: Loopback, make: Make) -> None:
    steps = [get(server.url("/json")), get(server.url("/json/${step1.items[0].id}"))]

    with pytest.raises(InvalidOutput, match=r"'step1' has nothing at 'step1\.items\[0\]\.id'"):
        make({"steps": steps}).run({})
    with pytest.raises(ExecutionFailed, match="HTTP 501"):
        make({"steps": [get(server.url("/status/501")), get(server.url("/json/${step1}"))]}).run({})
    assert [one.path for one in server.seen] == ["/json", "/status/501"]


def test_a_step_climbs_no_path_with_what_a_server_said(server: Loopback, make: Make) -> None:
    steps = [
        get(typed(server, "application/json", '{"id": "..", "h": "a\\r\\nX: 1"}')),
        get(server.url("/x/${step1.id}")),
    ]

    with pytest.raises(InvalidArgs):
        make({"steps": steps}).run({})
    steps[1] = {"request": {"urlTemplate": server.url("/json"), "headers": {"A": "${step1.h}"}}}
    with pytest.raises(ExecutionFailed, match="control character"):
        make({"steps": steps}).run({})
    assert {one.path for one in server.seen} == {"/typed"}


def test_a_step_cannot_use_a_later_one_or_itself(make: Make) -> None:
    for name in ("step1", "step2"):
        steps = [get(f"http://127.0.0.1/${{{name}.id}}"), get("http://127.0.0.1/")]
        with pytest.raises(InvalidTool, match="nor an earlier step"):
            make({"steps": steps})
    with pytest.raises(InvalidTool, match="both an argument and a step"):
        make({"steps": [get("http://127.0.0.1/"), get("http://127.0.0.1/")]}, args={"step1": ANY})


class Noting(HttpClient):
    """A client that notes how much time each request has."""

    def __init__(self) -> None:
        super().__init__(Background(), Workers())
        self.limits: list[float] = []

    def request(self, *args: Any, rules: Rules, **options: Any) -> Any:
        self.limits.append(rules.timeout_s)
        return super().request(*args, rules=rules, **options)


def test_one_deadline_holds_for_all_steps(server: Loopback, make: Make) -> None:
    client = Noting()
    steps = [get(server.url("/json"))] * 3

    make({"steps": steps}, timeout_s=60, on=client).run({})

    assert 60 >= client.limits[0] > client.limits[1] > client.limits[2], (
        "each has what the earlier ones left"
    )
    with pytest.raises(CallTimeout) as caught:
        make({"steps": [*steps, get(server.url("/drip"))]}, timeout_s=0.5).run({})
    assert caught.value.status == 504


def test_a_limit_of_the_request_is_shorter_than_that_of_the_call(
    server: Loopback, make: Make
) -> None:
    client = Noting()
    request = {"urlTemplate": server.url("/hang"), "timeoutMs": 1000}

    with pytest.raises(CallTimeout, match=r"within (1|0\.\d+) s"):
        make({"request": request}, timeout_s=60, on=client).run({})

    assert client.limits[0] <= 1


def test_the_clock_of_a_call_starts_with_its_first_request(server: Loopback, make: Make) -> None:
    """What is looked up before takes nothing from it: here that takes longer than the whole
    limit."""

    class SlowArguments(dict[str, object]):
        def get(self, name: str, default: object = None) -> object:
            begun = time.monotonic()
            until(lambda: time.monotonic() > begun + 1.25)
            return super().get(name, default)

    client = Noting()
    request = {"urlTemplate": server.url("/json?x=${x}"), "timeoutMs": 1000}
    runner = make({"request": request}, args={"x": {"type": "string"}}, on=client)

    with suppress(CallTimeout):  # on a busy machine the answer may come too late
        runner.send(SlowArguments(x="a"))

    assert 0 < client.limits[0] <= 1


@pytest.mark.spec("002/Pending/Limits on sent and received bytes")
def test_a_tool_may_take_less_than_the_settings_allow_but_not_more(
    server: Loopback, make: Make
) -> None:
    url = server.url("/status/200?size=2000")

    with pytest.raises(TooLarge):
        make(get(url), limits={"maxResponseBytes": 1999}).run({})
    with pytest.raises(TooLarge):
        make(get(url), limits={"maxResponseBytes": 10_000}, max_bytes=1000).run({})
    assert len(make(get(url), limits={"maxResponseBytes": 2000}).run({})) == 2000


@pytest.mark.spec("002/Pending/maxCallsPerMinute")
def test_calls_per_minute_are_limited(server: Loopback, make: Make, clock: Clock) -> None:
    runner = make(get(server.url("/json")), limits={"maxCallsPerMinute": 2})

    runner.run({})
    clock.go(10)
    runner.run({})
    clock.go(49)
    with pytest.raises(RateLimited, match="2 times a minute") as caught:
        runner.run({})
    assert (caught.value.reason, caught.value.status) == ("rate_limited", 429)
    assert caught.value.details == {"retryAfterS": 1}
    clock.go(1)
    runner.run({})
    with pytest.raises(RateLimited):
        runner.run({})
    assert len(server.seen) == 3


def test_many_threads_get_no_more_calls_than_allowed(server: Loopback, make: Make) -> None:
    runner = make(get(server.url("/json")), limits={"maxCallsPerMinute": 20})

    def call(_: int) -> bool:
        try:
            runner.run({})
        except RateLimited:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(call, range(60)))

    assert sum(done) == 20
    assert len(server.seen) == 20


def test_a_refused_call_takes_no_permit(server: Loopback, make: Make) -> None:
    runner = make(get(server.url("/json/${x}")), args={"x": ANY}, limits={"maxCallsPerMinute": 1})

    with pytest.raises(InvalidArgs):
        runner.run({"x": ".."})
    runner.run({"x": "a"})


@pytest.mark.spec("002/Invocation/HTTP retries with back-off")
def test_idempotent_requests_are_tried_three_times_with_growing_waits(
    server: Loopback, make: Make, make_client: MakeClient
) -> None:
    waits: list[float] = []

    on = make_client(retry=Retry(sleep=waits.append, chance=lambda: 1.0))
    notes: list[Any] = []

    assert make(get(server.url("/flaky/a?times=2")), on=on).run({}, notes.append) == "at last"
    assert [(note["status"], note["attempts"]) for note in notes] == [(200, 3)]
    assert waits == [0.4, 0.8]
    with pytest.raises(ExecutionFailed, match="HTTP 503") as caught:
        make(get(server.url("/flaky/b?times=9")), on=on).run({})
    assert caught.value.details == {"status": 503, "attempts": 3}
    for method in ("POST", "PATCH"):
        request = {"method": method, "urlTemplate": server.url(f"/flaky/{method}?times=1")}
        with pytest.raises(ExecutionFailed, match="HTTP 503"):
            make({"request": request}, on=on).run({})
        assert sum(one.method == method for one in server.seen) == 1
    assert (
        make({"request": {"method": "DELETE", "urlTemplate": server.url("/flaky/d")}}, on=on).run(
            {}
        )
        == "at last"
    )
    assert make(get(server.url("/flaky/hangup?status=0")), on=on).run({}) == "at last"


@pytest.mark.parametrize("after", ["1000000000", "9" * 400, "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_retry_after_beyond_the_deadline_is_not_waited_for(
    server: Loopback, make: Make, after: str
) -> None:
    url = server.url(
        f"/flaky/x?{httpx.QueryParams({'times': '9', 'status': '429', 'after': after})}"
    )

    with pytest.raises(ExecutionFailed, match="HTTP 429") as caught:
        make(get(url)).run({})

    assert "Retry-After" in caught.value.hint
    assert len(server.seen) == 1


def test_a_preview_shows_what_would_be_sent_and_no_secret(server: Loopback, make: Make) -> None:
    steps = [
        {
            "request": {
                "method": "POST",
                "urlTemplate": server.url("/p/${KEY}/${x}"),
                "query": {"k": "${KEY}", "s": "${SHORT}"},
                "headers": {"X-K": "pre ${KEY}"},
                "body": {"k": "${KEY}", "x": "${x}"},
                "auth": {"type": "basic", "username": "me", "password": "${KEY}"},
            }
        },
        get(server.url("/json/${step1.id}")),
    ]
    runner = make({"steps": steps}, args={"x": ANY}, secrets={"KEY": SECRET, "SHORT": "abc"})

    shown = runner.preview({"x": f"echo {SECRET}"})

    assert shown == [
        {
            "method": "POST",
            "url": server.url("/p/***/echo%20***?k=***&s=***"),
            "headers": {
                "X-K": "pre ***",
                "Content-Type": "application/json",
                "Authorization": "Basic ***",
            },
            "body": '{"k":"***","x":"echo ***"}',
        },
        {"method": "GET", "url": server.url("/json/%24%7Bstep1.id%7D"), "headers": {}},
    ]
    assert (
        make({"steps": steps}, args={"x": ANY}).preview({"x": 1})[0]["headers"]["X-K"] == "pre ***"
    )
    with pytest.raises(InvalidArgs):
        runner.preview({"x": ".."})
    assert server.accepts == 0


def test_a_trace_tells_request_response_and_result_without_secrets(
    server: Loopback, make: Make
) -> None:
    request = {
        "urlTemplate": server.url("/echo"),
        "query": {"k": "${KEY}"},
        "auth": {"type": "bearer", "value": "${KEY}"},
    }
    runner = make({"request": request, "response": {"selector": "query"}}, secrets={"KEY": SECRET})

    told = runner.trace({})

    assert told["request"]["headers"] == {"Authorization": "Bearer ***"}
    assert told["response"]["status"] == 200
    assert told["response"]["headers"]["content-type"] == "application/json"
    assert json.loads(told["response"]["body"])["headers"]["authorization"] == "Bearer ***"
    assert told["result"] == {"ok": True, "value": {"k": "***"}}
    assert SECRET not in json.dumps(told)
    assert runner.run({}) == {"k": SECRET}


def test_a_trace_of_a_failure_shows_the_response(server: Loopback, make: Make) -> None:
    told = make(get(server.url("/status/418?body=teapot"))).trace({})

    assert told["response"]["status"] == 418
    assert told["response"]["body"] == "teapot"
    assert told["result"]["error"]["message"] == "HTTP 418 I'm a Teapot: teapot"
    hangs = {"request": {"urlTemplate": server.url("/hang"), "timeoutMs": 400}}
    steps = make({"steps": [get(server.url("/json")), hangs]}).trace({})
    assert [step["name"] for step in steps["steps"]] == ["step1", "step2"]
    assert steps["response"] is None
    assert steps["result"]["error"]["reason"] == "timeout"
    with pytest.raises(CallTimeout):
        make(get(server.url("/hang")), timeout_s=0.3).trace({})


def test_no_secret_stands_in_an_error(server: Loopback, make: Make) -> None:
    inner = "abcdef123"
    secrets = {"OUTER": f"x{inner}y-{inner}", "INNER": inner}
    said = f"bad key x{inner}y-{inner} or {inner}"
    url = server.url(f"/status/400?{httpx.QueryParams({'body': said})}&k=${{OUTER}}&i=${{INNER}}")

    with pytest.raises(ExecutionFailed) as caught:
        make(get(url), secrets=secrets).run({})

    assert caught.value.message == "HTTP 400 Bad Request: bad key *** or ***"
    told = make(get(server.url("/echo?a=${OUTER}&b=${INNER}")), secrets=secrets).trace({})
    assert inner not in json.dumps(told)
    assert told["result"]["value"]["query"] == {"a": "***", "b": "***"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"message": "no town called X"}', "no town called X"),
        ('{"title": "Bad", "detail": "count is negative", "status": 400}', "count is negative"),
        ('{"error": {"code": 7, "message": "too many rows"}}', "too many rows"),
        ('{"error": "invalid_grant", "error_description": "the code is used"}', "the code is used"),
        ('{"detail": [{"loc": ["q"]}], "n": 1}', '{"detail": [{"loc": ["q"]}], "n": 1}'),
        ('{"message": " "}', '{"message": " "}'),
        ('["x"]', '["x"]'),
        ("{broken", "{broken"),
        (f'{{"message": "the key {SECRET} is wrong"}}', "the key *** is wrong"),
    ],
)
def test_the_sentence_of_a_json_error_is_told(
    server: Loopback, make: Make, body: str, words: str
) -> None:
    url = server.url(
        f"/status/400?{httpx.QueryParams({'body': body, 'kind': 'application/json'})}&k=${{KEY}}"
    )

    with pytest.raises(ExecutionFailed) as caught:
        make(get(url), secrets={"KEY": SECRET}).run({})

    assert caught.value.message == f"HTTP 400 Bad Request: {words}"


def test_a_refusal_names_the_request_and_the_credentials(server: Loopback, make: Make) -> None:
    url = server.url("/status/401?body=no&key=${q}")
    args = {"q": {"type": "string"}}
    with pytest.raises(ExecutionFailed, match="HTTP 401 Unauthorized: no") as bare:
        make(get(url), args=args).run({"q": "x"})
    auth = {"request": {"urlTemplate": url, "auth": {"type": "bearer", "value": "${TOKEN}"}}}
    with pytest.raises(ExecutionFailed) as signed:
        make(auth, args=args, secrets={"TOKEN": SECRET}).run({"q": SECRET})

    sent = f"It sent GET {server.url('/status/401')}"
    assert bare.value.hint.splitlines() == [sent, "This tool sends no auth."]
    assert signed.value.hint.splitlines() == [sent, "Check the secret 'TOKEN'."]
    exchange = signed.value.exchange
    assert exchange["request"]["method"] == "GET"
    assert exchange["request"]["headers"]["Authorization"] == "Bearer ***"
    assert exchange["response"]["status"] == 401
    assert exchange["response"]["body"] == "no"
    assert SECRET not in str(exchange)


def test_of_a_page_of_html_the_title_is_told(server: Loopback, make: Make) -> None:
    page = (
        "<html><head><title>502 Bad\n Gateway &amp; more</title></head><body>"
        + "<p>x</p>" * 99
        + "</body></html>"
    )
    with pytest.raises(ExecutionFailed, match=r"^HTTP 200 OK: 502 Bad Gateway & more$"):
        make(get(typed(server, "text/html", page), successCodes=[204])).run({})
    with pytest.raises(ExecutionFailed, match=r"^HTTP 200 OK: It is down$"):
        make(
            get(
                typed(server, "text/html", "<style>a{}</style><b>It</b> is down"),
                successCodes=[204],
            )
        ).run({})
