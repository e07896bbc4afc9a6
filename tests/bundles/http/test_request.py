"""`${var}`: typed and escaped where it stands, from arguments or from secrets, and never in the
host."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from onetool_ipy.base.errors import ExecutionFailed, InvalidArgs, InvalidTool, TooLarge
from onetool_ipy.bundles.http.definition import HttpDefinition
from tests.bundles.http.conftest import Make
from tests.net.conftest import MakeClient
from tests.net.loopback import Loopback

TEXT = {"type": "string"}
ANY: dict[str, Any] = {}


@pytest.mark.spec("002/Data Model/urlTemplate starts with http or https")
@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.test/",
        "a.test/x",
        "//a.test/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        " http://a.test/",
        "http:/a.test/",
        "",
        "https://",
        "http:///path",
        "http://a.test:99999/",
        "http://a.test:0/",
        "http://a.test:80x/",
        "http://[::1/",
        "http://[::zz]/",
        "http://::1/",
        "http://a..test/",
        "http://.test/",
    ],
)
def test_a_url_starts_with_http_or_https_and_names_a_host(url: str) -> None:
    words = r"must start with http:// or https://|is not a host|has no host behind ://"
    with pytest.raises(ValidationError, match=words):
        HttpDefinition.model_validate({"request": {"urlTemplate": url}})


@pytest.mark.parametrize(
    "host",
    ["a.test", "a.test.", "a.test:8443", "a.test:", "[::1]:8443", "127.0.0.1:1", "bücher.test"],
)
def test_a_host_may_have_a_port(host: str) -> None:
    HttpDefinition.model_validate({"request": {"urlTemplate": f"https://{host}/${{x}}"}})


@pytest.mark.parametrize(
    "url",
    [
        "http://${host}/",
        "http://api.${domain}/x",
        "http://a.test:${port}/",
        "http://a.test${path}",
        "${url}",
        "http${s}://a.test/",
        "http://a.test:80${x}/y",
        "http://$${x}/",
    ],
)
def test_no_variable_stands_in_scheme_host_or_port(url: str) -> None:
    with pytest.raises(
        ValidationError, match=r"may not be in the scheme, host or port|must start with"
    ):
        HttpDefinition.model_validate({"request": {"urlTemplate": url}})
    if url.startswith("http://"):
        auth = {"type": "oauth2", "tokenUrl": url, "clientId": "a", "clientSecret": "b"}
        with pytest.raises(ValidationError, match="may not be in"):
            HttpDefinition.model_validate(
                {"request": {"urlTemplate": "http://a.test/", "auth": auth}}
            )


@pytest.mark.parametrize(
    "request_",
    [
        {"urlTemplate": "http://user:pw@a.test/"},
        {"urlTemplate": "http://a.test/#part"},
        {"urlTemplate": "http://a.test/a b"},
        {"urlTemplate": "http://a.test\\@b.test/"},
        {"urlTemplate": "http://a.test/\r\nX: 1"},
        {"urlTemplate": "http://a.test/${"},
        {"urlTemplate": "http://a.test/${}"},
        {"urlTemplate": "http://a.test/${a{b}"},
        {"urlTemplate": "http://a.test/", "query": {"${k}": "v"}},
        {"urlTemplate": "http://a.test/", "query": {"k": {"deep": 1}}},
        {"urlTemplate": "http://a.test/", "headers": {"${k}": "v"}},
        {"urlTemplate": "http://a.test/", "headers": {"Host": "b.test"}},
        {"urlTemplate": "http://a.test/", "headers": {"transfer-encoding": "chunked"}},
        {"urlTemplate": "http://a.test/", "headers": {"A": "1", "a": "2"}},
        {"urlTemplate": "http://a.test/", "body": {"${k}": 1}},
        {"urlTemplate": "http://a.test/", "body": float("nan")},
        {"urlTemplate": "http://a.test/", "method": "CONNECT"},
        {"urlTemplate": "http://a.test/", "method": "HEAD", "body": {}},
        {"urlTemplate": "http://a.test/", "timeoutMs": 0},
        {"urlTemplate": "http://a.test/", "timeoutMs": "5"},
        {"urlTemplate": "http://a.test/", "timeout": 5},
        {"urlTemplate": "http://a.test/", "auth": {"type": "hmac"}},
        {
            "urlTemplate": "http://a.test/",
            "auth": {"type": "apiKey", "in": "cookie", "name": "a", "value": "b"},
        },
        {
            "urlTemplate": "http://a.test/",
            "auth": {"type": "apiKey", "in": "header", "name": "Host", "value": "b"},
        },
        {},
    ],
)
def test_a_request_that_cannot_be_sent_is_refused_when_it_is_written(
    request_: dict[str, Any],
) -> None:
    with pytest.raises(ValidationError):
        HttpDefinition.model_validate({"request": request_})


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {
            "request": {"urlTemplate": "http://a.test/"},
            "steps": [{"request": {"urlTemplate": "http://a.test/"}}],
        },
        {"steps": []},
        {"response": {}},
        {"steps": [{"name": "a-b", "request": {"urlTemplate": "http://a.test/"}}]},
        {
            "steps": [
                {"name": n, "request": {"urlTemplate": "http://a.test/"}} for n in ("step2", None)
            ]
        },
        {"request": {"urlTemplate": "http://a.test/"}, "response": {"successCodes": [99]}},
        {"request": {"urlTemplate": "http://a.test/"}, "response": {"errorMode": "quiet"}},
        {"request": {"urlTemplate": "http://a.test/"}, "response": {"selector": "a..b"}},
        {
            "request": {"urlTemplate": "http://a.test/"},
            "response": {"selector": {"type": "regex", "expr": "(?<=a)b"}},
        },
        {"request": {"urlTemplate": "http://a.test/"}, "extra": 1},
    ],
)
def test_a_definition_that_is_none_is_refused(definition: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        HttpDefinition.model_validate(definition)


def test_a_definition_is_given_back_as_it_was_written() -> None:
    written = {
        "steps": [
            {
                "name": "first",
                "request": {
                    "method": "POST",
                    "urlTemplate": "https://a.test/${id}",
                    "body": {"a": None, "b": ["${x}"]},
                    "auth": {"type": "apiKey", "in": "query", "name": "key", "value": "${KEY}"},
                    "timeoutMs": 500,
                },
                "response": {
                    "selector": {"type": "regex", "expr": "x"},
                    "successCodes": [200, "3xx"],
                },
            },
            {"request": {"urlTemplate": "https://a.test/"}, "response": {"selector": "a.b"}},
        ]
    }

    assert HttpDefinition.model_validate(written).wire() == written


@pytest.mark.spec("002/Invocation/HTTP builds the request from templates")
def test_path_query_headers_and_body_are_built_from_templates(server: Loopback, make: Make) -> None:
    definition = {
        "request": {
            "method": "post",
            "urlTemplate": server.url("/echo/${kind}/x?fixed=a%20b&also=${kind}"),
            "query": {
                "q": "${q}",
                "n": "${n}",
                "tag": "${tags}",
                "list": ["1", "${n}"],
                "none": None,
                "flag": True,
            },
            "headers": {"X-Kind": "k-${kind}"},
            "body": {
                "n": "${n}",
                "text": "no. ${n}",
                "tags": "${tags}",
                "deep": {"ok": "${ok}"},
                "k": 1,
            },
        },
    }
    args = {
        "kind": TEXT,
        "q": TEXT,
        "n": {"type": "integer"},
        "tags": {"type": "array"},
        "ok": {"type": "boolean"},
    }

    make(definition, args=args).run(
        {"kind": "big cat", "q": "a&b=c", "n": 3, "tags": ["x", "y z"], "ok": True}
    )

    seen = server.seen[0]
    assert seen.method == "POST"
    assert seen.target == (
        "/echo/big%20cat/x?fixed=a%20b&also=big%20cat&q=a%26b%3Dc&n=3&tag=x&tag=y%20z&list=1&list=3&flag=true"
    )
    assert seen.headers["x-kind"] == "k-big cat"
    assert seen.headers["content-type"] == "application/json"
    assert json.loads(seen.body) == {
        "n": 3,
        "text": "no. 3",
        "tags": ["x", "y z"],
        "deep": {"ok": True},
        "k": 1,
    }


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("../../admin", "..%2F..%2Fadmin"),
        ("%2e%2e", "%252e%252e"),
        ("%2f", "%252f"),
        ("a/b", "a%2Fb"),
        ("a?b=c", "a%3Fb%3Dc"),
        ("a#b", "a%23b"),
        ("@evil.test", "%40evil.test"),
        ("a\r\nX-Evil: 1", "a%0D%0AX-Evil%3A%201"),
        ("ü 你", "%C3%BC%20%E4%BD%A0"),
        ("...", "..."),
        ("\\..\\x", "%5C..%5Cx"),
        ("\x00", "%00"),
        ("${x}", "%24%7Bx%7D"),
        ("a;b", "a%3Bb"),
        (True, "true"),
        (1.5, "1.5"),
        (["a", "b,c"], "a,b%2Cc"),
        ({"k": "v", "n": 1}, "k,v,n,1"),
    ],
)
def test_a_path_value_stays_in_its_segment(
    server: Loopback, make: Make, value: Any, sent: str
) -> None:
    make(
        {"request": {"urlTemplate": server.url("/json/${x}/end?q=${x|json}")}}, args={"x": ANY}
    ).run({"x": value})

    assert server.seen[0].target.split("?")[0] == f"/json/{sent}/end"
    assert server.seen[0].headers["host"] == f"127.0.0.1:{server.port}"
    assert "x-evil" not in server.seen[0].headers


@pytest.mark.parametrize("value", [".", "..", "", None, [], {}])
def test_a_path_value_that_would_climb_or_vanish_is_refused(
    server: Loopback, make: Make, value: Any
) -> None:
    runner = make(
        {"request": {"method": "DELETE", "urlTemplate": server.url("/json/${x}")}}, args={"x": ANY}
    )

    with pytest.raises(InvalidArgs):
        runner.run({"x": value})
    assert server.accepts == 0


def test_two_values_cannot_make_dots_together(server: Loopback, make: Make) -> None:
    runner = make({"request": {"urlTemplate": server.url("/a/.${x}/${x}%2e")}}, args={"x": TEXT})

    with pytest.raises(InvalidArgs, match=r"is '\.\.', which is not a valid path segment"):
        runner.run({"x": "."})
    assert server.accepts == 0


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\nb", "a\x00b", "tab\tbed", "\x7f", "\x85", "snow ☃"]
)
def test_a_header_holds_no_control_and_no_foreign_character(
    server: Loopback, make: Make, value: str
) -> None:
    definition = {"request": {"urlTemplate": server.url("/echo"), "headers": {"X-A": "v ${x}"}}}

    with pytest.raises(InvalidArgs, match=r"The header 'X-A' .* made from 'x'"):
        make(definition, args={"x": TEXT}).run({"x": value})
    with pytest.raises(ExecutionFailed, match=r"The header 'X-A'"):
        make(definition, secrets={"x": value + "abcdef"}).run({})
    assert server.accepts == 0


def test_a_header_may_hold_latin_1(server: Loopback, make: Make) -> None:
    definition = {
        "request": {
            "urlTemplate": server.url("/echo"),
            "headers": {"X-A": "${x}", "X-L": "${l|csv}"},
        }
    }

    found = make(definition, args={"x": TEXT, "l": ANY}).run({"x": " grün ", "l": ["a", "b"]})

    assert found["headers"]["x-a"] == "grün"
    assert found["headers"]["x-l"] == "a,b"


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        ("${x|csv}", "x=1%2C2"),
        ("${x|space}", "x=1%202"),
        ("${x|pipe}", "x=1%7C2"),
        ("${x|json}", "x=%5B1%2C2%5D"),
        ("${x}", "x=1&x=2"),
        ("${o|deep}", "x%5Ba%5D=1&x%5Bb%5D%5Bc%5D=2"),
        ("${o|spread}", "a=1&b=%7B%22c%22%3A2%7D"),
        ("${o|csv}", "x=a%2C1%2Cb%2C%7B%22c%22%3A2%7D"),
        ("${o}", "x=%7B%22a%22%3A1%2C%22b%22%3A%7B%22c%22%3A2%7D%7D"),
        ("${o.b.c}", "x=2"),
        ("${x[1]}", "x=2"),
        ("$${x}", "x=%24%7Bx%7D"),
    ],
)
def test_lists_and_objects_are_written_as_the_form_says(
    server: Loopback, make: Make, form: str, sent: str
) -> None:
    definition = {"request": {"urlTemplate": server.url("/echo"), "query": {"x": form}}}

    make(definition, args={"x": ANY, "o": ANY}).run({"x": [1, 2], "o": {"a": 1, "b": {"c": 2}}})

    assert server.seen[0].target == f"/echo?{sent}"


@pytest.mark.parametrize(
    ("body", "headers", "kind", "sent"),
    [
        (
            '{"n": ${n}, "s": "a ${n}", "t": "${s}"}',
            {},
            "application/json",
            '{"n":5,"s":"a 5","t":"x\\"y"}',
        ),
        ("${o}", {}, "application/json", '{"k":[1,null]}'),
        ("plain ${s}", {}, "text/plain; charset=utf-8", 'plain x"y'),
        ("<a>${n}</a>", {"Content-Type": "application/xml"}, "application/xml", "<a>5</a>"),
        ('{"n": ${n}}', {"Content-Type": "text/plain"}, "text/plain", '{"n": 5}'),
        (
            {"s": "${s}", "l": "${l}", "gone": "${gone}"},
            {"Content-Type": "application/x-www-form-urlencoded"},
            "application/x-www-form-urlencoded",
            "s=x%22y&l=1&l=2",
        ),
        (
            "s=${s}&l=${l}&l=3",
            {"Content-Type": "application/x-www-form-urlencoded"},
            "application/x-www-form-urlencoded",
            "s=x%22y&l=1&l=2&l=3",
        ),
        (
            [1, "${n}"],
            {"Content-Type": "application/vnd.x+json"},
            "application/vnd.x+json",
            "[1,5]",
        ),
        ("${s}", {"Content-Type": "application/json"}, "application/json", '"x\\"y"'),
    ],
)
def test_a_body_is_json_form_or_text(
    server: Loopback, make: Make, body: Any, headers: dict[str, str], kind: str, sent: str
) -> None:
    request = {
        "method": "POST",
        "urlTemplate": server.url("/echo"),
        "body": body,
        "headers": headers,
    }
    args = dict.fromkeys(("n", "s", "o", "l", "gone"), ANY)

    make({"request": request}, args=args).run(
        {"n": 5, "s": 'x"y', "o": {"k": [1, None]}, "l": [1, 2]}
    )

    assert server.seen[0].headers["content-type"] == kind
    assert server.seen[0].body.decode() == sent


def test_a_text_body_without_its_variable_is_refused(server: Loopback, make: Make) -> None:
    request = {
        "method": "POST",
        "urlTemplate": server.url("/echo"),
        "body": "hello ${name}",
        "bodyType": "text",
    }

    with pytest.raises(InvalidArgs, match="'name' is needed in the body"):
        make({"request": request}, args={"name": TEXT}).run({})


def test_a_remote_ref_in_the_schema_is_refused_and_not_fetched(
    server: Loopback, make: Make
) -> None:
    with pytest.raises(InvalidTool):
        make(
            {"request": {"urlTemplate": server.url("/")}}, args={"x": {"$ref": server.url("/json")}}
        )
    with pytest.raises(InvalidTool):
        make({"request": {"urlTemplate": server.url("/")}}, output={"$ref": server.url("/json")})
    assert server.accepts == 0


@pytest.mark.spec("002/Invocation/Args are checked against argSchema with 400")
def test_arguments_are_checked_before_anything_is_sent(server: Loopback, make: Make) -> None:
    definition = {"request": {"urlTemplate": server.url("/json/${n}")}}

    with pytest.raises(InvalidArgs, match="missing argument 'n'") as caught:
        make(definition, args={"n": {"type": "integer"}}, required=["n"]).run({})
    assert caught.value.status == 400
    with pytest.raises(InvalidArgs, match=r"argument 'n': .* is not a whole number"):
        make(definition, args={"n": {"type": "integer"}}).run({"n": "x"})
    assert server.accepts == 0


@pytest.mark.spec("002/Pending/Limits on sent and received bytes")
def test_a_request_over_its_limit_is_not_sent(server: Loopback, make: Make) -> None:
    request = {"method": "POST", "urlTemplate": server.url("/echo"), "body": {"x": "${x}"}}
    runner = make({"request": request}, args={"x": TEXT}, limits={"maxRequestBytes": 20})

    assert runner.run({"x": "a" * 12})["body"] == '{"x":"aaaaaaaaaaaa"}'
    with pytest.raises(TooLarge, match="21 bytes; at most 20"):
        runner.run({"x": "a" * 13})
    accepts = server.accepts
    with pytest.raises(TooLarge):
        make({"request": request}, args={"x": TEXT}).run({"x": "a" * (300 << 20)})
    with pytest.raises(TooLarge, match="The URL has"):
        make({"request": {"urlTemplate": server.url("/json/${x}")}}, args={"x": TEXT}).run(
            {"x": "a" * 40_000}
        )
    assert server.accepts == accepts


def test_files_are_sent_as_parts_or_as_the_body(server: Loopback, make: Make) -> None:
    request = {"method": "POST", "urlTemplate": server.url("/echo"), "bodyType": "multipart"}
    form = make(
        {"request": {**request, "body": {"f": "${f}", "n": "${n}", "gone": "${gone}"}}},
        args={"f": ANY, "n": ANY, "gone": ANY},
    )

    form.run({"f": b"\x00\xff", "n": [1, "two"]})
    body = server.seen[0].body
    boundary = server.seen[0].headers["content-type"].partition("boundary=")[2].encode()
    assert body.count(b"--" + boundary) == 4
    assert (
        b'name="f"; filename="f"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\xff\r\n'
        in body
    )
    assert b'name="n"\r\n\r\n1\r\n' in body
    assert b'name="n"\r\n\r\ntwo\r\n' in body
    assert b"gone" not in body

    whole = make({"request": {**request, "bodyType": "binary", "body": "${f}"}}, args={"f": ANY})
    whole.run({"f": {"base64": "AP8=", "mime": "image/png"}})
    assert (server.seen[1].body, server.seen[1].headers["content-type"]) == (
        b"\x00\xff",
        "image/png",
    )
    whole.run({"f": "text"})
    assert (server.seen[2].body, server.seen[2].headers["content-type"]) == (
        b"text",
        "application/octet-stream",
    )
    whole.run({})
    assert server.seen[3].body == b""


@pytest.mark.parametrize(
    "value",
    [{"base64": "?"}, {"base64": "AA==", "mime": "a/b\r\nX: 1"}, {"base64": "AA==", "mime": 5}],
)
def test_a_file_that_is_none_is_refused(server: Loopback, make: Make, value: Any) -> None:
    request = {"method": "POST", "urlTemplate": server.url("/echo")}
    for more in (
        {"bodyType": "binary", "body": "${f}"},
        {"bodyType": "multipart", "body": {"f": "${f}"}},
    ):
        with pytest.raises(InvalidArgs):
            make({"request": {**request, **more}}, args={"f": ANY}).run({"f": value})
    assert server.accepts == 0


ODD_TEXTS = (
    *(
        "",
        ".",
        "..",
        "/",
        "\\",
        "%2e",
        "\r\n",
        "\x00",
        "@",
        ":80",
        "#",
        "?",
        "&",
        "=",
        "é",
        "\ud800",
    ),
    *("${p}", "$${", "a", " ", "\u2028", "😀"),
)


def _odd_value(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON value of odd texts, numbers and NaN, at most three levels deep."""
    kind = chance.randrange(8 if depth < 3 else 6)
    text = "".join(chance.choice(ODD_TEXTS) for _ in range(chance.randrange(4)))
    plain = [text, chance.randrange(-5, 10**20), chance.random(), True, None, float("nan")]
    if kind < 6:
        return plain[kind]
    items = [_odd_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return items if kind == 6 else {text + str(i): item for i, item in enumerate(items)}


@pytest.mark.slow
def test_no_value_leads_elsewhere_or_fails_in_an_odd_way(
    make: Make, make_client: MakeClient
) -> None:
    """Odd values in every place of a request: each is sent to the one host there is, or refused in
    our words."""
    chance = random.Random(11)
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    definition = {
        "request": {
            "method": "POST",
            "urlTemplate": "http://good.test:8080/a/${p}/b-${p}?own=${q}&k=x${q}",
            "query": {
                "q": "${q}",
                "deep": "${q|deep}",
                "spread": "${q|spread}",
                "list": ["${q}", "${q|csv}"],
            },
            "headers": {"X-H": "${h}"},
            "body": {"b": "${b}", "t": "t ${b}", "l": ["${b}"]},
        }
    }
    runner = make(
        definition,
        args=dict.fromkeys("pqhb", ANY),
        hosts=("good.test:8080",),
        on=make_client(transport=httpx.MockTransport(answer)),
    )
    refused = 0
    for _ in range(1500):
        try:
            runner.run({name: _odd_value(chance) for name in "pqhb" if chance.random() < 0.9})
        except InvalidArgs:
            refused += 1

    assert 100 < refused < 1450
    for request in seen:
        assert (request.url.scheme, request.url.host, request.url.port) == (
            "http",
            "good.test",
            8080,
        )
        assert request.url.raw_path.startswith(b"/a/")
        assert request.url.raw_path.split(b"?")[0].count(b"/") == 3
        assert request.headers.get("x-h", "").isprintable()
        json.loads(request.content)
