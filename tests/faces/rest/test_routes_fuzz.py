"""schemathesis against the live extension, seeded: never a 5xx, always as described, and every
operation works.

What it makes up meets ids that exist as often as those that do not; without that it would only ever
see 404.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
import uuid_utils
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from onetool_ipy.faces.rest.routes import ROUTES
from tests.faces.rest.conftest import Api
from tests.faces.rest.serving import Server, document, http_tool

pytestmark = pytest.mark.timeout(3600)
EXAMPLES = 400 if os.environ.get("ONETOOL_SOAK") else 6

Good = Callable[[Api], tuple[dict[str, str], dict[str, Any], Any]]
"""Prepares what an operation needs, and gives a path, a query and a body that must work."""


def _bundle(api: Api) -> str:
    return api.bundle(f"fuzz-{next(_numbers)}")


def _tool(api: Api) -> dict[str, str]:
    own = _bundle(api)
    api.tool(own, "get-user", "/users/${id}")
    return {"bundleID": own, "toolSlug": "get-user", "version": "1"}


def _draft(api: Api) -> dict[str, Any]:
    return http_tool(f"http://{api.upstream.host}/users/${{id}}")


def _imported(api: Api) -> dict[str, Any]:
    slug = f"fuzz-{next(_numbers)}"
    return {
        "openapi": document(f"http://{api.upstream.host}"),
        "bundle": {"slug": slug, "displayName": slug},
    }


GOOD: dict[str, Good] = {
    "listBundles": lambda api: ({}, {"pageSize": 2, "includeDisabled": True}, None),
    "putBundle": lambda api: (
        {"bundleID": str(uuid_utils.uuid7())},
        {},
        {"slug": f"fuzz-{next(_numbers)}", "displayName": "Fuzz"},
    ),
    "patchBundle": lambda api: ({"bundleID": _bundle(api)}, {}, {"isEnabled": False}),
    "deleteBundle": lambda api: ({"bundleID": _bundle(api)}, {}, None),
    "putTool": lambda api: (
        {"bundleID": _bundle(api), "toolSlug": "x", "version": "1.0"},
        {},
        _draft(api),
    ),
    "getTool": lambda api: (_tool(api), {}, None),
    "patchTool": lambda api: (_tool(api), {}, {"isEnabled": False}),
    "deleteTool": lambda api: (_tool(api), {}, None),
    "invokeTool": lambda api: (_tool(api), {}, {"args": {"id": 3}}),
    "listTools": lambda api: ({}, {"tags": ["a", "b"], "recommendedPageSize": 5}, None),
    "searchTools": lambda api: ({}, {"q": "user"}, None),
    "testTool": lambda api: ({}, {}, {"tool": _draft(api), "args": {"id": 3}}),
    "previewImport": lambda api: ({}, {}, {"document": _imported(api)["openapi"]}),
    "importDocument": lambda api: ({}, {}, _imported(api)),
    "getTrust": lambda api: ({}, {}, None),
    "setTrust": lambda api: ({}, {}, {"isTrusted": False}),
    "getDescription": lambda api: ({}, {}, None),
}


@pytest.fixture(scope="module")
def description(server: Server) -> Any:
    # This loads schemathesis, which no other test needs.
    import schemathesis

    return schemathesis.openapi.from_dict(server.client.get("onetool/openapi.json").json())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("name", [route.operation for route in ROUTES])
def test_nothing_made_up_breaks_an_operation(
    server: Server, api: Api, description: Any, name: str, mode: str
) -> None:
    from schemathesis import GenerationMode

    listed = [found.ok() for found in description.get_all_operations()]
    operation = next(each for each in listed if each.definition.raw["operationId"] == name)
    known = [_tool(api) for _ in range(2)]
    statuses: set[int] = set()

    def send(case: Any) -> None:
        answer = case.call(
            base_url=server.address.rstrip("/"),
            headers={"Authorization": f"token {server.token}"},
            timeout=60,
        )
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=_checks())
        assert answer.status_code < 500, answer.text

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def made_up(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=GenerationMode(mode)))
        if data.draw(st.booleans()):
            case.path_parameters = {
                **case.path_parameters,
                **_of(data.draw(st.sampled_from(known)), case),
            }
        if data.draw(st.integers(0, 4)):
            case.query = {**(case.query or {}), "project": api.project}
        send(case)

    made_up()
    path, query, body = GOOD[name](api)
    sent = {"path_parameters": path, "query": {**query, "project": api.project}}
    send(
        operation.Case(**sent)
        if body is None
        else operation.Case(**sent, body=body, media_type="application/json")
    )
    assert statuses & {200, 201, 204}
    assert server.client.get("api/status").status_code == 200


def test_every_operation_has_a_good_example() -> None:
    assert set(GOOD) == {route.operation for route in ROUTES}


def _checks() -> list[Any]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    return [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]


def _of(known: dict[str, str], case: Any) -> dict[str, str]:
    return {name: value for name, value in known.items() if name in case.path_parameters}


_numbers = itertools.count()
