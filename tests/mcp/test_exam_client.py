"""The official exam's client scenarios, each done by a toolbox that has the exam's server in its configuration.

`EXPECTED` names every scenario that does not pass yet, with the reason. One that passes although it is in the list, or
fails although it is not, makes the test fail. The list counts the scenarios that a revision does not require, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.schema.sample import samples
from tests.harness import exam
from tests.harness.servers import write_project

SIGN_IN = (
    "auth/basic-cimd",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/pre-registration",
    "auth/scope-from-scopes-supported",
    "auth/scope-from-www-authenticate",
    "auth/scope-omitted-when-undefined",
    "auth/scope-retry-limit",
    "auth/scope-step-up",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-none",
    "auth/token-endpoint-auth-post",
)
NEWER_SIGN_IN = (
    "auth/authorization-server-migration",
    "auth/iss-normalized",
    "auth/iss-not-advertised",
    "auth/iss-supported",
    "auth/iss-supported-missing",
    "auth/iss-unexpected",
    "auth/iss-wrong-issuer",
    "auth/metadata-issuer-mismatch",
    "auth/offline-access-not-supported",
    "auth/offline-access-scope",
    "auth/resource-mismatch",
)
EXTENSIONS = (
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
)

EXPECTED: dict[exam.Revision, dict[str, str]] = {
    "2025-11-25": {
        **dict.fromkeys(SIGN_IN, "nobody can sign in yet"),
        **dict.fromkeys(EXTENSIONS, "not required, and not built yet"),
        "elicitation-sep1034-client-defaults": "a server cannot ask yet",
    },
    "2026-07-28": {
        **dict.fromkeys((*SIGN_IN, *NEWER_SIGN_IN), "nobody can sign in yet"),
        **dict.fromkeys(EXTENSIONS, "not required, and not built yet"),
        "http-invalid-tool-headers": "tools with a bad header are offered",
        "sep-2322-client-request-state": "a server cannot ask yet",
    },
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", exam.REVISIONS)
def test_client_passes_the_exam(revision: exam.Revision, tmp_path: Path) -> None:
    def play(scenario: exam.Scenario) -> None:
        folder = tmp_path / "projects" / scenario.name.replace("/", "-")
        write_project(folder, {"exam": {"type": "http", "url": scenario.url}})
        with open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state")}) as box:
            PLAYS.get(scenario.name, call_every_tool)(box, scenario)

    found = exam.as_client(revision, play, tmp_path / "report")

    assert exam.required(revision, "client") <= found.keys()
    if told := exam.surprises(found, EXPECTED[revision]):
        pytest.fail(told, pytrace=False)


def call_every_tool(box: Toolbox, scenario: exam.Scenario) -> None:
    """Make the calls that the scenario names, or else one call of each tool."""
    given = [(call["name"], call["arguments"]) for call in scenario.context.get("toolCalls", ())]
    listed = box.registry.packs().get("exam", ())
    calls = given or [(spec.name.partition(".")[2], next(samples(spec.parameters))[1]) for spec in listed]
    assert calls, box.servers.reason("exam")
    for name, args in calls:
        box.call(f"exam.{name}", {key: arg for key, arg in args.items() if arg is not None}).unwrap()


def echo_schema(box: Toolbox, _scenario: exam.Scenario) -> None:
    """Hand the schema of a tool back as we have it."""
    assert {spec.name for spec in box.registry.packs()["exam"]} >= {"exam.json_schema_echo"}
    schema = box.registry.require("exam.json_schema_2020_12_tool").parameters
    box.call("exam.json_schema_echo", {"schema": schema}).unwrap()


PLAYS: dict[str, Callable[[Toolbox, exam.Scenario], None]] = {"json-schema-2020-12-preservation": echo_schema}
"""What is done in the scenarios that want more than calls."""
