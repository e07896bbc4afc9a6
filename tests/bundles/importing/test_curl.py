"""Pasted curl commands: what becomes of them, and that no value of a secret stands in the tool."""

from __future__ import annotations

import datetime
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.http.definition import HttpDefinition
from onetool_ipy.bundles.http.runner import HttpRunner
from onetool_ipy.bundles.importing.curl import import_curl
from onetool_ipy.bundles.model import ToolBody, read
from onetool_ipy.net.client import HttpClient, Rules
from onetool_ipy.net.hosts import Hosts
from tests.harness.patience import HANG_S
from tests.harness.stub import Asked, Stub
from tests.harness.surroundings import ROOT


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(lambda asked: (200, {})) as running:
        yield running


@pytest.fixture(scope="module")
def client() -> Iterator[HttpClient]:
    background, workers = Background(), Workers()
    client = HttpClient(background, workers)
    yield client
    for part in (background, client):
        part.close()


def call(
    stub: Stub, client: HttpClient, command: str, args: dict[str, Any] | None = None, **secrets: str
) -> Asked:
    """What the tool of a command sends."""
    draft = import_curl(command)
    tool = read(ToolBody, draft.tool, own=(draft.tool["slug"], draft.tool["version"]))
    assert tool.http is not None
    runner = HttpRunner(
        HttpDefinition.model_validate(tool.http.wire()),
        arg_schema=draft.tool["argSchema"],
        name="api.tool",
        client=client,
        rules=Rules(hosts=Hosts(draft.hosts), allow_private=True),
        secret={**draft.secrets, **secrets}.get,
        clock=lambda: datetime.datetime.now(datetime.UTC),
    )
    runner.run(args or {})
    return stub.asked[-1]


SAME = [
    "'U/get?a=1&b=x%20y&c=&a=2'",
    "'U/p' -H 'X-One: 1' -H 'Accept: text/html' -A 'agent/1' -e https://r.test/",
    "'U/p' -X DELETE",
    "-sSL 'U/p' -XPATCH -d '{\"a\": [1, null], \"b\": \"x\"}' -H 'Content-Type: application/json'",
    '\'U/p\' --json \'{"n": 1.5, "t": "ü"}\'',
    "'U/p' -d 'user=bob smith&n=1' -d 'z=%26'",
    "'U/p' --data-urlencode 'q=a b&c=d' --data-urlencode '=plain'",
    "-G 'U/p?x=1' -d n=5 --data-urlencode 'q=a b'",
    "'U/p' -u 'ann:p w:x'",
    "'U/p' -H 'Authorization: Bearer abc.def.ghi'",
    "'U/p' -H 'Authorization: Token abc123'",
    "'U/p' -b 'sid=1; t=2'",
    "'U/p' --oauth2-bearer tok-123",
    "-I 'U/p'",
    "'U/p' -H 'Content-Type: text/plain' --data-raw 'some ${text} here'",
    "'U/p' -H 'X-Empty;'",
    "$'U/p?q=it\\'s\\x21'",
    '"U/p?q=a%22b" \\\n  --compressed \\\n  -H "X-A: \\"quoted\\""',
    "'U/a%20b/c'",
    "'U/p' -X PUT -H 'content-type: application/json' -d '[1, 2]'",
    "-G 'U/p?tag=a' -d tag=b",
    "'U/p' --url-query +a=%20b --url-query '=x y' --url-query 'z=&'",
    "'U/p' -u ':only-a-token'",
    "'U/p?n=-0'  # for whoever reads this",
]


KNOWN: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "tests" / "data" / "curl_requests.json").read_text("utf-8")
)


@pytest.mark.parametrize("rest", SAME)
def test_the_tool_sends_what_curl_sends(stub: Stub, client: HttpClient, rest: str) -> None:
    """What curl sends is kept in a file; where curl is installed, it is asked again."""
    command = "curl " + rest.replace("U", stub.url()[:-1], 1)
    wanted = Asked(**{**KNOWN[rest], "body": KNOWN[rest]["body"].encode()})
    if shutil.which("curl"):
        subprocess.run(
            ["bash", "-c", command + " -s -o /dev/null --noproxy '*'"], check=True, timeout=HANG_S
        )
        asked = stub.asked[-1]
        assert (asked.method, asked.target, asked.body) == (
            wanted.method,
            wanted.target,
            wanted.body,
        )

    found = call(stub, client, command)

    assert found.method == wanted.method
    assert found.path == wanted.path
    assert sorted(found.query) == sorted(wanted.query)
    kind = wanted.headers.get("content-type", "")
    assert found.headers.get("content-type", "").split(";")[0] == kind
    if "json" in kind:
        assert json.loads(found.body) == json.loads(wanted.body)
    elif "form" in kind:
        assert found.form == wanted.form
    else:
        assert found.body == wanted.body
    passed = ("accept", "authorization", "cookie", "referer", "x-one", "x-empty", "x-a")
    assert {n: found.headers.get(n) for n in passed} == {n: wanted.headers.get(n) for n in passed}


