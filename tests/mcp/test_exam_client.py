"""The official exam's client scenarios, each done by a toolbox that has the exam's server in its
configuration.

`EXPECTED` names every scenario that does not pass yet, with the reason. One that passes although it
is in the list, or fails although it is not, makes the test fail. The list counts the scenarios that
a revision does not require, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from onetool_ipy import OneToolError, Toolbox, ToolCallError, open_toolbox
from onetool_ipy.core.question import Question, Reply
from onetool_ipy.host import Host
from onetool_ipy.schema.sample import samples
from tests.harness import exam
from tests.harness.servers import write_project

CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
SECRETS = {"client_secret": "client_secret", "private_key": "private_key_pem"}
EXTENSIONS = {
    "auth/dpop": "not required, and the SDK has no DPoP",
    "auth/dpop-nonce": "not required, and the SDK has no DPoP",
    "auth/enterprise-managed-authorization": (
        "not required, and there is no setting for an identity provider"
    ),
    "auth/wif-jwt-bearer": "not required, and there is no setting for a workload's token",
}
EXPECTED: dict[exam.Revision, dict[str, str]] = {"2025-11-25": EXTENSIONS, "2026-07-28": EXTENSIONS}


class Agreeable(Host):
    """A person who leaves every field as it is, and says yes."""

    def ask(self, question: Question) -> Reply:
        fields = (question.form or {}).get("properties", {})
        return Reply(
            "accept",
            {name: field["default"] for name, field in fields.items() if "default" in field},
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", exam.REVISIONS)
def test_client_passes_the_exam(revision: exam.Revision, tmp_path: Path) -> None:
    def play(scenario: exam.Scenario) -> None:
        folder = tmp_path / "projects" / scenario.name.replace("/", "-")
        write_project(folder, {"exam": {"type": "http", "url": scenario.url, **auth_of(scenario)}})
        given = {name: value for name, value in scenario.context.items() if isinstance(value, str)}
        with open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state"), **given}) as box:
            box.host = Agreeable()
            default = sign_in_and_call if scenario.name.startswith("auth/") else call_every_tool
            PLAYS.get(scenario.name, default)(box, scenario)

    found = exam.as_client(revision, play, tmp_path / "report")

    assert exam.required(revision, "client") <= found.keys()
    if told := exam.surprises(found, EXPECTED[revision]):
        pytest.fail(told, pytrace=False)


def call_every_tool(box: Toolbox, scenario: exam.Scenario) -> None:
    """Make the calls that the scenario names, or else one call of each tool."""
    given = [(call["name"], call["arguments"]) for call in scenario.context.get("toolCalls", ())]
    listed = box.registry.packs().get("exam", ())
    calls = given or [
        (spec.name.partition(".")[2], next(samples(spec.parameters))[1]) for spec in listed
    ]
    assert calls, box.servers.reason("exam")
    for name, args in calls:
        box.call(
            f"exam.{name}", {key: arg for key, arg in args.items() if arg is not None}
        ).unwrap()


def auth_of(scenario: exam.Scenario) -> dict[str, Any]:
    """What a user would write about the sign-in, by what the scenario tells the client."""
    context = scenario.context
    if scenario.name == "auth/basic-cimd":
        return {"auth": {"client_metadata_url": CLIENT_DOCUMENT}}
    if "client_id" not in context or not scenario.name.startswith(
        ("auth/client-credentials", "auth/pre-reg")
    ):
        return {}
    auth = {name: f"${{{key}}}" for name, key in SECRETS.items() if key in context}
    auth |= {
        "client_id": context["client_id"],
        "issuer": context.get("issuer") or issuer_of(scenario.url),
    }
    if scenario.name.startswith("auth/client-credentials"):
        auth["grant"] = "client_credentials"
    if "signing_algorithm" in context:
        auth["signing_algorithm"] = context["signing_algorithm"]
    return {"auth": auth}


def issuer_of(url: str) -> str:
    """The authorization server that the exam's server names."""
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    return str(httpx.get(address).json()["authorization_servers"][0])


def sign_in_and_call(box: Toolbox, scenario: exam.Scenario) -> None:
    """Call every tool; where the server asks for it, sign in as a person does, and call again. At
    most three times."""
    for _ in range(3):
        try:
            return call_every_tool(box, scenario)
        except (AssertionError, ToolCallError):
            if "client_credentials" in str(box.config.settings.servers["exam"].data["auth"]):
                raise
            link = box.servers.sign_in("exam")
            ended = httpx.get(link.url).headers["location"]
            with suppress(OneToolError):  # the server may ask again at once, when it has moved
                box.servers.await_sign_in("exam", ended)
    return call_every_tool(box, scenario)


def echo_schema(box: Toolbox, _scenario: exam.Scenario) -> None:
    """Hand the schema of a tool back as we have it."""
    assert {spec.name for spec in box.registry.packs()["exam"]} >= {"exam.json_schema_echo"}
    schema = box.registry.require("exam.json_schema_2020_12_tool").parameters
    box.call("exam.json_schema_echo", {"schema": schema}).unwrap()


PLAYS: dict[str, Callable[[Toolbox, exam.Scenario], None]] = {
    "json-schema-2020-12-preservation": echo_schema
}
"""What is done in the scenarios that want more than calls."""
