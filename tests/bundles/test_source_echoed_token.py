"""A token that a tool fetched is a secret while it lives: a server that echoes it shows nothing."""

from __future__ import annotations

import base64
from typing import Any

from tests.bundles.aids import ProjectBundles
from tests.harness.project import Project
from tests.harness.stub import Asked, Stub

TOKEN = "tok-9f8e7d6c5b4a"


def answer(asked: Asked) -> tuple[int, Any]:
    if asked.path == "/token":
        return 200, {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600}
    said = asked.headers["authorization"]
    return 200, {"said": said, "coded": base64.b64encode(said.encode()).decode()}


def test_an_echoed_token_is_masked_wherever_it_is_shown_logged_or_stored(project: Project) -> None:
    with Stub(answer) as stub:
        project.write("secrets.yaml", "CLIENT: s3cret-client\n").chmod(0o600)
        port = stub.url("/").split(":")[2].rstrip("/")
        project_bundles = ProjectBundles(
            project, config=f"http: {{allowed_hosts: ['127.0.0.1:{port}'], allow_private: true}}\n"
        )
        auth = {
            "type": "oauth2",
            "tokenUrl": stub.url("/token"),
            "clientId": "me",
            "clientSecret": "${CLIENT}",
        }
        record = {
            "type": "http",
            "http": {"request": {"urlTemplate": stub.url("/data"), "auth": auth}},
        }
        project_bundles.bundles.put_tool(project_bundles.bundle().bundle_id, "data", "1", record)

        for _ in range(2):
            result = project_bundles.box.call("my-api.data")
            assert result.ok, result.error
            assert result.data["said"] == f"Bearer {TOKEN}", (
                "a value returned to Python is never altered"
            )
            assert TOKEN not in f"{result} {result!r} {[result]}"
            assert "***" in repr(result)
            assert "".join(result.lines()["lines"]).count("***") == 2
            project_bundles.box.call("tools.echo", {"message": f"it is {TOKEN}"})
            assert TOKEN not in "".join(row.args for row in project_bundles.box.log.history())
            project_bundles.box.reload()