def test_placeholders_and_variables_are_arguments_or_secrets(
    stub: Stub, client: HttpClient
) -> None:
    command = (
        f'curl "{stub.url()}r/{{owner}}/<the repo>/$ID?q={{term}}&id=$ID" -H "Authorization: Bearer'
        ' $MY_TOKEN" -H "X-Org: o-${ORG}" -d "{\\"name\\": \\"$NAME\\", \\"n\\": $COUNT,'
        ' \\"api_key\\": \\"$K_KEY\\"}"'
    )
    draft = import_curl(command)

    assert draft.tool["argSchema"]["required"] == [
        "owner",
        "the repo",
        "id",
        "term",
        "name",
        "count",
    ]
    assert draft.missing == ["MY_TOKEN", "ORG", "K_KEY"]
    assert draft.secrets == {}
    args = {"owner": "a/b", "the repo": "r", "id": "7", "term": "x", "name": "n", "count": "3"}
    found = call(stub, client, command, args, MY_TOKEN="t-1", ORG="o", K_KEY="k")
    assert found.target == "/r/a%2Fb/r/7?q=x&id=7"
    assert found.headers["authorization"] == "Bearer t-1"
    assert found.headers["x-org"] == "o-o"
    assert json.loads(found.body) == {"name": "n", "n": "3", "api_key": "k"}


def test_a_form_with_a_file_takes_the_file_as_an_argument(stub: Stub, client: HttpClient) -> None:
    command = f"curl {stub.url()}up -F 'photo=@cat.png;type=image/png' -F name=Tom"

    found = call(
        stub,
        client,
        command,
        {"photo": {"base64": "/9j/AA==", "filename": 'c"at.png', "mime": "image/png"}},
    )

    assert found.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert (
        b'name="photo"; filename="c%22at.png"\r\nContent-Type:'
        b" image/png\r\n\r\n\xff\xd8\xff\x00\r\n" in found.body
    )
    assert b'name="name"\r\n\r\nTom\r\n' in found.body


def test_each_field_of_one_name_is_sent(stub: Stub, client: HttpClient) -> None:
    command = (
        f"curl {stub.url()}up -F tag=a -F tag=b -F 'meta={{\"n\": 1}};type=application/json'"
        " -F photos=@a.png -F photos=@b.png"
    )
    files = {
        name: {"base64": data, "filename": "x.png", "mime": "image/png"}
        for name, data in (("photos", "QQ=="), ("photos_2", "Qg=="))
    }

    found = call(stub, client, command, files)

    assert found.body.count(b'name="photos"') == found.body.count(b'name="tag"') == 2
    assert all(part in found.body for part in (b"\r\nA\r\n", b"\r\nB\r\n", b'\r\n{"n": 1}\r\n'))
    assert import_curl(command).notes == ["'type=application/json' of 'meta' is left out"]


def test_a_body_that_is_no_json_gives_its_header_once() -> None:
    draft = import_curl("curl https://a.test -H 'content-type: application/json' -d '{a: 1}'")

    assert draft.notes == ["the body says it is JSON, but is not; it is sent as it is"]
    assert draft.tool["http"]["request"]["headers"] == {"content-type": "application/json"}


WINDOWS = {
    "cmd": 'curl ^"U/p?x=1^&y=%^A^" ^\r\n  -H ^"Content-Type: application/json^" ^\r\n'
    '  --data-raw ^"^{^\\^"a^\\^":^\\^"$b `^%^\\^"^}^"',
    "cmd with plain quotes": 'curl "U/p?x=1&y=%A" ^\n  -H "Content-Type: application/json" ^ \n'
    '  --data-raw "{\\"a\\":\\"$b `^%\\"}"',
    "PowerShell": "curl.exe `\n  'U/p?x=1&y=%A' `\n  -H 'Content-Type: application/json' `\n"
    '  --data-raw \'{"a":"$b `%"}\'',
    "blank behind the backslash": "curl 'U/p?x=1&y=%A' \\ \n -H 'Content-Type: application/json'"
    ' \\\t\n --data-raw \'{"a":"$b `%"}\'',
}


