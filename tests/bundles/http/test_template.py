"""Placeholders: which names are arguments and which are secrets, and what a missing one does."""

from __future__ import annotations

import json

import pytest

from onetool_ipy.base.errors import InvalidArgs, InvalidTool, MissingSecret
from tests.bundles.http.conftest import Make
from tests.bundles.http.test_request import ANY, TEXT
from tests.net.loopback import Loopback


def test_a_missing_optional_variable_drops_its_key(server: Loopback, make: Make) -> None:
    definition = {
        "request": {
            "method": "POST",
            "urlTemplate": server.url("/echo?own=${a}&kept=1"),
            "query": {"q": "${a}", "part": "x-${a}", "list": ["${a}", "b"], "null": "${b}"},
            "headers": {"X-A": "${a}"},
            "body": {
                "a": "${a}",
                "text": "t ${a}",
                "list": ["${a}", 1],
                "b": "${b}",
                "path": "${c.d[0]}",
            },
        }
    }
    args = {"a": ANY, "b": ANY, "c": ANY}

    make(definition, args=args).run({"b": None, "c": {"d": []}})

    seen = server.seen[0]
    assert seen.target == "/echo?kept=1&list=b"
    assert "x-a" not in seen.headers
    assert json.loads(seen.body) == {"list": [1], "b": None}


def test_a_default_of_the_schema_stands_for_a_missing_argument(
    server: Loopback, make: Make
) -> None:
    definition = {"request": {"urlTemplate": server.url("/echo"), "query": {"n": "${n}"}}}

    found = make(definition, args={"n": {"type": "integer", "default": 7}}).run({})

    assert found["query"] == {"n": "7"}


@pytest.mark.spec("002/Data Model/Placeholders come from arguments or secrets")
def test_declared_names_are_arguments_and_all_others_secrets(server: Loopback, make: Make) -> None:
    definition = {
        "request": {"urlTemplate": server.url("/echo"), "query": {"a": "${NAME}", "k": "${KEY}"}}
    }
    secrets = {"NAME": "from-secrets", "KEY": "key-from-secrets"}

    runner = make(definition, args={"NAME": TEXT}, secrets=secrets)
    assert runner.run({"NAME": "from-args"})["query"] == {"a": "from-args", "k": "key-from-secrets"}
    assert runner.run({})["query"] == {"k": "key-from-secrets"}
    assert runner.secrets == ("KEY",)
    with pytest.raises(InvalidArgs, match="unknown argument 'KEY'"):
        runner.run({"KEY": "from-args"})

    open_schema = make(definition, secrets=secrets, schema={"type": "object"})
    assert open_schema.run({"KEY": "from-args", "NAME": "from-args"})["query"] == {
        "a": "from-secrets",
        "k": "key-from-secrets",
    }


def test_a_missing_secret_is_told_before_anything_is_sent(server: Loopback, make: Make) -> None:
    first = {"request": {"urlTemplate": server.url("/json")}}
    second = {
        "request": {
            "urlTemplate": server.url("/json"),
            "auth": {"type": "bearer", "value": "${TOKEN}"},
        }
    }
    runner = make({"steps": [first, second]})

    with pytest.raises(MissingSecret, match="needs the secret 'TOKEN'") as caught:
        runner.run({})
    assert (caught.value.code, caught.value.reason, caught.value.status) == (
        "execution_error",
        "missing_secret",
        409,
    )
    assert runner.missing_secrets() == ["TOKEN"]
    assert server.accepts == 0


@pytest.mark.parametrize("name", ["a b", "step1.id", "x[0]", "1a", "a-b"])
def test_a_name_that_can_mean_nothing_is_refused_at_once(make: Make, name: str) -> None:
    with pytest.raises(
        InvalidTool,
        match=(
            "is neither an argument of argSchema, nor an earlier step, nor a valid name of a secret"
        ),
    ):
        make({"request": {"urlTemplate": f"http://127.0.0.1/${{{name}}}"}}, args={"other": TEXT})


def test_argument_names_may_be_any_text(server: Loopback, make: Make) -> None:
    names = ["filter[name]", "X-Rate", "$top", "a b", "über", "1st", "a.b"]
    definition = {
        "request": {"urlTemplate": server.url("/echo"), "query": {n: f"${{{n}}}" for n in names}}
    }

    found = make(definition, args=dict.fromkeys(names, TEXT)).run({n: f"v {n}" for n in names})

    assert found["query"] == {n: f"v {n}" for n in names}
