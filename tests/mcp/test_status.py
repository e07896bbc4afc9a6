"""A server's status as a value: what is said of each state, and which may be tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from onetool_ipy.mcp.definition import AuthSettings, FailureState, ServerDefinition, State
from onetool_ipy.mcp.status import Status

LOCAL = ServerDefinition(name="srv", where="test", type="stdio", command="run")
REMOTE = replace(LOCAL, type="http", command="", url="https://srv.example/mcp")
KINDS: list[State] = [kind for part in get_args(State) for kind in get_args(part) or (part,)]
FAILURES = get_args(FailureState)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("definition", [LOCAL, REMOTE], ids=["stdio", "http"])
def test_each_state_has_its_text_and_advice(kind: State, definition: ServerDefinition) -> None:
    """A reason comes from outside, and may hold anything."""
    status = Status(kind=kind, reason="It said {name}.")

    text = status.text(definition)

    assert (text == "") == (kind in ("connected", "not started"))
    assert not text or text.startswith("The server 'srv' ")
    assert "{reason}" not in text
    assert status.advice(definition).replace("{name}", "")


@pytest.mark.parametrize(
    ("grant", "advice"),
    [
        ("authorization_code", "Sign in with: %tool server login srv"),
        ("client_credentials", "Are 'auth.client_id' and its secret right?"),
    ],
)
def test_a_server_with_a_sign_in_asks_for_that(grant: str, advice: str) -> None:
    definition = replace(REMOTE, auth=AuthSettings(grant=grant))  # type: ignore[arg-type]  # of two literals

    status = Status(kind="signed out", reason="no")

    assert definition.signs_in
    assert status.text(definition) == "The server 'srv' wants you to sign in."
    assert status.advice(definition) == advice


@pytest.mark.parametrize("kind", KINDS)
def test_a_health_check_tries_what_was_not_tried_or_failed_quickly(kind: State) -> None:
    quick = Status(kind=kind, since=100.0, took_s=1.0)
    slow = replace(quick, took_s=30.0)

    untried = kind in ("not started", "untrusted")
    assert quick.may_be_tried(101.0) == (untried or kind in (*FAILURES, "starting"))
    assert slow.may_be_tried(101.0) == untried
    assert slow.may_be_tried(200.0) == quick.may_be_tried(101.0)


def test_a_server_at_rest_is_what_its_definition_says() -> None:
    states = [
        Status.at_rest(definition).kind
        for definition in (
            LOCAL,
            replace(LOCAL, enabled=False),
            replace(LOCAL, is_allowed=False),
            replace(LOCAL, enabled=False, is_allowed=False),
        )
    ]

    assert states == ["not started", "disabled", "untrusted", "disabled"]