@pytest.mark.parametrize("system", WINDOWS)
def test_a_command_is_read_as_its_shell_reads_it(
    stub: Stub, client: HttpClient, system: str
) -> None:
    """Browsers copy for cmd, too; pages are copied with a blank at the end of a line."""
    found = call(stub, client, WINDOWS[system].replace("U", stub.url()[:-1], 1))

    assert (found.method, found.target) == ("POST", "/p?x=1&y=%25A")
    assert json.loads(found.body) == {"a": "$b `%"}


def test_a_caret_in_the_quotes_of_bash_stays(stub: Stub, client: HttpClient) -> None:
    command = f"curl {stub.url()}p -H 'Content-Type: text/plain' --data-raw 'a ^\nb^\"'"

    assert call(stub, client, command).body == b'a ^\nb^"'


def test_what_cannot_be_kept_is_noted() -> None:
    draft = import_curl(
        "curl -k --proxy http://p:1 a.test/x#part -d @body.json -H 'Host: b.test' -b jar.txt -m 2.5"
    )

    assert draft.notes == [
        "'insecure' is left out: certificates are always checked",
        "'proxy' is left out: a proxy is not used",
        "the URL names no scheme; http is taken, as curl does",
        "what stands behind '#' is never sent, and is left out",
        "the cookies of the file 'jar.txt' are left out",
        "the header Host is set by the connection itself",
        "the file 'body.json' is not read; its content is the argument 'body'",
    ]
    assert draft.tool["http"]["request"]["timeoutMs"] == 2500


def test_the_value_of_a_field_that_is_a_file_is_an_argument(stub: Stub, client: HttpClient) -> None:
    command = f"curl {stub.url()}up --data-urlencode my-note@notes.txt -d n=1"

    found = call(stub, client, command, {"my_note": "a & b"})

    assert found.body == b"my-note=a%20%26%20b&n=1"
    assert import_curl(command).notes == [
        "the file 'notes.txt' is not read; 'my-note' takes its content"
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "does not begin with 'curl'"),
        ("wget https://a.test", "does not begin with 'curl'"),
        ("curl", "no URL"),
        ("curl https://a.test https://b.test", "2 URLs"),
        ("curl 'https://a.test", "has no end"),
        ('curl "https://a.test', "has no end"),
        ("curl https://a.test | jq .", "one curl command"),
        ("curl https://a.test && rm -rf x", "one curl command"),
        ("curl https://a.test\ncurl https://b.test", "a second line begins"),
        ("curl https://a.test/$(whoami)", r"inside the command, \$\(\.\.\.\), cannot be run here"),
        ("curl https://a.test/`whoami`", r"inside the command, `\.\.\.`, cannot be run here"),
        ("curl ftp://a.test/x", "not a complete http"),
        ("curl file:///etc/passwd", "not a complete http"),
        ("curl https://$HOST/x", "host cannot be a variable"),
        ("curl https://{host}.test/x", "host cannot be a variable"),
        ("curl https://a.test -X BREW", "method 'BREW'"),
        ("curl https://a.test --frobnicate", "'--frobnicate' of curl is not known"),
        ("curl https://a.test -Q x", "'-Q' of curl is not known"),
        ("curl https://a.test -H", "has no value"),
        ("curl https://a.test -T file", "cannot be imported"),
        ("curl https://a.test -H 'no name'", "not of the form 'Name: value'"),
        ("curl 'http://[::1'", "cannot be read"),
        ("curl https://a.test -m soon", "not a number of seconds"),
        ("curl https://a.test -m 1e400", "not a number of seconds"),
        ("curl https://a.test -m nan", "not a number of seconds"),
        ("curl https://a.test -m -1", "not a number of seconds"),
        ("curl https://a.test " + "x" * (1 << 20), "at most"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(command: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        import_curl(command)


def test_any_text_gives_a_tool_or_a_clear_error() -> None:
    chance = random.Random(7)
    pieces = [
        "curl ",
        "https://a.test/x",
        "-d ",
        "-H ",
        "'",
        '"',
        "\\",
        "$",
        "{",
        "}",
        "\n",
        " ",
        "=",
        "&",
        "a:b",
        "-",
        "é",
        "\x00",
        "@f",
        "${X}",
        "%",
    ]

    for _ in range(3000):
        text = "curl " + "".join(chance.choice(pieces) for _ in range(chance.randint(1, 14)))
        try:
            draft = import_curl(text)
        except InvalidRequest:
            continue
        try:
            read(ToolBody, draft.tool, own=(draft.tool["slug"], draft.tool["version"]))
        except InvalidRequest as exc:
            raise AssertionError((text, draft.tool, exc.message)) from None
