"""Auth: bearer, basic, apiKey and OAuth2 client credentials, against a real server that wants
them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from onetool_ipy.base.errors import ExecutionFailed, InvalidArgs, InvalidOutput, MissingSecret
from onetool_ipy.bundles.http.definition import HttpDefinition
from tests.bundles.http.conftest import Clock, Make
from tests.harness.stub import Asked, Stub
from tests.net.loopback import Loopback

SECRETS = {"KEY": "k3y-value-123", "USER": "ann-lee", "PW": "p:w ü&=é-long"}


def asking(url: str, auth: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"request": {"urlTemplate": url, "auth": auth, **more}}


@pytest.mark.spec("002/Pending/Auth bearer basic apiKey and OAuth2")
def test_bearer_basic_and_keys_are_sent_where_they_belong(server: Loopback, make: Make) -> None:
    url = server.url("/echo?a=1")
    kinds = [
        {"type": "bearer", "value": "${KEY}"},
        {"type": "basic", "username": "${USER}", "password": "${PW}"},
        {"type": "apiKey", "in": "header", "name": "X-Api-Key", "value": "pre-${KEY}"},
        {"type": "apiKey", "in": "query", "name": "key", "value": "${PW}"},
    ]
    found = [make(asking(url, auth), secrets=SECRETS).run({}) for auth in kinds]

    assert found[0]["headers"]["authorization"] == "Bearer k3y-value-123"
    word, _, made = found[1]["headers"]["authorization"].partition(" ")
    assert (word, base64.b64decode(made).decode()) == ("Basic", "ann-lee:p:w ü&=é-long")
    assert found[2]["headers"]["x-api-key"] == "pre-k3y-value-123"
    assert found[3]["query"] == {"a": "1", "key": "p:w ü&=é-long"}


def test_auth_wins_over_a_header_of_the_same_name(server: Loopback, make: Make) -> None:
    auth = {"type": "bearer", "value": "${KEY}"}

    found = make(
        asking(server.url("/echo"), auth, headers={"authorization": "mine"}), secrets=SECRETS
    ).run({})

    assert found["headers"]["authorization"] == "Bearer k3y-value-123"


def test_what_is_made_of_a_secret_is_masked_too(server: Loopback, make: Make) -> None:
    auth = {"type": "basic", "username": "${USER}", "password": "${PW}"}

    told = make(asking(server.url("/echo"), auth), secrets=SECRETS).trace({})

    made = base64.b64encode("ann-lee:p:w ü&=é-long".encode()).decode()
    assert made not in json.dumps(told)
    assert json.loads(told["response"]["body"])["headers"]["authorization"] == "Basic ***"


def test_a_key_that_is_written_into_the_record_is_masked_all_the_same(
    server: Loopback, make: Make
) -> None:
    told = make(asking(server.url("/echo"), {"type": "bearer", "value": "written-out-99"})).trace(
        {}
    )

    assert "written-out-99" not in json.dumps(told)


def test_a_secret_that_no_header_can_hold_is_refused(server: Loopback, make: Make) -> None:
    auth = {"type": "bearer", "value": "${BAD}"}

    with pytest.raises(ExecutionFailed, match="'Authorization' has characters") as caught:
        make(asking(server.url("/echo"), auth), secrets={"BAD": "line1\r\nX-Evil: 1"}).run({})
    assert "line1" not in str(caught.value)
    assert server.accepts == 0


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "value": "${key}"},
        {"type": "apiKey", "in": "header", "name": "X-Key", "value": "k-${key}"},
        {"type": "basic", "username": "${key}", "password": "x"},
    ],
    ids=["bearer", "apiKey", "basic"],
)
@pytest.mark.parametrize("value", ["line1\r\nX-Evil: 1:", "\u20ac:"], ids=["control", "latin"])
def test_an_argument_that_no_header_can_hold_is_a_bad_argument(
    server: Loopback, make: Make, auth: dict[str, Any], value: str
) -> None:
    with pytest.raises(InvalidArgs, match="It is made from 'key'") as caught:
        make(asking(server.url("/echo"), auth), args={"key": {"type": "string"}}).run(
            {"key": value}
        )
    assert "line1" not in str(caught.value)
    assert server.accepts == 0


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "value": "a\nb"},
        {"type": "apiKey", "in": "header", "name": "X-Key", "value": "a\tb${KEY}"},
        {"type": "basic", "username": "a:${NAME}", "password": "x"},
    ],
    ids=["bearer", "apiKey", "basic"],
)
def test_auth_that_can_never_be_sent_is_no_definition(auth: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"which cannot be sent|must not contain ':'"):
        HttpDefinition.model_validate(asking("http://a.test/", auth))


class Issuer:
    """Gives tokens, and data to who has the newest one."""

    def __init__(self) -> None:
        self.issued = 0
        self.lasts: Any = 3600
        self.valid = True
        self.only_in_form = False

    def __call__(self, asked: Asked) -> tuple[int, Any]:
        if asked.path == "/token":
            return self._token(asked)
        if (
            self.valid
            and asked.headers.get("authorization") == f"Bearer token-number-{self.issued}"
        ):
            return 200, {"path": asked.path, "said": asked.headers["authorization"]}
        return 401, {"error": f"not {asked.headers.get('authorization')}"}

    def _token(self, asked: Asked) -> tuple[int, Any]:
        made = base64.b64encode(b"client:s%3Acr%20t-long").decode()
        in_header = asked.headers.get("authorization") == f"Basic {made}"
        in_form = asked.form.get("client_secret") == ["s:cr t-long"]
        if asked.form.get("grant_type") != ["client_credentials"] or not (
            in_form or (in_header and not self.only_in_form)
        ):
            return 401, {"error": "invalid_client"}
        self.issued += 1
        return 200, {
            "access_token": f"token-number-{self.issued}",
            "token_type": "bearer",
            "expires_in": self.lasts,
        }


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def stub(issuer: Issuer) -> Iterator[Stub]:
    with Stub(issuer) as running:
        yield running


def oauth(stub: Stub, **more: Any) -> dict[str, Any]:
    auth = {
        "type": "oauth2",
        "tokenUrl": stub.url("/token"),
        "clientId": "client",
        "clientSecret": "${SECRET}",
        **more,
    }
    return asking(stub.url("/data"), auth)


GOOD = {"SECRET": "s:cr t-long"}


@pytest.mark.spec("002/Pending/Auth bearer basic apiKey and OAuth2")
def test_a_token_is_fetched_once_and_kept_until_it_ends(
    stub: Stub, issuer: Issuer, make: Make, clock: Clock
) -> None:
    runner = make(oauth(stub, scope="read write"), secrets=GOOD)

    runner.run({})
    clock.go(3500)
    runner.run({})
    assert issuer.issued == 1
    assert stub.asked[0].form["scope"] == ["read write"]
    clock.go(80)
    runner.run({})
    assert issuer.issued == 2
    assert [one.path for one in stub.asked] == ["/token", "/data", "/data", "/token", "/data"]


def test_a_refused_token_is_fetched_anew_once(stub: Stub, issuer: Issuer, make: Make) -> None:
    runner = make(oauth(stub), secrets=GOOD)
    runner.run({})
    issuer.issued += 1  # the server forgets the first one

    assert runner.run({})["said"] == "Bearer token-number-3"
    issuer.valid = False
    with pytest.raises(ExecutionFailed, match=r"HTTP 401 .*not Bearer \*\*\*"):
        runner.run({})
    assert [one.path for one in stub.asked][-3:] == ["/data", "/token", "/data"]


def test_a_client_that_must_stand_in_the_form_stands_there(
    stub: Stub, issuer: Issuer, make: Make
) -> None:
    issuer.only_in_form = True

    assert make(oauth(stub), secrets=GOOD).run({})["said"] == "Bearer token-number-1"


def test_no_token_is_an_error_that_holds_no_secret(stub: Stub, make: Make) -> None:
    with pytest.raises(
        ExecutionFailed, match=r"The token request to '.*/token' was answered with 401"
    ) as caught:
        make(oauth(stub), secrets={"SECRET": "wrong-secret-value"}).run({})
    assert "wrong-secret-value" not in caught.value.message
    with pytest.raises(MissingSecret):
        make(oauth(stub)).run({})
    with (
        Stub(lambda asked: (200, {"token": "x"})) as other,
        pytest.raises(InvalidOutput, match="no access_token"),
    ):
        make(oauth(other), secrets=GOOD).run({})
    with (
        Stub(lambda asked: (200, {"access_token": "a\r\nb"})) as other,
        pytest.raises(InvalidOutput),
    ):
        make(oauth(other), secrets=GOOD).run({})


@pytest.mark.parametrize("lasts", [None, "soon", -5, 10**30, "3600", True])
def test_an_odd_end_of_a_token_is_no_reason_to_fail(
    stub: Stub, issuer: Issuer, make: Make, lasts: Any
) -> None:
    issuer.lasts = lasts
    runner = make(oauth(stub), secrets=GOOD)

    assert runner.run({})["said"] == "Bearer token-number-1"
    assert runner.run({})["said"] == "Bearer token-number-1", "it is used again"
    assert [one.path for one in stub.asked] == ["/token", "/data", "/data"]


def test_a_trace_holds_no_token(stub: Stub, make: Make) -> None:
    runner = make(oauth(stub), secrets=GOOD)

    told = runner.trace({})

    assert "token-number" not in json.dumps(told)
    assert told["result"]["value"]["said"] == "Bearer ***"
    assert told["request"]["headers"] == {"Authorization": "Bearer ***"}
    assert runner.preview({})[0]["headers"] == {"Authorization": "Bearer ***"}
